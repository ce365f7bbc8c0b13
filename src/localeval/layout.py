"""Lines of pages become a text in reading order, with headings and page furniture found in it. Plain values in, plain values out."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import attrgetter
from typing import NamedTuple

from localeval.corpus import Heading

FURNITURE_ZONE = 0.12  # of the page height, at the top and at the bottom
FURNITURE_PAGES = 3
FURNITURE_GAP = 4  # pages between two showings of one line: left-hand pages only, and a chapter opening without it
FURNITURE_SHARE = 0.4  # of the pages from the first to the last showing
LARGE_FURNITURE_SHARE = 0.9  # for lines in heading size: only what is on nearly every page
LARGER = 1.1  # times the body size: a heading by size alone
HEADING_CHARS, HEADING_LINES, HEADING_LEVELS = 120, 3, 3
HEADING_STYLE_SHARE = 0.2  # a style that sets more of the document than this is body text
OUTLINE_SHARE = 0.6  # an outline is believed when this share of its titles is found on their pages


class Raw(NamedTuple):
    """A line as the page shows it. box: points from the top left corner of the page as displayed. cells: how many
    pieces with wide gaps between them it was joined from (a table row has several)."""

    text: str
    box: tuple[float, float, float, float]
    size: float
    bold: bool
    upright: bool = True
    cells: int = 1


def from_wire(blocks: list[list[Sequence]]) -> list[list[Raw]]:
    """Lines as `localeval.pdfchild` tells them: `[text, x0, y0, x1, y1, size, style]`.

    Lengths are whole hundredths of a point, for they are quicker to write and to read than fractions are. style: 1 for bold,
    plus 2 for a line that runs from left to right, plus 4 for each cell after the first.
    """
    return [
        [
            Raw(text, (x0 / 100, y0 / 100, x1 / 100, y1 / 100), size / 100, *_STYLES[style])
            if style < 4
            else Raw(text, (x0 / 100, y0 / 100, x1 / 100, y1 / 100), size / 100, *_STYLES[style & 3], 1 + (style >> 2))
            for text, x0, y0, x1, y1, size, style in block
        ]
        for block in blocks
    ]


_STYLES = ((False, False), (True, False), (False, True), (True, True))


def to_wire(blocks: list[list[Raw]]) -> list[list[tuple]]:
    """Lines as `from_wire` reads them."""
    return [
        [
            (text, round(x0 * 100), round(y0 * 100), round(x1 * 100), round(y1 * 100), round(size * 100), style)
            for text, (x0, y0, x1, y1), size, bold, upright, cells in block
            for style in [bold + 2 * upright + 4 * (cells - 1)]
        ]
        for block in blocks
    ]


class Shown(NamedTuple):
    """A line at its place in the document text: `[start, end)`. size: rounded to half a point, for sizes differ in the
    second digit from font to font."""

    page: int
    block: int
    start: int
    end: int
    raw: Raw
    size: float


# Reading order and offsets


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
                shown.append(Shown(index, number, start, position, raw, round(raw.size * 2) / 2))
        spans.append((page_start, position))
    return "".join(parts), shown, spans


def arranged(blocks: list[list[Raw]], width: float, height: float = 0.0) -> list[list[Raw]]:
    """The lines of one page as they are read: in order, one line a visual line, letters as letters."""
    rows = [join_rows(block) for block in in_reading_order([fold_forms(block) for block in blocks], width)]
    return join_cells(rows, height)


_FORMS = re.compile(
    "[\ufb00-\ufd3d\ufd50-\ufdff\ufe70-\ufefc]"
)  # ligatures and the shapes of Hebrew and Arabic letters


def fold_forms(block: list[Raw]) -> list[Raw]:
    """Presentation forms as the letters they show: a font's shape of a letter is found by no one who types the letter.

    A mark that stands alone keeps no space in front of it, as its compatibility form would have.
    """
    if all(line.text.isascii() for line in block) or not any(_FORMS.search(line.text) for line in block):
        return block
    letters = lambda shape: unicodedata.normalize("NFKC", shape[0]).lstrip(" ")
    return [line._replace(text=_FORMS.sub(letters, line.text)) for line in block]


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
    leftmost, rightmost = width * 0.35, width * 0.65  # a gap lies between, with five lines on either side
    boxes = [line.box for line in lines]
    beside = [len([box for box in boxes if box[0] >= leftmost]), len([box for box in boxes if box[2] <= rightmost])]
    if len(lines) < 10 or min(beside) < 5:
        return None
    places = [width * step / 100 for step in range(35, 66)]
    changes = [0] * (len(places) + 1)
    for line in lines:  # it crosses the places strictly between its sides
        first, last = bisect_right(places, line.box[0]), bisect_left(places, line.box[2])
        if first < last:
            changes[first] += len(line.text)
            changes[last] -= len(line.text)
    crossing = list(accumulate(changes[:-1]))
    least = min(crossing)
    best = [x for x, count in zip(places, crossing, strict=True) if count == least]
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
    """Pieces of one visual line (a number and its title, the cells of a row) joined from left to right: by a space, or by
    a tab where the gap is as wide as between the cells of a table."""
    if len(block) == 1:
        return block
    joined: list[Raw] = block[:1]
    for line in block[1:]:
        before = joined[-1]
        if line.box[1] >= before.box[3] or not _same_row(before, line):  # by far the most: the next line
            joined.append(line)
        elif line.box[0] >= before.box[2] - 0.5 * line.size:
            joined[-1] = _join(before, line)
        elif line.box[2] <= before.box[0] + 0.5 * line.size and not _mostly_rtl(line.text):
            joined[-1] = _join(line, before)  # a page number stored before its entry
        else:
            joined.append(line)
    return joined


def _same_row(a: Raw, b: Raw) -> bool:
    _, top, _, bottom = a.box
    _, other_top, _, other_bottom = b.box
    overlap = (bottom if bottom < other_bottom else other_bottom) - (top if top > other_top else other_top)
    if overlap <= 0:
        return False
    return a.upright and b.upright and overlap > 0.5 * min(bottom - top, other_bottom - other_top)


def join_cells(blocks: list[list[Raw]], height: float) -> list[list[Raw]]:
    """Cells of one row that the file stores as blocks of their own, joined to one line: only single lines, one after the
    other from left to right, and not at the edges of the page, where running heads stand side by side."""
    joined: list[list[Raw]] = []
    for block in blocks:
        before = joined[-1] if joined else []
        if len(before) == len(block) == 1 and _is_next_cell(before[0], block[0], height):
            joined[-1] = [_join(before[0], block[0])]
        else:
            joined.append(block)
    return joined


def _is_next_cell(a: Raw, b: Raw, height: float) -> bool:
    inside = FURNITURE_ZONE * height < _middle(a.box) < (1 - FURNITURE_ZONE) * height
    return inside and b.box[0] >= a.box[2] and _same_row(a, b) and not _mostly_rtl(a.text + b.text)


def _join(a: Raw, b: Raw) -> Raw:
    gap = b.box[0] - a.box[2]
    main = max(a, b, key=lambda line: len(line.text))
    led = _LEADERS.search(a.text[-8:])  # dots lead from a title to its page number: no border between cells
    wide = gap > 1.5 * b.size and not _NUMBERING.fullmatch(a.text.strip())
    return Raw(
        a.text + ("\t" if wide and not led else " " if gap > 0.15 * b.size else "") + b.text.lstrip(),
        (min(a.box[0], b.box[0]), min(a.box[1], b.box[1]), max(a.box[2], b.box[2]), max(a.box[3], b.box[3])),
        main.size,
        a.bold and b.bold,
        cells=a.cells + (b.cells if wide else 0),
    )


# Words that a line end divides

# Over one line end only: what begins another block or page may be no part of the word.
_SOFT = re.compile("\u00ad+(?:[ \t]*\\n[ \t]*(?=[^\\W\\d_]))?")
_BREAK = re.compile(r"[-‐](?=\n)(?<=[^\W_].)(\n\n?[ \t]*)(?=[^\W_])")  # the hyphen first: it is found quickest
_COMPOUND = r"[^\W_]+(?:['’‐-][^\W_]+)*"
_WORDS, _LAST, _FIRST = re.compile(_COMPOUND), re.compile(_COMPOUND + "$"), re.compile(_COMPOUND)
_CODE_BEFORE, _CODE_AFTER = re.compile(r"[/\\@_.:#=&?%~+]$"), re.compile(r"[/\\@_=(:#?&~+]|\.\w")
WORD = 60  # characters on either side of a line end in which its word is looked for


def mend(text: str, offsets: Sequence[int]) -> tuple[str, list[int]]:
    """The text with its divided words whole again, and where each of the offsets lies in it.

    A soft hyphen goes, with the line break behind it. A hyphen at a line end goes with the break where the word without it
    stands elsewhere in the text, and stays without the break where the word with it does ("wind-powered"); where both do,
    the more frequent form counts, and where nothing tells, the text stays as the page shows it.
    """
    for cuts in (_soft_cuts, _hyphen_cuts):
        found = cuts(text)
        if found:
            text, offsets = _without(text, found), _moved(offsets, found)
    return text, list(offsets)


def _soft_cuts(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in _SOFT.finditer(text)] if "\u00ad" in text else []


def _hyphen_cuts(text: str) -> list[tuple[int, int]]:
    divided = []
    for found in _BREAK.finditer(text):
        word = _divided(text, found.start(), found.end())
        if word and (len(found[1].rstrip(" \t")) == 1 or word[1][0].islower()):
            divided.append((found, *word))
    if not divided:
        return []
    asked = {_told(left + sign + right) for _, left, right in divided for sign in ("", "-")}
    known = Counter()
    for token, count in Counter(_told(text).split()).items():
        for word in [token] if token.isalpha() else _WORDS.findall(token):
            if word in asked:
                known[word] += count
    for _, *halves in divided:
        known.subtract(map(_told, halves))  # the halves themselves prove nothing
    cuts = []
    for found, left, right in divided:
        plain = known[_told(left + right)] if _may_join(left, right) else 0
        hyphenated = known[_told(f"{left}-{right}")]
        if plain != hyphenated:
            cuts.append((found.start() + (hyphenated > plain), found.end()))
    return cuts


def _divided(text: str, start: int, end: int) -> tuple[str, str] | None:
    """What stands before and after a hyphen at a line end; None for numbers, addresses and code, and in scripts without
    capital letters, which do not divide words by hyphens."""
    before, after = text[max(0, start - WORD) : start].split()[-1], text[end : end + WORD].split()[0]
    left, right = _LAST.search(before), _FIRST.match(after)
    if not left or not right:
        return None
    if _CODE_BEFORE.search(before[: left.start()]) or _CODE_AFTER.match(after[right.end() :]):
        return None
    cased = [letter.islower() or letter.isupper() for letter in (left[0][-1], right[0][0])]
    digits = [letter.isdigit() for letter in (left[0][-1], right[0][0])]
    return (left[0], right[0]) if any(cased) and all(map(any, zip(cased, digits, strict=True))) else None


def _may_join(left: str, right: str) -> bool:
    """True where a printer may have set the hyphen: between small letters, or capitals. "Anglo-Saxon" keeps its own."""
    small = left[-1].isalpha() and right[0].islower()
    return small or (left[-1].isupper() and right[:2].isupper() and right.isalpha())


def _told(word: str) -> str:
    return word.casefold().replace("‐", "-").replace("’", "'")


def _without(text: str, cuts: list[tuple[int, int]]) -> str:
    ends = [0, *(end for _, end in cuts)]
    starts = [*(start for start, _ in cuts), len(text)]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _moved(offsets: Sequence[int], cuts: list[tuple[int, int]]) -> list[int]:
    """Where offsets lie after the cuts; those within one, at its place."""
    starts, ends = [start for start, _ in cuts], [0, *(end for _, end in cuts)]
    before = list(accumulate((end - start for start, end in cuts), initial=0))
    passed = ((offset, bisect_left(starts, offset)) for offset in offsets)  # cuts that begin before the offset
    return [(offset if offset > ends[number] else ends[number]) - before[number] for offset, number in passed]


# Furniture: what pages repeat at their top and bottom

_ROMAN = re.compile(r"(?=[mdclxvi])m{0,3}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_ROMAN_WORD, _DIGITS = re.compile(r"\b[ivxlcdm]+\b"), re.compile(r"\d+")
_NUMBERING = re.compile(r"(?:§ ?)?(?:\d{1,3}|[A-Z]|[IVXLC]+)(?:\.\d{1,3})*[.)]?")


def find_furniture(shown: list[Shown], heights: list[float]) -> set[Shown]:
    """Lines at the top and bottom of pages that come back: running heads, footers, page numbers.

    A line comes back when it is shown, digits and roman numerals aside, at the same height and size on at least
    FURNITURE_PAGES pages that make up FURNITURE_SHARE of the pages from first to last: a running head may belong to one
    chapter, or to left-hand pages only. So does a line that begins or ends with a number that counts up with the pages,
    whatever else it says; other lines of numbers alone are cells of a table. What also stands in the middle of
    pages is text ("Examples:").
    """
    body, alike = _body_size(shown), defaultdict(list)
    inner = []  # the lines in the middle of pages
    for line in shown:
        height, middle = heights[line.page], _middle(line.raw.box)
        if not line.raw.upright or FURNITURE_ZONE * height < middle < (1 - FURNITURE_ZONE) * height:
            inner.append(line)
            continue
        from_edge = middle if middle < height / 2 else middle - height
        for key in (_folded(line), *_offsets(line)):
            alike[from_edge > 0, line.size, key].append((from_edge, line))
    runs = []
    for (_, size, key), lines in alike.items():
        if len(lines) < FURNITURE_PAGES:
            continue
        for cluster in _clusters(sorted(lines), lambda item: item[0], 3.0):
            by_page = sorted((line for _, line in cluster), key=lambda line: line.page)
            runs += [(size, key, run) for run in _clusters(by_page, _page_of, FURNITURE_GAP) if _comes_back(run, body)]
    elsewhere = _counted(inner, {(key, size) for size, key, _ in runs})
    return {line for size, key, run in runs if len(run) > elsewhere[key, size] for line in run}


_page_of, _block_of = attrgetter("page"), attrgetter("block")


def _counted(inner: list[Shown], wanted: set[tuple]) -> Counter:
    """How often each `(folded text, size)` that is wanted stands in the middle of pages.

    Folding is slow, and hardly a line can be one of these: size, first and last character tell most of the others apart.
    """
    edges = {(size, key[0], key[-1]) for key, size in wanted if isinstance(key, str)}
    sizes, counts = {size for size, _, _ in edges}, Counter()
    for line in inner:
        size, text = line.size, line.raw.text
        if size in sizes:
            first, last = _edge(text[:1]), _edge(text[-1:])
            if not (first and last) or any((size, a, b) in edges for a in first for b in last):
                counts[_folded(line), size] += 1
    return counts


@lru_cache(maxsize=4096)
def _edge(letter: str) -> str:
    """What the first or last letter of a line may be once the line is folded: a number becomes `#`. Empty for any letter."""
    if letter.isspace() or not letter.isascii():
        return ""
    return letter.casefold() + "#" * (letter.isdigit() or letter.casefold() in set("ivxlcdm"))


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
    folded = _DIGITS.sub("#", _ROMAN_WORD.sub(lambda word: "#" if _roman(word[0]) else word[0], text))
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
    sizes = defaultdict(int)
    for line in shown:
        sizes[line.size] += len(line.raw.text)
    return max(sizes, key=lambda size: (sizes[size], -size), default=0.0)


def find_headings(shown: list[Shown], outline: list = ()) -> tuple[Heading, ...]:
    """Headings in order of the text; `shown` comes without page furniture.

    Where most titles of the document's own outline are found on their pages, those are the headings, at its levels;
    below an outline of one level, smaller headings are added one level deeper. Otherwise headings are short lines that
    are larger than the body or bold, and their sizes give up to HEADING_LEVELS levels.
    """
    found = _outlined(shown, outline)
    if len(found) < max(1, OUTLINE_SHARE * len(outline)):
        groups = list(heading_groups(shown))
        levels = _levels_from_size(groups)
        found = [(group, levels[group[0].size]) for group in groups]
    elif {level for _, level in found} == {1}:
        smallest = min(group[0].size for group, _ in found)
        found += [(group, 2) for group in heading_groups(shown) if group[0].size < smallest]
    ends = {line.start: line.end for line in shown}
    headings, end = [], 0
    for group, level in sorted(found, key=lambda item: (item[0][0].start, -len(item[0]))):
        if group[0].start >= end:
            end = group[-1].end
            end = ends.get(
                end, end
            )  # its last word goes on in the next line, which stands next to it since it was mended
            headings.append(Heading(group[0].start, end, level))
    return tuple(headings)


def heading_groups(shown: list[Shown]) -> Iterator[list[Shown]]:
    """Runs of lines of one block and one size that look like a heading, page by page."""
    body, total, used = _body_size(shown), sum(len(line.raw.text) for line in shown), Counter()
    for line in shown:
        used[line.size, line.raw.bold] += len(line.raw.text)
    rare = {style for style, count in used.items() if count <= HEADING_STYLE_SHARE * total}
    for _, lines in groupby(shown, key=_page_of):
        page = list(lines)
        found = [line for line in page if (line.size, line.raw.bold) in rare and _looks_like_heading(line, body)]
        likely, blocks = {line.start for line in found}, {line.block for line in found}
        for number, block in groupby(page, key=_block_of) if found else ():
            if number in blocks:
                yield from (group for group in _runs(list(block), likely, body) if not _in_row(group, page, likely))


def largest_heading(text: str, shown: list[Shown]) -> str:
    """What the largest heading says on the first page that has one; empty where no page has."""
    by_page = groupby(heading_groups(shown), key=lambda group: group[0].page)
    first = next((list(groups) for _, groups in by_page), [])
    best = max(first, key=lambda group: (group[0].size, -group[0].start), default=[])
    return " ".join(text[best[0].start : best[-1].end].split()) if best else ""


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


def _runs(block: list[Shown], likely: set[int], body: float) -> Iterator[list[Shown]]:
    """Headings within a block. Bold lines in body size count only where they open it: emphasis stands in the middle."""
    opening = True
    for (good, size), lines in groupby(block, key=lambda line: (line.start in likely, line.size)):
        run = list(lines)
        if good and len(run) <= HEADING_LINES and (opening or size >= LARGER * body):
            yield run
        opening = opening and good


def _in_row(group: list[Shown], page: list[Shown], likely: set[int]) -> bool:
    """True for a cell: beside it stands another such line, or numbers (a section number to its left excepted)."""
    top, bottom = group[0].raw.box[1], group[-1].raw.box[3]
    near = [line for line in page if line.raw.box[1] < bottom and line.raw.box[3] > top]
    for line in near if len(group) == 1 else page:
        if line.block == group[0].block or not any(_same_row(line.raw, mine.raw) for mine in group):
            continue
        text = line.raw.text.strip()
        if line.raw.box[2] <= group[0].raw.box[0] and line.size == group[0].size and _NUMBERING.fullmatch(text):
            continue
        if line.start in likely or sum(map(str.isalpha, text)) < 0.3 * len(text):
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
    pages = {page: list(lines) for page, lines in groupby(shown, key=_page_of)}
    outlined = {page for _, _, page, _ in outline} & pages.keys()
    keys = {page: [_key(line.raw.text) for line in pages[page]] for page in outlined}
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
            last = keys[min(i + count, len(keys)) - 1]
            ends = last.endswith(wanted) or wanted.endswith(last)
            if ends and _spells("".join(keys[i : i + count]), wanted):
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
