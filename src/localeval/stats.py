"""Intervals, paired tests and what a difference can and cannot say. Everything here sees tables of per-query values only.

One set-up everywhere, recorded with the results (`SETUP`): percentile bootstrap over queries, 10,000 resamples, seeded; paired
differences always; two-sided sign-flip permutation, with Student's paired t beside it. Systems share their draws, so that
one system alone and sixty together have the same bounds and the same p.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from localeval.records import BadInput, Comparison, near

SEED = 20260921
N_RESAMPLES = 10_000
DRAWS = 5_000_000  # draws held in memory at once
COUNTED = 1_000_000  # draws counted at once
COLUMNS_AT_ONCE = 256  # columns of resampled values held in memory at once
TIE = 1e-12  # two sums of flipped differences closer than this are the same sum
ALPHA = 0.05
LOWER_IS_BETTER = frozenset({"ms", "seconds", "compression_ratio", "aurc", "risk", "unsupported"})
SETUP = (
    "Percentile bootstrap over questions; Wilson's interval for 0/1 rates without variation; two-sided sign-flip permutation, exact "
    "where all patterns of signs can be counted (for 0/1 values by McNemar's exact test), else by draws as (b + 1) / (B + 1)"
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval. note: says why an interval is not a bootstrap's."""

    mean: float
    low: float
    high: float
    n: int
    note: str = ""


def direction(metric: str) -> int:
    """1 where more of the metric is better, -1 where less is: a property of the metric's name (`LOWER_IS_BETTER`), cut apart.

    >>> direction("ndcg@10"), direction("ms")
    (1, -1)
    """
    return -1 if metric.partition("@")[0] in LOWER_IS_BETTER else 1


def group_numbers(groups: Sequence[str]) -> np.ndarray:
    """Numbers 0 .. G-1 of the names, in sorted order of the names: the order of rows does not matter."""
    return np.unique(np.asarray(groups, dtype=str), return_inverse=True)[1]


