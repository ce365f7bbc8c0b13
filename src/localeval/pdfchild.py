"""Inside the bounded child: the only part that opens a PDF. `python -m localeval.pdfchild FILE FORM PART PARTS [FIRST]`.

It prints a header, then one JSON line a page of its part of the file. A page is plain values: with FORM "boxes" the blocks
of lines that the library found, with "lines" the same in reading order, each line as `layout.to_wire` writes it; with
"text" the text alone, in reading order. Children share this work; what needs all pages at once is left to who asked.
"""

from __future__ import annotations

import gc
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import lru_cache, partial
from itertools import pairwise

from localeval import child
from localeval.corpus import Signals
from localeval.layout import Raw, arranged, to_wire

MEMORY_BYTES = 2 << 30
CPU_SECONDS = 300  # for the whole file: 2,400 pages take about ten
SHRINK_EVERY = 200  # pages; what the library keeps of fonts and pictures would grow with the file, and is read again
LABEL_CHARS = 30
OCR_FONTS = ("GlyphLessFont", "HiddenHorzOCR")
IMAGES, LARGE_IMAGE = ("fill-image", "fill-imgmask"), 0.8  # of the page


def told(path: str, form: str = "boxes", part: int = 0, parts: int = 1, first: int | None = None) -> Iterator[dict]:
    """The messages of one child: a header, the pages of part `part` of `parts` from page `first` on, and that it is done.

    Pages count from 0. Where the file cannot be read, a message with `refused` and `detail` is the last one.
    """
    try:
        import pymupdf
    except ImportError:
        yield _refused("missing")
        return
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.set_icc(0)  # colours are not asked for, and profiles are slow to set up
    try:
        document = pymupdf.open(path)
    except Exception as error:  # the library raises many kinds, some of them its own
        yield _refused("broken", error)
        return
    refused = _refusal(document)
    if refused:
        yield refused
        return
    count = document.page_count  # a failure can change the library's own count
    begin, end = count * part // parts, count * (part + 1) // parts
    labels = _labels(document)
    begins = not part and first is None
    dropped = _dropped(document) if begins else 0
    yield _header(document, dropped, outline=form != "text" and begins) | {"first": begin, "end": end}
    for index in range(begin if first is None else first, end):
        try:
            page = document.load_page(index)
        except Exception as error:
            yield _refused("page_tree", f"page {index + 1} of {count}: {error}")
            return
        yield _page(page, index, document, form, labels)
        if index % SHRINK_EVERY == SHRINK_EVERY - 1:
            pymupdf.TOOLS.store_shrink(100)
            gc.collect(0)  # what is new since the last time; the rest was there before the first page
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


def _header(document, dropped: int, outline: bool) -> dict:
    metadata = document.metadata or {}
    return {
        "pages": document.page_count,
        "repaired": bool(document.is_repaired or dropped),
        "dropped": dropped,
        "restricted": bool(metadata.get("encryption")),
        "title": clean(metadata.get("title") or "")[0],
        "outline": _outline(document) if outline else [],
    }


def _dropped(document) -> int:
    """How many pages the file's tree of pages leads to beyond those it counts: the library reads as many as it counts."""
    from pymupdf import mupdf

    count = document.page_count
    leaves = seen = 0
    try:
        waiting = [mupdf.pdf_dict_getp(mupdf.pdf_trailer(mupdf.pdf_specifics(document.this)), "Root/Pages")]
        while waiting and seen <= 4 * count + 1000:  # a tree may bite its own tail
            node, seen = waiting.pop(), seen + 1
            kids = mupdf.pdf_dict_gets(node, "Kids")
            leaves += not kids.m_internal and mupdf.pdf_is_dict(node)
            waiting += [
                mupdf.pdf_array_get(kids, i) for i in range(mupdf.pdf_array_len(kids) if kids.m_internal else 0)
            ]
    except Exception:  # a broken tree is told by its pages
        return 0
    return max(0, leaves - count) if not waiting else 0


