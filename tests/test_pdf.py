"""PDFs made here, one trait each: text and offsets, reading order, headings, furniture, signals, refusals."""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import child, pagecache, pdf, pdfchild
from localeval import layout as layouts
from localeval.corpus import Corpus, Signals, read_jsonl, write_jsonl
from localeval.records import BadInput, Span

pymupdf = pytest.importorskip("pymupdf", reason="pip install pymupdf==1.26.7")
PLAIN, BOLD = "helv", "hebo"
PROSE = "The ferry leaves the small harbour at noon and returns before dark."
REAL = os.environ.get("LOCALEVAL_PDFS")
real = pytest.mark.skipif(not REAL, reason="set LOCALEVAL_PDFS to a folder of real PDFs with a manifest.csv")


def make(path: Path, *pages, outline=(), labels=(), title="", **save) -> Path:
    """Each page is a list of `(x, y, text)` or `(x, y, text, size, font)`."""
    document = pymupdf.open()
    for lines in pages:
        page = document.new_page(width=600, height=800)
        for x, y, text, *style in lines:
            size, font = style or (10, PLAIN)
            page.insert_text((x, y), text, fontsize=size, fontname=font)
    document.set_toc(list(outline))
    document.set_page_labels(list(labels))
    document.set_metadata({"title": title})
    document.save(path, **save)
    return path


def raw_pdf(path: Path, *objects: bytes) -> Path:
    """A file of exactly these objects; the first is the catalogue."""
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(data))
    path.write_bytes(data + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + trailer)
    return path


@pytest.fixture
def inside(monkeypatch):
    """The same messages without the time a process takes; for tests of what is made of them."""

    def part(path, page_seconds, form, part, parts, stop=None):
        told = (json.loads(json.dumps(message)) for message in pdfchild.told(str(path), form, part, parts))
        yield from (message for message in told if not message.get("done"))

    monkeypatch.setattr(pdf, "_part", part)


def stream(content: bytes, extra: bytes = b"") -> bytes:
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (extra, len(content), content)


CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
ONE_PAGE = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"


def paragraph(x, y, text, lines=5, size=10):
    return [(x, y + 12 * i, f"{text} {i}", size, PLAIN) for i in range(lines)]


def shown(document, ranges):
    return [document.text[r.start : r.end] if hasattr(r, "start") else document.text[slice(*r)] for r in ranges]


# Text, offsets, labels


def test_lines_blocks_and_pages_are_joined_by_newlines(tmp_path):
    path = make(tmp_path / "a.pdf", [(72, 100, "one"), (72, 112, "two"), (72, 160, "three")], [], [(72, 100, "four")])
    document, layout = pdf.read(path, "a.pdf", "de")
    assert document.text == "one\ntwo\n\nthree\n\n\n\nfour"
    assert [(p.index, p.label, document.text[p.start : p.end]) for p in layout.pages] == [
        (0, "1", "one\ntwo\n\nthree"), (1, "2", ""), (2, "3", "four")
    ]  # fmt: skip
    assert shown(document, layout.lines) == ["one", "two", "three", "four"]
    assert layout.lines[0].box == pytest.approx((72, 89, 90, 103), abs=3)
    assert (document.language, layout.page_of(Span("a.pdf", 16, 20))) == ("de", 2)


@given(st.lists(st.lists(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4), max_size=4), max_size=4))
def test_each_line_is_found_at_its_offsets(pages):
    raw = [[[layouts.Raw(text, (0, 0, 1, 1), 10, False) for text in block] for block in page] for page in pages]
    text, lines, spans = layouts.lay_out(raw)
    assert [text[line.start : line.end] for line in lines] == [t for page in pages for block in page for t in block]
    assert all(before.end < after.start for before, after in pairwise(lines))
    assert len(spans) == len(pages) and all(before[1] + 2 == after[0] for before, after in pairwise(spans))
    assert all(spans[line.page][0] <= line.start and line.end <= spans[line.page][1] for line in lines)


def test_labels_are_what_the_pages_print(tmp_path, inside):
    labels = [{"startpage": 0, "style": "r", "firstpagenum": 1}, {"startpage": 1, "style": "D", "firstpagenum": 1}]
    _, layout = pdf.read(make(tmp_path / "a.pdf", [], [], [], labels=labels), "a.pdf")
    assert [(page.index, page.label) for page in layout.pages] == [(0, "i"), (1, "1"), (2, "2")]


@pytest.mark.parametrize(
    ("prefix", "shown"),
    [
        (b"(Annex\\(1\\) )", "Annex(1) 1"),
        (b"<FEFF015F002D>", "ş-1"),
        (b"(\xfe\xff\x00A\x00-)", "A-1"),
        (b"(A/B \\101 )", "A/B A 1"),
        (b"(\xe9-)", "é-1"),
        (b"()", "1"),
    ],
)
def test_prefixes_of_labels_are_text_and_not_what_the_file_writes(tmp_path, prefix, shown):
    labels = b"<</Type/Catalog/Pages 2 0 R/PageLabels<</Nums[0<</S/D/P%s>>]>>>>" % prefix
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]>>"
    _, layout = pdf.read(raw_pdf(tmp_path / "a.pdf", labels, ONE_PAGE, page), "a.pdf")
    assert layout.pages[0].label == shown and not layout.signals[0].unreadable


