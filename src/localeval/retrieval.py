"""Retrievers: a query in, ranked hits out. They compose: `Reranked(Fused([bm25, dense]), scorer, depth=40)`.

Ties are broken in one place, `rank`: score descending, then span order. Scores are rounded to 6 decimals before that, so
that threads, batches and machines agree on the order.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise, repeat
from operator import attrgetter
from typing import Protocol

import numpy as np

from localeval.records import BadInput, Hit, Span

DECIMALS = 6
IN_ORDER = attrgetter("doc_id", "start", "end")  # the order of spans, told to a sort in one step
RRF_K = 60  # Cormack, Clarke and Buettcher 2009


class Retriever(Protocol):
    """The one protocol every engine answers: at most `k` hits, best first."""

    def search(self, query: str, k: int) -> list[Hit]: ...


_seconds: ContextVar[dict[str, float] | None] = ContextVar("seconds", default=None)


@contextmanager
def timed(clock: Callable[[], float] = time.perf_counter) -> Iterator[dict[str, float]]:
    """Collects the seconds of every `phase` inside, and of the whole as `total`."""
    seconds: dict[str, float] = {}
    token, start = _seconds.set(seconds), clock()
    try:
        yield seconds
    finally:
        seconds["total"] = clock() - start
        _seconds.reset(token)


@contextmanager
def phase(name: str, clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
    """Names a stage of a search for `timed`; costs next to nothing where nobody listens."""
    seconds, start = _seconds.get(), clock()
    yield
    if seconds is not None:
        seconds[name] = seconds.get(name, 0.0) + clock() - start


_memory: ContextVar[dict[tuple, object] | None] = ContextVar("memory", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """While inside, what is needed twice is computed once (see `once`): by the stages of one search, or, around several
    searches, by systems that share a stage. The outermost one counts; timings never share across systems."""
    if _memory.get() is not None:
        yield
        return
    token = _memory.set({})
    try:
        yield
    finally:
        _memory.reset(token)


def once(key: tuple, make: Callable[[], object]):
    """What `make` gives; inside `remembering` the first result for the key serves again."""
    memory = _memory.get()
    if memory is None:
        return make()
    if key not in memory:
        memory[key] = make()
    return memory[key]


def search_once(retriever: Retriever, query: str, k: int) -> list[Hit]:
    """A search whose hits serve every system that builds on this retriever, inside `remembering`."""
    return once((id(retriever), query, k), lambda: retriever.search(query, k))


def rank(spans: Sequence[Span], scores: np.ndarray, k: int, decimals: int = DECIMALS) -> list[Hit]:
    """The best `k` by rounded score, ties in span order. spans must be sorted; scores: (n,) aligned with them."""
    rounded = np.round(np.asarray(scores, dtype=np.float64), decimals)
    if not np.isfinite(rounded).all():
        raise ValueError("a score is not a number")
    order = np.argsort(-rounded, kind="stable")[:k]
    pairs = zip(map(spans.__getitem__, order.tolist()), rounded[order].tolist(), strict=True)
    return list(map(tuple.__new__, repeat(Hit), pairs))  # half the time of calling Hit


def in_span_order(spans: Sequence[Span]) -> tuple[list[int], list[Span]]:
    """Order of the spans, and the spans in that order; a span that occurs twice is an error that names it."""
    order = sorted(range(len(spans)), key=lambda i: IN_ORDER(spans[i]))
    ordered = [spans[i] for i in order]
    for one, two in pairwise(ordered):
        if one == two:
            raise ValueError(f"two units have the id {one}")
    return order, ordered


class Shuffled:
    """All units in an order that depends on the query's words only by hashing: what chance would find.

    With few documents chance alone finds the right one, so a table without this row can hide that nothing was learnt.
    """

    def __init__(self, spans: Sequence[Span]):
        _, self._spans = in_span_order(spans)

    def search(self, query: str, k: int) -> list[Hit]:
        with phase("lexical"):
            draws = [hashlib.sha256(f"{query}\0{span}".encode()).digest()[:6] for span in self._spans]
            return rank(self._spans, np.array([int.from_bytes(draw) / 2**48 for draw in draws]), k)


def exact(vectors: np.ndarray):
    """FAISS's index that compares with every vector. vectors: (n, d) float32."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    return index


