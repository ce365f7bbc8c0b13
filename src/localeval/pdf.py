"""A PDF becomes one text and a layout: pages with their labels, lines with boxes, headings, page furniture, signals.

A PDF can hang its parser or eat all memory, and the parser holds the interpreter lock while it does. So the file is
opened only in a child process with limits (`python -m localeval.pdf FILE` prints one JSON line a page), and the process
that asks never imports the PDF library: it reads those lines, stops the child when a page takes too long, and works out
reading order, headings and furniture from plain values.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import selectors
import signal
import subprocess
import sys
import time
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import accumulate, chain, groupby, pairwise, repeat
from pathlib import Path
from typing import NamedTuple

from localeval.corpus import Heading, Layout, Line, Page, Signals, make_document
from localeval.records import BadInput, Document

START_SECONDS = 60.0  # until the file is open: the child imports the library and may have to repair the file
PAGE_SECONDS = 20.0  # a dense page takes milliseconds; a page this slow is broken or hostile
MEMORY_BYTES = 2 << 30
CPU_SECONDS = 300  # for the whole file: 2,400 pages take about ten
OCR_FONTS = ("GlyphLessFont", "HiddenHorzOCR")

FURNITURE_ZONE = 0.12  # of the page height, at the top and at the bottom
FURNITURE_PAGES = 3
FURNITURE_GAP = 4  # pages between two showings of one line: left-hand pages only, and a chapter opening without it
FURNITURE_SHARE = 0.4  # of the pages from the first to the last showing
LARGE_FURNITURE_SHARE = 0.9  # for lines in heading size: only what is on nearly every page
LARGER = 1.1  # times the body size: a heading by size alone
HEADING_CHARS, HEADING_LINES, HEADING_LEVELS = 120, 3, 3
HEADING_STYLE_SHARE = 0.2  # a style that sets more of the document than this is body text
OUTLINE_SHARE = 0.6  # an outline is believed when this share of its titles is found on their pages

REFUSALS = {
    "missing": "needs the PDF library; install it with 'pip install pymupdf==1.26.7'",
    "not_pdf": "not a PDF, whatever its name says; save the document itself as a PDF, or rename the file",
    "locked": "locked with a password; save a copy without one",
    "broken": "damaged beyond opening; fetch or export it again",
    "no_pages": "no page in it, or cut short so that none could be recovered; fetch or export it again",
    "page_tree": "its list of pages is broken ({}); repair it (for example with 'mutool clean') or export it again",
    "slow": "{} took longer than {:g} s and was stopped; export it again, or remove it",
    "stopped": "the parser stopped after {} (damaged, or more memory or time than it may use); export it again",
}


class Raw(NamedTuple):
    """A line as the page shows it. box: points from the top left corner of the page as displayed. cells: how many
    pieces with wide gaps between them it was joined from (a table row has several)."""

    text: str
    box: tuple[float, float, float, float]
    size: float
    bold: bool
    upright: bool = True
    cells: int = 1


class Shown(NamedTuple):
    """A line at its place in the document text: `[start, end)`."""

    page: int
    block: int
    start: int
    end: int
    raw: Raw

    @property
    def size(self) -> float:
        """Rounded to half a point: sizes differ in the second digit from font to font."""
        return round(self.raw.size * 2) / 2


def read(
    path: Path, doc_id: str, language: str = "en", *, page_seconds: float = PAGE_SECONDS
) -> tuple[Document, Layout]:
    """The text of a PDF and its layout. Pages that hold no text are empty pages, never missing ones.

    Raises `BadInput` for what is not a PDF, is locked, damaged or without pages, or takes too long. A damaged file of
    which pages could be recovered is read, and `Layout.notes` says so.
    """
    source = _source(path)
    messages = _messages(path, page_seconds)
    try:
        header = next(messages)
        pages = list(messages)
    finally:
        messages.close()
    if len(pages) != header["pages"]:
        raise BadInput(f"{path}: {len(pages)} of {header['pages']} pages were read; export it again")
    text, shown, spans = lay_out(_blocks(page) for page in pages)
    furniture = find_furniture(shown, [page["height"] for page in pages])
    hidden = {index for index, page in enumerate(pages) if page["signals"]["invisible_text"] > 0.5}  # sizes are guesses
    body = [line for line in shown if line not in furniture and line.page not in hidden]
    headings = find_headings(body, header["outline"])
    layout = Layout(
        doc_id,
        _title(header["title"], body, path),
        tuple(
            Page(i, p["label"], *span, p["width"], p["height"])
            for i, (p, span) in enumerate(zip(pages, spans, strict=True))
        ),
        headings,
        tuple(sorted((line.start, line.end) for line in furniture)),
        tuple(Line(line.start, line.end, line.page, line.raw.box) for line in shown),
        _notes(header, pages),
        tuple(Signals(**page["signals"]) for page in pages),
    )
    return make_document(doc_id, text, source, language), layout


def _source(path: Path) -> bytes:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); check the name and the permissions") from None
    if not source:
        raise BadInput(f"{path}: an empty file (0 bytes); fetch or export it again")
    if b"%PDF-" not in source[:1024]:  # the library would open a web page or a picture under any name
        raise BadInput(f"{path}: {REFUSALS['not_pdf']}")
    return source


def _notes(header: dict, pages: list[dict]) -> tuple[str, ...]:
    repaired = header["repaired"] or any(page["signals"]["repaired"] for page in pages)  # some damage shows late
    notes = ["the file is damaged and was repaired: pages or text may be missing"] if repaired else []
    if header["restricted"]:
        notes.append("encrypted without a password to open it; its permissions may restrict copying")
    unreadable = [i for i, page in enumerate(pages, 1) if page["signals"]["unreadable"]]
    if unreadable:
        notes.append(f"text could not be read on {_listed(unreadable)} of {len(pages)} (counted from 1)")
    drawn = [i for i, page in enumerate(pages, 1) if not page["blocks"] and _has_ink(page["signals"])]
    if drawn:
        notes.append(f"no text layer on {_listed(drawn)} of {len(pages)} (counted from 1): images or drawings only")
    return tuple(notes)


def _has_ink(signals: dict) -> bool:
    return signals["image_coverage"] > 0 or signals["vectors"] > 0


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
    return ("page " if len(numbers) == 1 else "pages ") + shown


def _title(metadata: str, shown: list[Shown], path: Path) -> str:
    """The title in the file's metadata unless it is a file name or a placeholder; else the largest heading of the first
    page that has one; else the file's stem."""
    metadata = " ".join(metadata.split())
    junk = re.search(
        r"^untitled|^microsoft \w+ - |^slide 1$|\.(docx?|dvi|tex|pdf|pptx?|xlsx?|html?|indd|qxd)$",
        metadata,
        re.IGNORECASE,
    )
    if 3 <= len(metadata) <= 200 and sum(map(str.isalpha, metadata)) >= 3 and "\ufffd" not in metadata and not junk:
        return metadata
    groups = _heading_groups(shown)
    first = [group for group in groups if group[0].page == groups[0][0].page]
    best = max(first, key=lambda group: (group[0].size, -group[0].start), default=[])
    return " ".join(" ".join(line.raw.text for line in best).split()) or path.stem


