"""Ranking metrics. A metric sees the gains of one ranking and an ideal, nothing else, and gives one number or none.

Names are trec_eval's where it has one; the cut is part of the name (`ndcg@10`). Ranks count from 1, a unit with gain above
0 is relevant, ties were settled before (see `grading`). Discount log2(rank + 1), gain linear in the grade (Järvelin and
Kekäläinen 2002); `ndcg_exp` takes 2^grade - 1 (Burges et al. 2005).
"""

from __future__ import annotations

import difflib
import math
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache

from localeval.records import BadInput, Graded, ScoringRule

Metric = Callable[[Graded, int | None], float]
INFAP_EPSILON = 0.00001  # trec_eval's
IDEALS = 1 << 14  # queries whose ideal is kept: every system and metric asks for the same ones


def relevant_ranks(graded: Graded, cut: int | None) -> list[int]:
    """Ranks of relevant units down to the cut."""
    last = cut or sys.maxsize
    return [rank for rank, gain in graded.gains if gain > 0 and rank <= last]


def _all_relevant(graded: Graded) -> int:
    return _relevant(graded.ideal)


@lru_cache(IDEALS)
def _relevant(ideal: tuple[float, ...]) -> int:
    return sum(gain > 0 for gain in ideal)


_LOG2 = [
    math.log2(rank + 1) for rank in range(4096)
]  # looking a discount up takes a third of the time of working it out


def dcg(gains: Iterable[tuple[int, float]], cut: int | None) -> float:
    """Discounted sum of the gains above 0 down to the cut. gains: (rank, gain)."""
    gains, last = tuple(gains), cut or sys.maxsize
    try:
        return math.fsum([gain / _LOG2[rank] for rank, gain in gains if gain > 0 and rank <= last])
    except (IndexError, TypeError):  # deeper than the table, or no whole rank, which a check names
        return math.fsum([gain / math.log2(rank + 1) for rank, gain in gains if gain > 0 and rank <= last])


@lru_cache(IDEALS)
def _best_dcg(ideal: tuple[float, ...], cut: int | None) -> float:
    return dcg(enumerate(sorted(ideal, reverse=True), 1), cut)


def _ndcg(gains, ideal, cut) -> float:
    best = _best_dcg(tuple(ideal), cut)
    return dcg(gains, cut) / best if best else 0.0


def ndcg(graded: Graded, cut: int | None = None) -> float:
    """Discounted gain of the ranking over that of the best ranking of all relevant units, both cut at the same rank."""
    return _ndcg(graded.gains, graded.ideal, cut)


def ndcg_exp(graded: Graded, cut: int | None = None) -> float:
    """As `ndcg`, with gain 2^grade - 1."""
    return _ndcg([(rank, 2**gain - 1) for rank, gain in graded.gains], [2**gain - 1 for gain in graded.ideal], cut)


def rr(graded: Graded, cut: int | None = None) -> float:
    """Reciprocal rank of the first relevant unit; 0 when none stands above the cut. Its mean is called mrr."""
    first = next((rank for rank, gain in graded.gains if gain > 0), None)
    return 1 / first if first and first <= (cut or first) else 0.0


def p(graded: Graded, cut: int | None = None) -> float:
    """Precision: relevant units above the cut, over the cut (not over the number returned)."""
    return len(relevant_ranks(graded, cut)) / (cut or graded.ranked or 1)


def recall(graded: Graded, cut: int | None = None) -> float:
    """Relevant units above the cut, over all relevant units. Cannot reach 1 when there are more of them than the cut."""
    return len(relevant_ranks(graded, cut)) / (_all_relevant(graded) or 1)


def success(graded: Graded, cut: int | None = None) -> float:
    """1 when at least one relevant unit stands above the cut, else 0."""
    return float(bool(relevant_ranks(graded, cut)))


