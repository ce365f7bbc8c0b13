"""Abstention: small curves by hand, and the properties that keep a signal from looking better than it is."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import abstention, answertables


def test_risk_coverage_by_hand():
    curve = abstention.risk_coverage(np.array([0.9, 0.5, 0.7]), np.array([True, False, False]))
    assert curve["answered"].tolist() == [1, 2, 3]
    assert curve["risk"].tolist() == [0.0, 0.5, pytest.approx(2 / 3)]


def test_equal_signals_are_answered_together():
    curve = abstention.risk_coverage(np.array([0.5, 0.5, 0.1]), np.array([True, False, True]))
    assert curve["answered"].tolist() == [2, 3]


def test_nothing_retrieved_is_the_least_certain():
    curve = abstention.risk_coverage(np.array([np.nan, -3.0]), np.array([False, True]))
    assert curve["risk"].tolist() == [0.0, 0.5]


def test_a_constant_signal_is_worth_as_much_as_chance():
    correct = np.array([True, False, True, False])
    assert abstention.aurc(np.ones(4), correct) == pytest.approx(0.5)
    assert abstention.auroc(np.ones(4), correct) == 0.5


def test_auroc_needs_both_kinds():
    assert math.isnan(abstention.auroc(np.array([1.0, 2.0]), np.array([True, True])))
    assert abstention.auroc(np.array([3.0, 1.0, 2.0]), np.array([True, False, True])) == 1.0


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0, np.nan]), st.booleans()), min_size=1, max_size=20))
def test_areas_equal_their_definitions(rows):
    """AURC as the mean over counts of the interpolated curve; AUROC over all pairs."""
    signal, correct = np.array([s for s, _ in rows]), np.array([c for _, c in rows])
    curve = abstention.risk_coverage(signal, correct)
    answered, wrong = [0, *curve["answered"]], [0, *(curve["risk"] * curve["answered"])]
    counts = np.arange(1, len(rows) + 1)
    assert abstention.aurc(signal, correct) == pytest.approx(np.mean(np.interp(counts, answered, wrong) / counts))
    known = np.where(np.isnan(signal), -np.inf, signal)
    pairs = [(a > b) + 0.5 * (a == b) for a in known[correct] for b in known[~correct]]
    assert abstention.auroc(signal, correct) == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)


@given(st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=1, max_size=30))
def test_no_signal_beats_the_oracle(rows):
    signal, correct = np.array([s for s, _ in rows]), np.array([c for _, c in rows])
    oracle = abstention.aurc(correct.astype(float), correct)
    assert oracle - 1e-12 <= abstention.aurc(signal, correct) <= 1


def test_an_unanswerable_question_is_never_correct():
    scores = pd.DataFrame(
        {"system": "s", "rule": "r", "metric": "p@1", "query_id": ["a", "b"], "value": [1.0, 0.0], "status": "scored"}
    )
    got = abstention.outcomes(scores, {"a": True, "b": True, "c": False, "d": True}, metric="p@1", rule="r").set_index(
        "query_id"
    )
    assert list(got.index) == ["a", "b", "c"], "d cannot be judged under the rule: neither right nor wrong"
    assert got["answerable"].tolist() == [True, True, False]
    assert got["correct"].tolist() == [True, False, False]


def test_the_table_counts_what_stands_behind_it():
    outcome = pd.DataFrame(
        {
            "system": "s",
            "query_id": list("abcd"),
            "answerable": [True, True, True, False],
            "correct": [True, True, False, False],
        }
    )
    signals = pd.DataFrame(
        {"system": "s", "query_id": list("abcd"), "signal": "top_score", "value": [4.0, 3.0, 2.0, 1.0]}
    )
    row = abstention.abstention(signals, outcome, seed=1, n_resamples=200).iloc[0]
    assert (row["n"], row["unanswerable"], row["correct"]) == (4, 1, 2)
    assert row["aurc"] == row["aurc_oracle"] == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)
    assert row["auroc"] == 1.0 and row["aurc_random"] == 0.5


def test_augrc_follows_from_auroc_and_risk():
    """Traub et al. 2024: AUGRC = (1 - AUROC of right against wrong) right wrong + wrong^2 / 2."""
    random = np.random.default_rng(5)
    for _ in range(20):
        signal, correct = random.integers(0, 6, 30).astype(float), random.random(30) < 0.6
        risk = 1 - correct.mean()
        expected = (1 - abstention.auroc(signal, correct)) * risk * (1 - risk) + risk**2 / 2
        assert abstention.augrc(signal, correct) == pytest.approx(expected)


def test_augrc_by_hand():
    correct = np.array([True, False])
    assert abstention.augrc(np.array([2.0, 1.0]), correct) == pytest.approx(0.125), (
        "wrong answers 0, 0, 1/2 at coverage 0, 1/2, 1"
    )
    assert abstention.augrc(np.array([1.0, 2.0]), correct) == pytest.approx(0.375)
    assert abstention.augrc(np.ones(2), correct) == pytest.approx(0.25)


def judged(values, correct, answerable=None):
    ids = [f"q{number:03d}" for number in range(len(values))]
    signals = pd.DataFrame({"system": "s", "query_id": ids, "signal": "margin", "value": values})
    answerable = correct if answerable is None else answerable
    outcome = pd.DataFrame({"system": "s", "query_id": ids, "answerable": answerable, "correct": correct})
    return signals, outcome, pd.DataFrame({"system": ["s"], "signal": ["margin"]})


def test_an_area_is_between_its_bounds_and_its_interval_holds_it():
    correct = np.arange(40) % 3 > 0
    signals, outcome, _ = judged(np.where(correct, 1.0, 0.0) + np.linspace(0, 1.2, 40), correct)
    row = abstention.abstention(signals, outcome, seed=1, n_resamples=300).iloc[0]
    for name in ("aurc", "augrc"):
        assert row[f"{name}_oracle"] < row[name] < row[f"{name}_random"]
        assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
    assert 0 < row["gained_low"] < row["gained"] < row["gained_high"] <= 1 + 1e-9


def test_a_signal_that_a_system_lacks_has_no_row():
    signals, outcome, _ = judged([math.nan] * 4, np.array([True, False, True, False]))
    other = signals.assign(signal="spread", value=[1.0, 2.0, 3.0, 4.0])
    assert abstention.abstention(pd.concat([signals, other]), outcome, seed=1, n_resamples=10)["signal"].tolist() == [
        "spread"
    ]
    with pytest.raises(abstention.BadInput, match="no system has a signal"):
        abstention.abstention(signals, outcome, seed=1, n_resamples=10)


def test_settings_that_say_the_same_are_tried_once():
    """A cosine that is the score of the first hit puts the same answers in the same order, on whatever scale."""
    signals, outcome, _ = judged([4.0, 3.0, 2.0, math.nan], np.array([True, False, True, False]))
    same = signals.assign(signal="dense_cosine", value=[0.4, 0.3, 0.2, math.nan])
    tied = signals.assign(signal="spread", value=[4.0, 3.0, 3.0, math.nan])
    none = signals.assign(signal="reranker_score", value=math.nan)
    whole = pd.concat([signals, same, tied, none])
    assert (
        abstention.distinct(whole, outcome) == 2
        and len(abstention.abstention(whole, outcome, seed=1, n_resamples=9)) == 3
    )
    twin = pd.concat([whole, signals.assign(system="t")])
    both = pd.concat([outcome, outcome.assign(system="t", correct=[True, True, False, False])])
    assert abstention.distinct(twin, both) == 3, "the same order of other answers is another setting"


GOOD = {"show": 1, "floors": [0.7, 1], "n_resamples": 1, "allowed_risk": 0.3}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"floors": []}, "floors=[]: give at least one selective accuracy"),
        ({"floors": [70]}, "floors=[70]: give at least one selective accuracy above 0 and at most 1"),
        ({"show": 0}, "show=0: must be a number of 1 or more"),
        ({"n_resamples": 0}, "n_resamples=0: must be a number of 1 or more"),
        ({"allowed_risk": 1.0}, "allowed_risk=1.0: give a share above 0 and below 1"),
        ({"fusion_coverage": 12}, "fusion_coverage=12: give a share"),
    ],
)
def test_parameters_that_nothing_can_be_made_of(given, message):
    abstention.check(**GOOD)
    with pytest.raises(abstention.BadInput) as problem:
        abstention.check(**GOOD | given)
    assert str(problem.value).startswith(message) and "\n" not in str(problem.value)


def test_a_threshold_has_the_digits_that_its_signal_needs():
    rows = pd.DataFrame(
        {"signal": ["spread", "spread", "margin", "margin"], "threshold": [-2.302584, -2.302583, 0.16827026, math.nan]}
    )
    assert answertables._thresholds(rows) == ["−2.302584", "−2.302583", "0.1683", None]


def test_a_floor_takes_the_highest_coverage_that_reaches_it():
    correct = np.array([True] * 8 + [False] * 2 + [True] * 2 + [False] * 8)
    signals, outcome, chosen = judged(np.arange(20, 0, -1.0), correct)
    got = abstention.selective(signals, outcome, chosen, [0.8, 0.9, 0.99]).set_index("floor")
    assert got["answered"].tolist() == [12, 8, 8] and got.loc[0.8, "accuracy"] == pytest.approx(10 / 12)
    assert got.loc[0.9, "threshold"] == 13 and set(got["state"]) == {"thin"}
    assert got.loc[0.8, "false_answers"] == 2 and got.loc[0.8, "unanswerable"] == 10
    assert abstention.selective(*judged(np.arange(20.0), correct), [0.9])["state"].tolist() == [
        "no threshold qualifies"
    ]


def test_five_answers_are_the_least():
    correct = np.array([True] * 4 + [False] * 6)
    assert (
        abstention.selective(*judged(np.arange(10, 0, -1.0), correct), [0.9])["state"].item()
        == "no threshold qualifies"
    )


def test_reweighting_by_hand():
    """Six right, two unanswerable; at half and half each unanswerable one weighs 2 and each other one 2/3."""
    answerable = np.array([True] * 6 + [False] * 2)
    assert abstention.weights(answerable, 0.5).tolist() == pytest.approx([2 / 3] * 6 + [2] * 2)
    assert abstention.weights(answerable, None).tolist() == [1] * 8
    assert abstention.weights(answerable, 0).tolist() == pytest.approx([8 / 6] * 6 + [0] * 2)
    signals, outcome, chosen = judged(np.ones(8), answerable, answerable)
    row = abstention.selective(signals, outcome, chosen, [0.4], 0.5).iloc[0]
    assert row["accuracy"] == pytest.approx(0.5) and row["coverage"] == 1 and row["high"] - row["low"] > 0.3
    none = abstention.selective(*judged(np.ones(8), np.ones(8, bool)), [0.4], 0.5).iloc[0]
    assert none["state"] == "not defined: no unanswerable question" and math.isnan(none["accuracy"])
    with pytest.raises(abstention.BadInput, match="unanswerable_share=1"):
        abstention.weights(answerable, 1)


def test_a_certificate_by_hand():
    """44 right answers bound a risk of 0.1 at error 0.01 (0.9^44 = 0.0097), 43 do not (0.0108)."""
    assert abstention.p_value(0, 44, 0.1) == pytest.approx(0.9**44) and abstention.p_value(0, 0, 0.1) == 1
    setting = {"allowed": 0.1, "error": 0.01, "among": "asked"}
    right = np.ones(44, bool)
    assert abstention.certified_threshold(np.arange(44.0), right, **setting) == 0
    assert math.isnan(abstention.certified_threshold(np.arange(43.0), right[:43], **setting))
    assert math.isnan(abstention.certified_threshold(np.full(44, np.nan), right, **setting)), "no signal, no threshold"
    answered = {"allowed": 0.1, "error": 0.1, "among": "answered"}
    assert abstention.certified_threshold(np.arange(44.0), right, **answered) == 0
    assert math.isnan(abstention.certified_threshold(np.arange(43.0), right[:43], **answered)), (
        "each of ten is tested at a tenth"
    )


def test_the_walk_down_stops_at_the_first_failure():
    """Below a run of wrong answers a bound on all asked must not be picked up again."""
    correct = np.array([True] * 60 + [False] * 20 + [True] * 20)
    at = abstention.certified_threshold(np.arange(100, 0, -1.0), correct, allowed=0.1, error=0.1, among="asked")
    wrong = (~correct)[: 101 - int(at)].sum()
    assert abstention.p_value(wrong, 100, 0.1) <= 0.1 < abstention.p_value(wrong + 1, 100, 0.1)


def test_certificates_hold_as_often_as_they_say():
    """400 draws from a known population: the true risk exceeds the allowed one in no more than the allowed share, plus luck."""
    broken = 0
    for number in range(400):
        random = np.random.default_rng(number)
        signal = random.random(80)
        correct = random.random(80) < signal
        at = abstention.certified_threshold(signal, correct, allowed=0.3, error=0.1, among="answered")
        broken += not math.isnan(at) and (1 - at) / 2 > 0.3  # above t a right answer has probability (1 + t) / 2
    assert broken / 400 < 0.145


def test_a_threshold_is_checked_on_the_other_fold():
    random = np.random.default_rng(3)
    signal = random.random(300)
    signals, outcome, chosen = judged(signal, random.random(300) < 0.5 + signal / 2)
    got = abstention.certified(signals, outcome, chosen, allowed=0.3, error=0.1, seed=1)
    assert got["risk"].tolist() == ["of the answered"] * 2 + ["of all asked"] * 2 and got["fold"].tolist() == [
        1,
        2,
        1,
        2,
    ]
    assert (got["chosen_on"] + got["held_out"] == 300).all() and got["threshold"].notna().all()
    for row, among in zip(got.to_dict("records"), ["answered"] * 2 + ["held_out"] * 2, strict=True):
        assert row["observed"] == row["wrong"] / row[among]
    tiny = abstention.certified(*judged(np.arange(6.0), np.ones(6, bool)), allowed=0.1, error=0.1, seed=1)
    assert set(tiny["holds"]) == {"no threshold qualifies"} and tiny["observed"].isna().all()


def test_a_fold_follows_from_the_id_alone():
    sides = {name: abstention.side(name, 1) for name in map(str, range(200))}
    assert 60 < sum(sides.values()) < 140 and abstention.side("7", 1) == sides["7"]


def test_the_most_certain_are_counted_with_their_ties():
    signals, outcome, _ = judged([3.0, 2.0, 2.0, 1.0], np.array([True, True, False, False]))
    row = abstention.at_coverage(signals, outcome, 0.5, ["margin"]).iloc[0]
    assert (row["answered"], row["correct"]) == (3, 2) and row["low"] < 2 / 3 < row["high"]


def test_curves_stand_between_random_order_and_the_oracle():
    signals, outcome, chosen = judged([4.0, 3.0, 2.0, 1.0], np.array([True, False, True, False]))
    got = abstention.curves(signals, outcome, chosen)
    lines = {line: part["risk"].tolist() for line, part in got.groupby("line")}
    assert lines["oracle"] == [0, 0, pytest.approx(1 / 3), 0.5] and lines["random order"] == [0.5, 0.5]
    assert lines["margin"] == [0, 0.5, pytest.approx(1 / 3), 0.5] and set(got["panel"]) == {"s: margin"}
