"""Damaged twins of handbook pages: they rebuild without an OCR engine, and lose words as the damage grows."""

from __future__ import annotations

import importlib
import math
import shutil
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd
import pymupdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localeval import corpus, grading, metrics, ocr, pdf, quality, twins
from localeval.records import BadInput, Evidence, Query, ScoringRule, Span, Unit

DATA = Path(__file__).resolve().parents[1] / "data" / "handbook"
TWINS = DATA / "twins"


@pytest.fixture
def degrade(monkeypatch):
    monkeypatch.syspath_prepend(str(DATA))
    return importlib.import_module("degrade")


@pytest.fixture(scope="module")
def figures():
    return pd.read_csv(TWINS / "fidelity.csv")


def words_of(degrade, level, stem):
    return degrade.read_words((TWINS / "ocr" / level / f"{stem}.tsv").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_all_twins_rebuild_from_originals_and_words(degrade, tmp_path):
    degrade.build(tmp_path)
    built, held = (
        {path.relative_to(folder) for path in folder.rglob("*.*") if path.is_file()} for folder in (tmp_path, TWINS)
    )
    written = {Path(name) for name in ("labels.csv", "verdicts.csv", "pilot.csv", "read_rapidocr.py")}
    kept = {
        path for path in held if path.parts[:2] == ("pdf", "original") or path.parts[0] in ("ocr", "recorded")
    } | written
    assert built == held - kept and not degrade.differences(tmp_path)


@pytest.mark.parametrize("level", ["light", "medium"])
def test_one_twin_rebuilds_byte_for_byte(degrade, level):
    pages = pymupdf.open(TWINS / "pdf/original/calendars.pdf")
    images, words = degrade.scans("calendars", level, pages), words_of(degrade, level, "calendars")
    for form, layer in (("image", None), ("ocr", words)):
        held = (TWINS / "pdf" / form / level / "calendars.pdf").read_bytes()
        assert degrade.twin(images, pages, layer) == held, form


def test_words_lie_on_their_pages_and_read_back(degrade):
    for level, stem in product(degrade.LEVELS, degrade.PAGES):
        words, pages = words_of(degrade, level, stem), pymupdf.open(TWINS / f"pdf/original/{stem}.pdf")
        assert {word.page for word in words} == set(range(len(pages)))
        for word in words:
            width, height = pages[word.page].rect.br
            assert 0 <= word.left < word.right <= width and 0 <= word.top < word.bottom <= height, word
            assert 0 <= word.confidence <= 100 and word.word.split() == [word.word]
        assert degrade.write_words(words) == (TWINS / f"ocr/{level}/{stem}.tsv").read_text(encoding="utf-8")


def test_words_and_characters_are_lost_level_by_level(degrade, figures):
    for page, rows in figures.groupby(["document", "page"]):
        assert rows["level"].tolist() == list(degrade.LEVELS), page
        assert all(a > b for column in ("f1", "confidence") for a, b in pairwise(rows[column])), page
        assert all(a < b for a, b in pairwise(rows["cer_as_read"])), page
    means = figures.groupby("level")["f1"].mean()
    assert means["clean"] > 0.95 and means["heavy"] < 0.7


def test_figures_are_those_of_the_committed_words(degrade, figures):
    source, twin = (TWINS / f"pdf/{form}/calendars.pdf" for form in ("original", "ocr/heavy"))
    rows = degrade.fidelity("calendars", "heavy", words_of(degrade, "heavy", "calendars"), source, twin)
    held = figures[(figures["document"] == "calendars") & (figures["level"] == "heavy")].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.DataFrame(rows), held)


@pytest.mark.parametrize(("a", "b", "edits"), [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3)])
def test_edit_distance(degrade, a, b, edits):
    assert degrade.edit_distance(a, b) == degrade.edit_distance(b, a) == edits


def test_without_an_engine_nothing_is_read_again(degrade, monkeypatch):
    monkeypatch.setattr(degrade.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="tesseract is not installed, so nothing was read again"):
        degrade.read_again()


