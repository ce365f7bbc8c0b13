"""Retrievers: formulas by hand, ties, composition, and what a lexical engine must never do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval.records import BadInput, Hit, Span
from localeval.rerank import MaxSim
from localeval.retrieval import Dense, Fused, Reranked, Shuffled, fuse, phase, rank, timed
from localeval.vectors import Stored, packed


def spans(*names):
    return [Span(name, 0, 1) for name in names]


def docs(hits):
    return [hit.span.doc_id for hit in hits]


class Fixed:
    """A retriever that answers from a list."""

    def __init__(self, *names, scores=None):
        self.hits = [
            Hit(span, score) for span, score in zip(spans(*names), scores or range(len(names), 0, -1), strict=True)
        ]

    def search(self, query, k):
        return self.hits[:k]


def test_ties_are_broken_by_place_and_scores_rounded_first():
    hits = rank(spans(*"abc"), np.array([0.5, 0.5 + 1e-9, 0.7]), 3)
    assert docs(hits) == ["c", "a", "b"]
    with pytest.raises(ValueError, match="not a number"):
        rank(spans("a"), np.array([np.nan]), 1)


def test_dense_is_cosine_and_refuses_other_vectors():
    pytest.importorskip("faiss")
    query = np.array([1.0, 0.0], dtype=np.float32)
    long, close = np.array([3.0, 3.0]), np.array([0.9, 0.1])
    with pytest.raises(ValueError, match="length 1"):
        Dense(spans("long", "close"), np.stack([long, close]), lambda text: query)
    unit = np.stack([v / np.linalg.norm(v) for v in (long, close)])
    hits = Dense(spans("long", "close"), unit, lambda text: query).search("x", 2)
    assert [(hit.span.doc_id, hit.score) for hit in hits] == [("close", 0.993884), ("long", 0.707107)]


NOWHERE = [[np.nan, 0.0], [np.inf, 0.0], [0.0, 0.0], [2.0, 0.0]]


@pytest.mark.parametrize("vector", NOWHERE)
def test_a_vector_without_a_direction_is_neither_stored_nor_asked(vector):
    pytest.importorskip("faiss")
    good, bad = np.array([1.0, 0.0]), np.array(vector)
    with pytest.raises(ValueError, match="dense vectors must have length 1"):
        Dense(spans("a", "b"), np.stack([good, bad]), lambda text: good)
    with pytest.raises(ValueError, match="the query's vector must have length 1"):
        Dense(spans("a"), good[None], lambda text: bad).search("x", 1)


def test_arrays_of_another_kind_or_direction_in_memory_are_taken():
    pytest.importorskip("faiss")
    mirrored = np.eye(3)[:, ::-1]
    assert docs(Dense(spans(*"abc"), mirrored, lambda text: mirrored[0]).search("x", 1)) == ["a"]


def test_equal_vectors_come_in_place_order_however_many():
    pytest.importorskip("faiss")
    names = [f"d{i:03d}" for i in range(200)]
    vectors = np.tile(np.array([[1.0, 0.0]], dtype=np.float64), (200, 1))[:, ::1]
    index = Dense(spans(*reversed(names)), vectors, lambda text: np.array([1.0, 0.0]))
    assert docs(index.search("x", 3)) == names[:3]


def test_dense_equals_brute_force():
    pytest.importorskip("faiss")
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    names = [f"d{i:03d}" for i in range(300)]
    query = vectors[7]
    got = Dense(spans(*names), vectors, lambda text: query).search("x", 20)
    want = rank(spans(*names), vectors.astype(np.float32) @ query.astype(np.float32), 20)
    assert docs(got) == docs(want) and [h.score for h in got] == pytest.approx([h.score for h in want], abs=2e-6)


def test_rrf_by_hand():
    fused = fuse([Fixed(*"uvw").hits, Fixed(*"tws").hits])
    assert docs(fused) == ["w", "t", "u", "v", "s"]
    assert fused[0].score == pytest.approx(1 / 63 + 1 / 62)
    assert fused[1].score == fused[2].score == pytest.approx(1 / 61)


def test_rrf_ties_by_place():
    fused = fuse([Fixed("k", "m").hits, Fixed("m", "k").hits])
    assert docs(fused) == ["k", "m"] and fused[0].score == pytest.approx(0.032522, abs=1e-6)


def test_weights_by_hand():
    heavy = fuse([Fixed(*"uvw").hits, Fixed(*"tws").hits], weights=[3, 1])
    assert docs(heavy)[:2] == ["w", "u"] and heavy[1].score == pytest.approx(3 / 61)
    assert docs(fuse([Fixed("u").hits, Fixed("t").hits], weights=[0, 1])) == ["t"]
    assert fuse([Fixed("u").hits, Fixed("t").hits], weights=[1, 1]) == fuse([Fixed("u").hits, Fixed("t").hits])


@pytest.mark.parametrize("weights", [[1], [0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1], ["a", 1]])
def test_weights_that_cannot_be_are_refused(weights):
    with pytest.raises(BadInput, match="give a number of 0 or more for each of 2 lists"):
        fuse([Fixed("u").hits, Fixed("t").hits], weights=weights)


rankings = st.lists(st.permutations("klmnop").map(lambda names: names[:4]), min_size=2, max_size=4)


@given(rankings, st.randoms())
def test_the_order_of_the_lists_does_not_matter(lists, shuffled):
    one = [Fixed(*names).hits for names in lists]
    assert fuse(shuffled.sample(one, len(one))) == fuse(one)


@given(rankings, st.integers(1, 5))
def test_a_deeper_cut_only_adds_hits_at_the_end(lists, depth):
    fused = Fused([Fixed(*names) for names in lists], depth=depth)
    ranked = Reranked(fused, lambda query, found: np.array([ord(span.doc_id) % 3 for span in found]), depth)
    for system in (fused, ranked):
        full = system.search("?", 6)
        assert all(system.search("?", k) == full[:k] for k in range(1, 6))


def test_fusion_depth_is_its_own_parameter():
    gold = [f"x{i:02d}" for i in range(11)] + ["gold"]
    other = [f"y{i:02d}" for i in range(11)] + ["gold"]
    shallow, deep = (Fused([Fixed(*gold), Fixed(*other)], depth=depth) for depth in (10, 50))
    assert "gold" not in docs(shallow.search("?", 10))
    assert docs(deep.search("?", 10))[0] == "gold"


def test_reranking_sorts_the_head_and_keeps_the_tail():
    scorer = lambda query, found: np.array([{"a": 0.1, "b": 0.9, "c": 0.5}[span.doc_id] for span in found])
    hits = Reranked(Fixed(*"abcde"), scorer, depth=3).search("?", 10)
    assert docs(hits) == ["b", "c", "a", "d", "e"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert docs(Reranked(Fixed(*"abcde"), scorer, depth=3).search("?", 2)) == ["b", "c"], "depth reaches past the cut"


def test_candidates_that_a_squashed_score_would_tie_are_told_apart():
    logits = np.array([18.0, 19.5], dtype=np.float32)
    squashed = 1 / (1 + np.exp(-logits))
    assert squashed[0] == squashed[1]
    assert docs(Reranked(Fixed("a", "b"), lambda query, found: logits, depth=2).search("?", 2)) == ["b", "a"]


def test_reranking_ten_cannot_change_the_set_of_ten():
    names = [f"d{i:02d}" for i in range(30)]
    scorer = lambda query, found: np.random.default_rng(1).random(len(found))
    before = docs(Fixed(*names).search("?", 10))
    assert set(docs(Reranked(Fixed(*names), scorer, depth=10).search("?", 10))) == set(before)


def test_maxsim_by_hand():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], dtype=np.float16)
    stored = Stored(vectors, np.array([0, 2, 3]), np.array([2, 3, 3]), 0.0)
    scorer = MaxSim(spans("one", "two", "none"), stored, lambda q: np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert scorer("?", spans("two", "one", "none")) == pytest.approx([(0.6 + 0.8) / 2, 1.0, -1.0], abs=1e-3)
    eight = Stored(packed(vectors, np.int8), stored.starts, stored.ends, 0.0)
    assert MaxSim(spans("one", "two", "none"), eight, scorer._encode)("?", spans("two", "one")) == pytest.approx(
        scorer("?", spans("two", "one")), abs=4e-3
    )


def test_phases_add_up_and_cost_nothing_unheard():
    ticks = iter(range(100))
    clock = lambda: next(ticks)
    with timed(clock) as seconds:
        with phase("a", clock):
            pass
        with phase("a", clock):
            pass
    assert seconds == {"a": 2, "total": 5}
    with phase("nobody listens"):
        pass


def test_chance_is_the_same_chance_every_time_and_knows_nothing():
    names = [f"d{i:03d}" for i in range(50)]
    arm = Shuffled(spans(*names))
    assert arm.search("tea", 50) == Shuffled(spans(*reversed(names))).search("tea", 50)
    assert sorted(docs(arm.search("tea", 50))) == names and docs(arm.search("tea", 50)) != docs(arm.search("kiln", 50))
