"""The execution contract: what runs, what does not, what stays whole when something breaks."""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import nbformat
import pytest
import yaml

from localeval import build, chunking, grading, metrics, quality, records, stats, tables
from localeval.provenance import digest_path
from localeval.records import BadInput
from localeval.systems import Settings, grid, with_rerankers


def edit(path, **changes):
    given = yaml.safe_load(path.read_text()) or {}
    path.write_text(yaml.safe_dump(given | changes))


def keys(root, overrides=None):
    return {step.notebook: step.key for step in build.plan(root, "toy", overrides)}


def changed(before, after):
    return [name for name in before if before[name] != after[name]]


ALL = [
    "10_ingest",
    "20_gold",
    "30_sweep",
    "40_rerank",
    "50_statistics",
    "52_ranking",
    "60_abstention",
    "65_groundedness",
]


def test_a_parameter_changes_what_depends_on_it_and_nothing_else(project):
    before = keys(project)
    edit(project / "params/toy/60_abstention.yml", show=3)
    assert changed(before, keys(project)) == ["60_abstention"]
    edit(project / "params/toy/30_sweep.yml", repeats=1)
    assert changed(before, keys(project)) == [
        "30_sweep",
        "50_statistics",
        "52_ranking",
        "60_abstention",
        "65_groundedness",
    ]
    edit(project / "params/toy/10_ingest.yml", language="tr")
    assert changed(before, keys(project)) == ALL


def test_data_cells_pins_and_code_are_part_of_the_key(project):
    before = keys(project)
    gold = project / "data/toy/gold.jsonl"
    gold.write_text(gold.read_text().replace("How long must a roll bake?", "How long does a roll bake?"))
    assert changed(before, keys(project)) == ALL[1:]
    asked = keys(project)
    (project / "data/toy/judgments.jsonl").write_text("")  # no parameter names it; the notebooks say that they open it
    assert changed(asked, keys(project)) == ALL[2:]
    (project / "data/toy/corpus/new.txt").write_text("A third document.")
    assert changed(before, keys(project)) == ALL
    pinned = keys(project)
    (project / "requirements.txt").write_text("numpy==0\n")
    assert changed(pinned, keys(project)) == ALL


def lock(root, **files):
    """A lock beside the toy corpus; the files by name, with the content they ought to have."""
    rows = [{"file": name, "sha256": hashlib.sha256(text.encode()).hexdigest()} for name, text in files.items()]
    told = {"fetch": "python data/toy/fetch.py", "files": rows}
    (root / "data/toy/corpus.lock.json").write_text(json.dumps(told))


def test_a_folder_that_is_fetched_counts_as_its_lock(project):
    before = keys(project)
    lock(project, **{"a.md": "# One"})
    locked = keys(project)
    assert changed(before, locked) == ALL
    shutil.rmtree(project / "data/toy/corpus")  # a fresh clone, where nobody fetched it
    assert keys(project) == locked
    lock(project, **{"a.md": "# Another"})
    assert changed(locked, keys(project)) == ALL