# The bounded child, seen from outside


def _messages(path: Path, page_seconds: float) -> Iterator[dict]:
    """What the child says about a file: a header, then each page. The child is gone when this is closed."""
    package_folder = str(Path(__file__).resolve().parents[1])
    search_path = os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")]))
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "localeval.pdf", str(path.resolve())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": search_path},
        start_new_session=True,
    )
    try:
        yield from _heard(child, path, page_seconds)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait()


def _heard(child: subprocess.Popen, path: Path, page_seconds: float) -> Iterator[dict]:
    heard = 0
    for line in _lines(child, chain([START_SECONDS], repeat(page_seconds))):
        if line is None:
            late = (f"page {heard}", page_seconds) if heard else ("opening it", START_SECONDS)
            raise BadInput(f"{path}: {REFUSALS['slow'].format(*late)}")
        message = json.loads(line)
        if message.get("done"):
            return
        if "refused" in message:
            raise BadInput(f"{path}: {REFUSALS[message['refused']].format(message['detail'])}")
        heard += 1
        yield message
    raise BadInput(f"{path}: {REFUSALS['stopped'].format(f'{max(0, heard - 1)} pages')}")


def _lines(child: subprocess.Popen, patience: Iterator[float]) -> Iterator[bytes | None]:
    """Lines of the child's output as they come; None, and the end, when one takes longer than `patience` says.

    Time that the reader spends on a line it was given does not count.
    """
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        deadline = time.monotonic() + next(patience)
        while selector.select(max(0.0, deadline - time.monotonic())):
            data = os.read(child.stdout.fileno(), 1 << 16)
            if not data:
                return
            *complete, rest = data.split(b"\n")
            for line in complete:
                yield b"".join([*parts, line])
                parts, deadline = [], time.monotonic() + next(patience)
            parts.append(rest)
        yield None


