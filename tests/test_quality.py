"""Page quality: texts with one defect each, the rules on PDF signals, the document guards at their edges."""

from __future__ import annotations

import csv
import math
import os
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval import pdf, quality
from localeval.corpus import Corpus, Layout, Page, Reading, Signals, make_document
from localeval.quality import (
    CLASSES,
    FEATURES,
    READING,
    SIGNALS,
    Thresholds,
    classify,
    confidence,
    document_table,
    features,
)
from localeval.records import BadInput

REAL = os.environ.get("LOCALEVAL_PDFS")

ENGLISH = """The ferry leaves the small harbour at noon and returns before dark, unless the wind turns to the north.
In that case the crew waits on the island for the morning, and the passengers sleep in the old school house.
Tickets are sold on board; children under six travel free of charge, and bicycles cost two coins each way.
It is wise to bring warm clothes, because the deck is open and the crossing takes a little more than an hour.
"""
TURKISH = """Vapur öğle vakti küçük limandan kalkar ve hava kararmadan önce geri döner; rüzgar kuzeye dönerse beklenir.
Bu durumda mürettebat sabaha kadar adada kalır ve yolcular eski okul binasında uyur, sonra hep birlikte yola çıkılır.
Biletler gemide satılır; altı yaşından küçük çocuklar için ücret alınmaz ve bisikletler de iki jeton ile taşınır.
"""
JAPANESE = "渡し船は正午に小さな港を出て、暗くなる前に戻ります。風が北に変わると、乗組員は島で朝を待ちます。\n" * 6
ARABIC = "تغادر العبارة الميناء الصغير عند الظهر وتعود قبل حلول الظلام إلا إذا تحولت الريح إلى الشمال\n" * 4


def shifted(text):
    """As a font without a Unicode map reads: every letter three places on."""
    return "".join(chr(97 + (ord(c) - 97 + 3) % 26) if "a" <= c <= "z" else c for c in text)


CLEAN = {"english": ENGLISH, "turkish": TURKISH, "japanese": JAPANESE, "arabic": ARABIC}
CLEAN["units"] = "\n".join(f"{i}.5 kg at {i * 3} mm, {i} km/h, {i + 2} kg" for i in range(60))
CLEAN["contents"] = "\n".join(f"{i}  The way to the harbour {'. ' * 30}{i * 7}" for i in range(12))
CLEAN["code"] = "x <- c(10.4, 5.6)\nmean(x, na.rm = TRUE)\nfor (name in names(data)) print(data[[name]])\n" * 6
NOISY = {
    "shifted letters": (shifted(ENGLISH), "vowels|look like words"),
    "unknown glyphs": (ENGLISH.replace("e", "\ufffd"), "cannot be read"),
    "private use": (ENGLISH.replace("e", "\ue123"), "cannot be read"),
    "cid": (ENGLISH.replace("th", "(cid:31)"), "cannot be read"),
    "wrong table": (ENGLISH.replace("a", "ա").replace("n", "ц"), "mix scripts"),
    "no spaces": (ENGLISH.replace(" ", ""), "overlong"),
    "letter-spaced": (" ".join(ENGLISH.replace(" ", "")), "single letters"),
}
DRAWN = Signals(vectors=4)
SCAN = Signals(image_coverage=1.0, invisible_text=1.0)


def judge(text, signals=None, **limits):
    return classify(features(text), signals or Signals(), Thresholds(**limits))


# Features


def test_features_by_hand():
    f = features("Ab c1 (cid:7)\n\ufffd 22 xyz\ufffd")
    assert (tuple(f), f["n_chars"], f["digit"], f["bad_char"]) == (FEATURES, 18, 4 / 18, 8 / 18)  # a lone one is a sign
    assert f["alpha"] == 9 / 18 and f["latin"] == 1
    assert (f["mean_line"], f["short_line"], f["vowel"]) == (11.0, 1.0, 3 / 9)
    assert features("aaaa")["bigram_entropy"] == 0 and features("I a be")["single_token"] == 2 / 3
    assert features("")["n_chars"] == 0 and len(FEATURES) == 18


