"""Which system to use: the cheapest that is as good as the best within a margin and a latency budget, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from localeval import equivalence, stats
from localeval.ranking import Panel

STATUSES = {
    "recommended": "a system qualifies",
    "none qualifies": "every system within the budget is shown to be worse by more than the margin, or none keeps the budget",
    "cannot be decided": "too few questions to show that a system within the budget is as good, or worse, or no latency was measured",
}


@dataclass(frozen=True, slots=True)
class Recommendation:
    """status: one of STATUSES. system: empty unless recommended. sentence: why. table: a row a system that was considered."""

    status: str
    system: str
    sentence: str
    table: pd.DataFrame


CONSIDERED = (
    *("system", "mean", "p95_ms", "p95_high", "index_seconds", "in_budget", "delta", "low", "high"),
    *("p_as_good", "needed", "verdict"),
)


def prices(latency: pd.DataFrame, runs: pd.DataFrame | None = None) -> pd.DataFrame:
    """P95 of a warm question in milliseconds, with the upper end of its interval, and seconds to index, one row a system.

    latency: `latency.csv`; runs: `runs.csv`, which may say how long an index took. Of a system that several notebooks
    measured the last counts: the reranking notebook timed it in one run with the systems that build on it.
    """
    total = latency[latency["phase"] == "total"].drop_duplicates("system", keep="last")
    total = total.set_index("system")[["p95_ms", "p95_high"]].sort_index()
    known = runs is not None and "index_seconds" in runs
    index = pd.Series(dtype=float) if not known else runs.groupby("system")["index_seconds"].max()
    return total.assign(index_seconds=index.reindex(total.index)).reset_index()


def recommend(
    board: Panel,
    price: pd.DataFrame,
    *,
    margin: float,
    budget_ms: float = 0.0,
    seed: int = stats.SEED,
    n_resamples: int = stats.N_RESAMPLES,
) -> Recommendation:
    """The cheapest system within the budget that is shown to be as good as the best of all, within the margin.

    price: of `prices`. budget_ms: for the P95 of a warm question; 0: none. Cheapest: lowest P95 (to a tenth of a millisecond),
    then seconds to index, then the better mean. Claims of all systems within the budget are one family, corrected by Holm. The
    best is the best mean seen, which flatters it: that makes it harder to be found as good, not easier.
    """
    rows = _considered(board, price, margin, budget_ms, seed, n_resamples)
    if not len(rows):
        return Recommendation("cannot be decided", "", "No latency was measured for any of these systems.", rows)
    inside = rows[rows["in_budget"]]
    if inside.empty:
        return Recommendation("none qualifies", "", _too_slow(rows, budget_ms), rows)
    good = inside[inside["verdict"].isin(["best", "equivalent", "as good", "same values"])]
    if len(good):
        chosen = good.iloc[_cheapest(good, board.direction)]
        return Recommendation("recommended", chosen["system"], _why(board, chosen, inside, margin, budget_ms), rows)
    if (inside["verdict"] == "worse").all():
        said = f"Every system within {_budget(budget_ms)} is shown to be worse than {board.systems[board.best]} by more than {margin:g}."
        return Recommendation("none qualifies", "", said, rows)
    return Recommendation("cannot be decided", "", _undecided(board, inside, margin, budget_ms), rows)


def _considered(
    board: Panel, price: pd.DataFrame, margin: float, budget_ms: float, seed: int, n_resamples: int
) -> pd.DataFrame:
    """Systems with a latency as rows CONSIDERED, those within the budget with their claim against the best, in order of price."""
    means = pd.DataFrame({"system": board.systems, "mean": board.means})
    rows = means.merge(price, on="system").dropna(subset=["p95_ms"])
    rows["in_budget"] = (rows["p95_ms"] <= budget_ms) if budget_ms else True
    best, columns = board.systems[board.best], dict(zip(board.systems, board.values.T, strict=True))
    tried = [name for name in rows.loc[rows["in_budget"], "system"] if name != best]
    lower = board.direction < 0
    made = [
        equivalence.claim(
            columns[name] - columns[best], margin, lower_is_better=lower, seed=seed, n_resamples=n_resamples
        )
        for name in tried
    ]
    found = [_claimed(name, one) for name, one in zip(tried, equivalence.corrected(made), strict=True)]
    found.append({"system": best, "verdict": "best"})
    claims = pd.DataFrame(found).reindex(columns=["system", *CONSIDERED[6:]])
    rows = rows.merge(claims, on="system", how="left")
    rows["verdict"] = rows["verdict"].fillna("over the budget")
    return rows.sort_values(["p95_ms", "system"], ignore_index=True).reindex(columns=list(CONSIDERED))


def _claimed(name: str, one: equivalence.Claim) -> dict:
    columns = ("delta", "low", "high", "p_as_good", "needed", "verdict")
    return {"system": name} | {column: getattr(one, column) for column in columns}


def _cheapest(rows: pd.DataFrame, direction: int) -> int:
    """Position of the row to take: P95 to a tenth of a millisecond, seconds to index, the better mean."""
    keys = (-direction * rows["mean"], rows["index_seconds"].fillna(0), rows["p95_ms"].round(1))
    return int(np.lexsort([key.to_numpy(dtype=float) for key in keys])[0])


def _budget(budget_ms: float) -> str:
    return f"the budget of {budget_ms:g} ms" if budget_ms else "reach"


def _too_slow(rows: pd.DataFrame, budget_ms: float) -> str:
    fastest = rows.iloc[0]
    return f"No system keeps {_budget(budget_ms)}: the fastest, {fastest['system']}, has a P95 of {fastest['p95_ms']:.1f} ms."


def _why(board: Panel, row: pd.Series, inside: pd.DataFrame, margin: float, budget_ms: float) -> str:
    """Why this one: what it is as good as, what it costs, and what cheaper ones lack."""
    said = f"{row['system']}: {row['mean']:.3f} {board.metric} at a P95 of {row['p95_ms']:.1f} ms"
    if row["verdict"] == "best":
        said += f", the best of {len(board.systems)} systems"
    elif row["verdict"] == "same values":
        said += f", the same on every question as the best, {board.systems[board.best]}"
    else:
        said += f", shown to be no more than {margin:g} worse than {board.systems[board.best]}, which has {board.means[board.best]:.3f}"
        said += f" (difference {row['delta']:+.3f}, corrected p {_p(row['p_as_good'])})"
    cheaper = inside[inside["p95_ms"].round(1) < round(row["p95_ms"], 1)]
    worse, rest = (
        int((cheaper["verdict"] == "worse").sum()),
        cheaper[cheaper["verdict"].isin(["not shown", "tests disagree", "no variation"])],
    )
    if len(cheaper):
        said += f". Of {len(cheaper)} cheaper systems {worse} are shown to be worse by more than {margin:g}"
        said += f", and for {len(rest)} these questions cannot decide"
    over, said = budget_ms and row["p95_high"] > budget_ms, said.replace("difference -", "difference −")
    return said + (". The interval of its P95 reaches over the budget." if over else ".")


def _undecided(board: Panel, inside: pd.DataFrame, margin: float, budget_ms: float) -> str:
    """That these questions cannot decide, and how many would."""
    closest = inside.loc[(board.direction * inside["mean"]).idxmax()]
    said = f"With {len(board.query_ids)} questions no system within {_budget(budget_ms)} is shown to be as good as "
    said += f"{board.systems[board.best]} within {margin:g}"
    if pd.isna(closest["needed"]):
        return f"{said}."
    return f"{said}. The closest, {closest['system']}, would take about {int(closest['needed']):,} questions if it were just as good."


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def cheapest_tied(rows: pd.DataFrame) -> tuple[str, list[str]]:
    """The rule of turkish-rag-eval, kept beside ours: of all systems that are tied with the best mean, the cheapest.

    rows: system, mean, low, high, p95_ms, index_seconds; low, high: 95 % interval of best minus system, not defined for the best.
    Tied: the interval holds 0. Cheapest: lowest P95 to a whole millisecond, then seconds to index (missing: 0), then the better
    mean. Returns the pick and the tied. A tie is no proof of equality: with few questions everything is tied.
    """
    best = rows.loc[rows["mean"].idxmax(), "system"]
    tied = rows[(rows["system"] == best) | ((rows["low"] <= 0) & (rows["high"] >= 0))]
    keys = (-tied["mean"], tied["index_seconds"].fillna(0), tied["p95_ms"].round().fillna(np.inf))
    order = np.lexsort([key.to_numpy(dtype=float) for key in keys])
    return str(tied["system"].iloc[order[0]]), tied["system"].tolist()


def against_best(
    board: Panel, price: pd.DataFrame, *, seed: int = stats.SEED, n_resamples: int = stats.N_RESAMPLES
) -> pd.DataFrame:
    """What `cheapest_tied` reads: every priced system with the interval of best minus system."""
    best = board.values[:, board.best]
    tails = stats.bounds(stats.resampled_means(board.direction * (best[:, None] - board.values), seed, n_resamples))
    rows = pd.DataFrame(
        {"system": board.systems, "mean": board.direction * board.means, "low": tails[:, 0], "high": tails[:, 1]}
    )
    return rows.merge(price, on="system").dropna(subset=["p95_ms"])
