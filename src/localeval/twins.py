"""Twins of a corpus: the same pages as an OCR engine read them, and where each character of the source went.

A twin keeps the document ids, pages and questions of its source; only the text differs. So a question can be scored on both
with the same evidence, and the difference is due to the text: a paired experiment. What engines read comes from files of
records (`localeval.ocr`), so nobody needs the engines.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from localeval import ocr, pdf, quality
from localeval.corpus import Corpus, Layout, Line, Page, Reading, Signals, make_document
from localeval.gold import fold
from localeval.layout import find_furniture, find_headings, largest_heading
from localeval.records import BadInput, Document, Evidence, Query, Span

ANCHOR = 12  # letters in a row that stand once in both texts: about two words
APART = 100  # characters; matches further from their neighbours than this are another piece
STRAY = 0.1  # of the matched letters of a span: a smaller piece apart from the rest is chance
MIN_SHARE = 0.5  # of the letters of a span: with fewer it counts as lost


# Alignment of two texts


class Alignment(NamedTuple):
    """Where the characters of one text stand in another; arrays as long as the first.

    places: offset in the other text, -1 where nothing stands for the character. kept: True where it is the same letter,
    False where another one stands in its place. letters: True for all but white space.
    """

    places: np.ndarray
    kept: np.ndarray
    letters: np.ndarray


class Found(NamedTuple):
    """A span in the twin. share: of its letters that are the same there, from 0 to 1; 0 for a span without letters."""

    start: int
    end: int
    share: float


def align(source: str, twin: str) -> Alignment:
    """Aligns two texts letter by letter, white space aside, whatever the order of their parts.

    Runs of `ANCHOR` letters that stand exactly once in both texts come first, wherever they stand: columns may be read in
    another order. What lies between two of them is aligned by edit distance with what lies beside their partners.
    """
    one, two = _letters(source), _letters(twin)
    partner, same = np.full(len(one.text), -1), np.zeros(len(one.text), bool)
    free = np.ones(len(two.text), bool)
    for i, j, length in _anchors(one, two):
        ours, theirs = np.arange(i, i + length), np.arange(j, j + length)
        open_ = (partner[ours] < 0) & free[theirs]
        partner[ours[open_]], same[ours[open_]], free[theirs[open_]] = theirs[open_], True, False
    for start, end in list(_runs(partner < 0)):
        _fill(one.text, two.text, start, end, partner, same, free)
    places, kept = np.full(len(source), -1), np.zeros(len(source), bool)
    found = np.flatnonzero(partner >= 0)[::-1]  # backwards: of a letter that folds to several, the first decides
    places[one.offsets[found]], kept[one.offsets[found]] = two.offsets[partner[found]], same[found]
    return Alignment(places, kept, _not_space(source))


class _Letters(NamedTuple):
    """opens: whether a word begins here; one more than there are letters, True at the end."""

    text: str
    offsets: np.ndarray
    opens: np.ndarray


def _letters(text: str) -> _Letters:
    """The text folded for matching, without white space, and the raw offset of each letter."""
    folded, offsets = fold(text)
    kept = [at for at, char in enumerate(folded) if not char.isspace()]
    opens = [at == 0 or folded[at - 1].isspace() for at in kept]
    letters = "".join(folded[at] for at in kept)
    return _Letters(letters, np.array([offsets[at] for at in kept], int), np.array([*opens, True], bool))


def _anchors(one: _Letters, two: _Letters) -> Iterator[tuple[int, int, int]]:
    """`(start, start, length)` of runs of both texts made of pieces that stand once in each, in whole words of the first: the
    next word may begin with the same letter by chance."""
    ours, theirs = _once_only(one.text), _once_only(two.text)
    pairs = sorted((at, theirs[piece]) for piece, at in ours.items() if piece in theirs)
    cuts = [number for number, ((a, b), (c, d)) in enumerate(pairwise(pairs), 1) if (c - a, d - b) != (1, 1)]
    for first, last in pairwise([0, *cuts, len(pairs)] if pairs else []):
        i, j = pairs[first]
        end = i + last - first + ANCHOR - 1
        start, stop = _whole_words(one.opens, i, end)
        if start < stop:
            yield start, j + start - i, stop - start


def _whole_words(opens: np.ndarray, start: int, end: int) -> tuple[int, int]:
    """The run cut to whole words; where no word begins within `ANCHOR` letters of an end (scripts without spaces) that end stays."""
    first = next((at for at in range(start, min(start + ANCHOR, end)) if opens[at]), start)
    last = next((at for at in range(end, max(end - ANCHOR, start), -1) if opens[at]), end)
    return first, last


def _once_only(text: str) -> dict[str, int]:
    counts = Counter(text[at : at + ANCHOR] for at in range(len(text) - ANCHOR + 1))
    pieces = ((text[at : at + ANCHOR], at) for at in range(len(text) - ANCHOR + 1))
    return {piece: at for piece, at in pieces if counts[piece] == 1}


def _runs(wanted: np.ndarray) -> Iterator[tuple[int, int]]:
    """`[start, end)` of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wanted.astype(np.int8), [0]])))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _fill(one: str, two: str, start: int, end: int, partner, same, free) -> None:
    """Aligns a run between two anchors with the free letters beside the partners of its neighbours."""
    from rapidfuzz.distance import Levenshtein

    before = partner[start - 1] + 1 if start else 0
    after = partner[end] if end < len(one) else len(two)
    low, high = before, after
    while low < len(two) and free[low]:
        low += 1
    while high > 0 and free[high - 1]:
        high -= 1
    one_gap = before <= after <= low
    there = np.arange(before, after) if one_gap else np.r_[before:low, high:after].astype(int)
    if not len(there):
        return
    pieces = Levenshtein.opcodes(one[start:end], "".join(two[at] for at in there))
    alike = sum(piece.src_end - piece.src_start for piece in pieces if piece.tag == "equal")
    if 2 * alike < min(end - start, len(there)):
        return  # so little is alike by chance: other text stands here
    for piece in pieces:
        if piece.tag in ("equal", "replace"):
            ours = np.arange(start + piece.src_start, start + piece.src_end)
            theirs = there[piece.dest_start : piece.dest_end]
            partner[ours], same[ours], free[theirs] = theirs, piece.tag == "equal", False


