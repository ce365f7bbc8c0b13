"""Questions that share a document are alike: what that costs, and whether more questions or more documents would help.

A cluster is drawn whole or not at all. What is seen here are paired differences and a cluster for each question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from localeval import stats
from localeval.records import Query

FEWEST_CLUSTERS = (
    6  # with fewer, no flip of whole clusters can reach p = 0.05, and resampled ones pretend to a certainty
)
FEW_CLUSTERS = 20  # below it an interval from resampled clusters tends to be too narrow

RULE = (
    "A question belongs to the document that holds most of its pieces of evidence; where two hold as many, to the one that its gold "
    "names first."
)


def by_document(queries: Iterable[Query]) -> dict[str, str]:
    """query_id -> the document of its evidence, by RULE; a query without evidence has none."""
    found = {}
    for query in queries:
        documents = Counter(one.span.doc_id for one in query.evidence)  # of equal counts the first named stays first
        if documents:
            found[query.query_id] = documents.most_common(1)[0][0]
    return found


def across(queries: Iterable[Query]) -> int:
    """How many queries have evidence in several documents, so that RULE had to choose."""
    return sum(len({one.span.doc_id for one in query.evidence}) > 1 for query in queries)


@dataclass(frozen=True, slots=True)
class Clustered:
    """A comparison with whole clusters drawn. low, high, p_value: of the clusters. design_effect: the variance of the mean over
    what it were if questions were independent; n_effective: n over it, and never above n: an effect below 1 is mostly chance.
    within, between: the share of that variance that more questions in the same clusters would take away, and the share that
    only more clusters would."""

    n: int
    clusters: int
    delta: float
    low: float
    high: float
    p_value: float
    design_effect: float
    n_effective: float
    within: float
    between: float
    advice: str


def clustered(
    differences: np.ndarray, groups: Sequence[str], *, seed: int = stats.SEED, n_resamples: int = stats.N_RESAMPLES
) -> Clustered:
    """Paired differences with a cluster each: interval by drawing clusters, p by flipping the signs of whole clusters.

    Below FEWEST_CLUSTERS interval and design effect are not defined (NaN), and with one cluster p is not either.
    """
    d, numbers = np.asarray(differences, dtype=float), stats.group_numbers(groups)
    n, count = len(d), len(set(groups))
    low, high, effect, shares = np.nan, np.nan, np.nan, (np.nan, np.nan)
    p = stats.sign_flip(stats.group_sums(d, numbers), seed=seed, n_resamples=n_resamples) if count > 1 else np.nan
    if count >= FEWEST_CLUSTERS and np.ptp(d) > stats.TIE:
        low, high = stats.bounds(stats.resampled_means(d[:, None], seed, n_resamples, numbers))[0]
        effect, shares = design_effect(d, numbers), components(d, numbers)
    effective = float(n / np.maximum(1.0, effect))
    words = advice(*shares, count)
    return Clustered(n, count, float(d.mean()), float(low), float(high), float(p), effect, effective, *shares, words)


def design_effect(differences: np.ndarray, groups: np.ndarray) -> float:
    """Variance of the mean from cluster sums (Liang and Zeger 1986, with G / (G - 1)) over s^2 / n; 1 where questions are independent.

    Below 1 where questions of one cluster differ more than others do. NaN with one cluster, or without variation.
    """
    n, count = len(differences), groups.max(initial=-1) + 1
    if count < 2 or np.ptp(differences) <= stats.TIE:
        return float("nan")
    residuals = stats.group_sums(differences - differences.mean(), groups)
    return float(count / (count - 1) * (residuals**2).sum() / n**2 / (differences.var(ddof=1) / n))


def widened(sd: float, effect: float) -> float:
    """The spread that independent questions would need to leave as much doubt: sd times the root of the design effect, and never less
    than sd, for an effect below 1 is mostly chance. What is planned with it counts shared documents. NaN where the effect is not known.

    >>> widened(0.4, 4.0), widened(0.4, 0.5)
    (0.8, 0.4)
    """
    return sd * float(np.sqrt(np.maximum(1.0, effect)))


def components(differences: np.ndarray, groups: np.ndarray) -> tuple[float, float]:
    """Shares of the variance of the mean: within clusters, and between them. They sum to 1; NaN where they cannot be told apart.

    Method of moments for clusters of unequal size (Searle, Casella and McCulloch 1992, chapter 3); a negative component is 0.
    """
    sizes = np.bincount(groups) if len(groups) else np.zeros(0)
    n, count = len(differences), len(sizes)
    if count < 2 or n <= count or np.ptp(differences) <= stats.TIE:
        return float("nan"), float("nan")
    means = stats.group_sums(differences, groups) / sizes
    inside = ((differences - means[groups]) ** 2).sum() / (n - count)
    outside = (sizes * (means - differences.mean()) ** 2).sum() / (count - 1)
    between = max(0.0, (outside - inside) / ((n - (sizes**2).sum() / n) / (count - 1)))
    parts = inside / n, between * (sizes**2).sum() / n**2
    total = sum(parts)
    return (float(parts[0] / total), float(parts[1] / total)) if total > 0 else (float("nan"), float("nan"))


ADVICE = {
    "more questions": "questions of one document are no more alike than others, so each new one counts, about these documents or new ones",
    "both": "more questions about these documents take away the larger part of the doubt, more documents the rest",
    "more documents": "most of the doubt is about documents, and more questions about these would help little",
    "documents are missing": "there are too few documents to say anything of others",
    "cannot tell": "questions and documents cannot be told apart",
}


def advice(within: float, between: float, count: int) -> str:
    """Whether more questions or more documents would narrow the interval: one of ADVICE. within, between: shares of `components`."""
    if count < FEWEST_CLUSTERS:
        return "documents are missing"
    if np.isnan(within):
        return "cannot tell"
    return "more questions" if between <= 0.1 else "more documents" if between >= 0.5 else "both"


CLUSTERED = ("number", "baseline", "candidate", "metric", "rule", "origin", *Clustered.__dataclass_fields__)


def compare_designated(
    scores: pd.DataFrame,
    designated: pd.DataFrame,
    clusters: dict[str, str],
    *,
    seed: int = stats.SEED,
    n_resamples: int = stats.N_RESAMPLES,
) -> pd.DataFrame:
    """The designated comparisons that ran, with whole clusters resampled. clusters: query_id -> cluster. Columns: CLUSTERED.

    designated: of `stats.compare_designated`; number: its row, from 1. Questions without a cluster are left out.
    """
    rows, known = [], scores[scores["query_id"].isin(list(clusters))]
    numbered = designated.assign(number=range(1, len(designated) + 1))
    for about in numbered[numbered["n"] > 0].to_dict("records"):
        differences, queries, reason = stats.named_differences(known, about)
        if not reason:
            got = clustered(differences, [clusters[query] for query in queries], seed=seed, n_resamples=n_resamples)
            values = {name: getattr(got, name) for name in Clustered.__dataclass_fields__}
            rows.append({name: about[name] for name in CLUSTERED[:6]} | values)
    return pd.DataFrame(rows, columns=list(CLUSTERED))
