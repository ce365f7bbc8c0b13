"""Other converters beside PyMuPDF, and the cascade that keeps the best reading of each page.

PyMuPDF reads every file and is complete alone. Docling and Marker are optional: each lives in a Python environment of its
own, is found by looking at files, and runs only in a bounded child (`python -m localeval.converters NAME FILE FIRST LAST`
with that environment's Python, which needs nothing of this package beyond the standard library). No converter is believed
because it answered: every page is scored, and another text replaces the file's own only when it is better by a margin.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain, repeat
from pathlib import Path

from localeval import child
from localeval.corpus import Reading
from localeval.layout import Raw, in_reading_order, join_rows, lay_out
from localeval.records import BadInput, near

MARGIN = (
    0.05  # of confidence: what another text must be better by; below it, two readings of a good page differ by chance
)
START_SECONDS = 120.0  # until the first page: importing torch from a cold disk takes most of it
PAGE_SECONDS = (
    60.0  # of silence, before a page or a batch of pages; a model takes seconds a page, a broken page for ever
)
PAGES_A_CHILD = 100  # Docling's memory grows with the pages it has seen: a new child starts over
NATIVE_BATCH, MODEL_BATCH = 20, 4  # pages Docling reads in one call
MEMORY_BYTES = 12 << 30  # address space; torch reserves far more than it uses
CPU_SECONDS = 3600
BODY_SIZE, HEADING_SIZE = 10.0, 14.0  # points, where the file itself shows no type of any size
SAME_SIZE = 2.0  # points by which two libraries may differ about a page before boxes are scaled
_UNREADABLE = re.compile(r"GLYPH<[^<>]*>|[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Converter:
    """A converter. engine: names its environment and its package. lacks: what is missing beside the package, or ""."""

    name: str
    what: str
    engine: str = ""
    package: str = ""
    lacks: Callable[[], str] = lambda: ""


class NotConverted(Exception):
    """A converter gave no usable reading of a file. state: one of `corpus.READING_STATES`."""

    def __init__(self, state: str, reason: str):
        super().__init__(reason)
        self.state, self.reason = state, reason


# What there is: files are looked at, nothing is imported and no network is asked


def _weights(variable: str, what: str, *patterns: str) -> str:
    """Why the folder that a variable names is of no use: "" when each pattern finds a file there."""
    folder = os.environ.get(variable, "")
    if not folder:
        return f"needs {what}, and is never left to download them: set {variable} to their folder"
    for pattern in patterns:
        if not any(path.is_file() for path in Path(folder).glob(pattern)):
            return f"{variable}={folder}: no {pattern} there; it must be the folder of {what}"
    return ""


def _docling_weights() -> str:
    return _weights("LOCALEVAL_DOCLING_ARTIFACTS", "the weights of its layout model", "*layout*/**/*.safetensors")


def _marker_weights() -> str:
    missing = _weights("LOCALEVAL_MARKER_MODELS", "the weights of its models", "**/*.safetensors")
    font = os.environ.get("LOCALEVAL_MARKER_FONT", "")
    if missing or Path(font).is_file():
        return missing
    return "needs a font file, and is never left to download it: set LOCALEVAL_MARKER_FONT to a .ttf file"


CONVERTERS = {
    one.name: one
    for one in (
        Converter("pymupdf", "the text of the file as its own library reads it: always there, complete alone"),
        Converter("docling-native", "Docling's text cells, without any model", "docling", "docling"),
        Converter("docling", "Docling with its layout model", "docling", "docling", _docling_weights),
        Converter("marker", "Marker with its models", "marker", "marker", _marker_weights),
    )
}


def checked(names: Sequence[str]) -> list[str]:
    """The names, if each is a converter and none comes twice; else `BadInput` with what there is."""
    for name in names:
        if not isinstance(name, str) or name not in CONVERTERS:
            raise BadInput(f"converters: unknown {name!r}{near(str(name), CONVERTERS)}; known: {', '.join(CONVERTERS)}")
        if list(names).count(name) > 1:
            raise BadInput(f"converters: {name!r} is named twice")
    return list(names)


def known() -> dict[str, tuple[bool, str]]:
    """Every converter by name: whether it can run here, and its version or what is missing."""
    return {name: available(name) for name in CONVERTERS}


def available(name: str) -> tuple[bool, str]:
    """Whether a converter can run here, and its version, or why not. Imports nothing and starts nothing."""
    (name,) = checked([name])
    converter = CONVERTERS[name]
    if not converter.engine:
        found = find_spec("pymupdf") is not None  # looks for it without importing it
        return found, version("pymupdf") if found else "pymupdf is not installed; pip install pymupdf==1.26.7"
    variable = f"LOCALEVAL_{converter.engine.upper()}_PYTHON"
    python = python_of(converter)
    if not python.is_file():
        return False, f"no {python}; 'make {converter.engine}' makes it, or set {variable} to a Python that has it"
    found, said = _installed(_packages(python), converter.package, f"'make {converter.engine}'")
    missing = converter.lacks() if found else ""
    return (False, missing) if missing else (found, said)


def python_of(converter: Converter) -> Path:
    """The Python of a converter's environment: the one its variable names, else `.engines/<engine>` here or above."""
    named = os.environ.get(f"LOCALEVAL_{converter.engine.upper()}_PYTHON")
    if named:
        return Path(named)
    inside = Path(".engines") / converter.engine / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    here = Path.cwd()
    return next((folder / inside for folder in (here, *here.parents) if (folder / inside).is_file()), inside)


