"""Published figures that the engines must reach; public data comes through LOCALEVAL_DATA and is not part of the project."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

DATA = os.environ.get("LOCALEVAL_DATA", "")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="LOCALEVAL_DATA is not set: public collections are not here")
def test_bm25_on_scifact():
    """Lucene idf, k1 1.5, b 0.75, `[a-z0-9]+`, no stop words: nDCG@10 0.6644."""
    import scifact

    from localeval.lexical import BM25
    from localeval.tokens import ascii_words

    spans, texts, queries = scifact.read(Path(DATA) / "scifact")
    assert (len(spans), len(queries)) == (5183, 300)
    hits, _ = scifact.ask(BM25(spans, texts, ascii_words), queries)
    values = scifact.ndcg(hits, queries, spans)
    assert sum(values.values()) / len(values) == pytest.approx(0.6644, abs=5e-5)
