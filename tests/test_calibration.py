"""Labels against rules, by hand: counts, cuts, margins, gates, areas, and what is said when labels are missing."""

from __future__ import annotations

import shutil
from dataclasses import fields, replace
from math import isnan, sqrt
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localeval import calibration, corpus, pagefigures, quality, stats
from localeval.calibration import SIGNALLED, TEXT
from localeval.records import BadInput

TWINS = Path(__file__).resolve().parents[1] / "data/handbook/twins"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# Labels


def test_labels_are_read_as_they_are(tmp_path):
    labels = calibration.read_labels(
        write(tmp_path / "l.csv", "doc_id,page_index,label\n001,0,blank\n001,1,low_text\n")
    )
    assert labels.to_dict("records") == [
        {"doc_id": "001", "page_index": 0, "label": "blank"},
        {"doc_id": "001", "page_index": 1, "label": "low_text"},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file, and without labels nothing can be calibrated; take doc_id and page_index from pages.csv"),
        ("", "not a table; write a .csv in UTF-8 with the columns doc_id, page_index, label, one line a page"),
        ("doc_id,label\na,blank\n", "no column 'page_index'"),
        ("doc_id,page_index,label\n", "no rows"),
        (
            "doc_id,page_index,label\na,0,blank\na,1,digital_claen\n",
            ":3: unknown label 'digital_claen' \\(did you mean",
        ),
        ("doc_id,page_index,label\na,first,blank\n", "page_index 'first' is no number of a page; pages count from 0"),
        ("doc_id,page_index,label\na,12345678901234567890,blank\n", "'12345678901234567890' is no number of a page"),
        ("doc_id,page_index,label\na,0,blank\na,0,low_text\n", ":3: a is labelled twice"),
    ],
)
def test_bad_labels_are_one_line_that_says_what_to_write(tmp_path, text, message):
    path = tmp_path / "labels.csv"
    if text is not None:
        write(path, text)
    with pytest.raises(BadInput, match=message) as error:
        calibration.read_labels(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_a_verdict_is_one_of_two(tmp_path):
    with pytest.raises(BadInput, match="unknown label 'likely_scanned'.*digital_clean, mixed_quality"):
        calibration.read_verdicts(write(tmp_path / "v.csv", "doc_id,label\na,likely_scanned\n"))


def test_labels_without_a_page_are_counted_and_labels_of_another_corpus_refused():
    pages = pd.DataFrame({"doc_id": ["a", "a", "b"], "page_index": [0, 1, 0]})
    labels = pd.DataFrame({"doc_id": ["a", "c"], "page_index": [1, 0], "label": ["blank", "blank"]})
    joined = calibration.with_labels(pages, labels)
    assert joined[["doc_id", "page_index"]].values.tolist() == [["a", 1]]
    assert [row["doc_id"] for row in joined.attrs["absent"]] == ["c"]
    with pytest.raises(BadInput, match="no label is of a document of this study"):
        calibration.with_labels(pages, labels[1:])


# Views


@pytest.fixture(scope="module")
def twins():
    """Pages of twins at two degrees of damage and of their originals, with the labels of the repository."""
    tables = []
    for folder in ("original", "ocr/heavy"):
        pages = quality.page_table(corpus.load(TWINS / "pdf" / folder))
        tables.append(pages.assign(doc_id=folder + "/" + pages["doc_id"]))
    return calibration.with_labels(pd.concat(tables, ignore_index=True), calibration.read_labels(TWINS / "labels.csv"))


def test_judging_again_gives_what_ingestion_gave(twins):
    again = calibration.judged(twins)
    pd.testing.assert_frame_equal(again[["class", "quality", "reason"]], twins[["class", "quality", "reason"]])


def test_without_signals_every_scan_looks_born_digital(twins):
    views = calibration.both_views(twins)
    told = calibration.agreement(views, ["view"]).set_index("view")
    assert told.loc[SIGNALLED, ["hits", "n"]].tolist() == [12, 12]
    assert told.loc[TEXT, ["hits", "n"]].tolist() == [6, 12]
    text = views[views["view"] == TEXT]
    assert set(text["class"]) == {"digital_clean"} and (text["n_chars"] > 0).all()


def test_other_thresholds_than_those_of_ingestion_are_refused(twins):
    with pytest.raises(BadInput, match="is digital_clean in 10_ingest and .* here; give both notebooks the same"):
        calibration.both_views(twins, replace(quality.DEFAULTS, clean_quality=0.999))


def test_what_ocr_was_sure_of_is_known_beside_the_text_and_not_from_it(twins):
    read = twins.iloc[:1].assign(reading="replaced", word_confidence=40.0)
    assert calibration.judged(read)["class"].item() == "mixed_or_uncertain"
    assert calibration.judged(read, signals=False)["class"].item() == "digital_clean"


# Agreement


def test_shares_stand_with_their_count_and_wilson_interval():
    row = calibration.share(2, 4)
    assert (row["low"], row["high"]) == stats.wilson(2, 4)
    assert calibration.said(row) == "2 of 4 (50% [15%, 85%])"
    empty = calibration.share(0, 0)
    assert calibration.said(empty) == "none" and isnan(empty["share"]) and isnan(empty["low"])


def test_confusion_by_hand():
    frame = pd.DataFrame(
        {
            "view": ["x"] * 4,
            "label": ["digital_clean", "digital_clean", "likely_scanned", "blank"],
            "class": ["digital_clean", "low_text", "digital_clean", "blank"],
        }
    )
    rows = calibration.confusion(frame)
    assert list(rows["label"].unique()) == ["digital_clean", "likely_scanned", "blank"]
    assert list(rows["said"].unique()) == ["digital_clean", "likely_scanned", "low_text", "blank"]
    assert rows["hits"].tolist() == [1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert rows.groupby("label")["hits"].sum().to_dict() == rows.groupby("label")["n"].first().to_dict()
    table = calibration.confusion_table(rows)
    assert table["found"].tolist() == ["1 of 2 (50% [9%, 91%])", "0 of 1 (0% [0%, 79%])", "1 of 1 (100% [21%, 100%])"]
    assert table["low_text"].tolist() == [1, 0, 0]


# One cut


@pytest.mark.parametrize(
    ("scores", "clean", "cut"),
    [
        ([0.2, 0.4, 0.9], [0, 0, 1], 0.65),  # the middle of the gap
        ([0.2, 0.4, 0.9], [1, 1, 1], 0.2),  # all are clean
        ([0.1, 0.2, 0.5, 0.9], [0, 1, 0, 1], 0.7),  # two cuts are right three times of four: the one in the wider gap
        ([0.0, 0.25, 0.5, 0.75], [0, 1, 0, 1], 0.125),  # in gaps of one width: the lower
    ],
)
def test_the_best_cut(scores, clean, cut):
    assert calibration.best_cut(scores, clean) == pytest.approx(cut)


def test_if_none_is_clean_the_cut_is_above_all():
    assert calibration.best_cut([0.2, 0.4], [False, False]) > 0.4


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.8]), st.booleans()), min_size=1, max_size=12))
def test_no_other_cut_agrees_more_often(cases):
    scores, clean = zip(*cases, strict=True)
    right = lambda cut: sum((score >= cut) == kind for score, kind in cases)
    best = right(calibration.best_cut(scores, clean))
    assert all(right(cut) <= best for cut in (0.0, 0.15, 0.3, 0.6, 0.9))