def ap(graded: Graded, cut: int | None = None) -> float:
    """Average precision: mean over all relevant units of the precision at their rank. Its mean is called map."""
    ranks = relevant_ranks(graded, cut)
    return math.fsum([seen / rank for seen, rank in enumerate(ranks, 1)]) / (_all_relevant(graded) or 1)


def r_prec(graded: Graded, cut: int | None = None) -> float:
    """R-precision: relevant units among the first R, over R, the number of all relevant units. R is its cut; it takes no other."""
    total = _all_relevant(graded)
    return len(relevant_ranks(graded, total)) / total if total else 0.0


def bpref(graded: Graded, cut: int | None = None) -> float:
    """Binary preference (Buckley and Voorhees 2004, as trec_eval computes it): how seldom units judged not relevant come first.

    Each relevant unit loses the judged non-relevant ones above it, at most R, over the smaller of R and their number in the
    collection. Reads gains of 0, in `gains` and in `ideal`; units nobody judged do not matter. It takes no cut.
    """
    relevant = _all_relevant(graded)
    refused = max(len(graded.ideal) - relevant, sum(gain == 0 for _, gain in graded.gains))
    above, kept = 0, []
    for _, gain in graded.gains:
        if gain > 0:
            kept.append(1 - min(above, relevant) / min(refused, relevant) if above else 1.0)
        elif gain == 0:
            above += 1
    return math.fsum(kept) / relevant if relevant else 0.0


def judged(graded: Graded, cut: int | None = None) -> float:
    """Units above the cut that somebody judged, over those returned above it (not over the cut); 0 when none was returned.

    Not a quality: how far the others can be believed. A study's gains name evidence only, so there it is the share of evidence.
    """
    shown = min(cut or graded.ranked, graded.ranked)
    known = sum(gain >= 0 and (cut is None or rank <= cut) for rank, gain in graded.gains)
    return known / shown if shown else 0.0


def infap(graded: Graded, cut: int | None = None) -> float:
    """Inferred average precision (Yilmaz and Aslam 2006, as trec_eval computes it), for a pool of which a random part was judged.

    The precision above each relevant unit is inferred: the share of units there that were in the pool (a gain below 0 stands for
    one that nobody judged), times the share of relevant ones among the judged. Where nothing of the pool was left out it is `ap`
    but for the smoothing. It takes no cut. Its mean is only unbiased where what to judge was drawn by chance.
    """
    relevant, total, seen = _all_relevant(graded), [], {"relevant": 0, "refused": 0, "open": 0}
    for rank, gain in graded.gains:
        if gain > 0:
            judged_above = seen["relevant"] + seen["refused"]
            share = (seen["relevant"] + INFAP_EPSILON) / (judged_above + 2 * INFAP_EPSILON)
            total.append((1 + (judged_above + seen["open"]) * share) / rank)
        seen["relevant" if gain > 0 else "refused" if gain == 0 else "open"] += 1
    return math.fsum(total) / relevant if relevant else 0.0


def condensed(graded: Graded) -> Graded:
    """The same ranking without the units that nobody judged, ranks closed up (Sakai 2007). What judgements say nothing of is gone."""
    known = [(rank, gain) for rank, gain in graded.gains if gain >= 0]
    place = {rank: number for number, (rank, _) in enumerate(known, 1)}
    covers = tuple((place[rank], indexes) for rank, indexes in graded.covers if rank in place)
    return replace(graded, gains=tuple((place[rank], gain) for rank, gain in known), covers=covers, ranked=len(known))


def _of_condensed(metric: Metric) -> Metric:
    return lambda graded, cut=None: metric(condensed(graded), cut)


def evidence_recall(graded: Graded, cut: int | None = None) -> float:
    """Pieces of evidence covered above the cut, each once, over all pieces the rule can judge."""
    found = sum(len(indexes) for rank, indexes in graded.covers if cut is None or rank <= cut)
    return found / len(graded.evidence) if graded.evidence else 0.0


