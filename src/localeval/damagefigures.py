"""Figures of damage: what becomes of answers when pages are read from bad scans."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from localeval.figures import (
    COLOURS,
    MARKERS,
    MUTED,
    PAPER,
    ROW,
    Figure,
    beside,
    canvas,
    errors,
    interval,
    legend,
    listing,
    note,
    percent,
    require_once,
    rows_axis,
    rows_for,
    theme,
)
from localeval.records import BadInput

STAGE_LABELS = {
    "in the top": "in the top",
    "in the candidates": "a candidate, below the top",
    "in one chunk": "in one chunk, no candidate",
    "in the text": "in the text, in no single chunk",
    "": "not in the text",
}


def dose_response(
    points: pd.DataFrame, *, dose: str, label: str, metric: str, caption: str, alt: str | None = None
) -> Figure:
    """A metric against the damage to the pages that hold the evidence: a panel for each engine, a line for each system.

    points: system, engine, level, mean, low, high and the column `dose`; rows of engine "source" begin every line. label: what
    the dose is. Damage grows to the right.
    """
    points = rows_for(points, "dose_response", f"system engine level mean low high {dose}")
    require_once(points, "dose_response", ["system", "engine", "level"])
    engines = [name for name in dict.fromkeys(points["engine"]) if name != "source"] or ["source"]
    systems = list(dict.fromkeys(points["system"]))
    if len(systems) > len(COLOURS):
        raise BadInput(f"dose_response: {len(systems)} systems; it shows up to {len(COLOURS)}, filter the frame first")
    wide = points[dose].max() - points[dose].min()
    with theme():
        fig, axes = canvas(1.1 + 2.5 * len(engines), len(engines), sharex=True, sharey=True, squeeze=False)
        for ax, engine in zip(axes[:, 0], engines, strict=True):
            part = points[points["engine"].isin(["source", engine])]
            _dose_lines(ax, part, systems, dose, 0.008 * wide)
            ax.set_title(engine)
            ax.set_ylabel(metric)
            ax.grid(axis="y")
        axes[0, 0].set_ylim(bottom=0)
        axes[-1, 0].set_xlabel(label)
        if dose == "word_f1":
            axes[0, 0].invert_xaxis()
        legend(fig, axes[0, 0])
    names = points["system"] + " " + points["engine"] + " " + points["level"] + points[dose].map(" at {:.2f}".format)
    said = listing(names, interval(points["mean"], points["low"], points["high"]), points["mean"])
    return Figure(fig, alt=alt or f"{metric} against {label}. {said}.", caption=caption)


def _dose_lines(ax, part: pd.DataFrame, systems: Sequence[str], dose: str, apart: float) -> None:
    """One line a system, moved aside a little so that intervals do not hide one another; levels named at the first line."""
    for number, (system, colour, marker) in enumerate(zip(systems, COLOURS, MARKERS, strict=False)):
        line = part[part["system"] == system].sort_values(dose)
        style = {"color": colour, "marker": marker, "markeredgecolor": PAPER, "label": system, "elinewidth": 1.1}
        x = line[dose] + apart * (number - (len(systems) - 1) / 2)
        ax.errorbar(x, line["mean"], yerr=errors(line, "mean", "low", "high"), **style)
    named = part[part["system"] == systems[0]].sort_values(dose)
    for number, row in enumerate(named.to_dict("records")):  # on three heights: neighbours may lie close together
        place = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        note(ax, row["level"], (row[dose], 0), (0, 4 + 11 * (number % 3)), MUTED, **place)


def evidence_waterfall(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """How far pieces of evidence come: a bar for each engine and level, cut where they are lost.

    rows: of one system; engine, level, pieces, then the counts that are left after each stage, from "in the text" to "in the top".
    """
    stages = [name for name in STAGE_LABELS if name]
    rows = rows_for(rows, "evidence_waterfall", "engine level pieces")
    require_once(rows, "evidence_waterfall", ["engine", "level"])
    labels = [
        name if name == level else f"{name}, {level}" for name, level in zip(rows["engine"], rows["level"], strict=True)
    ]
    left = pd.DataFrame(0, index=rows.index, columns=["start"]).join(rows[stages]).join(rows[["pieces"]])
    shares = left.diff(axis=1).iloc[:, 1:].set_axis(list(STAGE_LABELS.values()), axis=1).div(rows["pieces"], axis=0)
    with theme():
        fig, ax = canvas(1.5 + ROW * len(rows))
        start = pd.Series(0.0, index=rows.index)
        for (name, share), colour in zip(shares.items(), COLOURS, strict=True):
            ax.barh(
                range(len(rows)),
                share,
                left=start,
                color=colour,
                height=0.66,
                label=name,
                edgecolor=PAPER,
                linewidth=0.6,
            )
            start = start + share
        for y, share in enumerate(shares.iloc[:, 0]):
            beside(ax, y, f"{share:.0%}", COLOURS[0])
        rows_axis(ax, labels, range(len(rows)))
        percent(ax.xaxis)
        ax.set_xlim(0, 1)
        ax.set_xlabel("share of the pieces of evidence")
        legend(fig, ax)
    texts = [", ".join(f"{share:.1%} {name}" for name, share in row.items()) for row in shares.to_dict("records")]
    said = listing(labels, texts, shares.iloc[:, 0])
    return Figure(fig, alt=alt or f"How far the pieces of evidence come. {said}.", caption=caption)
