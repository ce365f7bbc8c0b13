"""Judgements of single hits: checked line by line, found again in a changed text, added in one step, never lost."""

from __future__ import annotations

import csv
import json
from datetime import date

import pytest

from localeval import cli, gold, judgements
from localeval import corpus as corpora
from localeval.corpus import Corpus, Layout, make_document
from localeval.records import BadInput, Evidence, Judgement, Query, Span

TEXT = "Tea wants boiling water. A kiln wants a slow fire. Bread wants some time, and then some more time. Clocks want oil."
TEA, KILN, BREAD, CLOCK = Span("a.txt", 0, 24), Span("a.txt", 25, 50), Span("a.txt", 51, 98), Span("a.txt", 99, 115)
QUERIES = [
    Query("tea", "How hot?", (Evidence(Span("a.txt", 4, 23), quote="wants boiling water"),)),
    Query("none", "Why?"),
]
TODAY = date(2026, 1, 31)


def of(text):
    return Corpus((make_document("a.txt", text, b""),), {"a.txt": Layout("a.txt")}, {})


CORPUS = of(TEXT)


def line(span=KILN, query_id="tea", **other):
    text = CORPUS.text(span)
    row = {
        "query_id": query_id,
        "question": "Why?" if query_id == "none" else "How hot?",
        "span": str(span),
        "grade": 0,
        "by": "maintainers",
        "date": "2026-01-31",
        "answer": "",
    }
    return (
        row
        | {
            "quote": text[:20].rpartition(" ")[0],
            "until": text[-12:].partition(" ")[2],
            "sha256": judgements.fingerprint(text),
            "source": "worklist",
        }
        | other
    )


def written(path, *rows):
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_a_refusal_and_an_answer(tmp_path):
    path = written(tmp_path / "j", line(), "", line(BREAD, "none", grade=2, answer="then some  more\ntime"))
    one, two = judgements.load(path, CORPUS, QUERIES)
    assert one == Judgement("tea", KILN, 0, "maintainers", "2026-01-31")
    start = TEXT.index("then some more time")
    assert (two.answer.span, two.answer.grade, two.answer.source) == (Span("a.txt", start, start + 19), 2, "worklist")
    assert judgements.load(tmp_path / "not there yet", CORPUS, QUERIES) == []
    assert [query.answerable for query in judgements.answered(path, CORPUS, QUERIES)] == [True, True]
    with pytest.raises(BadInput, match="'judged_answers' must name a file"):
        judgements.answered(tmp_path / "not there", CORPUS, QUERIES)


def test_an_answer_that_is_evidence_already_is_not_added(tmp_path):
    path = written(tmp_path / "j", line(TEA, grade=1, answer="boiling water"), line(BREAD, grade=1, answer="some time"))
    (tea, _) = judgements.answered(path, CORPUS, QUERIES)
    assert [item.source for item in tea.evidence] == ["authored", "worklist"]
    assert judgements.gold_alone([tea]) == QUERIES[:1]


def test_a_judged_text_is_found_again_where_it_moved(tmp_path):
    path = written(tmp_path / "j", line(CLOCK), line(BREAD, "none", grade=1, answer="some more time"))
    one, two = judgements.load(path, of("A new preface.\n\n" + TEXT.replace("Clocks want", "Clocks  want")), QUERIES)
    assert (
        one.span == Span("a.txt", 115, 132)
        and two.span.start == BREAD.start + 16
        and two.answer.quote == "some more time"
    )
    with pytest.raises(
        BadInput,
        match=r"j:1: a.txt has changed, and what was judged \('Clocks want' …\) stands 0 times in it; judge it",
    ):
        judgements.load(path, of(TEXT.replace("Clocks", "Watches")), QUERIES)
    with pytest.raises(BadInput, match="stands 2 times in it"):
        judgements.load(written(tmp_path / "k", line(CLOCK)), of("x " + TEXT + " " + TEXT[99:]), QUERIES)


