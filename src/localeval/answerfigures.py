"""Figures of answers: risk against coverage, and the stages at which answers fall."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from localeval.figures import (
    COLOURS,
    MUTED,
    Figure,
    band,
    beside,
    canvas,
    legend,
    lines_of,
    percent,
    require_once,
    rows_axis,
    rows_for,
    theme,
)


def risk_coverage(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Risk among the answered questions against the share that is answered, as the threshold moves.

    rows: coverage and risk as shares of 1; low and high give the risk a band. system: one line each.
    """
    rows = rows_for(rows, "risk_coverage", "coverage risk").sort_values("coverage", kind="stable")
    lines = lines_of(rows, "risk_coverage", "coverage")
    with theme():
        fig, ax = canvas(3.6)
        for _, line, style in lines:
            ax.plot(line["coverage"], line["risk"], **style | ({"marker": ""} if len(line) > 25 else {}))
            band(ax, line, "coverage", "low", "high", style["color"])
        ax.set(xlabel="coverage: share of questions answered", ylabel="risk: share of answers without a hit")
        ax.set(xlim=(0, 1.02), ylim=(0, max(0.05, 1.08 * rows[["risk", *{"high"} & set(rows.columns)]].max(axis=None))))
        percent(ax.xaxis)
        percent(ax.yaxis)
        ax.grid(True)
        if len(lines) > 1:
            legend(fig, ax)
    said = "; ".join(f"{name or 'risk'} {_risk_text(line)}" for name, line, _ in lines)
    return Figure(fig, alt=alt or f"Risk against coverage. {said}.", caption=caption)


def _risk_text(line: pd.DataFrame) -> str:
    """Risk at the lowest, the middle and the highest coverage of a line."""
    points = line.iloc[sorted({0, len(line) // 2, len(line) - 1})]
    return ", ".join(f"{r:.1%} at coverage {c:.0%}" for c, r in zip(points["coverage"], points["risk"], strict=True))


def risk_panels(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Risk against coverage, a panel a system: its signal between random order and the oracle.

    rows: panel, line ("random order", "oracle" or the name of the signal), coverage, risk.
    """
    rows = rows_for(rows, "risk_panels", "panel line coverage risk")
    panels = list(rows.groupby("panel", sort=False))
    with theme():
        fig, axes = canvas(0.9 + 1.9 * len(panels), len(panels), sharex=True, sharey=True, squeeze=False)
        for ax, (name, part) in zip(axes[:, 0], panels, strict=True):
            for line, points in part.groupby("line", sort=False):
                style = BOUND_STYLES.get(line, {"color": COLOURS[0], "label": "its signal"})
                ax.plot(points["coverage"], points["risk"], marker="", **{"label": line} | style)
            ax.set_title(name)
            ax.set_ylabel("risk")
            ax.grid(True)
            percent(ax.yaxis)
        axes[-1, 0].set(xlabel="coverage: share of questions answered", xlim=(0, 1.02), ylim=(0, 1.04))
        percent(axes[-1, 0].xaxis)
        legend(fig, axes[0, 0])
    said = "; ".join(
        f"{name}, {line}: {_risk_text(points.sort_values('coverage', kind='stable'))}"
        for name, part in panels
        for line, points in part.groupby("line", sort=False)
    )
    return Figure(fig, alt=alt or f"Risk against coverage. {said}.", caption=caption)


BOUND_STYLES = {
    "random order": {"color": MUTED, "linestyle": (0, (2, 2)), "linewidth": 1.2},
    "oracle": {"color": COLOURS[2], "linestyle": (0, (6, 2)), "linewidth": 1.2},
}


def stage_bars(rows: pd.DataFrame, stages: Sequence[str], *, caption: str, alt: str | None = None) -> Figure:
    """How many questions are left after each stage, a panel an origin: bars with their counts.

    rows: origin, questions and a count for every stage.
    """
    rows = rows_for(rows, "stage_bars", f"origin questions {' '.join(name for name in stages if ' ' not in name)}")
    require_once(rows, "stage_bars", ["origin"])
    with theme():
        fig, axes = canvas(0.5 + len(rows) * (0.5 + 0.26 * len(stages)), len(rows), sharex=True, squeeze=False)
        for ax, row, colour in zip(axes[:, 0], rows.to_dict("records"), COLOURS * 2, strict=False):
            counts = [row[stage] for stage in stages]
            ax.barh(range(len(stages)), [count / row["questions"] for count in counts], color=colour, height=0.66)
            for y, count in enumerate(counts):
                beside(ax, y, f"{count:,}", colour)
            rows_axis(ax, list(stages), range(len(stages)))
            ax.set(title=f"{row['origin']}, {row['questions']:,} questions", xlim=(0, 1))
            percent(ax.xaxis)
        axes[-1, 0].set_xlabel("share of the answerable questions")
    said = "; ".join(
        f"{row['origin']}, of {row['questions']}: " + ", ".join(f"{stage} {row[stage]}" for stage in stages)
        for row in rows.to_dict("records")
    )
    return Figure(fig, alt=alt or f"Questions left after each stage. {said}.", caption=caption)
