"""Execution and freshness: which notebooks of a study must run, and running them.

A notebook runs for a study because `params/<study>/<notebook>.yml` exists. Its key is a hash of everything its result
depends on: its cells, its parameters, the keys of the notebooks it reads, the localeval modules it imports, the data its
parameters name, and the pinned requirements. Never of output bytes: timings vary.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from pprint import pformat

import filelock
import nbformat
import yaml

from localeval.provenance import digest, digest_json, digest_path
from localeval.records import BadInput, near
from localeval.tables import PUBLISHED_LIMIT

PLUMBING = ("run_dir",)  # parameters that say where, never what; not part of a key
TIMEOUT = 3600  # seconds one cell may take
LOCAL_ONLY = ("hits.jsonl",)  # large, and no published number needs it: the gains are enough
PROOF = ("gains.jsonl.gz", "metrics.csv", "comparisons.csv", "provenance.json")  # published whatever their size
NOT_NOTEBOOKS = ("gate",)  # files of params/<study>/ that are settings of a command
KEPT = ("baseline.json",)  # files of results/<study>/ that no notebook writes, and that outlive a publication
OVERRIDES = ".overrides.json"  # in the folder of a run: what was given with -p
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # for latencies that can be compared


@dataclass(frozen=True)
class Step:
    """One notebook of one study, with everything settled that decides whether it must run."""

    study: str
    notebook: str
    parameters: dict
    reads: tuple[str, ...]
    key: str


def studies(root: Path) -> list[str]:
    return sorted(folder.name for folder in (root / "params").iterdir() if any(folder.glob("*.yml")))


def notebooks(root: Path, study: str) -> list[str]:
    """Notebooks of a study, in order of their number."""
    files = (root / "params" / study).glob("*.yml") if study in studies(root) else ()
    names = sorted(path.stem for path in files if path.stem not in NOT_NOTEBOOKS)
    if not names:
        raise BadInput(
            f"params/{study}: no such study{near(study, studies(root))}; a study is a folder of .yml files there"
        )
    for name in names:
        if not (root / "notebooks" / f"{name}.ipynb").is_file():
            raise BadInput(f"params/{study}/{name}.yml: no notebook notebooks/{name}.ipynb{near(name, _sources(root))}")
    return names


def _sources(root: Path) -> list[str]:
    return sorted(path.stem for path in (root / "notebooks").glob("*.ipynb"))


def read_source(root: Path, name: str) -> nbformat.NotebookNode:
    try:
        return nbformat.read(root / "notebooks" / f"{name}.ipynb", as_version=4)
    except Exception:  # nbformat raises whatever its parsers do
        raise BadInput(f"notebooks/{name}.ipynb: not a readable notebook; write it again") from None


def defaults(notebook: nbformat.NotebookNode, where: str) -> dict:
    """Parameters a notebook declares, with their literal defaults, from its one cell tagged `parameters`."""
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise BadInput(f"{where}: needs exactly one cell tagged 'parameters', has {len(cells)}")
    found = {}
    for node in ast.parse(cells[0].source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                raise BadInput(f"{where}: parameter {node.targets[0].id!r} must be a literal") from None
    return found


def read_params(root: Path, study: str, notebook: str, declared: dict) -> dict:
    """The parameter file, checked against what the notebook declares: names, and types."""
    path = root / "params" / study / f"{notebook}.yml"
    where = path.relative_to(root).as_posix()
    try:
        given = yaml.load(path.read_text(encoding="utf-8-sig"), _Once)
    except UnicodeDecodeError as error:
        raise BadInput(f"{where}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise BadInput(
            f"{where}: not YAML{f' (line {mark.line + 1})' if mark else ''}: {getattr(error, 'problem', error)}"
        ) from None
    except RecursionError:
        raise BadInput(f"{where}: nested too deeply; parameters are flat lists and mappings") from None
    given = {} if given is None else given
    try:
        json.dumps(given, sort_keys=True, default=str)
    except (ValueError, TypeError, RecursionError):
        raise BadInput(
            f"{where}: refers to itself, or mixes names and numbers as keys; write plain lists and mappings"
        ) from None
    if not isinstance(given, dict):
        raise BadInput(f"{where}: expected 'name: value' lines, found {type(given).__name__}")
    check_types(given, declared, where)
    return given


class _Once(yaml.SafeLoader):
    """YAML in which a name given twice is an error, where the plain loader would keep the last."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for name, _ in node.value:
            plain = isinstance(name, yaml.ScalarNode)
            if not plain or name.value in seen:
                problem = f"{name.value!r} is given twice; keep one" if plain else "a name must be a plain word"
                raise yaml.constructor.ConstructorError(None, None, problem, name.start_mark)
            seen.add(name.value)
        return super().construct_mapping(node, deep)


