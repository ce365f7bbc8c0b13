"""What a cross-encoder of a given shape would cost on this machine, before its weights are here. Cost only: weights are random.

A model of the shape is made with weights from a seed; the pairs are the study's own questions and candidates in the tokens of a
real vocabulary, so that lengths are real. Its scores mean nothing and are never graded.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from localeval.crossencoder import OnnxCrossEncoder
from localeval.embedding import ModelCard, needed, offline
from localeval.records import BadInput, Span

LABEL = "COST ONLY: random weights"
PLAIN = "sentence-transformers, plain call"
ARMS = (PLAIN, "ONNX Runtime, fp32", "ONNX Runtime, int8")


@dataclass(frozen=True, slots=True)
class Shape:
    """A BERT's layers, hidden size, attention heads, feed-forward size, and the tokens it reads."""

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    max_tokens: int

    def __post_init__(self):
        if not all(isinstance(size, int) and size >= 1 for size in astuple(self)):
            raise BadInput(
                f"shape {list(astuple(self))}: give five whole numbers from 1 on: layers, hidden, heads, feed-forward, tokens"
            )
        if self.hidden % self.heads:
            raise BadInput(
                f"shape {list(astuple(self))}: {self.hidden} hidden units cannot be shared among {self.heads} heads"
            )


def shapes(named: dict[str, Sequence[int]]) -> dict[str, Shape]:
    """Shapes of parameters. named: name -> [layers, hidden, heads, feed-forward, tokens]."""
    for name, sizes in named.items():
        if not isinstance(sizes, list | tuple) or len(sizes) != 5:
            raise BadInput(f"shape {name!r}: give [layers, hidden, heads, feed-forward, tokens]; found {sizes!r}")
    return {name: Shape(*sizes) for name, sizes in named.items()}


def random_model(shape: Shape, vocabulary: Path, cache: Path, seed: int = 0) -> tuple[ModelCard, Path]:
    """Card and folder of a cross-encoder of the shape with random weights, made once.

    vocabulary: folder of a model whose `tokenizer.json` cuts the text; rows of a look-up table cost nothing to skip, so that
    its size hardly matters to the clock.
    """
    tokenizer = needed(vocabulary, "tokenizer.json").read_bytes()
    mark = hashlib.sha256(json.dumps([*astuple(shape), seed]).encode() + tokenizer).hexdigest()[:12]
    card = ModelCard(f"random-{mark}", "cross_encoder", LABEL, shape.max_tokens, "none", "random")
    folder = cache / "preview" / card.name
    if not (folder / "done").is_file():
        _save(shape, tokenizer, folder, seed)
        (folder / "done").write_text(LABEL)
    return card, folder


def _save(shape: Shape, tokenizer: bytes, folder: Path, seed: int) -> None:
    offline()
    try:
        import torch
        from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
        from transformers.utils import logging
    except ImportError as error:
        raise BadInput(f"a cost preview needs {error.name}: pip install -r requirements.txt") from None
    logging.disable_progress_bar()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_bytes(tokenizer)
    names = {f"{kind}_token": f"[{kind.upper()}]" for kind in ("pad", "unk", "cls", "sep", "mask")}
    names |= {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    reader = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), model_max_length=shape.max_tokens, **names
    )
    reader.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(reader), num_hidden_layers=shape.layers, hidden_size=shape.hidden, num_attention_heads=shape.heads,
            intermediate_size=shape.feed_forward, max_position_embeddings=shape.max_tokens, num_labels=1,
            initializer_range=2 / shape.hidden**0.5,  # so wide that scores of real passages differ
        )  # fmt: skip
        BertForSequenceClassification(config).eval().save_pretrained(folder)


def plain_call(folder: Path) -> Callable[[str, Sequence[str]], np.ndarray]:
    """Scores by sentence-transformers as its first example calls it: all defaults, pairs in one list."""
    offline()
    from sentence_transformers import CrossEncoder
    from transformers.utils import logging

    logging.disable_progress_bar()
    model = CrossEncoder(str(folder), device="cpu", local_files_only=True, trust_remote_code=False)
    return lambda query, passages: model.predict([(query, text) for text in passages], show_progress_bar=False)


def arms(
    card: ModelCard, folder: Path, cache: Path, threads: int = 1
) -> dict[str, Callable[[str, Sequence[str]], object]]:
    """The ways to run one model, by name: (query, passages) -> scores."""
    unused: Callable[[Span], str] = lambda span: ""
    fast = {bits: OnnxCrossEncoder(card, folder, unused, cache, threads, bits).logits for bits in (32, 8)}
    return dict(zip(ARMS, (plain_call(folder), fast[32], fast[8]), strict=True))


COST = [
    "shape",
    "run by",
    "candidates",
    "mean_ms",
    "fastest_ms",
    "slowest_ms",
    "per_candidate_ms",
    "questions",
    "weights",
]


def measure(
    named: dict[str, Shape], pairs: Sequence[tuple[str, Sequence[str]]], vocabulary: Path, cache: Path, *, threads: int = 1,
    clock: Callable[[], float] = time.perf_counter, progress=lambda text: None,
) -> pd.DataFrame:  # fmt: skip
    """Milliseconds that each shape takes for the candidates of a question, every way of running it beside the others.

    pairs: a question and its candidates' texts; the first is asked once more before the clock counts. Ways take turns, so that
    all see the same load. Columns: COST; `weights` says in every row that nothing but the cost was measured.
    """
    rows = []
    for name, shape in named.items():
        progress(f"cost preview: {name}")
        ways = arms(*random_model(shape, vocabulary, cache), cache, threads)
        laps: dict[str, list[float]] = {way: [] for way in ways}
        for turn, (query, passages) in enumerate([*pairs[:1], *pairs]):
            for way, score in ways.items():
                start = clock()
                score(query, passages)
                laps[way] += [1000 * (clock() - start)] * (turn > 0)
        candidates = np.mean([len(passages) for _, passages in pairs])
        for way, ms in laps.items():
            spent = (np.mean(ms), min(ms), max(ms), np.mean(ms) / candidates)
            rows.append((name, way, candidates, *spent, len(pairs), LABEL))
    return pd.DataFrame(rows, columns=COST)
