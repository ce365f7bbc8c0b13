"""What a study costs as it grows: seconds, queries a second, bytes on disk and peak memory at 1,000, 10,000, 20,000 and 100,000 chunks.

python benchmarks/scale.py [SIZE ...] [--tokens 100] [--queries 200]. Each size runs in a fresh process through the engines of a sweep.
Texts are made-up words with Zipf's frequencies. Vectors are drawn, not embedded: the figures are of cost only and say nothing of
quality, and queries a second leave out the encoder. At 100,000 chunks the vectors of tokens take 4 GB of disk for the time of the run.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from sidebyside import about

from localeval import systems
from localeval.approximate import recall
from localeval.chunking import chunk_corpus
from localeval.corpus import Corpus, Layout, make_document
from localeval.embedding import CARDS
from localeval.grading import grade
from localeval.metrics import measure
from localeval.records import Evidence, Hit, Query, ScoringRule, Span, System
from localeval.retrieval import remembering, timed
from localeval.tables import read_units, write_units
from localeval.vectors import DTYPES, VectorCache, _key, packed

WIDTH, CHUNK, CHUNKS_A_DOCUMENT, WORDS = 384, 700, 50, 30_000
RULES = [ScoringRule.parse(rule) for rule in ("chunk/contains", "page/overlaps", "chunk/same_document")]
SYSTEMS = {
    "BM25": System("fixed", "bm25"), "dense, exact": System("fixed", "dense", "minilm"),
    "dense, HNSW": System("fixed", "dense-hnsw", "minilm"), "hybrid, exact": System("fixed", "hybrid", "minilm"),
    "hybrid, HNSW": System("fixed", "hybrid-hnsw", "minilm"),
    "hybrid, then MaxSim of 40 (int8)": System("fixed", "hybrid", "minilm", "maxsim", 40),
}  # fmt: skip


class Drawn:
    """Stands where an encoder would: unit vectors drawn around some centres, 12 tokens a query."""

    card, settings = CARDS["minilm"], {"model": "drawn", "max_tokens": 256}

    def __init__(self):
        self._rng = np.random.default_rng(1)
        self._centres, self.tokens = self.unit(200), packed(self.unit(20_000), np.int8)

    def unit(self, n: int, around=0.0) -> np.ndarray:
        drawn = self._rng.standard_normal((n, WIDTH), np.float32) + around
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def pooled(self, n: int) -> np.ndarray:
        return self.unit(n, 20 * self._centres[self._rng.integers(0, len(self._centres), n)])

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        return self.pooled(1)[0] if text not in self.asked else self.asked[text], self.unit(12)

    def remember(self, texts: list[str]) -> None:
        """The same question always has the same vector."""
        self.asked = dict(zip(texts, self.pooled(len(texts)), strict=True))

    def token_counts(self, texts) -> np.ndarray:
        return np.full(len(texts), 100)


class Engines(systems.Engines):
    """The engines of a sweep over drawn vectors."""

    drawn = Drawn()

    def _embedder(self, card):
        return self.drawn


def made_up(size: int) -> tuple[Corpus, list[Query]]:
    """Documents that give `size` chunks, and questions of words that stand together, each with a sentence of evidence."""
    rng, parts = np.random.default_rng(0), ["ka", "to", "ri", "mel", "an", "so", "ve", "dun", "is", "pel"]
    words = np.array(["".join(parts[int(digit)] for digit in str(number)) for number in range(1, WORDS + 1)])
    share = np.cumsum(1 / np.arange(1, WORDS + 1))
    documents = []
    for at in range(0, size, CHUNKS_A_DOCUMENT):
        length = CHUNK * min(CHUNKS_A_DOCUMENT, size - at)
        drawn = words[np.searchsorted(share, rng.random(length // 4) * share[-1])]
        documents.append(make_document(f"d{at:06d}.txt", " ".join(drawn)[:length], b""))
    queries = []
    for number in range(QUERIES):
        document = documents[rng.integers(len(documents))]
        start = int(rng.integers(0, len(document.text) - 80))
        evidence = Evidence(Span(document.doc_id, start, start + 60))
        queries.append(Query(f"q{number}", " ".join(document.text[start : start + 60].split()[1:9]), (evidence,)))
    return Corpus(tuple(documents), {one.doc_id: Layout(one.doc_id) for one in documents}, {}), queries


def fill(cache: Path, drawn: Drawn, texts: list[str], tokens: int) -> None:
    """Writes drawn vectors where the engines look for those of the texts."""
    for kind in ("pooled", "tokens8"):
        store = VectorCache(cache)._store(drawn, kind)
        for at in range(0, len(texts), 4096):
            part = texts[at : at + 4096]
            rows = drawn.pooled(len(part))[:, None] if kind == "pooled" else None
            begins = drawn._rng.integers(0, len(drawn.tokens) - tokens, len(part))
            arrays = rows if rows is not None else [drawn.tokens[begin : begin + tokens] for begin in begins]
            store.append([_key(text) for text in part], list(arrays), 0.0)
        print(f"    {kind} ({np.dtype(DTYPES[kind])}): {store.mapped().nbytes / 1e6:,.0f} MB on disk", flush=True)


def memory() -> str:
    """Peak resident memory so far, and what is resident now without pages of files, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    status = Path("/proc/self/status")
    own = (
        [line.split()[1] for line in status.read_text().splitlines() if line.startswith("RssAnon")]
        if status.exists()
        else []
    )
    return f"peak {peak:,.0f} MB" + (f", {int(own[0]) / 1e3:,.0f} MB its own" if own else "")


