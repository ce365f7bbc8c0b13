"""The default way to run an embedding model: the same weights under ONNX Runtime, exported once.

It starts in a tenth of the time torch needs and answers a query in less than half; vectors agree with those of
sentence-transformers to the rounding of single precision (a test holds it). The exported graph is kept beside the vectors,
with the hash of the weights in its name and its own hash beside it.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from localeval.embedding import ModelCard, files_digest, needed, offline, unit_rows, verify
from localeval.records import BadInput
from localeval.vectors import kept

OPSET = 17
PRECISIONS = ("float32", "int8")


class OnnxEmbedder:
    """A sentence-transformers folder under ONNX Runtime on the CPU: pooled vectors and token vectors from one pass.

    Every text goes through the model alone, so that its vectors do not depend on what stood beside it, nor on the number of cores.
    folder: `model.safetensors`, `tokenizer.json` and `1_Pooling/config.json`. cache: where the exported graph is kept. threads: of
    queries; passages take one core each, all at once.
    """

    def __init__(self, card: ModelCard, folder: Path, cache: Path, threads: int = 1):
        from tokenizers import Tokenizer

        if card.precision not in PRECISIONS:
            raise BadInput(f"model {card.name}: no {card.precision} under ONNX Runtime; known: {', '.join(PRECISIONS)}")
        self.card = replace(card, sha256=verify(card, folder))
        self._pool, self._files = _plain(folder), files_digest(folder)
        self._max_tokens = min(card.max_tokens, _reads(folder, card.max_tokens))
        self._tokenizer = Tokenizer.from_file(str(needed(folder, "tokenizer.json")))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._graph = exported(self.card, folder, cache)
        self._queries = session(self._graph, threads)

    @property
    def settings(self) -> dict:
        """What a cached vector depends on beside the text."""
        card = self.card
        return {"model": card.name, "sha256": card.sha256, "max_tokens": self._max_tokens, "dtype": card.precision, "encoder": "onnx",
                "files": self._files, "query": card.query, "passage": card.passage} | (
                {} if card.precision == "float32" else {"onnxruntime": importlib.metadata.version("onnxruntime")})  # fmt: skip

    @cached_property
    def _passages(self):
        return session(self._graph, 1)

    def encode(self, texts: Sequence[str], role: str = "passage") -> np.ndarray:
        """(n, d) float32 unit vectors. A text that gives no finite vector raises, naming its position."""
        return self.both(texts, role)[0]

    def both(self, texts: Sequence[str], role: str = "passage") -> tuple[np.ndarray, list[np.ndarray]]:
        """What `encode` and `encode_tokens` give, from one pass."""
        found = self._both(texts, role)
        vectors = np.array([pooled for pooled, _ in found], dtype=np.float32)
        norms = np.linalg.norm(vectors, axis=1) if len(texts) else np.zeros(0)
        bad = np.flatnonzero(~(np.abs(norms - 1) < 1e-3))
        if len(bad):
            at = int(bad[0])
            raise ValueError(f"{self.card.name}: text {at} of {len(texts)} has no unit vector: {texts[at][:40]!r}")
        return vectors, [tokens for _, tokens in found]

    def encode_tokens(self, texts: Sequence[str], role: str = "passage") -> list[np.ndarray]:
        """For each text its tokens' unit vectors, (tokens, d) float16, without the first and last special token."""
        return [tokens for _, tokens in self._both(texts, role)]

    def query(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Pooled vector (d,) and token vectors (tokens, d) of a query, from one pass."""
        return self._both([text], "query")[0]

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text with its special tokens, before any cut. (n,) int."""
        return np.array([len(ids) for ids in self._ids(texts, "passage")], dtype=int)

    def _ids(self, texts: Sequence[str], role: str) -> list[list[int]]:
        prefix = self.card.query if role == "query" else self.card.passage
        return [one.ids for one in self._tokenizer.encode_batch([prefix + text for text in texts])]

    def _both(self, texts: Sequence[str], role: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pooled vector and token vectors of each text."""
        session = self._queries if role == "query" else self._passages
        ids = [self._cut(one) for one in self._ids(texts, role)]
        if len(ids) < 2:
            return [self._vectors(session, one) for one in ids]
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(lambda one: self._vectors(session, one), ids))

    def _cut(self, ids: list[int]) -> list[int]:
        """At most the tokens the model reads; the last special token stays."""
        return ids if len(ids) <= self._max_tokens else [*ids[: self._max_tokens - 1], ids[-1]]

    def _vectors(self, session, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Pooled vector, and token vectors without those of the first and last special token."""
        states = run(session, ids, [0] * len(ids))
        pooled = states[0] if self._pool == "cls" else states.mean(axis=0)
        return unit_rows(pooled[None])[0], unit_rows(states[1:-1]).astype(np.float16)


def session(graph: Path, threads: int):
    """A graph under ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads leave the core to others
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def run(session, ids: Sequence[int], types: Sequence[int]) -> np.ndarray:
    """What a graph gives for the tokens of one text and their types, without the axis of texts."""
    feed = {"input_ids": np.array([ids], np.int64), "token_type_ids": np.array([types], np.int64)}
    ((found,),) = session.run(None, {one.name: feed[one.name] for one in session.get_inputs()})
    return found


def _json(path: Path):
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError:
        raise BadInput(f"{path}: not JSON; save the model again") from None


def _plain(folder: Path) -> str:
    """The pooling, "mean" or "cls". What else a folder asks for is run by sentence-transformers only, and refused here."""
    pooling, reads, prompts = (
        _json(folder / name)
        for name in ("1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json")
    )
    modules = [str(one.get("type", "")).rpartition(".")[2] for one in _json(needed(folder, "modules.json"))]
    modes = [
        name.removeprefix("pooling_mode_")
        for name, on in pooling.items()
        if name.startswith("pooling_mode_") and on is True
    ]
    modes = modes or [str(pooling.get("pooling_mode", "mean_tokens"))]
    beyond = {
        f"pooling {', '.join(modes)}": modes not in (["mean_tokens"], ["cls_token"], ["mean"], ["cls"]),
        f"modules {', '.join(modules)}": modules
        not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]),
        "a prompt of its own": bool(prompts.get("default_prompt_name")),
        "lower case before the tokenizer": bool(reads.get("do_lower_case")),
    }
    for what in (what for what, there in beyond.items() if there):
        raise BadInput(f"{folder}: {what}; run it with settings 'encoder: torch'")
    return modes[0].removesuffix("_tokens").removesuffix("_token")


def _reads(folder: Path, otherwise: int) -> int:
    """Tokens the folder says its model reads."""
    return int(_json(folder / "sentence_bert_config.json").get("max_seq_length") or otherwise)


def exported(card: ModelCard, folder: Path, cache: Path) -> Path:
    """The graph of the model's transformer, exported on first use; of an int8 card, with its weights in eight bits."""
    name = f"{card.reference or card.name}-{card.sha256[:12]}-{files_digest(folder)}-alone"
    make = lambda part: export(folder, "AutoModel", lambda model, feed: model(**feed).last_hidden_state, part)
    return graph(cache / "onnx" / f"{name}.onnx", make, card.precision == "int8")


def graph(path: Path, make: Callable[[Path], None], small: bool) -> Path:
    """A graph that `make` writes once, and with `small` the one with weights in eight bits that is made of it."""
    kept(path, make)
    if not small:
        return path
    eight = path.with_name(f"{path.stem}-int8-{importlib.metadata.version('onnxruntime')}.onnx")
    kept(eight, lambda part: _quantise(path, part))
    return eight


def _quantise(graph: Path, target: Path) -> None:
    """Weights of every matrix product as int8 with a scale for each output (per channel); activations are scaled as they come.

    The scale of an activation is taken over one text, since each goes through the model alone. On processors without int8 dot
    products (VNNI) sums may saturate, so that vectors differ between kinds of processor.
    """
    try:
        from onnxruntime.quantization import QuantType, quantize_dynamic
    except ImportError as error:
        raise BadInput(f"a model in eight bits needs {error.name}: pip install -r requirements.txt") from None
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)  # it recommends a step for models of images
    try:
        quantize_dynamic(
            str(graph), str(target), op_types_to_quantize=["MatMul"], per_channel=True, weight_type=QuantType.QInt8
        )
    finally:
        logging.disable(level)


def export(folder: Path, kind: str, forward: Callable[[object, dict], object], target: Path) -> None:
    """Writes what `forward` makes of a model and the tokens of one text.

    kind: the class of `transformers` that loads it. There is one text and hence no padding, so that the graph has no mask: adding
    zeros to the scores of every attention takes a twentieth of the time.
    """
    offline()
    try:
        import onnx  # noqa: F401
        import torch
        import transformers
    except ImportError as error:
        raise BadInput(f"exporting a model needs {error.name}: pip install -r requirements.txt") from None
    transformers.utils.logging.disable_progress_bar()
    options = {"local_files_only": True, "trust_remote_code": False, "attn_implementation": "eager"}
    model = getattr(transformers, kind).from_pretrained(str(folder), **options).eval()
    feed = {"input_ids": torch.ones(1, 8, dtype=torch.long)}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        feed["token_type_ids"] = torch.zeros_like(feed["input_ids"])

    class Forward(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            return forward(self.model, dict(zip(feed, values, strict=True)))

    with warnings.catch_warnings():
        # the tracer warns of what it makes constant; the tests against torch would see it
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Forward(), tuple(feed.values()), str(target), dynamo=False, opset_version=OPSET, input_names=list(feed),
            output_names=["found"], dynamic_axes={name: {1: "tokens"} for name in feed},
        )  # fmt: skip
