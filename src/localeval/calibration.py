"""Do the page rules agree with people? Labelled pages and documents against classes, verdicts, cuts and gates.

Everything here reads tables: the pages that ingestion wrote, labels that people or a known origin gave, and how much of
each page an OCR engine kept. Shares come with their count and their interval, since the classes are small.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd

from localeval import quality, stats
from localeval.corpus import Reading, Signals
from localeval.figures import heading, interval, minus
from localeval.quality import CLASSES, DEFAULTS, FEATURES, SIGNALS, Thresholds
from localeval.records import BadInput, near

VERDICTS = ("digital_clean", "mixed_quality")
TEXT, SIGNALLED = "text alone", "with signals"
Z = 1.959964  # of the normal distribution, for 95 %


# What people said


def read_labels(path: Path) -> pd.DataFrame:
    """The class of each labelled page: doc_id, page_index (from 0), label. Raises `BadInput` with what to write."""
    frame = _read(path, ("doc_id", "page_index", "label"), CLASSES, "one line a page, pages counted from 0")
    wrong = frame[~frame["page_index"].str.fullmatch(r"[0-9]{1,9}")]
    if len(wrong):
        raise BadInput(f"{path}: page_index {wrong['page_index'].iloc[0]!r} is no number of a page; pages count from 0")
    return frame.assign(page_index=frame["page_index"].astype(int))


def read_verdicts(path: Path) -> pd.DataFrame:
    """The verdict on each labelled document: doc_id, label (digital_clean or mixed_quality)."""
    return _read(path, ("doc_id", "label"), VERDICTS, "one line a document")


def _read(path: Path, columns: Sequence[str], known: Sequence[str], rows: str) -> pd.DataFrame:
    shape = f"write a .csv in UTF-8 with the columns {', '.join(columns)}, {rows}; labels: {', '.join(known)}"
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise BadInput(
            f"{path}: no such file, and without labels nothing can be calibrated; take doc_id and page_index from pages.csv "
            f"of 10_ingest, look at the pages, and {shape}"
        ) from None
    except (OSError, pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):  # a folder, among others
        raise BadInput(f"{path}: not a table; {shape}") from None
    missing = [name for name in columns if name not in frame.columns]
    if missing or frame.empty:
        raise BadInput(f"{path}: {f'no column {missing[0]!r}' if missing else 'no rows'}; {shape}")
    strange = frame[~frame["label"].isin(known)]
    if len(strange):
        label = strange["label"].iloc[0]
        raise BadInput(f"{path}:{strange.index[0] + 2}: unknown label {label!r}{near(label, known)}; {shape}")
    twice = frame[frame.duplicated([name for name in columns if name != "label"])]
    if len(twice):
        raise BadInput(f"{path}:{twice.index[0] + 2}: {twice['doc_id'].iloc[0]} is labelled twice here")
    return frame[list(columns)]


def with_labels(table: pd.DataFrame, labels: pd.DataFrame, path: Path | str = "labels") -> pd.DataFrame:
    """The rows of a page or document table that have a label, with it. `attrs["absent"]`: labels without a row.

    Raises `BadInput` when no label fits: the doc_ids are then of another corpus.
    """
    keys = [name for name in ("doc_id", "page_index") if name in labels.columns]
    joined = table.merge(labels, on=keys, how="inner", validate="many_to_one")
    if joined.empty:
        there, here = table["doc_id"].iloc[0], labels["doc_id"].iloc[0]
        raise BadInput(f"{path}: no label is of a document of this study (there {here!r}, here {there!r})")
    found = pd.MultiIndex.from_frame(joined[keys])
    absent = labels[~pd.MultiIndex.from_frame(labels[keys]).isin(found)]
    joined.attrs["absent"] = absent.to_dict("records")
    return joined


# The same pages, with and without what the file shows beside its text


def judged(pages: pd.DataFrame, limits: Thresholds = DEFAULTS, *, signals: bool = True) -> pd.DataFrame:
    """The pages with class, reason and quality worked out again from their features, with or without what is known beside.

    Beside the text: the signals of the file, and how sure OCR was of a page that it read. Without them an empty page is
    blank: that something was drawn on it is a signal too.
    """
    known = [*FEATURES, *SIGNALS, *(name for name in ("reading", "word_confidence") if name in pages)]
    rows = [_judge(row, limits, signals) for row in pages[known].to_dict("records")]
    return pages.assign(**{name: [row[name] for row in rows] for name in ("class", "reason", "quality")})


def _judge(row: dict, limits: Thresholds, signals: bool) -> dict:
    f, shown, reading = {name: float(row[name]) for name in FEATURES}, Signals(), Reading()
    if signals:
        shown = Signals(**{name: row[name] for name in SIGNALS if not pd.isna(row[name])})
        sure = row.get("word_confidence", float("nan"))
        reading = Reading(row.get("reading") or "native", word_confidence=None if pd.isna(sure) else sure)
    name, reason = quality.classify(f, shown, limits, reading)
    score = float("nan") if name == "blank" else quality.quality(f, shown, limits, reading)
    return {"class": name, "reason": reason, "quality": score}


def both_views(pages: pd.DataFrame, limits: Thresholds = DEFAULTS) -> pd.DataFrame:
    """`judged` without and with signals, one below the other; the column view says which: TEXT or SIGNALLED.

    Raises `BadInput` where the pages were judged with other thresholds than these.
    """
    full = judged(pages, limits, signals=True)
    other = pages[full["class"] != pages["class"]]
    if len(other):
        page = other.iloc[0]
        raise BadInput(
            f"thresholds: page {page['page_index']} of {page['doc_id']} is {page['class']} in 10_ingest and "
            f"{full.loc[page.name, 'class']} here; give both notebooks the same thresholds"
        )
    views = [judged(pages, limits, signals=False).assign(view=TEXT), full.assign(view=SIGNALLED)]
    return pd.concat(views, ignore_index=True)


# Agreement


SHARE = ("hits", "n", "share", "low", "high")


def share(hits: int, n: int) -> dict:
    """`k of n` with its Wilson interval: hits, n, share, low, high; NaN without cases."""
    low, high = stats.wilson(int(hits), int(n)) if n else (float("nan"), float("nan"))
    return dict(zip(SHARE, (int(hits), int(n), hits / n if n else float("nan"), low, high), strict=True))


def said(row: dict, spec: str = ".0%") -> str:
    """`5 of 6 (83% [44%, 97%])`: a share that cannot be read without its count."""
    if not row["n"]:
        return "none"
    return f"{row['hits']:.0f} of {row['n']:.0f} ({row['share']:{spec}} [{row['low']:{spec}}, {row['high']:{spec}}])"


def agreement(frame: pd.DataFrame, by: Sequence[str] = (), column: str = "class") -> pd.DataFrame:
    """How many rows have the label they should: one row a group with the columns of `share`."""
    same = frame[column] == frame["label"]
    if not by:
        return pd.DataFrame([share(same.sum(), len(frame))])
    groups = frame.assign(same=same).groupby(list(by), sort=False)["same"]
    return pd.DataFrame([dict(zip(by, key, strict=True)) | share(part.sum(), len(part)) for key, part in groups])


def confusion(frame: pd.DataFrame, column: str = "class") -> pd.DataFrame:
    """Labels against what the rules said: view, label, said, and the columns of `share`, of all rows with that label.

    Every label that occurs is a row, every answer that occurs a column, in the order of CLASSES and VERDICTS.
    """
    order = list(dict.fromkeys([*CLASSES, *VERDICTS]))
    labels = [name for name in order if (frame["label"] == name).any()]
    answers = [name for name in order if ((frame[column] == name) | (frame["label"] == name)).any()]
    rows = []
    for view, part in frame.groupby("view", sort=False):
        for label in labels:
            own = part[part["label"] == label]
            rows += [
                {"view": view, "label": label, "said": one} | share((own[column] == one).sum(), len(own))
                for one in answers
            ]
    return pd.DataFrame(rows)


def confusion_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a view and label: n, how many were found with interval, and the counts of each answer."""
    counts = rows.pivot_table(index=["view", "label"], columns="said", values="hits", sort=False).astype(int)
    found = rows[rows["label"] == rows["said"]].set_index(["view", "label"])
    texts = pd.Series([said(row) for row in found.to_dict("records")], index=found.index, name="found")
    sizes = rows.groupby(["view", "label"], sort=False)["n"].first()
    return pd.concat([sizes, texts, counts], axis=1).rename_axis(["view", "label"]).reset_index()


