"""The types everything else speaks: spans of text, what is asked about them, what a system returned, what it was worth.

Every record is frozen. Nothing here reads a file or imports an engine.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

UNIT_KINDS = ("document", "page", "section", "chunk", "symbol")
EVIDENCE_KINDS = ("span", "symbol", "section", "page", "document")
MATCHES = ("contains", "overlaps", "same_document")
SOURCES = {  # of a label
    "authored": "written with the question, before any system ran",
    "pooled": "found among the hits of systems: not independent of them",
    "worklist": "a hit of a worklist that a person judged: not independent of the systems that returned it",
}

QUERY_STATES = {
    "scored": "some unit of this chunker can cover the evidence; the value is a measurement",
    "unreachable": "no unit of this chunker can cover the evidence: 0 in the headline, left out of the second, named mean",
    "unanswerable": "the corpus holds no answer: never a hit, never a miss, reported apart",
    "not_applicable": "the rule is finer than the evidence was judged: no value",
}
RUN_STATES = {
    "ok": "ran, and returned results",
    "empty": "ran, and returned nothing for any query",
    "not_run": "was not started; the reason says what is missing and how to get it",
    "unavailable": "cannot run on this machine",
    "failed": "started and broke",
    "timed_out": "started and was stopped at its time limit",
    "not_comparable": "ran, on other inputs than the side it is compared with",
}


def near(word: str, known: Iterable[str]) -> str:
    """ " (did you mean 'x'?)" for the closest known word; nothing where none is close, or where the word itself is known."""
    found = difflib.get_close_matches(word, [str(one) for one in dict.fromkeys(known)], 1)
    return f" (did you mean {found[0]!r}?)" if found and found[0] != word else ""


def fill(make: Callable, values: dict, name: str):
    """`make(**values)`, where the values are a parameter that someone wrote; a key it does not take is bad input."""
    known = [
        key
        for key, one in inspect.signature(make).parameters.items()
        if one.kind is one.KEYWORD_ONLY or one.default is not one.empty
    ]
    for key in values:
        if key not in known:
            raise BadInput(f"{name}: unknown {key!r}{near(key, known)}; known: {', '.join(known)}")
        usual = inspect.signature(make).parameters[key].default
        kinds = {float: (float, int), tuple: (list, tuple)}.get(type(usual), (type(usual),))
        if usual is not inspect.Parameter.empty and type(values[key]) not in kinds:
            raise BadInput(f"{name}: {key!r} must be {kinds[0].__name__}, found {values[key]!r}")
    return make(**values)


class BadInput(ValueError):
    """Something the user gave cannot be used. The message is one line: which file or value, and what to do."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of characters `[start, end)` of one document's text. The span is the identifier.

    >>> Span("handbook.pdf", 310, 340)
    handbook.pdf#310-340
    >>> Span.parse("handbook.pdf#310-340") == Span("handbook.pdf", 310, 340)
    True
    """

    doc_id: str
    start: int
    end: int

    def __post_init__(self):
        if not self.doc_id:
            raise ValueError("a span needs a document id")
        if not 0 <= self.start <= self.end:
            raise ValueError(f"not a range of characters: [{self.start}, {self.end}) of {self.doc_id}")

    def __len__(self) -> int:
        return self.end - self.start

    def __repr__(self) -> str:
        return f"{self.doc_id}#{self.start}-{self.end}"

    __str__ = __repr__

    @classmethod
    def parse(cls, text: str) -> Span:
        doc_id, _, offsets = text.rpartition("#")
        start, _, end = offsets.partition("-")
        if not (doc_id and start.isdigit() and end.isdigit()):
            raise ValueError(f"not a span: {text!r} (expected 'document#start-end')")
        return cls(doc_id, int(start), int(end))

    def contains(self, other: Span) -> bool:
        """True when `other` lies wholly inside. An empty span is inside nothing: it points at no text."""
        return self.doc_id == other.doc_id and len(other) > 0 and self.start <= other.start and other.end <= self.end

    def overlap(self, other: Span) -> int:
        """Number of characters both share; 0 for another document."""
        if self.doc_id != other.doc_id:
            return 0
        return max(0, min(self.end, other.end) - max(self.start, other.start))


@dataclass(frozen=True, slots=True)
class Document:
    """One immutable text. Everything points into `text`; page map, boxes and boilerplate live in a `Layout`.

    doc_id: posix path below the corpus folder. source_sha256: of the file's bytes. text_sha256: of `text` in UTF-8,
    so that offsets made for one text are never used on another.
    """

    doc_id: str
    text: str
    source_sha256: str
    text_sha256: str
    language: str = "en"

    def __getitem__(self, span: Span) -> str:
        if span.doc_id != self.doc_id:
            raise KeyError(f"{span} does not point into {self.doc_id}")
        return self.text[span.start : span.end]


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a document that can be ranked.

    kind: one of UNIT_KINDS. label: for people (a page label, a heading). context: a heading path or signature that is
    indexed with the text and never scored.
    """

    span: Span
    kind: str
    label: str = ""
    context: str = ""

    def __post_init__(self):
        if self.kind not in UNIT_KINDS:
            raise ValueError(f"unknown unit kind {self.kind!r}; one of {', '.join(UNIT_KINDS)}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place in the corpus that answers a query.

    The truth is the anchor: `quote`, a little text `before` and `after`, and `page_index` (from 0). `span` is derived from it
    for one text. kind: the granularity it was judged at, one of EVIDENCE_KINDS. grade: 1 or more. source: where the label came
    from, one of SOURCES.
    """

    span: Span
    grade: int = 1
    kind: str = "span"
    quote: str = ""
    before: str = ""
    after: str = ""
    page_index: int | None = None
    source: str = "authored"

    def __post_init__(self):
        if self.kind not in EVIDENCE_KINDS:
            raise ValueError(f"unknown evidence kind {self.kind!r}; one of {', '.join(EVIDENCE_KINDS)}")
        if self.grade < 1:
            raise ValueError(f"evidence needs a grade of 1 or more, not {self.grade}")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a person said of one unit that a system returned for a question.

    grade: 0 when nothing in `span` answers it. answer: else the words that do, as evidence of that grade. date: year-month-day.
    """

    query_id: str
    span: Span
    grade: int
    by: str
    date: str
    source: str = "worklist"
    answer: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A question and its evidence. No evidence means: unanswerable from this corpus.

    category: what kind of wording or answer. split: dev or heldout. origin: human, templated or drafted; strata are never
    pooled. review: who looked at it. must_hit: the gate fails when it is lost.
    """

    query_id: str
    text: str
    evidence: tuple[Evidence, ...] = ()
    tags: tuple[str, ...] = ()
    category: str = ""
    split: str = "dev"
    origin: str = "human"
    review: str = ""
    must_hit: bool = False

    @property
    def answerable(self) -> bool:
        return bool(self.evidence)


class Hit(NamedTuple):
    """One ranked result: where, and the engine's own score (higher is better)."""

    span: Span
    score: float


@dataclass(frozen=True, slots=True)
class System:
    """One row of a sweep. `name` is derived from the fields, readable, and unique within a study.

    >>> System("section", "hybrid", "minilm", "maxsim", 40).name
    'section/hybrid:minilm+maxsim@40'
    """

    chunker: str
    retriever: str
    model: str = ""
    reranker: str = ""
    rerank_depth: int = 0
    depth: int = 100
    variant: str = ""
    options: tuple[tuple[str, object], ...] = ()

    @property
    def name(self) -> str:
        name = f"{self.chunker}/{self.retriever}"
        name += f":{self.model}" if self.model else ""
        name += f"+{self.reranker}@{self.rerank_depth}" if self.reranker else ""
        return name + (f"~{self.variant}" if self.variant else "")


@dataclass(frozen=True, slots=True)
class ScoringRule:
    """Which unit is ranked, and when one counts. Written `unit/match`; every number carries its rule.

    >>> str(ScoringRule.parse("chunk/contains"))
    'chunk/contains'
    """

    unit: str
    match: str

    def __post_init__(self):
        if self.unit not in UNIT_KINDS or self.match not in MATCHES:
            raise BadInput(
                f"unknown scoring rule '{self.unit}/{self.match}' "
                f"(units: {', '.join(UNIT_KINDS)}; matches: {', '.join(MATCHES)})"
            )

    def __str__(self) -> str:
        return f"{self.unit}/{self.match}"

    @classmethod
    def parse(cls, text: str) -> ScoringRule:
        unit, _, match = text.partition("/")
        return cls(unit, match)


@dataclass(frozen=True, slots=True)
class Graded:
    """What one ranking was worth for one query under one rule.

    gains: sparse `(rank, gain)` of every judged unit in the ranking, rank from 1; a rank that is absent was not judged.
    covers: `(rank, (evidence index, ...))`, evidence named at the first rank that covers it. ideal: gains of all judged units
    of the corpus, best first. evidence: grades of the evidence this rule can judge, by index. ranked: how many units
    the ranking holds. status: one of QUERY_STATES. origin: the stratum of the query; strata are never pooled.
    """

    query_id: str
    status: str
    gains: tuple[tuple[int, float], ...] = ()
    covers: tuple[tuple[int, tuple[int, ...]], ...] = ()
    ideal: tuple[float, ...] = ()
    evidence: tuple[int, ...] = ()
    ranked: int = 0
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidate against baseline on the same queries. `delta` is candidate minus baseline, always.

    p_value: of the permutation test, as `test` names it; p_t: of Student's paired t. differ: queries on which they are not equal.
    """

    metric: str
    rule: str
    baseline: str
    candidate: str
    n: int
    delta: float
    low: float
    high: float
    p_value: float
    p_adjusted: float | None = None
    mde: float | None = None
    p_t: float | None = None
    differ: int | None = None
    test: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a decision says, and why, in words."""

    status: str
    reasons: tuple[str, ...] = field(default=())


def at_least(least: float, **given: object) -> None:
    """Refuses a parameter below `least`, and a list that holds such a number or nothing.

    >>> at_least(1, cut=10, cuts=[1, 5])
    """
    for name, value in given.items():
        if isinstance(value, list | tuple) and not value:
            raise BadInput(f"{name}=[]: name at least one")
        numbers = [one for one in (value if isinstance(value, list | tuple) else [value]) if not isinstance(one, str)]
        for one in numbers:
            if isinstance(one, bool) or not isinstance(one, int | float) or not one >= least:
                raise BadInput(f"{name}={value}: must be a number of {least:g} or more")
