"""The one experiment: systems rank units for questions, evidence decides which count, a clock says what it cost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from localeval.approximate import recall
from localeval.corpus import read_jsonl
from localeval.embedding import CARDS, UNLIMITED, card_of, locate, verify
from localeval.grading import grade, known_rules
from localeval.lexical import unweighted_share
from localeval.records import BadInput, Graded, Hit, Query, ScoringRule, System
from localeval.retrieval import Dense, Retriever, remembering, timed
from localeval.systems import GRAPH, LEARNED, LEXICAL, Engines, Settings
from localeval.tables import read_units
from localeval.tokens import tokeniser

WARM_UP = 3  # queries run and thrown away before the clock counts


@dataclass(frozen=True, slots=True)
class Outcome:
    """hits: (system, query id) -> ranked hits. runs: one row a system with its state. timings: tidy seconds."""

    hits: dict[tuple[str, str], list[Hit]]
    runs: pd.DataFrame
    timings: pd.DataFrame


def run(
    systems, queries: Sequence[Query], engines: Engines, *, repeats: int = 3, timed_questions: int = 0, seed: int = 7,
    progress=lambda text: None,
) -> Outcome:  # fmt: skip
    """Runs every system over every query, then again for the clock, in one warm process.

    First all queries for their hits, with what systems share (the vector of a query, a first stage, the score of a candidate)
    computed once. Then `timed_questions` of them (0: all), drawn with the seed, `repeats` times each with nothing shared,
    queries shuffled and, at each, the systems too: only these are timings. Their hits must be the same as before; a system that
    answers otherwise is `failed`, and one system's failure is not the end of the sweep.
    """
    if repeats < 1:
        raise BadInput(f"repeats={repeats}: every question must be asked at least once")
    if timed_questions < 0:
        raise BadInput(f"timed_questions={timed_questions}: give a number of questions, or 0 for all")
    states, ready = {}, {}
    for number, system in enumerate(systems, 1):
        states[system.name], retriever = _build(system, engines)
        progress(
            f"index {number} of {len(systems)}: {system.name}{'' if retriever else ': ' + states[system.name]['status']}"
        )
        if retriever:
            ready[system.name] = retriever
    if not ready:
        first = next(iter(states.values()), {"reason": "none was named"})["reason"]
        raise BadInput(f"none of {len(states)} systems could run; the first: {first}")
    depth = {system.name: system.depth for system in systems}
    hits, timings = {}, []
    for number, query in enumerate(queries, 1):
        if number % 50 == 0:
            progress(f"search, question {number} of {len(queries)}")
        with remembering():
            for name in list(ready):
                _search(name, ready, query, depth[name], 0, hits, [], states)
    sample = _sample(queries, timed_questions, seed)
    for query in sample[:WARM_UP]:
        for name in list(ready):
            _search(name, ready, query, depth[name], 0, hits, [], states)
    for repeat in range(repeats):
        progress(f"search for the clock, repeat {repeat + 1} of {repeats}, {len(sample)} questions")
        order, draw = list(sample), random.Random(seed + repeat)
        draw.shuffle(order)
        for query in order:
            for name in draw.sample(list(ready), len(ready)):
                _search(name, ready, query, depth[name], repeat, hits, timings, states)
    if not ready:
        raise BadInput(f"every system broke while searching; the first: {next(iter(states.values()))['reason']}")
    ordered = {(name, q.query_id): hits[name, q.query_id] for name in ready for q in queries}
    return Outcome(ordered, _runs(systems, states, ordered), _timings(timings, ready))


def _sample(queries: Sequence[Query], size: int, seed: int) -> list[Query]:
    """That many queries in their order, drawn with the seed; all for 0, or where there are no more."""
    if not 0 < size < len(queries):
        return list(queries)
    return [queries[place] for place in sorted(random.Random(seed).sample(range(len(queries)), size))]


def _build(system: System, engines: Engines) -> tuple[dict, Retriever | None]:
    missing = engines.missing(system)
    if missing:
        return {"status": "not_run", "reason": missing}, None
    start = time.perf_counter()
    try:
        retriever = engines.retriever(system)
        return {
            "status": "ok",
            "reason": "",
            "index_seconds": time.perf_counter() - start,
            **engines.facts(system),
        }, retriever
    except BadInput:  # a wrong setting is the user's to mend, and would fail every system alike
        raise
    except Exception as error:  # any engine may break in its own way; the row says how
        return {"status": "failed", "reason": _one_line(error)}, None


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _search(name, ready, query, depth, repeat, hits, timings, states) -> None:
    key = (name, query.query_id)
    try:
        with timed() as seconds, remembering():
            found = ready[name].search(query.text, depth)
        if hits.setdefault(key, found) != found:
            raise ValueError("asked again, it returned other hits than at first")
    except Exception as error:
        states[name] |= {"status": "failed", "reason": f"{query.query_id}: {_one_line(error)}"}
        del ready[name]
        return
    timings += [(name, query.query_id, phase, repeat, spent) for phase, spent in seconds.items()]


def _runs(systems, states, hits) -> pd.DataFrame:
    rows = []
    for system in systems:
        state = states[system.name]
        if state["status"] == "ok" and not any(found for (name, _), found in hits.items() if name == system.name):
            state |= {"status": "empty", "reason": "no hit for any query"}
        fields = asdict(system)
        options = fields.pop("options")
        rows.append({"system": system.name, **fields, **state, "options": json.dumps(dict(options))})
    return pd.DataFrame(rows)


def _timings(rows, ready) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["system", "query_id", "phase", "repeat", "seconds"])
    place = {
        name: number for number, name in enumerate(ready)
    }  # systems stay in their order: a depth of 5 before one of 10
    return frame[frame["system"].isin(list(ready))].sort_values(
        ["system", "query_id", "repeat", "phase"], ignore_index=True,
        key=lambda column: column.map(place) if column.name == "system" else column,
    )  # fmt: skip


def grade_all(
    hits, systems: Sequence[System], queries: Sequence[Query], rules: Sequence[str], engines: Engines
) -> dict[tuple[str, str], list[Graded]]:
    """The same hits under several rules: (system, rule) -> graded queries, for systems that have hits."""
    chunker = {system.name: system.chunker for system in systems}
    names = list(dict.fromkeys(name for name, _ in hits))
    graded = {}
    for name in names:
        for text in known_rules(rules):
            rule = ScoringRule.parse(text)
            units = engines.unit_sets[chunker[name], rule.unit]
            graded[name, text] = [grade(hits[name, query.query_id], query, rule, units) for query in queries]
    judged = any(
        one.status in ("scored", "unreachable")
        for (_, rule), some in graded.items()
        for one in some
        if rule == rules[0]
    )
    if not judged:
        raise BadInput(
            f"no question can be judged under {rules[0]}: {sum(query.answerable for query in queries)} of {len(queries)} have evidence, "
            "all of it coarser than the rule; give quotes, or put a coarser rule first"
        )
    return graded


UNREAD = [
    "reranker",
    "first_stage",
    "depth",
    "reads_tokens",
    "passages",
    "passages_cut",
    "pairs",
    "pairs_cut",
    "weights",
]


def unread(hits, systems: Sequence[System], queries: Sequence[Query], engines: Engines) -> pd.DataFrame:
    """What each reranker that ran does not read of the candidates it got at its deepest, one row a first stage and reranker.

    Columns: UNREAD. passages: different candidates; a passage counts as cut where some question's pair with it is. weights: first
    figures of their hash, where the reranker has weights of its own.
    """
    ran, rows = {name for name, _ in hits}, []
    deepest = {
        (_base(one), one.reranker): one for one in sorted(systems, key=lambda one: one.rerank_depth) if one.name in ran
    }
    for (base, reranker), system in deepest.items():
        if not reranker or base.name not in ran:
            continue
        scorer, cut, pairs = engines.scorer(system), {}, []
        for query in queries:
            spans = [hit.span for hit in hits[base.name, query.query_id][: system.rerank_depth]]
            own = scorer.cut(query.text, spans).tolist()
            cut |= {span: cut.get(span, False) or here for span, here in zip(spans, own, strict=True)}
            pairs += own
        about = (getattr(scorer, "reads", np.nan), len(cut), _share(cut.values()), len(pairs), _share(pairs))
        weights = scorer.card.sha256[:12] if hasattr(scorer, "card") else ""
        rows.append((reranker, base.name, system.rerank_depth, *about, weights))
    return pd.DataFrame(rows, columns=UNREAD)


def _base(system: System) -> System:
    return System(system.chunker, system.retriever, system.model, depth=system.depth)


def _share(flags) -> float:
    return float(np.mean(list(flags))) if flags else float("nan")


def common_terms(engines: Engines, queries: Sequence[Query], systems: Sequence[System] = ()) -> pd.DataFrame:
    """How far each chunker is from having enough chunks for Okapi's idf, and which of the systems that concerns.

    Columns: chunker, chunks, share (see `unweighted_share`), concerns.
    """
    rows, okapi = [], [name for name, variant in LEXICAL.items() if variant in ("okapi", "reference")]
    for chunker, units in engines.chunks.items():
        index = engines.retriever(System(chunker, "bm25"))
        share = unweighted_share(index, [query.text for query in queries], tokeniser(engines.settings.tokeniser))
        concerned = [one.name for one in systems if one.chunker == chunker and one.retriever in okapi]
        rows.append((chunker, len(units), share, ", ".join(concerned) or "no system of this run"))
    return pd.DataFrame(rows, columns=["chunker", "chunks", "share", "concerns"])


def approximation(
    engines: Engines, runs: pd.DataFrame, queries: Sequence[Query], cuts: Sequence[int] = (10, 100)
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What approximate search finds of the nearest chunks, for every chunker and model of a system that ran with it, and its price.

    runs: `runs.csv`. First recall against exact search under the rule "exact" (see `approximate.recall`), tidy like `scores.csv`, over all
    questions; then system, chunks, build_seconds of the graph when it was built, and mean milliseconds of both searches, asked in turn.
    """
    ran = (
        runs[(runs["status"] == "ok") & (runs["search"] == "approximate")] if "search" in runs.columns else runs.head(0)
    )
    scores, prices = [], []
    for chunker, model in ran[["chunker", "model"]].drop_duplicates().itertuples(index=False):
        system = System(chunker, f"dense{GRAPH}", model)
        both = [engines.dense(system, approximate) for approximate in (False, True)]
        spent = np.zeros(2)
        for query in queries:
            found, seconds = _searched(both, query.text, max(cuts))
            spent += seconds
            scores += [
                (system.name, "exact", f"recall@{k}", query.query_id, recall(*found, k), "scored", "all") for k in cuts
            ]
        means = (1000 * spent / max(1, len(queries))).tolist()
        prices.append((system.name, len(engines.chunks[chunker]), both[1].index.seconds, *means))
    return (
        pd.DataFrame(scores, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"]),
        pd.DataFrame(prices, columns=["system", "chunks", "build_seconds", "exact_ms", "approximate_ms"]),
    )


def _searched(engines: Sequence[Dense], query: str, k: int) -> tuple[list[list[Hit]], list[float]]:
    """Hits of each engine and seconds of the search alone; they share the vector of the query."""
    found, spent = [], []
    with remembering():
        for engine in engines:
            with timed() as seconds:
                found.append(engine.search(query, k))
            spent.append(seconds["dense"])
    return found, spent


def lower_precision(systems: Sequence[System]) -> list[tuple[str, str]]:
    """Names of every system whose model computes with fewer bits, behind the same system with the same weights in full."""
    names, pairs = {system.name for system in systems}, []
    for system in systems:
        reference = card_of(system.model).reference if system.model else ""
        full = replace(system, model=reference).name if reference else ""
        pairs += [(full, system.name)] if full in names else []
    return pairs


def overlaps(hits: dict[tuple[str, str], list[Hit]], pairs: Sequence[tuple[str, str]], cut: int = 10) -> pd.DataFrame:
    """Share of the first `cut` hits of one system that another has among its own: tidy scores of the second, rule "hits".

    pairs: (one, other) by name. A question without hits of the first has no value.
    """
    rows = []
    for full, low in pairs:
        for query in (query for system, query in hits if system == full):
            one, two = ({hit.span for hit in hits.get((name, query), ())[:cut]} for name in (full, low))
            if one:
                rows.append((low, "hits", f"overlap@{cut}", query, len(one & two) / len(one), "scored", "all"))
    return pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])


