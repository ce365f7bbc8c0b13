"""Metrics: hand-worked examples, edges, properties, and two independent implementations as oracles."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localeval import metrics
from localeval.metrics import measure
from localeval.records import BadInput, Graded


def ranking(*gains, ideal=None, ranked=None):
    """A ranking by its gains in order; zeros are not judged relevant."""
    sparse = tuple((rank, float(gain)) for rank, gain in enumerate(gains, 1) if gain)
    ideal = sorted((g for g in gains if g), reverse=True) if ideal is None else ideal
    return Graded("q", "scored", sparse, ideal=tuple(map(float, ideal)), ranked=ranked or len(gains))


def seen(*gains):
    """A ranking by its gains: 0 was judged not relevant, -1 was in the pool and not judged, None nobody knows."""
    sparse = tuple((rank, float(gain)) for rank, gain in enumerate(gains, 1) if gain is not None)
    ideal = tuple(sorted((gain for _, gain in sparse if gain >= 0), reverse=True))
    return Graded("q", "scored", sparse, ideal=ideal, ranked=len(gains))


@pytest.mark.parametrize(
    ("graded", "name", "value"),
    [
        # qrels mug 3, pan 2, jar 1; ranking jar, mug, pan
        (ranking(1, 3, 2), "ndcg@3", 0.8175),
        (ranking(1, 3, 2), "ndcg_exp@3", 0.7364),
        # three relevant, one found: the ideal comes from all relevant units, not from the run
        (ranking(1, 0, 0, ideal=[1, 1, 1]), "ndcg@3", 0.4693),
        (ranking(1, 0, 0, ideal=[1, 1, 1]), "recall@3", 1 / 3),
        # four relevant, two found at ranks 1 and 2: a cut applies to both sides
        (ranking(1, 1, ideal=[1, 1, 1, 1]), "ndcg@2", 1.0),
        (ranking(1, 1, ideal=[1, 1, 1, 1]), "ndcg", 0.6367),
        (ranking(1, 1, ideal=[1, 1, 1, 1]), "recall@2", 0.5),
        # recall cannot reach 1 with 30 relevant units and a cut of 10
        (ranking(*[1] * 10, ideal=[1] * 30), "recall@10", 1 / 3),
        # first relevant unit below the cut
        (ranking(*[0] * 10, 1), "rr@10", 0.0),
        (ranking(*[0] * 10, 1), "rr", 1 / 11),
        # precision divides by the cut even when fewer units came back
        (ranking(1), "p@10", 0.1),
        # grades: qrels a 3, b 1; ranking b, a
        (ranking(1, 3), "ndcg@2", 0.7967),
        (ranking(1, 3), "rr", 1.0),
        # ranked A..E with B grade 2 and D grade 1
        (ranking(0, 2, 0, 1, 0), "ndcg@5", 0.6433),
        (ranking(0, 2, 0, 1, 0), "rr", 0.5),
        (ranking(0, 2, 0, 1, 0), "recall@3", 0.5),
        (ranking(0, 2, 0, 1, 0), "p@3", 1 / 3),
        (ranking(0, 2, 0, 1, 0), "ap", (1 / 2 + 2 / 4) / 2),
        (ranking(0, 0, 1), "success@2", 0.0),
        (ranking(0, 0, 1), "success@3", 1.0),
        # in the pool, not judged (-1): infap infers from the rest; judged refuse it, bpref does not count it
        (seen(1, -1, 0, 1), "infap", (1 + (1 + 3 * 0.5) / 4) / 2),
        (seen(1, -1, 0, 1), "judged@4", 3 / 4),
        (seen(1, -1, 0, 1), "bpref", (1 + 1 - 1 / 1) / 2),
        (seen(-1, -1, 1), "bpref", 1.0),
        # ten returned, two judged, the one that counts at rank 3: holes change no score, and are seen in another column
        (seen(None, None, 1, None, 0, *[None] * 5), "judged@10", 0.2),
        (seen(None, None, 1, None, 0, *[None] * 5), "rr", 1 / 3),
        (seen(None, None, 1, None, 0, *[None] * 5), "condensed_rr", 1.0),
        # rank 2 was not judged: condensed, ranks 3 and 4 move up
        (seen(0, None, 1, 2), "condensed_rr", 1 / 2),
        (seen(0, None, 1, 2), "condensed_recall@2", 1 / 2),
        (seen(0, -1, 1, 2), "condensed_ndcg@3", (1 / 1.58496 + 2 / 2) / (2 + 1 / 1.58496)),
        (seen(0, None, 1, 2), "condensed_ndcg_exp@3", (1 / 1.58496 + 3 / 2) / (3 + 1 / 1.58496)),
        # one of two pieces found: recall is not success
        (ranking(0, 1, ideal=[1, 1]), "recall@2", 0.5),
        (ranking(0, 1, ideal=[1, 1]), "success@2", 1.0),
    ],
)
def test_worked_examples(graded, name, value):
    assert measure(graded, name) == pytest.approx(value, abs=5e-5)


def test_evidence_metrics_reward_each_piece_once():
    graded = Graded("q", "scored", ((1, 2.0), (2, 2.0)), ((1, (0,)), (4, (1, 2))), (2.0, 2.0), (2, 1, 1), 10)
    assert measure(graded, "evidence_recall@3") == pytest.approx(1 / 3)
    assert measure(graded, "evidence_recall@4") == 1.0
    # pieces at places 1, 4 and 5
    dcg = 2 / math.log2(2) + 1 / math.log2(5) + 1 / math.log2(6)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert measure(graded, "evidence_ndcg@10") == pytest.approx(dcg / ideal)


def test_one_unit_that_holds_everything_is_perfect():
    graded = Graded("q", "scored", ((1, 2.0),), ((1, (0, 1, 2)),), (2.0,), (2, 1, 1), 10)
    assert measure(graded, "evidence_ndcg@10") == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["p@1", "success@10", "rr", "recall@10", "ndcg@10", "evidence_recall@10"])
def test_states_are_not_numbers(name):
    assert measure(Graded("q", "unanswerable"), name) is None
    assert measure(Graded("q", "not_applicable"), name) is None
    assert measure(Graded("q", "unreachable", evidence=(1,)), name) == 0.0


def test_unanswerable_questions_move_no_mean():
    """One found, one missed, two that nothing answers: half of two; neither three quarters nor a quarter of four."""
    hit, miss = (
        Graded("q1", "scored", ((1, 1.0),), ideal=(1.0,), ranked=1),
        Graded("q2", "scored", ideal=(1.0,), ranked=1),
    )
    nothing = [Graded(name, "unanswerable", ranked=1) for name in ("q3", "q4")]
    scores = metrics.scores_of({("s", "chunk/contains"): [hit, miss, *nothing]}, ["recall@1", "success@1"])
    assert scores.groupby("metric")["value"].agg(["mean", "size"]).to_numpy().tolist() == [[0.5, 2], [0.5, 2]]


@pytest.mark.parametrize("name", ["ndcg@0", "ndgc@10", "ndcg@-1", "ndcg@x", "", "EH@10"])
def test_unknown_metrics_are_refused_by_name(name):
    with pytest.raises(BadInput, match="known: ndcg"):
        metrics.parse(name)


gains = st.lists(st.integers(0, 3), min_size=1, max_size=15)


@given(gains, st.lists(st.integers(1, 3), max_size=5), st.integers(1, 20))
def test_every_metric_stays_between_0_and_1(found, missed, cut):
    graded = ranking(*found, ideal=sorted([g for g in found if g] + missed, reverse=True))
    for name in ("ndcg", "ndcg_exp", "rr", "p", "recall", "success", "ap", "judged"):
        for full in (name, f"{name}@{cut}"):
            assert 0 <= measure(graded, full) <= 1 + 1e-12


@given(gains.filter(any))
def test_a_perfect_ranking_is_1(found):
    graded = ranking(*sorted(found, reverse=True))
    for cut in (1, 3, 10):
        assert measure(graded, f"ndcg@{cut}") == pytest.approx(1.0)
        assert measure(graded, f"ndcg_exp@{cut}") == pytest.approx(1.0)


@given(gains, st.lists(st.integers(1, 3), max_size=5))
def test_recall_never_falls_with_the_cut(found, missed):
    graded = ranking(*found, ideal=sorted([g for g in found if g] + missed, reverse=True))
    values = [measure(graded, f"recall@{cut}") for cut in range(1, 20)]
    assert values == sorted(values)


NAMES = {
    "ndcg@10": "ndcg_cut_10",
    "ndcg": "ndcg",
    "rr": "recip_rank",
    "p@5": "P_5",
    "recall@10": "recall_10",
    "ap": "map",
    "success@10": "success_10",
}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.lists(st.integers(1, 3), max_size=4))
def test_agrees_with_trec_eval(found, missed):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    if not any(found + missed):
        return
    qrels = {f"d{i}": gain for i, gain in enumerate(found)} | {f"m{i}": gain for i, gain in enumerate(missed)}
    run = {f"d{i}": float(len(found) - i) for i in range(len(found))}
    evaluator = pytrec_eval.RelevanceEvaluator(
        {"q": qrels}, {"ndcg_cut", "ndcg", "recip_rank", "P", "recall", "map", "success"}
    )
    theirs = evaluator.evaluate({"q": run})["q"]
    graded = ranking(*found, ideal=sorted([g for g in found if g] + missed, reverse=True))
    for ours, name in NAMES.items():
        if name in theirs:
            assert measure(graded, ours) == pytest.approx(theirs[name], abs=1e-9), ours
