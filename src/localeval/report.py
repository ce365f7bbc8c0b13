"""What a notebook calls to show something: glued values, tables, and figures that follow the page's light or dark theme.

Everything here is deterministic: the same data gives the same bytes. Plotting libraries are imported when a figure is drawn.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape

import pandas as pd

from localeval.records import QUERY_STATES, RUN_STATES, BadInput

DASH = "—"
STATES = QUERY_STATES | RUN_STATES

# Colours are written into the SVG as these exact values, then replaced by the variables of book/assets/localeval.css.
# The series colours are Okabe and Ito's, two of them darkened to keep 3:1 against white; the dark theme has its own set.
INK, MUTED, GRID, PAPER = "#0a0b0c", "#5a5b5c", "#dadbdc", "#fdfeff"
COLOURS = ("#0072b2", "#d55e00", "#00855f", "#a8558a", "#8f6400")
MARKERS = ("o", "s", "D", "^", "v")
VARIABLES = {
    INK: "--pst-color-text-base",
    MUTED: "--pst-color-text-muted",
    GRID: "--le-grid",
    PAPER: "--pst-color-background",
    **{colour: f"--le-series-{number}" for number, colour in enumerate(COLOURS, 1)},
}
WIDTH = 5.8  # inches; drawn for a narrow column, so that the text stays readable on a phone and grows on a desk
ROW = 0.3
ALT_ROWS = 12


# Values


def publish(name: str, value) -> None:
    """Glues a value under `name` for `{glue:text}` and `{glue:}` on any page.

    numpy and pandas scalars become plain Python, since a numpy scalar cannot be formatted there. A value that is not
    defined (NaN, NA, None, infinite) is refused: prose must not quote it.
    """
    from myst_nb import glue

    glue(name, plain(value, name), display=False)


def plain(value, name: str = "value"):
    """A Python scalar for a numpy or pandas one; figures and tables pass through."""
    if hasattr(value, "_repr_html_"):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    undefined = value is None or value is pd.NA or value is pd.NaT
    if undefined or (isinstance(value, float) and not math.isfinite(value)):
        raise BadInput(f"publish({name!r}): the value is {value}, not defined; publish a count or words instead")
    if not isinstance(value, str | bool | int | float):
        raise BadInput(f"publish({name!r}): a {type(value).__name__} cannot be quoted; publish a number, text, figure or table")
    return value


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
        return _minus(format(mean, spec))
    return _minus(f"{mean:{spec}} [{low:{spec}}, {high:{spec}}]")


def _minus(text: str) -> str:
    """A true minus sign before digits, as wide as a plus."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


# Tables


@dataclass(frozen=True, slots=True)
class Table:
    """An HTML table and its caption."""

    html: str
    caption: str
    n_rows: int

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"[table, {self.n_rows} rows] {self.caption}"


