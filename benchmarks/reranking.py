"""Reranking twenty candidates on one model, the plain call beside ours, both on all cores: `python benchmarks/reranking.py [INT8]`.

The model has the shape of MiniLM-L-6 at 512 tokens and random weights from a seed: this is cost, and whether the order of the
candidates stays what the plain call makes it. Any argument adds the eight-bit arm, whose order on trained weights no random
weights can tell. Late interaction on stored vectors of the same passages stands beside them.
"""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path

import numpy as np
from sidebyside import about, compare

from localeval import embedding, preview
from localeval.onnxmodel import OnnxEmbedder
from localeval.records import Span
from localeval.rerank import MaxSim
from localeval.vectors import Stored

SHAPE = preview.Shape(6, 384, 12, 1536, 512)
CANDIDATES = 20
WORDS = re.findall(
    r"\w+",
    "well water pump latrine depth rock soil casing apron valve seal filter chlorine tank pipe spring flood guard slope drain test "
    "sample cloth sand gravel clay bucket rope winch cover wall metre litre season village",
)


def passages(seed: int = 1) -> list[str]:
    """Twenty passages of about 250 to 520 tokens, no two alike."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(240, 500))) for _ in range(CANDIDATES)]


def order(scores) -> list[int]:
    """Candidates, best first, by scores at the six decimals that ranking rounds to."""
    return np.argsort(-np.round(np.asarray(scores, dtype=np.float64), 6), kind="stable").tolist()


def late(card, folder: Path, cache: Path, texts: list[str]):
    """Late interaction over stored token vectors of the passages; the question's are computed each time."""
    embedder = OnnxEmbedder(card, folder, cache)
    vectors = embedder.encode_tokens(texts)
    ends = np.cumsum([len(rows) for rows in vectors])
    spans = [Span(f"{place:02d}", 0, 1) for place in range(len(texts))]
    stored = Stored(np.concatenate(vectors), np.concatenate([[0], ends[:-1]]), ends, 0.0)
    scorer = MaxSim(spans, stored, lambda query: embedder.query(query)[1])
    return lambda query: scorer(query, spans)


def main() -> None:
    cache, query, texts = Path("runs/.cache"), "How far from a latrine must a new well be drilled?", passages()
    card = embedding.card_of("minilm")
    folder = embedding.locate(card)
    if folder is None:
        sys.exit(card.how_to_get)
    about()
    ways = preview.arms(*preview.random_model(SHAPE, folder, cache), cache, threads=os.cpu_count() or 1)
    plain, fast, eight = (ways[name] for name in preview.ARMS)
    squashed, logits = plain(query, texts), np.asarray(fast(query, texts))
    same = order(np.log(squashed / (1 - squashed))) == order(logits)
    print(f"{preview.LABEL}; {CANDIDATES} candidates, same order: {same}")
    compare(lambda: fast(query, texts), lambda: plain(query, texts), ("ONNX Runtime fp32", preview.PLAIN), rounds=5)
    if len(sys.argv) > 1:
        compare(
            lambda: eight(query, texts), lambda: plain(query, texts), ("ONNX Runtime int8", preview.PLAIN), rounds=5
        )
    maxsim = late(card, folder, cache, texts)
    compare(lambda: maxsim(query), lambda: plain(query, texts), ("late interaction, stored", preview.PLAIN), rounds=5)


if __name__ == "__main__":
    main()