def test_entropy_of_letter_pairs_by_hand():
    # "abab": pairs ab, ba, ab; H2 = log2(3) - 2/3, H1 = 1
    assert features("ab ab")["bigram_entropy"] == pytest.approx(math.log2(3) - 2 / 3 - 1)


@pytest.mark.parametrize(
    "text",
    ["", "a", "a-b", "‘Two’ or 2 … twos", "x²", "Ⓐbc", "naïve", "Straße", "\u0345a", "日本 日本", ENGLISH, TURKISH],
)
def test_both_ways_to_count_letters_agree_to_the_last_digit(text):
    folded = text.casefold()
    letters = re.sub(r"[\W\d_]+", "", folded)
    pairs, single = Counter(pairwise(letters)), Counter(letters)
    bits = lambda counts: -sum(count / counts.total() * math.log2(count / counts.total()) for count in counts.values())
    expected = bits(pairs) - bits(single) if pairs else 0.0
    assert features(text)["bigram_entropy"] == pytest.approx(expected)
    if letters.isascii() and letters:
        assert quality._counts(folded) == quality._foreign_counts(folded)


@given(st.text(max_size=200))
def test_features_and_scores_stay_in_range(text):
    f = features(text)
    assert f == features(text) and all(map(math.isfinite, f.values()))
    counted = {"n_chars", "mean_token", "mean_line", "bigram_entropy"}
    assert all(0 <= value <= 1 for name, value in f.items() if name not in counted)
    for signals in (Signals(), SCAN):
        assert classify(f, signals)[0] in CLASSES
        assert 0 <= quality.quality(f, signals) <= 1 and 0 <= confidence(f) <= 1


def test_weights_sum_to_one():
    assert sum(quality.QUALITY_WEIGHTS.values()) == pytest.approx(1)
    assert sum(quality.CONFIDENCE_WEIGHTS.values()) == pytest.approx(1)


# Classes


@pytest.mark.parametrize("name", CLEAN)
def test_sound_text_is_clean(name):
    assert judge(CLEAN[name])[0] == "digital_clean"
    assert confidence(features(CLEAN[name])) > 0.55


@pytest.mark.parametrize("name", NOISY)
def test_garbled_text_is_noisy_and_the_reason_says_why(name):
    text, reason = NOISY[name]
    found, why = judge(text)
    assert found == "digital_noisy"
    assert any(part in why for part in reason.split("|")), why
    assert confidence(features(text)) < confidence(features(ENGLISH))


@pytest.mark.parametrize(
    ("text", "signals", "expected"),
    [
        ("", Signals(), "blank"),
        (" \n", Signals(), "blank"),
        ("", DRAWN, "low_text"),
        ("Chapter 3", Signals(), "low_text"),
        ("", Signals(unreadable=True), "low_text"),
        ("", Signals(image_coverage=0.9), "likely_scanned"),
        (ENGLISH, SCAN, "likely_scanned"),
        (ENGLISH, Signals(invisible_text=0.6), "likely_scanned"),
        (ENGLISH, Signals(image_coverage=0.9, invisible_text=0.1), "likely_scanned"),
        ("", Signals(image_coverage=0.6), "likely_scanned"),
        ("Figure 3. The harbour", Signals(image_coverage=0.6), "low_text"),  # a figure and its caption
        (ENGLISH, Signals(image_coverage=0.9), "digital_clean"),  # visible text over a background
        (ENGLISH, Signals(image_coverage=0.4), "digital_clean"),
        (ENGLISH, Signals(removed_chars=60), "digital_noisy"),
        (shifted(ENGLISH), Signals(image_coverage=0.9), "digital_noisy"),
        (shifted(ENGLISH), Signals(image_coverage=0.9, invisible_text=0.1), "likely_scanned"),
        ("\n".join(f"H{i} C{i}" for i in range(90)), Signals(vectors=40), "mixed_or_uncertain"),  # a drawing
        ("\n".join(ENGLISH.split()), Signals(vectors=40), "digital_clean"),  # narrow cells of a table
        ("\n".join(f"oar + {i} = x" for i in range(90)), Signals(), "mixed_or_uncertain"),
    ],
)
def test_classes_from_text_and_signals(text, signals, expected):
    found, reason = judge(text, signals)
    assert found == expected and reason


