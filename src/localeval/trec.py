"""Judgements and rankings in the files that retrieval research exchanges, read strictly and graded for the metrics of `metrics`.

    qrels (TREC)  query iteration document label         columns by white space; the second is ignored
    qrels (BEIR)  query-id corpus-id score               columns by tabs, below a line with these names
    run (TREC)    query Q0 document rank score tag       the second column and the rank are ignored: the score decides

UTF-8, packed with gzip or not, from a file or a pipe; blank lines and lines that begin with `#` are skipped, as trec_eval does.
Every error is a `BadInput` of one line; what was read but looks wrong is a note. The meaning of the files is trec_eval's (NIST): a
label below 0 is no judgement, a document without a label is not relevant.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from localeval import metrics
from localeval.records import BadInput, Graded

RULE = "trec"
TIES = {
    "doc_order": "by score, highest first; equal scores by document id, ascending",
    "trec_eval": "by score in single precision, highest first; equal scores by document id, descending",
}
GAINS = {"linear": "the label", "exponential": "2^label - 1"}
BY_GRADE = (
    "ndcg",
    "ndcg_exp",
    "condensed_ndcg",
    "condensed_ndcg_exp",
)  # these read labels; the others only whether a label reaches the level
LABELLED = ("ndcg", "condensed_ndcg")  # of those, the ones whose gain can be chosen
METRICS = tuple(name for name in metrics.METRICS if not name.startswith("evidence_"))
QRELS_COLUMNS = "query iteration document label"
RUN_COLUMNS = "query Q0 document rank score tag"
SWAPPED = "distances, or score and rank swapped? Here the highest score comes first"
WHOLE = rb"[+-]?[0-9]{1,15}"  # a label; floats hold every one

Qrels = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Run:
    """What one system returned. name: its tag, or the file's name where tags differ. hits: query -> document -> score."""

    name: str
    path: Path
    hits: dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Conventions:
    """Everything that can change a score of the same two files.

    ties: one of TIES. gain: one of GAINS, what `ndcg` makes of a label. level: lowest label that is relevant to every other metric
    (trec_eval -l). depth: ranks read of each query, None for all (-M). judged_only: rankings without their unjudged documents (-J).
    """

    ties: str = "doc_order"
    gain: str = "linear"
    level: int = 1
    depth: int | None = None
    judged_only: bool = False


DEFAULT = Conventions()


def read_qrels(path: Path, notes: list[str] | None = None) -> Qrels:
    """Query -> document -> label. The same judgement twice is one; two that differ are an error. notes: what looks wrong is added."""
    qrels: dict[bytes, dict[bytes, int]] = {}
    width, layout, separator = 4, QRELS_COLUMNS, None
    lines = _lines(path)
    for number, line in _said(lines):
        if not qrels and line.lower().replace(b"_", b"-").split()[:2] == [b"query-id", b"corpus-id"]:
            width, layout, separator = 3, "query-id corpus-id score", b"\t" if b"\t" in line else None
            continue
        fields = [field.strip() for field in line.split(separator)]
        if len(fields) != width or not all(fields):
            raise BadInput(
                f"{path}:{number}: {_columns(fields)}; qrels have {width}: {layout}{_guess(line, fields, width)}"
            )
        query, document, label = fields[0], fields[-2], fields[-1]
        if not re.fullmatch(WHOLE, label):
            advice = _foreign(line, fields) or "; round grades yourself, and say how"
            raise BadInput(f"{path}:{number}: label {_show(label)} is not a whole number of up to 15 digits{advice}")
        value = qrels.setdefault(query, {}).setdefault(document, int(label))
        if value != int(label):
            raise BadInput(
                f"{path}:{number}: {_show(document)} has label {int(label)} for query {_show(query)}, and label {value} "
                f"on line {_first(lines, query, document, separator)}; keep one"
            )
    fits = lambda fields: len(fields) == width and re.fullmatch(WHOLE, fields[-1])
    skipped = _skipped((line.split(separator) for line in _comments(lines)), fits, "a judgement")
    if not qrels:
        raise BadInput(f"{path}: no judgement in it; write lines of {QRELS_COLUMNS}{skipped and f'; {skipped}'}")
    if notes is not None and skipped:
        notes.append(f"{path}: {skipped}")
    return {query.decode(): {doc.decode(): label for doc, label in docs.items()} for query, docs in qrels.items()}


