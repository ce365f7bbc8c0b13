"""BM25 over 20,000 made-up chunks: index and queries beside bm25s and rank-bm25, from texts to ranked hits.

Words are drawn with Zipf's frequencies; a query is ten of them. bm25s and ours score with the Lucene idf; rank-bm25 is Okapi's only.
bm25s is no part of the project: pip install bm25s==0.3.16.
"""

from __future__ import annotations

import numpy as np
from sidebyside import about, compare

from localeval.lexical import BM25, RankBM25
from localeval.records import Span

CHUNKS, WORDS, LENGTH, QUERIES, TOP = 20_000, 30_000, 190, 100, 100


def made_up(seed: int = 0) -> tuple[list[Span], list[str], list[str]]:
    """Spans, texts and queries."""
    rng, vocabulary = np.random.default_rng(seed), np.array([f"w{number}" for number in range(WORDS)])
    share = 1 / np.arange(1, WORDS + 1)
    draw = lambda count, length: [
        " ".join(vocabulary[rng.choice(WORDS, length, p=share / share.sum())]) for _ in range(count)
    ]
    spans = [Span(f"d{number:05d}", 0, 1) for number in range(CHUNKS)]
    return spans, draw(CHUNKS, LENGTH), draw(QUERIES, 10)


def search(index: BM25 | RankBM25, queries: list[str]) -> list:
    return [index.search(query, TOP) for query in queries]


def beside_rank_bm25(ours: BM25, spans: list[Span], texts: list[str], few: list[str]) -> None:
    """Its index is gone afterwards: Python's collector would walk its millions of objects while the rest is timed."""
    theirs = RankBM25(spans, texts, str.split)
    compare(lambda: search(ours, few), lambda: search(theirs, few), ("localeval, 3 queries", "rank-bm25"), rounds=5)


def main() -> None:
    spans, texts, queries = made_up()
    about()
    print(f"{CHUNKS:,} chunks of {LENGTH} words, {QUERIES} queries of 10, top {TOP}")
    ours = BM25(spans, texts, str.split)
    beside_rank_bm25(ours, spans, texts, queries[:3])
    try:
        import bm25s
    except ImportError:
        print("bm25s: not installed, so not measured; pip install bm25s==0.3.16")
        return
    make = lambda: bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    build = lambda index: (index.index([text.split() for text in texts], show_progress=False), index)[1]
    compare(lambda: BM25(spans, texts, str.split), lambda: build(make()), ("localeval index", "bm25s index"), rounds=3)
    theirs = build(make())
    ask = lambda: [theirs.retrieve([query.split()], k=TOP, show_progress=False) for query in queries]
    compare(lambda: search(ours, queries), ask, (f"localeval, {QUERIES} queries", "bm25s"))


if __name__ == "__main__":
    main()