def stage(name: str, start: tuple[float, float]) -> None:
    wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    print(f"  {name:<40} {wall:8.1f} s ({cpu:.1f} CPU); {memory()}", flush=True)


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def one(size: int, tokens: int, folder: Path) -> None:
    start = now()
    corpus, queries = made_up(size)
    chunks = chunk_corpus(corpus, {"fixed": {"max_chars": CHUNK, "overlap": 0}})
    print(
        f"{len(chunks['fixed']):,} chunks of {CHUNK} characters, {len(queries)} queries, {tokens} token vectors a chunk"
    )
    stage("made up, and cut", start)
    start = now()
    write_units(chunks, folder / "units.jsonl")
    chunks = read_units(folder / "units.jsonl")
    stage("units written and read", start)
    engines = Engines(corpus, chunks, systems.Settings(token_vectors="tokens8"), folder, folder)
    engines.drawn.remember([query.text for query in queries])
    fill(folder, engines.drawn, engines.texts("fixed"), tokens)
    start = now()
    units = engines.unit_sets
    stage("units of all rules", start)
    found = {name: measured(name, system, engines, queries, units) for name, system in SYSTEMS.items()}
    exact, near = (found[f"dense, {way}"] for way in ("exact", "HNSW"))
    shares = [[recall(one, two, cut) for one, two in zip(exact, near, strict=True)] for cut in (10, 100)]
    told = ", ".join(
        f"{np.mean(part):.3f} at {cut} (lowest {min(part):.2f})" for cut, part in zip((10, 100), shares, strict=True)
    )
    print(f"  recall of HNSW against exact search: {told}; {len(queries)} queries", flush=True)


def measured(name: str, system: System, engines: Engines, queries: list[Query], units) -> list[list[Hit]]:
    """Builds the engine, asks every query once, grades it under three rules; prints seconds, queries a second and milliseconds.

    Returns the first hundred hits of every query.
    """
    start = now()
    retriever = engines.retriever(system)
    stage(f"index: {name}", start)
    spent, clock, found = defaultdict(float), time.process_time, []
    for query in queries:
        before = clock()
        with timed() as seconds, remembering():
            hits = retriever.search(query.text, 100)
        searched = clock()
        found.append(hits)
        for rule in RULES:
            measure(grade(hits, query, rule, units["fixed", rule.unit]), "ndcg@10")
        seconds |= {"search, CPU": searched - before, "grading under 3 rules, CPU": clock() - searched}
        seconds["total"] -= seconds.pop("encode", 0.0)
        for phase, value in seconds.items():
            spent[phase] += value
    stages = ", ".join(f"{phase} {1000 * value / len(queries):.2f}" for phase, value in spent.items())
    print(f"      {len(queries) / spent['total']:,.0f} queries/s; ms a query: {stages}; {memory()}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", type=int, nargs="*", default=[1_000, 10_000, 20_000, 100_000])
    parser.add_argument("--tokens", type=int, default=100, help="token vectors of a chunk")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--here", action="store_true", help="in this process; one size")
    arguments = parser.parse_args()
    global QUERIES
    QUERIES = arguments.queries
    if not arguments.here:
        about()
        print("Drawn vectors: cost only, no quality. Queries a second without the encoder.", flush=True)
    for size in arguments.sizes:
        more = ["--tokens", str(arguments.tokens), "--queries", str(arguments.queries), "--here"]
        if arguments.here:
            with tempfile.TemporaryDirectory(dir=".", prefix=".scale-") as folder:
                one(size, arguments.tokens, Path(folder))
        else:
            subprocess.run([sys.executable, __file__, str(size), *more], check=True)


if __name__ == "__main__":
    main()