def model_cards(runs: pd.DataFrame, root: Path = Path()) -> pd.DataFrame:
    """What must be known of every embedding model, whether it ran or not; a row a model.

    runs: `runs.csv`, for the share of each chunker's chunks that a model cut. weights: the beginning of the SHA-256 of the weights found
    here, else of those expected; empty where neither is known. megabytes: of that file. tokens_read: NaN for all of a text.
    """
    rows = []
    for card in (card for card in CARDS.values() if card.kind != "cross_encoder"):
        retrievers = [name for name, model in LEARNED.items() if model == card.name]
        own = runs[(runs["model"] == card.name) | runs["retriever"].isin(retrievers)]
        rows.append(_card_row(card, own, locate(card, root)))
    return pd.DataFrame(rows)


def _card_row(card, runs: pd.DataFrame, folder: Path | None) -> dict:
    ran = runs[runs["status"].isin(["ok", "empty"])]
    cut = ran.drop_duplicates("chunker")[["chunker", "truncated_share"]].itertuples(index=False) if len(ran) else ()
    there = folder is not None and (folder / card.weights).is_file()
    reason = runs["reason"].iloc[0] if len(runs) else "" if there else card.how_to_get
    return {
        "model": card.name, "what": card.title, "parameters": card.parameters, "licence": card.licence, "precision": card.precision,
        "weights": (verify(card, folder) if there else card.sha256)[:12],
        "megabytes": (folder / card.weights).stat().st_size / 1e6 if there else np.nan,
        "tokens_read": card.max_tokens if card.max_tokens < UNLIMITED else np.nan, "pooling": card.pooling,
        "before_queries": card.query, "before_passages": card.passage,
        "chunks_cut": ", ".join(f"{chunker} {share:.0%}" for chunker, share in cut),
        "state": ran["status"].iloc[0] if len(ran) else "not_run",
        "why": "" if len(ran) else reason.removeprefix("not run: ") or "not among the models of this run",
    }  # fmt: skip


