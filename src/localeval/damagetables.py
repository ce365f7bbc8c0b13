"""Tables and sentences of the damage notebook: a corpus and its twins, and what scanning takes from an answer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from localeval.figures import heading, interval, minus
from localeval.report import publish
from localeval.views import p_text, slug, span

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


SLOPE = "for ten points of word F1, all engines"


def tolerance(changes: pd.DataFrame, slopes: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A row a system and engine: n, the slope over all twins, the difference to the source at every level.

    changes: of `damage.deltas`. slopes: of `damage.slopes`.
    """
    own = changes[changes["metric"] == metric].rename(columns={"base": "name"})
    cells = own.assign(text=interval(own["delta"], own["low"], own["high"], "+.2f"))
    wide = cells.pivot(index=["name", "engine"], columns="level", values="text")
    wide = wide.reindex(
        index=pd.MultiIndex.from_frame(own[["name", "engine"]].drop_duplicates()), columns=own["level"].unique()
    )
    whole = wide.rename_axis(columns=None).reset_index().rename(columns={"name": "system"})
    slope = interval(slopes["slope"], slopes["low"], slopes["high"], "+.3f")
    shown = slopes[["system", "n"]].assign(**{SLOPE: slope}).merge(whole, on="system")
    return shown[["system", "engine", "n", SLOPE, *wide.columns]]


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
        f"{metric} of {system} falls from {whole['mean']:.2f} on the text as it was typeset, at its lowest to "
        f"{' and to '.join(parts)}. Along a straight line, ten points of word F1 that the pages of its evidence lose change a question by "
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
        only = f"here the evidence of every question stands on pages of one class, {heading(names[0])}"
        return f"{cause}{only}, so there is nothing to compare."
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