def group_sums(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Sums of the rows of every group. values: (n,) or (n, m); groups: (n,) of 0 .. G-1 -> (G,) or (G, m)."""
    sums = np.zeros((groups.max() + 1, *values.shape[1:]))
    np.add.at(sums, groups, values)
    return sums


def resampled_means(
    values: np.ndarray, seed: int = SEED, n_resamples: int = N_RESAMPLES, groups: np.ndarray | None = None
) -> np.ndarray:
    """Means of resamples of the rows, drawn with replacement. values: (n,) or (n, m) -> (n_resamples,) or (n_resamples, m).

    All columns share the draws. groups: (n,) of 0 .. G-1; then whole groups are drawn, and a mean is over the rows drawn.
    A resample is a row of counts, so that the means of all columns are one matrix product; of one column they are looked up.
    """
    sums = values if groups is None else group_sums(values, groups)
    sizes = np.ones(len(sums)) if groups is None else np.bincount(groups).astype(float)
    generator, n, parts = np.random.default_rng(seed), len(sums), []
    alone = groups is None and sums[0].size == 1  # one column is sooner looked up than counted
    block = max(1, (DRAWS if alone else COUNTED) // n)  # the same stream of draws in any block size
    for done in range(0, n_resamples, block):
        size = min(block, n_resamples - done)
        drawn = generator.integers(0, n, size=(size, n))
        if alone:
            parts.append(sums[drawn].mean(axis=1))
            continue
        drawn += n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(float)
        parts.append(((counts @ sums).T / (counts @ sizes)).T)
    return np.concatenate(parts)


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
    Wilson score interval is given instead; for others the bounds are not defined (NaN), with a note. NaN values are left out
    and counted in the note; an infinite one is an error.
    """
    return intervals([values], binary=[binary], seed=seed, n_resamples=n_resamples, level=level)[0]


def intervals(
    columns: Sequence[Sequence[float]],
    *,
    binary: Sequence[bool],
    seed: int = SEED,
    n_resamples: int = N_RESAMPLES,
    level: float = 0.95,
) -> list[Interval]:
    """`interval` of many columns of values at once. Columns of one length share their draws, and each has the bounds it has alone."""
    done = [_defined(values) for values in columns]
    found = [_without_draws(*one, is_binary, level) for one, is_binary in zip(done, binary, strict=True)]
    rest: dict[int, list[int]] = {}
    for place, (values, _) in enumerate(done):
        if found[place] is None:
            rest.setdefault(len(values), []).append(place)
    for places in rest.values():
        for start in range(0, len(places), COLUMNS_AT_ONCE):
            some = places[start : start + COLUMNS_AT_ONCE]
            means = resampled_means(np.column_stack([done[place][0] for place in some]), seed, n_resamples)
            for place, (low, high) in zip(some, bounds(means, level), strict=True):
                values, note = done[place]
                found[place] = Interval(float(values.mean()), float(low), float(high), len(values), note)
    return found


def bounds(means: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Percentile bounds of every column of resampled means: (n_resamples, m) -> (m, 2)."""
    tail = (1 - level) / 2
    return np.quantile(np.ascontiguousarray(means.T), [tail, 1 - tail], axis=1).T


def _defined(values: Sequence[float]) -> tuple[np.ndarray, str]:
    """The values that are defined, and a note on those that are not."""
    given = np.asarray(values, dtype=float)
    if np.isinf(given).any():
        raise BadInput(f"a value of {given[np.isinf(given)][0]} is no score; mend what wrote it, or leave the row out")
    values = given[~np.isnan(given)]
    return values, f"{len(given) - len(values)} of {len(given)} not defined" if len(values) < len(given) else ""


def _without_draws(values: np.ndarray, note: str, binary: bool, level: float) -> Interval | None:
    """The interval where a bootstrap cannot give one; None where it can."""
    n, also = len(values), f"; {note}" if note else ""
    if not n:
        return Interval(float("nan"), float("nan"), float("nan"), 0, f"no values{also}")
    if np.ptp(values) > TIE:
        return None
    mean, said = float(values.mean()), f"no variation, n = {n}"
    if binary:
        return Interval(mean, *wilson(round(float(values.sum())), n, level), n, f"{said}: Wilson{also}")
    return Interval(mean, float("nan"), float("nan"), n, said + also)


SUMMARY = ("system", "rule", "metric", "mean", "low", "high", "n", "unreachable", "mean_reachable", "note", "origin")


def summary(scores, *, is_binary=lambda metric: False, seed: int = SEED, n_resamples: int = N_RESAMPLES):
    """Per system, rule, metric and origin of a tidy `scores` table: mean, interval, n, and the mean without unreachable queries.

    Queries of different origin are never pooled. They are taken in order of their id, so that the order of rows does not
    matter. Returns the table `metrics.csv`.
    """
    import pandas as pd

    groups = [
        (keys, part.sort_values("query_id"))
        for keys, part in scores.groupby(["system", "rule", "metric", "origin"], sort=False)
    ]
    found = intervals(
        [part["value"] for _, part in groups],
        binary=[is_binary(keys[2]) for keys, _ in groups],
        seed=seed,
        n_resamples=n_resamples,
    )
    rows = []
    for (keys, part), got in zip(groups, found, strict=True):
        reachable = part.loc[part["status"] != "unreachable", "value"]
        counts = (got.n, len(part) - len(reachable), reachable.mean(), got.note)
        rows.append((*keys[:3], got.mean, got.low, got.high, *counts, keys[3]))
    return pd.DataFrame(rows, columns=list(SUMMARY))


def wilson(hits: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Score interval of a rate (Wilson 1927), by statsmodels. Never of zero width for n > 0. n may be an effective number."""
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(hits, n, alpha=1 - level, method="wilson")
    return float(low), float(high)


# Paired tests


def sign_flip(differences: Sequence[float], *, seed: int = SEED, n_resamples: int = N_RESAMPLES) -> float:
    """Two-sided p of paired differences under random sign flips (Fisher's randomisation test).

    Exact when all patterns of signs of the differences that are not 0 number at most `n_resamples`; else Monte Carlo with
    (b + 1) / (B + 1), so that p is never 0. Identical systems give 1.
    """
    column = np.asarray(differences, dtype=float)[:, None]
    return float(sign_flips(column, seed=seed, n_resamples=n_resamples)[0][0]) if len(column) else float("nan")


def sign_flips(
    differences: np.ndarray, *, seed: int = SEED, n_resamples: int = N_RESAMPLES
) -> tuple[np.ndarray, np.ndarray]:
    """`sign_flip` of every column, and p adjusted for all columns as one family. differences: (n, m) -> twice (m,).

    All columns share the signs. The adjusted p is Westfall and Young's (1993), in one step: the share of flips in which the
    largest |sum of d| / sqrt(sum of d^2) of the family reaches that of the column. Flips keep the denominator, so it needs no
    studentising, and unlike Holm's, it does not fail where the family is larger than the draws can resolve.
    """
    n, m = differences.shape
    sums, total = np.abs(differences.sum(axis=0)), np.abs(differences).sum(axis=0)
    observed, norm = sums - TIE * np.maximum(1.0, total), np.sqrt((differences**2).sum(axis=0))
    scale = np.divide(1.0, norm, out=np.zeros(m), where=norm > TIE)
    beyond, largest = np.zeros(m), []
    for signs in _signs(n, seed, n_resamples):
        top = np.zeros(len(signs))
        for start in range(0, m, COLUMNS_AT_ONCE):
            some = slice(start, start + COLUMNS_AT_ONCE)
            flipped = np.abs(signs @ differences[:, some])
            beyond[some] += (flipped >= observed[some]).sum(axis=0)
            np.maximum(top, (flipped * scale[some]).max(axis=1), out=top)
        largest.append(top)
    top = np.sort(np.concatenate(largest))
    reached = len(top) - np.searchsorted(top, sums * scale - 1e-9)
    drawn = int(not _countable(n, n_resamples))  # then the signs observed are one more draw
    p, family = (beyond + drawn) / (len(top) + drawn), (reached + drawn) / (len(top) + drawn)
    for column in np.flatnonzero(_countable((np.abs(differences) > TIE).sum(axis=0), n_resamples)) if drawn else ():
        own = differences[np.abs(differences[:, column]) > TIE, column]  # a difference of 0 changes no sum
        p[column] = np.mean(np.abs(next(_signs(len(own), seed, n_resamples)) @ own) >= observed[column])
    return p, family


def _countable(n, n_resamples: int):
    """Whether all patterns of n signs number at most n_resamples; n: a number, or an array of them."""
    return n <= np.log2(n_resamples)


def _signs(n: int, seed: int, n_resamples: int) -> Iterator[np.ndarray]:
    """Rows of n signs: all 2^n patterns at once where they are at most n_resamples, else blocks of n_resamples random ones."""
    if _countable(n, n_resamples):
        yield 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return
    generator = np.random.default_rng(seed)
    block = max(4, DRAWS // n // 4 * 4)  # four signs of one draw: in blocks of whole draws the stream is the same
    for done in range(0, n_resamples, block):
        size = (min(block, n_resamples - done), n)
        yield (generator.integers(0, 2, size=size, dtype=np.int8) * 2 - 1).astype(float)


def mcnemar(differences: np.ndarray) -> np.ndarray:
    """Exact two-sided p of paired 0/1 outcomes (McNemar 1947), by the binomial. differences: (n, m) of -1, 0, 1 -> (m,).

    It is the sign-flip test with every pattern counted: only questions on which the two differ say anything.
    """
    from scipy.special import bdtr

    better, worse = (differences > TIE).sum(axis=0), (differences < -TIE).sum(axis=0)
    return np.minimum(1.0, 2 * bdtr(np.minimum(better, worse).astype(float), better + worse, 0.5))


def paired_t(differences: np.ndarray) -> np.ndarray:
    """Two-sided p of Student's paired t test for every column, (n, m) -> (m,). NaN below two pairs, or without variation."""
    t, n = t_values(differences), len(differences)
    return 2 * t_below(-np.abs(t), n)


def t_values(differences: np.ndarray, against: float = 0.0) -> np.ndarray:
    """(mean - against) over its standard error for every column, (n, m) -> (m,). NaN below two pairs, or without variation."""
    n, m = differences.shape
    if n < 2:
        return np.full(m, np.nan)
    error = differences.std(axis=0, ddof=1) / np.sqrt(n)
    varies = np.ptp(differences, axis=0) > TIE
    return np.divide(differences.mean(axis=0) - against, error, out=np.full(m, np.nan), where=varies)


def t_below(t, n: int):
    """Probability of a value below t under Student's distribution of n pairs."""
    from scipy.special import stdtr

    return stdtr(max(n - 1, 1), t)


def paired_tests(
    differences: np.ndarray, *, zero_one: bool, seed: int = SEED, n_resamples: int = N_RESAMPLES
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """p, p of the family (see `sign_flips`), p of the t test, and the name of the test behind p, for every column of (n, m).

    zero_one: both sides hold only 0 and 1, so that p is McNemar's exact one: the same test with no draws.
    """
    p, family = sign_flips(differences, seed=seed, n_resamples=n_resamples)
    if zero_one:
        return mcnemar(differences), family, paired_t(differences), ["exact McNemar"] * len(p)
    exact = _countable((np.abs(differences) > TIE).sum(axis=0), n_resamples)
    tests = ["exact sign flip" if one else f"sign flip, {n_resamples:,} draws" for one in exact]
    return p, family, paired_t(differences), tests


def is_zero_one(*values: np.ndarray) -> bool:
    """Whether all values are 0 or 1."""
    return all(bool(np.isin(part, (0.0, 1.0)).all()) for part in values)


def mde(differences: Sequence[float]) -> float:
    """Minimum detectable effect of a paired comparison: 2.8 sd / sqrt(n), for 80 % power at alpha 0.05, two-sided.

    2.8 = z(0.975) + z(0.8), rounded. NaN below two pairs, and where the differences do not vary.
    """
    differences = np.asarray(differences, dtype=float)
    if len(differences) < 2 or np.ptp(differences) <= TIE:
        return float("nan")
    return float(2.8 * differences.std(ddof=1) / np.sqrt(len(differences)))


def questions_needed(
    sd: float, effect: float, *, alpha: float = ALPHA, power: float = 0.8, sides: int = 2
) -> int | None:
    """Questions for which a true mean difference of `effect` is shown with this power: ((z + z) sd / effect)^2, rounded up.

    sd: of the paired differences. sides: 1 for non-inferiority, with the margin as effect. None where sd or effect is 0 or not
    defined. Normal approximation: below thirty questions it takes two or three more.
    """
    from scipy.special import ndtri

    if not (np.isfinite(sd) and np.isfinite(effect)) or sd <= TIE or abs(effect) <= TIE:
        return None
    return int(np.ceil(((ndtri(1 - alpha / sides) + ndtri(power)) * sd / abs(effect)) ** 2 - 1e-9))


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
    difference is the same, interval and MDE are not defined (NaN): a point would read as certainty. A query for which either
    value is NaN is left out; an infinite value is an error.
    """
    _, before, after = paired(baseline, candidate)
    if not len(before):
        raise ValueError(f"{names[0]} and {names[1]} share no query under {rule} {metric}")
    differences = after - before
    tail = np.array([np.nan, np.nan])
    if np.ptp(differences) > TIE:
        tail = bounds(resampled_means(differences[:, None], seed, n_resamples))[0]
    p, _, p_t, tests = paired_tests(
        differences[:, None], zero_one=is_zero_one(before, after), seed=seed, n_resamples=n_resamples
    )
    return Comparison(
        metric, rule, *names, len(differences), float(differences.mean()), float(tail[0]), float(tail[1]),
        float(p[0]), None, mde(differences), float(p_t[0]), int((np.abs(differences) > TIE).sum()), tests[0],
    )  # fmt: skip


def paired(baseline: dict[str, float], candidate: dict[str, float]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Shared query ids in sorted order and both sides' values; queries for which either is NaN are left out."""
    shared = [
        q
        for q in sorted(baseline.keys() & candidate.keys())
        if baseline[q] == baseline[q] and candidate[q] == candidate[q]
    ]
    sides = [np.array([side[query] for query in shared], dtype=float) for side in (baseline, candidate)]
    for values in sides:
        _defined(values)
    return shared, *sides


def pick(summary, system: str, rule: str, metric: str) -> dict:
    """One row of a summary as a dict; none is an error that says which."""
    part = summary[(summary["system"] == system) & (summary["rule"] == rule) & (summary["metric"] == metric)]
    if len(part) != 1:
        raise BadInput(
            f"no figure for {system}, {rule}, {metric}; systems with figures: {', '.join(summary['system'].unique())}"
        )
    return part.iloc[0].to_dict()


def best(summary, rule: str, metric: str) -> dict:
    """The row with the best mean (tie: the first); an order, not a verdict."""
    part = summary[(summary["rule"] == rule) & (summary["metric"] == metric)]
    if part["mean"].isna().all():
        raise BadInput(f"no system has a figure for {metric} under {rule}")
    return part.loc[(direction(metric) * part["mean"]).idxmax()].to_dict()


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
    named = [[metric, rule, baseline, system, origin] for system in systems if system != baseline]
    rows = [_compared(scores, entry, origin, seed, n_resamples) for entry in named]
    rows = [row | {"verdict": "exploratory"} for row in rows if row["verdict"] != "not_run"]
    return pd.DataFrame(rows, columns=COMPARED).assign(designated=False)


COMPARED = [*Comparison.__dataclass_fields__, "verdict", "reason", "origin", "tests_disagree", "family_size"]


def check_named(comparisons: Sequence[Sequence[str]], name: str, origin: str) -> None:
    """Every entry is [metric, rule, baseline, candidate], with the origin of the questions where it is another."""
    for number, entry in enumerate(comparisons, 1):
        shaped = isinstance(entry, list | tuple) and len(entry) in (4, 5)
        if not shaped or not all(isinstance(part, str) for part in entry):
            raise BadInput(
                f"{name}: entry {number} must be [metric, rule, baseline, candidate], and the origin of the questions where it is "
                f"not {origin}; found {entry!r}"
            )


def compare_designated(
    scores, comparisons: Sequence[Sequence[str]], origin: str, *, seed: int = SEED, n_resamples: int = N_RESAMPLES
):
    """The comparisons named before the run as one family with Holm's correction.

    comparisons: `[[metric, rule, baseline, candidate], ...]`, with the origin of the questions as a fifth text where it is not
    `origin`. Returns the table `comparisons.csv`. A side without scores gives a row with verdict "not_run", a reason, and no
    numbers; questions that only one side has are left out, and the reason counts them. family_size: comparisons that ran.
    tests_disagree: at level 0.05, uncorrected, the t test and the permutation test say different things.
    """
    import pandas as pd

    check_named(comparisons, "comparisons", origin)
    if n_resamples < 1:
        raise BadInput(f"n_resamples={n_resamples}: need at least 1")
    done = [_compared(scores, entry, origin, seed, n_resamples) for entry in comparisons]
    ran = [row for row in done if "p_value" in row]
    for row, adjusted in zip(ran, holm([row["p_value"] for row in ran]), strict=True):
        row |= {"p_adjusted": adjusted, "family_size": len(ran)}
        row["verdict"] = verdict(Comparison(**{name: row[name] for name in Comparison.__dataclass_fields__}))
    return pd.DataFrame(done, columns=COMPARED).assign(designated=True)


def _compared(scores, entry: Sequence[str], origin: str, seed: int, n_resamples: int) -> dict:
    """One named comparison as a row, not yet corrected; verdict "not_run" and a reason where it cannot be made."""
    metric, rule, *names = entry[:4]
    stratum = (*entry[4:], origin)[0]
    sides = [_values(scores, name, rule, metric, stratum) for name in names]
    about = {"metric": metric, "rule": rule, "origin": stratum}
    if not len(paired(*sides)[0]):
        missing = [name for name, side in zip(names, sides, strict=True) if not side]
        about |= {
            "baseline": names[0],
            "candidate": names[1],
            "reason": _no_scores(scores, metric, rule, missing, stratum),
        }
        return about | {"n": 0, "verdict": "not_run", "tests_disagree": False}
    got = compare(*sides, metric=metric, rule=rule, names=tuple(names), seed=seed, n_resamples=n_resamples)
    alone = [f"{len(side) - got.n} of {name}" for name, side in zip(names, sides, strict=True) if len(side) > got.n]
    reason = f"questions without a pair are left out: {', '.join(alone)}" if alone else ""
    disagree = got.p_t == got.p_t and (got.p_value <= ALPHA) != (got.p_t <= ALPHA)
    return about | asdict(got) | {"verdict": "", "reason": reason, "tests_disagree": bool(disagree)}


def named_differences(scores, about: dict) -> tuple[np.ndarray, list[str], str]:
    """Candidate minus baseline for the questions that both have, and their ids; empty, with the reason, where there is none.

    about: metric, rule, baseline, candidate, origin.
    """
    names = (about["baseline"], about["candidate"])
    sides = [_values(scores, name, about["rule"], about["metric"], about["origin"]) for name in names]
    shared, before, after = paired(*sides)
    missing = [name for name, side in zip(names, sides, strict=True) if not side]
    reason = "" if len(before) else _no_scores(scores, about["metric"], about["rule"], missing, about["origin"])
    return after - before, shared, reason


def _no_scores(scores, metric: str, rule: str, missing: Sequence[str], origin: str) -> str:
    """Why a comparison cannot be made, with the nearest name that does have scores."""
    part = scores[scores["origin"] == origin]
    if part.empty:
        return f"no {origin} question{near(origin, scores['origin'])}"
    part = part[(part["rule"] == rule) & (part["metric"] == metric)]
    if part.empty:
        return f"no scores of {metric} under {rule}{near(metric, scores['metric'])}"
    return (
        "; ".join(f"no scores of {name}{near(name, part['system'])}" for name in missing)
        or "no question has both scores"
    )


def _values(scores, system: str, rule: str, metric: str, origin: str) -> dict[str, float]:
    part = scores[(scores["system"] == system) & (scores["rule"] == rule) & (scores["metric"] == metric)]
    part = part[part["origin"] == origin]
    return dict(zip(part["query_id"], part["value"], strict=True))


def slices(
    scores,
    comparison: Sequence[str],
    groups: dict[str, dict[str, str]],
    origin: str,
    *,
    seed: int = SEED,
    n_resamples: int = N_RESAMPLES,
):
    """One comparison on every slice of the questions, all slices one family under Benjamini and Hochberg's false discovery rate.

    comparison: as in `compare_designated`. groups: what it is cut by -> query id -> slice, such as {"category": {...}}. Columns:
    cut, slice, then those of a comparison; p_adjusted is the BH-adjusted p, verdict says what a slice shows by it. A cut with one
    slice is the whole again, and left out.
    """
    import pandas as pd

    check_named([comparison], "comparison", origin)
    rows = []
    for cut, of_query in groups.items():
        own = [
            _slice(scores, comparison, cut, name, of_query, origin, seed, n_resamples)
            for name in sorted(set(of_query.values()))
        ]
        own = [row for row in own if row["n"]]
        rows += own if len(own) > 1 else []
    for row, adjusted in zip(rows, benjamini_hochberg([row["p_value"] for row in rows]), strict=True):
        row |= {"p_adjusted": adjusted, "family_size": len(rows)}
        row["verdict"] = verdict(Comparison(**{name: row[name] for name in Comparison.__dataclass_fields__}))
    return pd.DataFrame(rows, columns=["cut", "slice", *COMPARED])


def _slice(
    scores, comparison, cut: str, name: str, of_query: dict[str, str], origin: str, seed: int, n_resamples: int
) -> dict:
    part = scores[scores["query_id"].map(of_query) == name]
    return {"cut": cut, "slice": name, **_compared(part, comparison, origin, seed, n_resamples)}


def latency_scores(timings, origins: dict[str, str], phase: str = "total"):
    """Warm latency as a metric like any other: rows of `scores.csv`, metric "ms", rule "warm/<phase>", one value a question.

    timings: `timings.csv`; a value is the mean of the question's repeats, in milliseconds; lower is better. origins: query id ->
    origin; other questions have no row.
    """
    part = timings[(timings["phase"] == phase) & timings["query_id"].isin(list(origins))]
    values = part.groupby(["system", "query_id"], sort=False)["seconds"].mean().mul(1000).rename("value").reset_index()
    about = {"rule": f"warm/{phase}", "metric": "ms", "status": "scored", "origin": values["query_id"].map(origins)}
    return values.assign(**about)[["system", "rule", "metric", "query_id", "value", "status", "origin"]]


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
    *(f"{name}_{end}" for name in ("mean", "p50", "p95", "p99") for end in ("low", "high")),
)
FEW_SAMPLES = 200  # below it a P95 rests on ten samples or fewer: indicative only
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def latency_table(timings, *, seed: int = SEED, n_resamples: int = 2000):
    """Warm latency of every system and phase, in milliseconds: mean, P50, P95, P99 (nearest rank), max, n samples, and the range of
    the means of the repeats; for whole answers (phase total) also 95 % intervals of mean, P50, P95 and P99.

    timings: the table `timings.csv`. The bootstrap resamples questions, each with all its repeats: samples of one question are alike.
    """
    import pandas as pd

    rows = []
    for (system, phase), part in timings.groupby(["system", "phase"], sort=False):
        ms = part["seconds"].to_numpy() * 1000
        means = part.groupby("repeat")["seconds"].mean() * 1000
        ranks = [percentile(ms, share) for share in SHARES.values()]
        ends = (
            _latency_intervals(part, seed, n_resamples) if phase == "total" else [float("nan")] * (2 + 2 * len(SHARES))
        )
        rows.append((system, phase, ms.mean(), *ranks, ms.max(), len(ms), means.min(), means.max(), *ends))
    return pd.DataFrame(rows, columns=list(LATENCY))


def _latency_intervals(part, seed: int, n_resamples: int) -> list[float]:
    """Percentile intervals of mean, P50, P95 and P99 over resampled questions; not defined (NaN) below two questions."""
    table = part.pivot_table(index="query_id", columns="repeat", values="seconds").to_numpy() * 1000
    n, width = table.shape
    if n < 2 or np.isnan(table).any():  # a question was not asked in every repeat
        return [float("nan")] * (2 + 2 * len(SHARES))
    drawn = np.random.default_rng(seed).integers(0, n, size=(n_resamples, n))
    samples = np.sort(table[drawn].reshape(n_resamples, -1), axis=1)
    places = [max(0, int(np.ceil(share * n * width - 1e-9)) - 1) for share in SHARES.values()]
    drawn_values = np.column_stack([samples.mean(axis=1), samples[:, places]])
    return np.quantile(drawn_values, [0.025, 0.975], axis=0).T.ravel().tolist()


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values of one family, in the order given (Holm 1979). Own lines, for it is asked a thousand times by the
    simulation and by every gate: docs/decisions/0013."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted.tolist()


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for the false discovery rate of one family (Benjamini and Hochberg 1995), by statsmodels, in the order given."""
    from statsmodels.stats.multitest import multipletests

    return multipletests(p_values, method="fdr_bh")[1].tolist() if len(p_values) else []


def verdict(comparison: Comparison, alpha: float = ALPHA) -> str:
    """One word for a designated comparison: better, worse, not separated, or unresolvable.

    unresolvable: with this many queries no result could reach alpha, since the smallest two-sided p is 2 / 2^n.
    The adjusted p decides where there is one, and the interval must exclude 0 as well. Better is less where less is better
    (`direction`).
    """
    if 2.0 ** (1 - comparison.n) > alpha:
        return "unresolvable"
    p = comparison.p_value if comparison.p_adjusted is None else comparison.p_adjusted
    if p > alpha or comparison.low <= 0 <= comparison.high:
        return "not separated"
    return "better" if comparison.delta * direction(comparison.metric) > 0 else "worse"


def percentile(seconds: Sequence[float], share: float) -> float:
    """Nearest-rank percentile: the smallest sample with at least `share` of all samples at or below it."""
    ordered = np.sort(np.asarray(seconds, dtype=float))
    if not len(ordered):
        return float("nan")
    return float(ordered[max(0, int(np.ceil(share * len(ordered) - 1e-9)) - 1)])
