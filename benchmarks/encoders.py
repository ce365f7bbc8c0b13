"""The embedded model run in four ways, side by side: `python benchmarks/encoders.py [--chunks 1000] [--rounds 3]`.

plain: SentenceTransformer.encode at its defaults. onnx, int8, bf16: what the sweep runs as minilm, minilm-int8 (both one text at a time
on each core) and minilm-bf16, which is fast where the processor multiplies in bfloat16. Prints chunks a second and the ratio to plain in
the same round (medians, ranges); milliseconds of one query on one thread; the largest difference of a vector's component, and the
nearest ten of each chunk that both have. bound: the model's matrix products alone. All on the same cores, in turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sidebyside import about

from localeval import embedding
from localeval.onnxmodel import OnnxEmbedder

QUERY = "How far from a latrine must a new well be drilled?"
TEXT = """
a well head stands above the flood level with its casing and an apron of concrete so that water which has been spilled runs away from it
and people who draw from the pump keep their feet dry while the committee of the village checks every month whether chlorine valve pipe
tank pressure and filter are as the manual asks for them to be before the rains begin again
"""


def made_up(count: int, characters: int = 1200) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(TEXT.split(), characters // 4))[:characters] for _ in range(count)]


def in_turn(arms: dict[str, Callable], rounds: int) -> dict[str, list[float]]:
    """Seconds of every arm in each round; one round before them is not counted."""
    seconds = {name: [] for name in arms}
    for number in range(rounds + 1):
        for name, run in arms.items():
            start = time.perf_counter()
            run()
            seconds[name] += [time.perf_counter() - start] * (number > 0)
    return seconds


def multiplications(
    count: int, tokens: int, width: int = 384, layers: int = 6, heads: int = 12, batch: int = 4
) -> Callable:
    """Nothing but the matrix products of the model's shape in float32, for that many chunks: no encoder in float32 is faster."""
    import torch

    wide, narrow = torch.rand(batch * tokens, 4 * width), torch.rand(batch * tokens, width)
    square, up, down = torch.rand(width, width), torch.rand(width, 4 * width), torch.rand(4 * width, width)
    query, key = torch.rand(batch * heads, tokens, width // heads), torch.rand(batch * heads, width // heads, tokens)
    weights = torch.rand(batch * heads, tokens, tokens)

    def run() -> None:
        for _ in range(layers * count // batch):
            for one, two in (*[(narrow, square)] * 4, (narrow, up), (wide, down), (query, key), (weights, query)):
                one @ two

    return run


def report(seconds: dict[str, list[float]], unit: str, scale: Callable[[float], float]) -> None:
    plain = seconds["plain"]
    for name, own in seconds.items():
        ratios = [one / two for one, two in zip(plain, own, strict=True)]
        spread = f"{statistics.median(ratios):.2f} times plain ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"  {name:<6} {scale(statistics.median(own)):7.1f} {unit}, {spread}, {len(own)} rounds")


def shared(one: np.ndarray, two: np.ndarray, k: int = 10) -> float:
    """Share of each vector's k nearest others that it has among the other model's vectors too."""
    near = []
    for vectors in (one, two):
        alike = vectors @ vectors.T
        np.fill_diagonal(alike, -1)
        near.append(np.argsort(-alike, axis=1)[:, :k])
    return float(np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(*near, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    embedding.offline()
    import torch
    from sentence_transformers import SentenceTransformer

    folder = embedding.locate(embedding.card_of("minilm"))
    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    ours = {
        name: OnnxEmbedder(embedding.card_of(model), folder, Path("runs/.cache"))
        for name, model in (("onnx", "minilm"), ("int8", "minilm-int8"))
    } | {"bf16": embedding.SentenceEmbedder(embedding.card_of("minilm-bf16"), folder)}
    about()
    torch.set_num_threads(os.cpu_count() or 1)
    texts = made_up(arguments.chunks)
    print(f"{len(texts):,} chunks of {len(texts[0]):,} characters, {os.cpu_count()} cores")
    encode = lambda model: lambda: model.encode(texts)
    arms = {"plain": lambda: plain.encode(texts)} | {name: encode(model) for name, model in ours.items()}
    tokens = int(np.minimum(ours["onnx"].token_counts(texts), embedding.card_of("minilm").max_tokens).mean())
    arms["bound"] = multiplications(len(texts), tokens)
    print(f"{tokens} tokens a chunk after the cut; bound: matrix products alone, in float32")
    report(in_turn(arms, arguments.rounds), "chunks/s", lambda seconds: len(texts) / seconds)
    torch.set_num_threads(1)
    ask = lambda model: lambda: model.query(QUERY)
    arms = {"plain": lambda: plain.encode([QUERY])} | {name: ask(model) for name, model in ours.items()}
    print("one query, one thread")
    report(in_turn(arms, 30), "ms", lambda seconds: 1000 * seconds)
    some = texts[:200]
    reference = plain.encode(some, normalize_embeddings=True)
    for name, model in ours.items():
        vectors = model.encode(some)
        apart, both = np.abs(vectors - reference).max(), shared(reference, vectors)
        print(f"  {name:<6} largest difference of a component {apart:.1e}; nearest ten in common {both:.3f}")


if __name__ == "__main__":
    main()