def _packages(python: Path) -> list[Path]:
    """The site-packages folders of the environment that a Python belongs to; the link itself says which, not its target."""
    root = python.absolute().parents[1]
    return [folder for folder in (*root.glob("lib/python3*/*-packages"), root / "Lib/site-packages") if folder.is_dir()]


def _installed(folders: list[Path], package: str, remedy: str) -> tuple[bool, str]:
    for folder in folders:
        if (folder / package / "__init__.py").is_file():
            return True, _version(folder, package)
    return False, f"{package} is not installed there; {remedy}"


def _version(folder: Path, package: str) -> str:
    """From the name of the folder in which an installer left its record; empty where none did."""
    found = (re.fullmatch(rf"{package}(?:_pdf)?-([\w.+!]+)\.dist-info", one.name.lower()) for one in folder.iterdir())
    return next((match[1] for match in found if match), "")


# A converter's reading of a whole file, from its child


def messages(name: str, path: Path, n_pages: int, page_seconds: float = PAGE_SECONDS) -> Iterator[list]:
    """The blocks of each page of a file, `n_pages` in all, in order. Raises `NotConverted`, also for another number of pages.

    A block is a list of lines `(text, box, heading)`, box in points from the top left corner.
    """
    converter, done = CONVERTERS[name], 0
    while done < n_pages:
        first, last = done, min(n_pages, done + PAGES_A_CHILD)
        arguments = (name, str(path.resolve()), str(first), str(last))
        command = child.module_command("localeval.converters", *arguments, python=python_of(converter))
        with contextlib.closing(_heard(command, page_seconds, done)) as said:
            _require_count(next(said)["pages"], n_pages)
            for page in said:
                done += 1
                yield page
        _require_count(done, last)


def _require_count(said: int, n_pages: int) -> None:
    if said != n_pages:
        raise NotConverted(
            "failed", f"{said} pages came out of {n_pages}: a reading that loses or adds pages is refused"
        )


def _heard(command: Sequence[str], page_seconds: float, before: int) -> Iterator[dict]:
    """Header and pages of one child, with its failures as `NotConverted`."""
    heard = -1
    environment = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
    try:
        with contextlib.closing(
            child.messages(command, chain([START_SECONDS], repeat(page_seconds)), more=environment)
        ) as said:
            for message in said:
                if "failed" in message:
                    raise NotConverted("failed", message["failed"])
                heard += 1
                yield message
    except child.TimedOut as late:
        where = f"page {before + heard + 1}" if heard >= 0 else "starting"
        raise NotConverted("timed_out", f"{where} took longer than {late.seconds:g} s and was stopped") from None
    except child.Died:
        raise NotConverted("failed", f"it stopped by itself after {before + max(0, heard)} pages") from None
    except OSError as error:
        raise NotConverted("failed", f"{command[0]} cannot be started ({error.strerror})") from None
    if heard < 0:
        raise NotConverted("failed", "it said nothing")


# The cascade


