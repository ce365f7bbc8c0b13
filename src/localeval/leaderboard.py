"""The leaderboard: results that somebody submits as one folder, checked from the ground up, and shown with rank ranges.

A submission is `leaderboard/<study>/<name>/` with the files of FILES; what is shown is computed from its gains, never read from
its metrics. The check derives every number again, and asks whether these gains can exist for this gold, corpus and depth.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path

import yaml

from localeval import __version__, build, gold, grading, holes, judgements, metrics, stats, tables
from localeval import baseline as bases
from localeval import corpus as corpora
from localeval.embedding import CARDS
from localeval.gate import Settings
from localeval.gatereport import read_settings
from localeval.provenance import digest, digest_path, existing
from localeval.records import BadInput, Graded, Judgement, Query, ScoringRule, Span, Unit, near
from localeval.systems import LEARNED

FOLDER = "leaderboard"
FILES = ("submission.yml", "runs.csv", "gains.jsonl.gz", "metrics.csv", "provenance.json")
HITS, UNITS = (
    "hits.jsonl.gz",
    "units.jsonl",
)  # optional: the rankings themselves; the chunks of a chunker the study does not have
KEYS = ("version", "name", "study", "system", "harness", "corpus", "gold", "created", "weights", "note")
VERSION = 1
CONTACT = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+|https?://|www\.|\+\d[\d ()-]{7,}")
RECORDED = ("machine", "versions", "settings", "key")
RERUN = "run its notebook again"
LONGER = 2.0  # chunks of a submission may be so many times as long, on average, as those of the study's longest chunker
WHOLE = 0.9  # share of the corpus's characters, white space aside, that chunks of a submission should hold


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with a submission. level: problem (not ranked) or warning (a problem under --strict)."""

    level: str
    text: str


@dataclass(frozen=True)
class Study:
    """The study at hand, which submissions are held against."""

    fingerprint: str
    corpus: corpora.Corpus
    queries: dict[str, Query]
    chunks: dict[str, list]
    judgments: Path

    @cached_property
    def said(self) -> list[Judgement]:
        """What people said of single hits; none where nobody did."""
        return judgements.load(self.judgments, self.corpus, list(self.queries.values()))

    @cached_property
    def gold(self) -> str:
        return gold_digest(self.queries.values())

    @cached_property
    def units(self) -> dict[tuple[str, str], grading.Units]:
        return grading.unit_sets(self.corpus, self.chunks)


def gold_digest(queries: Iterable[Query]) -> str:
    """Fingerprint of questions and labels, whatever their order."""
    return digest(
        *(
            part
            for one in sorted(queries, key=lambda one: one.query_id)
            for part in (one.query_id, one.text, bases.labels(one))
        )
    )


def study_at(root: Path, study: str, folder: str = "") -> Study:
    """Corpus, questions and chunks of a study, from its run at hand or its published results."""
    at = root / bases.folder_of(root, study, folder)
    read = corpora.read_jsonl(existing(at / "10_ingest/documents.jsonl", RERUN), at / "10_ingest/unread.csv")
    queries = gold.read_resolved(existing(at / "20_gold/queries.jsonl", RERUN))
    chunks = tables.read_units(existing(at / "10_ingest/units.jsonl", RERUN))
    return Study(
        corpora.fingerprint(read.documents),
        read,
        {one.query_id: one for one in queries},
        chunks,
        root / judgements.HOME.format(study=study),
    )


@dataclass(frozen=True)
class Submission:
    """The files of one folder, read."""

    folder: Path
    about: dict
    row: dict
    gains: dict[str, list[Graded]]
    record: dict
    systems: set[str]
    chunks: list

    @property
    def chunker(self) -> str:
        return str(self.row["chunker"])


def open_submission(folder: Path) -> Submission:
    """Reads a folder whose files are all there; whatever cannot be read raises."""
    about = yaml.safe_load((folder / "submission.yml").read_text(encoding="utf-8"))
    runs, gains = tables.read_csv(folder / "runs.csv"), tables.read_gains(folder / "gains.jsonl.gz")
    record = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    if not isinstance(about, dict) or not isinstance(record, dict) or len(runs) != 1:
        raise ValueError("submission.yml and provenance.json must hold names and values, runs.csv one row")
    row = runs.iloc[0].to_dict()
    names = {system for system, _ in gains} | set(tables.read_csv(folder / "metrics.csv")["system"]) | {row["system"]}
    own = tables.read_units(folder / UNITS) if (folder / UNITS).is_file() else {}
    chunks = own.get(row["chunker"], [])
    return Submission(folder, about, row, {rule: some for (_, rule), some in gains.items()}, record, names, chunks)


