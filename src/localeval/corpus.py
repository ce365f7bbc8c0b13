"""A folder of files becomes documents and their layouts.

A `Document` is one immutable text. Its `Layout` says where pages, headings, lines and repeated page furniture lie in that
text, as character offsets, so that each range of characters maps back to its page and its box.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from localeval.records import BadInput, Document, Span, Unit

SUFFIXES = (".pdf", ".md", ".txt")
STEP = 250  # pages of one file between two words on how far it is
NAMED = 5  # unreadable files that an error names; of more it gives the number

# Code fences as CommonMark has them: what opens one may name a language, what closes it stands alone.
_FENCE_OPENS = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_FENCE_CLOSES = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*$")
_HEADING = re.compile(r"(#{1,6})[ \t]+\S")
_WIKI_HEADING = re.compile(r"^(={2,6})[ \t]*[^=\s][^=\n]*?[ \t]*\1[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a document. `index` counts from 0; `label` is what the page itself prints ("iv", "12")."""

    index: int
    label: str
    start: int
    end: int
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading line, its offsets, and its depth from 1."""

    start: int
    end: int
    level: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text on a page: offsets, page index, box in points from the top left corner."""

    start: int
    end: int
    page: int
    box: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Signals:
    """What a PDF page shows beside its text; the text alone cannot tell a readable scan from a born-digital page.

    image_coverage: share of the page under images. invisible_text: share of characters that are not drawn, or that
    a page-sized image drawn later hides (an OCR layer).
    rotated_text: share set at an angle to the page. vectors: paths and shadings drawn. removed_chars: control characters taken out of
    the text. ocr_font: a font only OCR programs use. repaired: the file is damaged. unreadable: the page broke the parser.
    """

    image_coverage: float = 0.0
    invisible_text: float = 0.0
    rotated_text: float = 0.0
    vectors: int = 0
    removed_chars: int = 0
    ocr_font: bool = False
    repaired: bool = False
    unreadable: bool = False


