"""Images of pages, drawn in a child process with limits: a page can hold a drawing without end or a picture of any size.

`python -m localeval.scans FILE DPI PAGES` prints one JSON line a page.
"""

from __future__ import annotations

import base64
import contextlib
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

from localeval import child

START_SECONDS = 60.0
PAGE_SECONDS = 30.0  # a page at 200 dpi takes about a tenth of a second, a large picture in it some seconds
MEMORY_BYTES = 2 << 30
CPU_SECONDS = 3600  # for one child: BATCH pages
BATCH = 500  # pages that one child draws
MAX_PIXELS = 40_000_000  # of the image: an A3 page at 400 dpi has 31 million
MAX_EMBEDDED = 150_000_000  # of one picture in the page: an A2 sheet scanned at 600 dpi has 139 million
DPI = (72, 600)  # below, no letter of a page can be read
GIVES_UP = 3  # pages in a row that broke or were too slow; the file's other pages are not tried


class Scan(NamedTuple):
    """The image of a page, a grey PNG at `dpi`; without one, a state of `corpus.READING_STATES` and the reason in words."""

    page: int
    dpi: int | None = None
    png: bytes = b""
    state: str = ""
    reason: str = ""


def images(path: Path, pages: Sequence[int], dpi: int, *, page_seconds: float = PAGE_SECONDS) -> Iterator[Scan]:
    """The image of each page, in order, drawn while the one before is being read; at a lower dpi where the page is huge."""
    waiting, bad = list(pages), 0
    while waiting and bad < GIVES_UP:
        for scan in _drawn_by_one_child(path, waiting[:BATCH], dpi, page_seconds):
            bad = bad + 1 if scan.state in ("failed", "timed_out") else 0
            waiting.pop(0)
            yield scan
            if bad == GIVES_UP:
                break
    yield from (
        Scan(page, state="failed", reason=f"not drawn: the {GIVES_UP} pages before it broke too") for page in waiting
    )


def _drawn_by_one_child(path: Path, pages: list[int], dpi: int, page_seconds: float) -> Iterator[Scan]:
    """Until the pages are drawn or the child is gone; the page at which it stopped is the last one given."""
    command = child.module_command("localeval.scans", str(path.resolve()), str(dpi), ",".join(map(str, pages)))
    try:
        with contextlib.closing(child.messages(command, chain([START_SECONDS], repeat(page_seconds)))) as said:
            for message in said:
                yield Scan(**(message | {"png": base64.b64decode(message.get("png", ""))}))
    except child.TimedOut as late:
        yield Scan(pages[late.heard], state="timed_out", reason=f"drawing the page took longer than {late.seconds:g} s")
    except child.Died as gone:
        reason = "drawing the page took more memory or time than it may, or broke the program that draws"
        yield Scan(pages[gone.heard], state="failed", reason=reason)


# The child


def _told(path: str, dpi: int, pages: Iterable[int]) -> Iterator[dict]:
    import pymupdf

    pymupdf.TOOLS.mupdf_display_errors(False)
    document = pymupdf.open(path)
    for index in pages:
        try:
            yield {"page": index} | _image(document.load_page(index), dpi)
        except Exception as error:  # the library raises many kinds, some of them its own
            reason = " ".join(f"the page cannot be drawn ({error})".split())[:160]
            yield {"page": index, "state": "failed", "reason": reason}
    yield {"done": True}


def _image(page, dpi: int) -> dict:
    import pymupdf

    for picture in page.get_image_info():  # known from its header, before anything is unpacked
        if picture["width"] * picture["height"] > MAX_EMBEDDED:
            size = f"{picture['width']} x {picture['height']}"
            return {"state": "failed", "reason": f"a picture of {size} px in it is over the limit; make it smaller"}
    dpi = min(dpi, int(math.sqrt(MAX_PIXELS * 72 * 72 / max(1.0, page.rect.width * page.rect.height))))
    if dpi < DPI[0]:
        size = f"{page.rect.width:.0f} x {page.rect.height:.0f}"
        return {"state": "failed", "reason": f"a page of {size} points is too large to be read by OCR"}
    drawn = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY, alpha=False)
    if drawn.is_unicolor:
        return {"state": "no_ink", "reason": "the page is of one colour"}
    return {"dpi": dpi, "png": base64.b64encode(drawn.tobytes("png")).decode()}


if __name__ == "__main__":
    wanted = map(int, sys.argv[3].split(","))
    child.speak(_told(sys.argv[1], int(sys.argv[2]), wanted), memory_bytes=MEMORY_BYTES, cpu_seconds=CPU_SECONDS)