# The check


def check(folder: Path, now: Study) -> list[Finding]:
    """Everything that is wrong with a submission; each part of the check looks on its own, so that one finding hides no other."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        return [Finding("problem", f"{name}: missing") for name in missing]
    try:
        one = open_submission(folder)
    except Exception as error:  # a file that somebody wrote by hand can be anything
        return [Finding("problem", f"cannot be read ({type(error).__name__}: {str(error).replace(f'{folder}/', '')})")]
    found = []
    for part in CHECKS:
        try:
            found += part(one, now)
        except Exception as error:
            found.append(
                Finding("problem", f"{part.__name__.strip('_')} cannot be checked ({type(error).__name__}: {error})")
            )
    return found


def _problems(texts: Iterable[str]) -> Iterator[Finding]:
    yield from (Finding("problem", text) for text in texts)


def _description(one: Submission, now: Study) -> Iterator[Finding]:
    """submission.yml: its fields, and that it speaks of this folder, this corpus and these labels."""
    about, where = one.about, "submission.yml"
    yield from _problems(f"{where}: unknown {key!r}{near(str(key), KEYS)}" for key in about if key not in KEYS)
    yield from _problems(f"{where}: lacks {key!r}" for key in KEYS if key not in about and key != "note")
    expected = {
        "version": VERSION, "name": one.folder.name, "study": one.folder.parent.name, "system": one.row["system"],
        "corpus": now.fingerprint, "gold": now.gold,
    }  # fmt: skip
    yield from _problems(
        f"{where}: {key} is {about[key]!r}, the study at hand has {value!r}"
        for key, value in expected.items()
        if key in about and about[key] != value
    )
    if "created" in about and not isinstance(about["created"], date):
        yield Finding("problem", f"{where}: created must be a day, as 2026-01-31")
    if CONTACT.search(json.dumps(about, default=str)):
        yield Finding("problem", f"{where}: holds an address or a number of a person; a submission names none")
    if about.get("harness") != __version__:
        yield Finding("warning", f"{where}: made with localeval {about.get('harness')!r}, this is {__version__!r}")


def _one_system(one: Submission, now: Study) -> Iterator[Finding]:
    """One system under one name, which ran."""
    if len(one.systems) > 1:
        yield Finding(
            "problem", f"runs.csv, gains and metrics name different systems: {', '.join(sorted(map(str, one.systems)))}"
        )
    if one.row["status"] not in bases.RAN:
        yield Finding("problem", f"runs.csv: the system did not run ({one.row['status']})")


def needed_weights(row: Mapping) -> list[str]:
    """Names of the models a system used; late interaction and fusion bring none of their own."""
    reranker, _, how = str(row["reranker"]).partition(":")
    reranker = {"maxsim": "", "llm": f"llm:{how}"}.get(
        reranker, reranker
    )  # after the colon: how a cross-encoder is run
    names = [row["model"], LEARNED.get(row["retriever"], ""), reranker]
    return [name for name in dict.fromkeys(map(str, names)) if name]


def _weights(one: Submission, now: Study) -> Iterator[Finding]:
    """Every model with the hash of its weights or its revision, and no other; a hash that is known here must be that one."""
    given, needed = one.about.get("weights"), needed_weights(one.row)
    given = given if isinstance(given, dict) else {}
    yield from _problems(
        f"weights: {name!r} is no model of this system{near(str(name), needed)}" for name in given if name not in needed
    )
    for name in needed:
        value = given.get(name)
        value = value if isinstance(value, dict) else {}
        sha, revision = str(value.get("sha256", "")), str(value.get("revision", ""))
        pinned = CARDS[name].sha256 if name in CARDS else ""
        if not (re.fullmatch("[0-9a-f]{64}", sha) or re.fullmatch("[0-9a-f]{40}", revision)):
            yield Finding(
                "problem", f"weights: {name!r} needs the sha256 of its weights (64 hex digits) or its revision (40)"
            )
        elif pinned and sha != pinned:
            yield Finding("problem", f"weights: sha256 of {name!r} is not that of the weights this project knows")


def _provenance(one: Submission, now: Study) -> Iterator[Finding]:
    """What it was made with, and that no file was changed after it was written."""
    yield from _problems(
        f"provenance.json: lacks {name!r}"
        for name in (*RECORDED, "fingerprint", "artefacts")
        if not one.record.get(name)
    )
    fingerprint = one.record.get("fingerprint")
    if fingerprint and fingerprint != one.about.get("corpus"):
        yield Finding("problem", "corpus fingerprints of provenance.json and submission.yml differ")
    signed = one.record.get("artefacts")
    for name in sorted(
        path.name for path in one.folder.iterdir() if path.name not in ("provenance.json", "submission.yml")
    ):
        if isinstance(signed, dict) and signed.get(name) != digest_path(one.folder / name):
            yield Finding("problem", f"{name}: not the file that provenance.json signs")


def _questions(one: Submission, now: Study) -> Iterator[Finding]:
    """Under every rule every question of the gold, once."""
    if not one.gains:
        yield Finding("problem", "gains.jsonl.gz: holds no question")
    for rule, some in one.gains.items():
        counted = Counter(graded.query_id for graded in some)
        unknown, absent = counted.keys() - now.queries.keys(), now.queries.keys() - counted.keys()
        yield from _problems(
            f"{rule}: question {name!r} is not in the gold{near(name, now.queries)}" for name in sorted(unknown)
        )
        yield from _problems(
            f"{rule}: question {name!r} has {count} rows" for name, count in counted.items() if count > 1
        )
        if absent:
            yield Finding(
                "problem",
                f"{rule}: {len(absent)} of {len(now.queries)} questions are missing ({', '.join(sorted(absent)[:3])})",
            )


def _units(one: Submission, now: Study, rule: ScoringRule) -> grading.Units | None:
    """What the system ranked under a rule: the study's own units, or those that came with the submission."""
    if one.chunks and one.chunker not in now.chunks:
        lengths = {document.doc_id: len(document.text) for document in now.corpus.documents}
        outside = [unit.span for unit in one.chunks if unit.span.end > lengths.get(unit.span.doc_id, -1)]
        if outside:
            raise ValueError(f"{UNITS}: {outside[0]} is not in the corpus")
        return grading.unit_sets(now.corpus, {one.chunker: one.chunks}).get((one.chunker, rule.unit))
    return now.units.get((one.chunker, rule.unit))


