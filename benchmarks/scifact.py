"""The engines against published figures: BEIR SciFact, test queries, nDCG@10 at document level (rule `trec`).

python benchmarks/scifact.py FOLDER [--dense] [--also MODEL ...]: FOLDER is in BEIR layout. BM25 takes seconds; --dense embeds 5,183
abstracts on the CPU, which takes some minutes the first time; --also embeds them once more with the same model in lower precision
(minilm-int8, minilm-bf16), and prints what that loses.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sidebyside import about

from localeval import embedding, stats
from localeval.grading import Units, grade
from localeval.lexical import BM25
from localeval.metrics import measure
from localeval.onnxmodel import OnnxEmbedder
from localeval.records import Evidence, Hit, Query, ScoringRule, Span, Unit
from localeval.rerank import MaxSim
from localeval.retrieval import Dense, Fused, Reranked, once, remembering, timed
from localeval.tokens import ascii_words
from localeval.vectors import VectorCache, packed

REPORTED = {"bm25": 0.6644, "dense:minilm": 0.64508}  # by others, of the same system under their own settings
BESIDE = "reported by others, not measured here: BM25, then a MiniLM-L-6 cross-encoder over its first 100: 0.679"
CACHE, PHASES = Path("runs/.cache"), ("encode", "lexical", "dense", "fuse", "rerank", "total")


def read(folder: Path) -> tuple[list[Span], list[str], list[Query]]:
    """Abstracts as whole documents (title and text), and the test queries with their judged documents as evidence."""
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    texts = [f"{row['title']} {row['text']}" for row in rows]
    spans = [Span(str(row["_id"]), 0, len(text)) for row, text in zip(rows, texts, strict=True)]
    whole = {span.doc_id: span for span in spans}
    judged = defaultdict(list)
    for row in csv.DictReader((folder / "qrels/test.tsv").open(encoding="utf-8"), delimiter="\t"):
        if int(row["score"]) > 0:
            judged[row["query-id"]].append(Evidence(whole[row["corpus-id"]], int(row["score"]), "document"))
    asked = {str(row["_id"]): row["text"] for row in map(json.loads, (folder / "queries.jsonl").open(encoding="utf-8"))}
    return spans, texts, [Query(query_id, asked[query_id], tuple(found)) for query_id, found in judged.items()]


def with_model(name: str, bm25: BM25, spans: list[Span], texts: list[str]) -> Iterator[tuple[str, object]]:
    """Dense, hybrid and late interaction over one model's vectors; the pass that gives token vectors gives the pooled ones too."""
    card = embedding.card_of(name)
    folder, cache = embedding.locate(card), VectorCache(CACHE, lambda text: print(text, end="\r"))
    in_torch = card.precision == "bfloat16"
    model = embedding.SentenceEmbedder(card, folder) if in_torch else OnnxEmbedder(card, folder, CACHE)
    tokens = cache.tokens(model, texts)
    query = lambda text: once((name, text), lambda: model.query(text))
    scorer = MaxSim(spans, tokens, lambda text: query(text)[1])
    pooled = cache.passages(model, texts).gathered()
    dense = Dense(spans, pooled, lambda text: query(text)[0])
    hybrid = Fused([bm25, dense])
    yield f"dense:{name}", dense
    yield f"dense:{name} in float16", Dense(spans, packed(pooled, np.float16), lambda text: query(text)[0])
    yield f"hybrid:{name}", hybrid
    yield from ((f"hybrid:{name}+maxsim@{depth}", Reranked(hybrid, scorer, depth)) for depth in (20, 40))


def ask(retriever, queries: list[Query]) -> tuple[dict[str, list[Hit]], dict[str, list[float]]]:
    """First 100 hits of every query, and milliseconds by phase; the first three queries are asked once before, uncounted."""
    hits, spent = {}, defaultdict(list)
    for number, query in enumerate([*queries[:3], *queries]):
        with timed() as seconds, remembering():
            hits[query.query_id] = retriever.search(query.text, 100)
        for phase in PHASES if number > 2 else ():
            spent[phase].append(1000 * seconds.get(phase, 0.0))
    return hits, spent


def ndcg(hits: dict[str, list[Hit]], queries: list[Query], spans: list[Span]) -> dict[str, float]:
    """nDCG@10 of every query; documents are the units."""
    units, rule = Units(Unit(span, "document") for span in spans), ScoringRule("document", "contains")
    return {q.query_id: measure(grade(hits[q.query_id], q, rule, units), "ndcg@10") for q in queries}


def report(name: str, values: dict[str, float], spent: dict[str, list[float]]) -> None:
    stages = ", ".join(f"{phase} {statistics.mean(ms):.1f}" for phase, ms in spent.items() if any(ms))
    reported = f", reported by others {REPORTED[name]:.3f}" if name in REPORTED else ""
    p95 = 1000 * stats.percentile([ms / 1000 for ms in spent["total"]], 0.95)
    print(f"{name:<30} {np.mean(list(values.values())):.4f}{reported}; ms a query: {stages}, P95 {p95:.1f}", flush=True)


def losses(values: dict[str, dict[str, float]], hits: dict[str, dict[str, list[Hit]]]) -> None:
    """Every arm of lower precision beside its full one: paired difference, and share of the first ten hits both have."""
    for name in values:
        full = re.sub("-int8|-bf16| in float16", "", name)
        if name == full:
            continue
        got = stats.compare(values[full], values[name], metric="ndcg@10", rule="trec", names=(full, name))
        first = lambda system, query: {hit.span for hit in hits[system][query][:10]}
        both = np.mean([len(first(full, query) & first(name, query)) / 10 for query in values[name]])
        ends = f"[{got.low:+.4f}, {got.high:+.4f}]" if np.isfinite(got.low) else "no variation"
        print(f"{name} - {full}: {got.delta:+.4f} {ends}, n {got.n}; top-10 overlap {both:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dense", action="store_true", help="also dense, hybrid and late interaction")
    parser.add_argument("--also", nargs="*", default=[], metavar="MODEL", help="those once more in lower precision")
    arguments = parser.parse_args()
    spans, texts, queries = read(arguments.folder)
    about()
    print(f"{len(spans)} documents, {len(queries)} queries; nDCG@10 measured here")
    bm25 = BM25(spans, texts, ascii_words)
    systems = [("bm25", bm25)]
    for model in ["minilm"] * (arguments.dense or bool(arguments.also)) + arguments.also:
        systems += with_model(model, bm25, spans, texts)
    values, hits = {}, {}
    for name, retriever in systems:
        hits[name], spent = ask(retriever, queries)
        values[name] = ndcg(hits[name], queries, spans)
        report(name, values[name], spent)
    losses(values, hits)
    print(BESIDE)


if __name__ == "__main__":
    main()