def documents_of(pages: pd.DataFrame, limits: Thresholds = DEFAULTS) -> pd.DataFrame:
    """The document table of each view of the pages, with the column view."""
    tables = [
        quality.document_table(part, limits).assign(view=view) for view, part in pages.groupby("view", sort=False)
    ]
    return pd.concat(tables, ignore_index=True)


# One cut, chosen on all documents but one


def best_cut(scores: Sequence[float], clean: Sequence[bool]) -> float:
    """The cut at or above which most scores are clean and below which most are not.

    Of several equally good ones the middle of the widest gap, so that the choice does not sit on a case; then the lowest.
    """
    scores, clean = np.asarray(scores, float), np.asarray(clean, bool)
    edges = np.unique(scores)
    cuts = [edges[0], *((edges[:-1] + edges[1:]) / 2), np.nextafter(edges[-1], np.inf)]
    gaps = [0.0, *np.diff(edges), 0.0]
    right = [int(((scores >= cut) == clean).sum()) for cut in cuts]
    return float(max(zip(right, gaps, [-cut for cut in cuts], cuts, strict=True))[-1])


def leave_one_out(frame: pd.DataFrame, score: str, group: Callable[[str], str]) -> pd.DataFrame:
    """Each group of documents judged by a cut chosen on all others: left_out, cut, n, agreed, clean (of n, by label).

    frame: doc_id, label and the score, a row a page or a document. clean is the label digital_clean; all others are not.
    Raises `BadInput` below two groups.
    """
    frame = frame.dropna(subset=[score]).assign(group=lambda rows: rows["doc_id"].map(group))
    names = sorted(frame["group"].unique())
    if len(names) < 2:
        raise BadInput(f"leave one out: {len(names)} document has labels; it takes two or more")
    rows = []
    for name in names:
        held, others = frame[frame["group"] == name], frame[frame["group"] != name]
        cut = best_cut(others[score], others["label"] == "digital_clean")
        agreed = ((held[score] >= cut) == (held["label"] == "digital_clean")).sum()
        rows.append((name, cut, len(held), int(agreed), int((held["label"] == "digital_clean").sum())))
    return pd.DataFrame(rows, columns=["left_out", "cut", "n", "agreed", "clean"])


