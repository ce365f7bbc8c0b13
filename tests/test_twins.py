"""Damaged twins of handbook pages: they rebuild without an OCR engine, and lose words as the damage grows."""

from __future__ import annotations

import importlib
from itertools import pairwise, product
from pathlib import Path

import pandas as pd
import pymupdf
import pytest

from localeval import corpus, pdf, quality

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
    labelled = {Path(f"{name}.csv") for name in ("labels", "verdicts", "pilot")}
    kept = {path for path in held if path.parts[:2] == ("pdf", "original") or path.parts[0] == "ocr"} | labelled
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