def read_run(path: Path, notes: list[str] | None = None) -> Run:
    """A run in the six columns of TREC. Text after the tag is skipped; the order of lines does not matter. notes: as in `read_qrels`."""
    hits: dict[bytes, dict[bytes, float]] = {}
    ranks: dict[bytes, array] = {}
    tags = set()
    lines = _lines(path)
    for number, line in _said(lines):
        fields = line.split()
        if len(fields) < 6 or (len(fields) > 6 and _number(fields[5]) is not None):
            raise BadInput(f"{path}:{number}: {_columns(fields)}; a run has 6: {RUN_COLUMNS}{_guess(line, fields, 6)}")
        query, _, document, place, score, tag = fields[:6]
        value = _number(score)
        if value is None or not math.isfinite(value):
            advice = _foreign(line, fields)
            raise BadInput(
                f"{path}:{number}: score {_show(score)} is not a finite number; column 5 of {RUN_COLUMNS}{advice}"
            )
        found = hits.setdefault(query, {})
        if document in found:
            raise BadInput(
                f"{path}:{number}: {_show(document)} again for query {_show(query)} (first on line "
                f"{_first(lines, query, document)}); keep its best score only"
            )
        if not found:
            ranks[query] = array("d")
        found[document], place = value, _number(place)
        ranks[query].append(math.nan if place is None else place)
        tags.add(tag)
    fits = lambda fields: len(fields) >= 6 and _number(fields[4]) is not None
    skipped = _skipped((line.split() for line in _comments(lines)), fits, "a hit")
    if not hits:
        raise BadInput(f"{path}: no hit in it; write lines of {RUN_COLUMNS}{skipped and f'; {skipped}'}")
    if notes is not None:
        notes += [f"{path}: {note}" for note in (skipped, _doubt(ranks, hits)) if note]
    name = tags.pop().decode() if len(tags) == 1 else path.name
    return Run(
        name, path, {query.decode(): {doc.decode(): s for doc, s in docs.items()} for query, docs in hits.items()}
    )


def _lines(path: Path) -> list[bytes]:
    """All lines, read once since a pipe gives them once. As bytes: only ASCII white space parts columns, whatever an id holds."""
    if not (path.is_file() or path.is_fifo()):
        what = "a folder" if path.is_dir() else "neither a file nor a pipe" if path.exists() else "no such file"
        raise BadInput(f"{path}: {what}; name a file of judgements or hits")
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        data.decode()
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read ({error or 'cut short'}); copy or pack it again") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadInput(f"{path}:{line}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    return data.removeprefix(b"\xef\xbb\xbf").splitlines()


