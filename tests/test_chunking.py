"""Chunkers: small texts by hand, and the properties every chunker keeps on any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval.chunking import (
    CHUNKERS,
    _pack,
    chunk_corpus,
    describe,
    fixed,
    hierarchical,
    indexed_text,
    recursive,
    section,
    sections,
    sentence,
    sentences,
    tokens,
)
from localeval.corpus import Corpus, Heading, Layout, make_document
from localeval.records import BadInput, Span
from localeval.tokens import token_ranges


def doc(text, headings=(), boilerplate=()):
    return make_document("t.md", text, text.encode()), Layout(
        "t.md", "Title", headings=headings, boilerplate=boilerplate
    )


def ranges(units):
    return [(unit.span.start, unit.span.end) for unit in units]


def test_fixed_windows_end_and_none_lies_inside_another():
    assert ranges(fixed(*doc("x" * 25), max_chars=10, overlap=4)) == [(0, 10), (6, 16), (12, 22), (18, 25)]
    assert ranges(fixed(*doc("x" * 5), max_chars=10, overlap=4)) == [(0, 5)]


def sized(name, size, overlap):
    """The options of a chunker, in its own unit of size."""
    return (
        {"max_tokens": size, "overlap_tokens": overlap} if name == "tokens" else {"max_chars": size, "overlap": overlap}
    )


@pytest.mark.parametrize("name", CHUNKERS)
@pytest.mark.parametrize("overlap", [10, 12, -1])
def test_an_overlap_that_cannot_advance_is_refused(name, overlap):
    with pytest.raises(BadInput, match="cannot advance"):
        CHUNKERS[name](*doc("x" * 25), **sized(name, 10, overlap))


def test_sentences_survive_initials_and_abbreviations():
    text = "The prize went to Anna K. Mert in 1931. She declined. See fig. 3 for more."
    assert [text[a:b] for a, b in sentences(text)] == [
        "The prize went to Anna K. Mert in 1931.", "She declined.", "See fig. 3 for more."
    ]  # fmt: skip
    numbered = "1. Boil it.\n\n2. Cool it."
    assert [numbered[a:b] for a, b in sentences(numbered)] == ["1. Boil it.", "2. Cool it."]


@pytest.mark.parametrize(
    "text",
    [
        "J.R.R. Tolkien wrote it.", "A kiln of M.Ö. 300.", "Fırın için bkz. tablo.", "Siehe Abb. 4, z.B. links.",
        "She met Anna K. Mert.",
    ],
)  # fmt: skip
def test_no_sentence_ends_at_initials_or_abbreviations(text):
    both = f"{text} It went on."
    assert [both[a:b] for a, b in sentences(both)] == [text, "It went on."]


def test_a_paragraph_that_comes_twice_is_two_chunks_and_is_counted():
    paragraph = "No part of this may be copied."
    document, layout = doc(f"{paragraph}\n\nA kiln is an oven.\n\n{paragraph}")
    chunks = {"sentence": sentence(document, layout, max_chars=40)}
    assert [document[unit.span] == paragraph for unit in chunks["sentence"]] == [True, False, True]
    assert describe(chunks, Corpus((document,), {"t.md": layout}, {}))["exact_repeats"].tolist() == [1]


@given(st.text("ab#-_/1.", min_size=1, max_size=8), st.integers(0, 99), st.integers(0, 99))
def test_the_id_of_a_chunk_says_which_it_is(name, start, length):
    span = Span(name, start, start + length)
    assert Span.parse(str(span)) == span


def test_sentence_chunks_are_verbatim():
    text = "fee ($ 200).  Dr. Ok agrees."
    chunks = sentence(*doc(text), max_chars=15)
    assert [text[a:b] for a, b in ranges(chunks)] == ["fee ($ 200).", "Dr. Ok agrees."]


def test_section_chunks_carry_their_heading_path_and_never_cross_a_heading():
    text = "Intro.\n\n# One\n\nAlpha.\n\n## Deep\n\nBeta.\n\n# Two\n\nGamma."
    headings = tuple(
        Heading(text.index(line), text.index(line) + len(line), line.count("#"))
        for line in ("# One", "## Deep", "# Two")
    )
    units = section(*doc(text, headings))
    assert [unit.context for unit in units] == ["Title", "Title > One", "Title > One > Deep", "Title > Two"]
    assert [path for _, _, path in sections(*doc(text, headings))] == [(), ("One",), ("One", "Deep"), ("Two",)]


def test_section_overlap_is_exact_and_the_limit_holds():
    text = " ".join(f"Sentence number {n} has some words in it." for n in range(100))
    units = section(*doc(text), max_chars=400, overlap=60)
    pairs = list(zip(ranges(units), ranges(units)[1:], strict=False))
    assert pairs and all(left[1] - right[0] == 60 for left, right in pairs)
    assert max(b - a for a, b in ranges(units)) <= 400


def test_a_table_is_cut_between_rows():
    rows = "\n".join(f"| row {n} | 7,340 |" for n in range(30))
    for chunker in (sentence, section):
        cut = [rows[a:b] for a, b in ranges(chunker(*doc(rows), max_chars=100, overlap=0))]
        assert len(cut) > 5 and all(part.startswith("| row") and part.endswith("7,340 |") for part in cut)


@pytest.mark.parametrize("text", ["", " \n ", "\n\n\n"])
@pytest.mark.parametrize("chunker", CHUNKERS.values())
def test_blank_documents_have_no_chunks(chunker, text):
    assert chunker(*doc(text)) == []


texts = st.text(alphabet=st.sampled_from("ab. !?\n\t#é“”茶"), max_size=300)


@pytest.mark.parametrize("name", CHUNKERS)
@given(text=texts, max_chars=st.integers(2, 60), overlap=st.integers(0, 30))
def test_every_chunk_is_its_slice_and_nothing_is_lost(name, text, max_chars, overlap):
    overlap = min(overlap, max_chars - 1)
    document, layout = doc(text)
    units = CHUNKERS[name](document, layout, **sized(name, max_chars, overlap))
    covered = {at for a, b in ranges(units) for at in range(a, b)}
    assert all(at in covered for at, letter in enumerate(text) if not letter.isspace())
    assert all(
        document[unit.span] == text[unit.span.start : unit.span.end] and document[unit.span].strip() for unit in units
    )
    size = (lambda text: len(list(token_ranges(text)))) if name == "tokens" else len
    assert all(size(document[unit.span]) <= max_chars for unit in units)
    assert ranges(units) == sorted(set(ranges(units)))
    assert not any(x.span != y.span and x.span.contains(y.span) for x in units for y in units)


@given(texts)
def test_packing_is_repeatable(text):
    assert list(_pack(text, sentences(text), 40, 5)) == list(_pack(text, sentences(text), 40, 5))


def test_indexed_text_leaves_out_page_furniture_only():
    text = "HEADER\n\nAlpha beta.\n\nHEADER\n\nGamma."
    document, layout = doc(text, boilerplate=((0, 6), (21, 27)))
    corpus = Corpus((document,), {"t.md": layout}, {})
    (unit,) = sentence(document, layout)
    assert indexed_text(unit, corpus) == "Title\nAlpha beta.\n\n\n\nGamma."
    assert document[unit.span] == text, "the text itself is whole"


def test_chunkers_by_name():
    document, layout = doc("One sentence. " * 80)
    corpus = Corpus((document,), {"t.md": layout}, {})
    made = chunk_corpus(
        corpus, {"fixed": {"max_chars": 100, "overlap": 10}, "section-300": {"max_chars": 300, "overlap": 0}}
    )
    assert set(made) == {"fixed", "section-300"} and max(len(u.span) for u in made["section-300"]) <= 300
    with pytest.raises(BadInput, match="unknown chunker 'paragraph'; known: fixed, tokens"):
        chunk_corpus(corpus, {"paragraph": {}})
    with pytest.raises(BadInput, match="unknown option 'max_char'"):
        chunk_corpus(corpus, {"fixed": {"max_char": 3}})


def test_a_bare_heading_begins_the_next_chunk():
    text = "# One\n\n## Deep\n\nBeta."
    headings = (Heading(0, 5, 1), Heading(7, 14, 2))
    (unit,) = section(*doc(text, headings))
    assert (unit.span.start, unit.context) == (0, "Title > One > Deep")


def test_a_long_dotted_line_costs_no_more_than_others():
    """A table of contents or a form: 100,000 dots must not take quadratic time."""
    dots = "." * 100_000
    assert list(sentences(dots)) == [(0, len(dots))]


def test_recursive_chunks_end_where_paragraphs_do_and_lines_and_sentences_only_where_they_must():
    text = "One two.\n\nA first line here\nand a second one. It ends.\n\nLast."
    cut = lambda size: [text[a:b] for a, b in ranges(recursive(*doc(text), max_chars=size))]
    assert cut(60) == ["One two.\n\nA first line here\nand a second one. It ends.", "Last."]
    assert cut(30) == ["One two.\n\nA first line here", "and a second one. It ends.", "Last."]
    assert cut(18) == ["One two.", "A first line here", "and a second one.", "It ends.\n\nLast."]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A re-entry, 12,500!", ["A", "re", "-", "entry", ",", "12", ",", "500", "!"]),
        ("茶碗と tea", ["茶", "碗", "と", "tea"]),
        ("cre\u0300me हिन्दी", ["cre\u0300me", "हिन्दी"]),
        (" \n", []),
    ],
)
def test_tokens_that_sizes_are_counted_in(text, found):
    assert [text[a:b] for a, b in token_ranges(text)] == found


def test_token_windows():
    text = "a b c d e f g"
    assert [text[a:b] for a, b in ranges(tokens(*doc(text), max_tokens=3, overlap_tokens=1))] == [
        "a b c",
        "c d e",
        "e f g",
    ]


def test_hierarchical_chunks_hold_no_heading_and_a_bare_heading_gives_none():
    text = "Intro.\n\n# One\n\n## Deep\n\nBeta. Gamma.\n\n# Two"
    headings = tuple(
        Heading(text.index(line), text.index(line) + len(line), line.count("#"))
        for line in ("# One", "## Deep", "# Two")
    )
    document, layout = doc(text, headings)
    units = hierarchical(document, layout, max_chars=7)
    assert [(document[unit.span], unit.context) for unit in units] == [
        ("Intro.", "Title"), ("Beta.", "Title > One > Deep"), ("Gamma.", "Title > One > Deep")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("茶を飲む。急須を洗う。", ["茶を飲む。", "急須を洗う。"]),
        ("「行く。」彼は言った。", ["「行く。」", "彼は言った。"]),
        ("پانی گرم ہے؟ ہاں.", ["پانی گرم ہے؟", "ہاں."]),
        ("पानी गरम है। चाय बनी।", ["पानी गरम है।", "चाय बनी।"]),
    ],
)
def test_sentences_of_other_scripts(text, found):
    assert [text[a:b] for a, b in sentences(text)] == found


def test_no_sentence_ends_inside_a_fence():
    text = "Run it.\n\n```\nprint(1). # one\n\nprint(2)\n```\n\nDone."
    assert [text[a:b] for a, b in sentences(text)] == ["Run it.", "```\nprint(1). # one\n\nprint(2)\n```", "Done."]
    assert "~~~" in (open_ended := "~~~\na. b\n\nc") and [open_ended[a:b] for a, b in sentences(open_ended)] == [
        open_ended
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_char": 3}, "unknown option 'max_char' .did you mean"),
        ({"max_chars": 3}, "known: max_tokens, overlap_tokens"),
    ],
)
def test_an_option_of_another_chunker_is_named(options, message):
    with pytest.raises(BadInput, match=message):
        chunk_corpus(Corpus((), {}, {}), {"tokens" if "max_chars" in options else "fixed": options})
