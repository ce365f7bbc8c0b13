"""OCR engines, each with `name`, `available` and `recognise`: Tesseract's command line, RapidOCR in a Python of its own."""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
import weakref
from collections.abc import Sequence
from itertools import chain, groupby, repeat
from operator import itemgetter
from pathlib import Path
from statistics import median

from localeval import child, rapid
from localeval.layout import Raw, in_reading_order
from localeval.ocr import Broke, Engine, Recognised, Recorded, Reread, Word
from localeval.records import BadInput, near

START_SECONDS = 60.0
PAGE_SECONDS = 180.0  # Tesseract takes about 1 s for a page at 200 dpi, RapidOCR about 6; both more on a busy machine
# ISO 639-1 -> Tesseract's own names.
TESSERACT = dict(
    re.findall(
        r"(\w+):(\w+)",
        """af:afr ar:ara az:aze be:bel bg:bul ca:cat cs:ces cy:cym da:dan de:deu el:ell en:eng eo:epo es:spa et:est
    eu:eus fa:fas fi:fin fr:fra ga:gle gl:glg he:heb hi:hin hr:hrv hu:hun id:ind is:isl it:ita ja:jpn ka:kat ko:kor la:lat
    lt:lit lv:lav mk:mkd ms:msa nb:nor nl:nld nn:nor no:nor pl:pol pt:por ro:ron ru:rus sk:slk sl:slv sq:sqi sr:srp sv:swe
    sw:swa th:tha tr:tur uk:ukr ur:urd uz:uzb vi:vie zh:chi_sim""",
    )
)
# Languages of its recognition weights; other scripts would come out as letters that were never there.
RAPIDOCR = frozenset(
    re.findall(
        r"\w+",
        """af az bs ca cs cy da de en es et eu fi fr ga gl hr hu id is it ja ku la lb lt lv mi ms mt nb nl nn no oc pl pt qu rm
    ro sk sl sq sv sw tl tr uz vi zh""",
    )
)


KNOWN = ("tesseract", "rapidocr")


def installed(root: Path, names: Sequence[str] = KNOWN) -> tuple[Engine, ...]:
    """The engines of these names, in this order; whether they can be used here is what `available` says.

    root: the project folder, below which `make ocr` put RapidOCR.
    """
    for name in names:
        if name not in KNOWN:
            raise BadInput(f"OCR engines: unknown {name!r}{near(str(name), KNOWN)}; known: {', '.join(KNOWN)}")
    return tuple(Tesseract() if name == "tesseract" else RapidOcr(rapidocr_python(root)) for name in names)


def rereads(root: Path, mode: str, names: Sequence[str], records: Path | None = None, **options) -> tuple[Reread, ...]:
    """What `corpus.load` takes to have pages read again: nothing where the mode is "never".

    mode: "auto" uses what is installed of the engines of these names. records: a file of OCR records that is used in place of
    engines. options: of `ocr.Reread`.
    """
    if mode not in ("auto", "never"):  # "off" would be false in YAML
        raise BadInput(f"ocr: unknown {mode!r}{near(mode, ('auto', 'never'))}; known: auto, never")
    if mode == "never":
        return ()
    recorded = None if records is None else Recorded(records)
    return (Reread(installed(root, names), recorded=recorded, **options),)


