"""Scorers for `retrieval.Reranked`: they look at a query and its candidates again, more closely and at a price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from localeval.embedding import ModelCard, offline, verify
from localeval.records import BadInput, Span
from localeval.retrieval import once
from localeval.vectors import Stored


class MaxSim:
    """Late interaction: mean over query tokens of the best cosine with any passage token (Khattab and Zaharia 2020).

    It uses the token vectors of an embedding model as they are. passages: their vectors, in the order of `spans`; encode: query text
    -> (query tokens, d).
    """

    def __init__(self, spans: Sequence[Span], passages: Stored, encode: Callable[[str], np.ndarray]):
        self._place = {span: i for i, span in enumerate(spans)}
        self._passages, self._encode = passages, encode

    def __call__(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        """(n,) scores between -1 and 1. A passage without tokens scores -1."""
        tokens = np.asarray(self._encode(query), dtype=np.float32)
        score = lambda span: self._score(tokens, self._passages.of(self._place[span]))
        return np.array([once((id(self), query, span), lambda span=span: score(span)) for span in spans])

    @staticmethod
    def _score(query: np.ndarray, passage: np.ndarray) -> float:
        if not len(query) or not len(passage):
            return -1.0
        return float((query @ passage.T).max(axis=1).mean())


class CrossEncoder:
    """A sentence-transformers cross-encoder from a folder: reads query and passage together.

    Scores are the model's own logits: ranking on a squashed score would tie good candidates. text: the text of a span.
    """

    def __init__(self, card: ModelCard, folder: Path, text: Callable[[Span], str], threads: int = 1):
        offline()
        try:
            import torch
            from sentence_transformers import CrossEncoder as Model
        except ImportError as error:
            raise BadInput(f"model {card.name} needs {error.name}: pip install -r requirements.txt") from None
        torch.set_num_threads(threads)
        verify(card, folder)
        self._model = Model(
            str(folder), device="cpu", max_length=card.max_tokens, local_files_only=True, trust_remote_code=False,
            activation_fn=torch.nn.Identity(),
        )  # fmt: skip
        self._text = text

    def __call__(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        pairs = [(query, self._text(span)) for span in spans]
        return np.asarray(self._model.predict(pairs, batch_size=8, show_progress_bar=False), dtype=np.float64).reshape(
            -1
        )
