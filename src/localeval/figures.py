"""Figures for the pages: matplotlib drawings that follow the light or dark theme, with their numbers in words.

Everything here is deterministic: the same data gives the same bytes. Plotting libraries are imported when one is drawn.

The theme, what drawings share, and the figures of the sweep and of paired differences. Figures of one topic are in `pagefigures`,
`pricefigures`, `damagefigures`, `statfigures` and `answerfigures`.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from html import escape

import pandas as pd

from localeval.records import BadInput

DASH = "—"
# Colours are written into the SVG as these exact values, then replaced by the variables of book/assets/localeval.css.
# The series colours are Okabe and Ito's, some of them darkened to 4.5:1 against white; the dark theme has its own.
INK, MUTED, GRID, PAPER = "#0a0b0c", "#5a5b5c", "#dadbdc", "#fdfeff"
COLOURS = ("#0072b2", "#bf5000", "#00805a", "#a8558a", "#8f6400")
MARKERS = ("o", "s", "D", "^", "v")
FILLS = ("full", "none", "left", "right")  # of marks, once every colour was used
VARIABLES = {
    INK: "--pst-color-text-base",
    MUTED: "--pst-color-text-muted",
    GRID: "--le-grid",
    PAPER: "--pst-color-background",
    **{colour: f"--le-series-{number}" for number, colour in enumerate(COLOURS, 1)},
}
WIDTH = 5.8  # inches; drawn for a narrow column, so that the text stays readable on a phone and grows on a desk
ROW = 0.3  # inches
ALT_ROWS = 24


# Text


def heading(name) -> str:
    """A column, class or state name as people read it; a metric such as evidence_ndcg@10 keeps its name."""
    return str(name) if "@" in str(name) else str(name).replace("_", " ")


def require_text(kind: str, **texts: str) -> None:
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise BadInput(f"a {kind} needs {name}=...: say in words what it shows")


def interval(mean, low, high, spec: str = ".2f"):
    """`0.71 [0.62, 0.80]` for three numbers, or a Series of such texts for three Series. A mean of NaN gives a dash.

    >>> interval(0.7123, 0.62, 0.8)
    '0.71 [0.62, 0.80]'
    """
    if isinstance(mean, pd.Series):
        texts = [interval(*bounds, spec) for bounds in zip(mean, low, high, strict=True)]
        return pd.Series(texts, index=mean.index, dtype=object)
    if pd.isna(mean):
        return DASH
    if pd.isna(low) or pd.isna(high):
        return minus(format(mean, spec))
    return minus(f"{mean:{spec}} [{low:{spec}}, {high:{spec}}]")


def minus(text: str) -> str:
    """A true minus sign before digits, as wide as a plus."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


# Drawing


class Figure:
    """A matplotlib figure as inline SVG: themed by the page, named for screen readers, the same bytes each time.

    alt: what the picture says, with its numbers. caption: what a reader needs to understand it alone; shown below.
    """

    def __init__(self, fig, *, alt: str, caption: str):
        require_text("figure", alt=alt, caption=caption)
        self.alt, self.caption = " ".join(alt.split()), " ".join(caption.split())
        self.svg = _inline(_svg(fig), self.alt)

    def _repr_html_(self) -> str:
        return (
            '<figure class="le-own le-figure">\n'
            '<div class="le-scroll" role="group" tabindex="0" aria-label="Figure, scrolls sideways when wide">\n'
            f"{self.svg}\n</div>\n<figcaption>{escape(self.caption)}</figcaption>\n</figure>"
        )

    def __repr__(self) -> str:
        return f"[figure] {self.alt}"


