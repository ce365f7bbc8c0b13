"""What looking deeper buys: gain, headroom, rescues and demotions for each depth of reranking, and whether a depth chosen per
question pays.

Everything works on values per question and depth, whatever reranker made them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pandas as pd

from localeval import metrics, stats
from localeval.records import BadInput, Comparison, Graded, near


def oracle(graded: Graded, depth: int) -> Graded:
    """The ranking with what counts among its first `depth` hits moved to the top, best first: the most a reranker could do.

    Built from what is stored of a ranking, where a piece of evidence is named at the first hit that covers it: with several
    pieces and hits that share them a still better order may exist.
    """

    def moved(entries, worth):
        inside = sorted((entry for entry in entries if entry[0] <= depth), key=lambda entry: (-worth(entry), entry[0]))
        return (*((place, entry[1]) for place, entry in enumerate(inside, 1)), *(e for e in entries if e[0] > depth))

    covers = moved(graded.covers, lambda entry: sum(graded.evidence[index] for index in entry[1]))
    return replace(graded, gains=moved(graded.gains, lambda entry: entry[1]), covers=covers)


@dataclass(frozen=True, slots=True)
class Line:
    """One base system, its reranker, and the names of the systems by depth; depth 0 is the base alone."""

    base: str
    reranker: str
    systems: dict[int, str]


def lines(runs: pd.DataFrame, rule: str, metric: str, scores: pd.DataFrame) -> list[Line]:
    """Every base and reranker of a table of runs that have hits, in order. None, or no score of the metric under the rule, is bad input."""
    ran, found = runs[runs["status"] == "ok"], []
    for _, group in ran.groupby(["chunker", "retriever", "model"], sort=False, dropna=False):
        base = group.loc[group["reranker"].isin(["", None]) | group["reranker"].isna(), "system"].tolist()
        for name in (name for name in dict.fromkeys(group["reranker"].dropna()) if name and base):
            own = group[group["reranker"] == name].sort_values("rerank_depth")
            depths = dict(zip(own["rerank_depth"].astype(int), own["system"], strict=True))
            found.append(Line(base[0], name, {0: base[0]} | depths))
    if not found:
        raise BadInput(
            "no reranked system ran beside its first stage, so there is no depth to speak of; see the runs of 40_rerank"
        )
    if scores[(scores["rule"] == rule) & (scores["metric"] == metric)].empty:
        raise BadInput(
            f"no scores of {metric} under {rule} in 40_rerank{near(metric, scores['metric'])}; name a rule and a metric it computes"
        )
    return found


def line_table(lines: Sequence[Line], scores: pd.DataFrame, rule: str, metric: str) -> pd.DataFrame:
    """One row a line: first stage, reranker, its depths, and the questions with a value."""
    rows = []
    for line in lines:
        deep = ", ".join(str(depth) for depth in line.systems if depth)
        rows.append((line.base, line.reranker, deep, len(values(line, scores, rule, metric))))
    return pd.DataFrame(rows, columns=["first stage", "reranker", "depths", "questions"])


def component_pairs(line: Line, runs: pd.DataFrame) -> list[tuple[str, str]]:
    """Pairs of a lexical and a dense first stage of the line's chunker: what they agree on is a signal."""
    own = runs[
        (runs["status"] == "ok") & (runs["chunker"] == line.base.partition("/")[0]) & (runs["rerank_depth"] == 0)
    ]
    lexical, dense = (own.loc[own["retriever"].isin(names), "system"] for names in (("bm25",), ("dense",)))
    return list(product(lexical, dense))


