"""What four published studies would have concluded under the rules of this report, from nothing but the figures they published.

A claim is a row of `data/published/claims.csv`; its `kind` names the function here that judges it. What the source reports and what is
computed from that stay apart. Where only margins are known, every way in which the two sides could hang together is considered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, comb, sqrt
from pathlib import Path

import numpy as np
import pandas as pd

from localeval import stats
from localeval.records import BadInput

SUPPORTED, NOT_SEPARATED, UNRESOLVABLE = "supported", "not separated", "unresolvable"
UNKNOWN = "cannot be judged from what was published"
VERDICTS = (SUPPORTED, NOT_SEPARATED, UNRESOLVABLE, UNKNOWN)
TEXT_COLUMNS = ("study", "claim", "kind", "metric", "baseline", "candidate", "ranks", "note")


@dataclass(frozen=True, slots=True)
class Rules:
    """alpha: level of tests; intervals have 1 - alpha. margin: what counts as equal in practice, in units of the metric. ranks: the table
    `ranks.csv`: first relevant rank of every question for some systems."""

    ranks: pd.DataFrame
    alpha: float = 0.05
    margin: float = 0.05

    def values(self, system: str) -> dict[str, float]:
        """nDCG@10 of every question where one chunk is relevant: 1 / log2(rank + 1), 0 when it is not among ten."""
        own = self.ranks[self.ranks["system"] == system]
        if own.empty:
            raise BadInput(f"ranks.csv: no system {system!r}; it has {', '.join(self.ranks['system'].unique())}")
        rank = own["rank"].to_numpy(dtype=float)
        gains = np.where(rank > 0, 1 / np.log2(np.maximum(rank, 1) + 1), 0.0)
        return dict(zip(own["query_id"], gains.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Judged:
    """reported: by the source. computed: here, from what is reported. verdict: one of `VERDICTS`. why: in words."""

    reported: str
    computed: str
    verdict: str
    why: str


# Arithmetic


def spread_of(low: float, high: float, n: int, level: float = 0.95) -> float:
    """Standard deviation of n values that an interval of their mean implies, where it is about symmetric: half width sqrt(n) / z."""
    return (high - low) / 2 / _z(level) * sqrt(n)


def largest_spread(mean: float) -> float:
    """The largest standard deviation that values from 0 to 1 with this mean can have: all of them 0 or 1."""
    return sqrt(max(0.0, mean * (1 - mean)))


def mcnemar_bounds(hits: int, hits_b: int, n: int) -> tuple[float, float]:
    """Smallest and largest p of McNemar's exact test over every way in which two systems with these hits can share n questions."""
    both = np.arange(max(0, hits + hits_b - n), min(hits, hits_b) + 1)
    only, only_b, rows = hits - both, hits_b - both, np.arange(n)[:, None]
    p_values = stats.mcnemar(np.where(rows < only, 1.0, np.where(rows < only + only_b, -1.0, 0.0)))
    return float(p_values.min()), float(p_values.max())


def pairing_bounds(delta: float, sd: float, sd_b: float, n: int, *, least: bool = True) -> tuple[float, float]:
    """Smallest and largest p of a paired t test over every correlation of two sides with these spreads: the spread of the difference
    lies between their difference and their sum. least: False where the spreads are themselves only upper bounds."""
    ends = [abs(sd - sd_b) if least else 0.0, sd + sd_b]
    return tuple(_p(delta, end / sqrt(n), n) for end in ends)


def smallest_p(n: int, n_b: int | None = None) -> float:
    """The smallest two-sided p that any outcome can reach: 2 / 2^n of a sign-flip test, or 2 / C(n + n_b, n) of two separate groups."""
    return min(1.0, 2 / 2**n if n_b is None else 2 / comb(n + n_b, n))


def detectable_at(mde: float, n: int, n_b: int) -> float:
    """The minimum detectable effect with n_b questions, where it is `mde` with n and the spread is the same."""
    return mde * sqrt(n / n_b)


def _p(delta: float, error: float, n: int) -> float:
    """Two-sided p of a t statistic with n - 1 degrees of freedom."""
    if error <= 0:
        return 0.0 if delta else 1.0
    return float(2 * stats.t_below(-abs(delta) / error, n))


def _z(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(0.5 + level / 2))


# Words


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _between(low: float, high: float, spec: str = "+.3f") -> str:
    return f"[{low:{spec}}, {high:{spec}}]".replace("-", "−")


