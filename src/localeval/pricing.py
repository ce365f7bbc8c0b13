"""What reranking costs beside its milliseconds: room for token vectors, what a faster way to run a model loses, and the number of
questions after which work done beforehand has paid.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pandas as pd

from localeval import metrics, stats, sweep
from localeval.records import BadInput, Query, System, near
from localeval.stats import percentile
from localeval.systems import Engines, with_rerankers

WAYS = [
    "reranker", "status", "reason", "bytes_a_chunk", "overlap", "score_apart", "delta", "low", "high", "n", "mean_ms", "p95_ms", "asked"
]  # fmt: skip
SLOW = ":fly"  # computes the vectors of every candidate anew
SLOW_QUESTIONS = 2  # that such a way is asked at most, each twice: for its hits, and for the clock


def base_of(runs: pd.DataFrame, name: str = "") -> System:
    """The first stage of that name in a table of runs; without a name the first that something reranks, else the first that ran."""
    ran = runs[(runs["status"] == "ok") & (runs["rerank_depth"] == 0)]
    if ran.empty:
        raise BadInput("no first stage ran in 40_rerank, so there is nothing to price")
    if name and name not in set(ran["system"]):
        raise BadInput(
            f"base {name!r} did not run in 40_rerank{near(name, ran['system'])}; ran: {', '.join(ran['system'])}"
        )
    under = runs.loc[runs["rerank_depth"] > 0, "system"].str.split("+").str[0]
    chosen = name or next((one for one in ran["system"] if one in set(under)), ran["system"].iloc[0])
    row = ran[ran["system"] == chosen].iloc[0]
    return System(
        row["chunker"], row["retriever"], row["model"] if isinstance(row["model"], str) else "", depth=int(row["depth"])
    )


def drawn(queries: Sequence[Query], origin: str, size: int, seed: int) -> list[Query]:
    """That many answerable questions of one origin, in their order; all where there are no more."""
    own = [query for query in queries if query.answerable and query.origin == origin]
    places = sorted(random.Random(seed).sample(range(len(own)), min(size, len(own))))
    return [own[place] for place in places]


def compare_ways(
    base: System, ways: Sequence[str], depth: int, queries: Sequence[Query], engines: Engines, rule: str, metric: str, *,
    origin: str, timed_questions: int, repeats: int = 3, seed: int = stats.SEED, progress=lambda text: None,
) -> pd.DataFrame:  # fmt: skip
    """Ways to run one reranker against the first of them, each over the first `depth` hits of the same first stage.

    A way that stores nothing is asked of a few of the timed questions only. Columns: WAYS. overlap: mean share of the first ten hits in
    common; score_apart: largest difference of a candidate's score; delta: mean paired difference of the metric on answerable
    questions of the origin, with its interval; mean_ms, p95_ms: of the reranking alone, warm.
    """
    if not ways:
        return pd.DataFrame(columns=WAYS)
    own = [query for query in queries if query.answerable and query.origin == origin]
    few = drawn(queries, origin, min(timed_questions, SLOW_QUESTIONS), seed)
    options = {"repeats": repeats, "timed_questions": timed_questions, "seed": seed, "progress": progress}
    first, parts = with_rerankers([base], ways[:1], [depth])[1], []
    for some, asked in (
        ([way for way in ways if not way.endswith(SLOW)], own),
        ([way for way in ways if way.endswith(SLOW)], few),
    ):
        if some:
            systems = with_rerankers([base], some, [depth])[1:]
            once = {"repeats": 1} if asked is few else {}
            parts.append((systems, sweep.run(systems, asked, engines, **(options | once))))
    hits = {key: found for _, outcome in parts for key, found in outcome.hits.items()}
    runs = pd.concat([outcome.runs for _, outcome in parts], ignore_index=True)
    timings = pd.concat([outcome.timings for _, outcome in parts], ignore_index=True)
    values = _values(hits, [system for systems, _ in parts for system in systems], own, rule, metric, engines)
    rows = {
        system.reranker: _way(system, first, hits, runs, timings, values, engines)
        for systems, _ in parts
        for system in systems
    }
    return pd.DataFrame([rows[way] for way in dict.fromkeys(ways)], columns=WAYS)


def _values(hits, systems, queries, rule, metric, engines) -> dict[str, dict[str, float]]:
    """system -> query id -> value."""
    found: dict[str, dict[str, float]] = {}
    for system in systems:
        asked = [query for query in queries if (system.name, query.query_id) in hits]
        own = {key: some for key, some in hits.items() if key[0] == system.name}
        if asked:
            scores = metrics.scores_of(sweep.grade_all(own, [system], asked, [rule], engines), [metric])
            found[system.name] = dict(zip(scores["query_id"], scores["value"], strict=True))
    return found


def _way(system: System, first: System, hits, runs, timings, values, engines) -> dict:
    state = runs[runs["system"] == system.name].iloc[0]
    row = {"reranker": system.reranker, "status": state["status"], "reason": state["reason"]}
    if state["status"] != "ok":
        return row
    ms = timings.loc[(timings["system"] == system.name) & (timings["phase"] == "rerank"), "seconds"].to_numpy() * 1000
    row |= {
        "bytes_a_chunk": engines.bytes_a_chunk(system),
        "mean_ms": ms.mean(),
        "p95_ms": percentile(ms, 0.95),
        "asked": len(ms),
    }
    if system != first and first.name in values and system.name in values:
        got = stats.compare(
            values[first.name], values[system.name], metric="", rule="", names=(first.name, system.name)
        )
        row |= {"delta": got.delta, "low": got.low, "high": got.high, "n": got.n} | _apart(system, first, hits)
    return row


def _apart(system: System, first: System, hits) -> dict:
    """How far two ways are apart over the questions that both were asked."""
    shared, apart = [], [0.0]
    for (name, query), found in hits.items():
        other = hits.get((first.name, query))
        if name != system.name or not other:
            continue
        shared.append(len({hit.span for hit in found[:10]} & {hit.span for hit in other[:10]}) / min(10, len(other)))
        scores = {hit.span: hit.score for hit in other[: first.rerank_depth]}
        apart += [abs(hit.score - scores[hit.span]) for hit in found[: first.rerank_depth] if hit.span in scores]
    return {"overlap": float(np.mean(shared)) if shared else np.nan, "score_apart": max(apart)}


def candidates(
    hits, base: System, queries: Sequence[Query], engines: Engines, depth: int
) -> list[tuple[str, list[str]]]:
    """Each question with the texts of the first `depth` hits of the base; those without hits are left out."""
    texts = dict(zip(engines.spans(base.chunker), engines.texts(base.chunker), strict=True))
    pairs = [
        (query.text, [texts[hit.span] for hit in hits.get((base.name, query.query_id), ())[:depth]])
        for query in queries
    ]
    return [(question, passages) for question, passages in pairs if passages]


# Break-even

COSTS = ["system", "once_s", "question_s", "kind"]
MEASURED, ESTIMATED = "measured", "cost only"


def costs(runs: pd.DataFrame, totals: pd.DataFrame, depth: int) -> pd.DataFrame:
    """What each system that ran costs once (seconds to embed the chunks) and for each question (warm mean). Columns: COSTS.

    The first stages, and what is reranked to `depth`. What is reranked costs once no less than its first stage: one pass gives
    both kinds of vectors. totals: rows of `stats.latency_table` with phase total.
    """
    ran = runs[(runs["status"] == "ok") & runs["rerank_depth"].isin([0, depth]) & (runs["retriever"] != "random")]
    frame = ran.merge(totals[["system", "mean_ms"]], on="system")
    own = frame.set_index("system")["vector_seconds"].fillna(0.0)
    once = [max(own[name], own.get(name.partition("+")[0], 0.0)) for name in frame["system"]]
    return pd.DataFrame(
        {"system": frame["system"], "once_s": once, "question_s": frame["mean_ms"] / 1000, "kind": MEASURED}
    )


def with_preview(known: pd.DataFrame, preview: pd.DataFrame, bases: Sequence[str], depth: int) -> pd.DataFrame:
    """`costs` with a row for each base and previewed shape, run in its fastest way: the base's time and that of the preview."""
    rows = []
    for base in known[known["system"].isin(bases)].to_dict("records"):
        for shape, part in preview.groupby("shape", sort=False):
            name = f"{base['system']} with cross-encoder {shape}@{depth} (cost only)"
            rows.append((name, base["once_s"], base["question_s"] + part["mean_ms"].min() / 1000, ESTIMATED))
    return pd.concat([known, pd.DataFrame(rows, columns=COSTS)], ignore_index=True) if rows else known