@pytest.mark.parametrize(
    "text",
    [
        "\n".join("\ufffd " + line for line in ENGLISH.splitlines()),  # bullets of a font without a map
        "\n".join("\uf0b7" + line for line in ENGLISH.splitlines()),
        ENGLISH.replace(" the ", " \ufffd the \ufffd "),  # brackets of a formula
        ENGLISH.replace(" the ", " f\ufffdx(t)\ufffd the "),
    ],
)
def test_signs_that_stand_alone_harm_no_word(text):
    assert features(text)["bad_char"] == 0 and judge(text)[0] == "digital_clean"


def test_lines_of_one_broken_font_are_found_on_a_page_of_others():
    lines = (ENGLISH * 2).splitlines()
    mixed = "\n".join(shifted(line) if i % 3 == 0 else line for i, line in enumerate(lines))
    f = features(mixed)
    assert f["vowel"] > quality.DEFAULTS.vowel and f["stopword"] > quality.DEFAULTS.common  # no other rule sees it
    found, reason = judge(mixed)
    assert found == "digital_noisy" and "lines of no language" in reason
    assert features(ENGLISH)["broken_line"] == 0


@pytest.mark.parametrize(
    ("token", "good"),
    [
        ("0x58595A20", True),
        ("nUn−1,2", True),
        ("p´arrafo", True),  # an accent set apart
        ("3Fh", True),
        ("cmsSigXYZData", True),
        ("\\documentclass[12pt]{article}", True),
        ("likeThisNameOfAThing", True),
        ("qJkPXvWzTb", False),
        ("kdqghvm", False),
        ("theferryleavesthesmallharbouratnoon", False),
    ],
)
def test_words_numbers_and_identifiers_are_told_from_garbage(token, good):
    assert features(token)["good_token"] == good


RUSSIAN = """Паром уходит из маленькой гавани в полдень и возвращается до темноты, если ветер не повернёт к северу.
Тогда команда ждёт на острове до утра, а пассажиры спят в старом здании школы, где тепло и есть вода.
Билеты продают на борту; дети до шести лет едут бесплатно, а велосипеды стоят две монеты в одну сторону.
"""


def test_cyrillic_read_as_latin_is_noisy_and_cyrillic_with_latin_lookalikes_is_not():
    assert judge(RUSSIAN)[0] == "digital_clean"
    misread = RUSSIAN.encode("cp1251").decode("latin-1")
    assert judge(misread)[0] == "digital_noisy" and "lines of no language" in judge(misread)[1]
    assert judge(RUSSIAN.replace("и", "i").replace("е", "e"))[0] == "digital_clean"  # as many Ukrainian fonts have it
    assert judge(RUSSIAN.replace("т", "q").replace("н", "w"))[0] == "digital_noisy"


def test_a_drawing_with_few_labels_is_no_clean_page_however_good_the_labels():
    labels = "\n".join(["Pre-Unitig", "Filter Graph", "Scaffolds", "Input Files", "Libraries"] * 4)
    assert judge(labels, Signals(vectors=40))[0] == "mixed_or_uncertain"
    assert judge(labels, Signals(vectors=4))[0] == "digital_clean"
    assert judge(labels * 3, Signals(vectors=40))[0] == "digital_clean"  # as long as a table


