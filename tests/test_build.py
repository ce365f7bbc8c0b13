"""The execution contract: what runs, what does not, what stays whole when something breaks."""

from __future__ import annotations

import json
import re
import shutil

import pytest
import yaml

from localeval import build, chunking, grading, metrics, quality, records, stats, sweep, tables
from localeval.provenance import digest_path
from localeval.records import BadInput


def edit(path, **changes):
    given = yaml.safe_load(path.read_text()) or {}
    path.write_text(yaml.safe_dump(given | changes))


def keys(root, overrides=None):
    return {step.notebook: step.key for step in build.plan(root, "toy", overrides)}


def changed(before, after):
    return [name for name in before if before[name] != after[name]]


ALL = ["10_ingest", "20_gold", "30_sweep", "40_rerank", "50_statistics", "60_groundedness"]


def test_a_parameter_changes_what_depends_on_it_and_nothing_else(project):
    before = keys(project)
    edit(project / "params/toy/60_groundedness.yml", show=3)
    assert changed(before, keys(project)) == ["60_groundedness"]
    edit(project / "params/toy/30_sweep.yml", repeats=1)
    assert changed(before, keys(project)) == ["30_sweep", "50_statistics", "60_groundedness"]
    edit(project / "params/toy/10_ingest.yml", language="tr")
    assert changed(before, keys(project)) == ALL


def test_data_cells_pins_and_code_are_part_of_the_key(project):
    before = keys(project)
    gold = project / "data/toy/gold.jsonl"
    gold.write_text(gold.read_text().replace("How long must a roll bake?", "How long does a roll bake?"))
    assert changed(before, keys(project)) == ALL[1:]
    (project / "data/toy/corpus/new.txt").write_text("A third document.")
    assert changed(before, keys(project)) == ALL
    pinned = keys(project)
    (project / "requirements.txt").write_text("numpy==0\n")
    assert changed(pinned, keys(project)) == ALL


def test_where_results_go_is_not_a_parameter_of_a_study(project):
    edit(project / "params/toy/30_sweep.yml", run_dir="runs/elsewhere")
    with pytest.raises(BadInput, match="unknown 'run_dir'"):
        keys(project)


def test_keys_know_the_modules_a_notebook_imports():
    names = lambda notebook: {
        path.stem for path in build.imported_modules(build.read_source(tables.find_root(), notebook))
    }
    assert {"grading", "metrics", "sweep", "retrieval", "records"} <= names("30_sweep")
    assert {"retrieval", "sweep", "embedding", "build", "cli"}.isdisjoint(names("50_statistics"))
    assert "pdf" in names("10_ingest"), "modules imported inside functions count too"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("30_sweep.yml", "repeat: 3", r"params/toy/30_sweep.yml: unknown 'repeat' \(did you mean 'repeats'\?\)"),
        ("30_sweep.yml", "repeats: three", "params/toy/30_sweep.yml: 'repeats' must be int, found str 'three'"),
        ("30_sweep.yml", "repeats: true", "'repeats' must be int, found bool True"),
        ("30_sweep.yml", "retrievers: bm25", "'retrievers' must be list, found str 'bm25'"),
        ("30_sweep.yml", "a: [1", r"params/toy/30_sweep.yml: not YAML \(line 2\)"),
        ("30_sweep.yml", "repeats: 2\nrepeats: 3", "'repeats' is given twice"),
        ("30_sweep.yml", "settings: {k1: 1, k1: 2}", "'k1' is given twice"),
        ("30_sweep.yml", "? [a]\n: 1", "a name must be a plain word"),
        ("30_sweep.yml", "settings: &a {x: *a}", "refers to itself"),
        ("30_sweep.yml", "settings: " + "[" * 3000 + "]" * 3000, "nested too deeply"),
        ("30_sweep.yml", "study: other", "unknown 'study'"),
        ("30_sweep.yml", "- repeats", "expected 'name: value' lines, found list"),
        (
            "35_sweep.yml",
            "",
            r"params/toy/35_sweep.yml: no notebook notebooks/35_sweep.ipynb \(did you mean '30_sweep'\?\)",
        ),
    ],
)
def test_bad_parameter_files_are_named_before_anything_runs(project, file, text, message):
    (project / "params/toy" / file).write_text(text + "\n")
    with pytest.raises(BadInput, match=message) as error:
        build.run(project, "toy")
    assert "\n" not in str(error.value) and not (project / "runs").exists()


