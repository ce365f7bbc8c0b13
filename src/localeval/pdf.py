"""A PDF becomes one text and a layout: pages with their labels, lines with boxes, headings, page furniture, signals.

A PDF can hang its parser or eat all memory, and the parser holds the interpreter lock while it does. So the file is
opened only in a child process with limits (`localeval.pdfchild`), and the process that asks never imports the PDF
library: it reads one JSON line a page, stops the child when a page takes too long, and works out reading order, headings
and furniture from plain values.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, repeat
from pathlib import Path

from localeval import child, pagecache, pdfchild
from localeval.corpus import Layout, Line, Page, Reading, Signals, make_document
from localeval.layout import (
    Raw,
    Shown,
    arranged,
    find_furniture,
    find_headings,
    from_wire,
    largest_heading,
    lay_out,
    mend,
)
from localeval.records import BadInput, Document

START_SECONDS = 60.0  # until the file is open: the child imports the library and may have to repair the file
PAGE_SECONDS = 20.0  # a dense page takes milliseconds; a page this slow is broken or hostile
RESTARTS = 3  # of a child that a page stopped; more than this, and the file is refused
LARGE_BYTES = 4 << 20  # a file from here on is worth a second process

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
Progress = Callable[[int, int], None]  # pages done, pages in all


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Looks for no circles among objects meanwhile; afterwards as the caller had it.

    A file becomes hundreds of thousands of small objects, none of them part of a circle, and each search goes through all.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read(
    path: Path,
    doc_id: str,
    language: str = "en",
    *,
    page_seconds: float = PAGE_SECONDS,
    reread: Sequence[Reread] = (),
    workers: int | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Document, Layout]:
    """The text of a PDF and its layout. Pages that hold no text are empty pages, never missing ones.

    reread: converters and OCR engines that may find a better text for a page; each is asked in turn. workers: processes
    that read, each one range of pages; None: `default_workers`. cache: a folder that keeps what the PDF library said.
    Raises `BadInput` for what is not a PDF, is locked, damaged or without pages, or takes too long. A damaged file of
    which pages could be recovered is read, and `Layout.notes` says so.
    """
    source = _source(path)
    options = {"workers": workers, "cache": cache, "progress": progress}
    header, pages = _gathered(path, _wire(path, page_seconds, "boxes" if reread else "lines", **options))
    readings = [Reading()] * len(pages)
    if reread:
        pages = list(map(_open, pages))
    for again in reread:
        readings = again(path, pages, readings)
    text, layout = _composed(path, doc_id, header, pages, readings)
    return make_document(doc_id, text, source, language), layout


@_uncollected()
def _composed(path: Path, doc_id: str, header: dict, pages: list[dict], readings: list[Reading]) -> tuple[str, Layout]:
    notes, signals = _notes(header, pages), tuple(Signals(**page["signals"]) for page in pages)
    heights, labels = [page["height"] for page in pages], [page["label"] for page in pages]
    sizes = [(page["width"], page["height"]) for page in pages]
    text, shown, spans = laid_out(pages)
    furniture = find_furniture(shown, heights)
    hidden = {index for index, page in enumerate(signals) if page.invisible_text > 0.5}  # sizes are guesses
    edges = {line.start for line in furniture}
    body = [line for line in shown if line.start not in edges and line.page not in hidden]
    layout = Layout(
        doc_id,
        _title(header["title"], body, text, path),
        tuple(Page(i, *one[0], *one[1], *one[2]) for i, one in enumerate(zip(zip(labels), spans, sizes, strict=True))),
        find_headings(body, header["outline"]),
        tuple(sorted((line.start, line.end) for line in furniture)),
        tuple(Line(line.start, line.end, line.page, line.raw.box) for line in shown),
        notes,
        signals,
        tuple(readings),
    )
    return text, layout


@_uncollected()
def pages(
    path: Path,
    doc_id: str,
    language: str = "en",
    *,
    page_seconds: float = PAGE_SECONDS,
    workers: int | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Document, Layout]:
    """The same text as `read` gives, with its pages, signals and notes: no lines, headings or furniture, so that it takes
    less time and memory. Enough for page quality. Raises as `read` does."""
    source = _source(path)
    options = {"workers": workers, "cache": cache, "progress": progress}
    header, found = _gathered(path, _wire(path, page_seconds, "text", **options))
    text, at = "\n\n".join(page["text"] for page in found), 0
    ends = []
    for page in found:
        ends += (at, at + len(page["text"]))
        at = ends[-1] + 2
    text, ends = mend(text, ends)
    spans = zip(ends[::2], ends[1::2], strict=True)
    layout = Layout(
        doc_id,
        _title(header["title"], [], text, path),
        tuple(
            Page(i, page["label"], *span, page["width"], page["height"])
            for i, (page, span) in enumerate(zip(found, spans, strict=True))
        ),
        notes=_notes(header, found),
        signals=tuple(Signals(**page["signals"]) for page in found),
        readings=(Reading(),) * len(found),
    )
    return make_document(doc_id, text, source, language), layout


@_uncollected()
def _gathered(path: Path, said: Iterator[dict]) -> tuple[dict, list[dict]]:
    with contextlib.closing(said):
        header, *pages = said
    if len(pages) != header["pages"]:
        raise BadInput(f"{path}: {len(pages)} of {header['pages']} pages were read; export it again")
    if all("lost" in page for page in pages):
        raise BadInput(f"{path}: {pages[0]['lost']}")
    return header, pages


def laid_out(pages: list[dict]) -> tuple[str, list[Shown], list[tuple[int, int]]]:
    """Text, lines and pages at their offsets, words mended. pages: as `messages` tells them, of which "blocks", "width" and
    "height" are read; or with "wire", lines in reading order as a child writes them. The lines of the pages are used up:
    they are the largest part."""
    text, shown, spans = lay_out(map(_in_order, pages))
    offsets = [*(line.start for line in shown), *(line.end for line in shown), *chain.from_iterable(spans)]
    mended, moved = mend(text, offsets)
    if len(mended) == len(text):
        return text, shown, spans
    starts, ends, edges = moved[: len(shown)], moved[len(shown) : 2 * len(shown)], moved[2 * len(shown) :]
    shown = [
        Shown(line.page, line.block, start, end, line.raw, line.size)
        for line, start, end in zip(shown, starts, ends, strict=True)
    ]
    return mended, shown, list(zip(edges[::2], edges[1::2], strict=True))


def _in_order(page: dict) -> list[list[Raw]]:
    if "wire" in page:
        return from_wire(page.pop("wire"))
    blocks = [[Raw(text, tuple(box), *rest) for text, box, *rest in block] for block in page.pop("blocks")]
    return arranged(blocks, page["width"], page["height"])


def _open(page: dict) -> dict:
    """A page as `messages` tells it, with "blocks" of `[text, box, size, bold, upright]`."""
    blocks = [[list(line[:5]) for line in block] for block in from_wire(page["wire"])]
    return {name: value for name, value in page.items() if name != "wire"} | {"blocks": blocks}


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
    if header["dropped"]:
        notes.append(
            f"its list of pages holds {header['dropped']} more than it counts, which are not read; export it again"
        )
    if header["restricted"]:
        notes.append("encrypted without a password to open it; its permissions may restrict copying")
    unreadable = [i for i, page in enumerate(pages, 1) if page["signals"]["unreadable"]]
    if unreadable:
        notes.append(f"text could not be read on {_listed(unreadable)} of {len(pages)} (counted from 1)")
    notes += [page["lost"] for page in pages if "lost" in page]
    drawn = [i for i, page in enumerate(pages, 1) if not _has_text(page) and _has_ink(page["signals"])]
    if drawn:
        notes.append(f"no text layer on {_listed(drawn)} of {len(pages)} (counted from 1): images or drawings only")
    return tuple(notes)


def _has_text(page: dict) -> bool:
    return any(page.get(form) for form in ("wire", "blocks", "text"))


def _has_ink(signals: dict) -> bool:
    return signals["image_coverage"] > 0 or signals["vectors"] > 0


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
    return ("page " if len(numbers) == 1 else "pages ") + shown


def _title(metadata: str, shown: list[Shown], text: str, path: Path) -> str:
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
    return largest_heading(text, shown) or path.stem


def pace(say: Callable[[str], None], clock: Callable[[], float] = time.monotonic, every: float = 1.0) -> Progress:
    """A `progress` that says at most once in `every` seconds how far it is: "120 of 2415 pages, 410 pages/s, 6 s left"."""
    start = said = clock()

    def tell(done: int, total: int) -> None:
        nonlocal said
        now = clock()
        if now - said >= every:
            said, rate = now, done / (now - start)
            say(f"{done} of {total} pages, {rate:.0f} pages/s, {math.ceil((total - done) / rate)} s left")

    return tell


# The bounded children, seen from outside


def default_workers(path: Path) -> int:
    """Two processes for a large file where there are two processors; else one, for a process takes time to begin."""
    return 2 if path.stat().st_size >= LARGE_BYTES and (os.cpu_count() or 1) > 1 else 1


def messages(path: Path, page_seconds: float = PAGE_SECONDS) -> Iterator[dict]:
    """What the PDF library says about a file: a header, then each page as plain values. Raises `BadInput`.

    A page has "label", "width", "height", "signals", and "blocks" of lines `[text, box, size, bold, upright]`. One that hung or
    broke the parser is `unreadable`, and "lost" says why; those after it are read by another process, RESTARTS times at most.
    """
    with contextlib.closing(_wire(path, page_seconds, "boxes")) as said:
        yield next(said)
        yield from map(_open, said)


def _wire(
    path: Path,
    page_seconds: float,
    form: str,
    workers: int | None = 1,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[dict]:
    """The same as the children tell it, from the cache or from as many of them as there are workers."""
    kept = pagecache.entry(cache, path, form) if cache else None
    said = pagecache.read(kept) if kept else None
    if said is None:
        said = _side_by_side(path, page_seconds, form, workers or default_workers(path))
        said = pagecache.kept(kept, said) if kept else said
    done, total, repaired = -1, 0, False
    with contextlib.closing(said):
        for message in said:
            if done < 0:
                total, repaired = message["pages"], message["repaired"]
            else:
                repaired = repaired or message["signals"]["repaired"]
                message["signals"]["repaired"] = repaired  # whichever process saw the damage first
            done += 1
            yield message
            if progress and done:
                progress(done, total)


def _side_by_side(path: Path, page_seconds: float, form: str, workers: int) -> Iterator[dict]:
    """The header and all pages in order, from one child for each range of pages; all of them run at once."""
    if workers == 1:
        yield from _part(path, page_seconds, form, 0, 1)
        return
    stop, heard = threading.Event(), [queue.SimpleQueue() for _ in range(workers)]
    threads = [
        threading.Thread(target=_listen, args=(_part(path, page_seconds, form, part, workers, stop), out), daemon=True)
        for part, out in enumerate(heard)
    ]
    for thread in threads:
        thread.start()
    try:
        for part, out in enumerate(heard):
            for number, message in enumerate(iter(out.get, None)):
                if isinstance(message, BaseException):
                    raise message
                if number or not part:  # the other headers say the same
                    yield message
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _listen(said: Iterator[dict], out: queue.SimpleQueue) -> None:
    try:
        for message in said:
            out.put(message)
        out.put(None)
    except BaseException as error:  # the thread that reads the queue raises it
        out.put(error)


def _part(
    path: Path, page_seconds: float, form: str, part: int, parts: int, stop: threading.Event | None = None
) -> Iterator[dict]:
    """One range of pages, from as many children as it takes: a page that ends one is told as lost, and the next goes on."""
    header, at, restarts = None, 0, 0
    while header is None or at < header["end"]:
        first = [] if header is None else [str(at)]
        command = child.module_command(pdfchild.__name__, str(path.resolve()), form, str(part), str(parts), *first)
        try:
            with contextlib.closing(
                child.messages(command, chain([START_SECONDS], repeat(page_seconds)), stop=stop)
            ) as said:
                for number, message in enumerate(said):
                    if "refused" in message:
                        raise BadInput(f"{path}: {REFUSALS[message['refused']].format(message['detail'])}")
                    if number:
                        at += 1
                        yield message
                    elif header is None:
                        header, at = message, message["first"]
                        yield message
            return
        except (child.TimedOut, child.Died) as error:
            why = _why(error, at, header is None)
            restarts += 1
            if header is None or at >= header["end"] or restarts > RESTARTS:
                raise BadInput(f"{path}: {why}") from None
        empty = {"text": ""} if form == "text" else {"wire": []}
        signals = asdict(Signals(unreadable=True))
        yield {"label": str(at + 1), "width": 0.0, "height": 0.0, **empty, "signals": signals, "lost": why}
        at += 1


def _why(error: child.TimedOut | child.Died, at: int, opening: bool) -> str:
    if isinstance(error, child.TimedOut):
        return REFUSALS["slow"].format("opening it" if opening else f"page {at + 1}", error.seconds)
    return REFUSALS["stopped"].format(f"{at} pages")
