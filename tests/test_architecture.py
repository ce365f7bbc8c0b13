"""The structure holds: imports run one way, heavy engines load late, every public thing says what it is."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from localeval.metrics import ASKS, METRICS

PROJECT = Path(__file__).resolve().parents[1]
SOURCE = PROJECT / "src" / "localeval"
MODULES = sorted(path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__"))

# What a module may import from localeval; everything may import records.
ALLOWED = {
    "records": set(),
    "provenance": set(),
    "tokens": set(),
    "corpus": {"pdf"},
    "layout": {"corpus"},
    "child": set(),
    "pdfchild": {"child", "corpus", "layout"},
    "pagecache": set(),
    "pdf": {"child", "corpus", "layout", "pagecache", "pdfchild"},
    "converters": {"child", "corpus", "layout", "quality"},
    "quality": {"corpus"},
    "scans": {"child"},
    "ocr": {"corpus", "layout", "quality", "scans"},
    "engines": {"child", "layout", "ocr", "rapid"},
    "rapid": {"child"},
    "chunking": {"corpus", "tokens"},
    "embedding": set(),
    "retrieval": set(),
    "approximate": {"vectors"},
    "lexical": {"retrieval", "tokens"},
    "packaged": {"embedding"},
    "learned": {"embedding", "lexical", "retrieval", "vectors"},
    "vectors": {"embedding"},
    "rerank": {"embedding", "retrieval", "vectors"},
    "crossencoder": {"embedding", "onnxmodel", "rerank"},
    "pointwise": {"gguf", "rerank"},
    "preview": {"crossencoder", "embedding"},
    "onnxmodel": {"embedding", "vectors"},
    "gold": {"chunking", "corpus", "provenance", "tokens"},
    "drafting": {"chunking", "corpus", "gold", "tokens"},
    "grading": set(),
    "metrics": set(),
    "judgements": {"corpus", "gold", "provenance"},
    "holes": {"corpus", "grading", "judgements", "metrics"},
    "trec": {"metrics"},
    "stats": set(),
    "clusters": {"stats"},
    "equivalence": {"stats"},
    "ranking": {"stats"},
    "recommend": {"equivalence", "ranking", "stats"},
    "simulation": {"abstention", "clusters", "sequential", "stats"},
    "published": {"stats"},
    "certainty": {"chunking", "corpus", "grading", "retrieval", "tokens"},
    "abstention": {"stats"},
    "prompts": set(),
    "replies": set(),
    "endpoint": {"replies"},
    "gguf": {"replies"},
    "answering": {"chunking", "tokens"},
    "groundedness": {"abstention", "answering", "endpoint", "gguf", "prompts", "stats"},
    "handcheck": {"abstention", "groundedness"},
    "tables": {"corpus", "gold", "provenance"},
    "systems": {
        "approximate",
        "chunking",
        "corpus",
        "crossencoder",
        "embedding",
        "grading",
        "learned",
        "lexical",
        "onnxmodel",
        "packaged",
        "pointwise",
        "rerank",
        "retrieval",
        "tokens",
        "vectors",
    },
    "sweep": {"approximate", "corpus", "embedding", "grading", "lexical", "retrieval", "systems", "tables", "tokens"},
    "arms": {"grading", "lexical", "metrics", "retrieval", "stats", "sweep", "systems", "tokens"},
    "pricing": {"metrics", "stats", "sweep", "systems"},
    "twins": {"corpus", "gold", "layout", "ocr", "pdf", "quality"},
    "strata": {"corpus", "quality"},
    "damage": {"chunking", "corpus", "grading", "metrics", "stats", "strata", "sweep", "systems", "twins", "vectors"},
    "generation": {
        "answering",
        "corpus",
        "endpoint",
        "gguf",
        "groundedness",
        "prompts",
        "replies",
        "stats",
        "strata",
        "tables",
    },
    "figures": set(),
    "pagefigures": {"figures"},
    "pricefigures": {"figures"},
    "damagefigures": {"figures"},
    "statfigures": {"figures"},
    "answerfigures": {"figures"},
    "report": {"figures"},
    "planning": {"clusters", "metrics", "stats"},
    "calibration": {"corpus", "figures", "quality", "stats"},
    "views": {"figures", "metrics", "report", "stats"},
    "pricetables": {"figures", "views"},
    "damagetables": {"figures", "report", "views"},
    "stattables": {
        "clusters",
        "equivalence",
        "figures",
        "metrics",
        "recommend",
        "report",
        "simulation",
        "stats",
        "views",
    },
    "answertables": {"figures", "report", "stats", "views"},
    "depth": {"metrics", "stats"},
    "build": {"metrics", "provenance", "stats", "tables"},
    "sequential": set(),
    "gate": {"metrics", "provenance", "sequential", "stats"},
    "baseline": {"build", "corpus", "gate", "gold", "grading", "metrics", "provenance", "tables"},
    "gatereport": {"baseline", "build", "gate", "metrics", "provenance", "sequential"},
    "leaderboard": {
        "baseline",
        "build",
        "corpus",
        "embedding",
        "gate",
        "gatereport",
        "gold",
        "grading",
        "holes",
        "judgements",
        "metrics",
        "provenance",
        "ranking",
        "report",
        "stats",
        "systems",
        "tables",
    },
    "book": set(),
    "commands": {"corpus", "judgements", "metrics", "pdf", "quality", "stats", "tables", "trec"},
    "cli": {"book", "build", "commands", "embedding", "engines", "gatereport", "leaderboard", "provenance", "tables"},
}
HEAVY = {
    "torch",
    "faiss",
    "pymupdf",
    "sentence_transformers",
    "transformers",
    "matplotlib",
    "seaborn",
    "papermill",
    "bs4",
    "statsmodels",
    "scipy",
    "rank_bm25",
    "rapidfuzz",
    "myst_nb",
    "onnxruntime",
    "llama_cpp",
}


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = node.module.split(".")
            if parts[0] == "localeval":
                yield from (
                    [("localeval", parts[1])] if len(parts) > 1 else [("localeval", alias.name) for alias in node.names]
                )
            else:
                yield parts[0], ""
        elif isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], "") for alias in node.names)


@pytest.mark.parametrize("module", MODULES)
def test_imports_run_one_way(module):
    own = {
        name for package, name in imports(ast.parse((SOURCE / f"{module}.py").read_text())) if package == "localeval"
    }
    assert own - {"records", "__version__"} <= ALLOWED[module]


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"build"}))
def test_heavy_packages_are_imported_where_they_are_used(module):
    tree = ast.parse((SOURCE / f"{module}.py").read_text())
    top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    assert {package for package, _ in imports(top)}.isdisjoint(HEAVY)


def test_the_whole_package_imports_without_heavy_engines():
    code = f"""import importlib, sys