@dataclass(frozen=True)
class Cascade:
    """Gives `pdf.read` the best text of each page among the file's own and those of other converters.

    names: converters in the order in which a tie is settled; "pymupdf", the file's own text, always comes first and needs
    no name. margin: how much more confidence another text must have. A converter that is absent, fails, is too slow or
    returns another number of pages takes nothing away: the pages keep their text, and their `Reading` says why. One that
    stops halfway is not used for the pages before either: how many there are could no longer be checked.
    """

    names: Sequence[str]
    margin: float = MARGIN
    page_seconds: float = PAGE_SECONDS
    progress: Callable[[str], None] = lambda text: None

    def __post_init__(self):
        checked(self.names)
        if not 0 <= self.margin <= 1:
            raise BadInput(f"converters: margin={self.margin:g} must lie between 0 and 1, as confidence does")

    def __call__(self, path: Path, pages: list[dict], readings: list[Reading]) -> list[Reading]:
        """Replaces the blocks of pages that another converter reads better, and says for each page what happened."""
        others = [name for name in self.names if name != "pymupdf"]
        if not others or not pages:
            return readings
        tried = []
        for name in others:
            self.progress(f"{path.name}: {name} reads {len(pages)} pages")
            tried.append(_try(name, path, pages, self.page_seconds))
        return [
            _settle(page, reading, [_on_page(one, index) for one in tried], self.margin)
            for index, (page, reading) in enumerate(zip(pages, readings, strict=True))
        ]


@dataclass(frozen=True, slots=True)
class Tried:
    """One converter's answer for a file, or for one of its pages: blocks, or the state and the reason there are none."""

    engine: str
    blocks: list | None
    seconds: float | None = None
    state: str = ""
    reason: str = ""


def _try(name: str, path: Path, pages: list[dict], page_seconds: float) -> Tried:
    found, said = available(name)
    if not found:
        return Tried(name, None, None, "wanted", f"{name}: {said}")
    engine, begun = f"{name} {said}".strip(), time.perf_counter()
    try:
        read = list(messages(name, path, len(pages), page_seconds))
    except NotConverted as why:
        return Tried(engine, None, time.perf_counter() - begun, why.state, f"{name}: {why.reason}")
    blocks = [_in_the_files_style(answer, page) for answer, page in zip(read, pages, strict=True)]
    return Tried(engine, blocks, time.perf_counter() - begun)


def _on_page(tried: Tried, index: int) -> Tried:
    if tried.blocks is None:
        return tried
    return replace(tried, blocks=tried.blocks[index], seconds=tried.seconds / len(tried.blocks))


def _settle(page: dict, reading: Reading, tried: list[Tried], margin: float) -> Reading:
    """The reading of one page; its blocks are replaced where another text is better."""
    reasons = "; ".join(one.reason for one in tried if one.reason)
    answers = [one for one in tried if one.blocks is not None]
    if not answers:
        return reading if reading.state == "replaced" else Reading(tried[0].state, tried[0].engine, reason=reasons)
    before = confidence_of(page, page["blocks"])
    scores = [confidence_of(page, one.blocks) for one in answers]
    best = max(range(len(answers)), key=lambda number: (scores[number], -number))
    winner, after = answers[best], scores[best]
    facts = {"engine": winner.engine, "before": round(before, 4), "after": round(after, 4), "seconds": winner.seconds}
    if after > before and after - before >= margin - 1e-9:
        page["blocks"] = winner.blocks
        return Reading("replaced", **facts, reason=reasons)
    return reading if reading.state == "replaced" else Reading("kept", **facts, reason=reasons)


def text_of(page: dict, blocks: list) -> str:
    """The text that a page would have with these blocks, in reading order."""
    raw = [[Raw(text, tuple(box), *rest) for text, box, *rest in block] for block in blocks]
    return lay_out([[join_rows(block) for block in in_reading_order(raw, page["width"])]])[0]


def confidence_of(page: dict, blocks: list) -> float:
    """How far the text of these blocks can be trusted, in [0, 1]; the score that decides between readings."""
    from localeval import quality

    return quality.confidence(quality.features(text_of(page, blocks)))