def over_budget(timings: pd.DataFrame, budget_ms: float) -> pd.DataFrame:
    """Share of the warm samples of each system above a budget, with its Wilson interval.

    Columns: system, samples, over, share, low, high.
    """
    if not budget_ms > 0:
        raise BadInput(f"budget_ms={budget_ms}: give the milliseconds that an answer may take")
    rows = []
    for system, part in timings[timings["phase"] == "total"].groupby("system", sort=False):
        over, n = int((part["seconds"] * 1000 > budget_ms).sum()), len(part)
        rows.append((system, n, over, over / n, *stats.wilson(over, n)))
    return pd.DataFrame(rows, columns=["system", "samples", "over", "share", "low", "high"])


def values(line: Line, scores: pd.DataFrame, rule: str, metric: str) -> pd.DataFrame:
    """Value of every question (rows, by id) at every depth (columns). scores: of one origin."""
    part = scores[(scores["rule"] == rule) & (scores["metric"] == metric)]
    table = part.pivot(index="query_id", columns="system", values="value").sort_index()
    return pd.DataFrame({depth: table[name] for depth, name in line.systems.items()})


def ledger(
    line: Line,
    scores: pd.DataFrame,
    graded: dict,
    rule: str,
    metric: str,
    mean_ms: pd.Series,
    *,
    seed: int = stats.SEED,
) -> pd.DataFrame:
    """One row a depth: what it gains over the base and what it costs. scores: of one origin; mean_ms: system -> warm mean.

    headroom: share of what the best order of the candidates would gain (`oracle`) that was gained. rescued, demoted: questions whose
    value rose and fell. per_100_ms: gain for each 100 ms more than the base takes; NaN where a depth takes no more.
    """
    table, rows = values(line, scores, rule, metric), []
    base, names = table[0], set(table.index)
    best = {depth: _oracle_mean(graded[line.base, rule], depth, metric, names) for depth in line.systems}
    for depth, system in line.systems.items():
        if not depth:
            continue
        got = stats.compare(
            base.to_dict(), table[depth].to_dict(), metric=metric, rule=rule, names=(line.base, system), seed=seed
        )
        room, more = best[depth] - base.mean(), mean_ms[system] - mean_ms[line.base]
        rows.append(
            {
                "reranker": line.reranker, "depth": depth, "mean": table[depth].mean(), "gain": got.delta, "low": got.low,
                "high": got.high, "n": got.n, "oracle": best[depth], "headroom": got.delta / room if room > 0 else np.nan,
                "rescued": int((table[depth] > base).sum()), "demoted": int((table[depth] < base).sum()), "more_ms": more,
                "per_100_ms": 100 * got.delta / more if more > 0 else np.nan,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def ledgers(lines: Sequence[Line], scores, graded, rule, metric, mean_ms, *, seed: int = stats.SEED) -> pd.DataFrame:
    """The `ledger` of every line, one below the other, with the first stage as a column."""
    parts = [ledger(line, scores, graded, rule, metric, mean_ms, seed=seed).assign(base=line.base) for line in lines]
    return pd.concat(parts, ignore_index=True)


def _oracle_mean(graded: Sequence[Graded], depth: int, metric: str, wanted: set[str]) -> float:
    return float(np.mean([metrics.measure(oracle(one, depth), metric) for one in graded if one.query_id in wanted]))


def moved(line: Line, scores: pd.DataFrame, rule: str, metric: str, depth: int) -> pd.DataFrame:
    """The questions that reranking to one depth rescued or demoted, the largest change first. Columns: query_id, before, after, change."""
    table = values(line, scores, rule, metric)
    frame = pd.DataFrame({"before": table[0], "after": table[depth]})
    frame["change"] = frame["after"] - frame["before"]
    frame = frame[frame["change"] != 0]
    order = frame["change"].abs().sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index()


THIN = 10  # questions; a mean of fewer says little, whatever its interval
BREAKDOWN = ["by", "group", "n", "before", "after", "gain", "low", "high", "per_100_ms", "thin"]


def breakdown(
    line: Line, scores: pd.DataFrame, groupings: dict[str, dict[str, str]], rule: str, metric: str, depth: int, mean_ms: pd.Series,
    *, seed: int = stats.SEED,
) -> pd.DataFrame:  # fmt: skip
    """What reranking to one depth gains within groups of questions, a row a group. Columns: BREAKDOWN.

    groupings: what questions are grouped by -> query id -> group; a question without a group is in none. gain: mean paired difference
    to the first stage with its interval; thin: fewer than THIN questions. Groups are different questions: a difference between two
    of them has no cause in what they are grouped by.
    """
    table, rows = values(line, scores, rule, metric), []
    more = mean_ms[line.systems[depth]] - mean_ms[line.base]
    for by, group_of in groupings.items():
        for group, part in table.groupby(table.index.map(group_of), sort=True):
            got = stats.compare(
                part[0].to_dict(),
                part[depth].to_dict(),
                metric=metric,
                rule=rule,
                names=(line.base, line.systems[depth]),
                seed=seed,
            )
            price = 100 * got.delta / more if more > 0 else np.nan
            spread = (got.delta, got.low, got.high, price, got.n < THIN)
            rows.append((by, group, got.n, part[0].mean(), part[depth].mean(), *spread))
    return pd.DataFrame(rows, columns=BREAKDOWN)


def groupings(queries, classes: dict[str, str], origin: str) -> dict[str, dict[str, str]]:
    """What `breakdown` groups by: class of page and type of the questions of one origin, and the origin of all.

    classes: query id -> class of the pages its evidence stands on.
    """
    own = [query for query in queries if query.answerable and query.origin == origin]
    return {
        "class of page": {query.query_id: classes[query.query_id] for query in own if query.query_id in classes},
        "type": {query.query_id: query.category or "(none)" for query in own},
        "origin": {query.query_id: query.origin for query in queries if query.answerable},
    }


def turning(line: Line, scores: pd.DataFrame, rule: str, metric: str, *, seed: int = stats.SEED) -> Comparison | None:
    """The depth with the highest mean (tie: the shallower) as baseline against the deepest one; None where the deepest is the best."""
    table = values(line, scores, rule, metric)
    means = table.mean().round(12)
    best, deepest = min(means.index, key=lambda depth: (-means[depth], depth)), max(table.columns)
    if best == deepest:
        return None
    sides = table[best].to_dict(), table[deepest].to_dict()
    return stats.compare(*sides, metric=metric, rule=rule, names=(str(best), str(deepest)), seed=seed)


# A depth for each question


@dataclass(frozen=True, slots=True)
class Policy:
    """Stop at depth `shallow` where the signal is at least `threshold`, else go on to `deep`."""

    signal: str
    threshold: float
    shallow: int
    deep: int

    def depths(self, signals: pd.DataFrame) -> np.ndarray:
        """The depth of every question; a missing signal is no certainty."""
        return np.where(signals[self.signal] >= self.threshold, self.shallow, self.deep)


def policies(signals: pd.DataFrame, depths: Sequence[int], known_at: dict[str, int]) -> list[Policy]:
    """Every signal, pair of depths and ninth of the signal's values. known_at: the depth a signal is first known at (0 if not
    named): a score of the reranker is known only once it has looked that deep."""
    made = []
    for signal in signals:
        cuts = (
            sorted(set(np.nanquantile(signals[signal], np.arange(1, 10) / 10).tolist()))
            if signals[signal].notna().any()
            else []
        )
        for shallow, deep in combinations(sorted(depths), 2):
            if shallow == known_at.get(signal, shallow):
                made += [Policy(signal, cut, shallow, deep) for cut in cuts]
    return made


def _at(table: pd.DataFrame, depths: np.ndarray) -> np.ndarray:
    columns = {depth: place for place, depth in enumerate(table.columns)}
    return table.to_numpy()[np.arange(len(table)), [columns[depth] for depth in depths]]


def choose(
    table: pd.DataFrame, signals: pd.DataFrame, cost: pd.Series, budget: float, tried: Sequence[Policy]
) -> Policy | None:
    """The policy with the highest mean value whose mean cost is within the budget (tie: the cheaper, then the first); None if none is.

    table, signals: of the questions to choose on. cost: milliseconds by depth.
    """
    best, chosen = (-np.inf, np.inf), None
    for policy in tried:
        depths = policy.depths(signals)
        price = float(cost.loc[depths].mean())
        worth = (round(float(_at(table, depths).mean()), 12), -price)
        if price <= budget and worth > (best[0], -best[1]):
            best, chosen = (worth[0], price), policy
    return chosen


ADAPTIVE = (
    "budget_ms", "fixed", "adaptive", "delta", "low", "high", "n", "fixed_ms", "adaptive_ms", "candidates", "policies"
)  # fmt: skip


def adaptive(
    table: pd.DataFrame, signals: pd.DataFrame, cost: pd.Series, known_at: dict[str, int], *, seed: int = stats.SEED
) -> pd.DataFrame:
    """A depth per question against the best fixed depth of at most the same mean cost, one row for each depth's cost that
    changes either side.

    Questions are divided in two at random; a policy is chosen on each half and used on the other, so that no question is judged
    by a policy that saw it. The fixed depth is the best one within the budget on the same half. Columns: budget_ms, fixed,
    adaptive, delta, low, high, n, fixed_ms, adaptive_ms, candidates (mean), policies (in words).
    """
    if len(table) < 4:  # two questions to choose on, and two to judge
        return pd.DataFrame(columns=list(ADAPTIVE))
    order = np.random.default_rng(seed).permutation(len(table))
    halves = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    tried, rows = policies(signals, list(table.columns), known_at), []
    for budget in [float(cost[depth]) for depth in table.columns if depth]:
        fixed, free, words = np.zeros(len(table), int), np.zeros(len(table), int), []
        for seen, held in (halves, halves[::-1]):
            within = [depth for depth in table.columns if cost[depth] <= budget]
            fixed[held] = max(within, key=lambda depth: (round(float(table[depth].iloc[seen].mean()), 12), -depth))
            policy = choose(table.iloc[seen], signals.iloc[seen], cost, budget, tried)
            free[held] = policy.depths(signals.iloc[held]) if policy else fixed[held]
            words.append(
                f"{policy.signal.replace('_', ' ')}: {policy.shallow} or {policy.deep}"
                if policy
                else "none within the budget"
            )
        sides = [dict(zip(table.index, _at(table, depths), strict=True)) for depths in (fixed, free)]
        got = stats.compare(*sides, metric="", rule="", names=("fixed", "adaptive"), seed=seed)
        rows.append(
            {
                "budget_ms": budget, "fixed": np.mean(list(sides[0].values())), "adaptive": np.mean(list(sides[1].values())),
                "delta": got.delta, "low": got.low, "high": got.high, "n": got.n, "fixed_ms": cost.loc[fixed].mean(),
                "adaptive_ms": cost.loc[free].mean(), "candidates": free.mean(), "policies": "; ".join(dict.fromkeys(words)),
            }
        )  # fmt: skip
    same = [
        "fixed",
        "adaptive",
        "delta",
        "low",
        "high",
        "fixed_ms",
        "adaptive_ms",
    ]  # a larger budget that changed nothing
    return pd.DataFrame(rows).drop_duplicates(same, ignore_index=True)


def risk_bound(losses: Sequence[float]) -> float:
    """What the expected loss of one more question from the same source is at most: (sum of losses + 1) / (n + 1), for losses in [0, 1].

    The condition of conformal risk control (Angelopoulos et al. 2022, eq. 4 with B = 1); it holds for a threshold that was
    chosen by it, or before the losses were seen. 1 without losses.
    """
    losses = np.asarray(losses, dtype=float)
    if len(losses) and not ((losses >= 0) & (losses <= 1)).all():
        raise ValueError("losses must lie between 0 and 1")
    return float((losses.sum() + 1) / (len(losses) + 1))


def certified(
    table: pd.DataFrame, signals: pd.DataFrame, cost: pd.Series, policy_of: Sequence[Policy], allowed: float
) -> pd.DataFrame:
    """For each signal the cheapest stop that loses at most `allowed` against the deepest, by conformal risk control.

    The loss of a question is what its value falls short of that at the deepest depth. Thresholds of one signal and pair of depths are
    tried from the strictest down and end at the first that is not within the bound, so that the bound holds for the one chosen.
    The cheapest fixed depth within the bound has a row too, and stops that cost as much as it does have none.

    Columns: signal, shallow, deep, threshold, loss, bound, skipped (share of candidates), ms; no row where no threshold qualifies.
    """
    if not 0 <= allowed <= 1:
        raise BadInput(f"allowed_loss={allowed}: give a number between 0 and 1")
    deepest, rows = max(table.columns), []
    groups: dict[tuple, list[Policy]] = {}
    for policy in policy_of:
        if policy.deep == deepest:
            groups.setdefault((policy.signal, policy.shallow), []).append(policy)
    fixed = [
        ("none: a fixed depth", depth, depth, np.nan, lost.mean(), risk_bound(lost), 1 - depth / deepest, cost[depth])
        for depth in table.columns
        if risk_bound(lost := np.maximum(0.0, (table[deepest] - table[depth]).to_numpy())) <= allowed
    ]
    for (signal, shallow), group in groups.items():
        kept = None
        for policy in sorted(group, key=lambda one: -one.threshold):
            depths = policy.depths(signals)
            losses = np.maximum(0.0, table[deepest].to_numpy() - _at(table, depths))
            if risk_bound(losses) > allowed:
                break
            skipped = 1 - depths.mean() / deepest
            kept = (
                signal,
                shallow,
                deepest,
                policy.threshold,
                losses.mean(),
                risk_bound(losses),
                skipped,
                cost.loc[depths].mean(),
            )
        rows += [kept] if kept else []
    columns = ["signal", "shallow", "deep", "threshold", "loss", "bound", "skipped", "ms"]
    cheapest = min(fixed, key=lambda row: row[-1], default=None)
    rows = [row for row in rows if not cheapest or row[-1] < cheapest[-1]] + ([cheapest] if cheapest else [])
    return pd.DataFrame(rows, columns=columns).sort_values("ms", kind="stable", ignore_index=True)


def signals(
    line: Line, certainty: pd.DataFrame, hits: dict, pairs: Sequence[tuple[str, str]] = ()
) -> tuple[pd.DataFrame, dict[str, int]]:
    """What is known of a question before (or while) it is reranked, higher meaning more certain; and the depth each is known at.

    certainty: the table of `sweep.signals`, of which the base's own signals are taken. overlap: share of the first ten hits that
    two systems have in common, for each pair that has hits. score@c: the reranker's own best score once it has looked c deep.
    """
    own = certainty[certainty["system"] == line.base]
    table = own.pivot(index="query_id", columns="signal", values="value").sort_index().rename_axis(columns=None)
    for one, other in pairs:
        if {one, other} <= {system for system, _ in hits}:
            name = f"overlap {one.partition('/')[2]} {other.partition('/')[2]}"
            table[name] = [_shared(hits.get((one, query), ()), hits.get((other, query), ())) for query in table.index]
    known_at = {}
    for depth, system in sorted(line.systems.items())[1:-1]:
        known_at[f"score@{depth}"] = depth
        found = [hits.get((system, query), ()) for query in table.index]
        table[f"score@{depth}"] = [some[0].score if some else np.nan for some in found]
    return table, known_at


def _shared(one, other, cut: int = 10) -> float:
    first, second = ({hit.span for hit in some[:cut]} for some in (one, other))
    return len(first & second) / cut