def _rc() -> dict:
    ink = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
    lines = ("axes.edgecolor", "xtick.color", "ytick.color")
    none = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor", "legend.edgecolor")
    return {
        **dict.fromkeys(ink, INK),
        **dict.fromkeys(lines, MUTED),
        **dict.fromkeys(none, "none"),
        "svg.fonttype": "none",
        "svg.hashsalt": "localeval",
        "text.parse_math": False,  # a dollar in a name is a dollar
        "font.family": "DejaVu Sans",  # ships with matplotlib, so that layout does not depend on the machine
        "font.size": 9.5,
        "axes.titlesize": 10,
        "axes.labelsize": 9.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.7,
        "axes.grid": False,
        "axes.axisbelow": True,
        "axes.unicode_minus": True,
        "grid.color": GRID,
        "grid.linewidth": 0.7,
        "legend.frameon": False,
        "legend.fontsize": 9.5,
        "lines.linewidth": 1.6,
        "lines.markersize": 6,
        "axes.prop_cycle": _cycle(),
    }


def _cycle():
    from cycler import cycler

    return cycler(color=COLOURS) + cycler(marker=MARKERS)


@contextmanager
def theme():
    """Settings under which a figure is drawn so that `Figure` can theme it."""
    import matplotlib

    with matplotlib.rc_context(_rc()):
        yield


def _svg(fig) -> str:
    """SVG text of a figure. No date, no creator, ids from a fixed salt."""
    buffer = io.StringIO()
    with theme():
        unsigned = {"Date": None, "Creator": None}
        fig.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=0.04, metadata=unsigned)
    text = buffer.getvalue()
    return text[text.index("<svg") :].strip()


def _inline(svg: str, alt: str) -> str:
    """Makes a stand-alone SVG safe inside a page.

    Its style sheet would apply to the whole page, so it moves to the root element; its ids get a prefix taken from the
    content, so that two figures never share one; its colours and fonts become the page's.
    """
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*</defs>|\s+(?=\n)", "", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)  # a hundredth of a point is enough
    svg = re.sub(r"<g([^>]*)>((?:\s*<use [^>]*/>)+)", _share_style, svg)
    prefix = f"le-{hashlib.sha256((svg + alt).encode()).hexdigest()[:10]}-"
    svg = re.sub(r'(?<=[\s"]id=")|(?<=url\(#)|(?<=href="#)', prefix, svg)
    svg = re.sub(r"font-family: [^;\"]*|(?<=px )'DejaVu Sans'[^;\"]*", _page_font, svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable}, {colour})")
    svg = re.sub(r'\s(?:xmlns(?::xlink)?|version)="[^"]*"', "", svg)  # needed in a file, not in a page
    svg = svg.replace("xlink:href=", "href=")
    name = f'role="img" aria-label="{escape(alt)}" style="stroke-linejoin: round; stroke-linecap: butt"'
    return svg.replace("<svg", f"<svg {name}", 1)


def _share_style(match: re.Match) -> str:
    """Marks of one style name it once, on their group; with thousands of marks this is most of a figure's size."""
    styles = set(re.findall(r' style="[^"]*"', match[2]))
    if len(styles) != 1 or "style=" in match[1] or match[2].count("style=") != match[2].count("<use"):
        return match[0]
    (style,) = styles
    return f"<g{match[1]}{style}>{match[2].replace(style, '')}"


def _page_font(match: re.Match) -> str:
    family = "var(--pst-font-family-base, sans-serif)"
    return f"font-family: {family}" if match[0].startswith("font-family") else family


# Reading the frames


def rows_for(frame: pd.DataFrame, plot: str, columns: str, **chosen: str) -> pd.DataFrame:
    """The rows of a tidy frame that a plot shows. A chosen value filters its column where the frame has one."""
    for name, value in chosen.items():
        if name in frame.columns:
            frame = frame[frame[name] == value]
    missing = [name for name in columns.split() if name not in frame.columns]
    if missing:
        raise BadInput(f"{plot}: the frame has no column {missing[0]!r}; it needs {columns}")
    if frame.empty:
        wanted = ", ".join(f"{name} {value!r}" for name, value in chosen.items())
        raise BadInput(f"{plot}: no rows left{' for ' + wanted if wanted else ''}; check the names")
    return frame.reset_index(drop=True)


