"""The report's statistics put to the test on the study itself: samples of its size, drawn from its values, where the truth is known.

How often does an interval hold the true mean? How often does a test call out where there is nothing, and how often does it see what is
there? Every sample goes through the very procedure of `stats`, with the same draws, only for many samples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from localeval import abstention, clusters, sequential, stats
from localeval.records import BadInput

LOOKS = 5  # looks of a gate that one history of the simulation holds
BLOCK = 500  # samples whose resampled means are held in memory at once


@dataclass(frozen=True, slots=True)
class Setup:
    """simulations: samples drawn for each rate. n_resamples: bootstrap resamples and sign flips inside each. seed: of both. alpha: level
    of every test; intervals have the level 1 - alpha."""

    simulations: int = 2000
    n_resamples: int = 2000
    seed: int = stats.SEED
    alpha: float = 0.05

    def __post_init__(self):
        if self.simulations < 1 or self.n_resamples < 1:
            raise BadInput(f"simulations={self.simulations}, n_resamples={self.n_resamples}: need at least 1 of each")
        if not 0 < self.alpha < 1:
            raise BadInput(f"alpha={self.alpha}: a level lies between 0 and 1")

    def generator(self, *about: object) -> np.random.Generator:
        """A stream of its own for whatever `about` names, so that no figure depends on the order of the others."""
        return np.random.default_rng([self.seed, *"\0".join(map(str, about)).encode()])


# Samples


def resampled(values: np.ndarray, setup: Setup, generator: np.random.Generator) -> np.ndarray:
    """Samples of a study whose questions are exactly these, with replacement: (simulations, n). The truth is the mean of `values`."""
    return generator.choice(values, size=(setup.simulations, len(values)))


def centred(differences: np.ndarray, setup: Setup, generator: np.random.Generator) -> np.ndarray:
    """No difference in the mean, with the shape as it was seen, skew and all: differences less their mean, resampled."""
    return resampled(differences - differences.mean(), setup, generator)


def tilted(differences: np.ndarray, mean: float, setup: Setup, generator: np.random.Generator) -> np.ndarray:
    """Differences as large as those seen, each on the side that a coin says, loaded so that their true mean is `mean`.

    With mean 0 neither system is better on any question: what the sign-flip test supposes. Values stay among those that the metric
    can take, 0/1 metrics included. A mean larger than the mean size of the differences cannot be had: ValueError.
    """
    sizes = np.abs(differences)
    if abs(mean) > sizes.mean():
        raise ValueError(f"no signs give differences of this size a mean of {mean}")
    share = 0.5 + 0.5 * mean / sizes.mean() if mean else 0.5
    drawn = resampled(sizes, setup, generator)
    return np.where(generator.random(drawn.shape) < share, drawn, -drawn)


# The procedures of `stats`, for many samples at once


def bootstrap_bounds(samples: np.ndarray, setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval of `stats.interval` for every row. samples: (s, n) -> twice (s,); NaN where a row does not vary."""
    ends = [
        stats.bounds(
            stats.resampled_means(samples[start : start + BLOCK].T, setup.seed, setup.n_resamples), 1 - setup.alpha
        )
        for start in range(0, len(samples), BLOCK)
    ]
    bounds = np.where(np.ptp(samples, axis=1)[:, None] <= stats.TIE, np.nan, np.concatenate(ends))
    return bounds[:, 0], bounds[:, 1]


def permutation_p(samples: np.ndarray, setup: Setup) -> np.ndarray:
    """The p of `stats.sign_flip` for every row. samples: (s, n) -> (s,)."""
    return stats.sign_flips(samples.T, seed=setup.seed, n_resamples=setup.n_resamples)[0]


def report_p(samples: np.ndarray, setup: Setup, zero_one: bool) -> np.ndarray:
    """The p that the report prints: McNemar's for differences of a 0/1 metric, else the permutation's. samples: (s, n) -> (s,)."""
    return stats.mcnemar(samples.T) if zero_one else permutation_p(samples, setup)


