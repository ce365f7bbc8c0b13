"""Learned sparse retrieval: a masked language model says which words of its vocabulary a text is about, and how much.

SPLADE (Formal et al. 2021): weight of a word = the largest ln(1 + max(0, logit)) over the tokens of the text; score = inner product of
query and text. A text is found by words it does not hold, and the weights can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from localeval.embedding import ModelCard, files_digest, needed, offline, verify
from localeval.lexical import TermMatrix, rank_found
from localeval.records import BadInput, Hit, Span
from localeval.retrieval import in_span_order, phase
from localeval.vectors import Stored


class Splade:
    """A masked language model trained for SPLADE, from a folder in transformers format. Each text goes through it alone."""

    def __init__(self, card: ModelCard, folder: Path, threads: int = 1):
        offline()
        try:
            import torch
            from transformers import AutoModelForMaskedLM, AutoTokenizer
            from transformers.utils import logging
        except ImportError as error:
            raise BadInput(f"model {card.name} needs {error.name}: pip install -r requirements.txt") from None
        logging.disable_progress_bar()
        self.card, self._files = replace(card, sha256=verify(card, folder)), files_digest(folder)
        needed(folder, "tokenizer.json")
        torch.set_num_threads(threads)
        options = {"local_files_only": True, "trust_remote_code": False}
        self._tokenizer = AutoTokenizer.from_pretrained(str(folder), **options)
        self._model = AutoModelForMaskedLM.from_pretrained(str(folder), **options).eval()

    @property
    def settings(self) -> dict:
        """What cached weights depend on beside the text."""
        card = self.card
        return {
            "model": card.name,
            "sha256": card.sha256,
            "max_tokens": card.max_tokens,
            "encoder": "splade",
            "files": self._files,
        }

    def encode_sparse(self, texts: Sequence[str]) -> list[np.ndarray]:
        """For each text its words, (words, 2) float32: place in the vocabulary, and weight above 0."""
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> np.ndarray:
        import torch

        read = self._tokenizer(text, truncation=True, max_length=self.card.max_tokens, return_tensors="pt")
        with torch.no_grad():
            logits = self._model(**read).logits[0]
        weights = torch.log1p(torch.relu(logits)).max(dim=0).values.numpy()
        places = np.flatnonzero(weights > 0)
        return np.stack([places, weights[places]], axis=1).astype(np.float32)

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text with its special tokens, before any cut. (n,) int."""
        return np.array(
            [len(self._tokenizer(text, truncation=False, verbose=False)["input_ids"]) for text in texts], dtype=int
        )

    def words(self, rows: np.ndarray, top: int = 10) -> list[tuple[str, float]]:
        """The heaviest words of one text, to read."""
        best = rows[np.argsort(-rows[:, 1], kind="stable")[:top]]
        return [(self._tokenizer.convert_ids_to_tokens(int(place)), float(weight)) for place, weight in best]


class LearnedSparse:
    """Inner product of sparse weights. texts: their stored weights, in the order of `spans`; encode: query text -> (words, 2).

    Words of a query that no text has are left out; a text that shares no word with it is never returned.
    """

    def __init__(self, spans: Sequence[Span], texts: Stored, encode: Callable[[str], np.ndarray]):
        from scipy.sparse import csc_matrix

        order, self._spans = in_span_order(spans)
        rows = [texts.of(place) for place in order]
        flat = np.concatenate([np.empty((0, 2), np.float32), *rows])
        places, columns = np.unique(flat[:, 0].astype(np.int64), return_inverse=True)
        self._columns = {place: column for column, place in enumerate(places.tolist())}
        owners = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
        matrix = csc_matrix((flat[:, 1].astype(np.float64), (owners, columns)), shape=(len(rows), len(places)))
        matrix.sort_indices()
        self._matrix, self._encode = TermMatrix(matrix), encode

    def search(self, query: str, k: int) -> list[Hit]:
        with phase("encode"):
            words = self._encode(query)
        with phase("lexical"):
            known = [
                (self._columns[int(place)], float(weight)) for place, weight in words if int(place) in self._columns
            ]
            if not known:
                return []
            columns, weights = zip(*known, strict=True)
            return rank_found(self._spans, *self._matrix.scores(columns, weights), k)