def test_control_characters_of_other_scripts_are_no_lost_ligatures():
    some = Signals(removed_chars=20)
    assert judge(JAPANESE, some)[0] == "digital_clean" and judge(ENGLISH, some)[0] == "digital_noisy"
    assert judge(JAPANESE, Signals(removed_chars=60))[0] == "digital_noisy"


def test_ligatures_lost_from_one_word_in_a_few_spoil_a_page_and_brackets_of_formulas_do_not():
    assert judge(ENGLISH, Signals(removed_chars=3))[0] == "digital_noisy"  # of 340 characters
    assert judge(ENGLISH, Signals(removed_chars=1))[0] == "digital_clean"


def test_an_image_alone_on_a_page_is_a_scan_however_small():
    assert judge("", Signals(image_coverage=0.13))[0] == "likely_scanned"
    assert judge("", Signals(image_coverage=0.13, vectors=3))[0] == "low_text"


def test_a_readable_scan_has_sound_text_and_lower_quality():
    f = features(ENGLISH)
    assert quality.quality(f, Signals()) - quality.quality(f, SCAN) == pytest.approx(0.2)
    assert confidence(f) > 0.85


def test_thresholds_can_be_set():
    assert judge("Chapter 3 of the book", low_text_chars=5, clean_quality=0.0)[0] == "digital_clean"
    assert judge(ENGLISH, low_text_chars=5000)[0] == "low_text"


# Tables


@given(st.text("aeybcdfXYZAE", min_size=1, max_size=30), st.sampled_from(["", ".", "(", "–"]))
def test_words_of_plain_letters_take_a_short_way_to_the_same_features(core, around):
    token = around + core + around
    assert quality._Tokens()[token] == " ".join(quality._any_features(core))
    assert ("long_token" in quality._any_features(core)) == bool(quality._RUN.search(token))


@pytest.mark.parametrize(
    "core", ["the", "a", "I", "x" * 25, "x" * 26, "aXbYZ", "likeThisOneAndMore", "XMLParserOf", "bcdfg"]
)
def test_plain_letters_at_the_edges_of_their_rules(core):
    assert quality._letters_features(core) == quality._any_features(core)


def test_many_tokens_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(quality, "MOST_TOKENS", 3)
    kept = quality._Tokens()
    assert [kept[word] for word in ("one", "two", "2,3", "of", "the")][-1] == "good_token stopword" and len(kept) <= 3


def test_page_table_of_a_pdf_and_a_text_file():
    text = ENGLISH + "\n\n" + "\n\n" + "Title"
    starts = (0, len(ENGLISH), len(ENGLISH) + 2, len(text) - 5)
    ends = (*starts[1:], len(text))
    pages = tuple(Page(i, "abcd"[i], start, end) for i, (start, end) in enumerate(zip(starts, ends, strict=True)))
    signals = (Signals(), Signals(), DRAWN, Signals())
    documents = (make_document("a.pdf", text, b""), make_document("b.md", ENGLISH, b""))
    corpus = Corpus(documents, {"a.pdf": Layout("a.pdf", pages=pages, signals=signals), "b.md": Layout("b.md")}, {})
    table = quality.page_table(corpus)
    assert list(table["class"]) == ["digital_clean", "blank", "low_text", "low_text", "digital_clean"]
    assert table[["doc_id", "page_index", "page_label"]].values.tolist()[-2:] == [["a.pdf", 3, "d"], ["b.md", 0, "1"]]
    assert set(FEATURES) | set(SIGNALS) < set(table.columns) and table.n_chars[3] == 5
    assert table.quality.isna().tolist() == [False, True, False, False, False]
    assert table.vectors.isna().tolist() == [False] * 4 + [True]
    assert list(quality.document_table(table).verdict) == ["mixed_quality", "digital_clean"]


def ocr(word_confidence):
    return Reading("replaced", "tesseract 5.3.0", 300, "eng", word_confidence, 0.1, 0.9, 1.0)


