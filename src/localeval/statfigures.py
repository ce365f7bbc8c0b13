"""Figures of the statistics: ranks that are not ruled out, and what the tests find."""

from __future__ import annotations

import pandas as pd

from localeval.figures import (
    COLOURS,
    GRID,
    MARKERS,
    MUTED,
    PAPER,
    Figure,
    band,
    beside,
    canvas,
    interval,
    legend,
    lines_of,
    listing,
    percent,
    require_once,
    rows_axis,
    rows_for,
    theme,
    vertical,
)


def rank_ranges(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """The ranks every system may have: a thin line for the range that is shown, a thick one for the ranks over resamples.

    rows: of `ranking.ranks`, best first: system, mean, rank, rank_low, rank_high, group, band_low, band_high.
    """
    rows = rows_for(rows, "rank_ranges", "system mean rank rank_low rank_high group band_low band_high")
    require_once(rows, "rank_ranges", ["system"])
    y = range(len(rows))
    with theme():
        fig, ax = canvas(1.2 + 0.235 * len(rows))
        ax.hlines(
            y,
            rows["rank_low"] - 0.35,
            rows["rank_high"] + 0.35,
            color=MUTED,
            linewidth=1.1,
            label="ranks not ruled out",
        )
        ax.hlines(
            y,
            rows["band_low"] - 0.3,
            rows["band_high"] + 0.3,
            color=COLOURS[0],
            linewidth=5,
            alpha=0.45,
            label="95 % of resamples",
        )
        ax.plot(
            rows["rank"],
            y,
            color=COLOURS[0],
            marker=MARKERS[0],
            linestyle="none",
            markeredgecolor=PAPER,
            label="observed",
        )
        for place, mean in zip(y, rows["mean"], strict=True):
            beside(ax, place, f"{mean:.3f}")
        rows_axis(ax, rows["system"].tolist(), y)
        for place in y[1:]:
            if rows["group"][place] != rows["group"][place - 1]:
                ax.axhline(place - 0.5, color=GRID, linewidth=1.2)
        ax.set_xlim(0.4, len(rows) + 0.6)
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        ax.set_xlabel("rank, one is best")
        legend(fig, ax)
    texts = [
        f"rank {row.rank}, range {row.rank_low} to {row.rank_high}, resamples {row.band_low} to {row.band_high}"
        for row in rows.itertuples()
    ]
    said = listing(rows["system"], texts, -rows["rank"])
    return Figure(fig, alt=alt or f"Ranks with their ranges. {said}.", caption=caption)


def power_curve(
    rows: pd.DataFrame, *, mde: float, caption: str, alpha: float = 0.05, promised: float = 0.8, alt: str | None = None
) -> Figure:
    """How often a true difference is found, against its size, a line a test with its Monte-Carlo band.

    rows: system (the test), effect, rate, low, high. mde: where to draw the minimum detectable effect; alpha, promised: the level of the
    test, and the power that the minimum detectable effect promises, as horizontal lines.
    """
    rows = rows_for(rows, "power_curve", "system effect rate low high")
    lines = lines_of(rows, "power_curve", "effect")
    with theme():
        fig, ax = canvas(3.6)
        for _, line, style in lines:
            ax.plot(line["effect"], line["rate"], **style)
            band(ax, line, "effect", "low", "high", style["color"])
        for height in (alpha, promised):
            ax.axhline(height, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)))
        vertical(ax, mde, MUTED, f"MDE {mde:.3f}", ha="center")
        ax.set(xlabel="true difference", ylabel="share of samples in which it is found", ylim=(0, 1.02))
        percent(ax.yaxis)
        ax.grid(True)
        legend(fig, ax)
    said = interval(rows["rate"], rows["low"], rows["high"])
    names = rows["system"] + rows["effect"].map(" at {:.3f}".format)
    start = f"Power against the true difference; minimum detectable effect {mde:.3f}. "
    return Figure(fig, alt=alt or f"{start}{listing(names, said, rows['rate'])}.", caption=caption)