def test_a_fetched_folder_must_hold_what_its_lock_names(project):
    corpus = project / "data/toy/corpus"
    lock(project, **{"a.md": "# One", "b.md": "# Two"})
    shutil.rmtree(corpus)
    with pytest.raises(
        BadInput, match=r"^data/toy/corpus: 2 of 2 files .* \(a.md\); fetch them: python data/toy/fetch.py$"
    ):
        build.run(project, "toy", only="10_ingest", say=lambda text: None)
    corpus.mkdir()
    (corpus / "a.md").write_text("# One")
    (corpus / "b.md").write_text("# Changed")
    with pytest.raises(BadInput, match=r"1 of 2 files .* \(b.md\)"):
        build.check_fetched(project, {"corpus": "data/toy/corpus"})
    (corpus / "b.md").write_text("# Two")
    build.check_fetched(project, {"corpus": "data/toy/corpus", "study": "toy", "strict": True})
    (corpus / "c.md").write_text("# Three")
    with pytest.raises(BadInput, match=r"corpus/c.md: not in corpus.lock.json"):
        build.check_fetched(project, {"corpus": "data/toy/corpus"})


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
        ("30_sweep.yml", "rules: [1]", "30_sweep.yml: 'rules' is a list of str, and holds int 1"),
        ("40_rerank.yml", "depths: [10, 2.5]", "40_rerank.yml: 'depths' is a list of int, and holds float 2.5"),
        (
            "60_abstention.yml",
            "floors: [1, .nan]",
            "60_abstention.yml: 'floors' is a list of float, and holds float nan",
        ),
        ("52_ranking.yml", "systems: [[a]]", r"52_ranking.yml: 'systems' is a list of str, and holds list \['a'\]"),
        ("30_sweep.yml", "quotes: [a/bm25]", r"'quotes' is a list of \[system, rule, metric\], and holds str 'a/bm25'"),
        ("50_statistics.yml", "comparisons: [[rr, a/bm25]]", "'comparisons' is a list of .*, and holds list"),
        ("52_ranking.yml", "margin: .inf", "52_ranking.yml: 'margin' is inf; write a number"),
        ("30_sweep.yml", "settings: {1: 2}", "'settings' holds the name 1, which is no text; quote it"),
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
    (project / "params/toy/60_abstention.yml").write_text("")
    (step,) = [step for step in build.plan(project, "toy") if step.notebook == "60_abstention"]
    assert step.parameters == {"study": "toy"}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"repeat": "3"}, r"-p repeat: no notebook of this study declares it \(did you mean 'repeats'\?\)"),
        ({"repeats": "many"}, "-p repeats=many: 'repeats' must be int, found str 'many'"),
        ({"run_dir": "x"}, "-p run_dir: no notebook of this study declares it"),
        ({"rules": "[a"}, "the value is not YAML"),
        ({"rules": "[null]"}, "-p: 'rules' is a list of str, and holds NoneType None"),
    ],
)
def test_bad_overrides_are_named(project, overrides, message):
    with pytest.raises(BadInput, match=message):
        build.plan(project, "toy", overrides)


def test_unknown_studies_and_notebooks_are_named(project):
    with pytest.raises(BadInput, match="no such study"):
        build.run(project, "../params/toy")
    with pytest.raises(BadInput, match=r"params/toi: no such study \(did you mean 'toy'\?\)"):
        build.run(project, "toi")
    with pytest.raises(BadInput, match=r"30_swep: not a notebook of this study \(did you mean '30_sweep'\?\)"):
        build.run(project, "toy", "30_swep")
    (project / "params/toy/10_ingest.yml").unlink()
    with pytest.raises(BadInput, match="reads 10_ingest, which this study does not run; add params/toy/10_ingest.yml"):
        build.run(project, "toy")


def test_an_override_reaches_every_notebook_that_declares_it(project):
    steps = {step.notebook: step.parameters for step in build.plan(project, "toy", {"repeats": "1"})}
    assert steps["30_sweep"]["repeats"] == steps["40_rerank"]["repeats"] == 1
    assert "repeats" not in steps["50_statistics"]
    assert build.label({"repeats": "1"}) == "repeats=1" and build.label({}) == "base"
    assert build.label({"corpus": "a/b c"}) != build.label({"corpus": "a/b_c"}), "no two runs share a folder"


def test_the_whole_toy_study_runs_once(executed):
    root, said = executed
    assert said[-1] == "toy: 8 of 8 notebooks executed (runs/toy/base)"
    again = []
    build.run(root, "toy", say=again.append)
    assert again == ["toy: 0 of 8 notebooks executed (runs/toy/base)"]


def test_artefacts_have_their_frozen_columns(executed):
    folder = executed[0] / "runs/toy/base"
    elsewhere = {"worklist.csv"}  # of a notebook that the toy study does not run; test_holes looks at it
    for name, columns in ((name, columns) for name, columns in tables.COLUMNS.items() if name not in elsewhere):
        files = list(folder.glob(f"*/{name}"))
        assert files, name
        for file in files:
            packed = name.partition(".")[2].startswith("jsonl")
            got = tuple(next(tables.read_jsonl(file))) if packed else tuple(file.read_text().splitlines()[0].split(","))
            assert got[: len(columns)] == columns, file


def test_every_metric_re_derives_from_the_gains(executed):
    for notebook in ("30_sweep", "40_rerank"):
        assert build.rederive(executed[0] / "runs/toy/base" / notebook) == []


