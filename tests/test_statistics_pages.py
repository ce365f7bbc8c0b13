"""What the statistics and ranking pages show: every state in words, figures that name their numbers, nothing for nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from localeval import clusters, equivalence, ranking, recommend, statfigures, stats, stattables, tables, views
from test_ranking import board_of, noisy, tidy

NAMED = [["ndcg@10", "chunk/contains", "s0", "s1"], ["ndcg@10", "chunk/contains", "s0", "gone"]]


@pytest.fixture(scope="module")
def scores():
    return tidy(noisy(1, [0.5, 0.6, 0.9]))


@pytest.fixture(scope="module")
def designated(scores):
    return stats.compare_designated(scores, NAMED, "human", n_resamples=500)


def test_tests_stand_side_by_side_for_those_that_ran(designated):
    """A design effect of 2.25 makes the smallest difference 1.5 times as large; one that is not known leaves a gap."""
    known = pd.DataFrame({"number": [1], "design_effect": [2.25]})
    (row,) = stattables.side_by_side(designated, 0.05, known).to_dict("records")
    assert row["MDE, documents"] == pytest.approx(1.5 * row["MDE"])
    assert row["needed, documents"] == pytest.approx(2.25 * row["questions needed"], abs=2)
    for unknown in (known.head(0), known.assign(design_effect=np.nan)):
        (gap,) = stattables.side_by_side(designated, 0.05, unknown).to_dict("records")
        assert pd.isna(gap["MDE, documents"]) and pd.isna(gap["needed, documents"]) and gap["MDE"] == row["MDE"]
    assert (
        row["candidate − baseline"] == "1. s1 − s0" and row["agree"] == "yes" and row["test"] == "sign flip, 500 draws"
    )
    sd = designated["mde"][0] * 60**0.5 / 2.8
    assert row["questions needed"] == stats.questions_needed(sd, 0.05)
    assert "agree on which side" in stattables.agreement(designated)
    assert "In 1 of 1" in stattables.agreement(designated.assign(tests_disagree=True))
    assert stattables.agreement(designated.iloc[1:]) == "There is no test to compare."


def test_documents_in_words(scores, designated):
    known = {f"q{n:02d}": f"d{n % 9}" for n in range(60)}
    found = clusters.compare_designated(scores, designated, known, n_resamples=500)
    shown = stattables.clustered(found)
    assert shown["documents"].tolist() == [9] and shown["would help"][0] in clusters.ADVICE
    assert (
        clusters.ADVICE[shown["would help"][0]] in stattables.advised(found) and stattables.advised(found.head(0)) == ""
    )
    said = stattables.clustered_sentence(found, 3)
    assert "3 questions have evidence in several documents" in said and "9 documents are few" in said
    few = clusters.compare_designated(scores, designated, dict.fromkeys(known, "d"), n_resamples=100)
    assert stattables.clustered_sentence(few, 0).startswith("There are too few documents")


def test_comparisons_say_how_much_of_both_sides_is_judged(designated):
    summary = pd.DataFrame(
        {"system": ["s0", "s1"], "rule": "chunk/contains", "origin": "human", "judged@10": [0.25, 0.5]}
    )
    with_judged = lambda rows, known: stattables.with_judged(views.differences(rows), rows, known)[
        "judged@10 of both"
    ].tolist()
    assert with_judged(designated, summary) == ["50.0% and 25.0%", "not known and 25.0%"]  # candidate first
    assert with_judged(designated, summary.drop(columns="judged@10")) == ["not known"] * 2
    assert with_judged(designated.assign(rule="warm/total"), summary) == ["—"] * 2


def test_the_forest_draws_both_intervals_and_skips_what_did_not_run(scores, designated):
    found = clusters.compare_designated(
        scores, designated, {f"q{n:02d}": f"d{n % 9}" for n in range(60)}, n_resamples=100
    )
    alone, both = (views.forest(designated, caption="Words.", documents=one) for one in (None, found))
    assert "1. s1 − s0 (ndcg@10, chunk/contains, human) +0." in both.alt and "gone" not in both.alt
    assert both.svg.count("--le-series-2") > alone.svg.count("--le-series-2"), "documents have a line of their own"
    assert views.forest(designated.iloc[1:], caption="Words.").n_rows == 0


def test_a_claim_that_did_not_run_says_why_and_only_open_ones_ask_for_questions(scores):
    claimed = equivalence.claims(
        scores, [*NAMED, ["ndcg@10", "chunk/contains", "s0", "s2"]], 0.05, "human", n_resamples=500
    )
    rows = stattables.claims(claimed)
    assert rows["verdict"][1].startswith("not run: no scores of gone")
    assert rows["verdict"][2] == "as good" and rows["questions needed"].isna()[[1, 2]].all()


def test_the_leaderboard_and_its_figure():
    board = board_of(noisy(1, [0.5, 0.51, 0.9]))
    rows = ranking.ranks(board, ranking.pairs(board, n_resamples=500), n_resamples=500)
    summary = pd.DataFrame({"system": ["s2", "s0"], "rule": "r", "origin": "human", "judged@10": [0.5, np.nan]})
    shown = stattables.leaderboard(rows, summary, "r", "human")
    assert shown.set_index("system")["judged@10"].to_dict() == {"s2": "50.0%", "s0": "not known", "s1": "not known"}
    assert shown["ranks not ruled out"].tolist() == ["1 to 1", "2 to 3", "2 to 3"] and shown["first in"][0] == "100%"
    figure = statfigures.rank_ranges(rows, caption="Words.")
    assert "s2 rank 1, range 1 to 1" in figure.alt and "le-series-1" in figure.svg
    assert (
        stattables.first_sentence(rows)
        == "For 1 of 3 systems the first rank is not ruled out. They fall into 2 tie groups."
    )
    assert "nothing to part" in stattables.first_sentence(rows.head(1))
    assert statfigures.rank_ranges(rows.head(1), caption="Words.").alt, "one system is a figure too"


def test_sentences_of_luck_and_of_held_out_questions():
    board = board_of(noisy(1, [0.5, 0.51]))
    found = ranking.optimism(board, n_resamples=200)
    assert f"reported {found.reported:.3f} ndcg@10" in stattables.optimism_sentence(found, "ndcg@10")
    assert "nothing was chosen" in stattables.optimism_sentence(
        ranking.optimism(board_of(noisy(1, [0.5])), n_resamples=50), "m"
    )
    split = {query: "dev" if n % 2 else "heldout" for n, query in enumerate(board.query_ids)}
    rows = ranking.held_out(board, split, n_resamples=200)
    assert "Chosen on the 30 questions of the part dev" in stattables.held_out_sentence(rows, 20)
    assert "nothing could be held out" in stattables.held_out_sentence(rows.head(0), 20)


def test_a_recommendation_to_read():
    board = board_of(noisy(1, [0.5, 0.9]))
    price = pd.DataFrame(
        {"system": ["s0", "s1"], "p95_ms": [1.0, 9.0], "p95_high": [1.0, 9.0], "index_seconds": np.nan}
    )
    found = recommend.recommend(board, price, margin=0.05, n_resamples=500)
    shown = stattables.considered(found.table)
    assert shown["verdict"].tolist() == ["worse", "best"] and shown["questions needed"].isna().all()
    assert stattables.tied(board, price, n_resamples=500) == ("s1", 1)
    assert stattables.tied(board, price.head(0)) == ("none, since no latency was measured", 0)
    assert stattables.board(board, price)["count"].tolist() == [2, 2, 60, 0]


def test_the_toy_study_writes_tables_that_can_be_read_again(executed):
    base = executed[0] / "runs/toy/base"
    read = {
        path.name: tables.read_csv(path)
        for name in ("50_statistics", "52_ranking")
        for path in (base / name).glob("*.csv")
    }
    assert set(read) >= {
        "comparisons.csv",
        "documents.csv",
        "claims.csv",
        "slices.csv",
        "pairs.csv",
        "ranks.csv",
        "recommendation.csv",
    }
    assert read["ranks.csv"]["p_first"].sum() == pytest.approx(1) and read["pairs.csv"]["p_family"].between(0, 1).all()
    assert (
        set(read["slices.csv"]["cut"]) == {"category", "document"} and read["comparisons.csv"]["test"].str.len().all()
    )
    assert '"setup": "Percentile bootstrap' in (base / "50_statistics/provenance.json").read_text()


def test_what_did_not_run_can_be_read_again(tmp_path, designated):
    tables.write_csv(designated, tmp_path / "comparisons.csv")
    again = tables.read_csv(tmp_path / "comparisons.csv")
    assert again["verdict"].tolist() == designated["verdict"].tolist() and again["test"].tolist() == [
        designated["test"][0],
        "",
    ]
    assert again["tests_disagree"].tolist() == [False, False] and again["p_value"].isna().tolist() == [False, True]
