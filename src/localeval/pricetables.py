"""Tables and sentences of the notebooks on reranking: what it reads, what it costs, how deep it pays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pandas as pd

from localeval import figures
from localeval.figures import interval, minus
from localeval.views import span, stratum, wide


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


def as_one_table(summary: pd.DataFrame, totals: pd.DataFrame, rule: str, metrics: Sequence[str]) -> pd.DataFrame:
    """What a study of a single table prints, with what such tables leave out: every system for each origin of questions under
    one rule, means with intervals, how many are asked and how many of them are unreachable, warm mean and P95 in milliseconds."""
    parts = [
        wide(stratum(summary, origin), rule, metrics).assign(questions=origin)
        for origin in dict.fromkeys(summary["origin"])
    ]
    times = totals.set_index("system")[["mean_ms", "p95_ms"]]
    whole = pd.concat(parts, ignore_index=True).join(times, on="system")
    counts = [
        f"{n} {origin}, {lost} unreachable"
        for n, origin, lost in zip(whole["n"], whole["questions"], whole["unreachable"], strict=True)
    ]
    whole = whole.drop(columns=["n", "unreachable"]).assign(questions=counts)
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
    better, worse = int((rows["low"].round(3) > 0).sum()), int((rows["high"].round(3) < 0).sum())
    tried = "chosen on other questions and compared with the best fixed depth of at most the same cost"
    if not better and not worse:
        return f"A depth for each question, {tried}, is not separated from it."
    counts = f"its interval lies above zero at {better} of {len(rows)} costs and below at {worse}"
    return f"A depth for each question, {tried}, is exploratory and uncorrected: {counts}."


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
    return rows[["shape", "weights", "run by", "candidates"]].assign(
        ms=rows["mean_ms"], range_ms=spread, ms_a_candidate=rows["per_candidate_ms"], times_faster=plain / rows["mean_ms"],
        questions=rows["questions"],
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
    group = rows["group"].str.replace("_", " ")
    return pd.DataFrame(
        {
            "questions by": rows["by"], "group": group, "n": rows["n"], "before": rows["before"], "after": rows["after"],
            "gain": gain, "per 100 ms": rows["per_100_ms"], "note": rows["thin"].map({True: "thin: indicative only", False: ""}),
        }
    )  # fmt: skip


def turning_sentence(turn) -> str:
    """Where quality falls with depth, in one sentence. turn: of `depth.turning`."""
    if turn is None:
        return "No depth has a higher mean than the deepest."
    change = f"{minus(format(turn.delta, '+.3f'))} ({span(turn.low, turn.high, '+.3f')})"
    sure = (
        " (exploratory: that depth was chosen on these questions)"
        if turn.high < 0
        else ", which is not separated from no change"
    )
    return f"The mean is highest with {turn.baseline} candidates; from there to {turn.candidate} it changes by {change}{sure}."


def repeats_sentence(totals: pd.DataFrame, runs: pd.DataFrame, repeats: int) -> str:
    """What asking again showed, in one sentence. totals: rows of `stats.latency_table` with phase total."""
    broke = int(runs["reason"].astype(str).str.contains("other hits than at first").sum())
    same = (
        "every repeat gave the same hits, so quality has no spread"
        if not broke
        else f"what answered otherwise is failed (systems: {broke})"
    )
    if repeats < 2 or totals.empty:
        return f"Each timed question was asked once more after its hits were kept, and {same}; one repeat shows no spread of the clock."
    ratio = totals["slowest_repeat_ms"] / totals["fastest_repeat_ms"]
    return (
        f"Each timed question was asked {repeats} times after its hits were kept, and {same}; the mean of a system's slowest repeat is "
        f"{ratio.median():.2f} times that of its fastest in the middle system, {ratio.max():.2f} times at most."
    )