def evidence_ndcg(graded: Graded, cut: int | None = None) -> float:
    """As `ndcg` over pieces of evidence, each rewarded once; the ideal depends on the evidence only, not on the chunker.

    Pieces found by one unit are read one after another: each takes the rank of its unit or the next free place, whichever
    is later. A unit that holds all three pieces at rank 1 is therefore perfect, and nothing beats the ideal.
    """
    places, last = [], 0
    for rank, indexes in graded.covers:
        if cut is not None and rank > cut:
            break
        for grade in sorted((graded.evidence[index] for index in indexes), reverse=True):
            last = max(rank, last + 1)
            places.append((last, grade))
    return _ndcg(places, graded.evidence, cut)


METRICS: dict[str, Metric] = {
    "ndcg": ndcg,
    "ndcg_exp": ndcg_exp,
    "rr": rr,
    "p": p,
    "recall": recall,
    "success": success,
    "ap": ap,
    "map": ap,
    "r_prec": r_prec,
    "bpref": bpref,
    "judged": judged,
    "evidence_recall": evidence_recall,
    "evidence_ndcg": evidence_ndcg,
    "infap": infap,
    "condensed_ndcg": _of_condensed(ndcg),
    "condensed_ndcg_exp": _of_condensed(ndcg_exp),
    "condensed_rr": _of_condensed(rr),
    "condensed_recall": _of_condensed(recall),
}
BINARY = {"success"}
UNCUT = {"r_prec", "bpref", "infap"}
ELSEWHERE = {  # what other tools call them
    "recip_rank": "rr", "mrr": "rr", "rprec": "r_prec", "r": "recall", "precision": "p", "hit_rate": "success", "hits": "success",
}  # fmt: skip


@lru_cache
def parse(name: str) -> tuple[Metric, int | None]:
    """`"ndcg@10"` -> its function and its cut. Errors name what is known, and the nearest."""
    match = re.fullmatch(r"([a-z_]+)(?:@([1-9]\d*))?", name)
    if not match or match[1] not in METRICS:
        near = _nearest(name)
        raise BadInput(
            f"unknown metric {name!r}{f' (did you mean {near!r}?)' if near else ''}; "
            f"known: {', '.join(METRICS)}, each with or without a cut, as in ndcg@10"
        )
    if match[1] in UNCUT and match[2]:
        raise BadInput(f"{name}: {match[1]} reads the whole ranking and takes no cut; write {match[1]}")
    return METRICS[match[1]], int(match[2]) if match[2] else None


def known(names: Iterable[str]) -> list[str]:
    """The names, each once and in order; an unknown one is bad input."""
    names = list(dict.fromkeys(names))
    for name in names:
        parse(name)
    return names


def _nearest(name: str) -> str:
    """The known name that was probably meant, also in the spelling of other tools (`ndcg_cut_10`); empty when none is near."""
    match = re.fullmatch(r"(.*?)(?:(?:_cut)?[_@]([1-9]\d*))?", name.lower().strip())
    base = ELSEWHERE.get(match[1], match[1])
    near = difflib.get_close_matches(base, METRICS, 1)
    return near[0] + (f"@{match[2]}" if match[2] and near[0] not in UNCUT else "") if near else ""


def is_binary(name: str) -> bool:
    """True for metrics that are 0 or 1 for every query: their degenerate intervals are Wilson's."""
    return name.partition("@")[0] in BINARY or name == "p@1"


def measure(graded: Graded, name: str) -> float | None:
    """One metric of one query. Unreachable is 0 (named, counted, and left out of the second mean); no value where the state
    is unanswerable or not applicable."""
    if graded.status in ("unanswerable", "not_applicable"):
        return None
    function, cut = parse(name)
    return 0.0 if graded.status == "unreachable" else function(graded, cut)