def test_a_number_that_was_touched_is_found(executed, tmp_path):
    results = tmp_path / "30_sweep"
    shutil.copytree(executed[0] / "runs/toy/base/30_sweep", results)
    frame = tables.read_csv(results / "metrics.csv")
    frame.loc[0, "mean"] += 0.001
    frame.to_csv(results / "metrics.csv", index=False)
    (problem,) = build.rederive(results)
    assert "mean does not re-derive from gains.jsonl.gz" in problem
    frame.drop(index=0).to_csv(results / "metrics.csv", index=False)
    assert build.rederive(results)[0].endswith("only in the gains")


def test_provenance_ties_results_to_pages_and_names_the_machine(executed):
    folder = executed[0] / "runs/toy/base"
    record = json.loads((folder / "30_sweep/provenance.json").read_text())
    assert record["key"] == build.key_of(folder / "30_sweep.ipynb")
    assert record["machine"]["cpu"] and record["machine"]["threads"]["OMP_NUM_THREADS"]
    assert record["versions"]["rank-bm25"] and str(executed[0]) not in json.dumps(record)


def test_publishing_and_what_the_check_then_finds(executed, tmp_path):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    build.publish(root, "toy", say=lambda text: None)
    assert build.check(root, "toy") == [] and build.stale(root, "toy") == []
    page = root / "book/toy/30_sweep.ipynb"
    assert str(root) not in page.read_text() and "run_dir" not in json.dumps(
        [
            cell["source"]
            for cell in json.loads(page.read_text())["cells"]
            if "injected-parameters" in cell["metadata"].get("tags", [])
        ]
    )
    edit(root / "params/toy/60_abstention.yml", show=3)
    assert build.stale(root, "toy") == ["book/toy/60_abstention.ipynb: older than its code, parameters or data"]
    with pytest.raises(BadInput, match="60_abstention not fresh"):
        build.publish(root, "toy")
    shutil.copy(root / "book/toy/20_gold.ipynb", page)
    assert any("not from the same run" in problem for problem in build.check(root, "toy"))


def test_gains_are_published_whatever_their_size_and_missed_when_gone(executed, tmp_path, monkeypatch):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    monkeypatch.setattr(build, "PUBLISHED_LIMIT", 100)
    build.publish(root, "toy", say=lambda text: None)
    results = root / "results/toy/30_sweep"
    assert {path.name for path in results.iterdir()} == {"gains.jsonl.gz", "metrics.csv", "provenance.json"}
    assert build.check(root, "toy") == []
    record = json.loads((results / "provenance.json").read_text())
    (results / "provenance.json").write_text(json.dumps(record | {"artefacts": []}))
    (results / "gains.jsonl.gz").unlink()
    assert any("nothing to derive it from" in problem for problem in build.check(root, "toy"))


def test_a_folder_named_without_a_slash_is_data_too(project):
    shutil.copytree(project / "data/toy/corpus", project / "docs")
    edit(project / "params/toy/10_ingest.yml", corpus="docs")
    before = keys(project)
    (project / "docs/tea.md").write_text("# Tea\n\nChanged.\n")
    assert changed(before, keys(project)) == ALL


def test_a_touched_page_and_a_removed_file_are_found(executed, tmp_path):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    build.publish(root, "toy", say=lambda text: None)
    page = root / "book/toy/30_sweep.ipynb"
    page.write_text(page.read_text().replace("section/bm25", "section/bm26"))
    (root / "results/toy/30_sweep/metrics.csv").rename(root / "results/toy/30_sweep/renamed.csv")
    (root / "results/toy/30_sweep/gains.jsonl.gz").unlink()
    found = "\n".join(build.check(root, "toy"))
    assert "30_sweep.ipynb: not as it was executed" in found
    assert "metrics.csv: missing" in found and "gains.jsonl.gz: missing" in found


def test_a_removed_artefact_or_a_broken_page_runs_its_notebook_again(executed, tmp_path):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    steps = {step.notebook: step for step in build.plan(root, "toy")}
    assert all(build.fresh(root, "runs/toy/base", step) for step in steps.values())
    (root / "runs/toy/base/10_ingest/units.jsonl").unlink()
    (root / "runs/toy/base/20_gold.ipynb").write_text("[1, 2")
    (root / "runs/toy/base/30_sweep.ipynb").write_text("[]")
    stale = [name for name, step in steps.items() if not build.fresh(root, "runs/toy/base", step)]
    assert stale == ["10_ingest", "20_gold", "30_sweep"]


