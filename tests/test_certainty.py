"""Signals of certainty, by hand: what is not there is not a number, and equal rankings agree wholly."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from localeval import certainty, tables
from localeval.lexical import BM25
from localeval.records import Hit, Query, Span

SPANS = [Span("d", at, at + 10) for at in (0, 10, 20)]
TEXTS = ["warm milk", "cold milk milk", "tea"]
WORDS = certainty.words(SPANS, TEXTS, str.split, 1.5)


def test_signals_of_scores_by_hand():
    got = certainty.of_scores([2.0, 1.0, 0.5])
    assert got["top_score"] == 2 and got["margin"] == 0.5 and got["margin_to_third"] == 0.75
    assert certainty.of_scores([1.0])["margin"] == certainty.of_scores([1.0])["margin_to_third"] == 1
    assert certainty.of_scores([-1.0, -2.0])["margin"] == 0, "a share of a negative score says nothing"
    assert certainty.of_scores([1.0] * 10)["spread"] == pytest.approx(-math.log(10))
    assert all(map(math.isnan, certainty.of_scores([]).values()))
    assert certainty.of_scores([1000.0, 0.0])["spread"] == 0, "shares that vanish add nothing"


def test_rank_biased_overlap_by_hand():
    assert certainty.rbo("abc", "abc") == pytest.approx(1) and certainty.rbo("ab", "cd") == 0
    assert certainty.rbo("ab", "ba", p=0.5) == pytest.approx(1 * 0.25 + 1 * (0 * 0.5 + 1 * 0.25))
    assert certainty.rbo("abc", "a") == 1, "compared as deep as both go"
    assert math.isnan(certainty.rbo("", "a"))


def test_bm25_stays_below_what_is_attainable():
    index = BM25(SPANS, TEXTS, str.split, k1=1.5)
    for question in ("milk", "milk milk", "warm milk", "tea"):
        best = index.search(question, 1)[0].score
        assert 0 < best < WORDS.attainable(question)
    assert WORDS.attainable("milk coffee") > WORDS.attainable("milk"), (
        "a word that no chunk holds is attainable too, and missed"
    )
    assert WORDS.attainable("") == 0


def test_words_found():
    assert WORDS.found("warm warm tea", SPANS[0]) == 0.5 and math.isnan(WORDS.found("", SPANS[0]))


def systems(*rows):
    return pd.DataFrame(
        [
            {"system": n, "chunker": "c", "retriever": r, "model": m, "reranker": k, "status": "ok", "notebook": "x"}
            for n, r, m, k in rows
        ]
    )


RUNS = systems(
    ("c/bm25", "bm25", "", ""), ("c/dense:m", "dense", "m", ""), ("c/hybrid:m", "hybrid", "m", ""), ("c/hybrid:m+x@5", "hybrid", "m", "x"),
    ("c/random", "random", "", ""), ("c/bm25", "bm25", "", ""),
)  # fmt: skip
HITS = {
    ("c/bm25", "q"): [Hit(SPANS[0], 1.0), Hit(SPANS[1], 0.5)], ("c/dense:m", "q"): [Hit(SPANS[0], 0.8), Hit(SPANS[2], 0.1)],
    ("c/hybrid:m", "q"): [Hit(SPANS[0], 0.03)], ("c/hybrid:m+x@5", "q"): [Hit(SPANS[2], 0.9)], ("c/random", "q"): [Hit(SPANS[2], 0.9)],
}  # fmt: skip


def test_a_signal_is_defined_where_the_engine_is():
    wide = certainty.table(HITS, RUNS, [Query("q", "warm milk")], {"c": WORDS}).pivot(
        index="system", columns="signal", values="value"
    )
    assert set(wide.columns) == set(certainty.SIGNALS) and "c/random" not in wide.index
    defined = wide.notna()
    assert defined["dense_cosine"].tolist() == [False, True, True, True]
    assert defined["bm25_share"].tolist() == [True, False, True, True]
    assert defined["engines_agree"].tolist() == [False, False, True, True]
    assert defined["reranker_score"].tolist() == [False, False, False, True]
    assert wide.loc["c/hybrid:m+x@5", "reranker_score"] == 0.9 and wide.loc["c/hybrid:m+x@5", "dense_cosine"] == 0.8
    assert wide["terms_found"].tolist() == [1, 1, 1, 0]
    assert wide.loc["c/hybrid:m", "bm25_share"] == pytest.approx(1 / WORDS.attainable("warm milk"))


def test_an_engine_that_did_not_run_gives_no_signal():
    alone = {key: hits for key, hits in HITS.items() if key[0] == "c/hybrid:m"}
    got = certainty.table(alone, RUNS, [Query("q", "warm milk")], {"c": WORDS}).set_index("signal")["value"]
    assert got[["dense_cosine", "bm25_share", "engines_agree"]].isna().all() and got["top_score"] == 0.03


def test_every_signal_is_defined_in_words():
    table = certainty.definitions()
    assert len(table) == len(certainty.SIGNALS) and (table["what it is"].str.len() > 0).all()


def test_fusing_again_by_hand():
    rules = {"even": [1, 1], "dense": [0, 1], "sum": []}
    mixed = certainty.fused(HITS, "c/bm25", "c/dense:m", rules)
    assert [hit.span for hit in mixed["dense", "q"]] == [SPANS[0], SPANS[2]]
    assert mixed["even", "q"][0].score == pytest.approx(2 / 61)
    assert [(hit.span, hit.score) for hit in mixed["sum", "q"]] == [(SPANS[0], 2.0), (SPANS[1], 0.0), (SPANS[2], 0.0)]
    assert certainty.score_sum([[Hit(SPANS[0], 0.3)], []]) == [Hit(SPANS[0], 1.0)]
    assert certainty.fused({}, "c/bm25", "c/dense:m", rules) == {}


def test_the_hybrid_to_fuse_again_needs_both_engines():
    pair = certainty.hybrid_of(RUNS)
    assert (pair.hybrid, pair.engines, pair.notebook) == ("c/hybrid:m", ("c/bm25", "c/dense:m"), "x")
    assert certainty.hybrid_of(RUNS[RUNS["system"] != "c/bm25"]) is None
    got = certainty.of_fused(
        certainty.fused(HITS, *pair.engines, {"even": [1, 1]}), HITS, [Query("q", "warm milk")], {"c": WORDS}, pair
    )
    assert got["signal"].tolist() == ["margin", "dense_cosine"] and got["value"].iloc[1] == 0.8


def test_hits_are_read_where_they_are_meant(tmp_path):
    """Names with quotes and letters of any script, and a rank that begins like another."""
    odd = 'a "b"/çé+c'
    hits = {(name, "q"): [Hit(SPANS[place % 3], 1.0 / (place + 1)) for place in range(12)] for name in (odd, "a", "ab")}
    path = tmp_path / "hits.jsonl"
    tables.write_hits(hits, path)
    assert tables.read_hits(path) == hits
    assert tables.read_hits(path, 1) == {key: own[:1] for key, own in hits.items()}
    assert tables.read_hits(path, 11, [odd]) == {(odd, "q"): hits[odd, "q"][:11]}
    assert tables.read_hits(path, systems=["a"]) == {("a", "q"): hits["a", "q"]}
