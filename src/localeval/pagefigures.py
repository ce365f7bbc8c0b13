"""Figures of pages and documents: their classes, their quality, and how rules agree with labels."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from localeval.figures import (
    COLOURS,
    GRID,
    INK,
    MARKERS,
    MUTED,
    PAPER,
    ROW,
    Figure,
    beside,
    canvas,
    heading,
    legend,
    listing,
    note,
    percent,
    require_once,
    rows_axis,
    rows_for,
    theme,
    vertical,
)
from localeval.records import BadInput


def page_classes(pages: pd.DataFrame, documents: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Page classes over all pages, and document verdicts over all documents: two denominators, each written out.

    pages: doc_id, page_index, class. documents: doc_id, verdict. A categorical column also shows its empty classes.
    """
    pages = rows_for(pages, "page_classes", "doc_id page_index class")
    documents = rows_for(documents, "page_classes", "doc_id verdict")
    counts = [_counts(pages["class"]), _counts(documents["verdict"])]
    with theme():
        ratios = [len(count) + 0.6 for count in counts]
        height = 1.3 + ROW * sum(map(len, counts))
        fig, axes = canvas(height, 2, sharex=True, gridspec_kw={"height_ratios": ratios})
        for ax, count, what, colour in zip(axes, counts, ("pages", "documents"), COLOURS, strict=False):
            ax.barh(range(len(count)), count / count.sum(), color=colour, height=0.62)
            for y, value in enumerate(count):
                beside(ax, y, _share_text(value, count.sum()))
            rows_axis(ax, [heading(name) for name in count.index], range(len(count)))
            ax.set_title(f"{count.sum():,} {what}")
        percent(axes[1].xaxis)
        axes[1].set_xlim(0, 1)
        axes[1].set_xlabel("share of its own total")
    said = [listing(map(heading, c.index), [_share_text(v, c.sum()) for v in c], c) for c in counts]
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


