"""A child process with limits: for parsers and engines that can hang, crash or eat all memory while they hold the interpreter.

The child prints JSON objects, one a line, and `{"done": true}` at the end. It runs in a process group of its own, so that
stopping it stops all that it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ASKED_EVERY = 0.1  # seconds between two looks at whether another thread wants the child stopped


class TimedOut(Exception):
    """The child was silent for longer than it may be. heard: how many messages came before."""

    def __init__(self, heard: int, seconds: float):
        super().__init__(f"no answer within {seconds:g} s")
        self.heard, self.seconds = heard, seconds


class Died(Exception):
    """The child ended before it said that it was done. heard: how many messages came before."""

    def __init__(self, heard: int):
        super().__init__("stopped before it was done")
        self.heard = heard


def module_command(module: str, *arguments: str, python: str | Path = sys.executable) -> list[str]:
    """The command that runs a module of this package with any Python; `messages` lets it find the package."""
    return [str(python), "-P", "-m", module, *arguments]


def messages(
    command: Sequence[str],
    patience: Iterable[float],
    *,
    more: dict[str, str] | None = None,
    stop: threading.Event | None = None,
) -> Iterator[dict]:
    """What the child says, as it comes; the child is gone when this is closed.

    patience: seconds to wait for each message in turn; time that the reader spends on a message does not count. more:
    environment variables beside those of this process. stop: set by another thread, it ends the child and the messages.
    Raises `TimedOut`, `Died`.
    """
    package_folder = str(Path(__file__).resolve().parents[1])
    search_path = os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")]))
    child = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": search_path} | (more or {}),
        start_new_session=True,
    )
    heard = 0
    try:
        for line, waited in _lines(child, iter(patience), stop):
            if line is None and stop and stop.is_set():
                return
            if line is None:
                raise TimedOut(heard, waited)
            try:
                message = json.loads(line)
            except ValueError:
                raise Died(heard) from None
            if not isinstance(message, dict):
                raise Died(heard)
            if message.get("done"):
                return
            heard += 1
            yield message
        raise Died(heard)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait()


def _lines(
    child: subprocess.Popen, patience: Iterator[float], stop: threading.Event | None
) -> Iterator[tuple[bytes | None, float]]:
    """Lines of the child's output as they come, with the patience each had; a None, and the end, when one is late."""
    parts: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        seconds = next(patience)
        deadline = time.monotonic() + seconds
        while _ready(selector, deadline, stop):
            data = os.read(child.stdout.fileno(), 1 << 16)
            if not data:
                return
            *complete, rest = data.split(b"\n")
            for line in complete:
                yield b"".join([*parts, line]), seconds
                parts, seconds = [], next(patience)
                deadline = time.monotonic() + seconds
            parts.append(rest)
        yield None, seconds


def _ready(selector: selectors.BaseSelector, deadline: float, stop: threading.Event | None) -> bool:
    """True when there is something to read; False at the deadline, or when another thread asks to stop."""
    while not (stop and stop.is_set()):
        left = max(0.0, deadline - time.monotonic())
        if selector.select(min(left, ASKED_EVERY) if stop else left):
            return True
        if not left:
            return False
    return False


# Inside the child


def speak(said: Iterable[dict], *, memory_bytes: int, cpu_seconds: int) -> None:
    """Sets the limits and prints each message as it comes; the last one is `{"done": true}`, or says why there is no more.

    Whatever else the process prints is lost: only messages may reach the pipe.
    """
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    _limit(memory_bytes, cpu_seconds)
    for message in said:
        out.write(json.dumps(message) + "\n")
        out.flush()


def _limit(memory_bytes: int, cpu_seconds: int) -> None:
    try:
        import resource
    except ImportError:
        return
    for name, limit in (("RLIMIT_AS", memory_bytes), ("RLIMIT_CPU", cpu_seconds)):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # macOS refuses a limit on memory
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
