"""What damage to the text does to retrieval: the same systems and questions on a corpus and on its twins.

Systems on a twin carry its name as variant (`sentence/bm25~tesseract-heavy`), so that hits, gains, scores and comparisons
have the form they have everywhere else. Everything is paired by question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from localeval import grading, metrics, quality, stats, sweep
from localeval.chunking import chunk_corpus
from localeval.corpus import Corpus, Signals
from localeval.records import BadInput, Graded, Query, ScoringRule, System, near
from localeval.systems import Engines, Settings, with_rerankers
from localeval.twins import Twin
from localeval.vectors import VectorCache

SOURCE = "source"  # the engine and the level of what is not damaged
SEVERAL = "several"  # the class of a question whose pieces of evidence are of different classes
STAGES = ("in the text", "in one chunk", "in the candidates", "in the top")


def with_reranked(systems: Sequence[System], reranker: str, depths: dict[str, int]) -> list[System]:
    """The systems, and behind them those named in `depths` again, with the reranker at that depth. Raises `BadInput` for a name that is
    no system."""
    by_name = {system.name: system for system in systems}
    for name in depths:
        if name not in by_name:
            raise BadInput(
                f"reranked: {name!r} is no system of this run{near(name, by_name)}; it has {', '.join(by_name)}"
            )
    again = [with_rerankers([by_name[name]], [reranker], [depth])[-1] for name, depth in depths.items()]
    return [*systems, *again]


@dataclass(frozen=True)
class Setting:
    """What stays the same on every twin. chunkers: as for `chunking.chunk_corpus`. cache, root: as for `systems.Engines`."""

    systems: Sequence[System]
    chunkers: dict[str, dict]
    rules: Sequence[str]
    settings: Settings
    cache: Path
    root: Path


@dataclass(frozen=True)
class Outcome:
    """graded: as `sweep.grade_all`. runs: one row a system and variant with its state. chunked: which pieces of evidence
    stand in one chunk; columns variant, chunker, query_id, evidence, in_chunk."""

    graded: dict[tuple[str, str], list[Graded]]
    runs: pd.DataFrame
    chunked: pd.DataFrame


def experiment(
    source: Corpus, queries: Sequence[Query], twins: Sequence[Twin], setting: Setting, progress=lambda text: None
) -> Outcome:
    """Every system on the source and on every twin, with the evidence at its place in each."""
    sides = [("", source, queries), *((twin.name, twin.corpus, twin.queries) for twin in twins)]
    parts = []
    for variant, corpus, asked in sides:
        progress(f"search: {variant or SOURCE}")
        parts.append(_search(variant, corpus, asked, setting))
    graded = {key: some for part in parts for key, some in part.graded.items()}
    frames = [(part.runs, part.chunked) for part in parts]
    return Outcome(graded, *(pd.concat(frame, ignore_index=True) for frame in zip(*frames, strict=True)))


def _search(variant: str, corpus: Corpus, queries: Sequence[Query], setting: Setting) -> Outcome:
    chunks = chunk_corpus(corpus, setting.chunkers)
    engines = Engines(corpus, chunks, setting.settings, setting.cache, setting.root)
    systems = [replace(system, variant=variant) for system in setting.systems]
    for system in systems:
        if system.reranker == "maxsim" and not engines.missing(system):  # this pass gives the texts' own vectors too
            texts, kind = engines.texts(system.chunker), setting.settings.token_vectors
            VectorCache(setting.cache).tokens(engines.embedder(system.model), texts, kind)
    found = sweep.run(systems, queries, engines, repeats=1, timed_questions=1)
    graded = sweep.grade_all(found.hits, systems, queries, setting.rules, engines)
    rule = ScoringRule("chunk", "contains")
    rows = [
        (
            variant,
            name,
            query.query_id,
            number,
            any(grading.counts(unit, item, rule) for unit in units.touching(item.span)),
        )
        for (name, kind), units in engines.unit_sets.items()
        if kind == "chunk"
        for query in queries
        for number, item in enumerate(query.evidence)
    ]
    chunked = pd.DataFrame(rows, columns=["variant", "chunker", "query_id", "evidence", "in_chunk"])
    return Outcome(graded, found.runs, chunked)


def named(frame: pd.DataFrame, twins: Sequence[Twin]) -> pd.DataFrame:
    """A frame with a column system, with what its names say in columns of their own: base, engine, level."""
    parts = frame["system"].str.partition("~")
    engines = {twin.name: twin.engine for twin in twins} | {"": SOURCE}
    levels = {twin.name: twin.level for twin in twins} | {"": SOURCE}
    return frame.assign(base=parts[0], engine=parts[2].map(engines), level=parts[2].map(levels))


# Differences, and how they follow the damage


def deltas(
    scores: pd.DataFrame, twins: Sequence[Twin], names: Sequence[str], rule: str, *, seed: int, n_resamples: int
) -> pd.DataFrame:
    """Every system on every twin minus itself on the source, paired by question, uncorrected.

    names: of metrics. Columns: those of `stats.Comparison`, base, engine, level.
    """
    chosen = named(scores[(scores["rule"] == rule) & scores["metric"].isin(names)], twins)
    values = {
        key: dict(zip(part["query_id"], part["value"], strict=True))
        for key, part in chosen.groupby(["base", "metric", "engine", "level"], sort=False)
    }
    rows = []
    for (base, metric, engine, level), own in values.items():
        if engine != SOURCE and (base, metric, SOURCE, SOURCE) in values:
            about = {"metric": metric, "rule": rule, "names": (base, f"{base}~{engine}-{level}")}
            got = stats.compare(values[base, metric, SOURCE, SOURCE], own, **about, seed=seed, n_resamples=n_resamples)
            rows.append(asdict(got) | {"base": base, "engine": engine, "level": level})
    return pd.DataFrame(rows, columns=[*stats.Comparison.__dataclass_fields__, "base", "engine", "level"])


def doses(scores: pd.DataFrame, twins: Sequence[Twin]) -> pd.DataFrame:
    """`scores` with the dose of each question: word_f1 and cer, means over the pages of its evidence; for the source 1 and 0.

    A page without words counts as one that kept none. Columns of `named`, word_f1, cer.
    """
    parts = [_question_doses(twin) for twin in twins]
    known = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["engine", "level", "query_id"])
    joined = named(scores, twins).merge(known, on=["engine", "level", "query_id"], how="left")
    whole = joined["engine"] == SOURCE
    for column, value in (("word_f1", 1.0), ("cer", 0.0)):
        joined[column] = joined[column].where(~whole, value) if column in joined else value
    return joined


def _question_doses(twin: Twin) -> pd.DataFrame:
    pages = twin.fidelity.rename(columns={"document": "doc_id", "page": "page_index"})
    pages = pages[["doc_id", "page_index", "word_f1", "cer"]].fillna({"word_f1": 0.0, "cer": 1.0})
    own = twin.evidence.merge(pages, on=["doc_id", "page_index"]).drop_duplicates(["query_id", "doc_id", "page_index"])
    means = own.groupby("query_id", as_index=False)[["word_f1", "cer"]].mean()
    return means.assign(engine=twin.engine, level=twin.level)


def responses(dosed: pd.DataFrame, metric: str, rule: str, *, seed: int, n_resamples: int) -> pd.DataFrame:
    """One point a system and twin: mean dose and mean value with its interval, over the same questions.

    Columns: system (without variant), engine, level, word_f1, cer, mean, low, high, n; best text first.
    """
    chosen, rows = dosed[(dosed["rule"] == rule) & (dosed["metric"] == metric)], []
    for (base, engine, level), part in chosen.groupby(["base", "engine", "level"], sort=False):
        part = part.sort_values("query_id")
        got = stats.interval(part["value"], binary=metrics.is_binary(metric), seed=seed, n_resamples=n_resamples)
        rows.append(
            (base, engine, level, part["word_f1"].mean(), part["cer"].mean(), got.mean, got.low, got.high, got.n)
        )
    columns = ["system", "engine", "level", "word_f1", "cer", "mean", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns).sort_values("word_f1", ascending=False, kind="stable", ignore_index=True)


STEP = 0.1  # of word F1: slopes are given for ten points


def slopes(dosed: pd.DataFrame, metric: str, rule: str, *, seed: int, n_resamples: int) -> pd.DataFrame:
    """What ten points of word F1 lost on the pages of its evidence cost a question: a row a system.

    Least squares within questions: each question is compared with itself on other twins and on the source, so that hard
    questions on badly read pages do not count as damage. Interval: bootstrap over questions. Columns: system, slope, low,
    high, n (questions), points.
    """
    chosen, rows = dosed[(dosed["rule"] == rule) & (dosed["metric"] == metric)], []
    for base, part in chosen.groupby("base", sort=False):
        sums = _within(part.sort_values(["query_id", "engine", "level"]))
        slope, low, high = _ratio(sums, seed, n_resamples)
        rows.append((base, slope, low, high, len(sums), len(part)))
    return pd.DataFrame(rows, columns=["system", "slope", "low", "high", "n", "points"])


def _within(part: pd.DataFrame) -> np.ndarray:
    """Sums of products and of squares of each question's own deviations: (questions, 2)."""
    means = part.groupby("query_id")[["word_f1", "value"]].transform("mean")
    x, y = part["word_f1"] - means["word_f1"], part["value"] - means["value"]
    return pd.DataFrame({"xy": x * y, "xx": x * x}).groupby(part["query_id"]).sum().to_numpy()


