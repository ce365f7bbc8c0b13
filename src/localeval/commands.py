"""The commands that need no project: `score` and `compare` for the runs of any system, `quality` for the pages of any PDF."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from localeval import metrics, trec
from localeval.records import BadInput, Comparison

METRICS = "ndcg@10 recall@100 rr@10 map judged@10"
METRIC = "ndcg@10"
PAGE_KEYS = ("doc_id", "page_index", "page_label", "class", "quality", "confidence", "reason")
FILES = f"""\
files:
  judgements  {trec.QRELS_COLUMNS}, in columns; or BEIR's query-id, corpus-id, score, by tabs, with these names on top
  runs        {trec.RUN_COLUMNS}, in columns; the score decides, the rank column is ignored
"""
SCORE = f"""\
{FILES}
metrics: {", ".join(trec.METRICS)};
with a cut as in ndcg@10, without one the whole ranking is read

the mean is over judged queries that have a relevant document: one the run does not answer counts as 0. With --level, ndcg still
asks for a label above 0 only; judged asks for none. As trec_eval computes it:
  trec_eval -c qrels run    localeval score --qrels qrels --run run --ties trec_eval --no-relevant zero
  trec_eval qrels run       the same with --answered-only
  trec_eval -q, -l 2, -M 100, -J    --per-query, --level 2, --max-per-query 100, --judged-only
