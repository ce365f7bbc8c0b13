"""Cross-encoders: a model reads query and passage together and gives one number, its logit.

sentence-transformers is the reference. The same weights run under ONNX Runtime, exported once, in full precision or with weights
in eight bits (per channel). Every pair goes through the model alone: padding and, in eight bits, the scale of a batch would make
a score depend on the pairs beside it. Weights come from a folder, and nothing is ever downloaded or run from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from localeval.embedding import CARDS, ModelCard, files_digest, locate, needed, offline, verify
from localeval.records import BadInput, Span, near
from localeval.rerank import each_once

OPSET = 17
HOW = ("", "fp32", "int8", "torch")  # what may follow a model's name after a colon


def parsed(name: str) -> tuple[str, str]:
    """A model's name and how it is run: "ms-marco-minilm:int8" -> ("ms-marco-minilm", "int8"); empty: as the settings say."""
    model, _, how = name.partition(":")
    if how not in HOW:
        raise BadInput(f"reranker {name!r}: unknown {how!r}{near(how, HOW[1:])}; known: {', '.join(HOW[1:])}")
    return model, how


def reranker_card(name: str, root: Path = Path()) -> ModelCard:
    """The card of a cross-encoder by its name, or one made from its folder `models/<name>`: licence and size are not known then."""
    if name in CARDS and CARDS[name].kind == "cross_encoder":
        return CARDS[name]
    card = ModelCard(name, "cross_encoder", name, 0, "not known", "not known")
    folder = locate(card, root)
    if folder is None:
        known = [card.name for card in CARDS.values() if card.kind == "cross_encoder"]
        raise BadInput(
            f"unknown cross encoder {name!r}{near(name, known)}; known: {', '.join(known)}, and every folder models/NAME that holds "
            "one (model.safetensors, config.json and tokenizer.json)"
        )
    return replace(card, max_tokens=_positions(_config(folder), folder))


def _config(folder: Path) -> dict:
    """The model's own description; anything but a classifier with one output is refused, as its scores would be made up."""
    try:
        config = json.loads(needed(folder, "config.json").read_text(encoding="utf-8"))
    except ValueError:
        raise BadInput(f"{folder / 'config.json'}: not JSON; save the model again") from None
    kinds = config.get("architectures") or ["none"]
    outputs = len(config.get("id2label") or "12")  # the libraries take two where nothing is said
    if not kinds[0].endswith("ForSequenceClassification") or outputs != 1:
        raise BadInput(
            f"{folder}: a {kinds[0]} with {outputs} outputs; a reranker is a ...ForSequenceClassification with one"
        )
    if "auto_map" in config:
        raise BadInput(f"{folder}: needs code of its own, which is never run; use a model without 'auto_map'")
    return config


def _positions(config: dict, folder: Path) -> int:
    """Tokens the model has places for. Roberta's kin start to count behind their padding."""
    places = int(config.get("max_position_embeddings") or 512)
    return places - 2 if "roberta" in str(config.get("model_type")) else places


def _has_types(folder: Path) -> bool:
    """Whether the model is told which tokens are the passage's, by what is saved of its tokenizer."""
    path = folder / "tokenizer_config.json"
    said = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    plain = said.get("tokenizer_class") in ("TokenizersBackend", "PreTrainedTokenizerFast")
    return "token_type_ids" in said.get("model_input_names", [] if plain else ["token_type_ids"])


