"""Holes in the labels: bounds against every set of answers there is, shared hits flipped once, a worklist that names the right hits."""

from __future__ import annotations

import itertools
import math
import random
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from localeval import build, cli, holes, judgements, metrics, stattables, tables
from localeval.corpus import Corpus, Layout, make_document
from localeval.grading import unit_sets
from localeval.records import BadInput, Evidence, Graded, Hit, Judgement, Query, Span, Unit

NAMES = [
    "ndcg@4",
    "evidence_ndcg@4",
    "evidence_ndcg",
    "recall@3",
    "evidence_recall@4",
    "p@1",
    "p@3",
    "rr",
    "rr@3",
    "success@2",
]


def ranking(text, grades=(2, 1), missed=0):
    """A ranking from words, best first: "1" holds the second piece of evidence, "01" both, "-" was refused, a letter is open."""
    gains, covers, left, known = [], [], [], set()
    for rank, word in enumerate(text.split(), 1):
        if word.isdigit():
            pieces = {int(digit) for digit in word}
            gains.append((rank, float(max(grades[piece] for piece in pieces))))
            if pieces - known:
                covers.append((rank, tuple(sorted(pieces - known))))
            known |= pieces
        elif word == "-":
            gains.append((rank, 0.0))
        else:
            left.append((rank, Span("a", rank, rank + 1), word))
    ideal = sorted([gain for _, gain in gains if gain] + [1.0] * missed, reverse=True)
    status = "scored" if ideal else "unreachable"
    graded = Graded("q", status, tuple(gains), tuple(covers), tuple(ideal), tuple(grades), len(text.split()))
    return holes.Ranking(graded, tuple(left))


def flipped(one, keys, top):
    """The same ranking when exactly these open texts hold one further answer each, built piece by piece."""
    graded, more = one.graded, sorted(keys)
    number = {key: len(graded.evidence) + place for place, key in enumerate(more)}
    hit = [(rank, key) for rank, _, key in one.open if key in number]
    gains = tuple(sorted((*graded.gains, *((rank, top) for rank, _ in hit))))
    covers = tuple(sorted((*graded.covers, *((rank, (number[key],)) for rank, key in hit))))
    ideal = tuple(sorted((*graded.ideal, *[top] * len(more)), reverse=True))
    evidence = (*graded.evidence, *[int(top)] * len(more))
    return replace(
        graded, status="scored" if ideal else graded.status, gains=gains, covers=covers, ideal=ideal, evidence=evidence
    )


def every_set(metric, sides):
    """The metric's value, or difference, for every set of open texts above the cut: set -> value."""
    cut = metrics.parse(metric)[1] or math.inf
    keys = sorted({key for one in sides for rank, _, key in one.open if rank <= cut})
    table = {}
    for count in range(len(keys) + 1):
        for chosen in itertools.combinations(keys, count):
            values = [metrics.measure(flipped(one, chosen, 2.0), metric) for one in sides]
            table[chosen] = values[0] - values[1] if len(values) == 2 else values[0]
    return table


