"""Figures for the pages: matplotlib drawings that follow the light or dark theme, with their numbers in words.

Everything here is deterministic: the same data gives the same bytes. Plotting libraries are imported when one is drawn.
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


def _rows(frame: pd.DataFrame, plot: str, columns: str, **chosen: str) -> pd.DataFrame:
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


def _once(frame: pd.DataFrame, plot: str, columns: list[str]) -> None:
    if frame.duplicated(columns).any():
        row = frame[frame.duplicated(columns)].iloc[0]
        named = " / ".join(str(row[name]) for name in columns)
        raise BadInput(f"{plot}: more than one row for {named}; filter the frame first")


def _listing(labels: Iterable[str], texts: Iterable[str], values: Iterable[float]) -> str:
    """`a 0.71 [..]; b ...` for the alternative text; of many rows the three highest and the lowest."""
    said = list(zip(labels, texts, values, strict=True))
    if len(said) > ALT_ROWS:
        ranked = sorted((row for row in said if not pd.isna(row[2])), key=lambda row: -row[2])
        shown = [*ranked[:3], ranked[-1]] if ranked else []
        return f"{len(said)} rows; highest and lowest: " + "; ".join(f"{label} {text}" for label, text, _ in shown)
    return "; ".join(f"{label} {'not defined' if text == DASH else text}" for label, text, _ in said)


def _canvas(height: float, rows: int = 1, **options):
    """Axes of a figure that no global state knows, so a cell shows it once."""
    from matplotlib.figure import Figure as Canvas

    fig = Canvas(figsize=(WIDTH, height), layout="constrained")
    fig.get_layout_engine().set(w_pad=0.02, h_pad=0.04, hspace=0.04)
    return fig, fig.subplots(rows, 1, **options)


def _errors(frame: pd.DataFrame, middle: str, low: str, high: str) -> list:
    """Distances below and above, as matplotlib takes them; a bound that is not defined draws nothing."""
    return [(frame[middle] - frame[low]).clip(lower=0).fillna(0), (frame[high] - frame[middle]).clip(lower=0).fillna(0)]


def _dots(ax, rows: pd.DataFrame, y, colour: str, marker: str, label: str | None = None) -> None:
    """Means with their intervals, drawn along x."""
    style = {"color": colour, "marker": marker, "linestyle": "none", "elinewidth": 1.6, "markersize": 6.5}
    ax.errorbar(rows["mean"], y, xerr=_errors(rows, "mean", "low", "high"), label=label, markeredgecolor=PAPER, **style)


def _note(ax, text: str, point, offset, colour: str = INK, **options):
    """Small text at an offset in points from a point."""
    return ax.annotate(text, point, xytext=offset, textcoords="offset points", fontsize=9, color=colour, **options)


def _beside(ax, y: float, text: str, colour: str = INK) -> None:
    """A value in the column to the right of the axes."""
    _note(ax, text, (1, y), (8, 0), colour, xycoords=("axes fraction", "data"), va="center", annotation_clip=False)


def _vertical(ax, x: float, colour: str, text: str = "", offset=(0, 4), **options) -> None:
    """A dashed line across the axes, with its name near the top."""
    ax.axvline(x, color=colour, linewidth=1.2, linestyle=(0, (4, 3)))
    if text:
        _note(ax, text, (x, 1), offset, colour, xycoords=("data", "axes fraction"), **options)


def _legend(fig, ax) -> None:
    """A legend above the axes, in as many columns as its longest name lets fit."""
    handles, labels = ax.get_legend_handles_labels()
    columns = min(3, max(1, 66 // (max(map(len, labels)) + 5)))
    fig.legend(handles, labels, loc="outside upper left", ncols=columns, handletextpad=0.4, columnspacing=1.3)


def _thousands(axis) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"))


def _rows_axis(ax, labels: Sequence[str], positions: Sequence[float]) -> None:
    """Rows with their names to the left. Lines of a name are set one by one: a browser's fonts would not keep them aligned."""
    several = any("\n" in label for label in labels)
    ax.set_yticks(positions, [""] * len(labels) if several else labels)
    for label, y in zip(labels, positions, strict=True) if several else ():
        lines = label.split("\n")
        for number, line in enumerate(lines):
            offset = 6.5 * (len(lines) - 1 - 2 * number)
            place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center", "annotation_clip": False}
            _note(ax, line, (0, y), (-8, offset), INK if not number else MUTED, **place)
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
    rows = _rows(rows, "forest", f"system mean low high {group or ''}", metric=metric)
    _once(rows, "forest", ["system", group] if group else ["system"])
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
        fig, ax = _canvas(0.75 + ROW * len(labels) * (1 + lines) / 2)
        _dots(ax, ordered, positions, COLOURS[0], MARKERS[0])
        for y, text in zip(positions, texts[ordered.index], strict=True):
            _beside(ax, y, text)
        if reference is not None:
            _vertical(ax, reference, MUTED)
        _rows_axis(ax, labels, range(len(labels)))
        for index in headings:
            ax.get_yticklabels()[index].set_fontweight("bold")
        ax.set_xlabel(label or metric)
    named = rows["system"].str.replace("\n", " ")
    named = named if not group else rows[group].astype(str) + " " + named
    alt = alt or f"Forest plot of {label or metric}, mean with interval. {_listing(named, texts, rows['mean'])}."
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
        fig, ax = _canvas(1.05 + len(systems) * (0.2 + 0.19 * len(rules)))
        for number, rule in enumerate(rules):
            part = grid[grid["rule"] == rule]
            y = [row + step * (number - (len(rules) - 1) / 2) for row in range(len(systems))]
            _dots(ax, part, y, COLOURS[number], MARKERS[number], rule)
            for position, text in zip(y, part["text"], strict=True):
                _beside(ax, position, text, COLOURS[number])
        _rows_axis(ax, systems, range(len(systems)))
        for row in range(1, len(systems)):
            ax.axhline(row - 0.5, color=GRID, linewidth=0.7)
        ax.set_xlabel(metric)
        _legend(fig, ax)
    said = _listing(grid["system"] + " " + grid["rule"], grid["text"], grid["mean"])
    alt = alt or f"{metric} of the same hits under {len(rules)} scoring rules. {said}."
    return Figure(fig, alt=alt, caption=caption)


