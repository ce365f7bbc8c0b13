"""A throw-away project around the toy study: two short documents, BM25 only, all six notebooks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
TOY = Path(__file__).resolve().parent / "toy"


def make_project(root: Path) -> Path:
    """A project folder with our notebooks and requirements, the toy study, and a book of one page."""
    shutil.copytree(PROJECT / "notebooks", root / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(TOY / "params", root / "params")
    shutil.copytree(TOY / "data", root / "data")
    shutil.copytree(PROJECT / "book" / "assets", root / "book" / "assets")
    for name in ("_config.yml", "requirements.txt"):
        shutil.copy(PROJECT / name, root / name)
    (root / "book" / "index.md").write_text("# Toy report\n\nThe pages below were executed from the toy study.\n")
    (root / "book" / "_toc.yml").write_text("format: jb-book\nroot: index\nparts: []\n")
    return root


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A fresh toy project; the working directory and LOCALEVAL_ROOT point to it."""
    root = make_project(tmp_path / "project")
    monkeypatch.chdir(root)
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))
    return root


@pytest.fixture(scope="session")
def executed(tmp_path_factory):
    """The toy study executed once for the whole session; not to be written to. With it, what the run printed."""
    from localeval import build

    root, said = make_project(tmp_path_factory.mktemp("toy") / "project"), []
    build.run(root, "toy", say=said.append)
    return root, said
