"""Artefacts: tidy files, the only hand-over between notebooks.

A `Run` is one notebook's window on them: it reads what earlier notebooks wrote and writes its own, which appear all
together when the notebook finishes, or not at all.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from localeval import corpus as corpora
from localeval import gold, provenance
from localeval.records import BadInput, Graded, Hit, Query, Span, Unit

# Frozen: other tools read these. A new column goes to the end; a changed meaning is a breaking change.
COLUMNS = {
    "pages.csv": ("doc_id", "page_index", "page_label", "class", "quality", "confidence", "reason"),
    "runs.csv": ("system", "chunker", "retriever", "model", "reranker", "rerank_depth", "depth", "variant", "status", "reason"),
    "hits.jsonl": ("system", "query_id", "rank", "span", "score"),
    "timings.csv": ("system", "query_id", "phase", "repeat", "seconds"),
    "gains.jsonl.gz": ("system", "rule", "query_id", "status", "gains", "covers", "ideal", "evidence", "ranked", "origin"),
    "scores.csv": ("system", "rule", "metric", "query_id", "value", "status", "origin"),
    "metrics.csv": ("system", "rule", "metric", "mean", "low", "high", "n", "unreachable", "mean_reachable", "note", "origin"),
    "comparisons.csv": (
        "metric", "rule", "baseline", "candidate", "n", "delta", "low", "high", "p_value", "p_adjusted", "mde", "verdict", "designated",
        "reason", "origin",
    ),
    "worklist.csv": ("query_id", "question", "span", "text", "grade", "answer", "by", "date", "sha256"),
}  # fmt: skip
TEXTS = (
    "system", "chunker", "retriever", "model", "search", "reranker", "variant", "options", "rule", "metric", "query_id", "doc_id",
    "page_label",
    "class", "verdict", "failed_guard", "origin", "category", "signal", "phase", "stage", "baseline", "candidate", "status", "reason",
    "note", "notebook", "reading", "engine", "base", "level", "document", "state", "family", "source", "flips", "arm", "of", "name", "kind",
    "null", "test", "way", "study", "claim", "what", "counted", "why", "reported by the source", "computed here from that",
    "cut", "slice", "advice",
)  # fmt: skip
PUBLISHED_LIMIT = 3_000_000  # bytes; a larger artefact stays local


def find_root(start: Path | None = None) -> Path:
    """The project folder: `LOCALEVAL_ROOT`, or the nearest parent that holds `_config.yml` and `params/`."""
    if os.environ.get("LOCALEVAL_ROOT"):
        return Path(os.environ["LOCALEVAL_ROOT"]).resolve()
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "_config.yml").is_file() and (folder / "params").is_dir():
            return folder
    raise BadInput(
        f"{here}: not inside a localeval project (no _config.yml with a params folder here or above); cd into it, or set LOCALEVAL_ROOT"
    )


class Run:
    """Reads and writes artefacts of one notebook of one study.

    run_dir: folder of this run below the project, as `runs/handbook/base`; empty for a notebook executed by hand, which
    writes to `runs/<study>/papermill`. What is not in the run's own folder is read from the study's base run, then from
    its published results.
    """

    def __init__(self, study: str, notebook: str, run_dir: str = "", root: Path | None = None):
        self.study, self.notebook = study, notebook
        self.root = root or find_root()
        self.folder = self.root / (run_dir or f"runs/{study}/papermill")
        self._part = self.folder / f".{notebook}.part"
        shutil.rmtree(self._part, ignore_errors=True)
        self._part.mkdir(parents=True)

    def path(self, name: str) -> Path:
        """Where to write the artefact `name`; it becomes visible with `finish`."""
        return self._part / name

    def input(self, notebook: str, name: str) -> Path:
        """The artefact `name` of an earlier notebook. Missing: an error that says what to run."""
        folders = (self.folder, self.root / "runs" / self.study / "base", self.root / "results" / self.study)
        for folder in folders:
            if (folder / notebook / name).is_file():
                return folder / notebook / name
        raise BadInput(
            f"{notebook}/{name} of study {self.study!r} is missing; first run: python -m localeval run {self.study} {notebook}"
        )

    def data(self, path: str) -> Path:
        """A file or folder of the study's data, relative to the project; `{study}` in it stands for the study's name."""
        if not path.strip():
            raise BadInput("a parameter that names data is empty; name a file or folder below the project")
        return self.root / path.replace("{study}", self.study)

    def say(self, text: str) -> None:
        """Progress for the terminal; not part of the page."""
        print(f"    {self.notebook}: {text}", file=sys.stderr, flush=True)

    def cache(self) -> Path:
        """Vectors and the like: costly to make, cheap to lose."""
        return self.root / "runs" / ".cache"

    def finish(self, **facts: object) -> pd.DataFrame:
        """Puts what was written in place, with its provenance, and lists it: artefact, rows or bytes."""
        record = {
            "study": self.study, "notebook": self.notebook, **facts,
            "machine": provenance.machine(), "load_average": provenance.load_average(), "versions": provenance.versions(),
            "engines_imported": provenance.heavy_modules(),
        }  # fmt: skip
        self.path("provenance.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        target, old = self.folder / self.notebook, self.folder / f".{self.notebook}.old"
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        self._part.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        files = sorted(target.iterdir())
        rows = pd.array([_rows(file) for file in files], dtype="Int64")
        return pd.DataFrame({"artefact": [file.name for file in files], "rows": rows})


def _rows(path: Path) -> int | None:
    if not path.name.endswith((".csv", ".jsonl", ".jsonl.gz")):
        return None
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        return sum(1 for _ in lines) - (path.suffix == ".csv")


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Writes a table, its frozen columns first and in their order; a missing one is an error."""
    expected = COLUMNS.get(path.name, ())
    missing = [column for column in expected if column not in frame.columns]
    if missing:
        raise ValueError(f"{path.name} lacks the column {missing[0]!r}")
    rest = [column for column in frame.columns if column not in expected]
    frame.loc[:, [*expected, *rest]].to_csv(path, index=False, lineterminator="\n")