def _labels(one: Submission, now: Study) -> Iterator[Finding]:
    """State, ideal, labels and origin of every question are those of the gold, which no ranking can change."""
    for text, some in one.gains.items():
        rule = ScoringRule.parse(text)
        units = _units(one, now, rule)
        if units is None:
            yield Finding("problem", f"{text}: chunker {one.chunker!r} is none of the study; add its chunks as {UNITS}")
            continue
        for graded in (graded for graded in some if graded.query_id in now.queries):
            true = grading.grade([], now.queries[graded.query_id], rule, units)
            wrong = [
                name
                for name in ("status", "ideal", "evidence", "origin")
                if getattr(graded, name) != getattr(true, name)
            ]
            yield from _problems(f"{text}: {name} of {graded.query_id} is not what the gold gives" for name in wrong)


def _possible(one: Submission, now: Study) -> Iterator[Finding]:
    """No ranking of this depth could have other gains than these against this ideal."""
    for rule, some in one.gains.items():
        for graded in some:
            why = impossible(graded, int(one.row["depth"]))
            if why:
                yield Finding("problem", f"{rule}: gains of {graded.query_id} cannot be: {why}")


def impossible(graded: Graded, depth: int) -> str:
    """Why no ranking of at most `depth` units can have these gains; empty where one could."""
    ranks, indexes = [rank for rank, _ in graded.gains], [index for _, some in graded.covers for index in some]
    gained, covered = dict(graded.gains), dict(graded.covers)
    if not 0 <= graded.ranked <= depth:
        return f"{graded.ranked} units ranked, where the system keeps {depth}"
    if (
        any(type(rank) is not int for rank in (*ranks, *covered))
        or ranks != sorted(set(ranks))
        or list(covered) != sorted(set(covered))
    ):
        return "ranks are not whole numbers that rise"
    if any(not 1 <= rank <= graded.ranked for rank in ranks):
        return "a gain outside of what was ranked"
    if Counter(gain for _, gain in graded.gains) - Counter(graded.ideal):
        return "more, or better, relevant units than the corpus holds"
    if (
        covered.keys() - gained.keys()
        or len(indexes) != len(set(indexes))
        or set(indexes) - set(range(len(graded.evidence)))
    ):
        return "evidence is covered twice, where nothing was gained, or is not there"
    if ranks and ranks[0] not in covered:
        return "the first gain covers no evidence"
    if any(gained[rank] < max(graded.evidence[index] for index in some) for rank, some in graded.covers if some):
        return "a unit gains less than the evidence it covers"
    known = [0]
    for rank in ranks:
        known += [graded.evidence[index] for index in covered.get(rank, ())]
        if gained[rank] > max(known):
            return "a unit gains more than the evidence found so far"
    return ""