def amortised(known: pd.DataFrame, most: float = 1e6) -> pd.DataFrame:
    """Seconds a question of every system when what is done once is shared by all questions. Columns: system, questions, seconds, kind."""
    counts = np.unique(np.round(np.geomspace(1, most, 61)))
    rows = [
        (row["system"], n, row["once_s"] / n + row["question_s"], row["kind"])
        for row in known.to_dict("records")
        for n in counts
    ]
    return pd.DataFrame(rows, columns=["system", "questions", "seconds", "kind"])


CROSSINGS = ["cheaper_before", "cheaper_from", "questions"]


def crossings(known: pd.DataFrame) -> pd.DataFrame:
    """Pairs of systems of which one costs more once and less a question, with the number of questions from which on it is the
    cheaper in all; soonest first. Columns: CROSSINGS.
    """
    rows = []
    for one, two in permutations(known.to_dict("records"), 2):
        if two["once_s"] > one["once_s"] and two["question_s"] < one["question_s"]:
            count = (two["once_s"] - one["once_s"]) / (one["question_s"] - two["question_s"])
            rows.append((one["system"], two["system"], int(np.floor(count)) + 1))
    return pd.DataFrame(rows, columns=CROSSINGS).sort_values("questions", kind="stable", ignore_index=True)


def break_even(known: pd.DataFrame) -> str:
    """Where the lines cross, in one sentence."""
    found = crossings(known)
    if found.empty:
        return (
            "No lines cross: no system costs more beforehand and less a question than another, so their order is the same for any "
            "number of questions."
        )
    first, last = found.iloc[0], found.iloc[-1]
    told = lambda row: (
        f"{row['cheaper_from']} is cheaper in all than {row['cheaper_before']} from question {row['questions']:,d} on"
    )
    pairs = f"Lines cross for {len(found)} of {len(known) * (len(known) - 1) // 2} pairs"
    if len(found) > 1 and first["questions"] == last["questions"]:
        return f"{pairs}, all at question {first['questions']:,d}: {told(first)}, for example."
    more = f"; latest, {told(last)}" if len(found) > 1 else ""
    return f"{pairs}. Soonest, {told(first)}{more}."
