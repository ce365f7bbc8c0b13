"""Figures of reranking: what depth gains, and what it costs over many questions."""

from __future__ import annotations

import pandas as pd

from localeval.figures import (
    Figure,
    band,
    canvas,
    errors,
    interval,
    legend,
    lines_of,
    listing,
    rows_for,
    theme,
    thousands,
)
from localeval.records import BadInput


def depth_curve(rows: pd.DataFrame, *, metric: str, caption: str, alt: str | None = None) -> Figure:
    """A metric and the latency, one above the other, against how many candidates are reranked.

    rows: depth, mean, low, high, mean_ms; with p50_ms and p95_ms the latency gets a band. system: one line each.
    """
    rows = rows_for(rows, "depth_curve", "depth mean low high mean_ms", metric=metric)
    lines = lines_of(rows, "depth_curve", "depth")
    depths = sorted(rows["depth"].unique())
    clocks: set[tuple] = set()
    apart = 0.012 * (depths[-1] - depths[0])  # so that the intervals of two systems do not hide each other
    with theme():
        fig, (top, bottom) = canvas(4.6, 2, sharex=True, gridspec_kw={"height_ratios": [3, 2]})
        for number, (_, line, style) in enumerate(lines):
            x = line["depth"] + apart * (number - (len(lines) - 1) / 2)
            top.errorbar(x, line["mean"], yerr=errors(line, "mean", "low", "high"), elinewidth=1.1, **style)
            if tuple(line["mean_ms"]) not in clocks:  # the same system under several rules has one clock
                bottom.plot(line["depth"], line["mean_ms"], **style)
                band(bottom, line, "depth", "p50_ms", "p95_ms", style["color"])
            clocks.add(tuple(line["mean_ms"]))
        top.set_ylabel(metric)
        bottom.set(ylabel="latency in ms", xlabel="candidates reranked", xticks=depths)
        bottom.set_ylim(bottom=0)
        thousands(bottom.yaxis)
        for ax in (top, bottom):
            ax.grid(axis="y")
        if len(lines) > 1:
            legend(fig, top)
    labels = [_point_name(row, "depth", "depth {:g}") for row in rows.to_dict("records")]
    said = interval(rows["mean"], rows["low"], rows["high"]) + [f" at {ms:,.3g} ms" for ms in rows["mean_ms"]]
    alt = alt or f"{metric} and latency by rerank depth. {listing(labels, said, rows['mean'])}."
    return Figure(fig, alt=alt, caption=caption)


def _point_name(row: dict, x: str, pattern: str) -> str:
    return f"{row['system']} {pattern.format(row[x])}" if "system" in row else pattern.format(row[x])


def amortised(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Seconds a question against how many questions are asked, both logarithmic: what is done once is shared by them all.

    rows: system, questions, seconds. kind: a column; lines of any kind but the first row's are dashed.
    """
    rows = rows_for(rows, "amortised", "questions seconds")
    lines = lines_of(rows, "amortised", "questions")
    if (rows[["questions", "seconds"]] <= 0).any(axis=None):
        raise BadInput("amortised: needs questions and seconds above 0")
    kind = rows["kind"].iloc[0] if "kind" in rows else None
    with theme():
        fig, ax = canvas(4.4)
        for number, (_, line, style) in enumerate(lines):
            dashed = kind is not None and line["kind"].iloc[0] != kind
            every = (3 * number % 10, 10)
            ax.plot(line["questions"], line["seconds"], linestyle="--" if dashed else "-", markevery=every, **style)
        ax.set(xscale="log", yscale="log", xlabel="questions asked", ylabel="seconds a question, embedding shared")
        thousands(ax.xaxis)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(True)
        if len(lines) > 1:
            legend(fig, ax)
    said = "; ".join(f"{name} {_ends(line)}" for name, line, _ in lines)
    return Figure(fig, alt=alt or f"Seconds a question against questions asked. {said}.", caption=caption)


def _ends(line: pd.DataFrame) -> str:
    first, last = line.iloc[0], line.iloc[-1]
    return (
        f"{first['seconds']:.3g} s at {first['questions']:,.0f} and {last['seconds']:.3g} s at {last['questions']:,.0f}"
    )
