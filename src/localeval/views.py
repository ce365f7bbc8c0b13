"""Tidy tables, rearranged for reading: one row a system, figures with their intervals, milliseconds by stage.

What the sweep shows and what several notebooks share. Tables of one topic are in `pricetables`, `damagetables`, `stattables` and
`answertables`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pandas as pd

from localeval import figures, stats
from localeval.figures import DASH, interval, minus
from localeval.metrics import COUNTS, JUDGED
from localeval.records import Graded, ScoringRule
from localeval.report import publish, table


def wide(summary: pd.DataFrame, rule: str, metrics: Sequence[str]) -> pd.DataFrame:
    """One row a system under one rule: each metric as "mean [low, high]", then how much is judged, n and the unreachable among them."""
    part = summary[(summary["rule"] == rule) & summary["metric"].isin(metrics)]
    flat = part["note"].str.startswith("no variation") & part["low"].isna()
    text = part.assign(
        text=interval(part["mean"], part["low"], part["high"]) + flat.map({True: " (no variation)", False: ""})
    )
    order = list(dict.fromkeys(part["system"]))
    cells = text.pivot(index="system", columns="metric", values="text").reindex(index=order, columns=list(metrics))
    counts = part.groupby("system")[["n", "unreachable"]].max().reindex(order)
    texts = judged(part)
    shares = [texts.get((row.system, rule, row.origin), UNKNOWN) for row in part.drop_duplicates("system").itertuples()]
    return cells.assign(**{JUDGED: shares}).join(counts).rename_axis(columns=None).reset_index()


UNKNOWN = "not known"


def judged(summary: pd.DataFrame) -> dict[tuple[str, str, str], str]:
    """(system, rule, origin) -> the share of its first units that somebody judged, in words; not in it where that is not known.

    summary: `metrics.csv`, with or without the column that `holes.beside` adds."""
    known = summary.dropna(subset=[JUDGED]) if JUDGED in summary else summary.head(0).assign(**{JUDGED: 0.0})
    keys = zip(known["system"], known["rule"], known["origin"], strict=True)
    return dict(zip(keys, known[JUDGED].map("{:.1%}".format), strict=True))


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
    "Means over n answerable {}questions with their intervals; unreachable questions are in n, with value zero. "
    f"{JUDGED}: share of the first units, as the rule ranks them and no deeper, that hold evidence or that a person read and refused."
)


def costs(runs: pd.DataFrame) -> pd.DataFrame:
    """Chunks, share of them the model cuts, and seconds to embed them all, per system that ran."""
    columns = [column for column in ("chunks", "truncated_share", "vector_seconds") if column in runs.columns]
    ran = runs[runs["status"].isin(["ok", "empty"])]
    names = {"truncated_share": "truncated", "vector_seconds": "embedding s"}
    return ran[["system", *columns]].astype({"chunks": "Int64"}).rename(columns=names)


def not_run(runs: pd.DataFrame) -> pd.DataFrame:
    """Systems without a measurement, their state and what it would take; one row for each state and reason."""
    rest = runs[runs["status"] != "ok"].assign(
        reason=lambda rows: rows["reason"].astype(str).str.removeprefix("not run: ")
    )
    return rest.groupby(["status", "reason"], as_index=False, sort=False).agg(systems=("system", ", ".join))[
        ["systems", "status", "reason"]
    ]


STAGES = ("encode", "dense", "lexical", "fuse", "rerank")


def stages(latency: pd.DataFrame) -> pd.DataFrame:
    """Mean milliseconds of each stage that any system has, beside the distribution of the whole with its intervals; a row a system."""
    order = list(dict.fromkeys(latency["system"]))
    means = latency.pivot(index="system", columns="phase", values="mean_ms").reindex(index=order, columns=list(STAGES))
    total = latency[latency["phase"] == "total"].set_index("system").reindex(order)
    spread = total["fastest_repeat_ms"].map("{:.1f}".format) + " to " + total["slowest_repeat_ms"].map("{:.1f}".format)
    spreads = {
        f"{name}_ms": interval(total[f"{name}_ms"], total[f"{name}_low"], total[f"{name}_high"], ".1f")
        for name in ("mean", *stats.SHARES)
    }
    whole = pd.DataFrame(index=total.index).assign(
        **spreads,
        repeats_ms=spread,
        samples=total["n"].map(lambda n: f"{n:,d}" + (" (indicative only)" if n < stats.FEW_SAMPLES else "")),
    )
    means = means.dropna(axis="columns", how="all")
    means = means.map("{:.1f}".format).where(means.notna())
    means.columns = [f"{name} ms" for name in means.columns]
    columns = ["mean_ms", *(f"{name}_ms" for name in stats.SHARES), "repeats_ms", "samples"]
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


def stratum(frame: pd.DataFrame, origin: str) -> pd.DataFrame:
    """Rows of one origin of questions: all that a figure or a table may pool."""
    return frame[frame["origin"] == origin].reset_index(drop=True)


def by_stratum(summary: pd.DataFrame, rule: str, metric: str) -> pd.DataFrame:
    """One metric of every system for each origin of questions, with interval, n, and how much of its first units is judged.

    Strata stand side by side, never pooled.
    """
    part = summary[(summary["rule"] == rule) & (summary["metric"] == metric)]
    text = interval(part["mean"], part["low"], part["high"]) + part["low"].isna().map(
        {True: " (no variation)", False: ""}
    )
    shares = judged(part)
    shares = [shares.get(key, UNKNOWN) for key in zip(part["system"], part["rule"], part["origin"], strict=True)]
    text += [f" (n = {n}, {JUDGED} {share})" for n, share in zip(part["n"], shares, strict=True)]
    cells = part.assign(text=text).pivot(index="system", columns="origin", values="text")
    return cells.reindex(dict.fromkeys(part["system"])).rename_axis(columns=None).reset_index()


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


def plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of systems that search exactly and in full precision; the others have tables of their own, beside what they come near to."""
    return rows[~rows["system"].str.contains(r"-hnsw\b|-int8\b|-bf16\b", regex=True)]


def priced(summary: pd.DataFrame, totals: pd.DataFrame) -> pd.DataFrame:
    """Quality beside latency, one row a system, with its chunker and its engine as columns; the random arm is left out."""
    rows = summary.merge(totals, on="system", suffixes=("", "_samples"))
    parts = rows["system"].str.partition("/")
    rows = rows.assign(chunker=parts[0], engine=parts[2])
    return rows[rows["engine"] != "random"]


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


def or_words(frame: pd.DataFrame, caption: str, words: str, **options):
    """The frame as a table with its caption; where it has no row, words that say why."""
    return table(frame, caption, **options) if len(frame) else table(frame.iloc[:, :1], words)


def drawn(make, rows: pd.DataFrame, words: str, **options):
    """A figure of rows or values; where there are none, words that say why. make: what gives a `figures.Figure`."""
    return make(rows, **options) if len(rows) else table(pd.DataFrame(rows).iloc[:, :1], words)


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