def test_the_one_left_out_has_no_part_in_its_cut():
    frame = pd.DataFrame(
        {
            "doc_id": ["new/a", "scan/a", "new/b", "scan/b"],
            "label": ["digital_clean", "mixed_quality"] * 2,
            "quality": [0.9, 0.5, 0.3, 0.1],
        }
    )
    rows = calibration.leave_one_out(frame, "quality", calibration.by_source(True))
    assert rows["left_out"].tolist() == ["a", "b"] and rows["cut"].tolist() == pytest.approx([0.2, 0.7])
    assert rows["agreed"].tolist() == [1, 1] and rows["clean"].tolist() == [1, 1]
    assert len(calibration.leave_one_out(frame, "quality", calibration.by_source(False))) == 4
    with pytest.raises(BadInput, match="takes two or more"):
        calibration.leave_one_out(frame[:2], "quality", calibration.by_source(True))


def test_the_commoner_label_is_what_a_cut_has_to_beat():
    rows = pd.DataFrame(
        {"unit": "pages", "view": "x", "cut": [0.5, 0.6], "n": [3, 1], "agreed": [2, 1], "clean": [1, 0]}
    )
    (row,) = calibration.left_out_summary(rows).to_dict("records")
    assert row["agreed"] == row["commoner_label"] == "3 of 4 (75% [30%, 95%])"
    assert (row["lowest_cut"], row["highest_cut"]) == (0.5, 0.6)