# The child: the only part that opens the file


def _child(path: str) -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the library may print; only our lines may reach the pipe
    _limit()
    for message in _told(path):
        out.write(json.dumps(message) + "\n")
        out.flush()


def _limit() -> None:
    try:
        import resource
    except ImportError:
        return
    for name, limit in (("RLIMIT_AS", MEMORY_BYTES), ("RLIMIT_CPU", CPU_SECONDS)):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # macOS refuses a limit on memory
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _told(path: str) -> Iterator[dict]:
    try:
        import pymupdf
    except ImportError:
        yield _refused("missing")
        return
    pymupdf.TOOLS.mupdf_display_errors(False)
    try:
        document = pymupdf.open(path)
    except Exception as error:  # the library raises many kinds, some of them its own
        yield _refused("broken", error)
        return
    refused = _refusal(document)
    if refused:
        yield refused
        return
    header = _header(document)
    yield header
    for index in range(header["pages"]):  # a failure can change the library's own count
        try:
            page = document.load_page(index)
        except Exception as error:
            yield _refused("page_tree", f"page {index + 1} of {header['pages']}: {error}")
            return
        yield _page(page, index, document.is_repaired)
    yield {"done": True}


def _refused(reason: str, detail: object = "") -> dict:
    return {"refused": reason, "detail": " ".join(str(detail).split())[:160]}


def _refusal(document) -> dict | None:
    if not document.is_pdf:
        return _refused("not_pdf")
    if document.needs_pass:
        return _refused("locked")
    try:
        return None if document.page_count > 0 else _refused("no_pages")
    except Exception as error:
        return _refused("page_tree", error)


def _header(document) -> dict:
    metadata = document.metadata or {}
    return {
        "pages": document.page_count,
        "repaired": bool(document.is_repaired),
        "restricted": bool(metadata.get("encryption")),
        "title": _clean(metadata.get("title") or "")[0],
        "outline": _outline(document),
    }


def _outline(document) -> list[tuple]:
    """`(level, title, page index, y from the top or None)` of each entry that leads to a page."""
    try:
        entries = document.get_toc(simple=False)
        return [
            (level, _clean(title)[0], page - 1, _from_top(document, page - 1, target))
            for level, title, page, target in entries
            if 0 < page <= document.page_count
        ]
    except Exception:  # a broken outline takes nothing from the text
        return []


def _from_top(document, index: int, target: dict) -> float | None:
    import pymupdf

    point = target.get("to")
    if point is None:
        return None
    # The library turns the axis of explicit targets, and leaves that of named ones.
    return point.y if target["kind"] == pymupdf.LINK_GOTO else document[index].rect.height - point.y


def _page(page, index: int, repaired: bool) -> dict:
    """One page as plain values. A page that cannot be interpreted is an empty page that says so."""
    import pymupdf

    # Without these two flags an unknown glyph arrives as U+FFFD, not as a wrong letter, and "fi" as two letters.
    flags = pymupdf.TEXTFLAGS_TEXT & ~pymupdf.TEXT_CID_FOR_UNKNOWN_UNICODE & ~pymupdf.TEXT_PRESERVE_LIGATURES
    message = {"label": str(index + 1), "width": page.rect.width, "height": page.rect.height, "blocks": []}
    try:
        blocks = page.get_text("dict", flags=flags)["blocks"]
        drawings = page.get_bboxlog()
        message["label"] = _clean(page.get_label())[0].strip() or message["label"]
    except Exception:
        return message | {"signals": asdict(Signals(repaired=repaired, unreadable=True))}
    turn = page.rotation_matrix if page.rotation else None
    lines = [[_line(line, turn) for line in block.get("lines", ())] for block in blocks]
    message["blocks"] = [
        kept for block in lines if (kept := [line["shown"] for line in block if line["shown"][0].strip()])
    ]
    return message | {
        "signals": asdict(_signals([line for block in lines for line in block], drawings, page, repaired))
    }


