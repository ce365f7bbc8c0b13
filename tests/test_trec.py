"""Any run against anyone's judgements: trec_eval's own figures to the printed digit, and every way a file can be wrong."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localeval import cli, trec
from localeval.metrics import measure
from localeval.records import Comparison, Graded
from localeval.trec import Conventions

PROJECT = Path(__file__).resolve().parents[1]
RUNS = PROJECT / "tests" / "trec"
DATA = os.environ.get("LOCALEVAL_DATA", "")
public = pytest.mark.skipif(not DATA, reason="LOCALEVAL_DATA is not set: public collections are not here")
AS_TREC_EVAL = ("--ties", "trec_eval", "--no-relevant", "zero")


def call(*words):
    """Exit code, standard output and standard error of one command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(list(map(str, words)))
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()


def scored(qrels, run, *words):
    code, said, problem = call("score", "--qrels", qrels, "--run", run, "--json", *words)
    assert code == 0, problem
    return json.loads(said)


def means(report):
    return {row["metric"]: row["mean"] for row in report["metrics"]}


def write(folder, qrels, hits, name="a"):
    """qrels: query -> document -> label; hits: query -> document -> score. Paths of both files."""
    judged, run = folder / "qrels.txt", folder / f"{name}.run"
    judged.write_text("".join(f"{q} 0 {d} {v}\n" for q, labels in qrels.items() for d, v in labels.items()))
    rows = [f"{q} Q0 {d} {n} {v} {name}\n" for q, docs in hits.items() for n, (d, v) in enumerate(docs.items(), 1)]
    run.write_text("".join(rows))
    return judged, run


def down(*documents):
    """A ranking of these documents, best first."""
    return {document: float(len(documents) - place) for place, document in enumerate(documents)}


# --- trec_eval's own fixtures ---------------------------------------------------------------------------------------


def ours(name):
    """Our name of a trec_eval measure, empty where we have none."""
    fixed = {
        "map": "map", "Rprec": "r_prec", "bpref": "bpref", "recip_rank": "rr", "ndcg": "ndcg", "set_P": "p", "set_recall": "recall",
        "infAP": "infap",
    }  # fmt: skip
    cuts = {"P": "p", "recall": "recall", "ndcg_cut": "ndcg", "map_cut": "map", "success": "success", "unj": "judged"}
    match = re.fullmatch(r"(\w+?)_(\d+)", name)
    return fixed.get(name) or (f"{cuts[match[1]]}@{match[2]}" if match and match[1] in cuts else "")


