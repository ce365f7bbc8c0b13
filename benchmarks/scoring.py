"""Six metrics of 300 rankings of 100: ours from sparse gains, pytrec_eval from its dictionaries. Same values, checked first."""

from __future__ import annotations

import math

import numpy as np
import pytrec_eval
from sidebyside import about, compare

from localeval.metrics import measure
from localeval.records import Graded

OURS = ("ndcg@10", "ndcg", "rr", "p@10", "recall@100", "ap")
THEIRS = ("ndcg_cut_10", "ndcg", "recip_rank", "P_10", "recall_100", "map")


def main(queries: int = 300, depth: int = 100) -> None:
    rng = np.random.default_rng(0)
    gains = rng.choice([0, 0, 0, 0, 1, 2], size=(queries, depth))
    graded = [
        Graded(
            str(q),
            "scored",
            tuple((r, float(g)) for r, g in enumerate(row, 1) if g),
            ideal=tuple(sorted(row[row > 0].astype(float))[::-1]),
            ranked=depth,
        )
        for q, row in enumerate(gains)
    ]
    qrels = {str(q): {f"d{i}": int(g) for i, g in enumerate(row)} for q, row in enumerate(gains)}
    run = {str(q): {f"d{i}": float(depth - i) for i in range(depth)} for q in range(queries)}
    evaluator = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg_cut.10", "ndcg", "recip_rank", "P.10", "recall.100", "map"}
    )
    ours = lambda: [[measure(one, name) for name in OURS] for one in graded]
    theirs = lambda: evaluator.evaluate(run)
    for one, values in zip(graded, ours(), strict=True):
        assert all(
            math.isclose(v, theirs_of[n], abs_tol=1e-9)
            for theirs_of in [theirs()[one.query_id]]
            for v, n in zip(values, THEIRS, strict=True)
        )
        break
    about()
    compare(ours, theirs, ("localeval", "pytrec_eval"))


if __name__ == "__main__":
    main()
