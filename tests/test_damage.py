"""What damage does to retrieval: paired differences, doses, slopes and where evidence is lost, worked by hand; and the notebook."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from localeval import build, damage, damagefigures, damagetables, strata, tables, twins
from localeval.corpus import Corpus
from localeval.records import BadInput, Evidence, Graded, Query, Span, System
from localeval.systems import Settings, grid
from test_twins import SENTENCES, one_page, typeset

DRAWS = {"seed": 7, "n_resamples": 200}
RULE = "chunk/contains"


def a_twin(level, queries, f1=(0.5,), in_text=None, seconds=2.0, engine="hand"):
    """A twin of one-page questions: question n stands on page n with the nth word F1."""
    rows = [(query.query_id, 0, "a.pdf", n, 1.0, True) for n, query in enumerate(queries)]
    evidence = pd.DataFrame(rows, columns=["query_id", "evidence", "doc_id", "page_index", "share", "in_text"])
    evidence["in_text"] = in_text or [True] * len(rows)
    pages = [
        (engine, level, "a.pdf", n, 1 - f1[n % len(f1)], *[f1[n % len(f1)]] * 3, 80.0, 1.0, seconds)
        for n in range(len(rows))
    ]
    return twins.Twin(
        engine, level, Corpus((), {}, {}), queries, evidence, pd.DataFrame(pages, columns=list(twins.FIDELITY))
    )


def some_queries(count):
    return [Query(f"q{n}", "?", (Evidence(Span("a.pdf", 10 * n, 10 * n + 5)),)) for n in range(count)]


def some_scores(values):
    """values: system -> value of every question."""
    rows = [
        (system, RULE, "rr", f"q{n}", value, "scored", "human")
        for system, own in values.items()
        for n, value in enumerate(own)
    ]
    return pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])


def test_names_of_twins_become_columns():
    twin = a_twin("bad", some_queries(1))
    frame = damage.named(pd.DataFrame({"system": ["s/bm25", "s/bm25~hand-bad"]}), [twin])
    assert frame[["base", "engine", "level"]].values.tolist() == [
        ["s/bm25", "source", "source"],
        ["s/bm25", "hand", "bad"],
    ]


def test_differences_are_paired_by_question():
    scores = some_scores({"s/bm25": [1, 0.5, 0], "s/bm25~hand-bad": [0.5, 0.5, 0.25]})
    row = damage.deltas(scores, [a_twin("bad", some_queries(3))], ["rr"], RULE, **DRAWS).iloc[0]
    assert row["delta"] == pytest.approx(-0.25 / 3) and row["n"] == 3
    assert (row["baseline"], row["candidate"], row["base"]) == ("s/bm25", "s/bm25~hand-bad", "s/bm25")
    assert damage.deltas(some_scores({"s/bm25": [1, 0]}), [], ["rr"], RULE, **DRAWS).empty


def test_a_dose_is_the_mean_over_the_pages_of_the_evidence_each_once():
    query = Query("q0", "?", tuple(Evidence(Span("a.pdf", n, n + 1)) for n in range(3)))
    twin = a_twin("bad", some_queries(2), f1=(0.4, 0.8))
    rows = [("q0", 0, "a.pdf", 0, 1.0, True), ("q0", 1, "a.pdf", 0, 1.0, True), ("q0", 2, "a.pdf", 1, 1.0, True)]
    evidence = pd.DataFrame(rows, columns=twin.evidence.columns)
    twin = twins.Twin("hand", "bad", twin.corpus, [query], evidence, twin.fidelity)
    dosed = damage.doses(some_scores({"s/bm25": [1], "s/bm25~hand-bad": [0]}), [twin])
    assert dosed["word_f1"].tolist() == [1.0, pytest.approx(0.6)] and dosed["cer"].tolist() == [0.0, pytest.approx(0.4)]


def test_slope_of_a_line_is_found_within_questions():
    """Hard questions on bad pages do not count: value = level of the question + F1 / 2, so ten points lost cost 0.05."""
    queries, f1 = some_queries(4), (0.9, 0.7, 0.5, 0.3)
    hard = np.array([0.5, 0.3, 0.1, 0.0])
    values = {"s/bm25": hard + 0.5, "s/bm25~hand-bad": hard + np.array(f1) / 2}
    dosed = damage.doses(some_scores(values), [a_twin("bad", queries, f1)])
    row = damage.slopes(dosed, "rr", RULE, **DRAWS).iloc[0]
    assert [row["slope"], row["low"], row["high"]] == pytest.approx([-0.05] * 3) and (row["n"], row["points"]) == (4, 8)


def test_without_twins_no_slope_is_defined():
    dosed = damage.doses(some_scores({"s/bm25": [1, 0]}), [])
    assert np.isnan(damage.slopes(dosed, "rr", RULE, **DRAWS)["slope"].iloc[0])
    points = damage.responses(dosed, "rr", RULE, **DRAWS)
    assert points[["system", "engine", "mean", "word_f1"]].values.tolist() == [["s/bm25", "source", 0.5, 1.0]]
    assert damage.prices(points, []).empty
    answer = damagetables.damage_answer(points, damage.slopes(dosed, "rr", RULE, **DRAWS), "s/bm25", "rr")
    assert "nothing here is causal" in answer


def test_tolerance_has_a_row_for_each_system_and_engine():
    places = [("tesseract", "clean"), ("tesseract", "heavy"), ("rapidocr", "clean")]
    changes = pd.DataFrame(places, columns=["engine", "level"])
    changes = changes.assign(base="s/bm25", metric="rr", delta=-0.1, low=-0.2, high=0.0)
    slopes = pd.DataFrame({"system": ["s/bm25"], "slope": [-0.05], "low": [-0.06], "high": [-0.04], "n": [4]})
    rows = damagetables.tolerance(changes, slopes, "rr")
    assert list(rows.columns) == ["system", "engine", "n", damagetables.SLOPE, "clean", "heavy"]
    assert (
        rows["engine"].tolist() == ["tesseract", "rapidocr"] and rows["clean"].tolist() == ["−0.10 [−0.20, +0.00]"] * 2
    )
    assert pd.isna(rows["heavy"].iloc[1])


def test_evidence_is_counted_out_stage_by_stage():
    """Four pieces: one lost in the text, one in no chunk, one below the top, one in the top."""
    queries = some_queries(4)
    twin = a_twin("bad", queries, in_text=[False, True, True, True])
    covers = {"q2": ((40, (0,)),), "q3": ((3, (0,)),)}
    graded = [Graded(q.query_id, "scored", covers=covers.get(q.query_id, ()), evidence=(1,)) for q in queries]
    rows = [("hand-bad", "s", f"q{n}", 0, n > 1) for n in range(4)]
    chunked = pd.DataFrame(rows, columns=["variant", "chunker", "query_id", "evidence", "in_chunk"])
    outcome = damage.Outcome(
        {("s/bm25~hand-bad", RULE): graded, ("s/bm25~hand-bad", "page/overlaps"): graded}, pd.DataFrame(), chunked
    )
    (row,) = damage.waterfall(outcome, [twin], queries, RULE).values.tolist()
    assert row == ["s/bm25", "hand", "bad", 4, 3, 2, 2, 1]


def test_prices_begin_with_no_ocr_which_is_a_state():
    scores = some_scores({"s/bm25": [1, 0.6], "s/bm25~hand-bad": [0.4, 0.4]})
    found = [a_twin("bad", some_queries(2), seconds=2.0)]
    points = damage.responses(damage.doses(scores, found), "rr", RULE, **DRAWS)
    none, bought = damage.prices(points, found).to_dict("records")
    assert (none["engine"], none["state"]) == ("none", "no text, nothing to search")
    assert np.isnan(none["value"]) and none["seconds"] == 0.0, "a state is no zero"
    assert [bought[name] for name in ("seconds", "value", "share", "per_second")] == pytest.approx([2.0, 0.4, 0.5, 0.2])


def test_two_engines_are_compared_at_the_levels_both_read():
    queries = some_queries(2)
    found = [
        a_twin("bad", queries, seconds=1.0),
        a_twin("good", queries),
        a_twin("bad", queries, seconds=5.0, engine="slow"),
    ]
    scores = some_scores({"s/bm25~hand-bad": [0, 0.5], "s/bm25~hand-good": [1, 1], "s/bm25~slow-bad": [1, 0.5]})
    (row,) = damage.between_engines(scores, found, "rr", RULE, **DRAWS).to_dict("records")
    assert (row["level"], row["delta"], row["more_seconds"], row["per_second"]) == ("bad", 0.5, 4.0, 0.125)
    assert damage.between_engines(scores, found[:2], "rr", RULE, **DRAWS).empty


def test_questions_whose_pages_differ_are_a_class_of_their_own():
    source = typeset("first", "second")
    pages = pd.DataFrame({"doc_id": "a.pdf", "page_index": [0, 1], "class": ["good", "bad"]})
    spans = [Span("a.pdf", 0, 5), Span("a.pdf", 7, 13)]
    queries = [Query("q0", "?", (Evidence(spans[0]),)), Query("q1", "?", tuple(map(Evidence, spans))), Query("q2", "?")]
    assert strata.question_classes(queries, source, pages, "class") == {"q0": "good", "q1": "several"}
    assert strata.question_kinds(queries, {"a.pdf": "table"}) == {"q0": "table", "q1": "table"}
    assert strata.question_kinds(queries[:1], {}) == {"q0": "not labelled"}


def test_groups_have_their_own_means_and_differences():
    scores = some_scores({"s/bm25": [1, 0], "s/bm25~hand-bad": [0.5, 0]})
    means = damage.grouped(scores, {"q0": "x"}, ["rr"], RULE, **DRAWS)
    assert means[["group", "system", "mean", "n"]].values.tolist() == [
        ["x", "s/bm25", 1, 1],
        ["x", "s/bm25~hand-bad", 0.5, 1],
    ]
    found = [a_twin("bad", some_queries(2))]
    changes = damage.deltas_by(scores, found, {"hand-bad": {"q0": "x", "q1": "y"}}, ["rr"], RULE, **DRAWS)
    assert changes[["group", "delta"]].values.tolist() == [["x", -0.5], ["y", 0.0]]
    assert damage.deltas_by(scores, [], {}, ["rr"], RULE, **DRAWS).empty


@pytest.mark.parametrize(("has_twins", "says"), [(True, "shows no cause"), (False, "not causal")])
def test_the_breakdown_by_class_says_what_it_is(has_twins, says):
    one = damagetables.class_sentence({"q0": "digital_clean"}, has_twins)
    assert says in one and "one class, digital clean, so there is nothing to compare" in one
    assert "differ in what stands on them" in damagetables.class_sentence({"q0": "a", "q1": "b"}, has_twins)


# The whole experiment on a page by hand


def test_a_page_read_without_one_sentence_costs_its_question(tmp_path):
    source = typeset("\n\n".join(SENTENCES))
    text, gone = source["a.pdf"].text, SENTENCES[4]
    asked = [
        Query(
            f"q{n}",
            SENTENCES[n],
            (Evidence(Span("a.pdf", text.index(SENTENCES[n]), text.index(SENTENCES[n]) + 50)),),
            origin="human",
        )
        for n in (1, 4)
    ]
    records = [one_page("\n".join(one for one in SENTENCES if one != gone))]
    twin = twins.twin_corpus(source, records)
    mapped, evidence = twins.map_queries(asked, source, twin)
    found = [twins.Twin("hand", "bad", twin, mapped, evidence, twins.fidelity(source, twin, records, "bad"))]
    chunkers = {"sentence": {"max_chars": 60, "overlap": 0}}
    setting = damage.Setting([System("sentence", "bm25")], chunkers, [RULE], Settings(), tmp_path, tmp_path)
    outcome = damage.experiment(source, asked, found, setting)
    rows = damage.waterfall(outcome, found, asked, RULE).set_index("engine")
    assert rows.loc["source", list(damage.STAGES)].tolist() == [2, 2, 2, 2]
    assert rows.loc["hand", list(damage.STAGES)].tolist() == [1, 1, 1, 1]
    assert set(outcome.runs["status"]) == {"ok"}


# Figures


def test_figures_of_damage_say_their_numbers():
    rows = [("s/bm25", "source", "source", 1.0, 0.6, 0.5, 0.7), ("s/bm25", "hand", "bad", 0.5, 0.3, 0.2, 0.4)]
    points = pd.DataFrame(rows, columns=["system", "engine", "level", "word_f1", "mean", "low", "high"])
    options = {"dose": "word_f1", "label": "word F1", "metric": "rr", "caption": "What it shows."}
    shown = damagefigures.dose_response(points, **options)
    assert (
        "s/bm25 hand bad at 0.50 0.30 [0.20, 0.40]" in shown.alt
        and shown.svg == damagefigures.dose_response(points, **options).svg
    )
    with pytest.raises(ValueError, match="more than one row for s/bm25 / source / source"):
        damagefigures.dose_response(pd.concat([points, points]), **options)
    lost = pd.DataFrame([("hand", "bad", 4, 3, 2, 2, 1)], columns=["engine", "level", "pieces", *damage.STAGES])
    fall = damagefigures.evidence_waterfall(lost, caption="Where it goes.")
    assert "hand, bad 25.0% in the top, 25.0% a candidate, below the top, 0.0% in one chunk, no candidate" in fall.alt
    assert "25.0% not in the text" in fall.alt


# The notebook


def params(project, text):
    (project / "params" / "toy" / "45_damage.yml").write_text(text, encoding="utf-8")


def glued(project):
    """Every value the page glues, as text."""
    page = json.loads((project / "runs/toy/base/45_damage.ipynb").read_text(encoding="utf-8"))
    outputs = [
        output
        for cell in page["cells"]
        for output in cell.get("outputs", ())
        if "scrapbook" in output.get("metadata", {})
    ]
    return {output["metadata"]["scrapbook"]["name"]: json.dumps(output["data"]) for output in outputs}


def test_documents_without_twins_get_their_classes_and_the_word_that_it_is_not_causal(project):
    params(project, "models: []\n")
    build.run(project, "toy", "45_damage", say=lambda text: None)
    said = glued(project)
    assert "nothing here is causal" in said["answer"] and "not causal" in said["causal"]
    folder = project / "runs/toy/base/45_damage"
    assert tables.read_csv(folder / "metrics.csv")["base"].unique().tolist() == ["sentence/bm25"]
    assert tables.read_csv(folder / "waterfall.csv")["engine"].unique().tolist() == ["source"]


def test_systems_are_shown_again_with_a_reranker_by_name():
    bases = grid(["sentence"], ["bm25", "hybrid"], ["minilm"])
    systems = damage.with_reranked(bases, "maxsim", {"sentence/hybrid:minilm": 40})
    assert [one.name for one in systems][-1] == "sentence/hybrid:minilm+maxsim@40" and systems[:-1] == bases
    assert damage.with_reranked(bases, "maxsim", {}) == bases
    with pytest.raises(BadInput, match="'sentence/hybrd:minilm' is no system of this run .did you mean"):
        damage.with_reranked(bases, "maxsim", {"sentence/hybrd:minilm": 40})
