"""RapidOCR, run with a Python of its own: `python -m localeval.rapid look` says what is installed; `... serve PIPE` reads images.

Each line of the pipe is the path of an image; each gives one message. The weights are those inside the package's wheel,
and no others: their hashes are checked before they are loaded. Only the standard library is needed beside RapidOCR.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from localeval import child

MEMORY_BYTES = 8 << 30  # of addresses; it uses about 1.2 GB
CPU_SECONDS = 7 * 24 * 3600  # it serves a whole folder; what limits a page is how long it may be silent
# What rapidocr 3.10.0 brings: where text is, which way up it is, what it says.
WEIGHTS = {
    "Det": ("PP-OCRv6_det_small.onnx", "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f"),
    "Cls": ("ch_ppocr_mobile_v2.0_cls_mobile.onnx", "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
    "Rec": ("PP-OCRv6_rec_small.onnx", "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884"),
}


def look() -> dict:
    """`version` and the `weights` by part; or `refused` with the reason. Imports nothing of RapidOCR."""
    found = importlib.util.find_spec("rapidocr")
    if found is None or importlib.util.find_spec("onnxruntime") is None:
        return {"refused": "rapidocr or onnxruntime is not installed there"}
    models, weights = Path(found.submodule_search_locations[0]) / "models", {}
    for part, (name, wanted) in WEIGHTS.items():
        file = models / name
        if not file.is_file():
            return {"refused": f"its weights {name} are missing; install rapidocr 3.10.0 again"}
        if hashlib.sha256(file.read_bytes()).hexdigest() != wanted:
            return {"refused": f"its weights {name} are not those that were tested; install rapidocr 3.10.0 again"}
        weights[part] = str(file)
    return {"version": importlib.metadata.version("rapidocr"), "weights": weights}


def serve(pipe: str) -> Iterator[dict]:
    """`ready`, then for each line of the pipe `boxes` and the `width` of the image, or `failed` with the reason.

    A box is `[[x, y] of its four corners, text, confidence from 0 to 1]`, in dots, corners from the top left one clockwise.
    """
    found = look()
    if "refused" in found:
        yield found
        return
    engine = _engine(found["weights"])
    yield {"ready": found["version"]}
    with open(pipe, encoding="utf-8") as asked:
        for line in asked:
            try:
                read = engine(line.rstrip("\n"))
                yield {"boxes": _boxes(read), "width": 0 if read.img is None else read.img.shape[1]}
            except Exception as error:  # one page that breaks it takes no other page along
                yield {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:160]}
    yield {"done": True}


def _engine(weights: dict[str, str]):
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read once, when ONNX Runtime starts; without it, it reports its use
    sys.addaudithook(_offline)
    from rapidocr import RapidOCR

    paths = {f"{part}.model_path": path for part, path in weights.items()}  # given a path, it fetches nothing
    return RapidOCR(params={"Global.log_level": "critical", **paths})


def _offline(event: str, arguments: tuple) -> None:
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise OSError("no connection is opened here")


def _boxes(read) -> list:
    if read.boxes is None or not read.txts:
        return []
    rounded = [[[round(float(x), 1), round(float(y), 1)] for x, y in corners] for corners in read.boxes]
    return [list(box) for box in zip(rounded, read.txts, map(float, read.scores), strict=True)]


def _own_packages_only() -> None:
    """This package was found through PYTHONPATH; everything else must come from this Python, not from the asking one."""
    borrowed = {os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place}
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) not in borrowed]


if __name__ == "__main__":
    _own_packages_only()
    told = iter([look(), {"done": True}]) if sys.argv[1] == "look" else serve(sys.argv[2])
    child.speak(told, memory_bytes=MEMORY_BYTES, cpu_seconds=CPU_SECONDS)
