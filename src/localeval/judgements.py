"""What people said of single hits: a worklist to fill in, the file that keeps the judgements, and both checked line by line.

One JSON object a line of `data/<study>/judgments.jsonl`:

    {"query_id": "water-01", "question": "How long must water boil?", "span": "water.pdf#310-720", "grade": 0, "by": "maintainers",
     "date": "2026-01-31", "answer": "", "quote": "Pipes that stood still", "until": "flush the pipe first.",
     "sha256": "0f3a9c51d2e4b687", "source": "worklist"}

`grade` 0: nothing in the span answers the question. Above 0, `answer` holds the words that do, and they become evidence, so that a label
never depends on how a chunker cut the text. The span is believed where the text under it has the hash; else it is found again by
the words it begins and ends with. A judgement holds for the question it was made for, word for word: where a run does not ask it, it is
left out, and counted.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from localeval.corpus import Corpus
from localeval.gold import GRADES, SHOWN, anchor, find_quote
from localeval.provenance import existing
from localeval.records import SOURCES, BadInput, Evidence, Judgement, Query, Span, near

HOME = "data/{study}/judgments.jsonl"  # where `localeval judge` keeps them
ENDS = 60  # characters kept of both ends of a judged unit
KEYS = ("query_id", "question", "span", "grade", "by", "date", "answer", "quote", "until", "sha256", "source")
ASKED = ("grade", "answer", "by", "date")  # columns of a worklist that a person fills in


def chosen(path: Path, study: str) -> Path:
    """The file that a parameter names. It has to be there, unless it is the study's own, which need not be there yet."""
    own = path.as_posix().endswith(f"/{HOME.format(study=study)}") and not path.exists()
    return path if own else existing(path, "'judgments' must name a file of judgements, as 'localeval judge' writes it")


def load(path: Path, corpus: Corpus, queries: Sequence[Query]) -> list[Judgement]:
    """Every judgement of a question of this run, resolved in the corpus; none where there is no file yet. A line that is wrong is named."""
    known, seen, found = {query.query_id: query for query in queries}, {}, []
    for where, row in _typed_rows(path):
        if seen.setdefault((row["query_id"], row["span"]), where) != where:
            other = seen[row["query_id"], row["span"]]
            raise BadInput(
                f"{where}: {row['span']} is judged for {row['query_id']} on another line too ({other}); keep one"
            )
        if _asked(row, known):
            found.append((where, _resolved(row, where, corpus)))
            _against_gold(found[-1][1], known[row["query_id"]], where)
    _agreeing(found)
    return [one for _, one in found]


def left_out(path: Path, queries: Sequence[Query]) -> int:
    """Judgements of the file whose question this run does not ask, or asks in other words."""
    known = {query.query_id: query for query in queries}
    return sum(not _asked(row, known) for _, row in _typed_rows(path))


def left_out_said(path: Path, queries: Sequence[Query]) -> str:
    count = left_out(path, queries)
    return (
        f"Left out, since this run does not ask their questions: {count} judgements."
        if count
        else "No judgement is left out."
    )


def _typed_rows(path: Path) -> Iterable[tuple[str, dict]]:
    return ((where, _typed(row, where)) for where, row in (_objects(path) if path.is_file() else ()))


def _asked(row: dict, known: dict[str, Query]) -> bool:
    return row["query_id"] in known and known[row["query_id"]].text == row["question"]


def _agreeing(found: Sequence[tuple[str, Judgement]]) -> None:
    """Nobody may refuse a text in which another judgement of the same question has an answer."""
    answers: dict[str, list[tuple[str, Judgement]]] = {}
    for where, one in found:
        if one.answer:
            answers.setdefault(one.query_id, []).append((where, one))
    for where, one in found:
        for other, holding in answers.get(one.query_id, ()):
            if not one.grade and one.span.contains(holding.answer.span):
                raise BadInput(
                    f"{where}: grade 0, but {other} has an answer to {one.query_id} in {one.span}: {holding.answer.quote[:SHOWN]!r}; "
                    "agree on one"
                )


def answered(path: Path, corpus: Corpus, queries: Sequence[Query]) -> list[Query]:
    """The questions with the answers of this file as further evidence; here the file has to be there."""
    found = load(existing(path, "'judged_answers' must name a file of judgements, or be empty"), corpus, queries)
    return with_answers(queries, found)