def test_readings_stand_beside_the_pages_and_are_missing_for_what_is_no_pdf():
    pages = (Page(0, "1", 0, len(ENGLISH)), Page(1, "2", len(ENGLISH), 2 * len(ENGLISH)))
    layout = Layout("a.pdf", pages=pages, signals=(Signals(), SCAN), readings=(Reading(), ocr(71.5)))
    documents = (make_document("a.pdf", ENGLISH * 2, b""), make_document("b.md", ENGLISH, b""))
    table = quality.page_table(Corpus(documents, {"a.pdf": layout, "b.md": Layout("b.md")}, {}))
    assert list(table.columns[-6:]) == list(READING)
    assert table.reading.fillna("-").tolist() == ["native", "replaced", "-"]
    assert table.loc[1, list(READING)[1:]].tolist() == ["tesseract 5.3.0", 300, 71.5, 0.1, 0.9]
    assert table.loc[2, list(READING)].isna().all() and table.engine[0] == ""


def test_a_scan_without_any_text_is_counted_and_is_not_clean():
    pages = tuple(Page(i, str(i + 1), 0, 0) for i in range(3))
    signals = (Signals(image_coverage=1.0), Signals(image_coverage=1.0), Signals())
    layouts = {"a.md": Layout("a.md"), "scan.pdf": Layout("scan.pdf", pages=pages, signals=signals)}
    corpus = Corpus((make_document("a.md", ENGLISH, b""),), layouts, {"scan.pdf": "no text in it"})
    table = quality.page_table(corpus)
    assert list(table["class"]) == ["digital_clean", "likely_scanned", "likely_scanned", "blank"]
    row = document_table(table).set_index("doc_id").loc["scan.pdf"]
    assert (row.pages, row.blank, row.verdict) == (3, 1, "mixed_quality")
    assert row.failed_guard == "clean_fraction, mean_quality, degraded_fraction"


def test_quality_follows_how_sure_ocr_was():
    f, sure = features(ENGLISH), [94.0, 92.0, 86.0, 68.0, 50.0, 10.0]
    found = [quality.quality(f, SCAN, reading=ocr(value)) for value in sure]
    text = quality.quality(f, Signals())
    assert found == pytest.approx([max(0, text * part - 0.2) for part in (1, 1, 36 / 42, 18 / 42, 0, 0)])
    assert confidence(f, reading=ocr(68.0)) == pytest.approx(18 / 42) and confidence(f, reading=ocr(94.0)) > 0.85
    kept = Reading("kept", "tesseract 5.3.0", 300, word_confidence=10.0)  # of a text that was not taken
    assert quality.quality(f, SCAN, reading=kept) == quality.quality(f, SCAN) == found[0]
    converted = Reading("replaced", "a converter")
    assert quality.quality(f, Signals(), reading=converted) == text


def test_text_that_ocr_gave_is_never_digital_clean():
    """Letters drawn as curves, or a font without a map: the page is no scan, and its text is OCR's."""
    assert judge(ENGLISH, DRAWN)[0] == "digital_clean"
    found, reason = classify(features(ENGLISH), DRAWN, reading=ocr(94.4))
    assert (found, reason) == ("mixed_or_uncertain", "read by OCR, 94 % sure of its words")
    lost = Signals(removed_chars=60)  # of the text that was replaced
    assert classify(features(ENGLISH), lost, reading=ocr(94.4))[0] == "mixed_or_uncertain"
    assert classify(features(ENGLISH), lost, reading=Reading("replaced", "a converter"))[0] == "digital_clean"
    assert classify(features(ENGLISH), lost, reading=Reading("kept"))[0] == "digital_noisy"


def pages(classes, score=0.9, repaired=False):
    return pd.DataFrame({"doc_id": "a", "class": classes, "quality": score, "repaired": repaired})


def verdict(table, **limits):
    return document_table(table, Thresholds(**limits)).iloc[0]