def _p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _p_range(low: float, high: float) -> str:
    texts = ["< 0.001" if p < 0.001 else f"{p:.3f}" for p in (low, high)]
    return f"p {texts[0]}" if texts[0] == texts[1] else f"p from {texts[0]} to {texts[1]}"


VALUES = "the values of each question would tell"
FAMILY = "the p of the other comparisons would tell"


def _by_range(low: float, high: float, alpha: float, way: str, would_tell: str) -> tuple[str, str]:
    """A verdict where p is only known to lie in a range, and why."""
    if low > alpha:
        return NOT_SEPARATED, f"{way} gives a p of at most {alpha:g}."
    if high <= alpha:
        return SUPPORTED, f"Every p that is possible is at most {alpha:g}."
    why = f"Some of what is possible gives a p of at most {alpha:g} and some does not; {would_tell}."
    return UNKNOWN, why


# Kinds of claims


def _difference(row: dict, rules: Rules) -> Judged:
    """A paired difference with its published interval, or its published spread."""
    n, delta = int(row["n"]), row["delta"]
    has_sd = not np.isnan(row["sd"])
    error = row["sd"] / sqrt(n) if has_sd else (row["high"] - row["low"]) / 2 / _z(1 - rules.alpha)
    reported = (
        f"{_signed(delta)}, sd {row['sd']:.2f}" if has_sd else f"{_signed(delta)} {_between(row['low'], row['high'])}"
    )
    reported += "" if np.isnan(row["p_value"]) else f", {_p_text(row['p_value'])}"
    return _paired(reported, delta, error, _p(delta, error, n), row, rules)


def _queries(row: dict, rules: Rules) -> Judged:
    """A paired difference whose values the source published question by question."""
    sides = rules.values(row["baseline"]), rules.values(row["candidate"])
    got = stats.compare(*sides, metric=row["metric"], rule="", names=(row["baseline"], row["candidate"]))
    known = not np.isnan(row["delta"])
    reported = f"{_signed(row['delta'])} {_between(row['low'], row['high'])}" if known else "ranks of each question"
    done = _paired(reported, got.delta, got.mde / 2.8, got.p_value, row, rules)
    return Judged(
        reported, f"{_signed(got.delta)} {_between(got.low, got.high)}, {done.computed}", done.verdict, done.why
    )


def _paired(reported: str, delta: float, error: float, p: float, row: dict, rules: Rules) -> Judged:
    """The verdict on a paired difference with this standard error and p, and on equality where it is not separated."""
    low, high = (min(1.0, p * row[name]) for name in ("factor_low", "factor_high"))
    computed = f"{_p_text(p)}, MDE {2.8 * error:.3f}"
    if p > rules.alpha:
        reach = _z(1 - 2 * rules.alpha) * error
        why = f"Equal within {rules.margin:g}."
        if abs(delta) + reach >= rules.margin:
            ends = _between(delta - reach, delta + reach)
            why = f"Nor is it shown to be equal: the interval for that, {ends}, reaches beyond a margin of {rules.margin:g}."
        return Judged(reported, computed, NOT_SEPARATED, why)
    if row["factor_high"] == 1:
        return Judged(reported, computed, SUPPORTED, f"The p is at most {rules.alpha:g}.")
    verdict, why = _by_range(low, high, rules.alpha, "Nothing that is possible after the correction", FAMILY)
    return Judged(reported, f"{computed}, after Holm {_p_range(low, high)}", verdict, f"Alone it is separated. {why}")


def _same(row: dict, rules: Rules) -> Judged:
    """The claim that a cheaper system is as good, with values question by question: non-inferior within the margin, or not shown."""
    sides = rules.values(row["baseline"]), rules.values(row["candidate"])
    got = stats.compare(*sides, metric=row["metric"], rule="", names=(row["baseline"], row["candidate"]))
    low = got.delta - _z(1 - 2 * rules.alpha) * got.mde / 2.8
    computed = (
        f"{_signed(got.delta)} {_between(got.low, got.high)}, {_p_text(got.p_value)}; may be worse by up to {-low:.3f}"
    )
    return _as_good(_signed(row["delta"]), computed, low, rules)


def _as_good(reported: str, computed: str, low: float, rules: Rules) -> Judged:
    if low > -rules.margin:
        return Judged(reported, computed, SUPPORTED, f"A loss above the margin of {rules.margin:g} is ruled out.")
    why = f"Not separated is not the same as equal: a loss above the margin of {rules.margin:g} is not ruled out."
    return Judged(reported, computed, NOT_SEPARATED, why)