def _rederived(one: Submission, now: Study) -> Iterator[Finding]:
    yield from _problems(f"metrics.csv: {problem}" for problem in build.rederive(one.folder))


def _chunks(one: Submission, now: Study) -> Iterator[Finding]:
    """Chunks that came along: of a chunker the study does not have, and of the whole corpus, not of chosen places in it."""
    if one.chunks and one.chunker in now.chunks:
        yield Finding(
            "problem", f"{UNITS}: chunker {one.chunker!r} is one of the study; use its chunks, or another name"
        )
    elif one.chunks:
        said = [document for document in now.corpus.documents if document.text.strip()]
        held = grading.merged(unit.span for unit in one.chunks)
        texts = {document.doc_id: document.text for document in said}
        letters = lambda text: len("".join(text.split()))
        share = sum(letters(texts.get(span.doc_id, "")[span.start : span.end]) for span in held)
        share /= max(1, sum(map(letters, texts.values())))
        if share < WHOLE:
            yield Finding(
                "warning",
                f"{UNITS}: the chunks hold {share:.0%} of the corpus; what they leave out cannot be a wrong hit",
            )
        longest = max((_mean_length(units) for units in now.chunks.values()), default=math.inf)
        times = _mean_length(one.chunks) / longest
        if times > LONGER:
            yield Finding(
                "warning",
                f"{UNITS}: the chunks are {times:.1f} times as long as the longest of the study's chunkers; a chunk that is most of a "
                "document holds evidence that nobody found in it",
            )


def _mean_length(chunks: Sequence[Unit]) -> float:
    return sum(len(unit.span) for unit in chunks) / max(1, len(chunks))


def _rankings(one: Submission, now: Study) -> Iterator[Finding]:
    """Where the rankings came along: they hold units of the system only, and give exactly these gains."""
    if not (one.folder / HITS).is_file():
        yield Finding("warning", f"{HITS}: not there; gains are checked for being possible, not for having happened")
        return
    hits = tables.read_hits(one.folder / HITS)
    for text, some in one.gains.items():
        rule = ScoringRule.parse(text)
        units, chunks = _units(one, now, rule), {unit.span for unit in one.chunks or now.chunks.get(one.chunker, ())}
        foreign = _foreign(hits, chunks)
        if foreign:
            yield Finding(
                "problem", f"{HITS}: {foreign} is no unit of chunker {one.chunker!r}, or stands twice in one ranking"
            )
            return
        for graded in (graded for graded in some if graded.query_id in now.queries):
            ranking = hits.get((one.row["system"], graded.query_id), [])
            if grading.grade(ranking, now.queries[graded.query_id], rule, units) != graded:
                yield Finding("problem", f"{text}: gains of {graded.query_id} do not follow from {HITS}")


def _foreign(hits: Mapping, chunks: set[Span]) -> Span | None:
    for ranking in hits.values():
        seen = set()
        for hit in ranking:
            if hit.span not in chunks or hit.span in seen:
                return hit.span
            seen.add(hit.span)
    return None


CHECKS: tuple[Callable[[Submission, Study], Iterable[Finding]], ...] = (
    _description, _one_system, _weights, _provenance, _questions, _labels, _possible, _rederived, _chunks, _rankings,
)  # fmt: skip


# The board