# Margin and pilot


def test_the_margin_is_between_the_worst_clean_and_the_best_other():
    documents = pd.DataFrame(
        {
            "view": "x",
            "doc_id": list("abcd"),
            "label": ["digital_clean", "digital_clean", "mixed_quality", "mixed_quality"],
            "mean_quality": [0.809, 0.787, 0.780, 0.767],
        }
    )
    near, far = calibration.margins(documents, {"d"}).to_dict("records")
    assert (far["worst_clean"], far["best_other"], far["against"]) == ("b", "c", "any not clean")
    assert far["margin"] == pytest.approx(0.007)
    assert (near["best_other"], near["against"]) == ("d", "scanned") and near["margin"] == pytest.approx(0.02)
    assert calibration.margin_said(calibration.margins(documents, {"d"}), "x") == "+0.020"
    unknown = calibration.margins(documents, ())
    assert len(unknown) == 1 and "no scan is labelled" in calibration.margin_said(unknown, "x")
    with pytest.raises(BadInput, match="label both kinds"):
        calibration.margins(documents[:2], ())


def test_a_document_is_scanned_when_most_of_its_pages_are():
    pages = pd.DataFrame(
        {"doc_id": list("aabbb"), "label": ["likely_scanned", "blank"] + ["likely_scanned"] * 2 + ["blank"]}
    )
    assert calibration.scanned_documents(pages) == {"b"}


def test_the_pilot_of_the_published_rule_on_our_twins(tmp_path):
    """Two documents of each kind: the single rule is right twice, the three guards with signals four times."""
    reported = calibration.read_pilot(TWINS / "pilot.csv")
    for doc_id in reported["doc_id"]:
        (tmp_path / doc_id).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TWINS / "pdf" / doc_id, tmp_path / doc_id)
    pages = quality.page_table(corpus.load(tmp_path))
    documents = calibration.documents_of(calibration.both_views(pages))
    ours = calibration.pilot(reported, documents)
    told = calibration.pilot_agreement(ours, reported).set_index("rule")
    assert [text[:6] for text in told["measured_here"]] == ["2 of 4", "2 of 4", "2 of 4", "4 of 4"]
    assert [text[:6] for text in told["reported_by_the_source"]] == ["2 of 4", "4 of 4", "not re", "not re"]
    assert ours["pages"].tolist() == [2, 2, 2, 2]
    assert calibration.pilot_quality(ours, reported)["reported by the source"].tolist() == [0.809, 0.78, 0.767, 0.787]
    verdicts = calibration.pilot_verdicts(ours, reported)
    assert verdicts["three guards, with signals"].tolist() == verdicts["human_label"].tolist()
    assert verdicts["single rule, reported"].tolist() == verdicts["single rule, text alone"].tolist()
    with pytest.raises(BadInput, match="no document 'ocr/light/calender.pdf' in this study \\(did you mean"):
        calibration.pilot(reported.assign(doc_id="ocr/light/calender.pdf"), documents)


# The gate