def _same_rates(row: dict, rules: Rules) -> Judged:
    """As good, from two counts: the pairing that makes the difference least certain is taken."""
    n, hits, hits_b = (int(row[name]) for name in ("n", "hits", "hits_b"))
    both = max(0, hits + hits_b - n)
    apart, delta = hits + hits_b - 2 * both, (hits_b - hits) / n
    low = delta - _z(1 - 2 * rules.alpha) * sqrt(apart / n - delta**2) / sqrt(n)
    computed = f"at most {apart} of {n} questions on which they differ; worse by at most {-low:.3f}"
    return _as_good(f"{hits} and {hits_b} of {n}", computed, low, rules)


def _paired_rates(row: dict, rules: Rules) -> Judged:
    """Two counts of hits over the same questions, without saying which."""
    n, hits, hits_b = (int(row[name]) for name in ("n", "hits", "hits_b"))
    reported = f"{hits / n:.3f} and {hits_b / n:.3f}"
    low, high = mcnemar_bounds(hits, hits_b, n)
    computed = f"{hits} and {hits_b} of {n}; McNemar's {_p_range(low, high)}"
    if row["factor_high"] > 1:
        low, high = (min(1.0, p * row[name]) for p, name in ((low, "factor_low"), (high, "factor_high")))
        computed += f", after Holm {_p_range(low, high)}"
    if smallest_p(n) > rules.alpha:
        return Judged(reported, computed, UNRESOLVABLE, f"With {n} cases no outcome has a p below {smallest_p(n):.3f}.")
    verdict, why = _by_range(low, high, rules.alpha, "No way in which the hits can be shared", VALUES)
    return Judged(reported, computed, verdict, why)


def _paired_means(row: dict, rules: Rules) -> Judged:
    """Two means over the same questions; the spread of each from its interval, else the largest that its mean allows."""
    n, means = int(row["n"]), (row["mean"], row["mean_b"])
    bounds = [(row["low"], row["high"]), (row["low_b"], row["high_b"])]
    known = not np.isnan(bounds).any()
    spreads = [spread_of(*b, n) if known else largest_spread(m) for b, m in zip(bounds, means, strict=True)]
    low, high = pairing_bounds(means[1] - means[0], *spreads, n, least=known)
    texts = [f"{m:.3f} {_between(*b, '.3f')}" if known else f"{m:.3f}" for b, m in zip(bounds, means, strict=True)]
    verdict, why = _by_range(low, high, rules.alpha, "No correlation of the two", VALUES)
    computed = f"{_signed(means[1] - means[0])}; {_p_range(low, high)}, by how the two hang together"
    return Judged(" and ".join(texts), computed, verdict, why)


def _rate(row: dict, rules: Rules) -> Judged:
    """A share against a reference that the claim names or implies."""
    n, hits, reference = int(row["n"]), int(row["hits"]), row["reference"]
    low, high = stats.wilson(hits, n, 1 - rules.alpha)
    computed = f"Wilson {_between(low, high, '.3f')}, against {reference:.3f}"
    if low <= reference <= high:
        return Judged(f"{hits} of {n}", computed, NOT_SEPARATED, "The interval holds the share it is to differ from.")
    return Judged(f"{hits} of {n}", computed, SUPPORTED, "The interval leaves out the share it is to differ from.")


def _groups(row: dict, rules: Rules) -> Judged:
    """Two means over different questions, without their spread."""
    n, n_b, means = int(row["n"]), int(row["n_b"]), (row["mean"], row["mean_b"])
    reported = f"{means[0]:.3f} (n = {n}) and {means[1]:.3f} (n = {n_b})"
    least = smallest_p(n, n_b)
    if least > rules.alpha:
        return Judged(
            reported,
            f"smallest p possible {least:.3f}",
            UNRESOLVABLE,
            "No outcome with groups of this size reaches the level.",
        )
    error = sqrt(sum(largest_spread(m) ** 2 / size for m, size in zip(means, (n, n_b), strict=True)))
    high = _p(means[1] - means[0], error, n + n_b - 1)
    if min(n, n_b) >= 30 and high <= rules.alpha:
        return Judged(
            reported,
            f"p at most {high:.3f}",
            SUPPORTED,
            "It is separated even with the largest spread that the means allow.",
        )
    return Judged(
        reported, f"smallest p possible {least:.3f}", UNKNOWN, "No spread and no values of single cases are published."
    )


