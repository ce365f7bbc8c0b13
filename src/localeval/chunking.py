"""Chunkers: a document in, chunk units out. A chunk is a span; its text is the slice, by construction.

Every chunker takes `(document, layout, max_chars, overlap)`, or `(document, layout, max_tokens, overlap_tokens)`, and returns units in
order of their start. No unit lies wholly inside another, none is blank.
"""

from __future__ import annotations

import inspect
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from localeval.corpus import Heading, Layout
from localeval.records import BadInput, Document, Span, Unit, near
from localeval.tokens import token_ranges

Range = tuple[int, int]

# A full stop after one of these, after initials, or after a bare number that starts a line does not end a sentence. The last row is
# Turkish and German.
ABBREVIATIONS = frozenset((
    "approx", "art", "cf", "ch", "co", "dr", "e.g", "eq", "etc", "fig", "figs", "i.e", "inc", "jr", "mr", "mrs", "ms",
    "no", "nos", "op", "p", "pp", "prof", "ref", "sec", "sr", "st", "tab", "vol", "vs",
    "abb", "bkz", "bzw", "d.h", "nr", "vgl", "yy", "z.b", "örn",
))  # fmt: skip
# A run of stops is tried once, from its first, so that dotted lines cost no more than others. Chinese and Japanese put no space after.
_STOP = re.compile(r"(?<![.!?؟।])[.!?؟।]++[\"'”’)\]]*+(?=\s)|(?<![。！？｡])[。！？｡]++[”’」』）]*+|\n[ \t]*\n")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)


def _check(max_chars: int, overlap: int) -> None:
    if max_chars < 1 or not 0 <= overlap < max_chars:
        raise BadInput(
            f"chunks of max_chars={max_chars} with overlap={overlap} cannot advance: need 0 <= overlap < max_chars"
        )


def sentences(text: str, start: int = 0, end: int | None = None) -> Iterator[Range]:
    """Offsets of the sentences of `text[start:end]`, without the white space between them.

    Ends at `. ! ?` before white space, at the full stops of other scripts and at blank lines; not after abbreviations and
    initials, and not inside a fenced block of code.
    """
    end = len(text) if end is None else end
    at, fences = start, _fences(text)
    for stop in _STOP.finditer(text, start, end):
        place = bisect_right(fences, (stop.start(),))
        if place and stop.start() < fences[place - 1][1]:
            continue
        if text[stop.start()] != "\n" and _is_abbreviation(text, at, stop.start()):
            continue
        yield from _trimmed(text, at, stop.end())
        at = stop.end()
    yield from _trimmed(text, at, end)


@lru_cache(maxsize=4)
def _fences(text: str) -> list[Range]:
    return [block.span() for block in _FENCE.finditer(text)] if "```" in text or "~~~" in text else []


def _is_abbreviation(text: str, start: int, stop: int) -> bool:
    if text[stop] != ".":
        return False
    before = re.search(r"[\w.]+$", text[max(start, stop - 12) : stop])
    if not before:
        return False
    word = before[0]
    initial = all(len(part) == 1 and part.isupper() for part in word.split("."))
    numbered = word.replace(".", "").isdigit() and not text[start : stop - len(word)].strip()
    return initial or numbered or word.lower() in ABBREVIATIONS


def _trimmed(text: str, start: int, end: int) -> Iterator[Range]:
    """The range without white space at its ends; nothing when it is blank."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end


def _split_long(text: str, piece: Range, max_chars: int) -> Iterator[Range]:
    """Cuts one over-long sentence or table: at the last line break that fits, else the last space, else anywhere."""
    start, end = piece
    while end - start > max_chars:
        window = text[start : start + max_chars + 1]
        cut = max(window.rfind("\n"), 0) or max(window.rfind(" "), 0) or max_chars
        yield from _trimmed(text, start, start + cut)
        start += cut
    yield from _trimmed(text, start, end)


def _pack(text: str, pieces: Iterable[Range], max_chars: int, overlap: int) -> Iterator[Range]:
    """Fills chunks with whole sentences, greedily. Each next chunk starts `overlap` characters before the last one's end.

    Sentences are cut to leave room for the overlap, so that no chunk exceeds `max_chars`; where white space between two
    sentences takes that room, the overlap is shorter by as much.
    """
    start = end = None
    for piece in pieces:
        for low, high in _split_long(text, piece, max_chars - overlap):
            if start is not None and high - start > max_chars:
                yield start, end
                start = max(end - overlap, high - max_chars) if overlap else low
            start, end = (low if start is None else start), high
    if start is not None:
        yield start, end


def fixed(document: Document, layout: Layout, max_chars: int = 700, overlap: int = 100) -> list[Unit]:
    """Windows of `max_chars` characters, each starting `overlap` before the last one's end, wherever that falls."""
    _check(max_chars, overlap)
    length, step = len(document.text), max_chars - overlap
    starts = range(0, max(length - overlap, 1), step)
    windows = [(at, min(at + max_chars, length)) for at in starts]
    return _units(document, layout, windows)