def sides(hits: dict[tuple[str, str], list[Hit]], systems: Sequence[System], cut: int = 10) -> pd.DataFrame:
    """Where the first `cut` hits of every hybrid come from: shares that both engines found, and only one of them.

    Only hybrids whose engines ran by themselves too, with all the hits that fusion reads, have a row. Columns: system, hits, both,
    lexical_only, dense_only.
    """
    by_name, rows = {system.name: system for system in systems}, []
    for name in dict.fromkeys(system for system, _ in hits):
        own = by_name[name]
        one, two = (System(own.chunker, kind, model).name for kind, model in (("bm25", ""), ("dense", own.model)))
        if own.retriever != "hybrid" or own.reranker or not {one, two} <= by_name.keys():
            continue
        found = [0, 0, 0]
        for query in (query for system, query in hits if system == name):
            lexical, dense = ({hit.span for hit in hits.get((side, query), ())} for side in (one, two))
            for hit in hits[name, query][:cut]:
                found[0 if hit.span in lexical & dense else 1 if hit.span in lexical else 2] += 1
        rows.append((name, sum(found), *(count / max(1, sum(found)) for count in found)))
    return pd.DataFrame(rows, columns=["system", "hits", "both", "lexical_only", "dense_only"])


def states(graded: dict[tuple[str, str], list[Graded]], systems: Sequence[System]) -> pd.DataFrame:
    """State of every query, which depends on chunker and rule only. Columns: chunker, rule, query_id, status, origin."""
    chunker = {system.name: system.chunker for system in systems}
    rows = {
        (chunker[name], rule, one.query_id, one.status, one.origin): None
        for (name, rule), some in graded.items()
        for one in some
    }
    return pd.DataFrame(list(rows), columns=["chunker", "rule", "query_id", "status", "origin"])


