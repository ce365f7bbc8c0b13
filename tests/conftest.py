"""A throw-away project around the toy study: two short documents, BM25 only, eight notebooks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

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


GUARD = """
import os, socket
LOG = os.environ["CONNECTIONS_LOG"]

def note(what):
    with open(LOG, "a") as log:
        log.write(what + "\\n")

_connect, _lookup = socket.socket.connect, socket.getaddrinfo

def connect(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(("127.", "::1", "localhost")):
        note(f"connect {address}")
        raise OSError("no network in this test")
    return _connect(self, address)

def getaddrinfo(host, *rest, **more):
    if host not in (None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0"):
        note(f"look up {host}")
        raise OSError("no network in this test")
    return _lookup(host, *rest, **more)

socket.socket.connect, socket.getaddrinfo = connect, getaddrinfo
"""

settings.register_profile("localeval", deadline=None)  # a first example may load a library, on a busy machine slowly
settings.load_profile("localeval")


@dataclass(frozen=True)
class Offline:
    """An environment in which no process can reach another machine, and the file that says which tried."""

    environment: dict
    log: Path


@pytest.fixture(scope="session")
def offline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guard")
    (folder / "sitecustomize.py").write_text(GUARD)
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))
    log = folder / "connections.log"
    return Offline(os.environ | {"PYTHONPATH": path, "CONNECTIONS_LOG": str(log)}, log)


@pytest.fixture(scope="session")
def executed(tmp_path_factory, offline):
    """The toy study executed once for the whole session, cut off from the network; not to be written to. With it, what was said."""
    root = make_project(tmp_path_factory.mktemp("toy") / "project")
    environment = offline.environment | {"LOCALEVAL_ROOT": str(root)}
    command = [sys.executable, "-m", "localeval", "run", "toy"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root, done.stdout.splitlines()


@pytest.fixture
def tiny_bert(tmp_path):
    """Makes a BERT of random weights in a folder, with the files that real weights have: `tiny_bert("BertModel")` -> folder, model.

    The kind is a class of transformers; more: settings of its configuration. Its words are few, and it reads 64 tokens.
    """

    def make(kind: str, **more):
        torch = pytest.importorskip("torch")
        import transformers

        torch.manual_seed(0)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tea", "kiln", "fire", "pot"]
        (tmp_path / "vocab.txt").write_text("\n".join(words))
        transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
        size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        shape = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=64, **size, **more)
        model = getattr(transformers, kind)(shape).eval()
        model.save_pretrained(tmp_path)
        return tmp_path, model

    return make


def pytest_collection_modifyitems(items):
    """Tests that share something slow to make run in the same process: the toy study, else what their file makes."""
    for item in items:
        shared = "toy" if "executed" in item.fixturenames else item.path.stem
        item.add_marker(pytest.mark.xdist_group(shared))
