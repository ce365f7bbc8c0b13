"""The engines against published figures: BEIR SciFact, test queries, nDCG@10 at document level (rule `trec`).

python benchmarks/scifact.py FOLDER [--dense]: FOLDER is in BEIR layout. BM25 takes seconds; --dense embeds 5,183 abstracts
on the CPU, which takes some minutes the first time.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from localeval import embedding
from localeval.grading import Units, grade
from localeval.lexical import BM25
from localeval.metrics import measure
from localeval.onnxmodel import OnnxEmbedder
from localeval.records import Evidence, Query, ScoringRule, Span, Unit
from localeval.rerank import MaxSim
from localeval.retrieval import Dense, Fused, Reranked
from localeval.tokens import ascii_words
from localeval.vectors import VectorCache

PUBLISHED = {"bm25": 0.6644, "dense": 0.64508, "hybrid": 0.6822, "maxsim@20": 0.7044, "maxsim@40": 0.7128}


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


def ndcg(retriever, queries: list[Query], spans: list[Span]) -> float:
    units, rule = Units(Unit(span, "document") for span in spans), ScoringRule("document", "contains")
    return float(np.mean([measure(grade(retriever.search(q.text, 100), q, rule, units), "ndcg@10") for q in queries]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dense", action="store_true", help="also dense, hybrid and late interaction")
    arguments = parser.parse_args()
    spans, texts, queries = read(arguments.folder)
    print(f"{len(spans)} documents, {len(queries)} queries; nDCG@10 measured here (published)")
    bm25 = BM25(spans, texts, ascii_words)
    systems = {"bm25": bm25}
    if arguments.dense:
        card = embedding.card_of("minilm")
        model = OnnxEmbedder(card, embedding.locate(card), Path("runs/.cache"))
        cache = VectorCache(Path("runs/.cache"))
        dense = Dense(spans, cache.passages(model, texts).gathered(), lambda text: model.encode([text], "query")[0])
        hybrid = Fused([bm25, dense])
        stored = cache.tokens(model, texts)
        scorer = MaxSim(spans, stored, lambda text: model.encode_tokens([text], "query")[0])
        systems |= {"dense": dense, "hybrid": hybrid}
        systems |= {f"maxsim@{depth}": Reranked(hybrid, scorer, depth) for depth in (20, 40)}
    for name, retriever in systems.items():
        print(f"{name:<10} {ndcg(retriever, queries, spans):.4f} ({PUBLISHED[name]:.4f})", flush=True)


if __name__ == "__main__":
    main()