def require_once(frame: pd.DataFrame, plot: str, columns: list[str]) -> None:
    if frame.duplicated(columns).any():
        row = frame[frame.duplicated(columns)].iloc[0]
        named = " / ".join(str(row[name]) for name in columns)
        raise BadInput(f"{plot}: more than one row for {named}; filter the frame first")


def listing(labels: Iterable[str], texts: Iterable[str], values: Iterable[float]) -> str:
    """`a 0.71 [..]; b ...` for the alternative text; of many rows the three highest and the lowest."""
    said = list(zip(labels, texts, values, strict=True))
    if len(said) > ALT_ROWS:
        ranked = sorted((row for row in said if not pd.isna(row[2])), key=lambda row: -row[2])
        shown = [*ranked[:3], ranked[-1]] if ranked else []
        return f"{len(said)} rows; highest and lowest: " + "; ".join(f"{label} {text}" for label, text, _ in shown)
    return "; ".join(f"{label} {'not defined' if text == DASH else text}" for label, text, _ in said)


def canvas(height: float, rows: int = 1, **options):
    """Axes of a figure that no global state knows, so a cell shows it once."""
    from matplotlib.figure import Figure as Canvas

    fig = Canvas(figsize=(WIDTH, height), layout="constrained")
    fig.get_layout_engine().set(w_pad=0.02, h_pad=0.04, hspace=0.04)
    return fig, fig.subplots(rows, 1, **options)


def errors(frame: pd.DataFrame, middle: str, low: str, high: str) -> list:
    """Distances below and above, as matplotlib takes them; a bound that is not defined draws nothing."""
    return [(frame[middle] - frame[low]).clip(lower=0).fillna(0), (frame[high] - frame[middle]).clip(lower=0).fillna(0)]


def _dots(ax, rows: pd.DataFrame, y, colour: str, marker: str, label: str | None = None) -> None:
    """Means with their intervals, drawn along x."""
    style = {"color": colour, "marker": marker, "linestyle": "none", "elinewidth": 1.6, "markersize": 6.5}
    ax.errorbar(rows["mean"], y, xerr=errors(rows, "mean", "low", "high"), label=label, markeredgecolor=PAPER, **style)


def note(ax, text: str, point, offset, colour: str = INK, **options):
    """Small text at an offset in points from a point."""
    return ax.annotate(text, point, xytext=offset, textcoords="offset points", fontsize=9, color=colour, **options)


def beside(ax, y: float, text: str, colour: str = INK) -> None:
    """A value in the column to the right of the axes."""
    note(ax, text, (1, y), (8, 0), colour, xycoords=("axes fraction", "data"), va="center", annotation_clip=False)


def vertical(ax, x: float, colour: str, text: str = "", offset=(0, 4), **options) -> None:
    """A dashed line across the axes, with its name near the top."""
    ax.axvline(x, color=colour, linewidth=1.2, linestyle=(0, (4, 3)))
    if text:
        note(ax, text, (x, 1), offset, colour, xycoords=("data", "axes fraction"), **options)