def test_pages_beyond_the_count_are_told_of(tmp_path):
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]>>"
    inner = b"<</Type/Pages/Parent 2 0 R/Kids[4 0 R 5 0 R]/Count 2>>"
    for count, dropped in ((2, 1), (3, 0)):
        tree = b"<</Type/Pages/Kids[3 0 R 6 0 R]/Count %d>>" % count
        path = raw_pdf(tmp_path / "a.pdf", CATALOG, tree, inner, page, page, page)
        for layout in (pdf.read(path, "a.pdf")[1], pdf.pages(path, "a.pdf", workers=2)[1]):
            assert len(layout.pages) == count and all(page.repaired == bool(dropped) for page in layout.signals)
            assert any("1 more than it counts" in note for note in layout.notes) == bool(dropped)


def test_labels_that_begin_on_a_later_page_harm_no_page_before(tmp_path):
    catalog = b"<</Type/Catalog/Pages 2 0 R/PageLabels<</Nums[1<</S/r>>]>>>>"
    tree, page = b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>", b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]>>"
    _, layout = pdf.read(raw_pdf(tmp_path / "a.pdf", catalog, tree, page, page), "a.pdf")
    assert [page.label for page in layout.pages] == ["1", "i"] and not layout.signals[0].unreadable


def test_ligatures_unknown_glyphs_and_nul(tmp_path):
    """Codes 1, 2, 3 and 5 are mapped to the ligature fi, to NUL, to half a surrogate and to a soft hyphen; code 4 to nothing."""
    cmap = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def