def find(alignment: Alignment, start: int, end: int) -> Found:
    """Where the span `[start, end)` of the source stands in the twin, from its first to its last matched letter.

    A few letters that were matched far from all others do not count: they are chance.
    """
    letters = alignment.letters[start:end]
    matched = np.flatnonzero(letters & (alignment.places[start:end] >= 0)) + start
    if not len(matched):
        return Found(0, 0, 0.0)
    matched = matched[np.argsort(alignment.places[matched], kind="stable")]
    places = alignment.places[matched]
    piece = np.concatenate([[0], np.cumsum(np.diff(places) > APART)])
    near = (np.bincount(piece) >= STRAY * len(matched))[piece]
    share = alignment.kept[matched[near]].sum() / letters.sum()
    return Found(int(places[near][0]), int(places[near][-1]) + 1, float(share))


def align_pages(source: Document, layout: Layout, twin: Document, twin_layout: Layout) -> Alignment:
    """The alignment of two documents, page by page: offsets of the whole texts."""
    places, kept = np.full(len(source.text), -1), np.zeros(len(source.text), bool)
    theirs = {page.index: page for page in twin_layout.pages}
    for page in layout.pages:
        if page.index in theirs:
            other = theirs[page.index]
            part = align(source.text[page.start : page.end], twin.text[other.start : other.end])
            places[page.start : page.end] = np.where(part.places < 0, -1, part.places + other.start)
            kept[page.start : page.end] = part.kept
    return Alignment(places, kept, _not_space(source.text))


