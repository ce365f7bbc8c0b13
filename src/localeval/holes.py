"""Holes in the labels: hits that nobody judged, what they could change, and which of them to judge first.

A hit counts where it holds evidence, was refused where a person judged it and found no answer, and is *open* otherwise: it may well hold an
answer that nobody marked. Plain scores take every open hit as a miss. The bounds here ask what each set of further answers would
make of a score, under one rule:

    each open hit among the first k of the systems at hand holds one further answer, of the highest grade the question has, or none; an
    answer counts for every system that shows this text, and makes the ideal longer by one. What no system at hand shows stays as it is.

The two ends are those of the difference itself, over all such sets, and not a difference of ends.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from localeval import judgements, metrics
from localeval.corpus import Corpus
from localeval.grading import Units, applicable, collapse, counts, grade
from localeval.judgements import fingerprint
from localeval.records import SOURCES, BadInput, Graded, Hit, Judgement, Query, ScoringRule, Span

ADDITIVE = ("ndcg", "evidence_ndcg", "recall", "evidence_recall", "p")  # every open hit adds its own share
TIE = 1e-9  # sums of differences closer to 0 than this are 0
FIRST = ("rr", "success")  # only the first unit that counts matters
BOUNDED = ADDITIVE + FIRST


@dataclass(frozen=True, slots=True)
class Ranking:
    """One ranking with its labels. graded: gains of 0 are units that a person refused. open: (rank, unit, key) of what nobody judged,
    best first; units of one key are flipped together. A text that comes again below is not open again.
    """

    graded: Graded
    open: tuple[tuple[int, Span, Hashable], ...] = ()


class Labels:
    """Labels one ranking after another under one rule.

    units: chunker -> units of the kind the rule ranks. judgements: what people said of hits; those above grade 0 count only where the
    queries have them as evidence.
    """

    def __init__(self, rule: str, units: dict[str, Units], corpus: Corpus, judgements: Iterable[Judgement] = ()):
        self.rule, self._units, self._corpus = ScoringRule.parse(rule), units, corpus
        self.whole = self.about_documents(rule)
        self._refused: dict[str, list[Span]] = defaultdict(list)
        for one in judgements:
            if not one.grade:
                self._refused[one.query_id].append(one.span)
        self._keys: dict[Span, str] = {}
        self._counting: dict[tuple[Query, str], set[Span]] = {}
        self._coarser: dict[tuple[str, Span], list[Span]] = {}

    @staticmethod
    def about_documents(rule: str) -> bool:
        """Whether one answer makes its whole document count."""
        return rule.endswith("/same_document") or rule.startswith("document/")

    def key(self, span: Span) -> str:
        """What makes two units one: the same text; under a rule about documents, the same document."""
        if self.whole:
            return span.doc_id
        if span not in self._keys:
            self._keys[span] = fingerprint(self._corpus.text(span))
        return self._keys[span]

    def rank(self, hits: Sequence[Hit], query: Query, chunker: str) -> Ranking:
        """One ranking of one query. Queries without a value under the rule have no open units."""
        graded = grade(hits, query, self.rule, self._units[chunker])
        if graded.status not in ("scored", "unreachable"):
            return Ranking(graded)
        refused, left = self._apart(self._ranked(hits, chunker), query, chunker)
        gains = tuple(sorted((*graded.gains, *((rank, 0.0) for rank in refused))))
        ideal = graded.ideal + (0.0,) * len(self._refused.get(query.query_id, ()))
        return Ranking(replace(graded, gains=gains, ideal=ideal), left)

    def share(self, hits: Sequence[Hit], query: Query, chunker: str, cut: int) -> float:
        """`judged` of the ranking, without what a grade costs; NaN where nothing is ranked, or the query has no value under the rule."""
        ranking = self._ranked(hits, chunker, cut)[:cut]
        if not ranking or not any(applicable(item, self.rule) for item in query.evidence):
            return float("nan")
        return 1 - len(self._apart(ranking, query, chunker)[1]) / len(ranking)

    def _ranked(self, hits: Sequence[Hit], chunker: str, first: int | None = None) -> list[Span]:
        """What the rule ranks, in order; only as many as `first`. Which coarser unit a hit becomes is looked up once."""
        if self.rule.unit not in ("page", "document", "section"):
            return [hit.span for hit in hits[:first]]
        found: dict[Span, None] = {}
        for hit in hits:
            key = chunker, hit.span
            if key not in self._coarser:
                self._coarser[key] = collapse([hit.span], self._units[chunker])
            found.update(dict.fromkeys(self._coarser[key]))
            if len(found) == first:
                break
        return list(found)

    def _apart(self, ranking: Sequence[Span], query: Query, chunker: str):
        """What does not count for the query: ranks of refused units, and (rank, unit, key) of open ones."""
        holding, said, refused, left, seen = (
            self._holding(query, chunker),
            self._refused.get(query.query_id, ()),
            [],
            [],
            set(),
        )
        for rank, span in enumerate(ranking, 1):
            if span in holding:
                continue
            key = self.key(span)
            if key in seen and not self.whole:
                continue
            seen.add(key)
            if self._is_refused(span, key, said):
                refused.append(rank)
            else:
                left.append((rank, span, key))
        return refused, tuple(left)

    def _holding(self, query: Query, chunker: str) -> set[Span]:
        """Every unit of the chunker that counts for the query, copies of their texts among them; looked up once."""
        if (query, chunker) not in self._counting:
            units, found = self._units[chunker], set()
            for item in (item for item in query.evidence if applicable(item, self.rule)):
                near = units.of(item.span.doc_id) if self.whole else units.touching(item.span)
                found.update(unit for unit in near if counts(unit, item, self.rule))
            copies = (copy for unit in found for copy in units.twins(unit))
            self._counting[query, chunker] = found if self.rule.match == "same_document" else found.union(copies)
        return self._counting[query, chunker]

    def _is_refused(self, span: Span, key: str, refused: Sequence[Span]) -> bool:
        """Inside a span that was read and refused, or the same text as one. What only overlaps one may hold an answer beside it."""
        return not self.whole and any(one.contains(span) or self.key(one) == key for one in refused)


def labeller(
    units: dict[tuple[str, str], Units], corpus: Corpus, judgements: Iterable[Judgement] = ()
) -> Callable[[str], Labels]:
    """Rule -> its `Labels`. units: as `grading.unit_sets` gives them."""
    said = list(judgements)

    def labels(rule: str) -> Labels:
        kind = ScoringRule.parse(rule).unit
        return Labels(rule, {chunker: own for (chunker, ranked), own in units.items() if ranked == kind}, corpus, said)

    return labels


def chunkers(hits: dict) -> dict[str, str]:
    """The chunker of every system that has hits; its name begins with it."""
    return {system: system.partition("/")[0] for system in dict.fromkeys(system for system, _ in hits)}


Rankings = dict[tuple[str, str], Ranking]  # (system, query id)


def rankings(labels: Labels, hits: dict, queries: Sequence[Query], chunker: dict[str, str]) -> Rankings:
    """Every system of `chunker` with every query. hits: (system, query id) -> ranked hits; chunker: of each system."""
    return {
        (system, query.query_id): labels.rank(hits[system, query.query_id], query, chunker[system])
        for system in chunker
        for query in queries
        if (system, query.query_id) in hits
    }


def enough(hits: dict, metric: str, rule: str) -> dict:
    """As many hits as the metric can see under the rule: its cut where chunks are ranked; all where they make coarser units."""
    cut = metrics.parse(metric)[1] if ScoringRule.parse(rule).unit == "chunk" else None
    return hits if cut is None else {key: ranked[:cut] for key, ranked in hits.items()}


def judged(ranking: Ranking, cut: int) -> float:
    """Share of the first `cut` hits that hold evidence or were refused by a person; texts that came before count as what they were."""
    shown = min(cut, ranking.graded.ranked)
    return 1 - sum(rank <= cut for rank, _, _ in ranking.open) / shown if shown else float("nan")


def beside(
    summary, hits: dict, queries: Sequence[Query], units: dict[tuple[str, str], Units], corpus: Corpus, path: Path
):
    """A table like `metrics.csv` with one more column, `metrics.JUDGED`: how much of what a score rests on somebody has looked at.

    Mean over the questions of the row's origin of the share of the first ten units, as the row's rule ranks them, that hold evidence or
    were refused by a person. path: of the judgements, of which there need be none; answers that they found count here whether or not the
    scores take them. NaN where the system has no hits, or no question has a value under the rule.
    """
    said = judgements.load(path, corpus, queries)
    label, asked = labeller(units, corpus, said), judgements.with_answers(queries, said)
    names, shares = chunkers(hits), {}
    for rule, of_rule in summary.groupby("rule", sort=False):
        labels = label(rule)
        for system, origin in dict.fromkeys(zip(of_rule["system"], of_rule["origin"], strict=True)):
            own = [query for query in asked if query.origin == origin]
            shares[system, rule, origin] = judged_share(labels, hits, own, system, names.get(system, ""))
    keys = zip(summary["system"], summary["rule"], summary["origin"], strict=True)
    return summary.assign(**{metrics.JUDGED: [shares[key] for key in keys]})


def judged_share(labels: Labels, hits: dict, queries: Sequence[Query], system: str, chunker: str) -> float:
    """Mean of `Labels.share` at the cut of `metrics.JUDGED` over the questions that one system has hits for."""
    cut = metrics.parse(metrics.JUDGED)[1]
    found = [(hits[system, query.query_id], query) for query in queries if (system, query.query_id) in hits]
    values = [labels.share(ranked, query, chunker, cut) for ranked, query in found]
    return _mean(value for value in values if value == value)


def pooled(found: Rankings, cut: int) -> Rankings:
    """The same rankings, with a gain of -1 at every open unit that some system has among its first `cut`: in the pool, not judged."""
    pool = {(query, key) for (_, query), one in found.items() for rank, _, key in one.open if rank <= cut}
    return {
        (system, query): replace(
            one,
            graded=replace(
                one.graded,
                gains=tuple(
                    sorted((*one.graded.gains, *((r, -1.0) for r, _, key in one.open if (query, key) in pool)))
                ),
            ),
        )
        for (system, query), one in found.items()
    }


# --- bounds ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reach:
    """What a value, or a difference, of one query can become. now: without further answers.

    lows, highs: the least and the most with at most 0, 1, 2 … further answers. one: key -> change that one answer there makes.
    exact: some set of answers reaches the ends; else they are further out than any does.
    """

    now: float
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    one: dict[Hashable, float]
    exact: bool = True

    @property
    def low(self) -> float:
        return self.lows[-1]

    @property
    def high(self) -> float:
        return self.highs[-1]


def has_bounds(metric: str, rule: str) -> bool:
    """Under a rule about documents one answer makes every unit of its document count: only rr, success and p are bounded there."""
    whole = ScoringRule.parse(rule).match == "same_document"
    return metric.partition("@")[0] in ((*FIRST, "p") if whole else BOUNDED)


def reach(metric: str, candidate: Ranking, baseline: Ranking | None = None) -> Reach | None:
    """What candidate minus baseline can become for one query, or the candidate's value where there is no baseline.

    None where the query has no value. Metrics without bounds are bad input. An open hit that both systems show is flipped for both.
    """
    name, cut = metric.partition("@")[0], metrics.parse(metric)[1]
    if name not in BOUNDED:
        raise BadInput(f"{metric}: no bounds for it; known: {', '.join(BOUNDED)}")
    sides = [candidate] + ([baseline] if baseline else [])
    if any(metrics.measure(one.graded, metric) is None for one in sides):
        return None
    places = [_places(one, cut) for one in sides]
    keys = list(dict.fromkeys(key for side in places for key in side))
    if name in FIRST:
        return _first(name, cut, sides, places, keys)
    return _additive(metric, sides, places, keys)


def _places(one: Ranking, cut: int | None) -> dict[Hashable, list[int]]:
    """key -> ranks down to the cut. Under rules about documents one key has several."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for rank, _, key in one.open:
        if cut is None or rank <= cut:
            found[key].append(rank)
    return dict(found)