class Dense:
    """Inner product of unit vectors (cosine) with FAISS, exact unless `index` is another (`approximate.graph`).

    vectors: (n, d) float32, checked to be unit vectors. encode: query text -> (d,) unit vector. index: from the vectors to what answers
    `search(queries, k)` with inner products and places.
    """

    def __init__(self, spans: Sequence[Span], vectors: np.ndarray, encode: Callable[[str], np.ndarray], index=exact):
        order, self._spans = in_span_order(spans)
        vectors = np.ascontiguousarray(np.asarray(vectors)[order] if len(order) else vectors, dtype=np.float32)
        _check_unit(vectors, "dense vectors")
        self._encode, self.index = encode, index(vectors)

    def search(self, query: str, k: int) -> list[Hit]:
        with phase("encode"):
            vector = np.ascontiguousarray(self._encode(query), dtype=np.float32).reshape(1, -1)
            _check_unit(vector, "the query's vector")
        with phase("dense"):
            return self._nearest(vector, k)

    def _nearest(self, vector: np.ndarray, k: int) -> list[Hit]:
        """FAISS orders equal scores as it likes: fetch past the cut until the last score is below it, then apply our rule."""
        n, fetch = len(self._spans), min(len(self._spans), 2 * k + 16)
        while True:
            (scores,), (ids,) = self.index.search(vector, fetch)
            rounded = np.round(scores.astype(np.float64), DECIMALS)
            if fetch == n or ids[-1] < 0 or rounded[-1] < rounded[min(k, n) - 1]:
                break
            fetch = min(n, 4 * fetch)
        order = np.lexsort((ids, -rounded))  # places are in span order
        order = order[ids[order] >= 0][:k]  # an approximate index may find fewer than it was asked for
        if not np.isfinite(rounded[order]).all():
            raise ValueError("a score is not a number")
        spans = self._spans
        return [Hit(spans[i], score) for i, score in zip(ids[order].tolist(), rounded[order].tolist(), strict=True)]


def _check_unit(vectors: np.ndarray, what: str) -> None:
    """A vector that is not a number passes no comparison, so it is the good ones that are asked for."""
    if not (np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3).all():
        raise ValueError(f"{what} must have length 1: inner product is cosine only then")


class Fused:
    """Reciprocal rank fusion: score = sum over lists of weight / (k + rank), rank from 1; a list without the unit adds nothing.

    depth: how far each list is read, its own parameter and not the final cut, so that a deeper cut only adds hits at the end.
    weights: one for each retriever; all 1 where none are given.
    """

    def __init__(
        self, retrievers: Sequence[Retriever], depth: int = 100, k: int = RRF_K, weights: Sequence[float] = ()
    ):
        self._retrievers, self._depth, self._k = tuple(retrievers), depth, k
        self._weights = _checked(weights, len(self._retrievers))

    def search(self, query: str, k: int) -> list[Hit]:
        lists = [search_once(retriever, query, self._depth) for retriever in self._retrievers]
        with phase("fuse"):
            return fuse(lists, self._k, self._weights)[:k]


def fuse(lists: Sequence[Sequence[Hit]], k: int = RRF_K, weights: Sequence[float] = ()) -> list[Hit]:
    """Fuses ranked lists by reciprocal rank (Cormack, Clarke and Buettcher 2009), each with a weight of 1 or its own.

    Sums are rounded to 12 decimals: enough to drop the order of addition, and far below the gap of neighbouring ranks. A unit
    that only lists of weight 0 hold is not returned.
    """
    scores: dict[Span, float] = {}
    for hits, weight in zip(lists, _checked(weights, len(lists)), strict=True):
        for place, hit in enumerate(hits if weight else (), 1):
            scores[hit.span] = scores.get(hit.span, 0.0) + weight / (k + place)
    order = lambda item: (-item[1], *IN_ORDER(item[0]))
    rounded = zip(scores, np.round(list(scores.values()), 12).tolist(), strict=True)
    return [Hit(span, score) for span, score in sorted(rounded, key=order)]


def _checked(weights: Sequence[float], lists: int) -> tuple[float, ...]:
    """The weights as they are, or 1 for each list where there are none."""
    weights = tuple(weights) or (1.0,) * lists
    good = [isinstance(weight, int | float) and 0 <= weight < float("inf") for weight in weights]
    if len(weights) != lists or not all(good) or (lists and not any(weights)):
        raise BadInput(
            f"fusion_weights {list(weights)}: give a number of 0 or more for each of {lists} lists, and not only zeros"
        )
    return weights


class Reranked:
    """The first `depth` hits of another retriever in the order of a scorer; the rest follow in their old order.

    scorer: `(query, spans) -> scores (n,)`. Hits below the depth keep their place; their score is -1 - place, below any
    similarity, so that the list stays in order of its scores.
    """

    def __init__(self, retriever: Retriever, scorer: Callable[[str, Sequence[Span]], np.ndarray], depth: int):
        self._retriever, self._scorer, self._depth = retriever, scorer, depth

    def search(self, query: str, k: int) -> list[Hit]:
        found = search_once(self._retriever, query, max(k, self._depth))
        head, tail = sorted((hit.span for hit in found[: self._depth]), key=IN_ORDER), found[self._depth :]
        with phase("rerank"):
            ranked = rank(head, self._scorer(query, head), len(head)) if head else []
        floor = min([-1.0, *(hit.score for hit in ranked)])
        return [*ranked, *(Hit(hit.span, floor - place) for place, hit in enumerate(tail, 1))][:k]