def _grid(summary: pd.DataFrame, metric: str, rules: Sequence[str], systems: Sequence[str]) -> pd.DataFrame:
    """One row for every system and rule, in the order given, its interval as `text`; NaN where there is no value."""
    rows = _rows(summary, "rules_side_by_side", "system rule mean low high", metric=metric)
    rows = rows.assign(rule=rows["rule"].astype(str))
    rows = rows[rows["rule"].isin(rules) & rows["system"].isin(systems)]
    _once(rows, "rules_side_by_side", ["system", "rule"])
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

    rows: system, mean, low, high, mean_ms, p50_ms, p95_ms. engine: a column that gives the colour. chunker: one that gives the
    shape. depth: one whose values are written at both ends of a line that then joins the points. The horizontal bar runs from
    P50 to P95; the mean may lie outside it. budget_ms: where to draw the latency budget.
    """
    rows = _rows(rows, "quality_vs_latency", "system mean low high mean_ms p50_ms p95_ms", metric=metric)
    _once(rows, "quality_vs_latency", ["system", "depth"] if "depth" in rows else ["system"])
    rows = rows.dropna(subset=["mean", "mean_ms"])
    if rows.empty or (rows[["mean_ms", "p50_ms"]] <= 0).any(axis=None):
        raise BadInput("quality_vs_latency: needs systems with a quality and a latency above 0 ms")
    groups = [name for name in ("engine", "chunker") if name in rows.columns] or ["system"]
    colour = dict(zip(rows[groups[0]].unique(), itertools.cycle(COLOURS)))
    shape = dict(zip(rows[groups[-1]].unique(), itertools.cycle(MARKERS)))
    noted: list[tuple[dict, str]] = []
    with theme():
        fig, ax = _canvas(4.2)
        for key, part in rows.groupby(groups, sort=False):
            own, marker = colour[key[0]], shape[key[-1]]
            ax.hlines(part["mean"], part["p50_ms"], part["p95_ms"], color=own, linewidth=1.4, alpha=0.7)
            ax.vlines(part["mean_ms"], part["low"], part["high"], color=own, linewidth=1, alpha=0.7)
            style = {"color": own, "marker": marker, "markeredgecolor": PAPER, "label": ", ".join(key)}
            ax.plot(part["mean_ms"], part["mean"], linestyle="-" if "depth" in part else "", linewidth=1, **style)
            noted += (
                [(row, own) for row in part.to_dict("records")[:: max(1, len(part) - 1)]] if "depth" in part else []
            )
        _milliseconds(ax, rows, budget_ms)
        ax.set_xlabel("latency in milliseconds, log scale (dot: mean, bar: P50 to P95)")
        ax.set_ylabel(metric)
        ax.grid(True)
        ax.margins(y=0.12)
        _legend(fig, ax)
        _apart(fig, ax, noted)
    said = interval(rows["mean"], rows["low"], rows["high"]) + _latency_text(rows)
    start = f"Scatter plot of {metric} against latency. "
    if budget_ms is not None:
        start += f"Budget {budget_ms:,.0f} ms. "
    names = rows["system"] + rows["depth"].map(" depth {:g}".format) if "depth" in rows else rows["system"]
    return Figure(fig, alt=alt or f"{start}{_listing(names, said, rows['mean'])}.", caption=caption)


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
                _note(ax, text, (row["mean_ms"], row["mean"]), (dx, dy), colour, ha="left", va="bottom")
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
        _vertical(ax, budget_ms, COLOURS[1], f"budget {budget_ms:,.0f} ms", ha="center")
    room = max((ends[1] / ends[0]) ** 0.05, 1.15)
    ax.set_xlim(ends[0] / room, ends[1] * room)
    if ends[1] < 200 * ends[0]:  # too few powers of ten to read a value from
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    _thousands(ax.xaxis)
    ax.xaxis.set_minor_formatter(NullFormatter())


def page_classes(pages: pd.DataFrame, documents: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Page classes over all pages, and document verdicts over all documents: two denominators, each written out.

    pages: doc_id, page_index, class. documents: doc_id, verdict. A categorical column also shows its empty classes.
    """
    pages = _rows(pages, "page_classes", "doc_id page_index class")
    documents = _rows(documents, "page_classes", "doc_id verdict")
    counts = [_counts(pages["class"]), _counts(documents["verdict"])]
    with theme():
        ratios = [len(count) + 0.6 for count in counts]
        height = 1.3 + ROW * sum(map(len, counts))
        fig, axes = _canvas(height, 2, sharex=True, gridspec_kw={"height_ratios": ratios})
        for ax, count, what, colour in zip(axes, counts, ("pages", "documents"), COLOURS, strict=False):
            ax.barh(range(len(count)), count / count.sum(), color=colour, height=0.62)
            for y, value in enumerate(count):
                _beside(ax, y, _share_text(value, count.sum()))
            _rows_axis(ax, [heading(name) for name in count.index], range(len(count)))
            ax.set_title(f"{count.sum():,} {what}")
        _percent(axes[1].xaxis)
        axes[1].set_xlim(0, 1)
        axes[1].set_xlabel("share of its own total")
    said = [_listing(map(heading, c.index), [_share_text(v, c.sum()) for v in c], c) for c in counts]
    alt = alt or f"Two bar charts. Page classes: {said[0]}. Document verdicts: {said[1]}."
    return Figure(fig, alt=alt, caption=caption)