def check_types(given: dict, declared: dict, where: str) -> None:
    """Refuses a name that is not declared and a value of another type than its default; `study` and `run_dir` are not for a file."""
    declared = {
        name: value for name, value in declared.items() if name not in ("study", *PLUMBING)
    }  # the folder's name says those
    for name, value in given.items():
        if name not in declared:
            raise BadInput(f"{where}: unknown {name!r}{near(str(name), declared)}; known: {', '.join(declared)}")
        wanted = type(declared[name])
        fits = isinstance(value, wanted) and not (isinstance(value, bool) and wanted is not bool)
        if not (fits or (wanted is float and type(value) is int) or declared[name] is None):
            raise BadInput(f"{where}: {name!r} must be {wanted.__name__}, found {type(value).__name__} {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(f"{where}: {name!r} is {value}; write a number")
        if isinstance(value, dict) and (odd := [key for key in value if not isinstance(key, str)]):
            raise BadInput(f"{where}: {name!r} holds the name {odd[0]!r}, which is no text; quote it")


def _check_lists(given: dict, source, where: str) -> None:
    """Refuses a list that holds something else than its comment in the notebook says: `list of str`, int or float, or lists of texts, as
    `list of [system, metric]`, with one further text at most."""
    (cell,) = (cell.source for cell in source.cells if "parameters" in cell.metadata.get("tags", []))
    for name, kind in re.findall(r"^(\w+) = .*  # list of (str|int|float|\[[\w, ]+\])", cell, re.M):
        odd = [one for one in given.get(name, ()) if not _is_kind(one, kind)]
        if odd:
            raise BadInput(f"{where}: {name!r} is a list of {kind}, and holds {type(odd[0]).__name__} {odd[0]!r}")


def _is_kind(value: object, kind: str) -> bool:
    if kind.startswith("["):
        texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
        return texts and 0 <= len(value) - len(kind.split(",")) <= 1
    return type(value) in {"str": (str,), "int": (int,), "float": (int, float)}[kind] and value == value


def plan(root: Path, study: str, overrides: dict[str, str] | None = None) -> list[Step]:
    """Every notebook of a study with its parameters and its key. Overrides reach every notebook that declares them."""
    names, steps = notebooks(root, study), {}
    sources = {name: read_source(root, name) for name in names}
    declared = {name: defaults(source, f"notebooks/{name}.ipynb") for name, source in sources.items()}
    overrides = parse_overrides(overrides or {}, declared)
    for name in names:
        given = read_params(root, study, name, declared[name])
        own, file = (
            {key: value for key, value in overrides.items() if key in declared[name]},
            f"params/{study}/{name}.yml",
        )
        _check_lists(given, sources[name], file)
        _check_lists(own, sources[name], "-p")
        given |= own
        given = {"study": study} | given if "study" in declared[name] else given
        given |= _own_data(declared[name] | given, study)
        reads = tuple(_facts(sources[name]).get("reads", ()))
        absent = [read for read in reads if read not in steps]
        if absent:
            missing = f"the notebook reads {absent[0]}, which this study does not run"
            raise BadInput(f"{file}: {missing}; add params/{study}/{absent[0]}.yml")
        key = _key(root, sources[name], declared[name] | given, [steps[read].key for read in reads])
        steps[name] = Step(study, name, given, reads, key)
    return list(steps.values())


def _facts(source) -> dict:
    """What a notebook says of itself: `reads`, the notebooks whose artefacts it opens; `data`, files it opens though no parameter names
    them, `{study}` standing for the study's name."""
    return source.metadata.get("localeval", {})


def _own_data(effective: dict, study: str) -> dict:
    """Parameters that name `{study}`, with the study's own name in its place."""
    texts = {name: value for name, value in effective.items() if isinstance(value, str)}
    return {name: value.replace("{study}", study) for name, value in texts.items() if "{study}" in value}


def parse_overrides(texts: dict[str, str], declared: dict[str, dict]) -> dict:
    """`-p k=v` values read as YAML and checked against every notebook that declares them; none declares it: an error."""
    own = ("study", *PLUMBING)
    known = {key: value for one in declared.values() for key, value in one.items() if key not in own}
    found = {}
    for key, text in texts.items():
        if key not in known:
            raise BadInput(f"-p {key}: no notebook of this study declares it{near(key, known)}")
        try:
            found[key] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise BadInput(f"-p {key}={text}: the value is not YAML; quote it") from None
        check_types({key: found[key]}, known, f"-p {key}={text}")
    return found


def _key(root: Path, source, effective: dict, keys: list[str]) -> str:
    cells = [(cell.cell_type, cell.source, sorted(cell.metadata.get("tags", []))) for cell in source.cells]
    parameters = {name: value for name, value in effective.items() if name not in PLUMBING}
    modules = sorted(imported_modules(source))
    named = {path: path.replace("{study}", effective.get("study", "")) for path in _facts(source).get("data", ())}
    pins = (root / "requirements.txt").read_bytes() if (root / "requirements.txt").is_file() else b""
    return digest(
        digest_json(cells), digest_json(parameters), *keys,
        *(part for path in modules for part in (path.name, path.read_bytes())),
        *(digest_path(path) for path in _data(root, parameters | named)), pins,
    )  # fmt: skip


def _data(root: Path, parameters: dict) -> Iterator[Path]:
    """Files and folders that parameters name, relative to the project, and the weights of models in lists of names.

    A folder that is fetched (`_lock`) is its lock: published pages stay fresh where nobody fetched it.
    """
    for value in parameters.values():
        if _lock(root, value):
            yield _lock(root, value)
        elif isinstance(value, str) and value and len(value) < 256 and "\n" not in value and (root / value).exists():
            yield root / value
        for name in value if isinstance(value, list) else ():
            for models in filter(None, (os.environ.get("LOCALEVAL_MODELS"), root / "models")):
                if isinstance(name, str) and name and (Path(models) / name / "model.safetensors").is_file():
                    yield Path(models) / name


def _lock(root: Path, value: object) -> Path | None:
    """The lock of a folder that is not part of the project: `<folder>.lock.json` names its files and how to fetch them."""
    path = root / f"{value}.lock.json" if isinstance(value, str) and value and len(value) < 256 else None
    return path if path and "\n" not in path.name and path.is_file() else None


class NotFetched(BadInput):
    """A study needs files that are no part of the project and are not here."""


def check_fetched(root: Path, parameters: dict) -> None:
    """Raises `NotFetched` or `BadInput` unless every folder that has a lock holds the files that it names, and no others."""
    for value in parameters.values():
        path = _lock(root, value)
        if not path:
            continue
        lock = json.loads(path.read_text(encoding="utf-8"))
        named = {row["file"]: row["sha256"] for row in lock["files"]}
        there = {file.name for file in (root / value).glob("[!.]*")}
        wrong = [file for file in named if file not in there or _sha256(root / value / file) != named[file]]
        if wrong:
            what = f"{len(wrong)} of {len(named)} files are missing or are not those of {path.name} ({wrong[0]})"
            raise NotFetched(f"{value}: {what}; fetch them: {lock['fetch']}")
        if there - named.keys():
            raise BadInput(f"{value}/{min(there - named.keys())}: not in {path.name}; take it out of the folder")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def imported_modules(source) -> set[Path]:
    """Files of the localeval modules a notebook imports, and of those these import."""
    package = Path(__file__).parent
    code = "\n".join(cell.source for cell in source.cells if cell.cell_type == "code")
    pending, found = list(_imports(code)), {package / "__init__.py"}
    while pending:
        path = package / f"{pending.pop()}.py"
        if path.is_file() and path not in found:
            found.add(path)
            pending += _imports(path.read_text(encoding="utf-8"))
    return found


def _imports(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "localeval":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("localeval."))


def label(overrides: dict[str, str]) -> str:
    """Folder name of a run: what changed. `base` when nothing did."""
    text = ",".join(f"{key}={value}" for key, value in sorted(overrides.items()))
    safe = re.sub(r"[^\w.=,+@-]+", "_", text)
    return (safe if len(safe) < 80 and safe == text else f"{safe[:60]}-{digest(text)[:8]}") if text else "base"


def page(root: Path, run: str, notebook: str) -> Path:
    return root / run / f"{notebook}.ipynb"


def key_of(path: Path) -> str:
    """Key of an executed notebook; empty where there is none, or where it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["metadata"]["localeval"]["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def state(root: Path, folder: str, step: Step) -> str:
    """Of a step in a run, or in what was published (empty folder): "not run", "fresh" or "stale".

    Fresh: its page has the step's key, and beside it lies every artefact that was signed with that key.
    """
    study, name = step.study, step.notebook
    shown = page(root, folder or f"book/{study}", name)
    artefacts = root / (folder or f"results/{study}") / name
    if not shown.is_file():
        return "not run"
    record = _record(artefacts)
    signed = key_of(shown) == step.key == record.get("key")
    return "fresh" if signed and all((artefacts / file).is_file() for file in record["artefacts"]) else "stale"


def fresh(root: Path, folder: str, step: Step) -> bool:
    return state(root, folder, step) == "fresh"


def _record(artefacts: Path) -> dict:
    """The provenance of a folder of artefacts: its key, and the SHA-256 of every file. Empty where it cannot be read."""
    try:
        record = json.loads((artefacts / "provenance.json").read_text(encoding="utf-8"))
        return record if isinstance(record["artefacts"], dict) and isinstance(record["key"], str) else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def run(root: Path, study: str, only: str = "", overrides: dict[str, str] | None = None, say=print) -> str:
    """Executes what is not fresh of a study, or of one notebook and what it reads. Returns the folder of the run.

    Identical steps of the base run are copied, so a changed parameter re-executes only what depends on it.
    """
    overrides = overrides or {}
    folder = f"runs/{study}/{label(overrides)}"
    steps = plan(root, study, overrides)
    if only:
        steps = _needed(steps, only)
    unused = [name for name in overrides if not any(name in step.parameters for step in steps)]
    if unused:
        raise BadInput(f"-p {unused[0]}: {' and '.join(step.notebook for step in steps)} do not use it; leave it out")
    (root / folder).mkdir(parents=True, exist_ok=True)
    with _alone(root / folder):
        (root / folder / OVERRIDES).write_text(json.dumps(overrides, indent=1) + "\n", encoding="utf-8")
        _run(root, folder, steps, say)
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds a run's folder; a second run into the same one is refused instead of taking its files away."""
    lock = filelock.FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise BadInput(f"{folder}: another run is writing there; wait until it has ended") from None
    try:
        yield
    finally:
        lock.release()


def _run(root: Path, folder: str, steps: list[Step], say) -> None:
    study, executed = steps[0].study, 0
    for number, step in enumerate(steps, 1):
        where = f"[{number}/{len(steps)}] {study} {step.notebook}"
        if fresh(root, folder, step):
            continue
        if _reuse(root, f"runs/{study}/base", folder, step):
            say(f"{where}: as in the base run")
            continue
        check_fetched(root, step.parameters)
        say(f"{where}: running")
        start = time.perf_counter()
        execute(root, folder, step)
        executed += 1
        say(f"{where}: {time.perf_counter() - start:.1f} s")
    say(f"{study}: {executed} of {len(steps)} notebooks executed ({folder})")


def _needed(steps: list[Step], only: str) -> list[Step]:
    by_name = {step.notebook: step for step in steps}
    if only not in by_name:
        raise BadInput(f"{only}: not a notebook of this study{near(only, by_name)}; it has {', '.join(by_name)}")
    wanted, pending = set(), [only]
    while pending:
        name = pending.pop()
        if name not in wanted:
            wanted.add(name)
            pending += by_name[name].reads
    return [step for step in steps if step.notebook in wanted]


def _reuse(root: Path, base: str, folder: str, step: Step) -> bool:
    if base == folder or not fresh(root, base, step):
        return False
    target = root / folder / step.notebook
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root / base / step.notebook, target)
    shutil.copy(page(root, base, step.notebook), page(root, folder, step.notebook))
    return True