def test_a_run_with_another_parameter_copies_what_is_the_same(executed, tmp_path):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    said = []
    build.run(root, "toy", overrides={"show": "1"}, say=said.append)
    assert said[-1] == "toy: 1 of 8 notebooks executed (runs/toy/show=1)"
    assert sum("as in the base run" in line for line in said) == 7
    staged = build.stage(root, tmp_path / "stage")
    captions = [part["caption"] for part in yaml.safe_load((staged / "book/_toc.yml").read_text())["parts"]]
    assert captions == ["toy", "toy with show = 1"]
    banner = lambda page: nbformat.read(staged / "book/toy" / page, as_version=4).cells[0].source.splitlines()[3]
    assert re.fullmatch(r"Local run of toy, executed on `[\d-]+`\.", banner("10_ingest.ipynb"))
    assert "Local run of toy with show = 1, executed on" in banner("show=1/10_ingest.ipynb")
    assert [path.name for path in build.variants(root, "toy")] == ["show=1"]
    edit(root / "params/toy/60_abstention.yml", metric="success@10")
    staged = build.stage(root, tmp_path / "stage")
    assert banner("10_ingest.ipynb").endswith("`.") and "have changed since" in banner("60_abstention.ipynb")


def test_a_broken_notebook_leaves_nothing_half_written(project):
    bad = project / "data/toy/gold.jsonl"
    bad.write_text(bad.read_text().replace("Pour water of 75", "Pour water of 85"))
    with pytest.raises(BadInput, match=r"gold.jsonl:1: query t1: quote not found in tea.md") as error:
        build.run(project, "toy", say=lambda text: None)
    assert "\n" not in str(error.value)
    left = sorted(path.name for path in (project / "runs/toy/base").iterdir() if not path.name.startswith("."))
    assert left == ["10_ingest", "10_ingest.ipynb"], "what was finished is kept, nothing else is visible"


def test_a_crash_names_its_cell_and_no_page_shows_it(project):
    source = project / "notebooks/10_ingest.ipynb"
    notebook = nbformat.read(source, as_version=4)
    notebook.cells.insert(-1, nbformat.v4.new_code_cell("1 / 0"))
    nbformat.write(notebook, source)
    with pytest.raises(RuntimeError, match=r"notebooks/10_ingest.ipynb cell \d+: ZeroDivisionError: division by zero"):
        build.run(project, "toy", say=lambda text: None)
    left = [path.name for path in (project / "runs/toy/base").glob("*.ipynb")]
    assert left == ["10_ingest.failed.ipynb"], "the trace, for whoever mends it"
    assert not list(build.stage(project, project / "stage").rglob("*.ipynb"))


def test_a_page_that_never_ran_is_no_result(project, monkeypatch):
    """papermill writes its output file first; without the kernel nothing in it was executed."""
    from jupyter_client.kernelspec import NoSuchKernel

    def execute(source, output, **options):
        shutil.copy(source, output)
        raise NoSuchKernel("python3")

    monkeypatch.setattr("papermill.execute_notebook", execute)
    with pytest.raises(NoSuchKernel):
        build.run(project, "toy", say=lambda text: None)
    assert not list((project / "runs").rglob("*.ipynb"))


def test_backslashes_in_a_parameter_stay_as_they_are():
    from papermill.parameterize import parameterize_notebook

    path = r"C:\Users\user1\new"
    assert build.parse_overrides({"corpus": path}, {"10_ingest": {"corpus": ""}}) == {"corpus": path}
    cells = [nbformat.v4.new_code_cell("corpus = ''", metadata={"tags": ["parameters"]})]
    kernel = {"name": "python3", "display_name": "Python 3"}
    plain = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "papermill": {}})
    injected = parameterize_notebook(plain, {"corpus": path}, kernel_name="python3", language="python")
    shown = build.tidy(nbformat.from_dict(injected), build.Step("toy", "10_ingest", {"corpus": path}, (), ""))
    for notebook in (injected, shown):
        (cell,) = [cell for cell in notebook.cells if "injected-parameters" in cell.metadata.tags]
        exec(cell.source, values := {})
        assert values["corpus"] == path


