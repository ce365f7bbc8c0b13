"""A throw-away study of large PDF manuals, from ingestion to site, with templated questions.

python benchmarks/manuals.py [--grid] [--keep WHERE] FOLDER [FILE ...]: without files, the three manuals below. Prints pages,
chunks, scores under each rule and the time of every notebook. --grid: three chunkers, five retrievers and two models instead, run
twice, and how many texts each run embedded. Nothing is written to the project.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import yaml
from sidebyside import about

from localeval import book, build, corpus, drafting, gold, tables, views

PROJECT = Path(__file__).resolve().parents[1]
MANUALS = ("bd_debian_policy.pdf", "bd_r_intro.pdf", "bd_fhs.pdf")
PARAMS = {
    "10_ingest": {"corpus": "data/manuals/corpus", "chunkers": {"section": {"max_chars": 1500, "overlap": 150}}},
    "20_gold": {"gold": "data/manuals/gold.jsonl"},
    "30_sweep": {"retrievers": ["bm25", "dense", "hybrid"], "models": ["minilm"], "repeats": 1, "cold_starts": 1},
    "40_rerank": {"depths": [20, 40], "repeats": 1, "cold_starts": 0},
    "50_statistics": {"comparisons": [["evidence_ndcg@10", "chunk/contains", "section/bm25", "section/hybrid:minilm"]]},
    "60_abstention": {},
}
GRID = {
    "10_ingest": {
        "corpus": "data/manuals/corpus",
        "chunkers": {
            "section": {"max_chars": 1500, "overlap": 150},
            "sentence": {"max_chars": 1500},
            "fixed": {"max_chars": 1500, "overlap": 150},
        },
    },
    "20_gold": PARAMS["20_gold"],
    "30_sweep": {
        "retrievers": ["bm25", "dense", "hybrid", "dense-hnsw", "hybrid-hnsw"], "models": ["minilm", "minilm-int8"],
        "repeats": 1, "cold_starts": 0, "timed_questions": 10,
    },
}  # fmt: skip


def make_project(root: Path, folder: Path, files: list[str], params: dict) -> None:
    for name in ("notebooks", "book/assets"):
        shutil.copytree(PROJECT / name, root / name)
    for name in ("_config.yml", "requirements.txt"):
        shutil.copy(PROJECT / name, root / name)
    (root / "data/manuals/corpus").mkdir(parents=True)
    for file in files:
        shutil.copy(folder / file, root / "data/manuals/corpus")
    (root / "params/manuals").mkdir(parents=True)
    for name, values in params.items():
        (root / f"params/manuals/{name}.yml").write_text(yaml.safe_dump(values))
    (root / "book/index.md").write_text("# Manuals\n\nA throw-away study with templated questions.\n")
    (root / "book/_toc.yml").write_text("format: jb-book\nroot: index\nparts: []\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("files", nargs="*", default=list(MANUALS))
    parser.add_argument("--grid", action="store_true", help="three chunkers, five retrievers, two models, run twice")
    parser.add_argument("--keep", type=Path, help="leave the project and its site in this folder")
    arguments = parser.parse_args()
    root = (arguments.keep or Path(tempfile.mkdtemp())).resolve()
    make_project(root, arguments.folder, arguments.files, GRID if arguments.grid else PARAMS)
    os.environ["LOCALEVAL_ROOT"] = str(root)
    about()
    start = time.perf_counter()
    read = corpus.load(root / "data/manuals/corpus")
    questions = drafting.templated(read, per_document=20, unanswerable=10, seed=1)
    (root / "data/manuals/gold.jsonl").write_text(gold.dump(questions), encoding="utf-8")
    pages = sum(len(layout.pages) for layout in read.layouts.values())
    print(f"{pages} pages, {len(questions)} questions, read in {time.perf_counter() - start:.1f} s")
    if arguments.grid:
        twice(root)
    else:
        whole(root)
    if not arguments.keep:
        shutil.rmtree(root)


def twice(root: Path) -> None:
    """The sweep, and the sweep again with all its notebooks executed anew: what was embedded is counted by what the store grew."""
    store = root / "runs/.cache"
    size = lambda: sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    for number in (1, 2):
        start, before = time.perf_counter(), size() if store.exists() else 0
        run = root / build.run(root, "manuals")
        seconds, states = (
            time.perf_counter() - start,
            tables.read_csv(run / "30_sweep/runs.csv")["status"].value_counts(),
        )
        print(
            f"run {number}: {seconds:.0f} s, systems {states.to_dict()}, {size() - before:,} bytes added to the store"
        )
        shutil.rmtree(run)


def whole(root: Path) -> None:
    """All notebooks and the site."""
    run = build.run(root, "manuals")
    start = time.perf_counter()
    site = book.build(build.stage(root, root / "_build/stage"), root / "_build/html")
    print(f"site built in {time.perf_counter() - start:.1f} s; {len(book.check_links(site.parent))} problems")
    print(tables.read_csv(root / run / "10_ingest/documents.csv").to_string(index=False))
    for notebook in ("30_sweep", "40_rerank"):
        summary = tables.read_csv(root / run / notebook / "metrics.csv")
        metrics = ["p@1", "success@10", "evidence_recall@10", "evidence_ndcg@10"]
        print(views.wide_rules(summary, list(summary["rule"].unique()), metrics).to_string(index=False))
        print(views.stages(tables.read_csv(root / run / notebook / "latency.csv")).to_string(index=False))


if __name__ == "__main__":
    main()
