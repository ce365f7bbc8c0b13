"""Arms: rankings whose quality is known beforehand, run beside the systems to see what the measure itself does.

An arm is no system. Its figures stand in a table of their own and in a file of their own, so that no leaderboard, no choice of the best
and no comparison can take one for a system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from localeval import metrics, stats, sweep
from localeval.grading import Units
from localeval.lexical import BM25
from localeval.records import BadInput, Hit, Query, Span, System, near
from localeval.retrieval import Shuffled
from localeval.systems import Engines
from localeval.tokens import tokeniser

Hits = dict[tuple[str, str], list[Hit]]

ARMS = {
    "random": "all chunks in an order by chance: what luck finds",
    "reversed": "the hits of the engine, the last first: what its order is worth",
    "title-only": "BM25 on titles and headings alone: what can be found without reading the text",
    "duplicate": "the engine again under another name: what differs here is noise",
    "oracle": "the chunks that hold the evidence, known from the labels: what these chunks allow at most",
}


@dataclass(frozen=True)
class Outcome:
    """base: name of the engine. rows: see `table`. scores: tidy, as `scores.csv`. latency: of engine and duplicate."""

    base: str
    rows: pd.DataFrame
    scores: pd.DataFrame
    latency: pd.DataFrame


def known(names: Sequence[str]) -> list[str]:
    """The names, each once; an unknown one is an error that names the nearest."""
    for name in names:
        if name not in ARMS:
            raise BadInput(f"arms: unknown {name!r}{near(name, ARMS)}; known: {', '.join(ARMS)}")
    return list(dict.fromkeys(names))


def engine(systems: Sequence[System], ran: Sequence[str]) -> System | None:
    """The engine that arms are held against: the first plain system that ran and is not itself by chance."""
    plain = (s for s in systems if s.name in ran and s.retriever != "random" and not s.reranker and not s.variant)
    return next(plain, None)


def system_of(arm: str, base: System) -> System:
    """An arm as a system, for its name and its chunker. Arms that depend on the engine are variants of it."""
    if arm in ("reversed", "duplicate"):
        return replace(base, variant=arm)
    return System(base.chunker, arm, depth=base.depth)


def perfect(query: Query, units: Units) -> list[Hit]:
    """The ranking that the labels allow with these chunks: first one for each piece of evidence, the whole of it where a chunk has that,
    the highest grade first; then all others that touch evidence. Unanswerable questions have none."""
    worth: dict[Span, tuple] = {}
    first: list[Span] = []
    for piece in sorted(query.evidence, key=lambda piece: -piece.grade):
        touching = sorted(units.touching(piece.span), key=lambda span: (-_share(span, piece.span), span))
        if not any(one.contains(piece.span) for one in first):
            first += [one for one in touching if one not in first][:1]
        for one in touching:
            worth[one] = max(worth.get(one, (0.0, 0.0)), (_share(one, piece.span), float(piece.grade)))
    rest = sorted(
        (span for span in worth if span not in first), key=lambda span: (*(-part for part in worth[span]), span)
    )
    return [Hit(span, 1 / rank) for rank, span in enumerate([*first, *rest], 1)]


def _share(unit: Span, evidence: Span) -> float:
    return unit.overlap(evidence) / max(1, len(evidence))


def turned(hits: Sequence[Hit]) -> list[Hit]:
    """The same hits, the last first; scores change their sign, so that they fall again."""
    return [Hit(hit.span, -hit.score) for hit in reversed(hits)]


def titles(base: System, engines: Engines) -> BM25:
    """BM25 over what stands above each chunk: title and headings, else the name of the document."""
    units, settings = engines.chunks[base.chunker], engines.settings
    texts = [unit.context or unit.span.doc_id for unit in units]
    spans = [unit.span for unit in units]
    return BM25(spans, texts, tokeniser(settings.tokeniser), k1=settings.k1, b=settings.b)


def _hits(arm: str, base: System, engines: Engines, queries: Sequence[Query], own: Hits) -> dict[str, list[Hit]]:
    """Query id -> hits of an arm that needs no clock. own: hits of the engine."""
    if arm == "reversed":
        return {query.query_id: turned(own[base.name, query.query_id]) for query in queries}
    if arm == "oracle":
        units = engines.unit_sets[base.chunker, "chunk"]
        return {query.query_id: perfect(query, units)[: base.depth] for query in queries}
    retriever = Shuffled(engines.spans(base.chunker)) if arm == "random" else titles(base, engines)
    return {query.query_id: retriever.search(query.text, base.depth) for query in queries}


def measure(
    names: Sequence[str], systems: Sequence[System], ran: Sequence[str], queries: Sequence[Query], engines: Engines, *,
    rule: str, metric_names: Sequence[str], origin: str, repeats: int = 3, timed_questions: int = 0, seed: int = 7,
) -> Outcome:  # fmt: skip
    """Runs the arms beside one engine and grades them all under one rule. ran: names of the systems that gave hits.

    Engine and duplicate are timed in turns, as all systems are. Columns of rows: see `table`; empty where no engine ran.
    """
    base, names = engine(systems, ran), known(names)
    if base is None or not names:
        empty = pd.DataFrame(columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])
        return Outcome("", table([], empty, base, metric_names, origin), empty, stats.latency_table(_no_times()))
    timed = [base, *(system_of(name, base) for name in names if name == "duplicate")]
    done = sweep.run(timed, queries, engines, repeats=repeats, timed_questions=timed_questions, seed=seed)
    hits = dict(done.hits)
    for name in names:
        if name != "duplicate":
            found = _hits(name, base, engines, queries, done.hits)
            hits |= {(system_of(name, base).name, query_id): ranked for query_id, ranked in found.items()}
    every = [base, *(system_of(name, base) for name in names)]
    graded = sweep.grade_all(hits, every, queries, [rule], engines)
    scores = metrics.scores_of(graded, metric_names)
    return Outcome(
        base.name, table(names, scores, base, metric_names, origin), scores, stats.latency_table(done.timings)
    )


def _no_times() -> pd.DataFrame:
    return pd.DataFrame(columns=["system", "query_id", "phase", "repeat", "seconds"])


def table(
    names: Sequence[str], scores: pd.DataFrame, base: System | None, metric_names: Sequence[str], origin: str
) -> pd.DataFrame:
    """The engine, then every arm: means with intervals, and the paired difference to the engine.

    Columns: arm, system, metric, mean, low, high, n, delta, delta_low, delta_high, differing: questions on which arm and engine differ.
    """
    columns = ["arm", "system", "metric", "mean", "low", "high", "n", "delta", "delta_low", "delta_high", "differing"]
    own, rows = scores[scores["origin"] == origin], []
    for arm in ["engine", *names] if base else []:
        system = base.name if arm == "engine" else system_of(arm, base).name
        for metric in metric_names:
            sides = [own[(own["system"] == name) & (own["metric"] == metric)] for name in (base.name, system)]
            before, after = (dict(zip(side["query_id"], side["value"], strict=True)) for side in sides)
            if after:
                got = stats.interval(list(after.values()), binary=metrics.is_binary(metric))
                apart = stats.compare(before, after, metric=metric, rule="", names=(base.name, system))
                differing = sum(abs(after[query] - before[query]) > stats.TIE for query in after.keys() & before.keys())
                ends = (apart.delta, apart.low, apart.high, differing)
                rows.append((arm, system, metric, got.mean, got.low, got.high, got.n, *ends))
    return pd.DataFrame(rows, columns=columns)


def sentence(outcome: Outcome) -> str:
    """What the duplicate says of the noise, in words: how many values differ, and how its time compares."""
    twin = outcome.rows[outcome.rows["arm"] == "duplicate"]
    if twin.empty:
        return "No engine was run twice here."
    values = int(twin["n"].sum())
    differing = int(twin["differing"].sum())
    told = f"Of {values:,} values of the duplicate {f'{differing:,}' if differing else 'none'} differ from those of the engine."
    times = outcome.latency[outcome.latency["phase"] == "total"].set_index("system")["mean_ms"]
    name = twin["system"].iloc[0]
    if not {name, outcome.base} <= set(times.index):
        return told
    return f"{told} Its mean time is {times[name] / times[outcome.base]:.1%} of the engine's: so much is noise of the clock."
