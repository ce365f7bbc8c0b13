"""A page to plan with: how many questions an effect needs, and which systems stay within a budget, by sliders and without a server.

Python works out the values of each question once; `book/assets/planning.js` recomputes from them what is shown. Both follow the same
rules, and the page carries examples worked out here, so that a test can hold one against the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import sqrt

import numpy as np
import pandas as pd

from localeval import clusters, stats
from localeval.metrics import measure
from localeval.records import BadInput, Graded, near

ALPHA, POWER = 0.05, 0.8
SCALE = 1000  # values are kept to three decimals, as whole numbers


# How many questions


def _sum_of_z(alpha: float, power: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(1 - alpha / 2) + ndtri(power))


def minimum_effect(n: int, sd: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The true paired difference that n questions show with this power, two-sided: (z(1 - alpha/2) + z(power)) sd / sqrt(n).

    With alpha 0.05 and power 0.8 the sum is 2.8016, which `stats.mde` rounds to 2.8. sd: of the differences.
    """
    return _sum_of_z(alpha, power) * sd / sqrt(n)


def needed_table(
    sd: float, effects: Sequence[float], alpha: float = ALPHA, power: float = POWER, design: float | None = None
) -> pd.DataFrame:
    """Questions needed for each effect, at half, at once and at twice the spread. Columns: true difference, sd ... (each a spread).

    design: the design effect of shared documents; then a last column says what it makes of the spread at once.
    """
    wrong = [
        effect
        for effect in effects
        if isinstance(effect, bool) or not isinstance(effect, int | float) or not effect > 0
    ]
    if wrong or not effects:
        raise BadInput(
            f"effects: {wrong[0]!r} is no difference above 0"
            if wrong
            else "effects: name at least one difference above 0"
        )
    table = pd.DataFrame({"true difference": list(effects)})
    for spread in dict.fromkeys(round(sd * factor, 3) for factor in (0.5, 1, 2)):
        table[f"questions, sd {spread:g}"] = [
            stats.questions_needed(spread, e, alpha=alpha, power=power) for e in effects
        ]
    if design is not None:
        wide = clusters.widened(sd, design)
        table[f"questions, sd {sd:.3g}, shared documents"] = [
            stats.questions_needed(wide, e, alpha=alpha, power=power) for e in effects
        ]
    return table


# Which systems


@dataclass(frozen=True)
class Values:
    """What the page computes from. values: cut -> (systems, questions), from 0 to 1; p95_ms: per system; metric: its name without cut."""

    metric: str
    systems: tuple[str, ...]
    p95_ms: tuple[float, ...]
    values: Mapping[int, np.ndarray]

    @property
    def n(self) -> int:
        return next(iter(self.values.values())).shape[1] if self.values else 0


def values_at(
    graded: Mapping[tuple[str, str], Sequence[Graded]], totals: pd.DataFrame, *, metric: str, rule: str, cuts: Sequence[int],
    origin: str, leave_out: Sequence[str] = (), most: int = 40,
) -> Values:  # fmt: skip
    """Values of every timed system at every cut, over the questions that all of them have a value for.

    totals: rows of the latency table with phase total. leave_out: names that are no systems, such as shuffled ones. Of more than `most`
    systems those with the highest means are kept.
    """
    known = dict.fromkeys(own for _, own in graded)
    if known and rule not in known:
        raise BadInput(f"rule: nothing is graded under {rule!r}{near(rule, known)}; graded are {', '.join(known)}")
    times = dict(zip(totals["system"], totals["p95_ms"], strict=True))
    names = [name for (name, own) in graded if own == rule and name in times and name not in leave_out]
    by_cut = {}
    for cut in cuts:
        measured = {
            name: {one.query_id: measure(one, f"{metric}@{cut}") for one in graded[name, rule] if one.origin == origin}
            for name in names
        }
        by_cut[cut] = pd.DataFrame(measured, dtype=float).dropna()
    if not names or not cuts or by_cut[cuts[0]].empty:
        return Values(metric, (), (), {})
    last = by_cut[cuts[-1]].mean().sort_values(ascending=False, kind="stable").index[:most]
    kept = [name for name in names if name in set(last)]
    rounded = {cut: np.round(table[kept].T.to_numpy() * SCALE) / SCALE for cut, table in by_cut.items()}
    return Values(metric, tuple(kept), tuple(round(float(times[name]), 6) for name in kept), rounded)


BEST, SURVIVES, NOT_SHOWN, TOO_SLOW, BEST_TOO_SLOW = (
    "best",
    "as good",
    "not shown to be as good",
    "too slow",
    "best, too slow",
)


