"""The sweep: one system's failure is its own, states are not zeros, repeats must agree, clocks are arguments of nothing else."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from localeval import grading, metrics, pricetables, stats, sweep, views
from localeval.chunking import chunk_corpus
from localeval.corpus import Corpus, Layout, make_document
from localeval.embedding import CARDS
from localeval.records import BadInput, Evidence, Hit, Query, Span, System
from localeval.systems import Engines, Settings, grid, named, with_rerankers

TEXT = "Tea wants boiling water.\n\nA kiln wants a slow fire.\n\nBread wants time."


@pytest.fixture
def engines(tmp_path):
    document = make_document("a.txt", TEXT, b"")
    corpus = Corpus((document,), {"a.txt": Layout("a.txt")}, {})
    chunks = chunk_corpus(corpus, {"sentence": {"max_chars": 30, "overlap": 0}})
    return Engines(corpus, chunks, Settings(tokeniser="words"), tmp_path / "cache", tmp_path)


def ask(query_id, text, quote=""):
    start = TEXT.find(quote)
    evidence = (Evidence(Span("a.txt", start, start + len(quote))),) if quote else ()
    return Query(query_id, text, evidence)


QUERIES = [
    ask("q1", "boiling tea", "Tea wants boiling water."),
    ask("q2", "slow kiln", "slow fire"),
    ask("q3", "zzz"),
    ask("q4", "xyzzy", "time"),
]


def test_every_state_is_counted_and_only_measured_systems_have_scores(engines, monkeypatch):
    monkeypatch.delenv("LOCALEVAL_MODELS", raising=False)
    systems = [System("sentence", "bm25"), System("sentence", "dense", "bge-small")]
    outcome = sweep.run(systems, QUERIES, engines, repeats=2)
    assert outcome.runs["status"].tolist() == ["ok", "not_run"]
    assert outcome.runs["reason"][1].startswith("not run: weights not found")
    graded = sweep.grade_all(outcome.hits, systems, QUERIES, ["chunk/contains"], engines)
    scores = metrics.scores_of(graded, ["rr"])
    assert set(scores["system"]) == {"sentence/bm25"}
    assert dict(zip(scores["query_id"], scores["value"], strict=True)) == {"q1": 1.0, "q2": 1.0, "q4": 0.0}, (
        "no answer is a miss, unanswerable has no row"
    )
    (row,) = stats.summary(scores).to_dict("records")
    assert (row["n"], row["mean"]) == (3, pytest.approx(2 / 3))
    assert outcome.timings["repeat"].nunique() == 2 and set(outcome.timings["phase"]) == {"lexical", "total"}


def test_a_system_that_breaks_is_failed_and_the_others_go_on(engines, monkeypatch):
    class Broken:
        def search(self, query, k):
            raise RuntimeError("index\nlost")

    working = engines.retriever
    monkeypatch.setattr(engines, "retriever", lambda system: Broken() if system.variant else working(system))
    outcome = sweep.run(
        [System("sentence", "bm25", variant="broken"), System("sentence", "bm25")], QUERIES, engines, repeats=1
    )
    assert outcome.runs["status"].tolist() == ["failed", "ok"]
    assert outcome.runs["reason"][0] == "q1: RuntimeError: index lost"
    assert {name for name, _ in outcome.hits} == {"sentence/bm25"} and set(outcome.timings["system"]) == {
        "sentence/bm25"
    }


def test_a_system_whose_repeats_differ_is_failed(engines, monkeypatch):
    class Fickle:
        calls = 0

        def search(self, query, k):
            Fickle.calls += 1
            return [Hit(Span("a.txt", 0, 5), float(Fickle.calls))]

    real = engines.retriever
    monkeypatch.setattr(engines, "retriever", lambda system: Fickle() if system.retriever == "bm25" else real(system))
    outcome = sweep.run([System("sentence", "bm25"), System("sentence", "random")], QUERIES, engines, repeats=2)
    assert outcome.runs["status"].tolist() == ["failed", "ok"]
    assert "asked again, it returned other hits" in outcome.runs["reason"][0]
    assert {name for name, _ in outcome.hits} == {"sentence/random"}
    with pytest.raises(BadInput, match="every system broke while searching; the first: .* asked again"):
        sweep.run([System("sentence", "bm25")], QUERIES, engines, repeats=2)


def test_a_system_without_any_hit_is_empty(engines):
    outcome = sweep.run([System("sentence", "bm25")], [ask("q3", "zzz")], engines, repeats=1)
    assert outcome.runs["status"].tolist() == ["empty"]


def test_grids_and_unknown_names():
    names = [system.name for system in grid(["a", "b"], ["bm25", "hybrid"], ["m"])]
    assert names == ["a/bm25", "a/hybrid:m", "b/bm25", "b/hybrid:m"]
    with pytest.raises(BadInput, match="unknown retriever 'bm52'; known: random, bm25"):
        grid(["a"], ["bm52"], [])
    own = named(["b/dense-hnsw:minilm", "a/bm25"], ["a", "b"], 50)
    assert [(one.name, one.depth) for one in own] == [("b/dense-hnsw:minilm", 50), ("a/bm25", 50)]
    for wrong in ("c/bm25", "a/bm52", "a/dense", "a/bm25:minilm", "bm25", "a/dense:minilm+maxsim@10", 3):
        with pytest.raises(
            BadInput, match=f"system {re.escape(repr(wrong))}: write chunker/retriever|unknown embedder"
        ):
            named([wrong], ["a", "b"])
    deeper = with_rerankers([System("a", "hybrid", "m")], ["maxsim"], [10, 20])
    assert [system.name for system in deeper] == ["a/hybrid:m", "a/hybrid:m+maxsim@10", "a/hybrid:m+maxsim@20"]


def test_signals_by_hand():
    hits = {("s", "q1"): [Hit(Span("a", 0, 1), 2.0), Hit(Span("a", 1, 2), 1.0)], ("s", "q2"): []}
    got = sweep.signals(hits).set_index(["query_id", "signal"])["value"]
    assert got["q1", "top_score"] == 2.0 and got["q1", "margin"] == 0.5
    share = math.exp(-1) / (1 + math.exp(-1))
    assert got["q1", "spread"] == pytest.approx(share * math.log(share) + (1 - share) * math.log(1 - share))
    assert got["q2"].isna().all(), "nothing was retrieved: no value, not zero"


def test_latency_is_a_distribution_by_stage():
    timings = pd.DataFrame(
        {
            "system": "s",
            "query_id": list("abcd") * 2,
            "phase": "total",
            "repeat": [0] * 4 + [1] * 4,
            "seconds": [0.01, 0.02, 0.03, 0.1] * 2,
        }
    )
    (row,) = stats.latency_table(timings).to_dict("records")
    assert (row["mean_ms"], row["p50_ms"], row["p95_ms"], row["max_ms"], row["n"]) == (
        pytest.approx(40),
        pytest.approx(20),
        pytest.approx(100),
        pytest.approx(100),
        8,
    )
    assert (
        row["p99_ms"] == pytest.approx(100)
        and row["mean_low"] < 40 < row["mean_high"]
        and row["p95_high"] == pytest.approx(100)
    )
    assert (row["p50_low"], row["p50_high"]) == (pytest.approx(10), pytest.approx(100)), (
        "four questions drawn four times"
    )
    assert row["p50_low"] <= row["p95_low"] <= row["p99_low"] < row["p99_high"] == pytest.approx(100)
    (shown,) = views.stages(stats.latency_table(timings)).to_dict("records")
    assert shown["p50_ms"] == "20.0 [10.0, 100.0]" and shown["p99_ms"].startswith("100.0 [")
    assert shown["repeats_ms"] == "40.0 to 40.0" and shown["samples"] == "8 (indicative only)"
    assert shown["mean_ms"].startswith("40.0 [")


def test_intervals_of_latency_resample_questions_and_not_samples():
    alike = pd.DataFrame(
        {"system": "s", "phase": "total", "query_id": np.repeat(list("ab"), 100), "repeat": list(range(100)) * 2}
    )
    alike["seconds"] = np.where(alike["query_id"] == "a", 0.01, 0.03)
    (row,) = stats.latency_table(alike).to_dict("records")
    assert (row["mean_low"], row["mean_high"]) == (pytest.approx(10), pytest.approx(30)), (
        "two questions, however often asked, are two"
    )
    (one,) = stats.latency_table(alike[alike["query_id"] == "a"]).to_dict("records")
    assert np.isnan(one["mean_low"]) and one["mean_ms"] == pytest.approx(10)


def test_wide_tables_carry_their_denominator():
    summary = pd.DataFrame({
        "system": "s", "rule": "chunk/contains", "metric": ["p@1", "rr"], "mean": [0.5, 1.0], "low": [0.25, np.nan], "high": [0.75, np.nan],
        "n": 20, "unreachable": 2, "mean_reachable": 0.55, "note": ["", "no variation, n = 20"],
        "origin": "human",
    })  # fmt: skip
    (row,) = views.wide(summary, "chunk/contains", ["p@1", "rr"]).to_dict("records")
    figures = {"system": "s", "p@1": "0.50 [0.25, 0.75]", "rr": "1.00 (no variation)", "n": 20, "unreachable": 2}
    assert row == figures | {"judged@10": "not known"}
    (row,) = views.wide(summary.assign(**{"judged@10": 0.125}), "chunk/contains", ["p@1", "rr"]).to_dict("records")
    assert row == figures | {"judged@10": "12.5%"}
    caption = views.rule_caption("chunk/contains", "human")
    assert "zero" in caption and "judged@10: share of the first units" in caption


def test_a_fresh_process_is_timed_by_stage(engines, tmp_path):
    from localeval.corpus import write_jsonl
    from localeval.tables import write_units

    write_jsonl(engines.corpus, tmp_path / "documents.jsonl")
    write_units(engines.chunks, tmp_path / "units.jsonl")
    cold = sweep.cold_starts(
        [System("sentence", "bm25")],
        tmp_path / "documents.jsonl",
        tmp_path / "units.jsonl",
        engines,
        QUERIES,
        repeats=1,
    )
    assert cold["stage"].tolist() == ["import", "index", "first_query", "second_query"] and (cold["seconds"] > 0).all()
    assert views.cold_table(cold)["processes"].tolist() == [1]
    assert views.cold_table(cold.head(0)).empty and views.cold_table(cold)["state"].tolist() == ["ok"]


def test_a_process_that_is_too_slow_or_breaks_is_a_state(tmp_path):
    slow = lambda *rest, **more: sweep.cold_start(
        System("section", "bm25"), tmp_path / "no.jsonl", tmp_path / "none.jsonl", Settings(), ["tea", "bread"], cache=tmp_path,
        root=tmp_path, **more,
    )  # fmt: skip
    stopped, broken = slow(timeout=0.01), slow(timeout=60)
    assert (
        views.cold_table(stopped)["state"].tolist() == ["timed_out: stopped after 0 s"]
        and stopped["seconds"].isna().all()
    )
    assert len(broken) == 1 and views.cold_table(broken)["state"][0].startswith("failed: FileNotFoundError")


def test_timings_are_of_the_drawn_questions_and_hits_of_all(engines):
    systems = [System("sentence", "bm25"), System("sentence", "random")]
    outcome = sweep.run(systems, QUERIES, engines, repeats=3, timed_questions=2)
    assert len(outcome.hits) == len(systems) * len(QUERIES)
    timed = outcome.timings.groupby("system")["query_id"].nunique()
    assert timed.tolist() == [2, 2] and len(outcome.timings[outcome.timings["phase"] == "total"]) == 2 * 2 * 3
    assert sweep.run(systems, QUERIES, engines, repeats=1, timed_questions=0).timings["query_id"].nunique() == len(
        QUERIES
    )
    with pytest.raises(BadInput, match="timed_questions=-1"):
        sweep.run(systems, QUERIES, engines, timed_questions=-1)


def test_what_systems_share_is_computed_once_for_hits_and_every_time_for_the_clock():
    from localeval import retrieval

    class Counted:
        calls = 0

        def search(self, query, k):
            self.calls += 1
            return [Hit(Span("a", 0, 5), 2.0), Hit(Span("a", 5, 9), 1.0)]

    first = Counted()
    systems = [
        retrieval.Reranked(
            retrieval.Fused([first, first], 5), lambda query, spans: [len(span) for span in spans], depth
        )
        for depth in (1, 2)
    ]
    apart = [system.search("tea", 5) for system in systems]
    assert first.calls == 4
    with retrieval.remembering():
        shared = [system.search("tea", 5) for system in systems]
    assert first.calls == 5 and shared == apart


def test_strata_are_never_pooled():
    rows = [("s", "r", "p@1", f"{origin}{n}", value, "scored", origin)
            for origin, value in (("human", 0.0), ("templated", 1.0)) for n in range(3)]  # fmt: skip
    scores = pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])
    summary = stats.summary(scores, is_binary=metrics.is_binary)
    assert summary[["origin", "mean", "n"]].values.tolist() == [["human", 0.0, 3], ["templated", 1.0, 3]]
    assert views.stratum(summary, "human")["mean"].tolist() == [0.0]
    judged = summary.assign(**{metrics.JUDGED: [0.25, float("nan")]})
    (row,) = views.by_stratum(judged, "r", "p@1").to_dict("records")
    assert row["human"].startswith("0.00 [0.00") and row["human"].endswith("(n = 3, judged@10 25.0%)")
    assert row["templated"].endswith("1.00] (n = 3, judged@10 not known)")


def test_by_question_shows_ranks_and_states(engines):
    systems = [System("sentence", "bm25")]
    outcome = sweep.run(systems, QUERIES, engines, repeats=1)
    graded = sweep.grade_all(outcome.hits, systems, QUERIES, ["chunk/contains"], engines)
    rows = views.by_question(graded, QUERIES[1:], "chunk/contains", ["sentence/bm25"]).set_index("query_id")
    assert list(rows["sentence/bm25"].items()) == [("q4", "missed"), ("q2", "1")], "missed first, unanswerable left out"


def test_one_table_keeps_strata_apart_and_depths_have_a_line_for_each():
    names = ["s/bm25", "s/bm25+maxsim@10", "s/bm25+maxsim@20"]
    summary = pd.DataFrame([
        (name, rule, "p@1", 0.1 * k, 0.0, 1.0, 20, 1, 0.5, "", origin)
        for k, name in enumerate(names) for rule in ("chunk/contains", "chunk/same_document") for origin in ("human", "templated")
    ], columns=["system", "rule", "metric", "mean", "low", "high", "n", "unreachable", "mean_reachable", "note", "origin"])  # fmt: skip
    totals = pd.DataFrame({"system": names, "mean_ms": [1.0, 2.0, 3.0], "p50_ms": 1.0, "p95_ms": 4.0, "n": 9})
    runs = pd.DataFrame([
        (name, "s", "bm25", "", "maxsim" if k else "", 10 * k) for k, name in enumerate(names)
    ], columns=["system", "chunker", "retriever", "model", "reranker", "rerank_depth"])  # fmt: skip
    table = pricetables.as_one_table(summary, totals, "chunk/contains", ["p@1"])
    assert (
        table["questions"].str.split().str[1].tolist() == ["human,"] * 3 + ["templated,"] * 3
        and table["p95_ms"].tolist() == [4.0] * 6
    )
    lines = pricetables.depth_under_rules(
        summary, totals, runs, "s/bm25", "p@1", ["chunk/contains", "chunk/same_document"]
    )
    assert lines.groupby("system", sort=False)["depth"].agg(list).tolist() == [[0, 10, 20]] * 4
    assert lines["system"].unique().tolist()[:2] == ["human, chunk/contains", "human, chunk/same_document"]


def test_words_that_stand_in_half_of_the_chunks_are_said(engines):
    table = sweep.common_terms(engines, [Query("q", "tea")])
    assert table["chunker"].tolist() == list(engines.chunks) and table["chunks"].tolist() == [
        len(one) for one in engines.chunks.values()
    ]
    assert ((table["share"] >= 0) & (table["share"] <= 1)).all()


def test_a_hybrid_says_which_engine_its_hits_come_from():
    at = [Hit(Span("d", place, place + 1), 1.0) for place in range(4)]
    hits = {
        ("c/bm25", "q"): at[:2],
        ("c/dense:m", "q"): at[1:3],
        ("c/hybrid:m", "q"): [at[1], at[0], at[2]],
        ("e/hybrid:m", "q"): at,
    }
    systems = [System("c", "bm25"), System("c", "dense", "m"), System("c", "hybrid", "m"), System("e", "hybrid", "m")]
    (row,) = sweep.sides(hits, systems).to_dict("records")
    assert row == {"system": "c/hybrid:m", "hits": 3, "both": 1 / 3, "lexical_only": 1 / 3, "dense_only": 1 / 3}


class Counted:
    """An embedder whose vectors follow from the text; counts what it embeds, and queries apart."""

    def __init__(self, card, counts):
        self.card, self.settings, self._counts = card, {"model": card.name, "max_tokens": 8}, counts

    def encode(self, texts, role="passage"):
        self._counts.update((self.card.name, text) for text in texts)
        return np.array([self.query(text)[0] for text in texts], np.float32)

    def query(self, text):
        rng = np.random.default_rng(sum(map(ord, text + self.card.name)))
        vector = rng.normal(size=8).astype(np.float32)
        return vector / np.linalg.norm(vector), vector[None]

    def token_counts(self, texts):
        return np.array([len(text.split()) for text in texts])


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """Makes the engines of three chunkers over one small corpus with models that count."""
    pytest.importorskip("faiss")
    counts = Counter()
    text = "\n\n".join(f"Paragraph {n} tells of tea, of kiln number {n} and of bread." for n in range(40))
    corpus = Corpus((make_document("a.txt", text, b""),), {"a.txt": Layout("a.txt")}, {})
    sizes = {"max_chars": 120, "overlap": 0}
    chunks = chunk_corpus(corpus, {"sentence": sizes, "recursive": sizes, "fixed": sizes | {"overlap": 20}})
    monkeypatch.setattr(Engines, "missing", lambda self, system: "")
    monkeypatch.setattr(Engines, "_embedder", lambda self, card: Counted(card, counts))
    return counts, lambda **more: Engines(corpus, chunks, Settings(**more), tmp_path / "cache", tmp_path)


FIVE = ["random", "bm25", "dense", "dense-hnsw", "hybrid"]


def test_each_text_is_embedded_once_for_each_model_and_never_again(counted):
    counts, engines = counted
    systems = grid(["sentence", "recursive", "fixed"], FIVE, ["minilm", "bge-small"])
    assert len(systems) == 3 * (2 + 3 * 2)
    first = sweep.run(systems, QUERIES, one := engines(), repeats=1)
    assert first.runs["status"].tolist() == ["ok"] * 24
    texts = {text for chunker in one.chunks for text in one.texts(chunker)}
    assert sum(len(one.texts(chunker)) for chunker in one.chunks) > len(texts), "chunkers share some of their texts"
    assert counts == {(model, text): 1 for model in ("minilm", "bge-small") for text in texts}
    again = sweep.run(systems, QUERIES, engines(), repeats=1)
    assert sum(counts.values()) == 2 * len(texts), "the second run embeds nothing"
    assert again.hits == first.hits


def test_dense_search_is_approximate_by_name_or_past_the_size(counted):
    _, engines = counted
    systems = grid(["sentence"], ["bm25", "dense", "dense-hnsw", "hybrid-hnsw"], ["minilm"])
    outcome = sweep.run(systems, QUERIES, small := engines(), repeats=1)
    assert outcome.runs["search"].tolist()[1:] == ["exact", "approximate", "approximate"]
    recalls, prices = sweep.approximation(small, outcome.runs, QUERIES)
    assert prices["system"].tolist() == ["sentence/dense-hnsw:minilm"] and prices["chunks"][0] == len(
        small.chunks["sentence"]
    )
    assert set(recalls["metric"]) == {"recall@10", "recall@100"} and (recalls["value"] == 1).all(), (
        "few enough to find all"
    )
    (row,) = views.approximations(recalls, prices).to_dict("records")
    assert row["recall@10"] == "1.00 (no variation)" and row["questions"] == len(QUERIES)
    large = engines(exact_up_to=5)
    assert [large.is_approximate(system) for system in systems] == [False, True, True, True]
    same = sweep.run(systems[1:2], QUERIES, large, repeats=1)
    assert (
        same.runs["search"].tolist() == ["approximate"] and len(sweep.approximation(large, same.runs, QUERIES)[1]) == 1
    )
    assert views.approximations(*sweep.approximation(small, outcome.runs.head(1), QUERIES)).empty
    with pytest.raises(BadInput, match="exact_up_to=-1 is out of range"):
        engines(exact_up_to=-1)


def test_fewer_bits_stand_beside_the_full_model(counted):
    _, engines = counted
    systems = grid(["fixed"], ["bm25", "dense"], ["minilm", "minilm-int8", "bge-small"])
    pairs = sweep.lower_precision(systems)
    assert pairs == [("fixed/dense:minilm", "fixed/dense:minilm-int8")]
    assert sweep.lower_precision(systems[2:]) == [], "nothing to compare with"
    outcome = sweep.run(systems, QUERIES, engines(), repeats=1)
    latency = stats.latency_table(outcome.timings)
    at = lambda *places: [Hit(Span("a.txt", place, place + 1), 1.0) for place in places]
    hits = {
        (pairs[0][0], "q1"): at(1, 2),
        (pairs[0][1], "q1"): at(2, 3),
        (pairs[0][0], "q2"): at(1),
        (pairs[0][0], "q3"): [],
    }
    shared = sweep.overlaps(hits, pairs)
    assert shared[["query_id", "value"]].to_numpy().tolist() == [["q1", 0.5], ["q2", 0.0]]
    drawn = {pairs[0][0]: (1, 1, 0.5), pairs[0][1]: (1, 0.5, 0.5)}
    rows = [(name, f"q{n}", value) for name, values in drawn.items() for n, value in enumerate(values)]
    scores = pd.DataFrame(rows, columns=["system", "query_id", "value"])
    scores = scores.assign(rule="chunk/contains", metric="rr", status="scored", origin="human")
    (row,) = views.precisions(pairs, shared, scores, latency, "chunk/contains", "rr", "human").to_dict("records")
    assert row["beside"] == "fixed/dense:minilm" and row["n"] == 3 and row["overlap@10"].startswith("0.25")
    assert row["rr lost or gained"].startswith("−0.167 [") and row["encode ms"] > 0 and row["encode ms in full"] > 0
    empty = views.precisions([], shared.head(0), scores, latency, "chunk/contains", "rr", "human")
    assert empty.empty and set(views.ENCODE) <= set(empty.columns)


def test_every_model_has_its_card_run_or_not(counted, tmp_path, monkeypatch):
    monkeypatch.delenv("LOCALEVAL_MODELS", raising=False)
    _, engines = counted
    outcome = sweep.run(grid(["fixed", "sentence"], ["dense"], ["minilm"]), QUERIES, engines(), repeats=1)
    cards = sweep.model_cards(outcome.runs, tmp_path).set_index("model")
    assert cards.index.tolist() == [name for name, card in CARDS.items() if card.kind != "cross_encoder"]
    assert cards.loc["minilm", ["state", "why", "pooling"]].tolist() == ["ok", "", "mean"]
    assert cards.loc["minilm", "chunks_cut"] == "fixed 100%, sentence 100%"
    assert cards.loc["bge-small", "state"] == "not_run" and "models/bge-small" in cards.loc["bge-small", "why"]
    assert (
        cards.loc["bge-small", "before_queries"].startswith("Represent this sentence")
        and cards.loc["bge-small", "weights"] == ""
    )
    assert cards.loc["e5-small-q4", "weights"] == CARDS["e5-small-q4"].sha256[:12]
    assert np.isnan(cards.loc["use-multilingual", "tokens_read"]) and cards.loc["splade-tiny", "chunks_cut"] == ""


def test_every_engine_stands_with_each_chunker_below_one_another(engines):
    document_chunks = dict.fromkeys(("one", "two"), engines.chunks["sentence"])
    both = Engines(engines.corpus, document_chunks, engines.settings, engines.cache_folder, engines.root)
    systems = grid(["one", "two"], ["random", "bm25"], [])
    outcome = sweep.run(systems, QUERIES, both, repeats=1)
    graded = sweep.grade_all(outcome.hits, systems, QUERIES, ["chunk/contains"], both)
    summary = stats.summary(metrics.scores_of(graded, ["rr"]))
    characters = stats.summary(grading.character_table(outcome.hits, QUERIES, 5))
    lost = grading.evidence_lost(QUERIES, "chunk/contains", both.unit_sets)
    table = views.by_chunker(summary, characters, lost, outcome.runs, "chunk/contains", "rr")
    assert table["system"].tolist() == ["one/random", "two/random", "one/bm25", "two/bm25"]
    assert table["evidence in no chunk"].tolist() == ["0 of 3"] * 4
    assert table.columns.tolist() == [
        "system",
        "chunks",
        "evidence in no chunk",
        *grading.character_names(5),
        "rr",
        "n",
    ]


def test_categories_are_columns_with_their_n():
    queries = [Query("a", "?", category="dose"), Query("b", "?"), Query("c", "?", category="dose")]
    scores = pd.DataFrame(
        {
            "system": ["y"] * 3 + ["x"] * 3,
            "rule": "r",
            "metric": "rr",
            "query_id": list("abc") * 2,
            "value": [1, 0, 0, 1, 1, 1],
        }
    )
    table = views.by_category(scores, queries, "rr", "r")
    assert table.to_dict("list") == {"system": ["y", "x"], "dose (n = 2)": [0.5, 1.0], "(none) (n = 1)": [0.0, 1.0]}


def test_systems_that_the_common_words_concern_are_named(engines):
    systems = grid(["sentence"], ["bm25", "bm25-okapi", "rank-bm25"], [])
    (row,) = sweep.common_terms(engines, QUERIES, systems).to_dict("records")
    assert row["concerns"] == "sentence/bm25-okapi, sentence/rank-bm25"
    assert sweep.common_terms(engines, QUERIES)["concerns"].tolist() == ["no system of this run"]
