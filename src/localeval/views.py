"""Tidy tables, rearranged for reading: one row a system, figures with their intervals, milliseconds by stage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import pandas as pd

from localeval import clusters, figures, recommend, stats
from localeval.figures import DASH, interval, minus
from localeval.metrics import COUNTS
from localeval.records import Graded, ScoringRule
from localeval.report import publish, table


def wide(summary: pd.DataFrame, rule: str, metrics: Sequence[str]) -> pd.DataFrame:
    """One row a system under one rule: each metric as "mean [low, high]", then n and the unreachable among them."""
    part = summary[(summary["rule"] == rule) & summary["metric"].isin(metrics)]
    flat = part["note"].str.startswith("no variation") & part["low"].isna()
    text = part.assign(
        text=interval(part["mean"], part["low"], part["high"]) + flat.map({True: " (no variation)", False: ""})
    )
    order = list(dict.fromkeys(part["system"]))
    cells = text.pivot(index="system", columns="metric", values="text").reindex(index=order, columns=list(metrics))
    counts = part.groupby("system")[["n", "unreachable"]].max().reindex(order)
    return cells.join(counts).rename_axis(columns=None).reset_index()


def wide_rules(summary: pd.DataFrame, rules: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """`wide` under several rules, one below the other, the rule as second column."""
    parts = [wide(summary, rule, metrics).assign(rule=rule) for rule in rules]
    whole = pd.concat(parts, ignore_index=True) if parts else wide(summary.head(0), "", metrics).assign(rule="")
    return whole[["system", "rule", *whole.columns.drop(["system", "rule"])]]


def rule_caption(rule: str, origin: str) -> str:
    """What a leaderboard's caption must say: rule, interval, denominator. origin: empty where the table has it as a column."""
    return f"Rule {rule}: {_counts(rule)}. {_DENOMINATOR.format(origin and f'{origin} ')}"


def rules_caption(rules: Sequence[str], origin: str) -> str:
    """As `rule_caption`, for a table of several rules."""
    return (
        "The same hits under other rules. "
        + " ".join(f"{rule}: {_counts(rule)}." for rule in rules)
        + f" {_DENOMINATOR.format(origin and f'{origin} ')}"
    )


def _counts(rule: str) -> str:
    parsed = ScoringRule.parse(rule)
    return f"a ranked {parsed.unit} counts when it {COUNTS[parsed.match]}"


_DENOMINATOR = (
    "Means over n answerable {}questions with their intervals; unreachable questions are in n, with value zero."
)


def costs(runs: pd.DataFrame) -> pd.DataFrame:
    """Chunks, share of them the model cuts, and seconds to embed them all, per system that ran."""
    columns = [column for column in ("chunks", "truncated_share", "vector_seconds") if column in runs.columns]
    ran = runs[runs["status"].isin(["ok", "empty"])]
    names = {"truncated_share": "truncated", "vector_seconds": "embedding s"}
    return ran[["system", *columns]].astype({"chunks": "Int64"}).rename(columns=names)


def not_run(runs: pd.DataFrame) -> pd.DataFrame:
    """Systems without a measurement, their state and what it would take; one row for each state and reason."""
    rest = runs[runs["status"] != "ok"]
    return rest.groupby(["status", "reason"], as_index=False, sort=False).agg(systems=("system", ", ".join))[
        ["systems", "status", "reason"]
    ]


STAGES = ("encode", "dense", "lexical", "fuse", "rerank")
MS = {f"{name} ms": ".1f" for name in STAGES} | dict.fromkeys(("p50_ms", "p99_ms", "max_ms"), ".1f")


def stages(latency: pd.DataFrame) -> pd.DataFrame:
    """Mean milliseconds of each stage beside the distribution of the whole, one row a system; mean and P95 with their intervals."""
    order = list(dict.fromkeys(latency["system"]))
    means = latency.pivot(index="system", columns="phase", values="mean_ms").reindex(index=order, columns=list(STAGES))
    total = latency[latency["phase"] == "total"].set_index("system").reindex(order)
    spread = total["fastest_repeat_ms"].map("{:.1f}".format) + " to " + total["slowest_repeat_ms"].map("{:.1f}".format)
    whole = total[["p50_ms", "p99_ms", "max_ms"]].assign(
        mean_ms=interval(total["mean_ms"], total["mean_low"], total["mean_high"], ".1f"),
        p95_ms=interval(total["p95_ms"], total["p95_low"], total["p95_high"], ".1f"),
        repeats_ms=spread,
        samples=total["n"].map(lambda n: f"{n:,d}" + (" (indicative only)" if n < stats.FEW_SAMPLES else "")),
    )
    means.columns = [f"{name} ms" for name in means.columns]
    columns = ["mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms", "repeats_ms", "samples"]
    return means.join(whole[columns]).rename_axis(columns=None).reset_index()


def cold_table(cold: pd.DataFrame) -> pd.DataFrame:
    """Median seconds of each stage over fresh processes, the range of the way to the first answer, number of processes."""
    order = list(dict.fromkeys(cold["system"]))
    last = cold.groupby("system", sort=False)[["status", "reason"]].last()
    states = last["status"] + (": " + last["reason"]).where(last["reason"] != "", "")
    cold = cold[cold["status"] == "ok"]
    if cold.empty:
        return states.rename("state").reset_index()
    parts = cold.pivot_table(index="system", columns="stage", values="seconds", aggfunc="median").reindex(order)
    known = [stage for stage in ("import", "load", "index", "first_query", "second_query") if stage in parts.columns]
    whole = cold[cold["stage"] != "second_query"].groupby(["system", "repeat"])["seconds"].sum().groupby("system")
    ends = whole.min().map("{:.2f}".format) + " to " + whole.max().map("{:.2f}".format)
    parts = parts[known].rename(columns={stage: f"{stage.replace('_', ' ')} s" for stage in known})
    return (
        parts.assign(**{"first answer s": ends, "processes": whole.size(), "state": states})
        .rename_axis(columns=None)
        .reset_index()
    )


