"""From hits to gains: which ranked units count for a question, under a named rule.

Evidence is stored once, as graded spans. What a unit is worth is derived here, per `ScoringRule`, and nowhere else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from localeval.records import QUERY_STATES, BadInput, Evidence, Graded, Hit, Query, ScoringRule, Span, Unit

# Which rules can judge evidence of which kind. A rule finer than the evidence was judged at is not applicable.
APPLICABLE = {
    "span": {
        "chunk/contains", "chunk/overlaps", "chunk/same_document", "symbol/contains", "symbol/overlaps",
        "section/contains", "section/overlaps", "page/contains", "page/overlaps", "document/contains",
    },
    "symbol": {"symbol/contains", "chunk/same_document", "document/contains"},
    "section": {"section/contains", "section/overlaps", "chunk/same_document", "document/contains"},
    "page": {"page/contains", "page/overlaps", "chunk/same_document", "document/contains"},
    "document": {"chunk/same_document", "document/contains"},
}  # fmt: skip


class Worth(NamedTuple):
    """What a unit is worth for a question: units of identical text are one group, which is rewarded once."""

    group: tuple[Span, ...]
    indexes: frozenset[int]  # of the evidence it satisfies
    gain: float  # the highest grade of it


class Units:
    """The units one rule ranks, ready to be looked up: by place, and by class of identical text.

    units: every unit of one kind that a system could return. text: slices the text of a span; where it is given, units
    with exactly the same text are one class, which counts once in the gains and once in the ideal.
    """

    def __init__(self, units: Iterable[Unit], text: Callable[[Span], str] | None = None):
        self.spans = sorted({unit.span for unit in units})
        self._by_document: dict[str, list[Span]] = defaultdict(list)
        for span in self.spans:
            self._by_document[span.doc_id].append(span)
        self._starts = {doc: [span.start for span in spans] for doc, spans in self._by_document.items()}
        self._longest = {doc: max(map(len, spans)) for doc, spans in self._by_document.items()}
        self._twins: dict[Span, tuple[Span, ...]] = {}
        if text:
            same = defaultdict(list)
            for span in self.spans:
                same[text(span)].append(span)
            self._twins = {span: tuple(group) for group in same.values() if len(group) > 1 for span in group}
        self._nearest: dict[Span, Span | None] = {}
        self._worth: dict[tuple, tuple[dict[Span, Worth], tuple[float, ...]]] = {}

    def of(self, doc_id: str) -> Sequence[Span]:
        return self._by_document.get(doc_id, ())

    def touching(self, span: Span) -> list[Span]:
        """Units that share at least one character with `span`, in order."""
        spans = self.of(span.doc_id)
        if not spans:
            return []
        starts, reach = self._starts[span.doc_id], self._longest[span.doc_id]
        first = bisect_right(starts, span.start - reach)
        last = bisect_right(starts, span.end)
        return [unit for unit in spans[max(0, first - 1) : last] if unit.overlap(span)]

    def nearest(self, span: Span) -> Span | None:
        """The unit that `span` overlaps most (tie: the earlier); None where it touches none. Remembered: every system asks again."""
        if span not in self._nearest:
            found = self.touching(span)
            self._nearest[span] = max(found, key=lambda unit: (unit.overlap(span), -unit.start)) if found else None
        return self._nearest[span]

    def twins(self, span: Span) -> tuple[Span, ...]:
        """All units whose text is exactly that of `span`, itself among them."""
        return self._twins.get(span, (span,))

    def worth(self, evidence: tuple[Evidence, ...], rule: ScoringRule) -> tuple[dict[Span, Worth], tuple[float, ...]]:
        """Every unit that satisfies some of the evidence -> its worth, and the ideal. Remembered: no system changes it."""
        if (evidence, rule) not in self._worth:
            self._worth[evidence, rule] = _worth(evidence, rule, self)
        return self._worth[evidence, rule]


def unit_sets(corpus, chunks: dict[str, list[Unit]]) -> dict[tuple[str, str], Units]:
    """What the rules rank, by (chunker, kind of unit): the chunker's own chunks, and the pages and documents all share."""
    shared = {"page": Units(corpus.pages(), corpus.text), "document": Units(corpus.wholes(), corpus.text)}
    own = {(name, "chunk"): Units(units, corpus.text) for name, units in chunks.items()}
    return own | {(name, kind): units for name in chunks for kind, units in shared.items()}


