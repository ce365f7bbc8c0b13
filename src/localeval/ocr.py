"""Pages are read again by OCR engines where their text cannot be trusted, and the better reading wins.

An engine gives words with boxes and its own confidence in each. Boxes become lines in reading order, and replace the
lines of the page, so that headings, page furniture and offsets are worked out as for any page. What an engine read can
be written to a file and read back, so that nobody needs the engine to get the same text again.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import NamedTuple

from localeval.layout import Raw, in_reading_order
from localeval.records import BadInput

ALIKE = (
    0.7,
    1.4,
)  # times the usual height on the page: a line in it is set in the usual size, for boxes vary with letters
PARAGRAPH_GAP = 0.8  # times the height of a line: a wider gap begins another block


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
        """Mean over the words, of which a box with spaces in its text holds several; None without words."""
        counts = [len(word.text.split()) for word in self.words]
        total = sum(word.confidence * count for word, count in zip(self.words, counts, strict=True))
        return total / sum(counts) if sum(counts) else None


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
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or error
        raise BadInput(f"{path}: OCR records cannot be read ({reason}); make them again") from None
    return [_record(line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _record(line: str, place: str) -> Record:
    try:
        row = json.loads(line)
        words = tuple(Word(*map(float, box), text, int(line)) for line, *box, text in row["words"])
        about = [row[key] for key in ("engine", "version", "dpi", "language", "seconds")]
        return Record(row["document"], int(row["page"]), row["width"], row["height"], Recognised(*about, words))
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{place}: not an OCR record ({type(error).__name__}: {error}); make it again") from None


# From words to lines in reading order


def blocks(words: Sequence[Word], width: float) -> list[list[Raw]]:
    """Words as blocks of lines in reading order. width: of the page, in points.

    Lines keep the engine's order unless the page has two columns and the order jumps between them. A block ends where the
    next line stands apart. Sizes are heights of boxes; one that is near the usual height of the page counts as that.
    """
    lines = [_line(list(group)) for _, group in groupby(words, key=lambda word: word.line)]
    lines = [line for line in lines if line.text]
    usual = _usual_height(lines)
    lines = [line._replace(size=usual) if ALIKE[0] * usual <= line.size <= ALIKE[1] * usual else line for line in lines]
    ordered = [line for block in in_reading_order([[line] for line in lines], width) for line in block]
    return list(_paragraphs(ordered))


def _line(words: list[Word]) -> Raw:
    text = " ".join(" ".join(word.text for word in words).split())
    lefts, tops, rights, bottoms = zip(*(word[:4] for word in words), strict=True)
    box = tuple(round(side, 2) for side in (min(lefts), min(tops), max(rights), max(bottoms)))
    return Raw(text, box, round(median(b - t for t, b in zip(tops, bottoms, strict=True)), 1), False)


def _usual_height(lines: list[Raw]) -> float:
    """The height that half of the characters of the page stand in or below."""
    sizes = sorted((line.size, len(line.text)) for line in lines)
    half, seen = sum(count for _, count in sizes) / 2, 0
    for size, count in sizes:
        seen += count
        if seen >= half:
            return size
    return 0.0


def _paragraphs(lines: list[Raw]) -> Iterator[list[Raw]]:
    block: list[Raw] = []
    for line in lines:
        if block and not _goes_on(block[-1], line):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _goes_on(before: Raw, line: Raw) -> bool:
    """True for the next line below, and for what stands further right on the same line (a cell of a table)."""
    gap, size = line.box[1] - before.box[3], max(1.0, min(before.size, line.size))
    beside = min(before.box[2], line.box[2]) - max(before.box[0], line.box[0])
    overlap = min(before.box[3], line.box[3]) - max(before.box[1], line.box[1])
    if overlap > 0.5 * size:
        return line.box[0] >= before.box[2] - size
    return before.size == line.size and beside > 0 and -0.5 * size <= gap <= PARAGRAPH_GAP * size
