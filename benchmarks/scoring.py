"""Six metrics of 60 runs of 300 rankings of 100: ours from sparse gains, pytrec_eval from its dictionaries. Same values, checked first.

Two collections: three relevant units a question, as evidence is, and a third of everything returned.
"""

from __future__ import annotations

import math

import numpy as np
import pytrec_eval
from sidebyside import about, compare

from localeval.metrics import measure
from localeval.records import Graded

RUNS, QUERIES, DEPTH = 60, 300, 100
OURS = ("ndcg@10", "ndcg", "rr", "p@10", "recall@100", "ap")
THEIRS = ("ndcg_cut_10", "ndcg", "recip_rank", "P_10", "recall_100", "map")
WANTED = {"ndcg_cut.10", "ndcg", "recip_rank", "P.10", "recall.100", "map"}


def collection(relevant: int, seed: int = 0) -> np.ndarray:
    """(queries, depth) grades of 0, 1 and 2; `relevant` units a query have one above 0."""
    rng = np.random.default_rng(seed)
    grades = np.zeros((QUERIES, DEPTH), int)
    grades[:, :relevant] = rng.integers(1, 3, (QUERIES, relevant))
    return grades


def graded(grades: np.ndarray, order: np.ndarray) -> list[Graded]:
    """What grading makes of one run: its relevant units by rank. order: (queries, depth) the units from the first rank on."""
    found = []
    for query, (row, places) in enumerate(zip(grades, order, strict=True)):
        gains = tuple((rank, float(gain)) for rank, gain in enumerate(row[places].tolist(), 1) if gain)
        ideal = tuple(sorted(map(float, row[row > 0]), reverse=True))
        found.append(Graded(str(query), "scored", gains, ideal=ideal, ranked=DEPTH))
    return found


def beside(relevant: int) -> None:
    """Both scorers over the same runs."""
    grades, rng = collection(relevant), np.random.default_rng(1)
    orders = [rng.permuted(np.tile(np.arange(DEPTH), (QUERIES, 1)), axis=1) for _ in range(RUNS)]
    mine = [graded(grades, order) for order in orders]
    qrels = {str(q): {f"d{i}": g for i, g in enumerate(row)} for q, row in enumerate(grades.tolist())}
    runs = [
        {str(q): {f"d{i}": float(DEPTH - rank) for rank, i in enumerate(row)} for q, row in enumerate(order.tolist())}
        for order in orders
    ]
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, WANTED)
    for one, query in ((one, one.query_id) for one in mine[0]):
        theirs = evaluator.evaluate({query: runs[0][query]})[query]
        for name, other in zip(OURS, THEIRS, strict=True):
            assert math.isclose(measure(one, name), theirs[other], abs_tol=1e-9), (query, name)
    print(f"{RUNS} runs, {QUERIES} questions, {DEPTH} units each, {relevant} of them relevant")
    compare(
        lambda: [[measure(one, name) for name in OURS] for run in mine for one in run],
        lambda: [evaluator.evaluate(run) for run in runs],
        ("localeval", "pytrec_eval"),
        rounds=5,
    )


if __name__ == "__main__":
    about()
    for count in (3, 33):
        beside(count)