def _not_space(text: str) -> np.ndarray:
    return np.array([not char.isspace() for char in text], bool)


# The documents of a twin


def twin_corpus(source: Corpus, records: Iterable[ocr.Record], where: str = "records") -> Corpus:
    """The documents as ingestion would read them from scans of these pages. where: the file, for errors.

    Every page of every document must be recorded, once. Raises `BadInput` for one that is not.
    """
    pages: dict[tuple[str, int], ocr.Record] = {}
    for record in records:
        key = record.document, record.page
        if key in pages:
            raise BadInput(
                f"{where}: page {record.page} of {record.document} is recorded twice; make the records again"
            )
        pages[key] = record
    documents, layouts = [], {}
    for document in source.documents:
        layout = source.layouts[document.doc_id]
        missing = [page.index for page in layout.pages if (document.doc_id, page.index) not in pages]
        if missing or not layout.pages:
            what = f"page_index {missing[0]}" if missing else "any page"
            raise BadInput(f"{where}: no record of {what} of {document.doc_id}; record all pages of the corpus")
        own = [pages[document.doc_id, page.index] for page in layout.pages]
        twin, layouts[document.doc_id] = twin_document(document, layout, own)
        documents.append(twin)
    return Corpus(tuple(documents), layouts, {})


def twin_document(source: Document, layout: Layout, pages: Sequence[ocr.Record]) -> tuple[Document, Layout]:
    """One document from what was read on its pages. A scan has no outline and no title in its file: headings are lines
    that stand larger, and the title is the largest of the first page that has one."""
    text, shown, spans = pdf.laid_out([_as_told(page) for page in pages])
    furniture = find_furniture(shown, [page.height for page in pages])
    edges = {line.start for line in furniture}
    body = [line for line in shown if line.start not in edges]
    made = Layout(
        source.doc_id,
        largest_heading(text, body) or Path(source.doc_id).stem,
        tuple(
            Page(before.index, before.label, *span, page.width, page.height)
            for before, span, page in zip(layout.pages, spans, pages, strict=True)
        ),
        find_headings(body),
        tuple(sorted((line.start, line.end) for line in furniture)),
        tuple(Line(line.start, line.end, line.page, line.raw.box) for line in shown),
        signals=(Signals(image_coverage=1.0),) * len(pages),
        readings=tuple(_reading(page.read) for page in pages),
    )
    return make_document(source.doc_id, text, source.source_sha256.encode(), source.language), made


def _as_told(page: ocr.Record) -> dict:
    """A page as `pdf.messages` tells one, with the blocks that ingestion would make of these words."""
    return {"blocks": ocr.blocks(page.read.words, page.width), "width": page.width, "height": page.height}


def _reading(read: ocr.Recognised) -> Reading:
    about = {"dpi": read.dpi, "language": read.language, "word_confidence": read.confidence, "seconds": read.seconds}
    return Reading("replaced", f"{read.engine} {read.version}", **about)


# The questions of a twin


def lost(doc_id: str) -> Span:
    """The span of evidence that is in no text: empty, so that no unit contains it, and it still counts in every ideal."""
    return Span(doc_id, 0, 0)


def map_queries(
    queries: Sequence[Query], source: Corpus, twin: Corpus, min_share: float = MIN_SHARE
) -> tuple[list[Query], pd.DataFrame]:
    """The same questions with their evidence at its place in the twin; and one row a piece of evidence.

    A piece of which less than `min_share` of the letters survive gets the empty span of `lost`. Columns: query_id,
    evidence (index), doc_id, page_index (from 0, in the source), share, in_text.
    """
    wanted = sorted({item.span.doc_id for query in queries for item in query.evidence})
    sides = {
        doc_id: [part for one in (source, twin) for part in (one[doc_id], one.layouts[doc_id])] for doc_id in wanted
    }
    alignments = {doc_id: align_pages(*side) for doc_id, side in sides.items()}
    mapped, rows = [], []
    for query in queries:
        evidence = []
        for number, item in enumerate(query.evidence):
            doc_id = item.span.doc_id
            span, share = _mapped(item, alignments[doc_id], source, twin)
            kept = share >= min_share and len(span) > 0
            evidence.append(replace(item, span=span if kept else lost(doc_id)))
            rows.append((query.query_id, number, doc_id, source.layouts[doc_id].page_of(item.span), share, kept))
        mapped.append(replace(query, evidence=tuple(evidence)))
    columns = ["query_id", "evidence", "doc_id", "page_index", "share", "in_text"]
    return mapped, pd.DataFrame(rows, columns=columns)