def test_the_project_is_found_from_any_folder_inside(project, monkeypatch):
    monkeypatch.delenv("LOCALEVAL_ROOT")
    assert tables.find_root(project / "data/toy/corpus") == project
    with pytest.raises(BadInput, match="not inside a localeval project"):
        tables.find_root(project.parent)


def test_results_are_the_same_twice(executed, tmp_path):
    """Hits, gains and statistics of a second run in another place are identical; timings are not asked to be."""
    from conftest import make_project

    root = make_project(tmp_path / "again")
    build.run(root, "toy", "40_rerank", say=lambda text: None)
    build.run(root, "toy", "50_statistics", say=lambda text: None)
    one, two = executed[0] / "runs/toy/base", root / "runs/toy/base"
    for name in (
        "30_sweep/hits.jsonl",
        "30_sweep/gains.jsonl.gz",
        "30_sweep/metrics.csv",
        "40_rerank/gains.jsonl.gz",
        "50_statistics/comparisons.csv",
    ):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_a_plain_study_of_ones_own_finishes(project):
    """Numeric ids, no unanswerable question, no comparison named, a comparison of systems that never ran: states, not crashes."""
    gold = project / "data/toy/gold.jsonl"
    rows = [json.loads(line) for line in gold.read_text().splitlines()]
    rows = [row | {"query_id": f"{n:03d}"} for n, row in enumerate(rows) if row["evidence"]]
    rows.append(
        {
            "query_id": "1",
            "text": "Which document is about tea?",
            "evidence": [{"doc_id": "tea.md", "kind": "document"}],
        }
    )
    gold.write_text("\n".join(map(json.dumps, rows)))
    missing = ["evidence_ndcg@10", "chunk/contains", "section/bm25", "section/hybrid:none"]
    edit(project / "params/toy/50_statistics.yml", comparisons=[missing])
    edit(
        project / "params/toy/30_sweep.yml",
        shown_systems=["section/dense:none"],
        quotes=[["x/y", "chunk/contains", "p@1"]],
    )
    build.run(project, "toy", say=lambda text: None)
    base = project / "runs/toy/base"
    abstention = tables.read_csv(base / "60_abstention/abstention.csv")
    assert set(abstention["n"]) == {len(rows) - 1} and set(abstention["unanswerable"]) == {0}, (
        "the document question has no chunk score"
    )
    assert abstention["auroc"].isna().all()
    page = (base / "50_statistics.ipynb").read_text().replace("<wbr>", "")
    assert "not run: no scores of section/hybrid:none" in page
    assert "001" in set(tables.read_csv(base / "30_sweep/scores.csv")["query_id"])
    build.run(project, "toy", overrides={"comparisons": "[]"}, say=lambda text: None)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("results/toy/50_statistics/comparisons.csv", lambda text: text.replace("better", "worse").replace("0.", "1.")),
        ("results/toy/60_abstention/abstention.csv", lambda text: text + "one,more,row\n"),
        ("results/toy/30_sweep/latency.csv", lambda text: text.replace(".", ",")),
        ("results/toy/30_sweep/metrics.csv", lambda text: "not a table"),
        ("results/toy/30_sweep/gains.jsonl.gz", lambda text: text[: len(text) // 2]),
        ("results/toy/30_sweep/gains.jsonl.gz", lambda text: "[1]\n"),
        ("results/toy/30_sweep/provenance.json", lambda text: "{"),
        ("book/toy/30_sweep.ipynb", lambda text: text.replace("Which chunker", "Which horse")),
        (
            "book/toy/30_sweep.ipynb",
            lambda text: text.replace('"k1": 1.5', '"k1": 1.6').replace('k1\\": 1.5', 'k1\\": 1.6'),
        ),
        ("book/toy/30_sweep.ipynb", lambda text: "[1, 2"),
    ],
)
def test_every_changed_byte_of_what_was_published_is_found(executed, tmp_path, file, change):
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    build.publish(root, "toy", say=lambda text: None)
    assert build.check(root, "toy") == [] and build.stale(root, "toy") == []
    text = (root / file).read_bytes().decode("latin-1")  # bytes as they are: some of the files are packed
    assert change(text) != text
    (root / file).write_bytes(change(text).encode("latin-1"))
    found = build.check(root, "toy")
    assert found and all(
        ("\n" not in line and "publish the study again" in line) or "re-derive" in line for line in found
    )