@pytest.mark.parametrize("level", ["clean", "light", "medium", "heavy"])
def test_pages_over_an_ocr_layer_are_scans_at_every_level(level):
    pages = quality.page_table(corpus.load(TWINS / "pdf/ocr" / level))
    assert set(pages["class"]) == {"likely_scanned"} and pages["ocr_font"].all()
    assert (pages["invisible_text"] == 1).all() and (pages["image_coverage"] == 1).all()


def test_original_pages_are_clean():
    pages = quality.page_table(corpus.load(TWINS / "pdf/original"))
    assert set(pages["class"]) == {"digital_clean"}
    assert set(quality.document_table(pages)["verdict"]) == {"digital_clean"}


def test_images_without_words_give_no_document_and_say_why():
    with pytest.raises(corpus.BadInput, match="3 files cannot be read: .*a scan without a text layer"):
        corpus.load(TWINS / "pdf/image/heavy")
    document, layout = pdf.read(TWINS / "pdf/image/heavy/calendars.pdf", "calendars.pdf")
    assert not document.text.strip() and "no text layer on pages 1, 2 of 2" in layout.notes[0]
    judged = [quality.classify(quality.features(""), signals)[0] for signals in layout.signals]
    assert judged == ["likely_scanned", "likely_scanned"]


# Alignment: where the letters of a page stand on its twin


def found_text(source, twin, start, end):
    found = twins.find(twins.align(source, twin), start, end)
    return twin[found.start : found.end], found.share


words = st.lists(st.text("abcdefghij", min_size=1, max_size=9), min_size=1, max_size=60)


@given(words.map(" ".join), st.data())
@settings(max_examples=60, deadline=None)
def test_identical_text_maps_every_span_to_itself(text, data):
    start = data.draw(st.integers(0, len(text) - 1).filter(lambda at: text[at] != " "))
    end = data.draw(st.integers(start + 1, len(text)).filter(lambda at: text[at - 1] != " "))
    assert twins.find(twins.align(text, text), start, end) == (start, end, 1.0)


SENTENCES = [
    "Keep the water at a rolling boil for one full minute.",
    "Above two thousand metres boil it for three minutes.",
    "Store it in clean vessels with narrow necks and lids.",
    "The date line runs near the meridian and is no treaty.",
    "Spreadsheets count the days from the start of 1900.",
    "An unopened refrigerator holds its cold for four hours.",
]


@given(st.permutations(range(6)), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_a_sentence_is_found_wherever_it_was_moved(order, wanted):
    source, twin = " ".join(SENTENCES), "\n\n".join(SENTENCES[number] for number in order)
    start = source.index(SENTENCES[wanted])
    assert found_text(source, twin, start, start + len(SENTENCES[wanted])) == (SENTENCES[wanted], 1.0)


@given(st.integers(0, 5))
@settings(max_examples=6, deadline=None)
def test_a_sentence_that_is_gone_is_lost_and_its_neighbours_are_not(gone):
    source, rest = " ".join(SENTENCES), [one for one in SENTENCES if one != SENTENCES[gone]]
    start = source.index(SENTENCES[gone])
    assert found_text(source, " ".join(rest), start, start + len(SENTENCES[gone]))[1] < 0.2
    for one in rest:
        start = source.index(one)
        assert found_text(source, " ".join(rest), start, start + len(one)) == (one, 1.0)


def test_misread_letters_keep_their_place_and_lower_the_share():
    source = "The pump lifts 250 litres an hour from a depth of twelve metres."
    twin = "The purnp lifts 25O litres an\nhour from a depth of twelve metres"
    assert found_text(source, twin, 0, 63) == (twin, pytest.approx(50 / 52, abs=0.02))
    start = source.index("250")
    assert found_text(source, twin, start, start + 3) == ("25O", pytest.approx(2 / 3))


def test_two_columns_read_across_leave_a_wide_place():
    """Lines of two columns interleaved: the sentence of two lines is found, with the other column's line inside."""
    source = "Keep the water at a rolling boil\nfor one full minute, not less.\nThe date line runs near the\nmeridian of Greenwich."
    twin = "Keep the water at a rolling boil\nThe date line runs near the\nfor one full minute, not less.\nmeridian of Greenwich."
    text, share = found_text(source, twin, 0, source.index("\nThe"))
    assert text == twin[: twin.index("\nmeridian")] and share == 1.0


def test_chance_matches_far_away_do_not_widen_a_span():
    arrays = twins.Alignment(np.array([*range(40, 60), 900]), np.ones(21, bool), np.ones(21, bool))
    assert twins.find(arrays, 0, 21) == (40, 60, pytest.approx(20 / 21))


def test_nothing_matched_and_spans_of_white_space_are_empty():
    assert twins.find(twins.align("abc def", "XYZ"), 0, 7) == (0, 0, 0.0)
    assert twins.find(twins.align("a   b", "a   b"), 1, 4) == (0, 0, 0.0)
    assert twins.align("", "abc").places.size == 0 and twins.align("abc", "").places.tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("truth", "read", "rate"), [("abcd", "abcd", 0), ("abcd", "", 1), ("abcd", "abd", 0.25), ("ab", "abcd", 1)]
)
def test_error_rate(truth, read, rate):
    assert twins.error_rate(truth, read) == rate
    assert math.isnan(twins.error_rate("", read))