1 begincodespacerange <00> <FF> endcodespacerange
5 beginbfchar <01> <FB01> <02> <0000> <41> <0041> <03> <D800> <05> <00AD> endbfchar endcmap end end"""
    font = b"<</Type/Font/Subtype/Type3/FontBBox[0 0 500 500]/FontMatrix[.001 0 0 .001 0 0]/FirstChar 1/LastChar 65"
    widths = b"/Widths[%s]" % (b"500 " * 65)
    names = b"/Encoding<</Type/Encoding/Differences[1/a1/a2/a3/a4/a5 65/A]>>"
    glyphs = b"/CharProcs<<%s>>" % b"".join(b"/%s 7 0 R" % n for n in (b"a1", b"a2", b"a3", b"a4", b"a5", b"A"))
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 5 0 R/Resources<</Font<</F 4 0 R>>>>>>"
    path = raw_pdf(
        tmp_path / "a.pdf", CATALOG, ONE_PAGE, page,
        font + widths + names + glyphs + b"/ToUnicode 6 0 R>>",
        stream(b"BT /F 12 Tf 50 200 Td <410141> Tj 0 -40 Td <410541410505> Tj 0 -14 Td <41024104> Tj ET"),
        stream(cmap), stream(b"500 0 d0 0 0 500 500 re f"),
    )  # fmt: skip
    document, layout = pdf.read(path, "a.pdf")
    assert document.text.startswith("AfiA\n\nAAAA"), "the soft hyphens are gone, and the break behind them"
    assert "\x00" not in document.text and document.text.endswith("\ufffd")
    document.text.encode("utf-8")
    assert layout.signals[0].removed_chars in (0, 1)  # the library may drop the NUL itself


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("speci\x1ccation", 1), ("speci\x0ccation", 1), ("\x0crst", 1), ("sti\x0b, o\x0bend", 2), ("\x01\x02\x03", 3),
        ("f\x00x\x01 = 0", 0), ("\x02", 0), ("a \x03 b", 0), ("name\tvalue\n", 0), ("", 0),
    ],
)  # fmt: skip
def test_controls_harm_words_and_not_formulas(text, count):
    assert pdfchild.harmed(text) == count


def test_controls_and_half_surrogates_never_reach_a_text():
    assert pdfchild.clean("a\x00b\x1f\ud83dc\u2028d\ufeff") == ("ab\ufffdc d", 3)


def test_a_layout_survives_being_written(tmp_path):
    document, layout = pdf.read(make(tmp_path / "a.pdf", [(72, 100, "çay", 20, BOLD), (72, 140, PROSE)]), "a.pdf")
    corpus = Corpus((document,), {"a.pdf": layout}, {})
    write_jsonl(corpus, tmp_path / "c.jsonl")
    assert read_jsonl(tmp_path / "c.jsonl") == corpus


def test_numbers_stored_backwards_are_read_as_they_stand():
    """Origins of letters as a page has them: 1987 set from its last digit, 12 from its first, 3.5 in other digits."""

    def block(text, across, direction=(1.0, 0.0)):
        chars = [{"c": char, "origin": (x, 50.0)} for char, x in zip(text, across, strict=True)]
        spans = {"lines": [{"dir": direction, "spans": [{"text": text}]}]}
        return spans, {"lines": [{"spans": [{"chars": chars}]}]}

    cases = [
        ("عام ٧٨٩١", range(90, 10, -10), (1.0, 0.0), "عام ١٩٨٧"),
        ("١٢", (10, 20), (1.0, 0.0), "١٢"),
        ("۵٫۳", (30, 20, 10), (1.0, 0.0), "۳٫۵"),
        ("٢١", (20, 10), (0.0, 1.0), "٢١"),  # set sideways: it runs along another axis
        ("21", (20, 10), (1.0, 0.0), "21"),
    ]
    for text, across, direction, expected in cases:
        spans, letters = block(text, across, direction)
        pdfchild.turn_numbers([spans, {}], [letters, {}])
        assert spans["lines"][0]["spans"][0]["text"] == expected
    line = lambda text: layouts.Raw(text, (0.0, 0.0, 9.0, 9.0), 9.0, False)
    assert pdfchild._holds_numbers([[line("a")], [line("في ٢١")]]) and not pdfchild._holds_numbers([[line("21 ٢")]])


# Reading order

COLUMN = "the boats wait for wind and the crews mend nets"


def columns(order):
    """Two columns of four paragraphs, drawn in the given order of (side, paragraph)."""
    xs = {"L": 60, "R": 320}
    return [line for side, p in order for line in paragraph(xs[side], 120 + 80 * p, f"{side}{p} {COLUMN}")]


READ = [(side, p) for side in "LR" for p in range(4)]
ORDERS = {
    "column by column": READ,
    "right column stored first": READ[4:] + READ[:4],
    "across": [(side, p) for p in range(4) for side in "LR"],
}


@pytest.mark.parametrize("name", ORDERS)
def test_two_columns_are_read_one_after_the_other(tmp_path, inside, name):
    head = [(60, 80, "A title that runs across both of the columns of this page, from edge to edge", 12, PLAIN)]
    document, _ = pdf.read(make(tmp_path / "a.pdf", head + columns(ORDERS[name])), "a.pdf")
    found = [line[:2] for line in document.text.split("\n") if line]
    expected = [f"{side}{p}" for side, p in (ORDERS[name] if name != "across" else READ) for _ in range(5)]
    assert found == ["A ", *expected]


def test_two_columns_stored_line_by_line(tmp_path, inside):
    rows = [(x, 100 + 12 * i, f"{side}{i:02d} {COLUMN}") for i in range(20) for x, side in ((60, "L"), (320, "R"))]
    document, _ = pdf.read(make(tmp_path / "a.pdf", rows), "a.pdf")
    assert [line[:3] for line in document.text.split("\n") if line] == [f"{s}{i:02d}" for s in "LR" for i in range(20)]


def raws(*rows):
    return [[layouts.Raw(text, (x, y, x + width, y + 10), 10, False)] for x, y, width, text in rows]


def test_a_line_across_cuts_the_page_in_bands():
    band = [(x, 12 * i, 240, f"{s}{i} {COLUMN}") for i in range(12) for x, s in ((50, "L"), (310, "R"))]
    across = (50, 75, 500, "A wide line " + COLUMN)
    order = [block[0].text.split()[0] for block in layouts.in_reading_order(raws(*band[:12], across, *band[14:]), 600)]
    assert order == [*(f"L{i}" for i in range(6)), *(f"R{i}" for i in range(6)), "A"] + [
        f"{s}{i}" for s in "LR" for i in range(7, 12)
    ]


def test_right_to_left_columns_start_on_the_right():
    rows = [(x, 12 * i, 240, f"{s} {'نص عربي ' * 5}") for i in range(12) for x, s in ((50, "L"), (310, "R"))]
    assert [block[0].text[0] for block in layouts.in_reading_order(raws(*rows), 600)] == ["R"] * 12 + ["L"] * 12


def test_rows_of_a_table_stay_rows(tmp_path, inside):
    cells = [(x, 100 + 12 * i, f"{name} {i}") for i in range(20) for x, name in ((60, "salt"), (320, "kg"))]
    document, layout = pdf.read(make(tmp_path / "a.pdf", cells), "a.pdf")
    assert document.text.split("\n")[:2] == ["salt 0\tkg 0", "salt 1\tkg 1"]
    assert layout.headings == ()


def test_text_at_an_angle_keeps_its_order(tmp_path, inside):
    source = pymupdf.open()
    page = source.new_page()
    page.insert_text((100, 400), "anchor mass 12 kg", rotate=90)
    page = source.new_page()
    page.insert_text((100, 100), "turned with its page", rotate=270)
    page.set_rotation(90)
    source.save(tmp_path / "a.pdf")
    document, layout = pdf.read(tmp_path / "a.pdf", "a.pdf")
    assert document.text == "anchor mass 12 kg\n\nturned with its page"
    assert [signals.rotated_text for signals in layout.signals] in ([1.0, 0.0], [1.0, 1.0])
    box = layout.lines[1].box
    assert (layout.pages[1].width, layout.pages[1].height) == (842, 595) and box[2] <= 842 and box[3] <= 595


def test_a_sideways_table_is_in_order_or_said_to_be_turned(tmp_path, inside):
    source = pymupdf.open()
    for rotation in (0, 90, 180, 270):
        page = source.new_page()
        for row, text in enumerate(("anchor mass 12 kg", "chain mass 90 kg")):
            place = (300 + 40 * row, 400) if rotation in (90, 270) else (300, 400 + 40 * row)
            page.insert_text(place, text, rotate=rotation)
    for rotation in (90, 180, 270):
        source.new_page().insert_text((200, 300), "anchor mass 12 kg")
        source[-1].set_rotation(rotation)
    source.save(tmp_path / "a.pdf")
    document, layout = pdf.read(tmp_path / "a.pdf", "a.pdf")
    for page, signals in zip(layout.pages, layout.signals, strict=True):
        text = document.text[page.start : page.end]
        assert "anchor mass 12 kg" in text and (signals.rotated_text == 1.0 or page.index == 0)
    assert pdf.pages(tmp_path / "a.pdf", "a.pdf")[0].text == document.text


def test_a_range_over_a_divided_word_lies_in_both_lines(tmp_path, inside):
    lines = [(72, 100, "Old lan-"), (72, 112, "terns burn."), (72, 150, "Two lanterns.")]
    document, layout = pdf.read(
        make(tmp_path / "a.pdf", lines, [(72, 100, "Cut wind-")], [(72, 100, "powered")]), "a.pdf"
    )
    assert document.text == "Old lanterns burn.\n\nTwo lanterns.\n\nCut wind-\n\npowered"
    start = document.text.index("lanterns")
    touched = [line for line in layout.lines if line.start < start + 8 and line.end > start]
    assert [document.text[line.start : line.end] for line in touched] == ["Old lan", "terns burn."]
    assert touched[0].box[3] < touched[1].box[3]
    assert [document.text[page.start : page.end] for page in layout.pages][1:] == ["Cut wind-", "powered"]


# Headings and titles


def body(y, lines=12):
    return [(72, y + 12 * i, PROSE) for i in range(lines)]


def headings(path):
    document, layout = pdf.read(path, "a.pdf")
    return [(h.level, document.text[h.start : h.end]) for h in layout.headings]


def test_headings_by_size_and_weight(tmp_path, inside):
    one = [(72, 150, "Harbours", 18, BOLD), *body(190), (72, 360, "Tides", 14, BOLD), *body(390)]
    one += [(72, 560, "Ebb", 10, BOLD), *body(585, 8)]
    two = [(72, 150, "Ships and how", 18, BOLD), (72, 171, "they are built", 18, BOLD), *body(210)]
    two += [(72, 380, "Keels", 14, PLAIN), *body(410), (72, 590, "Masts", 10, BOLD), *body(615, 5)]
    path = make(tmp_path / "a.pdf", one, two)
    assert headings(path) == [
        (1, "Harbours"), (2, "Tides"), (3, "Ebb"), (1, "Ships and how\nthey are built"), (2, "Keels"), (3, "Masts")
    ]  # fmt: skip


def test_what_looks_like_a_heading_and_is_none(tmp_path, inside):
    """A bold row of a table, bold words within a paragraph, a bold sentence, a line of a table of contents."""
    lines = [(72, 130, "Port", 10, BOLD), (200, 130, "Depth", 10, BOLD), (72, 145, "Arne"), (200, 145, "12")]
    lines += [(72, 190, "All boats must be moored by six.", 10, BOLD), *body(230)]
    lines += [(72, 420, PROSE), (72, 432, "stressed words here", 10, BOLD), (72, 444, PROSE)]
    lines += [(72, 480, "Tides . . . . . . . . . . . . . . 12", 14, BOLD)]
    lines += [(72, 510, "Total", 10, BOLD), (300, 510, "1,204")]
    assert headings(make(tmp_path / "a.pdf", lines)) == []


def test_a_number_belongs_to_its_heading(tmp_path, inside):
    lines = [(72, 150, "2.1", 14, BOLD), (120, 150, "Tides", 14, BOLD), *body(190), *body(400)]
    assert headings(make(tmp_path / "a.pdf", lines)) == [(1, "2.1 Tides")]


def test_the_outline_gives_levels(tmp_path, inside):
    one = [(72, 150, "1 Harbours", 12, BOLD), *body(190), (72, 360, "Tides", 12, BOLD), *body(390)]
    two = [(72, 150, "abs Absolute values"), *body(190), (72, 360, "Shouting", 12, BOLD), *body(390)]
    outline = [[1, "Harbours", 1], [2, "Tides", 1], [2, "abs", 2, {"kind": 1, "to": pymupdf.Point(72, 140)}]]
    path = make(tmp_path / "a.pdf", one, two, outline=outline)
    assert headings(path) == [(1, "1 Harbours"), (2, "Tides"), (2, "abs Absolute values")]


def test_below_an_outline_of_chapters_smaller_headings_are_sections(tmp_path, inside):
    page = [(72, 150, "Harbours", 16, BOLD), *body(190), (72, 360, "Tides", 12, BOLD), *body(390)]
    assert headings(make(tmp_path / "a.pdf", page, outline=[[1, "Harbours", 1]])) == [(1, "Harbours"), (2, "Tides")]


def test_an_outline_of_other_titles_is_not_believed(tmp_path, inside):
    page = [(72, 150, "Harbours", 16, BOLD), *body(190)]
    assert headings(make(tmp_path / "a.pdf", page, outline=[[1, "slide7", 1]])) == [(1, "Harbours")]


@pytest.mark.parametrize(
    ("metadata", "title"),
    [("Port rules", "Port rules"), ("Microsoft Word - x.doc", "Harbours"), ("rules.dvi", "Harbours"), ("", "Harbours")],
)
def test_title(tmp_path, inside, metadata, title):
    path = make(tmp_path / "a.pdf", [(72, 150, "Harbours", 18, BOLD), *body(190)], title=metadata)
    assert pdf.read(path, "a.pdf")[1].title == title


def test_title_without_any(tmp_path, inside):
    assert pdf.read(make(tmp_path / "port.pdf", body(190)), "a.pdf")[1].title == "port"


# Furniture


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """Ten pages: roman then arabic numbers, the book named on left pages, the chapter on right ones, and traps."""
    pages = []
    for i in range(10):
        number = ["i", "ii", "iii"][i] if i < 3 else f"- {i - 2} -"
        head = [] if i == 5 else [(72, 40, "Port Rules" if i % 2 else f"{1 + i // 5}. Harbours", 9, PLAIN)]
        top = [(72, 70, "Harbours", 16, BOLD)] if i == 5 else [(72, 70, f"{(i * 37) % 11} {(i * 91) % 17}")]
        extra = [(72, 300, "See also:"), (72, 85, "See also:")] if i in (2, 3, 4) else []
        extra += [(500, 40, f"{i + 20} topic {'abcdefghij'[i]}", 9, PLAIN)]
        pages.append([*head, *top, *extra, *body(120), *body(500), (290, 780, number, 9, PLAIN)])
    return pdf.read(make(tmp_path_factory.mktemp("book") / "a.pdf", *pages), "a.pdf")


def test_running_heads_and_page_numbers_are_furniture(book):
    found = shown(book[0], book[1].boilerplate)
    heads = [line for line in found if "Port Rules" in line or "Harbours" in line]
    assert len(heads) == 9 and {"i", "ii", "iii", "- 1 -", "- 7 -"} <= set(found)
    assert sum(" topic " in line for line in found) == 10  # the words change, the number counts up


def test_furniture_stays_in_the_text_and_a_true_heading_is_none(book):
    document, layout = book
    marked = shown(document, layout.boilerplate)
    assert [(h.level, document.text[h.start : h.end]) for h in layout.headings] == [(1, "Harbours")]
    assert "Port Rules" in document.text
    assert "See also:" not in marked and not any(line.strip().replace(" ", "").isdigit() for line in marked)
    assert layout.boilerplate == tuple(sorted(layout.boilerplate))


def test_two_pages_are_too_few_for_furniture(tmp_path, inside):
    pages = [[(72, 40, "Port Rules"), *body(120)]] * 2
    assert pdf.read(make(tmp_path / "a.pdf", *pages), "a.pdf")[1].boilerplate == ()


# Signals


@pytest.fixture(scope="module")
def signalled(tmp_path_factory):
    document = pymupdf.open()
    picture = pymupdf.Pixmap(pymupdf.csGRAY, pymupdf.IRect(0, 0, 20, 20))
    picture.clear_with(120)
    scan = document.new_page()
    scan.insert_image(scan.rect, pixmap=picture)
    scan.insert_image(scan.rect * 0.5, pixmap=picture)  # a second layer must not count twice
    scan.insert_text((72, 100), PROSE, render_mode=3)
    half = document.new_page()
    half.insert_image(half.rect * pymupdf.Matrix(1, 0.5), pixmap=picture)
    drawing = document.new_page()
    for i in range(60):
        drawing.draw_line((10, 10 + i), (90, 10 + i))
    document.new_page()
    path = tmp_path_factory.mktemp("signals") / "a.pdf"
    document.save(path)
    light = pdf.pages(path, "a.pdf")
    document, layout = pdf.read(path, "a.pdf")
    assert (light[0], light[1].signals, light[1].notes) == (document, layout.signals, layout.notes)
    return document, layout


def test_signals_of_images_hidden_text_and_drawings(signalled):
    scan, half, drawing, blank = signalled[1].signals
    assert (scan.image_coverage, scan.invisible_text) == (1.0, 1.0)
    assert half.image_coverage == pytest.approx(0.5, abs=0.02) and half.invisible_text == 0
    assert drawing.vectors >= 60 and drawing.image_coverage == 0
    assert blank == Signals()


def test_text_under_a_page_sized_image_is_hidden_and_text_over_it_is_not(tmp_path):
    document = pymupdf.open()
    picture = pymupdf.Pixmap(pymupdf.csGRAY, pymupdf.IRect(0, 0, 20, 20))
    picture.clear_with(120)
    for over in (True, False):
        page = document.new_page()
        page.insert_text((72, 100), PROSE)
        page.insert_image(page.rect, pixmap=picture, overlay=not over)
    document.save(tmp_path / "a.pdf")
    slide, scan = pdf.read(tmp_path / "a.pdf", "a.pdf")[1].signals
    assert (slide.invisible_text, scan.invisible_text) == (0.0, 1.0)


def test_pages_without_a_text_layer_are_named(signalled):
    assert signalled[1].notes == ("no text layer on pages 2, 3 of 4 (counted from 1): images or drawings only",)


# What is refused, and what is read with a note


def locked(path, **passwords):
    return make(path, [(72, 100, PROSE)], encryption=pymupdf.PDF_ENCRYPT_AES_256, **passwords)


def cut(path):
    return written(path, make(path, body(100), body(100)).read_bytes()[:200])


def written(path, data):
    path.write_bytes(data)
    return path


PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 90 90]>>"


def pages(kids: bytes, count: int):
    return lambda path: raw_pdf(path, CATALOG, b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count), PAGE)


BAD = {
    "missing": (lambda path: path, "cannot be read .*check the name"),
    "empty": (lambda path: written(path, b""), "0 bytes.*export it again"),
    "web page": (lambda path: written(path, b"<!DOCTYPE html><p>Not found</p>"), "not a PDF.*save the document itself"),
    "web page on PDF": (lambda path: written(path, b"<html><p>%PDF-1.4</p></html>"), "export it again|not a PDF"),
    "header only": (lambda path: written(path, b"%PDF-1.5\n"), "export it again"),
    "cut short": (cut, "export it again"),
    "no pages": (pages(b"", 0), "no page in it"),
    "locked": (lambda path: locked(path, user_pw="key", owner_pw="lock"), "password.*copy without one"),
    "pages in a circle": (pages(b"2 0 R", 1), "page 1 of 1.*cycle.*repair it"),
    "negative count": (pages(b"3 0 R", -5), "list of pages is broken"),
    "too high a count": (pages(b"3 0 R", 500), "page 2 of 500.*repair it"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_one_line_that_names_them(tmp_path, name):
    build, message = BAD[name]
    path = build(tmp_path / "bad.pdf")
    with pytest.raises(BadInput, match=message) as error:
        pdf.read(path, "bad.pdf")
    assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)


def test_an_owner_password_alone_does_not_lock(tmp_path):
    document, layout = pdf.read(locked(tmp_path / "a.pdf", owner_pw="lock"), "a.pdf")
    assert document.text == PROSE and "permissions" in layout.notes[0]


def test_a_repaired_file_is_read_with_a_note(tmp_path):
    path = make(tmp_path / "a.pdf", body(100), body(100))
    path.write_bytes(path.read_bytes().replace(b"startxref", b"startxxxx"))
    document, layout = pdf.read(path, "a.pdf")
    assert PROSE in document.text and len(layout.pages) == 2
    assert "repaired" in layout.notes[0] and all(signals.repaired for signals in layout.signals)


def bomb(path):
    """Forms that show the next one ten times, nine levels deep: a thousand million lines from a few kilobytes."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 90 90]/Contents 4 0 R/Resources<</XObject<</X 6 0 R>>>>>>"
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 90 90]"
    levels = [
        stream(b"/X Do " * 10, form + b"/Resources<</XObject<</X %d 0 R>>>>" % (number + 1)) for number in range(6, 15)
    ]
    last = stream(b"BT /F 9 Tf (bomb) Tj ET", form + b"/Resources<</Font<</F 5 0 R>>>>")
    return raw_pdf(path, CATALOG, ONE_PAGE, page, stream(b"/X Do"), font, *levels, last)


