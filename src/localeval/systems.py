"""How a system becomes a retriever: the grid of systems, the settings they share, and the engines built from both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np

from localeval import pointwise
from localeval.approximate import graph
from localeval.chunking import indexed_text
from localeval.corpus import Corpus
from localeval.crossencoder import CrossEncoder, OnnxCrossEncoder, parsed, reranker_card
from localeval.embedding import Embedder, SentenceEmbedder, card_of, locate, truncated_share
from localeval.grading import Units, unit_sets
from localeval.lexical import BM25, RankBM25
from localeval.records import BadInput, Span, System, Unit, near
from localeval.rerank import MaxSim, Scorer, Unstored
from localeval.retrieval import Dense, Fused, Reranked, Retriever, Shuffled, exact, once
from localeval.tokens import tokeniser
from localeval.vectors import VectorCache

LEXICAL = {"bm25": "lucene", "bm25-okapi": "okapi", "bm25-plus": "plus", "bm25-l": "l", "rank-bm25": "reference"}
LEARNED = {"splade": "splade-tiny"}  # retrievers that bring their own model
GRAPH = "-hnsw"  # of a dense engine or hybrid by name: approximate search, however small the corpus
RETRIEVERS = ("random", *LEXICAL, *LEARNED, "dense", "hybrid", f"dense{GRAPH}", f"hybrid{GRAPH}")
WITHOUT_MODEL = ("random", *LEXICAL, *LEARNED)
ENCODERS = ("onnx", "torch")
KINDS = {
    "": "",
    "float16": "tokens",
    "int8": "tokens8",
    "fly": "none",
}  # of late interaction's token vectors; "": as the settings say


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


def named(names: Iterable[str], chunkers: Iterable[str], depth: int = 100) -> list[System]:
    """First stages by name, such as "section/dense:minilm", of known chunkers."""
    found = []
    for name in names:
        chunker, _, engine = str(name).partition("/")
        retriever, _, model = engine.partition(":")
        made = grid([chunker], [retriever], [model], depth) if retriever in RETRIEVERS else []
        if [system.name for system in made] != [name] or chunker not in set(chunkers):
            raise BadInput(
                f"system {name!r}: write chunker/retriever or chunker/retriever:model, with a chunker of this study "
                f"({', '.join(chunkers)}) and one of {', '.join(RETRIEVERS)}"
            )
        found += made
        if retriever not in WITHOUT_MODEL:
            card_of(model)
    return found


def with_rerankers(bases: Iterable[System], rerankers: Iterable[str], depths: Iterable[int]) -> list[System]:
    """Every base, then it again with each reranker at each depth.

    rerankers: maxsim (`:int8`, `:fly`: its token vectors stored in eight bits, or not at all), cross-encoders by name (`:fp32`, `:int8`,
    `:torch`), or llm:NAME.
    """
    systems, rerankers, depths = [], list(rerankers), list(depths)
    for name in (name for name in rerankers if name.partition(":")[0] == "maxsim"):
        _stores(name)
    for depth in (depth for depth in depths if type(depth) is not int or depth < 1):
        raise BadInput(f"depths: {depth!r}: rerank a whole number of hits, 1 or more")
    for base in bases:
        systems.append(base)
        if any(name.partition(":")[0] == "maxsim" for name in rerankers) and not base.model:
            raise BadInput(
                f"rerankers: maxsim compares vectors of a model, and {base.name} has none; rerank hybrid or dense with it"
            )
        for name, rerank_depth in product(rerankers, depths):
            systems.append(System(base.chunker, base.retriever, base.model, name, rerank_depth, base.depth))
    return systems


def _stores(name: str) -> None:
    """Refuses a way of late interaction that there is not."""
    how = name.partition(":")[2]
    if how not in KINDS:
        raise BadInput(
            f"reranker {name!r}: unknown {how!r}{near(how, KINDS)}; known: maxsim, {', '.join(f'maxsim:{kind}' for kind in KINDS if kind)}"
        )


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
        if system.chunker not in self.chunks:
            made = ", ".join(self.chunks)
            raise BadInput(
                f"chunker: unknown {system.chunker!r}{near(system.chunker, self.chunks)}; 10_ingest made {made}"
            )
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
        return KINDS[how] or self.settings.token_vectors

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
        if (
            self.settings.encoder == "torch" or card.precision == "bfloat16"
        ):  # ONNX Runtime has no bfloat16 on processors
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