def _first(name: str, cut: int | None, sides, places, keys) -> Reach:
    """One answer says it all: a further one could only help the other side, or nobody."""
    value = (lambda rank: 1 / rank) if name == "rr" else (lambda rank: float(rank < math.inf))
    first = [min(metrics.relevant_ranks(one.graded, cut), default=math.inf) for one in sides]
    after = lambda side, key: value(min(first[side], *places[side].get(key, (math.inf,))))
    signs = (1, -1)[: len(sides)]
    now = sum(sign * value(rank) for sign, rank in zip(signs, first, strict=True))
    one = {key: sum(sign * after(side, key) for side, sign in enumerate(signs)) - now for key in keys}
    ends = (now + min(0.0, *one.values()), now + max(0.0, *one.values())) if one else (now, now)
    lows, highs = ((now, end) if keys else (now,) for end in ends)
    return Reach(now, lows, highs, one)


def _additive(metric: str, sides, places, keys) -> Reach:
    """For each number of answers the best and the worst choice of that many; with their number the ideal is fixed, and shares add up."""
    count, signs = len(keys), (1.0, -1.0)[: len(sides)]
    base, shares = np.zeros(count + 1), np.zeros((count + 1, count))
    spare = {"low": np.zeros((count + 1, count)), "high": np.zeros((count + 1, count))}
    exact = True
    for sign, one, own in zip(signs, sides, places, strict=True):
        norms = _ideals(metric, one.graded, count)
        divided = np.divide(1.0, norms, out=np.zeros(count + 1), where=norms > 0)
        base += sign * metrics.measure(one.graded, metric) * norms[0] * divided
        weights = np.array([sum(_share(metric, one.graded, rank) for rank in own.get(key, ())) for key in keys])
        own_shares = sign * np.outer(divided, weights)
        shares += own_shares
        if _several_in_one(
            metric, one.graded
        ):  # they hold up what comes below: an answer adds between nothing and its share
            exact = exact and not own
            spare["high" if sign < 0 else "low"] -= own_shares
    lows, highs = (_best_choice(base, shares + spare[end], sign) for end, sign in (("low", -1), ("high", 1)))
    lows, highs = (
        tuple(float(end) for end in np.clip(ends, 1.0 - len(signs), 1.0)) for ends in (lows, highs)
    )  # all it can be
    single = base[1] + shares[1] - base[0] if count else ()
    return Reach(float(base[0]), lows, highs, dict(zip(keys, map(float, single), strict=True)), exact)


