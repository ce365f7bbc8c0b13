"""A PDF becomes one text and a layout: pages with their labels, lines with boxes, headings, page furniture, signals.

A PDF can hang its parser or eat all memory, and the parser holds the interpreter lock while it does. So the file is
opened only in a child process with limits (`python -m localeval.pdf FILE` prints one JSON line a page), and the process
that asks never imports the PDF library: it reads those lines, stops the child when a page takes too long, and works out
reading order, headings and furniture from plain values.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, repeat
from pathlib import Path

from localeval import child
from localeval.corpus import Layout, Line, Page, Reading, Signals, make_document
from localeval.layout import (
    Raw,
    Shown,
    find_furniture,
    find_headings,
    heading_groups,
    in_reading_order,
    join_rows,
    lay_out,
)
from localeval.records import BadInput, Document

START_SECONDS = 60.0  # until the file is open: the child imports the library and may have to repair the file
PAGE_SECONDS = 20.0  # a dense page takes milliseconds; a page this slow is broken or hostile
MEMORY_BYTES = 2 << 30
CPU_SECONDS = 300  # for the whole file: 2,400 pages take about ten
OCR_FONTS = ("GlyphLessFont", "HiddenHorzOCR")
IMAGES = ("fill-image", "fill-imgmask")

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


# What may give pages another text: takes the file, its pages (as `messages` tells them, free to get other "blocks") and
# their readings so far, and gives one reading a page.
Reread = Callable[[Path, list[dict], list[Reading]], list[Reading]]


def read(
    path: Path,
    doc_id: str,
    language: str = "en",
    *,
    page_seconds: float = PAGE_SECONDS,
    reread: Sequence[Reread] = (),
) -> tuple[Document, Layout]:
    """The text of a PDF and its layout. Pages that hold no text are empty pages, never missing ones.

    reread: converters and OCR engines that may find a better text for a page; each is asked in turn.
    Raises `BadInput` for what is not a PDF, is locked, damaged or without pages, or takes too long. A damaged file of
    which pages could be recovered is read, and `Layout.notes` says so.
    """
    source = _source(path)
    with contextlib.closing(messages(path, page_seconds)) as said:
        header, *pages = said
    if len(pages) != header["pages"]:
        raise BadInput(f"{path}: {len(pages)} of {header['pages']} pages were read; export it again")
    readings = [Reading()] * len(pages)
    for again in reread:
        readings = again(path, pages, readings)
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
        tuple(readings),
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
    groups = heading_groups(shown)
    first = [group for group in groups if group[0].page == groups[0][0].page]
    best = max(first, key=lambda group: (group[0].size, -group[0].start), default=[])
    return " ".join(" ".join(line.raw.text for line in best).split()) or path.stem


# The bounded child, seen from outside


def messages(path: Path, page_seconds: float = PAGE_SECONDS) -> Iterator[dict]:
    """What the PDF library says about a file: a header, then each page as plain values. Raises `BadInput`."""
    heard = 0
    command = child.module_command("localeval.pdf", str(path.resolve()))
    try:
        with contextlib.closing(child.messages(command, chain([START_SECONDS], repeat(page_seconds)))) as said:
            for message in said:
                if "refused" in message:
                    raise BadInput(f"{path}: {REFUSALS[message['refused']].format(message['detail'])}")
                heard += 1
                yield message
    except child.TimedOut as late:
        where = f"page {heard}" if heard else "opening it"
        raise BadInput(f"{path}: {REFUSALS['slow'].format(where, late.seconds)}") from None
    except child.Died:
        raise BadInput(f"{path}: {REFUSALS['stopped'].format(f'{max(0, heard - 1)} pages')}") from None


# The child: the only part that opens the file


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
    invisible = sum(line["invisible"] for line in lines) / total
    return Signals(
        image_coverage=_coverage([box for kind, box in drawings if kind in IMAGES], rect),
        invisible_text=round(max(invisible, _covered(drawings, rect)), 4),
        rotated_text=round(sum(line["chars"] for line in lines if not line["shown"][4]) / total, 4),
        vectors=sum(kind in ("fill-path", "stroke-path", "fill-shade") for kind, _ in drawings),
        removed_chars=sum(line["removed"] for line in lines),
        ocr_font=any(line["ocr_font"] for line in lines),
        repaired=repaired,
    )


def _covered(drawings: list, page) -> float:
    """Share of the pieces of text that are drawn before an image as large as the page, which hides them.

    A page drawn over such an image is a slide with a background; a text drawn under one is the OCR of a scan.
    """
    large = [i for i, (kind, box) in enumerate(drawings) if kind in IMAGES and _share(box, page) >= 0.8]
    texts = [i for i, (kind, _) in enumerate(drawings) if kind.endswith("-text")]
    return sum(i < large[-1] for i in texts) / len(texts) if large and texts else 0.0


def _share(box: tuple, page) -> float:
    """Share of the page under one box."""
    width, height = min(box[2], page.x1) - max(box[0], page.x0), min(box[3], page.y1) - max(box[1], page.y0)
    return max(0.0, width) * max(0.0, height) / (page.width * page.height) if not page.is_empty else 0.0


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


def _blocks(page: dict) -> list[list[Raw]]:
    blocks = [[Raw(text, tuple(box), *rest) for text, box, *rest in block] for block in page["blocks"]]
    return [join_rows(block) for block in in_reading_order(blocks, page["width"])]


if __name__ == "__main__":
    child.speak(_told(sys.argv[1]), memory_bytes=MEMORY_BYTES, cpu_seconds=CPU_SECONDS)