def legend(fig, ax) -> None:
    """A legend above the axes, in as many columns as its longest name lets fit."""
    handles, labels = ax.get_legend_handles_labels()
    columns = min(3, max(1, 66 // (max(map(len, labels)) + 5)))
    rows = -(-len(labels) // columns)
    if rows > 4:  # the axes keep their height
        fig.set_figheight(fig.get_figheight() + 0.22 * (rows - 4))
    fig.legend(handles, labels, loc="outside upper left", ncols=columns, handletextpad=0.4, columnspacing=1.3)


def thousands(axis) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"))


def rows_axis(ax, labels: Sequence[str], positions: Sequence[float]) -> None:
    """Rows with their names to the left. Lines of a name are set one by one: a browser's fonts would not keep them aligned."""
    several = any("\n" in label for label in labels)
    ax.set_yticks(positions, [""] * len(labels) if several else labels)
    for label, y in zip(labels, positions, strict=True) if several else ():
        lines = label.split("\n")
        for number, line in enumerate(lines):
            offset = 6.5 * (len(lines) - 1 - 2 * number)
            place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center", "annotation_clip": False}
            note(ax, line, (0, y), (-8, offset), INK if not number else MUTED, **place)
    ax.set_ylim(max(positions) + 0.6, min(positions) - 0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="x")


# Plots


def forest(
    rows: pd.DataFrame,
    *,
    metric: str,
    caption: str,
    group: str | None = None,
    reference: float | None = None,
    label: str | None = None,
    alt: str | None = None,
) -> Figure:
    """Systems with their means and intervals, one line each, in the order of the frame.

    rows: system, mean, low, high. group: a column whose values make blocks, each under a heading. reference: where to
    draw a vertical line, 0 for differences. label: what the axis says, the metric by default.
    """
    rows = rows_for(rows, "forest", f"system mean low high {group or ''}", metric=metric)
    require_once(rows, "forest", ["system", group] if group else ["system"])
    blocks = list(rows.groupby(group, sort=False)) if group else [("", rows)]
    texts = interval(rows["mean"], rows["low"], rows["high"], ".2f" if reference is None else "+.3f")
    labels, positions, headings = [], [], []
    for name, block in blocks:
        if group:
            headings.append(len(labels))
            labels.append(str(name))
        positions.extend(range(len(labels), len(labels) + len(block)))
        labels.extend(block["system"])
    ordered = pd.concat([block for _, block in blocks])
    with theme():
        lines = 1 + max(text.count("\n") for text in labels)
        fig, ax = canvas(0.75 + ROW * len(labels) * (1 + lines) / 2)
        _dots(ax, ordered, positions, COLOURS[0], MARKERS[0])
        for y, text in zip(positions, texts[ordered.index], strict=True):
            beside(ax, y, text)
        if reference is not None:
            vertical(ax, reference, MUTED)
        rows_axis(ax, labels, range(len(labels)))
        for index in headings:
            ax.get_yticklabels()[index].set_fontweight("bold")
        ax.set_xlabel(label or metric)
    named = rows["system"].str.replace("\n", " ")
    named = named if not group else rows[group].astype(str) + " " + named
    alt = alt or f"Forest plot of {label or metric}, mean with interval. {listing(named, texts, rows['mean'])}."
    return Figure(fig, alt=alt, caption=caption)


def rules_side_by_side(
    summary: pd.DataFrame,
    metric: str,
    rules: Sequence[str],
    systems: Sequence[str],
    *,
    caption: str,
    alt: str | None = None,
) -> Figure:
    """The same hits under several scoring rules: per system one dot with its interval for each rule.

    summary: system, rule, metric, mean, low, high. A system without a value under a rule shows a dash there.
    """
    rules, systems = [str(rule) for rule in rules], list(systems)
    if not 1 <= len(rules) <= len(COLOURS):
        raise BadInput(f"rules_side_by_side: {len(rules)} rules; it shows 1 to {len(COLOURS)}")
    grid = _grid(summary, metric, rules, systems)
    step = min(0.26, 0.8 / len(rules))
    with theme():
        fig, ax = canvas(1.05 + len(systems) * (0.2 + 0.19 * len(rules)))
        for number, rule in enumerate(rules):
            part = grid[grid["rule"] == rule]
            y = [row + step * (number - (len(rules) - 1) / 2) for row in range(len(systems))]
            _dots(ax, part, y, COLOURS[number], MARKERS[number], rule)
            for position, text in zip(y, part["text"], strict=True):
                beside(ax, position, text, COLOURS[number])
        rows_axis(ax, systems, range(len(systems)))
        for row in range(1, len(systems)):
            ax.axhline(row - 0.5, color=GRID, linewidth=0.7)
        ax.set_xlabel(metric)
        legend(fig, ax)
    said = listing(grid["system"] + " " + grid["rule"], grid["text"], grid["mean"])
    alt = alt or f"{metric} of the same hits under {len(rules)} scoring rules. {said}."
    return Figure(fig, alt=alt, caption=caption)


def _grid(summary: pd.DataFrame, metric: str, rules: Sequence[str], systems: Sequence[str]) -> pd.DataFrame:
    """One row for every system and rule, in the order given, its interval as `text`; NaN where there is no value."""
    rows = rows_for(summary, "rules_side_by_side", "system rule mean low high", metric=metric)
    rows = rows.assign(rule=rows["rule"].astype(str))
    rows = rows[rows["rule"].isin(rules) & rows["system"].isin(systems)]
    require_once(rows, "rules_side_by_side", ["system", "rule"])
    for name, wanted in (("system", systems), ("rule", rules)):
        absent = [value for value in wanted if value not in set(rows[name])]
        if absent:
            raise BadInput(f"rules_side_by_side: no row of {metric!r} for {name} {absent[0]!r}")
    cells = pd.MultiIndex.from_product([systems, rules], names=["system", "rule"])
    grid = rows.set_index(["system", "rule"]).reindex(cells).reset_index()
    return grid.assign(text=interval(grid["mean"], grid["low"], grid["high"]))


def quality_vs_latency(
    rows: pd.DataFrame,
    *,
    metric: str,
    caption: str,
    budget_ms: float | None = None,
    alt: str | None = None,
) -> Figure:
    """What quality costs in time: mean latency on a log axis against mean quality, one point a system.

    rows: system, mean, low, high, mean_ms, p50_ms, p95_ms. engine: a column that gives the colour, past five the filling too.
    chunker: one that gives the shape. depth: one whose values are written at both ends of a line that then joins the points. The
    horizontal bar runs from P50 to P95; the mean may lie outside it. budget_ms: where to draw the latency budget.
    """
    rows = rows_for(rows, "quality_vs_latency", "system mean low high mean_ms p50_ms p95_ms", metric=metric)
    require_once(rows, "quality_vs_latency", ["system", "depth"] if "depth" in rows else ["system"])
    rows = rows.dropna(subset=["mean", "mean_ms"])
    if rows.empty or (rows[["mean_ms", "p50_ms"]] <= 0).any(axis=None):
        raise BadInput("quality_vs_latency: needs systems with a quality and a latency above 0 ms")
    groups = [name for name in ("engine", "chunker") if name in rows.columns] or ["system"]
    colour = dict(zip(rows[groups[0]].unique(), itertools.product(FILLS, COLOURS), strict=False))
    shape = dict(zip(rows[groups[-1]].unique(), itertools.cycle(MARKERS)))
    noted: list[tuple[dict, str]] = []
    with theme():
        fig, ax = canvas(4.2)
        for key, part in rows.groupby(groups, sort=False):
            (fill, own), marker = colour[key[0]], shape[key[-1]]
            ax.hlines(part["mean"], part["p50_ms"], part["p95_ms"], color=own, linewidth=1.4, alpha=0.7)
            ax.vlines(part["mean_ms"], part["low"], part["high"], color=own, linewidth=1, alpha=0.7)
            style = {"color": own, "marker": marker, "fillstyle": fill, "label": ", ".join(key)}
            style |= {"markeredgecolor": PAPER} if fill == "full" else {"markerfacecoloralt": PAPER}
            ax.plot(part["mean_ms"], part["mean"], linestyle="-" if "depth" in part else "", linewidth=1, **style)
            noted += (
                [(row, own) for row in part.to_dict("records")[:: max(1, len(part) - 1)]] if "depth" in part else []
            )
        _milliseconds(ax, rows, budget_ms)
        ax.set_xlabel("latency in milliseconds, log scale (dot: mean, bar: P50 to P95)")
        ax.set_ylabel(metric)
        ax.grid(True)
        ax.margins(y=0.12)
        legend(fig, ax)
        _apart(fig, ax, noted)
    said = interval(rows["mean"], rows["low"], rows["high"]) + _latency_text(rows)
    start = f"Scatter plot of {metric} against latency. "
    if budget_ms is not None:
        start += f"Budget {budget_ms:,.0f} ms. "
    names = rows["system"] + rows["depth"].map(" depth {:g}".format) if "depth" in rows else rows["system"]
    return Figure(fig, alt=alt or f"{start}{listing(names, said, rows['mean'])}.", caption=caption)


NOTE_PLACES = [
    (dx, dy) for dy in (5, -13, 15, -23, 25, -33) for dx in (4, -12, 14, -22)
]  # points beside a point, the nearest first


def _apart(fig, ax, noted: list[tuple[dict, str]]) -> None:
    """Depths at their points, each at the first place near it where it covers neither a point nor another number.

    One that finds none is left out: its value is in the description and in the table, and two numbers on one another are neither.
    """
    for _ in range(2):  # the layout settles with the second
        fig.canvas.draw()
    points = [tuple(ax.transData.transform((row["mean_ms"], row["mean"]))) for row, _ in noted]
    scale, taken = fig.dpi / 72, [_box(x, y, 8, 8, fig.dpi / 72) for x, y in points]
    inside = ax.get_window_extent()
    for (row, colour), (x, y) in zip(noted, points, strict=True):
        text = f"{row['depth']:g}"
        for dx, dy in NOTE_PLACES:
            box = _box(x + (dx + 3 * len(text)) * scale, y + (dy + 4.5) * scale, 6 * len(text), 9, scale)
            within = inside.x0 <= box[0] and box[2] <= inside.x1 and inside.y0 <= box[1] and box[3] <= inside.y1
            if within and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                note(ax, text, (row["mean_ms"], row["mean"]), (dx, dy), colour, ha="left", va="bottom")
                break


def _box(x: float, y: float, width: float, height: float, scale: float) -> tuple[float, float, float, float]:
    """Left, bottom, right, top in dots, around a middle; width and height in points."""
    return x - width * scale / 2, y - height * scale / 2, x + width * scale / 2, y + height * scale / 2


def _overlap(one: tuple, two: tuple) -> bool:
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def _latency_text(rows: pd.DataFrame) -> pd.Series:
    spans = zip(rows["mean_ms"], rows["p50_ms"], rows["p95_ms"], strict=True)
    return pd.Series([f" at {m:,.3g} ms (P50 {a:,.3g}, P95 {b:,.3g})" for m, a, b in spans], index=rows.index)


def _milliseconds(ax, rows: pd.DataFrame, budget_ms: float | None) -> None:
    """A log axis whose ticks read `1`, `10`, `1,000`, with a little room left and right."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_xscale("log")
    ends = [rows[["mean_ms", "p50_ms"]].min(axis=None), rows[["mean_ms", "p95_ms"]].max(axis=None)]
    if budget_ms is not None:
        ends = [min(ends[0], budget_ms), max(ends[1], budget_ms)]
        vertical(ax, budget_ms, COLOURS[1], f"budget {budget_ms:,.0f} ms", ha="center")
    room = max((ends[1] / ends[0]) ** 0.05, 1.15)
    ax.set_xlim(ends[0] / room, ends[1] * room)
    if ends[1] < 200 * ends[0]:  # too few powers of ten to read a value from
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    thousands(ax.xaxis)
    ax.xaxis.set_minor_formatter(NullFormatter())


def percent(axis) -> None:
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def lines_of(rows: pd.DataFrame, plot: str, x: str) -> list[tuple[str, pd.DataFrame, dict]]:
    """One `(name, rows, style)` a system, rows in order of x; a frame without systems is one unnamed line. No two styles are the same."""
    named = "system" in rows.columns
    require_once(rows, plot, ["system", x] if named else [x])
    lines = list(rows.groupby("system", sort=False)) if named else [("", rows)]
    if len(lines) > 2 * len(COLOURS):
        raise BadInput(f"{plot}: {len(lines)} systems; it shows up to {2 * len(COLOURS)}, filter the frame first")
    looks = zip(COLOURS * 2, MARKERS + MARKERS[1:] + MARKERS[:1], strict=True)
    return [
        (
            name,
            line.sort_values(x, kind="stable"),
            {"color": colour, "marker": marker, "markeredgecolor": PAPER, "label": name},
        )
        for (name, line), (colour, marker) in zip(lines, looks, strict=False)
    ]


def band(ax, line: pd.DataFrame, x: str, low: str, high: str, colour: str) -> None:
    """A shade between two columns, where the frame has both."""
    if {low, high} <= set(line.columns):
        ax.fill_between(line[x], line[low], line[high], color=colour, alpha=0.18, linewidth=0)


def histogram(
    values: Iterable[float],
    *,
    label: str,
    caption: str,
    bins: int = 20,
    marks: Mapping[str, float] | None = None,
    alt: str | None = None,
) -> Figure:
    """How values are spread. label: what they are, with their unit. marks: vertical lines by name. NaN is left out."""
    import seaborn

    values = pd.Series(list(values), dtype=float).dropna()
    if values.empty:
        raise BadInput("histogram: no defined value to show")
    with theme():
        fig, ax = canvas(3.0)
        seaborn.histplot(x=values, bins=bins, ax=ax, color=COLOURS[0], alpha=1, edgecolor=PAPER, linewidth=0.8)
        for row, (name, value) in enumerate((marks or {}).items()):
            vertical(ax, value, COLOURS[1], name, (4, -2 - 12 * row), va="top")
        ax.set(xlabel=label, ylabel=f"count (n = {len(values):,})")
        thousands(ax.xaxis)
        thousands(ax.yaxis)
        ax.grid(axis="y")
    low, lower, middle, upper, high = values.quantile([0, 0.25, 0.5, 0.75, 1])
    said = f"{len(values):,} values from {low:.3g} to {high:.3g}, median {middle:.3g}, "
    said += f"half of them in {lower:.3g} to {upper:.3g}"
    said += "".join(f"; {name} at {value:,.3g}" for name, value in (marks or {}).items())
    return Figure(fig, alt=alt or f"Histogram of {label}: {said}.", caption=caption)


def paired_forest(rows: pd.DataFrame, *, label: str, caption: str, alt: str | None = None) -> Figure:
    """Paired differences with their intervals, one below the other; names stand above their lines, so that these keep the whole width.

    rows: name, about (a second line, muted), mean, low, high; optional wide_low, wide_high, a second one, thin in the second colour.
    """
    rows = rows_for(rows, "paired_forest", "name about mean low high")
    y = [float(place) for place in range(len(rows))]
    with theme():
        fig, ax = canvas(0.9 + 0.62 * len(rows))
        vertical(ax, 0.0, MUTED)
        if {"wide_low", "wide_high"} <= set(rows.columns):
            known = rows["wide_low"].notna()
            for place, low, high in zip(
                rows.index[known], rows.loc[known, "wide_low"], rows.loc[known, "wide_high"], strict=True
            ):
                ax.hlines(place + 0.17, low, high, color=COLOURS[1], linewidth=1.4)
        _dots(ax, rows, y, COLOURS[0], MARKERS[0])
        for place, row in zip(y, rows.to_dict("records"), strict=True):
            where = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
            paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.6}
            note(ax, row["name"], (0, place), (0, 19), INK, ha="left", bbox=paper, **where)
            note(ax, row["about"], (0, place), (0, 8), MUTED, ha="left", **where)
            note(
                ax, interval(row["mean"], row["low"], row["high"], "+.3f"), (1, place), (0, 8), INK, ha="right", **where
            )
        ax.set_yticks([])
        ax.set_ylim(len(rows) - 0.55, -0.85)
        ax.spines["left"].set_visible(False)
        ax.grid(axis="x")
        ax.set_xlabel(label)
    texts = interval(rows["mean"], rows["low"], rows["high"], "+.3f")
    said = listing(rows["name"] + " (" + rows["about"] + ")", texts, rows["mean"])
    return Figure(fig, alt=alt or f"Forest plot of {label}, mean with interval. {said}.", caption=caption)
