"""The one experiment: systems rank units for questions, evidence decides which count, a clock says what it cost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from localeval import pointwise
from localeval.approximate import graph, recall
from localeval.chunking import indexed_text
from localeval.corpus import Corpus, read_jsonl
from localeval.crossencoder import CrossEncoder, OnnxCrossEncoder, parsed, reranker_card
from localeval.embedding import CARDS, UNLIMITED, Embedder, SentenceEmbedder, card_of, locate, truncated_share, verify
from localeval.grading import Units, grade, known_rules, unit_sets
from localeval.lexical import BM25, RankBM25, unweighted_share
from localeval.records import BadInput, Graded, Hit, Query, ScoringRule, Span, System, Unit
from localeval.rerank import MaxSim, Scorer, Unstored
from localeval.retrieval import Dense, Fused, Reranked, Retriever, Shuffled, exact, once, remembering, timed
from localeval.tables import read_units
from localeval.tokens import tokeniser
from localeval.vectors import VectorCache

LEXICAL = {"bm25": "lucene", "bm25-okapi": "okapi", "bm25-plus": "plus", "bm25-l": "l", "rank-bm25": "reference"}
LEARNED = {"splade": "splade-tiny"}  # retrievers that bring their own model
GRAPH = "-hnsw"  # of a dense engine or hybrid by name: approximate search, however small the corpus
RETRIEVERS = ("random", *LEXICAL, *LEARNED, "dense", "hybrid", f"dense{GRAPH}", f"hybrid{GRAPH}")
WITHOUT_MODEL = ("random", *LEXICAL, *LEARNED)
ENCODERS = ("onnx", "torch")
WARM_UP = 3  # queries run and thrown away before the clock counts


@dataclass(frozen=True, slots=True)
class Settings:
    """What all engines of a study share; recorded with the results."""

    tokeniser: str = "code_aware"
    k1: float = 1.5
    b: float = 0.75
    fusion_depth: int = 100
    rrf_k: int = 60
    fusion_weights: tuple = ()  # of BM25 and of the dense engine in a hybrid; none given: 1 each
    threads: int = 1
    encoder: str = "onnx"
    token_vectors: str = "tokens"  # how late interaction stores them: tokens (float16) or tokens8 (int8)
    pooled_vectors: str = "pooled"  # how a chunk's own vector is stored: pooled (float32) or pooled16 (float16)
    exact_up_to: int = 100_000  # chunks that dense search compares with one by one; past them it is approximate (HNSW)
    search_effort: int = 256  # candidates that approximate search keeps: more find more of the nearest, and take longer

    def __post_init__(self):
        bounds = {
            "k1": self.k1 > 0, "b": 0 <= self.b <= 1, "fusion_depth": self.fusion_depth >= 1, "rrf_k": self.rrf_k >= 0,
            "threads": self.threads >= 1, "search_effort": self.search_effort >= 1, "exact_up_to": self.exact_up_to >= 0,
        }  # fmt: skip
        for name in (name for name, good in bounds.items() if not good):
            raise BadInput(
                f"settings: {name}={getattr(self, name)} is out of range (k1 above 0, b from 0 to 1, rrf_k and "
                "exact_up_to from 0 on, others from 1)"
            )


def grid(chunkers: Iterable[str], retrievers: Iterable[str], models: Iterable[str], depth: int = 100) -> list[System]:
    """Every chunker with every retriever; dense and hybrid once for each model."""
    if depth < 1:
        raise BadInput(f"depth={depth}: keep at least 1 hit for each question")
    systems = []
    for chunker in chunkers:
        for retriever in retrievers:
            if retriever not in RETRIEVERS:
                raise BadInput(f"unknown retriever {retriever!r}; known: {', '.join(RETRIEVERS)}")
            for model in [""] if retriever in WITHOUT_MODEL else models:
                systems.append(System(chunker, retriever, model, depth=depth))
    return list(dict.fromkeys(systems))


def with_rerankers(bases: Iterable[System], rerankers: Iterable[str], depths: Iterable[int]) -> list[System]:
    """Every base, then it again with each reranker at each depth.

    rerankers: maxsim (`:int8`, `:fly`: its token vectors stored in eight bits, or not at all), cross-encoders by name (`:fp32`, `:int8`,
    `:torch`), or llm:NAME.
    """
    systems = []
    for base in bases:
        systems.append(base)
        if any(name.partition(":")[0] == "maxsim" for name in rerankers) and not base.model:
            raise BadInput(
                f"rerankers: maxsim compares vectors of a model, and {base.name} has none; rerank hybrid or dense with it"
            )
        for name, rerank_depth in product(rerankers, depths):
            systems.append(System(base.chunker, base.retriever, base.model, name, rerank_depth, base.depth))
    return systems


class Engines:
    """Builds the retriever of a system, sharing indexes and models between systems. Heavy engines load when first needed."""

    def __init__(
        self, corpus: Corpus, chunks: dict[str, list[Unit]], settings: Settings, cache: Path, root: Path = Path()
    ):
        self.corpus, self.chunks, self.settings, self.root, self.cache_folder = corpus, chunks, settings, root, cache
        self._cache = VectorCache(cache)
        self._made: dict[tuple, object] = {}

    def missing(self, system: System) -> str:
        """Why this system cannot run here, or nothing. Imports nothing heavy."""
        needed = [card_of(system.model)] if system.model else []
        needed += [card_of(LEARNED[system.retriever], "sparse")] if system.retriever in LEARNED else []
        name, _, how = system.reranker.partition(":")
        if name not in ("", "maxsim", "llm"):
            needed.append(reranker_card(parsed(system.reranker)[0], self.root))
        without = next((card.how_to_get for card in needed if locate(card, self.root) is None), "")
        return without or (pointwise.missing(how, self.root) if name == "llm" else "")

    def retriever(self, system: System) -> Retriever:
        first = self._first_stage(system)
        return Reranked(first, self.scorer(system), system.rerank_depth) if system.reranker else first

    def _first_stage(self, system: System) -> Retriever:
        if system.retriever == "random":
            return Shuffled(self.spans(system.chunker))
        if system.retriever in LEXICAL:
            return self._once(("lexical", system.chunker, system.retriever), lambda: self._bm25(system))
        if system.retriever in LEARNED:
            return self._once(("learned", system.chunker, system.retriever), lambda: self._learned(system))
        dense = self.dense(system, self.is_approximate(system))
        if system.retriever.removesuffix(GRAPH) == "dense":
            return dense
        bm25 = self._once(("lexical", system.chunker, "bm25"), lambda: self._bm25(System(system.chunker, "bm25")))
        return Fused([bm25, dense], self.settings.fusion_depth, self.settings.rrf_k, self.settings.fusion_weights)

    def _bm25(self, system: System) -> BM25 | RankBM25:
        tokenise, variant = tokeniser(self.settings.tokeniser), LEXICAL[system.retriever]
        spans, texts = self.spans(system.chunker), self.texts(system.chunker)
        if variant == "reference":
            return RankBM25(spans, texts, tokenise, k1=self.settings.k1, b=self.settings.b)
        return BM25(spans, texts, tokenise, variant=variant, k1=self.settings.k1, b=self.settings.b)

    def _learned(self, system: System) -> Retriever:
        from localeval.learned import LearnedSparse

        model = self._sparse_model(system)
        stored = self._cache.sparse(model, self.texts(system.chunker))
        return LearnedSparse(self.spans(system.chunker), stored, lambda query: model.encode_sparse([query])[0])

    def _sparse_model(self, system: System):
        from localeval.learned import Splade

        card = card_of(LEARNED[system.retriever], "sparse")
        return self._once(("sparse", card.name), lambda: Splade(card, locate(card, self.root), self.settings.threads))

    def is_approximate(self, system: System) -> bool:
        """Whether its dense side looks at a part of the vectors only: by its name, or past the size in the settings."""
        large = len(self.chunks[system.chunker]) > self.settings.exact_up_to
        return bool(system.model) and (large or system.retriever.endswith(GRAPH))

    def dense(self, system: System, approximate: bool = False) -> Dense:
        """The dense side of a system, exact or approximate."""
        return self._once(
            ("dense", system.chunker, system.model, approximate), lambda: self._dense(system, approximate)
        )

    def _dense(self, system: System, approximate: bool) -> Dense:
        embedder, index = self.embedder(system.model), exact
        stored = self._cache.passages(embedder, self.texts(system.chunker), self.settings.pooled_vectors)
        encode = lambda query: self._query(embedder, query)[0]
        if approximate:
            index = graph(self.cache_folder, self.settings.search_effort)
        return Dense(self.spans(system.chunker), stored.gathered(), encode, index)

    def scorer(self, system: System) -> Scorer:
        """What reranks, one for each reranker and chunker."""
        name, _, how = system.reranker.partition(":")
        if name == "maxsim":
            return self._once(("maxsim", system.chunker, system.model, how), lambda: self._maxsim(system, how))
        text = dict(zip(self.spans(system.chunker), self.texts(system.chunker), strict=True)).__getitem__
        if name == "llm":
            make = lambda: pointwise.load(how, self.root, text, self.settings.threads)
            return self._once(("llm", system.chunker, how), make)
        make = lambda: self._cross_encoder(*parsed(system.reranker), text)
        return self._once(("cross_encoder", system.chunker, system.reranker), make)

    def _maxsim(self, system: System, how: str) -> MaxSim:
        embedder, texts = self.embedder(system.model), self.texts(system.chunker)
        passages = Unstored(embedder, texts) if how == "fly" else self._cache.tokens(embedder, texts, self._kind(how))
        reads = embedder.settings["max_tokens"]
        too_long = embedder.token_counts(texts) > reads
        return MaxSim(
            self.spans(system.chunker), passages, lambda query: self._query(embedder, query)[1], too_long, reads
        )

    def bytes_a_chunk(self, system: System) -> float:
        """Room on disk that the token vectors of a chunk take on average, in bytes; 0 where none are stored, NaN where none are used."""
        name, _, how = system.reranker.partition(":")
        if name != "maxsim" or not self.chunks[system.chunker]:
            return float("nan")
        if how == "fly":
            return 0.0
        stored = self._cache.tokens(self.embedder(system.model), self.texts(system.chunker), self._kind(how))
        row = stored.vectors.shape[1] * stored.vectors.itemsize
        return float((stored.ends - stored.starts).sum() * row / len(stored.starts))

    def _kind(self, how: str) -> str:
        """The kind of token vectors that late interaction reads."""
        kinds = {"": self.settings.token_vectors, "float16": "tokens", "int8": "tokens8"}
        if how not in kinds:
            raise BadInput(f"reranker 'maxsim:{how}': known are maxsim, maxsim:float16, maxsim:int8 and maxsim:fly")
        return kinds[how]

    def _cross_encoder(self, name: str, how: str, text: Callable[[Span], str]) -> Scorer:
        card, threads = reranker_card(name, self.root), self.settings.threads
        folder = locate(card, self.root)
        if (how or self.settings.encoder) == "torch":
            return CrossEncoder(card, folder, text, threads)
        return OnnxCrossEncoder(card, folder, text, self.cache_folder, threads, 8 if how == "int8" else 32)

    @staticmethod
    def _query(embedder: Embedder, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Both kinds of vectors of a query; one pass serves all stages of a search."""
        return once(("query", id(embedder), text), lambda: embedder.query(text))

    def embedder(self, model: str) -> Embedder:
        return self._once(("embedder", model), lambda: self._embedder(card_of(model)))

    def _embedder(self, card) -> Embedder:
        from localeval.onnxmodel import OnnxEmbedder
        from localeval.packaged import PACKAGED

        folder, threads = locate(card, self.root), self.settings.threads
        if self.settings.encoder not in ENCODERS:
            raise BadInput(f"unknown encoder {self.settings.encoder!r}; known: {', '.join(ENCODERS)}")
        if card.engine in PACKAGED:
            return PACKAGED[card.engine](card, folder, threads)
        if self.settings.encoder == "torch":
            return SentenceEmbedder(card, folder, threads)
        return OnnxEmbedder(card, folder, self.cache_folder, threads)

    def spans(self, chunker: str) -> list[Span]:
        return [unit.span for unit in self.chunks[chunker]]

    def texts(self, chunker: str) -> list[str]:
        return self._once(
            ("texts", chunker), lambda: [indexed_text(unit, self.corpus) for unit in self.chunks[chunker]]
        )

    def facts(self, system: System) -> dict:
        """Chunks, the share of them the model cuts, and seconds spent on their vectors when they were made."""
        facts = {"chunks": len(self.chunks[system.chunker]), "truncated_share": np.nan, "vector_seconds": np.nan}
        if system.retriever in LEARNED:
            model, texts = self._sparse_model(system), self.texts(system.chunker)
            facts |= {
                "truncated_share": truncated_share(model, texts),
                "vector_seconds": self._cache.sparse(model, texts).seconds,
            }
        if system.model:
            embedder, texts = self.embedder(system.model), self.texts(system.chunker)
            facts["truncated_share"] = self._once(
                ("cut", system.chunker, system.model), lambda: truncated_share(embedder, texts)
            )
            facts["vector_seconds"] = self._cache.passages(embedder, texts, self.settings.pooled_vectors).seconds
            facts["search"] = "approximate" if self.is_approximate(system) else "exact"
            name, _, how = system.reranker.partition(":")
            if name == "maxsim" and how != "fly":
                facts["vector_seconds"] = self._cache.tokens(embedder, texts, self._kind(how)).seconds
        return facts

    def _once(self, key: tuple, make: Callable[[], object]):
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    @cached_property
    def unit_sets(self) -> dict[tuple[str, str], Units]:
        return unit_sets(self.corpus, self.chunks)


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
    return frame[frame["system"].isin(list(ready))].sort_values(
        ["system", "query_id", "repeat", "phase"], ignore_index=True
    )


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