class Tesseract:
    """Tesseract, through its command line. One thread: more are slower on one page."""

    name = "tesseract"

    def __init__(self, command: str = "tesseract", page_seconds: float = PAGE_SECONDS):
        self._command, self._seconds = command, page_seconds
        self._version = ""

    def available(self, language: str) -> tuple[bool, str]:
        """Whether it can read this language here (ISO 639-1), with its version, or with what is missing."""
        if not shutil.which(self._command):
            return False, "tesseract is not installed ('make ocr' says how)"
        data = TESSERACT.get(language)
        if data is None:
            return False, f"tesseract: no language data known for {language!r}"
        if data not in self._say("--list-langs").split():
            return False, f"tesseract has no data for {language!r}: install tesseract-ocr-{data.replace('_', '-')}"
        return True, f"tesseract {self.version}"

    @property
    def version(self) -> str:
        self._version = self._version or self._say("--version").split("\n")[0].split()[-1]
        return self._version

    def recognise(self, image: bytes, dpi: int, language: str) -> Recognised:
        """Words of an image (PNG or JPEG), in the engine's order. Raises `Broke`."""
        began = time.monotonic()
        said = self._say("stdin", "stdout", "--dpi", str(dpi), "-l", TESSERACT[language], "tsv", image=image)
        return Recognised(
            self.name, self.version, dpi, language, round(time.monotonic() - began, 3), _tsv_words(said, dpi)
        )

    def _say(self, *arguments: str, image: bytes = b"") -> str:
        one_thread = os.environ | {"OMP_THREAD_LIMIT": "1"}
        command = [self._command, *arguments]
        try:
            done = subprocess.run(command, input=image, env=one_thread, capture_output=True, timeout=self._seconds)
        except subprocess.TimeoutExpired:
            raise Broke("timed_out", f"tesseract took longer than {self._seconds:g} s") from None
        except OSError as error:
            raise Broke("failed", f"tesseract cannot be started ({error.strerror})") from None
        if done.returncode:
            reason = " ".join(done.stderr.decode(errors="replace").split())[-120:]
            raise Broke("failed", f"tesseract broke (exit code {done.returncode}: {reason})")
        return done.stdout.decode(errors="replace")


def _tsv_words(said: str, dpi: int) -> tuple[Word, ...]:
    rows = csv.DictReader(io.StringIO(said), dialect="excel-tab", quoting=csv.QUOTE_NONE)
    rows = [row for row in rows if row["level"] == "5" and row["text"].strip()]
    words = []
    for line, (_, group) in enumerate(groupby(rows, key=itemgetter("block_num", "par_num", "line_num"))):
        for row in group:
            left, top, width, height = (int(row[side]) * 72 / dpi for side in ("left", "top", "width", "height"))
            box = (round(side, 1) for side in (left, top, left + width, top + height))
            words.append(Word(*box, round(float(row["conf"]), 1), row["text"].strip(), line))
    return tuple(words)


def rapidocr_python(root: Path) -> Path:
    """The Python that has RapidOCR: `LOCALEVAL_RAPIDOCR_PYTHON`, or the one `make ocr` made below the project folder."""
    made = root / ".engines" / "rapidocr"
    usual = made / "Scripts" / "python.exe" if os.name == "nt" else made / "bin" / "python"
    return Path(os.environ.get("LOCALEVAL_RAPIDOCR_PYTHON") or usual)


class RapidOcr:
    """RapidOCR in one process for many pages, started with the first; it is gone after `close`, and when this is.

    python: of the environment that has it. module: what that Python runs; another one in tests.
    """

    name = "rapidocr"

    def __init__(self, python: Path, page_seconds: float = PAGE_SECONDS, module: str = rapid.__name__):
        self._python, self._seconds, self._module = python, page_seconds, module
        self._running, self._version = contextlib.ExitStack(), ""
        self._said = None
        weakref.finalize(self, self._running.close)

    def available(self, language: str) -> tuple[bool, str]:
        """Whether it can read this language here (ISO 639-1), with its version, or with what is missing."""
        if not shutil.which(self._python):
            return False, "rapidocr is not installed ('make ocr' installs it)"
        if language not in RAPIDOCR:
            return False, f"rapidocr: its weights do not know the language {language!r}"
        command = child.module_command(self._module, "look", python=self._python)
        try:
            found = next(child.messages(command, repeat(START_SECONDS)), {"refused": "it said nothing"})
        except (child.TimedOut, child.Died, ValueError) as error:
            return False, f"rapidocr: the Python it lives in {error}; run 'make ocr' again"
        if "refused" in found:
            return False, f"rapidocr: {found['refused']}"
        self._version = found["version"]
        return True, f"rapidocr {self._version}"

    @property
    def version(self) -> str:
        if not self._version:
            self.available("en")
        return self._version

    def recognise(self, image: bytes, dpi: int, language: str) -> Recognised:
        """Boxes of an image (PNG or JPEG), row by row. Raises `Broke`; the next call starts it again."""
        try:
            if self._said is None:
                self._start()
            began = time.monotonic()
            self._image.write_bytes(image)
            os.write(self._pipe, f"{self._image}\n".encode())
            message = next(self._said, {"failed": "it stopped"})
        except (child.TimedOut, child.Died, ValueError) as error:
            self.close()
            state = "timed_out" if isinstance(error, child.TimedOut) else "failed"
            raise Broke(state, f"rapidocr: {error}") from None
        if "boxes" not in message:
            raise Broke("failed", f"rapidocr broke on the page ({message['failed']})")
        words = in_order(message["boxes"], message["width"], dpi)
        return Recognised(self.name, self.version, dpi, language, round(time.monotonic() - began, 3), words)

    def _start(self) -> None:
        folder = Path(self._running.enter_context(tempfile.TemporaryDirectory(prefix="localeval-")))
        self._image = folder / "page"
        os.mkfifo(folder / "pages")
        self._pipe = os.open(folder / "pages", os.O_RDWR)  # for reading too, so that it waits for no reader
        self._running.callback(os.close, self._pipe)
        command = child.module_command(self._module, "serve", str(folder / "pages"), python=self._python)
        patience = chain([START_SECONDS], repeat(self._seconds))
        self._said = self._running.enter_context(contextlib.closing(child.messages(command, patience)))
        first = next(self._said, {})
        if "ready" not in first:
            raise ValueError(first.get("refused", "it said nothing"))

    def close(self) -> None:
        """Stops the process, if it runs."""
        self._said = None
        self._running.close()