# A corpus and its twin, by hand


def one_page(text, *, words=None, document="a.pdf", page=0):
    """A record of a page whose lines are those of the text, twenty points apart."""
    lines = text.split("\n") if words is None else words
    boxes = tuple(
        ocr.Word(50, 60 + 20 * n, 50 + 6 * len(line), 72 + 20 * n, 90.0, line, n) for n, line in enumerate(lines)
    )
    return ocr.Record(document, page, 600, 800, ocr.Recognised("hand", "1", 150, "en", 0.5, boxes))


def typeset(*pages, doc_id="a.pdf"):
    text, spans = "", []
    for page in pages:
        text += "\n\n" if spans else ""
        spans.append((len(text), len(text) + len(page)))
        text += page
    layout = corpus.Layout(doc_id, "Title", tuple(corpus.Page(n, str(n + 1), *span) for n, span in enumerate(spans)))
    return corpus.Corpus((corpus.make_document(doc_id, text, b"x"),), {doc_id: layout}, {})


def question(source, quote, kind="span"):
    start = source["a.pdf"].text.index(quote)
    return Query("q1", "Which?", (Evidence(Span("a.pdf", start, start + len(quote)), kind=kind, quote=quote),))


def test_a_twin_holds_what_the_records_say_page_by_page():
    source = typeset("\n".join(SENTENCES[:3]), "\n".join(SENTENCES[3:]))
    pages = [one_page("\n".join(SENTENCES[:3])), one_page("\n".join(SENTENCES[3:]), page=1)]
    twin = twins.twin_corpus(source, pages)
    layout = twin.layouts["a.pdf"]
    read = [twin["a.pdf"].text[page.start : page.end].split() for page in layout.pages]
    assert read == [" ".join(SENTENCES[:3]).split(), " ".join(SENTENCES[3:]).split()]
    assert [reading.engine for reading in layout.readings] == ["hand 1"] * 2 and layout.title == "a"
    rows = twins.fidelity(source, twin, pages, "none")
    assert tuple(rows.columns) == twins.FIDELITY
    assert rows["cer"].tolist() == [0, 0] and rows["word_f1"].tolist() == [1, 1]
    assert rows["word_confidence"].tolist() == [90, 90] and rows["seconds"].tolist() == [0.5, 0.5]


def test_fidelity_by_hand():
    source = typeset("one two three four")
    pages = [one_page("one tvvo three")]
    row = twins.fidelity(source, twins.twin_corpus(source, pages), pages, "bad").iloc[0]
    assert (row["word_precision"], row["word_recall"], row["word_f1"]) == (0.6667, 0.5, 0.5714)
    assert row["cer"] == round(7 / 18, 4)  # w becomes vv (two edits), and " four" is gone (five)


