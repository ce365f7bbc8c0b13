"""BM25 in its variants, as a sparse matrix of term weights; and rank-bm25 itself, the reference they are tested against.

Every weight is computed when the index is built, so that a query is a sum of a few columns. Sums are made in the order of the
query's terms in float64: the Okapi variant equals rank-bm25 to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from localeval.records import BadInput, Hit, Span
from localeval.retrieval import in_span_order, phase, rank
from localeval.tokens import Tokenise

DELTA = {"plus": 1.0, "l": 0.5}  # the papers' own values
EPSILON = 0.25  # rank-bm25's: what replaces a negative idf, as a share of the mean idf
FULL_SHARE = 0.2  # a term in more of the texts is kept as a full column too: adding it is a walk in a straight line
TIE = 1e-6  # what rounding may lift to a tie
SMALL_CORPUS = 0.5  # Okapi's idf is zero for a term in this share of the texts, and negative above


def lucene_idf(n: int, frequency: np.ndarray) -> np.ndarray:
    """ln(1 + (n - df + 0.5) / (df + 0.5)), always positive; the choice of Lucene (Kamphuis et al. 2020, row "Lucene")."""
    return np.array([math.log(1 + (n - df + 0.5) / (df + 0.5)) for df in frequency.tolist()])


def okapi_idf(n: int, frequency: np.ndarray) -> np.ndarray:
    """ln((n - df + 0.5) / (df + 0.5)); where negative, EPSILON times the mean over all terms, as rank-bm25 has it.

    The mean is taken over the terms in the order of the index, before the replacement, so that it has rank-bm25's digits.
    """
    idf = [math.log(n - df + 0.5) - math.log(df + 0.5) for df in frequency.tolist()]
    floor = EPSILON * (sum(idf) / len(idf)) if idf else 0.0
    return np.array([floor if value < 0 else value for value in idf])


def plus_idf(n: int, frequency: np.ndarray) -> np.ndarray:
    """ln((n + 1) / df) (Lv and Zhai 2011, "Lower-bounding term frequency normalization")."""
    return np.array([math.log((n + 1) / df) for df in frequency.tolist()])


def l_idf(n: int, frequency: np.ndarray) -> np.ndarray:
    """ln((n + 1) / (df + 0.5)) (Lv and Zhai 2011, "When documents are very long, BM25 fails!")."""
    return np.array([math.log((n + 1) / (df + 0.5)) for df in frequency.tolist()])


IDF: dict[str, Callable[[int, np.ndarray], np.ndarray]] = {
    "lucene": lucene_idf, "okapi": okapi_idf, "plus": plus_idf, "l": l_idf
}  # fmt: skip


def term_weights(variant: str, idf, counts: np.ndarray, norm: np.ndarray, k1: float) -> np.ndarray:
    """Weight of a term in a text, for arrays of one length. counts: how often the term stands in it (tf). norm: 1 - b + b times the
    length of the text over the mean length.

    lucene, okapi: idf * tf (k1 + 1) / (tf + k1 norm). plus: the same fraction + 1. l: idf * (k1 + 1)(c + 0.5) / (k1 + c + 0.5) with
    c = tf / norm. The lower bounds of plus and l count for texts that hold the term only, as in the
    papers; rank-bm25 adds them to every text.
    """
    if variant == "l":
        c = counts / norm + DELTA["l"]
        return idf * ((k1 + 1) * c / (k1 + c))
    fraction = counts * (k1 + 1) / (counts + k1 * norm)
    return idf * (fraction + DELTA["plus"] if variant == "plus" else fraction)


class BM25:
    """BM25 over texts, one of the variants in IDF. A text that shares no term with the query is never returned.

    Space: 12 bytes for each term of each text, and a full column for the terms of very many texts.
    """

    def __init__(
        self, spans: Sequence[Span], texts: Sequence[str], tokenise: Tokenise, *, variant="lucene", k1=1.5, b=0.75
    ):
        if variant not in IDF:
            raise BadInput(f"unknown BM25 variant {variant!r}; known: {', '.join(IDF)}")
        order, self._spans = in_span_order(spans)
        self._tokenise = tokenise
        self._columns: dict[str, int] = {}
        self.size = len(order)
        places, lengths = self._places([texts[i] for i in order])
        self._build(variant, places, lengths, k1, b)

    def _places(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The column of every token of every text, and the number of tokens of each text. Columns are given as terms first appear."""
        columns, places, lengths = self._columns, [], []
        for text in texts:
            tokens = self._tokenise(text)
            lengths.append(len(tokens))
            places.append(np.fromiter((columns.setdefault(t, len(columns)) for t in tokens), np.int32, len(tokens)))
        return np.concatenate([np.empty(0, np.int32), *places]), np.array(lengths, np.int64)

    def _build(self, variant: str, places: np.ndarray, lengths: np.ndarray, k1: float, b: float) -> None:
        from scipy.sparse import csc_matrix

        n, rows = len(lengths), np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        shape = (n, len(self._columns))
        counts = csc_matrix((np.ones(len(places)), (rows, places)), shape=shape)  # repeats are summed, rows sorted
        counts.sort_indices()
        self.document_frequency = np.diff(counts.indptr)
        idf = IDF[variant](n, self.document_frequency)
        mean = lengths.sum() / n if n else 0.0
        norm = 1 - b + b * lengths / (mean or 1.0)  # in this order: the digits are rank-bm25's
        per_place = np.repeat(idf, self.document_frequency)
        counts.data = term_weights(variant, per_place, counts.data, norm[counts.indices], k1)
        self._matrix = TermMatrix(counts)

    def texts_with(self, term: str) -> int:
        """How many of the `size` texts hold the term (its document frequency); 0 for one that none holds."""
        return int(self.document_frequency[self._columns[term]]) if term in self._columns else 0

    def search(self, query: str, k: int) -> list[Hit]:
        with phase("lexical"):
            columns = [self._columns[term] for term in self._tokenise(query) if term in self._columns]
            return rank_found(self._spans, *self._matrix.scores(columns), k) if columns else []