def in_order(boxes: Sequence, width: float, dpi: int) -> tuple[Word, ...]:
    """Boxes of a page, which may be skewed, in reading order: column by column, row by row. Each is a line of its own.

    boxes: as `localeval.rapid.serve` tells them. width: of the image, in dots. A word's box is as high as its text, not as what
    a skewed line sweeps over.
    """
    tilt = _tilt([corners for corners, _, _ in boxes])
    placed = [_straightened(corners, text, score, tilt, dpi) for corners, text, score in boxes]
    rows: list[list[tuple[Raw, Word]]] = []
    for line, word in sorted(placed, key=lambda one: one[0].box[1] + one[0].box[3]):
        before = rows[-1][0][0] if rows else None
        apart = before and (line.box[1] + line.box[3] - before.box[1] - before.box[3]) / 2
        if before and apart < 0.5 * min(line.size, before.size):
            rows[-1].append((line, word))
        else:
            rows.append([(line, word)])
    words, lines = {}, []
    for row in rows:
        top, bottom = row[0][0].box[1::2]
        for line, word in sorted(row, key=lambda one: one[0].box[0]):
            lines.append([line._replace(box=(line.box[0], top, line.box[2], bottom))])
            words[id(lines[-1][0])] = word
    ordered = [line for block in in_reading_order(lines, width * 72 / dpi) for line in block]
    return tuple(words[id(line)]._replace(line=number) for number, line in enumerate(ordered))


def _straightened(corners: Sequence, text: str, score: float, tilt: float, dpi: int) -> tuple[Raw, Word]:
    """A box as a line of the page turned upright, which tells the order, and as the word at its own place."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = ((x * 72 / dpi, y * 72 / dpi) for x, y in corners)
    height = (math.hypot(x3 - x0, y3 - y0) + math.hypot(x2 - x1, y2 - y1)) / 2
    x, y, half = (x0 + x1 + x2 + x3) / 4, (y0 + y1 + y2 + y3) / 4, (max(x1, x2) - min(x0, x3)) / 2
    across, down = x * math.cos(tilt) + y * math.sin(tilt), y * math.cos(tilt) - x * math.sin(tilt)
    line = Raw(text, (across - half, down - height / 2, across + half, down + height / 2), height, False)
    box = (round(side, 1) for side in (x - half, y - height / 2, x + half, y + height / 2))
    return line, Word(*box, round(100 * score, 1), text.strip(), 0)


def _tilt(boxes: Sequence) -> float:
    """Angle of the page's lines, in radians: the median over its long boxes."""
    angles = [math.atan2(y1 - y0, x1 - x0) for (x0, y0), (x1, y1), _, (x3, y3) in boxes if x1 - x0 > 4 * abs(y3 - y0)]
    return median(angles) if angles else 0.0
