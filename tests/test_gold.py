"""Gold files: anchors are found whatever the line breaks, and every mistake is one clear line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import gold
from localeval.corpus import Corpus, Heading, Layout, Page, make_document
from localeval.records import BadInput, Span

TEXT = "Kilns\n\nThe “Kiln” temp is 900\u00a0°C, never\nmore.\n\nFire it slowly.\n\nGlazes\n\nFire it slowly. Cool it for a day."
HEADINGS = (Heading(0, 5, 1), Heading(TEXT.index("Glazes"), TEXT.index("Glazes") + 6, 1))
PAGES = (Page(0, "i", 0, 50), Page(1, "1", 50, len(TEXT)))


@pytest.fixture
def corpus():
    document = make_document("kiln.pdf", TEXT, b"")
    return Corpus((document,), {"kiln.pdf": Layout("kiln.pdf", "Kilns", PAGES, HEADINGS)}, {})


def write(tmp_path, *rows):
    path = tmp_path / "gold.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def row(**changes):
    evidence = {"doc_id": "kiln.pdf", "quote": '"Kiln" temp is 900 °C, never more.'}
    return {"query_id": "q1", "text": "How hot?", "evidence": [evidence | changes.pop("evidence", {})]} | changes


def test_a_quote_is_found_across_line_breaks_and_kinds_of_quotation_marks(tmp_path, corpus):
    (query,) = gold.load(write(tmp_path, row()), corpus)
    span = query.evidence[0].span
    assert corpus.text(span) == "“Kiln” temp is 900\u00a0°C, never\nmore."
    assert query.evidence[0].page_index == 0
    assert query.evidence[0].before.endswith("Kilns The ")


def test_offsets_point_into_the_original_text():
    raw = "ﬁre ½ cup"
    assert gold.find_quote(raw, "cup") == [(6, 9)]
    assert gold.find_quote(raw, "fire 1⁄2 cup") == [(0, 9)]
    assert gold.find_quote("cafe\u0301 au lait", "café au") == [(0, 8)]
    assert gold.find_quote("Hafen\u00admeister", "Hafenmeister") == [(0, 13)]
    assert gold.find_quote("abc", "abd") == [] and gold.find_quote("abc", "  ") == []


def test_a_repeated_quote_needs_its_surroundings(tmp_path, corpus):
    twice = row(evidence={"quote": "Fire it slowly."})
    with pytest.raises(BadInput, match="stands 2 times in kiln.pdf.*lengthen it, or give before and after"):
        gold.load(write(tmp_path, twice), corpus)
    with_anchor = row(evidence={"quote": "Fire it slowly.", "after": " Cool it"})
    (query,) = gold.load(write(tmp_path, with_anchor), corpus)
    assert query.evidence[0].span.start == TEXT.rindex("Fire")


def test_other_granularities(tmp_path, corpus):
    evidence = [
        {"doc_id": "kiln.pdf", "kind": "section", "quote": "Glazes"},
        {"doc_id": "kiln.pdf", "kind": "page", "page_index": 1},
        {"doc_id": "kiln.pdf", "kind": "document"},
    ]
    (query,) = gold.load(write(tmp_path, {"query_id": "q", "text": "?", "evidence": evidence}), corpus)
    assert [item.span for item in query.evidence] == [
        Span("kiln.pdf", HEADINGS[1].start, len(TEXT)), Span("kiln.pdf", 50, len(TEXT)), Span("kiln.pdf", 0, len(TEXT))
    ]  # fmt: skip


BAD = {
    "missing document": (
        row(evidence={"doc_id": "kilm.pdf"}),
        r"no document 'kilm.pdf' in the corpus \(did you mean 'kiln.pdf'\?\)",
    ),
    "made-up quote": (row(evidence={"quote": "at 950 °C"}), "quote not found in kiln.pdf: 'at 950 °C'"),
    "wrong page": (row(evidence={"page_index": 1}), "quote stands on page_index 0 of kiln.pdf, not on 1"),
    "no quote": (row(evidence={"quote": " "}), "needs a 'quote'"),
    "quote null": (row(evidence={"quote": None}), "evidence of kind 'span' needs a 'quote'"),
    "page null": (row(evidence={"kind": "page", "page_index": None}), "has no page_index None"),
    "unknown kind": (row(evidence={"kind": "line"}), "unknown evidence kind 'line'"),
    "grade 0": (row(evidence={"grade": 0}), "'grade' must be a whole number of 1 or more, found 0"),
    "grade 0.5": (row(evidence={"grade": 0.5}), "found 0.5"),
    "misspelt key": (row(catgory="x"), r"unknown key 'catgory' \(did you mean 'category'\?\)"),
    "page without a base": (row(evidence={"page": 1}), "unknown key 'page'"),
    "blank text": (row(text=" "), "'text' must be a text that is not blank"),
    "evidence null": (row() | {"evidence": None}, "'evidence' must be a list"),
    "unknown split": (row(split="test"), "'split' must be 'dev' or 'heldout'"),
    "not JSON": ('{"query_id": "q1", ', "not JSON"),
    "a key twice": ('{"query_id": "q1", "query_id": "q2", "text": "?"}', "key 'query_id' occurs twice"),
    "not an object": ("[1]", r"expected an object \{...\}, found list"),
    "page of no document": (row(evidence={"kind": "page", "page_index": 7}), r"has no page_index 7 \(0 to 1\)"),
    "unknown section": (
        row(evidence={"kind": "section", "quote": "Ovens"}),
        "0 sections of kiln.pdf are headed 'Ovens'",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_mistakes_are_one_line_that_names_file_and_line(tmp_path, corpus, what):
    line, message = BAD[what]
    path = write(tmp_path, {"query_id": "q0", "text": "No evidence?"}, line)
    with pytest.raises(BadInput, match=message) as error:
        gold.load(path, corpus)
    assert str(error.value).startswith(f"{path}:2") and "\n" not in str(error.value)


def test_a_repeated_id_names_both_lines(tmp_path, corpus):
    with pytest.raises(BadInput, match=r":3: query_id 'q7' is already used on line 1"):
        gold.load(write(tmp_path, {"query_id": "q7", "text": "a?"}, "", {"query_id": "q7", "text": "b?"}), corpus)


def test_files_that_are_not_there_empty_or_not_text(tmp_path, corpus):
    with pytest.raises(BadInput, match="no such file"):
        gold.load(tmp_path / "none.jsonl", corpus)
    with pytest.raises(BadInput, match="no question in it"):
        gold.load(write(tmp_path, ""), corpus)
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe{}")
    with pytest.raises(BadInput, match="not UTF-8"):
        gold.load(tmp_path / "latin.jsonl", corpus)


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path, corpus):
    path = tmp_path / "bom.jsonl"
    path.write_text('\ufeff{"query_id": "q1", "text": "?"}', encoding="utf-8")
    assert gold.load(path, corpus)[0].query_id == "q1"


def test_what_is_dumped_loads_again_and_resolved_queries_round_trip(tmp_path, corpus):
    queries = gold.load(write(tmp_path, row(tags=["x"], must_hit=True), {"query_id": "q2", "text": "Nothing?"}), corpus)
    again = tmp_path / "again.jsonl"
    again.write_text(gold.dump(queries), encoding="utf-8")
    assert gold.load(again, corpus) == queries
    gold.write_resolved(queries, tmp_path / "queries.jsonl")
    assert gold.read_resolved(tmp_path / "queries.jsonl") == queries


def test_the_split_of_a_question_is_its_own_and_not_that_of_its_place(tmp_path, corpus):
    rows = [{"query_id": f"q{n}", "text": "?", "split": "heldout" if n % 3 else "dev"} for n in range(10)]
    before = {query.query_id: query.split for query in gold.load(write(tmp_path, *rows), corpus)}
    one_more = [{"query_id": "new", "text": "?"}, *reversed(rows)]
    after = {query.query_id: query.split for query in gold.load(write(tmp_path, *one_more), corpus)}
    assert after == before | {"new": "dev"}


def test_word_overlap_is_reported_for_each_question(tmp_path, corpus):
    frame = gold.overlap(
        gold.load(write(tmp_path, row(text="What temp do kilns need?"), {"query_id": "q2", "text": "Why?"}), corpus),
        corpus,
    )
    assert frame["in_evidence"].tolist()[0] == pytest.approx(1 / 4)  # of what, temp, kilns, need
    assert frame["in_headings"].tolist()[0] == pytest.approx(1 / 4)
    assert frame["in_evidence"].isna().tolist() == [False, True]


@given(st.text(max_size=80), st.integers(0, 80), st.integers(1, 30))
def test_every_slice_is_found_where_it_stands(text, start, length):
    quote = text[start : start + length]
    if not gold.fold(quote)[0].strip():
        return
    assert any(a <= start + len(quote) and b >= start for a, b in gold.find_quote(text, quote))
