"""Abstention: small curves by hand, and the properties that keep a signal from looking better than it is."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import decisions


def test_risk_coverage_by_hand():
    curve = decisions.risk_coverage(np.array([0.9, 0.5, 0.7]), np.array([True, False, False]))
    assert curve["answered"].tolist() == [1, 2, 3]
    assert curve["risk"].tolist() == [0.0, 0.5, pytest.approx(2 / 3)]


def test_equal_signals_are_answered_together():
    curve = decisions.risk_coverage(np.array([0.5, 0.5, 0.1]), np.array([True, False, True]))
    assert curve["answered"].tolist() == [2, 3]


def test_nothing_retrieved_is_the_least_certain():
    curve = decisions.risk_coverage(np.array([np.nan, -3.0]), np.array([False, True]))
    assert curve["risk"].tolist() == [0.0, 0.5]


def test_a_constant_signal_is_worth_as_much_as_chance():
    correct = np.array([True, False, True, False])
    assert decisions.aurc(np.ones(4), correct) == pytest.approx(0.5)
    assert decisions.auroc(np.ones(4), correct) == 0.5


def test_auroc_needs_both_kinds():
    assert math.isnan(decisions.auroc(np.array([1.0, 2.0]), np.array([True, True])))
    assert decisions.auroc(np.array([3.0, 1.0, 2.0]), np.array([True, False, True])) == 1.0


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0, np.nan]), st.booleans()), min_size=1, max_size=20))
def test_areas_equal_their_definitions(rows):
    """AURC as the mean over counts of the interpolated curve; AUROC over all pairs."""
    signal, correct = np.array([s for s, _ in rows]), np.array([c for _, c in rows])
    curve = decisions.risk_coverage(signal, correct)
    answered, wrong = [0, *curve["answered"]], [0, *(curve["risk"] * curve["answered"])]
    counts = np.arange(1, len(rows) + 1)
    assert decisions.aurc(signal, correct) == pytest.approx(np.mean(np.interp(counts, answered, wrong) / counts))
    known = np.where(np.isnan(signal), -np.inf, signal)
    pairs = [(a > b) + 0.5 * (a == b) for a in known[correct] for b in known[~correct]]
    assert decisions.auroc(signal, correct) == pytest.approx(np.mean(pairs) if pairs else np.nan, nan_ok=True)


@given(st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=1, max_size=30))
def test_no_signal_beats_the_oracle(rows):
    signal, correct = np.array([s for s, _ in rows]), np.array([c for _, c in rows])
    oracle = decisions.aurc(correct.astype(float), correct)
    assert oracle - 1e-12 <= decisions.aurc(signal, correct) <= 1


def test_an_unanswerable_question_is_never_correct():
    scores = pd.DataFrame(
        {"system": "s", "rule": "r", "metric": "p@1", "query_id": ["a", "b"], "value": [1.0, 0.0], "status": "scored"}
    )
    got = decisions.outcomes(scores, {"a": True, "b": True, "c": False, "d": True}, metric="p@1", rule="r").set_index(
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
    row = decisions.abstention(signals, outcome, seed=1, n_resamples=200).iloc[0]
    assert (row["n"], row["unanswerable"], row["correct"]) == (4, 1, 2)
    assert row["aurc"] == row["aurc_oracle"] == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)
    assert row["auroc"] == 1.0 and row["aurc_random"] == 0.5
