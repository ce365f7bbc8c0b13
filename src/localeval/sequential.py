"""A confidence sequence: an interval for a mean that stays right however often, and whenever, somebody looks.

The hedged capital of Waudby-Smith and Ramdas (2024, "Estimating means of bounded random variables by betting", JRSS B 86,
section 4.3): one bets against every mean that the values might have, and a mean is ruled out once a bet against it has
multiplied the stake by 1 / alpha (Ville's inequality). Pure functions of numbers; the gate reads them in its mode `anytime`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localeval.records import BadInput

CAP = 0.5  # the share of the stake that one bet may lose; c in the paper
GRID = 2000  # steps of candidate means; with differences in [-1, 1] one step is 0.001


@dataclass(frozen=True, slots=True)
class Bounds:
    """Mean of `n` differences, and the interval in which the true mean lies at every n at once, with probability 1 - alpha.

    An interval that rules out every mean (values that drift) is not defined: NaN.
    """

    mean: float
    low: float
    high: float
    n: int
    alpha: float


def bets(values: np.ndarray, alpha: float) -> np.ndarray:
    """The plain bets, each made from the values before it: sqrt(2 ln(2 / alpha) / (s2[t-1] t ln(t + 1))).

    values: (..., n) in [0, 1]. s2[t] = (1/4 + sum of (x - m)^2) / (t + 1), each with the m[t] = (1/2 + sum of x) / (t + 1) of its time.
    """
    times = np.arange(1, values.shape[-1] + 1)
    means = (0.5 + np.cumsum(values, axis=-1)) / (times + 1)
    variances = (0.25 + np.cumsum((values - means) ** 2, axis=-1)) / (times + 1)
    before = np.concatenate([np.full((*values.shape[:-1], 1), 0.25), variances[..., :-1]], axis=-1)
    return np.sqrt(2 * np.log(2 / alpha) / (before * times * np.log(times + 1)))


def log_halves(values: np.ndarray, means: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of both halves of the hedged capital against each mean after each value, each as if it were the whole stake: twice
    (..., n, means). The first bets that the true mean is higher, the second that it is lower.

    values: (..., n) in [0, 1]; means: strictly between 0 and 1. No bet loses more than `CAP` of what it has.
    """
    plain = bets(values, alpha)[..., None]
    apart = values[..., None] - means
    higher = np.cumsum(np.log1p(np.minimum(plain, CAP / means) * apart), axis=-2)
    lower = np.cumsum(np.log1p(-np.minimum(plain, CAP / (1 - means)) * apart), axis=-2)
    return higher, lower


def log_capital(values: np.ndarray, means: np.ndarray, alpha: float) -> np.ndarray:
    """Logarithm of the larger half of the hedged capital, each half with half of the stake: (..., n, means)."""
    return np.maximum(*log_halves(values, means, alpha)) + np.log(0.5)


def ruled_out(samples: np.ndarray, mean: float, alpha: float) -> np.ndarray:
    """Whether the sequence of each row rules the mean out at any n. samples: (s, n) differences in [-1, 1] -> (s,)."""
    capital = log_capital((samples + 1) / 2, np.array([(mean + 1) / 2]), alpha)
    return capital.max(axis=(-2, -1)) >= np.log(1 / alpha)


def falls(samples: np.ndarray, alpha: float) -> np.ndarray:
    """Where `confidence_sequence` of a row ends below 0, for many rows at once. samples: (s, n) -> (s,).

    The lower half grows with the mean it bets against, so that one mean, a step below no difference, stands for all above it.
    """
    _, lower = log_halves((samples + 1) / 2, np.array([0.5 - 1 / GRID]), alpha)
    return lower.max(axis=(-2, -1)) + np.log(0.5) >= np.log(1 / alpha)


def confidence_sequence(differences: Sequence[float], alpha: float = 0.05) -> Bounds:
    """The interval after the last of the differences, all earlier looks included (running intersection).

    differences: each in [-1, 1], in an order that was fixed before they were seen. Ends lie on a grid of 0.001, rounded outwards.
    No difference at all: NaN. A value outside raises BadInput.
    """
    differences = np.asarray(differences, dtype=float)
    if not 0 < alpha < 1:
        raise BadInput(f"alpha={alpha}: a probability between 0 and 1")
    if not np.isfinite(differences).all() or (np.abs(differences) > 1).any():
        raise BadInput("a confidence sequence needs differences from -1 to 1; use mode fixed for this metric")
    if not len(differences):
        return Bounds(np.nan, np.nan, np.nan, 0, alpha)
    grid = np.arange(1, GRID) / GRID
    highest = log_capital((differences + 1) / 2, grid, alpha).max(axis=0)
    kept = np.flatnonzero(highest < np.log(1 / alpha))
    low, high = (kept[0], kept[-1] + 2) if len(kept) else (np.nan, np.nan)  # one step outwards on each side
    ends = (2 * end / GRID - 1 for end in (low, high))
    return Bounds(float(differences.mean()), *map(float, ends), len(differences), alpha)


def spent(alpha: float, look: int) -> float:
    """What of alpha the look number `look` may spend: alpha / (look (look + 1)); over all looks together that is alpha.

    Each look at another candidate is another chance to be wrong, which no confidence sequence of one candidate covers.
    """
    if look < 1:
        raise BadInput(f"look={look}: looks count from 1")
    return alpha / (look * (look + 1))