def execute(root: Path, folder: str, step: Step) -> None:
    """Runs one notebook with papermill in a temporary place; the page appears only when every cell ran."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    os.environ["LOCALEVAL_ROOT"] = str(root)
    for variable in ONE_THREAD:
        os.environ.setdefault(variable, "1")
    target = page(root, folder, step.notebook)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        done = Path(temporary) / "done.ipynb"
        try:
            papermill.execute_notebook(
                root / "notebooks" / f"{step.notebook}.ipynb", done, parameters=step.parameters | {"run_dir": folder},
                kernel_name="python3", cwd=str(root), progress_bar=False, stderr_file=sys.stderr, execution_timeout=TIMEOUT,
                extra_arguments=["--IPKernelApp.log_level=50"],
            )  # fmt: skip
        except PapermillExecutionError as error:
            raise _explain(error, step, root, folder, done) from None
        notebook = tidy(nbformat.read(done, as_version=4), step)
    _sign(root / folder / step.notebook / "provenance.json", notebook)
    part = target.with_suffix(".part")
    nbformat.write(notebook, part)
    part.replace(target)
    target.with_suffix(".failed.ipynb").unlink(missing_ok=True)


def _sign(path: Path, notebook) -> None:
    """Writes key and content of the page beside the artefacts, with their hashes: all of it can be shown to come from one run."""
    if not path.is_file():
        raise RuntimeError(
            f"{path.parent.name}: the notebook ended without writing its artefacts (is its last cell run.finish()?)"
        )
    artefacts = {file.name: digest_path(file) for file in sorted(path.parent.iterdir()) if file != path}
    facts = {name: notebook.metadata["localeval"][name] for name in ("key", "content")}
    record = json.loads(path.read_text(encoding="utf-8")) | facts | {"artefacts": artefacts}
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _explain(error, step: Step, root: Path, folder: str, done: Path) -> Exception:
    """Bad input found inside a notebook stays one line; anything else names the cell and where the whole trace is."""
    if error.ename == "BadInput":
        return BadInput(error.evalue)
    trace = root / folder / f"{step.notebook}.failed.ipynb"
    shutil.copy(done, trace)
    return RuntimeError(
        f"notebooks/{step.notebook}.ipynb cell {error.exec_count}: {error.ename}: {error.evalue.splitlines()[0] if error.evalue else ''} "
        f"(the whole trace: {trace.relative_to(root)})"
    )


def tidy(notebook, step: Step):
    """Drops what changes from run to run or tells of this machine; keeps which inputs made the page, and when."""
    for key in ("papermill", "widgets"):
        notebook.metadata.pop(key, None)
    facts = {
        "key": step.key,
        "study": step.study,
        "parameters": step.parameters,
        "executed": datetime.now(UTC).strftime("%Y-%m-%d"),
    }
    notebook.metadata["localeval"] = notebook.metadata.get("localeval", {}) | facts
    for number, cell in enumerate(notebook.cells):
        cell.id = f"c{number:03d}"
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if not (out.output_type == "stream" and out.name == "stderr")]
            if "injected-parameters" in cell.metadata.get("tags", []):
                all_of_them = defaults(notebook, step.notebook) | step.parameters
                shown = {name: value for name, value in all_of_them.items() if name not in (*PLUMBING, "quotes")}
                lines = [f"{name} = {pformat(value, width=76, sort_dicts=False)}" for name, value in shown.items()]
                cell.source = "\n".join(["# Parameters of this run, defaults among them", *lines])
    notebook.metadata["localeval"]["content"] = content_digest(notebook)
    return notebook


def content_digest(notebook) -> str:
    """Hash of all a page shows; never part of a key, only proof that nobody changed the page afterwards."""
    return digest_json([(cell.cell_type, cell.source, cell.get("outputs", [])) for cell in notebook.cells])


def publish(root: Path, study: str, say=print) -> None:
    """Makes the base run of a study the published one: its pages and its small artefacts, all fresh or none."""
    base = f"runs/{study}/base"
    old = [step.notebook for step in plan(root, study) if not fresh(root, base, step)]
    if old:
        raise BadInput(f"{base}: {', '.join(old)} not fresh; run the study before publishing it")
    touched = [f"{name}/{file}" for name in notebooks(root, study) for file in _touched(root / base / name)]
    if touched:
        raise BadInput(f"{base}/{touched[0]}: changed after it was written; delete {base} and run the study again")
    for left in (root / "runs").glob(".publish-*"):  # of a publication that was killed
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=root / "runs", prefix=".publish-") as temporary:
        pages, results = Path(temporary) / "pages", Path(temporary) / "results"
        pages.mkdir()
        for name in notebooks(root, study):
            shutil.copy(page(root, base, name), pages)
            files = (file for file in (root / base / name).iterdir() if file.name not in LOCAL_ONLY)
            small = [file for file in files if file.stat().st_size <= PUBLISHED_LIMIT or file.name in PROOF]
            (results / name).mkdir(parents=True)
            for file in small:
                shutil.copy(file, results / name)
            _sign(results / name / "provenance.json", nbformat.read(page(root, base, name), as_version=4))
        for kept in (path for name in KEPT if (path := root / "results" / study / name).is_file()):
            shutil.copy(kept, results)
        (root / "book" / study).mkdir(parents=True, exist_ok=True)
        (root / "results").mkdir(exist_ok=True)
        shutil.rmtree(root / "results" / study, ignore_errors=True)
        for old in (root / "book" / study).glob("*.ipynb"):
            old.unlink()
        for new in pages.iterdir():
            shutil.move(new, root / "book" / study / new.name)
        shutil.move(results, root / "results" / study)
    say(f"{study}: published to book/{study} and results/{study}")


# The site's sources: published pages, with local runs laid over them


def stage(root: Path, target: Path) -> Path:
    """Lays out what the site is built from: prose, and for every study the local run where there is one, else the published."""
    shutil.rmtree(target, ignore_errors=True)
    ignore = shutil.ignore_patterns("_build", ".*", "*.ipynb")
    shutil.copytree(root / "book", target / "book", ignore=ignore)
    shutil.copytree(root / "params", target / "params")
    shutil.copy(root / "_config.yml", target)
    toc = yaml.safe_load((root / "book" / "_toc.yml").read_text(encoding="utf-8"))
    for study in studies(root):
        shown = _stage_study(root, target, study)
        _list_pages(toc, study, study, shown)
        for variant in variants(root, study):
            keys = _keys(steps_now(root, study, variant))
            names = [
                _stage_page(
                    path, target, f"{study}/{variant.name}", f"local run of {study} with {_told(variant)}", keys
                )
                for path in _pages(variant)
            ]
            _list_pages(toc, f"{study} with {_told(variant)}", f"{study}/{variant.name}", names)
    toc_text = yaml.safe_dump(toc, sort_keys=False, allow_unicode=True)
    (target / "book" / "_toc.yml").write_text(toc_text, encoding="utf-8")
    return target


def _pages(folder: Path) -> list[Path]:
    """Finished pages of a run: those with their artefacts beside them, which the trace of a failed notebook never has."""
    return sorted(path for path in folder.glob("[!.]*.ipynb") if path.with_suffix("").is_dir())


def variants(root: Path, study: str) -> list[Path]:
    """Folders of the local runs with other parameters that have pages."""
    folder = root / "runs" / study
    found = (path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else ()
    return sorted(path for path in found if _overrides(path) and _pages(path))


def _overrides(folder: Path) -> dict[str, str]:
    try:
        return dict(json.loads((folder / OVERRIDES).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _told(variant: Path) -> str:
    return ", ".join(f"{name} = {value}" for name, value in _overrides(variant).items())


def steps_now(root: Path, study: str, run: Path | None = None) -> list[Step]:
    """The steps of a study as they would be now, with the parameters of a run; none where these no longer fit."""
    try:
        return plan(root, study, _overrides(run) if run else {})
    except BadInput:
        return []


def _keys(steps: list[Step]) -> dict[str, str]:
    return {step.notebook: step.key for step in steps}


def _stage_study(root: Path, target: Path, study: str) -> list[str]:
    shown, states, keys = [], set(), _keys(steps_now(root, study))
    for name in notebooks(root, study):
        local, published = page(root, f"runs/{study}/base", name), root / "book" / study / f"{name}.ipynb"
        path, state = (local, f"local run of {study}") if local.is_file() else (published, PUBLISHED)
        if path.is_file():
            shown.append(_stage_page(path, target, study, state, keys))
            states.add("published" if state == PUBLISHED else "local")
    index = target / "book" / study / "index.md"
    if index.is_file():
        title, _, rest = index.read_text(encoding="utf-8").partition("\n")
        index.write_text(f"{title}\n\n{_banner(OF_ALL[' and '.join(sorted(states))])}\n{rest}", encoding="utf-8")
    return shown


def _stage_page(path: Path, target: Path, folder: str, state: str, keys: dict[str, str]) -> str:
    """Copies a page with a line that says which run it is, when it was executed, and whether what made it has changed since."""
    try:
        notebook = nbformat.read(path, as_version=4)
        facts, title, rest = notebook.metadata["localeval"], *notebook.cells[0].source.split("\n", 1)
    except Exception:  # nbformat raises whatever its parsers do
        raise BadInput(f"{path}: not a readable page; remove it, or run its study again") from None
    old = "" if facts.get("key") == keys.get(path.stem) else "; its parameters, data or code have changed since"
    words = f"{state[0].upper()}{state[1:]}, executed on `{facts.get('executed', 'an unknown day')}`{old}"
    notebook.cells[0].source = f"{title}\n\n{_banner(words, local=state != PUBLISHED)}\n{rest}"
    out = target / "book" / folder / path.name
    out.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, out)
    return path.stem


PUBLISHED = "published run: the outputs that came with the project"
OF_ALL = {
    "local": "Local run", "published": f"{PUBLISHED[0].upper()}{PUBLISHED[1:]}",
    "local and published": "Some pages of this study are local runs, the others came with the project",
    "": "No notebook of this study has been executed yet",
}  # fmt: skip


def _banner(words: str, *, local: bool = False) -> str:
    return f":::{{div}} le-provenance{' le-local' if local else ''}\n{words}.\n:::\n"


def _list_pages(toc: dict, caption: str, folder: str, names: list[str]) -> None:
    """Adds the pages of a study to the contents: below its findings page where it has one, else as a part of its own."""
    pages = [{"file": f"{folder}/{name}"} for name in names]
    for part in toc["parts"]:
        for chapter in part["chapters"]:
            if chapter["file"] == f"{folder}/index":
                chapter["sections"] = pages
                return
    if pages:
        toc["parts"].append({"caption": caption, "chapters": pages})


# What a published study must keep true


def check(root: Path, study: str) -> list[str]:
    """Problems of the published outputs of a study, a line each: numbers that do not re-derive, pages and results apart."""
    problems = []
    for name in notebooks(root, study):
        results, published = root / "results" / study / name, root / "book" / study / f"{name}.ipynb"
        where = f"results/{study}/{name}"
        if not published.is_file() and not results.is_dir():
            continue
        record = _record(results)
        for file, signed in record.get("artefacts", {}).items():
            if not (results / file).is_file():
                problems.append(f"{where}/{file}: missing; publish the study again")
            elif digest_path(results / file) != signed:
                problems.append(f"{where}/{file}: changed after it was published; publish the study again")
        if record.get("key", "") != key_of(published) or not record:
            problems.append(f"{where}: not from the same run as book/{study}/{name}.ipynb; publish the study again")
        if published.is_file():
            problems += _changed_page(published, f"book/{study}/{name}.ipynb", record)
        if (results / "metrics.csv").is_file() and not (results / "gains.jsonl.gz").is_file():
            problems.append(
                f"{where}/metrics.csv: nothing to derive it from (gains.jsonl.gz is missing); publish the study again"
            )
        if (results / "gains.jsonl.gz").is_file():
            try:
                problems += [f"{where}/metrics.csv: {problem}" for problem in rederive(results)]
            except Exception as error:  # a file that somebody wrote by hand can be anything
                problems.append(f"{where}: cannot be read ({type(error).__name__}: {error}); publish the study again")
    return problems


def _touched(artefacts: Path) -> list[str]:
    """Files that are no longer those that were signed."""
    signed = _record(artefacts).get("artefacts", {})
    return [file for file, digest_ in signed.items() if digest_path(artefacts / file) != digest_]


def _changed_page(path: Path, where: str, record: dict) -> list[str]:
    try:
        notebook = nbformat.read(path, as_version=4)
        same = notebook.metadata["localeval"]["content"] == content_digest(notebook) == record.get("content")
    except Exception:  # nbformat raises whatever its parsers do
        return [f"{where}: not a page that was executed here; publish the study again"]
    return [] if same else [f"{where}: not as it was executed (text, code or outputs changed); publish the study again"]


def rederive(results: Path) -> list[str]:
    """Recomputes every metric and interval from `gains.jsonl.gz`; differences above 1e-9 are problems."""
    import numpy as np

    from localeval import metrics, stats, tables

    published = tables.read_csv(results / "metrics.csv")
    scores = metrics.scores_of(tables.read_gains(results / "gains.jsonl.gz"), published["metric"].unique())
    again = stats.summary(scores, is_binary=metrics.is_binary)
    keys, values = ["system", "rule", "metric", "origin"], ["mean", "low", "high", "n", "unreachable", "mean_reachable"]
    both = published.merge(again, on=keys, how="outer", suffixes=("", "_again"), indicator="side")
    problems = [f"{row.system} {row.rule} {row.metric}: only {'published' if row.side == 'left_only' else 'in the gains'}"
                for row in both[both["side"] != "both"].itertuples()]  # fmt: skip
    for value in values:
        one, two = both[value].to_numpy(float), both[f"{value}_again"].to_numpy(float)
        wrong = both[(both["side"] == "both") & ~np.isclose(one, two, rtol=0, atol=1e-9, equal_nan=True)]
        problems += [
            f"{row.system} {row.rule} {row.metric}: {value} does not re-derive from gains.jsonl.gz"
            for row in wrong.itertuples()
        ]
    return problems


def stale(root: Path, study: str) -> list[str]:
    """Published pages that are older than the code, parameters or data they came from."""
    found = []
    for step in plan(root, study):
        now = state(root, "", step)
        if now == "not run":
            found.append(f"book/{study}/{step.notebook}.ipynb: not published")
        elif now == "stale":
            found.append(f"book/{study}/{step.notebook}.ipynb: older than its code, parameters or data")
    return found
