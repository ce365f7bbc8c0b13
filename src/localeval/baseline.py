"""Both sides of a gate: what a run measured, what a baseline file keeps of it, and both graded by the labels of now.

A baseline is one JSON file, a question a line, so that a change of it can be read as text. It keeps the gains of every question
(all metrics of its rule follow from them) and its first hits as spans, from which it is graded again when labels change.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from localeval import __version__, build, gold, grading, metrics, tables
from localeval import corpus as corpora
from localeval.gate import Settings
from localeval.provenance import digest, digest_json, digest_path, existing
from localeval.records import BadInput, Evidence, Graded, Hit, Query, ScoringRule, Span, Verdict, near

VERSION = 1
AGAIN = "make it again: localeval baseline {study} --reason TEXT"
RAN = ("ok", "empty")
JUDGED = ("units.jsonl", "queries.jsonl", "runs.csv", "gains.jsonl.gz")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one system returned for one question: its first hits, best first (None: not stored), and what they were worth."""

    graded: Graded
    hits: tuple[Span, ...] | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """One system of a side. chunks: fingerprint of the units it ranked. index: of an index that an outside engine built."""

    status: str
    reason: str = ""
    chunker: str = ""
    chunks: str = ""
    index: str = ""
    answers: Mapping[str, Answer] = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a side. evidence: fingerprint of its labels: spans, grades and kinds."""

    text: str
    evidence: str
    must_hit: bool


@dataclass(frozen=True, slots=True)
class Side:
    """A run or a baseline. where: its folder or file. origin: of the questions. kept: how many hits of each are stored.

    facts: corpus, gold, settings, keys and versions, as recorded.
    """

    where: str
    rule: str
    origin: str
    kept: int
    facts: dict
    questions: dict[str, Asked]
    systems: dict[str, Ran]


@dataclass(frozen=True, slots=True)
class Run:
    """The run at hand: its side, and what grading needs. known: every system of the study's results with its state."""

    side: Side
    queries: dict[str, Query]
    units: dict[str, grading.Units]
    known: dict[str, str]
    published: bool
    notes: tuple[str, ...] = ()
    text: Mapping[str, str] = None


# Reading a run


def folder_of(root: Path, study: str, given: str = "") -> str:
    """Where the run at hand lies, below the project: as given, else the base run of this machine, else what is published."""
    if given:
        if not (root / given).is_dir():
            what = "a file, and no folder" if (root / given).exists() else "no such folder"
            raise BadInput(f"{given}: {what}; --run names the folder of a run, as runs/{study}/base")
        return (root / given).resolve().relative_to(root.resolve()).as_posix() if _inside(root, given) else given
    base = f"runs/{study}/base"
    for folder in (base, f"results/{study}"):
        if _scored(root / folder):
            return folder
    raise BadInput(f"study {study!r} has no results; first run: localeval run {study}")


def _inside(root: Path, given: str) -> bool:
    return (root / given).resolve().is_relative_to(root.resolve())


def _scored(folder: Path) -> list[str]:
    """Notebooks of a run that ranked something, in order."""
    return sorted(
        path.parent.name for path in folder.glob("[!.]*/gains.jsonl.gz") if (path.parent / "runs.csv").is_file()
    )


def read_run(root: Path, study: str, settings: Settings, folder: str = "") -> Run:
    """The run at hand, under the rule and for the origin and the systems of the settings."""
    folder = folder_of(root, study, folder)
    at, published = root / folder, folder == f"results/{study}"
    notebooks = _scored(at)
    if not notebooks:
        raise BadInput(f"{folder}: holds no gains.jsonl.gz beside a runs.csv; first run: localeval run {study}")
    notes = _freshness(root, study, folder, published, ("10_ingest", "20_gold", *notebooks))
    _untouched(at, ("10_ingest", "20_gold", *notebooks))
    everything = gold.read_resolved(_file(at / "20_gold" / "queries.jsonl"))
    origin = gold.stratum(everything, settings.origin)
    queries = {query.query_id: query for query in everything if query.origin == origin}
    _check_named(settings, everything, origin)
    chunks = tables.read_units(_file(at / "10_ingest" / "units.jsonl"))
    rows = _rows(at, notebooks, settings.systems)
    side = Side(
        folder, settings.rule, origin, settings.kept, _facts(at, notebooks, queries.values()),
        {one.query_id: asked(one, settings) for one in queries.values()},
        _systems(at, notebooks, settings, rows, chunks, queries),
    )  # fmt: skip
    units, text = _units(at, settings, side, chunks)
    return Run(side, queries, units, {name: row["status"] for name, row in rows.items()}, published, notes, text)