def _objects(path: Path) -> Iterable[tuple[str, dict]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise BadInput(f"{path}:{number}: not JSON; one object a line") from None
        if not isinstance(row, dict):
            raise BadInput(f"{path}:{number}: expected an object {{...}}, found {type(row).__name__}")
        yield f"{path}:{number}", row


def _typed(row: dict, where: str) -> dict:
    """Every key there and of its kind. `grade` is a number afterwards, the others texts."""
    for key in row:
        if key not in KEYS:
            raise BadInput(f"{where}: unknown key {key!r}{near(key, KEYS)}; known: {', '.join(KEYS)}")
    for key in KEYS:
        if key not in row:
            raise BadInput(f"{where}: no {key!r}; write these lines with 'localeval judge'")
        if key != "grade" and not isinstance(row[key], str):
            raise BadInput(f"{where}: {key!r} must be a text, found {str(row[key])[:SHOWN]}")
    if row["source"] not in SOURCES:
        raise BadInput(
            f"{where}: unknown source {row['source']!r}{near(row['source'], SOURCES)}; one of {', '.join(SOURCES)}"
        )
    return row | {"grade": _grade(row["grade"], where), "date": _date(row["date"], where), "by": _by(row["by"], where)}


def _grade(value: object, where: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,3}(\.0+)?", text) or float(text) > GRADES:
        raise BadInput(f"{where}: grade {text[:SHOWN]!r} is not a whole number from 0 (holds no answer) to {GRADES}")
    return int(float(text))


def _date(text: str, where: str) -> str:
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        raise BadInput(f"{where}: date {text[:SHOWN]!r} is no date; write year-month-day, as 2026-01-31") from None


def _by(text: str, where: str) -> str:
    if not text.strip():
        raise BadInput(f"{where}: no 'by'; say who judged, in the line or with --by")
    return text.strip()


def _span(text: str, where: str, corpus: Corpus) -> Span:
    try:
        span = Span.parse(text.strip())
    except ValueError:
        raise BadInput(f"{where}: {text[:SHOWN]!r} is no span; expected document#start-end") from None
    if span.doc_id not in corpus.layouts:
        raise BadInput(f"{where}: no document {span.doc_id!r} in the corpus{near(span.doc_id, corpus.layouts)}")
    return span


def _resolved(row: dict, where: str, corpus: Corpus) -> Judgement:
    span = _span(row["span"], where, corpus)
    if span.end > len(corpus[span.doc_id].text) or fingerprint(corpus.text(span)) != row["sha256"]:
        span = _moved(row, span, where, corpus)
    answer = _answer(row["answer"], row["grade"], row["source"], span, where, corpus)
    return Judgement(row["query_id"], span, row["grade"], row["by"], row["date"], row["source"], answer)


def fingerprint(text: str) -> str:
    """The first sixteen hex digits of the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _moved(row: dict, span: Span, where: str, corpus: Corpus) -> Span:
    """The one place that begins and ends with the words that were judged, and is about as long."""
    text = corpus[span.doc_id].text
    begins, ends = find_quote(text, row["quote"]), find_quote(text, row["until"])
    about = lambda length: 0.8 * len(span) <= length <= 1.25 * len(span)
    places = {(start, end) for start, _ in begins for _, end in ends if about(end - start)}
    if len(places) != 1:
        raise BadInput(
            f"{where}: {span.doc_id} has changed, and what was judged ({row['quote'][:SHOWN]!r} …) stands {len(places)} times in it; "
            "judge it again, and remove the line"
        )
    return Span(span.doc_id, *places.pop())


def _answer(words: str, grade: int, source: str, span: Span, where: str, corpus: Corpus) -> Evidence | None:
    """The words that answer as evidence; each judged unit above grade 0 has some, and one of grade 0 has none."""
    if not grade:
        if words.strip():
            raise BadInput(f"{where}: grade 0 says that nothing answers, and 'answer' is filled in; keep one of them")
        return None
    if not words.strip():
        raise BadInput(f"{where}: grade {grade} needs 'answer', the exact words of {span} that answer the question")
    places = [Span(span.doc_id, *place) for place in find_quote(corpus[span.doc_id].text, words)]
    inside = [place for place in places if span.contains(place)]
    if len(inside) != 1:
        raise BadInput(
            f"{where}: 'answer' stands {len(inside)} times in {span}: {words[:SHOWN]!r}; quote exact words that stand there once"
        )
    return Evidence(inside[0], grade, **anchor(corpus, inside[0]), source=source)


def _against_gold(one: Judgement, query: Query, where: str) -> None:
    inside = next((item for item in query.evidence if item.kind == "span" and one.span.contains(item.span)), None)
    if inside and not one.grade:
        raise BadInput(
            f"{where}: grade 0, but evidence of {one.query_id} stands in {one.span}: {inside.quote[:SHOWN]!r}; change one of them"
        )


def with_answers(queries: Iterable[Query], judgements: Iterable[Judgement]) -> list[Query]:
    """The same questions, answers that people found among hits added to their evidence. One that is there already stays as it is."""
    found: dict[str, list[Evidence]] = {}
    for one in judgements:
        if one.answer:
            found.setdefault(one.query_id, []).append(one.answer)
    return [replace(query, evidence=_merged(query.evidence, found.get(query.query_id, ()))) for query in queries]


def _merged(evidence: Sequence[Evidence], answers: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """An answer that shares text with evidence judged as a span, or with another answer, is that piece again."""
    merged = list(evidence)
    for answer in answers:
        if not any(item.kind == "span" and item.span.overlap(answer.span) for item in merged):
            merged.append(answer)
    return tuple(merged)


def gold_alone(queries: Iterable[Query]) -> list[Query]:
    """The same questions without the evidence that came from worklists."""
    kept = lambda query: tuple(item for item in query.evidence if item.source != "worklist")
    return [replace(query, evidence=kept(query)) for query in queries]


def read_worklist(
    path: Path, corpus: Corpus, queries: Sequence[Query], before: Sequence[Judgement] = (), *, by: str, today: date
) -> tuple[list[dict], int]:
    """Filled lines of a worklist as lines of a judgements file, and how many are not filled in. Every wrong line is counted.

    path: .csv as it was written (or saved again with semicolons), or .jsonl with the same keys. by, today: where the line leaves them
    out. before: what the study has already. Nothing is taken of a file of which one line is wrong.
    """
    known, rows, problems, empty = {query.query_id: query for query in queries}, [], [], 0
    found = [("an earlier judgement", one) for one in before]
    for where, line in _worklist_lines(path):
        if line.get("grade") is None or not str(line["grade"]).strip():
            empty += 1
            continue
        try:
            rows.append(_filled(line, where, corpus, known, by, today))
            found.append((where, _resolved(rows[-1], where, corpus)))
        except BadInput as error:
            problems.append(str(error))
    if problems:
        raise BadInput(problems[0] + (f" (and {len(problems) - 1} more wrong lines)" if len(problems) > 1 else ""))
    _agreeing(found)
    return rows, empty


def _worklist_lines(path: Path) -> Iterable[tuple[str, dict]]:
    existing(path, "name a worklist that somebody filled in")
    if path.suffix != ".csv":
        yield from _objects(path)
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start}); save it as CSV in UTF-8") from None
    head = text.partition("\n")[0]
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=";" if head.count(";") > head.count(",") else ",")
    for key in ("query_id", "span", "grade", "answer", "sha256"):
        if key not in (table.fieldnames or ()):
            raise BadInput(f"{path}:1: no column {key!r}; keep the columns of the worklist")
    for row in table:
        yield f"{path}:{table.line_num}", {key: value or "" for key, value in row.items() if isinstance(key, str)}


def _filled(line: dict, where: str, corpus: Corpus, known: dict[str, Query], by: str, today: date) -> dict:
    query_id, text = str(line.get("query_id", "")).strip(), str(line.get("span", ""))
    if query_id not in known:
        raise BadInput(f"{where}: no question {query_id!r}{near(query_id, known)}")
    if "question" in line and line["question"] != known[query_id].text:
        raise BadInput(
            f"{where}: {query_id} now asks {known[query_id].text[:SHOWN]!r}; run 55_labels again and judge its new worklist"
        )
    span = _span(text, where, corpus)
    if (
        span.end > len(corpus[span.doc_id].text)
        or fingerprint(corpus.text(span)) != str(line.get("sha256", "")).strip()
    ):
        raise BadInput(
            f"{where}: the text of {span} is not what the worklist showed; run 55_labels again and judge its new worklist"
        )
    given = {key: "" if line.get(key) is None else str(line[key]).strip() for key in ASKED}  # 0 is a grade
    whole = anchor(corpus, span)["quote"].strip()
    row = _typed(
        {
            "query_id": query_id, "question": known[query_id].text, "span": str(span), "grade": given["grade"],
            "by": given["by"] or by, "date": given["date"] or today.isoformat(), "answer": given["answer"],
            "quote": _whole_words(whole, ENDS), "until": _whole_words(whole[::-1], ENDS)[::-1],
            "sha256": fingerprint(corpus.text(span)), "source": str(line.get("source", "") or "worklist"),
        },
        where,
    )  # fmt: skip
    _against_gold(_resolved(row, where, corpus), known[query_id], where)
    return row


def _whole_words(text: str, most: int) -> str:
    """The beginning of a text, ended where a word ends."""
    return text if len(text) <= most else text[: most + 1].rpartition(" ")[0] or text[:most]


def append(
    path: Path, rows: Sequence[dict], where: Callable[[dict], str] = lambda row: f"{row['query_id']}, {row['span']}"
) -> int:
    """Adds the rows that the file does not have yet, and returns how many. A judgement that says otherwise than the file is refused.

    What was there stays byte for byte, and the file is replaced in one step.
    """
    kept = path.read_bytes() if path.is_file() else b""
    have = {(row.get("query_id"), row.get("span")): row for _, row in _objects(path)} if kept else {}
    new: dict[tuple, dict] = {}
    for row in rows:
        key = row["query_id"], row["span"]
        other = have.get(key) or new.get(key)
        if other and (other["grade"], other["answer"]) != (row["grade"], row["answer"]):
            raise BadInput(
                f"{where(row)}: judged {row['grade']} now and {other['grade']} before (by {other['by']}, {other['date']}), or with another "
                f"answer; nothing was added: agree on one, and change or remove the line in {path}"
            )
        if not other:
            new[key] = row
    if new:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in new.values()).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(kept + (b"" if not kept or kept.endswith(b"\n") else b"\n") + lines)
        os.replace(part, path)
    return len(new)