def sentence(document: Document, layout: Layout, max_chars: int = 700, overlap: int = 0) -> list[Unit]:
    """Whole sentences packed up to `max_chars`, across section borders. A longer sentence or table is cut at a line break."""
    _check(max_chars, overlap)
    return _units(document, layout, _pack(document.text, sentences(document.text), max_chars, overlap))


def recursive(document: Document, layout: Layout, max_chars: int = 700, overlap: int = 0) -> list[Unit]:
    """Paragraphs packed up to `max_chars`; one that is too long by its lines, a line by its sentences, a sentence by its words."""
    _check(max_chars, overlap)
    whole = (0, len(document.text))
    pieces = _broken(document.text, whole, max_chars - overlap, (_paragraphs, _lines, sentences))
    return _units(document, layout, _pack(document.text, pieces, max_chars, overlap))


def _broken(text: str, piece: Range, max_chars: int, ways: tuple) -> Iterator[Range]:
    """The piece, or its parts, each divided only as far as it must be to fit."""
    if piece[1] - piece[0] <= max_chars or not ways:
        yield from _trimmed(text, *piece)
        return
    for part in ways[0](text, *piece):
        yield from _broken(text, part, max_chars, ways[1:])


def _paragraphs(text: str, start: int, end: int) -> Iterator[Range]:
    return _parted(re.compile(r"\n[ \t]*\n"), text, start, end)


def _lines(text: str, start: int, end: int) -> Iterator[Range]:
    return _parted(re.compile(r"\n"), text, start, end)


def _parted(border: re.Pattern, text: str, start: int, end: int) -> Iterator[Range]:
    at = start
    for found in border.finditer(text, start, end):
        yield from _trimmed(text, at, found.start())
        at = found.end()
    yield from _trimmed(text, at, end)


def tokens(document: Document, layout: Layout, max_tokens: int = 150, overlap_tokens: int = 20) -> list[Unit]:
    """Windows of `max_tokens` tokens, each starting `overlap_tokens` before the last one's end.

    A token is a run of letters and digits, one letter of a script without spaces, or one other sign; no model's own tokens, so
    that chunks do not depend on a model.
    """
    if max_tokens < 1 or not 0 <= overlap_tokens < max_tokens:
        raise BadInput(
            f"chunks of max_tokens={max_tokens} with overlap_tokens={overlap_tokens} cannot advance: need 0 <= overlap_tokens < max_tokens"
        )
    found = list(token_ranges(document.text))
    starts = range(0, max(len(found) - overlap_tokens, 1), max_tokens - overlap_tokens) if found else ()
    windows = [found[at : at + max_tokens] for at in starts]
    return _units(document, layout, [(window[0][0], window[-1][1]) for window in windows])


def section(document: Document, layout: Layout, max_chars: int = 1500, overlap: int = 150) -> list[Unit]:
    """Sentences packed up to `max_chars` inside each section, never across a heading; context is the heading path.

    A heading with nothing below it but the next heading begins the next section's first chunk.
    """
    _check(max_chars, overlap)
    units, waiting = [], None
    lines = {heading.start: heading.end for heading in layout.headings}
    for start, end, path in sections(document, layout):
        begin = start if waiting is None else waiting
        bare = start in lines and not document.text[lines[start] : end].strip()
        if bare and end < len(document.text):
            waiting = begin
            continue
        waiting, context = None, " > ".join(_unique([layout.title, *path]))
        ranges = _pack(document.text, sentences(document.text, begin, end), max_chars, overlap)
        units += [Unit(Span(document.doc_id, *one), "chunk", path[-1] if path else "", context) for one in ranges]
    return _not_nested(units)


def hierarchical(document: Document, layout: Layout, max_chars: int = 700, overlap: int = 0) -> list[Unit]:
    """As `section`, but the headings stand in the context alone: a chunk holds text below its heading, and a heading without text
    gives none. The rule of published studies on wiki articles."""
    _check(max_chars, overlap)
    units, lines = [], {heading.start: heading.end for heading in layout.headings}
    for start, end, path in sections(document, layout):
        context = " > ".join(_unique([layout.title, *path]))
        body = sentences(document.text, lines.get(start, start), end)
        ranges = _pack(document.text, body, max_chars, overlap)
        units += [Unit(Span(document.doc_id, *one), "chunk", path[-1] if path else "", context) for one in ranges]
    return _not_nested(units)


