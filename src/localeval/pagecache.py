"""What the PDF library said about a file, kept for the next time: JSON lines, compressed, one file a document.

The name of an entry holds the bytes of the document, the form of its pages, the version of the library and the code that
asked it, so an entry is never out of date. Its last line holds the hash of this name and of all lines before it: an entry that
is damaged, cut short, edited or given the name of another counts as none. No key signs it: who can write here can also
write the code.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

LIBRARIES = ("pymupdf", "pymupdf-lite")
CODE = ("pdfchild.py", "layout.py", "corpus.py")  # what decides what a page says


def entry(folder: Path, path: Path, form: str) -> Path:
    """Where the messages about a document belong."""
    total = hashlib.sha256(f"{form}:{_code()}:{_library()}:".encode())
    total.update(hashlib.sha256(path.read_bytes()).digest())
    return folder / f"{total.hexdigest()[:40]}.jsonl.gz"


@lru_cache
def _code() -> str:
    here = Path(__file__).parent
    return hashlib.sha256(b"".join((here / name).read_bytes() for name in CODE)).hexdigest()


def _library() -> str:
    found = []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def read(path: Path) -> Iterator[dict] | None:
    """The messages of an entry; None when there is none, or when it is not whole."""
    try:
        with gzip.open(path, "rb") as kept:  # reading to the end checks the sum
            *lines, last = kept.read().splitlines(keepends=True)
        header, total = json.loads(lines[0]), hashlib.sha256(path.name.encode())
        for line in lines:
            total.update(line)
        said = json.loads(last) == _end(len(lines), total)
        whole = said and len(lines) == 1 + header["pages"] and "repaired" in header
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, IndexError):
        return None
    return (json.loads(line) for line in lines) if whole else None


def _end(count: int, total) -> dict:
    return {"done": count, "sha256": total.hexdigest()}


def kept(path: Path, said: Iterator[dict]) -> Iterator[dict]:
    """The same messages, kept as an entry when they come to their end; not with a page that was lost, which may be read next
    time. An entry that cannot be written is no error: the next reading takes as long as this one."""
    lost, count, packed, total = False, 0, io.BytesIO(), hashlib.sha256(path.name.encode())
    with contextlib.closing(said), gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0) as out:
        for message in said:
            lost, count = lost or "lost" in message, count + 1
            line = json.dumps(message).encode() + b"\n"
            total.update(line)
            out.write(line)
            yield message
        out.write(json.dumps(_end(count, total)).encode() + b"\n")
    if not lost:
        with contextlib.suppress(OSError):
            _write(path, packed.getbuffer())


def _write(path: Path, data: memoryview) -> None:
    """All of it or nothing, whoever else writes the same entry."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
