"""Intervals and tests of one system and of sixty: ours and scipy's, in turn, in one process.

What would take scipy too long for all pairs is timed on a few and multiplied, and said so.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from scipy import stats as scipy_stats
from sidebyside import about, compare

from localeval import ranking, stats

SYSTEMS, QUESTIONS, TIMED_PAIRS = 60, 300, 20


def one_system(values: np.ndarray) -> None:
    differences = values - 0.48
    compare(
        lambda: stats.interval(values),
        lambda: scipy_stats.bootstrap(
            (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
        ),
        ("localeval bootstrap", "scipy bootstrap"),
    )
    compare(
        lambda: stats.sign_flip(differences),
        lambda: flipped(differences),
        ("localeval sign flip", "scipy permutation_test"),
        rounds=5,
    )


def flipped(differences: np.ndarray):
    return scipy_stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=10_000, rng=np.random.default_rng(1)
    )


def board() -> ranking.Panel:
    rng = np.random.default_rng(0)
    hard = rng.beta(0.5, 0.4, (QUESTIONS, 1))
    values = np.clip(hard + rng.normal(np.linspace(0, 0.1, SYSTEMS), 0.25, (QUESTIONS, SYSTEMS)), 0, 1)
    names = tuple(f"s{n:02d}" for n in range(SYSTEMS))
    return ranking.Panel("ndcg@10", "chunk/contains", "human", names, tuple(map(str, range(QUESTIONS))), values)


def whole_leaderboard(panel: ranking.Panel) -> None:
    """All intervals, all pairs with Holm and the family's p, rank ranges and shares; then scipy on the same values."""
    start, cpu = time.perf_counter(), time.process_time()
    every_pair = ranking.pairs(panel)
    rows = ranking.ranks(panel, every_pair)
    ours, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    print(
        f"{SYSTEMS} systems x {QUESTIONS} questions, {len(every_pair):,} pairs, 10,000 resamples and flips, {len(rows)} rank ranges:"
    )
    print(f"  localeval {ours:.2f} s ({cpu:.2f} s of CPU), peak memory of the process {peak:,.0f} MB")
    start = time.perf_counter()
    for column in panel.values.T:
        scipy_stats.bootstrap((column,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1))
    single = time.perf_counter() - start
    first, second = np.triu_indices(SYSTEMS, 1)
    start = time.perf_counter()
    for number in range(TIMED_PAIRS):
        differences = panel.values[:, second[number]] - panel.values[:, first[number]]
        scipy_stats.bootstrap(
            (differences,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
        )
        flipped(differences)
    paired = (time.perf_counter() - start) * len(first) / TIMED_PAIRS
    print(
        f"  scipy {single + paired:.0f} s: {SYSTEMS} intervals in {single:.1f} s, all pairs {paired:.0f} s, "
        f"extrapolated from {TIMED_PAIRS}"
    )
    print(f"  ratio {(single + paired) / ours:.0f}; scipy's does not include Holm, the family's p and the ranks")


def main() -> None:
    about()
    one_system(np.random.default_rng(0).beta(2, 2, QUESTIONS))
    whole_leaderboard(board())


if __name__ == "__main__":
    main()