def _few(row: dict, rules: Rules) -> Judged:
    """Two means over the same few questions."""
    n = int(row["n"])
    verdict = UNRESOLVABLE if smallest_p(n) > rules.alpha else UNKNOWN
    why = f"With {n} cases no outcome reaches the level." if verdict == UNRESOLVABLE else "No spread is published."
    return Judged(
        f"{row['mean']:.2f} and {row['mean_b']:.2f}",
        f"{n} cases; smallest p possible {smallest_p(n):.3f}",
        verdict,
        why,
    )


def _mde(row: dict, rules: Rules) -> Judged:
    """Minimum detectable effects for two numbers of questions: does the second follow from the first?"""
    n, n_b = int(row["n"]), int(row["n_b"])
    low, high = (detectable_at(row[name], n, n_b) for name in ("low", "high"))
    spreads = [row[name] * sqrt(n) / 2.8 for name in ("low", "high")]
    same = abs(low - row["low_b"]) < 0.006 and abs(high - row["high_b"]) < 0.006
    reported = f"{row['low']:.3f} to {row['high']:.3f} (n = {n}), {row['low_b']:.2f} to {row['high_b']:.2f} (n = {n_b})"
    computed = f"2.8 sd / √n gives sd {spreads[0]:.2f} to {spreads[1]:.2f}, and {low:.3f} to {high:.3f} (n = {n_b})"
    why = (
        "The second range follows from the first by the formula."
        if same
        else "The second range does not follow from the first."
    )
    return Judged(reported, computed, SUPPORTED if same else UNKNOWN, why)


def _category(row: dict, rules: Rules) -> Judged:
    """A claim about some of the questions, for which no figure is published."""
    n, n_b = int(row["n"]), int(row["n_b"])
    low, high = (detectable_at(row[name], n, n_b) for name in ("low", "high"))
    computed = f"MDE {low:.3f} to {high:.3f} with {n_b} questions"
    return Judged(
        "no figures",
        computed,
        UNKNOWN,
        "No difference is published for these questions; only a large one would have shown.",
    )


def _histogram(row: dict, rules: Rules) -> Judged:
    """A mean reciprocal rank beside the published counts of first ranks."""
    counts = {int(rank): int(count) for rank, count in (pair.split(":") for pair in row["ranks"].split())}
    n = int(row["n"])
    mrr = sum(count / rank for rank, count in counts.items()) / n
    computed = f"{mrr:.3f} from the published counts of first ranks"
    if abs(mrr - row["mean"]) < 0.0051:
        return Judged(f"{row['mean']:.2f}", computed, SUPPORTED, "The mean follows from the counts.")
    return Judged(
        f"{row['mean']:.2f}",
        computed,
        UNKNOWN,
        "Two published figures disagree; the values of each case would tell which holds.",
    )


def _times(row: dict, rules: Rules) -> Judged:
    """Two mean times beside the range of the first over repeats."""
    beyond = row["mean_b"] > row["high"]
    computed = f"repeats of the first: {row['low']:.1f} to {row['high']:.1f}"
    why = "Far outside" if beyond else "Within"
    verdict = SUPPORTED if beyond else NOT_SEPARATED
    return Judged(
        f"{row['mean']:.0f} and {row['mean_b']:.0f} ms",
        computed,
        verdict,
        f"{why} what repeats of the same system differ by.",
    )


def _tail(row: dict, rules: Rules) -> Judged:
    """A P95 above a limit: how many answers took longer at least."""
    n = int(row["n"])
    slower = n - ceil(0.95 * n - 1e-9) + 1
    computed = f"at least {slower} of {n} answers took that long or longer (nearest rank)"
    if row["mean"] <= row["reference"]:
        return Judged(f"{row['mean']:,.0f} ms", computed, UNKNOWN, "The P95 is not above the limit.")
    return Judged(f"{row['mean']:,.0f} ms", computed, SUPPORTED, "It counts what happened, in one run on one machine.")


def _words(row: dict, rules: Rules) -> Judged:
    """A claim without a figure that could be judged; the note says why."""
    return Judged("—", "—", UNKNOWN, row["note"])