def _best_choice(base: np.ndarray, shares: np.ndarray, sign: int) -> tuple[float, ...]:
    """The furthest value with at most m answers, for m from 0. base: (n + 1,), shares: (n + 1, n), by number of answers."""
    ordered = -np.sort(-sign * shares, axis=1)
    sums = np.concatenate([np.zeros((len(base), 1)), np.cumsum(ordered, axis=1)], axis=1)
    values = sign * base + sums[np.arange(len(base)), np.arange(len(base))]
    return tuple(float(sign * value) for value in np.maximum.accumulate(values))


def _highest(graded: Graded) -> float:
    return float(max((*graded.evidence, *graded.ideal), default=1.0)) or 1.0


def _ideals(metric: str, graded: Graded, count: int) -> np.ndarray:
    """What the metric divides by, with 0 to `count` further answers of the highest grade. 0 at first where no unit can be found."""
    name, cut = metric.partition("@")[0], metrics.parse(metric)[1]
    if name == "p":
        return np.ones(count + 1)
    known = sorted(graded.evidence if name.startswith("evidence_") else [gain for gain in graded.ideal if gain > 0])[
        ::-1
    ]
    if name.endswith("recall"):
        return len(known) + np.arange(count + 1.0)
    more = _highest(graded)
    return np.array([metrics.dcg(enumerate([more] * m + known, 1), cut) for m in range(count + 1)])