def left_out(pages: pd.DataFrame, documents: pd.DataFrame, group: Callable[[str], str]) -> pd.DataFrame:
    """`leave_one_out` for pages (quality) and documents (mean quality) in each view: view, unit, rows of it."""
    parts = []
    for unit, frame, score in (("pages", pages, "quality"), ("documents", documents, "mean_quality")):
        for view, part in frame.groupby("view", sort=False):
            parts.append(leave_one_out(part, score, group).assign(unit=unit, view=view))
    return pd.concat(parts, ignore_index=True)


def left_out_summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a unit and view: how many turns, the range of the cuts chosen, the agreement with interval, and what
    saying the commoner of both kinds everywhere would have."""
    table = []
    for (unit, view), part in rows.groupby(["unit", "view"], sort=False):
        n, clean = part["n"].sum(), part["clean"].sum()
        cuts = part["cut"].min(), part["cut"].max()
        table.append(
            (unit, view, len(part), *cuts, said(share(part["agreed"].sum(), n)), said(share(max(clean, n - clean), n)))
        )
    columns = ["unit", "view", "turns", "lowest_cut", "highest_cut", "agreed", "commoner_label"]
    return pd.DataFrame(table, columns=columns)


def source_name(doc_id: str) -> str:
    """The last part of a doc_id: twins of one document share it, and must be left out together."""
    return doc_id.rpartition("/")[2]


def by_source(same_name: bool) -> Callable[[str], str]:
    """What is left out together: documents of one name in several folders, or each document alone."""
    return source_name if same_name else str


# The margin, and the pilot of the study whose rule this is


def scanned_documents(pages: pd.DataFrame) -> set[str]:
    """Documents of whose labelled pages more than half are labelled likely_scanned."""
    share = (pages["label"] == "likely_scanned").groupby(pages["doc_id"]).mean()
    return set(share[share > 0.5].index)


def margins(documents: pd.DataFrame, scanned: Collection[str]) -> pd.DataFrame:
    """Worst clean document of each view by mean quality, the best scanned one and the best of all that are not clean.

    documents: view, doc_id, label, mean_quality. margin: worst clean less best other; below 0, no cut on mean quality
    separates the two. Raises `BadInput` without both kinds; without a scan that row is left out.
    """
    rows = []
    for view, part in documents.dropna(subset=["mean_quality"]).groupby("view", sort=False):
        clean, other = part[part["label"] == "digital_clean"], part[part["label"] != "digital_clean"]
        if clean.empty or other.empty:
            raise BadInput("margin: needs documents labelled digital_clean and others; label both kinds")
        worst = clean.loc[clean["mean_quality"].idxmin()]
        for kind, against in (("scanned", other[other["doc_id"].isin(scanned)]), ("any not clean", other)):
            if len(against):
                best = against.loc[against["mean_quality"].idxmax()]
                values = worst["mean_quality"], best["mean_quality"]
                rows.append((view, kind, worst["doc_id"], values[0], best["doc_id"], values[1], values[0] - values[1]))
    columns = ["view", "against", "worst_clean", "its_quality", "best_other", "its_mean_quality", "margin"]
    return pd.DataFrame(rows, columns=columns)


PILOT = ("document_type", "human_label", "doc_id", "reported_quality", "reported_single_rule", "reported_three_guards")


def read_pilot(path: Path) -> pd.DataFrame:
    """A pilot as a source reported it, with a document of ours for each of its rows: columns PILOT."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (FileNotFoundError, pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):
        raise BadInput(
            f"{path}: not a table in UTF-8; write the columns {', '.join(PILOT)}, one line a document"
        ) from None
    missing = [name for name in PILOT if name not in frame.columns]
    if missing:
        raise BadInput(f"{path}: no column {missing[0]!r}; it needs {', '.join(PILOT)}")
    return frame[list(PILOT)].assign(reported_quality=pd.to_numeric(frame["reported_quality"]))