def scores_of(graded: dict[tuple[str, str], list[Graded]], names: Iterable[str]):
    """`(system, rule)` -> graded queries, as the tidy table `scores.csv`; queries without a value have no row.

    Columns: system, rule, metric, query_id, value, status, origin.
    """
    import pandas as pd

    rows = [
        (system, rule, name, one.query_id, value, one.status, one.origin)
        for (system, rule), some in graded.items()
        for name in names
        for one in some
        if (value := measure(one, name)) is not None
    ]
    return pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])


# What each name asks, and what is computed; which units count is the rule's part.
ASKS = {
    "p": ("How much of the top is evidence?", "units that count above the cut, over the cut"),
    "success": ("Is any evidence near the top?", "1 if at least one unit above the cut counts, else 0"),
    "rr": ("How high is the first piece of evidence?", "1 / rank of the first unit that counts; 0 when none does"),
    "recall": (
        "How much of the evidence was found?",
        "units that count above the cut, over all such units of the corpus",
    ),
    "ndcg": (
        "Is the evidence near the top, best first?",
        "grade / log2(rank + 1) summed over units that count, over the same sum for the best order of all of them",
    ),
    "evidence_recall": (
        "How much of the evidence was found?",
        "pieces of evidence covered by some unit above the cut, each once, over all pieces",
    ),
    "evidence_ndcg": (
        "Is each piece of evidence near the top?",
        "as ndcg over pieces of evidence, each rewarded once; the ideal does not depend on the chunker",
    ),
    "ap": (
        "How precise is the ranking at each piece of evidence?",
        "precision at the rank of every unit that counts, averaged over all of them, found or not",
    ),
    "map": ("How precise is the ranking at each piece of evidence?", "ap, under the name of its mean"),
    "r_prec": (
        "How precise is the ranking where it could first be complete?",
        "units that count among the first R, over R, the number of all such units",
    ),
    "bpref": (
        "Do relevant units come before those judged not relevant?",
        "1 minus the share of judged non-relevant units above, averaged over all units that count; unjudged ones are skipped",
    ),
    "judged": (
        "How much of the top did anybody judge?",
        "judged units above the cut, over units returned above it; how far other metrics can be believed",
    ),
    "ndcg_exp": ("Is the evidence near the top, best first?", "as ndcg with 2^grade - 1"),
    "infap": (
        "What would average precision be if the whole pool were judged?",
        "ap with the precision above each relevant unit inferred from the judged part of the pool; right where that part is random",
    ),
    "condensed_ndcg": ("Are judged units in the right order?", "ndcg of the ranking without what nobody judged"),
    "condensed_ndcg_exp": ("Are judged units in the right order?", "condensed_ndcg with 2^grade - 1"),
    "condensed_rr": (
        "How many units judged not relevant come first?",
        "rr of the ranking without what nobody judged",
    ),
    "condensed_recall": (
        "How much was found before units judged not relevant crowd it out?",
        "recall of the ranking without what nobody judged",
    ),
}
JUDGED = "judged@10"  # a column beside scores: the share of the first ten units that somebody judged
COUNTS = {
    "contains": "holds at least one whole piece of evidence",
    "overlaps": "shares text with at least one piece of evidence",
    "same_document": "comes from the right document, whatever it says",
}


def asks_table(names: Iterable[str]):
    """The table every method section shows: metric, what its name asks, what is computed here."""
    import pandas as pd

    rows = [(name, *ASKS[name.partition("@")[0]]) for name in names]
    return pd.DataFrame(rows, columns=["metric", "what its name asks", "what is computed here"])


def rules_table(rules: Iterable[str]):
    """Beside `asks_table`: what every rule ranks, and when a unit counts."""
    import pandas as pd

    parsed = [ScoringRule.parse(rule) for rule in rules]
    rows = [(str(rule), rule.unit, f"it {COUNTS[rule.match]}") for rule in parsed]
    return pd.DataFrame(rows, columns=["rule", "ranked unit", "a unit counts when"])