def _outline(document) -> list[tuple]:
    """`(level, title, page index, y from the top or None)` of each entry that leads to a page.

    The library's own table of contents looks up every name the file defines, and costs as much as hundreds of pages.
    """
    found, waiting = [], [(document.outline, 1)]
    try:
        while waiting:
            item, level = waiting.pop()
            if item and item.this.m_internal:
                waiting += [(item.next, level), (item.down, level + 1)]  # the last one comes first
                found.append((level, clean(item.title or " ")[0], item.page, item.this.m_internal.y))
        known = [entry for entry in found if 0 <= entry[2] < document.page_count]
    except Exception:  # a broken outline takes nothing from the text
        return []
    return [(*entry, None if math.isnan(y) else y) for *entry, y in known]


def _labels(document) -> list[tuple[int, str, str]]:
    """The rules by which the file numbers its pages, `(first page, prefix, rule without it)`; asked for once, and not for each
    page, as `Page.get_label` does."""
    try:
        return sorted((first, *_without_prefix(rule)) for first, rule in document._get_page_labels())
    except Exception:
        return []


_PREFIX = re.compile(r"/P\s*(?:\(((?:\\.|[^\\()]|\((?:\\.|[^\\()])*\))*)\)|<([0-9A-Fa-f\s]*)>)", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f", b"\n": b""}


def _without_prefix(rule: str) -> tuple[str, str]:
    """The prefix of a rule as text, and the rule without it: the library takes the string as the file writes it.

    >>> _without_prefix(r"<</S/D/P(Ann\\(1\\) )>>")
    ('Ann(1) ', '<</S/D>>')
    """
    found = _PREFIX.search(rule)
    if not found:
        return "", rule
    if found[1] is None:
        raw = bytes.fromhex("".join(found[2].split()) + "0" * (len("".join(found[2].split())) % 2))
    else:
        octal = lambda one: bytes([int(one[1], 8) & 255]) if one[1].isdigit() else _ESCAPED.get(one[1], one[1])
        raw = _ESCAPE.sub(octal, found[1].encode("utf-8", "surrogateescape"))
    return _decoded(raw), rule[: found.start()] + rule[found.end() :]


def _decoded(raw: bytes) -> str:
    """A text string of a PDF: UTF-16 or UTF-8 where it says so; else one byte a letter, unless it is sound UTF-8."""
    if raw[:2] in (b"\xfe\xff", b"\xff\xfe"):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _label(index: int, labels: list[tuple[int, str, str]]) -> str:
    import pymupdf

    rules = [rule for rule in labels if rule[0] <= index]
    if not rules:
        return str(index + 1)
    first, prefix, rule = rules[-1]
    label = clean(prefix + pymupdf.utils.get_label_pno(index, [(first, rule)]))[0].strip()
    # a roman numeral of a thousand million is no label
    return label if 0 < len(label) <= LABEL_CHARS else str(index + 1)


def _page(page, index: int, document, form: str, labels: list) -> dict:
    """One page as plain values. A page that cannot be interpreted is an empty page that says so."""
    rect, turn = page.rect, page.rotation_matrix if page.rotation else None
    message = {"label": str(index + 1), "width": rect.width, "height": rect.height}
    empty = {"text": ""} if form == "text" else {"wire": []}
    try:
        text, seen = _interpreted(page)
        told, counts = _told(text, turn)
        message["label"] = _label(index, labels)
    except Exception:
        return message | empty | {"signals": asdict(Signals(repaired=document.is_repaired, unreadable=True))}
    unturned = rect * page.derotation_matrix if turn else rect
    large = any(_share(box, unturned) >= LARGE_IMAGE for box in seen.images)
    covered = _covered(page.get_bboxlog(), unturned) if large else 0.0
    message["signals"] = _signals(counts, seen, unturned, bool(document.is_repaired), covered)
    if form == "boxes":
        return message | {"wire": to_wire(told)}
    ready = arranged(told, rect.width, rect.height)
    if form == "lines":
        return message | {"wire": to_wire(ready)}
    return message | {"text": "\n\n".join("\n".join(line.text for line in block) for block in ready)}


def _interpreted(page) -> tuple[object, object]:
    """The library's text of the page, and what else was drawn. The page is interpreted once; both are taken from that list of drawings.

    The library measures a page as it is before it is turned.
    """
    import pymupdf

    # Without these two flags an unknown glyph arrives as U+FFFD, not as a wrong letter, and "fi" as two letters.
    flags = pymupdf.TEXTFLAGS_TEXT & ~pymupdf.TEXT_CID_FOR_UNKNOWN_UNICODE & ~pymupdf.TEXT_PRESERVE_LIGATURES
    turned = page.rotation
    if turned:
        page.set_rotation(0)
    try:
        drawings = page.get_displaylist()
        text = pymupdf.TextPage(drawings.get_textpage(flags))
        seen = _watcher()()
        pymupdf.mupdf.fz_run_display_list(drawings.this, seen, *_unchanged(), pymupdf.mupdf.FzCookie())
        pymupdf.mupdf.fz_close_device(seen)
        return text, seen
    finally:
        if turned:
            page.set_rotation(turned)


_NUMBER = re.compile("[٠-٩۰-۹](?:[٫٬.,]?[٠-٩۰-۹])+")


def _told(text, turn) -> tuple[list[list[Raw]], dict]:
    """`_blocks` of the library's text, its numbers put right."""
    blocks = text.extractDICT()["blocks"]
    told = _blocks(blocks, turn)
    if not _holds_numbers(told[0]):
        return told
    turn_numbers(blocks, text.extractRAWDICT()["blocks"])
    return _blocks(blocks, turn)


def _holds_numbers(told: list[list[Raw]]) -> bool:
    return any(not line.text.isascii() and _NUMBER.search(line.text) for block in told for line in block)


def turn_numbers(blocks: list[dict], letters: list[dict]) -> None:
    """Numbers in Arabic digits that the text holds from the last digit to the first, put right where they stand.

    Old typesetting programs store a line from right to left, its numbers too; a page shows every number from left to right,
    so one whose digits run the other way is read backwards. blocks, letters: the same text by spans, and by single letters.
    """
    for block, lettered in zip(blocks, letters, strict=True):
        for line, apart in zip(block.get("lines", ()), lettered.get("lines", ()), strict=True):
            for span, places in zip(line["spans"], apart["spans"], strict=True):
                chars = places["chars"]
                if len(chars) == len(span["text"]) and line["dir"][0] > 0.9:
                    span["text"] = _NUMBER.sub(partial(_by_place, chars), span["text"])


def _by_place(chars: list[dict], number: re.Match) -> str:
    across = [char["origin"][0] for char in chars[number.start() : number.end()]]
    backwards = all(one > two for one, two in pairwise(across))
    return number[0][::-1] if backwards else number[0]


@lru_cache
def _unchanged() -> tuple:
    from pymupdf import mupdf

    return mupdf.FzMatrix(), mupdf.FzRect(mupdf.FzRect.Fixed_INFINITE)


@lru_cache
def _watcher() -> type:
    """A device that counts paths and keeps the boxes of images: what it does not ask for costs nothing."""
    from pymupdf import mupdf

    class Watcher(mupdf.FzDevice2):
        def __init__(self):
            super().__init__()
            self.images, self.vectors = [], 0
            for name in ("fill_path", "stroke_path", "fill_shade", "fill_image", "fill_image_mask"):
                getattr(self, f"use_virtual_{name}")()

        def fill_path(self, *_):
            self.vectors += 1

        stroke_path = fill_shade = fill_path

        def fill_image(self, _context, _image, matrix, *_):
            box = mupdf.ll_fz_transform_rect(mupdf.fz_unit_rect, matrix)
            self.images.append((box.x0, box.y0, box.x1, box.y1))

        fill_image_mask = fill_image

    return Watcher


def _blocks(found: list[dict], turn) -> tuple[list[list[Raw]], dict]:
    """The lines of each block, and counts for the signals. Blocks and lines without ink are left out."""
    told, counts = [], {"chars": 0, "hidden": 0, "angled": 0, "removed": 0, "ocr_font": False}
    for block in found:
        if "lines" in block:
            lines = [_line(line, turn, counts) for line in block["lines"]]
            kept = [line for line in lines if line.text and not line.text.isspace()]
            if kept:
                told.append(kept)
    return told, counts


def _line(line: dict, turn, counts: dict) -> Raw:
    """One line, its lengths rounded to hundredths of a point. Bold: nearly all of its letters are; bold code is no heading."""
    spans = line["spans"]
    text = spans[0]["text"] if len(spans) == 1 else "".join([span["text"] for span in spans])
    size, total, heavy = _type(spans, counts)
    if not text.isprintable():
        counts["removed"] += harmed(text)
        text = clean(text)[0]
    (x0, y0, x1, y1), (dx, dy) = line["bbox"], line["dir"]
    if turn:
        (x0, y0, x1, y1), dx = _turned(line["bbox"], turn), dx * turn.a + dy * turn.c
    upright = dx > 0.9
    counts["chars"] += total
    if not upright:
        counts["angled"] += total
    box = round(x0 * 100) / 100, round(y0 * 100) / 100, round(x1 * 100) / 100, round(y1 * 100) / 100
    return Raw(text.rstrip(), box, round(size * 100) / 100, heavy > 0.95 * total, upright)


def _type(spans: list[dict], counts: dict) -> tuple[float, int, int]:
    """The size that most of a line's characters are set in, how many there are, and how many of them are heavy."""
    bold, mono, drawn = _span_flags()
    sizes, heavy, total = {}, 0, 0
    for span in spans:
        count, size, flags = len(span["text"].strip()), span["size"], span["flags"]
        total += count
        sizes[size] = sizes.get(size, 0) + count
        if flags & bold and not flags & mono:
            heavy += count
        if not span["char_flags"] & drawn:
            counts["hidden"] += count
            counts["ocr_font"] = counts["ocr_font"] or any(name in span["font"] for name in OCR_FONTS)
    return (size if len(sizes) == 1 else max(sizes, key=sizes.__getitem__)), total, heavy


@lru_cache
def _span_flags() -> tuple[int, int, int]:
    """Flags of the library: bold and monospaced fonts; letters that are drawn in any way."""
    import pymupdf

    drawn = pymupdf.mupdf.FZ_STEXT_FILLED | pymupdf.mupdf.FZ_STEXT_STROKED | pymupdf.mupdf.FZ_STEXT_CLIPPED
    return pymupdf.TEXT_FONT_BOLD, pymupdf.TEXT_FONT_MONOSPACED, drawn


def _turned(box: tuple, turn) -> tuple:
    import pymupdf

    return tuple(pymupdf.Rect(box) * turn)


_BREAKS, _HALVES = re.compile("[\t-\r\x85\u2028\u2029]"), re.compile("[\ud800-\udfff]")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_CONTROL, _TWO = "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f]", r"[^\W\d_]{2}"
_HARMFUL = re.compile(f"(?<={_TWO}){_CONTROL}|{_CONTROL}(?={_TWO}|{_CONTROL})|(?<={_CONTROL}){_CONTROL}")


def harmed(text: str) -> int:
    """How many control characters stand for letters of words, as lost ligatures do: beside two letters, or one another.

    One alone, or beside a single letter, is a bracket of a formula and harms no search.

    >>> harmed("speci\\x0ccation"), harmed("\\x00f(x)\\x01 = \\x02x")
    (1, 0)
    """
    return len(_HARMFUL.findall(text))


def clean(text: str) -> tuple[str, int]:
    """Text without control characters and half surrogates, and how many controls it lost. Line breaks become spaces."""
    if text.isprintable():  # holds none of them
        return text, 0
    return _CONTROLS.subn("", _HALVES.sub("\ufffd", _BREAKS.sub(" ", text)))


def _signals(counts: dict, seen, page, repaired: bool, covered: float) -> dict:
    total = max(1, counts["chars"])
    return _UNSEEN | {
        "image_coverage": _coverage(seen.images, page) if seen.images else 0.0,
        "invisible_text": round(max(counts["hidden"] / total, covered), 4),
        "rotated_text": round(counts["angled"] / total, 4),
        "vectors": seen.vectors,
        "removed_chars": counts["removed"],
        "ocr_font": counts["ocr_font"],
        "repaired": repaired,
    }


_UNSEEN = asdict(Signals())


def _covered(drawings: list, page) -> float:
    """Share of the pieces of text that are drawn before an image as large as the page, which hides them.

    A page drawn over such an image is a slide with a background; a text drawn under one is the OCR of a scan.
    """
    large = [i for i, (kind, box) in enumerate(drawings) if kind in IMAGES and _share(box, page) >= LARGE_IMAGE]
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


def main(arguments: list[str]) -> None:
    path, form, *numbers = arguments
    gc.disable()  # a page makes thousands of small objects, and hardly one of them is part of a circle
    said = told(path, form, *map(int, numbers))
    child.speak(said, memory_bytes=MEMORY_BYTES, cpu_seconds=CPU_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1:])