def _mapped(item: Evidence, alignment: Alignment, source: Corpus, twin: Corpus) -> tuple[Span, float]:
    """Place and surviving share. Whole pages and documents stay what they are, however little of them survives."""
    doc_id = item.span.doc_id
    found = find(alignment, item.span.start, item.span.end)
    if item.kind == "document":
        return Span(doc_id, 0, len(twin[doc_id].text)), found.share
    if item.kind == "page":
        index = source.layouts[doc_id].page_of(item.span)
        page = next(page for page in twin.layouts[doc_id].pages if page.index == index)
        return Span(doc_id, page.start, page.end), found.share
    return Span(doc_id, found.start, found.end), found.share


# Fidelity

FIDELITY = (
    "engine", "level", "document", "page", "cer", "word_precision", "word_recall", "word_f1", "word_confidence",
    "text_confidence", "seconds",
)  # fmt: skip


def fidelity(source: Corpus, twin: Corpus, records: Iterable[ocr.Record], level: str) -> pd.DataFrame:
    """How much of each page its twin keeps: a row a page, columns FIDELITY. page: index from 0.

    Words are compared in NFKC, split at white space, as multisets: their order does not count, and what holds no letter or digit
    is none. cer: edit distance in
    characters between the words of both, joined by one space, in the order in which each is read, over the characters of
    the source; wrong order counts as error. word_confidence: the engine's own mean, from 0 to 100. NaN without words.
    text_confidence: what `quality.confidence` says of the text alone, from 0 to 1.
    """
    rows = []
    for record in records:
        before, after = (_page_words(corpus, record) for corpus in (source, twin))
        shared = (Counter(before) & Counter(after)).total()
        precision, recall = _share(shared, len(after)), _share(shared, len(before))
        f1 = _share(2 * shared, len(before) + len(after))
        about = record.read.engine, level, record.document, record.page
        values = error_rate(" ".join(before), " ".join(after)), precision, recall, f1
        looks = round(quality.confidence(quality.features(_page_text(twin, record))), 4)
        sure = _rounded(record.read.confidence)
        rows.append((*about, *(round(value, 4) for value in values), sure, looks, record.read.seconds))
    return pd.DataFrame(rows, columns=list(FIDELITY))


def _page_text(corpus: Corpus, record: ocr.Record) -> str:
    page = next(page for page in corpus.layouts[record.document].pages if page.index == record.page)
    return corpus[record.document].text[page.start : page.end]


def _page_words(corpus: Corpus, record: ocr.Record) -> list[str]:
    words = unicodedata.normalize("NFKC", _page_text(corpus, record)).split()
    return [word for word in words if any(map(str.isalnum, word))]  # the dots that lead to a page number are no words


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _rounded(confidence: float | None) -> float:
    return float("nan") if confidence is None else round(confidence, 2)


def error_rate(truth: str, read: str) -> float:
    """Character error rate: insertions, deletions and replacements over the characters of the truth; NaN without any.

    >>> error_rate("kitten", "sitting")
    0.5
    """
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.distance(truth, read) / len(truth) if truth else float("nan")


# All twins of a study


@dataclass(frozen=True)
class Twin:
    """One engine at one level of damage. evidence: the table of `map_queries`. fidelity: that of `fidelity`."""

    engine: str
    level: str
    corpus: Corpus
    queries: list[Query]
    evidence: pd.DataFrame
    fidelity: pd.DataFrame

    @property
    def name(self) -> str:
        return f"{self.engine}-{self.level}"


