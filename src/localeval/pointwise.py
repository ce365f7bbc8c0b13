"""An optional reranker: a local language model is asked of each passage whether it answers the question.

The score is the log-odds of its next word, yes against no, so that nothing has to be parsed and equal answers seldom tie. It needs
llama-cpp-python and the weights of a model in one GGUF file; neither is a requirement of this project.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from localeval.gguf import trouble
from localeval.records import BadInput, Span
from localeval.rerank import each_once

PROMPT = (
    "Passage: Bees store honey in wax cells for the winter.\nQuestion: What do bees store for the winter?\n"
    "Does the passage answer the question? Answer: yes\n\n"
    "Passage: Bees store honey in wax cells for the winter.\nQuestion: How deep is the harbour?\n"
    "Does the passage answer the question? Answer: no\n\n"
    "Passage: {passage}\nQuestion: {query}\nDoes the passage answer the question? Answer:"
)
YES, NO = " yes", " no"


def gguf(name: str, root: Path) -> Path:
    """Where the weights of a model are kept."""
    return root / "models" / f"{name}.gguf"


def missing(name: str, root: Path) -> str:
    """Why the model of that name cannot run here, or nothing. Imports nothing here."""
    if not name:
        raise BadInput(
            "rerankers: 'llm' needs a model's name behind a colon, such as llm:my-model for models/my-model.gguf"
        )
    if importlib.util.find_spec("llama_cpp") is None:
        return "not run: llama-cpp-python is not installed; pip install llama-cpp-python (it is compiled; about ten minutes)"
    if not gguf(name, root).is_file():
        return f"not run: weights not found; save a model's GGUF file as models/{name}.gguf"
    broken = trouble(gguf(name, root))
    return f"not run: {broken}" if broken else ""


class Pointwise:
    """Log-odds of yes against no, for each passage by itself.

    log_odds: (prompt) -> log P(yes) - log P(no) of the next token. room: tokens that a prompt may have; count: text -> tokens. A passage
    that does not fit loses its end; a question never does.
    """

    def __init__(
        self, log_odds: Callable[[str], float], count: Callable[[str], int], room: int, text: Callable[[Span], str]
    ):
        self._log_odds, self._count, self.reads, self._text = log_odds, count, room, text

    def __call__(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        return each_once(self, query, spans, lambda some: [self._score(query, self._text(span)) for span in some])

    def _score(self, query: str, passage: str) -> float:
        score = self._log_odds(self._prompt(query, self._fitting(query, passage)))
        if not math.isfinite(score):
            raise ValueError("the model gave no odds of yes against no")
        return score

    def _fitting(self, query: str, passage: str) -> str:
        """The longest beginning of the passage whose prompt fits, found by halving."""
        if self._fits(query, passage):
            return passage
        if not self._fits(query, ""):
            raise ValueError(f"a question of {len(query)} characters leaves no room for a passage")
        low, high = 0, len(passage)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(query, passage[:middle]) else (low, middle)
        return passage[:low]

    def _fits(self, query: str, passage: str) -> bool:
        return self._count(self._prompt(query, passage)) <= self.reads

    @staticmethod
    def _prompt(query: str, passage: str) -> str:
        return PROMPT.format(passage=" ".join(passage.split()), query=" ".join(query.split()))

    def cut(self, query: str, spans: Sequence[Span]) -> np.ndarray:
        return np.array([not self._fits(query, self._text(span)) for span in spans], bool)


def load(name: str, root: Path, text: Callable[[Span], str], threads: int = 1, room: int = 1024) -> Pointwise:
    """The model of that name under llama.cpp."""
    import llama_cpp

    path = gguf(name, root)
    try:
        model = llama_cpp.Llama(
            str(path), n_ctx=room, n_batch=room, n_threads=threads, n_threads_batch=threads, verbose=False
        )
    except (ValueError, OSError, RuntimeError) as error:
        raise BadInput(f"{path}: llama.cpp cannot load it ({error})") from None
    tokens = lambda words, first=False: model.tokenize(words.encode(), add_bos=first)
    sides = [tokens(word)[-1] for word in (YES, NO)]  # some tokenisers put a blank of their own before
    if sides[0] == sides[1]:
        raise BadInput(
            f"{path}: its vocabulary tells {YES!r} from {NO!r} by more than their last token; use another model"
        )

    def log_odds(prompt: str) -> float:
        model.reset()
        model.eval(tokens(prompt, True))
        logits = llama_cpp.llama_get_logits_ith(model.ctx, -1)
        return float(logits[sides[0]] - logits[sides[1]])

    return Pointwise(log_odds, lambda prompt: len(tokens(prompt, True)), room, text)
