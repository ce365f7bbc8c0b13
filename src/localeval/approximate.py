"""Dense search that looks at a small part of the vectors, for corpora past the size where comparing with all of them is cheap.

The graph is HNSW (Malkov and Yashunin 2018, "Efficient and robust approximate nearest neighbor search using hierarchical navigable
small world graphs") as FAISS has it. It may miss a near neighbour, so its recall against exact search is measured, and printed, on the
study's own vectors and questions. One thread builds it, in span order and with FAISS's fixed seed: the same vectors give the same graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from localeval.records import Hit
from localeval.vectors import kept

NEIGHBOURS = 32  # links of a vector on each layer but the lowest, which has twice as many
BUILD_EFFORT = 80  # candidates that are looked at to find the links of a new vector
ALIKE = 1.5e-6  # two scores, each rounded to 6 decimals, that may be one
SEARCH_EFFORT = 256  # candidates that a search keeps; it never keeps fewer than it is asked for


class Graph:
    """An HNSW index over unit vectors that answers as FAISS's exact one does. seconds: what building it took, when it was built."""

    def __init__(self, index, effort: int, seconds: float):
        self._index, self._effort, self.seconds = index, effort, seconds

    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Inner products and places, (n, k) each, best first; place -1 where fewer were found. The same beginning for every k up to the
        effort."""
        self._index.hnsw.efSearch = max(self._effort, k)
        return self._index.search(vectors, k)


def graph(cache: Path, effort: int = SEARCH_EFFORT) -> Callable[[np.ndarray], Graph]:
    """What makes a `retrieval.Dense` approximate. From unit vectors (n, d) float32 to their graph, which is kept in the cache."""

    def index(vectors: np.ndarray) -> Graph:
        import faiss

        made_by = f"{faiss.__version__} {vectors.shape} {NEIGHBOURS} {BUILD_EFFORT}"
        name = hashlib.sha256(made_by.encode() + hashlib.sha256(vectors).digest()).hexdigest()[:20]
        path = cache / "hnsw" / f"{name}.faiss"
        seconds = kept(path, lambda part: faiss.write_index(_built(vectors), str(part)))
        return Graph(faiss.read_index(str(path)), effort, seconds)

    return index


def _built(vectors: np.ndarray):
    """One thread: several insert in the order they happen to come, and give another graph each time."""
    import faiss

    index = faiss.IndexHNSWFlat(vectors.shape[1], NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = BUILD_EFFORT
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        index.add(vectors)
    finally:
        faiss.omp_set_num_threads(threads)
    return index


def recall(exact: Sequence[Hit], found: Sequence[Hit], k: int) -> float:
    """Share of the k nearest that an approximate search found, between 0 and 1; NaN where there is nothing to find.

    A hit counts when its score reaches that of the last of the exact k: any of several at the same distance will do (Aumüller,
    Bernhardsson and Faithfull 2020, "ANN-Benchmarks").
    """
    wanted = exact[:k]
    if not wanted:
        return float("nan")
    return min(len(wanted), sum(hit.score > wanted[-1].score - ALIKE for hit in found[:k])) / len(wanted)