def _ratio(sums: np.ndarray, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Slope for a loss of STEP and its percentile interval; NaN where no dose varies."""
    if not len(sums) or sums[:, 1].sum() <= stats.TIE:
        return (float("nan"),) * 3
    drawn = sums[np.random.default_rng(seed).integers(0, len(sums), size=(n_resamples, len(sums)))].sum(axis=1)
    drawn = drawn[drawn[:, 1] > stats.TIE]
    low, high = np.quantile(-STEP * drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    total = sums.sum(axis=0)
    return float(-STEP * total[0] / total[1]), float(low), float(high)


# Where evidence is lost


def waterfall(
    outcome: Outcome, twins: Sequence[Twin], queries: Sequence[Query], rule: str, cutoff: int = 10
) -> pd.DataFrame:
    """Pieces of evidence that are still there after each stage. Columns: system (without variant), engine, level, pieces,
    the four STAGES; each counts pieces that passed it and all before.

    In the candidates: some hit that was kept holds the whole piece; in the top: one above the cutoff does.
    """
    texts = {twin.name: twin.evidence.set_index(["query_id", "evidence"])["in_text"] for twin in twins}
    frame = outcome.chunked.set_index(["variant", "chunker", "query_id", "evidence"])["in_chunk"].to_dict()
    asked = [query for query in queries if query.answerable]
    rows = []
    for (system, text), graded in outcome.graded.items():
        if text != rule:
            continue
        base, _, variant = system.partition("~")
        chunker = base.partition("/")[0]
        ranks = {(one.query_id, index): rank for one in graded for rank, indexes in one.covers for index in indexes}
        pieces = [(query.query_id, index) for query in asked for index in range(len(query.evidence))]
        known = [piece for piece in pieces if bool(texts[variant][piece])] if variant else pieces
        chunked = [piece for piece in known if frame[variant, chunker, *piece]]
        listed = [piece for piece in chunked if piece in ranks]
        top = [piece for piece in listed if ranks[piece] <= cutoff]
        rows.append((system, len(pieces), len(known), len(chunked), len(listed), len(top)))
    counted = named(pd.DataFrame(rows, columns=["system", "pieces", *STAGES]), twins)
    return counted.assign(system=counted["base"])[["system", "engine", "level", "pieces", *STAGES]]


# What reading costs, and what it buys


def prices(points: pd.DataFrame, twins: Sequence[Twin]) -> pd.DataFrame:
    """What an engine's seconds buy over no OCR. points: of `responses`.

    First the scans without OCR: no text, so nothing to search; their zeros are a state. Then a row a system and twin: seconds
    (mean of a page), value (the mean of the metric), share (of what the system has on the source) and per_second (value /
    seconds). Columns: system, engine, level, state, seconds, value, share, per_second.
    """
    columns = ["system", "engine", "level", "state", "seconds", "value", "share", "per_second"]
    if not twins:
        return pd.DataFrame(columns=columns)
    seconds = {(twin.engine, twin.level): float(twin.fidelity["seconds"].mean()) for twin in twins}
    whole = points[points["engine"] == SOURCE].set_index("system")["mean"]
    own = points[points["engine"] != SOURCE]
    spent = pd.Series([seconds[key] for key in zip(own["engine"], own["level"], strict=True)], own.index, dtype=float)
    full = own["system"].map(whole)
    values = {"state": "measured", "seconds": spent, "value": own["mean"], "share": own["mean"] / full.where(full > 0)}
    frame = own[["system", "engine", "level"]].assign(**values, per_second=own["mean"] / spent.where(spent > 0))
    nothing = ("every system", "none", "every level", "no text, nothing to search", 0.0, np.nan, np.nan, np.nan)
    return pd.concat([pd.DataFrame([nothing], columns=columns), frame], ignore_index=True)


def between_engines(
    scores: pd.DataFrame, twins: Sequence[Twin], metric: str, rule: str, *, seed: int, n_resamples: int
) -> pd.DataFrame:
    """The second engine minus the first at each level that both read, paired by question, uncorrected, with the seconds a page
    it takes beyond the first. Columns: those of `stats.Comparison`, base, level, more_seconds, per_second."""
    engines = list(dict.fromkeys(twin.engine for twin in twins))[:2]
    chosen = named(scores[(scores["rule"] == rule) & (scores["metric"] == metric)], twins)
    values = {
        key: dict(zip(part["query_id"], part["value"], strict=True))
        for key, part in chosen.groupby(["base", "engine", "level"], sort=False)
    }
    seconds = {(twin.engine, twin.level): float(twin.fidelity["seconds"].mean()) for twin in twins}
    rows = []
    for base, engine, level in values:
        if len(engines) < 2 or engine != engines[0] or (base, engines[1], level) not in values:
            continue
        names = tuple(f"{base}~{one}-{level}" for one in engines)
        sides = [values[base, one, level] for one in engines]
        got = stats.compare(*sides, metric=metric, rule=rule, names=names, seed=seed, n_resamples=n_resamples)
        more = seconds[engines[1], level] - seconds[engines[0], level]
        extra = {"base": base, "level": level, "more_seconds": more, "per_second": got.delta / more if more else np.nan}
        rows.append(asdict(got) | extra)
    return pd.DataFrame(
        rows, columns=[*stats.Comparison.__dataclass_fields__, "base", "level", "more_seconds", "per_second"]
    )


# By class of page and by kind of document


def page_classes(corpus: Corpus) -> pd.DataFrame:
    """The class of every page as ingestion gives it, and by its text alone. Columns: doc_id, page_index, class, text_class."""
    pages = quality.page_table(corpus)
    texts = [corpus.text(unit.span) for unit in corpus.pages()]
    alone = [quality.classify(quality.features(text), Signals())[0] for text in texts]
    return pages[["doc_id", "page_index", "class"]].assign(text_class=alone)


def question_classes(queries: Sequence[Query], source: Corpus, pages: pd.DataFrame, column: str) -> dict[str, str]:
    """The class of the pages that a question's evidence stands on; SEVERAL where they differ. pages: of `page_classes`."""
    known = {(row["doc_id"], row["page_index"]): row[column] for row in pages.to_dict("records")}
    found = {}
    for query in queries:
        layouts = source.layouts
        classes = {
            known[item.span.doc_id, _page_index(layouts[item.span.doc_id], item.span)] for item in query.evidence
        }
        if classes:
            found[query.query_id] = classes.pop() if len(classes) == 1 else SEVERAL
    return found


def _page_index(layout, span) -> int:
    """Of the page the span stands on; a document without pages is one page."""
    return layout.page_of(span) if layout.pages else 0


def question_kinds(queries: Sequence[Query], kinds: dict[str, str]) -> dict[str, str]:
    """The kind of document that a question's evidence stands in; SEVERAL where they differ. kinds: doc_id -> kind."""
    found = {}
    for query in queries:
        own = {kinds.get(item.span.doc_id, "not labelled") for item in query.evidence}
        if own:
            found[query.query_id] = own.pop() if len(own) == 1 else SEVERAL
    return found


def grouped(
    scores: pd.DataFrame, groups: dict[str, str], metric_names: Sequence[str], rule: str, *, seed: int, n_resamples: int
) -> pd.DataFrame:
    """Means with intervals of every system by group of questions. groups: query_id -> group. Columns: group, system, metric,
    mean, low, high, n."""
    chosen = scores[(scores["rule"] == rule) & scores["metric"].isin(metric_names)]
    chosen = chosen.assign(group=chosen["query_id"].map(groups)).dropna(subset=["group"])
    rows = []
    for (group, system, metric), part in chosen.groupby(["group", "system", "metric"], sort=False):
        values = part.sort_values("query_id")["value"]
        got = stats.interval(values, binary=metrics.is_binary(metric), seed=seed, n_resamples=n_resamples)
        rows.append((group, system, metric, got.mean, got.low, got.high, got.n))
    return pd.DataFrame(rows, columns=["group", "system", "metric", "mean", "low", "high", "n"])


def deltas_by(
    scores: pd.DataFrame, twins: Sequence[Twin], groups: dict[str, dict[str, str]], names: Sequence[str], rule: str,
    *, seed: int, n_resamples: int,
) -> pd.DataFrame:  # fmt: skip
    """`deltas` within groups of questions. groups: name of a twin -> query_id -> group. Columns: group, then those of `deltas`."""
    parts = []
    for twin in twins:
        own = groups[twin.name]
        sides = scores[scores["system"].str.partition("~")[2].isin(["", twin.name])]
        for group in dict.fromkeys(own.values()):
            part = sides[sides["query_id"].map(own) == group]
            found = deltas(part, [twin], names, rule, seed=seed, n_resamples=n_resamples)
            parts.append(found.assign(group=group))
    columns = ["group", *stats.Comparison.__dataclass_fields__, "base", "engine", "level"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def classes_of(twins: Sequence[Twin]) -> dict[str, pd.DataFrame]:
    """`page_classes` of every twin, by its name."""
    return {twin.name: page_classes(twin.corpus) for twin in twins}


def twin_classes(twins: Sequence[Twin], pages: dict[str, pd.DataFrame], column: str) -> dict[str, dict[str, str]]:
    """`question_classes` on every twin: what became of the pages that a question's evidence stands on. The questions and
    their pages are those of the source, since lost evidence has no page."""
    found = {}
    for twin in twins:
        known = {(row["doc_id"], row["page_index"]): row[column] for row in pages[twin.name].to_dict("records")}
        own = twin.evidence.assign(
            group=[known[key] for key in zip(twin.evidence["doc_id"], _indexes(twin), strict=True)]
        )
        groups = own.groupby("query_id", sort=False)["group"].agg(
            lambda part: part.iloc[0] if part.nunique() == 1 else SEVERAL
        )
        found[twin.name] = groups.to_dict()
    return found


def _indexes(twin: Twin) -> list[int]:
    return twin.evidence["page_index"].astype(int).tolist()


def class_counts(pages: dict[str, pd.DataFrame], twins: Sequence[Twin]) -> pd.DataFrame:
    """Pages of every twin by class, with the mean word F1 of each group. Columns: engine, level, class, text_class, pages, word_f1."""
    parts = []
    for twin in twins:
        kept = twin.fidelity.rename(columns={"document": "doc_id", "page": "page_index"})
        joined = pages[twin.name].merge(kept[["doc_id", "page_index", "word_f1"]], on=["doc_id", "page_index"])
        counts = joined.groupby(["class", "text_class"], as_index=False).agg(
            pages=("word_f1", "size"), word_f1=("word_f1", "mean")
        )
        parts.append(counts.assign(engine=twin.engine, level=twin.level))
    columns = ["engine", "level", "class", "text_class", "pages", "word_f1"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
