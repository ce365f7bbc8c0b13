"""The judging table, worked by hand. Everything else in localeval rests on these."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval.grading import (
    Units,
    character_scores,
    character_table,
    collapse,
    evidence_lost,
    grade,
    known_rules,
    merged,
    overlap_share,
)
from localeval.records import Evidence, Graded, Hit, Query, ScoringRule, Span, Unit

# One manual of 100 characters: two pages, five chunks of 20 (c1..c5). Another of 40: one page, two chunks.
MANUAL = [Span("manual.pdf", at, at + 20) for at in range(0, 100, 20)]
OTHER = [Span("other.pdf", 0, 20), Span("other.pdf", 20, 40)]
C1, C2, C3, C4, C5 = MANUAL
CHUNKS = Units(Unit(span, "chunk") for span in MANUAL + OTHER)
PAGE_SPANS = [Span("manual.pdf", 0, 50), Span("manual.pdf", 50, 100), Span("other.pdf", 0, 40)]
PAGES = Units(Unit(span, "page") for span in PAGE_SPANS)
DOCUMENTS = Units([Unit(Span("manual.pdf", 0, 100), "document"), Unit(Span("other.pdf", 0, 40), "document")])
UNITS = {"chunk": CHUNKS, "page": PAGES, "document": DOCUMENTS, "symbol": CHUNKS}


def ask(start, end, kind="span", grade=1, doc="manual.pdf"):
    return Evidence(Span(doc, start, end), grade, kind)


def judged(ranking, evidence, rule):
    hits = [Hit(span, 1.0 / rank) for rank, span in enumerate(ranking, 1)]
    rule = ScoringRule.parse(rule)
    return grade(hits, Query("q", "?", tuple(evidence)), rule, UNITS[rule.unit])


@pytest.mark.parametrize(
    ("evidence", "rule", "gains", "ideal"),
    [
        # a span inside chunk 2
        (ask(25, 35), "chunk/contains", ((2, 1.0),), 1),
        (ask(25, 35), "chunk/overlaps", ((2, 1.0),), 1),
        # a span across the border of chunks 2 and 3: no chunk holds it, two overlap it
        (ask(35, 45), "chunk/contains", (), 0),
        (ask(35, 45), "chunk/overlaps", ((2, 1.0), (3, 1.0)), 2),
        # pages: chunk 1 and 2 lie on the first page, chunk 3 mostly on it (40-50 against 50-60: tie, the earlier)
        (ask(25, 35), "page/overlaps", ((1, 1.0),), 1),
        (ask(45, 55), "page/overlaps", ((1, 1.0), (2, 1.0)), 2),
        (ask(45, 55), "page/contains", (), 0),
        (ask(25, 35), "document/contains", ((1, 1.0),), 1),
        # the published rule that asks only for the right document, and ranks chunks
        (ask(25, 35), "chunk/same_document", tuple((rank, 1.0) for rank in range(1, 6)), 5),
    ],
)
def test_span_evidence(evidence, rule, gains, ideal):
    graded = judged(MANUAL, [evidence], rule)
    assert graded.gains == gains
    assert len(graded.ideal) == ideal
    assert graded.status == ("scored" if ideal else "unreachable")


@pytest.mark.parametrize(
    ("kind", "applicable"),
    [
        ("page", {"page/overlaps", "document/contains", "chunk/same_document"}),
        ("document", {"document/contains", "chunk/same_document"}),
        ("symbol", {"symbol/contains", "document/contains", "chunk/same_document"}),
    ],
)
def test_a_rule_finer_than_the_evidence_does_not_apply(kind, applicable):
    rules = [
        "chunk/contains",
        "chunk/overlaps",
        "chunk/same_document",
        "page/overlaps",
        "document/contains",
        "symbol/contains",
    ]
    evidence = {"page": ask(0, 50, "page"), "document": ask(0, 100, "document"), "symbol": ask(20, 40, "symbol")}[kind]
    got = {rule for rule in rules if judged(MANUAL, [evidence], rule).status != "not_applicable"}
    assert got == applicable
    assert not judged(MANUAL, [evidence], "chunk/overlaps").gains


def test_page_evidence_counts_its_page_and_its_document():
    page = ask(50, 100, "page")
    assert judged([C1, C5], [page], "page/overlaps").gains == ((2, 1.0),)
    assert judged([C1, C5], [page], "document/contains").gains == ((1, 1.0),)


def test_unanswerable_is_never_a_hit_and_never_a_miss():
    assert judged(MANUAL, [], "chunk/same_document") == Graded("q", "unanswerable", origin="human")


def test_right_document_wrong_passage():
    ranking, evidence = [C1, C2], [ask(65, 75)]
    assert judged(ranking, evidence, "chunk/same_document").gains == ((1, 1.0), (2, 1.0))
    assert judged(ranking, evidence, "document/contains").gains == ((1, 1.0),)
    passage = judged(ranking, evidence, "chunk/contains")
    assert passage.gains == () and passage.status == "scored"


def test_a_coarse_unit_gains_the_highest_grade_it_covers():
    graded = judged([C1, C5], [ask(5, 10, grade=1), ask(25, 30, grade=2), ask(90, 95, grade=1)], "page/overlaps")
    assert graded.gains == ((1, 2.0), (2, 1.0))
    assert graded.ideal == (2.0, 1.0)
    assert graded.covers == ((1, (0, 1)), (2, (2,)))


def test_overlapping_chunks_reward_evidence_once():
    windows = [Span("manual.pdf", 0, 40), Span("manual.pdf", 20, 60)]
    units = Units(Unit(span, "chunk") for span in windows)
    graded = grade(
        [Hit(s, 1.0) for s in windows], Query("q", "?", (ask(22, 30),)), ScoringRule("chunk", "contains"), units
    )
    assert graded.gains == ((1, 1.0), (2, 1.0)), "unit metrics keep trec_eval's meaning"
    assert graded.covers == ((1, (0,)),), "evidence metrics reward each piece of evidence once"


def test_exact_duplicates_are_one_class():
    texts = {C1: "same words", C4: "same words"}
    units = Units([Unit(span, "chunk") for span in MANUAL], text=lambda span: texts.get(span, str(span)))
    query = Query("q", "?", (ask(62, 70),))  # in chunk 4; chunk 1 says exactly the same
    rule = ScoringRule("chunk", "contains")
    graded = grade([Hit(C1, 3.0), Hit(C2, 2.0), Hit(C4, 1.0)], query, rule, units)
    assert graded.gains == ((1, 1.0),), "the twin counts, and the class counts once"
    assert graded.ideal == (1.0,)
    same = grade([Hit(C1, 3.0), Hit(C4, 1.0)], query, ScoringRule("chunk", "same_document"), units)
    assert same.gains == ((1, 1.0), (2, 1.0)), "the published rule knows documents only"


def test_collapse_keeps_the_first_hit_of_each_unit_and_ranks_the_page_overlapped_most():
    assert collapse([C5, C4, C1, OTHER[1], C2], PAGES) == [PAGE_SPANS[1], PAGE_SPANS[0], PAGE_SPANS[2]]
    assert collapse([C3], PAGES) == [PAGE_SPANS[0]], "half on each page: the earlier"
    assert collapse([Span("manual.pdf", 45, 60)], PAGES) == [PAGE_SPANS[1]]


def test_repeated_pages_never_push_recall_past_one():
    """Ranked chunks map to pages p7, p7, p2; gold pages p7 and p9."""
    pages = Units(Unit(Span(f"p{n}", 0, 40), "page") for n in (2, 7, 9))
    query = Query("q", "?", (ask(0, 40, "page", doc="p7"), ask(0, 40, "page", doc="p9")))
    hits = [Hit(Span("p7", 0, 20), 3.0), Hit(Span("p7", 20, 40), 2.0), Hit(Span("p2", 0, 20), 1.0)]
    graded = grade(hits, query, ScoringRule("page", "overlaps"), pages)
    assert (graded.gains, graded.ideal, graded.ranked) == (((1, 1.0),), (1.0, 1.0), 2)


def test_mixed_evidence_is_judged_by_what_the_rule_can_judge():
    """A templated question carries its section and one sentence; a chunk rule sees the sentence only."""
    graded = judged(MANUAL, [ask(0, 60, "section"), ask(25, 35)], "chunk/contains")
    assert (graded.status, graded.evidence, graded.ideal) == ("scored", (1,), (1.0,))


def test_overlap_share_is_recorded_as_a_share_of_the_evidence():
    assert overlap_share(C2, ask(35, 45)) == 0.5
    assert overlap_share(C1, ask(35, 45)) == 0.0


def test_unordered_hits_are_refused():
    with pytest.raises(TypeError, match="order"):
        grade({Hit(C1, 1.0)}, Query("q", "?", (ask(0, 5),)), ScoringRule("chunk", "contains"), CHUNKS)


def test_a_chunk_border_through_the_evidence_makes_it_unreachable():
    """Text of 25 characters, evidence (8, 13), windows of 10: without overlap no window holds it."""
    query = Query("q", "?", (ask(8, 13, doc="t"),))
    rule = ScoringRule("chunk", "contains")
    plain = Units(Unit(Span("t", a, b), "chunk") for a, b in [(0, 10), (10, 20), (20, 25)])
    overlapping = Units(Unit(Span("t", a, b), "chunk") for a, b in [(0, 10), (6, 16), (12, 22), (18, 25)])
    assert grade([Hit(Span("t", 0, 10), 1.0)], query, rule, plain).status == "unreachable"
    assert grade([Hit(Span("t", 6, 16), 1.0)], query, rule, overlapping).gains == ((1, 1.0),)


spans = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda t: Span("d", t[0], t[0] + t[1]))


@given(st.lists(spans, min_size=1, max_size=12, unique=True), spans)
def test_touching_equals_a_plain_search(units, span):
    assert Units(Unit(u, "chunk") for u in units).touching(span) == sorted(u for u in units if u.overlap(span))


@given(st.lists(spans, min_size=1, max_size=12, unique=True), st.lists(spans, min_size=1, max_size=3))
def test_no_ranking_beats_the_ideal(units, evidence):
    query = Query("q", "?", tuple(Evidence(span, grade=1 + i % 2) for i, span in enumerate(evidence)))
    for rule in ("chunk/contains", "chunk/overlaps", "chunk/same_document"):
        graded = grade(
            [Hit(u, 1.0) for u in units], query, ScoringRule.parse(rule), Units(Unit(u, "chunk") for u in units)
        )
        assert sorted((gain for _, gain in graded.gains), reverse=True) == list(graded.ideal)
        found = [index for _, indexes in graded.covers for index in indexes]
        assert len(found) == len(set(found)) <= len(evidence)


def retrieved(*spans):
    return [Hit(span, 1.0 / rank) for rank, span in enumerate(spans, 1)]


def test_characters_are_counted_once_by_hand():
    query = Query("q", "?", (ask(10, 30), ask(25, 45)))  # 35 characters, 10 to 45
    overlapping = retrieved(Span("manual.pdf", 0, 20), Span("manual.pdf", 15, 40), Span("other.pdf", 0, 20))  # 40 + 20
    assert character_scores(overlapping, query, 10) == (30 / 35, 30 / 60, 30 / 65)
    assert character_scores(overlapping, query, 1) == (10 / 35, 10 / 20, 10 / 45)
    assert character_scores([], query, 10) == (0.0, 0.0, 0.0)
    assert character_scores(overlapping, Query("q", "?"), 10) is None
    assert character_scores(overlapping, Query("q", "?", (ask(0, 50, "page"),)), 10) is None


spans_of_one = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=8)


@given(spans_of_one, spans_of_one, st.integers(1, 8))
def test_characters_agree_with_sets_of_places(evidence, hits, cutoff):
    place = lambda ranges: {at for start, length in ranges for at in range(start, start + length)}
    wanted, found = place(evidence), place(hits[:cutoff])
    query = Query("q", "?", tuple(ask(start, start + length) for start, length in evidence))
    got = character_scores(retrieved(*(Span("manual.pdf", a, a + n) for a, n in hits)), query, cutoff)
    if not wanted:
        assert got is None
        return
    both = len(wanted & found)
    assert got == (both / len(wanted), both / len(found) if found else 0.0, both / len(wanted | found))


@given(spans_of_one)
def test_merged_spans_are_disjoint_and_hold_the_same_characters(ranges):
    one = merged(Span("manual.pdf", a, a + n) for a, n in ranges)
    assert all(before.end < after.start for before, after in pairwise(one))
    assert sum(map(len, one)) == len({at for a, n in ranges for at in range(a, a + n)})


def test_a_table_of_characters_leaves_out_questions_without_spans():
    queries = [Query("a", "?", (ask(0, 10),), origin="human"), Query("b", "?")]
    queries.append(Query("c", "?", (ask(0, 10),)))
    table = character_table({("s", "a"): retrieved(C1), ("s", "b"): retrieved(C1)}, queries, 5)
    missed = table[table["query_id"] == "c"]
    assert missed["value"].tolist() == [0.0, 0.0, 0.0], "no hit for a question is nothing found, not a question less"
    table = table[table["query_id"] != "c"]
    assert table["query_id"].unique().tolist() == ["a"] and set(table["rule"]) == {"characters"}
    assert dict(zip(table["metric"], table["value"], strict=True)) == {
        "char_recall@5": 1.0, "char_precision@5": 0.5, "char_iou@5": 0.5
    }  # fmt: skip


def test_evidence_that_no_chunk_holds_is_counted_by_piece():
    queries = [
        Query("a", "?", (ask(25, 35), ask(15, 25))),
        Query("b", "?", (ask(0, 1, "page"),)),
        Query("c", "?"),
        Query("d", "?", (ask(50, 95),)),
    ]
    halves = Units(Unit(span, "chunk") for span in [Span("manual.pdf", 0, 50), Span("manual.pdf", 50, 100)])
    sets = {("fives", "chunk"): CHUNKS, ("halves", "chunk"): halves}
    table = evidence_lost(queries, "chunk/contains", sets)
    assert table.to_dict("list") == {"chunker": ["fives", "halves"], "pieces": [3, 3], "lost": [2, 0]}
    assert evidence_lost(queries, "chunk/overlaps", sets)["lost"].tolist() == [0, 0]
    assert evidence_lost([], "chunk/contains", sets)["pieces"].tolist() == [0, 0]


def test_a_rule_named_twice_is_one_rule():
    assert known_rules(["chunk/contains", "page/overlaps", "chunk/contains"]) == ["chunk/contains", "page/overlaps"]