def read_csv(path: Path) -> pd.DataFrame:
    """Reads a table. `TEXTS` columns stay texts ("001" is not 1), empty where blank; of all others a blank cell is NaN."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_filter=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):
        raise BadInput(f"{path}: not a table; run its notebook again") from None
    missing = [column for column in COLUMNS.get(path.name, ()) if column not in frame.columns]
    if missing:
        raise BadInput(f"{path}: lacks the column {missing[0]!r}; run its notebook again")
    for column in frame.columns.difference(TEXTS, sort=False):
        known = {"True": True, "False": False}
        values = frame[column]
        if len(values) and values.isin(list(known)).all():
            frame[column] = values.map(known)
            continue
        try:
            frame[column] = pd.to_numeric(values.replace("", None))
        except ValueError:
            raise BadInput(
                f"{path}: column {column!r} holds something that is no number; run its notebook again"
            ) from None
    return frame


def read_reported(path: Path) -> pd.DataFrame:
    """Figures that a source reported: a .csv as it is, first column the name of the row. Not checked, and never mixed with ours."""
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; 'reported' must name a .csv of reported figures") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError):
        raise BadInput(f"{path}: not a table in UTF-8; write one line of names and one line a row") from None


def reported_by(path: str, conditions: str) -> str:
    """The caption of such figures: whose they are, which is the name of the file."""
    return f"Reported by {Path(path).stem}, {conditions}: not measured here."


def write_jsonl(rows: Iterable[dict], path: Path) -> None:
    """One object a line; packed, with no time stamp, where the name ends in .gz."""
    with path.open("wb") as file:
        out = gzip.GzipFile("", "wb", 9, file, mtime=0) if path.suffix == ".gz" else file
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        if out is not file:
            out.close()


def read_jsonl(path: Path, wanted: Callable[[str], object] = lambda line: True) -> Iterator[dict]:
    """The objects of a file, or of those of its lines that are wanted."""
    unpack = gzip.open if path.suffix == ".gz" else open
    with unpack(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if wanted(line):
                    yield json.loads(line)
            except ValueError:
                raise BadInput(f"{path}:{number}: not JSON; run its notebook again") from None


def write_units(units: dict[str, list[Unit]], path: Path) -> None:
    """Units by chunker name; pages and documents under "page" and "document"."""
    write_jsonl(
        (
            {"chunker": name, "span": str(u.span), "kind": u.kind, "label": u.label, "context": u.context}
            for name, us in units.items()
            for u in us
        ),
        path,
    )


def read_units(path: Path) -> dict[str, list[Unit]]:
    units: dict[str, list[Unit]] = {}
    for row in read_jsonl(path):
        name, span = row.pop("chunker"), Span.parse(row.pop("span"))
        units.setdefault(name, []).append(Unit(span, **row))
    return units


def write_hits(hits: dict[tuple[str, str], list[Hit]], path: Path) -> None:
    """`(system, query_id)` -> ranked hits."""
    write_jsonl(
        (
            {"system": system, "query_id": query_id, "rank": rank, "span": str(hit.span), "score": hit.score}
            for (system, query_id), ranked in hits.items()
            for rank, hit in enumerate(ranked, 1)
        ),
        path,
    )


def read_hits(path: Path, first: int = 0, systems: Iterable[str] = ()) -> dict[tuple[str, str], list[Hit]]:
    """What `write_hits` wrote. first: only so many hits of each ranking; systems: only these. Nothing given: all. A query without
    hits is not in it."""
    hits: dict[tuple[str, str], list[Hit]] = {}
    systems = frozenset(systems)
    # A line is read only where its text can be meant: most are not.
    ranks = re.compile(f'"rank": (?:{"|".join(map(str, range(1, first + 1)))}),' if first else "")
    names = re.compile("|".join(re.escape(json.dumps(name, ensure_ascii=False)) for name in systems))
    for row in read_jsonl(path, lambda line: names.search(line) and ranks.search(line)):
        if (not first or row["rank"] <= first) and (not systems or row["system"] in systems):
            hits.setdefault((row["system"], row["query_id"]), []).append(Hit(Span.parse(row["span"]), row["score"]))
    return hits


def write_gains(graded: dict[tuple[str, str], list[Graded]], path: Path) -> None:
    """`(system, rule)` -> graded queries. Every published metric re-derives from this file."""
    write_jsonl(
        ({"system": system, "rule": rule, **asdict(one)} for (system, rule), some in graded.items() for one in some),
        path,
    )


def read_gains(path: Path) -> dict[tuple[str, str], list[Graded]]:
    """What `write_gains` wrote, in the same order."""
    graded: dict[tuple[str, str], list[Graded]] = {}
    for row in read_jsonl(path):
        key = row.pop("system"), row.pop("rule")
        row |= {
            "gains": tuple((rank, gain) for rank, gain in row["gains"]),
            "covers": tuple((rank, tuple(indexes)) for rank, indexes in row["covers"]),
            "ideal": tuple(row["ideal"]),
            "evidence": tuple(row["evidence"]),
        }
        graded.setdefault(key, []).append(Graded(**row))
    return graded


def combine(run: Run, name: str, notebooks: Iterable[str]) -> pd.DataFrame:
    """The same table of several notebooks as one. A system that occurs in two must say the same in both."""
    frames = [read_csv(run.input(notebook, name)) for notebook in notebooks]
    whole = pd.concat(frames, ignore_index=True).drop_duplicates(ignore_index=True)
    keys = [column for column in whole.columns if column not in ("value", "status")]
    twice = whole[whole.duplicated(keys)]
    if len(twice):
        row = twice.iloc[0]
        raise BadInput(
            f"{name}: {row['system']} differs between {' and '.join(notebooks)} (query {row['query_id']}); run both again"
        )
    return whole


def read_corpus(run: Run) -> corpora.Corpus:
    """The documents that 10_ingest read, and which files gave none."""
    documents = run.input("10_ingest", "documents.jsonl")
    return corpora.read_jsonl(documents, documents.with_name("unread.csv"))


def read_queries(run: Run) -> list[Query]:
    return gold.read_resolved(run.input("20_gold", "queries.jsonl"))


def latest_inputs(root: Path, study: str) -> tuple[corpora.Corpus, list[Query]]:
    """Documents and questions of the study's base run, for commands that work beside notebooks; else of its published results."""
    found = []
    for notebook, name in (("10_ingest", "documents.jsonl"), ("20_gold", "queries.jsonl")):
        places = (root / "runs" / study / "base" / notebook / name, root / "results" / study / notebook / name)
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            raise BadInput(
                f"{notebook}/{name} of study {study!r} is missing; first run: python -m localeval run {study} 20_gold"
            )
        found.append(path)
    return corpora.read_jsonl(found[0], found[0].with_name("unread.csv")), gold.read_resolved(found[1])


def recorded(run: Run, notebook: str) -> dict:
    """What an earlier notebook recorded about its run: its settings and seeds."""
    return json.loads(run.input(notebook, "provenance.json").read_text(encoding="utf-8"))


def combine_runs(run: Run, notebooks: Iterable[str]) -> pd.DataFrame:
    """The systems of several notebooks, with the notebook they ran in."""
    frames = [read_csv(run.input(notebook, "runs.csv")).assign(notebook=notebook) for notebook in notebooks]
    return pd.concat(frames, ignore_index=True)