def folders(root: Path, study: str = "") -> list[Path]:
    """Every submission, or those of one study, by name."""
    if study and not (root / FOLDER / study).is_dir():
        known = [path.name for path in (root / FOLDER).glob("*/")] if (root / FOLDER).is_dir() else []
        raise BadInput(
            f"{FOLDER}/{study}: no submission yet{near(study, known)}; make one: localeval leaderboard {study} --export SYSTEM"
        )
    return sorted(path for path in (root / FOLDER).glob(f"{study or '[!.]*'}/[!.]*/") if path.is_dir())


def read(root: Path, study: str = "", *, check: bool = True, strict: bool = False) -> dict:
    """Every board with its rows, and every finding. A submission with a problem is named and not ranked, checked or not; a board that
    cannot be read stops no other, and is named under `unread`."""
    studies: dict[str, list[Path]] = {}
    for folder in folders(root, study):
        studies.setdefault(folder.parent.name, []).append(folder)
    boards, unread = [], []
    for name, some in studies.items():
        try:
            boards.append(_board(root, name, some, strict))
        except BadInput as error:
            if study:
                raise
            unread.append({"study": name, "reason": str(error)})  # and the other boards are shown all the same
    findings = [one for board in boards for one in board.pop("findings")]
    problems = sum(one["level"] == "problem" or strict for one in findings)
    return {
        "version": VERSION,
        "boards": boards,
        "unread": unread,
        "findings": findings,
        "problems": problems,
        "checked": check,
        "strict": strict,
    }


def _board(root: Path, study: str, some: list[Path], strict: bool) -> dict:
    now, asks = study_at(root, study), _asks(root, study)
    origin = gold.stratum(list(now.queries.values()), asks.origin)
    findings, rows, values = [], [], {}
    for folder in some:
        found = check(folder, now)
        findings += [{"folder": folder.relative_to(root).as_posix()} | asdict(one) for one in found]
        bad = [one.text for one in found if one.level == "problem" or strict]
        if not bad:
            own = values_of(folder, asks, origin)
            bad = [] if own else [f"no {origin} question has a value of {asks.metric} under {asks.rule}"]
        if bad:
            rows.append({"name": folder.name, "left_out": bad[0]})
            continue
        values[folder.name] = own
        one = open_submission(folder)
        rows.append(
            {"name": folder.name} | _row(one, own, asks.metric) | {metrics.JUDGED: judged(one, now, asks.rule, origin)}
        )
    ranges = ranked(values, asks, origin)
    shown = [
        row | {"rank_low": ranges[row["name"]][0], "rank_high": ranges[row["name"]][1]} for row in rows if "mean" in row
    ]
    return {
        "study": study, "metric": asks.metric, "rule": asks.rule, "origin": origin, "alpha": asks.alpha,
        "rows": sorted(shown, key=lambda row: (-row["mean"], row["name"])),
        "left_out": [row for row in rows if "left_out" in row], "findings": findings,
    }  # fmt: skip


def _asks(root: Path, study: str) -> Settings:
    """Metric, rule and origin of a board: those of the study's gate, else the defaults; the table says which."""
    return read_settings(root, study) if (root / "params" / study / "gate.yml").is_file() else Settings()


def values_of(folder: Path, asks: Settings, origin: str) -> dict[str, float]:
    """The board's metric by question, from the gains."""
    some = next(
        (some for (_, rule), some in tables.read_gains(folder / "gains.jsonl.gz").items() if rule == asks.rule), ()
    )
    values = {one.query_id: metrics.measure(one, asks.metric) for one in some if one.origin == origin}
    return {name: value for name, value in values.items() if value is not None}


def judged(one: Submission, now: Study, rule: str, origin: str) -> float:
    """`holes.judged_share` of a submission by the judgements of the study at hand; NaN where its rankings did not come along."""
    if not (one.folder / HITS).is_file():
        return math.nan
    units = {(one.chunker, ScoringRule.parse(rule).unit): _units(one, now, ScoringRule.parse(rule))}
    asked = [query for query in judgements.with_answers(now.queries.values(), now.said) if query.origin == origin]
    hits = tables.read_hits(one.folder / HITS)
    return holes.judged_share(
        holes.labeller(units, now.corpus, now.said)(rule), hits, asked, one.row["system"], one.chunker
    )