def table(
    frame: pd.DataFrame,
    caption: str,
    *,
    formats: Mapping[str, str | Callable] | None = None,
    states: Iterable[str] | None = None,
    sortable: bool = True,
) -> Table:
    """A frame as an HTML table whose first column names the rows.

    formats: column to format spec or function; integers default to `,d`, floats to `.3f`. states: columns whose words are
    shown as chips; by default every column that holds nothing but known states. What is not defined shows as a dash.
    A named index becomes columns, an unnamed one is left out.
    """
    _require_text("table", caption=caption)
    if frame.columns.nlevels > 1 or frame.columns.has_duplicates:
        raise BadInput(f"table {caption!r}: columns must be flat and unique; rename them first")
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    formats, columns = dict(formats or {}), list(frame.columns)
    unknown = (set(formats) | set(states or ())) - set(columns)
    if unknown:
        raise BadInput(f"table {caption!r}: no column {sorted(unknown)[0]!r}; it has {', '.join(map(str, columns))}")
    chips = set(states) if states is not None else {name for name in columns if _holds_states(frame[name])}
    cells = {name: [_cell(v, formats.get(name), name in chips) for v in frame[name]] for name in columns}
    kinds = {name: "le-num" if _is_numeric(frame[name], formats.get(name)) else "le-text" for name in columns}
    head = "".join(f'<th scope="col" class="{kinds[name]}">{escape(_heading(name))}</th>' for name in columns)
    body = "\n".join(_row([cells[name][i] for name in columns], kinds.values()) for i in range(len(frame)))
    html = (
        '<div class="le-own le-scroll" role="group" tabindex="0" aria-label="Table; scrolls sideways when it is wide">\n'
        f'<table class="le-table{" le-sortable" if sortable and len(frame) > 1 else ""}">\n'
        f'<caption><span class="le-caption">{escape(caption)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )
    return Table(html, caption, len(frame))


def _require_text(kind: str, **texts: str) -> None:
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise BadInput(f"a {kind} needs {name}=...: say in words what it shows")


def _heading(name) -> str:
    return str(name).replace("_", " ")


def _holds_states(column: pd.Series) -> bool:
    words = column.dropna()
    return len(words) > 0 and words.map(lambda word: isinstance(word, str) and word in STATES).all()


def _is_numeric(column: pd.Series, spec) -> bool:
    """Right-aligned: numbers, and texts that begin with one, such as `0.71 [0.62, 0.80]`."""
    if pd.api.types.is_bool_dtype(column):
        return False
    if pd.api.types.is_numeric_dtype(column):
        return True
    texts = [value for value in column if not _undefined(value) and value != DASH]
    if callable(spec):
        texts = [spec(value) for value in texts]
    return bool(texts) and all(re.match(r"[+−-]?\.?\d[\d.,]*(?![\w/])", str(text)) for text in texts)


def _undefined(value) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def _cell(value, spec: str | Callable | None, chip: bool) -> str:
    if _undefined(value) or value == DASH:
        return f'<span title="not defined">{DASH}</span>'
    if chip:
        return chip_html(str(value))
    return escape(_text(value, spec))


def _text(value, spec: str | Callable | None) -> str:
    if callable(spec):
        return str(spec(value))
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _minus(format(value, spec or (",d" if isinstance(value, int) else ".3f")))
    return format(str(value), spec or "")


def chip_html(state: str) -> str:
    """A state word as a chip; a known state explains itself in its title."""
    title = f' title="{escape(STATES[state])}"' if state in STATES else ""
    return f'<span class="le-state" data-state="{escape(state)}"{title}>{escape(_heading(state))}</span>'


def _row(cells: Sequence[str], kinds: Iterable[str]) -> str:
    first, *rest = zip(cells, kinds, strict=True)
    head = f'<th scope="row" class="{first[1]}">{first[0]}</th>'
    return f"<tr>{head}" + "".join(f'<td class="{kind}">{text}</td>' for text, kind in rest) + "</tr>"


# Figures


class Figure:
    """A matplotlib figure as inline SVG: themed by the page, named for screen readers, the same bytes each time.

    alt: what the picture says, with its numbers. caption: what a reader needs to understand it alone; shown below.
    """

    def __init__(self, fig, *, alt: str, caption: str):
        _require_text("figure", alt=alt, caption=caption)
        self.alt, self.caption = " ".join(alt.split()), " ".join(caption.split())
        self.svg = _inline(_svg(fig), self.alt)

    def _repr_html_(self) -> str:
        return (
            '<figure class="le-own le-figure">\n'
            '<div class="le-scroll" role="group" tabindex="0" aria-label="Figure; scrolls sideways when it is wide">\n'
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
        fig.savefig(buffer, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].strip()


def _inline(svg: str, alt: str) -> str:
    """Makes a stand-alone SVG safe inside a page.

    Its style sheet would apply to the whole page, so it moves to the root element; its ids get a prefix taken from the
    content, so that two figures never share one; its colours and fonts become the page's.
    """
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*</defs>|\s+(?=\n)", "", svg)
    prefix = f"le-{hashlib.sha256((svg + alt).encode()).hexdigest()[:10]}-"
    svg = re.sub(r'(?<=[\s"]id=")|(?<=url\(#)|(?<=href="#)', prefix, svg)
    svg = re.sub(r"font-family: [^;\"]*|(?<=px )'DejaVu Sans'[^;\"]*", _page_font, svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable}, {colour})")
    svg = re.sub(r'\s(?:xmlns(?::xlink)?|version)="[^"]*"', "", svg)  # needed in a file, not in a page
    svg = svg.replace("xlink:href=", "href=")
    name = f'role="img" aria-label="{escape(alt)}" style="stroke-linejoin: round; stroke-linecap: butt"'
    return svg.replace("<svg", f"<svg {name}", 1)


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


def _beside(ax, y: float, text: str, colour: str = INK) -> None:
    """A value in the column to the right of the axes."""
    ax.annotate(text, (1, y), xycoords=("axes fraction", "data"), xytext=(8, 0), textcoords="offset points",
                va="center", ha="left", fontsize=9, color=colour, annotation_clip=False)  # fmt: skip


def _rows_axis(ax, labels: Sequence[str], positions: Sequence[float]) -> None:
    ax.set_yticks(positions, labels)
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

    rows: system, mean, low, high. group: a column whose values make blocks, each under a heading. reference: where to draw
    a vertical line, 0 for differences. label: what the axis says, the metric by default.
    """
    rows = _rows(rows, "forest", f"system mean low high {group or ''}", metric=metric)
    _once(rows, "forest", ["system", group] if group else ["system"])
    blocks = list(rows.groupby(group, sort=False)) if group else [("", rows)]
    texts = interval(rows["mean"], rows["low"], rows["high"])
    labels, positions, headings = [], [], []
    for name, block in blocks:
        if group:
            headings.append(len(labels))
            labels.append(_heading(name))
        positions.extend(range(len(labels), len(labels) + len(block)))
        labels.extend(block["system"])
    ordered = pd.concat([block for _, block in blocks])
    with theme():
        fig, ax = _canvas(0.75 + ROW * len(labels))
        _dots(ax, ordered, positions, COLOURS[0], MARKERS[0])
        for y, text in zip(positions, texts[ordered.index], strict=True):
            _beside(ax, y, text)
        if reference is not None:
            ax.axvline(reference, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        _rows_axis(ax, labels, range(len(labels)))
        for index in headings:
            ax.get_yticklabels()[index].set_fontweight("bold")
        ax.set_xlabel(label or metric)
    named = rows["system"] if not group else rows[group].astype(str) + " " + rows["system"]
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
    rows = _rows(summary, "rules_side_by_side", "system rule mean low high", metric=metric)
    rows = rows.assign(rule=rows["rule"].astype(str))
    rows = rows[rows["rule"].isin(rules) & rows["system"].isin(systems)]
    _once(rows, "rules_side_by_side", ["system", "rule"])
    for name in ("system", "rule"):
        absent = [value for value in (systems if name == "system" else rules) if value not in set(rows[name])]
        if absent:
            raise BadInput(f"rules_side_by_side: no row of {metric!r} for {name} {absent[0]!r}")
    grid = rows.set_index(["system", "rule"]).reindex(pd.MultiIndex.from_product([systems, rules], names=["system", "rule"]))
    grid = grid.reset_index()
    grid["text"] = interval(grid["mean"], grid["low"], grid["high"])
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
        fig.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=3, handletextpad=0.4, columnspacing=1.4)
    said = _listing(grid["system"] + " " + grid["rule"], grid["text"], grid["mean"])
    return Figure(fig, alt=alt or f"{metric} of the same hits under {len(rules)} scoring rules. {said}.", caption=caption)


def quality_vs_latency(
    rows: pd.DataFrame,
    *,
    metric: str,
    caption: str,
    budget_ms: float | None = None,
    alt: str | None = None,
) -> Figure:
    """What quality costs in time: mean latency on a log axis against mean quality, one labelled point a system.

    rows: system, mean, low, high, mean_ms, p50_ms, p95_ms. The horizontal bar runs from P50 to P95; the mean may lie outside
    it. budget_ms: where to draw the latency budget.
    """
    rows = _rows(rows, "quality_vs_latency", "system mean low high mean_ms p50_ms p95_ms", metric=metric)
    _once(rows, "quality_vs_latency", ["system"])
    rows = rows.dropna(subset=["mean", "mean_ms"])
    if rows.empty or (rows[["mean_ms", "p50_ms"]] <= 0).any(axis=None):
        raise BadInput("quality_vs_latency: needs systems with a quality and a latency above 0 ms")
    with theme():
        fig, ax = _canvas(4.2)
        ax.hlines(rows["mean"], rows["p50_ms"], rows["p95_ms"], color=COLOURS[0], linewidth=1.6, alpha=0.75)
        ax.vlines(rows["mean_ms"], rows["low"], rows["high"], color=MUTED, linewidth=1)
        ax.plot(rows["mean_ms"], rows["mean"], "o", color=COLOURS[0], markeredgecolor=PAPER, markersize=8)
        _milliseconds(ax, rows, budget_ms)
        ax.set_xlabel("latency in milliseconds, log scale (dot: mean, bar: P50 to P95)")
        ax.set_ylabel(metric)
        ax.grid(True)
        ax.margins(y=0.12)
        _place_labels(fig, ax, rows)
    said = interval(rows["mean"], rows["low"], rows["high"]) + _latency_text(rows)
    start = f"Scatter plot of {metric} against latency. "
    if budget_ms is not None:
        start += f"Budget {budget_ms:,.0f} ms. "
    return Figure(fig, alt=alt or f"{start}{_listing(rows['system'], said, rows['mean'])}.", caption=caption)


def _latency_text(rows: pd.DataFrame) -> pd.Series:
    spans = zip(rows["mean_ms"], rows["p50_ms"], rows["p95_ms"], strict=True)
    return pd.Series([f" at {m:,.3g} ms (P50 {a:,.3g}, P95 {b:,.3g})" for m, a, b in spans], index=rows.index)


def _milliseconds(ax, rows: pd.DataFrame, budget_ms: float | None) -> None:
    """A log axis whose ticks read `1`, `10`, `1,000`, with room left and right for labels."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ax.set_xscale("log")
    ends = [rows[["mean_ms", "p50_ms"]].min(axis=None), rows[["mean_ms", "p95_ms"]].max(axis=None)]
    if budget_ms is not None:
        ends = [min(ends[0], budget_ms), max(ends[1], budget_ms)]
        ax.axvline(budget_ms, color=COLOURS[1], linewidth=1.2, linestyle=(0, (4, 3)))
        ax.annotate(f"budget {budget_ms:,.0f} ms", (budget_ms, 1), xycoords=("data", "axes fraction"), xytext=(0, 4),
                    textcoords="offset points", ha="center", va="bottom", fontsize=9, color=COLOURS[1])  # fmt: skip
    room = max((ends[1] / ends[0]) ** 0.12, 1.6)
    ax.set_xlim(ends[0] / room, ends[1] * room)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _place_labels(fig, ax, rows: pd.DataFrame) -> None:
    """Writes each system's name where it covers least: of some places around its point, the first that is free.

    The order of the frame decides, so the same frame gives the same picture.
    """
    fig.draw_without_rendering()
    renderer = fig._get_renderer()
    points = ax.transData.transform(rows[["mean_ms", "mean"]].to_numpy())
    taken = [_box(x, y, x, y, 6) for x, y in points] + _bars(ax, rows)
    frame = ax.get_window_extent(renderer)
    for name, x, y in rows[["system", "mean_ms", "mean"]].itertuples(index=False):
        choices = []
        for order, (dx, dy, ha, va) in enumerate(PLACES):
            label = ax.annotate(name, (x, y), xytext=(dx, dy), textcoords="offset points", ha=ha, va=va, fontsize=9)
            box = label.get_window_extent(renderer).padded(1)
            outside = box.width * box.height - _shared(box, frame)
            choices.append((sum(_shared(box, other) for other in taken) + 3 * outside, order, label, box))
        cost, order, label, box = min(choices, key=lambda choice: choice[:2])
        for other in choices:
            if other[2] is not label:
                other[2].remove()
        if order >= 6:  # far from its point: a thin line says whose label it is
            label.arrow_patch = None
            dx, dy, *_ = PLACES[order]
            ax.annotate("", (x, y), xytext=(dx, dy), textcoords="offset points",
                        arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 5})  # fmt: skip
        taken.append(box)