def signals(hits: dict[tuple[str, str], list[Hit]]) -> pd.DataFrame:
    """What a ranking says about its own certainty, for abstention. Columns: system, query_id, signal, value.

    top_score; margin = (s1 - s2) / s1, 0 without a positive first score; spread = minus the entropy (nats) of the first ten
    scores as shares. Higher always means more certain. No hits: minus infinity would hide a state, so the value is NaN.
    """
    rows = []
    for (system, query_id), found in hits.items():
        scores = np.array([hit.score for hit in found[:10]])
        for name, value in _certainty(scores).items():
            rows.append((system, query_id, name, value))
    return pd.DataFrame(rows, columns=["system", "query_id", "signal", "value"])


def _certainty(scores: np.ndarray) -> dict[str, float]:
    if not len(scores):
        return {"top_score": np.nan, "margin": np.nan, "spread": np.nan}
    first, second = scores[0], scores[1] if len(scores) > 1 else 0.0
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    margin = max(0.0, (first - second) / first) if first > 0 else 0.0
    return {"top_score": float(first), "margin": float(margin), "spread": float((shares * np.log(shares)).sum())}


COLD = ["system", "repeat", "stage", "seconds", "status", "reason"]


def cold_start(
    system: System, documents: Path, units: Path, settings: Settings, queries: Sequence[str],
    *, cache: Path, root: Path, repeats: int = 3, timeout: float = 120,
) -> pd.DataFrame:  # fmt: skip
    """Seconds from a fresh process to its second answer, split. Columns: system, repeat, stage, seconds, status, reason.

    A process that breaks or is stopped after `timeout` seconds ends the repeats with one row that has a state and no seconds.
    Stages: import, load (model weights), index (vectors already on disk), first_query, second_query. The operating
    system's file cache is warm after the first repeat, so this is a new process and not a cold disk.
    """
    job = {
        "system": asdict(system) | {"options": []}, "documents": str(documents), "units": str(units),
        "settings": asdict(settings), "queries": list(queries[:2]), "cache": str(cache), "root": str(root),
    }  # fmt: skip
    code = "import time; start = time.perf_counter(); from localeval import sweep; sweep.cold_child(start)"
    rows = []
    for repeat in range(repeats):
        laps, status, reason = _fresh_process(code, json.dumps(job), timeout)
        rows += [(system.name, repeat, stage, seconds, status, reason) for stage, seconds in laps.items()]
        if status != "ok":
            break
    return pd.DataFrame(rows, columns=COLD)