def depth_rows(summary: pd.DataFrame, totals: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Summary rows with rerank depth and latency, one line a base and reranker; each begins with its base at depth 0."""
    facts = runs[["system", "chunker", "retriever", "model", "reranker", "rerank_depth"]]
    rows = summary.merge(totals.drop(columns=["n"]), on="system").merge(facts, on="system")
    rows, parts = rows.rename(columns={"rerank_depth": "depth"}), []
    for _, group in rows.groupby(["chunker", "retriever", "model"], sort=False):
        base, names = group[group["depth"] == 0], [name for name in dict.fromkeys(group["reranker"]) if name]
        for name in names or [""]:
            line = pd.concat([base, group[group["reranker"] == name]]) if name else base
            parts.append(line.assign(system=f"{base['system'].iloc[0]}{f' + {name}' if name else ''}"))
    return pd.concat(parts, ignore_index=True)


def stratum(frame: pd.DataFrame, origin: str) -> pd.DataFrame:
    """Rows of one origin of questions: all that a figure or a table may pool."""
    return frame[frame["origin"] == origin].reset_index(drop=True)


def by_stratum(summary: pd.DataFrame, rule: str, metric: str) -> pd.DataFrame:
    """One metric of every system for each origin of questions, with interval and n; strata stand side by side, never pooled."""
    part = summary[(summary["rule"] == rule) & (summary["metric"] == metric)]
    text = interval(part["mean"], part["low"], part["high"]) + part["low"].isna().map(
        {True: " (no variation)", False: ""}
    )
    text += part["n"].map(" (n = {})".format)
    cells = part.assign(text=text).pivot(index="system", columns="origin", values="text")
    return cells.reindex(dict.fromkeys(part["system"])).rename_axis(columns=None).reset_index()


def as_one_table(summary: pd.DataFrame, totals: pd.DataFrame, rule: str, metrics: Sequence[str]) -> pd.DataFrame:
    """What a study of a single table prints, with what such tables leave out: every system for each origin of questions under
    one rule, means with intervals, unreachable questions counted, warm mean and P95 in milliseconds beside them."""
    parts = [
        wide(stratum(summary, origin), rule, metrics).assign(questions=origin)
        for origin in dict.fromkeys(summary["origin"])
    ]
    times = totals.set_index("system")[["mean_ms", "p95_ms"]]
    whole = pd.concat(parts, ignore_index=True).join(times, on="system")
    return whole[["system", "questions", *whole.columns.drop(["system", "questions"])]]


def depth_under_rules(
    summary: pd.DataFrame, totals: pd.DataFrame, runs: pd.DataFrame, base: str, metric: str, rules: Sequence[str]
) -> pd.DataFrame:
    """As `depth_rows` for one base, its first reranker and one metric: a line for every origin of questions under every rule."""
    parts, own = [], runs[runs["system"].map(lambda name: name.partition("+")[0] == base)]
    first = next((name for name in own.loc[own["system"].isin(summary["system"]), "reranker"] if name), "")
    own = own[own["reranker"].isin(["", first])]
    for origin, rule in list(product(dict.fromkeys(summary["origin"]), dict.fromkeys(rules)))[: len(figures.COLOURS)]:
        chosen = summary[(summary["origin"] == origin) & (summary["rule"] == rule) & (summary["metric"] == metric)]
        rows = depth_rows(chosen, totals, own)
        parts.append(rows.assign(system=f"{origin}, {rule}"))
    return pd.concat(parts, ignore_index=True)


def by_category(scores: pd.DataFrame, queries, metric: str, rule: str) -> pd.DataFrame:
    """Mean of one metric by category of question: a row a system, a column a category with its n."""
    categories = {query.query_id: query.category or "(none)" for query in queries}
    part = scores[(scores["metric"] == metric) & (scores["rule"] == rule)]
    part = part.assign(category=part["query_id"].map(categories))
    means = part.pivot_table(index="system", columns="category", values="value", sort=False)
    counts = part.groupby("category")["query_id"].nunique()
    means = means.reindex(index=dict.fromkeys(part["system"]), columns=dict.fromkeys(part["category"]))
    return means.rename(columns=lambda name: f"{name} (n = {counts[name]})").rename_axis(columns=None).reset_index()


def by_question(
    graded: dict[tuple[str, str], list[Graded]], queries, rule: str, systems: Sequence[str]
) -> pd.DataFrame:
    """Rank of the first hit that counts, a row an answerable question and a column a system; most missed questions first.

    In place of a rank stands "missed" where some unit could have counted and none of the hits kept does, else the state.
    """
    rows = {query.query_id: {"question": query.text} for query in queries if query.answerable}
    for system in systems:
        for one in (one for one in graded[system, rule] if one.query_id in rows):
            ranks = [rank for rank, gain in one.gains if gain > 0]
            rows[one.query_id][system] = str(ranks[0]) if ranks else "missed" if one.status == "scored" else one.status
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("query_id").reset_index()
    return frame.loc[
        frame.map(lambda cell: cell == "missed").sum(axis=1).sort_values(ascending=False, kind="stable").index
    ]


def priced(summary: pd.DataFrame, totals: pd.DataFrame) -> pd.DataFrame:
    """Quality beside latency, one row a system, with its chunker and its engine as columns; the random arm is left out."""
    rows = summary.merge(totals, on="system", suffixes=("", "_samples"))
    parts = rows["system"].str.partition("/")
    rows = rows.assign(chunker=parts[0], engine=parts[2])
    return rows[rows["engine"] != "random"]


def best_per_base(useful: pd.DataFrame) -> pd.DataFrame:
    """Of the rows of `abstention.abstention`, in their order, the first of each base system, whatever reranks it."""
    return useful[~useful["system"].str.partition("+")[0].duplicated()]


PAIR = "candidate − baseline"


def differences(
    comparisons: pd.DataFrame, columns: Sequence[str] = ("verdict", "p_value", "p_adjusted", "mde")
) -> pd.DataFrame:
    """Comparisons as rows to read: candidate − baseline, the verdict where it is among `columns`, the difference with its interval,
    n, the other columns, measure and questions. Designated ones are numbered.

    One that did not run says so, and why, in place of its verdict.
    """
    verdicts = ["verdict"] if "verdict" in columns else []
    order = [
        PAIR,
        *verdicts,
        "difference",
        "n",
        *(name for name in columns if name != "verdict"),
        "measure",
        "questions",
    ]
    rows = []
    for number, row in enumerate(comparisons.to_dict("records"), 1):
        words = f"not run: {row['reason']}" if row["verdict"] == "not_run" else row["verdict"]
        rows.append(
            {
                PAIR: (f"{number}. " if row.get("designated") is True else "")
                + f"{row['candidate']} − {row['baseline']}",
                "measure": f"{row['metric']}, {row['rule']}",
                "questions": row["origin"],
                "difference": interval(row["delta"], row["low"], row["high"], "+.3f"),
                "n": row["n"],
                "p_value": p_text(row["p_value"]),
                "p_adjusted": p_text(row["p_adjusted"]),
                "mde": row["mde"],
                "verdict": words,
            }
        )
    frame = pd.DataFrame(rows, columns=order)
    return frame.rename(columns={"p_value": "p", "p_adjusted": "p (Holm)", "mde": "MDE"})


def forest(comparisons: pd.DataFrame, *, caption: str, documents: pd.DataFrame | None = None):
    """A forest plot of the comparisons that ran; a sentence in an empty table where none did.

    documents: the same comparisons of `clusters.compare_designated`, whose intervals are drawn below.
    """
    rows = deltas(comparisons)
    if rows.empty:
        return table(rows, "No designated comparison has figures: none was named, or none ran.")
    if documents is not None and len(documents) == len(rows):
        rows = rows.assign(wide_low=documents["low"].to_numpy(), wide_high=documents["high"].to_numpy())
    return figures.paired_forest(rows, label="difference", caption=caption)


def p_text(p: float) -> str | None:
    """A p-value to read: three decimals, and never 0."""
    return None if pd.isna(p) else "< 0.001" if p < 0.001 else f"{p:.3f}"


def deltas(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Comparisons as rows of a forest plot; those that did not run have no row."""
    rows = [
        (
            f"{number}. {row['candidate']} − {row['baseline']}",
            f"{row['metric']}, {row['rule']}, {row['origin']}",
            *(row[name] for name in ("delta", "low", "high", "n")),
        )
        for number, row in enumerate(comparisons.to_dict("records"), 1)
        if row["n"] > 0
    ]
    return pd.DataFrame(rows, columns=["name", "about", "mean", "low", "high", "n"])


def present(wanted: Sequence[str], summary: pd.DataFrame) -> list[str]:
    """Systems to show, of those that have figures; all of them where none is wanted or none of the wanted ran."""
    have = list(dict.fromkeys(summary["system"]))
    return [name for name in wanted if name in have] or have


def abstention(useful: pd.DataFrame) -> pd.DataFrame:
    """The table of `abstention.abstention` with intervals in one cell each."""
    frame = useful[["system", "signal"]].copy()
    for name, title in (("aurc", "AURC"), ("augrc", "AUGRC"), ("auroc", "AUROC"), ("gained", "gained")):
        frame[title] = interval(useful[name], useful[f"{name}_low"], useful[f"{name}_high"])
    for name in ("aurc", "augrc"):
        ends = zip(useful[f"{name}_random"], useful[f"{name}_oracle"], strict=True)
        frame[f"{name.upper()} random, oracle"] = [f"{random:.2f}, {oracle:.2f}" for random, oracle in ends]
    return frame.assign(correct=useful["correct"], n=useful["n"], signal=frame["signal"].str.replace("_", " "))


def auroc(row: pd.Series) -> str:
    """AUROC with its interval for prose; in words where there is no unanswerable question, or no answerable one."""
    return "not defined" if pd.isna(row["auroc"]) else interval(row["auroc"], row["auroc_low"], row["auroc_high"])


def auroc_best(useful: pd.DataFrame) -> str:
    """The highest AUROC of `abstention.abstention` with its signal and system, for prose."""
    if useful["auroc"].isna().all():
        return "not defined"
    row = useful.loc[useful["auroc"].idxmax()]
    return f"{auroc(row)} for {row['signal'].replace('_', ' ')} of {row['system']}"


def slug(*parts: str) -> str:
    """A name for glued figures: `slug("section/bm25", "p@1")` is `section_bm25__p_1`."""
    return "__".join(re.sub(r"[^a-z0-9]+", "_", part.lower()).strip("_") for part in parts)


def span(low: float, high: float, spec: str = ".2f", undefined: str = "no variation") -> str:
    """ "0.52 to 0.85" for prose; in words where the bounds are not defined."""
    return undefined if pd.isna(low) or pd.isna(high) else minus(f"{low:{spec}} to {high:{spec}}")


def publish_quotes(summary: pd.DataFrame, quotes: Sequence[Sequence[str]], origin: str) -> None:
    """Glues mean and interval (as text) of every `[system, rule, metric]` that a findings page quotes.

    A fourth text names the origin of the questions where it is not `origin`, and ends the glued name. A system that has no
    figures in this run is left out: the findings page speaks of the study's own run.
    """
    for system, rule, metric, *other in quotes:
        part = stratum(summary, (other or [origin])[0])
        if system in set(part["system"]):
            row = stats.pick(part, system, rule, metric)
            publish(f"{slug(system, rule, metric, *other)}__mean", row["mean"])
            publish(f"{slug(system, rule, metric, *other)}__interval", span(row["low"], row["high"]))


def publish_latency(totals: pd.DataFrame, quotes: Sequence[Sequence[str]]) -> None:
    """Glues warm mean, P50 and P95 in milliseconds of every system that a findings page quotes."""
    by_system = totals.set_index("system")
    for system in dict.fromkeys(quote[0] for quote in quotes if quote[0] in by_system.index):
        for part in ("mean_ms", "p50_ms", "p95_ms"):
            publish(f"{slug(system)}__{part}", by_system.loc[system, part])


def publish_comparisons(comparisons: pd.DataFrame) -> None:
    """Glues difference, interval, adjusted p and verdict of the designated comparisons, numbered from 1."""
    for number, row in enumerate(comparisons.to_dict("records"), 1):
        if row["n"]:
            publish(f"comparison_{number}__delta", minus(f"{row['delta']:+.2f}"))
            publish(f"comparison_{number}__p_adjusted", p_text(row["p_adjusted"]))
            publish(f"comparison_{number}__interval", span(row["low"], row["high"], "+.2f"))
        publish(f"comparison_{number}__verdict", row["verdict"].replace("_", " "))


def ledger(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `depth.ledgers` to read: gain with its interval, headroom, questions moved, price."""
    return pd.DataFrame(
        {
            "first stage": rows["base"], "reranker": rows["reranker"], "candidates": rows["depth"],
            "gain": interval(rows["gain"], rows["low"], rows["high"], "+.3f"), "n": rows["n"], "oracle": rows["oracle"],
            "headroom": rows["headroom"].map(lambda share: None if pd.isna(share) else minus(f"{share:.0%}")),
            "rescued": rows["rescued"], "demoted": rows["demoted"], "more ms": rows["more_ms"], "per 10 ms": rows["per_100_ms"] / 10,
        }
    )  # fmt: skip


def moved(rows: pd.DataFrame, queries) -> pd.DataFrame:
    """The table of `depth.moved` with the text of each question."""
    texts = {query.query_id: query.text for query in queries}
    return rows.assign(question=rows["query_id"].map(texts))[["query_id", "question", "before", "after", "change"]]


def adaptive(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `depth.adaptive` to read: both means and costs, the difference with its interval, the policies of both halves."""
    return pd.DataFrame(
        {
            "within ms": rows["budget_ms"].map("{:.1f}".format),
            "best fixed": rows["fixed"], "fixed ms": rows["fixed_ms"].map("{:.1f}".format),
            "per question": rows["adaptive"], "per question ms": rows["adaptive_ms"].map("{:.1f}".format),
            "candidates": rows["candidates"].map("{:.0f}".format),
            "difference": interval(rows["delta"], rows["low"], rows["high"], "+.3f"), "n": rows["n"], "policies": rows["policies"],
        }
    )  # fmt: skip


def adaptive_sentence(rows: pd.DataFrame) -> str:
    """What a depth per question gained, in one sentence."""
    if rows.empty:
        return "There are too few questions to choose a depth on some and judge it on others."
    better, worse = int((rows["low"] > 0).sum()), int((rows["high"] < 0).sum())
    tried = "chosen on other questions and compared with the best fixed depth of at most the same cost"
    if not better and not worse:
        return f"A depth for each question, {tried}, is not separated from it."
    counts = f"its interval lies above zero at {better} of {len(rows)} costs and below at {worse}"
    return f"A depth for each question, {tried}, is exploratory and uncorrected: {counts}."


# Damage: a corpus and its twins


def or_words(frame: pd.DataFrame, caption: str, words: str, **options):
    """The frame as a table with its caption; where it has no row, an empty table that says why."""
    return table(frame, caption, **options) if len(frame) else table(frame.iloc[:, :1], words)


def drawn(make, rows: pd.DataFrame, words: str, **options):
    """A figure of the rows; where there is none, an empty table that says why. make: a function of `figures`."""
    return make(rows, **options) if len(rows) else table(rows.iloc[:, :1], words)


FIDELITY = {
    "cer": ".1%",
    "word_precision": ".3f",
    "word_recall": ".3f",
    "word_f1": ".3f",
    "word_confidence": ".1f",
    "seconds": ".2f",
}


def fidelity(pages: pd.DataFrame) -> pd.DataFrame:
    """Means over the pages of each engine and level, with the worst word F1. pages: the table of `twins.pages`."""
    grouped = pages.groupby(["engine", "level"], sort=False)
    means, worst = grouped[list(FIDELITY)].mean(), grouped["word_f1"].min().rename("worst word_f1")
    return grouped.size().rename("pages").to_frame().join(means).join(worst).reset_index()


def level_rows(points: Sequence[pd.DataFrame], changes: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """A row a system, engine and level: each metric with its interval, and its difference to the source with one.

    points: of `damage.responses`, one frame a metric. changes: of `damage.deltas`.
    """
    keys = ["system", "engine", "level"]
    whole = points[0][keys].copy()
    for metric, own in zip(metrics, points, strict=True):
        means = own.set_index(keys)
        whole[metric] = (
            interval(means["mean"], means["low"], means["high"])
            .reindex(pd.MultiIndex.from_frame(whole[keys]))
            .to_list()
        )
        lost = (
            changes[changes["metric"] == metric]
            .rename(columns={"system": "twin"})
            .rename(columns={"base": "system"})
            .set_index(keys)
        )
        text = interval(lost["delta"], lost["low"], lost["high"], "+.2f")
        whole[f"difference in {metric}"] = text.reindex(pd.MultiIndex.from_frame(whole[keys])).to_list()
    return whole.assign(n=points[0]["n"].to_numpy())


def tolerance(changes: pd.DataFrame, slopes: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A row a system: the difference to the source at every engine and level, and the slope. As `damage.deltas`, `damage.slopes`."""
    own = changes[changes["metric"] == metric]
    text = interval(own["delta"], own["low"], own["high"], "+.2f")
    places = own["engine"] + ", " + own["level"]
    wide = own.assign(text=text, place=places).pivot(index="base", columns="place", values="text")
    wide = wide.reindex(columns=list(dict.fromkeys(places)))
    slope = interval(slopes["slope"], slopes["low"], slopes["high"], "+.3f").set_axis(slopes["system"])
    shown = slopes.set_index("system")[["n"]].assign(**{"for ten points of word F1": slope})
    order = [name for name in slopes["system"] if name in wide.index]
    return shown.loc[order, ["for ten points of word F1", "n"]].join(wide).rename_axis("system").reset_index()


def stages_lost(rows: pd.DataFrame) -> pd.DataFrame:
    """`damage.waterfall` with the share of the pieces beside each count."""
    counts = [name for name in rows.columns if name not in ("system", "engine", "level", "pieces")]
    texts = {
        name: [f"{count} ({count / pieces:.1%})" for count, pieces in zip(rows[name], rows["pieces"], strict=True)]
        for name in counts
    }
    return rows.assign(**texts)


def between(comparisons: pd.DataFrame) -> pd.DataFrame:
    """`damage.between_engines` as rows to read."""
    frame = comparisons[["base", "level"]].rename(columns={"base": "system"})
    frame["difference"] = interval(comparisons["delta"], comparisons["low"], comparisons["high"], "+.3f")
    frame["p"] = [p_text(p) for p in comparisons["p_value"]]
    return frame.assign(
        **{"more seconds a page": comparisons["more_seconds"], "gain per second": comparisons["per_second"]}
    )


def group_rows(means: pd.DataFrame) -> pd.DataFrame:
    """`damage.grouped`: a row a group and system, each metric with its interval, and n."""
    text = interval(means["mean"], means["low"], means["high"])
    cells = means.assign(text=text).pivot(index=["group", "system"], columns="metric", values="text")
    order = list(dict.fromkeys(zip(means["group"], means["system"], strict=True)))
    counts = means.groupby(["group", "system"])["n"].max()
    return (
        cells.reindex(order)[list(dict.fromkeys(means["metric"]))].join(counts).rename_axis(columns=None).reset_index()
    )


def delta_rows(changes: pd.DataFrame) -> pd.DataFrame:
    """`damage.deltas_by`: a row a group, engine, level and system, the difference of each metric with its interval, and n."""
    keys = ["group", "engine", "level", "base"]
    if changes.empty:
        return changes[keys]
    cells = changes.assign(text=interval(changes["delta"], changes["low"], changes["high"], "+.2f"))
    wide = cells.pivot(index=keys, columns="metric", values="text")
    order = list(dict.fromkeys(cells[keys].itertuples(index=False, name=None)))
    wide = wide.reindex(order)[list(dict.fromkeys(changes["metric"]))].join(changes.groupby(keys)["n"].max())
    return wide.rename_axis(columns=None).reset_index().rename(columns={"base": "system"})


def damage_answer(points: pd.DataFrame, slopes: pd.DataFrame, system: str, metric: str) -> str:
    """What the page found, in one sentence; without twins, that it can say nothing of causes."""
    own = points[points["system"] == system]
    damaged = own[own["engine"] != "source"]
    if damaged.empty:
        return (
            "These documents have no twins, so nothing here is causal: questions are only compared by the class of the pages "
            "that their evidence stands on, and pages of another class differ in more than their text."
        )
    whole, slope = own[own["engine"] == "source"].iloc[0], slopes.set_index("system").loc[system]
    worst = damaged.groupby("engine", sort=False)["mean"].idxmin()
    parts = [
        f"{row['mean']:.2f} with {row['engine']} on {row['level']} scans"
        for row in damaged.loc[worst].to_dict("records")
    ]
    return (
        f"{metric} of {system} falls from {whole['mean']:.2f} on the text as it was typeset to {' and to '.join(parts)}. Along "
        f"a straight line, ten points of word F1 that the pages of its evidence lose change a question by "
        f"{minus(format(slope['slope'], '+.3f'))} ({span(slope['low'], slope['high'], '+.3f')})."
    )


def class_sentence(groups: dict[str, str], has_twins: bool) -> str:
    """What the breakdown by class can say. groups: query_id -> class."""
    names = sorted(set(groups.values()))
    cause = (
        "The twins above show what damage does. The class of a page by itself shows no cause: "
        if has_twins
        else "These documents have no twins, so this is a comparison of different questions on different pages, and not causal: "
    )
    if len(names) == 1:
        return f"{cause}here the evidence of every question stands on pages of one class, {names[0]}, so there is nothing to compare."
    return f"{cause}pages of different classes differ in what stands on them, and in what is asked of it."


def publish_damage(
    fidelity: pd.DataFrame, rows: pd.DataFrame, slopes: pd.DataFrame, prices: pd.DataFrame, system: str
) -> None:
    """Glues what a findings page quotes of every twin: fidelity, seconds, what the headline system keeps and where evidence is lost."""
    for row in fidelity.to_dict("records"):
        for name in FIDELITY:
            publish(f"{name}__{slug(row['engine'], row['level'])}", row[name])
    for row in rows[rows["system"] == system].to_dict("records"):
        place = slug(row["engine"], row["level"])
        for name in ("in the text", "in one chunk", "in the candidates", "in the top"):
            publish(f"{slug(name)}__{place}", row[name])
        publish(f"lost_in_text__{place}", row["pieces"] - row["in the text"])
        publish(f"pieces__{place}", row["pieces"])
    for row in slopes.dropna().to_dict("records"):
        publish(f"slope__{slug(row['system'])}", minus(f"{row['slope']:+.3f}"))
        publish(f"slope__{slug(row['system'])}__interval", span(row["low"], row["high"], "+.3f"))
    for row in prices[prices["system"] == system].dropna().to_dict("records"):
        publish(f"share__{slug(row['engine'], row['level'])}", row["share"])


# Prices of reranking


def unread(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `sweep.unread` to read."""
    names = {
        "first_stage": "first stage",
        "depth": "candidates",
        "reads_tokens": "reads tokens",
        "passages_cut": "passages cut",
    }
    return rows.rename(columns=names | {"pairs_cut": "pairs cut"})


def ways(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `pricing.compare_ways` to read; the first row is what the others are compared with."""
    apart = interval(rows["delta"], rows["low"], rows["high"], "+.4f") + rows["low"].isna().map(
        {True: " (no variation)", False: ""}
    )
    compared, ran = rows["n"].notna(), rows["status"] == "ok"
    return pd.DataFrame(
        {
            "reranker": rows["reranker"], "state": rows["status"],
            "bytes a chunk": rows["bytes_a_chunk"].map("{:,.0f}".format).where(rows["bytes_a_chunk"].notna()),
            "top ten in common": rows["overlap"], "score apart": rows["score_apart"],
            "difference": apart.where(compared, ran.map({True: "reference", False: None})), "n": rows["n"].astype("Int64"),
            "rerank ms": rows["mean_ms"], "P95": rows["p95_ms"], "samples": rows["asked"].astype("Int64"),
        }
    )  # fmt: skip


def preview(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `preview.measure` to read, with the plain call's time as a multiple of each."""
    plain = rows.groupby("shape", sort=False)["mean_ms"].transform("first")
    spread = rows["fastest_ms"].map("{:,.0f}".format) + " to " + rows["slowest_ms"].map("{:,.0f}".format)
    return rows[["shape", "run by", "candidates"]].assign(
        ms=rows["mean_ms"], range_ms=spread, ms_a_candidate=rows["per_candidate_ms"], times_faster=plain / rows["mean_ms"],
        questions=rows["questions"], weights=rows["weights"],
    ).rename(columns=lambda name: name.replace("_", " "))  # fmt: skip


def preview_sentence(rows: pd.DataFrame, reason: str = "") -> str:
    """What a cross-encoder would cost here, in one sentence."""
    if rows.empty:
        return f"No shape was previewed{f': {reason}' if reason else ''}."
    parts = []
    for shape, part in rows.groupby("shape", sort=False):
        best, plain = part.loc[part["mean_ms"].idxmin()], part["mean_ms"].iloc[0]
        parts.append(f"{shape} takes {plain:,.0f} ms in a plain call and {best['mean_ms']:,.0f} ms by {best['run by']}")
    return f"For {rows['candidates'].iloc[0]:.0f} candidates of a question, a cross-encoder of the shape {'; '.join(parts)} (cost only)."


def breakdown(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `depth.breakdown` to read; thin groups are marked."""
    gain = interval(rows["gain"], rows["low"], rows["high"], "+.3f") + rows["low"].isna().map(
        {True: " (no variation)", False: ""}
    )
    return pd.DataFrame(
        {
            "questions by": rows["by"], "group": rows["group"], "n": rows["n"], "before": rows["before"], "after": rows["after"],
            "gain": gain, "per 100 ms": rows["per_100_ms"], "note": rows["thin"].map({True: "thin: indicative only", False: ""}),
        }
    )  # fmt: skip


def turning_sentence(turn) -> str:
    """Where quality falls with depth, in one sentence. turn: of `depth.turning`."""
    if turn is None:
        return "No depth has a higher mean than the deepest."
    change = f"{minus(format(turn.delta, '+.3f'))} ({span(turn.low, turn.high, '+.3f')})"
    sure = "" if turn.high < 0 else ", which is not separated from no change"
    return f"The mean is highest with {turn.baseline} candidates; from there to {turn.candidate} it changes by {change}{sure}."


def repeats_sentence(totals: pd.DataFrame, runs: pd.DataFrame, repeats: int) -> str:
    """What asking again showed, in one sentence. totals: rows of `stats.latency_table` with phase total."""
    broke = int(runs["reason"].astype(str).str.contains("other hits than at first").sum())
    same = (
        "every repeat gave the same hits, so quality has no spread"
        if not broke
        else f"{broke} system(s) answered otherwise and are failed"
    )
    if repeats < 2 or totals.empty:
        return f"Each timed question was asked once more after its hits were kept, and {same}; one repeat shows no spread of the clock."
    ratio = totals["slowest_repeat_ms"] / totals["fastest_repeat_ms"]
    return (
        f"Each timed question was asked {repeats} times after its hits were kept, and {same}; the mean of a system's slowest repeat is "
        f"{ratio.median():.2f} times that of its fastest in the middle system, {ratio.max():.2f} times at most."
    )


# Statistics: tests, documents, margins, slices, ranks, a recommendation


def side_by_side(comparisons: pd.DataFrame, effect: float) -> pd.DataFrame:
    """The tests of every comparison that ran beside each other, and the questions it would take to show `effect`."""
    numbers = pd.Series(range(1, len(comparisons) + 1), index=comparisons.index)
    ran = comparisons[comparisons["n"] > 0]
    sd = ran["mde"] * ran["n"] ** 0.5 / 2.8
    needed = pd.array([stats.questions_needed(one, effect) for one in sd], dtype="Int64")
    return pd.DataFrame(
        {
            PAIR: _numbered(ran, numbers[ran.index]), "p": ran["p_value"].map(p_text), "p (t)": ran["p_t"].map(p_text),
            "agree": ran["tests_disagree"].map({True: "NO", False: "yes"}), "test": ran["test"], "n": ran["n"],
            "differ": ran["differ"].astype("Int64"), "MDE": ran["mde"], "questions needed": needed,
        }
    )  # fmt: skip


def _numbered(rows: pd.DataFrame, numbers: pd.Series) -> pd.Series:
    return numbers.astype(str) + ". " + rows["candidate"] + " − " + rows["baseline"]


def agreement(comparisons: pd.DataFrame) -> str:
    """In how many comparisons t and permutation test say different things."""
    ran = comparisons[comparisons["n"] > 0]
    apart = int(ran["tests_disagree"].sum())
    if not len(ran):
        return "There is no test to compare."
    if not apart:
        return "Student's t and the permutation test agree on which side of the level each comparison falls."
    where = "fall on different sides of the level: too close to call."
    return f"In {apart} of {len(ran)} comparisons Student's t and the permutation test {where}"


def clustered(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `clusters.compare_designated` to read."""
    return pd.DataFrame(
        {
            PAIR: _numbered(rows, rows["number"]), "difference": interval(rows["delta"], rows["low"], rows["high"], "+.3f"),
            "p": rows["p_value"].map(p_text), "n": rows["n"], "documents": rows["clusters"],
            "design effect": rows["design_effect"].map("{:.2f}".format).replace("nan", figures.DASH),
            "effective n": rows["n_effective"].map("{:.0f}".format).replace("nan", figures.DASH), "would help": rows["advice"],
        }
    )  # fmt: skip


def advised(rows: pd.DataFrame) -> str:
    """What the words of the last column mean, for its caption; those that occur."""
    words = [word for word in clusters.ADVICE if word in set(rows["advice"])]
    return " ".join(f"{word.capitalize()}: {clusters.ADVICE[word]}." for word in words)


def clustered_sentence(rows: pd.DataFrame, across: int) -> str:
    """How far documents change the picture, in words."""
    known = rows.dropna(subset=["design_effect"])
    if known.empty:
        return "There are too few documents, or no comparison that varies, to say what shared documents cost."
    effects, fewest = known["design_effect"], int(known["clusters"].min())
    flips = int(((known["low"] <= 0) & (known["high"] >= 0)).sum())
    said = f"The design effect lies between {effects.min():.2f} and {effects.max():.2f}; with documents resampled {flips} of {len(known)} "
    said += f"intervals hold zero. {across} questions have evidence in several documents."
    if fewest < clusters.FEW_CLUSTERS:
        said += f" {fewest} documents are few: such intervals tend to be too narrow, and the design effect itself is uncertain."
    return said


def claims(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `equivalence.claims` to read; one that did not run says why."""
    words = rows["verdict"].where(rows["verdict"] != "not_run", "not run: " + rows["reason"].fillna(""))
    return pd.DataFrame(
        {
            "claimed": rows["candidate"] + " is as good as " + rows["baseline"], "verdict": words,
            "difference [90 %]": interval(rows["delta"], rows["low"], rows["high"], "+.3f"), "n": rows["n"],
            "p as good": rows["p_as_good"].map(p_text), "p equivalent": rows["p_equivalent"].map(p_text),
            "questions needed": _if_open(rows), "measure": rows["metric"] + ", " + rows["rule"], "questions": rows["origin"],
        }
    )  # fmt: skip


def _if_open(rows: pd.DataFrame) -> pd.Series:
    """How many questions a claim would take, where it is neither shown nor refuted."""
    return rows["needed"].where(rows["verdict"].isin(["not shown", "tests disagree"])).astype("Int64")


def slices(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `stats.slices` to read."""
    return pd.DataFrame(
        {
            "cut": rows["cut"], "slice": rows["slice"], "verdict": rows["verdict"],
            "difference": interval(rows["delta"], rows["low"], rows["high"], "+.3f"), "n": rows["n"],
            "p": rows["p_value"].map(p_text), "p (BH)": rows["p_adjusted"].map(p_text),
        }
    )  # fmt: skip


def leaderboard(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `ranking.ranks` to read: ranges as "1 to 4"."""
    ends = {"ranks": ("rank_low", "rank_high"), "resampled": ("band_low", "band_high")}
    texts = {name: rows[low].astype(str) + " to " + rows[high].astype(str) for name, (low, high) in ends.items()}
    return pd.DataFrame(
        {
            "system": rows["system"], "mean": interval(rows["mean"], rows["low"], rows["high"]), "ranks not ruled out": texts["ranks"],
            "tie group": rows["group"], "ranks in 95 % of resamples": texts["resampled"], "first in": rows["p_first"].map("{:.0%}".format),
        }
    )  # fmt: skip


def optimism_sentence(found, metric: str) -> str:
    """What the best reported, and what to expect of it."""
    if found.systems < 2:
        return "There is one system, so nothing was chosen and no luck is in its mean."
    return (
        f"The best of {found.systems} systems, {found.system}, reported {found.reported:.3f} {metric}; after taking away what choosing the "
        f"best of them gained on these {found.n} questions, expect {found.expected:.3f}."
    )


def held_out_sentence(rows: pd.DataFrame, few: int) -> str:
    """What the system chosen on one part of the questions is worth on the other."""
    if rows.empty:
        return f"The gold set has no two parts of at least {few} scored questions each, so nothing could be held out."
    dev, other = rows.to_dict("records")
    return (
        f"Chosen on the {dev['n']} questions of the part dev, {dev['system']} has {interval(dev['mean'], dev['low'], dev['high'])} there "
        f"and {interval(other['mean'], other['low'], other['high'])} on the {other['n']} held-out questions. The two parts hold different "
        "questions, so their means differ by more than luck in choosing."
    )


def considered(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of a recommendation to read, cheapest first."""
    return pd.DataFrame(
        {
            "system": rows["system"], "verdict": rows["verdict"], "P95 ms": rows["p95_ms"].map("{:.1f}".format), "mean": rows["mean"],
            "minus best [90 %]": interval(rows["delta"], rows["low"], rows["high"], "+.3f"),
            "p as good (Holm)": rows["p_as_good"].map(p_text),
            "questions needed": _if_open(rows),
        }
    )  # fmt: skip


def board(panel, price: pd.DataFrame) -> pd.DataFrame:
    """What a leaderboard is made of, in counts."""
    timed = int(price["system"].isin(panel.systems).sum())
    counts = {
        "systems": len(panel.systems),
        "with a latency": timed,
        "questions": len(panel.query_ids),
        "left out": panel.left_out,
    }
    return pd.DataFrame({"what": list(counts), "count": list(counts.values())})


def first_sentence(rows: pd.DataFrame) -> str:
    """How many systems may be first, and how far the tests part the table."""
    first = int((rows["rank_low"] == 1).sum())
    if len(rows) < 2:
        return "There is one system, so there is nothing to part."
    groups = int(rows["group"].max())
    parted = f"They fall into {groups} tie groups." if groups > 1 else "They are one tie group."
    return f"For {first} of {len(rows)} systems the first rank is not ruled out. {parted}"


def tied(panel, price: pd.DataFrame, **draws) -> tuple[str, int]:
    """The pick of `recommend.cheapest_tied` and how many it calls tied; "none" where no latency was measured."""
    rows = recommend.against_best(panel, price, **draws)
    if rows.empty:
        return "none, since no latency was measured", 0
    pick, names = recommend.cheapest_tied(rows)
    return pick, len(names)


def held_out(rows: pd.DataFrame) -> pd.DataFrame:
    """The table of `ranking.held_out` to read."""
    means = interval(rows["mean"], rows["low"], rows["high"])
    return pd.DataFrame({"questions": rows["questions"], "system": rows["system"], "mean": means, "n": rows["n"]})


def by_chunker(
    summary: pd.DataFrame, characters: pd.DataFrame, lost: pd.DataFrame, runs: pd.DataFrame, rule: str, metric: str
) -> pd.DataFrame:
    """Every engine with each chunker below one another: evidence that no chunk holds, the shares in characters, one metric.

    summary, characters: `stats.summary` under rules and in characters. lost: `grading.evidence_lost`.
    """
    names = list(dict.fromkeys(characters["metric"]))
    rows = wide(characters, "characters", names).drop(columns="unreachable")
    rows = rows.merge(wide(summary, rule, [metric])[["system", metric]], on="system", how="left")
    rows = rows.merge(runs[["system", "chunker", "retriever", "model", "chunks"]], on="system").merge(
        lost, on="chunker"
    )
    rows["evidence in no chunk"] = [f"{one} of {all_}" for one, all_ in zip(rows["lost"], rows["pieces"], strict=True)]
    rows = rows.sort_values(["retriever", "model"], kind="stable", key=lambda column: column.map(_first(column)))
    return rows[["system", "chunks", "evidence in no chunk", *names, metric, "n"]].astype({"chunks": "Int64"})


def _first(column: pd.Series) -> dict:
    """Place of each value's first occurrence."""
    return {value: place for place, value in enumerate(dict.fromkeys(column))}


def approximations(recalls: pd.DataFrame, prices: pd.DataFrame) -> pd.DataFrame:
    """What `sweep.approximation` measured: a row a graph, recall with intervals beside what it costs and saves."""
    names = list(dict.fromkeys(recalls["metric"]))
    rows = wide(stats.summary(recalls), "exact", names).drop(columns="unreachable")
    rows = rows.merge(prices, on="system").rename(columns={"n": "questions"})
    return rows[["system", "chunks", *names, "questions", "build_seconds", "approximate_ms", "exact_ms"]]


ENCODE = dict.fromkeys(("encode ms", "encode ms in full"), ".1f")


def precisions(
    pairs: list[tuple[str, str]], shared: pd.DataFrame, scores: pd.DataFrame, latency: pd.DataFrame, rule: str, metric: str, origin: str
) -> pd.DataFrame:  # fmt: skip
    """Systems in lower precision beside those in full: hits they share, what the metric loses (paired), milliseconds of the encoder.

    pairs: (full, low) by name. shared: `sweep.overlaps`. scores: `scores.csv`. latency: `stats.latency_table`, of one run with both.
    """
    names = dict.fromkeys(shared["metric"])
    hits = wide(stats.summary(shared), "hits", list(names)).set_index("system")
    compared = stats.compare_designated(scores, [(metric, rule, *pair) for pair in pairs], origin)
    encode, rows = latency[latency["phase"] == "encode"].set_index("system")["mean_ms"], []
    for (full, low), row in zip(pairs, compared.to_dict("records"), strict=True):
        rows.append({
            "system": low, "beside": full, **{name: hits[name].get(low) for name in names},
            f"{metric} lost or gained": interval(row["delta"], row["low"], row["high"], "+.3f"), "n": row["n"],
            "encode ms": encode.get(low), "encode ms in full": encode.get(full),
        })  # fmt: skip
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["system", "beside", *ENCODE])


# Simulation


def rates(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Simulated rates as "4.9% [4.4%, 5.5%]" with their Monte-Carlo error, and where several comparisons are one, the range over them."""
    frame = rows[list(names)].copy()
    frame["rate"] = interval(rows["rate"], rows["low"], rows["high"], ".1%")
    if "lowest" in rows:
        ends = zip(rows["lowest"], rows["highest"], rows["comparisons"], strict=True)
        frame["of single ones"] = [span(low, high, ".1%", DASH) if n > 1 else DASH for low, high, n in ends]
        frame["comparisons"] = rows["comparisons"]
    return frame.assign(simulations=rows["simulations"])


def power_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """`simulation.power_at_mde`: a row a comparison, its MDE, and how often the permutation test finds it in each of the two ways."""
    own = rows[rows["test"] == "sign-flip permutation"]
    cells = own.assign(text=interval(own["rate"], own["low"], own["high"], ".0%"))
    wide = cells.pivot(index="name", columns="way", values="text")
    wide = wide.reindex(index=dict.fromkeys(own["name"]), columns=["shifted", "signs by coin"])
    first = own.drop_duplicates("name").set_index("name")[["n", "mde"]]
    return first.join(wide).rename_axis(columns=None, index="comparison").reset_index()


def simulation_answer(coverage, level, called, at_mde, alpha: float, n_pairs: int) -> str:
    """What the simulations found, in a few sentences; that there was nothing to draw from, where that is so."""
    if not n_pairs:
        return "No comparison of this study could be made, so there is nothing to draw samples from."
    held = coverage.set_index("of")["rate"]
    tests = level.set_index(["null", "test"])["rate"]
    rules = called.set_index(["of", "rule"])["rate"]
    shifted, coin = (
        at_mde[(at_mde["way"] == way) & (at_mde["test"] == "sign-flip permutation")]["rate"]
        for way in ("shifted", "signs by coin")
    )
    verdict = [tests[null, "verdict"] for null in ("signs by coin", "centred")]
    with_holm, without = (
        rules["family", rule] for rule in ("verdict (Holm and interval)", "each at the level by itself")
    )
    sides = f", and in {span(coin.min(), coin.max(), '.0%')} when the questions fall on both sides" if len(coin) else ""
    parts = [
        f"Intervals that say {1 - alpha:.0%} hold the truth in {span(held.min(), held.max(), '.1%')} of the samples, by kind.",
        f"Where nothing differs, the verdict on one comparison calls out {span(min(verdict), max(verdict), '.1%')} of the time at a level "
        f"of {alpha:.0%}. A family of size {n_pairs} calls something out in {with_holm:.1%} of the samples with Holm's correction and in "
        f"{without:.1%} without, and the gate fails in {rules['gate', 'both: the gate fails']:.1%}.",
        f"A difference as large as the minimum detectable effect is found in {span(shifted.min(), shifted.max(), '.0%')} of the samples "
        f"when every question shifts by as much{sides}.",
    ]
    return " ".join(parts)


def publish_simulated(coverage: pd.DataFrame, level: pd.DataFrame, called: pd.DataFrame) -> None:
    """Glues every pooled rate of the simulation under the slug of what it is the rate of."""
    for rows, names in ((coverage, ("of", "kind")), (level, ("null", "test")), (called, ("of", "rule"))):
        for row in rows.dropna(subset=["rate"]).to_dict("records"):
            publish(slug(*(row[name] for name in names)), row["rate"])


# Abstention


def floors(rows: pd.DataFrame) -> pd.DataFrame:
    """`abstention.selective` to read: what each floor leaves, with the answers behind it."""
    frame = rows[["system", "signal", "questions"]].assign(signal=rows["signal"].str.replace("_", " "))
    frame["floor"] = rows["floor"].map("{:.2f}".format)
    frame["threshold"] = rows["threshold"]
    frame["answered"] = _of(rows["answered"], rows["state"])
    frame["coverage"] = rows["coverage"]
    frame["accuracy"] = interval(rows["accuracy"], rows["low"], rows["high"])
    frame["unanswerable answered"] = _share(rows["false_answers"], rows["unanswerable"])
    return frame


def _of(counts: pd.Series, states: pd.Series) -> list[str]:
    """A count, marked where it is thin; the state in its place where there is none."""
    return [
        state if pd.isna(count) else f"{count:.0f}{' (thin)' if state == 'thin' else ''}"
        for count, state in zip(counts, states, strict=True)
    ]


def _share(counts: pd.Series, totals: pd.Series) -> list[str | None]:
    """ "3 of 32 (9.4%)"; nothing where the count is not defined, "none asked" where there was nothing to count."""
    return [
        "none asked" if not total else None if pd.isna(count) else f"{count:.0f} of {total:.0f} ({count / total:.1%})"
        for count, total in zip(counts, totals, strict=True)
    ]


def certified(rows: pd.DataFrame) -> pd.DataFrame:
    """`abstention.certified` to read: a row a system, kind of risk and fold."""
    frame = rows[["system", "signal", "risk"]].assign(signal=rows["signal"].str.replace("_", " "))
    frame["chosen on"] = [
        f"fold {fold}, {n} questions" for fold, n in zip(rows["fold"], rows["chosen_on"], strict=True)
    ]
    frame["threshold"] = rows["threshold"]
    frame["answered elsewhere"] = _share(rows["answered"], rows["held_out"])
    frame["observed risk"] = interval(rows["observed"], rows["low"], rows["high"])
    frame["unanswerable answered"] = _share(rows["false_answers"], rows["unanswerable"])
    return frame.assign(holds=rows["holds"])


def fusion_rows(useful: pd.DataFrame, few: pd.DataFrame) -> pd.DataFrame:
    """Fusion rules as rows to read: `abstention.abstention` beside `abstention.at_coverage`."""
    whole = useful.merge(few, on=["system", "signal"], suffixes=("", "_few"))
    frame = pd.DataFrame({"fusion": whole["system"], "signal": whole["signal"].str.replace("_", " ")})
    frame["right of all"] = _share(whole["correct"], whole["n"])
    frame["gained"] = interval(whole["gained"], whole["gained_low"], whole["gained_high"])
    frame["AUROC"] = interval(whole["auroc"], whole["auroc_low"], whole["auroc_high"])
    frame["right of the most certain"] = _share(whole["correct_few"], whole["answered"])
    frame["accuracy there"] = interval(whole["accuracy"], whole["low"], whole["high"])
    return frame


def reported_rate(counts: Sequence[int]) -> str:
    """A sentence on a rate that a source reported, [right, answered], with the interval that its counts allow; empty without one."""
    if not counts:
        return ""
    right, answered = counts
    low, high = stats.wilson(right, answered)
    return (
        f"A source reported {right} right of {answered} at its best threshold of a cosine: such counts allow any rate "
        f"from {low:.2f} to {high:.2f}."
    )


def certified_sentence(rows: pd.DataFrame, allowed: float, error: float) -> str:
    """What the thresholds with a bound came to, in one sentence."""
    parts = []
    for risk, own in rows.groupby("risk", sort=False):
        found = own[own["threshold"].notna()]
        held = int((found["holds"] == "yes").sum())
        said = f"{len(found)} of {len(own)} qualify"
        parts.append(
            f"{risk}, {said}" + (f" and {held} of these stay within it on the other fold" if len(found) else "")
        )
    bound = f"with a risk certified to be at most {allowed:.0%} (error {error:.0%})"
    return f"Of the thresholds {bound}: {'; '.join(parts)}."


# Labels and their holes


def label_rows(before: pd.DataFrame, after: pd.DataFrame, metric: str) -> pd.DataFrame:
    """`holes.by_system` of one metric, of the gold set alone and with what was judged since, one row a system."""
    one, two = (frame[frame["metric"] == metric].set_index("system") for frame in (before, after))
    rows = pd.DataFrame(index=two.index)
    rows["n"] = two["n"]
    rows["judged, gold alone"], rows["judged now"] = (
        one["judged"].map("{:.1%}".format),
        two["judged"].map("{:.1%}".format),
    )
    rows[f"{metric}, gold alone"], rows[f"{metric} now"] = one["plain"], two["plain"]
    rows["worst case"], rows["best case"], rows["condensed"] = two["low"], two["high"], two["condensed"]
    return rows.reset_index()


def robust_rows(after: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """`holes.by_system`: every metric plain, and condensed where the whole name allows it, one row a system."""
    rows = after.drop_duplicates("system")[["system", "n"]].set_index("system")
    for name in names:
        own = after[after["metric"] == name].set_index("system")
        rows[name] = own["plain"]
        if name not in ("bpref", "infap"):
            rows[f"{name}, condensed"] = own["condensed"]
    return rows.reset_index()


def flip_rows(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """`holes.comparison_table` of the gold set alone and with what was judged since, one row a comparison."""
    measure = after["metric"] + ", " + after["rule"] + ", " + after["origin"]
    ends = [
        minus(f"{low:+.3f} to {high:+.3f}") if n else None
        for low, high, n in zip(after["low"], after["high"], after["n"], strict=True)
    ]
    return pd.DataFrame(
        {
            "candidate − baseline": after["candidate"] + " − " + after["baseline"], "measure": measure, "n": after["n"],
            "difference, gold alone": before["delta"].map(_signed), "order, gold alone": before["flips"],
            "difference now": after["delta"].map(_signed), "it could be": ends, "order now": after["flips"],
            "open hits": after["open"], "answers that suffice": after["answers"].map(lambda count: None if pd.isna(count) else f"{count}"),
        }
    )  # fmt: skip


def _signed(value: float) -> str | None:
    return None if pd.isna(value) else minus(f"{value:+.3f}")


def worklist_rows(worklist: pd.DataFrame, count: int, most: int = 400) -> pd.DataFrame:
    """The first rows of a worklist to read: question, the text of the hit (cut short), where it stands, and what hangs on it."""
    rows = worklist.head(count)
    texts = rows["text"].map(lambda text: " ".join(text.split()))
    shown = texts.where(texts.str.len() <= most, texts.str[:most] + " …")
    return pd.DataFrame(
        {
            "query_id": rows["query_id"], "question": rows["question"], "text of the hit": shown, "span": rows["span"],
            "influence": rows["influence"], "comparisons": rows["comparisons"], "systems": rows["systems"],
        }
    )  # fmt: skip


def judged_sentence(rows: pd.DataFrame, metric: str, cut: int) -> str:
    """How much of the top the best system's hits are judged, and between what its score lies."""
    own = rows[(rows["metric"] == metric) & rows["plain"].notna()]
    if own.empty:
        return "No question here has a value, so there is nothing that a judgement could change."
    best = own.loc[own["plain"].idxmax()]
    ends = (
        ""
        if pd.isna(best["low"])
        else f" Its {metric} of {best['plain']:.2f} could be anything from {best['low']:.2f} to {best['high']:.2f}."
    )
    return f"Of the first {cut} hits of {best['system']}, somebody judged {best['judged']:.0%}; the others count as misses.{ends}"


def flip_sentence(before: pd.DataFrame, after: pd.DataFrame) -> str:
    """How many comparisons the holes leave open, before and after hits were judged."""
    if not (after["n"] > 0).any():
        return "No designated comparison has figures."
    counts = [int(frame["flips"].isin(["can flip", "may flip"]).sum()) for frame in (before, after)]
    held = int((after["flips"] == "cannot flip").sum())
    known = int((after["n"] > 0).sum())
    turned = f"open hits could turn {counts[1]} round ({counts[0]} by the gold set alone)"
    return f"Of {known} designated comparisons, {turned}; {held} stand whatever they hold."


def arm_rows(rows: pd.DataFrame, metrics: Sequence[str], headline: str) -> pd.DataFrame:
    """`arms.table` to read: a row an arm, each metric with its interval, the paired difference of the headline metric to the engine."""
    if rows.empty:
        return pd.DataFrame(columns=["arm", "system"])
    text = rows.assign(text=interval(rows["mean"], rows["low"], rows["high"], ".3f"))
    cells = text.pivot(index=["arm", "system"], columns="metric", values="text")[list(dict.fromkeys(metrics))]
    own = rows[rows["metric"] == headline].set_index(["arm", "system"])
    apart = interval(own["delta"], own["delta_low"], own["delta_high"], "+.2f").where(
        own["differing"] > 0, "0, everywhere"
    )
    whole = cells.reindex(own.index).rename_axis(columns=None)
    whole[f"difference in {headline}"] = apart.where(own.index.get_level_values("arm") != "engine", DASH)
    return whole.assign(n=own["n"]).reset_index()


# Groundedness


def rate_rows(rates: pd.DataFrame) -> pd.DataFrame:
    """`groundedness.rates` to read, each with its denominator."""
    frame = rates[["generator", "judge", "origin", "population"]].copy()
    frame["rate"] = rates["rate"].str.replace("_", " ")
    frame["value"] = interval(rates["value"], rates["low"], rates["high"])
    frame["count"] = [f"{count} of {n}" for count, n in zip(rates["count"], rates["n"], strict=True)]
    return frame.assign(over=rates["over"])


def judge_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """`handcheck.confusion` to read."""
    frame = rows[["verdict", "both yes", "judge yes", "person yes", "both no", "n", "agreement"]]
    frame = frame.rename(columns={"judge yes": "only judge yes", "person yes": "only person yes"})
    return frame.assign(
        kappa=interval(rows["kappa"], rows["kappa_low"], rows["kappa_high"]), **{"base rate": rows["base rate"]}
    )


def corrected(rows: pd.DataFrame) -> pd.DataFrame:
    """`handcheck.corrected` to read."""
    frame = rows[["rate", "population"]].assign(rate=rows["rate"].str.replace("_", " "))
    frame["as judged"] = [f"{count} of {n}" for count, n in zip(rows["count"], rows["n"], strict=True)]
    frame["judged rate"] = rows["as judged"]
    for name, title in (("powered", "prediction-powered"), ("rogan_gladen", "Rogan–Gladen")):
        frame[title] = interval(rows[name], rows[f"{name}_low"], rows[f"{name}_high"])
    return frame.assign(labels=rows["labels"])


def groundedness_sentence(rates: pd.DataFrame, origin: str) -> str:
    """Both directions of error in one sentence, each over its own questions."""
    by = rates.set_index("rate")
    part = lambda name: f"{by.loc[name, 'count']} of {by.loc[name, 'n']}"
    said = f"Of {origin} questions whose span was retrieved it answers {part('answered_when_retrieved')}"
    said += f" and, as judged, {part('correct_when_answered')} of these answers are right; it declines"
    said += f" {part('abstained_when_not_retrieved')} whose span was not retrieved"
    unasked = not by.loc["answered_when_unanswerable", "n"]
    return said + ("." if unasked else f", and answers {part('answered_when_unanswerable')} that have no answer.")


def corrected_sentence(rows: pd.DataFrame) -> str:
    """The headline rate corrected by the labels, or that there are none."""
    row = rows.set_index("rate").loc["correct_when_answered"]
    if pd.isna(row["powered"]):
        return "No answer of it was labelled by hand, so the judge's errors are not known."
    return (
        f"Corrected by {row['labels']} labels that a person gave, {row['powered']:.0%} of its answers to retrieved questions are right "
        f"({row['powered_low']:.0%} to {row['powered_high']:.0%}); as judged, {row['as judged']:.0%}."
    )


def labels_sentence(labels: pd.DataFrame, stale: int) -> str:
    """How many labels there are and how many speak of answers that are no longer given."""
    given = int(labels[["supported", "answers_question"]].notna().any(axis=1).sum()) if len(labels) else 0
    if not given:
        return "Nobody has labelled these answers yet: rates stand as judged, and the errors in them are not known."
    return f"{given} answers are labelled" + (
        f"; {stale} of these labels speak of answers that are no longer given." if stale else "."
    )


def publish_groundedness(rates: pd.DataFrame, corrected: pd.DataFrame) -> None:
    """Glues value, interval and count of every rate that is defined, and its corrected interval where there is one."""
    for row in rates[rates["n"] > 0].to_dict("records"):
        publish(f"{row['rate']}__value", row["value"])
        publish(f"{row['rate']}__interval", span(row["low"], row["high"]))
        publish(f"{row['rate']}__count", f"{row['count']} of {row['n']}")
    for row in corrected[corrected["powered"].notna()].to_dict("records"):
        publish(f"{row['rate']}__corrected", f"{row['powered']:.2f}")
        publish(f"{row['rate']}__corrected_interval", span(row["powered_low"], row["powered_high"]))