def test_pages_by_class_and_documents_have_both_their_denominators():
    table = pages(["digital_clean"] * 3 + ["blank"])
    found = quality.class_table(table, document_table(table)).set_index("class")
    assert found.pages["digital_clean"] == "3" and found["share of pages"]["digital_clean"] == 0.75
    assert found.pages["likely_scanned"] == "0" and found.pages["all pages"] == "4"
    assert found.pages["documents of mixed quality"] == "0 of 1"


def test_the_guards_hold_at_their_edges():
    edge = ["digital_clean"] * 17 + [
        "likely_scanned",
        "digital_noisy",
        "mixed_or_uncertain",
    ]  # 0.85 clean, 0.10 degraded
    assert verdict(pages(edge, 0.78)).verdict == "digital_clean"
    assert verdict(pages(edge, 0.7799)).failed_guard == "mean_quality"
    assert verdict(pages([*edge, "mixed_or_uncertain"])).failed_guard == "clean_fraction"
    assert verdict(pages([*edge[:17], *["digital_noisy"] * 3])).failed_guard == "degraded_fraction"
    row = verdict(pages(["likely_scanned"], 0.1))
    assert (row.verdict, row.failed_guard) == ("mixed_quality", "clean_fraction, mean_quality, degraded_fraction")
    assert verdict(pages(edge), clean_fraction=0.9).failed_guard == "clean_fraction"


def test_blank_pages_leave_the_denominators():
    table = pages(["digital_clean", "blank", "blank", "blank"], [0.9, math.nan, math.nan, math.nan])
    row = verdict(table)
    assert (row.pages, row.blank, row.clean_fraction, row.mean_quality) == (4, 3, 1.0, 0.9)
    assert row.verdict == "digital_clean" and row.failed_guard == ""
    empty = verdict(pages(["blank"], math.nan))
    assert empty.verdict == "mixed_quality" and math.isnan(empty.clean_fraction)


def test_short_sound_pages_leave_the_denominators_and_short_pages_without_text_do_not():
    classes = ["digital_clean"] * 3 + ["low_text"] * 2
    row = verdict(pages(classes, [0.9, 0.9, 0.9, 0.5, 0.8]))
    assert (row.pages, row.blank, row.short, row.clean_fraction, row.verdict) == (5, 0, 2, 1.0, "digital_clean")
    row = verdict(pages(classes, [0.9, 0.9, 0.9, 0.49, 0.0]))
    assert (row.short, row.clean_fraction, row.verdict) == (0, 0.6, "mixed_quality")
    assert verdict(pages(["low_text"], 0.8)).verdict == "mixed_quality"  # nothing is left to be clean


def test_a_repaired_file_is_never_clean():
    row = verdict(pages(["digital_clean"] * 3, repaired=[False, False, True]))
    assert (row.verdict, row.failed_guard) == ("mixed_quality", "repaired")


# Real files

MISSED = {"dg_autocad.pdf"}  # a drawing with instructions in sentences
CASES = []
if REAL:
    with (Path(REAL) / "manifest.csv").open(encoding="utf-8") as rows:
        CASES = [row for row in csv.DictReader(rows) if not row["pages"].isdigit() or int(row["pages"]) <= 30]


@pytest.mark.skipif(not REAL, reason="set LOCALEVAL_PDFS to a folder of real PDFs with a manifest.csv")
def test_real_documents_get_the_verdict_a_person_gave_them():
    wrong, documents, layouts = set(), [], {}
    for case in CASES:
        name = case["file"]
        try:
            document, layouts[name] = pdf.read(Path(REAL) / name, name)
            documents.append(document)
            assert len(layouts[name].pages) == int(case["pages"])
        except BadInput as error:
            assert name.startswith(("bad_", "enc_")), error
    table = quality.page_table(Corpus(tuple(documents), layouts, {}))
    verdicts = document_table(table).set_index("doc_id").verdict
    for case in CASES:
        if case["file"] in verdicts.index and verdicts[case["file"]] != case["human_doc_label"]:
            wrong.add(case["file"])
    assert len(verdicts) >= 15 and wrong <= MISSED
