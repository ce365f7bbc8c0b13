"""Cross-encoders: a model reads query and passage together and gives one number, its logit.

sentence-transformers is the reference. The same weights run under ONNX Runtime, exported once, in full precision or with weights
in eight bits (per channel). Every pair goes through the model alone: padding and, in eight bits, the scale of a batch would make
a score depend on the pairs beside it. Weights come from a folder, and nothing is ever downloaded or run from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from localeval.embedding import CARDS, ModelCard, files_digest, locate, needed, offline, verify
from localeval.onnxmodel import export, graph, run, session
from localeval.records import BadInput, Span, near
from localeval.rerank import each_once

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
        self._session = session(exported(self.card, folder, cache, bits), 1)

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
        return float(run(self._session, ids, types)[0])

    def cut(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        return self.pairs.cut(query, [self._text(span) for span in spans])


def exported(card: ModelCard, folder: Path, cache: Path, bits: int = 32) -> Path:
    """The model's graph, exported on first use, or its eight-bit form."""
    stem = f"{card.name.replace('/', '-')}-{card.sha256[:12]}-{files_digest(folder)}-first"
    make = lambda part: export(folder, "AutoModelForSequenceClassification", first_token, part)
    return graph(cache / "onnx" / f"{stem}.onnx", make, bits == 8)


def first_token(model, feed: dict):
    """The logit of a classifier that reads the first token of its last layer only, so that only that token is computed there: its
    query, its output and its feed-forward, from the keys and values of all. Any other kind of model is run as it is.

    model: of `transformers`; feed: its inputs, one text and no padding.
    """
    if model.config.model_type not in ("bert", "roberta", "xlm-roberta"):
        return model(**feed).logits
    body, states = model.base_model, model.base_model.embeddings(**feed)
    *layers, last = body.encoder.layer
    for layer in layers:
        found = layer(states)
        states = found[0] if isinstance(found, tuple) else found
    first, reads = states[:, :1], last.attention.self
    heads = lambda rows: rows.view(1, -1, reads.num_attention_heads, reads.attention_head_size).transpose(1, 2)
    query, key, value = heads(reads.query(first)), heads(reads.key(states)), heads(reads.value(states))
    weights = (query @ key.transpose(2, 3) * reads.attention_head_size**-0.5).softmax(-1)
    seen = last.attention.output((weights @ value).transpose(1, 2).reshape(first.shape), first)
    top = last.output(last.intermediate(seen), seen)
    return model.classifier(top if body.pooler is None else body.pooler(top))