def pilot(reported: pd.DataFrame, documents: pd.DataFrame, limits: Thresholds = DEFAULTS) -> pd.DataFrame:
    """The documents of a pilot under the single rule and the three guards: text alone as the source had it, then with signals.

    The single rule says digital_clean from a mean quality of the guard. Columns: document_type, human_label, doc_id, pages,
    and quality, single_rule and three_guards of the text alone (text_...) and with signals (signalled_...).
    """
    rows = []
    for row in reported.to_dict("records"):
        text, full = (_document(documents, row["doc_id"], view) for view in (TEXT, SIGNALLED))
        rows.append(
            {name: row[name] for name in PILOT[:3]}
            | {"pages": text["pages"]}
            | {"text_quality": text["mean_quality"], "text_single_rule": _single(text, limits)}
            | {"text_three_guards": text["verdict"], "signalled_quality": full["mean_quality"]}
            | {"signalled_single_rule": _single(full, limits), "signalled_three_guards": full["verdict"]}
        )
    return pd.DataFrame(rows)


def _single(document: dict, limits: Thresholds) -> str:
    return VERDICTS[0] if round(document["mean_quality"], 9) >= limits.mean_quality else VERDICTS[1]


def _document(documents: pd.DataFrame, doc_id: str, view: str) -> dict:
    found = documents[(documents["doc_id"] == doc_id) & (documents["view"] == view)]
    if len(found) != 1:
        raise BadInput(f"pilot: no document {doc_id!r} in this study{near(doc_id, documents['doc_id'])}")
    return found.iloc[0].to_dict()