class Pairs:
    """Query and passage as the model reads them: the longer of the two is cut until both fit, so that a query stays whole
    unless it alone takes half of what the model reads."""

    def __init__(self, card: ModelCard, folder: Path, config: dict):
        from tokenizers import Tokenizer

        known = (card.max_tokens, _positions(config, folder))
        self.max_tokens = min(limit for limit in known if limit)
        self._whole, self._short = (Tokenizer.from_file(str(needed(folder, "tokenizer.json"))) for _ in range(2))
        for tokenizer in (self._whole, self._short):
            tokenizer.no_padding()
            tokenizer.no_truncation()
        self._short.enable_truncation(self.max_tokens, strategy="longest_first")
        self._has_types = _has_types(folder)

    def read(self, query: str, passages: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Ids and types of the tokens of each pair, cut."""
        found = self._short.encode_batch([(query, text) for text in passages])
        return [(one.ids, one.type_ids if self._has_types else [0] * len(one.ids)) for one in found]

    def cut(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """(n,) bool: pairs longer than the model reads."""
        whole = self._whole.encode_batch([(query, text) for text in passages])
        return np.array([len(one.ids) > self.max_tokens for one in whole], bool)


class CrossEncoder:
    """A cross-encoder in sentence-transformers, the reference.

    Scores are the model's own logits: ranking on a squashed score would tie good candidates. text: the text of a span.
    """

    def __init__(self, card: ModelCard, folder: Path, text: Callable[[Span], str], threads: int = 1):
        offline()
        try:
            import torch
            from sentence_transformers import CrossEncoder as Model
            from transformers.utils import logging
        except ImportError as error:
            raise BadInput(f"model {card.name} needs {error.name}: pip install -r requirements.txt") from None
        logging.disable_progress_bar()
        torch.set_num_threads(threads)
        self.card = replace(card, sha256=verify(card, folder))
        self.pairs = Pairs(card, folder, _config(folder))
        self.reads = self.pairs.max_tokens
        self._model = Model(
            str(folder), device="cpu", max_length=self.pairs.max_tokens, local_files_only=True, trust_remote_code=False,
            activation_fn=torch.nn.Identity(),
        )  # fmt: skip
        self._text = text

    def __call__(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        return each_once(self, query, spans, lambda some: self._scored(query, some))

    def _scored(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        pairs = [(query, self._text(span)) for span in spans]
        found = self._model.predict(pairs, batch_size=1, show_progress_bar=False)
        return np.asarray(found, dtype=np.float64).reshape(-1)

    def cut(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        return self.pairs.cut(query, [self._text(span) for span in spans])


class OnnxCrossEncoder:
    """The same weights under ONNX Runtime. bits: 32, or 8 for weights in eight bits.

    cache: where the exported graph is kept. threads: pairs that are read at the same time, one core each; scores do not depend
    on it.
    """

    def __init__(
        self, card: ModelCard, folder: Path, text: Callable[[Span], str], cache: Path, threads: int = 1, bits: int = 32
    ):
        self.card = replace(card, sha256=verify(card, folder))
        self.pairs, self._text, self._threads = Pairs(card, folder, _config(folder)), text, threads
        self.reads = self.pairs.max_tokens
        self._session = _session(graph(self.card, folder, cache, bits))
        self._wanted = {one.name for one in self._session.get_inputs()}

    def __call__(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        return each_once(self, query, spans, lambda some: self.logits(query, [self._text(span) for span in some]))

    def logits(self, query: str, passages: Sequence[str]) -> list[float]:
        """One number a passage."""
        pairs = self.pairs.read(query, passages)
        if self._threads == 1 or len(pairs) < 2:
            return [self._logit(*pair) for pair in pairs]
        longest_first = sorted(
            range(len(pairs)), key=lambda at: -len(pairs[at][0])
        )  # so that no core ends alone on a long one
        with ThreadPoolExecutor(self._threads) as pool:
            found = pool.map(lambda at: self._logit(*pairs[at]), longest_first)
            return [score for _, score in sorted(zip(longest_first, found, strict=True))]

    def _logit(self, ids: Sequence[int], types: Sequence[int]) -> float:
        tokens = np.array([ids], np.int64)
        feed = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.array([types], np.int64),
        }
        ((logits,),) = self._session.run(None, {name: feed[name] for name in self._wanted})
        return float(logits[0])

    def cut(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        return self.pairs.cut(query, [self._text(span) for span in spans])


def _session(path: Path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def graph(card: ModelCard, folder: Path, cache: Path, bits: int = 32) -> Path:
    """The model's graph, exported on first use, and its eight-bit form made from it. A file that is not as it was written is made again."""
    stem = f"{card.name.replace('/', '-')}-{card.sha256[:12]}-{files_digest(folder)}-logit"
    if bits == 32:
        return _kept(cache / "onnx" / f"{stem}.onnx", lambda part: _export(folder, part))
    whole = graph(card, folder, cache)
    return _kept(cache / "onnx" / f"{stem}-int8.onnx", lambda part: _in_eight_bits(whole, part))


def _kept(path: Path, make: Callable[[Path], None]) -> Path:
    """A file with its own hash beside it, made where it is missing or not as it was written."""
    signed = path.with_suffix(".sha256")
    if path.is_file() and signed.is_file() and signed.read_text() == _digest(path):
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        make(part)
        signed.write_text(_digest(part))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _in_eight_bits(whole: Path, part: Path) -> None:
    """Weights as int8 with a scale for each channel: one scale for a whole matrix loses far more."""
    import logging

    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.getLogger().addFilter(_no_advice)
    try:
        quantize_dynamic(str(whole), str(part), weight_type=QuantType.QInt8, per_channel=True)
    finally:
        logging.getLogger().removeFilter(_no_advice)


def _no_advice(record) -> bool:
    return "pre-processing" not in record.getMessage()


def _export(folder: Path, target: Path) -> None:
    offline()
    try:
        import onnx  # noqa: F401
        import torch
        from transformers import AutoModelForSequenceClassification
        from transformers.utils import logging
    except ImportError as error:
        raise BadInput(f"exporting a model needs {error.name}: pip install -r requirements.txt") from None
    logging.disable_progress_bar()
    options = {"local_files_only": True, "trust_remote_code": False, "attn_implementation": "eager"}
    model = AutoModelForSequenceClassification.from_pretrained(str(folder), **options).eval()
    ids = torch.ones(2, 8, dtype=torch.long)
    feed = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        feed["token_type_ids"] = torch.zeros_like(ids)

    class Logit(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            return self.model(**dict(zip(feed, values, strict=True))).logits

    axes = {name: {0: "batch", 1: "tokens"} for name in feed} | {"logits": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the tracer warns of what it makes constant; the test against torch would see it
        torch.onnx.export(
            Logit(), tuple(feed.values()), str(target), dynamo=False, opset_version=OPSET, input_names=list(feed),
            output_names=["logits"], dynamic_axes=axes,
        )  # fmt: skip