RANKED = ("chunk", "page", "document")  # kinds of unit that `unit_sets` holds


def known_rules(rules: Iterable[str]) -> list[str]:
    """The rules as given, each once; one that is misspelt, or ranks a kind of unit that nothing here makes, is bad input."""
    rules = list(dict.fromkeys(rules))
    for text in rules:
        if ScoringRule.parse(text).unit not in RANKED:
            raise BadInput(f"rules: {text!r} ranks units that no chunker makes; use {', '.join(RANKED)}")
    if not rules:
        raise BadInput("rules: name at least one, as in chunk/contains")
    return rules


def reach(queries: Sequence[Query], rules: Iterable[str], units: dict[tuple[str, str], Units]):
    """What could be found at all, before any search: state of every query per chunker and rule.

    Returns a table with columns chunker, rule, query_id, status, origin; the best possible mean of a chunker is the share of scored.
    """
    import pandas as pd

    chunkers = list(dict.fromkeys(name for name, _ in units))
    rows = []
    for text in known_rules(rules):
        rule = ScoringRule.parse(text)
        for name in chunkers:
            graded = [grade([], query, rule, units[name, rule.unit]) for query in queries]
            rows += [(name, text, one.query_id, one.status, one.origin) for one in graded]
    return pd.DataFrame(rows, columns=["chunker", "rule", "query_id", "status", "origin"])


def state_counts(states, by: Sequence[str]):
    """Queries of each state behind every group. states: a table with a column status; by: the columns that make a group."""
    counts = states.groupby([*by, "status"], sort=False).size().unstack(fill_value=0)
    return counts.reindex(columns=list(QUERY_STATES), fill_value=0).reset_index().rename_axis(columns=None)


def applicable(evidence: Evidence, rule: ScoringRule) -> bool:
    return str(rule) in APPLICABLE[evidence.kind]


def counts(unit: Span, evidence: Evidence, rule: ScoringRule) -> bool:
    """Whether one unit satisfies one piece of evidence under `rule`."""
    if rule.match == "same_document" or rule.unit == "document":
        return unit.doc_id == evidence.span.doc_id
    if rule.match == "contains":
        return unit.contains(evidence.span)
    return unit.overlap(evidence.span) > 0


def overlap_share(unit: Span, evidence: Evidence) -> float:
    """Share of the evidence's characters that lie in the unit, between 0 and 1."""
    return unit.overlap(evidence.span) / len(evidence.span) if len(evidence.span) else 0.0


CHARACTERS = ("char_recall", "char_precision", "char_iou")


def character_names(cutoff: int) -> list[str]:
    """Names of the three scores with their cut: `char_recall@10` and so on."""
    return [f"{name}@{cutoff}" for name in CHARACTERS]