def sections(document: Document, layout: Layout) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """`(start, end, heading path)` of the text under each heading, its own line included; text before the first has no path."""
    headings = sorted(layout.headings, key=lambda heading: heading.start)
    marks = [Heading(0, 0, 0), *headings, Heading(len(document.text), len(document.text), 0)]
    path: list[Heading] = []
    for heading, following in pairwise(marks):
        if heading.level:
            path = [*(above for above in path if above.level < heading.level), heading]
        if following.start > heading.start:
            yield heading.start, following.start, tuple(_heading_text(document, one) for one in path)


def _heading_text(document: Document, heading: Heading) -> str:
    return " ".join(document.text[heading.start : heading.end].lstrip("# ").strip("= ").split())


def _unique(parts: Iterable[str]) -> list[str]:
    return [part for part in dict.fromkeys(parts) if part]


def _units(document: Document, layout: Layout, ranges: Iterable[Range]) -> list[Unit]:
    units = [
        Unit(Span(document.doc_id, start, end), "chunk", context=layout.title)
        for start, end in ranges
        if document.text[start:end].strip()
    ]
    return _not_nested(units)


def _not_nested(units: list[Unit]) -> list[Unit]:
    """Drops a unit that lies wholly inside its neighbour."""
    kept: list[Unit] = []
    for unit in units:
        if kept and kept[-1].span.contains(unit.span):
            continue
        if kept and unit.span.contains(kept[-1].span):
            kept.pop()
        kept.append(unit)
    return kept


Chunker = Callable[..., list[Unit]]
CHUNKERS: dict[str, Chunker] = {
    "fixed": fixed, "tokens": tokens, "sentence": sentence, "recursive": recursive, "section": section,
    "hierarchical": hierarchical,
}  # fmt: skip


def chunk_corpus(corpus, chunkers: dict[str, dict]) -> dict[str, list[Unit]]:
    """`{"section": {"max_chars": 1500, "overlap": 150}}` -> chunk units of all documents per chunker.

    A name may carry a suffix to run one chunker twice: `section-700: {...}`.
    """
    made = {}
    if not chunkers:
        raise BadInput("chunkers: name at least one, as in section: {max_chars: 1500, overlap: 150}")
    for name, options in chunkers.items():
        kind = name.partition("-")[0]
        if kind not in CHUNKERS:
            raise BadInput(f"unknown chunker {name!r}; known: {', '.join(CHUNKERS)} (a suffix may follow: section-700)")
        if not isinstance(options, dict | None) or not all(type(value) is int for value in (options or {}).values()):
            raise BadInput(
                f"chunker {name!r}: expected {{max_chars: 1500, overlap: 150}}, whole numbers, found {options!r}"
            )
        known = list(inspect.signature(CHUNKERS[kind]).parameters)[2:]
        for option in options or {}:
            if option not in known:
                raise BadInput(
                    f"chunker {name!r}: unknown option {option!r}{near(option, known)}; known: {', '.join(known)}"
                )
        made[name] = [
            unit
            for doc in corpus.documents
            for unit in CHUNKERS[kind](doc, corpus.layouts[doc.doc_id], **(options or {}))
        ]
    return made


def describe(chunks: dict[str, list[Unit]], corpus):
    """One row a chunker: chunks, their length in characters, and how many repeat the text of another chunk exactly."""
    import pandas as pd

    rows = []
    for name, units in chunks.items():
        lengths = pd.Series([len(unit.span) for unit in units], dtype=float)
        repeats = len(units) - len({corpus.text(unit.span) for unit in units})
        rows.append((name, len(units), lengths.mean(), lengths.median(), lengths.max(), repeats))
    return pd.DataFrame(rows, columns=["chunker", "chunks", "mean_chars", "median_chars", "max_chars", "exact_repeats"])


def indexed_text(unit: Unit, corpus) -> str:
    """What an engine indexes: context, then the unit's text without page furniture."""
    text, at = corpus[unit.span.doc_id].text, unit.span.start
    kept = []
    for start, end in corpus.layouts[unit.span.doc_id].boilerplate:
        if start < unit.span.end and end > at:
            kept.append(text[at : max(at, start)])
            at = min(end, unit.span.end)
    kept.append(text[at : unit.span.end])
    body = "".join(kept).strip()
    return f"{unit.context}\n{body}" if unit.context else body
