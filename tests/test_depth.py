"""What looking deeper buys: oracle, ledger and adaptive depth on tables small enough to do by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import depth as depths
from localeval import pricetables, sweep
from localeval.depth import Line, Policy
from localeval.metrics import measure
from localeval.records import BadInput, Evidence, Graded, Hit, Query, Span

LINE = Line("c/h", "m", {0: "c/h", 10: "c/h+m@10", 20: "c/h+m@20"})


def graded(query, *ranks, evidence=(1,), ranked=100):
    gains = tuple((rank, 1.0) for rank in ranks)
    covers = tuple((rank, (place,)) for place, rank in enumerate(ranks))
    return Graded(query, "scored", gains, covers, (1.0,) * max(1, len(ranks)), evidence, ranked, "human")


def test_the_oracle_moves_what_counts_to_the_top_and_reaches_no_deeper():
    one = graded("q", 3, 12, 30, evidence=(1, 1, 1))
    assert depths.oracle(one, 10).gains == ((1, 1.0), (12, 1.0), (30, 1.0))
    assert depths.oracle(one, 20).gains == ((1, 1.0), (2, 1.0), (30, 1.0))
    assert depths.oracle(one, 20).covers == ((1, (0,)), (2, (1,)), (30, (2,)))
    assert depths.oracle(one, 0) == one
    weighed = Graded("q", "scored", ((2, 1.0), (5, 3.0)), ((2, (0,)), (5, (1,))), (3.0, 1.0), (1, 3), 9)
    assert depths.oracle(weighed, 5).gains == ((1, 3.0), (2, 1.0))


@given(st.sets(st.integers(1, 40), max_size=6), st.integers(0, 40))
def test_no_order_is_worse_than_before_under_the_oracle(ranks, depth):
    one = graded("q", *sorted(ranks), evidence=(1,) * len(ranks))
    for name in ("ndcg@10", "rr", "evidence_ndcg@10", "success@10"):
        assert measure(depths.oracle(one, depth), name) >= measure(one, name)


def runs():
    rows = [
        ("c/h", "", 0, "ok"),
        ("c/h+m@10", "m", 10, "ok"),
        ("c/h+m@20", "m", 20, "ok"),
        ("c/h+x@10", "x", 10, "not_run"),
    ]
    frame = pd.DataFrame(rows, columns=["system", "reranker", "rerank_depth", "status"])
    return frame.assign(chunker="c", retriever="h", model="")


def test_lines_hold_what_ran():
    assert depths.lines(runs(), "r", "rr", scores(TABLE)) == [LINE]
    with pytest.raises(BadInput, match="no reranked system ran beside its first stage"):
        depths.lines(runs()[1:], "r", "rr", scores(TABLE))
    with pytest.raises(BadInput, match="no scores of rrr under r in 40_rerank .did you mean 'rr'"):
        depths.lines(runs(), "r", "rrr", scores(TABLE))
    read = runs().replace("", None)
    assert depths.lines(read, "r", "rr", scores(TABLE)) == [LINE], "an empty cell of a table that was read is None"


def test_samples_over_a_budget():
    seconds = [0.5, 1.0, 1.2, 3.0]
    timings = pd.DataFrame({"system": "s", "phase": "total", "seconds": seconds})
    (row,) = depths.over_budget(timings, 1000).to_dict("records")
    assert (row["over"], row["samples"], row["share"]) == (2, 4, 0.5) and row["low"] < 0.5 < row["high"]
    with pytest.raises(BadInput, match="budget_ms=0"):
        depths.over_budget(timings, 0)


def test_engines_whose_agreement_is_a_signal():
    rows = [("c/bm25", "bm25", 0), ("c/dense:m", "dense", 0), ("c/dense:m+x@10", "dense", 10), ("d/bm25", "bm25", 0)]
    frame = pd.DataFrame(rows, columns=["system", "retriever", "rerank_depth"]).assign(status="ok")
    frame["chunker"] = frame["system"].str.partition("/")[0]
    assert depths.component_pairs(LINE, frame) == [("c/bm25", "c/dense:m")]


def test_tables_to_read_and_a_sentence():
    ranks = {"a": (2,), "b": (4,), "c": (1,), "d": ()}
    judged = {("c/h", "r"): [graded(query, *found) for query, found in ranks.items()]}
    rows = depths.ledgers(
        [LINE], scores(TABLE), judged, "r", "rr", pd.Series({"c/h": 1.0, "c/h+m@10": 2.0, "c/h+m@20": 3.0})
    )
    assert pricetables.ledger(rows)["headroom"].tolist() == ["0%", "60%"]
    assert depths.line_table([LINE], scores(TABLE), "r", "rr").iloc[0].tolist() == ["c/h", "m", "10, 20", 4]
    table, known = questions()
    assert "above zero at 1 of 2 costs and below at 0" in pricetables.adaptive_sentence(
        depths.adaptive(table, known, COST, {})
    )
    flat = pd.DataFrame({"low": [-0.1], "high": [0.1]})
    assert "not separated" in pricetables.adaptive_sentence(flat)


def scores(table, names="abcd"):
    rows = [
        (system, "r", "rr", query, value)
        for system, column in table.items()
        for query, value in zip(names, column, strict=True)
    ]
    return pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value"])


TABLE = {"c/h": [0.5, 0.25, 1.0, 0.0], "c/h+m@10": [1.0, 0.25, 0.5, 0.0], "c/h+m@20": [1.0, 0.5, 1.0, 0.0]}


def test_the_ledger_by_hand():
    ranks = {"a": (2,), "b": (4,), "c": (1,), "d": ()}
    judged = {("c/h", "r"): [graded(query, *found) for query, found in ranks.items()]}
    mean_ms = pd.Series({"c/h": 10.0, "c/h+m@10": 60.0, "c/h+m@20": 10.0})
    ten, twenty = depths.ledger(LINE, scores(TABLE), judged, "r", "rr", mean_ms).to_dict("records")
    assert (ten["gain"], ten["rescued"], ten["demoted"], ten["n"]) == (0.0, 1, 1, 4)
    assert ten["oracle"] == 0.75 and ten["headroom"] == 0.0 and ten["per_100_ms"] == 0.0
    assert twenty["gain"] == pytest.approx(0.1875) and twenty["headroom"] == pytest.approx(0.1875 / 0.3125)
    assert np.isnan(twenty["per_100_ms"]), "no more time, no price"
    assert depths.moved(LINE, scores(TABLE), "r", "rr", 10)["query_id"].tolist() == ["a", "c"]


def questions(n=40):
    """Where the signal is high the base is right already; elsewhere only the deepest reranking helps."""
    ids = [f"q{place:02d}" for place in range(n)]
    easy = np.arange(n) % 2 == 0
    table = pd.DataFrame({0: easy * 1.0, 10: easy * 1.0, 20: np.ones(n)}, index=ids)
    return table, pd.DataFrame({"margin": easy + np.arange(n) / 1000}, index=ids)


COST = pd.Series({0: 1.0, 10: 11.0, 20: 21.0})


def test_a_depth_per_question_pays_where_the_signal_knows():
    table, known = questions()
    rows = depths.adaptive(table, known, COST, {}).set_index("budget_ms")
    assert rows.loc[11.0, "fixed"] == 0.5 and rows.loc[11.0, "adaptive"] >= 0.9 and rows.loc[11.0, "low"] > 0
    assert rows.loc[21.0, "delta"] == 0.0 and rows.loc[21.0, "adaptive_ms"] < rows.loc[21.0, "fixed_ms"]


def test_it_does_not_pay_where_the_signal_knows_nothing():
    table, _ = questions()
    noise = pd.DataFrame({"margin": np.random.default_rng(5).random(len(table))}, index=table.index)
    assert depths.adaptive(table, noise, COST, {}).set_index("budget_ms").loc[11.0, "delta"] < 0.3


def test_policies_take_a_score_of_the_reranker_only_where_it_is_known():
    known = pd.DataFrame({"margin": [0.1, 0.2], "score@10": [0.5, 0.6], "empty": [np.nan, np.nan]})
    made = depths.policies(known, [0, 10, 20], {"score@10": 10})
    assert {(one.shallow, one.deep) for one in made if one.signal == "score@10"} == {(10, 20)}
    assert {(one.shallow, one.deep) for one in made if one.signal == "margin"} == {(0, 10), (0, 20), (10, 20)}
    assert not any(one.signal == "empty" for one in made)


def test_a_question_without_a_signal_goes_deep():
    assert Policy("margin", 0.5, 0, 20).depths(pd.DataFrame({"margin": [0.6, 0.4, np.nan]})).tolist() == [0, 20, 20]


def test_nothing_within_the_budget_is_no_policy():
    table, known = questions()
    assert depths.choose(table, known, COST, 0.5, depths.policies(known, [0, 10, 20], {})) is None


def test_the_bound_by_hand_and_a_stop_within_it():
    assert (
        depths.risk_bound([]) == 1.0
        and depths.risk_bound([0.0] * 19) == 1 / 20
        and depths.risk_bound([1.0, 0.0]) == 2 / 3
    )
    with pytest.raises(ValueError, match="between 0 and 1"):
        depths.risk_bound([1.5])
    table, known = questions()
    tried = depths.policies(known, [0, 10, 20], {})
    stops = depths.certified(table, known, COST, tried, 0.05)
    same = pd.DataFrame({5: 1.0, 10: 1.0, 20: 1.0}, index=table.index)
    steps = depths.policies(known, [5, 10, 20], {})
    flat = depths.certified(same, known, pd.Series({5: 6.0, 10: 11.0, 20: 21.0}), steps, 0.05)
    assert flat["signal"].tolist() == ["none: a fixed depth"] and flat.loc[0, "deep"] == 5, (
        "nothing is cheaper than five"
    )
    assert (
        stops["loss"].tolist() == [0.0] * len(stops)
        and (stops["bound"] == 1 / 41).all()
        and stops.loc[0, "shallow"] == 0
    )
    assert stops.loc[0, "skipped"] == pytest.approx(0.5, abs=0.06)
    assert depths.certified(table, known, COST, tried, 0.01).empty, "forty questions cannot certify one in a hundred"


def test_signals_of_a_line():
    spans = [Span("d", place, place + 1) for place in range(12)]
    hits = {("c/h", "q"): [Hit(spans[0], 1.0), Hit(spans[1], 0.5)], ("c/h", "r"): []}
    hits |= {("c/h+m@10", "q"): [Hit(spans[1], 0.8)], ("c/h+m@10", "r"): []}
    hits |= {("c/h+m@20", "q"): [Hit(spans[1], 0.8)], ("c/h+m@20", "r"): []}
    hits |= {("c/bm25", query): [Hit(span, 1.0) for span in spans[:10]] for query in "qr"}
    hits |= {("c/dense", query): [Hit(span, 1.0) for span in spans[2:]] for query in "qr"}
    table, known_at = depths.signals(LINE, sweep.signals(hits), hits, [("c/bm25", "c/dense"), ("c/bm25", "c/none")])
    assert table.loc["q", "margin"] == 0.5 and np.isnan(table.loc["r", "margin"]) and known_at == {"score@10": 10}
    assert table.loc["q", "overlap bm25 dense"] == 0.8
    assert table.loc["q", "score@10"] == 0.8 and np.isnan(table.loc["r", "score@10"])
    assert list(table.columns) == ["margin", "spread", "top_score", "overlap bm25 dense", "score@10"]


def by_depth(table):
    """Scores of a frame with a row a question and a column a depth."""
    return scores({LINE.systems[depth]: table[depth] for depth in table}, table.index)


def test_gains_within_groups_are_paired_and_thin_ones_are_marked():
    names = [f"q{place:02d}" for place in range(12)]
    table = pd.DataFrame({0: [0.0] * 12, 10: [0.5] * 12, 20: [1.0, 0.0] * 6}, index=names)
    groups = {
        "type": {name: "odd" if place % 2 else "even" for place, name in enumerate(names)},
        "origin": dict.fromkeys(names, "human") | {"elsewhere": "human"},
    }
    cost = pd.Series({"c/h": 10.0, "c/h+m@10": 20.0, "c/h+m@20": 60.0})
    rows = depths.breakdown(LINE, by_depth(table), groups, "r", "rr", 20, cost).set_index("group")
    assert rows.loc["even", ["n", "before", "after", "gain"]].tolist() == [6, 0, 1, 1] and rows.loc["odd", "gain"] == 0
    assert rows.loc["human", "gain"] == 0.5 and rows.loc["human", "per_100_ms"] == pytest.approx(1.0)
    assert 0.1 < rows.loc["human", "low"] < 0.5 < rows.loc["human", "high"] < 0.9 and np.isnan(rows.loc["even", "low"])
    assert rows["thin"].to_dict() == {"even": True, "odd": True, "human": False}
    shown = pricetables.breakdown(rows.reset_index())
    assert shown["note"].tolist() == ["thin: indicative only"] * 2 + [""] and "(no variation)" in shown["gain"][0]
    free = depths.breakdown(LINE, by_depth(table), groups, "r", "rr", 20, cost * 0)
    assert free["per_100_ms"].isna().all()


def test_what_questions_are_grouped_by():
    span = Evidence(Span("d", 0, 1))
    queries = [
        Query("a", "?", (span,), category="table"), Query("b", "?", (span,)), Query("t", "?", (span,), origin="templated"), Query("u", "?"),
    ]  # fmt: skip
    assert depths.groupings(queries, {"a": "digital_clean", "t": "low_text"}, "human") == {
        "class of page": {"a": "digital_clean"}, "type": {"a": "table", "b": "(none)"},
        "origin": {"a": "human", "b": "human", "t": "templated"},
    }  # fmt: skip


def test_the_depth_from_which_quality_falls():
    names = [f"q{place}" for place in range(8)]
    table = pd.DataFrame({0: [0.0] * 8, 10: [1.0] * 8, 20: [1.0, 0.5] * 4}, index=names)
    turn = depths.turning(LINE, by_depth(table), "r", "rr")
    assert (turn.baseline, turn.candidate, turn.delta) == ("10", "20", -0.25) and turn.high < 0
    assert pricetables.turning_sentence(turn).startswith(
        "The mean is highest with 10 candidates; from there to 20 it changes by −0.250"
    )
    assert "not separated" not in pricetables.turning_sentence(turn)
    flat = pd.DataFrame({0: [0.0] * 8, 10: [1.0] * 8, 20: [1.0] * 8}, index=names)
    level = depths.turning(LINE, by_depth(flat), "r", "rr")
    assert level.baseline == "10" and level.delta == 0, "of equal means the shallower"
    assert "not separated from no change" in pricetables.turning_sentence(level)
    rising = table.set_axis([0, 20, 10], axis=1)[[0, 10, 20]]
    assert depths.turning(LINE, by_depth(rising), "r", "rr") is None
    assert pricetables.turning_sentence(None) == "No depth has a higher mean than the deepest."


def test_repeats_are_said_in_one_sentence():
    totals = pd.DataFrame({"fastest_repeat_ms": [10.0, 10.0, 10.0], "slowest_repeat_ms": [10.0, 12.0, 15.0]})
    ran = pd.DataFrame({"reason": ["", ""]})
    words = pricetables.repeats_sentence(totals, ran, 3)
    assert (
        "asked 3 times" in words
        and "every repeat gave the same hits" in words
        and "1.20 times" in words
        and "1.50 times at most" in words
    )
    broke = pd.DataFrame({"reason": ["ValueError: asked again, it returned other hits than at first"]})
    assert "what answered otherwise is failed (systems: 1)" in pricetables.repeats_sentence(totals, broke, 3)
    assert "one repeat shows no spread" in pricetables.repeats_sentence(totals, ran, 1)
