"""Lines to text: divided words made whole by what the document shows, cells of a row, shapes of letters. By hand, no PDF."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import gold
from localeval.corpus import Layout, Line
from localeval.layout import Raw, arranged, find_furniture, find_headings, fold_forms, from_wire, lay_out, mend, to_wire
from localeval.tokens import ascii_words, code_aware, words

PROSE = "The lanterns of a wind-powered pump stand by the boats of an Anglo-Saxon king. "


def raw(text, x=50.0, y=100.0, width=100.0, size=10.0, upright=True):
    return Raw(text, (x, y, x + width, y + size), size, False, upright)


# Divided words


@pytest.mark.parametrize(
    ("divided", "whole"),
    [
        ("old lan-\nterns burn", "old lanterns burn"),
        ("a wind-\npowered pump", "a wind-powered pump"),
        ("old lan‐\n  terns burn", "old lanterns burn"),
        ("LAN-\nTERNS", "LANTERNS"),
        ("Lan-\nterns", "Lanterns"),
        ("the Anglo-\nSaxon", "the Anglo-Saxon"),
        ("lan-\n\nterns, in the next column", "lanterns, in the next column"),
        ("(“lan-\nterns”)", "(“lanterns”)"),
        ("Hafen\u00ad\nmeister", "Hafenmeister"),
        ("Krug\u00addeckel", "Krugdeckel"),
        ("Hafen\u00ad\n\nmeister", "Hafen\n\nmeister"),
        ("כתב\u00ad\nיד", "כתביד"),
    ],
)
def test_divided_words_are_made_whole_by_evidence(divided, whole):
    assert mend(f"{PROSE}{divided}", [])[0] == PROSE + whole


@pytest.mark.parametrize(
    "text",
    [
        "a har-\nbour",  # "harbour" stands nowhere
        "lan-\n\nTerns",  # a new block with a capital: no word goes on there
        "10-\n20 and 10-20",  # a range
        "x = lan -\nterns",  # a minus sign
        "https://example.org/lan-\nterns",
        "a@lan-\nterns.org",
        "lan-\nterns.example.org",
        "lan-\nterns(x)",
        "self.lan-\nterns",
        "茶-\n碗 茶碗",
        "سلام-\nعليكم سلامعليكم",
        "- one\n- two -\nthree",
        "lan-",
        "-\nterns",
    ],
)
def test_what_nothing_decides_stays_as_shown(text):
    assert mend(PROSE + text, []) == (PROSE + text, [])


def test_the_more_frequent_form_counts_and_halves_prove_nothing():
    assert mend("re-entry re-entry reentry re-\nentry", [])[0].endswith("re-entry")
    assert mend("re-entry reentry re-\nentry", [])[0].endswith("re-\nentry")
    assert mend("reentry reentry re-entry re-\nentry", [])[0].endswith(" reentry")
    assert mend("cor-\nrelation and re-\nlation", [])[0] == "cor-\nrelation and re-\nlation"


def test_offsets_stay_exact_over_both_kinds_of_hyphen():
    pages = [
        [[raw("Krug\u00addeckel and lan-"), raw("terns", y=112)]],
        [[raw("no lanterns, wind-"), raw("powered", y=112)]],
    ]
    text, shown, spans = lay_out([*pages, [[raw("wind-powered")]]])
    mended, moved = mend(text, [n for line in shown for n in (line.start, line.end)])
    assert mended == "Krugdeckel and lanterns\n\nno lanterns, wind-powered\n\nwind-powered"
    ranges = list(zip(moved[::2], moved[1::2], strict=True))
    assert [mended[a:b] for a, b in ranges] == [
        "Krugdeckel and lan", "terns", "no lanterns, wind-", "powered", "wind-powered"
    ]  # fmt: skip
    _, pages_moved = mend(text, [n for span in spans for n in span])
    assert [mended[a:b] for a, b in zip(pages_moved[::2], pages_moved[1::2], strict=True)] == mended.split("\n\n")
    layout = Layout(
        "a", lines=tuple(Line(*ends, line.page, line.raw.box) for ends, line in zip(ranges, shown, strict=True))
    )
    (place,) = gold.find_quote(mended, "and lanterns")
    assert [line.box[1] for line in layout.lines if line.start < place[1] and line.end > place[0]] == [100.0, 112.0]


PIECES = st.sampled_from(
    ["lan", "terns", "lanterns", "-\n", "‐\n", "\u00ad", "\u00ad\n", "\n\n", " ", "Wind", "ß", "7"]
)


@given(st.lists(PIECES, max_size=30).map("".join), st.data())
def test_mending_only_takes_away_hyphens_and_breaks(text, data):
    offsets = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    mended, moved = mend(text, offsets)
    letters = lambda one: [char for char in one if char.isalnum()]
    assert letters(mended) == letters(text) and "\u00ad" not in mended
    assert all(letters(mended[:there]) == letters(text[:here]) for here, there in zip(offsets, moved, strict=True))
    assert moved == sorted(moved) and len(mended) <= len(text)


@pytest.mark.parametrize("tokenise", [words, code_aware])
def test_tokenisers_give_both_forms_of_what_stays_divided(tokenise):
    assert Counter(tokenise("a har-\n bour re-entry")) == Counter(["a", "har", "bour", "harbour", "re", "entry"])
    assert tokenise("10-\n20, 茶-\n碗") == tokenise("10- 20, 茶- 碗")
    assert tokenise("in-\nter-\nnal")[-2:] == ["inter", "ternal"]


def test_the_published_rule_knows_no_lines():
    assert ascii_words("har-\nbour") == ["har", "bour"]


@pytest.mark.parametrize("text", ["old lanterns burn", "old lan-\nterns burn"])
@pytest.mark.parametrize("quote", ["old lanterns burn", "old lan-\nterns burn", "old lan- terns burn"])
def test_a_quote_is_found_across_either_form(text, quote):
    assert gold.find_quote(f"The {text} out.", quote) == [(4, 4 + len(text))]


def test_a_quote_with_a_dash_stays_exact():
    assert gold.find_quote("a wind-powered pump", "wind-\npowered") == [(2, 14)]
    assert gold.find_quote("from a b", "a - b") == [] and gold.find_quote("pages 10 20", "10-\n20") == []


# Rows and cells


def test_wide_gaps_are_tabs_and_narrow_ones_spaces():
    row = [raw("salt", 50, width=20), raw("sea", 74, width=20), raw("12 kg", 200, width=30)]
    assert [line.text for block in arranged([row], 600, 800) for line in block] == ["salt sea\t12 kg"]
    row = [raw("Tides . . . . .", 50, width=200), raw("12", 500, width=20)]
    assert arranged([row], 600, 800)[0][0].text == "Tides . . . . . 12"


def test_single_cells_in_blocks_of_their_own_make_a_row():
    blocks = [[raw("Port", 50, 200)], [raw("Depth", 250, 200)], [raw("Note", 450, 200)], [raw("Arne", 50, 220)]]
    assert [[line.text for line in block] for block in arranged(blocks, 600, 800)] == [["Port\tDepth\tNote"], ["Arne"]]


@pytest.mark.parametrize(
    "blocks",
    [
        [[raw("head", 50, 20)], [raw("12", 500, 20)]],  # at the top of the page: running heads
        [[raw("Port", 50, 200), raw("Arne", 50, 212)], [raw("Depth", 250, 200)]],  # several lines: it could be a column
        [[raw("Depth", 250, 200)], [raw("Port", 50, 200)]],  # from right to left
        [[raw("Port", 50, 200)], [raw("Depth", 250, 215)]],  # lower
        [[raw("نص", 50, 200)], [raw("نص", 250, 200)]],  # a row of a right-to-left script
    ],
)
def test_other_blocks_stay_apart(blocks):
    assert arranged(blocks, 600, 800) == blocks


def test_a_cell_of_several_lines_loses_none():
    blocks = [[raw("Arne", 50, 200), raw("a port with", 250, 200), raw("two piers", 250, 212), raw("12 m", 450, 200)]]
    assert "\n".join(line.text for block in arranged(blocks, 600, 800) for line in block) == (
        "Arne\ta port with\ntwo piers\n12 m"
    )


LINES = st.builds(
    raw,
    st.lists(st.sampled_from(["salt", "12", "kg", "2.", "نص", "ﬁn", "lan-"]), min_size=1, max_size=4).map(" ".join),
    st.integers(0, 500).map(float),
    st.integers(0, 700).map(float),
    st.integers(5, 300).map(float),
    st.sampled_from([8.0, 10.0, 14.0]),
    st.booleans(),
)


@given(st.lists(st.lists(LINES, min_size=1, max_size=12), max_size=6))
def test_no_word_is_lost_or_doubled(blocks):
    shown = [line.text for block in arranged(blocks, 600, 800) for line in block]
    whole = lambda texts: Counter("".join(texts).replace("ﬁ", "fi").replace(" ", "").replace("\t", ""))
    assert whole(shown) == whole(line.text for block in blocks for line in block)
    far = [line for block in blocks for line in block]
    if all(abs(a.box[1] - b.box[1]) > 20 for a, b in pairwise(sorted(far, key=lambda line: line.box[1]))):
        assert Counter(" ".join(shown).split()) == Counter(fold_text(far).split())  # nothing stands in one row


def fold_text(lines):
    return " ".join(line.text for line in fold_forms(lines))


# Shapes of letters


@pytest.mark.parametrize(
    ("shown", "letters"),
    [
        ("ﬁnal oﬃce ﬅ", "final office st"),
        ("ﺳﻼم", "سلام"),  # initial and ligature forms
        ("ﷲ", "الله"),
        ("\ufe76", "\u064e"),  # a mark that stands alone keeps no space
        ("שׁ", "ש\u05c1"),
        ("½ ① Ａ", "½ ① Ａ"),  # compatibility characters that are no shapes of letters stay
    ],
)
def test_presentation_forms_become_letters(shown, letters):
    assert [line.text for line in fold_forms([raw(shown)])] == [letters]


# Furniture and headings after mending


def test_a_heading_goes_on_where_its_word_does():
    lines = [[Raw("On Harbours and Lan-", (50, 50, 200, 70), 16, True)], [raw("terns")], [raw(PROSE)]]
    text, shown, _ = lay_out([lines])
    text, moved = mend(text, [n for line in shown for n in (line.start, line.end)])
    shown = [one._replace(start=a, end=b) for one, a, b in zip(shown, moved[::2], moved[1::2], strict=True)]
    (heading,) = find_headings(shown)
    assert text[heading.start : heading.end] == "On Harbours and Lanterns"


def test_a_line_that_also_stands_within_pages_is_no_furniture():
    def page(number, inner):
        return [[raw("See also:", y=20)], [raw(inner, y=400)], [raw(f"Page {number}", y=780)]]

    for inner, expected in (("See also:", 0), ("Other text", 4)):
        _, shown, _ = lay_out([page(number, inner) for number in range(1, 5)])
        found = [line.raw.text for line in find_furniture(shown, [800] * 4)]
        assert found.count("See also:") == expected and sum(text.startswith("Page") for text in found) == 4


# Between the processes

HUNDREDTHS = st.integers(-(10**7), 10**7).map(lambda count: count / 100)


@given(
    st.lists(
        st.builds(
            Raw, st.text(), st.tuples(*[HUNDREDTHS] * 4), HUNDREDTHS, st.booleans(), st.booleans(), st.integers(1, 9)
        )
    )
)
def test_lines_come_out_of_the_pipe_as_they_went_in(block):
    assert from_wire(json.loads(json.dumps(to_wire([block])))) == [block]