def _counts(column: pd.Series) -> pd.Series:
    """How often each value occurs; categories keep their order, other values go by count, then name."""
    count = column.value_counts(sort=False)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return count.reindex(column.cat.categories)
    order = sorted(count.index, key=lambda name: (-count[name], str(name)))
    return count.reindex(order)


def _share_text(value: int, total: int) -> str:
    return f"{value:,} of {total:,} ({value / total:.1%})"


def _percent(axis) -> None:
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def quality_strip(pages: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Quality of every page by document, over the document's quartiles; colour and marker name the page class.

    pages: doc_id, page_index, class, quality. Within a row, pages lie from top to bottom in reading order, so that a
    bad run of pages shows as one; documents go from the lowest median to the highest.
    """
    pages = _rows(pages, "quality_strip", "doc_id page_index class quality").dropna(subset=["quality"])
    medians = pages.groupby("doc_id")["quality"].median().sort_index().sort_values(kind="stable")
    order = {doc_id: row for row, doc_id in enumerate(medians.index)}
    place = pages.groupby("doc_id")["page_index"].rank(method="first", pct=True) - 0.5
    classes = [name for name, count in _counts(pages["class"]).items() if count]
    if len(classes) > len(COLOURS):
        raise BadInput(f"quality_strip: {len(classes)} page classes; it shows up to {len(COLOURS)}")
    with theme():
        fig, ax = _canvas(1.2 + 0.42 * len(order))
        thin = {"color": MUTED, "linewidth": 0.9, "alpha": 0.55}
        lines = {f"{part}props": thin for part in ("box", "whisker", "cap", "median")}
        values = [pages.loc[pages["doc_id"] == doc_id, "quality"].to_numpy() for doc_id in order]
        ax.boxplot(values, positions=range(len(order)), orientation="horizontal", widths=0.86, whis=(0, 100), **lines)
        small = {"linestyle": "none", "markersize": 4.5, "markeredgecolor": PAPER, "markeredgewidth": 0.4}
        for name, colour, marker in zip(classes, COLOURS, MARKERS, strict=False):
            part = pages[pages["class"] == name]
            y = part["doc_id"].map(order) + 0.62 * place[part.index]
            ax.plot(part["quality"], y, marker=marker, color=colour, label=heading(name), **small)
        _rows_axis(ax, list(order), range(len(order)))
        ax.set_xlabel("page quality")
        ax.set_xlim(min(0, pages["quality"].min()), max(1.02, pages["quality"].max()))
        _legend(fig, ax)
    sizes = pages.groupby("doc_id").size()[medians.index]
    texts = [f"median {median:.2f} over {n:,} pages" for median, n in zip(medians, sizes, strict=True)]
    alt = alt or f"Page quality by document. {_listing(medians.index, texts, medians)}."
    return Figure(fig, alt=alt, caption=caption)


def depth_curve(rows: pd.DataFrame, *, metric: str, caption: str, alt: str | None = None) -> Figure:
    """A metric and the latency, one above the other, against how many candidates are reranked.

    rows: depth, mean, low, high, mean_ms; with p50_ms and p95_ms the latency gets a band. system: one line each.
    """
    rows = _rows(rows, "depth_curve", "depth mean low high mean_ms", metric=metric)
    lines = _lines(rows, "depth_curve", "depth")
    depths = sorted(rows["depth"].unique())
    clocks: set[tuple] = set()
    apart = 0.012 * (depths[-1] - depths[0])  # so that the intervals of two systems do not hide each other
    with theme():
        fig, (top, bottom) = _canvas(4.6, 2, sharex=True, gridspec_kw={"height_ratios": [3, 2]})
        for number, ((name, line), colour, marker) in enumerate(
            zip(lines, COLOURS * 2, MARKERS + MARKERS[1:] + MARKERS[:1], strict=False)
        ):
            style = {"color": colour, "marker": marker, "markeredgecolor": PAPER, "label": name}
            x = line["depth"] + apart * (number - (len(lines) - 1) / 2)
            top.errorbar(x, line["mean"], yerr=_errors(line, "mean", "low", "high"), elinewidth=1.1, **style)
            if tuple(line["mean_ms"]) not in clocks:  # the same system under several rules has one clock
                bottom.plot(line["depth"], line["mean_ms"], **style)
                _band(bottom, line, "depth", "p50_ms", "p95_ms", colour)
            clocks.add(tuple(line["mean_ms"]))
        top.set_ylabel(metric)
        bottom.set(ylabel="latency in ms", xlabel="candidates reranked", xticks=depths)
        bottom.set_ylim(bottom=0)
        _thousands(bottom.yaxis)
        for ax in (top, bottom):
            ax.grid(axis="y")
        if len(lines) > 1:
            _legend(fig, top)
    labels = [_point_name(row, "depth", "depth {:g}") for row in rows.to_dict("records")]
    said = interval(rows["mean"], rows["low"], rows["high"]) + [f" at {ms:,.3g} ms" for ms in rows["mean_ms"]]
    alt = alt or f"{metric} and latency by rerank depth. {_listing(labels, said, rows['mean'])}."
    return Figure(fig, alt=alt, caption=caption)


def risk_coverage(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Risk among the answered questions against the share that is answered, as the threshold moves.

    rows: coverage and risk as shares of 1; low and high give the risk a band. system: one line each.
    """
    rows = _rows(rows, "risk_coverage", "coverage risk").sort_values("coverage", kind="stable")
    lines = _lines(rows, "risk_coverage", "coverage")
    with theme():
        fig, ax = _canvas(3.6)
        for (name, line), colour, marker in zip(lines, COLOURS * 2, MARKERS + MARKERS[1:] + MARKERS[:1], strict=False):
            few = marker if len(line) <= 25 else ""
            ax.plot(line["coverage"], line["risk"], color=colour, marker=few, markeredgecolor=PAPER, label=name)
            _band(ax, line, "coverage", "low", "high", colour)
        ax.set(xlabel="coverage: share of questions answered", ylabel="risk: share of answers without a hit")
        ax.set(xlim=(0, 1.02), ylim=(0, max(0.05, 1.08 * rows[["risk", *{"high"} & set(rows.columns)]].max(axis=None))))
        _percent(ax.xaxis)
        _percent(ax.yaxis)
        ax.grid(True)
        if len(lines) > 1:
            _legend(fig, ax)
    said = "; ".join(f"{name or 'risk'} {_risk_text(line)}" for name, line in lines)
    return Figure(fig, alt=alt or f"Risk against coverage. {said}.", caption=caption)


def _risk_text(line: pd.DataFrame) -> str:
    """Risk at the lowest, the middle and the highest coverage of a line."""
    points = line.iloc[sorted({0, len(line) // 2, len(line) - 1})]
    return ", ".join(f"{r:.1%} at coverage {c:.0%}" for c, r in zip(points["coverage"], points["risk"], strict=True))


def _lines(rows: pd.DataFrame, plot: str, x: str) -> list[tuple[str, pd.DataFrame]]:
    """One `(name, rows)` a system, in order of x; a frame without systems is one unnamed line."""
    named = "system" in rows.columns
    _once(rows, plot, ["system", x] if named else [x])
    lines = list(rows.groupby("system", sort=False)) if named else [("", rows)]
    if len(lines) > 2 * len(COLOURS):
        raise BadInput(f"{plot}: {len(lines)} systems; it shows up to {2 * len(COLOURS)}, filter the frame first")
    return [(name, line.sort_values(x, kind="stable")) for name, line in lines]


def _band(ax, line: pd.DataFrame, x: str, low: str, high: str, colour: str) -> None:
    """A shade between two columns, where the frame has both."""
    if {low, high} <= set(line.columns):
        ax.fill_between(line[x], line[low], line[high], color=colour, alpha=0.18, linewidth=0)


def _point_name(row: dict, x: str, pattern: str) -> str:
    return f"{row['system']} {pattern.format(row[x])}" if "system" in row else pattern.format(row[x])


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
        fig, ax = _canvas(3.0)
        seaborn.histplot(x=values, bins=bins, ax=ax, color=COLOURS[0], alpha=1, edgecolor=PAPER, linewidth=0.8)
        for row, (name, value) in enumerate((marks or {}).items()):
            _vertical(ax, value, COLOURS[1], name, (4, -2 - 12 * row), va="top")
        ax.set(xlabel=label, ylabel=f"count (n = {len(values):,})")
        _thousands(ax.xaxis)
        _thousands(ax.yaxis)
        ax.grid(axis="y")
    low, lower, middle, upper, high = values.quantile([0, 0.25, 0.5, 0.75, 1])
    said = f"{len(values):,} values from {low:.3g} to {high:.3g}, median {middle:.3g}, "
    said += f"half of them in {lower:.3g} to {upper:.3g}"
    said += "".join(f"; {name} at {value:,.3g}" for name, value in (marks or {}).items())
    return Figure(fig, alt=alt or f"Histogram of {label}: {said}.", caption=caption)


# Calibration: labels against rules, the margin, the gate


def confusion(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Labels against what the rules said, one panel a view: the count in each cell, shaded by its share of the label.

    rows: view, label, said, hits, n. A label's row adds up to its n.
    """
    rows = _rows(rows, "confusion", "view label said hits n")
    _once(rows, "confusion", ["view", "label", "said"])
    views, labels, answers = (list(rows[name].unique()) for name in ("view", "label", "said"))
    with theme():
        fig, axes = _canvas(0.9 + len(views) * (0.4 + 0.36 * len(labels)), len(views), squeeze=False)
        for ax, view in zip(axes[:, 0], views, strict=True):
            for cell in rows[rows["view"] == view].to_dict("records"):
                _cell(ax, answers.index(cell["said"]), labels.index(cell["label"]), cell)
            sizes = rows[rows["view"] == view].groupby("label")["n"].first()
            _rows_axis(ax, [f"{heading(name)} ({sizes.get(name, 0):,})" for name in labels], range(len(labels)))
            ax.set(title=view, xlim=(-0.5, len(answers) - 0.5), xticks=[])
            ax.spines["bottom"].set_visible(False)
        _words_below(axes[-1, 0], answers)
    told = [f"{row.label} said to be {row.said}: {row.hits:,} of {row.n:,}" for row in rows.itertuples() if row.hits]
    count = [
        f"{view}: "
        + "; ".join(text for text, v in zip(told, rows.loc[rows["hits"] > 0, "view"], strict=True) if v == view)
        for view in views
    ]
    return Figure(fig, alt=alt or f"Labels against the classes of the rules. {'. '.join(count)}.", caption=caption)


def _cell(ax, x: int, y: int, cell: dict) -> None:
    """One cell of a confusion matrix; those on which label and answer agree have a border."""
    from matplotlib.patches import Rectangle

    share, agrees = cell["hits"] / max(1, cell["n"]), cell["said"] == cell["label"]
    place = {"xy": (x - 0.47, y - 0.45), "width": 0.94, "height": 0.9}
    ax.add_patch(Rectangle(**place, facecolor=COLOURS[0] if agrees else COLOURS[1], alpha=0.4 * share, linewidth=0))
    ax.add_patch(Rectangle(**place, fill=False, edgecolor=INK if agrees else GRID, linewidth=1.0))
    ax.text(x, y, f"{cell['hits']:,}", ha="center", va="center", color=INK if cell["hits"] else MUTED)


def _words_below(ax, names: Sequence[str]) -> None:
    """Names below columns, a word a line."""
    for x, name in enumerate(names):
        for row, word in enumerate(heading(name).split()):
            where = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top", "annotation_clip": False}
            _note(ax, word, (x, 0), (0, -4 - 11 * row), **where)


def margin(documents: pd.DataFrame, *, cut: float, caption: str, alt: str | None = None) -> Figure:
    """Mean quality of every document by label, one row a view and label: do the two kinds stand apart?

    documents: view, doc_id, label, mean_quality. cut: where to draw the guard.
    """
    documents = _rows(documents, "margin", "view doc_id label mean_quality").dropna(subset=["mean_quality"])
    groups = list(documents.groupby(["view", "label"], sort=False))
    labels = sorted(documents["label"].unique())
    with theme():
        fig, ax = _canvas(1.0 + 0.55 * len(groups))
        for row, ((_, label), part) in enumerate(groups):
            kind = labels.index(label)
            spread = part["mean_quality"].rank(method="first").sub(1).mod(5).sub(2) * 0.09  # equal values stay apart
            style = {"color": COLOURS[kind], "marker": MARKERS[kind], "linestyle": "none", "markersize": 5}
            ax.plot(part["mean_quality"], row + spread, markeredgecolor=PAPER, markeredgewidth=0.4, **style)
            _beside(ax, row, f"{part['mean_quality'].min():.3f} to {part['mean_quality'].max():.3f}", COLOURS[kind])
        _vertical(ax, cut, MUTED, f"guard {cut:.2f}", ha="center")
        _rows_axis(
            ax, [f"{heading(label)} ({len(part):,})\n{view}" for (view, label), part in groups], range(len(groups))
        )
        ax.set_xlabel("mean page quality of a document")
    said = [
        f"{view}, {len(part)} {label}: {part['mean_quality'].min():.3f} to {part['mean_quality'].max():.3f}"
        for (view, label), part in groups
    ]
    alt = alt or f"Mean quality of documents by label, guard at {cut:.2f}. {'; '.join(said)}."
    return Figure(fig, alt=alt, caption=caption)


def gate_curves(rows: pd.DataFrame, *, at: dict[str, float], caption: str, alt: str | None = None) -> Figure:
    """What a gate misses and what it triggers in vain at every threshold, one panel an engine and score, with bands.

    rows: engine, score, threshold, missed, missed_low, missed_high, false, false_low, false_high. at: the threshold in use of each score.
    """
    rows = _rows(rows, "gate_curves", "engine score threshold missed missed_low missed_high false false_low false_high")
    rows = rows.assign(panel=rows["score"].map(heading) + ", pages read by " + rows["engine"].astype(str))
    panels = list(rows.groupby("panel", sort=False))
    kinds = (("missed", "missed: bad pages left as they are"), ("false", "in vain: good pages read again"))
    with theme():
        fig, axes = _canvas(0.8 + 2.1 * len(panels), len(panels), sharex=True, squeeze=False)
        for ax, (name, line) in zip(axes[:, 0], panels, strict=True):
            line = line.sort_values("threshold", kind="stable")
            for (kind, label), colour, dash in zip(kinds, COLOURS, ("-", (0, (6, 2))), strict=False):
                ax.step(
                    line["threshold"], line[kind], where="pre", color=colour, linestyle=dash, label=label, marker=""
                )
                low, high = line[f"{kind}_low"], line[f"{kind}_high"]
                ax.fill_between(line["threshold"], low, high, step="pre", color=colour, alpha=0.16, linewidth=0)
            used = at[line["score"].iloc[0]]
            _vertical(ax, used, MUTED, f"{used:.2f}", ha="center")
            ax.set_title(name, pad=15)
            ax.set(ylim=(-0.03, 1.03), xlim=(0, 1.02), ylabel="share")
            _percent(ax.yaxis)
            ax.grid(axis="y")
        axes[-1, 0].set_xlabel("threshold: pages below it are read again")
        _legend(fig, axes[0, 0])
    said = "; ".join(_gate_text(name, line, at[line["score"].iloc[0]]) for name, line in panels)
    return Figure(fig, alt=alt or f"Missed and needless OCR against the threshold. {said}.", caption=caption)


def _gate_text(name: str, line: pd.DataFrame, at: float) -> str:
    """A score's shares at the threshold in use, and the threshold at which their sum is least."""
    line = line.sort_values("threshold", kind="stable")
    used = line[line["threshold"] >= at].iloc[:1] if (line["threshold"] >= at).any() else line.iloc[-1:]
    least = line.loc[(line["missed"] + line["false"]).idxmin()]
    text = f"{name}: at {at:.2f} {used['missed'].item():.0%} missed, {used['false'].item():.0%} in vain"
    return text + f"; best at {least['threshold']:.2f} with {least['missed']:.0%} missed, {least['false']:.0%} in vain"


# Damage: what becomes of answers when pages are read from bad scans

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
    points = _rows(points, "dose_response", f"system engine level mean low high {dose}")
    _once(points, "dose_response", ["system", "engine", "level"])
    engines = [name for name in dict.fromkeys(points["engine"]) if name != "source"] or ["source"]
    systems = list(dict.fromkeys(points["system"]))
    if len(systems) > len(COLOURS):
        raise BadInput(f"dose_response: {len(systems)} systems; it shows up to {len(COLOURS)}, filter the frame first")
    wide = points[dose].max() - points[dose].min()
    with theme():
        fig, axes = _canvas(1.1 + 2.5 * len(engines), len(engines), sharex=True, sharey=True, squeeze=False)
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
        _legend(fig, axes[0, 0])
    names = points["system"] + " " + points["engine"] + " " + points["level"] + points[dose].map(" at {:.2f}".format)
    said = _listing(names, interval(points["mean"], points["low"], points["high"]), points["mean"])
    return Figure(fig, alt=alt or f"{metric} against {label}. {said}.", caption=caption)


def _dose_lines(ax, part: pd.DataFrame, systems: Sequence[str], dose: str, apart: float) -> None:
    """One line a system, moved aside a little so that intervals do not hide one another; levels named at the first line."""
    for number, (system, colour, marker) in enumerate(zip(systems, COLOURS, MARKERS, strict=False)):
        line = part[part["system"] == system].sort_values(dose)
        style = {"color": colour, "marker": marker, "markeredgecolor": PAPER, "label": system, "elinewidth": 1.1}
        x = line[dose] + apart * (number - (len(systems) - 1) / 2)
        ax.errorbar(x, line["mean"], yerr=_errors(line, "mean", "low", "high"), **style)
    named = part[part["system"] == systems[0]].sort_values(dose)
    for number, row in enumerate(named.to_dict("records")):  # on two heights: neighbours may lie close together
        place = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        _note(ax, row["level"], (row[dose], 0), (0, 4 + 11 * (number % 2)), MUTED, **place)


def evidence_waterfall(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """How far pieces of evidence come: a bar for each engine and level, cut where they are lost.

    rows: of one system; engine, level, pieces, then the counts that are left after each stage, from "in the text" to "in the top".
    """
    stages = [name for name in STAGE_LABELS if name]
    rows = _rows(rows, "evidence_waterfall", "engine level pieces")
    _once(rows, "evidence_waterfall", ["engine", "level"])
    labels = [
        name if name == level else f"{name}, {level}" for name, level in zip(rows["engine"], rows["level"], strict=True)
    ]
    left = pd.DataFrame(0, index=rows.index, columns=["start"]).join(rows[stages]).join(rows[["pieces"]])
    shares = left.diff(axis=1).iloc[:, 1:].set_axis(list(STAGE_LABELS.values()), axis=1).div(rows["pieces"], axis=0)
    with theme():
        fig, ax = _canvas(1.5 + ROW * len(rows))
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
            _beside(ax, y, f"{share:.0%}", COLOURS[0])
        _rows_axis(ax, labels, range(len(rows)))
        _percent(ax.xaxis)
        ax.set_xlim(0, 1)
        ax.set_xlabel("share of the pieces of evidence")
        _legend(fig, ax)
    texts = [", ".join(f"{share:.1%} {name}" for name, share in row.items()) for row in shares.to_dict("records")]
    said = _listing(labels, texts, shares.iloc[:, 0])
    return Figure(fig, alt=alt or f"How far the pieces of evidence come. {said}.", caption=caption)


def amortised(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Seconds a question against how many questions are asked, both logarithmic: what is done once is shared by them all.

    rows: system, questions, seconds. kind: a column; lines of any kind but the first row's are dashed.
    """
    rows = _rows(rows, "amortised", "questions seconds")
    lines = _lines(rows, "amortised", "questions")
    if (rows[["questions", "seconds"]] <= 0).any(axis=None):
        raise BadInput("amortised: needs questions and seconds above 0")
    kind = rows["kind"].iloc[0] if "kind" in rows else None
    with theme():
        fig, ax = _canvas(4.4)
        for number, ((name, line), colour) in enumerate(zip(lines, COLOURS * 2, strict=False)):
            dashed = kind is not None and line["kind"].iloc[0] != kind
            marker = (MARKERS * 2)[number]
            style = {"color": colour, "linestyle": "--" if dashed else "-", "marker": marker, "markeredgecolor": PAPER}
            ax.plot(line["questions"], line["seconds"], label=name, markevery=(3 * number % 10, 10), **style)
        ax.set(xscale="log", yscale="log", xlabel="questions asked", ylabel="seconds a question, embedding shared")
        _thousands(ax.xaxis)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(True)
        if len(lines) > 1:
            _legend(fig, ax)
    said = "; ".join(f"{name} {_ends(line)}" for name, line in lines)
    return Figure(fig, alt=alt or f"Seconds a question against questions asked. {said}.", caption=caption)


def _ends(line: pd.DataFrame) -> str:
    first, last = line.iloc[0], line.iloc[-1]
    return (
        f"{first['seconds']:.3g} s at {first['questions']:,.0f} and {last['seconds']:.3g} s at {last['questions']:,.0f}"
    )


# Statistics: differences and ranks


def paired_forest(rows: pd.DataFrame, *, label: str, caption: str, alt: str | None = None) -> Figure:
    """Paired differences with their intervals, one below the other; names stand above their lines, so that these keep the whole width.

    rows: name, about (a second line, muted), mean, low, high; optional wide_low, wide_high, a second interval, drawn thin.
    """
    rows = _rows(rows, "paired_forest", "name about mean low high")
    y = [float(place) for place in range(len(rows))]
    with theme():
        fig, ax = _canvas(0.9 + 0.62 * len(rows))
        _vertical(ax, 0.0, MUTED)
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
            _note(ax, row["name"], (0, place), (0, 19), INK, ha="left", bbox=paper, **where)
            _note(ax, row["about"], (0, place), (0, 8), MUTED, ha="left", **where)
            _note(
                ax, interval(row["mean"], row["low"], row["high"], "+.3f"), (1, place), (0, 8), INK, ha="right", **where
            )
        ax.set_yticks([])
        ax.set_ylim(len(rows) - 0.55, -0.85)
        ax.spines["left"].set_visible(False)
        ax.grid(axis="x")
        ax.set_xlabel(label)
    texts = interval(rows["mean"], rows["low"], rows["high"], "+.3f")
    said = _listing(rows["name"] + " (" + rows["about"] + ")", texts, rows["mean"])
    return Figure(fig, alt=alt or f"Forest plot of {label}, mean with interval. {said}.", caption=caption)


def rank_ranges(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """The ranks every system may have: a thin line for the range that is shown, a thick one for the ranks over resamples.

    rows: of `ranking.ranks`, best first: system, mean, rank, rank_low, rank_high, group, band_low, band_high.
    """
    rows = _rows(rows, "rank_ranges", "system mean rank rank_low rank_high group band_low band_high")
    _once(rows, "rank_ranges", ["system"])
    y = range(len(rows))
    with theme():
        fig, ax = _canvas(1.2 + 0.235 * len(rows))
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
            _beside(ax, place, f"{mean:.3f}")
        _rows_axis(ax, rows["system"].tolist(), y)
        for place in y[1:]:
            if rows["group"][place] != rows["group"][place - 1]:
                ax.axhline(place - 0.5, color=GRID, linewidth=1.2)
        ax.set_xlim(0.4, len(rows) + 0.6)
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        ax.set_xlabel("rank, one is best")
        _legend(fig, ax)
    texts = [
        f"rank {row.rank}, range {row.rank_low} to {row.rank_high}, resamples {row.band_low} to {row.band_high}"
        for row in rows.itertuples()
    ]
    said = _listing(rows["system"], texts, -rows["rank"])
    return Figure(fig, alt=alt or f"Ranks with their ranges. {said}.", caption=caption)


# Simulation: what the tests find


def power_curve(
    rows: pd.DataFrame, *, mde: float, caption: str, alpha: float = 0.05, promised: float = 0.8, alt: str | None = None
) -> Figure:
    """How often a true difference is found, against its size, a line a test with its Monte-Carlo band.

    rows: system (the test), effect, rate, low, high. mde: where to draw the minimum detectable effect; alpha, promised: the level of the
    test, and the power that the minimum detectable effect promises, as horizontal lines.
    """
    rows = _rows(rows, "power_curve", "system effect rate low high")
    lines = _lines(rows, "power_curve", "effect")
    with theme():
        fig, ax = _canvas(3.6)
        for (name, line), colour, marker in zip(lines, COLOURS, MARKERS, strict=False):
            ax.plot(line["effect"], line["rate"], color=colour, marker=marker, markeredgecolor=PAPER, label=name)
            _band(ax, line, "effect", "low", "high", colour)
        for height in (alpha, promised):
            ax.axhline(height, color=MUTED, linewidth=0.9, linestyle=(0, (1, 2)))
        _vertical(ax, mde, MUTED, f"MDE {mde:.3f}", ha="center")
        ax.set(xlabel="true difference", ylabel="share of samples in which it is found", ylim=(0, 1.02))
        _percent(ax.yaxis)
        ax.grid(True)
        _legend(fig, ax)
    said = interval(rows["rate"], rows["low"], rows["high"])
    names = rows["system"] + rows["effect"].map(" at {:.3f}".format)
    start = f"Power against the true difference; minimum detectable effect {mde:.3f}. "
    return Figure(fig, alt=alt or f"{start}{_listing(names, said, rows['rate'])}.", caption=caption)


# Abstention


def risk_panels(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Risk against coverage, a panel a system: its signal between random order and the oracle.

    rows: panel, line ("random order", "oracle" or the name of the signal), coverage, risk.
    """
    rows = _rows(rows, "risk_panels", "panel line coverage risk")
    panels = list(rows.groupby("panel", sort=False))
    with theme():
        fig, axes = _canvas(0.9 + 1.9 * len(panels), len(panels), sharex=True, sharey=True, squeeze=False)
        for ax, (name, part) in zip(axes[:, 0], panels, strict=True):
            for line, points in part.groupby("line", sort=False):
                style = BOUND_STYLES.get(line, {"color": COLOURS[0], "label": "its signal"})
                ax.plot(points["coverage"], points["risk"], marker="", **{"label": line} | style)
            ax.set_title(name)
            ax.set_ylabel("risk")
            ax.grid(True)
            _percent(ax.yaxis)
        axes[-1, 0].set(xlabel="coverage: share of questions answered", xlim=(0, 1.02), ylim=(0, 1.04))
        _percent(axes[-1, 0].xaxis)
        _legend(fig, axes[0, 0])
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


# Groundedness


def stage_bars(rows: pd.DataFrame, stages: Sequence[str], *, caption: str, alt: str | None = None) -> Figure:
    """How many questions are left after each stage, a panel an origin: bars with their counts.

    rows: origin, questions and a count for every stage.
    """
    rows = _rows(rows, "stage_bars", f"origin questions {' '.join(name for name in stages if ' ' not in name)}")
    _once(rows, "stage_bars", ["origin"])
    with theme():
        fig, axes = _canvas(0.5 + len(rows) * (0.5 + 0.26 * len(stages)), len(rows), sharex=True, squeeze=False)
        for ax, row, colour in zip(axes[:, 0], rows.to_dict("records"), COLOURS * 2, strict=False):
            counts = [row[stage] for stage in stages]
            ax.barh(range(len(stages)), [count / row["questions"] for count in counts], color=colour, height=0.66)
            for y, count in enumerate(counts):
                _beside(ax, y, f"{count:,}", colour)
            _rows_axis(ax, list(stages), range(len(stages)))
            ax.set(title=f"{row['origin']}, {row['questions']:,} questions", xlim=(0, 1))
            _percent(ax.xaxis)
        axes[-1, 0].set_xlabel("share of the answerable questions")
    said = "; ".join(
        f"{row['origin']}, of {row['questions']}: " + ", ".join(f"{stage} {row[stage]}" for stage in stages)
        for row in rows.to_dict("records")
    )
    return Figure(fig, alt=alt or f"Questions left after each stage. {said}.", caption=caption)