def test_records_must_hold_every_page_once():
    source = typeset("first", "second")
    with pytest.raises(BadInput, match="records: no record of page_index 1 of a.pdf"):
        twins.twin_corpus(source, [one_page("first")])
    with pytest.raises(BadInput, match="records: page 0 of a.pdf is recorded twice"):
        twins.twin_corpus(source, [one_page("first"), one_page("first")])


def test_evidence_moves_along_or_is_lost_and_stays_in_the_denominator():
    source = typeset("\n".join(SENTENCES))
    kept, gone = question(source, SENTENCES[1]), question(source, SENTENCES[4])
    twin = twins.twin_corpus(source, [one_page("\n".join([*SENTENCES[3:4], *SENTENCES[:3], SENTENCES[5]]))])
    (first, second), rows = twins.map_queries([kept, gone], source, twin)
    assert twin.text(first.evidence[0].span) == SENTENCES[1] and second.evidence[0].span == twins.lost("a.pdf")
    assert rows["in_text"].tolist() == [True, False] and rows["share"].tolist()[0] == 1.0
    whole = Unit(Span("a.pdf", 0, len(twin["a.pdf"].text)), "chunk")
    graded = grading.grade([], second, ScoringRule("chunk", "contains"), grading.Units([whole]))
    assert graded.status == "unreachable" and metrics.measure(graded, "evidence_recall@10") == 0


def test_the_share_that_must_survive_decides():
    source = typeset("alpha bravo charlie delta echo foxtrot")
    asked, twin = question(source, "alpha bravo charlie delta"), None
    twin = twins.twin_corpus(source, [one_page("alpha bravo ####### ##### echo foxtrot")])
    survived = twins.map_queries([asked], source, twin)[1]["share"][0]
    assert 0.4 < survived < 0.5
    states = [twins.map_queries([asked], source, twin, share)[1]["in_text"][0] for share in (0.4, 0.5)]
    assert states == [True, False]


def test_whole_pages_stay_whole_and_documents_too():
    source = typeset("first page of all", "second page of all")
    twin = twins.twin_corpus(source, [one_page("first page"), one_page("second page of all, and more", page=1)])
    spans = [twins.map_queries([question(source, "second page of all", kind)], source, twin, 0.1)[0][0].evidence[0].span
             for kind in ("page", "document")]  # fmt: skip
    assert twin.text(spans[0]) == "second page of all, and more" and len(spans[1]) == len(twin["a.pdf"].text)


def test_no_folder_means_no_twins_and_an_empty_folder_is_an_error(tmp_path):
    source = typeset("first")
    assert twins.load(None, ["hand"], ["bad"], source, []) == []
    assert twins.absent(None, ["hand"], ["bad"]).empty and twins.pages([]).empty
    with pytest.raises(BadInput, match="no records of hand at bad; 'twins' must name their folder"):
        twins.load(tmp_path, ["hand"], ["bad"], source, [])
    with pytest.raises(BadInput, match="min_share=0: the least share"):
        twins.load(None, [], [], source, [], min_share=0)


def test_levels_without_records_are_a_state(tmp_path):
    source = typeset("\n".join(SENTENCES))
    ocr.write_records(tmp_path / "hand" / "light.jsonl.gz", [one_page("\n".join(SENTENCES))])
    (twin,) = twins.load(tmp_path, ["hand"], ["light", "heavy"], source, [question(source, SENTENCES[0])])
    assert twin.name == "hand-light" and twin.evidence["share"].tolist() == [1.0]
    rows = twins.absent(tmp_path, ["hand"], ["light", "heavy"])
    assert rows[["engine", "level", "status"]].values.tolist() == [["hand", "heavy", "not_run"]]
    assert twins.counted([twin], source)["survive"].fillna(-1).tolist() == [-1, 1]


# The recorded twins of the handbook