def test_a_gate_by_hand():
    rows = calibration.gate([0.2, 0.5, 0.5, 0.9], [True, True, False, False]).set_index("threshold")
    assert rows.index.tolist() == pytest.approx([0, 0.2, 0.5, 0.9, 0.9, 1.0])
    assert rows["missed"].tolist() == [1, 1, 0.5, 0, 0, 0]
    assert rows["false"].tolist() == [0, 0, 0, 0.5, 1, 1]
    (at,) = calibration.gate([0.2, 0.5, 0.5, 0.9], [True, True, False, False], [0.55]).to_dict("records")
    assert (at["missed_hits"], at["missed_n"], at["false_hits"], at["false_n"]) == (0, 2, 1, 2)
    assert (at["false_low"], at["false_high"]) == stats.wilson(1, 2)
    assert calibration.gate([], []).empty


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_a_higher_threshold_misses_no_more_and_reads_no_less(cases):
    rows = calibration.gate(*zip(*cases, strict=True))
    assert rows["missed"].dropna().is_monotonic_decreasing and rows["false"].dropna().is_monotonic_increasing
    assert rows["threshold"].is_monotonic_increasing
    assert (rows["missed_hits"].iloc[0], rows["false_hits"].iloc[-1]) == (
        rows["missed_n"].iloc[0],
        rows["false_n"].iloc[0],
    )


def test_the_area_by_hand():
    assert calibration.auroc([0.1, 0.2, 0.3, 0.4], [True, True, False, False])["auroc"] == 1
    assert calibration.auroc([0.1, 0.3, 0.2, 0.4], [True, True, False, False])["auroc"] == 0.75
    assert calibration.auroc([1, 1, 1], [True, False, False])["auroc"] == 0.5
    none = calibration.auroc([1, 1], [False, False])
    assert isnan(none["auroc"]) and isnan(none["low"]) and (none["bad"], none["good"]) == (0, 2)


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.4, 0.5, 0.9]), st.booleans()), min_size=2, max_size=30))
def test_the_interval_of_the_area_is_wide_and_mirrored(cases):
    scores, bad = zip(*cases, strict=True)
    if not 0 < sum(bad) < len(bad):
        return
    got, mirrored = calibration.auroc(scores, bad), calibration.auroc(scores, [not one for one in bad])
    assert 0 <= got["low"] <= got["auroc"] <= got["high"] <= 1 and got["high"] - got["low"] > 0.05
    assert mirrored["low"] == pytest.approx(1 - got["high"], abs=1e-6)
    low, m, n = got["low"], sum(bad), len(bad) - sum(bad)
    if low > 1e-9:  # the area seen is just as far from the bound as its spread there allows
        spread = 1 + ((m + n) / 2 - 1) * ((1 - low) / (2 - low) + low / (1 + low))
        assert got["auroc"] - low == pytest.approx(calibration.Z * sqrt(low * (1 - low) * spread / (m * n)), abs=1e-6)


def kept(**more):
    frame = {
        "level": ["clean", "heavy"] * 2,
        "document": ["a", "a", "b", "b"],
        "page": 0,
        "word_f1": [0.97, 0.6, 0.9, 0.7],
        "word_confidence": [95.0, 60.0, 91.0, 70.0],
        "engine": "tesseract",
    }
    return pd.DataFrame(frame | more)


AT = {"text_confidence": 0.55, "word_confidence": 0.55}


@pytest.mark.parametrize(
    ("guard", "words"), [(0.85, "inside it"), (0.7, "below it"), (0.8, "below it"), (0.95, "above it")]
)
def test_where_the_guard_lies(guard, words):
    labels = ["digital_clean", "mixed_quality"]
    documents = pd.DataFrame({"view": "v", "doc_id": ["a", "b"], "label": labels, "mean_quality": [0.9, 0.8]})
    rows = calibration.margins(documents, ["b"])
    assert words in calibration.guard_said(rows, "v", guard) and "no margin" in calibration.guard_said(rows, "w", guard)