"""
COMPARE = f"""\
{FILES}
the difference is second minus first, over the judged queries that have a relevant document, paired by query id
"""


class _Once(argparse.Action):
    """An option that may not be given again: the last one would win silently. Its default is None."""

    def __call__(self, parser, namespace, value, option=None):
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, f"given twice; {parser.prog.split()[-1]} takes one")
        setattr(namespace, self.dest, value)


def add_arguments(parsers: dict[str, argparse.ArgumentParser]) -> None:
    """What these commands take."""
    score, compare, quality = (parsers[name] for name in ("score", "compare", "quality"))
    for parser, runs, epilog in ((score, "the run", SCORE), (compare, "a run; give two", COMPARE)):
        parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, epilog
        parser.description = textwrap.fill(parser.description, 79)
        judgements = "judgements, TREC or BEIR, or .gz"
        parser.add_argument("--qrels", type=Path, required=True, action=_Once, metavar="FILE", help=judgements)
        parser.add_argument("--run", type=Path, required=True, action="append", metavar="FILE", help=f"{runs}, or .gz")
    compare.add_argument("--metric", action=_Once, help=f"one: each further one is a further test; default: {METRIC}")
    score.add_argument("--metrics", nargs="+", action="extend", metavar="NAME", help=f"default: {METRICS}")
    gain = "what ndcg gains from a label: itself, or 2^label - 1; default: %(default)s"
    score.add_argument("--gain", choices=trec.GAINS, default="linear", help=gain)
    for parser in (score, compare):
        parser.add_argument("--ties", choices=trec.TIES, default="doc_order", help=_ties_help())
        level = "lowest label that is relevant, for every metric but ndcg (trec_eval -l)"
        parser.add_argument("--level", type=positive, default=1, metavar="N", help=level)
        depth = "read the first M ranks of each query only (trec_eval -M)"
        parser.add_argument("--max-per-query", type=positive, metavar="M", help=depth)
        only = "leave unjudged documents out of every ranking (trec_eval -J)"
        parser.add_argument("--judged-only", action="store_true", help=only)
    answered = "mean over the queries that the run answers: hides what it did not (trec_eval without -c)"
    score.add_argument("--answered-only", action="store_true", help=answered)
    empty = "judged queries without a relevant document: left out of the mean, or 0 as trec_eval counts them"
    score.add_argument("--no-relevant", choices=("leave_out", "zero"), default="leave_out", help=empty)
    score.add_argument("--per-query", action="store_true", help="also print the values of each query")
    quality.add_argument("path", type=Path, help="a PDF, markdown or text file, or a folder of them")
    judged = parsers["judge"]
    judged.add_argument("study", help="a folder of params/")
    judged.add_argument(
        "file", type=Path, help="the filled worklist: worklist.csv of 55_labels, or .jsonl with the same keys"
    )
    judged.add_argument("--by", action=_Once, metavar="NAME", help="who judged, for lines that do not say")
    for parser in (score, compare, quality):
        parser.add_argument("--json", action="store_true", help="print JSON; what has no value is null")


def _ties_help() -> str:
    return "; ".join(f"{name}: {rule}" for name, rule in trec.TIES.items()) + "; default: %(default)s"


def positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _how(arguments: argparse.Namespace) -> trec.Conventions:
    gain = getattr(arguments, "gain", "linear")
    depth, only = arguments.max_per_query, arguments.judged_only
    return trec.Conventions(arguments.ties, gain, arguments.level, depth, only)


def score(arguments: argparse.Namespace) -> int:
    """One run against judgements: counts, means with intervals, and every convention that went into them."""
    if len(arguments.run) != 1:
        raise BadInput("--run: score takes one run; for two there is localeval compare")
    names = list(dict.fromkeys(re.split(r"[\s,]+", " ".join(arguments.metrics or [METRICS]).strip(" ,"))))
    notes: list[str] = []
    qrels, run = trec.read_qrels(arguments.qrels, notes), trec.read_run(arguments.run[0], notes)
    trec.check_ids(qrels, run, arguments.qrels)
    how, zero = _how(arguments), arguments.no_relevant == "zero"
    report = scored(qrels, run, names, how, arguments.answered_only, zero, notes)
    print_json(report) if arguments.json else write("\n".join(_score_text(report, arguments.per_query)))
    return 0


def scored(
    qrels: trec.Qrels,
    run: trec.Run,
    names: list[str],
    how: trec.Conventions,
    answered_only: bool = False,
    zero: bool = False,
    notes: Iterable[str] = (),
) -> dict:
    """What `score --json` prints: rule, queries, conventions, metrics, per_query, notes.

    answered_only: queries that the run does not answer have no value. zero: queries without a relevant document have 0. Both
    `not_eligible` count judged queries: without a label of the level, and of a metric those that have no value of it. notes: of
    the files.
    """
    from localeval import stats

    got, answered = trec.scores(qrels, run, names, how), qrels.keys() & run.hits.keys()
    empty = [query for query, labels in qrels.items() if not trec.relevant(labels, how.level)]
    table = {}
    for query, row in got.values.items():
        there = not answered_only or query in answered
        table[query] = {name: (0.0 if zero and v is None else v) if there else None for name, v in row.items()}
    rows = []
    for name in names:
        values = {query: row[name] for query, row in table.items() if row[name] is not None}
        best = [got.ceiling[query][name] or 0.0 for query in values]
        about = asdict(stats.interval(list(values.values()), binary=metrics.is_binary(name)))
        gain = {"gain": how.gain} if name.partition("@")[0] in trec.LABELLED else {}
        without = sum(row[name] is None for row in got.values.values())
        highest = math.fsum(best) / len(best) if best else math.nan
        rows.append({"metric": name, **gain, **about, "ceiling": highest, "not_eligible": without})
    return {
        "rule": trec.RULE,
        "run": run.name,
        "queries": {
            "judged": len(qrels),
            "answered": len(answered),
            "missing": len(qrels) - len(answered),
            "not_eligible": len(empty),
            "unjudged": len(run.hits.keys() - qrels.keys()),
        },
        "ids": {
            "missing": sorted(qrels.keys() - run.hits.keys()),
            "not_eligible": sorted(empty),
            "unjudged": sorted(run.hits.keys() - qrels.keys()),
        },
        "conventions": asdict(how) | {"answered_only": answered_only, "no_relevant": "zero" if zero else "leave_out"},
        "ties": how.ties,
        "metrics": rows,
        "per_query": table,
        "notes": [*notes, *_notes(qrels, run, names, how)],
    }


def _notes(qrels: trec.Qrels, run: trec.Run, names: Iterable[str], how: trec.Conventions) -> Iterable[str]:
    """What a reader should know before believing the figures."""
    answered = qrels.keys() & run.hits.keys()
    if not any(qrels[query].keys() & run.hits[query].keys() for query in answered):
        ids = (document for query in answered for document in run.hits[query])
        theirs = (document for query in answered for document in qrels[query])
        yield f"no document of the run is judged for its query (run: {trec.some(set(ids))}; judged: {trec.some(set(theirs))})"
    longest = max(map(len, run.hits.values()))
    deep = [name for name in names if int(name.partition("@")[2] or 0) > longest]
    if deep:
        yield f"{', '.join(deep)}: the longest ranking of the run has {longest} hits"
    below = sum(label < 0 for labels in qrels.values() for label in labels.values())
    if below:
        drawn = "; infap reads them as pooled, and not drawn to be judged" if "infap" in names else ""
        yield f"labels below 0: {below}; they are read as no judgement{drawn}"
    tied = trec.tied(qrels, run, how.ties)
    if tied:
        yield f"equal scores with different labels in {len(tied)} of {len(answered)} queries: the tie rule decides ({trec.some(tied)})"


def _score_text(report: dict, per_query: bool) -> Iterable[str]:
    queries, ids, how = report["queries"], report["ids"], report["conventions"]
    named = lambda key: f" ({trec.some(ids[key])})" if ids[key] else ""
    missing = "left out of the mean: --answered-only" if how["answered_only"] else "counted as 0"
    empty = "counted as 0" if how["no_relevant"] == "zero" else "left out of the mean"
    if missing == "counted as 0" != empty and set(ids["missing"]) & set(ids["not_eligible"]):
        missing += " unless empty"
    document = "relevant document" + (f" (label {how['level']} or more)" if how["level"] > 1 else "")
    yield f"run       {report['run']}"
    yield f"judged    {queries['judged']} queries, {queries['answered']} answered by the run"
    yield f"missing   {queries['missing']} judged, not in the run: {missing}{named('missing')}"
    yield f"empty     {queries['not_eligible']} judged, without a {document}: {empty}{named('not_eligible')}{_kept(report)}"
    yield f"unjudged  {queries['unjudged']} in the run, not judged: ignored{named('unjudged')}"
    yield from _conventions(trec.Conventions(**{key: how[key] for key in asdict(trec.DEFAULT)}))
    yield from (f"note      {note}" for note in report["notes"])
    width = max(12, *(len(row["metric"]) for row in report["metrics"])) + 2
    yield f"\n{'metric':<{width}}{'mean':>8}  {'95 % interval':<18}{'n':>5}  best possible"
    for row in report["metrics"]:
        note = row["note"] and f"  {row['note']}"
        yield f"{row['metric']:<{width}}{_figure(row['mean'], 8)}  {_range(row):<18}{row['n']:>5}  {_figure(row['ceiling'])}{note}"
    if per_query:
        names, first = [row["metric"] for row in report["metrics"]], max(5, *map(len, report["per_query"])) + 2
        yield f"\n{'query':<{first}}" + "".join(f"{name:>{max(8, len(name)) + 2}}" for name in names)
        for query, row in report["per_query"].items():
            yield f"{query:<{first}}" + "".join(_figure(row[name], max(8, len(name)) + 2) for name in names)


def _kept(report: dict) -> str:
    """Which metrics have a value for queries without a relevant document all the same."""
    empty = report["queries"]["not_eligible"]
    kept = {row["metric"]: empty - row["not_eligible"] for row in report["metrics"] if row["not_eligible"] < empty}
    return "".join(f"; {name} has a value for {some} of {empty}" for name, some in kept.items())


def _conventions(how: trec.Conventions) -> Iterable[str]:
    gain = f"ndcg gains {trec.GAINS[how.gain]} ({how.gain})"
    all_labels = ", whatever the level" if how.level > 1 else ""
    yield f"rule      {trec.RULE}: a label of {how.level} or more is relevant; {gain}{all_labels}"
    yield f"ties      {how.ties}: {trec.TIES[how.ties]}; the rank column is ignored"
    if how.depth:
        yield f"depth     the first {how.depth} ranks of each query"
    if how.judged_only:
        yield "view      judged documents only: the others were taken out of every ranking"


def _figure(value: float | None, width: int = 0) -> str:
    return f"{'no value' if value is None or math.isnan(value) else f'{value:.4f}':>{width}}"


def _range(row: dict) -> str:
    return "none" if math.isnan(row["low"]) else f"{row['low']:.4f} to {row['high']:.4f}"


def compare(arguments: argparse.Namespace) -> int:
    """Two runs on the same judgements: second minus first, paired; prints the fields of a `Comparison`."""
    if len(arguments.run) != 2:
        raise BadInput(
            f"--run: compare takes two runs, found {len(arguments.run)}; the difference is second minus first"
        )
    notes: list[str] = []
    qrels, runs = trec.read_qrels(arguments.qrels, notes), [trec.read_run(path, notes) for path in arguments.run]
    for run in runs:
        trec.check_ids(qrels, run, arguments.qrels)
    how = _how(arguments)
    got = compared(qrels, runs, arguments.metric or METRIC, how)
    if arguments.json:  # the fields of a comparison have no place for notes
        print("".join(f"localeval: note: {note}\n" for note in notes), end="", file=sys.stderr)
        print_json(asdict(got))
    else:
        write("\n".join(_compare_text(qrels, runs, got, how, notes)))
    return 0


def compared(qrels: trec.Qrels, runs: list[trec.Run], metric: str, how: trec.Conventions) -> Comparison:
    """Second run minus first over every judged query with a relevant document; a query that a run does not answer is its 0."""
    from localeval import stats

    sides = []
    for run in runs:
        values = trec.scores(qrels, run, [metric], how).values
        sides.append({query: row[metric] for query, row in values.items() if row[metric] is not None})
    if not sides[0]:
        level = 1 if metric.partition("@")[0] in trec.BY_GRADE else how.level
        raise BadInput(f"no judged query has a relevant document (a label of {level} or more); nothing to compare")
    return stats.compare(*sides, metric=metric, rule=trec.RULE, names=_names(runs))


def _names(runs: list[trec.Run]) -> tuple[str, str]:
    """Tags of both runs; their file names where the tags are alike, their paths where those are too."""
    for names in ([run.name for run in runs], [run.path.name for run in runs]):
        if names[0] != names[1]:
            return tuple(names)
    return tuple(str(run.path) for run in runs)


def _compare_text(
    qrels: trec.Qrels, runs: list[trec.Run], got: Comparison, how: trec.Conventions, notes: Iterable[str]
) -> Iterable[str]:
    from localeval import stats

    yield f"metric    {got.metric}, {got.candidate} minus {got.baseline}"
    for role, run, name in zip(("baseline", "candidate"), runs, (got.baseline, got.candidate), strict=True):
        missing = qrels.keys() - run.hits.keys()
        yield f"{role:<10}{name}: {len(missing)} of {len(qrels)} judged queries missing, counted as 0{_named(missing)}"
    yield from _conventions(how)
    yield from (f"note      {note}" for note in notes)
    yield f"\ndifference  {got.delta:+.4f}  {_signed_range(got)}  n = {got.n}"
    yield f"p           {got.p_value:.4g}, sign-flip permutation, two-sided"
    smallest = "not defined: the differences do not vary" if math.isnan(got.mde) else f"{got.mde:.4f} (80 % power)"
    yield f"detectable  {smallest}"
    yield f"verdict     {stats.verdict(got)}"


def _named(ids: Iterable[str]) -> str:
    return f" ({trec.some(ids)})" if ids else ""


def _signed_range(got: Comparison) -> str:
    return "no interval" if math.isnan(got.low) else f"95 % interval {got.low:+.4f} to {got.high:+.4f}"


def quality(arguments: argparse.Namespace) -> int:
    """Classes of pages and verdicts of documents; what could not be read is listed, and is all there is when nothing could."""
    path = arguments.path
    if not path.exists():
        raise BadInput(f"{path}: no such file or folder; name a PDF or a folder of documents")
    if not (path.is_file() or path.is_dir()):
        raise BadInput(f"{path}: a pipe or a device; pages are read in any order, so save it as a file first")
    corpus = _read(path)
    report = {
        "documents": [],
        "pages": [],
        "failures": [{"doc_id": d, "reason": r} for d, r in corpus.failures.items()],
        "skipped": [{"doc_id": d, "reason": r} for d, r in corpus.skipped.items()],
    }
    if corpus.documents:
        from localeval.quality import document_table, page_table

        pages = page_table(corpus)
        report["documents"] = document_table(pages).to_dict("records")
        report["pages"] = pages[list(PAGE_KEYS)].to_dict("records")
    print_json(report) if arguments.json else write("\n".join(_quality_text(report)))
    return int(not corpus.documents)


def _read(path: Path):
    """Every document that can be read, those without text too: a scan is a finding here, and not a failure."""
    from localeval import corpus, pdf

    names, skipped = corpus.find_files(path) if path.is_dir() else ([path.name], {})
    documents, layouts, failures = [], {}, {}
    for doc_id in names:
        file = path / doc_id if path.is_dir() else path
        try:
            if file.suffix.lower() in (".md", ".txt"):
                document, layouts[doc_id] = corpus.read_plain(file, doc_id)
            else:
                document, layouts[doc_id] = pdf.pages(file, doc_id, progress=pdf.pace(partial(_tell, doc_id)))
            documents.append(document)
        except BadInput as error:
            failures[doc_id] = str(error)
    return corpus.Corpus(tuple(documents), layouts, failures, skipped)


def _tell(doc_id: str, text: str) -> None:
    if sys.stderr.isatty():  # a log needs no progress
        print(f"{doc_id}: {text}", file=sys.stderr)


def _quality_text(report: dict) -> Iterable[str]:
    for document in report["documents"]:
        why = document["failed_guard"] and f" (failed: {document['failed_guard']})"
        figures = f"clean {_figure(document['clean_fraction'])}, quality {_figure(document['mean_quality'])}"
        yield f"{document['doc_id']}: {document['verdict']}{why}; {_count(document['pages'], 'page')}, {figures}"
        for page in (page for page in report["pages"] if page["doc_id"] == document["doc_id"]):
            yield f"  {page['page_label']:>6}  {page['class']:<18}  {_figure(page['quality'], 8)}  {page['reason']}"
    yield from (f"not read: {failure['reason']}" for failure in report["failures"])
    yield from _ocr_text(report["pages"])
    left = f"; {_count(len(report['skipped']), 'file')} of other kinds left alone" if report["skipped"] else ""
    yield f"{_count(len(report['documents']), 'document')} read, {len(report['failures'])} not{left}"


def _ocr_text(pages: list[dict]) -> Iterable[str]:
    """How many pages a study would read again; this command, which is to be quick, does not. A text file is no page to read."""
    from localeval.quality import DEFAULTS

    drawn = [page for page in pages if not page["doc_id"].lower().endswith((".md", ".txt"))]
    wanting = sum(page["confidence"] < DEFAULTS.ocr_confidence for page in drawn)  # of a blank page: not a number
    if wanting:
        yield f"{_count(wanting, 'page')} with a text that OCR might better: 10_ingest of a study tries it, after 'make ocr'"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def judge(arguments: argparse.Namespace) -> int:
    """Takes the filled lines of a worklist into the judgements of a study; all of them, or none where one is wrong."""
    from datetime import date

    from localeval import judgements, tables

    root = tables.find_root()
    corpus, queries = tables.latest_inputs(root, arguments.study)
    path = root / "data" / arguments.study / "judgments.jsonl"
    before = judgements.load(path, corpus, queries)
    rows, empty = judgements.read_worklist(
        arguments.file, corpus, queries, before, by=arguments.by or "", today=date.today()
    )
    added = judgements.append(path, rows)
    found = sum(row["grade"] > 0 for row in rows)
    write(
        f"{path.relative_to(root)}: {added} added, {len(rows) - added} were there already, {len(before) + added} in all\n"
        f"of the file: {_count(len(rows), 'judgement')}, {found} with an answer; {_count(empty, 'line')} not filled in"
    )
    return 0


def print_json(report: dict) -> None:
    text = json.dumps(_plain(report), indent=1, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        text = json.dumps(_plain(report), indent=1, allow_nan=False)
    write(text)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def write(text: str) -> None:
    """Prints; what the output cannot show is escaped, and a reader who has seen enough (`head`) is no error."""
    try:
        print(text.encode(_encoding(), "backslashreplace").decode(_encoding()), flush=True)
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # else Python complains when it flushes at the end


def _plain(value):
    """The same with None in place of every NaN: what is not defined is null in JSON."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