RECORDED = sorted((TWINS / "recorded").glob("*/*.jsonl.gz"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_records_are_complete(path):
    records = ocr.read_records(path)
    counts = Counter(record.document for record in records)
    assert len(counts) == 9 and counts.total() == 95
    assert {(record.read.engine, record.read.language) for record in records} == {(path.parent.name, "en")}
    assert all(record.read.seconds > 0 and record.read.words for record in records)


def test_records_are_packed_the_same_each_time(tmp_path):
    path = TWINS / "recorded" / "tesseract" / "heavy.jsonl.gz"
    ocr.write_records(tmp_path / "again.jsonl.gz", ocr.read_records(path))
    assert (tmp_path / "again.jsonl.gz").read_bytes() == path.read_bytes()


def test_the_committed_fidelity_is_that_of_the_records():
    held = pd.read_csv(TWINS / "recorded" / "fidelity.csv")
    assert tuple(held.columns) == twins.FIDELITY
    names = {(path.parent.name, path.name.partition(".")[0]) for path in RECORDED}
    assert set(zip(held["engine"], held["level"], strict=True)) == names and len(held) == 95 * len(names)
    means = held.groupby(["engine", "level"])["word_f1"].mean()
    assert means["tesseract", "clean"] > means["tesseract", "medium"] > means["tesseract", "heavy"]


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name.partition('.')[0]}")
def test_every_row_of_the_committed_fidelity_derives(path):
    source, records = corpus.load(DATA / "corpus"), ocr.read_records(path)
    level = path.name.partition(".")[0]
    rows = twins.fidelity(source, twins.twin_corpus(source, records), records, level)
    held = pd.read_csv(TWINS / "recorded" / "fidelity.csv")
    held = held[(held["engine"] == path.parent.name) & (held["level"] == level)].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows, held)


def test_recording_goes_on_where_it_was_stopped(degrade, monkeypatch, tmp_path):
    asked = []

    def reads(images):
        for image, dpi in images:
            if len(asked) == 1:
                asked.append("stopped")
                raise KeyboardInterrupt
            asked.append((image, dpi))
            yield degrade.Read((ocr.Word(1, 2, 3, 4, 50, image.decode(), 0),), 0.5)

    monkeypatch.setattr(degrade, "TWINS", tmp_path / "twins")
    monkeypatch.setattr(degrade, "PARTS", tmp_path / "parts")
    monkeypatch.setattr(degrade, "version_of", lambda engine, python: "1")
    monkeypatch.setattr(degrade, "page_counts", lambda: {"calendars": 3})
    monkeypatch.setattr(degrade, "damaged_page", lambda stem, page, level: f"{stem}{page}{level}".encode())
    monkeypatch.setattr(degrade, "tesseract", reads)
    with pytest.raises(KeyboardInterrupt):
        degrade.record("tesseract", ["light"], "")
    degrade.record("tesseract", ["light"], "")
    assert asked == [(b"calendars0light", 150), "stopped", (b"calendars1light", 150), (b"calendars2light", 150)]
    records = ocr.read_records(tmp_path / "twins/recorded/tesseract/light.jsonl.gz")
    assert [(one.document, one.page, one.read.words[0].text) for one in records] == [
        ("calendars.pdf", page, f"calendars{page}light") for page in range(3)
    ]
    assert "one thread" in (tmp_path / "twins/recorded/tesseract/engine.txt").read_text()
    assert not list((tmp_path / "parts").rglob("*.jsonl"))


def test_every_page_at_every_level_is_damaged_by_a_seed_of_its_own(degrade):
    images = {
        (page, level): degrade.damaged_page("calendars", page, level) for page in (0, 1) for level in ("light", "heavy")
    }
    assert len(set(images.values())) == 4 and degrade.damaged_page("calendars", 1, "heavy") == images[1, "heavy"]


def test_records_of_another_engine_are_no_twin(tmp_path):
    source = corpus.load(DATA / "corpus")
    (tmp_path / "rapidocr").mkdir()
    shutil.copy(DATA / "twins/recorded/tesseract/light.jsonl.gz", tmp_path / "rapidocr/light.jsonl.gz")
    with pytest.raises(BadInput, match=r"rapidocr/light.jsonl.gz: page \d+ of .* was read by 'tesseract'"):
        twins.load(tmp_path, ["rapidocr"], ["light"], source, [])
