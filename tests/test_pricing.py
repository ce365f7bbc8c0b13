"""Prices by hand: ways to run a reranker against the first, costs shared by questions, and where lines cross."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from localeval import preview, pricefigures, pricetables, pricing, sweep
from localeval.records import BadInput, Hit, Query, Span, System
from test_sweep import QUERIES, engines  # noqa: F401

RUNS = pd.DataFrame([
    ("c/random", "random", "", "", 0, "ok", np.nan), ("c/bm25", "bm25", "", "", 0, "ok", np.nan),
    ("c/dense:m", "dense", "m", "", 0, "ok", 10.0), ("c/dense:m+x@20", "dense", "m", "x", 20, "ok", 8.0),
    ("c/dense:m+x@40", "dense", "m", "x", 40, "ok", 8.0), ("c/dense:m+y@20", "dense", "m", "y", 20, "not_run", np.nan),
], columns=["system", "retriever", "model", "reranker", "rerank_depth", "status", "vector_seconds"])  # fmt: skip
RUNS = RUNS.assign(chunker="c", depth=100)
TOTALS = pd.DataFrame({"system": RUNS["system"][:5], "mean_ms": [1.0, 2.0, 30.0, 50.0, 70.0]})


def test_the_first_stage_that_is_priced():
    assert pricing.base_of(RUNS) == System("c", "dense", "m") and pricing.base_of(RUNS, "c/bm25") == System("c", "bm25")
    assert pricing.base_of(RUNS[:2].replace("", np.nan)).name == "c/random", "nothing is reranked: the first that ran"
    with pytest.raises(BadInput, match="base 'c/bm52' did not run.*did you mean 'c/bm25'"):
        pricing.base_of(RUNS, "c/bm52")
    with pytest.raises(BadInput, match="no first stage ran"):
        pricing.base_of(RUNS[:0])


def test_what_a_system_costs_once_and_for_each_question():
    known = pricing.costs(RUNS, TOTALS, 20)
    assert known.to_numpy().tolist() == [
        ["c/bm25", 0.0, 0.002, "measured"], ["c/dense:m", 10.0, 0.03, "measured"],
        ["c/dense:m+x@20", 10.0, 0.05, "measured"],  # one pass gave both, so that it is not cheaper than its first stage
    ]  # fmt: skip
    ahead = pd.DataFrame({"shape": ["s", "s", "t"], "mean_ms": [900.0, 300.0, 98.0]})
    both = pricing.with_preview(known, ahead, ["c/bm25"], 20)
    assert both["system"].tolist()[3:] == [
        "c/bm25 with cross-encoder s@20 (cost only)",
        "c/bm25 with cross-encoder t@20 (cost only)",
    ]
    assert both["question_s"].tolist()[3:] == pytest.approx([0.302, 0.1]) and set(both["kind"][3:]) == {"cost only"}
    assert pricing.with_preview(known, ahead[:0], ["c/bm25"], 20) is known


def test_lines_cross_where_both_have_cost_the_same():
    known = pd.DataFrame(
        [("a", 0.0, 0.5, "measured"), ("b", 10.0, 0.1, "measured"), ("c", 10.0, 0.6, "cost only")],
        columns=pricing.COSTS,
    )
    (row,) = pricing.crossings(known).to_dict("records")
    assert row == {"cheaper_before": "a", "cheaper_from": "b", "questions": 26}, "10 / 0.4 = 25 is the draw"
    shared = pricing.amortised(known, 100).set_index(["system", "questions"])["seconds"]
    assert shared["b", 1.0] == 10.1 and shared["b", 100.0] == pytest.approx(0.2) and shared["a", 100.0] == 0.5
    assert (
        "Lines cross for 1 of 3 pairs. Soonest, b is cheaper in all than a from question 26 on."
        in pricing.break_even(known)
    )
    assert pricing.break_even(known[1:]).startswith("No lines cross: no system costs more beforehand")
    assert pricing.crossings(known[:0]).empty


def test_the_figure_says_both_ends_and_draws_what_is_estimated_dashed():
    known = pd.DataFrame([("a", 0.0, 0.5, "measured"), ("b", 10.0, 0.1, "cost only")], columns=pricing.COSTS)
    drawn = pricefigures.amortised(pricing.amortised(known, 1000), caption="Words.")
    assert "a 0.5 s at 1 and 0.5 s at 1,000; b 10.1 s at 1 and 0.11 s at 1,000" in drawn.alt
    assert "dasharray" in drawn._repr_html_()
    assert "dasharray" not in pricefigures.amortised(pricing.amortised(known[:1], 1000), caption="Words.")._repr_html_()
    with pytest.raises(BadInput, match="seconds above 0"):
        pricefigures.amortised(pricing.amortised(known.assign(once_s=0.0, question_s=0.0)), caption="Words.")


def test_ways_are_compared_with_the_first_and_a_slow_one_is_asked_little(engines, monkeypatch):  # noqa: F811
    asked = {}

    class Scorer:
        def __init__(self, name):
            self.name = name

        def __call__(self, query, spans):
            asked.setdefault(self.name, set()).add(query)
            return np.array([span.start + (0.25 if self.name.endswith("int8") else 0.0) for span in spans], float)

    monkeypatch.setattr(engines, "scorer", lambda system: Scorer(system.reranker))
    monkeypatch.setattr(engines, "missing", lambda system: "not run: no weights" if system.reranker == "z" else "")
    monkeypatch.setattr(pricing, "SLOW_QUESTIONS", 1)
    monkeypatch.setattr(engines, "bytes_a_chunk", lambda system: 8.0)
    options = {"origin": "human", "timed_questions": 2, "repeats": 1}
    base = System("sentence", "bm25")
    rows = pricing.compare_ways(
        base, ["x", "x:int8", "x:fly", "z"], 3, QUERIES, engines, "chunk/contains", "rr", **options
    )
    assert rows["reranker"].tolist() == ["x", "x:int8", "x:fly", "z"] and rows["status"].tolist() == ["ok"] * 3 + [
        "not_run"
    ]
    rows = rows.set_index("reranker")
    assert np.isnan(rows.loc["x", "delta"]) and rows.loc["x:int8", "delta"] == 0 and rows.loc["x:int8", "n"] == 3
    assert (
        rows.loc["x:int8", "score_apart"] == 0.25 and rows.loc["x:int8", "overlap"] == 1 and rows.loc["x:fly", "n"] == 1
    )
    assert len(asked["x:fly"]) == 1 and len(asked["x"]) >= 2
    shown = pricetables.ways(rows.reset_index())
    assert shown["difference"].tolist()[0] == "reference" and "no variation" in shown["difference"][1]
    assert pd.isna(shown["difference"][3]) and pd.isna(shown["bytes a chunk"][3])
    assert pricing.compare_ways(base, [], 3, QUERIES, engines, "chunk/contains", "rr", **options).empty


def test_overlap_and_distance_by_hand():
    at = [Span("d", place, place + 1) for place in range(4)]
    one, two = System("c", "bm25", "", "x", 2), System("c", "bm25", "", "y", 2)
    hits = {
        (one.name, "q"): [Hit(at[0], 0.9), Hit(at[1], 0.5), Hit(at[2], -2.0)],
        (two.name, "q"): [Hit(at[1], 0.6), Hit(at[0], 0.5), Hit(at[3], -9.0)],
        (two.name, "only here"): [Hit(at[0], 7.0)],
    }  # fmt: skip
    assert pricing._apart(two, one, hits) == {"overlap": pytest.approx(2 / 3), "score_apart": pytest.approx(0.4)}


def test_candidates_are_texts_of_the_first_hits(engines):  # noqa: F811
    outcome = sweep.run([System("sentence", "bm25")], QUERIES, engines, repeats=1)
    pairs = pricing.candidates(outcome.hits, System("sentence", "bm25"), QUERIES, engines, 1)
    assert pairs[0][0] == "boiling tea" and pairs[0][1] == ["Tea wants boiling water."]
    assert "zzz" not in [question for question, _ in pairs], "a question without hits has nothing to rerank"
    assert pricing.drawn([*QUERIES, Query("u", "?")], "human", 2, 1) == pricing.drawn(
        QUERIES[:2] + QUERIES[3:], "human", 2, 1
    )
    assert [one.query_id for one in pricing.drawn(QUERIES, "human", 99, 1)] == ["q1", "q2", "q4"]
    assert pricing.drawn(QUERIES, "templated", 2, 1) == []


def test_a_preview_to_read_is_labelled_and_compares_with_the_plain_call():
    rows = pd.DataFrame(
        [
            ("s", way, 20.0, ms, ms, ms, ms / 20, 3, preview.LABEL)
            for way, ms in zip(preview.ARMS, (900.0, 300.0, 150.0), strict=True)
        ],
        columns=preview.COST,
    )
    shown = pricetables.preview(rows)
    assert shown["times faster"].tolist() == [1, 3, 6] and (shown["weights"] == preview.LABEL).all()
    words = pricetables.preview_sentence(rows)
    assert "900 ms in a plain call and 150 ms by ONNX Runtime, int8 (cost only)" in words and "20 candidates" in words
    assert (
        pricetables.preview_sentence(rows[:0], "not run: no tokenizer")
        == "No shape was previewed: not run: no tokenizer."
    )
