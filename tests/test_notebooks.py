"""Source notebooks are thin and clean, and run under papermill alone."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from localeval import book, build, cli, tables
from localeval.records import BadInput

PROJECT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_source_notebooks_are_thin(path):
    assert book.check_source(path) == []
    assert book.check_prose([path]) == []


def test_the_notebooks_exist_and_read_only_earlier_ones():
    names = [path.stem for path in NOTEBOOKS]
    assert names == [
        "10_ingest",
        "15_quality",
        "20_gold",
        "30_sweep",
        "40_rerank",
        "41_price",
        "42_depth",
        "45_damage",
        "50_statistics",
        "52_ranking",
        "53_simulation",
        "54_published",
        "55_labels",
        "56_planning",
        "60_abstention",
        "65_groundedness",
    ]
    for path in NOTEBOOKS:
        source = build.read_source(PROJECT, path.stem)
        reads = source.metadata["localeval"]["reads"]
        assert all(read < path.stem for read in reads)
        code = "\n".join(cell.source for cell in source.cells if cell.cell_type == "code")
        opened = {name for name in names if f'"{name}"' in code} - {path.stem}
        through = {"10_ingest"} if "read_corpus(" in code else set()
        through |= {"20_gold"} if "read_queries(" in code else set()
        assert opened | through == set(reads), f"{path.stem} reads what it does not declare"


def test_notebooks_ask_for_the_kernel_that_every_machine_has():
    assert {build.read_source(PROJECT, path.stem).metadata["kernelspec"]["name"] for path in NOTEBOOKS} == {"python3"}


def test_every_parameter_says_its_type_and_meaning():
    for path in NOTEBOOKS:
        source = build.read_source(PROJECT, path.stem)
        (cell,) = [cell for cell in source.cells if "parameters" in cell.metadata.get("tags", [])]
        for line in cell.source.splitlines():
            assert "  # " in line and ":" in line.partition("  # ")[2], f"{path.stem}: {line}"


ODD = [
    ("55_labels", {"cut": 0}, "cut=0: must be a number of 1 or more"), ("55_labels", {"show": -1}, "show=-1: must be"),
    ("55_labels", {"listed": -1}, "listed=-1: must be a number of 0"), ("55_labels", {"robust_names": []}, "robust_names=[]: name"),
    ("56_planning", {"cuts": [0, -1]}, "cuts=[0, -1]: must be a number"), ("56_planning", {"margin": -0.1}, "margin=-0.1: must"),
    ("53_simulation", {"time_simulations": 0}, "time_simulations=0: must be"), ("53_simulation", {"seed": -1}, "seed=-1: must be"),
    ("50_statistics", {"n_resamples": 0}, "n_resamples=0: must be"), ("52_ranking", {"budget_ms": -1.0}, "budget_ms=-1.0: must be"),
    ("45_damage", {"metric_names": []}, "metric_names=[]: name at least one"), ("45_damage", {"seed": -1}, "seed=-1: must be"),
    ("41_price", {"ways": []}, "ways=[]: name at least one"), ("42_depth", {"allowed_loss": float("nan")}, "allowed_loss=nan: must be"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "odd", "said"), ODD)
def test_odd_parameters_are_refused_in_one_line_before_anything_is_read(name, odd, said, monkeypatch):
    monkeypatch.setattr(tables, "Run", lambda *about: pytest.fail("read too early"))
    code = [cell.source for cell in build.read_source(PROJECT, name).cells if cell.cell_type == "code"]
    values = {}
    exec(code[0], values)
    with pytest.raises(BadInput) as refused:
        exec(code[1], values | odd)
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)


def test_prose_pages_hold_no_typed_number():
    assert book.check_prose(sorted((PROJECT / "book").rglob("*.md"))) == []


def printed_commands():
    """Every `localeval` command that a page or the help prints, without its prompt and its remark."""
    pages = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "book").rglob("*.md"))]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()] + cli.EPILOG.splitlines()
    calls = (re.fullmatch(r"(?:\$ |  |(?=\.))(?:\.venv/bin/)?localeval ([a-z].*?)(?:   +.*)?", line) for line in lines)
    return sorted({call[1].partition(" #")[0].strip() for call in calls if call})


def test_printed_commands_work_as_printed():
    commands = printed_commands()
    assert {command.split()[0] for command in commands} >= {"run", "book", "check", "list", "doctor"}
    for command in commands:
        arguments = cli._parser().parse_args(shlex.split(command))
        if arguments.command is cli._run and arguments.study == "handbook":
            steps = build.plan(PROJECT, "handbook", dict(map(cli._assignment, arguments.parameter)))
            assert not arguments.notebook or arguments.notebook in [step.notebook for step in steps]


def test_papermill_alone_runs_a_notebook(project):
    """First from nothing: it says what to run. Then, with the base run there, it works and leaves that run untouched."""
    command = [
        sys.executable, "-m", "papermill", "notebooks/30_sweep.ipynb", "out.ipynb", "-f", "params/toy/30_sweep.yml",
        "-p", "study", "toy", "-p", "repeats", "1",
    ]  # fmt: skip
    alone = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert alone.returncode != 0 and "python -m localeval run toy 10_ingest" in alone.stderr
    build.run(project, "toy", "20_gold", say=lambda text: None)
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert tables.read_csv(project / "runs/toy/papermill/30_sweep/timings.csv")["repeat"].nunique() == 1
    assert not (project / "runs/toy/base/30_sweep").exists()