def printed(path):
    """(their measure, query) -> printed text, of every measure that we have."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {(row[0], row[1]): row[2] for row in rows if ours(row[0])}


@public
@pytest.mark.parametrize(
    ("output", "qrels", "run", "words", "figures"),
    [
        ("out.test", "qrels.test", "results.test", ("--answered-only",), 13),
        ("out.test.a", "qrels.test", "results.test", ("--answered-only",), 50),
        ("out.test.aq", "qrels.test", "results.test", ("--answered-only",), 200),
        ("out.test.aqc", "qrels.test", "results.trunc", (), 188),
        ("out.test.aqcM", "qrels.test", "results.trunc", ("--max-per-query", "100"), 188),
        ("out.test.aql", "qrels.rel_level", "results.test", ("--level", "2", "--answered-only"), 200),
        ("out.test.meas_params", "qrels.test", "results.test", ("--answered-only",), 44),
    ],
)
def test_every_figure_of_trec_eval_to_the_printed_digit(output, qrels, run, words, figures):
    """Not compared: unj where a query is missing. Theirs fills up with judged documents, ours has nothing to judge."""
    folder = Path(DATA) / "trec_eval_tests"
    theirs = printed(folder / output)
    if run == "results.trunc":
        theirs = {key: text for key, text in theirs.items() if not key[0].startswith("unj")}
    report = scored(
        folder / qrels, folder / run, *AS_TREC_EVAL, *words, "--metrics", *{ours(name) for name, _ in theirs}
    )
    rows = report["per_query"] | {"all": means(report)}
    for (name, query), text in theirs.items():
        value = rows[query][ours(name)]
        assert f"{1 - value if name.startswith('unj') else value:.4f}" == text, (name, query)
    assert len(theirs) == figures


@public
def test_comments_are_skipped_and_a_hash_inside_an_id_is_not_one():
    folder = Path(DATA) / "trec_eval_tests"
    plain, commented = (trec.read_qrels(folder / name) for name in ("qrels.test", "qrels.test.with-comments"))
    assert plain["301"].pop("CR93E-1860") == commented["301"].pop("CR#93E-1860") == 0
    assert plain == commented


def test_comments_that_could_be_data_are_counted(tmp_path):
    qrels, run = write(
        tmp_path, {"#q1": {"d": 1}, "#q2": {"#d": 1}, "q3": {"#d": 1}}, {"q3": down("#d"), "#q1": down("d")}
    )
    qrels.write_text(qrels.read_text() + "# pool of 2\n#a comment of four\n#\n")
    report = scored(qrels, run, "--metrics", "rr")
    no_id = "skipped as a comment: no query id may begin with #"
    assert report["queries"]["judged"] == 1 and means(report) == {"rr": 1.0}
    assert report["notes"] == [
        f"{qrels}: 2 lines beginning with # could be a judgement, {no_id}",
        f"{run}: 1 line beginning with # could be a hit, {no_id}",
    ]
    words = ("compare", "--qrels", qrels, "--run", run, "--run", run)
    assert f"note      {report['notes'][0]}\n" in call(*words)[1]
    assert f"localeval: note: {report['notes'][0]}\n" in call(*words, "--json")[2]
    (tmp_path / "beir").write_text("query-id\tcorpus-id\tscore\n#q\td\t1\n")
    message = r"no judgement in it; .*; 1 line beginning with # could be a judgement"
    assert_refused(message, tmp_path, "score", "--qrels", tmp_path / "beir", "--run", run)


MEASURES = {
    "infAP": "infap",
    "AP": "map",
    "nDCG": "ndcg",
    "P": "p",
    "Success": "success",
    "SetP": "p",
    "SetR": "recall",
}


@public
def test_the_cases_of_ir_measures(tmp_path):
    cases = []
    for file in ("pytrec_eval_cases.json", "gdeval_cases.json"):
        cases += json.loads((Path(DATA) / "ir_measures_cases" / file).read_text())
    compared = 0
    for case in cases:
        match = re.fullmatch(r"(\w+)(?:\(([^)]*)\))?(?: @ (\d+))?", case["measure"])
        if not match or match[1] not in MEASURES or "gains" in (match[2] or ""):
            continue
        qrels, run = tmp_path / "qrels", tmp_path / "run"
        qrels.write_text("\n".join(case["qrels"]))
        run.write_text("\n".join(case["run"]))
        words = ["--level", match[2].removeprefix("rel=")] if (match[2] or "").startswith("rel=") else []
        words += ["--judged-only"] if "judged_only" in (match[2] or "") else []
        words += ["--gain", "exponential"] if case["provider"].startswith("gdeval") else []
        name = MEASURES[match[1]] + (f"@{match[3]}" if match[3] else "")
        report = scored(qrels, run, *AS_TREC_EVAL, *words, "--metrics", name)
        for query, value in case["per_query"]:
            assert report["per_query"][query][name] == pytest.approx(value, abs=1e-4), (case["measure"], query)
        if case["aggregate"] is not None:
            assert means(report)[name] == pytest.approx(case["aggregate"], abs=1e-4)
        compared += 1
    assert compared == 19


@public
def test_the_cases_of_ranx():
    """Not among them: a ranking that repeats a document, which is refused here."""
    graded, plain, _ = json.loads((Path(DATA) / "ir_measures_cases" / "ranx_cases.json").read_text())[1:]
    names = {"ndcg@10": "ndcg_linear", "ndcg_exp@10": "ndcg_exp", "recall@2": "recall@2", "r_prec": "r_precision"}
    for case in (graded, plain):
        for place, documents in enumerate(case["rankings"]):
            got = trec.scores({"q": case["qrels"]}, trec.Run("r", Path("r"), {"q": down(*documents)}), list(names))
            for name, key in names.items():
                if key in case:
                    assert got.values["q"][name] == pytest.approx(case[key][place]), (name, place)


# --- pytrec_eval on random runs -------------------------------------------------------------------------------------

PYTREC = {
    "map": "map", "ndcg": "ndcg", "bpref": "bpref", "r_prec": "Rprec", "rr": "recip_rank", "p@5": "P_5", "recall@10": "recall_10",
    "ndcg@10": "ndcg_cut_10", "success@5": "success_5", "map@5": "map_cut_5", "p": "set_P", "recall": "set_recall",
    "infap": "infAP",
}  # fmt: skip
documents = st.sampled_from([f"d{n}" for n in range(12)] + ["Z", "ä", "e\u0301", "茶"])
close = st.sampled_from([0.0, -1.0, 0.5, 0.5 + 1e-9, 0.5 + 1e-6, 16777216.0, 16777217.0, 1e39, 3e-46])
labelled = st.dictionaries(documents, st.integers(-2, 3), min_size=1)
ranked = st.dictionaries(documents, st.one_of(close, st.floats(-5, 5)), min_size=1)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(labelled, ranked), min_size=1, max_size=3), st.integers(1, 2))
def test_agrees_with_pytrec_eval_ties_and_negative_labels_too(pairs, level):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    pairs = [
        (labels, hits) for labels, hits in pairs if max(labels.values()) >= level - 1
    ]  # theirs reads past its array
    qrels = {f"q{n}": labels for n, (labels, _) in enumerate(pairs)}
    hits = {f"q{n}": found for n, (_, found) in enumerate(pairs)}
    families = {re.sub(r"_\d+$", "", name) for name in PYTREC.values()}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, families, relevance_level=level).evaluate(hits) if pairs else {}
    got = trec.scores(qrels, trec.Run("r", Path("r"), hits), list(PYTREC), Conventions(ties="trec_eval", level=level))
    for query, values in theirs.items():
        for name, their_name in PYTREC.items():
            value = got.values[query][name]
            assert (0.0 if value is None else value) == pytest.approx(values[their_name], abs=1e-9), (query, name)


# --- what a score says beside its value ------------------------------------------------------------------------------


def test_a_missing_query_counts_as_zero_and_is_named(tmp_path):
    qrels = {f"q{n}": {"a": 1} for n in range(1, 5)}
    report = scored(*write(tmp_path, qrels, {"q1": down("a"), "q2": down("b", "a")}), "--metrics", "rr")
    assert means(report) == {"rr": 0.375} and report["metrics"][0]["n"] == 4
    counts = {"judged": 4, "answered": 2, "missing": 2, "not_eligible": 0, "unjudged": 0}
    assert report["queries"] == counts and report["ids"]["missing"] == ["q3", "q4"]
    assert {query: row["rr"] for query, row in report["per_query"].items()} == {"q1": 1, "q2": 0.5, "q3": 0, "q4": 0}
    without = scored(tmp_path / "qrels.txt", tmp_path / "a.run", "--metrics", "rr", "--answered-only")
    assert means(without) == {"rr": 0.75} and without["metrics"][0]["n"] == 2
    assert without["per_query"]["q3"] == {"rr": None} and without["conventions"]["answered_only"]


def test_a_query_without_a_relevant_document_has_no_value(tmp_path):
    files = write(tmp_path, {"q1": {"d": 1}, "q2": {"d": 0}}, {"q1": down("d"), "q2": down("d"), "q9": down("d")})
    report = scored(*files, "--metrics", "ndcg", "map")
    assert means(report) == {"ndcg": 1.0, "map": 1.0} and report["metrics"][0]["n"] == 1
    assert report["per_query"]["q2"] == {"ndcg": None, "map": None}
    assert report["ids"] == {"missing": [], "not_eligible": ["q2"], "unjudged": ["q9"]}
    assert means(scored(*files, "--metrics", "ndcg", "--no-relevant", "zero")) == {"ndcg": 0.5}
    code, said, _ = call("score", "--qrels", files[0], "--run", files[1])
    assert code == 0 and "1 judged, without a relevant document: left out of the mean (q2)" in said
    assert "1 in the run, not judged: ignored (q9)" in said


def test_no_value_is_null_and_never_zero_or_nan(tmp_path):
    files = write(tmp_path, {"q1": {"d": 1}}, {"q1": down("d")})
    code, said, _ = call("score", "--qrels", files[0], "--run", files[1], "--level", 3, "--json", "--metrics", "map")
    (row,) = json.loads(said)["metrics"]
    assert code == 0 and "NaN" not in said and row["n"] == 0
    assert row["mean"] is row["low"] is row["high"] is row["ceiling"] is None and row["note"] == "no values"
    assert "no value" in call("score", "--qrels", files[0], "--run", files[1], "--level", 3, "--metrics", "map")[1]


def test_ties_follow_a_named_rule_and_never_the_order_of_lines(tmp_path):
    hits = {"a": 0.5, "m": 0.5, "z": 0.5}
    for names, doc_order, trec_eval in ((hits, 0.5, 0.5), ({"a": 0.5, "zz": 0.5, "z": 0.5}, 1 / 3, 1.0)):
        relevant = "zz" if "zz" in names else "m"
        for order in (names, dict(reversed(names.items()))):
            files = write(tmp_path, {"q": {relevant: 1}}, {"q": order})
            assert means(scored(*files, "--metrics", "rr")) == {"rr": pytest.approx(doc_order)}
            report = scored(*files, "--metrics", "rr", "--ties", "trec_eval")
            assert means(report) == {"rr": pytest.approx(trec_eval)} and report["ties"] == "trec_eval"
            assert any("the tie rule decides (q)" in note for note in report["notes"])
    _, said, _ = call("score", "--qrels", files[0], "--run", files[1])
    assert "ties      doc_order:" in said and "the rank column is ignored" in said


def test_ties_of_single_precision_are_noted_under_that_rule(tmp_path):
    files = write(tmp_path, {"q": {"a": 1, "b": 0}}, {"q": {"a": 1.00000002, "b": 1.00000001}})
    assert means(scored(*files, "--metrics", "rr")) == {"rr": 1.0} and not scored(*files, "--metrics", "rr")["notes"]
    report = scored(*files, "--metrics", "rr", "--ties", "trec_eval")
    assert means(report) == {"rr": 0.5}
    assert report["notes"] == ["equal scores with different labels in 1 of 1 queries: the tie rule decides (q)"]


RISES = "the score rises with the rank in every query: distances, or score and rank swapped?"
COUNTS = "scores count 1, 2, 3 in every query and ranks are fractions: distances, or score and rank swapped?"


@pytest.mark.parametrize(
    ("columns", "note"),
    [
        (["1 0.1", "2 0.2", "3 0.2"], RISES),
        (["3 0.3", "1 0.1", "2 0.2"], RISES),
        (["1 1", "2 2", "3 3"], RISES),
        (["0.9 1", "0.8 2", "0.7 3"], COUNTS),
        (["0.9 0", "0.8 1", "0.7 2"], COUNTS),
        (["1 3", "2 2", "3 1"], ""),
        (["1 0.3", "2 0.1", "3 0.2"], ""),
        (["0 0.1", "0 0.2", "0 0.3"], ""),
        (["x 0.1", "x 0.2", "x 0.3"], ""),
        (["1 5", "2 5", "3 5"], ""),
    ],
)
def test_ranks_that_say_the_opposite_of_every_score_are_noted(tmp_path, columns, note):
    files = write(tmp_path, {"q1": {"d0": 1}, "q2": {"d0": 1}}, {})
    rows = [f"q1 Q0 d{place} {pair} x\n" for place, pair in enumerate(columns)]
    for more in ("", "q2 Q0 d0 1 7 x\n", "".join(rows).replace("q1", "q2")):
        files[1].write_text("".join(rows) + more)
        notes = [text for text in scored(*files, "--metrics", "rr")["notes"] if "swapped?" in text]
        assert len(notes) == bool(note) and all(text.startswith(f"{files[1]}: {note}") for text in notes)
    files[1].write_text("".join(rows) + "q2 Q0 d0 1 0.9 x\nq2 Q0 d1 2 0.1 x\n")  # one query that agrees is enough
    assert not any("swapped?" in text for text in scored(*files, "--metrics", "rr")["notes"])


def test_the_rank_column_decides_nothing(tmp_path):
    files = write(tmp_path, {"q": {"a": 1}}, {"q": down("a", "b")})
    files[1].write_text("q Q0 b 1 0.1 x\nq Q0 a 2 0.9 x\n")
    assert means(scored(*files, "--metrics", "rr")) == {"rr": 1.0}


def test_single_precision_is_trec_evals_and_not_ours():
    hits = {"a": 16777217.0, "b": 16777216.0}
    assert trec.rank(hits) == ["a", "b"] and trec.rank(hits, "trec_eval") == ["b", "a"]


def test_the_gain_is_named_and_both_are_reachable(tmp_path):
    files = write(tmp_path, {"q": {"mug": 3, "jar": 1, "pan": 2}}, {"q": down("jar", "mug", "pan")})
    linear, exponential = (scored(*files, "--metrics", "ndcg@3", "--gain", gain) for gain in trec.GAINS)
    assert means(linear)["ndcg@3"] == pytest.approx(0.8175, abs=5e-5) and linear["metrics"][0]["gain"] == "linear"
    assert means(exponential)["ndcg@3"] == pytest.approx(0.7364, abs=5e-5)
    assert exponential["metrics"][0]["gain"] == "exponential"
    assert means(scored(*files, "--metrics", "ndcg_exp@3"))["ndcg_exp@3"] == means(exponential)["ndcg@3"]
    assert "ndcg gains 2^label - 1 (exponential)" in call(
        "score", "--qrels", files[0], "--run", files[1], "--gain", "exponential"
    )[1]  # fmt: skip


def test_the_level_is_explicit_and_leaves_ndcg_alone(tmp_path):
    files = write(tmp_path, {"q": {"a": 3, "b": 1}}, {"q": down("b", "a")})
    one, two = (means(scored(*files, "--metrics", "rr", "ndcg@2", "--level", level)) for level in (1, 2))
    assert (one["rr"], two["rr"]) == (1.0, 0.5)
    assert one["ndcg@2"] == two["ndcg@2"] == pytest.approx(0.7967, abs=5e-5)


def test_labels_below_zero_are_no_judgement(tmp_path):
    files = write(tmp_path, {"q": {"a": 1, "b": -1, "c": 0}}, {"q": down("b", "c", "a")})
    report = scored(*files, "--metrics", "judged@3", "bpref", "ndcg")
    assert means(report) == {"judged@3": 2 / 3, "bpref": 0.0, "ndcg": pytest.approx(0.5)}
    assert "labels below 0: 1; they are read as no judgement" in report["notes"]
    said = scored(*files, "--metrics", "infap")["notes"]
    assert any("infap reads them as pooled" in note for note in said), said


def test_what_nobody_judged_is_shown_beside_the_scores(tmp_path):
    hits = down(*(f"n{n}" for n in range(10)))
    files = write(tmp_path, {"q": {"n1": 0, "n2": 1}}, {"q": hits})
    report = scored(*files)
    assert means(report)["judged@10"] == 0.2 and means(report)["rr@10"] == pytest.approx(1 / 3)
    only = scored(*files, "--judged-only", "--metrics", "rr")
    assert means(only) == {"rr": 0.5} and only["conventions"]["judged_only"]
    assert "judged documents only" in call("score", "--qrels", files[0], "--run", files[1], "--judged-only")[1]


@pytest.mark.parametrize("words", [(), ("--no-relevant", "zero")])
def test_judged_asks_for_no_relevant_document(tmp_path, words):
    files = write(tmp_path, {"q1": {"d1": 1}, "q2": {"d1": 0, "d2": 0}}, {q: down("d1", "d2") for q in ("q1", "q2")})
    report = scored(*files, "--metrics", "judged@10", "map", *words)
    assert [report["per_query"][query]["judged@10"] for query in ("q1", "q2")] == [0.5, 1.0]
    judged, precise = report["metrics"]
    assert (judged["n"], judged["mean"], judged["ceiling"], judged["not_eligible"]) == (2, 0.75, 1.0, 0)
    assert (precise["n"], precise["mean"], precise["not_eligible"]) == ((2, 0.5, 1) if words else (1, 1.0, 1))


def test_counts_are_true_of_every_metric(tmp_path):
    """ndcg reads labels of any level, as trec_eval -l does; judged reads all labels."""
    qrels = {"q1": {"a": 2}, "q2": {"a": 1}, "q3": {"a": 0}}
    files = write(tmp_path, qrels, dict.fromkeys(qrels, down("a")))
    words = ("--level", "2", "--metrics", "map", "ndcg", "judged")
    report = scored(*files, *words)
    assert [(row["n"], row["not_eligible"]) for row in report["metrics"]] == [(1, 2), (2, 1), (3, 0)]
    assert report["ids"]["not_eligible"] == ["q2", "q3"]
    _, said, _ = call("score", "--qrels", files[0], "--run", files[1], *words)
    assert (
        "2 judged, without a relevant document (label 2 or more): left out of the mean (q2, q3); "
        "ndcg has a value for 1 of 2; judged has a value for 2 of 2\n"
    ) in said
    assert "ndcg gains the label (linear), whatever the level\n" in said
    files[1].write_text("q1 Q0 a 1 1 x\n")
    words = ("score", "--qrels", files[0], "--run", files[1], "--metrics", "map")
    assert "2 judged, not in the run: counted as 0 unless empty (q2, q3)\n" in call(*words)[1]
    assert "2 judged, not in the run: counted as 0 (q2, q3)\n" in call(*words, "--no-relevant", "zero")[1]
    assert compared("--qrels", files[0], "--run", files[1], "--run", files[1], "--level", 2)["n"] == 2


def test_the_best_possible_mean_stands_beside_the_mean(tmp_path):
    relevant = [f"r{n:02}" for n in range(30)]
    files = write(tmp_path, {"q": dict.fromkeys(relevant, 1)}, {"q": down(*relevant[:10])})
    report = scored(*files, "--metrics", "recall@10", "p@40", "ndcg@10")
    assert means(report)["recall@10"] == pytest.approx(1 / 3)
    assert [row["ceiling"] for row in report["metrics"]] == pytest.approx([1 / 3, 0.75, 1.0])
    assert "p@40: the longest ranking of the run has 10 hits" in report["notes"]


def test_the_best_possible_run_is_as_deep_as_what_is_read(tmp_path):
    relevant = [f"r{n}" for n in range(10)]
    files = write(tmp_path, {"q": dict.fromkeys(relevant, 1)}, {"q": down(*relevant)})
    names = ["recall@100", "map", "r_prec", "bpref", "p@10", "rr", "judged@10", "ndcg"]
    rows = scored(*files, "--max-per-query", "5", "--metrics", *names)["metrics"]
    best = {row["metric"]: row["ceiling"] for row in rows}
    assert best == {row["metric"]: row["mean"] for row in rows}  # this run is the best possible one
    assert [best.pop(name) for name in names[:-1]] == [0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0] and 0.5 < best["ndcg"] < 1


@given(labelled, ranked, st.integers(1, 5), st.integers(1, 2), st.none() | st.integers(1, 4), st.booleans())
def test_no_run_beats_the_best_possible_one(labels, hits, cut, level, depth, judged_only):
    names = [name if name in ("r_prec", "bpref", "infap") else f"{name}@{cut}" for name in trec.METRICS]
    how = Conventions(level=level, depth=depth, judged_only=judged_only)
    got = trec.scores({"q": labels}, trec.Run("r", Path("r"), {"q": hits}), names, how)
    for name, value in got.values["q"].items():
        assert value is None or 0 <= value <= got.ceiling["q"][name] + 1e-12, name


def test_documents_that_never_match_are_said_aloud(tmp_path):
    report = scored(*write(tmp_path, {"q": {"d1": 1}}, {"q": down("1", "2")}))
    assert "no document of the run is judged for its query (run: 1, 2; judged: d1)" in report["notes"]


def test_the_order_of_lines_never_matters(tmp_path):
    files = RUNS / "qrels.txt", RUNS / "bm25.run"
    turned = []
    for path in files:
        turned.append(tmp_path / path.name)
        turned[-1].write_text("\n".join(reversed(path.read_text().splitlines())))
    assert scored(*files) == scored(*turned)


# --- two runs --------------------------------------------------------------------------------------------------------


def compared(*words):
    code, said, problem = call("compare", *words, "--json")
    assert code == 0, problem
    return json.loads(said)


def test_a_comparison_is_second_minus_first_and_mirrors(tmp_path):
    runs = RUNS / "bm25.run", RUNS / "dense.run"
    forth, back = (
        compared("--qrels", RUNS / "qrels.txt", "--run", one, "--run", two) for one, two in (runs, runs[::-1])
    )
    assert list(forth) == list(Comparison.__dataclass_fields__) and forth["rule"] == "trec"
    assert (forth["baseline"], forth["candidate"], forth["n"]) == ("bm25", "dense", 8)
    values = [scored(RUNS / "qrels.txt", run, "--metrics", "ndcg@10") for run in runs]
    assert forth["delta"] == pytest.approx(means(values[1])["ndcg@10"] - means(values[0])["ndcg@10"])
    assert (back["delta"], back["low"], back["high"]) == pytest.approx((-forth["delta"], -forth["high"], -forth["low"]))
    assert back["p_value"] == forth["p_value"] and forth["mde"] > 0 and forth["p_adjusted"] is None


def test_a_run_against_itself_differs_by_nothing(tmp_path):
    run = RUNS / "bm25.run"
    got = compared("--qrels", RUNS / "qrels.txt", "--run", run, "--run", run, "--metric", "map")
    assert (got["delta"], got["p_value"], got["low"], got["mde"]) == (0.0, 1.0, None, None)
    _, said, _ = call("compare", "--qrels", RUNS / "qrels.txt", "--run", run, "--run", run)
    assert "no interval" in said and "the differences do not vary" in said


def test_runs_of_one_tag_are_told_apart_by_their_files(tmp_path):
    copy = tmp_path / "again.run"
    copy.write_text((RUNS / "bm25.run").read_text())
    got = compared("--qrels", RUNS / "qrels.txt", "--run", RUNS / "bm25.run", "--run", copy)
    assert (got["baseline"], got["candidate"]) == ("bm25.run", "again.run")


def test_a_query_one_run_leaves_out_is_its_zero_and_is_named():
    _, said, _ = call("compare", "--qrels", RUNS / "qrels.txt", "--run", RUNS / "bm25.run", "--run", RUNS / "dense.run")
    assert "candidate dense: 1 of 9 judged queries missing, counted as 0 (bread-4)" in said
    assert "verdict     not separated" in said


# --- files as they are -----------------------------------------------------------------------------------------------


def test_beir_judgements_line_ends_marks_and_packing(tmp_path):
    wanted = {"q1": {"a b": 1, "c": 0}, "q2": {"c": 2}}
    beir = "\ufeffquery-id\tcorpus-id\tscore\r\nq1\ta b\t1\r\nq1\tc\t0\r\n\r\nq2\tc\t2"
    (tmp_path / "test.tsv").write_bytes(beir.encode())
    (tmp_path / "test.tsv.gz").write_bytes(gzip.compress(beir.encode()))
    assert trec.read_qrels(tmp_path / "test.tsv") == trec.read_qrels(tmp_path / "test.tsv.gz") == wanted
    (tmp_path / "q.txt").write_bytes("\ufeff# pool of 2\r\n\r\n  q1\t0  a\u00a0b\t1\r\n".encode())
    assert trec.read_qrels(tmp_path / "q.txt") == {"q1": {"a\u00a0b": 1}}


@public
def test_a_beir_collection_is_read_whole():
    qrels = trec.read_qrels(Path(DATA) / "scifact" / "qrels" / "test.tsv")
    assert (len(qrels), sum(map(len, qrels.values()))) == (300, 339)


def test_the_same_judgement_twice_is_one(tmp_path):
    (tmp_path / "q").write_text("q1 0 a 1\nq1 1 a 1\n")
    assert trec.read_qrels(tmp_path / "q") == {"q1": {"a": 1}}


def test_words_after_the_tag_are_skipped_and_mixed_tags_give_the_name_of_the_file(tmp_path):
    (tmp_path / "r.run").write_text("q Q0 a 1 2.5 one and more\nq Q0 b 2 1e-3 two\n")
    run = trec.read_run(tmp_path / "r.run")
    assert (run.name, run.hits) == ("r.run", {"q": {"a": 2.5, "b": 0.001}})


BAD_QRELS = {
    "three columns": ("q1 a 1", "3 columns; qrels have 4: query iteration document label; a BEIR file begins with"),
    "a run": ("q1 Q0 a 1 0.5 x", "6 columns; qrels have 4.*are --qrels and --run the wrong way round?"),
    "a fraction": ("q1 0 a 0.5", "label '0.5' is not a whole number"),
    "a float": ("q1 0 a 1.0", "label '1.0' is not a whole number"),
    "a word": ("q1 0 a yes", "label 'yes' is not a whole number"),
    "a gap": ("q1 0 a 1_0", "label '1_0' is not a whole number"),
    "400 digits": (f"q1 0 a {'9' * 400}", r"label '9{57}\.\.\.' is not a whole number of up to 15 digits"),
    "5000 digits": (f"q1 0 a -{'9' * 5000}", "is not a whole number of up to 15 digits"),
    "JSON": ('{"q1": {"a": 1}}', "3 columns; qrels have 4: .*; this looks like JSON: write plain columns"),
    "JSON of four words": ('{"q": "q1", "d": "a"}', "label .* is not .*; this looks like JSON"),
    "CSV": ("query-id,corpus-id,score", "1 column; .*; this looks like CSV: part the columns by tabs or blanks"),
    "CSV with semicolons": ("q1;0;a;1", "1 column; .*; this looks like CSV"),
    "two labels": ("q0 0 x 2", "'x' has label 2 for query 'q0', and label 1 on line 1; keep one"),
    "latin-1": ("q1 0 caf\udce9 1", r"not UTF-8 \(byte 17\); save it as UTF-8"),
}
BAD_RUNS = {
    "five columns": ("q1 Q0 a 1 0.5", "5 columns; a run has 6: query Q0 document rank score tag"),
    "one column": ("q1", "1 column; a run has 6"),
    "judgements": ("q1 0 a 1", "4 columns; a run has 6.*are --qrels and --run the wrong way round?"),
    "a blank in an id": ("q1 Q0 a b 1 0.5 x", "7 columns; a run has 6.*no id may hold a blank"),
    "a word": ("q1 Q0 a 1 high x", "score 'high' is not a finite number; column 5"),
    "nan": ("q1 Q0 a 1 NaN x", "score 'NaN' is not a finite number"),
    "inf": ("q1 Q0 a 1 -inf x", "score '-inf' is not a finite number"),
    "overflow": ("q1 Q0 a 1 1e999 x", "score '1e999' is not a finite number"),
    "JSON": ('{"q1": {"a": 0.5}}', "3 columns; a run has 6: .*; this looks like JSON"),
    "JSON of six words": (
        '{"q": "q1", "d": "a", "s": 0.5}',
        "score .* is not a finite number; .*; this looks like JSON",
    ),
    "CSV": ("q1,Q0,a,1,0.5,x", "1 column; .*; this looks like CSV"),
    "a comma": ("q1 Q0 a 1 0,5 x", "score '0,5' is not a finite number"),
    "a document twice": ("q0 Q0 x 2 0.4 x", r"'x' again for query 'q0' \(first on line 1\); keep its best score only"),
    "latin-1": ("q1 Q0 \udce9 1 1 x", "not UTF-8"),
}


@pytest.mark.parametrize("what", BAD_QRELS)
def test_bad_judgements_are_one_line_with_its_number(tmp_path, what):
    line, message = BAD_QRELS[what]
    _, run = write(tmp_path, {}, {"q0": down("x")})
    (tmp_path / "bad").write_bytes(f"q0 0 x 1\n{line}\n".encode(errors="surrogateescape"))
    assert_refused(message, f"{tmp_path}/bad:2: ", "score", "--qrels", tmp_path / "bad", "--run", run)


@pytest.mark.parametrize("what", BAD_RUNS)
def test_bad_runs_are_one_line_with_its_number(tmp_path, what):
    line, message = BAD_RUNS[what]
    qrels, _ = write(tmp_path, {"q0": {"x": 1}}, {})
    (tmp_path / "bad").write_bytes(f"q0 Q0 x 1 0.5 x\n{line}\n".encode(errors="surrogateescape"))
    assert_refused(message, f"{tmp_path}/bad:2: ", "score", "--qrels", qrels, "--run", tmp_path / "bad")
    good = ("--run", RUNS / "bm25.run", "--run", tmp_path / "bad")
    assert_refused(message, f"{tmp_path}/bad:2: ", "compare", "--qrels", qrels, *good)


def assert_refused(message, start, *words):
    code, said, problem = call(*words)
    assert code == 2 and not said and len(problem.splitlines()) == 1, problem
    assert problem.startswith(f"localeval: {start}") and re.search(message, problem), problem


def test_files_that_hold_nothing_or_are_not_there(tmp_path):
    qrels, run = write(tmp_path, {"q": {"a": 1}}, {"q": down("a")})
    (tmp_path / "empty").write_text("# nothing\n\n")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(run.read_bytes())[:20])
    for words, message in {
        (tmp_path / "empty", run): "empty: no judgement in it; write lines of query iteration",
        (qrels, tmp_path / "empty"): "empty: no hit in it; write lines of query Q0",
        (tmp_path / "none", run): "none: no such file",
        (tmp_path, run): "a folder; name a file",
        (qrels, tmp_path / "cut.gz"): "cut.gz: cannot be read",
    }.items():
        assert_refused(message, tmp_path, "score", "--qrels", words[0], "--run", words[1])


def test_ids_that_never_match_are_shown_from_both_sides(tmp_path):
    qrels, run = write(tmp_path, {f"q{n}": {"a": 1} for n in range(5)}, {str(n): down("a") for n in range(2)})
    message = r"none of its queries \(0, 1\) is judged in .*qrels.txt \(q0, q1, q2 and 2 more\)"
    assert_refused(message, run, "score", "--qrels", qrels, "--run", run)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--metrics", "ndgc@10"), r"unknown metric 'ndgc@10' \(did you mean 'ndcg@10'\?\)"),
        (("--metrics", "ndcg_cut_10"), r"did you mean 'ndcg@10'\?"),
        (("--metrics", "recip_rank"), r"did you mean 'rr'\?"),
        (("--metrics", "Rprec"), r"did you mean 'r_prec'\?"),
        (("--metrics", "P_5"), r"did you mean 'p@5'\?"),
        (("--metrics", "bpref@10"), "bpref reads the whole ranking and takes no cut; write bpref"),
        (("--metrics", "evidence_recall@10"), "needs evidence as spans"),
        (("--metrics", " "), "unknown metric ''"),
        (("--metrics", f"ndcg@{'9' * 5000}"), r"^localeval: ndcg@9{9}\.\.\.: a cut of 5000 digits"),
        (("--run", "x"), "score takes one run; for two there is localeval compare"),
    ],
)
def test_what_cannot_be_asked_is_one_line(words, message):
    assert_refused(message, "", "score", "--qrels", RUNS / "qrels.txt", "--run", RUNS / "bm25.run", *words)


def test_every_metric_that_is_asked_is_given():
    words = ("score", "--qrels", RUNS / "qrels.txt", "--run", RUNS / "bm25.run", "--json")
    report = json.loads(call(*words, "--metrics", "rr", "map", "--metrics", "p@1")[1])
    assert list(means(report)) == ["rr", "map", "p@1"]


def test_an_option_that_takes_one_value_is_not_given_twice():
    words = ("compare", "--qrels", RUNS / "qrels.txt", "--run", RUNS / "bm25.run", "--run", RUNS / "dense.run")
    for option, value in (("--metric", "map"), ("--qrels", "other")):
        code, said, problem = call(*words, "--metric", "ndcg@10", option, value)
        assert code == 2 and not said and f"argument {option}: given twice; compare takes one" in problem
    assert_refused("a cut of 5000 digits", "", *words, "--metric", f"p@{'1' * 5000}")


@pytest.mark.parametrize("words", [("--level", "0"), ("--max-per-query", "-1"), ("--ties", "rank"), ("--gain", "log")])
def test_options_out_of_range_are_refused(words):
    code, _, problem = call("score", "--qrels", RUNS / "qrels.txt", "--run", RUNS / "bm25.run", *words)
    assert code == 2 and words[0] in problem


def test_compare_needs_two_runs_and_something_to_compare(tmp_path):
    run = RUNS / "bm25.run"
    assert_refused("takes two runs, found 1", "--run", "compare", "--qrels", RUNS / "qrels.txt", "--run", run)
    qrels, run = write(tmp_path, {"q": {"a": 0}}, {"q": down("a")})
    words = ("--qrels", qrels, "--run", run, "--run", run)
    assert_refused("no judged query has a relevant document", "", "compare", *words)


def test_a_label_too_high_for_a_power_of_two_is_refused(tmp_path):
    qrels, run = write(tmp_path, {"q": {"a": 5000}}, {"q": down("a")})
    words = ("score", "--qrels", qrels, "--run", run, "--metrics", "ndcg")
    assert means(json.loads(call(*words, "--json")[1])) == {"ndcg": 1.0}
    assert_refused("too high for the gain", "label 5000", *words, "--gain", "exponential")


# --- pipes and terminals ---------------------------------------------------------------------------------------------


def test_judgements_and_runs_may_come_through_pipes(tmp_path):
    qrels, run = RUNS / "qrels.txt", RUNS / "bm25.run"
    pipes = tmp_path / "qrels", tmp_path / "run"
    for pipe, path in zip(pipes, (qrels, run), strict=True):
        os.mkfifo(pipe)
        threading.Thread(target=pipe.write_bytes, args=(path.read_bytes(),), daemon=True).start()
    assert scored(*pipes) == scored(qrels, run)
    os.mkfifo(tmp_path / "twice")
    text = "q1 0 a 1\nq1 0 a 2\n"
    threading.Thread(target=(tmp_path / "twice").write_text, args=(text,), daemon=True).start()
    words = ("score", "--qrels", tmp_path / "twice", "--run", run)
    assert_refused("label 2 for query 'q1', and label 1 on line 1", tmp_path, *words)
    assert_refused("/dev/zero: neither a file nor a pipe", "", "score", "--qrels", "/dev/zero", "--run", run)


def test_pages_do_not_come_through_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "page.pdf")
    assert_refused("a pipe or a device", tmp_path, "quality", tmp_path / "page.pdf")


def outside(*words, encoding="utf-8"):
    """The same command in a process of its own."""
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "localeval", *map(str, words)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_ids_that_the_output_cannot_show_are_escaped(tmp_path):
    qrels, run = write(tmp_path, {"q-茶": {"a": 1}, "q2": {"a": 1}}, {"q2": down("a")}, "thé")
    for command in (("score",), ("compare", "--run", run)):
        words = (*command, "--qrels", qrels, "--run", run)
        out, problem = outside(*words, encoding="ascii").communicate()
        assert rb"q-\u8336" in out and rb"th\xe9" in out and not problem
        out, problem = outside(*words, "--json", encoding="ascii").communicate()
        assert json.loads(out) == json.loads(call(*words, "--json")[1]) and not problem


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_reader_who_has_seen_enough_is_no_error(form):
    process = outside("score", "--qrels", RUNS / "qrels.txt", "--run", RUNS / "bm25.run", "--per-query", *form)
    process.stdout.close()  # before anything is written
    assert process.stderr.read() == b"" and process.wait() == 0
    process.stderr.close()


# --- metrics by hand -------------------------------------------------------------------------------------------------


def gained(*gains, ideal, ranked=None):
    """None is a rank nobody judged."""
    sparse = tuple((place, float(gain)) for place, gain in enumerate(gains, 1) if gain is not None)
    return Graded("q", "scored", sparse, ideal=tuple(map(float, ideal)), ranked=ranked or len(gains))


@pytest.mark.parametrize(
    ("graded", "name", "value"),
    [
        # three relevant, two of them among the first three
        (gained(1, 0, 1, 1, ideal=[1, 1, 1, 0]), "r_prec", 2 / 3),
        (gained(1, None, ideal=[1, 1, 1]), "r_prec", 1 / 3),
        (gained(None, None, ideal=[]), "r_prec", 0.0),
        # R = 2, N = 2: the first loses nothing, the second one of two; the unjudged rank does not count
        (gained(1, None, 0, 1, 0, ideal=[1, 1, 0, 0]), "bpref", (1 + 1 / 2) / 2),
        # R = 1, N = 3: one judged non-relevant above takes everything
        (gained(0, 1, ideal=[1, 0, 0, 0]), "bpref", 0.0),
        # R = 3, N = 1, one not found: the smaller of both divides
        (gained(1, 0, 1, ideal=[1, 1, 1, 0]), "bpref", (1 + 0) / 3),
        # nothing judged not relevant: the share found
        (gained(None, 1, ideal=[1, 1]), "bpref", 0.5),
        (gained(1, None, 0, None, ideal=[1, 0]), "judged@2", 0.5),
        (gained(1, None, 0, None, ideal=[1, 0]), "judged", 0.5),
        # three came back, all judged: the cut of ten does not matter
        (gained(1, 0, 0, ideal=[1, 0, 0]), "judged@10", 1.0),
        (gained(ideal=[1]), "judged@10", 0.0),
        (gained(0, 1, 1, ideal=[1, 1, 0]), "map", (1 / 2 + 2 / 3) / 2),
        (gained(0, 1, 1, ideal=[1, 1, 0]), "map@2", (1 / 2) / 2),
    ],
)  # fmt: skip
def test_worked_examples(graded, name, value):
    assert measure(graded, name) == pytest.approx(value)


# --- pages of any PDF ------------------------------------------------------------------------------------------------


def test_pages_and_documents_are_judged_and_failures_are_listed(tmp_path):
    (tmp_path / "good.md").write_text("# Bread\n\n" + "The dough rests in a bowl until it has doubled in size. " * 20)
    (tmp_path / "page.pdf").write_bytes(b"<html>saved as pdf</html>")
    code, said, _ = call("quality", tmp_path, "--json")
    report = json.loads(said)
    assert code == 0 and [document["doc_id"] for document in report["documents"]] == ["good.md"]
    assert report["documents"][0]["verdict"] == report["pages"][0]["class"] == "digital_clean"
    (failure,) = report["failures"]
    assert failure["doc_id"] == "page.pdf" and "not a PDF" in failure["reason"]
    code, said, _ = call("quality", tmp_path)
    assert code == 0 and "good.md: digital_clean" in said and "1 document read, 1 not" in said


def test_one_file_nothing_readable_and_no_path(tmp_path):
    (tmp_path / "page.pdf").write_bytes(b"<html>saved as pdf</html>")
    code, said, _ = call("quality", tmp_path / "page.pdf")
    assert code == 1 and "not read:" in said and "not a PDF" in said
    assert json.loads(call("quality", tmp_path, "--json")[1])["documents"] == []
    assert_refused("no such file or folder", tmp_path, "quality", tmp_path / "none")
    (tmp_path / "nothing").mkdir()
    assert_refused("put the documents there", tmp_path, "quality", tmp_path / "nothing")
    code, said, _ = call("quality", PROJECT / "data/handbook/corpus/calendars.pdf", "--json")
    assert code == 0 and len(json.loads(said)["pages"]) == 9


def test_a_scan_without_text_is_a_finding_and_not_a_failure(tmp_path):
    import pymupdf

    document = pymupdf.open()
    page = document.new_page()
    page.insert_image(page.rect, pixmap=pymupdf.Pixmap(pymupdf.csGRAY, pymupdf.IRect(0, 0, 60, 80)))
    document.save(tmp_path / "scan.pdf")
    code, said, _ = call("quality", tmp_path)
    assert code == 0 and "likely_scanned" in said and "scan.pdf: mixed_quality" in said and "1 page," in said
    assert "\n1 page with a text that OCR might better: 10_ingest of a study tries it, after 'make ocr'\n" in said
    (tmp_path / "note.md").write_text("zzz qqq " * 40, encoding="utf-8")
    code, said, _ = call("quality", tmp_path / "note.md")
    assert code == 0 and "digital_noisy" in said and "OCR might" not in said, "no engine reads a text file"


# --- pages of the report ---------------------------------------------------------------------------------------------


def consoles(page):
    text = (PROJECT / page).read_text(encoding="utf-8")
    return [block for block in re.findall(r"```console\n(.*?)```", text, re.S) if "localeval " in block]


def test_the_page_shows_what_the_commands_print(monkeypatch):
    monkeypatch.chdir(PROJECT)
    shown = consoles("book/scoring.md")
    assert len(shown) == 2
    for block in shown:
        command, _, output = block.partition("\n")
        code, said, _ = call(*shlex.split(command.removeprefix("$ .venv/bin/localeval ")))
        assert code == 0 and said == output


def test_the_commands_of_the_readme_run(monkeypatch):
    monkeypatch.chdir(PROJECT)
    lines = [line for block in consoles("README.md") for line in block.splitlines()]
    ours = [
        shlex.split(line.partition("localeval ")[2])
        for line in lines
        if re.search(r"localeval (score|compare|quality)", line)
    ]
    assert [words[0] for words in ours] == ["score", "compare", "quality"]
    assert [call(*words)[0] for words in ours] == [0, 0, 0]


@pytest.mark.parametrize("command", ["score", "compare", "quality"])
def test_help_teaches(command):
    code, said, _ = call(command, "--help")
    assert code == 0 and "--json" in said
    if command != "quality":
        assert "query Q0 document rank score tag" in said and "trec_eval" in said


def test_no_project_is_needed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOCALEVAL_ROOT", raising=False)
    qrels, run = write(tmp_path, {"q": {"a": 1}}, {"q": down("a")})
    assert call("score", "--qrels", qrels.name, "--run", run.name)[0] == 0