def _share(metric: str, graded: Graded, rank: int) -> float:
    """What an answer at this rank adds above the line."""
    name, cut = metric.partition("@")[0], metrics.parse(metric)[1]
    if name == "p":
        return 1 / (cut or graded.ranked)
    return 1.0 if name.endswith("recall") else _highest(graded) / math.log2(rank + 1)


def _several_in_one(metric: str, graded: Graded) -> bool:
    return metric.startswith("evidence_ndcg") and any(len(indexes) > 1 for _, indexes in graded.covers)


def bounds(
    metric: str, found: Rankings, candidate: str, baseline: str = "", queries: Iterable[str] = ()
) -> dict[str, Reach]:
    """`reach` of every query that has a value for both systems."""
    table = {}
    for query in queries or dict.fromkeys(query for _, query in found):
        sides = [found.get((system, query)) for system in (candidate, baseline) if system]
        got = reach(metric, *sides) if all(sides) else None
        if got:
            table[query] = got
    return table


def answers_to_flip(table: dict[str, Reach]) -> int | None:
    """So few further answers turn the sign of the mean round; None where no number of them does, or where it is 0 now.

    The largest step first, question by question: enough, and perhaps not the fewest. Only questions whose bounds are
    exact are asked, so that there is such a set of answers.
    """
    total = math.fsum(one.now for one in table.values())
    if abs(total) <= TIE:
        return None
    lines = [one.lows if total > 0 else one.highs for one in table.values() if one.exact]
    steps = [(-abs(line[1] - line[0]), number, 0) for number, line in enumerate(lines) if len(line) > 1]
    heapq.heapify(steps)
    left, taken = abs(total), 0
    while steps and left >= -TIE:
        step, number, place = heapq.heappop(steps)
        left, taken, line = left + step, taken + 1, lines[number]
        if place + 2 < len(line):
            heapq.heappush(steps, (-abs(line[place + 2] - line[place + 1]), number, place + 1))
    return taken if left < -TIE else None


