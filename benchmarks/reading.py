"""Reading a large PDF: bare text, the light reading with page features, the full reading; one and two workers; the cache.

python benchmarks/reading.py FILE [--rounds N]: each way runs in a process of its own, in turn, so that processor time and
peak memory are its own and its children's. The import of the PDF library counts in every way, that of other modules in none.
Prints pages a second of processor time and of wall time, and the ratio to bare text.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from localeval.provenance import load_average, machine_text

BARE = ("", "import pymupdf\npages = sum(len(page.get_text('text')) >= 0 for page in pymupdf.open({file!r}))")
LIGHT = (
    "from pathlib import Path; from localeval import pdf, quality",
    """document, layout = pdf.pages(Path({file!r}), "a.pdf", workers={workers}, cache={cache})
pages = sum(quality.features(document.text[page.start:page.end])["n_chars"] >= 0 for page in layout.pages)""",
)
FULL = (
    "from pathlib import Path; from localeval import pdf",
    """document, layout = pdf.read(Path({file!r}), "a.pdf", workers={workers}, cache={cache})
pages = len(layout.pages)""",
)
TIMED = """
import json, resource, time
{imports}
used = lambda: [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
seconds = lambda: sum(one.ru_utime + one.ru_stime for one in used())
start, before = time.perf_counter(), seconds()
{code}
wall, cpu, (own, child) = time.perf_counter() - start, seconds() - before, used()
print(json.dumps(dict(pages=pages, wall=wall, cpu=cpu, own=own.ru_maxrss / 1024, child=child.ru_maxrss / 1024)))
"""
WAYS = {  # code, workers, cached
    "bare text": (BARE, 1, False),
    "text, features, signals": (LIGHT, 1, False),
    "the same, 2 workers": (LIGHT, 2, False),
    "the same, from the cache": (LIGHT, 1, True),
    "full reading": (FULL, 1, False),
    "full, 2 workers": (FULL, 2, False),
    "full, from the cache": (FULL, 1, True),
}


def timed(name: str, file: Path, folder: str) -> dict:
    """One run in a process of its own: pages, wall and processor seconds, peak memory of it and of its largest child in MB."""
    (imports, code), workers, cached = WAYS[name]
    cache = f"Path({folder!r})" if cached else None
    filled = TIMED.format(imports=imports, code=code.format(file=str(file), workers=workers, cache=cache))
    done = subprocess.run([sys.executable, "-c", filled], check=True, capture_output=True, encoding="utf-8")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    laps: dict[str, list[dict]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for name in (name for name, (_, _, cached) in WAYS.items() if cached):
            timed(name, arguments.file, folder)  # fills the cache; not counted
        for _ in range(arguments.rounds):
            for name in WAYS:
                laps[name].append(timed(name, arguments.file, folder))
    print(f"{arguments.file.name}, {laps['bare text'][0]['pages']} pages, {arguments.rounds} rounds in turn; medians")
    print(f"{machine_text()}, load {load_average()}")
    print(f"{'':<26}{'pages/s':>9}{'pages/s':>9}{'times bare (range)':>24}{'peak MB':>9}{'child MB':>10}")
    print(f"{'':<26}{'CPU':>9}{'wall':>9}{'CPU':>24}")
    for name, runs in laps.items():
        pages, middle = runs[0]["pages"], lambda key, runs=runs: statistics.median(run[key] for run in runs)
        ratios = [run["cpu"] / bare["cpu"] for run, bare in zip(runs, laps["bare text"], strict=True)]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(
            f"{name:<26}{pages / middle('cpu'):>9.0f}{pages / middle('wall'):>9.0f}{ratio:>24}"
            f"{middle('own'):>9.0f}{middle('child'):>10.0f}"
        )


if __name__ == "__main__":
    main()