def _row(one: Submission, values: Mapping[str, float], metric: str) -> dict:
    ordered = [values[name] for name in sorted(values)]
    got = stats.interval(ordered, binary=metrics.is_binary(metric))
    checked = "from its rankings" if (one.folder / HITS).is_file() else "possible gains only"
    return {"system": one.row["system"], "mean": got.mean, "low": got.low, "high": got.high, "n": got.n, "note": got.note,
            "gains": checked, "harness": str(one.about["harness"]), "weights": one.about["weights"]}  # fmt: skip


def ranked(values: Mapping[str, Mapping[str, float]], asks: Settings, origin: str) -> dict[str, tuple[int, int]]:
    """Best and worst rank of each name that the data do not rule out (see `ranking.ranks`: all pairs together, at level 1 - alpha)."""
    import pandas as pd

    from localeval import ranking

    if len(values) < 2:
        return dict.fromkeys(values, (1, 1))
    rows = [(name, query, value) for name, own in values.items() for query, value in own.items()]
    scores = pd.DataFrame(rows, columns=["system", "query_id", "value"])
    scores = scores.assign(metric=asks.metric, rule=asks.rule, origin=origin)
    board = ranking.panel(scores, asks.metric, asks.rule, origin)
    table = ranking.ranks(board, ranking.pairs(board), alpha=asks.alpha)
    return {row.system: (int(row.rank_low), int(row.rank_high)) for row in table.itertuples()}


EXPLAINED = (
    "Order: mean, then name. Ranks: those that this many questions do not rule out, all pairs compared together at alpha {alpha:g}. "
    f"{metrics.JUDGED}: share of the first units that hold marked evidence or that a person read and refused."
)


def lines(report: dict) -> Iterator[str]:
    """The boards as text, then what was found."""
    yield from (f"{one['study']}: no board: {one['reason']}\n" for one in report["unread"])
    if not report["boards"] and not report["unread"]:
        yield f"no submission yet; make one: localeval leaderboard STUDY --export SYSTEM (writes {FOLDER}/STUDY/NAME)"
    for board in report["boards"]:
        yield f"{board['study']}: {board['metric']} under {board['rule']}, {board['origin']} questions"
        width = max(4, *(len(row["name"]) for row in (*board["rows"], *board["left_out"]))) + 2
        yield f"{'name':<{width}}{'ranks':<8}{'mean':>7}  {'95 % interval':<18}{'n':>4}  {metrics.JUDGED:<11}gains"
        for row in board["rows"]:
            ranks, mean, ends, n, share, gains = _cells(row)
            yield f"{row['name']:<{width}}{ranks:<8}{mean:>7.4f}  {ends:<18}{n:>4}  {share:<11}{gains}"
        yield from (f"{row['name']:<{width}}not ranked: {row['left_out']}" for row in board["left_out"])
        yield f"{EXPLAINED.format(**board)}\n"
    if report["checked"]:
        yield from (f"{one['level']}: {one['folder']}: {one['text']}" for one in report["findings"])
        warnings = len(report["findings"]) - sum(one["level"] == "problem" for one in report["findings"])
        yield f"check: {report['problems']} problems, {warnings} warnings{' (strict)' if report['strict'] else ''}"


MARK = "<!-- boards -->"  # where a page of the book shows them