FLIPS = {
    "cannot flip": "no set of further answers among the hits of both would turn the order round",
    "can flip": "some set of further answers among the hits of both turns it round",
    "may flip": "the bounds allow it, but they are wider than any set of answers reaches",
    "tied": "there is no order now",
    "no bounds": "this metric has none under this rule",
    "not run": "a side has no hits",
}


def flips(table: dict[str, Reach]) -> str:
    """One of FLIPS, from the bounds of the mean difference."""
    if not table:
        return "not run"
    now, low, high = (math.fsum(getattr(one, end) for one in table.values()) for end in ("now", "low", "high"))
    if abs(now) <= TIE:
        return "tied"
    if (low if now > 0 else -high) >= -TIE:
        return "cannot flip"
    return "can flip" if answers_to_flip(table) else "may flip"


# --- tables ---------------------------------------------------------------------------------------------------------


def by_system(found: Rankings, names: Sequence[str], cut: int, bounded: Sequence[str] = ()):
    """Means of every system: plain, condensed (without open hits) and both ends of the bounds, beside the share of hits that is judged.

    bounded: those of the names whose bounds are wanted; the others have NaN there. Columns: system, n (questions with a
    value), judged, metric, plain, condensed, low, high, exact.
    """
    import pandas as pd

    rows = []
    for system in dict.fromkeys(system for system, _ in found):
        own = {query: one for (name, query), one in found.items() if name == system and _has_value(one)}
        share = _mean(judged(one, cut) for one in own.values() if one.graded.ranked)
        for name in names:
            plain = _mean(metrics.measure(one.graded, name) for one in own.values())
            closed = _mean(metrics.measure(metrics.condensed(one.graded), name) for one in own.values())
            ends = [reach(name, one) for one in own.values()] if name in bounded else []
            low, high = (_mean(getattr(one, end) for one in ends) for end in ("low", "high"))
            rows.append((system, len(own), share, name, plain, closed, low, high, all(one.exact for one in ends)))
    return pd.DataFrame(rows, columns=["system", "n", "judged", "metric", "plain", "condensed", "low", "high", "exact"])


