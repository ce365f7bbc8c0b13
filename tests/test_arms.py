"""Arms: what they must rank, that they are no systems, and that the duplicate differs nowhere."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd
import pytest

from localeval import arms, stats, views
from localeval.chunking import chunk_corpus
from localeval.corpus import load
from localeval.grading import Units
from localeval.records import BadInput, Evidence, Hit, Query, Span, System, Unit
from localeval.systems import Engines, Settings

METRICS = ["evidence_ndcg@10", "p@1", "rr"]
DOCUMENTS = {
    "tea.md": "# Brewing tea\n\n## Green tea\n\nPour at eighty degrees, wait two.\n\n## Black tea\n\nPour boiling, wait four minutes.\n",
    "bread.md": "# Baking bread\n\n## Sourdough\n\nFeed the starter the evening before.\n\n## Rye\n\nScald the flour with hot water.\n",
}
ANSWERS = {
    "q1": ("How hot for green tea?", "tea.md", "Pour at eighty degrees"),
    "q2": ("When is the starter fed?", "bread.md", "Feed the starter"),
    "q3": ("What is scalded?", "bread.md", "Scald the flour"),
    "q4": ("How long does black tea draw?", "tea.md", "wait four minutes"),
}


@pytest.fixture
def study(tmp_path):
    (tmp_path / "corpus").mkdir()
    for name, text in DOCUMENTS.items():
        (tmp_path / "corpus" / name).write_text(text, encoding="utf-8")
    corpus = load(tmp_path / "corpus")
    chunks = chunk_corpus(corpus, {"section": {"max_chars": 120, "overlap": 0}})
    engines = Engines(corpus, chunks, Settings(), tmp_path / "cache", tmp_path)
    queries = []
    for name, (text, doc, quote) in ANSWERS.items():
        start = corpus[doc].text.index(quote)
        queries.append(
            Query(name, text, (Evidence(Span(doc, start, start + len(quote)), quote=quote),), origin="human")
        )
    queries.append(Query("none", "Who invented coffee?", (), origin="human"))
    return engines, queries


SYSTEMS = (System("section", "random"), System("section", "bm25"))


def run(study, names=tuple(arms.ARMS), systems=SYSTEMS, ran=None):
    engines, queries = study
    ran = [system.name for system in systems] if ran is None else ran
    return arms.measure(
        names, systems, ran, queries, engines, rule="chunk/contains", metric_names=METRICS, origin="human", repeats=2
    )


def test_the_oracle_is_the_ceiling_and_the_duplicate_the_floor_of_noise(study):
    rows = run(study).rows.set_index(["arm", "metric"])
    assert (rows.loc["oracle", "mean"] == 1).all()
    for arm in arms.ARMS:
        assert (rows.loc[arm, "mean"] <= rows.loc["oracle", "mean"]).all()
    assert (rows.loc["duplicate", "differing"] == 0).all() and (rows.loc["duplicate", "delta"] == 0).all()
    assert rows.loc[("reversed", "rr"), "mean"] < rows.loc[("engine", "rr"), "mean"]
    assert (rows["n"] == 4).all()  # the unanswerable question is in no mean


def test_an_arm_that_differs_would_show(study, monkeypatch):
    """A duplicate that answered otherwise: the table counts the questions."""
    outcome = run(study)
    broken = outcome.scores.copy()
    twin = (broken["system"] == "section/bm25~duplicate") & (broken["query_id"] == "q1")
    broken.loc[twin, "value"] -= 0.25
    rows = arms.table(["duplicate"], broken, System("section", "bm25"), METRICS, "human").set_index(["arm", "metric"])
    assert (rows.loc["duplicate", "differing"] == 1).all()
    told = arms.sentence(arms.Outcome("section/bm25", rows.reset_index(), broken, outcome.latency))
    assert told.startswith("Of 12 values of the duplicate 3 differ")


def test_names_say_that_arms_are_no_systems(study):
    outcome = run(study)
    assert outcome.base == "section/bm25"
    names = dict(zip(outcome.rows["arm"], outcome.rows["system"], strict=True))
    assert names == {
        "engine": "section/bm25", "random": "section/random", "reversed": "section/bm25~reversed", "title-only": "section/title-only",
        "duplicate": "section/bm25~duplicate", "oracle": "section/oracle",
    }  # fmt: skip
    assert set(outcome.latency["system"]) == {"section/bm25", "section/bm25~duplicate"}
    assert arms.sentence(outcome).startswith(
        "Of 12 values of the duplicate none differ from those of the engine. Its mean time is "
    )


def test_the_engine_is_the_first_that_ran_and_is_not_by_chance():
    systems = [System("a", "random"), System("a", "dense", "m"), System("a", "bm25"), System("a", "bm25", variant="x")]
    assert arms.engine(systems, [s.name for s in systems]).name == "a/dense:m"
    assert arms.engine(systems, ["a/random", "a/bm25", "a/bm25~x"]).name == "a/bm25"
    assert arms.engine(systems, ["a/random"]) is None


def test_without_an_engine_or_an_arm_the_table_is_empty_and_says_so(study):
    for outcome in (run(study, names=[]), run(study, ran=["section/random"])):
        assert outcome.rows.empty and outcome.scores.empty and outcome.latency.empty
        assert arms.sentence(outcome) == "No engine was run twice here."
    only = run(study, names=["oracle"])
    assert set(only.rows["arm"]) == {"engine", "oracle"} and arms.sentence(only) == "No engine was run twice here."


def test_an_unknown_arm_is_named():
    with pytest.raises(BadInput, match=r"arms: unknown 'orakel' \(did you mean 'oracle'\?\)"):
        arms.known(["orakel"])
    assert arms.known(["random", "random"]) == ["random"]


def chunk(start, end, doc="d"):
    return Unit(Span(doc, start, end), "chunk")


def test_the_perfect_ranking_gives_each_piece_a_place_before_any_a_second():
    """Two overlapping chunks hold the first piece, one holds the second: the second piece comes before the other copy of the first."""
    units = Units([chunk(0, 50), chunk(20, 70), chunk(100, 150), chunk(200, 250)])
    query = Query("q", "?", (Evidence(Span("d", 30, 40)), Evidence(Span("d", 110, 120))))
    got = arms.perfect(query, units)
    assert [hit.span for hit in got] == [Span("d", 0, 50), Span("d", 100, 150), Span("d", 20, 70)]
    assert all(one.score > two.score for one, two in pairwise(got))


def test_the_perfect_ranking_prefers_grades_and_the_whole_of_a_piece():
    units = Units([chunk(0, 30), chunk(25, 60), chunk(100, 150)])
    low, high = Evidence(Span("d", 110, 120), grade=1), Evidence(Span("d", 20, 60), grade=2)
    got = [hit.span for hit in arms.perfect(Query("q", "?", (low, high)), units)]
    assert got == [Span("d", 25, 60), Span("d", 100, 150), Span("d", 0, 30)]
    assert arms.perfect(Query("q", "?", ()), units) == []


def test_turned_hits_fall_in_score_again():
    hits = [Hit(Span("d", 0, 1), 3.0), Hit(Span("d", 1, 2), 1.5)]
    assert arms.turned(hits) == [Hit(Span("d", 1, 2), -1.5), Hit(Span("d", 0, 1), -3.0)]


def test_titles_are_searched_without_the_text(study):
    engines, _ = study
    index = arms.titles(System("section", "bm25"), engines)
    assert [hit.span.doc_id for hit in index.search("sourdough", 5)] == ["bread.md"]
    assert index.search("starter", 5) == []  # stands in the text alone


def test_latency_of_an_empty_run_has_its_columns():
    assert list(stats.latency_table(arms._no_times()).columns) == list(stats.LATENCY)
    assert isinstance(arms._no_times(), pd.DataFrame)


def test_arms_read_as_rows_with_the_difference_to_the_engine(study):
    table = views.arm_rows(run(study).rows, METRICS, "evidence_ndcg@10").set_index("arm")
    assert table.loc["engine", "difference in evidence_ndcg@10"] == "—"
    assert table.loc["duplicate", "difference in evidence_ndcg@10"] == "0, everywhere"
    assert table.loc["reversed", "difference in evidence_ndcg@10"].startswith("−")
    assert views.arm_rows(run(study, names=[]).rows, METRICS, "rr").empty