def separated(p_values: np.ndarray, low: np.ndarray, high: np.ndarray, n: int, alpha: float) -> np.ndarray:
    """Where `stats.verdict` says better or worse: p at most alpha, an interval without 0, and enough questions to reach alpha at all."""
    return (p_values <= alpha) & ~((low <= 0) & (high >= 0)) & (2.0 ** (1 - n) <= alpha)


# Rates


def rate(flags: np.ndarray) -> dict:
    """Share of simulations in which something was so, with its Monte-Carlo error as a Wilson interval. NaN without any simulation."""
    n = len(flags)
    low, high = stats.wilson(int(np.sum(flags)), n) if n else (np.nan, np.nan)
    return {"rate": float(np.mean(flags)) if n else np.nan, "low": low, "high": high, "simulations": n}


def coverage(values: Sequence[float], setup: Setup, *, name: str, binary: bool = False) -> list[dict]:
    """How often intervals of the mean hold the truth, where these values are all the questions there are: a row for each kind.

    The bootstrap of `stats.interval`; for 0/1 values also Wilson's interval, which there stands in for a sample that does not vary.
    Keys: kind, n, rate of the samples with an interval that holds the truth, undefined: share of the samples without one.
    """
    values = np.asarray(values, dtype=float)
    truth, samples = values.mean(), resampled(values, setup, setup.generator("coverage", name))
    bounds = {"percentile bootstrap": bootstrap_bounds(samples, setup)}
    if binary:
        wilson = _wilson_bounds(samples, setup)
        flat = np.isnan(bounds["percentile bootstrap"][0])
        bounds["percentile bootstrap"] = tuple(
            np.where(flat, w, b) for w, b in zip(wilson, bounds["percentile bootstrap"], strict=True)
        )
        bounds["Wilson"] = wilson
    return [{"kind": kind, "n": len(values)} | _held(*ends, truth) for kind, ends in bounds.items()]