def _line(line: dict, turn) -> dict:
    """One line: `shown` (the fields of `Raw`), and counts for the signals. Bold: nearly all of its letters are."""
    import pymupdf

    drawn = pymupdf.mupdf.FZ_STEXT_FILLED | pymupdf.mupdf.FZ_STEXT_STROKED | pymupdf.mupdf.FZ_STEXT_CLIPPED
    sizes, bold, invisible = Counter(), 0, 0
    for span in line["spans"]:
        count = len(span["text"].strip())
        sizes[round(span["size"], 2)] += count
        mono = span["flags"] & pymupdf.TEXT_FONT_MONOSPACED  # bold code is no heading
        bold += count if span["flags"] & pymupdf.TEXT_FONT_BOLD and not mono else 0
        invisible += 0 if span["char_flags"] & drawn else count
    text, removed = _clean("".join(span["text"] for span in line["spans"]))
    box, upright = _as_displayed(line, turn)
    total = sizes.total()
    size = max(sizes, key=sizes.__getitem__, default=0.0)
    return {
        "shown": (text.rstrip(), box, size, bold > 0.95 * total, upright),
        "chars": total,
        "invisible": invisible,
        "removed": removed,
        "ocr_font": any(name in span["font"] for span in line["spans"] for name in OCR_FONTS),
    }


def _as_displayed(line: dict, turn) -> tuple[list[float], bool]:
    """The line's box and whether it runs from left to right. The library measures a page before it is turned."""
    import pymupdf

    box, (dx, dy) = line["bbox"], line["dir"]
    if turn:
        box, dx = pymupdf.Rect(box) * turn, dx * turn.a + dy * turn.c
    return [round(value, 2) for value in box], dx > 0.9


_BREAKS, _HALVES = re.compile("[\t-\r\x85\u2028\u2029]"), re.compile("[\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")


def _clean(text: str) -> tuple[str, int]:
    """Text without control characters and half surrogates, and how many controls it lost. Line breaks become spaces."""
    return _CONTROLS.subn("", _HALVES.sub("\ufffd", _BREAKS.sub(" ", text)))


def _signals(lines: list[dict], drawings: list, page, repaired: bool) -> Signals:
    total = max(1, sum(line["chars"] for line in lines))
    rect = page.rect * page.derotation_matrix if page.rotation else page.rect
    return Signals(
        image_coverage=_coverage([box for kind, box in drawings if kind in ("fill-image", "fill-imgmask")], rect),
        invisible_text=round(sum(line["invisible"] for line in lines) / total, 4),
        rotated_text=round(sum(line["chars"] for line in lines if not line["shown"][4]) / total, 4),
        vectors=sum(kind in ("fill-path", "stroke-path", "fill-shade") for kind, _ in drawings),
        removed_chars=sum(line["removed"] for line in lines),
        ocr_font=any(line["ocr_font"] for line in lines),
        repaired=repaired,
    )


def _coverage(boxes: Iterable[tuple], page, cells: int = 50) -> float:
    """Share of the page that images cover, on a grid, so that layers over one another count once."""
    if page.is_empty:
        return 0.0
    grid = [bytearray(cells) for _ in range(cells)]
    for x0, y0, x1, y1 in boxes:
        left, right = (min(cells, max(0, round((x - page.x0) / page.width * cells))) for x in (x0, x1))
        top, bottom = (min(cells, max(0, round((y - page.y0) / page.height * cells))) for y in (y0, y1))
        for row in grid[top:bottom]:
            row[left:right] = b"\x01" * (right - left)
    return round(sum(map(sum, grid)) / cells**2, 4)


# Reading order and offsets


def _blocks(page: dict) -> list[list[Raw]]:
    blocks = [[Raw(text, tuple(box), *rest) for text, box, *rest in block] for block in page["blocks"]]
    return [join_rows(block) for block in in_reading_order(blocks, page["width"])]


