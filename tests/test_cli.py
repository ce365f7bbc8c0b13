"""The command line as a person meets it: help that teaches, one line for bad input, exit codes that mean something."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from localeval import build, cli


def call(root, *words, **environment):
    command = [sys.executable, "-m", "localeval", *words]
    env = os.environ | environment | {"LOCALEVAL_ROOT": str(root)}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


def test_help_teaches_and_names_the_exit_codes(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0
    for word in ("run", "book", "check", "list", "doctor", "a first afternoon", "exit codes"):
        assert word in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "toi"], "params/toi: no such study (did you mean 'toy'?)"),
        (["run", "toy", "-p", "repeats"], "-p repeats: expected NAME=VALUE"),
        (["run", "toy", "-p", "repeat=1"], "no notebook of this study declares it (did you mean 'repeats'?)"),
        (["run", "toy", "30_sweep", "--publish"], "--publish: only a whole study"),
        (["run", "toy", "-p", "corpus=data/none"], "data/none: no such folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(project, words, message):
    done = call(project, *words)
    problem = [line for line in done.stderr.splitlines() if line.startswith("localeval: ")]
    assert done.returncode == 2 and len(problem) == 1 and message in problem[0]
    assert "Traceback" not in done.stderr


def test_outside_a_project_it_says_so(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "localeval", "list"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={k: v for k, v in os.environ.items() if k != "LOCALEVAL_ROOT"},
    )  # fmt: skip
    assert done.returncode == 2 and "not inside a localeval project" in done.stderr


def test_a_bad_document_stops_the_run_by_name_and_leaves_nothing(project):
    (project / "data/toy/corpus/page.pdf").write_bytes(b"<html><body>saved as pdf</body></html>")
    done = call(project, "run", "toy", "10_ingest")
    (problem,) = [line for line in done.stderr.splitlines() if line.startswith("localeval: ")]
    assert done.returncode == 2 and "page.pdf: not a PDF" in problem and "Traceback" not in done.stderr
    visible = [path.name for path in (project / "runs/toy/base").iterdir() if not path.name.startswith(".")]
    assert visible == []


def test_a_whole_run_opens_no_connection(executed, offline):
    """Also in the kernels and their children, which inherit the guard; and a BM25-only study imports no heavy engine."""
    assert not offline.log.exists(), offline.log.read_text()
    records = list((executed[0] / "runs/toy/base").glob("*/provenance.json"))
    assert len(records) == 8
    for record in records:
        assert '"engines_imported": []' in record.read_text(), record


def test_the_guard_itself_can_fail(offline, tmp_path):
    probe = "import socket; socket.getaddrinfo('example.org', 80)"
    log = tmp_path / "connections.log"
    environment = offline.environment | {"CONNECTIONS_LOG": str(log)}
    done = subprocess.run([sys.executable, "-c", probe], check=False, capture_output=True, env=environment)
    assert done.returncode != 0 and "look up example.org" in log.read_text()


@pytest.mark.slow
def test_a_run_with_the_embedded_model_opens_no_connection(project, offline):
    words = ["-p", "retrievers=[bm25, dense, hybrid]", "-p", "models=[minilm, bge-small]"]
    done = call(project, "run", "toy", "30_sweep", *words, **offline.environment)
    assert done.returncode == 0, done.stderr
    assert not offline.log.exists(), offline.log.read_text()
    (runs,) = (project / "runs/toy").glob("models=*/30_sweep/runs.csv")
    rows = runs.read_text().splitlines()
    assert sum(",ok," in row for row in rows) == 6 and sum(",not_run," in row for row in rows) == 4


def test_book_and_check_and_list(executed, tmp_path, monkeypatch, capsys):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))
    assert cli.main(["list"]) == 0
    assert "30_sweep           local: fresh      published: not run" in capsys.readouterr().out
    assert cli.main(["book"]) == 0
    assert f"open {root / '_build/html/index.html'}" in capsys.readouterr().out
    page = (root / "_build/html/toy/30_sweep.html").read_text()
    assert "Local run of toy, executed on" in page and "section/bm25" in page
    assert cli.main(["book"]) == 0 and "nothing changed" in capsys.readouterr().out
    (root / "_build/html/toy/30_sweep.html").unlink()
    assert cli.main(["book"]) == 0 and (root / "_build/html/toy/30_sweep.html").is_file(), (
        "a page that is gone comes back"
    )
    assert cli.main(["run", "toy", "--publish"]) == 0
    assert cli.main(["check"]) == 0, capsys.readouterr().out
    assert "check: 0 problems, 0 pages not fresh; good" in capsys.readouterr().out
    (root / "requirements.txt").write_text("numpy==0\n")
    assert cli.main(["check"]) == 0 and "8 pages not fresh" in capsys.readouterr().out
    assert cli.main(["check", "--strict"]) == 1
    metrics = root / "results/toy/30_sweep/metrics.csv"
    table = pd.read_csv(metrics)
    table.assign(mean=table["mean"] / 2).to_csv(metrics, index=False)
    (root / "book/index.md").write_text("# Toy\n\nIt found 97 percent.\n")
    capsys.readouterr()
    assert cli.main(["check"]) == 1
    said = capsys.readouterr().out
    assert "does not re-derive" in said and "book/index.md" in said and str(root) not in said


def test_doctor_names_what_is_missing(project, capsys, monkeypatch):
    monkeypatch.delenv("LOCALEVAL_MODELS", raising=False)
    (project / "requirements.txt").write_text("numpy==0.0.1\nno-such-package==1.0\n")
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "no-such-package 1.0: not installed" in said and "0.0.1 pinned" in said and "models/bge-small" in said


def test_an_interrupted_run_keeps_what_was_finished(executed, tmp_path, monkeypatch, capsys):

    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))
    (root / "runs/toy/base/60_abstention.ipynb").unlink()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "execute", interrupt)
    assert cli.main(["run", "toy"]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))
    assert cli.main(["run", "toy"]) == 0
    assert "1 of 8 notebooks executed" in capsys.readouterr().out


def test_what_nothing_uses_and_what_is_given_twice_is_refused(project, capsys):
    assert cli.main(["run", "toy", "20_gold", "-p", "repeats=0"]) == 2
    assert "-p repeats: 10_ingest and 20_gold do not use it" in capsys.readouterr().err
    assert cli.main(["run", "toy", "-p", "repeats=1", "-p", "repeats=2"]) == 2
    assert "-p repeats: given twice; keep one" in capsys.readouterr().err
    assert not (project / "runs").exists()


def test_all_studies_run_but_those_whose_files_were_not_fetched(project, monkeypatch, capsys):
    shutil.copytree(project / "params/toy", project / "params/fetched")
    (project / "params/fetched/10_ingest.yml").write_text("corpus: data/fetched/corpus\n")
    (project / "data/fetched").mkdir()
    lock = {"fetch": "python data/fetched/fetch.py", "files": [{"file": "a.pdf", "sha256": "0" * 64}]}
    (project / "data/fetched/corpus.lock.json").write_text(json.dumps(lock))
    ran = []
    monkeypatch.setattr(build, "execute", lambda root, folder, step: ran.append(step))
    monkeypatch.setattr(build, "_needed", lambda steps, only: [step for step in steps if step.notebook == only])
    assert cli.main(["run", "all", "10_ingest"]) == 0
    said = capsys.readouterr().out
    assert "fetched: not run; data/fetched/corpus: 1 of 1 files are missing" in said
    assert "fetch them: python data/fetched/fetch.py" in said and len(ran) == 1
    assert cli.main(["run", "fetched", "10_ingest"]) == 2