def _wilson_bounds(samples: np.ndarray, setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    n = samples.shape[1]
    table = np.array([stats.wilson(hits, n, 1 - setup.alpha) for hits in range(n + 1)])
    ends = table[np.rint(samples.sum(axis=1)).astype(int)]
    return ends[:, 0], ends[:, 1]


def _held(low: np.ndarray, high: np.ndarray, truth: float) -> dict:
    known = ~np.isnan(low)
    held = (low[known] <= truth + stats.TIE) & (truth - stats.TIE <= high[known])
    return rate(held) | {"undefined": float(1 - known.mean())}


def latency_coverage(seconds: np.ndarray, setup: Setup, *, name: str, simulations: int, n_resamples: int) -> list[dict]:
    """How often the intervals of mean and P95 of `stats.latency_table` hold the truth. seconds: (questions, repeats) of one system."""
    n, repeats = seconds.shape
    place = max(0, int(np.ceil(0.95 * n * repeats - 1e-9)) - 1)
    truths = seconds.mean(), np.sort(seconds, axis=None)[place]
    drawn = np.random.default_rng(setup.seed).integers(0, n, size=(n_resamples, n))
    generator, ends = setup.generator("latency", name), []
    for _ in range(simulations):
        sample = seconds[generator.integers(0, n, size=n)]
        again = sample[drawn].reshape(n_resamples, -1)
        figures = again.mean(axis=1), np.partition(again, place, axis=1)[:, place]
        ends.append([np.quantile(one, [setup.alpha / 2, 1 - setup.alpha / 2]) for one in figures])
    bounds = np.array(ends).reshape(-1, 2, 2)
    kinds = ("bootstrap of a mean time", "bootstrap of a P95")
    return [{"kind": kind, "n": n} | _held(*bounds[:, i].T, truths[i]) for i, kind in enumerate(kinds)]


def sequence_coverage(differences: Sequence[float], setup: Setup, *, name: str) -> list[dict]:
    """How often a confidence sequence holds the true mean at every number of questions at once. No row where differences leave -1 to 1."""
    differences = np.asarray(differences, dtype=float)
    if np.abs(differences).max() > 1 or np.abs(differences.mean()) >= 1:
        return []
    samples = resampled(differences, setup, setup.generator("coverage", name))
    held = ~sequential.ruled_out(samples, float(differences.mean()), setup.alpha)
    return [
        {"kind": "confidence sequence, at every n at once", "n": len(differences)} | rate(held) | {"undefined": 0.0}
    ]


def cluster_coverage(differences: Sequence[float], groups: Sequence[str], setup: Setup, *, name: str) -> list[dict]:
    """How often intervals hold the truth where not questions are drawn but whole documents with all their questions.

    As if questions were independent (`stats.interval`), and with documents resampled (`clusters.clustered`). groups: the document of each.
    No row below clusters.FEWEST_CLUSTERS documents, for there is no such interval.
    """
    values, numbers = np.asarray(differences, dtype=float), stats.group_numbers(groups)
    count, members = numbers.max(initial=-1) + 1, [values[numbers == one] for one in range(numbers.max(initial=-1) + 1)]
    if count < clusters.FEWEST_CLUSTERS:
        return []
    drawn = setup.generator("clusters", name).integers(0, count, size=(setup.simulations, count))
    samples = [np.concatenate([members[one] for one in row]) for row in drawn]
    bounds = {
        "questions resampled": _question_bounds(samples, setup),
        "documents resampled": _cluster_bounds(drawn, members, setup),
    }
    flat = np.array([np.ptp(sample) <= stats.TIE for sample in samples])
    rows = {kind: _held(*(np.where(flat, np.nan, end) for end in ends), values.mean()) for kind, ends in bounds.items()}
    return [{"kind": kind, "n": len(values)} | row for kind, row in rows.items()]


def _question_bounds(samples: Sequence[np.ndarray], setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """`bootstrap_bounds` of samples of different sizes; those of one size share their draws, as they do alone."""
    sizes, ends = np.array([len(sample) for sample in samples]), np.empty((2, len(samples)))
    for size in np.unique(sizes):
        own = np.flatnonzero(sizes == size)
        ends[:, own] = bootstrap_bounds(np.array([samples[place] for place in own]), setup)
    return ends[0], ends[1]


def _cluster_bounds(drawn: np.ndarray, members: Sequence[np.ndarray], setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval of `clusters.clustered` for every row of drawn clusters: sums of values over numbers of questions."""
    sums, sizes = (np.array([size(own) for own in members], dtype=float)[drawn].T for size in (np.sum, len))
    means = [stats.resampled_means(one, setup.seed, setup.n_resamples) for one in (sums, sizes)]
    ends = stats.bounds(means[0] / means[1], 1 - setup.alpha)
    return ends[:, 0], ends[:, 1]


def area_coverage(signal: Sequence[float], correct: Sequence[bool], setup: Setup, *, name: str) -> list[dict]:
    """How often the intervals of both areas of `abstention.abstention` hold the truth, a row each. signal, correct: of every question."""
    signal, correct = np.asarray(signal, dtype=float), np.asarray(correct, dtype=bool)
    n, ends = len(signal), {}
    truth = {kind: float(area[0]) for kind, area in abstention.areas(signal, correct).items()}
    times, generator = (
        abstention.resamples(n, seed=setup.seed, n_resamples=setup.n_resamples),
        setup.generator("areas", name),
    )
    tails = [setup.alpha / 2, 1 - setup.alpha / 2]
    for _ in range(setup.simulations):
        rows = generator.integers(0, n, size=n)
        for kind, again in abstention.areas(signal[rows], correct[rows], times).items():
            low, high = np.quantile(again, tails)
            ends.setdefault(kind, []).append((low, high) if np.ptp(again) > stats.TIE else (np.nan, np.nan))
    return [
        {"kind": f"bootstrap of the {kind.upper()}", "n": n} | _held(*np.array(ends[kind]).T, truth[kind])
        for kind in truth
    ]


def decisions(samples: np.ndarray, setup: Setup, *, zero_one: bool = False) -> dict[str, np.ndarray]:
    """Where every test says that there is a difference: name of the test -> (s,) flags. zero_one: differences of a 0/1 metric."""
    low, high = bootstrap_bounds(samples, setup)
    p_values = report_p(samples, setup, zero_one)
    said = {
        "McNemar, exact" if zero_one else "sign-flip permutation": p_values <= setup.alpha,
        "paired t": np.nan_to_num(stats.paired_t(samples.T), nan=1.0) <= setup.alpha,
        "bootstrap interval without zero": (low > 0) | (high < 0),
        "verdict": separated(p_values, low, high, samples.shape[1], setup.alpha),
    }
    if zero_one:
        said["sign-flip permutation"] = permutation_p(samples, setup) <= setup.alpha
    return said


def false_positives(differences: Sequence[float], setup: Setup, *, name: str, zero_one: bool = False) -> list[dict]:
    """How often each test finds a difference where there is none: a row for each null and test. differences: paired, as seen.

    McNemar's test speaks of wins and losses, so it has a row only where the differences are still -1, 0 and 1.
    """
    differences = np.asarray(differences, dtype=float)
    drawn = {
        "signs by coin": (tilted(differences, 0.0, setup, setup.generator("tilted", name)), zero_one),
        "centred": (centred(differences, setup, setup.generator("centred", name)), False),
    }
    rows = []
    for null, (samples, has_wins) in drawn.items():
        for test, flags in decisions(samples, setup, zero_one=has_wins).items():
            rows.append({"null": null, "test": test, "n": len(differences)} | rate(flags))
    return rows


def family_errors(
    differences: Mapping[str, Mapping[str, float]], setup: Setup, zero_one: Iterable[str] = ()
) -> list[dict]:
    """How often a family of comparisons in which nothing differs has at least one that is said to differ: a row for each rule.

    differences: name of a comparison -> query id -> difference; zero_one: names of those of a 0/1 metric. Comparisons over the same
    queries are drawn together, one coin a question, so that they stay as dependent as they are.
    """
    groups: dict[tuple, list[str]] = {}
    for name, own in differences.items():
        groups.setdefault(tuple(sorted(own)), []).append(name)
    p_values, excludes = [], []
    for queries, names in groups.items():
        generator = setup.generator("family", *queries)
        rows = generator.integers(0, len(queries), size=(setup.simulations, len(queries)))
        coins = generator.integers(0, 2, size=rows.shape) * 2 - 1
        for name in names:
            samples = np.array([differences[name][query] for query in queries])[rows] * coins
            p_values.append(report_p(samples, setup, name in zero_one))
            excludes.append(
                separated(np.zeros(len(samples)), *bootstrap_bounds(samples, setup), len(queries), setup.alpha)
            )
    p_values, excludes = np.array(p_values).T, np.array(excludes).T
    adjusted = np.array([stats.holm(family) for family in p_values])
    rules = {
        "each at the level by itself": p_values <= setup.alpha,
        "Holm": adjusted <= setup.alpha,
        "verdict (Holm and interval)": (adjusted <= setup.alpha) & excludes,
    }
    return [{"rule": rule, "family": len(differences)} | rate(flags.any(axis=1)) for rule, flags in rules.items()]


def gate_rules(samples: np.ndarray, minimum: float, setup: Setup) -> dict[str, np.ndarray]:
    """Where the gate's first lock closes for one system: the drop is significant (`stats.verdict` says worse), larger than the minimum
    effect, or both, which fails it. samples: (s, n) differences, new minus old."""
    low, high = bootstrap_bounds(samples, setup)
    means = samples.mean(axis=1)
    worse = separated(permutation_p(samples, setup), low, high, samples.shape[1], setup.alpha) & (means < 0)
    return {
        "drop significant": worse,
        "drop above the minimum": means < -minimum,
        "both: the gate fails": worse & (means < -minimum),
    }


def gate_errors(differences: Sequence[float], minimum: float, setup: Setup, *, name: str) -> list[dict]:
    """How often a gate fires when nothing became worse, though the questions came out as differently as here: a row for each rule."""
    differences = np.asarray(differences, dtype=float)
    samples = tilted(differences, 0.0, setup, setup.generator("gate", name))
    fixed = gate_rules(samples, minimum, setup)
    looked = look_rules(samples, fixed["both: the gate fails"], minimum, setup)
    return [{"rule": rule, "n": len(differences)} | rate(flags) for rule, flags in (fixed | looked).items()]


def look_rules(samples: np.ndarray, fixed: np.ndarray, minimum: float, setup: Setup) -> dict[str, np.ndarray]:
    """Where a gate fails at some of LOOKS looks, each at another candidate, in both of its modes. Every LOOKS samples are such a history.

    fixed: (s,) where mode fixed fails a sample. Empty for differences outside of -1 to 1, and with fewer samples than looks.
    """
    histories = len(samples) // LOOKS
    if not histories or np.abs(samples).max(initial=0) > 1:
        return {}
    whole = samples[: histories * LOOKS].reshape(histories, LOOKS, -1)
    fails = [
        sequential.falls(whole[:, look], sequential.spent(setup.alpha, look + 1))
        & (whole[:, look].mean(axis=1) < -minimum)
        for look in range(LOOKS)
    ]
    said = f"fails at some of {LOOKS} looks, mode"
    return {
        f"{said} fixed": fixed[: histories * LOOKS].reshape(histories, LOOKS).any(axis=1),
        f"{said} anytime": np.any(fails, axis=0),
    }


def power(
    differences: Sequence[float], effects: Iterable[float], minimum: float, setup: Setup, *, name: str
) -> list[dict]:
    """How often a true difference is found: a row for each effect, way to have it, and test; the gate sees the difference as a drop.

    Two ways: `shifted`, every question by as much, which is what the formula of the minimum detectable effect supposes; and `signs
    by coin` (see `tilted`), which has no row for an effect that differences of this size cannot have.
    """
    differences, rows = np.asarray(differences, dtype=float), []
    for effect in map(float, effects):
        stream = setup.generator("power", name, f"{effect:.12g}")
        drawn = {"shifted": centred(differences, setup, stream) + effect}
        if effect <= np.abs(differences).mean():
            drawn["signs by coin"] = tilted(differences, effect, setup, stream)
        for way, samples in drawn.items():
            said = {
                "sign-flip permutation": permutation_p(samples, setup) <= setup.alpha,
                "gate": gate_rules(-samples, minimum, setup)["both: the gate fails"],
            }
            rows += [
                {"effect": effect, "way": way, "test": t, "n": len(differences)} | rate(f) for t, f in said.items()
            ]
    return rows


# A whole study


@dataclass(frozen=True)
class Pair:
    """One comparison of a study with its values. baseline, candidate: names; before, after: query id -> value, over the same queries."""

    metric: str
    rule: str
    origin: str
    baseline: str
    candidate: str
    before: dict[str, float]
    after: dict[str, float]

    @property
    def name(self) -> str:
        return f"{self.candidate} against {self.baseline}, {self.metric} under {self.rule}, {self.origin} questions"

    @property
    def differences(self) -> dict[str, float]:
        return {query: self.after[query] - value for query, value in self.before.items()}

    @property
    def values(self) -> np.ndarray:
        return np.array(list(self.differences.values()))


def pairs(scores: pd.DataFrame, comparisons: pd.DataFrame, most: int = 3) -> list[Pair]:
    """The designated comparisons that could be made, with their values; where there is none, the first `most` exploratory ones.

    scores, comparisons: the tables `scores.csv` and `comparisons.csv`. Pairs that never differ have nothing to draw from and are left out.
    """
    made = comparisons[comparisons["n"] > 1]
    chosen = made[made["designated"]] if made["designated"].any() else made.head(most)
    found = []
    for row in chosen.to_dict("records"):
        keys = {name: row[name] for name in ("metric", "rule", "origin")}
        part = scores[np.logical_and.reduce([scores[name] == value for name, value in keys.items()])]
        sides = [part[part["system"] == row[side]].set_index("query_id")["value"] for side in ("baseline", "candidate")]
        shared = sorted(set(sides[0].index) & set(sides[1].index))
        before, after = (dict(side.reindex(shared)) for side in sides)
        pair = Pair(**keys, baseline=row["baseline"], candidate=row["candidate"], before=before, after=after)
        if shared and np.ptp(pair.values) > stats.TIE:
            found.append(pair)
    return found


def described(some: Sequence[Pair]) -> pd.DataFrame:
    """The pairs to read. Columns: comparison, n, mean and sd of the differences, share of the questions without one."""
    rows = [
        (pair.name, len(v), v.mean(), v.std(ddof=1), float(np.mean(np.abs(v) <= stats.TIE)))
        for pair, v in ((pair, pair.values) for pair in some)
    ]
    return pd.DataFrame(rows, columns=["comparison", "n", "mean", "sd", "alike"])


def sides(some: Sequence[Pair]) -> list[str]:
    """Baseline and candidate of the first pair: the systems whose times are looked at."""
    return [some[0].baseline, some[0].candidate] if some else []


def interval_coverage(some: Sequence[Pair], setup: Setup, is_binary: Callable[[str], bool]) -> pd.DataFrame:
    """`coverage` of the mean of every side, once, and of every paired difference. Columns: of what, system, metric, and its keys."""
    rows, done = [], set()
    for pair in some:
        for system, values in ((pair.baseline, pair.before), (pair.candidate, pair.after)):
            name = f"{system}, {pair.metric} under {pair.rule}, {pair.origin}"
            if name in done:
                continue
            done.add(name)
            what = {"of": "mean of a 0/1 metric" if is_binary(pair.metric) else "mean of a graded metric", "name": name}
            own = coverage(list(values.values()), setup, name=name, binary=is_binary(pair.metric))
            rows += [what | row for row in own]
        what = {"of": "paired difference", "name": pair.name}
        own = coverage(pair.values, setup, name=pair.name) + sequence_coverage(pair.values, setup, name=pair.name)
        rows += [what | row for row in own]
    return pd.DataFrame(rows, columns=["of", "name", *COVERED])


COVERED = ["kind", "n", "rate", "low", "high", "simulations", "undefined"]


def time_coverage(
    timings: pd.DataFrame, systems: Iterable[str], setup: Setup, simulations: int = 200, n_resamples: int = 1000
) -> pd.DataFrame:
    """`latency_coverage` of the systems that were timed, over the questions asked in every repeat. timings: the table `timings.csv`."""
    rows, whole = [], timings[timings["phase"] == "total"]
    for system in dict.fromkeys(systems):
        table = (
            whole[whole["system"] == system].pivot_table(index="query_id", columns="repeat", values="seconds").dropna()
        )
        if len(table) > 1:
            got = latency_coverage(
                table.to_numpy(), setup, name=system, simulations=simulations, n_resamples=n_resamples
            )
            rows += [{"of": "warm time", "name": system} | row for row in got]
    return pd.DataFrame(rows, columns=["of", "name", *COVERED])


SHARED = "paired difference, documents drawn"


def shared_coverage(some: Sequence[Pair], documents: Mapping[str, str], setup: Setup) -> pd.DataFrame:
    """`cluster_coverage` of every paired difference. documents: query id -> document; questions without one are left out."""
    rows = []
    for pair in some:
        own = {query: value for query, value in pair.differences.items() if query in documents}
        got = (
            cluster_coverage(list(own.values()), [documents[query] for query in own], setup, name=pair.name)
            if own
            else []
        )
        rows += [{"of": SHARED, "name": pair.name} | row for row in got]
    return pd.DataFrame(rows, columns=["of", "name", *COVERED])


def areas_coverage(
    signals: pd.DataFrame, scores: pd.DataFrame, answerable: dict[str, bool], systems: Iterable[str], setup: Setup, *, metric: str,
    rule: str,
) -> pd.DataFrame:  # fmt: skip
    """`area_coverage` of the score of the first hit, for the systems that have one; empty where no question is named.

    signals: `signals.csv`; answerable, metric, rule: as in `abstention.outcomes`.
    """
    if not answerable:
        return pd.DataFrame(columns=["of", "name", *COVERED])
    rows, asked = [], scores[scores["query_id"].isin(list(answerable))]
    outcome = abstention.outcomes(asked, answerable, metric=metric, rule=rule)
    scored = signals[signals["signal"] == "top_score"].merge(outcome, on=["system", "query_id"])
    for system in dict.fromkeys(systems):
        own = scored[scored["system"] == system].sort_values("query_id")
        if len(own) > 1 and own["value"].notna().any():
            got = area_coverage(own["value"], own["correct"], setup, name=system)
            rows += [{"of": "risk-coverage area", "name": system} | row for row in got]
    return pd.DataFrame(rows, columns=["of", "name", *COVERED])


def test_errors(some: Sequence[Pair], setup: Setup, is_binary: Callable[[str], bool]) -> pd.DataFrame:
    """`false_positives` of every pair. Columns: name, null, test, n, rate, low, high, simulations."""
    rows = [
        {"name": pair.name} | row
        for pair in some
        for row in false_positives(pair.values, setup, name=pair.name, zero_one=is_binary(pair.metric))
    ]
    return pd.DataFrame(rows, columns=["name", "null", "test", "n", "rate", "low", "high", "simulations"])


def rule_errors(some: Sequence[Pair], minimum: float, setup: Setup, is_binary: Callable[[str], bool]) -> pd.DataFrame:
    """What families and gates call out in vain: `family_errors` of all pairs, and `gate_errors` of every pair. Columns: of, name, rule,
    rate, low, high, simulations."""
    rows = [
        {"of": "gate", "name": p.name} | row for p in some for row in gate_errors(p.values, minimum, setup, name=p.name)
    ]
    if some:
        zero_one = {pair.name for pair in some if is_binary(pair.metric)}
        family = family_errors({pair.name: pair.differences for pair in some}, setup, zero_one)
        rows = [{"of": "family", "name": f"{len(some)} comparisons"} | row for row in family] + rows
    return pd.DataFrame(rows, columns=["of", "name", "rule", "rate", "low", "high", "simulations"])


def power_at_mde(some: Sequence[Pair], minimum: float, setup: Setup) -> pd.DataFrame:
    """How often a true difference as large as the minimum detectable effect is found, for every pair; `power` at that effect, with mde."""
    rows = []
    for pair in some:
        mde = stats.mde(pair.values)
        rows += [
            {"name": pair.name, "mde": mde} | row for row in power(pair.values, [mde], minimum, setup, name=pair.name)
        ]
    return pd.DataFrame(rows, columns=["name", "mde", *POWER])


def power_curve(
    pair: Pair, minimum: float, setup: Setup, steps: Sequence[float] = (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5)
) -> pd.DataFrame:
    """`power` of one pair at multiples of its minimum detectable effect."""
    effects = [step * stats.mde(pair.values) for step in steps]
    return pd.DataFrame(power(pair.values, effects, minimum, setup, name=pair.name), columns=POWER)


def first_curve(some: Sequence[Pair], minimum: float, setup: Setup) -> tuple[dict, pd.DataFrame]:
    """Name and minimum detectable effect of the first pair, and its `power_curve`; words and an empty table where there is none."""
    if not some:
        return {"name": "no comparison", "mde": float("nan")}, pd.DataFrame(columns=POWER)
    return {"name": some[0].name, "mde": stats.mde(some[0].values)}, power_curve(some[0], minimum, setup)


POWER = ["effect", "way", "test", "n", "rate", "low", "high", "simulations"]


def pooled(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Rates of several comparisons as one, with the Monte-Carlo error of all their simulations, and the lowest and highest of them.

    Columns: `by`, then comparisons, rate, low, high, lowest, highest, simulations.
    """
    found = []
    for keys, part in rows.groupby(list(by), sort=False):
        total, hits = int(part["simulations"].sum()), float((part["rate"] * part["simulations"]).sum())
        low, high = stats.wilson(round(hits), total) if total else (np.nan, np.nan)
        ends = (part["rate"].min(), part["rate"].max(), total)
        found.append((*keys, len(part), hits / total if total else np.nan, low, high, *ends))
    return pd.DataFrame(found, columns=[*by, "comparisons", "rate", "low", "high", "lowest", "highest", "simulations"])