WRONG = {
    "not JSON": ("{", "not JSON"),
    "no object": ("[1]", "expected an object"),
    "unknown key": (line(graed=1), r"unknown key 'graed' \(did you mean 'grade'\?\)"),
    "missing key": ({"query_id": "tea"}, "no 'question'; write these lines with 'localeval judge'"),
    "no text": (line(by=3), "'by' must be a text"),
    "nobody": (line(by=" "), "no 'by'"),
    "grade below": (line(grade=-1), "grade '-1' is not a whole number from 0"),
    "half a grade": (line(grade=0.5), "grade '0.5' is not a whole number"),
    "true": (line(grade=True), "grade 'True' is not a whole number"),
    "grade too high": (line(grade=101), "grade '101' is not"),
    "date": (line(date="31.1.2026"), "date '31.1.2026' is no date"),
    "source": (line(source="guessed"), "unknown source 'guessed'"),
    "span": (line() | {"span": "a.txt"}, "'a.txt' is no span"),
    "backwards": (line() | {"span": "a.txt#9-3"}, "'a.txt#9-3' is no span"),
    "document": (line() | {"span": "b.txt#0-4"}, "no document 'b.txt' in the corpus"),
    "zero with answer": (line(answer="slow fire"), "grade 0 says that nothing answers, and 'answer' is filled in"),
    "no answer": (line(grade=1), "grade 1 needs 'answer', the exact words of a.txt#25-50"),
    "answer elsewhere": (
        line(grade=1, answer="boiling water"),
        "'answer' stands 0 times in a.txt#25-50: 'boiling water'",
    ),
    "answer twice": (line(BREAD, grade=1, answer="time"), "'answer' stands 2 times in a.txt#51-98"),
    "refused evidence": (line(TEA), "grade 0, but evidence of tea stands in a.txt#0-24: 'wants boiling water'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_line_is_named_with_its_remedy(tmp_path, what):
    row, message = WRONG[what]
    path = written(tmp_path / "j", line(CLOCK), row)
    with pytest.raises(
        BadInput, match=f"j:2: .*{message}" if not message.startswith(("not", "exp")) else f"j:2: {message}"
    ) as error:
        judgements.load(path, CORPUS, QUERIES)
    assert "\n" not in str(error.value)


def test_a_judgement_of_a_question_that_is_not_asked_is_left_out_and_counted(tmp_path):
    path = written(tmp_path / "j", line(), line(CLOCK, question="How cold?"), line(CLOCK, "gone"))
    assert [one.span for one in judgements.load(path, CORPUS, QUERIES)] == [KILN]
    assert judgements.left_out(path, QUERIES) == 2 and judgements.left_out(tmp_path / "none yet", QUERIES) == 0
    assert judgements.left_out_said(path, QUERIES).endswith(": 2 judgements.")
    assert judgements.left_out_said(tmp_path / "none yet", QUERIES) == "No judgement is left out."


def test_judgements_that_contradict_each_other(tmp_path):
    path = written(tmp_path / "j", line(), line())
    with pytest.raises(BadInput, match=r"j:2: a.txt#25-50 is judged for tea on another line too \(.*j:1\); keep one"):
        judgements.load(path, CORPUS, QUERIES)
    both = Span("a.txt", 25, 98)
    path = written(tmp_path / "j", line(both), line(KILN, grade=1, answer="slow fire"))
    with pytest.raises(
        BadInput, match=r"j:1: grade 0, but .*j:2 has an answer to tea in a.txt#25-98: 'slow fire'; agree on one"
    ):
        judgements.load(path, CORPUS, QUERIES)


def worklist(path, *rows, delimiter=",", mark=""):
    names = ["query_id", "question", "span", "text", "grade", "answer", "by", "date", "sha256"]
    with path.open("w", newline="", encoding="utf-8") as out:
        out.write(mark)
        table = csv.DictWriter(out, names, delimiter=delimiter, extrasaction="ignore")
        table.writeheader()
        table.writerows({"by": "", "date": "", **row} for row in rows)
    return path


def cell(span=KILN, query_id="tea", grade="0", answer="", **other):
    text = CORPUS.text(span)
    return {
        "query_id": query_id, "question": "Why?" if query_id == "none" else "How hot?", "span": str(span), "text": text,
        "grade": grade, "answer": answer,
        "sha256": judgements.fingerprint(text), **other,
    }  # fmt: skip


def read(path, before=(), by="maintainers"):
    return judgements.read_worklist(path, CORPUS, QUERIES, before, by=by, today=TODAY)


@pytest.mark.parametrize(("delimiter", "mark"), [(",", ""), (";", "\ufeff")])
def test_a_filled_worklist_becomes_lines_of_the_file(tmp_path, delimiter, mark):
    rows = [
        cell(grade="0.0"),
        cell(CLOCK, grade=" "),
        cell(BREAD, "none", "1", "some more time", by="others", date="2025-12-01"),
    ]
    got, empty = read(worklist(tmp_path / "w.csv", *rows, delimiter=delimiter, mark=mark))
    assert empty == 1 and [(row["grade"], row["by"], row["date"]) for row in got] == [
        (0, "maintainers", "2026-01-31"), (1, "others", "2025-12-01"),
    ]  # fmt: skip
    path = tmp_path / "data" / "judgments.jsonl"
    assert judgements.append(path, got) == 2
    one, two = judgements.load(path, CORPUS, QUERIES)
    assert (one.span, two.answer.quote) == (KILN, "some more time")
    lines = written(tmp_path / "w.jsonl", *rows)
    assert read(lines)[0] == got


BAD_CELLS = {
    "question": (cell(query_id="te"), "no question 'te'"),
    "other words": (cell(question="How cold?"), "tea now asks 'How hot.'; run 55_labels again"),
    "text": (cell(sha256="0" * 16), "the text of a.txt#25-50 is not what the worklist showed; run 55_labels again"),
    "beyond": (cell() | {"span": "a.txt#25-5000"}, "is not what the worklist showed"),
    "words": (cell(grade="yes"), "grade 'yes' is not a whole number"),
    "answer": (cell(grade="1"), "grade 1 needs 'answer'"),
    "evidence": (cell(TEA), "grade 0, but evidence of tea stands"),
    "nobody": (cell(by=" "), "no 'by'; say who judged"),
}


@pytest.mark.parametrize("what", BAD_CELLS)
def test_one_wrong_line_and_nothing_is_taken(tmp_path, what):
    row, message = BAD_CELLS[what]
    path = worklist(tmp_path / "w.csv", *({"by": "maintainers"} | one for one in (cell(CLOCK), row, row)))
    with pytest.raises(BadInput, match=rf"w.csv:3: .*{message}.* \(and 1 more wrong lines\)"):
        read(path, by="")


def test_files_that_are_no_worklist(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        read(tmp_path / "none.csv")
    (tmp_path / "w.csv").write_text("query_id,span\n")
    with pytest.raises(BadInput, match="w.csv:1: no column 'grade'; keep the columns"):
        read(tmp_path / "w.csv")
    (tmp_path / "l.csv").write_bytes("query_id\nd\u00e9j\u00e0".encode("latin-1"))
    with pytest.raises(BadInput, match="not UTF-8"):
        read(tmp_path / "l.csv")


def test_a_worklist_may_not_contradict_what_was_judged_before(tmp_path):
    answer = Evidence(Span("a.txt", 40, 49), quote="slow fire")
    before = [Judgement("tea", KILN, 1, "others", "2025-01-01", answer=answer)]
    with pytest.raises(BadInput, match="w.csv:2: grade 0, but an earlier judgement has an answer to tea"):
        read(worklist(tmp_path / "w.csv", cell(Span("a.txt", 25, 98))), before)


def test_adding_keeps_every_byte_and_twice_is_once(tmp_path):
    path = tmp_path / "judgments.jsonl"
    path.write_text(json.dumps(line(), indent=None, separators=(",", ":")))  # no newline at its end
    before = path.read_bytes()
    assert judgements.append(path, [line(), line(CLOCK), line(CLOCK)]) == 1
    assert path.read_bytes().startswith(before + b"\n") and len(judgements.load(path, CORPUS, QUERIES)) == 2
    after = path.read_bytes()
    assert judgements.append(path, [line(by="somebody else", date="2026-02-01")]) == 0
    with pytest.raises(
        BadInput, match=r"tea, a.txt#25-50: judged 1 now and 0 before \(by maintainers, 2026-01-31\).*nothing was added"
    ):
        judgements.append(path, [line(BREAD), line(grade=1, answer="slow fire")])
    assert path.read_bytes() == after and [file.name for file in tmp_path.iterdir()] == ["judgments.jsonl"]


def test_the_source_of_evidence_in_a_gold_file(tmp_path):
    row = {"query_id": "q", "text": "?", "evidence": [{"doc_id": "a.txt", "quote": "slow fire", "source": "pooled"}]}
    (query,) = gold.load(written(tmp_path / "g", row), CORPUS)
    assert query.evidence[0].source == "pooled"
    gold.write_resolved([query], tmp_path / "r")
    assert gold.read_resolved(tmp_path / "r") == [query]
    assert gold.load(written(tmp_path / "d", gold.dump([query]).strip()), CORPUS) == [query]
    row["evidence"][0]["source"] = "found"
    with pytest.raises(BadInput, match="'source' must be one of authored, pooled, worklist"):
        gold.load(written(tmp_path / "g", row), CORPUS)


def test_the_command_adds_and_says_what_it_did(project, capsys):
    assert cli.main(["judge", "toy", "w.csv"]) == 2
    assert "10_ingest/documents.jsonl of study 'toy' is missing; first run" in capsys.readouterr().err
    base = project / "runs/toy/base"
    for name in ("10_ingest", "20_gold"):
        (base / name).mkdir(parents=True)
    corpora.write_jsonl(CORPUS, base / "10_ingest/documents.jsonl")
    gold.write_resolved(QUERIES, base / "20_gold/queries.jsonl")
    work = worklist(project / "w.csv", cell(), cell(CLOCK, grade=""), cell(BREAD, "none", "1", "some more time"))
    assert cli.main(["judge", "toy", str(work)]) == 2
    assert (
        "w.csv:2: no 'by'; say who judged, in the line or with --by (and 1 more wrong lines)" in capsys.readouterr().err
    )
    assert not (project / "data/toy/judgments.jsonl").exists()
    for added in (2, 0):
        assert cli.main(["judge", "toy", str(work), "--by", "maintainers"]) == 0
        said = capsys.readouterr().out
        assert said.startswith(f"data/toy/judgments.jsonl: {added} added, {2 - added} were there already, 2 in all\n")
        assert "2 judgements, 1 with an answer; 1 line not filled in" in said


def test_a_refusal_as_a_number_is_a_grade(tmp_path):
    for grade, filled in ((0, 1), ("0", 1), (None, 0), ("", 0)):
        row = {key: value for key, value in line(grade=grade).items() if key not in ("quote", "until")}
        rows, empty = read(written(tmp_path / "w.jsonl", row))
        assert (len(rows), empty) == (filled, 1 - filled) and all(one["grade"] == 0 for one in rows)


def test_judgements_that_a_parameter_names_are_there_or_are_the_studys_own(tmp_path):
    """None yet is right only where `localeval judge` would write them; any other name that leads nowhere is a slip."""
    own = tmp_path / "data/toy/judgments.jsonl"
    assert judgements.chosen(own, "toy") == own
    for path in (
        tmp_path / "data/toy/judgements.jsonl",
        tmp_path / "data/other/judgments.jsonl",
        tmp_path / "toy/judgments.jsonl",
    ):
        with pytest.raises(BadInput, match=r"no such file; 'judgments' must name a file of judgements"):
            judgements.chosen(path, "toy")
    own.mkdir(parents=True)
    with pytest.raises(BadInput, match="a folder, and no file"):
        judgements.chosen(own, "toy")
    other = tmp_path / "mine.jsonl"
    other.write_text("")
    assert judgements.chosen(other, "toy") == other