def test_engines_are_never_pooled():
    both = pd.concat([kept(), kept(engine="rapidocr", word_confidence=[99.0] * 4)]).assign(text_confidence=1.0)
    rows = calibration.gate_summary(both, 0.8, AT).set_index(["engine", "score"])
    assert rows["auroc"].tolist() == [0.5, 1.0, 0.5, 0.5]
    assert rows.loc[("tesseract", "word_confidence"), "missed"].startswith("2 of 2 (100%")
    assert set(calibration.gates(both, 0.8)["engine"]) == {"tesseract", "rapidocr"}
    said = calibration.area_said(rows.reset_index())
    assert "by the engine's own confidence in its words (rapidocr)" in said and said.count("(tesseract)") == 2
    other = calibration.gate_summary(both, 0.8, AT | {"word_confidence": 0.8}).set_index(["engine", "score"])
    assert other.loc[("tesseract", "word_confidence"), "missed"].startswith("0 of 2"), (
        "each score has a threshold of its own"
    )


def test_the_cut_of_a_gate_is_chosen_without_the_document_it_judges():
    frame = kept(text_confidence=1.0)
    (words,) = calibration.gate_summary(frame, 0.8, AT).query("score == 'word_confidence'").to_dict("records")
    assert words["best_cut"] == pytest.approx(0.91)
    text, words = calibration.gate_left_out(frame, 0.8).to_dict("records")
    assert (words["engine"], words["score"], words["turns"]) == ("tesseract", "word_confidence", 2)
    assert (words["lowest_cut"], words["highest_cut"]) == pytest.approx((0.775, 0.805))
    assert words["agreed"].startswith("4 of 4") and text["agreed"].startswith("2 of 4")
    assert (
        calibration.gate_left_out(frame[:2], 0.8).empty and calibration.gate_left_out(calibration.no_pages(), 0.8).empty
    )


def test_text_confidence_comes_from_the_pages_of_the_study():
    pages = pd.DataFrame({"doc_id": ["ocr/clean/a.pdf", "x"], "page_index": [0, 0], "confidence": [0.7, 0.1]})
    got = calibration.with_text_confidence(kept(), pages, "ocr/{level}/{document}.pdf")["text_confidence"]
    assert got.iloc[0] == 0.7 and got.iloc[1:].isna().all()
    brought = calibration.with_text_confidence(kept(text_confidence=0.4), pages, "ocr/{level}/{document}.pdf")
    assert (brought["text_confidence"] == 0.4).all()


def test_a_page_without_words_was_not_kept_at_all(tmp_path):
    path = write(
        tmp_path / "k.csv", "engine,level,document,page,word_f1,word_confidence\nx,heavy,a,0,,\nx,heavy,a,1,0.9,80\n"
    )
    read = calibration.read_kept(path)
    assert read[["word_f1", "word_confidence"]].values.tolist() == [[0, 0], [0.9, 80]]
    assert read["engine"].tolist() == ["x", "x"]


def test_without_pages_of_known_truth_everything_says_so():
    none = calibration.no_pages()
    assert calibration.gates(none, 0.8).empty and calibration.by_level(none, 0.8).empty
    summary = calibration.gate_summary(none, 0.8, AT)
    assert "was not measured here: no pages of known truth" in calibration.area_said(summary)
    levels = calibration.by_level(kept(text_confidence=1.0), 0.8)
    blind = calibration.blind_spots(levels, calibration.gate_summary(kept(text_confidence=1.0), 0.8, AT))
    assert blind.startswith(
        "Confidence in the text does not see what tesseract lost. Read by tesseract, from clean to heavy the words kept fall"
    )
    assert "was not measured" in calibration.blind_spots(calibration.by_level(none, 0.8), summary)


def test_the_text_of_damaged_pages_says_nothing_of_the_damage(twins):
    read = calibration.read_kept(TWINS / "fidelity.csv")
    read = calibration.with_text_confidence(read[read["level"] == "heavy"], twins, "ocr/{level}/{document}.pdf")
    assert (read["text_confidence"] == 1).all() and (read["word_f1"] < 0.8).all()
    assert (read["word_confidence"] < 75).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "not a table"),
        ("level,page\na,0\n", "no column 'document'"),
        ("level,document,page,f1,confidence\na,b,0,2,9\n", "between 0 and 1"),
    ],
)
def test_bad_files_of_kept_words_are_named(tmp_path, text, message):
    path = tmp_path / "kept.csv"
    if text:
        write(path, text)
    with pytest.raises(BadInput, match=message):
        calibration.read_kept(path)