def test_a_copied_study_reads_its_own_data(project):
    shutil.copytree(project / "params/toy", project / "params/mine")
    with pytest.raises(BadInput, match=r"data/mine/corpus: no such folder"):
        build.run(project, "mine", say=lambda text: None)
    shutil.copytree(project / "data/toy", project / "data/mine")
    build.run(project, "mine", "20_gold", say=lambda text: None)
    step = build.plan(project, "mine")[0]
    assert step.parameters["corpus"] == "data/mine/corpus"
    (project / "data/mine/corpus/tea.md").write_text("# Tea\n\nAnother text.\n")
    assert build.plan(project, "mine")[0].key != step.key, "the study's own documents are part of its key"


def test_two_runs_into_one_folder_are_kept_apart(project):
    import filelock

    (project / "runs/toy/base").mkdir(parents=True)
    with (
        filelock.FileLock(project / "runs/toy/base/.lock"),
        pytest.raises(BadInput, match="another run is writing there"),
    ):
        build.run(project, "toy", say=lambda text: None)
    build.run(project, "toy", "10_ingest", say=lambda text: None)


def test_a_study_that_cannot_be_scored_says_why(project):
    edit(project / "params/toy/30_sweep.yml", retrievers=["dense"], models=["bge-small"])
    with pytest.raises(BadInput, match=r"none of 2 systems could run; the first: .*models/bge-small"):
        build.run(project, "toy", "30_sweep", say=lambda text: None)
    edit(project / "params/toy/30_sweep.yml", retrievers=["bm25"], models=[])
    gold = project / "data/toy/gold.jsonl"
    rows = [json.loads(line) for line in gold.read_text().splitlines()]
    gold.write_text("\n".join(json.dumps(row | {"evidence": []}) for row in rows))
    with pytest.raises(BadInput, match=r"gold.jsonl: no question has evidence"):
        build.run(project, "toy", "30_sweep", say=lambda text: None)
    whole = [{"doc_id": "tea.md", "kind": "document"}]
    gold.write_text("\n".join(json.dumps(row | {"evidence": whole}) for row in rows))
    with pytest.raises(BadInput, match=r"no question can be judged under chunk/contains: (\d+) of \1 have evidence"):
        build.run(project, "toy", "30_sweep", say=lambda text: None)


def test_a_sweep_of_fewer_systems_than_the_study_names_finishes(executed, tmp_path):
    """Comparisons, baseline and shown systems that a variant leaves out are states in its pages."""
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    edit(root / "params/toy/50_statistics.yml", explore_baseline="fixed/bm25-okapi")
    build.run(root, "toy", overrides={"retrievers": "[bm25]"}, say=lambda text: None)
    build.run(
        root,
        "toy",
        overrides={"comparisons": "[[evidence_ndcg@10, chunk/contains, fixed/bm24, section/bm25]]"},
        say=lambda text: None,
    )
    (folder,) = (path for path in build.variants(root, "toy") if path.name.startswith("comparisons"))
    table = tables.read_csv(folder / "50_statistics/comparisons.csv")
    assert table["reason"][0] == "no scores of fixed/bm24 (did you mean 'fixed/bm25'?)"


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
        (lambda: records.fill(Settings, {"k1": True}, "settings"), "settings: 'k1' must be float, found True"),
        (
            lambda: records.fill(Settings, {"k2": 1.0}, "settings"),
            "settings: unknown 'k2'; known: tokeniser, k1, b",
        ),
        (
            lambda: with_rerankers([records.System("section", "bm25")], ["maxsim"], [10]),
            "rerankers: maxsim compares vectors of a model, and section/bm25 has none",
        ),
        (lambda: grid(["section"], ["bm25"], [], -3), "depth=-3: keep at least 1 hit"),
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
        (
            {"chunker": "sections"},
            "chunker: unknown 'sections' (did you mean 'section'?); 10_ingest made section, fixed",
        ),
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