PLACES = (
    (8, 6, "left", "bottom"), (-8, 6, "right", "bottom"), (8, -6, "left", "top"), (-8, -6, "right", "top"),
    (0, 9, "center", "bottom"), (0, -9, "center", "top"),
    (16, 20, "left", "bottom"), (-16, 20, "right", "bottom"), (16, -20, "left", "top"), (-16, -20, "right", "top"),
    (20, 36, "left", "bottom"), (-20, 36, "right", "bottom"), (20, -36, "left", "top"), (-20, -36, "right", "top"),
)  # fmt: skip


def _box(x0: float, y0: float, x1: float, y1: float, pad: float):
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(x0 - pad, y0 - pad, x1 + pad, y1 + pad)


def _bars(ax, rows: pd.DataFrame) -> list:
    """The latency and quality bars of every point as thin boxes, in display units."""
    boxes = []
    for row in rows.itertuples(index=False):
        for start, end in (((row.p50_ms, row.mean), (row.p95_ms, row.mean)), ((row.mean_ms, row.low), (row.mean_ms, row.high))):
            (x0, y0), (x1, y1) = ax.transData.transform([start, end])
            boxes.append(_box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1), 1.5))
    return boxes


def _shared(box, other) -> float:
    width = min(box.x1, other.x1) - max(box.x0, other.x0)
    height = min(box.y1, other.y1) - max(box.y0, other.y0)
    return max(0.0, width) * max(0.0, height)


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
            _rows_axis(ax, [_heading(name) for name in count.index], range(len(count)))
            ax.set_title(f"{count.sum():,} {what}")
        _percent(axes[1].xaxis)
        axes[1].set_xlim(0, 1)
        axes[1].set_xlabel("share of its own total")
    said = [_listing(map(_heading, c.index), [_share_text(v, c.sum()) for v in c], c) for c in counts]
    return Figure(fig, alt=alt or f"Two bar charts. Page classes: {said[0]}. Document verdicts: {said[1]}.", caption=caption)


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

    pages: doc_id, page_index, class, quality. Within a row, pages lie from top to bottom in reading order, so that a bad run
    of pages shows as one; documents go from the lowest median to the highest.
    """
    import seaborn

    pages = _rows(pages, "quality_strip", "doc_id page_index class quality").dropna(subset=["quality"])
    medians = pages.groupby("doc_id")["quality"].median().sort_index().sort_values(kind="stable")
    order = {doc_id: row for row, doc_id in enumerate(medians.index)}
    place = pages.groupby("doc_id")["page_index"].rank(method="first", pct=True) - 0.5
    classes = [name for name, count in _counts(pages["class"]).items() if count]
    if len(classes) > len(COLOURS):
        raise BadInput(f"quality_strip: {len(classes)} page classes; it shows up to {len(COLOURS)}")
    with theme():
        fig, ax = _canvas(1.2 + 0.42 * len(order))
        box = {"color": MUTED, "linewidth": 0.9, "alpha": 0.55}
        seaborn.boxplot(pages, x="quality", y="doc_id", order=list(order), ax=ax, fill=False, width=0.86, showfliers=False,
                        whis=(0, 100), color=MUTED, boxprops=box, whiskerprops=box, capprops=box, medianprops=box)  # fmt: skip
        for name, colour, marker in zip(classes, COLOURS, MARKERS, strict=False):
            part = pages[pages["class"] == name]
            y = part["doc_id"].map(order) + 0.62 * place[part.index]
            ax.plot(part["quality"], y, marker, color=colour, markersize=4.5, markeredgecolor=PAPER,
                    markeredgewidth=0.4, linestyle="none", label=_heading(name))  # fmt: skip
        _rows_axis(ax, list(order), range(len(order)))
        ax.set(xlabel="page quality", ylabel="", xlim=(min(0, pages["quality"].min()), max(1.02, pages["quality"].max())))
        fig.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=3, handletextpad=0.2, columnspacing=1.2)
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
    with theme():
        fig, (top, bottom) = _canvas(4.6, 2, sharex=True, gridspec_kw={"height_ratios": [3, 2]})
        for (name, line), colour, marker in zip(lines, COLOURS, MARKERS, strict=False):
            style = {"color": colour, "marker": marker, "markeredgecolor": PAPER, "label": name}
            top.errorbar(line["depth"], line["mean"], yerr=_errors(line, "mean", "low", "high"), elinewidth=1.1, **style)
            bottom.plot(line["depth"], line["mean_ms"], **style)
            if {"p50_ms", "p95_ms"} <= set(line.columns):
                bottom.fill_between(line["depth"], line["p50_ms"], line["p95_ms"], color=colour, alpha=0.18, linewidth=0)
        top.set_ylabel(metric)
        bottom.set(ylabel="latency in ms", xlabel="candidates reranked", xticks=depths)
        bottom.set_ylim(bottom=0)
        for ax in (top, bottom):
            ax.grid(axis="y")
        _name_lines(fig, top, lines)
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
        for (name, line), colour, marker in zip(lines, COLOURS, MARKERS, strict=False):
            few = marker if len(line) <= 25 else ""
            ax.plot(line["coverage"], line["risk"], color=colour, marker=few, markeredgecolor=PAPER, label=name)
            if {"low", "high"} <= set(line.columns):
                ax.fill_between(line["coverage"], line["low"], line["high"], color=colour, alpha=0.18, linewidth=0)
        ax.set(xlabel="coverage: share of questions answered", ylabel="risk: share of answers without a hit")
        ax.set(xlim=(0, 1.02), ylim=(0, max(0.05, 1.08 * rows[["risk", *{"high"} & set(rows.columns)]].max(axis=None))))
        _percent(ax.xaxis)
        _percent(ax.yaxis)
        ax.grid(True)
        _name_lines(fig, ax, lines)
    ends = [(name, line.iloc[[0, len(line) // 2, -1]].drop_duplicates()) for name, line in lines]
    said = "; ".join(f"{name or 'risk'} " + ", ".join(map(_risk_text, points.to_dict("records"))) for name, points in ends)
    return Figure(fig, alt=alt or f"Risk against coverage. {said}.", caption=caption)


def _risk_text(row: dict) -> str:
    return f"{row['risk']:.1%} at coverage {row['coverage']:.0%}"


def _lines(rows: pd.DataFrame, plot: str, x: str) -> list[tuple[str, pd.DataFrame]]:
    """One `(name, rows)` a system, in order of x; a frame without systems is one unnamed line."""
    named = "system" in rows.columns
    _once(rows, plot, ["system", x] if named else [x])
    lines = list(rows.groupby("system", sort=False)) if named else [("", rows)]
    if len(lines) > len(COLOURS):
        raise BadInput(f"{plot}: {len(lines)} systems; it shows up to {len(COLOURS)}, filter the frame first")
    return [(name, line.sort_values(x, kind="stable")) for name, line in lines]


def _name_lines(fig, ax, lines) -> None:
    if len(lines) > 1:
        fig.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=3, handletextpad=0.5, columnspacing=1.4)


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
            ax.axvline(value, color=COLOURS[1], linewidth=1.3, linestyle=(0, (4, 3)))
            ax.annotate(name, (value, 1), xycoords=("data", "axes fraction"), xytext=(4, -2 - 12 * row),
                        textcoords="offset points", va="top", fontsize=9, color=COLOURS[1])  # fmt: skip
        ax.set(xlabel=label, ylabel=f"count (n = {len(values):,})")
        ax.grid(axis="y")
    low, lower, middle, upper, high = values.quantile([0, 0.25, 0.5, 0.75, 1])
    said = f"{len(values):,} values from {low:.3g} to {high:.3g}, median {middle:.3g}, half of them in {lower:.3g} to {upper:.3g}"
    said += "".join(f"; {name} at {value:,.3g}" for name, value in (marks or {}).items())
    return Figure(fig, alt=alt or f"Histogram of {label}: {said}.", caption=caption)