def survivors(values: Values, cut: int, budget_ms: float, margin: float, alpha: float = ALPHA) -> pd.DataFrame:
    """Which systems within the budget are as good as the best of all, within the margin.

    The best has the highest mean (tie: the faster). Another one survives when its P95 is within the budget and a loss of `margin`
    is ruled out: the lower one-sided t bound of its paired difference is not below -margin. Columns: system, mean, p95_ms, difference,
    bound, state. The one to choose is the fastest that is left. For one setting and without correction: a place to look;
    the tested recommendation is `recommend.recommend`.
    """
    from scipy.special import stdtrit

    table, n = values.values[cut], values.n
    means, times = table.mean(axis=1), np.array(values.p95_ms)
    best = min(range(len(means)), key=lambda i: (-round(means[i], 9), times[i]))
    apart = table - table[best]
    error = apart.std(axis=1, ddof=1) / sqrt(n) if n > 1 else np.full(len(means), np.nan)
    bounds = apart.mean(axis=1) - (stdtrit(n - 1, 1 - alpha) if n > 1 else np.nan) * error
    fast, good = times <= budget_ms, bounds >= -margin - 1e-9
    states = np.where(fast, np.where(good, SURVIVES, NOT_SHOWN), TOO_SLOW).tolist()
    states[best] = BEST if fast[best] else BEST_TOO_SLOW
    columns = {"mean": means, "p95_ms": times, "difference": apart.mean(axis=1), "bound": bounds, "state": states}
    return pd.DataFrame({"system": values.systems} | columns)


def choice(rows: pd.DataFrame) -> str:
    """The fastest system of `survivors` within the budget that is the best or as good; empty where there is none."""
    left = rows[rows["state"].isin([BEST, SURVIVES])]
    return "" if left.empty else str(left.loc[left["p95_ms"].idxmin(), "system"])


# The page


def worked_examples(values: Values, n: int, sd: float) -> dict:
    """Results of the functions above for a few settings, for the page's script to be held against."""
    settings = [
        (max(2, n), round(sd, 3), ALPHA, POWER, 0.05),
        (58, 0.2945, 0.05, 0.8, 0.05),
        (104, 0.34, 0.05, 0.8, 0.03),
    ]
    settings += [(300, 0.4, 0.01, 0.9, 0.1), (25, 0.5, 0.1, 0.5, 0.2), (2000, 0.3, 0.001, 0.95, 0.02)]
    plans = [
        {
            **dict(zip(("n", "sd", "alpha", "power", "effect"), (size, spread, alpha, power, effect), strict=True)),
            "mde": minimum_effect(size, spread, alpha, power),
            "needed": stats.questions_needed(spread, effect, alpha=alpha, power=power),
            "design": 1 + size / 100,
            "shared": minimum_effect(size, clusters.widened(spread, 1 + size / 100), alpha, power),
        }
        for size, spread, alpha, power, effect in settings
    ]
    chosen = []
    for cut in values.values:
        for budget in sorted({min(values.p95_ms) / 2, float(np.median(values.p95_ms)), max(values.p95_ms)}):
            for margin in (0.0, 0.05, 0.2):
                rows = survivors(values, cut, budget, margin)
                chosen.append(
                    {
                        "cut": cut,
                        "budget": budget,
                        "margin": margin,
                        "states": list(rows["state"]),
                        "choice": choice(rows),
                    }
                )
    return {"plans": plans, "chosen": chosen}


def data(values: Values, *, n: int, sd: float, budget_ms: float, margin: float, design: float | None = None) -> dict:
    """Everything that the page's script needs, as plain lists and numbers; values as whole thousandths, a row a system."""
    from scipy.special import stdtrit

    table = {
        str(cut): [(row * SCALE).round().astype(int).tolist() for row in table] for cut, table in values.values.items()
    }
    degrees = values.n - 1
    start = {
        "n": n,
        "sd": round(sd, 3),
        "alpha": ALPHA,
        "power": POWER,
        "budget": budget_ms,
        "margin": margin,
        "design": design,
    }
    quantile = float(stdtrit(degrees, 1 - ALPHA)) if degrees > 0 else None
    whole = {"metric": values.metric, "scale": SCALE, "t": quantile, "systems": list(values.systems)}
    return start | whole | {"p95": list(values.p95_ms), "values": table, "examples": worked_examples(values, n, sd)}