def lay_out(pages: Iterable[list[list[Raw]]]) -> tuple[str, list[Shown], list[tuple[int, int]]]:
    """The document text, its lines at their offsets, and `(start, end)` of each page.

    Lines of a block are joined by one newline, blocks and pages by an empty line. Offsets are counted while the text is
    built, so `text[line.start:line.end] == line.raw.text` by construction.
    """
    parts, shown, spans, position = [], [], [], 0
    for index, blocks in enumerate(pages):
        if index:
            parts.append("\n\n")
            position += 2
        page_start = position
        for number, block in enumerate(blocks):
            for row, raw in enumerate(block):
                gap = "\n" if row else "\n\n" if number else ""
                start = position + len(gap)
                position = start + len(raw.text)
                parts += (gap, raw.text)
                shown.append(Shown(index, number, start, position, raw))
        spans.append((page_start, position))
    return "".join(parts), shown, spans


def in_reading_order(blocks: list[list[Raw]], width: float) -> list[list[Raw]]:
    """Blocks as a reader takes them: the file's own order, unless a page of two columns jumps between them.

    The file's order is usually right, and sorting by position breaks tables; so it is changed only where a clear
    gutter exists and much of the text lies in the other column's turn. Lines across the gutter cut the page in bands;
    in each band the left column is read before the right one (the other way round in right-to-left scripts).
    """
    lines = [line for block in blocks for line in block if line.upright]
    gutter = _gutter(lines, width)
    if gutter is None:
        return blocks
    cuts = sorted(_middle(line.box) for line in lines if _side(line, gutter) == 0)
    mirrored = _mostly_rtl("".join(line.text for line in lines))

    def place(line: Raw) -> tuple[int, int]:
        if not line.upright:
            return len(cuts) + 1, 0
        side = _side(line, gutter)
        return sum(cut < _middle(line.box) for cut in cuts), (-side if mirrored else side) if side else 2

    if _displaced([(place(line), len(line.text)) for line in lines]) < 0.1:
        return blocks
    pieces = [(key, list(piece)) for block in blocks for key, piece in _split(block, place)]
    pieces.sort(key=lambda item: (item[0], min(line.box[1] for line in item[1])))
    return [piece for _, piece in pieces]


def _split(block: list[Raw], place) -> list[tuple[tuple[int, int], list[Raw]]]:
    pieces = defaultdict(list)
    for line in block:
        pieces[place(line)].append(line)
    return list(pieces.items())