def test_an_empty_parameter_file_means_the_defaults(project):
    (project / "params/toy/60_groundedness.yml").write_text("")
    assert build.plan(project, "toy")[-1].parameters == {"study": "toy"}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: grading.known_rules(["section/contains"]),
            "rules: 'section/contains' ranks units that no chunker makes",
        ),
        (lambda: grading.known_rules(["chunk/holds"]), "unknown scoring rule 'chunk/holds'"),
        (lambda: metrics.known(["rr", "ndgc@10"]), "unknown metric 'ndgc@10'"),
        (
            lambda: chunking.chunk_corpus(None, {"section": 5}),
            "chunker 'section': expected {max_chars: 1500, overlap: 150}",
        ),
        (lambda: chunking.chunk_corpus(None, {}), "chunkers: name at least one"),
        (
            lambda: records.fill(quality.Thresholds, {"clean_fraction": "abc"}, "thresholds"),
            "thresholds: 'clean_fraction' must be float, found 'abc'",
        ),
        (lambda: records.fill(sweep.Settings, {"k1": True}, "settings"), "settings: 'k1' must be float, found True"),
        (
            lambda: records.fill(sweep.Settings, {"k2": 1.0}, "settings"),
            "settings: unknown 'k2'; known: tokeniser, k1, b",
        ),
        (
            lambda: sweep.with_rerankers([records.System("section", "bm25")], ["maxsim"], [10]),
            "rerankers: maxsim compares vectors of a model, and section/bm25 has none",
        ),
        (lambda: sweep.grid(["section"], ["bm25"], [], -3), "depth=-3: keep at least 1 hit"),
        (lambda: stats.compare_designated(None, [["p@1", "chunk/contains"]], "human"), "comparisons: entry 1 must be"),
    ],
)
def test_values_that_cannot_be_are_named(ask, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        ask()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"headline_metric": "ndcg@ten"}, "unknown metric 'ndcg@ten'"),
        ({"chunkers": "{section: 5}"}, "chunker 'section': expected"),
        ({"repeats": "0"}, "repeats=0: every question must be asked at least once"),
    ],
)
def test_values_out_of_range_stop_a_run_by_name(executed, tmp_path, overrides, message):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    with pytest.raises(BadInput, match=re.escape(message)):
        build.run(root, "toy", overrides=overrides, say=lambda text: None)


def test_a_change_behind_a_linked_folder_is_seen_and_a_circle_ends(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/tea.md").write_text("tea")
    (tmp_path / "corpus/linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "corpus")
    before = digest_path(tmp_path / "corpus")
    (tmp_path / "elsewhere/tea.md").write_text("coffee")
    assert digest_path(tmp_path / "corpus") != before


def test_what_was_changed_after_the_run_is_not_published(executed, tmp_path):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    table = root / "runs/toy/base/50_statistics/comparisons.csv"
    table.write_text(table.read_text().replace("0.", "1.", 1))
    with pytest.raises(BadInput, match="comparisons.csv: changed after it was written"):
        build.publish(root, "toy", say=lambda text: None)
    assert not (root / "results/toy").exists() and not (root / "book/toy").exists()


def test_a_page_and_artefacts_of_two_runs_are_told_apart(executed, tmp_path):
    """Both have the same key, since nothing but the clock differs; only the signed content shows it."""
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    build.publish(root, "toy", say=lambda text: None)
    kept = (root / "book/toy/30_sweep.ipynb").read_bytes()
    shutil.rmtree(root / "runs/toy/base/30_sweep")
    build.run(root, "toy", say=lambda text: None)
    build.publish(root, "toy", say=lambda text: None)
    assert build.check(root, "toy") == []
    (root / "book/toy/30_sweep.ipynb").write_bytes(kept)
    assert any("30_sweep.ipynb: not as it was executed" in line for line in build.check(root, "toy"))
    left = root / "runs/.publish-killed"
    left.mkdir()
    (root / "results/toy/99_gone").mkdir()
    build.publish(root, "toy", say=lambda text: None)
    assert not left.exists() and not (root / "results/toy/99_gone").exists()


def test_weights_anywhere_they_are_looked_for_change_the_key(project, tmp_path, monkeypatch):
    monkeypatch.delenv("LOCALEVAL_MODELS", raising=False)
    edit(project / "params/toy/30_sweep.yml", models=["bge-small"])
    key = lambda: {step.notebook: step.key for step in build.plan(project, "toy")}["30_sweep"]
    keys = [key()]
    for folder in (project / "models/bge-small", tmp_path / "elsewhere/bge-small"):
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(folder.as_posix().encode())
        if folder.parent.name == "elsewhere":
            monkeypatch.setenv("LOCALEVAL_MODELS", str(folder.parent))
        keys.append(key())
    assert len(set(keys)) == 3


def test_one_rule_and_three_origins_make_pages_too(project):
    gold = project / "data/toy/gold.jsonl"
    rows = [json.loads(line) for line in gold.read_text().splitlines()]
    rows += [row | {"query_id": f"d{n}", "origin": "drafted"} for n, row in enumerate(rows) if row["evidence"]]
    gold.write_text("\n".join(map(json.dumps, rows)))
    edit(project / "params/toy/20_gold.yml", templated={"per_document": 2})
    build.run(project, "toy", "40_rerank", say=lambda text: None)
    build.run(project, "toy", "40_rerank", {"rules": "[chunk/contains]"}, say=lambda text: None)
