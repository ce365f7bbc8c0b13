"""Times two functions in turn and prints the ratio, with the machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from localeval.provenance import load_average, machine


def compare(ours: Callable, theirs: Callable, names: tuple[str, str], rounds: int = 9) -> None:
    """Alternates both, one uncounted round first; prints medians in milliseconds and the ratio theirs / ours."""
    laps: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for function, seconds in zip((ours, theirs), laps, strict=True):
            start = time.perf_counter()
            function()
            if number:
                seconds.append(time.perf_counter() - start)
    ratios = [b / a for a, b in zip(*laps, strict=True)]
    ours_ms, theirs_ms = (statistics.median(seconds) * 1000 for seconds in laps)
    print(f"{names[0]}: {ours_ms:.1f} ms; {names[1]}: {theirs_ms:.1f} ms")
    print(f"  ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {rounds} rounds")


def about() -> None:
    here = machine()
    print(f"{here['cpu']}, {here['cores']} cores, load {load_average()}, threads {here['threads']['OMP_NUM_THREADS']}")
