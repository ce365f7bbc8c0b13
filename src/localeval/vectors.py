"""Vectors on disk: a text is embedded once for each model and its settings, whatever chunker cut it and whichever study asks.

One folder a kind of vector holds the numbers, one after another, and an index of which text each begins with. Both only grow, and
what was made before an interruption stays. Plain numbers, mapped into memory and never pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from localeval.embedding import Embedder
from localeval.records import BadInput

BLOCK = 64  # texts that are embedded before what was made is written down
ENTRY = np.dtype([("text", "u1", 32), ("start", "<i8"), ("rows", "<i8"), ("seconds", "<f8"), ("crc", "<u4")])
DTYPES = {"pooled": np.float32, "pooled16": np.float16, "tokens": np.float16, "tokens8": np.int8, "sparse": np.float32}
SCALE = 127  # of int8: a component of a unit vector lies between -1 and 1


@dataclass(frozen=True, slots=True)
class Stored:
    """Vectors of texts, in their order. vectors: (rows, d) of the whole store, mapped; text i has the rows from starts[i] to ends[i].

    seconds: what it took to make these texts' vectors, when they were made.
    """

    vectors: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    seconds: float

    def gathered(self) -> np.ndarray:
        """(n, d) float32: the one vector of every text, in memory."""
        return np.asarray(self.vectors[self.starts], dtype=np.float32)

    def of(self, place: int) -> np.ndarray:
        """(tokens, d) float32: the vectors of one text."""
        rows = np.asarray(self.vectors[self.starts[place] : self.ends[place]])
        if rows.dtype == np.float16:
            return widened(rows)
        return rows.astype(np.float32) / (SCALE if rows.dtype == np.int8 else 1)


def widened(rows: np.ndarray) -> np.ndarray:
    """Finite float16 numbers as float32, the same to the last bit and five times as fast as `astype`.

    Sign, exponent and fraction move to their places in the wider number; a product with 2^112 mends what the exponents count from.
    """
    bits = np.ascontiguousarray(rows).view(np.int16).astype(np.int32)  # the sign is repeated on the left
    bits <<= 13
    bits &= ~0x70000000
    wide = bits.view(np.float32)
    wide *= np.float32(2.0**112)
    return wide


class VectorCache:
    """The vectors of passages, made where they are missing. progress: told how many of how many texts are embedded."""

    def __init__(self, folder: Path, progress: Callable[[str], None] = lambda text: None):
        self.folder, self._progress = folder, progress

    def passages(self, embedder: Embedder, texts: Sequence[str], kind: str = "pooled") -> Stored:
        """One vector a text: float32, or with kind "pooled16" float16 in half the room."""
        return self._stored(embedder, texts, _known(kind, "pooled_vectors", ("pooled", "pooled16")))

    def tokens(self, embedder: Embedder, texts: Sequence[str], kind: str = "tokens") -> Stored:
        """The vectors of every text's tokens: float16, or with kind "tokens8" int8 with one scale: half the room, and each component
        off by at most 1 / 254.

        The pass that gives them gives the text's own vector too, which is kept where it is missing.
        """
        return self._stored(embedder, texts, _known(kind, "token_vectors", ("tokens", "tokens8")))

    def sparse(self, model, texts: Sequence[str]) -> Stored:
        """The weighted words of every text (`learned.Splade`): rows of place in the vocabulary and weight."""
        return self._stored(model, texts, "sparse")

    def _stored(self, embedder: Embedder, texts: Sequence[str], kind: str) -> Stored:
        from filelock import FileLock

        keys, store = [_key(text) for text in texts], self._store(embedder, kind)
        store.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(store.folder / ".lock"):
            known = store.known(keys)
            missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            self._make(embedder, list(missing.values()), store)
            known |= store.known(list(missing))
        entries = np.array([known[key] for key in keys], ENTRY)
        ends = entries["start"] + entries["rows"]
        return Stored(store.mapped(), entries["start"], ends, float(entries["seconds"].sum()))

    def _make(self, embedder: Embedder, texts: Sequence[str], store: Store) -> None:
        for at in range(0, len(texts), BLOCK):
            part, start = texts[at : at + BLOCK], time.perf_counter()
            made, before = self._rounded(embedder, part, store.kind)
            made = made or _made(embedder, part, store.kind)
            seconds, keys = (before + time.perf_counter() - start) / len(part), [_key(text) for text in part]
            for kind, arrays in made.items():
                own = store if kind == store.kind else self._store(embedder, kind)
                own.append(keys, [packed(rows, DTYPES[kind]) for rows in arrays], seconds)
            self._progress(f"vectors of {embedder.card.name}: {min(at + BLOCK, len(texts))} of {len(texts)} texts")

    def _rounded(
        self, embedder: Embedder, texts: Sequence[str], kind: str
    ) -> tuple[dict[str, list[np.ndarray]], float]:
        """Vectors in eight bits of those stored in sixteen, where all of these are there: what the model would give again; and the
        seconds that making those took."""
        full, keys = self._store(embedder, "tokens"), [_key(text) for text in texts]
        known = full.known(keys) if kind == "tokens8" else {}
        if len(known) < len(set(keys)):
            return {}, 0.0
        entries, numbers = [known[key] for key in keys], full.mapped()
        rows = [numbers[int(one["start"]) : int(one["start"] + one["rows"])] for one in entries]
        return {kind: rows}, float(sum(one["seconds"] for one in entries))

    def _store(self, embedder: Embedder, kind: str) -> Store:
        made_by = hashlib.sha256(json.dumps(embedder.settings, sort_keys=True).encode()).hexdigest()[:16]
        return Store(self.folder / "vectors" / f"{embedder.card.name}-{made_by}" / kind, kind)


def _made(embedder: Embedder, texts: Sequence[str], kind: str) -> dict[str, list[np.ndarray]]:
    """Arrays of every text by kind: the wanted one, and what the same pass gives beside it."""
    if kind == "sparse":
        return {"sparse": embedder.encode_sparse(texts)}
    if kind in ("pooled", "pooled16"):
        return {kind: [np.asarray(row)[None] for row in embedder.encode(texts)]}
    pooled, tokens = embedder.both(texts)
    return {kind: tokens, "pooled": [np.asarray(row)[None] for row in pooled]}


def _known(kind: str, setting: str, kinds: tuple[str, ...]) -> str:
    if kind not in kinds:
        raise BadInput(f"settings: unknown {setting} {kind!r}; known: {', '.join(kinds)}")
    return kind


def kept(path: Path, make: Callable[[Path], None]) -> float:
    """Makes a file once: `make` writes it, its hash stands beside it, and one that is not as it was written is made again.

    Returns the seconds it took when it was made; NaN where that is not known.
    """
    signed = path.with_suffix(".sha256")
    words = signed.read_text().split() if path.is_file() and signed.is_file() else []
    if words and words[0] == _sha256(path):
        return float(words[1]) if len(words) > 1 else float("nan")
    path.parent.mkdir(parents=True, exist_ok=True)
    part, start = path.with_suffix(f".{os.getpid()}.part"), time.perf_counter()
    try:
        make(part)
        seconds = time.perf_counter() - start
        signed.write_text(f"{_sha256(part)} {seconds:.3f}")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return seconds


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def packed(rows: np.ndarray, dtype) -> np.ndarray:
    """Unit vectors in the number type of a store."""
    return np.round(rows.astype(np.float32) * SCALE).astype(np.int8) if dtype == np.int8 else rows.astype(dtype)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Store:
    """The files of one kind of vector of one model. The numbers are written before the index that points to them."""

    folder: Path
    kind: str

    def known(self, wanted: Sequence[bytes]) -> dict[bytes, np.void]:
        """The entry of every wanted text whose numbers are whole; of several the last.

        The numbers are read and let go, not mapped: a store may be larger than memory.
        """
        entries, path = self._entries(), self.folder / "numbers"
        last, row = self._last(entries, wanted), self._width() * np.dtype(DTYPES[self.kind]).itemsize
        if not last or not path.is_file():
            return {}
        found = {}
        with path.open("rb", buffering=0) as numbers:
            for key in sorted(last, key=last.get):
                entry = entries[last[key]]
                numbers.seek(int(entry["start"]) * row)
                if zlib.crc32(numbers.read(int(entry["rows"]) * row)) == entry["crc"]:
                    found[key] = entry
        return found

    @staticmethod
    def _last(entries: np.ndarray, wanted: Sequence[bytes]) -> dict[bytes, int]:
        """Place of the last entry of every wanted text that has one; told apart by eight bytes before by all of them."""
        heads = np.frombuffer(b"".join(key[:8] for key in wanted), np.uint64)
        own = np.ascontiguousarray(entries["text"][:, :8]).view(np.uint64).ravel()
        places = np.flatnonzero(np.isin(own, heads))
        some = dict(zip((entries["text"][place].tobytes() for place in places), places.tolist(), strict=True))
        return {key: some[key] for key in wanted if key in some}

    def append(self, keys: Sequence[bytes], arrays: Sequence[np.ndarray], seconds: float) -> None:
        """Writes down the vectors of texts that are not there yet. arrays: (rows, d) each; seconds: what each text took."""
        self.folder.mkdir(parents=True, exist_ok=True)
        known = self.known(keys)
        new = [(key, rows) for key, rows in zip(keys, arrays, strict=True) if key not in known]
        if not new:
            return
        (self.folder / "width").write_text(str(new[0][1].shape[1]))
        entries, start = np.zeros(len(new), ENTRY), len(self.mapped())
        with (self.folder / "numbers").open("ab") as out:
            out.truncate(start * new[0][1][:1].nbytes if len(new[0][1]) else out.tell())
            for entry, (key, rows) in zip(entries, new, strict=True):
                data = np.ascontiguousarray(rows, DTYPES[self.kind]).tobytes()
                entry["text"] = np.frombuffer(key, np.uint8)
                entry["start"], entry["rows"], entry["seconds"], entry["crc"] = (
                    start,
                    len(rows),
                    seconds,
                    zlib.crc32(data),
                )
                start += len(rows)
                out.write(data)
        with (self.folder / "index").open("ab") as out:
            out.truncate(len(self._entries()) * ENTRY.itemsize)
            out.write(entries.tobytes())

    def mapped(self) -> np.ndarray:
        """(rows, d) of all numbers, mapped from disk."""
        path, width = self.folder / "numbers", self._width()
        row = width * np.dtype(DTYPES[self.kind]).itemsize
        rows = path.stat().st_size // row if row and path.is_file() else 0
        return (
            np.memmap(path, DTYPES[self.kind], "r", shape=(rows, width))
            if rows
            else np.zeros((0, width), DTYPES[self.kind])
        )

    def _width(self) -> int:
        path = self.folder / "width"
        text = path.read_text() if path.is_file() else ""
        return int(text) if text.isdecimal() else 0

    def _entries(self) -> np.ndarray:
        path = self.folder / "index"
        data = path.read_bytes() if path.is_file() else b""
        return np.frombuffer(data[: len(data) // ENTRY.itemsize * ENTRY.itemsize], ENTRY)
