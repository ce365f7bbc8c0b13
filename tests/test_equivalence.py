"""Margins: TOST against statsmodels, verdicts in both directions, and "not shown" where nothing is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from localeval import equivalence
from localeval.records import BadInput


def differences(mean, n=100, sd=0.1, seed=0):
    """Differences with exactly this mean and standard deviation."""
    d = np.random.default_rng(seed).normal(0, 1, n)
    return mean + sd * (d - d.mean()) / d.std(ddof=1)


@pytest.mark.parametrize("mean", [-0.03, 0.0, 0.02])
def test_tost_agrees_with_statsmodels(mean):
    from statsmodels.stats.weightstats import ttost_paired

    d = differences(mean)
    p, (_, lower, _), (_, upper, _) = ttost_paired(d, np.zeros(100), -0.05, 0.05)
    got = equivalence.claim(d, 0.05)
    assert got.p_equivalent == pytest.approx(p, rel=1e-9) and got.p_as_good == pytest.approx(lower, rel=1e-9)
    assert max(lower, upper) == pytest.approx(p)


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(0.0, "equivalent"), (0.2, "as good"), (0.04, "as good"), (-0.2, "worse"), (-0.045, "not shown")],
)
def test_verdicts(mean, verdict):
    assert equivalence.claim(differences(mean), 0.05).verdict == verdict


def test_where_less_is_better_a_rise_is_worse():
    up, down = (equivalence.claim(differences(mean), 0.05, lower_is_better=True) for mean in (0.2, -0.2))
    assert (up.verdict, down.verdict) == ("worse", "as good")
    mirrored = equivalence.claim(-differences(0.2), 0.05)
    assert mirrored.p_as_good == pytest.approx(up.p_as_good) and (mirrored.low, mirrored.high) == pytest.approx(
        (-up.high, -up.low)
    )


def test_not_separated_is_not_as_good():
    """Ten questions with a wide spread: nothing differs, and nothing is as good either."""
    got = equivalence.claim(differences(0.0, n=10, sd=0.4), 0.05)
    assert got.verdict == "not shown" and got.needed > 300


def test_questions_needed_by_hand():
    # (1.645 + 0.842)^2 * (0.1 / 0.05)^2 = 24.7
    assert equivalence.claim(differences(0.0), 0.05).needed == 25


def test_tests_that_disagree_are_named():
    """One far outlier: the t test, which sees its spread, and the bootstrap, which may miss it, differ near the border."""
    d = np.array([0.0] * 11 + [-0.35])
    got = equivalence.claim(d, 0.083)
    assert (got.p_as_good <= 0.05) != (got.low > -0.083) and got.verdict == "tests disagree"


def test_no_variation_is_no_proof():
    assert equivalence.claim([0.0] * 30, 0.05).verdict == "same values"
    assert equivalence.claim([0.0], 0.05).verdict == equivalence.claim([0.02] * 9, 0.05).verdict == "no variation"
    assert equivalence.claim([0.01], 0.05).verdict == "no variation"


@pytest.mark.parametrize("margin", [0.0, -0.1, float("nan"), float("inf")])
def test_a_margin_must_be_one(margin):
    with pytest.raises(BadInput, match="margin="):
        equivalence.claim([0.1, 0.2], margin)


@pytest.mark.parametrize("values", [[], [np.nan, 0.1], [np.inf, 0.1]])
def test_no_question_or_no_number_is_refused(values):
    with pytest.raises(BadInput, match="at least one question"):
        equivalence.claim(values, 0.05)


def test_holm_is_over_the_family_and_what_it_takes_away_is_not_shown():
    near = equivalence.claim(differences(-0.032), 0.05)
    assert near.verdict == "equivalent" and 0.025 < near.p_as_good < 0.05
    both = equivalence.corrected([near, near])
    assert [one.verdict for one in both] == ["not shown"] * 2 and both[0].p_as_good == pytest.approx(2 * near.p_as_good)
    assert equivalence.corrected([near, equivalence.claim([0.0] * 5, 0.05)])[0] == near, (
        "what cannot be tested is no member"
    )


def test_named_claims_as_a_table():
    rows = [
        (system, "r", "ndcg@10", f"q{n:03d}", 0.5 + value, "scored", "human")
        for system, column in {"a": np.zeros(100), "b": differences(0.0), "c": differences(-0.3)}.items()
        for n, value in enumerate(column)
    ]
    scores = pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])
    named = [["ndcg@10", "r", "a", name] for name in ("b", "c", "d")]
    got = equivalence.claims(scores, named, 0.05, "human", n_resamples=2000)
    assert got["verdict"].tolist() == ["equivalent", "worse", "not_run"]
    assert got["family_size"].tolist()[:2] == [2, 2] and got["n"].tolist() == [100, 100, 0]
    assert "no scores of d" in got["reason"][2]
    assert equivalence.claims(scores, [], 0.05, "human").empty
    with pytest.raises(BadInput, match="claims: entry 1"):
        equivalence.claims(scores, [["ndcg@10"]], 0.05, "human")
