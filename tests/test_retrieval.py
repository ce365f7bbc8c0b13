"""Retrievers: formulas by hand, ties, composition, and what a lexical engine must never do."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval.records import BadInput, Hit, Span
from localeval.rerank import MaxSim
from localeval.retrieval import BM25, Dense, Fused, Reranked, Shuffled, fuse, phase, rank, timed
from localeval.tokens import TOKENISERS, ascii_words, code_aware, fold, words, words_tr


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


def test_bm25_by_hand():
    index = BM25(spans("a", "b", "c"), ["kiln kiln fire", "kiln ash", "glaze"], words)
    (first, second) = index.search("kiln", 10)
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / 2))
    assert first == Hit(Span("a", 0, 1), round(expected, 6))
    assert second.span.doc_id == "b"


def test_a_term_in_half_of_the_texts_still_counts():
    texts = ["kettle steam", "kettle lid", "spoon lid", "fork steam"]
    lucene = BM25(spans(*"abcd"), texts, words).search("kettle", 10)
    assert docs(lucene) == ["a", "b"] and all(hit.score > 0 for hit in lucene)
    okapi = BM25(spans(*"abcd"), texts, words, variant="okapi").search("kettle", 10)
    assert [hit.score for hit in okapi] == [0.0, 0.0], (
        "the reference arm keeps its zero, and still returns only matches"
    )
    both = BM25(spans("a", "b"), ["tea pot", "tea cup"], words).search("tea", 10)
    assert all(hit.score > 0 for hit in both)


@pytest.mark.parametrize(
    ("texts", "query"), [([], "tea"), (["", ""], "tea"), (["tea"], ""), (["tea"], "?!"), (["tea"], "coffee")]
)
def test_nothing_in_common_returns_nothing(texts, query):
    assert BM25(spans(*"ab"[: len(texts)]), texts, words).search(query, 10) == []


def test_unknown_variant_and_repeated_ids():
    with pytest.raises(BadInput, match="known: lucene, okapi"):
        BM25(spans("a"), ["x"], words, variant="bm26")
    with pytest.raises(ValueError, match="two units have the id a#0-1"):
        BM25(spans("a", "a"), ["x", "y"], words)


vocabulary = st.lists(st.sampled_from(["tea", "kiln", "fire", "ash", "lid", "pot"]), max_size=6).map(" ".join)


@given(st.lists(vocabulary, min_size=1, max_size=8), vocabulary)
def test_every_text_with_a_query_term_is_found_with_a_positive_score(texts, query):
    names = [f"d{i}" for i in range(len(texts))]
    hits = BM25(spans(*names), texts, words).search(query, 100)
    wanted = {name for name, text in zip(names, texts, strict=True) if set(text.split()) & set(query.split())}
    assert set(docs(hits)) == wanted and all(hit.score > 0 for hit in hits)


def test_accented_words_share_no_letters():
    index = BM25(spans("a", "b"), ["Die Kühe über dem Hügel", "Die Tür steht offen"], code_aware)
    assert index.search("für Öl", 10) == [] and docs(index.search("TÜR", 10)) == ["b"]


WHOLE = [tokenise for name, tokenise in TOKENISERS.items() if name != "ascii_words"]


@pytest.mark.parametrize("tokenise", WHOLE)
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the kiln fires at nine", "when does the kiln fire"),
        ("Bursa'nın fırını", "Bursa’nın"),
        ("Bursa’nın fırını", "Bursa"),
        ("do not, or don’t, pour", "don't?"),
        ("crème brûlée", "cre\u0300me bru\u0302le\u0301e"),
        ("cre\u0300me", "crème"),
        ("ﬂat stone", "flat"),
        ("ＯＡＫ stool", "oak"),
        ("seal BX-2207 here", 'BX-2207: "'),
        ("ash::sieve", "ash::sieve*"),
        ("a load of 12,500 kg", "12,500"),
        ("re-entry valve", "re entry"),
        ("古い土鍋で米を炊く", "土鍋"),
        ("緑茶を飲む", "茶"),
        ("ดื่มชาเขียวร้อน", "ชาเขียว"),
        ("x axis", "x"),
    ],
)
def test_a_query_meets_its_text_however_both_were_typed(tokenise, text, query):
    index = BM25(spans("other", "text"), ["nothing to see", text], tokenise)
    assert docs(index.search(query, 10)) == ["text"]


@pytest.mark.parametrize(
    ("text", "query"), [("re-entry valve", "reentry"), ("a load of 12,500 kg", "12500"), ("3,5 mm", "35")]
)
def test_what_the_rule_of_words_is_known_to_miss(text, query):
    assert BM25(spans("text"), [text], code_aware).search(query, 10) == []


def test_part_of_a_number_never_goes_before_that_number():
    index = BM25(spans("part", "whole"), ["a load of 12,500 kg", "a load of 500 kg"], code_aware)
    assert docs(index.search("500", 10)) == ["whole", "part"]


def test_an_identifier_is_found_by_its_parts_and_first_by_itself():
    texts = ["parse http header v 2", "parseHTTPHeader_v2", "parseHTTPHeader_v3"]
    index = BM25(spans(*"abc"), texts, code_aware)
    assert docs(index.search("parseHTTPHeader_v2", 10))[0] == "b" and len(index.search("http header", 10)) == 3


@pytest.mark.parametrize("tokenise", [words, code_aware])
@given(text=st.text(st.sampled_from("aZé ıİßﬁ_-'’7½茶と急ชกשجक\u0300\u00ad"), max_size=30))
def test_no_letter_is_lost(tokenise, text):
    assert {letter for letter in fold(text) if letter.isalnum()} <= set("".join(tokenise(text)))


def test_turkish_capitals_meet_their_small_letters():
    for capital, small in (("ILICA", "ılıca"), ("İNCİR", "incir")):
        assert docs(BM25(spans("text"), [capital], words_tr).search(small, 1)) == ["text"]


@given(st.permutations(range(5)))
def test_the_order_of_input_does_not_matter(order):
    texts = ["tea pot", "tea cup", "tea", "lid", "tea pot"]
    names = "abcde"
    shuffled = BM25(spans(*(names[i] for i in order)), [texts[i] for i in order], words)
    assert shuffled.search("tea pot", 9) == BM25(spans(*names), texts, words).search("tea pot", 9)


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
    one, two = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.6, 0.8]])
    scorer = MaxSim(
        spans("one", "two"),
        np.concatenate([one, two]).astype(np.float16),
        np.array([0, 2, 3]),
        lambda q: np.array([[1.0, 0.0], [0.0, 1.0]]),
    )
    assert scorer("?", spans("two", "one")) == pytest.approx([(0.6 + 0.8) / 2, 1.0], abs=1e-3)


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


@pytest.mark.parametrize(
    ("tokenise", "text", "terms"),
    [
        (words, "çay ocağı 茶碗 naïve", ["çay", "ocağı", "茶", "茶碗", "碗", "naïve"]),
        (words, "ﬁnal o\u00adﬃce CAFE\u0301", ["final", "office", "café"]),
        (ascii_words, "naïve", ["na", "ve"]),
        (code_aware, "parseHTTPHeader_v2", ["parsehttpheader_v2", "parse", "http", "header", "v", "2"]),
        (code_aware, "plain words", ["plain", "words"]),
        (
            code_aware,
            "für Müller ÖlTank çayOcağı",
            ["für", "müller", "öltank", "öl", "tank", "çayocağı", "çay", "ocağı"],
        ),
        (code_aware, "_ __init__ a1", ["init", "a1", "a", "1"]),
        (words, "हिन्दी İstanbul", ["हिन्दी", "istanbul"]),
        (words, "茶 AI茶v2", ["茶", "ai", "茶", "v2"]),
        (words, "INDEX Isı", ["index", "isı"]),
        (words_tr, "IĞDIR İzin I\u0307zin ısı", ["ığdır", "izin", "izin", "ısı"]),
    ],
)
def test_tokenisers(tokenise, text, terms):
    assert tokenise(text) == terms


def test_a_bm25_search_imports_no_heavy_engine():
    code = (
        "from localeval import sweep, provenance\nfrom localeval.retrieval import BM25\nfrom localeval.records import Span\n"
        "from localeval.tokens import words\nassert BM25([Span('a', 0, 3)], ['tea'], words).search('tea', 1)\n"
        "assert provenance.heavy_modules() == [], provenance.heavy_modules()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_chance_is_the_same_chance_every_time_and_knows_nothing():
    names = [f"d{i:03d}" for i in range(50)]
    arm = Shuffled(spans(*names))
    assert arm.search("tea", 50) == Shuffled(spans(*reversed(names))).search("tea", 50)
    assert sorted(docs(arm.search("tea", 50))) == names and docs(arm.search("tea", 50)) != docs(arm.search("kiln", 50))
