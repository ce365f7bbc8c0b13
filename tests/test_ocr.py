"""Pages read again: words become lines in reading order, the better reading wins, and every failure is a named state."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localeval import corpus, engines, layout, ocr, pdf, quality, rapid, scans
from localeval.corpus import Reading
from localeval.records import BadInput

pymupdf = pytest.importorskip("pymupdf", reason="pip install pymupdf==1.26.7")
REAL = os.environ.get("LOCALEVAL_PDFS")
real = pytest.mark.skipif(not REAL, reason="set LOCALEVAL_PDFS to a folder of real PDFs with a manifest.csv")
TESSERACT = engines.Tesseract().available("en")
tesseract = pytest.mark.skipif(not TESSERACT[0], reason=TESSERACT[1])
RAPIDOCR = os.environ.get("LOCALEVAL_RAPIDOCR_PYTHON")
rapidocr = pytest.mark.skipif(not RAPIDOCR, reason="set LOCALEVAL_RAPIDOCR_PYTHON to a Python that has rapidocr")

WORDS = (
    ocr.Word(10.0, 20.0, 30.0, 30.0, 95.5, "Two", 0),
    ocr.Word(32.0, 20.0, 60.0, 30.0, 90.0, "words", 0),
    ocr.Word(10.0, 34.0, 90.0, 44.0, 60.0, "and three more", 1),
)
READ = ocr.Recognised("tesseract", "5.3.0", 200, "en", 1.25, WORDS)


# Records


@pytest.mark.parametrize("name", ["ocr.jsonl", "ocr.jsonl.gz"])
def test_records_survive_their_file(tmp_path, name):
    records = [
        ocr.Record("a/çay.pdf", 0, 595.0, 842.0, READ),
        ocr.Record("b.pdf", 3, 1.0, 2.0, READ._replace(words=())),
    ]
    ocr.write_records(tmp_path / name, records)
    assert ocr.read_records(tmp_path / name) == records
    written = (tmp_path / name).read_bytes()
    ocr.write_records(tmp_path / name, records)
    assert (tmp_path / name).read_bytes() == written and written.startswith(b"\x1f\x8b") == name.endswith(".gz")


def test_a_record_is_a_line_with_these_keys(tmp_path):
    ocr.write_records(tmp_path / "ocr.jsonl", [ocr.Record("b.pdf", 3, 595.0, 842.0, READ._replace(words=WORDS[:1]))])
    assert (tmp_path / "ocr.jsonl").read_text() == (
        '{"document":"b.pdf","page":3,"engine":"tesseract","version":"5.3.0","dpi":200,"language":"en","seconds":1.25,'
        '"width":595.0,"height":842.0,"words":[[0,10.0,20.0,30.0,30.0,95.5,"Two"]]}\n'
    )


@pytest.mark.parametrize("line", ["{", "[]", '{"document": "a"}', '{"words": [[1, 2]]}'])
def test_what_is_no_record_is_named_by_its_line(tmp_path, line):
    ocr.write_records(tmp_path / "ocr.jsonl", [ocr.Record("b.pdf", 3, 595.0, 842.0, READ)])
    with (tmp_path / "ocr.jsonl").open("a") as file:
        file.write(f"\n{line}\n")
    with pytest.raises(BadInput, match=r"ocr.jsonl:3: not an OCR record"):
        ocr.read_records(tmp_path / "ocr.jsonl")
    with pytest.raises(BadInput, match=r"none.jsonl: OCR records cannot be read \(No such file"):
        ocr.read_records(tmp_path / "none.jsonl")


def test_confidence_is_a_mean_over_words_and_a_box_may_hold_several():
    assert READ.confidence == pytest.approx((95.5 + 90 + 3 * 60) / 5)
    assert READ._replace(words=()).confidence is None


# From words to lines


def words(*placed, size=10.0):
    """`(x, y, text)` or `(x, y, text, size)`, each a line of its own; a letter is half as wide as the size."""
    found = []
    for line, (x, y, text, *own) in enumerate(placed):
        high = (own or [size])[0]
        found.append(ocr.Word(x, y, x + len(text) * high / 2, y + 0.94 * high, 90.0, text, line))
    return tuple(found)


def texts(blocks):
    return [[line.text for line in block] for block in blocks]


def test_words_of_a_line_are_joined_and_lines_below_one_another_are_a_block():
    low = ocr.Word(10, 90, 40, 100, 90, "Apart.", 2)
    assert texts(ocr.blocks([*WORDS, low], 600)) == [["Two words", "and three more"], ["Apart."]]
    (first, _), _ = ocr.blocks([*WORDS, low], 600)
    assert first.box == (10, 20, 60, 30)


def test_two_columns_that_an_engine_mixes_are_read_one_after_the_other():
    column = "the boats wait for wind and the crews mend nets"
    mixed = words(*((x, 100 + 12 * i, f"{side}{i} {column}") for i in range(9) for x, side in ((50, "L"), (310, "R"))))
    read = [line[:2] for block in texts(ocr.blocks(mixed, 600)) for line in block]
    assert read == [f"{side}{i}" for side in "LR" for i in range(9)]


def test_cells_of_a_row_stay_in_one_block_and_become_one_line():
    table = ((50, 100, "big pipe"), (200, 100, "copper tip"), (50, 112, "top tap"), (200, 112, "steel grip"))
    (block,) = ocr.blocks(words(*table), 600)
    assert [line.text for line in layout.join_rows(block)] == ["big pipe\tcopper tip", "top tap\tsteel grip"]


def test_sizes_come_from_letters_and_near_ones_are_evened():
    """Boxes of "on" and "pipes" in one type differ by a factor of nearly two."""
    high = {"on": 5.0, "bad": 7.2, "pip": 7.2 + 2.2, "ape": 5.0 + 2.2}
    same = [ocr.Word(50, 100 + 12 * i, 80, 100 + 12 * i + h, 90, text, i) for i, (text, h) in enumerate(high.items())]
    large = ocr.Word(50, 60, 150, 60 + 16 * 0.72, 90, "Heading", 9)._replace(bottom=60 + 16 * 0.94)
    (heading,), lines = ocr.blocks([large, *same], 600)
    assert {line.size for line in lines} == {10.0} and heading.size == pytest.approx(16, abs=0.1)


def test_a_line_that_the_engine_is_unsure_of_is_no_heading():
    noise = ocr.Word(50, 60, 250, 80, 69.9, "ee s ae", 20)
    text = words(*((50, 100 + 12 * i, "pipes and taps") for i in range(5)))
    assert {line.size for block in ocr.blocks([noise, *text], 600) for line in block} == {10.0}
    sizes = [line.size for block in ocr.blocks([noise._replace(confidence=70), *text], 600) for line in block]
    assert sizes == [40.0, *[10.0] * 5]
    assert [block[0].size for block in ocr.blocks([noise], 600)] == [20.0]


def test_a_skewed_line_is_as_high_as_its_words():
    line = [ocr.Word(50 + 40 * i, 100 + 2 * i, 85 + 40 * i, 109.4 + 2 * i, 90, "pipes", 0) for i in range(11)]
    ((raw,),) = ocr.blocks(line, 600)
    assert raw.box == (50, pytest.approx(110), 485, pytest.approx(119.4)) and raw.size == pytest.approx(10)


def test_no_words_are_no_blocks():
    assert ocr.blocks((), 600) == []


# The decision

GOOD = "The ferry leaves the small harbour at noon and returns before dark. It is slow and it is on time, as always. "
PROSE, GARBLED = GOOD * 8, "7KH \ufffd\ufffd HUU\ufffd OHDYHV WKH VPD\ufffdO KDU. " * 12


class Fake:
    """An engine that says what it was told to say, page after page; an exception is raised."""

    version = "1.0"

    def __init__(self, *says, name="fake", missing=""):
        self.says, self.name, self.missing, self.asked = list(says), name, missing, []

    def available(self, language):
        return (not self.missing, self.missing or f"{self.name} 1.0")

    def recognise(self, image, dpi, language):
        self.asked.append((image, dpi, language))
        text, sure = self.says[(len(self.asked) - 1) % len(self.says)]
        if isinstance(text, BaseException):
            raise text
        read = words(*((50, 50 + 12 * i, line) for i, line in enumerate(text.split(". ")) if line))
        return ocr.Recognised(
            self.name, "1.0", dpi, language, 0.5, tuple(word._replace(confidence=sure) for word in read)
        )


def page(text="", image=1.0, **signals):
    told = {"image_coverage": image, "invisible_text": 0.0, "vectors": 0, "unreadable": False, "ocr_font": False}
    lines = [(line, (50, 50 + 12 * i, 300, 60 + 12 * i), 10.0, False, True) for i, line in enumerate(text.split(". "))]
    blocks = [[line for line in lines if line[0]]] if text else []
    return {"label": "1", "width": 600, "height": 800, "blocks": blocks, "signals": told | signals}


@pytest.fixture
def drawn(monkeypatch):
    """Images without a PDF: the image of page 3 is b"3". What a test puts in for a page comes instead."""
    instead = {}
    image = lambda index, dpi: instead.get(index, scans.Scan(index, dpi, str(index).encode()))
    monkeypatch.setattr(scans, "images", lambda path, pages, dpi: (image(index, dpi) for index in pages))
    return instead


def read(pages, *fakes, **options):
    found = ocr.Reread(fakes, **options)(Path("a.pdf"), pages, [Reading()] * len(pages))
    assert {reading.state for reading in found} <= set(corpus.READING_STATES)
    return found


def test_a_page_that_can_be_trusted_asks_no_engine(drawn):
    fake, pages = Fake((PROSE, 99)), [page(PROSE, image=0.0), page(PROSE, invisible_text=1.0, ocr_font=True)]
    assert read(pages, fake) == [Reading(), Reading()] and fake.asked == []


def test_a_picture_gets_the_text_of_the_engine(drawn):
    fake, pages = Fake((PROSE, 91.234)), [page()]
    (reading,) = read(pages, fake, language="tr", dpi=150)
    assert (reading.state, reading.engine, reading.dpi, reading.language) == ("replaced", "fake 1.0", 150, "tr")
    assert (reading.word_confidence, reading.before, reading.seconds, reading.reason) == (91.2, 0.0, 0.5, "")
    assert reading.after > 0.9 and fake.asked == [(b"0", 150, "tr")]
    assert pages[0]["blocks"][0][0].text == "The ferry leaves the small harbour at noon and returns before dark"


def test_a_page_sized_picture_with_a_stamp_on_it_wants_ocr_whatever_its_words(drawn):
    stamp = "The report of the harbour for the year, and of the ferry."
    assert read([page(stamp)], Fake((PROSE, 90)), threshold=0.0)[0].state == "replaced"
    assert read([page(stamp, image=0.4)], Fake((PROSE, 90)), threshold=0.0)[0].state == "native"


def test_garbled_text_is_replaced_and_its_old_confidence_recorded(drawn):
    (reading,) = read([page(GARBLED, image=0.0)], Fake((PROSE, 90)))
    assert reading.state == "replaced" and 0 < reading.before < 0.55 < reading.after


@pytest.mark.parametrize("new", [GARBLED, "", "x"])
def test_what_is_no_better_by_the_margin_stays_out(drawn, new):
    pages = [page(GARBLED, image=0.0)]
    old = pages[0]["blocks"]
    (reading,) = read(pages, Fake((new, 99)))
    assert reading.state == "kept" and pages[0]["blocks"] is old and reading.engine == "fake 1.0"
    assert reading.word_confidence == (99 if new else None)


def test_the_margin_decides_at_its_edge(drawn, monkeypatch):
    told = lambda self, blocks, sure=None: 0.3 if sure is None else 0.35
    monkeypatch.setattr(ocr.Reread, "_confidence", told)
    assert read([page("x", image=0.0)], Fake((PROSE, 90)), margin=0.05)[0].state == "replaced"
    assert read([page("x", image=0.0)], Fake((PROSE, 90)), margin=0.051)[0].state == "kept"
    assert read([page("x", image=0.0)], Fake((PROSE, 90)), threshold=0.3)[0].state == "native"


@pytest.mark.parametrize(
    "empty", [page(image=0.0), page("x", image=0.0, invisible_text=1.0)], ids=["blank", "hidden text alone"]
)
def test_a_page_without_ink_is_never_sent(drawn, empty):
    fake = Fake((PROSE, 99))
    assert [r.state for r in read([empty], fake)] == ["no_ink"] and fake.asked == []
    drawn[0] = scans.Scan(0, state="no_ink", reason="the page is of one colour")
    assert read([page()], fake)[0] == Reading("no_ink", before=0.0, reason="the page is of one colour")
    assert fake.asked == []


@pytest.mark.parametrize("inked", [page(image=0.1), page(image=0.0, vectors=60), page(image=0.0, unreadable=True)])
def test_pictures_drawings_and_pages_that_broke_the_parser_are_sent(drawn, inked):
    assert read([inked], Fake((PROSE, 90)))[0].state == "replaced"


def test_without_an_engine_the_page_says_what_is_missing(drawn):
    one, two = Fake(missing="tesseract is not installed"), Fake(missing="rapidocr is not installed")
    (reading,) = read([page()], one, two)
    missing = "tesseract is not installed; rapidocr is not installed"
    assert reading == Reading("wanted", before=0.0, reason=missing) and not one.asked + two.asked
    assert read([page()])[0].reason == "no OCR engine is asked for"
    assert read([page()], one, Fake((PROSE, 90)))[0].state == "replaced"


def test_a_second_engine_is_asked_when_the_first_is_unsure(drawn):
    first, second = Fake((PROSE, 79.9), (PROSE, 80), name="first"), Fake((PROSE, 97), name="second")
    unsure, sure = read([page(), page()], first, second)
    assert (unsure.engine, unsure.word_confidence, unsure.seconds) == ("second 1.0", 97, 1.0)
    assert unsure.reason == "first 1.0 tried too: word confidence 79.9"
    assert (sure.engine, sure.reason) == ("first 1.0", "") and len(first.asked) == 2 and len(second.asked) == 1


def test_the_better_text_wins_and_between_equals_the_surer_engine(drawn):
    better = read([page()], Fake((PROSE, 75), name="first"), Fake((GARBLED, 99), name="second"))
    assert better[0].engine == "first 1.0" and better[0].reason == "second 1.0 tried too: word confidence 99.0"
    surer = read([page()], Fake((PROSE, 60), name="first"), Fake((PROSE, 59), name="second"))
    assert surer[0].engine == "first 1.0"
    nothing = read([page()], Fake(("", 0), name="first"), Fake((PROSE, 60), name="second"))
    assert nothing[0].engine == "second 1.0" and nothing[0].reason == "first 1.0 tried too: no words"


def test_an_engine_that_is_unsure_of_its_words_is_not_believed_however_fluent_they_are(drawn):
    """The measured line: 50 is worth nothing, 92 everything, 71 half."""
    half, nothing = (read([page()], Fake((PROSE, sure)))[0] for sure in (71, 50))
    assert (half.state, half.after) == ("replaced", 0.5) and (nothing.state, nothing.after) == ("kept", 0.0)


@pytest.mark.parametrize("state", ["failed", "timed_out"])
def test_an_engine_that_broke_is_a_state_unless_another_one_reads(drawn, state):
    broke = Fake((ocr.Broke(state, "first broke"), 0), name="first")
    assert read([page()], broke)[0] == Reading(state, before=0.0, reason="first broke")
    (saved,) = read([page()], broke, Fake((PROSE, 90), name="second"))
    assert (saved.state, saved.engine, saved.reason) == ("replaced", "second 1.0", "first broke")


def test_an_engine_that_broke_on_three_pages_in_a_row_is_asked_no_more(drawn):
    broke = Fake((ocr.Broke("timed_out", "too slow"), 0))
    found = read([page() for _ in range(5)], broke)
    assert len(broke.asked) == 3 and [r.state for r in found] == ["timed_out"] * 3 + ["failed"] * 2
    assert found[4].reason == "fake was not asked: it broke on 3 pages in a row"
    now_and_then = Fake(*[(ocr.Broke("failed", "x"), 0), (ocr.Broke("failed", "x"), 0), (PROSE, 90)] * 2)
    found = read([page() for _ in range(6)], now_and_then)
    assert [r.state for r in found] == ["failed", "failed", "replaced"] * 2


def test_layers_of_other_programs_are_read_again_only_when_asked(drawn):
    layer = lambda: page(PROSE, invisible_text=1.0, ocr_font=True)
    assert read([layer()], Fake((PROSE, 90)))[0].state == "native"
    assert read([layer()], Fake((PROSE, 90)), redo_layers=True)[0].state == "replaced"  # no worse, and sure of it
    assert read([layer()], Fake((PROSE, 79)), redo_layers=True)[0].state == "kept"
    assert read([layer()], Fake((GARBLED, 99)), redo_layers=True)[0].state == "kept"
    assert read([page(PROSE, image=0.0)], Fake((PROSE, 90)), redo_layers=True)[0].state == "native"


def test_what_another_reading_said_before_stays_where_no_ocr_is_wanted(drawn):
    before = Reading("replaced", "converter 2")
    assert ocr.Reread((Fake((PROSE, 90)),))(Path("a.pdf"), [page(PROSE, image=0.0)], [before]) == [before]


@pytest.mark.parametrize(
    "options",
    [{"dpi": 71}, {"dpi": 601}, {"dpi": True}, {"margin": -0.1}, {"threshold": "high"}, {"low_word_confidence": 101}],
)
def test_options_out_of_range_are_named(options):
    with pytest.raises(BadInput, match=f"OCR: {next(iter(options))} must be a number from"):
        ocr.Reread((), **options)


# Records and results kept


def test_records_stand_in_for_engines(tmp_path, drawn):
    recorded = Fake((PROSE, 70)).recognise(b"", 150, "en"), Fake((PROSE, 96), name="other").recognise(b"", 150, "en")
    ocr.write_records(tmp_path / "r.jsonl", [ocr.Record("light/a.pdf", 1, 600, 800, one) for one in recorded])
    again = ocr.Reread(recorded=ocr.Recorded(tmp_path / "r.jsonl"))
    for path, states in {"light/a.pdf": ["wanted", "replaced"], "heavy/a.pdf": ["wanted"] * 2}.items():
        found = again(tmp_path / path, [page(), page()], [Reading()] * 2)
        assert [reading.state for reading in found] == states
    (_, reading) = again(Path("light/a.pdf"), [page(), page()], [Reading()] * 2)
    assert (reading.engine, reading.dpi, reading.word_confidence) == ("other 1.0", 150, 96)


def test_an_interrupted_run_repeats_no_page(tmp_path, drawn):
    broken = Fake((PROSE, 90), (KeyboardInterrupt(), 0))
    with pytest.raises(KeyboardInterrupt):
        read([page(), page()], broken, cache=tmp_path)
    fake = Fake((PROSE, 90))
    found = read([page(), page()], fake, cache=tmp_path)
    assert [image for image, *_ in fake.asked] == [b"1"] and [r.state for r in found] == ["replaced"] * 2
    assert read([page(), page()], fake, cache=tmp_path) == found and len(fake.asked) == 1
    for options in ({"dpi": 150}, {"language": "tr"}):
        read([page()], fake, cache=tmp_path, **options)
    assert len(fake.asked) == 3
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:50])
    assert read([page(), page()], fake, cache=tmp_path) == found and len(fake.asked) == 5


def test_progress_names_file_pace_and_what_is_left(drawn):
    said = []
    read([page(), page(PROSE, image=0.0), page()], Fake((PROSE, 90)), progress=said.append)
    assert len(said) == 2 and said[0].startswith("a.pdf: OCR of 1 of 2 pages, 0.0 s a page, 0 s left")


# A PDF from picture to text


def test_a_picture_becomes_a_document_with_lines_headings_and_a_reading(tmp_path, drawn):
    picture(tmp_path / "a.pdf", "whatever is on it")
    placed = [(50, 60, "Tap heading", 18), *((50, 100 + 12 * i, f"{GOOD[:60]} {i}") for i in range(20))]
    fake = Fake(("", 0))
    fake.recognise = lambda image, dpi, language: ocr.Recognised("fake", "1.0", dpi, language, 0.5, words(*placed))
    document, found = pdf.read(tmp_path / "a.pdf", "a.pdf", reread=[ocr.Reread((fake,))])
    assert document.text.startswith("Tap heading\n\nThe ferry leaves")
    assert [document.text[h.start : h.end] for h in found.headings] == ["Tap heading"]
    assert found.lines[0].box == (50, 60, 149, pytest.approx(76.92)) and len(found.lines) == 21
    assert [reading.state for reading in found.readings] == ["replaced"] and found.signals[0].image_coverage > 0.9


def test_a_folder_says_what_it_wants_and_keeps_the_layout_of_what_gave_no_text(tmp_path, drawn):
    picture(tmp_path / "a.pdf", "whatever is on it")
    (tmp_path / "b.txt").write_text(PROSE)
    wants = ocr.Reread((Fake(missing="tesseract is not installed ('make ocr' says how)"),))
    held = corpus.load(tmp_path, strict=False, reread=[wants])
    reason = "no text in it: its page wants OCR; tesseract is not installed ('make ocr' says how)"
    assert held.failures == {"a.pdf": reason} and [d.doc_id for d in held.documents] == ["b.txt"]
    assert held.layouts["a.pdf"].signals[0].image_coverage > 0.9
    frame = ocr.readings(held)
    assert frame.columns.tolist() == list(ocr.READING_COLUMNS)
    assert frame[["doc_id", "page_index", "page_label", "state"]].values.tolist() == [["a.pdf", 0, "1", "wanted"]]
    held = corpus.load(tmp_path, reread=[ocr.Reread((Fake((PROSE, 85)),))])
    (reading,) = ocr.readings(held).to_dict("records")
    assert held.failures == {} and reading["state"] == "replaced"
    assert quality.page_table(held)["confidence"].iloc[0] == pytest.approx(reading["after"], abs=1e-4)
    with pytest.raises(BadInput, match=r"a.pdf: no text in it: OCR found none either on 1 of 1 pages; scan it again"):
        corpus.load(tmp_path, reread=[ocr.Reread((Fake(("", 0)),))])


# Images of pages


def picture(path: Path, *lines, width=400, height=300, dpi=100) -> Path:
    """A PDF of one page that is an image of these lines, and nothing else."""
    source, target = pymupdf.open(), pymupdf.open()
    drawn = source.new_page(width=width, height=height)
    for number, line in enumerate(lines):
        drawn.insert_text((40, 60 + 20 * number), line, fontsize=12)
    target.new_page(width=width, height=height).insert_image(drawn.rect, pixmap=drawn.get_pixmap(dpi=dpi))
    target.save(path)
    return path


def test_pages_are_drawn_at_the_resolution_asked_for_and_grey(tmp_path):
    (scan,) = scans.images(picture(tmp_path / "a.pdf", "Some words"), [0], 144)
    drawn = pymupdf.Pixmap(scan.png)
    assert (scan.page, scan.dpi, scan.state) == (0, 144, "")
    assert (drawn.width, drawn.height, drawn.n) == (800, 600, 1)


def test_a_white_page_has_no_ink_and_a_huge_one_is_drawn_smaller_or_not_at_all(tmp_path):
    book = pymupdf.open()
    for width, height in ((200, 200), (3600, 7200), (14000, 14400)):
        book.new_page(width=width, height=height).insert_text((50, 90), "x" if width > 200 else "")
    book.save(tmp_path / "a.pdf")
    white, large, huge = scans.images(tmp_path / "a.pdf", [0, 1, 2], 100)
    assert white == scans.Scan(0, state="no_ink", reason="the page is of one colour")
    assert large.dpi == 89  # 50 by 100 inches, 40 million pixels: the root of 40,000,000 / 5,000
    assert huge.state == "failed" and "14000 x 14400 points is too large" in huge.reason


def test_a_picture_that_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path):
    book = pymupdf.open(picture(tmp_path / "small.pdf", "Some words"))
    (xref, *_), *_ = book[0].get_images()
    book.xref_set_key(xref, "Width", "40000")
    book.xref_set_key(xref, "Height", "40000")
    book.save(tmp_path / "bomb.pdf")
    began = time.monotonic()
    (scan,) = scans.images(tmp_path / "bomb.pdf", [0], 200)
    assert scan.state == "failed" and "a picture of 40000 x 40000 px in it is over the limit" in scan.reason
    assert time.monotonic() - began < 10


@real
def test_the_real_bomb_ends_in_a_state():
    (reading,) = pdf.read(Path(REAL) / "bomb_hugemono_35000px.pdf", "b", reread=[ocr.Reread((Fake((PROSE, 90)),))])[
        1
    ].readings
    assert reading.state == "failed" and "35000 x 35000" in reading.reason


def test_pages_that_are_too_slow_or_break_the_child_are_states_and_the_rest_goes_on(tmp_path, monkeypatch):
    path = picture(tmp_path / "a.pdf", "Some words")
    monkeypatch.setattr(scans, "START_SECONDS", 0.01)
    (late,) = scans.images(path, [7], 100)
    assert late == scans.Scan(7, state="timed_out", reason="drawing the page took longer than 0.01 s")
    monkeypatch.setattr(scans, "START_SECONDS", 60.0)
    (tmp_path / "gone.pdf").write_bytes(b"")
    gone = list(scans.images(tmp_path / "gone.pdf", [0, 1, 2, 3], 100))
    assert [scan.state for scan in gone] == ["failed"] * 4 and [scan.page for scan in gone] == [0, 1, 2, 3]
    assert "the 3 pages before it broke too" in gone[3].reason


def test_a_page_that_cannot_be_drawn_takes_no_other_along(tmp_path):
    path = picture(tmp_path / "a.pdf", "Some words")
    missing, there = scans.images(path, [5, 0], 100)
    assert missing.state == "failed" and "cannot be drawn" in missing.reason and there.png


# Engines


def test_engines_are_chosen_by_name_and_mode(tmp_path):
    assert engines.rereads(tmp_path, "never", ["tesseract"]) == ()
    (again,) = engines.rereads(tmp_path, "auto", ["rapidocr", "tesseract"], dpi=150, language="tr")
    assert ([e.name for e in again.engines], again.dpi, again.language) == (["rapidocr", "tesseract"], 150, "tr")
    with pytest.raises(BadInput, match=r"ocr: unknown 'atuo' \(did you mean 'auto'\?\)"):
        engines.rereads(tmp_path, "atuo", [])
    with pytest.raises(
        BadInput, match=r"unknown 'tesserakt' \(did you mean 'tesseract'\?\); known: tesseract, rapidocr"
    ):
        engines.rereads(tmp_path, "auto", ["tesserakt"])


def command(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


TSV = """\
level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext
1\t1\t0\t0\t0\t0\t0\t0\t800\t600\t-1\t
5\t1\t1\t1\t1\t1\t100\t200\t50\t20\t96.123\t"Two
5\t1\t1\t1\t1\t2\t160\t200\t50\t20\t90\twords
5\t1\t1\t1\t2\t1\t100\t230\t50\t20\t95\t
5\t1\t1\t2\t1\t1\t100\t260\t50\t20\t0\tbelow"""


def test_words_of_tesseract_are_measured_in_points(tmp_path):
    languages = (
        "if [ $1 = --list-langs ]; then echo eng; exit; fi; if [ $1 = --version ]; then echo tesseract 5.9; exit; fi"
    )
    fake = engines.Tesseract(command(tmp_path / "t", f"{languages}\ncat >/dev/null\ncat <<'END'\n{TSV}\nEND"))
    assert fake.available("en") == (True, "tesseract 5.9")
    assert fake.available("tr") == (False, "tesseract has no data for 'tr': install tesseract-ocr-tur")
    assert fake.available("xx") == (False, "tesseract: no language data known for 'xx'")
    got = fake.recognise(b"image", 144, "en")
    assert got[:4] == ("tesseract", "5.9", 144, "en") and got.words == (
        ocr.Word(50, 100, 75, 110, 96.1, '"Two', 0), ocr.Word(80, 100, 105, 110, 90, "words", 0),
        ocr.Word(50, 130, 75, 140, 0, "below", 1),
    )  # fmt: skip


def test_tesseract_that_is_missing_slow_or_broken_is_named(tmp_path):
    assert engines.Tesseract("no-such-command").available("en")[1].startswith("tesseract is not installed")
    slow = engines.Tesseract(command(tmp_path / "slow", "exec sleep 20"), page_seconds=0.1)
    bad = engines.Tesseract(command(tmp_path / "bad", "echo no memory >&2; exit 3"))
    for engine, state, reason in ((slow, "timed_out", "longer than 0.1 s"), (bad, "failed", "exit code 3: no memory")):
        with pytest.raises(ocr.Broke, match=reason) as broke:
            engine.recognise(b"image", 200, "en")
        assert broke.value.state == state


@tesseract
def test_tesseract_reads_a_page(tmp_path):
    lines = ("The ferry leaves the small harbour at noon", "and returns before dark with the mail.")
    picture(tmp_path / "a.pdf", *lines, dpi=200)
    document, found = pdf.read(tmp_path / "a.pdf", "a.pdf", reread=[ocr.Reread((engines.Tesseract(),))])
    assert document.text == "\n".join(lines)
    (reading,) = found.readings
    assert reading.state == "replaced" and reading.word_confidence > 85 and reading.engine.startswith("tesseract ")
    assert found.lines[0].box == pytest.approx((40, 50, 266, 63), abs=4)


# RapidOCR: a process of its own, here one that only speaks as it does

STUB = """
import json, os, sys, time
say = lambda **message: print(json.dumps(message), flush=True)
if sys.argv[1] == "look":
    say(**json.loads(os.environ.get("STUB_LOOK", '{"version": "9.9"}')))
    say(done=True)
    sys.exit()