def _said(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines that say something, with their numbers."""
    for number, line in enumerate(lines, 1):
        start = line.lstrip()[:1]
        if start and start != b"#":
            yield number, line


def _comments(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (line for line in lines if b"#" in line and line.lstrip().startswith(b"#"))


def _skipped(comments: Iterable[list[bytes]], fits: Callable[[list[bytes]], object], what: str) -> str:
    """Says how many comments may be data: `#` is part of their first column, and they have the columns of `what`."""
    found = sum(bool(fields[0].strip() != b"#" and fits(fields)) for fields in comments)
    lines = f"{found} line{'s' * (found != 1)} beginning with # could be {what}"
    return f"{lines}, skipped as a comment: no query id may begin with #" if found else ""


def _doubt(ranks: dict[bytes, array], hits: dict[bytes, dict[bytes, float]]) -> str:
    """What the columns of rank and score say against each other in every query. ranks: of the hits, in their order; NaN for none."""
    rising = counting = True
    told = fractions = False
    for query, places in ranks.items():
        scores = list(hits[query].values())
        if len(set(places)) < len(places) or not math.isfinite(sum(places)):
            return ""
        if len(set(scores)) == 1:
            continue
        by_rank, low = [score for _, score in sorted(zip(places, scores, strict=True))], min(scores)
        rising = rising and by_rank == sorted(scores)
        counting = counting and low in (0, 1) and sorted(scores) == [low + step for step in range(len(scores))]
        if not (rising or counting):
            return ""
        told, fractions = True, fractions or not all(map(float.is_integer, places))
    if told and rising:
        return f"the score rises with the rank in every query: {SWAPPED}"
    if told and counting and fractions:
        return f"scores count 1, 2, 3 in every query and ranks are fractions: {SWAPPED}"
    return ""


def _number(text: bytes) -> float | None:
    try:
        return None if b"_" in text else float(text)
    except ValueError:
        return None


def _show(text: bytes) -> str:
    text = text.decode()
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _columns(fields: Sequence[bytes]) -> str:
    return f"{len(fields)} column{'s' * (len(fields) != 1)}"


def _foreign(line: bytes, fields: Sequence[bytes]) -> str:
    """Names another format that a line looks like."""
    if line.lstrip()[:1] in (b"{", b"["):
        return "; this looks like JSON: write plain columns, one line each"
    if len(fields) < 3 and max(line.count(b","), line.count(b";")) >= 2:
        return "; this looks like CSV: part the columns by tabs or blanks"
    return ""


def _guess(line: bytes, fields: Sequence[bytes], width: int) -> str:
    """What probably happened to a line of the wrong width."""
    foreign = _foreign(line, fields)
    if foreign:
        return foreign
    if (len(fields), width) == (3, 4):
        return "; a BEIR file begins with the line query-id, corpus-id, score, parted by tabs"
    if (len(fields), width) in ((6, 4), (4, 6)):
        return "; are --qrels and --run the wrong way round?"
    return "; no column may be left out, and no id may hold a blank"


def _first(lines: Iterable[bytes], query: bytes, document: bytes, separator: bytes | None = None) -> int:
    """Number of the first line about this document and query."""
    for number, line in _said(lines):
        fields = [field.strip() for field in line.split(separator)]
        if fields[0] == query and document in fields[1:3]:
            return number
    raise LookupError(document)


def check_ids(qrels: Qrels, run: Run, qrels_path: Path) -> None:
    """Refuses a run of which no query was judged: ids are compared as texts, and zeros for all would say nothing."""
    if not qrels.keys() & run.hits.keys():
        raise BadInput(
            f"{run.path}: none of its queries ({some(run.hits)}) is judged in {qrels_path} ({some(qrels)}); "
            "ids must be equal character by character"
        )


def some(ids: Iterable[str], most: int = 3) -> str:
    """The first few ids in order, and how many more there are."""
    ids = sorted(ids)
    return ", ".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")


def rank(hits: dict[str, float], ties: str = "doc_order") -> list[str]:
    """Documents best first; the same list whatever the order of `hits`. ties: one of TIES."""
    if ties == "doc_order":
        return sorted(sorted(hits), key=hits.__getitem__, reverse=True)
    return sorted(sorted(hits, reverse=True), key=_compared(hits, ties).__getitem__, reverse=True)


def _compared(hits: dict[str, float], ties: str) -> dict[str, float]:
    """The scores as this rule compares them: in single precision as trec_eval does, or as they are."""
    if ties == "doc_order":
        return hits
    import numpy as np

    with np.errstate(over="ignore"):
        single = np.fromiter(hits.values(), float, len(hits)).astype(np.float32).tolist()
    return dict(zip(hits, single, strict=True))


def grade(query_id: str, hits: dict[str, float], labels: dict[str, int], how: Conventions = DEFAULT) -> Graded:
    """One ranking with its labels as gains, 0 among them; no label, or one below 0, is no judgement.

    A label below 0 is kept as a gain of -1, which says: in the pool, and not drawn to be judged. Only `infap` reads it.
    A query without a label above 0 is `unanswerable`: it has no value.
    """
    known = {document: float(label) for document, label in labels.items() if label >= 0}
    seen = known | {document: -1.0 for document, label in labels.items() if label < 0}
    ranking = rank(hits, how.ties)
    if how.judged_only:
        ranking = [document for document in ranking if document in known]
    ranking = ranking[: how.depth]
    gains = tuple((place, seen[document]) for place, document in enumerate(ranking, 1) if document in seen)
    return _stated(Graded(query_id, "", gains, ideal=tuple(sorted(known.values(), reverse=True)), ranked=len(ranking)))


def at_level(graded: Graded, level: int) -> Graded:
    """The same ranking with every gain below `level` as 0: what a metric sees that only knows relevant and not."""
    if level <= 1:
        return graded
    cut = lambda gain: gain if gain >= level or gain < 0 else 0.0
    gains = tuple((place, cut(gain)) for place, gain in graded.gains)
    return _stated(replace(graded, gains=gains, ideal=tuple(map(cut, graded.ideal))))


def _stated(graded: Graded) -> Graded:
    return replace(graded, status="scored" if any(gain > 0 for gain in graded.ideal) else "unanswerable")


def best_possible(graded: Graded, depth: int | None = None) -> Graded:
    """The ranking of all relevant documents and nothing else, best first, down to `depth`: what no run can beat."""
    gains = tuple(enumerate((gain for gain in graded.ideal if gain > 0), 1))[:depth]
    return replace(graded, gains=gains, ranked=len(gains))


def _view(graded: Graded, name: str, how: Conventions) -> tuple[Graded, Graded]:
    """What a metric sees of one ranking, and of the best possible one. `judged` asks for no relevant document, only for labels."""
    base = name.partition("@")[0]
    if base == "judged":
        known = tuple(enumerate(graded.ideal, 1))[: how.depth]
        graded = replace(graded, status="scored")
        return graded, replace(graded, gains=known, ranked=len(known))
    graded = graded if base in BY_GRADE else at_level(graded, how.level)
    return graded, best_possible(graded, how.depth)


@dataclass(frozen=True, slots=True)
class Scores:
    """Per-query values of one run: query -> metric -> value, None where the query has no document that this metric asks for.

    Every judged query is there; one the run does not answer has 0. ceiling: the same of the best possible ranking. Where no label
    reaches the level there is no value, but `ndcg` needs only a label above 0, and `judged` none.
    """

    values: dict[str, dict[str, float | None]]
    ceiling: dict[str, dict[str, float | None]]


def scores(qrels: Qrels, run: Run, names: Sequence[str], how: Conventions = DEFAULT) -> Scores:
    """Every metric of every judged query, in order of query id. names: as in METRICS, with or without a cut."""
    for name in names:
        base, _, cut = name.partition("@")
        if re.fullmatch(r"[0-9]{10,}", cut):
            raise BadInput(f"{base[:20]}@{cut[:9]}...: a cut of {len(cut)} digits; no ranking is that long")
        metrics.parse(name)
        if base not in METRICS:
            raise BadInput(
                f"{name}: needs evidence as spans, which a run does not have; known here: {', '.join(METRICS)}"
            )
    if any(_computed(name, how.gain).partition("@")[0].endswith("ndcg_exp") for name in names):
        highest = max(label for labels in qrels.values() for label in labels.values())
        if highest > 1000:
            raise BadInput(f"label {highest} is too high for the gain 2^label - 1; score with the linear gain")
    values, ceiling = {}, {}
    for query in sorted(qrels):
        graded = grade(query, run.hits.get(query, {}), qrels[query], how)
        views = {name: _view(graded, name, how) for name in names}
        for table, side in ((values, 0), (ceiling, 1)):
            table[query] = {
                name: metrics.measure(both[side], _computed(name, how.gain)) for name, both in views.items()
            }
    return Scores(values, ceiling)


def _computed(name: str, gain: str) -> str:
    base, at, cut = name.partition("@")
    return f"{base}_exp{at}{cut}" if base in LABELLED and gain == "exponential" else name


def relevant(labels: dict[str, int], level: int = 1) -> int:
    """Documents whose label reaches the level."""
    return sum(label >= level for label in labels.values())


def tied(qrels: Qrels, run: Run, ties: str = "doc_order") -> list[str]:
    """Queries in which documents of one score have different labels (none counts as 0): their value depends on the tie rule.

    ties: one of TIES; in single precision more scores are one.
    """
    found = []
    for query in sorted(qrels.keys() & run.hits.keys()):
        labels, seen = qrels[query], {}
        for document, score in _compared(run.hits[query], ties).items():
            label = max(0, labels.get(document, 0))
            if seen.setdefault(score, label) != label:
                found.append(query)
                break
    return found