def _file(path: Path) -> Path:
    return existing(path, "run its notebook again")


def _check_named(settings: Settings, queries: Iterable[Query], origin: str) -> None:
    """Questions that the settings name must be questions of the stratum with an answer."""
    answerable = {query.query_id for query in queries if query.origin == origin and query.answerable}
    unknown = [name for name in settings.must_hit.questions if name not in answerable]
    if unknown:
        raise BadInput(
            f"gate.yml: must_hit: questions: {unknown[0]!r} is no answerable {origin} question of the gold{near(unknown[0], answerable)}"
        )


def _freshness(root: Path, study: str, folder: str, published: bool, notebooks: Iterable[str]) -> tuple[str, ...]:
    """Bad input when the run is older than code, parameters or data: its figures would be about something else."""
    variant = root / folder if folder not in (f"runs/{study}/base", f"results/{study}") else None
    steps = {step.notebook: step for step in build.steps_now(root, study, variant)}
    states = {
        name: build.state(root, "" if published else folder, steps[name]) if name in steps else "stale"
        for name in notebooks
    }
    old = [name for name, state in states.items() if state != "fresh"]
    if old and not published:
        raise BadInput(
            f"{folder}: {', '.join(old)} is older than its code, parameters or data, so it cannot be judged; run the study again"
        )
    said = ["judged are the published results; nothing was executed here"] if published else []
    said += [f"published before the present code, parameters or data: {', '.join(old)}"] if old else []
    return tuple(said)


def _untouched(at: Path, notebooks: Iterable[str]) -> None:
    """Bad input when a file that is judged is no longer the one its notebook signed."""
    for name in notebooks:
        signed = _record(at / name).get("artefacts", {})
        for file in (file for file in JUDGED if (at / name / file).is_file()):
            if signed.get(file) != digest_path(at / name / file):
                raise BadInput(f"{at / name / file}: changed after it was written; run the study again")


def _facts(at: Path, notebooks: Iterable[str], queries: Iterable[Query]) -> dict:
    """Fingerprints of the whole run, and what else a reader of a difference may want to see."""
    records = {name: _record(at / name) for name in ("10_ingest", *notebooks)}
    return {
        "corpus": records["10_ingest"].get("fingerprint", ""),
        "gold": digest(*(part for query in queries for part in (query.query_id, query.text, labels(query)))),
        "settings": {name: records[name].get("settings", {}) for name in notebooks},
        "keys": {name: record.get("key", "") for name, record in records.items()},
        "versions": records[notebooks[0]].get("versions", {}),
    }


