"""What a ranking says about its own certainty, for abstention: signals of the engines that a system is made of.

Every signal is higher where the system is more certain, and NaN where the system has no engine that could give it or nothing was
retrieved. `SIGNALS` defines them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from localeval.chunking import indexed_text
from localeval.corpus import Corpus
from localeval.grading import grade
from localeval.records import Graded, Hit, Query, ScoringRule, Span, Unit
from localeval.retrieval import fuse, rank
from localeval.tokens import Tokenise

FIRST = 10  # hits that a signal looks at
PERSISTENCE = 0.9  # of rank-biased overlap: the weight of the next rank as a share of this one's

SIGNALS = {
    "top_score": ("score of the first hit", "every system"),
    "margin": ("(first − second score) / first; zero where the first score is not positive", "every system"),
    "margin_to_third": ("(first − third score) / first; zero where the first score is not positive", "every system"),
    "spread": ("minus the entropy (nats) of the first ten scores as shares (softmax)", "every system"),
    "dense_cosine": ("cosine of the dense engine's first hit", "systems with a dense engine that also ran alone"),
    "bm25_share": (
        "score of BM25's first hit, as a share of the most that the question's words could give",
        "systems with BM25 that also ran alone",
    ),
    "engines_agree": (
        "rank-biased overlap of the first ten hits of BM25 and of the dense engine",
        "hybrids whose engines also ran alone",
    ),
    "reranker_score": ("the reranker's score of the first hit", "reranked systems"),
    "terms_found": ("share of the question's distinct words that stand in the first hit", "every system"),
}


def definitions() -> pd.DataFrame:
    """The signals, what each is and the systems it is defined for."""
    rows = [(name.replace("_", " "), what, where) for name, (what, where) in SIGNALS.items()]
    return pd.DataFrame(rows, columns=["signal", "what it is", "defined for"])


@dataclass(frozen=True)
class Words:
    """The index terms of every chunk of one chunker, and how many chunks hold each. k1: of the study's BM25."""

    of: Mapping[Span, frozenset[str]]
    frequency: Mapping[str, int]
    tokenise: Tokenise
    k1: float

    def attainable(self, question: str) -> float:
        """What BM25 (Lucene form) could give at most: every word of the question, repeated ones too, without end.

        A term's weight idf tf (k1 + 1) / (tf + k1 norm) stays below idf (k1 + 1). A word no chunk holds counts with the idf of
        no chunk: a question in foreign words is far from its best.
        """
        n, terms = len(self.of), self.tokenise(question)
        held = (self.frequency.get(term, 0) for term in terms)
        return sum(math.log(1 + (n - df + 0.5) / (df + 0.5)) * (self.k1 + 1) for df in held)

    def found(self, question: str, span: Span) -> float:
        """Share of the question's distinct terms in one chunk; NaN for a question without terms."""
        terms = set(self.tokenise(question))
        return len(terms & self.of[span]) / len(terms) if terms else math.nan


def words(spans: Sequence[Span], texts: Sequence[str], tokenise: Tokenise, k1: float) -> Words:
    """`Words` of the chunks of one chunker. texts: as they are indexed, aligned with spans."""
    of = {span: frozenset(tokenise(text)) for span, text in zip(spans, texts, strict=True)}
    return Words(of, Counter(term for terms in of.values() for term in terms), tokenise, k1)


def words_of(corpus: Corpus, chunks: Mapping[str, Sequence[Unit]], tokenise: Tokenise, k1: float) -> dict[str, Words]:
    """`Words` of every chunker."""
    return {
        name: words([unit.span for unit in units], [indexed_text(unit, corpus) for unit in units], tokenise, k1)
        for name, units in chunks.items()
    }


def table(
    hits: Mapping[tuple[str, str], Sequence[Hit]], runs: pd.DataFrame, queries: Sequence[Query], known: Mapping[str, Words]
) -> pd.DataFrame:  # fmt: skip
    """Every signal of every system and query. Columns: system, query_id, signal, value.

    runs: rows of `runs.csv`; hits: at least the first ten of each system that ran. known: `Words` of each chunker. The random arm
    is left out: it knows nothing of its own certainty.
    """
    rows = []
    for system in runs[runs["retriever"] != "random"].drop_duplicates("system").to_dict("records"):
        name, chunker, model = (system[key] for key in ("system", "chunker", "model"))
        lexical = f"{chunker}/bm25" if system["retriever"] in ("bm25", "hybrid") else ""
        dense = f"{chunker}/dense:{model}" if system["retriever"] in ("dense", "hybrid") else ""
        for query in queries:
            if (name, query.query_id) in hits:
                own, one, two = (hits.get((side, query.query_id), ())[:FIRST] for side in (name, lexical, dense))
                got = of_scores([hit.score for hit in own]) | of_engines(query, one, two, known[chunker])
                got["reranker_score"] = own[0].score if own and system["reranker"] else math.nan
                got["terms_found"] = known[chunker].found(query.text, own[0].span) if own else math.nan
                rows += [(name, query.query_id, signal, got[signal]) for signal in SIGNALS]
    return pd.DataFrame(rows, columns=["system", "query_id", "signal", "value"])