def path_of(folder: Path, engine: str, level: str) -> Path:
    return folder / engine / f"{level}.jsonl.gz"


def load(
    folder: Path | None, engines: Sequence[str], levels: Sequence[str], source: Corpus, queries: Sequence[Query],
    *, min_share: float = MIN_SHARE, progress=lambda text: None,
) -> list[Twin]:  # fmt: skip
    """The twins that are recorded below the folder, engine by engine, level by level; none without a folder.

    An engine or level that is not recorded has no twin: `absent` names it.
    """
    if not 0 < min_share <= 1:
        raise BadInput(f"min_share={min_share:g}: the least share of a span that must survive; more than 0, at most 1")
    found, pairs = [], dict.fromkeys((engine, level) for engine in engines for level in levels)
    for engine, level in pairs if folder else ():
        path = path_of(folder, engine, level)
        if path.is_file():
            progress(f"twin: {engine}, {level}")
            records = ocr.read_records(path)
            other = next((one for one in records if one.read.engine != engine), None)
            if other:
                raise BadInput(
                    f"{path}: page {other.page} of {other.document} was read by {other.read.engine!r}; make the records of {engine} again"
                )
            corpus = twin_corpus(source, records, str(path))
            mapped = map_queries(queries, source, corpus, min_share)
            found.append(Twin(engine, level, corpus, *mapped, fidelity(source, corpus, records, level)))
    if folder and not found:
        raise BadInput(
            f"{folder}: no records of {' or '.join(engines)} at {', '.join(levels)}; 'twins' must name their folder"
        )
    return found


def absent(folder: Path | None, engines: Sequence[str], levels: Sequence[str]) -> pd.DataFrame:
    """Engines and levels without records, as states. Columns: engine, level, status, reason."""
    rows = [
        (engine, level, "not_run", f"no file {engine}/{level}.jsonl.gz among the records")
        for engine in (engines if folder else ())
        for level in levels
        if not path_of(folder, engine, level).is_file()
    ]
    return pd.DataFrame(rows, columns=["engine", "level", "status", "reason"])


def pages(twins: Sequence[Twin]) -> pd.DataFrame:
    """The fidelity of every page of every twin, one below the other: columns FIDELITY."""
    parts = [twin.fidelity for twin in twins]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(FIDELITY))


def counted(twins: Sequence[Twin], source: Corpus) -> pd.DataFrame:
    """What is compared: a row for the source and each twin. Columns: engine, version, level, pages, characters, headings,
    pieces of evidence, and how many of them survive in the text."""
    rows = [("source", "", "source", *_sizes(source), None, None)]
    for twin in twins:
        versions = {reading.engine for layout in twin.corpus.layouts.values() for reading in layout.readings}
        survive = len(twin.evidence), int(twin.evidence["in_text"].sum())
        rows.append((twin.engine, ", ".join(sorted(versions)), twin.level, *_sizes(twin.corpus), *survive))
    columns = ["engine", "version", "level", "pages", "characters", "headings", "pieces of evidence", "survive"]
    counts = dict.fromkeys(columns[-2:], "Int64")
    return pd.DataFrame(rows, columns=columns).astype(counts)


def _sizes(corpus: Corpus) -> tuple[int, int, int]:
    headings = sum(len(layout.headings) for layout in corpus.layouts.values())
    return len(corpus.pages()), sum(len(document.text) for document in corpus.documents), headings


def recorded_on(folder: Path | None, engines: Sequence[str]) -> str:
    """What the records say of engines and machine (`<engine>/engine.txt`), for prose; in words where they say nothing."""
    files = [folder / engine / "engine.txt" for engine in engines] if folder else []
    found = [file.read_text(encoding="utf-8").strip() for file in files if file.is_file()]
    return "; ".join(found) or "not recorded"