def pilot_quality(ours: pd.DataFrame, reported: pd.DataFrame) -> pd.DataFrame:
    """Mean quality of the documents of a pilot: here from the text alone and with signals, and as the source reported it."""
    here = ours[["document_type", "doc_id", "pages", "text_quality", "signalled_quality"]]
    here = here.rename(columns={"doc_id": "document_here", "text_quality": TEXT, "signalled_quality": SIGNALLED})
    return here.assign(**{"reported by the source": reported["reported_quality"].to_numpy()})


def pilot_verdicts(ours: pd.DataFrame, reported: pd.DataFrame) -> pd.DataFrame:
    """What people said of the documents of a pilot, and each rule: here, and as the source reported it."""
    return pd.DataFrame(
        {
            "document_type": ours["document_type"],
            "human_label": ours["human_label"],
            f"single rule, {TEXT}": ours["text_single_rule"],
            f"three guards, {TEXT}": ours["text_three_guards"],
            f"three guards, {SIGNALLED}": ours["signalled_three_guards"],
            "single rule, reported": reported["reported_single_rule"].to_numpy(),
            "three guards, reported": reported["reported_three_guards"].to_numpy(),
        }
    )


def pilot_agreement(ours: pd.DataFrame, reported: pd.DataFrame) -> pd.DataFrame:
    """How many documents of the pilot each rule calls as people did: ours, and as the source reported it."""
    columns = {
        "single rule, text alone": ("text_single_rule", "reported_single_rule"),
        "three guards, text alone": ("text_three_guards", "reported_three_guards"),
        "single rule, with signals": ("signalled_single_rule", None),
        "three guards, with signals": ("signalled_three_guards", None),
    }
    rows = []
    for rule, (own, theirs) in columns.items():
        told = (
            said(share((reported[theirs] == reported["human_label"]).sum(), len(reported)))
            if theirs
            else "not reported"
        )
        rows.append((rule, said(share((ours[own] == ours["human_label"]).sum(), len(ours))), told))
    return pd.DataFrame(rows, columns=["rule", "measured_here", "reported_by_the_source"])


# The gate: which pages are worth reading again


KEPT = ("level", "document", "page", "word_f1", "word_confidence")


def read_kept(path: Path) -> pd.DataFrame:
    """How much of each page an OCR engine kept: columns KEPT, and engine and text_confidence where the file has them.

    word_f1: from 0 to 1, against the page's own text. word_confidence: the engine's own mean, from 0 to 100. A page on which
    no word was read has neither in the file: nothing of it was kept and the engine is sure of nothing, so both are 0.
    """
    shape = f"it needs {', '.join(KEPT)}"
    try:
        frame = pd.read_csv(path).rename(columns={"f1": "word_f1", "confidence": "word_confidence"})
    except (OSError, pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):
        raise BadInput(f"{path}: not a table in UTF-8; {shape}") from None
    missing = [name for name in KEPT if name not in frame.columns]
    if missing:
        raise BadInput(f"{path}: no column {missing[0]!r}; {shape}")
    for name in ("page", "word_f1", "word_confidence"):
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise BadInput(f"{path}: the column {name} must hold numbers")
    frame = frame.fillna({"word_f1": 0.0, "word_confidence": 0.0})
    if not frame["word_f1"].between(0, 1).all():
        raise BadInput(f"{path}: word_f1 must lie between 0 and 1")
    engine = {} if "engine" in frame else {"engine": "tesseract"}
    return frame.assign(**engine)