def _in_the_files_style(answer: dict, page: dict) -> list:
    """A converter's lines as `(text, box, size, bold, upright)`: it says where they are, the file how they are set."""
    across, down = (page[side] / answer[side] if answer[side] else 1.0 for side in ("width", "height"))
    if all(abs(page[side] - answer[side]) <= SAME_SIZE for side in ("width", "height")):
        across = down = 1.0
    own = [(line, number) for number, block in enumerate(page["blocks"]) for line in block]
    blocks, last = [], None
    for block in answer["blocks"]:
        lines, place = [], None
        for text, (x0, y0, x1, y1), heading in block:
            box = [x0 * across, y0 * down, x1 * across, y1 * down]
            style, place = _style(box, heading, own)
            lines.append((_plain(text), box, *style))
        if len(lines) == 1 and place is not None and place == last:
            blocks[-1] += lines  # single lines of what the file sets as one paragraph
        else:
            blocks.append(lines)
        last = place if len(block) == 1 else None
    kept = [[line for line in block if line[0].strip()] for block in blocks]
    return [block for block in kept if block]


def _plain(text: str) -> str:
    """One line of text. What a converter writes for a glyph it cannot name, and control characters, become U+FFFD, which
    counts against its reading."""
    return _UNREADABLE.sub("\ufffd", re.sub(r"\s+", " ", text)).strip()


def _style(box: list[float], heading: bool, own: list) -> tuple[tuple[float, bool, bool], int | None]:
    """Size, weight and direction of the file's own line that shares most of a box, and the number of its block; where
    none does, those that the line's role suggests."""
    nearest, number = max(own, key=lambda one: _shared(box, one[0][1]), default=(None, None))
    if nearest is None or not _shared(box, nearest[1]):
        return ((HEADING_SIZE if heading else BODY_SIZE), heading, True), None
    return tuple(nearest[2:5]), number


def _shared(a: Sequence[float], b: Sequence[float]) -> float:
    """Area that two boxes have in common."""
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


# The child: runs in the converter's own environment, and imports the converter