# Figures, thresholds, files


def test_figures_say_their_numbers(twins):
    drawn = pagefigures.confusion(calibration.confusion(calibration.both_views(twins)), caption="Counts.")
    assert (
        "text alone: digital clean said to be digital clean: 6 of 6; likely scanned said to be digital clean: 6 of 6"
        in drawn.alt
    )
    assert (
        "with signals: digital clean said to be digital clean: 6 of 6; likely scanned said to be likely scanned: 6 of 6"
        in drawn.alt
    )
    gates = calibration.gates(kept(text_confidence=1.0), 0.8)
    drawn = pagefigures.gate_curves(gates, at=AT, caption="Gates.")
    assert (
        "word confidence, pages read by tesseract: at 0.55 100% missed, 0% in vain; best at 0.91 with 0% missed"
        in drawn.alt
    )
    documents = pd.DataFrame(
        {"view": "x", "doc_id": ["a", "b"], "label": ["digital_clean", "mixed_quality"], "mean_quality": [0.9, 0.5]}
    )
    assert "x, 1 mixed quality: 0.500 to 0.500" in pagefigures.margin(documents, cut=0.78, caption="Margin.").alt
    with pytest.raises(BadInput, match="no column 'view'"):
        pagefigures.margin(documents.drop(columns="view"), cut=0.78, caption="Margin.")


def test_every_threshold_says_where_it_comes_from_and_what_it_decides():
    table = calibration.threshold_table(replace(quality.DEFAULTS, vowel=0.3)).set_index("threshold")
    assert list(table.index) == [one.name for one in fields(quality.Thresholds)]
    assert set(table["origin"]) == {"published", "measured", "chosen", "parameters of this study"}
    assert table["decides"].str.len().min() > 10
    assert table.loc["vowel"].tolist()[:2] == [0.3, "parameters of this study"]
    published = table[table["origin"] == "published"]["value"].to_dict()
    assert published == {"clean_fraction": 0.85, "mean_quality": 0.78, "degraded_fraction": 0.1, "ocr_confidence": 0.55}


def test_labels_of_the_twins_follow_from_their_folders():
    labels, verdicts = calibration.read_labels(TWINS / "labels.csv"), calibration.read_verdicts(TWINS / "verdicts.csv")
    files = {path.relative_to(TWINS / "pdf").as_posix() for path in (TWINS / "pdf").rglob("*.pdf")}
    assert set(labels["doc_id"]) == set(verdicts["doc_id"]) == files
    clean = labels["doc_id"].str.startswith("original/")
    assert (labels["label"] == clean.map({True: "digital_clean", False: "likely_scanned"})).all()
    clean = verdicts["doc_id"].str.startswith("original/")
    assert (verdicts["label"] == clean.map({True: "digital_clean", False: "mixed_quality"})).all()
    assert (labels.groupby("doc_id").size() == 2).all()


@pytest.mark.parametrize("read", [calibration.read_labels, calibration.read_verdicts, calibration.read_kept])
def test_a_folder_is_no_table(tmp_path, read):
    with pytest.raises(BadInput, match="not a table"):
        read(tmp_path)


@pytest.mark.parametrize("row", ["light,a,12345678901234567890123,1.0,90", "light,a,1,half,90", "light,a,1,1.0,sure"])
def test_what_is_no_number_is_named(tmp_path, row):
    (tmp_path / "kept.csv").write_text(f"level,document,page,word_f1,word_confidence\n{row}\n", encoding="utf-8")
    with pytest.raises(BadInput, match="must hold numbers"):
        calibration.read_kept(tmp_path / "kept.csv")
