"""Where a number came from: hashes of what went in, and the machine it was measured on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from localeval.records import BadInput

PACKAGES = (
    "numpy", "scipy", "pandas", "rank-bm25", "faiss-cpu", "torch", "onnxruntime", "sentence-transformers", "transformers", "pymupdf",
    "papermill",
)  # fmt: skip
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def digest(*parts: str | bytes) -> str:
    """Short SHA-256 of several parts; no two different lists of parts share their bytes."""
    total = hashlib.sha256()
    for part in parts:
        part = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.hexdigest()[:20]


def digest_json(value: object) -> str:
    return digest(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str))


def digest_path(path: Path) -> str:
    """Content hash of a file, or of every file below a folder with its name; linked folders are followed.

    File dates do not count, hidden files neither.
    """
    if path.is_file():
        return digest(path.read_bytes())
    files = sorted(_files(path))
    return digest(*(part for file in files for part in (file.relative_to(path).as_posix(), file.read_bytes())))


def existing(path: Path, hint: str) -> Path:
    """The path of a file that is there; nothing there, or something else, is bad input that says which, and what to do (hint)."""
    if path.is_file():
        return path
    what = "a folder, and no file" if path.is_dir() else "a pipe or a device" if path.exists() else "no such file"
    raise BadInput(f"{path}: {what}; {hint}")


def _files(folder: Path) -> Iterator[Path]:
    """Every visible file below a folder; no folder comes twice, so that links may form a circle."""
    seen = set()
    for where, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(where)
        folders[:] = [] if real in seen else sorted(name for name in folders if not _hidden(name))
        names = [] if real in seen else names
        seen.add(real)
        yield from (path for name in names if not _hidden(name) and (path := Path(where, name)).is_file())


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"


def machine() -> dict:
    """Processor, cores, memory and thread settings; no host name, user or path."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "threads": {name: os.environ.get(name, "not set") for name in THREAD_VARIABLES},
    }


def machine_text() -> str:
    """The machine in one line for a page: "AMD EPYC, 2 cores, 24 GB, Linux x86_64, 1 thread"."""
    about = machine()
    threads = " / ".join(dict.fromkeys(about["threads"].values()))
    return f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, {about['system']}, threads: {threads}"


def load_average() -> float | None:
    """Work waiting for a processor over the last minute; None where the system does not say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def versions(names: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Installed versions, without importing anything."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def heavy_modules() -> list[str]:
    """Heavy engines that this process has imported; a BM25-only study must show none."""
    return [
        name
        for name in ("torch", "faiss", "onnxruntime", "transformers", "sentence_transformers")
        if name in sys.modules
    ]
