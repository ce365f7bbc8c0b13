"""Approximate search: the same graph every time, recall by hand, the ties and checks of exact search."""

from __future__ import annotations

import numpy as np
import pytest

from localeval.approximate import graph, recall
from localeval.records import Hit, Span
from localeval.retrieval import Dense, Fused

pytest.importorskip("faiss")


def unit(rng, *shape):
    drawn = rng.normal(size=shape).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """500 vectors, 20 questions near some of them, and both engines over them."""
    rng = np.random.default_rng(0)
    vectors, cache = unit(rng, 500, 16), tmp_path_factory.mktemp("cache")
    asked = unit(rng, 20, 16)
    spans = [Span(f"d{number:03d}", 0, 1) for number in range(500)]
    encode = lambda text: asked[int(text)]
    return Dense(spans, vectors, encode), Dense(spans, vectors, encode, graph(cache)), vectors, cache


def hits(*scores):
    return [Hit(Span(f"d{place}", 0, 1), score) for place, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("nearest", "found", "k", "want"),
    [
        ([0.9, 0.8, 0.7], [0.9, 0.8, 0.7], 3, 1.0),
        ([0.9, 0.8, 0.7], [0.9, 0.7, 0.6], 3, 2 / 3),
        ([0.9, 0.8, 0.8], [0.9, 0.8, 0.8], 2, 1.0),
        ([0.9, 0.8], [0.5], 2, 0.0),
        ([0.9], [], 10, 0.0),
        ([0.9, 0.8], [0.9, 0.8], 10, 1.0),
        ([0.9, 0.800001], [0.9, 0.8], 2, 1.0),
        ([0.9, 0.80001], [0.9, 0.8], 2, 0.5),
    ],
)
def test_recall_by_hand(nearest, found, k, want):
    assert recall(hits(*nearest), hits(*found), k) == pytest.approx(want)


def test_nothing_to_find_is_no_recall():
    assert np.isnan(recall([], hits(0.5), 10))


def test_any_of_several_at_one_distance_will_do():
    other = [Hit(Span("elsewhere", 0, 1), 0.8)]
    assert recall(hits(0.8), other, 1) == 1.0


def test_most_of_the_nearest_are_found_and_scored_as_exact_search_does(made):
    exact, found, _, _ = made
    shares = []
    for number in range(20):
        one, two = exact.search(str(number), 50), found.search(str(number), 50)
        shares.append(recall(one, two, 50))
        scores = {hit.span: hit.score for hit in one}
        assert all(abs(scores[hit.span] - hit.score) < 2e-6 for hit in two if hit.span in scores)
        assert [hit.score for hit in two] == sorted((hit.score for hit in two), reverse=True)
    assert np.mean(shares) > 0.98


def test_a_cut_is_the_beginning_of_a_longer_list(made):
    _, found, _, _ = made
    whole = found.search("3", 100)
    assert all(found.search("3", k) == whole[:k] for k in (1, 10, 50))


def test_the_same_vectors_give_the_same_graph_whatever_the_threads(made, tmp_path):
    import faiss

    _, found, vectors, cache = made
    (kept,) = cache.glob("hnsw/*.faiss")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(4)
    try:
        graph(tmp_path)(vectors)
        assert faiss.omp_get_max_threads() == 4
    finally:
        faiss.omp_set_num_threads(before)
    (again,) = tmp_path.glob("hnsw/*.faiss")
    assert again.name == kept.name and again.read_bytes() == kept.read_bytes()
    written = kept.stat().st_mtime_ns
    assert graph(cache)(vectors).seconds == pytest.approx(found.index.seconds, abs=1e-3)
    assert kept.stat().st_mtime_ns == written, "built once"


def test_a_broken_graph_is_built_again(made, tmp_path):
    _, _, vectors, _ = made
    graph(tmp_path)(vectors)
    (kept,) = tmp_path.glob("hnsw/*.faiss")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-4] + b"\0\1\2\3")
    graph(tmp_path)(vectors)
    assert kept.read_bytes() == whole


def test_equal_vectors_come_in_place_order_and_lengths_are_checked(tmp_path):
    spans = [Span(f"d{number:02d}", 0, 1) for number in range(40)]
    vectors = np.tile(np.array([[1.0, 0.0]], np.float32), (40, 1))
    index = Dense(list(reversed(spans)), vectors, lambda text: vectors[0], graph(tmp_path))
    assert [hit.span for hit in index.search("?", 3)] == spans[:3]
    assert len(index.search("?", 100)) == 40
    with pytest.raises(ValueError, match="must have length 1"):
        Dense(spans, 2 * vectors, lambda text: vectors[0], graph(tmp_path))


def test_it_fuses_like_any_engine(made):
    exact, found, _, _ = made
    assert Fused([found, exact]).search("1", 1)[0].span == exact.search("1", 1)[0].span