def _fresh_process(code: str, job: str, timeout: float) -> tuple[dict[str, float], str, str]:
    """Seconds by stage, state and reason of one process."""
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"": np.nan}, "timed_out", f"stopped after {timeout:.0f} s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"": np.nan}, "failed", last[:200]
    return json.loads(done.stdout.splitlines()[-1]), "ok", ""


def extremes(systems: Sequence[System], totals: pd.DataFrame) -> list[System]:
    """The fastest and the slowest system by warm mean, once each. totals: rows of `stats.latency_table` with phase total."""
    by_name = {system.name: system for system in systems}
    ordered = totals.sort_values("mean_ms", kind="stable")["system"]
    return [by_name[name] for name in dict.fromkeys([*ordered.head(1), *ordered.tail(1)])]


def deepest(systems: Sequence[System], base: System, totals: pd.DataFrame) -> str:
    """Name of the deepest reranking of `base` that was timed; `base` itself where none was."""
    timed_names = set(totals["system"])
    own = [
        s
        for s in systems
        if (s.chunker, s.retriever, s.model) == (base.chunker, base.retriever, base.model) and s.name in timed_names
    ]
    return max(own, key=lambda s: s.rerank_depth, default=base).name


def cold_starts(
    systems: Sequence[System],
    documents: Path,
    units: Path,
    engines: Engines,
    queries,
    *,
    repeats: int,
    progress=lambda text: None,
):
    """`cold_start` of several systems; empty for `repeats` 0."""
    texts, parts = [query.text for query in queries[:2]], []
    for system in systems if repeats else ():
        progress(f"cold start: {system.name}")
        place = {"cache": engines.cache_folder, "root": engines.root}
        parts.append(cold_start(system, documents, units, engines.settings, texts, repeats=repeats, **place))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLD)


def cold_child(start: float) -> None:
    """The fresh process of `cold_start`: its job on standard input, seconds by stage on standard output."""
    job = json.load(sys.stdin)
    system = System(**(job["system"] | {"options": ()}))
    laps = {}

    def lap(name):
        nonlocal start
        laps[name], start = time.perf_counter() - start, time.perf_counter()

    if system.retriever in LEXICAL:
        import scipy.sparse  # noqa: F401
    if system.model:
        import faiss  # noqa: F401

        if job["settings"]["encoder"] == "torch":
            import sentence_transformers  # noqa: F401
        else:
            import onnxruntime  # noqa: F401
            import tokenizers  # noqa: F401
    lap("import")
    corpus, chunks = read_jsonl(Path(job["documents"])), read_units(Path(job["units"]))
    engines = Engines(corpus, chunks, Settings(**job["settings"]), Path(job["cache"]), Path(job["root"]))
    if system.model:
        start = time.perf_counter()
        engines.embedder(system.model)
        lap("load")
    retriever = engines.retriever(system)
    lap("index")
    for name, query in zip(("first_query", "second_query"), job["queries"], strict=False):
        retriever.search(query, 10)
        lap(name)
    print(json.dumps(laps))
