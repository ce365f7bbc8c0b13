"""The confidence sequence: its formula by hand and by another way of computing it, and its promise by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from localeval.records import BadInput
from localeval.sequential import bets, confidence_sequence, falls, log_capital, ruled_out, spent


def test_bets_by_hand():
    """x = 1, 0. s2[0] = 1/4; m[1] = (1/2 + 1) / 2 = 3/4, s2[1] = (1/4 + (1/4)^2) / 2 = 5/32."""
    first = math.sqrt(2 * math.log(40) / (0.25 * 1 * math.log(2)))
    second = math.sqrt(2 * math.log(40) / (5 / 32 * 2 * math.log(3)))
    assert bets(np.array([1.0, 0.0]), 0.05) == pytest.approx([first, second], rel=1e-12)
    assert first == pytest.approx(6.525, abs=1e-3) and second == pytest.approx(4.636, abs=1e-3)


def test_capital_by_hand():
    """Every bet above is larger than may be lost: it is cut to 0.5 / m. Against the mean 1/2 each 0 multiplies the lower half by 3/2."""
    capital = np.exp(log_capital(np.zeros(3), np.array([0.5]), 0.05)[:, 0])
    assert capital == pytest.approx([0.5 * 1.5, 0.5 * 1.5**2, 0.5 * 1.5**3])


def test_how_many_total_losses_rule_out_no_change_by_hand():
    """Half a stake times 1.5^n reaches 1 / 0.05 = 20 at n = 10: 0.5 * 1.5^9 = 19.2, 0.5 * 1.5^10 = 28.8."""
    assert confidence_sequence([-1.0] * 9).high > 0
    assert confidence_sequence([-1.0] * 10).high < 0


def slowly(differences, alpha, mean):
    """The same capital with loops: one candidate mean (of x in [0, 1]) after every value."""
    total, squares, higher, lower, best = 0.0, 0.0, 1.0, 1.0, 0.0
    variance = 0.25
    for t, difference in enumerate(differences, 1):
        x = (difference + 1) / 2
        bet = math.sqrt(2 * math.log(2 / alpha) / (variance * t * math.log(t + 1)))
        higher *= 1 + min(bet, 0.5 / mean) * (x - mean)
        lower *= 1 - min(bet, 0.5 / (1 - mean)) * (x - mean)
        total += x
        squares += (x - (0.5 + total) / (t + 1)) ** 2
        variance = (0.25 + squares) / (t + 1)
        best = max(best, higher / 2, lower / 2)
    return best


def test_the_ends_are_where_the_slow_way_puts_them():
    values = np.random.default_rng(4).choice([0.0, -0.37, -1.0, 0.5], 60, p=[0.5, 0.3, 0.15, 0.05])
    got = confidence_sequence(values, 0.05)
    for end, inward in ((got.low, 1), (got.high, -1)):
        outside, inside = (end + 1) / 2, (end + 0.001 * inward + 1) / 2
        assert slowly(values, 0.05, outside) >= 20 > slowly(values, 0.05, inside)
    assert got.low < got.mean < got.high and got.n == 60


def test_swapping_sides_mirrors_the_interval():
    values = np.random.default_rng(2).uniform(-0.5, 0.3, 40)
    one, other = confidence_sequence(values), confidence_sequence(-values)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-9)


def test_more_questions_never_widen_it_and_no_change_stays_inside():
    values = np.random.default_rng(1).uniform(-0.4, 0.4, 50)
    before = (-1.0, 1.0)
    for n in range(1, 51):
        got = confidence_sequence(values[:n])
        assert before[0] <= got.low <= got.high <= before[1]
        before = got.low, got.high
    still = confidence_sequence([0.0] * 80)
    assert still.low < 0 < still.high and still.mean == 0


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.choice(
            [-1.0, 0.0, 1.0], n, p=[0.05, 0.9, 0.05]
        ),  # few questions move, as between two commits
        lambda rng, n: rng.uniform(-1, 1, n),
        lambda rng, n: rng.choice([-0.25, 1.0], n, p=[0.8, 0.2]),  # skewed, mean 0
    ],
    ids=["sparse", "uniform", "skewed"],
)
def test_it_covers_the_true_mean_at_every_n_at_once(draw):
    """300 runs, looked at after each of 60 questions: mean 0 is ever ruled out in no more than alpha of them (plus 3 standard errors).

    The plain 95 % interval under the same eyes is wrong more often than it promises; else this test could not fail.
    """
    rng, runs, n, alpha = np.random.default_rng(9), 300, 60, 0.05
    ours, plain = 0, 0
    for _ in range(runs):
        values = draw(rng, n)
        ours += bool((log_capital((values + 1) / 2, np.array([0.5]), alpha) >= math.log(1 / alpha)).any())
        counts = np.arange(1, n + 1)
        means = np.cumsum(values) / counts
        errors = np.sqrt(np.maximum(np.cumsum(values**2) / counts - means**2, 1e-12) / counts)
        plain += bool((np.abs(means[9:]) > 1.96 * errors[9:]).any())
    assert ours / runs <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / runs)
    assert plain / runs > 0.1


def test_what_all_looks_spend_together_is_alpha():
    assert spent(0.05, 1) == 0.025 and spent(0.05, 2) == pytest.approx(0.05 / 6)
    assert sum(spent(0.05, look) for look in range(1, 100_000)) == pytest.approx(0.05, abs=1e-6)
    with pytest.raises(BadInput, match="looks count from 1"):
        spent(0.05, 0)


@pytest.mark.parametrize("values", [[1.5], [float("nan")], [0.1, float("inf")]])
def test_values_it_cannot_bound_are_refused(values):
    with pytest.raises(BadInput, match="from -1 to 1"):
        confidence_sequence(values)


def test_no_questions_are_no_interval():
    got = confidence_sequence([])
    assert got.n == 0 and math.isnan(got.mean) and math.isnan(got.low)
    one = confidence_sequence([0.3])
    assert (one.low, one.high) != (0.3, 0.3) and one.high - one.low > 1, "one question says next to nothing"


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0])
def test_alpha_is_a_probability(alpha):
    with pytest.raises(BadInput, match="alpha"):
        confidence_sequence([0.1], alpha)


def test_many_rows_at_once_end_where_each_ends_alone():
    """`falls` and `ruled_out` look at one mean; the interval looks at all. Near and far from the border, and with values that drift."""
    rng = np.random.default_rng(12)
    rows = np.array(
        [rng.choice([-1.0, -0.4, 0.0, 0.3], 40, p=[share, 0.2, 0.7 - share, 0.1]) for share in np.linspace(0, 0.6, 120)]
    )
    rows[0], rows[1, :20], rows[1, 20:] = 0.0, 1.0, -1.0
    alone = [confidence_sequence(row, 0.05) for row in rows]
    fell = np.array([one.high < 0 for one in alone])
    assert falls(rows, 0.05).tolist() == fell.tolist() and 10 < fell.sum() < 110
    for mean in (-0.5, -0.2, 0.0):
        outside = [not one.low <= mean <= one.high for one in alone]
        inside = [
            one.low + 0.0021 < mean < one.high - 0.0021 for one in alone
        ]  # ends are rounded outwards by a step or two
        got = ruled_out(rows, mean, 0.05)
        assert not (got & inside).any() and got[outside].all() and 0 < got.sum() < 120, mean