def character_scores(hits: Sequence[Hit], query: Query, cutoff: int) -> tuple[float, float, float] | None:
    """Shares in characters of the first `cutoff` hits and the evidence, each character counted once however many hits hold it.

    recall: of the evidence that was retrieved; precision: of the retrieved that is evidence, 0 without hits; intersection over union
    (Smith and Troynikov 2024, "Evaluating Chunking Strategies for Retrieval", there over tokens). None where the query has no
    evidence judged as spans.
    """
    wanted = merged(item.span for item in query.evidence if item.kind == "span")
    if not wanted:
        return None
    found = merged(hit.span for hit in hits[:cutoff])
    both = sum(one.overlap(other) for one in wanted for other in found)
    evidence, retrieved = sum(map(len, wanted)), sum(map(len, found))
    return both / evidence, both / retrieved if retrieved else 0.0, both / (evidence + retrieved - both)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same characters as disjoint spans in order; spans that touch are joined, empty ones left out."""
    joined: list[Span] = []
    for span in sorted(span for span in spans if len(span)):
        before = joined[-1] if joined else None
        if before and before.doc_id == span.doc_id and span.start <= before.end:
            joined[-1] = Span(span.doc_id, before.start, max(before.end, span.end))
        else:
            joined.append(span)
    return joined


def character_table(hits: dict[tuple[str, str], list[Hit]], queries: Sequence[Query], cutoff: int):
    """`character_scores` of every system and query, as a tidy table like `scores.csv` under the rule "characters"."""
    import pandas as pd

    by_id, rows = {query.query_id: query for query in queries}, []
    for system in dict.fromkeys(system for system, _ in hits):
        for query in by_id.values():
            got = character_scores(hits.get((system, query.query_id), ()), query, cutoff) or ()
            named = zip(character_names(cutoff), got, strict=False)
            rows += [
                (system, "characters", name, query.query_id, value, "scored", query.origin) for name, value in named
            ]
    return pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])


def evidence_lost(queries: Sequence[Query], rule: str, units: dict[tuple[str, str], Units]):
    """Pieces of evidence that no unit of a chunker can satisfy, whatever is searched with. Columns: chunker, pieces, lost.

    pieces: those of evidence that `rule` can judge at all.
    """
    import pandas as pd

    parsed, rows = ScoringRule.parse(rule), []
    pieces = [item for query in queries for item in query.evidence if applicable(item, parsed)]
    for chunker in dict.fromkeys(name for name, _ in units):
        reached = set().union(*_covered_by(pieces, parsed, units[chunker, parsed.unit]).values())
        rows.append((chunker, len(pieces), len(pieces) - len(reached)))
    return pd.DataFrame(rows, columns=["chunker", "pieces", "lost"])


def collapse(spans: Iterable[Span], units: Units) -> list[Span]:
    """A ranking in coarser units: each span becomes the unit it overlaps most (tie: the earlier), first occurrence kept.

    A span that touches no unit is dropped: there is nothing of this kind to rank.
    """
    seen = dict.fromkeys(map(units.nearest, spans))
    seen.pop(None, None)
    return list(seen)


def grade(hits: Sequence[Hit], query: Query, rule: ScoringRule, units: Units) -> Graded:
    """What a ranking is worth for one query.

    hits: best first; chunks or finer for any rule, collapsed to pages or documents where the rule ranks those.
    units: every unit of the kind the rule ranks, from the chunker that made the hits.
    """
    if isinstance(hits, (set, frozenset)):
        raise TypeError("hits must be in order; a set has none")
    if not query.answerable:
        return Graded(query.query_id, "unanswerable", origin=query.origin)
    evidence = tuple(item for item in query.evidence if applicable(item, rule))
    if not evidence:
        return Graded(query.query_id, "not_applicable", origin=query.origin)
    ranking = [hit.span for hit in hits]
    if rule.unit in ("page", "document", "section"):
        ranking = collapse(ranking, units)
    worth, ideal = units.worth(evidence, rule)
    gains, covers = _walk(ranking, worth)
    grades = tuple(item.grade for item in evidence)
    status = "scored" if ideal else "unreachable"
    return Graded(query.query_id, status, gains, covers, ideal, grades, len(ranking), query.origin)


def _worth(
    evidence: Sequence[Evidence], rule: ScoringRule, units: Units
) -> tuple[dict[Span, Worth], tuple[float, ...]]:
    covered_by, merge = _covered_by(evidence, rule, units), rule.match != "same_document"
    found, ideal = {}, []
    for group in {units.twins(span) if merge else (span,) for span in covered_by}:
        indexes = frozenset().union(*(covered_by.get(span, ()) for span in group))
        one = Worth(group, indexes, float(max(evidence[index].grade for index in indexes)))
        found |= dict.fromkeys(group, one)
        ideal.append(one.gain)
    return found, tuple(sorted(ideal, reverse=True))


def _covered_by(evidence: Sequence[Evidence], rule: ScoringRule, units: Units) -> dict[Span, set[int]]:
    """Every unit that satisfies some evidence -> the indexes it satisfies."""
    whole = rule.match == "same_document" or rule.unit == "document"
    found: dict[Span, set[int]] = defaultdict(set)
    for index, item in enumerate(evidence):
        for unit in units.of(item.span.doc_id) if whole else units.touching(item.span):
            if counts(unit, item, rule):
                found[unit].add(index)
    return found


def _walk(ranking: Iterable[Span], worth: dict[Span, Worth]):
    """Sparse gains and newly covered evidence along a ranking; a class of identical units is rewarded at its first rank."""
    gains, covers, rewarded, known = [], [], set(), frozenset()
    for rank, span in enumerate(ranking, 1):
        one = worth.get(span)
        if one is None or one.group in rewarded:
            continue
        rewarded.add(one.group)
        gains.append((rank, one.gain))
        new = one.indexes - known
        if new:
            known |= new
            covers.append((rank, tuple(sorted(new))))
    return tuple(gains), tuple(covers)