def _record(folder: Path) -> dict:
    try:
        return dict(json.loads((folder / "provenance.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def labels(query: Query) -> str:
    """Fingerprint of what a question's evidence says: two that are equal are graded alike."""
    return digest_json(sorted((str(item.span), item.grade, item.kind) for item in query.evidence))


def asked(query: Query, settings: Settings) -> Asked:
    """A question as a side keeps it; must-hit where the gold or the settings say so."""
    return Asked(
        query.text,
        labels(query),
        query.answerable and (query.must_hit or query.query_id in settings.must_hit.questions),
    )


def _rows(at: Path, notebooks: Iterable[str], systems: Iterable[str]) -> dict[str, dict]:
    """Rows of runs.csv by system, the first that ran; one notebook that names an expected system twice is bad input."""
    rows: dict[str, dict] = {}
    for name in notebooks:
        table = tables.read_csv(at / name / "runs.csv")
        twice = table.loc[table["system"].duplicated() & table["system"].isin(systems), "system"]
        if len(twice):
            raise BadInput(f"{at / name / 'runs.csv'}: {twice.iloc[0]!r} stands there twice; run its notebook again")
        for row in table.to_dict("records"):
            if row["system"] not in rows or rows[row["system"]]["status"] not in RAN:
                rows[row["system"]] = row | {"notebook": name}
    return rows


def _systems(at, notebooks, settings: Settings, rows, chunks, queries) -> dict[str, Ran]:
    wanted = {name: rows[name] for name in settings.systems if name in rows}
    graded = _graded(at, notebooks, settings, set(wanted), queries)
    hits = _hits(at, {name: row["notebook"] for name, row in wanted.items()}, queries, settings.kept)
    found = {}
    for name, row in wanted.items():
        answers = {one.query_id: Answer(one, hits.get((name, one.query_id))) for one in graded.get(name, ())}
        found[name] = Ran(
            row["status"], str(row["reason"]), row["chunker"], units_digest(chunks.get(row["chunker"], ())),
            str(row.get("index_sha256", "") or ""), answers,
        )  # fmt: skip
    return found


def units_digest(units) -> str:
    """Fingerprint of what a system ranks; empty where the units of its chunker are not known here."""
    return digest(*sorted(str(unit.span) for unit in units)) if units else ""


def _graded(at: Path, notebooks, settings: Settings, systems: set[str], queries) -> dict[str, list[Graded]]:
    """Gains of the wanted systems under the rule; a system that two notebooks ran must be worth the same in both."""
    found: dict[str, list[Graded]] = {}
    for name in notebooks:
        for (system, rule), some in tables.read_gains(at / name / "gains.jsonl.gz").items():
            if system not in systems or rule != settings.rule:
                continue
            own = [one for one in some if one.query_id in queries]
            ids = [one.query_id for one in own]
            if len(set(ids)) < len(ids):
                raise BadInput(
                    f"{at / name}: {system} answers a question twice in gains.jsonl.gz; run its notebook again"
                )
            if found.setdefault(system, own) != own:
                raise BadInput(f"{at / name}: {system} was worth something else in an earlier notebook; run both again")
    return found


def _hits(at: Path, notebook_of: Mapping[str, str], queries, kept: int) -> dict[tuple[str, str], tuple[Span, ...]]:
    """First hits by (system, question), where the run has them: published results do not, they are large."""
    found: dict[tuple[str, str], list[Span]] = {}
    for notebook in sorted(set(notebook_of.values())):
        path, own = at / notebook / "hits.jsonl", {name for name, one in notebook_of.items() if one == notebook}
        if not path.is_file():
            continue
        found |= {(system, query): [] for system in own for query in queries}  # a question without a line got no hits
        for row in tables.read_jsonl(path):
            if row["rank"] <= kept and row["system"] in own and row["query_id"] in queries:
                found[row["system"], row["query_id"]].append(Span.parse(row["span"]))
    return {key: tuple(spans) for key, spans in found.items()}


def _units(at: Path, settings: Settings, side: Side, chunks):
    """What grading again needs, by chunker, and the texts of the documents; nothing where the run does not hold them."""
    if not (at / "10_ingest" / "documents.jsonl").is_file():
        return {}, {}
    read = corpora.read_jsonl(at / "10_ingest" / "documents.jsonl", at / "10_ingest" / "unread.csv")
    chunkers = {ran.chunker for ran in side.systems.values()} & chunks.keys()
    sets = grading.unit_sets(read, {name: chunks[name] for name in chunkers})
    unit = ScoringRule.parse(settings.rule).unit
    units = {name: sets[name, unit] for name in chunkers if (name, unit) in sets}
    return units, {document.doc_id: document.text for document in read.documents}


# The file


def path_of(root: Path, study: str) -> Path:
    return root / "results" / study / "baseline.json"


def content(run: Run, settings: Settings, study: str) -> dict:
    """What a baseline says, without when and why it was made."""
    side = run.side
    return {
        "version": VERSION, "study": study, "harness": __version__, "rule": side.rule, "metric": settings.metric, "origin": side.origin,
        "kept": settings.kept, "facts": side.facts,
        "questions": [{"query_id": name} | asdict(one) for name, one in side.questions.items()],
        "systems": [
            {"system": name, "chunker": ran.chunker, "chunks": ran.chunks, "index": ran.index,
             "answers": [_line(answer, settings.metric) for answer in ran.answers.values()]}
            for name, ran in side.systems.items()
        ],
    }  # fmt: skip


def _line(answer: Answer, metric: str) -> dict:
    """One question of one system. value: the metric when it was written, so that a changed line of the file can be read."""
    one = {name: value for name, value in asdict(answer.graded).items() if name != "origin"}
    hits = None if answer.hits is None else [str(span) for span in answer.hits]
    return one | {"value": metrics.measure(answer.graded, metric), "hits": hits}


def write(path: Path, made: dict, *, source: str, reason: str, overrode: Verdict | None) -> None:
    """Writes the whole file or nothing; an interrupted write leaves the old one. overrode: the verdict that `reason` answers."""
    about = {
        "created": datetime.now(UTC).strftime("%Y-%m-%d"), "source": source, "reason": reason,
        "overrode": None if overrode is None else asdict(overrode),
    }  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text("\n".join(_layout(made, about)) + "\n", encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _layout(made: dict, about: dict) -> Iterator[str]:
    """Valid JSON with one line a fact, a question and an answer."""
    text = lambda value: json.dumps(value, ensure_ascii=False, allow_nan=False)
    lists = ("questions", "systems")
    yield "{"
    for name, value in ({"version": made["version"]} | about | made).items():
        if name not in lists:
            yield f'"{name}": {text(value)},'
    yield '"questions": ['
    yield from _listed(made["questions"], text)
    yield '],\n"systems": ['
    for number, system in enumerate(made["systems"], 1):
        head = {name: value for name, value in system.items() if name != "answers"}
        yield f'{text(head)[:-1]}, "answers": ['
        yield from _listed(system["answers"], text)
        yield "]}" + ("," if number < len(made["systems"]) else "")
    yield "]\n}"


def _listed(rows: list, text) -> Iterator[str]:
    yield from (text(row) + ("," if number < len(rows) else "") for number, row in enumerate(rows, 1))


def read(path: Path, study: str) -> tuple[Side, dict]:
    """A baseline file as a side, and what it says of itself. One that does not hold together is bad input, by name."""
    existing(path, f"no baseline yet; make one: localeval baseline {study}")
    again = AGAIN.format(study=study)
    try:
        raw = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse, object_pairs_hook=_once)
        if raw["version"] != VERSION:
            raise BadInput(f"{path}: of version {raw['version']!r}, this is {VERSION}; {again}")
        if raw["study"] != study:
            raise BadInput(
                f"{path}: a baseline of study {raw['study']!r}, not of {study!r}; name another with --baseline"
            )
        side = _side(raw, path)
    except BadInput:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path}: not a baseline ({type(error).__name__}: {_one_line(error)}); {again}") from None
    return side, {
        name: raw.get(name) for name in ("created", "source", "reason", "overrode", "harness", "metric", "kept")
    }


def _refuse(word: str):
    raise ValueError(f"{word} is no number")


def _once(pairs: list[tuple]) -> dict:
    """An object of the file; JSON would silently keep the last of two values under one name."""
    names = [name for name, _ in pairs]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is given twice in one object")
    return dict(pairs)


def _one_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else "no more is known"


def _side(raw: dict, path: Path) -> Side:
    questions, systems = {}, {}
    for row in raw["questions"]:
        if (
            questions.setdefault(row["query_id"], one := Asked(row["text"], row["evidence"], row["must_hit"]))
            is not one
        ):
            raise ValueError(f"question {row['query_id']} stands there twice")
    for row in raw["systems"]:
        if row["system"] in systems:
            raise ValueError(f"system {row['system']} stands there twice")
        answers = {one["query_id"]: _answer(one, raw) for one in row["answers"]}
        if len(answers) < len(row["answers"]) or answers.keys() - questions.keys():
            raise ValueError(f"{row['system']} answers a question twice, or one that is not there")
        if not all(isinstance(row[name], str) for name in ("chunker", "chunks", "index")):
            raise ValueError(f"chunker, chunks and index of {row['system']} must be texts")
        systems[row["system"]] = Ran("ok", "", row["chunker"], row["chunks"], row["index"], answers)
    settings = raw["facts"].get("settings", {})
    if not isinstance(settings, dict) or not all(isinstance(some, dict) for some in settings.values()):
        raise ValueError("settings must hold names and values by notebook")
    if type(raw["kept"]) is not int or raw["kept"] < 1:
        raise ValueError(f"kept is {raw['kept']!r}, and must be a whole number of 1 or more")
    return Side(str(path), raw["rule"], raw["origin"], int(raw["kept"]), dict(raw["facts"]), questions, systems)


def _answer(row: dict, raw: dict) -> Answer:
    """One line of the file; its value must still follow from its gains, so that an edited line is found."""
    graded = Graded(
        row["query_id"], row["status"], tuple((rank, gain) for rank, gain in row["gains"]),
        tuple((rank, tuple(indexes)) for rank, indexes in row["covers"]), tuple(row["ideal"]), tuple(row["evidence"]), row["ranked"],
        raw["origin"],
    )  # fmt: skip
    again, value = metrics.measure(graded, raw["metric"]), row["value"]
    if (again is None) != (value is None) or (
        value is not None and not math.isclose(again, value, abs_tol=1e-9, rel_tol=0)
    ):
        raise ValueError(f"value of {row['query_id']} does not follow from its gains")
    return Answer(graded, None if row["hits"] is None else tuple(map(Span.parse, row["hits"])))


# Both sides under the labels of now


@dataclass(frozen=True, slots=True)
class Matched:
    """Which questions both sides can be compared on. Each list names questions; `shared` holds all that are compared."""

    shared: tuple[str, ...]
    new: tuple[str, ...]
    removed: tuple[str, ...]
    reworded: tuple[str, ...]
    relabelled: tuple[str, ...]


def match(baseline: Side, now: Side) -> Matched:
    """Questions by id and by text: another text is another question. relabelled: of the shared ones, those with other evidence."""
    both = [name for name in baseline.questions if name in now.questions]
    same = [name for name in both if baseline.questions[name].text == now.questions[name].text]
    return Matched(
        tuple(same),
        tuple(name for name in now.questions if name not in baseline.questions),
        tuple(name for name in baseline.questions if name not in now.questions),
        tuple(name for name in both if name not in same),
        tuple(name for name in same if baseline.questions[name].evidence != now.questions[name].evidence),
    )


def regraded(
    side: Side, system: str, matched: Matched, run: Run, settings: Settings, *, same_corpus: bool
) -> tuple[dict, list[str]]:
    """Answers of the baseline under the labels of now, by question, and the questions for which that cannot be done.

    Where the labels are the same the stored gains are what they would be again. Where they changed, the stored hits are graded
    again, which needs the same corpus, the same units, and hits down to the cut of the metric.
    """
    ran, now = side.systems[system], run.side.systems.get(system)
    units = run.units.get(ran.chunker) if same_corpus and now and ran.chunks and ran.chunks == now.chunks else None
    found, lost = {}, []
    for name in (name for name in matched.shared if name in ran.answers):
        answer = ran.answers[name]
        if name in matched.relabelled:
            answer = grade_again(answer, run.queries[name], settings, units, side.kept)
        if answer is None:
            lost.append(name)
        else:
            found[name] = answer
    return found, lost


def grade_again(
    answer: Answer, query: Query, settings: Settings, units: grading.Units | None, kept: int
) -> Answer | None:
    """Stored hits graded by the labels of now; None where hits or units are not there, or too few hits were stored to know."""
    if units is None or answer.hits is None:
        return None
    hits = [Hit(span, 0.0) for span in answer.hits]
    graded = grading.grade(hits, query, ScoringRule.parse(settings.rule), units)
    cut = metrics.parse(settings.metric)[1]
    whole = len(hits) < kept  # the system returned no more than these
    deep = cut is not None and graded.ranked >= max(cut, settings.must_hit.floor, *settings.must_hit.floors.values())
    settled = graded.status not in ("scored",)  # no ranking changes those
    return replace(answer, graded=graded) if whole or deep or settled else None


def first_rank(answer: Answer) -> int | None:
    """Rank of the first hit that counts."""
    return next((rank for rank, gain in answer.graded.gains if gain > 0), None)


def quote(span: Span, text: Mapping[str, str], length: int = 70) -> str:
    """The first words of a span, on one line; empty where the document's text is not here."""
    words = " ".join(text.get(span.doc_id, "")[span.start : span.end].split())
    return words if len(words) <= length else words[: length - 1].rstrip() + "…"


def counts(span: Span, query: Query, rule: str) -> bool | None:
    """Whether a stored hit counts for a question under a rule; None where the rule ranks another kind of unit than hits are."""
    parsed = ScoringRule.parse(rule)
    if parsed.unit not in ("chunk", "document") and parsed.match != "same_document":
        return None
    evidence: Iterable[Evidence] = (item for item in query.evidence if grading.applicable(item, parsed))
    return any(grading.counts(span, item, parsed) for item in evidence)