class TermMatrix:
    """Weights of terms (columns) in texts (rows). matrix: scipy's csc_matrix, (texts, terms), its indices sorted."""

    def __init__(self, matrix):
        self._n, self._starts = matrix.shape[0], matrix.indptr.tolist()
        self._rows, self._weights = matrix.indices, matrix.data
        self._positive = bool((self._weights > 0).all())  # then a text has a score as soon as it has a term
        often = np.flatnonzero(np.diff(matrix.indptr) > FULL_SHARE * self._n)
        self._full = {column: self._full_column(column) for column in often.tolist()}

    def _own(self, column: int) -> slice:
        return slice(self._starts[column], self._starts[column + 1])

    def _full_column(self, column: int) -> np.ndarray:
        full = np.zeros(self._n)
        full[self._rows[self._own(column)]] = self._weights[self._own(column)]
        return full

    def scores(self, columns: Sequence[int], weights: Sequence[float] = ()) -> tuple[np.ndarray, np.ndarray]:
        """(texts,) score of every text, and whether it holds any of the terms. columns may repeat; weights: positive, 1 each if none."""
        scores = np.zeros(self._n)
        for column, weight in zip(columns, weights or [1.0] * len(columns), strict=True):
            if column in self._full:
                scores += self._full[column] if weight == 1 else weight * self._full[column]
            else:
                own = self._own(column)
                scores[self._rows[own]] += self._weights[own] if weight == 1 else weight * self._weights[own]
        if self._positive:
            return scores, scores > 0
        found = np.zeros(self._n, bool)
        for column in columns:
            found[self._rows[self._own(column)]] = True
        return scores, found


def rank_found(spans: Sequence[Span], scores: np.ndarray, found: np.ndarray, k: int) -> list[Hit]:
    """`rank` over the texts that were found, without sorting those that cannot be among the first k.

    The best of each of 4 k groups of texts are scores of texts, so the k-th of them is one that k texts reach.
    """
    each = len(scores) // (4 * k)
    if each > 1:
        best = scores[: each * 4 * k].reshape(each, -1).max(axis=0)
        kth = np.partition(best, len(best) - k)[len(best) - k]
        if kth > TIE:  # scores are positive where a text was found
            places = np.flatnonzero(scores >= kth - TIE)
            places = places[found[places]]
            return rank([spans[i] for i in places.tolist()], scores[places], k)
    places = np.flatnonzero(found)
    return rank([spans[i] for i in places.tolist()], scores[places], k)


class RankBM25:
    """rank-bm25's BM25Okapi itself: the reference arm. Slow: it walks all texts for each term of a query."""

    def __init__(self, spans: Sequence[Span], texts: Sequence[str], tokenise: Tokenise, *, k1=1.5, b=0.75):
        from rank_bm25 import BM25Okapi

        order, self._spans = in_span_order(spans)
        self._tokenise = tokenise
        terms = [tokenise(texts[i]) for i in order]
        self._index = BM25Okapi(terms, k1=k1, b=b) if any(terms) else None
        self._terms = [frozenset(one) for one in terms]

    def search(self, query: str, k: int) -> list[Hit]:
        with phase("lexical"):
            terms = self._tokenise(query)
            if not self._index or not terms:
                return []
            scores, wanted = self._index.get_scores(terms), set(terms)
            found = np.array([not wanted.isdisjoint(own) for own in self._terms])
            return rank_found(self._spans, scores, found, k)


def unweighted_share(index: BM25, queries: Sequence[str], tokenise: Tokenise) -> float:
    """Share of the queries' terms, of those the index holds, that stand in at least half of the texts.

    Okapi's idf is zero or negative for them, so that on a small corpus the words of a question count for nothing or by a
    made-up constant. NaN where no term is known.
    """
    holding = [index.texts_with(term) for query in queries for term in tokenise(query)]
    known = np.array([count for count in holding if count])
    return float(np.mean(known >= SMALL_CORPUS * index.size)) if len(known) else math.nan