def quality_strip(pages: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Quality of every page by document, over the document's quartiles; colour and marker name the page class.

    pages: doc_id, page_index, class, quality. Within a row, pages lie from top to bottom in reading order, so that a
    bad run of pages shows as one; documents go from the lowest median to the highest.
    """
    pages = rows_for(pages, "quality_strip", "doc_id page_index class quality").dropna(subset=["quality"])
    medians = pages.groupby("doc_id")["quality"].median().sort_index().sort_values(kind="stable")
    order = {doc_id: row for row, doc_id in enumerate(medians.index)}
    place = pages.groupby("doc_id")["page_index"].rank(method="first", pct=True) - 0.5
    classes = [name for name, count in _counts(pages["class"]).items() if count]
    if len(classes) > len(COLOURS):
        raise BadInput(f"quality_strip: {len(classes)} page classes; it shows up to {len(COLOURS)}")
    with theme():
        fig, ax = canvas(1.2 + 0.42 * len(order))
        thin = {"color": MUTED, "linewidth": 0.9, "alpha": 0.55}
        lines = {f"{part}props": thin for part in ("box", "whisker", "cap", "median")}
        values = [pages.loc[pages["doc_id"] == doc_id, "quality"].to_numpy() for doc_id in order]
        ax.boxplot(values, positions=range(len(order)), orientation="horizontal", widths=0.86, whis=(0, 100), **lines)
        small = {"linestyle": "none", "markersize": 4.5, "markeredgecolor": PAPER, "markeredgewidth": 0.4}
        for name, colour, marker in zip(classes, COLOURS, MARKERS, strict=False):
            part = pages[pages["class"] == name]
            y = part["doc_id"].map(order) + 0.62 * place[part.index]
            ax.plot(part["quality"], y, marker=marker, color=colour, label=heading(name), **small)
        rows_axis(ax, list(order), range(len(order)))
        ax.set_xlabel("page quality")
        ax.set_xlim(min(0, pages["quality"].min()), max(1.02, pages["quality"].max()))
        legend(fig, ax)
    sizes = pages.groupby("doc_id").size()[medians.index]
    texts = [f"median {median:.2f} over {n:,} pages" for median, n in zip(medians, sizes, strict=True)]
    alt = alt or f"Page quality by document. {listing(medians.index, texts, medians)}."
    return Figure(fig, alt=alt, caption=caption)


def confusion(rows: pd.DataFrame, *, caption: str, alt: str | None = None) -> Figure:
    """Labels against what the rules said, one panel a view: the count in each cell, shaded by its share of the label.

    rows: view, label, said, hits, n. A label's row adds up to its n.
    """
    rows = rows_for(rows, "confusion", "view label said hits n")
    require_once(rows, "confusion", ["view", "label", "said"])
    views, labels, answers = (list(rows[name].unique()) for name in ("view", "label", "said"))
    with theme():
        fig, axes = canvas(0.9 + len(views) * (0.4 + 0.36 * len(labels)), len(views), squeeze=False)
        for ax, view in zip(axes[:, 0], views, strict=True):
            for cell in rows[rows["view"] == view].to_dict("records"):
                _cell(ax, answers.index(cell["said"]), labels.index(cell["label"]), cell)
            sizes = rows[rows["view"] == view].groupby("label")["n"].first()
            rows_axis(ax, [f"{heading(name)} ({sizes.get(name, 0):,})" for name in labels], range(len(labels)))
            ax.set(title=view, xlim=(-0.5, len(answers) - 0.5), xticks=[])
            ax.spines["bottom"].set_visible(False)
        _words_below(axes[-1, 0], answers)
    told = [
        f"{heading(row.label)} said to be {heading(row.said)}: {row.hits:,} of {row.n:,}"
        for row in rows.itertuples()
        if row.hits
    ]
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
            note(ax, word, (x, 0), (0, -4 - 11 * row), **where)


def margin(documents: pd.DataFrame, *, cut: float, caption: str, alt: str | None = None) -> Figure:
    """Mean quality of every document by label, one row a view and label: do the two kinds stand apart?

    documents: view, doc_id, label, mean_quality. cut: where to draw the guard.
    """
    documents = rows_for(documents, "margin", "view doc_id label mean_quality").dropna(subset=["mean_quality"])
    groups = list(documents.groupby(["view", "label"], sort=False))
    labels = sorted(documents["label"].unique())
    with theme():
        fig, ax = canvas(1.0 + 0.55 * len(groups))
        for row, ((_, label), part) in enumerate(groups):
            kind = labels.index(label)
            spread = part["mean_quality"].rank(method="first").sub(1).mod(5).sub(2) * 0.09  # equal values stay apart
            style = {"color": COLOURS[kind], "marker": MARKERS[kind], "linestyle": "none", "markersize": 5}
            ax.plot(part["mean_quality"], row + spread, markeredgecolor=PAPER, markeredgewidth=0.4, **style)
            beside(ax, row, f"{part['mean_quality'].min():.3f} to {part['mean_quality'].max():.3f}", COLOURS[kind])
        vertical(ax, cut, MUTED, f"guard {cut:.2f}", ha="center")
        rows_axis(
            ax, [f"{heading(label)} ({len(part):,})\n{view}" for (view, label), part in groups], range(len(groups))
        )
        ax.set_xlabel("mean page quality of a document")
    said = [
        f"{view}, {len(part)} {heading(label)}: {part['mean_quality'].min():.3f} to {part['mean_quality'].max():.3f}"
        for (view, label), part in groups
    ]
    alt = alt or f"Mean quality of documents by label, guard at {cut:.2f}. {'; '.join(said)}."
    return Figure(fig, alt=alt, caption=caption)


def gate_curves(rows: pd.DataFrame, *, at: dict[str, float], caption: str, alt: str | None = None) -> Figure:
    """What a gate misses and what it triggers in vain at every threshold, one panel an engine and score, with bands.

    rows: engine, score, threshold, missed, missed_low, missed_high, false, false_low, false_high. at: the threshold in use of each score.
    """
    rows = rows_for(
        rows, "gate_curves", "engine score threshold missed missed_low missed_high false false_low false_high"
    )
    rows = rows.assign(panel=rows["score"].map(heading) + ", pages read by " + rows["engine"].astype(str))
    panels = list(rows.groupby("panel", sort=False))
    kinds = (("missed", "missed: bad pages left as they are"), ("false", "in vain: good pages read again"))
    with theme():
        fig, axes = canvas(0.8 + 2.1 * len(panels), len(panels), sharex=True, squeeze=False)
        for ax, (name, line) in zip(axes[:, 0], panels, strict=True):
            line = line.sort_values("threshold", kind="stable")
            for (kind, label), colour, dash in zip(kinds, COLOURS, ("-", (0, (6, 2))), strict=False):
                ax.step(
                    line["threshold"], line[kind], where="pre", color=colour, linestyle=dash, label=label, marker=""
                )
                low, high = line[f"{kind}_low"], line[f"{kind}_high"]
                ax.fill_between(line["threshold"], low, high, step="pre", color=colour, alpha=0.16, linewidth=0)
            used = at[line["score"].iloc[0]]
            vertical(ax, used, MUTED, f"{used:.2f}", ha="center")
            ax.set_title(name, pad=15)
            ax.set(ylim=(-0.03, 1.03), xlim=(0, 1.02), ylabel="share")
            percent(ax.yaxis)
            ax.grid(axis="y")
        axes[-1, 0].set_xlabel("threshold: pages below it are read again")
        legend(fig, axes[0, 0])
    said = "; ".join(_gate_text(name, line, at[line["score"].iloc[0]]) for name, line in panels)
    return Figure(fig, alt=alt or f"Missed and needless OCR against the threshold. {said}.", caption=caption)


def _gate_text(name: str, line: pd.DataFrame, at: float) -> str:
    """A score's shares at the threshold in use, and the threshold at which their sum is least."""
    line = line.sort_values("threshold", kind="stable")
    used = line[line["threshold"] >= at].iloc[:1] if (line["threshold"] >= at).any() else line.iloc[-1:]
    least = line.loc[(line["missed"] + line["false"]).idxmin()]
    text = f"{name}: at {at:.2f} {used['missed'].item():.0%} missed, {used['false'].item():.0%} in vain"
    return text + f"; best at {least['threshold']:.2f} with {least['missed']:.0%} missed, {least['false']:.0%} in vain"