def show(root: Path, page: Path) -> None:
    """Puts every board of the project, checked just now, in place of MARK in a page that the site is built from."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""  # a project of its own may have no such page
    if MARK in text:
        told = read(root) if (root / FOLDER).is_dir() else {"boards": [], "unread": []}
        page.write_text(text.replace(MARK, "\n\n".join(_shown(told)) or "Nothing was submitted yet."), encoding="utf-8")


def _shown(told: dict) -> Iterator[str]:
    import pandas as pd

    from localeval import report

    for board in told["boards"]:
        rows = [(row["name"], *_cells(row)) for row in board["rows"]]
        frame = pd.DataFrame(rows, columns=["name", "ranks", "mean", "95 % interval", "n", metrics.JUDGED, "gains"])
        said = (
            f"Submitted for {board['study']}: {board['metric']} under {board['rule']}, {board['origin']} questions, from the gains, each "
            f"checked when this page was built. {EXPLAINED.format(**board)}"
        )
        yield report.table(frame, said, formats={"mean": ".4f"}).html
        yield from (f"`{row['name']}` is not ranked: `{row['left_out']}`" for row in board["left_out"])
    yield from (
        f"`{one['study']}` has no board: `{one['reason'].replace(str(Path.cwd()), '.')}`" for one in told["unread"]
    )


def _cells(row: Mapping) -> tuple:
    """What both the terminal and the page show of a row: ranks, mean, interval, n, share judged, how its gains were checked."""
    ranks = f"{row['rank_low']}-{row['rank_high']}" if row["rank_low"] < row["rank_high"] else f"{row['rank_low']}"
    ends = f"{row['low']:.4f} to {row['high']:.4f}" if row["low"] == row["low"] else row["note"]
    share = f"{row[metrics.JUDGED]:.1%}" if row[metrics.JUDGED] == row[metrics.JUDGED] else "not known"
    return ranks, row["mean"], ends, row["n"], share, row["gains"]


# Making a submission


def export(root: Path, study: str, system: str, name: str = "", folder: str = "") -> Path:
    """Writes the folder of a submission from the run at hand; a folder that is there already is refused."""
    where = bases.folder_of(root, study, folder)
    at, name = root / where, name or re.sub(r"[^\w.=+@-]+", "_", system)
    target = root / FOLDER / study / name
    if not re.fullmatch(r"[\w.=+@-]+", name) or name.startswith("."):
        raise BadInput(f"--name {name}: use letters, digits and . _ = + @ - only")
    if target.exists():
        raise BadInput(f"{target.relative_to(root)}: is there already; remove it, or give another --name")
    notebook, row, known = _find(at, system)
    if row is None:
        raise BadInput(f"{system}: no system of {where}{near(system, known)}")
    if row["status"] not in bases.RAN:
        raise BadInput(f"{system}: did not run ({row['status']}: {row['reason']}); only what ran can be submitted")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as temporary:
        part = Path(temporary) / "part"
        part.mkdir()
        _fill(part, at, notebook, row)
        _describe(part, study_at(root, study, folder), at, notebook, row, study, name)
        part.rename(target)
    return target


def _find(at: Path, system: str) -> tuple[str, dict | None, list[str]]:
    known: list[str] = []
    for path in sorted(at.glob("[!.]*/runs.csv")):
        rows = tables.read_csv(path)
        known += list(rows["system"])
        mine = rows[rows["system"] == system]
        if len(mine) and (path.parent / "gains.jsonl.gz").is_file():
            return path.parent.name, mine.iloc[0].to_dict(), known
    return "", None, known


def _fill(part: Path, at: Path, notebook: str, row: dict) -> None:
    """Row, gains, metrics and, where the run has them, rankings of one system."""
    import pandas as pd

    system = row["system"]
    gains = {key: some for key, some in tables.read_gains(at / notebook / "gains.jsonl.gz").items() if key[0] == system}
    names = tables.read_csv(at / notebook / "metrics.csv")["metric"].unique()
    tables.write_csv(pd.DataFrame([row]), part / "runs.csv")
    tables.write_gains(gains, part / "gains.jsonl.gz")
    tables.write_csv(stats.summary(metrics.scores_of(gains, names), is_binary=metrics.is_binary), part / "metrics.csv")
    if (at / notebook / "hits.jsonl").is_file():
        tables.write_jsonl(
            (one for one in tables.read_jsonl(at / notebook / "hits.jsonl") if one["system"] == system), part / HITS
        )


def _describe(part: Path, now: Study, at: Path, notebook: str, row: dict, study: str, name: str) -> None:
    """submission.yml and provenance.json. The hash of weights is that of the model's card; one that is not pinned stays open."""
    record = json.loads(existing(at / notebook / "provenance.json", RERUN).read_text(encoding="utf-8"))
    kept = {key: record.get(key) for key in RECORDED}
    signed = {path.name: digest_path(path) for path in sorted(part.iterdir())}
    made = kept | {"fingerprint": now.fingerprint, "artefacts": signed, "notebook": notebook}
    (part / "provenance.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    weights = {one: {"sha256": CARDS[one].sha256 if one in CARDS else ""} for one in needed_weights(row)}
    about = {
        "version": VERSION, "name": name, "study": study, "system": row["system"], "harness": __version__, "corpus": now.fingerprint,
        "gold": now.gold, "created": datetime.now(UTC).date(), "weights": weights,
    }  # fmt: skip
    (part / "submission.yml").write_text(yaml.safe_dump(about, sort_keys=False, allow_unicode=True), encoding="utf-8")