for module in {MODULES!r}:
    importlib.import_module("localeval." + module)
assert not {{"torch", "faiss", "pymupdf"}} & set(sys.modules)"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", MODULES)
def test_public_things_have_docstrings(module):
    tree = ast.parse((SOURCE / f"{module}.py").read_text())
    assert ast.get_docstring(tree), module
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and module != "metrics":
            lines = node.end_lineno - node.lineno
            assert ast.get_docstring(node) or lines < 8, f"{module}.{node.name}"


@pytest.mark.parametrize("module", MODULES)
def test_functions_stay_small(module):
    for node in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 56, f"{module}.{node.name}"


def test_every_metric_is_explained():
    glossary = (PROJECT / "book" / "glossary.md").read_text()
    assert set(METRICS) == set(ASKS)
    for name in METRICS:
        assert re.search(rf"^`{name}[@`]", glossary, re.M), name


def test_every_module_is_in_the_reading_order():
    import localeval

    listed = re.findall(r"^(?:\w+ +| {4,})(\w+(?:, \w+)*,?)$", localeval.__doc__, flags=re.M)
    assert sorted(name for line in listed for name in re.findall(r"\w+", line)) == MODULES


def test_requirements_are_pinned():
    lines = [
        line for line in (PROJECT / "requirements.txt").read_text().splitlines() if line and not line.startswith("#")
    ]
    assert lines and all(re.fullmatch(r"[\w.-]+==[\w.!]+", line) for line in lines)


def test_the_engines_are_told_to_report_nothing():
    """ONNX Runtime reads the variable when it is loaded, so it must stand before any module of the package can load it."""
    code = "import os, localeval.onnxmodel; print(os.environ['ORT_DISABLE_TELEMETRY'], 'onnxruntime' in __import__('sys').modules)"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["1", "False"]
