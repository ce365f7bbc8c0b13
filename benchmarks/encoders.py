"""One query and a batch of passages through both encoders, side by side: `python benchmarks/encoders.py`.

Prints milliseconds per query (median of 30), passages per second, and the largest difference of a vector's component.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np

from localeval import embedding
from localeval.onnxmodel import OnnxEmbedder
from localeval.provenance import machine_text

QUERY = "How far from a latrine must a new well be drilled?"
PASSAGES = [
    f"Passage {n}: " + "a well head stands above flood level, with a casing and an apron. " * 15 for n in range(48)
]


def main() -> None:
    card = embedding.card_of("minilm")
    folder = embedding.locate(card)
    encoders = {
        "torch": embedding.SentenceEmbedder(card, folder),
        "onnx": OnnxEmbedder(card, folder, Path("runs/.cache")),
    }
    print(machine_text())
    times: dict[str, list[float]] = {name: [] for name in encoders}
    for turn in range(33):  # taking turns, so that both see the same load; the first three are not counted
        for name, encoder in encoders.items():
            start = time.perf_counter()
            encoder.query(QUERY) if name == "onnx" else encoder.encode([QUERY], "query")
            times[name] += [1000 * (time.perf_counter() - start)] * (turn > 2)
    for name, encoder in encoders.items():
        start = time.perf_counter()
        encoder.encode(PASSAGES)
        rate = len(PASSAGES) / (time.perf_counter() - start)
        print(f"{name:<6} {statistics.median(times[name]):6.1f} ms a query, {rate:5.1f} passages/s")
    apart = np.abs(encoders["torch"].encode(PASSAGES) - encoders["onnx"].encode(PASSAGES)).max()
    print(f"largest difference of a component: {apart:.1e}")


if __name__ == "__main__":
    main()
