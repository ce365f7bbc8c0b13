"""Gold files: anchors are found whatever the line breaks, and every mistake is one clear line."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import gold
from localeval.corpus import Corpus, Heading, Layout, Page, load, make_document
from localeval.records import BadInput, Span

TEXT = "Kilns\n\nThe “Kiln” temp is 900\u00a0°C, never\nmore.\n\nFire it slowly.\n\nGlazes\n\nFire it slowly. Cool it for a day."
HEADINGS = (Heading(0, 5, 1), Heading(TEXT.index("Glazes"), TEXT.index("Glazes") + 6, 1))
PAGES = (Page(0, "i", 0, 50), Page(1, "1", 50, len(TEXT)))


@pytest.fixture
def corpus():
    layouts = {"a.md": Layout("a.md"), "kiln.pdf": Layout("kiln.pdf", "Kilns", PAGES, HEADINGS)}
    return Corpus((make_document("a.md", "Kilns.", b""), make_document("kiln.pdf", TEXT, b"")), layouts, {})


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


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("for infor-\nmation on", "information", "infor-\nmation"),
        ("for infor-\nmation on", "infor-mation on", "infor-\nmation on"),
        ("a start-\n  up here", "start-up", "start-\n  up"),
        ("a start- \nup here", "startup", "start- \nup"),
        ("a start‐\nup here", "startup", "start‐\nup"),
        ("a start\u00ad\nup here", "startup here", "start\u00ad\nup here"),
        ("infor-\nmation of a start-\nup", "information of a start-up", "infor-\nmation of a start-\nup"),
        ("infor-\nmation", "infor-\nmation", "infor-\nmation"),
        ("infor-\nmation", "infor- mation", "infor-\nmation"),
        ("cafe\u0301-\nteria", "caféteria", "cafe\u0301-\nteria"),
        ("pre- and post-\nwar", "pre- and post-war", "pre- and post-\nwar"),
        ("1990–\n2000", "1990-2000", "1990–\n2000"),
        ("ends in self-\n", "in self-", "in self-"),
        ("re-sign or start-\nup", "resign", None),
        ("resign or start-\nup", "re-sign", None),
        ("1990-\n2000", "19902000", None),
        ("- one\n- two", "one two", None),
        ("infor-\nmation", "infor mation", None),
    ],
)
def test_a_hyphen_at_a_line_end_is_a_hyphen_or_nothing(text, quote, found):
    expected = [] if found is None else [(text.index(found), text.index(found) + len(found))]
    assert gold.find_quote(text, quote) == expected


@pytest.mark.parametrize(
    ("text", "quote", "places"),
    [
        ("cafe\u0301", "cafe", []),
        ("café", "cafe", []),
        ("café cafe", "cafe", [(5, 9)]),
        ("cafe\u0301s", "\u0301s", []),
        ("각", "가", []),
        ("½ cup", "1", []),
        ("a ´b", "´b", [(2, 4)]),
        ("\u1ec7n e", "\u00ea\u0323n", [(0, 2)]),
        ("\u00ea\u0323 \u1ec7", "\u1ec7", [(0, 2), (3, 4)]),
        ("Vi\u00ea\u0323t Nam", "Vi\u1ec7t", [(0, 5)]),
        ("Vie\u0302\u0323t Nam", "Vi\u1ec7t Nam", [(0, 10)]),
        ("\u00ea\u0323", "\u00ea", []),
        ("e\u0302\u0301 e\u0301\u0302", "e\u0301\u0302", [(4, 7)]),
        ("ש\u05bc\u05b8לום", "ש\u05b8\u05bcלום", [(0, 6)]),
        ("wait… no", "wait...", [(0, 5)]),
    ],
)
def test_a_letter_is_not_cut_in_two(text, quote, places):
    assert gold.find_quote(text, quote) == places


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("for 15 minutes", "5 minutes", []),
        ("for 15 minutes and 5 minutes", "5 minutes", ["5 minutes"]),
        ("for 5 minutes", "for 5 minute", []),
        ("concatenated", "cat", []),
        ("the cat, cats", "cat", ["cat"]),
        ("1.5 mg", "5 mg", []),
        ("2,5 mg", "5 mg", []),
        ("2,5 mg", "2", []),
        ("2,5 mg", "2,", []),
        ("1.5 mg", ".5 mg", []),
        ("10.5 mg", "0.5 mg", []),
        ("12’500 m", "500 m", []),
        ("take 5. 5 mg, 5", "5", ["5", "5", "5"]),
        ("No.5, no,5 and 5.", "5", ["5", "5", "5"]),
        ("for 5mg", "5", []),
        ("for 5 m²", "5 m", []),
        ("1½ cups", "½ cups", []),
        ("Être être", "être", ["être"]),
        ("cafe\u0301s, cafe\u0301", "café", ["cafe\u0301"]),
        ("пять, десять, пять", "пять", ["пять", "пять"]),
        ("Pre-war start-\nup", "up", ["up"]),
        ("茶碗と茶", "茶", ["茶", "茶"]),
        ("煮沸15分間", "15", ["15"]),
        ("煮沸15分間", "5分", []),
        ("カップがある", "プが", ["プが"]),
        ("ต้มน้ำนาน", "น้ำ", ["น้ำ"]),
        ("Tシャツ", "シャツ", ["シャツ"]),
    ],
)
def test_a_quote_does_not_begin_or_end_inside_a_word_or_a_number(text, quote, found):
    assert [text[start:end] for start, end in gold.find_quote(text, quote)] == found


@pytest.mark.parametrize(
    ("quote", "inside"),
    [
        ("00 °C", "'900 °C'"),
        ("temp is 9", "'temp is 900'"),
        ("or a day", "'for a day'"),
        ("t slowly. Cool", "'it slowly. Cool'"),
        ("emp is 900 °C, never more. Fire it slowly. Glazes Fire it slowly. Cool", "'temp is .* Glazes Fire.*…'"),
        ("900 °C, never more. Fire it slowly. Glazes Fire it slowly. Cool it for a da", "'….* Cool it for a day'"),
    ],
)
def test_a_quote_inside_a_longer_word_is_told_from_one_that_is_not_there(tmp_path, corpus, quote, inside):
    message = f"quote not found in kiln.pdf: .*; it stands only inside a longer word or number: {inside}$"
    with pytest.raises(BadInput, match=message):
        gold.load(write(tmp_path, row(evidence={"quote": quote})), corpus)


def test_where_a_quote_stops_is_not_told_from_inside_a_number(tmp_path):
    text = "It takes 15 minutes of boiling in all. Or 5 minutes of boil."
    one = Corpus((make_document("a.txt", text, b""),), {"a.txt": Layout("a.txt")}, {})
    evidence = {"doc_id": "a.txt", "quote": "5 minutes of boiling in a pot"}
    with pytest.raises(BadInput, match="up to '5 minutes of' and the document goes on with 'boil.'"):
        gold.load(write(tmp_path, row(evidence=evidence)), one)


def test_each_document_is_folded_once_however_the_questions_are_ordered(tmp_path, monkeypatch):
    documents = tuple(make_document(f"{i:02d}.txt", f"Document {i:02d} speaks of kilns.", b"") for i in range(40))
    many = Corpus(documents, {doc.doc_id: Layout(doc.doc_id) for doc in documents}, {})
    rows = [
        {
            "query_id": f"{turn}-{i}",
            "text": "?",
            "evidence": [{"doc_id": doc.doc_id, "quote": f"{i:02d} speaks of kilns."}],
        }
        for turn in range(3)
        for i, doc in enumerate(documents)
    ]
    folded, fold = [], gold.fold
    monkeypatch.setattr(gold, "fold", lambda text: folded.append(text) or fold(text))
    assert len(gold.load(write(tmp_path, *rows), many)) == 120
    assert sum(text.startswith("Document") for text in folded) == 40


def test_no_pattern_is_made_for_a_quote_that_stands_there_as_it_is(monkeypatch):
    monkeypatch.setattr(gold, "_pattern", lambda needle: pytest.fail("a pattern was made"))
    assert gold.find_quote("Tea and cof-\nfee. Tea.", "tea") == []
    assert gold.find_quote("Tea and cof-\nfee. Tea.", "Tea") == [(0, 3), (18, 21)]
    assert gold.find_quote("Чай и кофе. Чай-\nник. Чай.", "Чай.") == [(22, 26)]


@pytest.mark.parametrize(
    ("quote", "stops"),
    [
        (
            "temp is 900 °C, never less than",
            "up to 'temp is 900 °C, never' and the document goes on with 'more. Fire it",
        ),
        ("the “Kiln” temp is 900 °C, always", "quote its exact words"),
        (
            "The “Kiln” temp is 900 °C, nevertheless",
            "up to 'The “Kiln” temp is 900 °C,' and the document goes on with 'never",
        ),
        (
            "is 900 °C, never more. Fire it slowly. Glazes Fire them",
            r"up to '….*slowly. Glazes Fire' and .* with 'it slowly",
        ),
        ("Fire it slowly, then glaze.", "up to 'Fire it slowly' and the document goes on with '. Glazes"),
        ("Cool it for a day. And a night.", "up to 'Cool it for a day.' and the document ends there"),
    ],
)
def test_a_quote_that_is_not_found_says_where_it_stops(tmp_path, corpus, quote, stops):
    with pytest.raises(BadInput, match=stops) as error:
        gold.load(write(tmp_path, row(evidence={"quote": quote})), corpus)
    assert "quote not found in kiln.pdf" in str(error.value) and "\n" not in str(error.value)


def test_a_repeated_quote_needs_its_surroundings(tmp_path, corpus):
    twice = row(evidence={"quote": "Fire it slowly."})
    with pytest.raises(BadInput, match="stands 2 times in kiln.pdf.*lengthen it, or give before and after"):
        gold.load(write(tmp_path, twice), corpus)
    with_anchor = row(evidence={"quote": "Fire it slowly.", "after": " Cool it"})
    (query,) = gold.load(write(tmp_path, with_anchor), corpus)
    assert query.evidence[0].span.start == TEXT.rindex("Fire")


def plain(text):
    return Corpus((make_document("a.txt", text, b""),), {"a.txt": Layout("a.txt")}, {})


@pytest.mark.parametrize(
    ("text", "anchor", "place"),
    [
        ("X. one two. Y! one two.", {"before": "Totally different. "}, None),
        ("X. one two. Y! one two. Z", {"before": "Totally different. ", "after": " "}, None),
        ("X. one two. Y! one two.", {"before": "X. "}, 0),
        ("X. one two. Y! one two.", {"before": "Y! "}, 1),
        ("X. one two. Y! one two.", {"before": "! "}, 1),
        ("the file). one two. the rules. one two.", {"before": "compress the file)."}, 0),
        ("one two. above one two. below", {"after": "below"}, 1),
        ("Cool the pot. one two. The sot! one two.", {"before": "Heat the pot. "}, 0),
        ("Beat the pot. one two. Cool the pot. one two.", {"before": "Heat the pot. "}, None),
        ("spot. one two. pan. one two.", {"before": "the pot. "}, 0),
        ("spot, one two. pan. one two.", {"before": "in a big old pot, "}, None),
        ("茶が沸いた。one two. 水を捨てる。one two.", {"before": "湯が沸いた。"}, 0),
        ("茶が沸いた。one two. 水を捨てる！one two.", {"before": "ここに置いておいた。"}, None),
        ("in a start-\nup one two. one two.", {"before": "start- up "}, 0),
        ("up to 15. one two. up to 25. one two.", {"before": "up to 15. "}, 0),
    ],
)
def test_chance_agreement_does_not_place_a_repeated_quote(tmp_path, text, anchor, place):
    path = write(tmp_path, row() | {"evidence": [{"doc_id": "a.txt", "quote": "one two."} | anchor]})
    if place is None:
        message = "stands 2 times in a.txt: 'one two.'; lengthen it, or mend its before and after"
        with pytest.raises(BadInput, match=message):
            gold.load(path, plain(text))
        return
    (query,) = gold.load(path, plain(text))
    assert query.evidence[0].span.start == (text.index("one two."), text.rindex("one two."))[place]


def test_all_of_before_and_after_is_compared_and_what_tells_places_apart_is_kept(tmp_path):
    same = " and then a long run of words that is the same in both places. "
    text = f"First{same}one two.{same}End.\n\nSecond{same}one two.{same}Finish."
    for anchor in ({"before": f"Second{same}"}, {"after": f"{same}Finish."}):
        evidence = {"doc_id": "a.txt", "quote": "one two."} | anchor
        queries = gold.load(write(tmp_path, row() | {"evidence": [evidence]}), plain(text))
        (item,) = queries[0].evidence
        assert item.span.start == text.rindex("one two.")
        assert len(item.before) > gold.CONTEXT
        (tmp_path / "again.jsonl").write_text(gold.dump(queries), encoding="utf-8")
        assert gold.load(tmp_path / "again.jsonl", plain(text)) == queries


def test_a_complete_anchor_decides_by_what_folding_takes_away(tmp_path):
    read = plain("one two. " * 4 + "\u00ad\n" + "one two. " * 4)
    evidence = {"doc_id": "a.txt"} | gold.anchor(read, Span("a.txt", 0, 8))
    queries = gold.load(write(tmp_path, row() | {"evidence": [evidence]}), read)
    assert queries[0].evidence[0].span == Span("a.txt", 0, 8)
    (tmp_path / "again.jsonl").write_text(gold.dump(queries), encoding="utf-8")
    assert gold.load(tmp_path / "again.jsonl", read) == queries


@given(st.text("ab .-\n\u00ad\u0301é茶1", max_size=200), st.integers(0, 200), st.integers(1, 4))
def test_an_anchor_leads_back_to_its_place(text, start, length):
    read, ready = plain(text), gold.prepare(text)
    places = [Span("a.txt", *place) for place in gold.find_quote(text, text[start : start + length])]
    for span in places:
        found = gold._anchor_among(places, span, read, ready)
        assert gold._best(places, found, ready) == [span]


def test_other_granularities(tmp_path, corpus):
    evidence = [
        {"doc_id": "kiln.pdf", "kind": "section", "quote": "Glazes"},
        {"doc_id": "kiln.pdf", "kind": "page", "page_index": 1},
        {"doc_id": "kiln.pdf", "kind": "document"},
        {"doc_id": "kiln.pdf", "kind": "symbol", "quote": "Cool it"},
    ]
    (query,) = gold.load(write(tmp_path, {"query_id": "q", "text": "?", "evidence": evidence}), corpus)
    assert [item.span for item in query.evidence] == [
        Span("kiln.pdf", HEADINGS[1].start, len(TEXT)), Span("kiln.pdf", 50, len(TEXT)), Span("kiln.pdf", 0, len(TEXT)),
        Span("kiln.pdf", TEXT.index("Cool"), TEXT.index("Cool") + 7),
    ]  # fmt: skip


BAD = {
    "missing document": (
        row(evidence={"doc_id": "kilm.pdf"}),
        r"no document 'kilm.pdf' in the corpus \(did you mean 'kiln.pdf'\?\)",
    ),
    "made-up quote": (row(evidence={"quote": "at 950 °C"}), "quote not found in kiln.pdf: 'at 950 °C'"),
    "wrong page": (row(evidence={"page_index": 1}), "quote stands on page_index 0 of kiln.pdf, not on 1"),
    "no quote": (row(evidence={"quote": " "}), "needs a 'quote'"),
    "quote null": (row(evidence={"quote": None}), "'quote' must be a text, found null"),
    "page null": (row(evidence={"kind": "page", "page_index": None}), "has no page_index null"),
    "unknown kind": (row(evidence={"kind": "line"}), "unknown evidence kind 'line'"),
    "grade 0": (row(evidence={"grade": 0}), "'grade' must be a whole number from 1 to 100, found 0"),
    "grade 101": (row(evidence={"grade": 101}), "'grade' must be a whole number from 1 to 100, found 101"),
    "a grade of many digits": (
        row(evidence={"grade": 10**399}),
        "'grade' must be a whole number from 1 to 100, found 1",
    ),
    "a page of many digits": (row(evidence={"page_index": 10**399}), "not on 1.{59}…: "),
    "a number that cannot be read": (
        json.dumps(row(evidence={"grade": 7})).replace("7", "7" * 5000),
        "a number has thousands of digits",
    ),
    "many brackets": ("[" * 100_000, "too many brackets inside one another"),
    "many braces": ('{"query_id":' * 100_000, "too many brackets inside one another"),
    "half a character": (row(text="How hot? \ud83d"), r"'\\ud83d' is half a character"),
    "half a character in a key": (row(**{"\udc00": 1}), r"'\\udc00' is half a character"),
    "half a character in evidence": (row(evidence={"quote": "\udc00"}), r"'\\udc00' is half a character"),
    "grade 0.5": (row(evidence={"grade": 0.5}), "found 0.5"),
    "misspelt key": (row(catgory="x"), r"unknown key 'catgory' \(did you mean 'category'\?\)"),
    "page without a base": (row(evidence={"page": 1}), "unknown key 'page'"),
    "blank text": (row(text=" "), "'text' must be a text that is not blank"),
    "evidence null": (row() | {"evidence": None}, "'evidence' must be a list"),
    "unknown split": (row(split="test"), "'split' must be 'dev' or 'heldout'"),
    "no evidence": (
        {"query_id": "q1", "text": "?"},
        r"query q1: no 'evidence'; write \"evidence\": \[\] if the documents",
    ),
    "no text": ({"query_id": "q1", "evidence": []}, "query q1: no 'text'; write the question"),
    "no id": ({"text": "?", "evidence": []}, "no 'query_id'; give each question its own"),
    "an id that is a number": (row(query_id=7), "'query_id' must be a text that is not blank, found 7"),
    "no document": (row() | {"evidence": [{"quote": "Kilns"}]}, "query q1: no 'doc_id'; name the document"),
    "document of another type": (
        row(evidence={"doc_id": ["kiln.pdf"]}),
        r"'doc_id' must be a text, found \[\"kiln.pdf\"\]",
    ),
    "tags as a text": (row(tags="hot"), "query q1: 'tags' must be a list of texts, found \"hot\""),
    "tags of numbers": (row(tags=[1]), r"'tags' must be a list of texts, found \[1\]"),
    "category": (row(category=None), "'category' must be a text, found null"),
    "review": (row(review=["me"]), "'review' must be a text"),
    "split of another type": (row(split=["dev"]), "'split' must be 'dev' or 'heldout'"),
    "unknown origin": (row(origin="robot"), "'origin' must be 'human', 'templated' or 'drafted', found \"robot\""),
    "must_hit as a text": (row(must_hit="yes"), "'must_hit' must be true or false, found \"yes\""),
    "must_hit as a number": (row(must_hit=1), "'must_hit' must be true or false, found 1"),
    "before null": (row(evidence={"before": None}), "'before' must be a text, found null"),
    "after a number": (row(evidence={"after": 3}), "'after' must be a text, found 3"),
    "page true": (
        row(evidence={"page_index": True}),
        "'page_index' must be a whole number, 0 for the first page, found true",
    ),
    "page 1.0": (row(evidence={"page_index": 1.0}), "'page_index' must be a whole number, .*, found 1.0"),
    "page as a text": (row(evidence={"page_index": "0"}), "'page_index' must be a whole number, .*, found \"0\""),
    "page below zero": (row(evidence={"page_index": -1}), "'page_index' must be a whole number, .*, found -1"),
    "page of a text": (row(evidence={"doc_id": "a.md", "kind": "page", "page_index": 0}), "a.md has no pages"),
    "page index in a text": (row(evidence={"doc_id": "a.md", "quote": "Kilns", "page_index": 0}), "a.md has no pages"),
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
    path = write(tmp_path, {"query_id": "q0", "text": "No evidence?", "evidence": []}, line)
    with pytest.raises(BadInput, match=message) as error:
        gold.load(path, corpus)
    assert str(error.value).startswith(f"{path}:2") and "\n" not in str(error.value)


@pytest.mark.parametrize(("on_disk", "written"), [("cafe\u0301.md", "café.md"), ("café.md", "cafe\u0301.md")])
def test_a_document_is_found_by_its_name_in_another_unicode_form(tmp_path, on_disk, written):
    one = Corpus((make_document(on_disk, "Kilns.", b""),), {on_disk: Layout(on_disk)}, {})
    path = write(tmp_path, row(evidence={"doc_id": written, "quote": "Kilns."}))
    (query,) = gold.load(path, one)
    assert query.evidence[0].span == Span(on_disk, 0, 6)


def test_two_names_that_differ_in_unicode_form_only(tmp_path):
    names = ("cafe\u0301\u0323.md", "cafe\u0323\u0301.md")
    two = Corpus(
        tuple(make_document(name, "Kilns.", b"") for name in names), {name: Layout(name) for name in names}, {}
    )
    for name in names:
        (query,) = gold.load(write(tmp_path, row(evidence={"doc_id": name, "quote": "Kilns."})), two)
        assert query.evidence[0].span.doc_id == name
    path = write(tmp_path, row(evidence={"doc_id": "caf\u1eb9\u0301.md", "quote": "Kilns."}))
    with pytest.raises(
        BadInput, match=":1: query q1: no document 'caf.*, but 2 that differ .* only in the Unicode form"
    ):
        gold.load(path, two)


def test_the_first_mistake_is_named_and_the_others_are_numbered(tmp_path, corpus):
    bad = row(query_id="bad", must_hit="yes")
    with pytest.raises(BadInput, match=r":2: query bad: 'must_hit' .* \(and 1 more line: 4\)$"):
        gold.load(write(tmp_path, row(), bad, row(query_id="q2"), "{", row(query_id="q3")), corpus)
    with pytest.raises(BadInput, match=r"\(and 24 more lines: 2, 3, .*, 21, …\)$") as error:
        gold.load(write(tmp_path, *(bad | {"query_id": f"q{i}"} for i in range(25))), corpus)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_only_newlines_end_a_line(tmp_path, corpus, separator):
    text = f"How{separator}hot?"
    lines = [json.dumps(row(query_id=f"q{i}", text=text), ensure_ascii=False) for i in range(2)]
    path = tmp_path / "gold.jsonl"
    path.write_text("\r\n".join(lines), encoding="utf-8", newline="")
    queries = gold.load(path, corpus)
    assert [query.text for query in queries] == [text, text]
    gold.write_resolved(queries, tmp_path / "queries.jsonl")
    assert gold.read_resolved(tmp_path / "queries.jsonl") == queries
    path.write_text("\n".join([*lines, "{"]), encoding="utf-8")
    with pytest.raises(BadInput, match=r"gold.jsonl:3: not JSON"):
        gold.load(path, corpus)


def test_a_document_without_pages_may_have_a_page_index_of_null(tmp_path, corpus):
    queries = gold.load(write(tmp_path, row(evidence={"doc_id": "a.md", "quote": "Kilns", "page_index": None})), corpus)
    assert queries[0].evidence[0].page_index is None
    (tmp_path / "again.jsonl").write_text(gold.dump(queries), encoding="utf-8")
    assert gold.load(tmp_path / "again.jsonl", corpus) == queries


def test_a_repeated_id_names_both_lines(tmp_path, corpus):
    with pytest.raises(BadInput, match=r":3: query_id 'q7' is already used on line 1"):
        gold.load(write(tmp_path, row(query_id="q7"), "", row(query_id="q7")), corpus)


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
    path.write_text("\ufeff" + json.dumps(row()), encoding="utf-8")
    assert gold.load(path, corpus)[0].query_id == "q1"


def test_what_is_dumped_loads_again_and_resolved_queries_round_trip(tmp_path, corpus):
    queries = gold.load(write(tmp_path, row(tags=["x"], must_hit=True), row(query_id="q2") | {"evidence": []}), corpus)
    again = tmp_path / "again.jsonl"
    again.write_text(gold.dump(queries), encoding="utf-8")
    assert gold.load(again, corpus) == queries
    gold.write_resolved(queries, tmp_path / "queries.jsonl")
    assert gold.read_resolved(tmp_path / "queries.jsonl") == queries


def test_the_split_of_a_question_is_its_own_and_not_that_of_its_place(tmp_path, corpus):
    rows = [row(query_id=f"q{n}", split="heldout" if n % 3 else "dev") for n in range(10)]
    before = {query.query_id: query.split for query in gold.load(write(tmp_path, *rows), corpus)}
    one_more = [row(query_id="new"), *reversed(rows)]
    after = {query.query_id: query.split for query in gold.load(write(tmp_path, *one_more), corpus)}
    assert after == before | {"new": "dev"}


@pytest.mark.parametrize("query_id", ["q\r1", "q\n1", "q1 ", "q\u20281", "q\t1"])
def test_a_query_id_is_one_visible_line(tmp_path, corpus, query_id):
    with pytest.raises(BadInput, match=r"gold.jsonl:1: query_id .* holds a line break or another sign") as refused:
        gold.load(write(tmp_path, row(query_id=query_id)), corpus)
    assert len(str(refused.value).splitlines()) == 1


def test_word_overlap_is_reported_for_each_question(tmp_path, corpus):
    frame = gold.overlap(
        gold.load(
            write(tmp_path, row(text="What temp do kilns need?"), {"query_id": "q2", "text": "Why?", "evidence": []}),
            corpus,
        ),
        corpus,
    )
    assert frame["in_evidence"].tolist()[0] == pytest.approx(1 / 4)  # of what, temp, kilns, need
    assert frame["in_headings"].tolist()[0] == pytest.approx(1 / 4)
    assert frame["in_evidence"].isna().tolist() == [False, True]


def test_word_overlap_knows_scripts_without_spaces(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "tea.md").write_text("绿茶用八十度的水冲泡三分钟。")
    read = load(tmp_path / "corpus", "zh")
    asked = {"query_id": "q", "text": "绿茶用什么水？", "evidence": [{"doc_id": "tea.md", "quote": "绿茶用八十度的水"}]}
    frame = gold.overlap(gold.load(write(tmp_path, asked), read), read)
    assert frame["in_evidence"].tolist() == [pytest.approx(2 / 5)]  # of the pairs 绿茶 茶用 用什 什么 么水


LETTERS = st.text(max_size=80) | st.text("ab-\u00ad\u0301é´ \n½", max_size=80)


@given(LETTERS, st.integers(0, 80), st.integers(1, 30))
def test_every_slice_between_words_is_found_where_it_stands(text, start, length):
    quote = text[start : start + length]
    previous, inner, following = (gold.fold(part)[0] for part in (text[:start], quote, text[start + length :]))
    needle, whole = inner.strip(), previous + inner + following
    if not needle or any(unicodedata.category(letter)[0] == "M" for letter in needle[0] + following[:1]):
        return
    borders = (len(inner) - len(inner.lstrip()), len(inner.rstrip()))
    if any(gold._inside_word(whole, len(previous) + at) for at in borders):
        return
    assert any(a <= start + len(quote) and b >= start for a, b in gold.find_quote(text, quote))


def test_gold_on_a_document_or_a_page_without_text_is_refused_and_never_a_miss(corpus, tmp_path):
    pages = (*corpus.layouts["kiln.pdf"].pages, Page(2, "3", len(TEXT), len(TEXT)))
    layouts = {"kiln.pdf": replace(corpus.layouts["kiln.pdf"], pages=pages), "scan.pdf": Layout("scan.pdf")}
    held = Corpus(corpus.documents, layouts, {"scan.pdf": "no text in it", "broken.pdf": "damaged"})
    cases = {
        "scan.pdf gave no text, so nothing can find it .no text in it": {"doc_id": "scan.pdf", "kind": "document"},
        "broken.pdf gave no text, so nothing can find it .damaged": {"doc_id": "broken.pdf", "quote": "any words"},
        "kiln.pdf has no text on page_index 2, so nothing can find it": {"kind": "page", "page_index": 2},
    }
    for message, evidence in cases.items():
        (tmp_path / "g.jsonl").write_text(json.dumps(row(evidence=evidence)))
        with pytest.raises(BadInput, match=f":1: query q1: {message}"):
            gold.load(tmp_path / "g.jsonl", held)