def of_scores(scores: Sequence[float]) -> dict[str, float]:
    """The signals that need only the first scores, best first. Fewer than asked for: a missing score is 0 (one hit has margin 1)."""
    if not len(scores):
        return dict.fromkeys(("top_score", "margin", "margin_to_third", "spread"), math.nan)
    first, second, third = [*scores, 0.0, 0.0][:3]
    shares = np.exp(np.asarray(scores, dtype=float) - max(scores))
    shares /= shares.sum()
    return {
        "top_score": float(first),
        "margin": max(0.0, (first - second) / first) if first > 0 else 0.0,
        "margin_to_third": max(0.0, (first - third) / first) if first > 0 else 0.0,
        "spread": float(sum(share * math.log(share) for share in shares if share > 0)),
    }


def of_engines(query: Query, lexical: Sequence[Hit], dense: Sequence[Hit], words: Words) -> dict[str, float]:
    """The signals of the two engines behind a system; an engine it does not have is an empty list."""
    most = words.attainable(query.text)
    return {
        "dense_cosine": dense[0].score if dense else math.nan,
        "bm25_share": lexical[0].score / most if lexical and most > 0 else math.nan,
        "engines_agree": rbo([hit.span for hit in lexical], [hit.span for hit in dense]) if lexical and dense else math.nan,
    }  # fmt: skip


def rbo(one: Sequence, two: Sequence, p: float = PERSISTENCE) -> float:
    """Rank-biased overlap of two rankings, extrapolated from their common depth (Webber, Moffat and Zobel 2010, equation 30).

    Between 0 (disjoint) and 1 (the same order). The longer list is cut to the shorter; NaN where either is empty.

    >>> rbo("ab", "ab"), rbo("ab", "cd")
    (1.0, 0.0)
    """
    depth = min(len(one), len(two))
    if not depth:
        return math.nan
    shares = [len(set(one[:d]) & set(two[:d])) / d for d in range(1, depth + 1)]
    return shares[-1] * p**depth + (1 - p) / p * sum(share * p**d for d, share in enumerate(shares, 1))


# Other ways to fuse the same hits


def fused(
    hits: Mapping[tuple[str, str], Sequence[Hit]], lexical: str, dense: str, rules: Mapping[str, Sequence[float]]
) -> dict[tuple[str, str], list[Hit]]:
    """The stored hits of two systems fused again by every rule, whose name is the system's. rules: name -> weights of lexical and
    dense in reciprocal rank fusion; no weights: the sum of both scores, each brought to 0 to 1 within its list."""
    queries = [query for system, query in hits if system == dense and (lexical, query) in hits]
    found = {}
    for name, weights in rules.items():
        make: Callable = (lambda lists, w=tuple(weights): fuse(lists, weights=w)) if weights else score_sum
        found |= {(name, query): make([hits[lexical, query], hits[dense, query]]) for query in queries}
    return found


def score_sum(lists: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Sum of scores, each list brought to 0 to 1 by its lowest and highest (Fox and Shaw 1994, CombSUM after min-max); a list of
    one score gives 1."""
    sums: dict[Span, float] = {}
    for some in lists:
        low, high = (pick((hit.score for hit in some), default=0.0) for pick in (min, max))
        for hit in some:
            sums[hit.span] = sums.get(hit.span, 0.0) + ((hit.score - low) / (high - low) if high > low else 1.0)
    spans = sorted(sums)
    return rank(spans, np.array([sums[span] for span in spans]), len(spans))


class Pair(NamedTuple):
    """A hybrid whose engines ran alone too, with hits of the same notebook. engines: lexical and dense, by name."""

    hybrid: str
    chunker: str
    engines: tuple[str, str]
    notebook: str


def hybrid_of(runs: pd.DataFrame) -> Pair | None:
    """The first hybrid without a reranker whose engines ran alone in the same notebook; None where there is none.

    runs: rows of `runs.csv` with their notebook.
    """
    ran = runs[runs["status"] == "ok"]
    for row in ran[(ran["retriever"] == "hybrid") & (ran["reranker"] == "")].to_dict("records"):
        engines = f"{row['chunker']}/bm25", f"{row['chunker']}/dense:{row['model']}"
        if set(engines) <= set(ran.loc[ran["notebook"] == row["notebook"], "system"]):
            return Pair(row["system"], row["chunker"], engines, row["notebook"])
    return None


def regraded(
    mixed: Mapping[tuple[str, str], Sequence[Hit]], queries: Sequence[Query], rule: str, units: Mapping, pair: Pair
) -> dict[tuple[str, str], list[Graded]]:
    """(fusion rule, scoring rule) -> graded queries, as `sweep.grade_all` gives. mixed: of `fused`."""
    parsed = ScoringRule.parse(rule)
    return {
        (name, rule): [grade(mixed.get((name, q.query_id), ()), q, parsed, units[pair.chunker, parsed.unit]) for q in queries]
        for name in dict.fromkeys(name for name, _ in mixed)
    }  # fmt: skip


def of_fused(
    mixed: Mapping, hits: Mapping, queries: Sequence[Query], known: Mapping[str, Words], pair: Pair
) -> pd.DataFrame:
    """Margin and cosine of every fusion rule. mixed: of `fused`; hits: of the two engines. Columns: as `table`."""
    by_id, rows = {query.query_id: query for query in queries}, []
    for (name, query_id), own in mixed.items():
        if query_id in by_id:
            sides = (hits.get((engine, query_id), ())[:FIRST] for engine in pair.engines)
            got = of_scores([hit.score for hit in own[:FIRST]]) | of_engines(
                by_id[query_id], *sides, known[pair.chunker]
            )
            rows += [(name, query_id, signal, got[signal]) for signal in ("margin", "dense_cosine")]
    return pd.DataFrame(rows, columns=["system", "query_id", "signal", "value"])