def _has_value(one: Ranking) -> bool:
    return one.graded.status in ("scored", "unreachable")


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values) if values else float("nan")


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison and what open hits could make of it. reaches: query id -> `Reach`; empty where it has none."""

    metric: str
    rule: str
    baseline: str
    candidate: str
    origin: str
    reaches: dict[str, Reach]
    rankings: Rankings

    @property
    def flips(self) -> str:
        return flips(self.reaches) if has_bounds(self.metric, self.rule) else "no bounds"


def compared(
    comparisons, labels: Callable[[str], Labels], hits, queries: Sequence[Query], chunker: dict[str, str]
) -> list[Compared]:
    """Every comparison of a table `comparisons.csv` that was named before the run. labels: rule -> its `Labels`."""
    made: dict[str, Labels] = {}
    found = []
    for row in comparisons[comparisons["designated"].astype(bool)].to_dict("records"):
        metric, rule, sides = row["metric"], row["rule"], (row["baseline"], row["candidate"])
        own = [query for query in queries if query.origin == row["origin"]]
        made.setdefault(rule, labels(rule))
        pair = {side: chunker[side] for side in sides if side in chunker}
        asked = {(side, query.query_id) for side in pair for query in own}
        seen = enough({key: hits[key] for key in asked if key in hits}, metric, rule)
        ranked = rankings(made[rule], seen, own, pair)
        known = len(pair) == len(set(sides)) and has_bounds(metric, rule)
        reaches = bounds(metric, ranked, sides[1], sides[0]) if known else {}
        found.append(Compared(metric, rule, *sides, row["origin"], reaches, ranked))
    return found


def comparison_table(found: Sequence[Compared]):
    """One row a comparison: n, difference now, the ends of its bounds, open hits behind it, the word of `flips`, answers that suffice."""
    import pandas as pd

    rows = []
    for number, one in enumerate(found, 1):
        ends = [_mean(getattr(reach, end) for reach in one.reaches.values()) for end in ("now", "low", "high")]
        cut, shown = metrics.parse(one.metric)[1], [row for query in one.reaches for row in _shown(one, query)]
        open_hits = len({(query, key) for query, rank, _, key in shown if cut is None or rank <= cut})
        names = (one.candidate, one.baseline, one.metric, one.rule, one.origin)
        rows.append((number, *names, len(one.reaches), *ends, open_hits, one.flips, answers_to_flip(one.reaches)))
    columns = [
        "number",
        "candidate",
        "baseline",
        "metric",
        "rule",
        "origin",
        "n",
        "delta",
        "low",
        "high",
        "open",
        "flips",
        "answers",
    ]
    return pd.DataFrame(rows, columns=columns).astype({"answers": "Int64"})


def _shown(one: Compared, query: str) -> Iterable[tuple[str, int, Span, Hashable]]:
    for side in (one.candidate, one.baseline):
        yield from ((query, rank, span, key) for rank, span, key in one.rankings[side, query].open)


WORKLIST = (
    "place",
    "query_id",
    "question",
    "span",
    "page",
    "text",
    "grade",
    "answer",
    "by",
    "date",
    "influence",
    "comparisons",
    "systems",
    "best_rank",
    "sha256",
)


def worklist(found: Sequence[Compared], queries: Sequence[Query], corpus: Corpus, hits: dict, cut: int):
    """Open hits that could move the designated comparisons, the most influential first, with empty cells for a person to fill in.

    influence: by how much an answer in this text alone would change the mean difference, summed over the comparisons that can flip.
    systems: how many of all that ran have it among their first `cut`; best_rank: its highest place there. One row a question and text:
    systems and copies of a text share it. Rules about documents have no row: reading one chunk does not settle them.
    """
    import pandas as pd

    influence, where, about = defaultdict(float), defaultdict(set), {}
    for number, one in enumerate(found, 1):
        if one.flips not in ("can flip", "may flip") or Labels.about_documents(one.rule):
            continue
        for query, got in one.reaches.items():
            spans = {key: span for _, _, span, key in sorted(_shown(one, query), key=lambda row: row[2], reverse=True)}
            for key, change in got.one.items():
                influence[query, key] += abs(change) / len(one.reaches)
                where[query, key].add(number)
                about[query, key] = min(spans[key], about.get((query, key), spans[key]))
    seen = _seen(about, corpus, hits, cut)
    texts = {query.query_id: query.text for query in queries}
    rows = []
    for item in sorted(about, key=lambda item: (-round(influence[item], 9), item[0], about[item])):
        span, ranks = about[item], seen.get(item, ())
        page = corpus.layouts[span.doc_id].page_of(span)
        place = (
            len(rows) + 1,
            item[0],
            texts[item[0]],
            str(span),
            "" if page is None else page + 1,
            " ".join(corpus.text(span).split()),
        )
        facts = (influence[item], " ".join(map(str, sorted(where[item]))), len(ranks), min(ranks, default=None))
        rows.append((*place, "", "", "", "", *facts, fingerprint(corpus.text(span))))
    return pd.DataFrame(rows, columns=list(WORKLIST))


def _seen(
    about: Iterable[tuple[str, Hashable]], corpus: Corpus, hits: dict, cut: int
) -> dict[tuple[str, Hashable], list[int]]:
    """(query, text) -> the rank of it in every system that has it among its first `cut`."""
    wanted, keys, found = set(about), {}, defaultdict(list)
    for (_, query), ranked in hits.items():
        own = set()
        for rank, hit in enumerate(ranked[:cut], 1):
            key = keys[hit.span] if hit.span in keys else keys.setdefault(hit.span, fingerprint(corpus.text(hit.span)))
            if (query, key) in wanted and key not in own:
                own.add(key)
                found[query, key].append(rank)
    return found


def family(system: str) -> str:
    """The first stage of a system: what is reranked contributes nothing of its own.

    >>> family("section/hybrid:minilm+maxsim@40")
    'section/hybrid:minilm'
    """
    return system.partition("+")[0]


def pool_bias(labels: Labels, hits: dict, queries: Sequence[Query], chunker: dict[str, str], metric: str, cut: int):
    """Every first stage without the labels that only it contributed (Zobel 1998): what a system outside the pool would have got.

    Only labels that are not authored can be contributed. Columns: family, system (its best), labels, only_here, score, without.
    Empty where every label was written before any system ran.
    """
    import pandas as pd

    late = {(query.query_id, item.span) for query in queries for item in query.evidence if item.source != "authored"}
    by_family = _contributed(late, hits, chunker, cut)
    hits = enough(hits, metric, str(labels.rule)) if late else {}
    whole = rankings(labels, hits, queries, chunker)
    rows = []
    for name in dict.fromkeys(map(family, chunker)) if late else ():
        others = set().union(*(found for other, found in by_family.items() if other != name))
        own, only = by_family[name], by_family[name] - others
        means = {one: _score(metric, whole, one) for one in chunker if family(one) == name}
        best = max(means, key=means.get)
        kept = lambda query, only=only: tuple(
            item for item in query.evidence if (query.query_id, item.span) not in only
        )
        fewer = [replace(query, evidence=kept(query)) for query in queries]
        without = _score(metric, rankings(labels, hits, fewer, {best: chunker[best]}), best)
        rows.append((name, best, len(own), len(only), means[best], without))
    return pd.DataFrame(rows, columns=["family", "system", "labels", "only_here", "score", "without"])


def _score(metric: str, found: Rankings, system: str) -> float:
    values = (metrics.measure(one.graded, metric) for (name, _), one in found.items() if name == system)
    return _mean(value for value in values if value is not None)


def _contributed(late: set, hits: dict, chunker: dict[str, str], cut: int) -> dict[str, set]:
    """family -> labels that some hit among the first `cut` of one of its systems holds."""
    by_query, found = defaultdict(list), {family(name): set() for name in chunker}
    for query, span in late:
        by_query[query].append(span)
    for (system, query), ranked in hits.items():
        for span in by_query.get(query, ()):
            if system in chunker and any(hit.span.contains(span) for hit in ranked[:cut]):
                found[family(system)].add((query, span))
    return found


def label_table(queries: Sequence[Query], judgements: Sequence[Judgement]):
    """Labels by where they came from: source, evidence (pieces), refused (hits that hold no answer), questions, by."""
    import pandas as pd

    rows = []
    for source, words in SOURCES.items():
        items = [query.query_id for query in queries for item in query.evidence if item.source == source]
        own = [one for one in judgements if one.source == source]
        refused = [one for one in own if not one.grade]
        who = ", ".join(sorted({one.by for one in own}))
        rows.append((source, words, len(items), len(refused), len({*items, *(one.query_id for one in refused)}), who))
    return pd.DataFrame(rows, columns=["source", "meaning", "evidence", "refused", "questions", "by"])