def test_a_page_that_takes_too_long_is_stopped_with_its_process(tmp_path, monkeypatch):
    children, start = [], time.monotonic()

    class Watched(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            children.append(self)

    monkeypatch.setattr(child.subprocess, "Popen", Watched)
    with pytest.raises(BadInput, match=r"page 1 took longer than 0\.5 s"):
        pdf.read(bomb(tmp_path / "bomb.pdf"), "bomb.pdf", page_seconds=0.5)
    assert time.monotonic() - start < 15 and children[0].returncode is not None


HOSTILE = {
    "forms within forms": bomb,
    "paths": lambda path: packed(path, b"0 0 m 9 9 l S " * 3_000_000),
    "text": lambda path: packed(path, b"BT /F 9 Tf " + b"(bomb) Tj " * 3_000_000 + b"ET"),
}


def packed(path, content):
    """One page of this content, compressed: a few kilobytes."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 90 90]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    return raw_pdf(path, CATALOG, ONE_PAGE, page, stream(zlib.compress(content, 1), b"/Filter/FlateDecode"), font)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_end_within_their_bound(tmp_path, name):
    path, start = HOSTILE[name](tmp_path / "bomb.pdf"), time.monotonic()
    with pytest.raises(BadInput, match=r"page 1 took longer than 0\.3 s|stopped after 0 pages"):
        pdf.pages(path, "bomb.pdf", page_seconds=0.3)
    assert time.monotonic() - start < 15


def test_huge_pages_and_pictures_are_read_without_being_drawn(tmp_path):
    image = b"/Type/XObject/Subtype/Image/Width 35000/Height 35000/BitsPerComponent 1/ColorSpace/DeviceGray"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 2000000 2000000]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>"
    path = raw_pdf(
        tmp_path / "a.pdf", CATALOG, ONE_PAGE, page, stream(b"2000000 0 0 2000000 0 0 cm /X Do"),
        stream(zlib.compress(bytes(35000 // 8 * 35000 // 1000), 9), image + b"/Filter/FlateDecode"),
    )  # fmt: skip
    document, layout = pdf.read(path, "a.pdf", page_seconds=5)
    assert document.text == "" and layout.signals[0].image_coverage == 1.0
    assert layout.notes == ("no text layer on page 1 of 1 (counted from 1): images or drawings only",)


def with_bombs(path, pages: int, bombs: set[int]):
    """Pages of one line, but for those that hang the parser."""
    bomb(path.with_name("bomb-only.pdf"))
    document, hostile = pymupdf.open(), pymupdf.open(path.with_name("bomb-only.pdf"))
    for number in range(1, pages + 1):
        if number in bombs:
            document.insert_pdf(hostile)
        else:
            document.new_page().insert_text((72, 100), f"page {number} is here")
    document.save(path)
    return path


@pytest.mark.parametrize("workers", [1, 2])
def test_a_page_that_hangs_takes_no_other_page_with_it(tmp_path, workers):
    path = with_bombs(tmp_path / "a.pdf", 4, {2})
    document, layout = pdf.read(path, "a.pdf", page_seconds=1.0, workers=workers, cache=tmp_path / "cache")
    assert document.text == "page 1 is here\n\n\n\npage 3 is here\n\npage 4 is here"
    assert [signals.unreadable for signals in layout.signals] == [False, True, False, False]
    assert layout.notes == (
        "text could not be read on page 2 of 4 (counted from 1)",
        "page 2 took longer than 1 s and was stopped; export it again, or remove it",
    )
    assert not (tmp_path / "cache").exists(), "another day the page may be read"


def test_the_parser_begins_again_a_few_times_only(monkeypatch):
    started = []
    says = json.dumps({"pages": 9, "first": 0, "end": 9, "repaired": False})
    command = [sys.executable, "-c", f"print({says!r})"]
    monkeypatch.setattr(child, "module_command", lambda *arguments: started.append(arguments) or command)
    with pytest.raises(BadInput, match="stopped after 3 pages"):
        list(pdf.messages(Path("a.pdf"), 5))
    assert [arguments[5:] for arguments in started] == [(), ("1",), ("2",), ("3",)]


@pytest.mark.parametrize("says", ["", '{"pages": 3'])
def test_a_parser_that_dies_before_it_begins_is_reported(monkeypatch, says):
    monkeypatch.setattr(child, "module_command", lambda *arguments: [sys.executable, "-c", f"print(end='{says}')"])
    with pytest.raises(BadInput, match=r"a\.pdf: .*stopped after 0 pages"):
        list(pdf.messages(Path("a.pdf"), 5))


# Several workers, the cache, progress


@pytest.fixture(scope="module")
def long_file(tmp_path_factory):
    pages = [[(72, 40, "Port Rules"), *body(120), (290, 780, str(i))] for i in range(1, 8)]
    labels = [{"startpage": 0, "style": "r", "firstpagenum": 1}, {"startpage": 5, "style": "D", "firstpagenum": 1}]
    return make(tmp_path_factory.mktemp("long") / "a.pdf", *pages, labels=labels, outline=[[1, "Port Rules", 1]])


def test_two_workers_read_what_one_reads(long_file):
    seen = []
    one = pdf.read(long_file, "a.pdf", workers=1)
    two = pdf.read(long_file, "a.pdf", workers=2, progress=lambda done, total: seen.append((done, total)))
    assert one == two and [page.label for page in one[1].pages] == ["i", "ii", "iii", "iv", "v", "1", "2"]
    assert seen == [(done, 7) for done in range(1, 8)]
    light = pdf.pages(long_file, "a.pdf", workers=3)
    assert light[0] == one[0] and light[1].pages == one[1].pages and light[1].lines == ()


def test_the_pace_says_how_far_it_is_and_how_long_it_takes():
    said, times = [], iter([100.0, 100.4, 101.0, 101.5, 102.0])
    tell = pdf.pace(said.append, lambda: next(times))
    for done in (4, 10, 15, 20):
        tell(done, 101)
    assert said == ["10 of 101 pages, 10 pages/s, 10 s left", "20 of 101 pages, 10 pages/s, 9 s left"]


def test_small_files_have_one_worker(long_file, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert pdf.default_workers(long_file) == 1
    assert pdf.default_workers(written(tmp_path / "large.pdf", bytes(pdf.LARGE_BYTES))) == 2
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert pdf.default_workers(tmp_path / "large.pdf") == 1


def test_what_was_read_is_not_read_again(long_file, tmp_path, monkeypatch, inside):
    cache = tmp_path / "cache"
    first = pdf.read(long_file, "a.pdf", cache=cache)
    light = pdf.pages(long_file, "a.pdf", cache=cache)
    assert len(list(cache.iterdir())) == 2, "the two forms of a page are kept apart"
    with monkeypatch.context() as without:
        without.setattr(pdf, "_part", None)  # no child can begin
        assert pdf.read(long_file, "b.pdf", cache=cache)[1].pages == first[1].pages
        assert pdf.pages(long_file, "a.pdf", cache=cache) == light
        without.setattr(pagecache, "_library", lambda: "another version")
        with pytest.raises(TypeError):
            pdf.pages(long_file, "a.pdf", cache=cache)


def _packed(name: str, lines: list[bytes]) -> bytes:
    """An entry of this name, with these lines and an end that fits both."""
    body = b"".join(line + b"\n" for line in lines)
    end = {"done": len(lines), "sha256": hashlib.sha256(name.encode() + body).hexdigest()}
    return gzip.compress(body + json.dumps(end).encode() + b"\n")


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "short", "edited", "renamed"])
def test_a_damaged_entry_is_read_anew_and_replaced(long_file, tmp_path, damage, inside):
    expected = pdf.pages(long_file, "a.pdf", cache=tmp_path)
    (entry,) = tmp_path.iterdir()
    whole = entry.read_bytes()
    lines = gzip.decompress(whole).splitlines()
    assert gzip.decompress(_packed(entry.name, lines[:-1])) == gzip.decompress(whole) and b'"vectors": 0' in lines[-2]
    entry.write_bytes({
        "cut": whole[:-20],
        "flipped": whole[:60] + bytes([whole[60] ^ 255]) + whole[61:],
        "empty": b"",
        "other": b"{}",
        "short": _packed(entry.name, lines[:-2]),
        "edited": gzip.compress(b"\n".join([*lines[:-2], lines[-2].replace(b'"vectors": 0', b'"vectors": 7'), lines[-1]])),
        "renamed": _packed("0" + entry.name[1:] if entry.name[0] != "0" else "1" + entry.name[1:], lines[:-1]),
    }[damage])  # fmt: skip
    assert pagecache.read(entry) is None
    assert pdf.pages(long_file, "a.pdf", cache=tmp_path) == expected
    assert entry.read_bytes() == whole and list(tmp_path.iterdir()) == [entry]


def test_pages_put_in_order_by_the_child_or_by_who_asked_are_the_same(tmp_path, inside):
    rows = [(x, 300 + 20 * i, word) for i, word in enumerate(("Port", "Arne", "Vik")) for x in (72, 250, 420)]
    path = make(tmp_path / "a.pdf", rows, columns(ORDERS["across"]))
    plain = pdf.read(path, "a.pdf")
    assert plain == pdf.read(path, "a.pdf", reread=[lambda _path, _pages, readings: readings])
    assert "Port\tPort\tPort" in plain[0].text and plain[0].text.index("L0") < plain[0].text.index("R0")


def test_a_cache_that_cannot_be_written_is_no_error(long_file, tmp_path, inside):
    blocked = written(tmp_path / "file", b"no folder")
    assert pdf.pages(long_file, "a.pdf", cache=blocked)[0].text


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_ends_the_children_and_leaves_no_entry(long_file, tmp_path, monkeypatch, workers):
    children = []

    class Watched(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            children.append(self)

    def interrupt(done, total):
        raise KeyboardInterrupt

    monkeypatch.setattr(child.subprocess, "Popen", Watched)
    with pytest.raises(KeyboardInterrupt):
        pdf.read(long_file, "a.pdf", workers=workers, cache=tmp_path / "cache", progress=interrupt)
    assert len(children) == workers and all(one.returncode is not None for one in children)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("enabled", [True, False])
def test_collection_of_circles_pauses_and_is_as_the_caller_had_it(long_file, tmp_path, monkeypatch, enabled):
    seen, was = [], gc.isenabled()
    reread = lambda path, pages, readings: seen.append(gc.isenabled()) or readings
    try:
        gc.enable() if enabled else gc.disable()
        for reading in (pdf.pages, pdf.read):
            reading(long_file, "a.pdf", progress=lambda done, total: seen.append(gc.isenabled()))
            assert not any(seen) and gc.isenabled() == enabled
        seen.clear()
        pdf.read(long_file, "a.pdf", reread=[reread])  # what others do may take long and leave circles
        assert seen == [enabled]
        with pytest.raises(BadInput):
            monkeypatch.setattr(pdf, "_part", lambda *arguments: iter([{"pages": 1, "repaired": False, "end": 1}]))
            pdf.pages(long_file, "a.pdf")
        assert gc.isenabled() == enabled
    finally:
        gc.enable() if was else gc.disable()


def test_as_many_pages_must_come_out_as_went_in(tmp_path, monkeypatch):
    header, page = {"pages": 2, "repaired": False, "end": 2}, {"signals": {"repaired": False}}
    monkeypatch.setattr(pdf, "_part", lambda *arguments: (message for message in [header, page]))
    with pytest.raises(BadInput, match="1 of 2 pages"):
        pdf.read(make(tmp_path / "a.pdf", []), "a.pdf")


def test_without_the_library_the_message_says_how_to_get_it(tmp_path, monkeypatch):
    path = make(tmp_path / "a.pdf", [])
    (tmp_path / "pymupdf.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(BadInput, match="pip install pymupdf"):
        pdf.read(path, "a.pdf")


def test_the_reading_process_never_imports_the_library(tmp_path):
    path = make(tmp_path / "a.pdf", [(72, 100, PROSE)])
    code = f"""import sys, pathlib
from localeval import layout as layouts
from localeval import child, pdf
assert pdf.read(pathlib.Path({str(path)!r}), 'a.pdf')[0].text == {PROSE!r}
assert not {{'pymupdf', 'torch'}} & set(sys.modules)"""
    subprocess.run([sys.executable, "-c", code], check=True)


@real
def test_a_real_manual():
    document, layout = pdf.read(Path(REAL) / "bd_r_intro.pdf", "r")
    assert (len(layout.pages), layout.pages[0].label, layout.title) == (113, "T-1", "An Introduction to R")
    assert len(layout.headings) == 145  # as many as its outline has entries
    assert shown(document, layout.headings[:2]) == ["Preface", "1 Introduction and preliminaries"]
    marked = shown(document, layout.boilerplate)
    assert len(marked) > 105 and "Chapter 5: Arrays and matrices\t21" in marked


@real
@pytest.mark.parametrize(
    "name", ["2c_acm_sigconf.pdf", "rtl_samplebook_ar.pdf", "ocr_epson_agreement.pdf", "rot_orient.pdf"]
)
def test_the_light_reading_of_a_real_file_says_the_same(name):
    (document, layout), light = pdf.read(Path(REAL) / name, name), pdf.pages(Path(REAL) / name, name, workers=2)
    assert light[0] == document
    assert (light[1].pages, light[1].signals, light[1].notes) == (layout.pages, layout.signals, layout.notes)
    assert not re.search("[\u00ad\ufb00-\ufb06\ufb50-\ufd3d\ufd40-\ufdff\ufe70-\ufefc]", document.text)


@real
@pytest.mark.parametrize("name", ["2c_acm_sigconf.pdf", "tb_12s0324.pdf", "bd_refcard_tr.pdf", "rot_orient.pdf"])
def test_no_letter_of_a_real_file_is_lost_or_doubled(name):
    flags = pymupdf.TEXTFLAGS_TEXT & ~pymupdf.TEXT_CID_FOR_UNKNOWN_UNICODE & ~pymupdf.TEXT_PRESERVE_LIGATURES
    letters = lambda text: Counter(
        char for char in pdfchild.clean(text)[0] if not char.isspace() and char not in "-\u00ad"
    )
    with pymupdf.open(Path(REAL) / name) as source:
        shown = sum((letters(page.get_text("text", flags=flags)) for page in source), Counter())
    assert letters(pdf.pages(Path(REAL) / name, name)[0].text) == shown


@real
def test_years_of_a_real_arabic_book():
    text = pdf.pages(Path(REAL) / "rtl_samplebook_ar.pdf", "a.pdf")[0].text
    assert "١٩٨٧" in text and "٢٠٠٦" in text and "٧٨٩١" not in text


@real
def test_a_real_file_cut_short():
    with pytest.raises(BadInput, match=r"bad_truncated60\.pdf: no page"):
        pdf.read(Path(REAL) / "bad_truncated60.pdf", "a.pdf")