def _gutter(lines: list[Raw], width: float) -> float | None:
    """x of the gap between two clear columns of running text, or None.

    Clear: each side is a quarter of the page wide, holds five lines and a quarter of the characters beside the gap,
    most of them in lines wider than half the column (a table's cells are not), and stands beside the other.
    """
    if len(lines) < 10:
        return None
    spans = [(line.box[0], line.box[2], len(line.text)) for line in lines]
    crossing = {x: sum(n for x0, x1, n in spans if x0 < x < x1) for x in (width * step / 100 for step in range(35, 66))}
    least = min(crossing.values())
    best = [x for x, count in crossing.items() if count == least]
    gutter = best[len(best) // 2]
    left = [line for line in lines if _side(line, gutter) < 0]
    right = [line for line in lines if _side(line, gutter) > 0]
    sizes = [sum(len(line.text) for line in side) for side in (left, right)]
    if min(len(left), len(right)) < 5 or min(sizes) < sum(sizes) / 4 or sum(sizes) < least:
        return None
    if not (_is_column(left, width) and _is_column(right, width)):
        return None
    tops = [min(line.box[1] for line in side) for side in (left, right)]
    ends = [max(line.box[3] for line in side) for side in (left, right)]
    beside = min(ends) - max(tops)
    return gutter if beside >= 0.5 * min(end - top for top, end in zip(tops, ends, strict=True)) else None


def _is_column(lines: list[Raw], page_width: float) -> bool:
    width = max(line.box[2] for line in lines) - min(line.box[0] for line in lines)
    wide = sum(len(line.text) for line in lines if line.box[2] - line.box[0] > width / 2)
    return width > page_width / 4 and wide > 0.6 * sum(len(line.text) for line in lines)


def _side(line: Raw, gutter: float) -> int:
    """-1 left of the gutter, 1 right of it, 0 across it."""
    return -1 if line.box[2] <= gutter else 1 if line.box[0] >= gutter else 0


def _middle(box: tuple[float, float, float, float]) -> float:
    return (box[1] + box[3]) / 2


def _displaced(places: list[tuple[tuple[int, int], int]]) -> float:
    """Share of the characters that would have to move so that each band is read column by column, either one first."""
    bands = defaultdict(list)
    for (band, side), count in places:
        if side in (-1, 1):
            bands[band].append(side * count)
    moves = sum(min(_moves(band), _moves([-signed for signed in band])) for band in bands.values())
    return moves / max(1, sum(count for _, count in places))


def _moves(signed: list[int]) -> int:
    """Least total to move so that all negative numbers come first: over every place to divide the list."""
    late = -sum(value for value in signed if value < 0)
    return min(accumulate(signed, initial=late))


def _mostly_rtl(text: str) -> bool:
    kinds = Counter(map(unicodedata.bidirectional, text[:2000]))
    return kinds["R"] + kinds["AL"] > kinds["L"]


def join_rows(block: list[Raw]) -> list[Raw]:
    """Pieces of one visual line (a number and its title, the cells of a row) joined from left to right by a space."""
    joined: list[Raw] = []
    for line in block:
        before = joined[-1] if joined else None
        if before is None or not _same_row(before, line):
            joined.append(line)
        elif line.box[0] >= before.box[2] - 0.5 * line.size:
            joined[-1] = _join(before, line)
        elif line.box[2] <= before.box[0] + 0.5 * line.size and not _mostly_rtl(line.text):
            joined[-1] = _join(line, before)  # a page number stored before its entry
        else:
            joined.append(line)
    return joined


def _same_row(a: Raw, b: Raw) -> bool:
    overlap = min(a.box[3], b.box[3]) - max(a.box[1], b.box[1])
    return a.upright and b.upright and overlap > 0.5 * min(a.box[3] - a.box[1], b.box[3] - b.box[1])


def _join(a: Raw, b: Raw) -> Raw:
    gap = b.box[0] - a.box[2]
    main = max(a, b, key=lambda line: len(line.text))
    wide = gap > 1.5 * b.size and not _NUMBERING.fullmatch(a.text.strip())
    return Raw(
        a.text + (" " if gap > 0.15 * b.size else "") + b.text.lstrip(),
        (min(a.box[0], b.box[0]), min(a.box[1], b.box[1]), max(a.box[2], b.box[2]), max(a.box[3], b.box[3])),
        main.size,
        a.bold and b.bold,
        cells=a.cells + (b.cells if wide else 0),
    )


# Furniture: what pages repeat at their top and bottom

_ROMAN = re.compile(r"(?=[mdclxvi])m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_NUMBERING = re.compile(r"(?:§ ?)?(?:\d{1,3}|[A-Z]|[IVXLC]+)(?:\.\d{1,3})*[.)]?")


def find_furniture(shown: list[Shown], heights: list[float]) -> set[Shown]:
    """Lines at the top and bottom of pages that come back: running heads, footers, page numbers.

    A line comes back when it is shown, digits and roman numerals aside, at the same height and size on at least
    FURNITURE_PAGES pages that make up FURNITURE_SHARE of the pages from first to last: a running head may belong to one
    chapter, or to left-hand pages only. So does a line that begins or ends with a number that counts up with the pages,
    whatever else it says; other lines of numbers alone are cells of a table. What also stands in the middle of
    pages is text ("Examples:").
    """
    body, alike, elsewhere = _body_size(shown), defaultdict(list), Counter()
    for line in shown:
        height, middle = heights[line.page], _middle(line.raw.box)
        folded = _folded(line)
        if not line.raw.upright or FURNITURE_ZONE * height < middle < (1 - FURNITURE_ZONE) * height:
            elsewhere[folded, line.size] += 1
            continue
        from_edge = middle if middle < height / 2 else middle - height
        for key in (folded, *_offsets(line)):
            alike[from_edge > 0, line.size, key].append((from_edge, line))
    found = set()
    for (_, size, key), lines in alike.items():
        for cluster in _clusters(sorted(lines), lambda item: item[0], 3.0):
            by_page = sorted((line for _, line in cluster), key=lambda line: line.page)
            for run in _clusters(by_page, lambda line: line.page, FURNITURE_GAP):
                if _comes_back(run, body) and len(run) > elsewhere[key, size]:
                    found.update(run)
    return found


def _comes_back(run: list[Shown], body: float) -> bool:
    pages = {line.page for line in run}
    share = len(pages) / (run[-1].page - run[0].page + 1)
    large = max(line.raw.size for line in run) > LARGER * body
    return len(pages) >= FURNITURE_PAGES and share >= (LARGE_FURNITURE_SHARE if large else FURNITURE_SHARE)


def _clusters(items: list, value, gap: float) -> Iterator[list]:
    """Runs of sorted items whose neighbours are at most `gap` apart."""
    cuts = [0, *(i for i, (a, b) in enumerate(pairwise(items), 1) if value(b) - value(a) > gap), len(items)]
    return (items[start:end] for start, end in pairwise(cuts))


def _folded(line: Shown) -> str:
    """The line with its numbers as `#`. A line of numbers alone stays as it is: it comes back by counting only."""
    text = " ".join(unicodedata.normalize("NFKC", line.raw.text).casefold().split())
    folded = re.sub(r"\d+", "#", re.sub(r"\b[ivxlcdm]+\b", lambda word: "#" if _roman(word[0]) else word[0], text))
    return folded if any(map(str.isalpha, folded)) else f"{text} on {line.page}"


def _offsets(line: Shown) -> set[int]:
    """How far a number at the beginning or the end of the line is from the page's index."""
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", line.raw.text).casefold())
    numbers = [int(word) if word.isdecimal() else _roman(word) for word in {*words[:1], *words[-1:]} if len(word) < 9]
    return {number - line.page for number in numbers if number}


def _roman(word: str) -> int:
    """Value of a roman numeral in lower case; 0 for any other word.

    >>> _roman("xiv"), _roman("mild")
    (14, 0)
    """
    if not _ROMAN.fullmatch(word):
        return 0
    values = [dict(zip("ivxlcdm", (1, 5, 10, 50, 100, 500, 1000), strict=True))[letter] for letter in word]
    return sum(-a if a < b else a for a, b in pairwise([*values, 0]))


# Headings


def _body_size(shown: list[Shown]) -> float:
    """The size most characters are set in; 0 without text."""
    sizes = Counter()
    for line in shown:
        sizes[line.size] += len(line.raw.text)
    return max(sizes, key=lambda size: (sizes[size], -size), default=0.0)


def find_headings(shown: list[Shown], outline: list = ()) -> tuple[Heading, ...]:
    """Headings in order of the text; `shown` comes without page furniture.

    Where most titles of the document's own outline are found on their pages, those are the headings, at its levels;
    below an outline of one level, smaller headings are added one level deeper. Otherwise headings are short lines that
    are larger than the body or bold, and their sizes give up to HEADING_LEVELS levels.
    """
    titled, groups = _outlined(shown, outline), _heading_groups(shown)
    if len(titled) < max(1, OUTLINE_SHARE * len(outline)):
        levels = _levels_from_size(groups)
        found = [(group, levels[group[0].size]) for group in groups]
    elif {level for _, level in titled} == {1}:
        smallest = min(group[0].size for group, _ in titled)
        found = titled + [(group, 2) for group in groups if group[0].size < smallest]
    else:
        found = titled
    headings, end = [], 0
    for group, level in sorted(found, key=lambda item: (item[0][0].start, -len(item[0]))):
        if group[0].start >= end:
            end = group[-1].end
            headings.append(Heading(group[0].start, end, level))
    return tuple(headings)


def _heading_groups(shown: list[Shown]) -> list[list[Shown]]:
    """Runs of lines of one block and one size that look like a heading."""
    body, total, used = _body_size(shown), sum(len(line.raw.text) for line in shown), Counter()
    for line in shown:
        used[line.size, line.raw.bold] += len(line.raw.text)
    rare = {style for style, count in used.items() if count <= HEADING_STYLE_SHARE * total}
    groups = []
    for _, lines in groupby(shown, key=lambda line: line.page):
        page = list(lines)
        likely = {line for line in page if (line.size, line.raw.bold) in rare and _looks_like_heading(line, body)}
        for _, block in groupby(page, key=lambda line: line.block):
            groups += [group for group in _runs(list(block), likely, body) if not _in_row(group, page, likely)]
    return groups


_LEADERS = re.compile(r"(?:[.·…] ?){4,}")  # a line of a table of contents


def _looks_like_heading(line: Shown, body: float) -> bool:
    text, raw = line.raw.text.strip(), line.raw
    if not raw.upright or raw.cells > 1 or len(text) > HEADING_CHARS or sum(map(str.isalpha, text)) < 2:
        return False
    if _LEADERS.search(text):
        return False
    if raw.size >= LARGER * body:
        return not text.endswith((",", ";"))
    return raw.bold and raw.size >= 0.95 * body and not text.endswith((".", ",", ";", ":"))


def _runs(block: list[Shown], likely: set[Shown], body: float) -> Iterator[list[Shown]]:
    """Headings within a block. Bold lines in body size count only where they open it: emphasis stands in the middle."""
    opening = True
    for (good, size), lines in groupby(block, key=lambda line: (line in likely, line.size)):
        run = list(lines)
        if good and len(run) <= HEADING_LINES and (opening or size >= LARGER * body):
            yield run
        opening = opening and good


def _in_row(group: list[Shown], page: list[Shown], likely: set[Shown]) -> bool:
    """True for a cell: beside it stands another such line, or numbers (a section number to its left excepted)."""
    for line in page:
        if line.block == group[0].block or not any(_same_row(line.raw, mine.raw) for mine in group):
            continue
        text = line.raw.text.strip()
        if line.raw.box[2] <= group[0].raw.box[0] and line.size == group[0].size and _NUMBERING.fullmatch(text):
            continue
        if line in likely or sum(map(str.isalpha, text)) < 0.3 * len(text):
            return True
    return False


def _levels_from_size(groups: list[list[Shown]]) -> dict[float, int]:
    """Level of each heading size, largest first. A size used on one page only (a cover) opens no level of its own."""
    pages = defaultdict(set)
    for group in groups:
        pages[group[0].size].add(group[0].page)
    ranked = [size for size in pages if len(pages[size]) > 1] or list(pages)
    return {size: min(HEADING_LEVELS, 1 + sum(other > size for other in ranked)) for size in pages}


def _outlined(shown: list[Shown], outline: list) -> list[tuple[list[Shown], int]]:
    """`(lines, level)` of each outline entry whose title is found on its page."""
    pages = {page: list(lines) for page, lines in groupby(shown, key=lambda line: line.page)}
    keys = {page: [_key(line.raw.text) for line in lines] for page, lines in pages.items()}
    found = {}
    for level, title, page, y in outline:
        best = _titled(title, pages.get(page, []), keys.get(page, []), y)
        if best:
            found.setdefault(best[0].start, (best, min(level, 6)))
    return list(found.values())


def _titled(title: str, lines: list[Shown], keys: list[str], y: float | None) -> list[Shown]:
    """The lines that spell a title: the nearest to where the outline points, else the largest; empty if none does.

    A line that only begins with the title ("abs  Absolute values") counts where the outline points at it.
    """
    wanted, opening, best = _key(title), " ".join(title.split()), (math.inf, [])
    for i, line in enumerate(lines if wanted else ()):
        away = abs(line.raw.box[1] - y) if y is not None else -line.size
        for count in range(1, HEADING_LINES + 1):
            if _spells("".join(keys[i : i + count]), wanted):
                best = min(best, (away, lines[i : i + count]))
        begins = line.raw.text.startswith(opening) and not line.raw.text[len(opening) :][:1].isalnum()
        if y is not None and begins and away < 30:
            best = min(best, (away + 15, [line]))
    return best[1]


def _key(text: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def _spells(line: str, title: str) -> bool:
    """Equal, but for a number in front of the line that outlines often leave out."""
    prefix = line.removesuffix(title)
    if not line.endswith(title) or not prefix:
        return line == title
    return re.fullmatch(r"(chapter|appendix|part|section)?([ivxlc]+|[a-z]?\d*)", prefix) is not None


if __name__ == "__main__":
    _child(sys.argv[1])