def _told(name: str, path: str, first: int, last: int) -> Iterator[dict]:
    """Header and pages `[first, last)` of a file; a failure is a message, since its trace would go nowhere."""
    try:
        yield from READERS[name](path, first, last)
    except Exception as error:  # converters raise many kinds, some of them their own
        yield {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
        return
    yield {"done": True}


def _docling_native(path: str, first: int, last: int) -> Iterator[dict]:
    from docling.datamodel.pipeline_options import NativePdfPipelineOptions
    from docling.document_converter import NativePdfFormatOption

    options = NativePdfPipelineOptions(
        generate_page_images=False, generate_picture_images=False, parser_threads=1, enable_remote_services=False
    )
    yield from _docling_pages(NativePdfFormatOption(pipeline_options=options), NATIVE_BATCH, path, first, last)


def _docling(path: str, first: int, last: int) -> Iterator[dict]:
    from docling.datamodel.pipeline_options import PdfPipelineOptions
    from docling.document_converter import PdfFormatOption

    artifacts = Path(os.environ["LOCALEVAL_DOCLING_ARTIFACTS"])
    tables = any(artifacts.glob("*docling-models*/**/*.safetensors"))  # cells of tables want a model of their own
    options = PdfPipelineOptions(artifacts_path=artifacts, do_ocr=False, do_table_structure=tables)
    yield from _docling_pages(PdfFormatOption(pipeline_options=options), MODEL_BATCH, path, first, last)


def _docling_pages(option, batch: int, path: str, first: int, last: int) -> Iterator[dict]:
    """Pages a batch at a time: each call opens the file again, and keeps in memory what it has read until it ends."""
    from docling.datamodel.base_models import InputFormat
    from docling.document_converter import DocumentConverter

    converter = DocumentConverter(allowed_formats=[InputFormat.PDF], format_options={InputFormat.PDF: option})
    for start in range(first, last, batch):
        numbers = range(start + 1, min(start + batch, last) + 1)
        result = converter.convert(path, page_range=(numbers[0], numbers[-1]))
        if start == first:
            yield {"pages": result.input.page_count}
        if set(numbers) - set(result.document.pages):
            raise ValueError(f"pages {numbers[0]} to {numbers[-1]} were asked for, {len(result.document.pages)} came")
        yield from (_docling_page(result.document, number) for number in numbers)


def _docling_page(document, number: int) -> dict:
    from docling_core.types.doc import ContentLayer

    size = document.pages[number].size
    blocks, layers = [], {ContentLayer.BODY, ContentLayer.FURNITURE}  # running heads are told apart later, not dropped
    for item, _ in document.iterate_items(page_no=number, included_content_layers=layers):
        for place in getattr(item, "prov", ()):
            if place.page_no == number:
                box = place.bbox.to_top_left_origin(page_height=size.height)
                heading = str(getattr(item.label, "value", item.label)) in ("title", "section_header")
                blocks.append(_rows(_docling_text(item), (box.l, box.t, box.r, box.b), heading))
    return {"width": size.width, "height": size.height, "blocks": [block for block in blocks if block]}


def _docling_text(item) -> str:
    """A table is a line a row, its cells apart; what has no text is empty."""
    cells = getattr(getattr(item, "data", None), "grid", None)
    if cells:
        return "\n".join("  ".join(cell.text for cell in row) for row in cells)
    return getattr(item, "orig", "") or getattr(item, "text", "")


def _rows(text: str, box: Sequence[float], heading: bool) -> list[tuple]:
    """The lines of a block, each with its equal part of the block's box."""
    lines = [line for line in text.splitlines() if line.strip()]
    x0, top, x1, bottom = box
    step = (bottom - top) / max(1, len(lines))
    return [(line, (x0, top + step * row, x1, top + step * (row + 1)), heading) for row, line in enumerate(lines)]


def _marker(path: str, first: int, last: int) -> Iterator[dict]:
    """Marker through its JSON output, a page a call; the models are loaded once."""
    os.environ["MODEL_CACHE_DIR"] = os.environ["LOCALEVAL_MARKER_MODELS"]
    os.environ["FONT_PATH"] = os.environ["LOCALEVAL_MARKER_FONT"]
    from marker.config.parser import ConfigParser
    from marker.converters.pdf import PdfConverter
    from marker.models import create_model_dict

    models = create_model_dict()
    for index in range(first, last):
        config = ConfigParser(
            {"output_format": "json", "page_range": str(index), "disable_image_extraction": True, "pdftext_workers": 1}
        )
        converter = PdfConverter(
            config=config.generate_config_dict(),
            artifact_dict=models,
            processor_list=config.get_processors(),
            renderer=config.get_renderer(),
        )
        pages = converter(path).children
        if index == first:
            yield {"pages": _count_pages(path)}
        if len(pages) != 1:
            raise ValueError(f"{len(pages)} pages came out for page {index + 1}")
        yield _marker_page(pages[0])


def _count_pages(path: str) -> int:
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    try:
        return len(document)
    finally:
        document.close()


def _marker_page(page) -> dict:
    x0, y0, x1, y1 = page.bbox
    blocks = [
        [line for leaf in _leaves(block) for line in _marker_lines(leaf, x0, y0)] for block in page.children or ()
    ]
    return {"width": x1 - x0, "height": y1 - y0, "blocks": [block for block in blocks if block]}


def _leaves(block) -> Iterator:
    if not block.children:
        yield block
    for child_block in block.children or ():
        yield from _leaves(child_block)


def _marker_lines(block, x0: float, y0: float) -> list[tuple]:
    left, top, right, bottom = block.bbox
    text = _Lines()
    text.feed(block.html or "")
    text.close()
    heading = str(getattr(block.block_type, "name", block.block_type)) == "SectionHeader"
    return _rows("".join(text.parts), (left - x0, top - y0, right - x0, bottom - y0), heading)


class _Lines(HTMLParser):
    """The text of a piece of HTML: rows, items and breaks end a line, cells stand apart."""

    def __init__(self):
        super().__init__()
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.parts += {"br": ["\n"], "td": ["  "], "th": ["  "]}.get(tag, [])

    def handle_endtag(self, tag: str) -> None:
        self.parts += ["\n"] if tag in ("p", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6", "div") else []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


READERS = {"docling-native": _docling_native, "docling": _docling, "marker": _marker}


if __name__ == "__main__":
    child.speak(
        _told(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])),
        memory_bytes=MEMORY_BYTES,
        cpu_seconds=CPU_SECONDS,
    )
