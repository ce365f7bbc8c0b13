"""Intervals, paired tests and what a difference can and cannot say. Everything here sees tables of per-query values only.

One set-up everywhere, recorded with the results: percentile bootstrap over queries, 10,000 resamples, seeded; paired
differences always; two-sided sign-flip permutation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from localeval.records import BadInput, Comparison, near

SEED = 20260921
N_RESAMPLES = 10_000
DRAWS = 5_000_000  # draws held in memory at once
TIE = 1e-12  # two sums of flipped differences closer than this are the same sum


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval. note: says why an interval is not a bootstrap's."""

    mean: float
    low: float
    high: float
    n: int
    note: str = ""


def _resampled_means(values: np.ndarray, seed: int, n_resamples: int) -> np.ndarray:
    """Means of `n_resamples` resamples of the rows, drawn with replacement. values: (n,) -> (n_resamples,)."""
    generator, n = np.random.default_rng(seed), len(values)
    block = max(1, DRAWS // n)  # the same stream of draws in any block size
    sizes = [min(block, n_resamples - done) for done in range(0, n_resamples, block)]
    return np.concatenate([values[generator.integers(0, n, size=(size, n))].mean(axis=1) for size in sizes])


def interval(
    values: Sequence[float],
    *,
    binary: bool = False,
    seed: int = SEED,
    n_resamples: int = N_RESAMPLES,
    level: float = 0.95,
) -> Interval:
    """Mean of per-query values with a percentile bootstrap interval (Efron 1979).

    Where every value is the same a bootstrap collapses to a point and reads as certainty. For 0/1 metrics (`binary`) the
    Wilson score interval is given instead; for others the bounds are not defined (NaN), with a note.
    """
    values = np.asarray(values, dtype=float)
    if not len(values):
        return Interval(float("nan"), float("nan"), float("nan"), 0, "no values")
    mean, n = float(values.mean()), len(values)
    if np.ptp(values) <= TIE:
        if binary:
            return Interval(mean, *wilson(round(float(values.sum())), n, level), n, f"no variation, n = {n}: Wilson")
        return Interval(mean, float("nan"), float("nan"), n, f"no variation, n = {n}")
    tail = (1 - level) / 2
    low, high = np.quantile(_resampled_means(values, seed, n_resamples), [tail, 1 - tail])
    return Interval(mean, float(low), float(high), n)


def summary(scores, *, is_binary=lambda metric: False, seed: int = SEED, n_resamples: int = N_RESAMPLES):
    """Per system, rule, metric and origin of a tidy `scores` table: mean, interval, n, and the mean without unreachable queries.

    Queries of different origin are never pooled. They are taken in order of their id, so that the order of rows does not
    matter. Returns the table `metrics.csv`.
    """
    import pandas as pd

    rows = []
    for keys, part in scores.groupby(["system", "rule", "metric", "origin"], sort=False):
        part = part.sort_values("query_id")
        system, rule, metric, origin = keys
        got = interval(part["value"], binary=is_binary(metric), seed=seed, n_resamples=n_resamples)
        reachable = part.loc[part["status"] != "unreachable", "value"]
        counts = (got.n, len(part) - len(reachable), reachable.mean(), got.note)
        rows.append((system, rule, metric, got.mean, got.low, got.high, *counts, origin))
    columns = [
        "system",
        "rule",
        "metric",
        "mean",
        "low",
        "high",
        "n",
        "unreachable",
        "mean_reachable",
        "note",
        "origin",
    ]
    return pd.DataFrame(rows, columns=columns)


def wilson(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Score interval of a rate (Wilson 1927). Never of zero width for n > 0."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(hits, n, alpha=1 - level, method="wilson")
    return max(0.0, float(low)), min(1.0, float(high))


def sign_flip(differences: Sequence[float], *, seed: int = SEED, n_resamples: int = N_RESAMPLES) -> float:
    """Two-sided p of paired differences under random sign flips (Fisher's randomisation test).

    Exact when all 2^n sign patterns number at most `n_resamples`; else Monte Carlo with (b + 1) / (B + 1), so that p is never 0.
    Identical systems give 1.
    """
    differences = np.asarray(differences, dtype=float)
    n = len(differences)
    if not n:
        return float("nan")
    observed = abs(differences.sum()) - TIE * max(1.0, np.abs(differences).sum())
    if 2**n <= n_resamples:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float(np.mean(np.abs(signs @ differences) >= observed))
    generator, beyond = np.random.default_rng(seed), 0
    block = max(4, DRAWS // n // 4 * 4)  # four signs of one draw: in blocks of whole draws the stream is the same
    for done in range(0, n_resamples, block):
        size = (min(block, n_resamples - done), n)
        signs = generator.integers(0, 2, size=size, dtype=np.int8) * 2 - 1
        beyond += int(np.sum(np.abs(signs @ differences) >= observed))
    return float((beyond + 1) / (n_resamples + 1))


def mde(differences: Sequence[float]) -> float:
    """Minimum detectable effect of a paired comparison: 2.8 sd / sqrt(n), for 80 % power at alpha 0.05, two-sided.

    2.8 = z(0.975) + z(0.8), rounded. NaN below two pairs, and where the differences do not vary.
    """
    differences = np.asarray(differences, dtype=float)
    if len(differences) < 2 or np.ptp(differences) <= TIE:
        return float("nan")
    return float(2.8 * differences.std(ddof=1) / np.sqrt(len(differences)))


def compare(
    baseline: dict[str, float],
    candidate: dict[str, float],
    *,
    metric: str,
    rule: str,
    names: tuple[str, str],
    seed: int = SEED,
    n_resamples: int = N_RESAMPLES,
) -> Comparison:
    """Candidate minus baseline over the queries both have, paired by query id; never by row order.

    baseline, candidate: query id -> value. names: (baseline, candidate). No shared query raises ValueError. Where every
    difference is the same, interval and MDE are not defined (NaN): a point would read as certainty.
    """
    shared = sorted(baseline.keys() & candidate.keys())
    if not shared:
        raise ValueError(f"{names[0]} and {names[1]} share no query under {rule} {metric}")
    differences = np.array([candidate[query] - baseline[query] for query in shared])
    tail = np.array([np.nan, np.nan])
    if np.ptp(differences) > TIE:
        tail = np.quantile(_resampled_means(differences, seed, n_resamples), [0.025, 0.975])
    return Comparison(
        metric, rule, *names, len(shared), float(differences.mean()), float(tail[0]), float(tail[1]),
        sign_flip(differences, seed=seed, n_resamples=n_resamples), None, mde(differences),
    )  # fmt: skip


def pick(summary, system: str, rule: str, metric: str) -> dict:
    """One row of a summary as a dict; none is an error that says which."""
    part = summary[(summary["system"] == system) & (summary["rule"] == rule) & (summary["metric"] == metric)]
    if len(part) != 1:
        raise BadInput(
            f"no figure for {system}, {rule}, {metric}; systems with figures: {', '.join(summary['system'].unique())}"
        )
    return part.iloc[0].to_dict()


def best(summary, rule: str, metric: str) -> dict:
    """The row with the highest mean (tie: the first); an order, not a verdict."""
    part = summary[(summary["rule"] == rule) & (summary["metric"] == metric)]
    if part.empty:
        raise BadInput(f"no system has a figure for {metric} under {rule}")
    return part.loc[part["mean"].idxmax()].to_dict()


def explore(
    scores, metric: str, rule: str, baseline: str, origin: str, *, seed: int = SEED, n_resamples: int = N_RESAMPLES
):
    """Every system against `baseline` on the questions of one origin, uncorrected and labelled as not designated.

    Same columns as `compare_designated`.
    """
    import pandas as pd

    systems = list(scores["system"].unique())
    if baseline not in systems:
        raise BadInput(f"no scores of {baseline!r} to compare with{near(baseline, systems)}")
    rows, setup = [], {"metric": metric, "rule": rule, "seed": seed, "n_resamples": n_resamples}
    for system in systems:
        sides = [_values(scores, name, rule, metric, origin) for name in (baseline, system)]
        if system != baseline and all(sides):
            got = compare(*sides, names=(baseline, system), **setup)
            rows.append(asdict(got) | {"verdict": "exploratory", "reason": "", "origin": origin})
    return pd.DataFrame(rows, columns=COMPARED).assign(designated=False)


COMPARED = [*Comparison.__dataclass_fields__, "verdict", "reason", "origin"]


def compare_designated(
    scores, comparisons: Sequence[Sequence[str]], origin: str, *, seed: int = SEED, n_resamples: int = N_RESAMPLES
):
    """The comparisons named before the run as one family with Holm's correction.

    comparisons: `[[metric, rule, baseline, candidate], ...]`, with the origin of the questions as a fifth text where it is not
    `origin`. Returns the table `comparisons.csv`. A side without scores gives a row with verdict "not_run", a reason, and no numbers.
    """
    import pandas as pd

    for number, entry in enumerate(comparisons, 1):
        if (
            not isinstance(entry, list | tuple)
            or len(entry) not in (4, 5)
            or not all(isinstance(part, str) for part in entry)
        ):
            raise BadInput(
                f"comparisons: entry {number} must be [metric, rule, baseline, candidate], and the origin of the questions where it is "
                f"not {origin}; found {entry!r}"
            )
    if n_resamples < 1:
        raise BadInput(f"n_resamples={n_resamples}: need at least 1")
    done = []
    for metric, rule, baseline, candidate, *other in comparisons:
        stratum, names = (other or [origin])[0], (baseline, candidate)
        sides = [_values(scores, name, rule, metric, stratum) for name in names]
        if all(sides):
            got = compare(*sides, metric=metric, rule=rule, names=names, seed=seed, n_resamples=n_resamples)
            done.append(asdict(got) | {"origin": stratum})
            continue
        missing = [name for name, side in zip(names, sides, strict=True) if not side]
        part = scores[scores["origin"] == stratum]
        reason = (
            _no_scores(part, metric, rule, missing)
            if len(part)
            else f"no {stratum} question{near(stratum, scores['origin'])}"
        )
        row = {"metric": metric, "rule": rule, "baseline": baseline, "candidate": candidate, "origin": stratum, "n": 0}
        done.append(row | {"verdict": "not_run", "reason": reason})
    ran = [row for row in done if "p_value" in row]
    for row, adjusted in zip(ran, holm([row["p_value"] for row in ran]), strict=True):
        row["p_adjusted"] = adjusted
        row["verdict"] = verdict(Comparison(**{name: row[name] for name in Comparison.__dataclass_fields__}))
    return pd.DataFrame(done).reindex(columns=COMPARED).assign(designated=True)


def _no_scores(scores, metric: str, rule: str, missing: Sequence[str]) -> str:
    """Why a comparison cannot be made, with the nearest name that does have scores."""
    part = scores[(scores["rule"] == rule) & (scores["metric"] == metric)]
    if part.empty:
        return f"no scores of {metric} under {rule}{near(metric, scores['metric'])}"
    return "; ".join(f"no scores of {name}{near(name, part['system'])}" for name in missing)


def _values(scores, system: str, rule: str, metric: str, origin: str) -> dict[str, float]:
    part = scores[(scores["system"] == system) & (scores["rule"] == rule) & (scores["metric"] == metric)]
    part = part[part["origin"] == origin]
    return dict(zip(part["query_id"], part["value"], strict=True))


LATENCY = (
    *(
        "system",
        "phase",
        "mean_ms",
        "p50_ms",
        "p95_ms",
        "p99_ms",
        "max_ms",
        "n",
        "fastest_repeat_ms",
        "slowest_repeat_ms",
    ),
    *("mean_low", "mean_high", "p95_low", "p95_high"),
)
FEW_SAMPLES = 200  # below it a P95 rests on ten samples or fewer: indicative only


def latency_table(timings, *, seed: int = SEED, n_resamples: int = 2000):
    """Warm latency of every system and phase, in milliseconds: mean, P50, P95, P99 (nearest rank), max, n samples, and the range of
    the means of the repeats; for whole answers (phase total) also 95 % intervals of mean and P95.

    timings: the table `timings.csv`. The bootstrap resamples questions, each with all its repeats: samples of one question are alike.
    """
    import pandas as pd

    rows = []
    for (system, phase), part in timings.groupby(["system", "phase"], sort=False):
        ms = part["seconds"].to_numpy() * 1000
        means = part.groupby("repeat")["seconds"].mean() * 1000
        ranks = [percentile(ms, share) for share in (0.5, 0.95, 0.99)]
        ends = _latency_intervals(part, seed, n_resamples) if phase == "total" else [float("nan")] * 4
        rows.append((system, phase, ms.mean(), *ranks, ms.max(), len(ms), means.min(), means.max(), *ends))
    return pd.DataFrame(rows, columns=list(LATENCY))


def _latency_intervals(part, seed: int, n_resamples: int) -> list[float]:
    """Percentile intervals of mean and P95 over resampled questions; not defined (NaN) below two questions."""
    table = part.pivot_table(index="query_id", columns="repeat", values="seconds").to_numpy() * 1000
    n, width = table.shape
    if n < 2:
        return [float("nan")] * 4
    drawn = np.random.default_rng(seed).integers(0, n, size=(n_resamples, n))
    samples = np.sort(
        table[drawn].reshape(n_resamples, -1), axis=1
    )  # questions not asked in a repeat sort last, as NaN
    if np.isnan(samples).any():
        return [float("nan")] * 4
    place = max(0, int(np.ceil(0.95 * n * width - 1e-9)) - 1)
    return [
        float(end)
        for values in (samples.mean(axis=1), samples[:, place])
        for end in np.quantile(values, [0.025, 0.975])
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values of one family, in the order given (Holm 1979)."""
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(p_values, method="holm")[1]] if len(p_values) else []


def verdict(comparison: Comparison, alpha: float = 0.05) -> str:
    """One word for a designated comparison: better, worse, not separated, or unresolvable.

    unresolvable: with this many queries no result could reach alpha, since the smallest two-sided p is 2 / 2^n.
    The adjusted p decides where there is one, and the interval must exclude 0 as well.
    """
    if 2.0 ** (1 - comparison.n) > alpha:
        return "unresolvable"
    p = comparison.p_value if comparison.p_adjusted is None else comparison.p_adjusted
    if p > alpha or comparison.low <= 0 <= comparison.high:
        return "not separated"
    return "better" if comparison.delta > 0 else "worse"


def percentile(seconds: Sequence[float], share: float) -> float:
    """Nearest-rank percentile: the smallest sample with at least `share` of all samples at or below it."""
    ordered = np.sort(np.asarray(seconds, dtype=float))
    if not len(ordered):
        return float("nan")
    return float(ordered[max(0, int(np.ceil(share * len(ordered) - 1e-9)) - 1)])