READING_STATES = {
    "native": "the text of the file is good enough: nothing else was tried",
    "replaced": "another reading was better by the margin, and is the text of the page",
    "kept": "another reading was tried and was not better by the margin: the text of the file stays",
    "wanted": "another reading was wanted, and nothing that could make one is installed",
    "no_ink": "the text is poor, and nothing is drawn on the page that could be read",
    "failed": "another reading was wanted, and the engine broke",
    "timed_out": "another reading was wanted, and the engine was stopped at its time limit",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """Where the text of one page came from, and what was tried beside the text of the file.

    state: one of READING_STATES. engine: of the best other reading, with its version; empty where there is none. dpi: of the
    image that OCR read. word_confidence: the engine's own mean, from 0 to 100. before, after: confidence
    (`localeval.quality`) of the text of the file and of the other reading. seconds: of all that was tried. reason: what else
    was tried, what is missing, what broke.
    """

    state: str = "native"
    engine: str = ""
    dpi: int | None = None
    language: str = ""
    word_confidence: float | None = None
    before: float | None = None
    after: float | None = None
    seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """The sidecar of one document. boilerplate: `(start, end)` of repeated headers and footers, kept in the text.

    signals and readings: one per page of a PDF, in page order; empty for other files.
    """

    doc_id: str
    title: str = ""
    pages: tuple[Page, ...] = ()
    headings: tuple[Heading, ...] = ()
    boilerplate: tuple[tuple[int, int], ...] = ()
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    signals: tuple[Signals, ...] = ()
    readings: tuple[Reading, ...] = ()

    def page_of(self, span: Span) -> int | None:
        """Index of the page the span overlaps most (tie: the earlier); None where the document has no such page."""
        best = max(self.pages, key=lambda p: (min(p.end, span.end) - max(p.start, span.start), -p.index), default=None)
        if best is None or min(best.end, span.end) <= max(best.start, span.start):
            return None
        return best.index


@dataclass(frozen=True)
class Corpus:
    """Documents in order of `doc_id` and their layouts; failures: files that could not be read, skipped: files of other
    kinds that were left alone, each with the reason.

    A PDF without any text is a failure whose layout is kept: its pages can be judged, and nothing ever retrieves it.
    """

    documents: tuple[Document, ...]
    layouts: dict[str, Layout]
    failures: dict[str, str]
    skipped: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _by_id(self) -> dict[str, Document]:
        return {document.doc_id: document for document in self.documents}

    def __getitem__(self, doc_id: str) -> Document:
        return self._by_id[doc_id]

    def text(self, span: Span) -> str:
        return self[span.doc_id][span]

    def pages(self) -> list[Unit]:
        """Page units of all documents. A document without pages is one page."""
        return [
            Unit(Span(doc.doc_id, page.start, page.end), "page", label=page.label)
            for doc in self.documents
            for page in self.layouts[doc.doc_id].pages or (Page(0, "1", 0, len(doc.text)),)
        ]

    def wholes(self) -> list[Unit]:
        """Document units."""
        return [
            Unit(Span(doc.doc_id, 0, len(doc.text)), "document", label=self.layouts[doc.doc_id].title)
            for doc in self.documents
        ]


def sha256(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def make_document(doc_id: str, text: str, source: bytes, language: str = "en") -> Document:
    return Document(doc_id, text, sha256(source), sha256(text), language)


def normalise(text: str) -> str:
    """Text as every document holds it: no byte-order mark, no NUL, newlines as `\\n`. Done once, before any offset is taken."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")


def read_plain(path: Path, doc_id: str, language: str = "en") -> tuple[Document, Layout]:
    """A markdown or text file, without pages. Headings are those of markdown (`#` to `######`, outside code fences), in text files
    those of MediaWiki (`== Title ==`, two to six signs alone on their line)."""
    try:
        source = path.read_bytes()
        text = normalise(source.decode("utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the name and the permissions") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    headings = _markdown_headings(text) if path.suffix.lower() == ".md" else _wiki_headings(text)
    first = (
        headings[0] if headings and text[headings[0].start] == "#" else None
    )  # a wiki's title is the name of its page
    title = text[first.start : first.end].lstrip("# ").strip() if first else path.stem
    return make_document(doc_id, text, source, language), Layout(doc_id, title, headings=headings)


def _markdown_headings(text: str) -> tuple[Heading, ...]:
    headings, fence, position = [], "", 0
    for line in text.split("\n"):
        if fence:
            closes = _FENCE_CLOSES.match(line)
            if closes and closes[1].startswith(fence):  # the same character, at least as often
                fence = ""
        elif opens := _FENCE_OPENS.match(line):
            fence = opens[1]
        elif heading := _HEADING.match(line):
            headings.append(Heading(position, position + len(line.rstrip()), len(heading[1])))
        position += len(line) + 1
    return tuple(headings)


def _wiki_headings(text: str) -> tuple[Heading, ...]:
    return tuple(Heading(*found.span(), len(found[1]) - 1) for found in _WIKI_HEADING.finditer(text))


def find_files(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The files of a corpus folder, as sorted posix paths below it: those to read, and those to leave alone with the reason.

    Hidden files are in neither.
    """
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder; 'corpus' must name a folder of {', '.join(SUFFIXES)} files")
    found = sorted((path.relative_to(folder).as_posix(), why) for path, why in _walk(folder))
    files = [name for name, why in found if not why]
    if not files:
        raise BadInput(
            f"{folder}: no {', '.join(SUFFIXES)} file in it; put the documents there, converted if they are of another kind"
        )
    return files, {name: why for name, why in found if why}


def _walk(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every path below the folder that holds or could hold a document, and why it is left alone, if it is.

    Linked folders come after the real ones and no folder comes twice, so that links may form a circle.
    """
    real = Path(os.path.realpath(folder))
    seen, waiting = set(real.parents), [folder]
    for top in waiting:
        for where, folders, names in os.walk(top, onerror=_unlisted):
            here, real = Path(where), Path(os.path.realpath(where))
            if real in seen:
                yield here, "a link to a folder that is read already or holds the corpus"
                folders.clear()
                continue
            seen.add(real)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            waiting += [here / name for name in folders if (here / name).is_symlink()]
            yield from ((here / name, _left_alone(here / name)) for name in names if not name.startswith("."))


def _left_alone(path: Path) -> str:
    if path.suffix.lower() not in SUFFIXES:
        return f"not one of {', '.join(SUFFIXES)}"
    return "" if path.is_file() or not path.exists() else "not a regular file"  # a broken link is read, and fails


def _unlisted(error: OSError) -> None:
    raise BadInput(f"{error.filename}: cannot be opened ({error.strerror}); check the permissions of the folder")


def load(
    folder: Path,
    language: str = "en",
    *,
    strict: bool = True,
    progress=lambda text: None,
    reread: Sequence[Callable] = (),
    cache: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Corpus:
    """Reads every document below `folder`.

    With `strict` unreadable files raise one `BadInput` that names them; otherwise they are listed in `Corpus.failures`,
    as long as anything could be read. A document without any text is a failure too: nothing could ever be retrieved
    from it. reread: what may find a better text for pages of a PDF (`pdf.Reread`). cache: folder that keeps what the PDF library
    said of each file, for the next time.
    """
    if not re.fullmatch("[a-z]{2}", language):
        raise BadInput(f"language: {language!r} is none; write its two letters of ISO 639-1, as en")
    documents, layouts, failures = [], {}, {}
    files, skipped = find_files(folder)
    pace = _Pace([_size(folder / doc_id) for doc_id in files], clock)
    for number, doc_id in enumerate(files, 1):
        path = folder / doc_id
        place = f"{number} of {len(files)}: {doc_id}{pace}"
        progress(place)
        try:
            document, layout = _read(
                path, doc_id, language, reread=reread, cache=cache, progress=_by_page(progress, place)
            )
            if layout.pages or document.text.strip():
                layouts[doc_id] = layout
            if not document.text.strip():
                raise BadInput(f"{path}: no text in it{_without_text(layout)}")
            documents.append(document)
        except BadInput as error:
            failures[doc_id] = str(error).removeprefix(f"{path}: ")
        pace.one_more(len(layouts[doc_id].pages) or 1 if doc_id in layouts else 0)
    if failures and (strict or not documents):
        raise BadInput(_refusal(folder, failures))
    return Corpus(tuple(documents), layouts, failures, skipped)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


class _Pace:
    """How fast a folder is read, and how long the rest of it will take: its bytes cost what those read so far did."""

    def __init__(self, sizes: list[int], clock: Callable[[], float]):
        self._sizes, self._clock, self._began = sizes, clock, clock()
        self._files = self._pages = 0

    def one_more(self, pages: int) -> None:
        """One more file is behind us, of so many pages."""
        self._files, self._pages = self._files + 1, self._pages + pages

    def __str__(self) -> str:
        read = sum(self._sizes[: self._files])
        seconds = self._clock() - self._began if read else 0.0
        if seconds <= 0:
            return ""
        left = seconds * sum(self._sizes[self._files :]) / read
        return f" ({self._pages / seconds:,.1f} pages a second, about {left:,.0f} s left)"


def _by_page(progress: Callable[[str], None], place: str) -> Callable[[int, int], None]:
    """Says how far a large file is, every STEP pages."""
    return lambda done, total: progress(f"{place}, page {done:,} of {total:,}") if done % STEP == 0 else None


def _read(path: Path, doc_id: str, language: str, **options) -> tuple[Document, Layout]:
    from localeval import pdf

    if path.suffix.lower() == ".pdf":
        return pdf.read(path, doc_id, language, **options)
    return read_plain(path, doc_id, language)


def _without_text(layout: Layout) -> str:
    """Why a document has no text, and what to do: after "no text in it"."""
    wanted = [reading for reading in layout.readings if reading.state in ("wanted", "failed", "timed_out")]
    tried = [reading for reading in layout.readings if reading.state == "kept"]
    if wanted:
        many = f"{len(wanted)} of {len(layout.pages)} pages want OCR" if len(layout.pages) > 1 else "its page wants OCR"
        return f": {many}; {wanted[0].reason}"
    if tried:
        return f": OCR found none either on {len(tried)} of {len(layout.pages)} pages; scan it again, or remove it"
    if not layout.pages:
        return " (an empty file); write its text, or remove it"
    return " (a scan without a text layer, or an empty file); remove it or add OCR"


def _refusal(folder: Path, failures: dict[str, str]) -> str:
    reasons = [f"{name} ({why})" for name, why in failures.items()]
    if len(reasons) == 1:
        return "".join(f"{folder / name}: {why}" for name, why in failures.items())
    more = [f"and {len(reasons) - NAMED} more"] if len(reasons) > NAMED else []
    return f"{folder}: {len(reasons)} files cannot be read: {', '.join(reasons[:NAMED] + more)}"


def write_jsonl(corpus: Corpus, path: Path) -> None:
    """One line a document: its fields and its layout. Offsets in code points."""
    with path.open("w", encoding="utf-8") as out:
        for doc in corpus.documents:
            row = asdict(doc) | {"layout": asdict(corpus.layouts[doc.doc_id])}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_jsonl(path: Path, unread: Path | None = None) -> Corpus:
    """What `write_jsonl` wrote, and from a table of the files that gave no document (`unread`), if it is there, which and why."""
    documents, layouts, outcomes = [], {}, {"could not be read": {}, "left alone": {}}
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            layout = row.pop("layout")
            documents.append(Document(**row))
            layouts[row["doc_id"]] = _layout(layout)
    if unread is not None and unread.is_file():
        with unread.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                outcomes[row["outcome"]][row["file"]] = row["reason"]
    return Corpus(tuple(documents), layouts, *outcomes.values())


def _layout(row: dict) -> Layout:
    return Layout(
        doc_id=row["doc_id"],
        title=row["title"],
        pages=tuple(Page(**page) for page in row["pages"]),
        headings=tuple(Heading(**heading) for heading in row["headings"]),
        boilerplate=tuple((start, end) for start, end in row["boilerplate"]),
        lines=tuple(Line(**(line | {"box": tuple(line["box"])})) for line in row["lines"]),
        notes=tuple(row["notes"]),
        signals=tuple(Signals(**page) for page in row["signals"]),
        readings=tuple(Reading(**page) for page in row["readings"]),
    )


def inventory(corpus: Corpus):
    """One row a document: characters, pages, headings, marked page furniture, and what the reader noted."""
    import pandas as pd

    rows = []
    for doc in corpus.documents:
        layout = corpus.layouts[doc.doc_id]
        furniture = sum(end - start for start, end in layout.boilerplate)
        rows.append(
            (
                doc.doc_id,
                layout.title,
                len(doc.text),
                len(layout.pages),
                len(layout.headings),
                furniture,
                "; ".join(layout.notes),
            )
        )
    return pd.DataFrame(
        rows, columns=["doc_id", "title", "characters", "pages", "headings", "header_footer_characters", "notes"]
    )


def unread(corpus: Corpus):
    """One row a file that gave no document: what became of it, and why."""
    import pandas as pd

    outcomes = {"could not be read": corpus.failures, "left alone": corpus.skipped}
    rows = [(name, outcome, why) for outcome, files in outcomes.items() for name, why in files.items()]
    return pd.DataFrame(rows, columns=["file", "outcome", "reason"])


def fingerprint(documents: Iterable[Document]) -> str:
    """`sha256:` over the sorted lines `doc_id:sha256(text)`; independent of order, titles and file dates."""
    lines = sorted(f"{doc.doc_id}:{doc.text_sha256}" for doc in documents)
    return "sha256:" + sha256("\n".join(lines))