say(ready="9.9")
with open(os.environ["STUB_LOG"], "a") as log:
    log.write(f"started {os.getpid()}\\n")
for line in open(sys.argv[2]):
    image = open(line.strip(), "rb").read().decode()
    if image == "hang":
        time.sleep(60)
    if image == "crash":
        os._exit(3)
    if image == "trip":
        say(failed="ValueError: no image")
    else:
        say(boxes=[[[[20, 40], [120, 40], [120, 60], [20, 60]], image, 0.987]], width=800)
say(done=True)
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    (tmp_path / "stub_rapid.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("STUB_LOG", str(tmp_path / "log"))
    engine = engines.RapidOcr(Path(sys.executable), page_seconds=0.7, module="stub_rapid")
    yield engine
    engine.close()


def started(tmp_path):
    return len((tmp_path / "log").read_text().splitlines())


def test_one_process_reads_many_pages(stub, tmp_path):
    assert stub.available("en") == (True, "rapidocr 9.9")
    got = [stub.recognise(text.encode(), 144, "en") for text in ("one", "two words")]
    assert [read.words[0].text for read in got] == ["one", "two words"] and started(tmp_path) == 1
    assert got[1][:4] == ("rapidocr", "9.9", 144, "en") and got[1].words == (
        ocr.Word(10, 20, 60, 30, 98.7, "two words", 0),
    )


@pytest.mark.parametrize(
    ("image", "state", "reason", "starts"),
    [
        ("hang", "timed_out", "rapidocr: no answer within 0.7 s", 2),
        ("crash", "failed", "rapidocr: stopped before it was done", 2),
        ("trip", "failed", r"rapidocr broke on the page \(ValueError: no image\)", 1),
    ],
)
def test_a_page_that_stops_it_is_a_state_and_the_next_is_read(stub, tmp_path, image, state, reason, starts):
    with pytest.raises(ocr.Broke, match=reason) as broke:
        stub.recognise(image.encode(), 144, "en")
    assert broke.value.state == state
    assert stub.recognise(b"next", 144, "en").words[0].text == "next" and started(tmp_path) == starts


def test_the_process_and_its_folder_are_gone_with_the_engine(stub, tmp_path):
    stub.recognise(b"one", 144, "en")
    folder, pid = stub._image.parent, int((tmp_path / "log").read_text().split()[1])
    stub.close()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_keeps_rapidocr_away_is_named(stub, tmp_path, monkeypatch):
    assert engines.RapidOcr(tmp_path / "none").available("en") == (
        False, "rapidocr is not installed ('make ocr' installs it)",
    )  # fmt: skip
    assert stub.available("ar") == (False, "rapidocr: its weights do not know the language 'ar'")
    monkeypatch.setenv("STUB_LOOK", '{"refused": "its weights x are missing"}')
    assert stub.available("en") == (False, "rapidocr: its weights x are missing")
    broken = engines.RapidOcr(Path(sys.executable), module="no_such_module").available("en")
    assert broken == (False, "rapidocr: the Python it lives in stopped before it was done; run 'make ocr' again")


@pytest.fixture(scope="module")
def other_python(tmp_path_factory):
    """A Python of its own, with packages that only have the names of RapidOCR and what it needs."""
    home = tmp_path_factory.mktemp("engine")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    return home / "bin/python", packages


def test_other_weights_than_the_tested_ones_are_refused(other_python):
    python, packages = other_python
    engine = engines.RapidOcr(python)
    assert engine.available("en") == (False, "rapidocr: rapidocr or onnxruntime is not installed there")
    for name in ("rapidocr/models", "onnxruntime"):
        (packages / name).mkdir(parents=True)
    for name in ("rapidocr", "onnxruntime"):
        (packages / name / "__init__.py").write_text("raise SystemExit('imported too early')")
    assert "its weights PP-OCRv6_det_small.onnx are missing" in engine.available("en")[1]
    for name, _ in rapid.WEIGHTS.values():
        (packages / "rapidocr/models" / name).write_bytes(b"other")
    assert "PP-OCRv6_det_small.onnx are not those that were tested" in engine.available("en")[1]
    with pytest.raises(ocr.Broke, match="are not those that were tested") as broke:
        engine.recognise(b"image", 200, "en")
    assert broke.value.state == "failed"


CALM = """
import os, socket, sys
class RapidOCR:
    def __init__(self, params):
        tried = []
        for call in (lambda: socket.create_connection(("127.0.0.1", 9)), lambda: socket.getaddrinfo("localhost", 80)):
            try:
                call()
            except OSError as error:
                tried.append(str(error))
        print([tried, os.environ["ORT_DISABLE_TELEMETRY"], params["Det.model_path"]])
"""


def test_the_engine_opens_no_connection_and_reports_nothing(tmp_path):
    (tmp_path / "rapidocr.py").write_text(CALM)
    code = "from localeval import rapid; rapid._engine({'Det': 'a.onnx'})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(rapid.__file__).parents[1])])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([["no connection is opened here"] * 2, "1", "a.onnx"])


def test_boxes_are_put_in_order_column_by_column_on_a_skewed_page():
    """Two columns of ten lines, the page turned by two degrees, the boxes told from the bottom up."""

    def box(x, y, text):
        turn = lambda x, y: [x - 0.035 * y, y + 0.035 * x]
        return [[turn(x, y), turn(x + 480, y), turn(x + 480, y + 20), turn(x, y + 20)], text, 0.9]

    told = [
        box(x, 200 + 28 * i, f"{side}{i} the boats wait for wind")
        for i in range(10)
        for side, x in (("L", 100), ("R", 640))
    ]
    got = engines.in_order(told[::-1], 1240, 144)
    assert [word.text[:2] for word in got] == [f"{side}{i}" for side in "LR" for i in range(10)]
    assert [word.line for word in got] == list(range(20))
    assert all(word.bottom - word.top == pytest.approx(10, abs=0.1) for word in got)
    assert engines.in_order([], 1240, 144) == ()


def test_cells_of_a_row_are_read_from_left_to_right():
    told = [
        [[[x, y], [x + 60, y], [x + 60, y + 20], [x, y + 20]], text, 0.9]
        for x, y, text in ((300, 103, "b"), (100, 100, "a"), (300, 128, "d"), (100, 131, "c"))
    ]
    assert [word.text for word in engines.in_order(told, 800, 144)] == ["a", "b", "c", "d"]


@rapidocr
def test_rapidocr_reads_a_page(tmp_path):
    lines = ("The ferry leaves the small harbour at noon", "and returns before dark with the mail.")
    (scan,) = scans.images(picture(tmp_path / "a.pdf", *lines, dpi=200), [0], 200)
    engine = engines.RapidOcr(Path(RAPIDOCR))
    there, about = engine.available("en")
    assert there, about
    got = engine.recognise(scan.png, scan.dpi, "en")
    engine.close()
    assert [word.text for word in got.words] == list(lines) and got.confidence > 90


def test_what_became_of_pages_is_said_and_switched_off_is_not_none_wanted():
    import pandas as pd

    from localeval.quality import DEFAULTS

    rows = pd.DataFrame({"state": ["replaced", "kept", "kept", "wanted", "timed_out", "no_ink"]})
    said = ocr.readings_said(rows, pd.DataFrame({"confidence": [0.1, 0.9]}), DEFAULTS, True)
    assert said.startswith(
        "Pages that wanted OCR: 5, 1 with a better text from it, 2 with the old one, 2 not read, because"
    )
    assert said.endswith("Pages without a text to trust and nothing drawn on them: 1.")
    assert ocr.readings_said(rows.head(0), rows, DEFAULTS, True) == "No page wanted OCR."
    off = ocr.readings_said(rows.head(0), pd.DataFrame({"confidence": [0.1, 0.9, float("nan")]}), DEFAULTS, False)
    assert off == "OCR was switched off for this study. Pages whose confidence in the text is below 0.55: 1."