def cases(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        words = ["0", "1", "-", "a", "b", "c", "d", "e"] + ["01"] * draw.randint(0, 1)
        yield [" ".join(draw.sample(words, draw.randint(1, 6))) for _ in range(draw.choice([1, 2, 2]))]


@pytest.mark.parametrize("metric", NAMES)
def test_bounds_are_those_of_every_set_of_answers(metric):
    """The oracle builds each set of answers and asks the metric itself. Where one hit holds two pieces, ends may lie further out."""
    loose = 0
    for texts in cases(60, seed=len(metric)):
        sides = [ranking(text) for text in texts]
        got, table = holes.reach(metric, *sides), every_set(metric, sides)
        assert got.now == pytest.approx(table[()], abs=1e-12), texts
        ends = min(table.values()), max(table.values())
        if got.exact:
            assert (got.low, got.high) == pytest.approx(ends, abs=1e-9), texts
            for count in range(min(len(got.lows), 4)):
                few = [value for chosen, value in table.items() if len(chosen) <= count]
                assert (got.lows[count], got.highs[count]) == pytest.approx((min(few), max(few)), abs=1e-9), texts
            for key, change in got.one.items():
                assert change == pytest.approx(table[(key,)] - table[()], abs=1e-9), texts
        else:
            loose += 1
            assert got.low <= ends[0] + 1e-9 and got.high >= ends[1] - 1e-9, texts
    assert got.low >= (0 if len(sides) == 1 else -1) and got.high <= 1
    assert (loose > 0) == metric.startswith("evidence_ndcg")


def test_an_answer_found_far_down_lowers_the_score():
    """Known at rank 1, open at rank 4, grades alike: 1 now, and (1 + 1/log2(5)) / (1 + 1/log2(3)) if it holds an answer."""
    got = holes.reach("ndcg@4", ranking("0 - - a", grades=(1,)))
    assert (got.now, got.high) == (1.0, 1.0)
    assert got.low == pytest.approx((1 + 1 / math.log2(5)) / (1 + 1 / math.log2(3)))


def test_hits_that_both_return_are_flipped_for_both():
    same = [ranking("a 0 b -"), ranking("a 0 b -")]
    got = holes.reach("ndcg@4", *same)
    assert (got.low, got.now, got.high) == pytest.approx((0, 0, 0), abs=1e-12)
    apart = [holes.reach("ndcg@4", one) for one in same]
    assert apart[0].high - apart[1].low > 0.3  # a difference of bounds would have said so
    for metric in ("rr", "p@1", "success@1", "recall@4"):
        assert holes.reach(metric, *same).high == 0


def test_the_order_that_cannot_flip_and_the_one_that_can():
    """Three questions on p@1: the candidate's hit holds evidence, the baseline's is open in one and refused in two of them."""
    table = {
        str(number): holes.reach("p@1", ranking("0 -"), ranking(first))
        for number, first in enumerate(["a", "-", "- 0"])
    }
    assert (holes.flips(table), holes.answers_to_flip(table)) == ("cannot flip", None)
    table = {
        str(number): holes.reach("p@1", ranking("0"), ranking(f"{number + 1} 0".translate({49: "a", 50: "b"})))
        for number in range(2)
    }
    assert holes.flips(table) == "cannot flip"  # at best both are right everywhere: level, not turned
    table["2"], table["3"] = (
        holes.reach("p@1", ranking("-"), ranking("c")),
        holes.reach("p@1", ranking("-"), ranking("d")),
    )
    assert holes.flips(table) == "can flip"
    assert holes.answers_to_flip(table) == 3  # +2 now; three of the baseline's four open hits
    assert holes.flips({"q": holes.reach("rr", ranking("0"), ranking("0 a"))}) == "tied"
    assert holes.flips({}) == "not run" and holes.answers_to_flip({}) is None


def test_a_witness_is_only_counted_where_bounds_are_exact():
    """One hit holds both pieces, so ends are further out than any set of answers reaches: then it may flip, and no number is given."""
    got = holes.reach("evidence_ndcg@4", ranking("01 - - a"), ranking("b 01 c d"))
    assert not got.exact and got.low < 0 < got.now
    assert holes.flips({"q": got}) == "may flip" and holes.answers_to_flip({"q": got}) is None


def test_what_has_no_value_and_what_has_no_bounds():
    nothing = holes.Ranking(Graded("q", "unanswerable"))
    assert holes.reach("rr", nothing) is None and holes.bounds("rr", {("s", "q"): nothing}, "s") == {}
    with pytest.raises(BadInput, match="ap: no bounds for it; known: ndcg"):
        holes.reach("ap", ranking("0 a"))
    assert holes.has_bounds("p@1", "chunk/same_document") and not holes.has_bounds("ndcg@10", "chunk/same_document")
    assert holes.has_bounds("ndcg@10", "chunk/contains") and not holes.has_bounds("map", "chunk/contains")


def test_an_unreachable_question_can_be_won():
    got = holes.reach("ndcg@4", ranking("a b"))
    assert (got.now, got.low) == (0, 0) and got.high == 1.0


# --- labels of a real ranking ---------------------------------------------------------------------------------------

TEXT = "Tea wants boiling water. Kilns want a slow fire. Bread wants some time. Bread wants some time. Clocks want oil."
SENTENCES = [(0, 24), (25, 48), (49, 71), (72, 94), (95, 111)]


@pytest.fixture
def corpus():
    documents = tuple(make_document(name, TEXT, b"") for name in ("a.txt", "b.txt"))
    return Corpus(documents, {name: Layout(name) for name in ("a.txt", "b.txt")}, {})


def spans(doc, *numbers):
    return [Span(doc, *SENTENCES[number]) for number in numbers]


def down(*places):
    return [Hit(span, float(-rank)) for rank, span in enumerate(places)]


@pytest.fixture
def units(corpus):
    chunks = [Unit(span, "chunk") for doc in ("a.txt", "b.txt") for span in spans(doc, 0, 1, 2, 3, 4)]
    halves = [
        Unit(Span("a.txt", 25, 71), "chunk"),
        Unit(Span("a.txt", 29, 48), "chunk"),
        Unit(Span("a.txt", 40, 60), "chunk"),
    ]
    return unit_sets(corpus, {"sentence": chunks, "other": halves})


TEA = Query("tea", "How hot for tea?", (Evidence(Span("a.txt", 4, 23), quote="wants boiling water"),))


def said(span, grade=0, answer=None, query="tea"):
    return Judgement(query, span, grade, "maintainers", "2026-01-31", answer=answer)


def test_evidence_refusals_and_copies_are_judged_and_the_rest_is_open(corpus, units):
    """Sentence 0 of b.txt is a copy of the evidence's sentence: the same class. Sentences 2 and 3 are one text: open once."""
    label = holes.labeller(units, corpus, [said(Span("a.txt", 25, 48))])("chunk/contains")
    hits = down(*spans("a.txt", 0, 1), *spans("b.txt", 0, 1), *spans("a.txt", 2, 3, 4))
    got = label.rank(hits, TEA, "sentence")
    assert got.graded.gains == ((1, 1.0), (2, 0.0)) and got.graded.ideal == (1.0, 0.0)
    assert [(rank, span.start) for rank, span, _ in got.open] == [(5, 49), (7, 95)]
    assert holes.judged(got, 4) == 1.0 and holes.judged(got, 5) == pytest.approx(4 / 5)
    assert holes.judged(label.rank([], TEA, "sentence"), 5) != holes.judged(
        label.rank([], TEA, "sentence"), 5
    )  # not a number


def test_a_refusal_reaches_what_lies_inside_and_no_further(corpus, units):
    label = holes.labeller(units, corpus, [said(Span("a.txt", 25, 48))])("chunk/contains")
    got = label.rank(down(Span("a.txt", 29, 48), Span("a.txt", 40, 60), Span("a.txt", 25, 71)), TEA, "other")
    assert got.graded.gains == ((1, 0.0),) and [rank for rank, _, _ in got.open] == [2, 3]
    other = label.rank(down(Span("a.txt", 29, 48)), replace(TEA, query_id="another"), "other")
    assert [rank for rank, _, _ in other.open] == [1]


def test_under_a_document_rule_all_units_of_a_document_are_one(corpus, units):
    label = holes.labeller(units, corpus)("chunk/same_document")
    one, two = (label.rank(down(*places), TEA, "sentence") for places in (spans("b.txt", 1, 2), spans("b.txt", 3)))
    assert [key for _, _, key in (*one.open, *two.open)] == ["b.txt"] * 3
    got = holes.reach("p@2", one, two)
    assert (got.now, got.low, got.high) == (0, 0, 0.5) and got.one == {"b.txt": 0.5}


@pytest.mark.parametrize(
    "rule", ["chunk/contains", "chunk/overlaps", "page/overlaps", "chunk/same_document", "document/contains"]
)
def test_the_share_without_a_grade_is_that_of_the_ranking(corpus, units, rule):
    """Every ranking of three of the ten sentences, with one refused: `share` is what `judged` says of `rank`."""
    label, seen = holes.labeller(units, corpus, [said(Span("a.txt", 25, 48))])(rule), set()
    for places in itertools.permutations([*spans("a.txt", 0, 1, 2, 3), *spans("b.txt", 0, 1)], 3):
        hits = down(*places)
        seen.add(got := label.share(hits, TEA, "sentence", 2))
        assert got == holes.judged(label.rank(hits, TEA, "sentence"), 2), places
    assert len(seen) > 1 or not rule.startswith(
        "chunk"
    )  # both documents have one text: pages and documents are one class
    assert math.isnan(label.share([], TEA, "sentence", 2)) and math.isnan(
        label.share(hits, Query("none", "?"), "sentence", 2)
    )


def test_scores_stand_beside_how_much_is_judged(corpus, units, tmp_path):
    """Two hits, the evidence and an open one: 1/2; refused since: 1. A system without hits and a question without evidence: not known."""
    summary = pd.DataFrame(
        [
            (system, "chunk/contains", "rr", origin)
            for system in ("sentence/x", "sentence/none")
            for origin in ("human", "drafted")
        ],
        columns=["system", "rule", "metric", "origin"],
    )
    hits = {("sentence/x", query): down(*spans("a.txt", 0, 1)) for query in ("tea", "none")}
    asked, path = [TEA, Query("none", "?", origin="drafted")], tmp_path / "data/study/judgments.jsonl"
    column = lambda: holes.beside(summary, hits, asked, units, corpus, path)["judged@10"].to_list()
    assert column() == pytest.approx([1 / 2, math.nan, math.nan, math.nan], nan_ok=True)
    row = {
        "query_id": "tea",
        "question": TEA.text,
        "span": "a.txt#25-48",
        "grade": 0,
        "by": "maintainers",
        "date": "2026-01-31",
    }
    text = corpus.text(Span("a.txt", 25, 48))
    more = {"answer": "", "quote": text, "until": text, "sha256": judgements.fingerprint(text), "source": "worklist"}
    assert judgements.append(path, [row | more]) == 1
    assert column() == pytest.approx([1, math.nan, math.nan, math.nan], nan_ok=True)


def test_unanswerable_questions_have_nothing_open(corpus, units):
    label = holes.labeller(units, corpus)("chunk/contains")
    assert label.rank(down(*spans("a.txt", 1)), Query("none", "?"), "sentence").open == ()


def test_robust_scores_by_hand(corpus, units):
    """Ranking: open, refused, open, evidence. bpref 0; condensed rr 1/2; infap (1 + 3 · ε-smoothed 0) / 4."""
    label = holes.labeller(units, corpus, [said(Span("a.txt", 25, 48))])("chunk/contains")
    hits = {("sentence/x", "tea"): down(*spans("a.txt", 4, 1, 2, 0))}
    found = holes.rankings(label, hits, [TEA], holes.chunkers(hits))
    table = holes.by_system(holes.pooled(found, 2), ["rr", "bpref", "infap"], 2, ["rr"]).set_index("metric")
    assert table["plain"].to_list() == pytest.approx([1 / 4, 0.0, 1 / 4], abs=1e-4)
    assert table.loc["rr", "condensed"] == 1 / 2 and table.loc["rr", "judged"] == 1 / 2
    assert (table.loc["rr", "low"], table.loc["rr", "high"]) == (1 / 4, 1.0) and math.isnan(table.loc["bpref", "low"])
    gains = [one.graded.gains for one in holes.pooled(found, 2).values()]
    assert gains == [((1, -1.0), (2, 0.0), (4, 1.0))]  # rank 3 lies outside the pool


# --- comparisons, worklist, pool ------------------------------------------------------------------------------------


def comparison(metric="rr", rule="chunk/contains", baseline="sentence/one", candidate="sentence/two", origin="human"):
    return {
        "metric": metric,
        "rule": rule,
        "baseline": baseline,
        "candidate": candidate,
        "origin": origin,
        "designated": True,
    }


def study(corpus, units, *rows, queries=(TEA,), judged=(), **hits):
    table = pd.DataFrame([*rows] or [comparison()])
    ranked = {
        (f"sentence/{system}", query.query_id): down(*places) for system, places in hits.items() for query in queries
    }
    label = holes.labeller(units, corpus, judged)
    return holes.compared(table, label, ranked, list(queries), holes.chunkers(ranked)), ranked


def test_the_worklist_names_what_moves_a_comparison_most(corpus, units):
    """rr, baseline right at rank 3. An answer at the candidate's rank 1 moves it by 1 - 1/2; at the baseline's rank 1 by 1 - 1/3."""
    pairs, hits = study(corpus, units, one=spans("a.txt", 1, 4, 0), two=[*spans("b.txt", 2), *spans("a.txt", 0, 1)])
    got = holes.worklist(pairs, [TEA], corpus, hits, 10)
    assert dict(zip(got["span"], got["influence"], strict=True)) == pytest.approx(
        {"a.txt#25-48": 2 / 3, "b.txt#49-71": 1 / 2, "a.txt#95-111": 1 / 2 - 1 / 3}
    )
    assert got["influence"].is_monotonic_decreasing and got["place"].to_list() == [1, 2, 3]
    first = got.iloc[0]
    assert (first["question"], first["text"], first["systems"], first["best_rank"]) == (
        TEA.text,
        "Kilns want a slow fire.",
        2,
        1,
    )
    assert (got[["grade", "answer", "by", "date"]] == "").all(axis=None)


def test_copies_of_a_text_are_one_row_and_settled_comparisons_none(corpus, units):
    pairs, hits = study(corpus, units, one=spans("a.txt", 2, 0), two=[*spans("b.txt", 3, 1), *spans("a.txt", 0)])
    got = holes.worklist(pairs, [TEA], corpus, hits, 10)
    assert len(got) == 0 and holes.comparison_table(pairs)["flips"].to_list() == ["cannot flip"]
    pairs, hits = study(corpus, units, comparison("success@1"), one=spans("a.txt", 2), two=spans("b.txt", 3))
    assert holes.comparison_table(pairs)["flips"].to_list() == ["tied"]  # both show the same text


def test_judging_a_hit_settles_a_comparison(corpus, units):
    ranked = {"one": spans("a.txt", 1, 4), "two": spans("a.txt", 0, 4)}
    before, _ = study(
        corpus, units, comparison("rr"), comparison("map"), comparison(candidate="sentence/none"), **ranked
    )
    table = holes.comparison_table(before)
    assert table["flips"].to_list() == ["cannot flip", "no bounds", "not run"] and table["n"].to_list() == [1, 0, 0]
    other = Query("kiln", "How fast a fire?", (Evidence(Span("b.txt", 25, 47)),))
    both = {
        "one": [*spans("a.txt", 4), *spans("b.txt", 1)],
        "two": [*spans("a.txt", 0), *spans("a.txt", 2), *spans("b.txt", 1)],
    }
    before, hits = study(corpus, units, queries=(TEA, other), **both)
    row = holes.comparison_table(before).iloc[0]
    assert (row["flips"], row["n"], row["open"]) == ("can flip", 2, 6)
    work = holes.worklist(before, [TEA, other], corpus, hits, 10)
    no = [said(Span.parse(span), query=query) for span, query in zip(work["span"], work["query_id"], strict=True)]
    after, hits = study(corpus, units, queries=(TEA, other), judged=no, **both)
    assert holes.comparison_table(after)["flips"].to_list() == ["cannot flip"] and not len(
        holes.worklist(after, [TEA], corpus, hits, 10)
    )


def test_document_rules_have_no_rows_in_the_worklist(corpus, units):
    pairs, hits = study(
        corpus, units, comparison("p@1", "chunk/same_document"), one=spans("b.txt", 1), two=spans("a.txt", 1)
    )
    assert holes.comparison_table(pairs)["flips"].to_list() == ["cannot flip"]
    assert len(holes.worklist(pairs, [TEA], corpus, hits, 10)) == 0


def test_a_system_without_the_labels_that_only_it_found(corpus, units):
    """The pooled label stands where only the first stage `two` looks; its reranked form is no other system."""
    late = Evidence(Span("a.txt", 25, 47), source="pooled")
    query = replace(TEA, evidence=(*TEA.evidence, late))
    hits = {
        ("sentence/one", "tea"): down(*spans("a.txt", 0)),
        ("sentence/two", "tea"): down(*spans("a.txt", 4, 1)),
        ("sentence/two+maxsim@2", "tea"): down(*spans("a.txt", 1, 4)),
    }
    chunker = holes.chunkers(hits)
    got = holes.pool_bias(holes.labeller(units, corpus)("chunk/contains"), hits, [query], chunker, "rr", 10).set_index(
        "family"
    )
    assert got.loc["sentence/two", ["labels", "only_here", "score", "without"]].to_list() == [1, 1, 1.0, 0.0]
    assert got.loc["sentence/one", ["labels", "only_here", "score", "without"]].to_list() == [0, 0, 1.0, 1.0]
    assert holes.pool_bias(holes.labeller(units, corpus)("chunk/contains"), hits, [TEA], chunker, "rr", 10).empty


def test_where_labels_come_from(corpus):
    answer = Evidence(Span("a.txt", 29, 33), source="worklist")
    queries = judgements.with_answers([TEA], [said(Span("a.txt", 25, 48), 1, answer), said(Span("a.txt", 49, 71))])
    table = holes.label_table(queries, [said(Span("a.txt", 49, 71))]).set_index("source")
    assert table["evidence"].to_dict() == {"authored": 1, "pooled": 0, "worklist": 1}
    assert table["refused"].to_dict() == {"authored": 0, "pooled": 0, "worklist": 1}
    assert judgements.gold_alone(queries) == [TEA]


def test_sentences_of_a_page_without_anything():
    none = holes.by_system({}, ["rr"], 10)
    assert stattables.judged_sentence(none, "rr", 10).startswith("No question here has a value")
    table = holes.comparison_table([])
    assert (
        stattables.flip_sentence(table, table) == "No designated comparison has figures."
        and stattables.flip_rows(table, table).empty
    )
    assert stattables.label_rows(none, none, "rr").empty and stattables.robust_rows(none, ["rr"]).empty


def test_the_bounds_stand_behind_the_score_of_now():
    rows = pd.DataFrame({"system": ["a", "b"], "metric": "rr", "n": 2, "judged": 0.5, "plain": [0.4, 0.5], "low": [0.1, None],
                         "high": [0.9, None], "condensed": 0.6})  # fmt: skip
    assert stattables.label_rows(rows, rows, "rr")["rr now (worst to best case)"].tolist() == [
        "0.400 (0.100 to 0.900)",
        0.5,
    ]


# --- the notebook ---------------------------------------------------------------------------------------------------


def test_the_notebook_holds_for_a_tiny_corpus_and_its_worklist_comes_back(executed, tmp_path, monkeypatch, capsys):
    """Without a judgement, then with the whole worklist refused: every hit is judged, no order can flip, nothing is left to judge."""
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))
    (root / "params/toy/55_labels.yml").write_text("{}\n")
    build.run(root, "toy", "55_labels", say=lambda text: None)
    folder = root / "runs/toy/base/55_labels"
    work = pd.read_csv(folder / "worklist.csv", dtype=str, keep_default_na=False)
    shares = [
        tables.read_csv(root / f"runs/toy/base/{name}/metrics.csv")["judged@10"] for name in ("30_sweep", "40_rerank")
    ]
    assert all(part.between(0, 1).all() and part.gt(0).any() for part in shares)
    assert len(work) > 3 and tables.read_csv(folder / "pool_bias.csv").empty
    assert tables.read_csv(folder / "flips.csv")["flips"].to_list() == ["can flip"]
    work.assign(grade="0").to_csv(root / "filled.csv", index=False)
    assert cli.main(["judge", "toy", str(root / "filled.csv"), "--by", "maintainers"]) == 0
    assert f"{len(work)} added" in capsys.readouterr().out
    corpus, queries = tables.latest_inputs(root, "toy")
    refused = judgements.load(root / "data/toy/judgments.jsonl", corpus, queries)
    hits = tables.read_hits(root / "runs/toy/base/30_sweep/hits.jsonl")
    label = holes.labeller(
        unit_sets(corpus, tables.read_units(root / "runs/toy/base/10_ingest/units.jsonl")), corpus, refused
    )
    pairs = holes.compared(
        tables.read_csv(root / "runs/toy/base/50_statistics/comparisons.csv"),
        label,
        hits,
        queries,
        holes.chunkers(hits),
    )
    assert holes.comparison_table(pairs)["flips"].to_list() == ["cannot flip"]
    assert holes.worklist(pairs, queries, corpus, hits, 10).empty