def with_text_confidence(kept: pd.DataFrame, pages: pd.DataFrame, place: str) -> pd.DataFrame:
    """`kept` with the text confidence of each page, which is that of the study's page at `place`.

    place: the doc_id of a twin, with {level} and {document} in it. Where the file brings text_confidence, it is kept. NaN
    for a page the study does not hold.
    """
    if "text_confidence" in kept:
        return kept
    rows = kept.to_dict("records")
    keys = [(place.format(level=row["level"], document=row["document"]), row["page"]) for row in rows]
    known = pages.set_index(["doc_id", "page_index"])["confidence"].to_dict()
    return kept.assign(text_confidence=[known.get(key, float("nan")) for key in keys])


def gate(scores: Sequence[float], bad: Sequence[bool], thresholds: Sequence[float] | None = None) -> pd.DataFrame:
    """What a gate that reads a page again when its score is below a threshold would do, at every threshold.

    bad: whether the page did need it. missed: share of the bad pages that stay; false: share of the good pages read again
    in vain, both with Wilson intervals. By default every threshold at which anything changes, and both ends.
    """
    scores, bad = np.asarray(scores, float), np.asarray(bad, bool)
    if thresholds is None and len(scores):
        values = np.unique(scores)
        ends = np.nextafter(values[-1], np.inf), 1.0
        thresholds = np.unique([0.0, *values, *ends])
    rows, kinds = [], ("missed", "false")
    columns = ["threshold", *(f"{kind}_{key}".removesuffix("_share") for kind in kinds for key in SHARE)]
    for threshold in () if thresholds is None else thresholds:
        below = scores < threshold
        missed, false = share((~below & bad).sum(), bad.sum()), share((below & ~bad).sum(), (~bad).sum())
        rows.append((float(threshold), *missed.values(), *false.values()))
    return pd.DataFrame(rows, columns=columns)


def auroc(scores: Sequence[float], bad: Sequence[bool]) -> dict:
    """The chance that a bad page scores lower than a good one, ties counting half; 0.5 sees nothing. With 95 % interval.

    Interval: score method with the variance of Hanley and McNeil (1982), as Newcombe (2006) has it; it is never of zero
    width, and takes pages as independent. Keys: auroc, low, high, bad, good; NaN where either kind is missing.
    """
    scores, bad = np.asarray(scores, float), np.asarray(bad, bool)
    low, high = scores[bad], scores[~bad]
    sizes = {"bad": len(low), "good": len(high)}
    if not len(low) or not len(high):
        return dict.fromkeys(("auroc", "low", "high"), float("nan")) | sizes
    wins = (low[:, None] < high).sum() + 0.5 * (low[:, None] == high).sum()
    area = float(wins / (len(low) * len(high)))
    return {
        "auroc": area,
        "low": _bound(area, -1, len(low), len(high)),
        "high": _bound(area, 1, len(low), len(high)),
    } | sizes


def _bound(area: float, side: int, m: int, n: int) -> float:
    """The area on one side at which the one seen would just be no surprise, by halving."""

    def surprise(value: float) -> float:
        spread = 1 + ((m + n) / 2 - 1) * ((1 - value) / (2 - value) + value / (1 + value))
        return abs(area - value) - Z * sqrt(value * (1 - value) * spread / (m * n))

    inside, outside = area, float(side > 0)
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if surprise(middle) <= 0 else (inside, middle)
    return (inside + outside) / 2


SCORES = {"text_confidence": 1.0, "word_confidence": 100.0}  # and the end of each one's scale


def _scored(kept: pd.DataFrame, needs_f1: float):
    """Each engine and score: `(engine, score, values in [0, 1], whether each page needs another reading)`.

    Engines stay apart: they are not sure of their words on one scale.
    """
    for engine, part in kept.groupby("engine", sort=False):
        for name, top in SCORES.items():
            known = part.dropna(subset=[name])
            yield engine, name, known[name] / top, known["word_f1"] < needs_f1


