"""Scorers for `retrieval.Reranked`: they look at a query and its candidates again, more closely and at a price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from localeval.embedding import Embedder
from localeval.records import Span
from localeval.retrieval import once
from localeval.vectors import Stored


class Scorer(Protocol):
    """What reranks: scores of candidates for a query, higher is better, (n,) float64; and what it does not read of them.

    A candidate's score depends on the query and its own text alone, not on what is scored with it: that is what makes the
    scores of a shallow depth a part of those of a deep one. reads: tokens it reads at most; cut: (n,) bool, true where query and
    passage together are longer.
    """

    reads: float

    def __call__(self, query: str, spans: Sequence[Span]) -> np.ndarray: ...
    def cut(self, query: str, spans: Sequence[Span]) -> np.ndarray: ...


def each_once(owner: object, query: str, spans: Sequence[Span], score: Callable[[list[Span]], Sequence[float]]):
    """(n,) scores of which `score` computes only those not known yet inside `retrieval.remembering`."""
    known = once((id(owner), query), dict)
    missing = [span for span in spans if span not in known]
    if missing:
        known.update(zip(missing, score(missing), strict=True))
    return np.array([known[span] for span in spans], dtype=np.float64)


class MaxSim:
    """Late interaction: mean over query tokens of the best cosine with any passage token (Khattab and Zaharia 2020).

    It uses the token vectors of an embedding model as they are. passages: their vectors, in the order of `spans`; encode: query text
    -> (query tokens, d); too_long: for each span whether the model cuts its text, none where nothing is cut; reads: tokens it reads.
    """

    def __init__(
        self,
        spans: Sequence[Span],
        passages: Stored | Unstored,
        encode: Callable[[str], np.ndarray],
        too_long: Sequence[bool] = (),
        reads: float = float("nan"),
    ):
        self._place = {span: i for i, span in enumerate(spans)}
        self._passages, self._encode, self._too_long, self.reads = passages, encode, too_long, reads

    def __call__(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        """(n,) scores between -1 and 1. A passage without tokens scores -1."""
        tokens = np.asarray(self._encode(query), dtype=np.float32)
        score = lambda span: self._score(tokens, self._passages.of(self._place[span]))
        return each_once(self, query, spans, lambda some: [score(span) for span in some])

    def cut(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        """(n,) bool: passages that are cut; the query is read apart from them."""
        return np.array([bool(len(self._too_long)) and bool(self._too_long[self._place[span]]) for span in spans], bool)

    @staticmethod
    def _score(query: np.ndarray, passage: np.ndarray) -> float:
        if not len(query) or not len(passage):
            return -1.0
        return float((query @ passage.T).max(axis=1).mean())


class Unstored:
    """Token vectors that are computed each time they are asked for: no room on disk, and the model's time for every candidate."""

    def __init__(self, embedder: Embedder, texts: Sequence[str]):
        self._embedder, self._texts = embedder, texts

    def of(self, place: int) -> np.ndarray:
        """(tokens, d) float32: the vectors of one text."""
        return np.asarray(self._embedder.encode_tokens([self._texts[place]])[0], dtype=np.float32)