KINDS: dict[str, Callable[[dict, Rules], Judged]] = {
    "difference": _difference, "queries": _queries, "same": _same, "same rates": _same_rates, "paired rates": _paired_rates,
    "paired means": _paired_means, "rate": _rate, "groups": _groups, "few": _few, "mde": _mde, "category": _category,
    "histogram": _histogram, "times": _times, "tail": _tail, "words": _words,
}  # fmt: skip


# Tables


def read(folder: Path, name: str) -> pd.DataFrame:
    """A table of published figures: texts stay texts, an empty figure is NaN."""
    path = folder / name
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; 'figures' must name a folder of published figures") from None
    for column in frame.columns.difference([*TEXT_COLUMNS, *frame.columns[frame.columns.isin(WORDS)]]):
        try:
            frame[column] = pd.to_numeric(frame[column].replace("", None))
        except ValueError:
            raise BadInput(f"{path}: column {column!r} holds something that is no number") from None
    return frame


WORDS = ("title", "source", "what", "reported", "its name asks", "what is computed", "system", "query_id")


def judge(claims: pd.DataFrame, rules: Rules) -> pd.DataFrame:
    """Every claim with its verdict. Columns: study, claim, metric, reported by the source, computed here from that, verdict, why."""
    rows = []
    for number, row in enumerate(claims.to_dict("records"), 2):
        if row["kind"] not in KINDS:
            raise BadInput(f"claims.csv: line {number}: unknown kind {row['kind']!r}; known: {', '.join(KINDS)}")
        got = KINDS[row["kind"]](row, rules)
        why = got.why if row["kind"] == "words" or not row["note"] else f"{got.why} {row['note']}"
        rows.append((row["study"], row["claim"], row["metric"], got.reported, got.computed, got.verdict, why))
    columns = ["study", "claim", "metric", "reported by the source", "computed here from that", "verdict", "why"]
    return pd.DataFrame(rows, columns=columns)


def counted(judged: pd.DataFrame) -> pd.DataFrame:
    """Claims of every study by verdict, with the sum; columns in the order of `VERDICTS`."""
    table = pd.crosstab(judged["study"], judged["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    table = table.reindex(dict.fromkeys(judged["study"]))
    return table.assign(claims=table.sum(axis=1)).rename_axis(columns=None).reset_index()


def with_intervals(rates: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Published rates with the Wilson interval that their counts allow. rates: `rates.csv`."""
    rows = []
    for row in rates.to_dict("records"):
        hits, n = int(row["hits"]), int(row["n"])
        low, high = stats.wilson(hits, n, 1 - alpha)
        computed = f"{hits / n:.3f} {_between(low, high, '.3f')}"
        rows.append((row["study"], row["what"], row["reported"], f"{hits} of {n:,}", computed, row["note"]))
    return pd.DataFrame(
        rows, columns=["study", "what", "reported by the source", "counted", "computed here from that", "note"]
    )


def reproduced(intervals: pd.DataFrame, rules: Rules) -> pd.DataFrame:
    """Published intervals and ours from the published ranks, side by side. intervals: `intervals.csv`.

    Columns: what, reported by the source, computed here from that, largest difference of the three figures.
    """
    rows = []
    for row in intervals.to_dict("records"):
        values = rules.values(row["system"])
        if row["baseline"]:
            before = rules.values(row["baseline"])
            values = {query: value - before[query] for query, value in values.items()}
        got = stats.interval([values[query] for query in sorted(values)])
        theirs, ours = (row["mean"], row["low"], row["high"]), (got.mean, got.low, got.high)
        what = f"{row['system']} against {row['baseline']}" if row["baseline"] else row["system"]
        texts = [f"{mean:.3f} {_between(low, high, '.3f')}" for mean, low, high in (theirs, ours)]
        rows.append((what, *texts, max(abs(a - b) for a, b in zip(theirs, ours, strict=True))))
    return pd.DataFrame(
        rows, columns=["what", "reported by the source", "computed here from that", "largest difference"]
    )


def answer(judged: pd.DataFrame) -> str:
    """How many claims came to which verdict, in one sentence."""
    counts = judged["verdict"].value_counts().reindex(list(VERDICTS), fill_value=0)
    is_are = lambda verdict: "" if verdict.startswith("cannot") else "is " if counts[verdict] == 1 else "are "
    parts = [f"{counts[verdict]} {is_are(verdict)}{verdict}" for verdict in VERDICTS]
    return f"Of {len(judged)} claims {', '.join(parts[:-1])} and {parts[-1]}."