def gates(kept: pd.DataFrame, needs_f1: float) -> pd.DataFrame:
    """`gate` of each engine and score, scaled to [0, 1], with the columns engine and score."""
    parts = [
        gate(values, bad).assign(engine=engine, score=name) for engine, name, values, bad in _scored(kept, needs_f1)
    ]
    parts = [part for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else gate([], []).assign(engine="", score="")


def gate_summary(kept: pd.DataFrame, needs_f1: float, at: dict[str, float]) -> pd.DataFrame:
    """A row an engine and score: pages with it, AUROC with interval, and what the gate at its own threshold misses and reads in vain.

    at: the threshold in use of each score, from 0 to 1.

    best_cut: the threshold at which both shares add up to least, on these same pages; NaN where one kind is missing.
    """
    rows = []
    for engine, name, values, bad in _scored(kept, needs_f1):
        area, (one,) = auroc(values, bad), gate(values, bad, [at[name]]).to_dict("records")
        shares = [
            said({"share": one[kind]} | {key: one[f"{kind}_{key}"] for key in ("hits", "n", "low", "high")})
            for kind in ("missed", "false")
        ]
        curve = gate(values, bad).dropna(subset=["missed", "false"])
        best = curve.loc[(curve["missed"] + curve["false"]).idxmin(), "threshold"] if len(curve) else float("nan")
        rows.append((engine, name, len(values), area["auroc"], area["low"], area["high"], *shares, best))
    columns = ["engine", "score", "pages", "auroc", "low", "high", "missed", "in_vain", "best_cut"]
    return pd.DataFrame(rows, columns=columns)


def gate_left_out(kept: pd.DataFrame, needs_f1: float) -> pd.DataFrame:
    """Each document's pages judged by a cut on each score that was chosen on all others: as `left_out_summary`, by engine."""
    parts = []
    for engine, name, values, bad in _scored(kept, needs_f1):
        labels = bad.map({True: "needs it", False: "digital_clean"})
        frame = pd.DataFrame({"doc_id": kept.loc[values.index, "document"], "label": labels, "score": values})
        if frame["doc_id"].nunique() > 1:
            parts.append(leave_one_out(frame, "score", str).assign(unit=engine, view=name))
    columns = ["left_out", "cut", "n", "agreed", "clean", "unit", "view"]
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    return left_out_summary(rows).rename(columns={"unit": "engine", "view": "score"})


def by_level(kept: pd.DataFrame, needs_f1: float) -> pd.DataFrame:
    """What each score says of each degree of damage: engine, level, pages, how many need another reading, means, and a lowest."""
    frame = kept.assign(needs=kept["word_f1"] < needs_f1)
    groups = frame.groupby(["engine", "level"], sort=False)
    table = groups.agg(
        pages=("page", "size"), needs_it=("needs", "sum"), word_f1=("word_f1", "mean"), word_confidence=("word_confidence", "mean"),
        text_confidence=("text_confidence", "mean"), lowest_text_confidence=("text_confidence", "min"),
    )  # fmt: skip
    return table.reset_index().sort_values(["engine", "word_f1"], ascending=[True, False], ignore_index=True)


# Where the numbers come from


def threshold_table(limits: Thresholds = DEFAULTS) -> pd.DataFrame:
    """Every threshold: its value here, where the value comes from, and what it decides. A value that the study's parameters
    changed comes from there."""
    rows = []
    for one in fields(Thresholds):
        value = getattr(limits, one.name)
        origin = one.metadata["origin"] if value == one.default else "parameters of this study"
        rows.append((one.name, float(value), origin, one.metadata["decides"]))
    return pd.DataFrame(rows, columns=["threshold", "value", "origin", "decides"])


# Words for the page


def coverage(
    pages: pd.DataFrame, documents: pd.DataFrame, labelled_pages: pd.DataFrame, labelled_documents: pd.DataFrame
) -> pd.DataFrame:
    """How many pages and documents there are, how many have a label, and how many labels have no row; counts by label."""
    rows = []
    for unit, every, known in (("pages", pages, labelled_pages), ("documents", documents, labelled_documents)):
        counts = ", ".join(f"{heading(name)} {count:,}" for name, count in known["label"].value_counts().items())
        rows.append((unit, len(every), len(known), len(known.attrs["absent"]), counts))
    return pd.DataFrame(rows, columns=["unit", "in_the_study", "labelled", "labels_without_a_row", "labels"])


def nothing(why: str) -> pd.DataFrame:
    """A table that says why there is none."""
    return pd.DataFrame({"state": ["not_run"], "reason": [why]})


def no_pages() -> pd.DataFrame:
    """The table of pages of known truth, without any."""
    return pd.DataFrame(columns=["engine", *KEPT, "text_confidence"])


def how_left_out(same_name: bool) -> str:
    """What one turn of leave-one-out leaves out."""
    if same_name:
        return "Documents of one name in several folders are versions of one document, and are left out together."
    return "Each file is a document of its own."


def area_said(rows: pd.DataFrame) -> str:
    """How far each score tells pages that should be read again from others, in a sentence; or that it was not measured."""
    known = rows.dropna(subset=["auroc"])
    if known.empty:
        return "Whether a confidence tells pages that should be read again was not measured here: no pages of known truth are named."
    texts = []
    for name, what in (
        ("text_confidence", "confidence in the text"),
        ("word_confidence", "the engine's own confidence in its words"),
    ):
        part = known[known["score"] == name]
        areas = interval(part["auroc"], part["low"], part["high"], ".3f")
        texts += [f"{area} by {what} ({engine})" for area, engine in zip(areas, part["engine"], strict=True)]
    chances = "; ".join(texts)
    return f"The chance that a page that should be read again scores below one that need not is {chances}. A chance of one half is a coin."


def margin_said(rows: pd.DataFrame, view: str) -> str:
    """The margin of one view against scanned documents, or that no scan is labelled."""
    found = rows[(rows["view"] == view) & (rows["against"] == "scanned")]["margin"]
    return "an unknown size (no scan is labelled)" if found.empty else minus(f"{found.item():+.3f}")


def guard_said(rows: pd.DataFrame, view: str, guard: float) -> str:
    """Where the guard on mean quality lies in the margin of one view, in words."""
    found = rows[(rows["view"] == view) & (rows["against"] == "scanned")]
    if found.empty:
        return "has no margin to lie in"
    (row,) = found.to_dict("records")
    clean, other = row["its_quality"], row["its_mean_quality"]
    if other < guard <= clean:
        return "lies inside it"
    return "lies above it" if guard > clean else "lies below it, so that the other guards have to tell them apart"


def blind_spots(levels: pd.DataFrame, summary: pd.DataFrame) -> str:
    """Where text confidence does not see the damage, in a sentence with its figures."""
    texts = []
    for engine, part in levels.dropna(subset=["text_confidence"]).groupby("engine", sort=False):
        best, worst = part.loc[part["word_f1"].idxmax()], part.loc[part["word_f1"].idxmin()]
        (row,) = summary[(summary["engine"] == engine) & (summary["score"] == "text_confidence")].to_dict("records")
        blind = f"Confidence in the text does not see what {engine} lost. " if row["low"] <= 0.5 <= row["high"] else ""
        texts.append(
            f"{blind}Read by {engine}, from {best['level']} to {worst['level']} the words kept fall from {best['word_f1']:.2f} to "
            f"{worst['word_f1']:.2f} (mean F1), the engine's confidence in its words from {best['word_confidence']:.0f} to "
            f"{worst['word_confidence']:.0f}, and text confidence from {best['text_confidence']:.2f} to "
            f"{worst['text_confidence']:.2f}. The gate on text confidence leaves {row['missed']} of the pages "
            "that need another reading."
        )
    return " ".join(texts) or "No page of known truth has a text confidence here, so what it sees was not measured."
