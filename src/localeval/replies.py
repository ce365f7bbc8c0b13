"""What a model replied, kept: a run that breaks goes on where it stopped, and no request is made twice.

One line of JSON a reply, appended and synced to disk before it is used. The key is the whole request: endpoint, model, every message,
every parameter. The file stays on this machine: replies may not be ours to pass on.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path


def key_of(request: dict) -> str:
    """SHA-256 of a request, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(request, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


TEMPERATURE = 0  # of every request: as little chance as a model allows, which is not none


@dataclass
class Tally:
    """What was used of a model: requests sent now, replies that the store had before, attempts beyond the first; and over all replies,
    whenever they were made: their tokens as the server or the library counts them, how many came without a count, how many prompts
    were cut to fit, and the seconds that each took to make. A request that is made again counts once."""

    sent: int = 0
    kept: int = 0
    again: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted: int = 0
    replies: int = 0
    cut: int = 0
    times: list[float] = field(default_factory=list)

    def __post_init__(self):
        self._counted: set[str] = set()

    @property
    def seconds(self) -> float:
        return sum(self.times)

    def told(self) -> dict[str, int | float | None]:
        """Every count; of the seconds their sum, median and maximum, which are None where no reply came with its time."""
        counts = asdict(self)
        times = counts.pop("times")
        return counts | {
            "seconds": self.seconds,
            "median_seconds": statistics.median(times) if times else None,
            "longest_seconds": max(times, default=None),
        }

    def take(self, request: dict, reply: dict, kept: bool) -> str:
        """Counts a reply of `Replies.get` and gives its text."""
        key = key_of(request)
        if key in self._counted:
            return reply["text"]
        self._counted.add(key)
        used = reply.get("usage") if isinstance(reply.get("usage"), dict) else {}
        counts = [used.get(name) for name in ("prompt_tokens", "completion_tokens")]
        if all(type(count) is int and count >= 0 for count in counts):
            self.prompt_tokens, self.completion_tokens = (
                self.prompt_tokens + counts[0],
                self.completion_tokens + counts[1],
            )
        else:
            self.uncounted += 1
        self.replies, self.kept, self.cut = self.replies + 1, self.kept + kept, self.cut + bool(reply.get("cut"))
        self.times += [reply["seconds"]] if "seconds" in reply else []
        return reply["text"]


class Replies:
    """Append-only store of replies in one JSONL file. What a kill left of a last line is cut off when the file is opened."""

    def __init__(self, path: Path):
        self.path = path
        self.kept: dict[str, dict] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._load()

    def _load(self) -> None:
        whole = self.path.read_bytes() if self.path.is_file() else b""
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            os.truncate(self.path, end)
        for line in whole[:end].splitlines():
            try:
                row = json.loads(line)
                self.kept[row["key"]] = row["reply"]
            except (ValueError, KeyError, TypeError):
                continue  # a damaged line is as if it had not been asked

    def get(self, request: dict, ask: Callable[[], dict]) -> tuple[dict, bool]:
        """The reply to a request, and whether it was kept. What `ask` raises is not kept: it is asked again next time."""
        key = key_of(request)
        if key in self.kept:
            return self.kept[key], True
        reply = ask()
        line = json.dumps({"key": key, "reply": reply}, ensure_ascii=True).encode() + b"\n"
        with self.path.open("ab", buffering=0) as file:
            file.write(line)
            os.fsync(file.fileno())
        self.kept[key] = reply
        return reply, False