def typical(comparisons: pd.DataFrame, metric: str = "", origin: str = "") -> tuple[int, float, bool]:
    """Number of questions and spread of the differences to begin with, and whether they are this study's: of the designated comparisons
    the largest number and the median spread, else of the exploratory ones; without any, 100 and 0.4.

    metric (with or without its cut), origin: only comparisons of these, for spreads of other measures and questions say nothing.
    """
    made = comparisons[comparisons["mde"].notna() & (comparisons["n"] > 1)]
    for column, wanted in (("metric", metric), ("origin", origin)):
        if wanted:
            made = made[made[column].map(_without_cut) == _without_cut(wanted)]
    made = made[made["designated"]] if len(made) and made["designated"].any() else made
    if made.empty:
        return 100, 0.4, False
    return int(made["n"].max()), float((made["mde"] * np.sqrt(made["n"]) / 2.8).median()), True


def _without_cut(metric: str) -> str:
    return metric.partition("@")[0]


def typical_design(documents: pd.DataFrame, metric: str = "", origin: str = "") -> float | None:
    """The median design effect of the comparisons that `typical` looks at, none below 1; None where it is not known.

    documents: the table `documents.csv` of the statistics."""
    known = documents.dropna(subset=["design_effect"])
    for column, wanted in (("metric", metric), ("origin", origin)):
        if wanted:
            known = known[known[column].map(_without_cut) == _without_cut(wanted)]
    return float(known["design_effect"].clip(lower=1.0).median()) if len(known) else None


def first_times(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Whole answers of several latency tables as one; a system that was timed twice keeps its first times.

    The page gives the reranking notebook first: what it timed, it timed in one run with the systems that build on it."""
    whole = pd.concat(tables, ignore_index=True)
    return whole[whole["phase"] == "total"].drop_duplicates("system", ignore_index=True)


def state_table(values: Values, budget_ms: float, margin: float) -> pd.DataFrame:
    """`survivors` at every cut as a table to read: a row a system, a column a cut; empty where nothing was timed."""
    if not values.systems:
        return pd.DataFrame(columns=["system", "P95 ms"])
    table = pd.DataFrame({"system": values.systems, "P95 ms": values.p95_ms})
    for cut in values.values:
        rows = survivors(values, cut, budget_ms, margin)
        table[f"{values.metric}@{cut}"] = [
            f"{mean:.3f} {state}" for mean, state in zip(rows["mean"], rows["state"], strict=True)
        ]
    return table


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the page that the script brings to life. kind: plan or choose. fallback: what stands there without the script."""

    kind: str
    label: str
    fallback: str

    def _repr_html_(self) -> str:
        return (
            f'<section class="le-own le-plan" data-plan="{escape(self.kind)}" aria-label="{escape(self.label)}">\n'
            f'<div class="le-plan-live"></div>\n{self.fallback}\n</section>'
        )

    def __repr__(self) -> str:
        return f"[page with sliders] {self.label}"


@dataclass(frozen=True, slots=True)
class Embedded:
    """Data of the page, as JSON that no browser shows. `<` is written as an escape, so that no name can end the element."""

    payload: dict

    def _repr_html_(self) -> str:
        text = json.dumps(self.payload, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        return f'<div class="le-own" hidden><script type="application/json" class="le-plan-data">{text}</script></div>'

    def __repr__(self) -> str:
        return f"[data of the page] {len(self.payload['systems'])} systems"


def answer(values: Values, n: int, sd: float, budget_ms: float, margin: float, design: float | None = None) -> str:
    """What the page says before anybody moves a slider."""
    start = f"With {n} questions and a spread of {sd:.3f} the smallest true difference that shows is {minimum_effect(n, sd):.3f}"
    told = f"{start}; half of that would need {stats.questions_needed(sd, minimum_effect(n, sd) / 2):,} questions."
    if design is not None:
        least, wide = minimum_effect(n, sd), clusters.widened(sd, design)
        told += f" Counting that questions share documents (design effect {design:.2f}), the first is {minimum_effect(n, wide):.3f}, and "
        told += f"{stats.questions_needed(wide, least / 2):,} questions would be needed."
    if not values.systems:
        return f"{told} No system was timed, so there is none to choose."
    cut = list(values.values)[-1]
    rows = survivors(values, cut, budget_ms, margin)
    left = int(rows["state"].isin([BEST, SURVIVES]).sum())
    if not left:
        return f"{told} No system within {budget_ms:g} ms is shown to be as good as the best within {margin:g}."
    kept = f"{left} of {len(rows)} systems survive by {values.metric}@{cut}; the fastest is {choice(rows)}"
    return f"{told} Within {budget_ms:g} ms and a margin of {margin:g}, {kept}."
