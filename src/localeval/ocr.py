"""Pages are read again by OCR engines where their text cannot be trusted, and the better reading wins.

An engine gives words with boxes and its own confidence in each. Boxes become lines in reading order, and replace the
lines of the page, so that headings, page furniture and offsets are worked out as for any page. What an engine read can
be written to a file and read back, so that nobody needs the engine to get the same text again.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import re
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

from localeval import quality, scans
from localeval.corpus import READING_STATES, Corpus, Reading
from localeval.layout import Raw, in_reading_order, join_rows, lay_out
from localeval.records import BadInput

ALIKE = 1.08  # times a size: the next one on the page counts as the same, for boxes are never exact
UNSURE = 70.0  # confidence: the height of a line that the engine is less sure of says nothing about its size
PARAGRAPH = 1.4  # times the usual distance from line to line: a wider one begins another block
TALL, LOW, BELOW = 0.72, 0.5, 0.22  # of the type size: capitals and "h" rise, "x" rises, "p" falls
_RISING, _FALLING = re.compile(r"[^\W_acegmnopqrsuvwxyz]"), re.compile(r"[gjpqyQ,;()\[\]]")


class Word(NamedTuple):
    """What an engine read at one place: a word, or words with spaces in between, as some engines give them.

    The box is in points from the top left corner of the page as displayed. confidence: the engine's own, from 0 to 100.
    line: words with the same number, one after the other, stand on one line.
    """

    left: float
    top: float
    right: float
    bottom: float
    confidence: float
    text: str
    line: int


class Recognised(NamedTuple):
    """What one engine read on one page. language: ISO 639-1. seconds: wall time of the engine on this page."""

    engine: str
    version: str
    dpi: int
    language: str
    seconds: float
    words: tuple[Word, ...]

    @property
    def confidence(self) -> float | None:
        """Mean over the words, of which a box with spaces in its text holds several, to a tenth; None without words."""
        counts = [len(word.text.split()) for word in self.words]
        total = sum(word.confidence * count for word, count in zip(self.words, counts, strict=True))
        return round(total / sum(counts), 1) if sum(counts) else None


class Broke(Exception):
    """An engine gave nothing for a page. state: "failed" or "timed_out"."""

    def __init__(self, state: str, reason: str):
        super().__init__(reason)
        self.state = state


class Engine(Protocol):
    """What reads images. Of one engine there is never more than one page at a time."""

    name: str
    version: str

    def available(self, language: str) -> tuple[bool, str]:
        """Whether it can read this language (ISO 639-1) here, and its version or what is missing. Loads nothing heavy."""

    def recognise(self, image: bytes, dpi: int, language: str) -> Recognised:
        """Words of an image (PNG or JPEG). Raises `Broke`."""


class Record(NamedTuple):
    """One line of a file of records. document: path below the corpus folder. page: index from 0. width, height: points."""

    document: str
    page: int
    width: float
    height: float
    read: Recognised


def write_records(path: Path, records: Iterable[Record]) -> None:
    """One JSON object a line; packed, the same each time, when the name ends in .gz."""
    lines = (json.dumps(_row(record), ensure_ascii=False, separators=(",", ":")) + "\n" for record in records)
    data = "".join(lines).encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_packed(data) if path.suffix == ".gz" else data)


def _packed(data: bytes) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, out, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def _row(record: Record) -> dict:
    read = record.read
    about = {"document": record.document, "page": record.page, "engine": read.engine, "version": read.version}
    about |= {"dpi": read.dpi, "language": read.language, "seconds": read.seconds}
    words = [[word.line, *word[:5], word.text] for word in read.words]
    return about | {"width": record.width, "height": record.height, "words": words}


def read_records(path: Path) -> list[Record]:
    """What `write_records` wrote, packed or not. Raises `BadInput` with the number of the line."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", "") or error
        raise BadInput(f"{path}: OCR records cannot be read ({reason}); make them again") from None
    return [_record(line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _record(line: str, place: str) -> Record:
    try:
        row = json.loads(line)
        words = tuple(Word(*map(_finite, box), _text(text), int(line)) for line, *box, text in row["words"])
        about = [row[key] for key in ("engine", "version", "dpi", "language", "seconds")]
        _text("".join([row["document"], row["engine"], row["version"], row["language"]]))
        size = _finite(row["width"]), _finite(row["height"])
        if not (isinstance(row["page"], int) and row["page"] >= 0 and isinstance(row["dpi"], int)):
            raise ValueError("page and dpi must be whole numbers, page from 0 on")
        if not all(0 <= word.confidence <= 100 for word in words) or _finite(row["seconds"]) < 0:
            raise ValueError("confidence lies between 0 and 100, and seconds are none below 0")
        return Record(row["document"], row["page"], *size, Recognised(*about, words))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, AttributeError) as error:
        raise BadInput(f"{place}: not an OCR record ({type(error).__name__}: {error}); make it again") from None


def _finite(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    value.encode("utf-8")  # half a surrogate pair is none
    return value


# From words to lines in reading order


def blocks(words: Sequence[Word], width: float) -> list[list[Raw]]:
    """Words as blocks of lines in reading order. width: of the page, in points.

    Lines keep the engine's order unless the page has two columns and the order jumps between them. A block ends where the
    next line stands apart. Sizes are worked out from heights of boxes; those that run into one another count as one.
    """
    lines = [line for _, group in groupby(words, key=lambda word: word.line) if (line := _line(list(group))).text]
    lines = _evened(lines)
    return list(_paragraphs([line for block in in_reading_order([[line] for line in lines], width) for line in block]))


def _line(words: list[Word]) -> Raw:
    """A line of words. On a skewed page its box is as high as its words, and not as what the line sweeps over."""
    text = " ".join(" ".join(word.text for word in words).split())
    lefts, tops, rights, bottoms = zip(*(word[:4] for word in words), strict=True)
    top, bottom, height = min(tops), max(bottoms), median(word.bottom - word.top for word in words)
    if bottom - top > 1.8 * height:
        middle = median((word.top + word.bottom) / 2 for word in words)
        top, bottom = middle - height / 2, middle + height / 2
    box = tuple(round(side, 2) for side in (min(lefts), top, max(rights), bottom))
    sure = sum(word.confidence for word in words) >= UNSURE * len(words)
    return Raw(text, box, round(median(map(_size, words)), 1) if sure else 0.0, False)


def _size(word: Word) -> float:
    """Type size from the height of a box and from which of its letters rise or fall."""
    share = (TALL if _RISING.search(word.text) else LOW) + (BELOW if _FALLING.search(word.text) else 0.0)
    return (word.bottom - word.top) / share


def _evened(lines: list[Raw]) -> list[Raw]:
    """The lines, in their order; each run of sizes without a gap becomes one, in which half of its characters are or below.
    A line without a size has the one that most characters have."""
    runs: list[list[float]] = []
    for size in sorted(line.size for line in lines for _ in line.text if line.size):
        if not runs or size > ALIKE * runs[-1][-1]:
            runs.append([])
        runs[-1].append(size)
    even = {size: run[len(run) // 2] for run in runs for size in run}
    most = max(runs, key=len, default=sorted(line.box[3] - line.box[1] for line in lines))
    return [line._replace(size=even.get(line.size, most[len(most) // 2])) for line in lines]


def _paragraphs(lines: list[Raw]) -> Iterator[list[Raw]]:
    """Runs of lines of one size, each below the one before at no more than the usual distance, or beside it (a cell)."""
    steps = [_step(a, b) for a, b in pairwise(lines) if a.size == b.size and _step(a, b) > 0.5 * a.size]
    furthest = PARAGRAPH * median(steps or [0.0])
    block: list[Raw] = []
    for line in lines:
        before = block[-1] if block else line
        beside = _shares(before, line, 1) > 0.3 * before.size and line.box[0] >= before.box[2] - before.size
        below = before.size == line.size and 0 < _step(before, line) <= furthest
        if block and not (beside or (below and any(_shares(one, line, 0) > 0 for one in block))):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _step(before: Raw, line: Raw) -> float:
    return (line.box[1] + line.box[3] - before.box[1] - before.box[3]) / 2


def _shares(a: Raw, b: Raw, axis: int) -> float:
    """How far two boxes overlap, in points: axis 0 from left to right, 1 from top to bottom."""
    return min(a.box[axis + 2], b.box[axis + 2]) - max(a.box[axis], b.box[axis])


# Records and results kept from an earlier run


class Recorded:
    """What engines read earlier, from a file of records: nobody needs the engines again for these pages."""

    def __init__(self, path: Path):
        self._pages = defaultdict(list)
        for record in read_records(path):
            self._pages[record.document, record.page].append(record.read)

    def of(self, path: Path, page: int) -> list[Recognised]:
        """The readings of one page in the order of the file; a document is known by the end of its path."""
        parts = path.parts
        names = ("/".join(parts[start:]) for start in range(len(parts)))
        return next((self._pages[name, page] for name in names if (name, page) in self._pages), [])


def _remembered(cache: Path | None, engine: Engine, scan: scans.Scan, language: str) -> Recognised:
    """What the engine reads on an image, read once: an interrupted run goes on where it was. Raises `Broke`."""
    if cache is None:
        return engine.recognise(scan.png, scan.dpi, language)
    about = f"{engine.name} {engine.version} {scan.dpi} {language} ".encode()
    file = cache / f"{hashlib.sha256(about + scan.png).hexdigest()}.jsonl"
    try:
        return read_records(file)[0].read
    except (BadInput, IndexError):  # not there yet, or cut short
        read = engine.recognise(scan.png, scan.dpi, language)
    part = file.with_suffix(f".{os.getpid()}.part")
    write_records(part, [Record("", scan.page, 0, 0, read)])
    part.replace(file)
    return read


# The decision, page by page

GIVES_UP = 3  # pages in a row at which an engine broke: it is not asked again for this file


@dataclass(frozen=True)
class Reread:
    """A `pdf.Reread`: pages whose text cannot be trusted are read by OCR, and the better reading becomes their text.

    A page wants OCR when the confidence (`localeval.quality`) in its text is below `threshold`, or when it is hardly more
    than a picture; never when nothing is drawn on it. The engines are asked in turn until one has a mean confidence of
    `low_word_confidence` in its words; the best of them is taken when its text is better than the old by `margin`.

    language: ISO 639-1. dpi: of the images. redo_layers: also read pages over which OCR has already been; the new words
    replace that layer when the engine is sure of them and their text is no worse. recorded: pages found in it ask no
    engine. cache: a folder for what engines read. limits: of confidence.
    """

    engines: tuple[Engine, ...] = ()
    language: str = "en"
    dpi: int = 200
    threshold: float = quality.DEFAULTS.ocr_confidence
    margin: float = 0.05
    low_word_confidence: float = 80.0
    redo_layers: bool = False
    recorded: Recorded | None = None
    cache: Path | None = None
    progress: Callable[[str], None] = lambda text: None
    limits: quality.Thresholds = quality.DEFAULTS

    def __post_init__(self):
        allowed = {"dpi": scans.DPI, "threshold": (0, 1), "margin": (0, 1), "low_word_confidence": (0, 100)}
        for name, (low, high) in allowed.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise BadInput(f"OCR: {name} must be a number from {low} to {high}, found {value!r}")

    def __call__(self, path: Path, pages: list[dict], readings: list[Reading]) -> list[Reading]:
        """Gives pages other "blocks" where another reading won; one `Reading` a page."""
        found, scores = list(readings), {}
        for index, page in enumerate(pages):
            score = self._confidence(page["blocks"])
            if not self._wanted(page, score):
                continue
            if _has_ink(page):
                scores[index] = score
            else:
                found[index] = Reading("no_ink", before=score)
        for index, heard in self._heard(path, list(scores)):
            found[index], better = self._judged(pages[index], scores[index], heard)
            if better is not None:
                pages[index]["blocks"] = better
        return found

    def _wanted(self, page: dict, score: float) -> bool:
        signals, count = page["signals"], sum(len(line[0]) for block in page["blocks"] for line in block)
        picture = signals["image_coverage"] >= self.limits.scan_image and count < self.limits.scan_chars
        return score < self.threshold or picture or (self.redo_layers and _is_layer(page))

    def _heard(self, path: Path, wanted: list[int]) -> Iterator[tuple[int, Heard]]:
        """What the records, or else the engines, say about each page that wants OCR and has ink."""
        kept = {index: self.recorded.of(path, index) for index in wanted} if self.recorded else {}
        yield from ((index, Heard(reads)) for index, reads in kept.items() if reads)
        rest = [index for index in wanted if not kept.get(index)]
        if not rest:
            return
        usable, missing = self._usable()
        if not usable:
            yield from ((index, Heard(state="wanted", reason=missing)) for index in rest)
            return
        began, bad = time.monotonic(), dict.fromkeys(usable, 0)
        for number, scan in enumerate(scans.images(path, rest, self.dpi), 1):
            yield scan.page, self._ask(usable, scan, bad)
            pace = (time.monotonic() - began) / number
            left = f"{pace:.1f} s a page, {pace * (len(rest) - number):.0f} s left"
            self.progress(f"{path.name}: OCR of {number} of {len(rest)} pages, {left}")

    def _usable(self) -> tuple[list[Engine], str]:
        answers = [(engine, *_answer(engine, self.language)) for engine in self.engines]
        missing = "; ".join(why for _, there, why in answers if not there) or "no OCR engine is asked for"
        return [engine for engine, there, _ in answers if there], missing

    def _ask(self, usable: list[Engine], scan: scans.Scan, bad: dict[Engine, int]) -> Heard:
        """bad: pages in a row at which each engine broke."""
        if scan.state:
            return Heard(state=scan.state, reason=scan.reason)
        reads, state, reasons = [], "", []
        for engine in usable:
            if bad[engine] >= GIVES_UP:
                state = state or "failed"
                reasons.append(f"{engine.name} was not asked: it broke on {GIVES_UP} pages in a row")
                continue
            try:
                reads.append(_remembered(self.cache, engine, scan, self.language))
                bad[engine] = 0
            except Broke as broke:
                state, bad[engine] = broke.state, bad[engine] + 1
                reasons.append(str(broke))
                continue
            if (reads[-1].confidence or 0.0) >= self.low_word_confidence:
                break
        return Heard(reads, state, "; ".join(reasons))

    def _judged(self, page: dict, before: float, heard: Heard) -> tuple[Reading, list[list[Raw]] | None]:
        """The reading of a page, and its new blocks if another reading won."""
        if not heard.reads:
            return Reading(heard.state, before=round(before, 4), reason=heard.reason), None
        tried = []
        for read in heard.reads:
            lines = blocks(read.words, page["width"])
            tried.append((read, lines, self._confidence(lines, read.confidence)))
        read, lines, after = self._best(tried)
        others = [f"{one.engine} {one.version} tried too: {_sure(one)}" for one, *_ in tried if one is not read]
        state = "replaced" if read.words and self._wins(page, before, read, lines, after) else "kept"
        reading = Reading(
            state,
            f"{read.engine} {read.version}",
            read.dpi,
            read.language,
            read.confidence,
            round(before, 4),
            round(after, 4),
            round(sum(one.seconds for one in heard.reads), 2),
            "; ".join(filter(None, [*others, heard.reason])),
        )
        return reading, lines if state == "replaced" else None

    def _best(self, tried: list[tuple[Recognised, list, float]]) -> tuple[Recognised, list, float]:
        """The reading with the better text; where texts differ by less than the margin, the one whose engine is surer."""
        top = max(after for _, _, after in tried)
        near = [one for one in tried if one[2] >= top - self.margin]
        return max(near, key=lambda one: one[0].confidence or 0.0)

    def _wins(self, page: dict, before: float, read: Recognised, lines: list[list[Raw]], after: float) -> bool:
        """A layer that is good enough gives way to an engine that is sure, and whose text alone is no worse."""
        if before >= self.threshold and _is_layer(page):
            return (read.confidence or 0.0) >= self.low_word_confidence and self._confidence(lines) >= before
        return round(after - before, 9) >= self.margin

    def _confidence(self, page: list[list], word_confidence: float | None = None) -> float:
        """Confidence in the text that these blocks become, which an engine was so sure of. The page table gives the same."""
        lines = [
            [line if isinstance(line, Raw) else Raw(line[0], tuple(line[1]), *line[2:]) for line in b] for b in page
        ]
        text = lay_out([[join_rows(block) for block in lines]])[0]
        given = Reading() if word_confidence is None else Reading("replaced", word_confidence=word_confidence)
        return quality.confidence(quality.features(text), self.limits, given)


READING_COLUMNS = ("doc_id", "page_index", "page_label", *(field.name for field in fields(Reading)))


def readings(corpus: Corpus):
    """One row a page that wanted another reading, of documents without any text too: READING_COLUMNS. A frame."""
    import pandas as pd

    rows = [
        (doc_id, page.index, page.label, *astuple(reading))
        for doc_id, layout in sorted(corpus.layouts.items())
        for page, reading in zip(layout.pages, layout.readings, strict=False)
        if reading.state != "native"
    ]
    return pd.DataFrame(rows, columns=list(READING_COLUMNS))


def readings_said(rows, pages, limits, asked: bool) -> str:
    """What became of the pages that wanted another reading, in a sentence. rows: the table of `readings`; pages: the page table."""
    if not asked:
        low = int((pages["confidence"] < limits.ocr_confidence).sum())
        return f"OCR was switched off for this study. Pages whose confidence in the text is below {limits.ocr_confidence:.2f}: {low:,d}."
    became = rows["state"].value_counts().reindex(list(READING_STATES), fill_value=0)
    unread = became[["wanted", "failed", "timed_out"]].sum()
    parts = ((became["replaced"], "with a better text from it"), (became["kept"], "with the old one"),
             (unread, "not read, because no engine was there or it broke"))  # fmt: skip
    wanted, told = became.sum() - became["no_ink"], ", ".join(f"{count:,d} {what}" for count, what in parts if count)
    said = f"Pages that wanted OCR: {wanted:,d}, {told}." if wanted else "No page wanted OCR."
    return said + f" Pages without a text to trust and nothing drawn on them: {became['no_ink']:,d}." * bool(
        became["no_ink"]
    )


def _answer(engine: Engine, language: str) -> tuple[bool, str]:
    """Whether an engine can be used, and why not; one that breaks when it is asked cannot."""
    try:
        return engine.available(language)
    except (Broke, OSError, ValueError, LookupError) as error:
        return False, f"{engine.name} does not answer as it should ({' '.join(str(error).split())[:120]})"


class Heard(NamedTuple):
    """What was read on one page. Where nothing was: a state of `corpus.READING_STATES`; reason: also what broke beside."""

    reads: Sequence[Recognised] = ()
    state: str = ""
    reason: str = ""


def _sure(read: Recognised) -> str:
    return "no words" if read.confidence is None else f"word confidence {read.confidence:.1f}"


def _has_ink(page: dict) -> bool:
    """True where something is drawn: a picture, paths, text that is not invisible; and where nobody knows."""
    signals = page["signals"]
    shown = any(line[0].strip() for block in page["blocks"] for line in block) and signals["invisible_text"] < 1
    return bool(signals["image_coverage"] or signals["vectors"] or shown or signals["unreadable"])


def _is_layer(page: dict) -> bool:
    """True where the text is what OCR left over a picture."""
    signals = page["signals"]
    hidden = signals["invisible_text"] >= quality.DEFAULTS.invisible_text or signals["ocr_font"]
    return bool(hidden and signals["image_coverage"])
