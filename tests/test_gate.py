"""The gate: every lock, every verdict and exit code, alone and together; baselines that are good, old, foreign or broken."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import random
import re
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml

from conftest import PROJECT
from localeval import baseline as bases
from localeval import build, cli, gate, gatereport, grading, metrics
from localeval.provenance import digest_path
from localeval.records import BadInput, Evidence, Hit, Query, ScoringRule, Span, Unit, Verdict

RULE = "chunk/contains"
TEXT = "".join(f"sentence{number:02d}. " for number in range(60))
CHUNKS = [Unit(Span("a.md", at, at + 12), "chunk") for at in range(0, len(TEXT), 12)]
UNITS = grading.Units(CHUNKS)
SYSTEMS = ("section/bm25", "section/dense:minilm")


def settings(**given):
    return gate.settings({"systems": list(SYSTEMS), "origin": "human"} | given, "gate.yml")


def queries(n=20, **changes):
    """Question i asks for sentence i. changes: id -> fields that differ."""
    made = {}
    for i in range(n):
        one = Query(f"q{i:02d}", f"Where is sentence {i}?", (Evidence(Span("a.md", 12 * i, 12 * i + 11), 2),))
        made[one.query_id] = replace(one, **changes.get(one.query_id, {}))
    return made


def ranking(i, rank):
    """Twelve chunks, that of question i at its rank; None: not among them."""
    others = [unit.span for unit in CHUNKS[40:52]]
    if rank is not None:
        others.insert(rank - 1, CHUNKS[i].span)
    return tuple(others[:12])


def ran(asked, ranks, kept=10, **facts):
    answers = {}
    for i, (query, rank) in enumerate(zip(asked.values(), ranks, strict=True)):
        hits = ranking(i, rank)
        graded = grading.grade([Hit(span, 0.0) for span in hits], query, ScoringRule.parse(RULE), UNITS)
        answers[query.query_id] = bases.Answer(graded, hits[:kept])
    return bases.Ran(**{"status": "ok", "chunker": "section", "chunks": "c1", "answers": answers} | facts)


def side(asked, ranks, made=None, *, where="here", rule=RULE, origin="human", **facts):
    """ranks: system -> rank of the answer of each question."""
    systems = {name: some if isinstance(some, bases.Ran) else ran(asked, some) for name, some in ranks.items()}
    known = {"corpus": "sha256:1", "gold": "g1", "settings": {"30_sweep": {"k1": 1.5}}} | facts
    questions = {name: bases.asked(one, made or settings()) for name, one in asked.items()}
    return bases.Side(where, rule, origin, 10, known, questions, systems)


def judge(before, now, made=None, *, asked=None, look=None, known=None):
    """The report on two sides."""
    asked = asked or queries(len(now.questions))
    states = {name: one.status for name, one in now.systems.items()} | (known or {})
    run = bases.Run(now, asked, {"section": UNITS}, states, False, (), {"a.md": TEXT})
    about = {"created": "2026-01-31", "source": "there", "reason": ""}
    return gatereport.judge("toy", before, about, run, made or settings(), look)


def of(report, system=SYSTEMS[0]):
    return next(row for row in report["systems"] if row["system"] == system)


def both(ranks, n=20):
    return {name: list(ranks) for name in SYSTEMS}


GOOD = [1] * 20
GONE = [None] * 20


def test_the_same_hits_are_ok_with_a_change_of_exactly_nothing():
    asked = queries()
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD)))
    assert (report["status"], report["exit_code"]) == ("OK", 0)
    assert [row["delta"] for row in report["systems"]] == [0.0, 0.0] and report["failing"] == []
    assert report["mode"]["name"] == "fixed" and report["mode"]["family"] == 2


def test_a_broken_system_fails_and_the_other_does_not():
    asked = queries()
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD) | {SYSTEMS[0]: GONE}))
    assert (report["status"], report["exit_code"]) == ("FAIL", 1)
    assert of(report)["status"] == "FAIL" and of(report, SYSTEMS[1])["status"] == "OK"
    assert of(report)["delta"] == -1 and of(report)["n"] == 20 and of(report)["p_adjusted"] < 0.05
    assert "fell by 1.0000, more than 0.03, and significantly" in report["reasons"][0]


def test_a_large_drop_of_one_question_only_warns():
    """1 of 20 questions lost: the mean falls by 0.05, and the sign-flip p of one difference is 1."""
    asked = queries()
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD) | {SYSTEMS[0]: [None, *GOOD[1:]]}))
    assert (report["status"], report["exit_code"]) == ("WARN", 0)
    assert of(report)["delta"] == pytest.approx(-0.05) and of(report)["p_value"] == 1
    assert "not significantly" in of(report)["reasons"][0]


def test_a_significant_drop_below_the_minimum_effect_is_ok_and_said():
    """Rank 9 to 10 in every question: 1 / log2(10) - 1 / log2(11) = 0.012."""
    asked = queries()
    before, now = side(asked, both([9] * 20)), side(asked, both([10] * 20))
    assert judge(before, now)["status"] == "OK"
    assert "fell significantly, by 0.0120, no more than 0.03" in judge(before, now)["reasons"][0]
    assert judge(before, now, settings(min_effect=0.01))["status"] == "FAIL"


def test_better_is_never_a_failure():
    asked = queries()
    assert judge(side(asked, both(GONE)), side(asked, both(GOOD)))["status"] == "OK"


# Lock 2


def must_hit(*names, **rest):
    return settings(must_hit={"questions": list(names)} | rest)


@pytest.mark.parametrize(
    ("before", "now", "state", "status"),
    [
        (1, 3, "kept", "OK"), (1, 4, "lost", "FAIL"), (3, None, "lost", "FAIL"), (4, None, "missed before", "OK"),
        (None, None, "missed before", "OK"), (5, 2, "gained", "OK"), (None, 1, "gained", "OK"), (3, 3, "kept", "OK"),
    ],
)  # fmt: skip
def test_a_must_hit_question_stays_within_its_floor(before, now, state, status):
    """All other questions get better, so that no mean falls."""
    asked, made = queries(), must_hit("q00", floor=3)
    ranks = [{name: [rank, *rest] for name in SYSTEMS} for rank, rest in ((before, [2] * 19), (now, [1] * 19))]
    report = judge(side(asked, ranks[0], made), side(asked, ranks[1], made), made)
    assert of(report)["must_hit"][0]["state"] == state and report["status"] == status
    assert report["exit_code"] == int(status == "FAIL")


def test_floors_are_per_system():
    asked, made = queries(), must_hit("q00", floor=3, floors={SYSTEMS[1]: 5})
    before, now = (side(asked, {name: [rank, *GOOD[1:]] for name in SYSTEMS}, made) for rank in (1, 5))
    report = judge(before, now, made)
    assert of(report)["must_hit"][0]["state"] == "lost" and of(report, SYSTEMS[1])["must_hit"][0]["state"] == "kept"


def test_the_gold_file_marks_must_hit_questions_too():
    asked = queries(q03={"must_hit": True})
    report = judge(side(asked, both(GOOD)), side(asked, both([1, 1, 1, 9, *GOOD[4:]])), asked=asked)
    assert (
        report["status"] == "FAIL" and "must-hit question q03 lost (rank 1 -> rank 9; floor 3)" in of(report)["reasons"]
    )
    assert report["failing"][0]["query_id"] == "q03" and report["failing"][0]["lost_must_hit"]


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (lambda asked: {name: one for name, one in asked.items() if name != "q19"}, "q19 was removed"),
        (lambda asked: asked | {"q19": replace(asked["q19"], text="Another question?")}, "q19 was reworded"),
        (lambda asked: asked | {"q19": replace(asked["q19"], must_hit=False)}, "q19 is no longer marked"),
    ],
)
def test_taking_a_must_hit_question_away_is_said(now, words):
    asked = queries(q19={"must_hit": True})
    later = now(asked)
    report = judge(side(asked, both(GOOD)), side(later, both(GOOD[: len(later)])), asked=later)
    assert report["status"] == "WARN" and f"must-hit question {words}" in report["reasons"]


def test_a_new_must_hit_question_is_held_by_nothing_and_warns():
    old, new = queries(19), queries(20, q19={"must_hit": True})
    report = judge(side(old, both(GOOD[:19])), side(new, both(GOOD)), asked=new)
    assert report["status"] == "WARN" and of(report)["must_hit"][0]["state"] == "not comparable"
    assert report["questions"]["new"] == ["q19"]


# Lock 3


def test_a_renamed_system_is_missing_with_the_near_name():
    asked = queries()
    now = side(asked, {SYSTEMS[1]: GOOD})
    report = judge(side(asked, both(GOOD)), now, known={"section/bm25f": "ok"})
    assert (report["status"], report["exit_code"]) == ("MISSING", 1)
    assert "did not run (did you mean 'section/bm25f'?)" in of(report)["reasons"][0]
    assert of(report)["n"] is None and of(report)["delta"] is None, "what did not run has no number"
    assert of(report, SYSTEMS[1])["status"] == "OK"


@pytest.mark.parametrize("state", ["not_run", "unavailable", "failed", "timed_out"])
def test_a_system_that_did_not_end_well_is_missing_and_never_zero(state):
    asked = queries()
    broken = ran(asked, GONE, status=state, reason="out of memory")
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD) | {SYSTEMS[0]: broken}))
    assert report["status"] == "MISSING" and f"did not run: {state} (out of memory)" in of(report)["reasons"]
    assert of(report)["now"] is None


def test_a_system_that_returns_nothing_ran_and_fails():
    asked = queries()
    empty = ran(asked, GONE, status="empty")
    assert judge(side(asked, both(GOOD)), side(asked, both(GOOD) | {SYSTEMS[0]: empty}))["status"] == "FAIL"


def test_a_question_without_an_answer_is_missing_not_left_out():
    asked = queries()
    part = ran(asked, GOOD)
    part = replace(part, answers={name: one for name, one in part.answers.items() if name != "q07"})
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD) | {SYSTEMS[0]: part}))
    assert report["status"] == "MISSING" and "no answer to 1 of 20 questions (q07)" in of(report)["reasons"][0]


# Lock 4


@pytest.mark.parametrize(
    ("facts", "policy", "status"),
    [
        ({"corpus": "sha256:2"}, {}, "NOT COMPARABLE"), ({"corpus": ""}, {}, "NOT COMPARABLE"),
        ({"corpus": "sha256:2"}, {"corpus": "note"}, "FAIL"), ({"corpus": "sha256:2"}, {"corpus": "report_only"}, "REPORT-ONLY"),
        ({"settings": {"30_sweep": {"k1": 9}}}, {}, "FAIL"), ({"settings": {}}, {"settings": "error"}, "NOT COMPARABLE"),
        ({"gold": "g2"}, {}, "FAIL"), ({"gold": "g2"}, {"gold": "error"}, "NOT COMPARABLE"),
    ],
)  # fmt: skip
def test_what_a_changed_fingerprint_does_to_a_broken_system(facts, policy, status):
    asked, made = queries(), settings(on_change=policy)
    report = judge(side(asked, both(GOOD)), side(asked, both(GONE), **facts), made)
    assert report["status"] == status and report["exit_code"] == {"FAIL": 1, "REPORT-ONLY": 0}.get(status, 2)
    (changed,) = [one["name"] for one in report["fingerprints"] if not one["same"]]
    assert changed == next(iter(facts))
    if status == "REPORT-ONLY":
        assert "not enforced; it would be FAIL" in of(report)["reasons"]


def test_two_corpora_that_nobody_recorded_are_not_the_same():
    asked = queries()
    report = judge(side(asked, both(GOOD), corpus=""), side(asked, both(GOOD), corpus=""))
    assert report["status"] == "NOT COMPARABLE"


def test_a_rebuilt_index_is_only_reported_and_only_for_its_system():
    asked = queries()
    before = side(asked, {name: ran(asked, GOOD, index="i1") for name in SYSTEMS})
    now = side(asked, {SYSTEMS[0]: ran(asked, GONE, index="i2"), SYSTEMS[1]: ran(asked, GOOD, index="i1")})
    report = judge(before, now)
    assert (report["status"], report["exit_code"]) == ("REPORT-ONLY", 0)
    assert (
        of(report)["status"] == "REPORT-ONLY" and of(report)["delta"] == -1 and of(report, SYSTEMS[1])["status"] == "OK"
    )


def test_changed_settings_are_named_with_both_values():
    asked = queries()
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD), settings={"30_sweep": {"k1": 9, "b": 1}}))
    rows = [
        {"name": "30_sweep: k1", "baseline": 1.5, "current": 9},
        {"name": "30_sweep: b", "baseline": None, "current": 1},
    ]
    assert report["changed_settings"] == rows and "changed   30_sweep: k1: 1.5 -> 9" in "\n".join(
        gatereport.lines(report)
    )


@pytest.mark.parametrize("other", [{"rule": "page/overlaps"}, {"origin": "templated"}])
def test_another_rule_or_stratum_is_another_measurement(other):
    asked = queries()
    report = judge(side(asked, both(GOOD), **other), side(asked, both(GOOD)))
    assert (report["status"], report["exit_code"]) == ("NOT COMPARABLE", 2)


def test_a_system_the_baseline_does_not_hold_cannot_be_compared():
    asked = queries()
    report = judge(side(asked, {SYSTEMS[0]: GOOD}), side(asked, both(GOOD)))
    assert (report["status"], report["exit_code"]) == ("NOT COMPARABLE", 2) and of(report)["status"] == "OK"


# Together


def test_the_worst_verdict_stands_for_all():
    order = ["FAIL", "MISSING", "ERROR", "NOT COMPARABLE", "WARN", "REPORT-ONLY", "OK"]
    assert list(gate.EXIT) == order == list(gate.MEANING)
    for one, other in itertools.combinations(order, 2):
        assert gate.overall([other, one, "OK"]) == one
    assert gate.overall([]) == "ERROR"
    assert [gate.EXIT[name] for name in order] == [1, 1, 2, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        (["OK", "OK"], "OK"), (["OK", "WARN"], "WARN"), (["WARN", "FAIL"], "FAIL"), (["FAIL", "REPORT-ONLY"], "REPORT-ONLY"),
        (["WARN", "REPORT-ONLY"], "REPORT-ONLY"), (["REPORT-ONLY", "MISSING"], "MISSING"), (["FAIL", "MISSING"], "MISSING"),
        (["REPORT-ONLY", "NOT COMPARABLE"], "NOT COMPARABLE"), (["MISSING", "NOT COMPARABLE"], "MISSING"),
    ],
)  # fmt: skip
def test_the_verdict_of_one_system(parts, status):
    assert gate.judge_system([Verdict(part) for part in parts]).status == status


def test_a_failure_is_said_beside_a_missing_system():
    asked = queries()
    report = judge(side(asked, both(GOOD)), side(asked, {SYSTEMS[0]: GONE}))
    assert (report["status"], report["exit_code"]) == ("FAIL", 1)
    assert of(report, SYSTEMS[1])["status"] == "MISSING" and "MISSING" in "\n".join(gatereport.lines(report))


# Few questions


def test_one_question_cannot_fail_by_its_mean_and_the_gate_says_so():
    asked = queries(1)
    report = judge(side(asked, both([1])), side(asked, both([1])))
    assert report["status"] == "WARN" and "no drop could be significant with so few questions" in report["reasons"][0]
    made = must_hit("q00")
    lost = judge(side(asked, both([1]), made), side(asked, both([None]), made), made)
    assert lost["status"] == "FAIL", "the must-hit lock still closes"


@pytest.mark.parametrize(("n", "status"), [(5, "WARN"), (6, "WARN"), (7, "FAIL")])
def test_from_how_many_questions_on_two_systems_can_fail(n, status):
    """The smallest two-sided p is 2 / 2^n, times 2 for Holm: 0.125, 0.0625, 0.03125."""
    asked = queries(n)
    assert judge(side(asked, both([1] * n)), side(asked, both([None] * n)))["status"] == status


def test_no_question_at_all_is_not_ok():
    report = judge(side({}, both([])), side({}, both([])), asked={})
    assert (report["status"], report["exit_code"]) == ("NOT COMPARABLE", 2)
    assert "no question has a value on both sides" in report["reasons"][0]


def test_unanswerable_questions_are_in_no_mean():
    asked = queries(20, **{f"q{i:02d}": {"evidence": ()} for i in range(10)})
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD)), asked=asked)
    assert of(report)["n"] == 10 and report["questions"]["shared"] == 20


# Questions and labels that changed


def test_new_removed_and_reworded_questions_are_named_and_not_compared():
    old, new = queries(20), queries(20)
    del old["q00"], new["q01"]
    new["q02"] = replace(new["q02"], text="Where else?")
    report = judge(side(old, both([1] * 19)), side(new, both([1] * 19)), asked=new)
    counted = report["questions"]
    assert (counted["new"], counted["removed"], counted["reworded"], counted["shared"]) == (
        ["q00"],
        ["q01"],
        ["q02"],
        17,
    )
    assert of(report)["n"] == 17
    assert "17 on both sides; 1 new (q00); 1 removed (q01); 1 reworded (q02)" in "\n".join(gatereport.lines(report))


def relabelled():
    """Question 0 now asks for chunk 45, which stands at rank 6 for everybody; before it was chunk 0, at rank 1."""
    return queries(q00={"evidence": (Evidence(CHUNKS[45].span, 2),)})


def test_both_sides_are_graded_by_the_labels_of_now():
    old, new = queries(), relabelled()
    hits = ranking(0, 1)
    value = metrics.measure(
        grading.grade([Hit(span, 0) for span in hits], new["q00"], ScoringRule.parse(RULE), UNITS), "evidence_ndcg@10"
    )
    now = side(new, {name: ran(new, GOOD) for name in SYSTEMS}, gold="g2")
    report = judge(side(old, both(GOOD)), now, asked=new)
    assert 0 < value < 1 and report["questions"]["relabelled"] == ["q00"]
    assert (
        report["status"] == "OK"
        and of(report)["delta"] == 0
        and of(report)["before"] == pytest.approx((19 + value) / 20)
    )
    assert of(report)["not_regraded"] == []


@pytest.mark.parametrize("why", ["no hits stored", "other chunks", "other corpus", "too few hits stored"])
def test_what_cannot_be_graded_again_is_left_out_and_named(why):
    old, new, made = queries(), relabelled(), settings(on_change={"corpus": "note"})
    chunks = "c2" if why == "other chunks" else "c1"
    before = {name: ran(old, GOOD, kept=5 if why == "too few hits stored" else 10, chunks=chunks) for name in SYSTEMS}
    if why == "no hits stored":
        before = {
            name: replace(one, answers={q: replace(a, hits=None) for q, a in one.answers.items()})
            for name, one in before.items()
        }
    base = side(old, before, **({"corpus": "sha256:0"} if why == "other corpus" else {}))
    base = replace(base, kept=5) if why == "too few hits stored" else base
    report = judge(base, side(new, both(GOOD), gold="g2"), made, asked=new)
    assert of(report)["not_regraded"] == ["q00"] and of(report)["n"] == 19


def test_stored_hits_give_the_stored_gains_again():
    """For every rank down to the cut; a ranking shorter than what is kept is whole, and needs no depth."""
    asked = queries()
    for rank in (*range(1, 11), None):
        answer = ran(asked, [rank] * 20).answers["q04"]
        again = bases.grade_again(answer, asked["q04"], settings(), UNITS, 10)
        assert metrics.measure(again.graded, "evidence_ndcg@10") == metrics.measure(answer.graded, "evidence_ndcg@10")
    short = replace(answer, hits=answer.hits[:4])
    assert bases.grade_again(short, asked["q04"], settings(), UNITS, 10) is not None
    assert bases.grade_again(short, asked["q04"], settings(), UNITS, 4) is None


def test_ties_in_a_failing_list_keep_the_order_of_the_gold():
    asked = queries()
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD) | {SYSTEMS[0]: GONE}))
    assert [row["query_id"] for row in report["failing"]] == list(asked)
    first = report["failing"][0]
    assert first["before"]["hits"][0]["quote"] == "sentence00." and first["before"]["hits"][0]["counts"]
    assert first["now"]["rank"] is None and not any(hit["counts"] for hit in first["now"]["hits"])
    said = "\n".join(gatereport.lines(report))
    assert (
        "20 questions fell; the first 3" in said and "first hit that counts: rank 1" in said and "no hit counts" in said
    )


# The pure function, and the modes


def table(values, system="s"):
    return pd.DataFrame([(system, f"q{i}", v) for i, v in enumerate(values)], columns=["system", "query_id", "value"])


def test_drops_is_now_minus_baseline_whatever_the_order_of_rows():
    rng = np.random.default_rng(0)
    one, other = table(rng.random(30)), table(rng.random(30))
    (got,), (again,) = (
        gate.drops(one, other, min_effect=0.0),
        gate.drops(one.sample(frac=1), other.sample(frac=1), min_effect=0.0),
    )
    assert got == again and got.delta == pytest.approx(other["value"].mean() - one["value"].mean())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_no_number_stops_the_gate(value):
    with pytest.raises(BadInput, match="question q1 has a value that is no number"):
        gate.drops(table([1.0, 1.0]), table([1.0, value]), min_effect=0.0)


def test_two_values_of_one_question_stop_the_gate():
    twice = pd.concat([table([1.0]), table([0.0])])
    with pytest.raises(BadInput, match="a question has two values"):
        gate.drops(table([1.0]), twice, min_effect=0.0)


def test_the_mode_that_spoke_is_said_and_anytime_wants_the_look():
    asked, made = queries(), settings(mode="anytime")
    with pytest.raises(BadInput, match="--look N"):
        judge(side(asked, both(GOOD)), side(asked, both(GOOD)), made)
    report = judge(side(asked, both(GOOD)), side(asked, both(GOOD)), made, look=3)
    assert report["status"] == "OK" and of(report)["low"] < 0 < of(report)["high"] and report["mode"]["look"] == 3
    assert of(report)["alpha"] == pytest.approx(0.05 / 12 / 2) and math.isnan(of(report)["p_value"])
    assert "mode      anytime: confidence sequence, look 3" in "\n".join(gatereport.lines(report))
    broken = judge(side(asked, both(GOOD)), side(asked, both(GONE)), made, look=3)
    assert broken["status"] == "FAIL" and of(broken)["high"] < 0
    few = queries(5)
    assert judge(side(few, both([1] * 5)), side(few, both([None] * 5)), made, look=1)["status"] == "WARN"


def test_many_looks_keep_the_error_rate_in_mode_anytime_and_not_in_mode_fixed():
    """20 histories of 20 changes that are not worse in truth, on 25 questions: how often does a gate ever fail one of them?

    Fixed: 2.5 % a look, so about 40 % of the histories. Anytime: 5 % of them, plus three standard errors.
    """
    rng, failed = np.random.default_rng(5), {"fixed": 0, "anytime": 0}
    base = table(np.full(25, 0.5))
    for _ in range(20):
        looks = [table(0.5 + rng.uniform(-0.5, 0.5, 25)) for _ in range(20)]
        for mode in failed:
            said = (
                gate.drops(base, one, min_effect=0.0, mode=mode, look=look, n_resamples=300)[0].status
                for look, one in enumerate(looks, 1)
            )
            failed[mode] += "FAIL" in said
    most = 20 * 0.05 + 3 * math.sqrt(20 * 0.05 * 0.95)
    assert failed["anytime"] <= most < failed["fixed"]


def test_one_look_fails_a_change_that_is_not_worse_no_more_often_than_alpha():
    rng, base, failed = np.random.default_rng(6), table(np.full(30, 0.5)), 0
    for _ in range(100):
        now = table(0.5 + rng.choice([-0.5, 0.0, 0.5], 30, p=[0.2, 0.6, 0.2]))
        failed += gate.drops(base, now, min_effect=0.0, n_resamples=300)[0].status == "FAIL"
    assert failed <= 100 * 0.05 + 3 * math.sqrt(100 * 0.05 * 0.95)


# Settings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"systems": []}, "name at least one"), ({"systems": ["a", "a"]}, "'a' is given twice"), ({"systems": [1]}, "list of names"),
        ({"metric": "ndgc@10"}, "did you mean 'ndcg@10'"), ({"rule": "chunk/has"}, "unknown scoring rule"),
        ({"mode": "anytyme"}, "did you mean 'anytime'"), ({"alpha": 0}, "alpha between 0 and 1"), ({"min_effect": -0.1}, "0 or more"),
        ({"min_effect": math.nan}, "0 or more"), ({"must_hit": {"flor": 3}}, "unknown 'flor' (did you mean 'floor'?)"),
        ({"must_hit": {"floor": 0}}, "floor must be a whole number"), ({"must_hit": {"floor": True}}, "whole number"),
        ({"must_hit": {"floors": {"section/bm52": 3}}}, "did you mean 'section/bm25'"), ({"kept": 5}, "keep at least 10"),
        ({"must_hit": {"floor": 11}}, "keep at least 11"), ({"on_change": {"corpse": "note"}}, "did you mean 'corpus'"),
        ({"on_change": {"corpus": "ignore"}}, "'ignore' is not known"), ({"must_hit": {"questions": "q1"}}, "list of names"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_meant_are_refused_by_name(given, message):
    with pytest.raises(BadInput) as refused:
        settings(**given)
    assert message in str(refused.value) and "\n" not in str(refused.value)


# The file


def written(tmp_path, change=None):
    asked = queries(3)
    now = side(asked, {name: ran(asked, [1, 2, None]) for name in SYSTEMS})
    run = bases.Run(now, asked, {}, {}, False)
    path = tmp_path / "baseline.json"
    bases.write(path, bases.content(run, settings(), "toy"), source="here", reason="", overrode=None)
    if change:
        path.write_text(change(path.read_text()))
    return path, now


def test_a_baseline_reads_back_as_it_was_a_question_a_line(tmp_path):
    path, now = written(tmp_path)
    side_again, about = bases.read(path, "toy")
    assert (side_again.questions, side_again.systems) == (now.questions, now.systems)
    assert about["source"] == "here" and about["overrode"] is None
    lines = path.read_text().splitlines()
    assert sum(line.startswith('{"query_id": "q01"') for line in lines) == 3, "once as a question, once for each system"
    assert not list(tmp_path.glob(".*")), "nothing is left of the writing"


def edited(text, *place):
    """The JSON with the last of `place` where the names before it say."""
    whole = part = json.loads(text)
    *way, name, value = place
    for step in way:
        part = part.setdefault(step, {}) if isinstance(part, dict) else part[step]
    part[name] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:200], "not a baseline"), (lambda text: "", "not a baseline"), (lambda text: "[]", "not a baseline"),
        (lambda text: text.replace('"value": 1.0', '"value": NaN', 1), "NaN is no number"),
        (lambda text: text.replace('"value": 1.0', '"value": 0.5', 1), "does not follow from its gains"),
        (lambda text: text.replace('"gains": [[1, 2.0]]', '"gains": [[1, 9.0]]').replace('"covers": [[1, [0]]]', '"covers": [[2, [0]]]'),
         "does not follow"),
        (lambda text: text.replace('"version": 1', '"version": 7'), "of version 7, this is 1"),
        (lambda text: text.replace('"study": "toy"', '"study": "other"'), "a baseline of study 'other'"),
        (lambda text: text.replace('"query_id": "q01"', '"query_id": "q00"'), "stands there twice"),
        (lambda text: text.replace(SYSTEMS[1], SYSTEMS[0]), "stands there twice"),
        (lambda text: text.replace("a.md#", "a.md:"), "not a span"),
        (lambda text: text.replace('"ranked"', '"rnked"'), "KeyError"),
        (lambda text: edited(text, "facts", "settings", None), "settings must hold names"),
        (lambda text: edited(text, "facts", "settings", "30_sweep", [1]), "settings must hold names"),
        (lambda text: edited(text, "systems", 0, "chunker", []), "must be texts"),
        (lambda text: edited(text, "systems", 0, "answers", 0, "evidence", []), "IndexError"),
        (lambda text: edited(text, "kept", -1), "kept is -1"), (lambda text: edited(text, "kept", True), "kept is True"),
    ],
)  # fmt: skip
def test_a_broken_baseline_is_one_line_that_says_what_to_do(tmp_path, change, message):
    path, _ = written(tmp_path, change)
    with pytest.raises(BadInput) as refused:
        bases.read(path, "toy")
    said = str(refused.value)
    assert message in said and str(path) in said and "\n" not in said and ("--reason" in said or "--baseline" in said)


def test_an_interrupted_write_leaves_the_old_baseline(tmp_path, monkeypatch):
    path, _ = written(tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(bases.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        bases.write(path, {"version": 1, "questions": [], "systems": []}, source="", reason="", overrode=None)
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["baseline.json"]


# The whole way, through the command line, on the toy study


@pytest.fixture
def toy_as_it_is(executed, tmp_path, monkeypatch, capsys):
    """The executed toy study in a project of its own, and a function that runs a command: exit code, standard output, errors."""
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))

    def call(*words):
        capsys.readouterr()
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return root, call


@pytest.fixture(scope="session")
def steps(executed):
    return build.steps_now(executed[0], "toy")


@pytest.fixture
def toy(toy_as_it_is, steps, monkeypatch):
    """The same, with the keys of its notebooks worked out once for all tests: it takes two seconds."""
    monkeypatch.setattr(build, "steps_now", lambda *_: steps)
    return toy_as_it_is


def signed(folder, name):
    record = json.loads((folder / "provenance.json").read_text())
    record["artefacts"][name] = digest_path(folder / name)
    (folder / "provenance.json").write_text(json.dumps(record))


def break_bm25(root):
    """BM25 over sections whose words belong to other sections: its hits and gains take the place of the good ones."""
    from localeval import sweep, tables
    from localeval.systems import Engines, Settings, grid

    base = root / "runs/toy/base"
    run = tables.Run("toy", "probe", "runs/toy/probe", root)
    corpus, asked = tables.read_corpus(run), tables.read_queries(run)
    chunks = tables.read_units(run.input("10_ingest", "units.jsonl"))
    engines = Engines(corpus, chunks, Settings(), run.cache(), root)
    texts = engines.texts("section")
    engines._made["texts", "section"] = texts[3:] + texts[:3]
    systems = grid(["section"], ["bm25"], [])
    outcome = sweep.run(systems, asked, engines, repeats=1)
    graded = sweep.grade_all(outcome.hits, systems, asked, [RULE], engines)
    for notebook in ("30_sweep", "40_rerank"):
        folder = base / notebook
        gains = tables.read_gains(folder / "gains.jsonl.gz") | graded
        hits = {key: some for key, some in tables.read_hits(folder / "hits.jsonl").items() if key[0] != "section/bm25"}
        tables.write_gains(gains, folder / "gains.jsonl.gz")
        tables.write_hits(hits | outcome.hits, folder / "hits.jsonl")
        signed(folder, "gains.jsonl.gz")


def test_the_deliberate_break_fails_and_the_unmodified_study_passes(toy):
    root, call = toy
    code, said, problem = call("gate", "toy")
    assert code == 2 and "no baseline yet; make one: localeval baseline toy" in problem and said == ""
    assert call("baseline", "toy")[0] == 0
    code, said, _ = call("gate", "toy")
    assert code == 0 and said.startswith("gate toy: OK (exit 0)") and "+0.0000" in said
    break_bm25(root)
    code, said, _ = call("gate", "toy", "--json")
    report = json.loads(said)
    assert code == report["exit_code"] == 1 and report["status"] == "FAIL"
    broken = of(report)
    assert broken["status"] == "FAIL" and broken["delta"] < -0.5 and broken["n"] == 7
    assert of(report, "fixed/bm25")["status"] == "OK" and of(report, "fixed/bm25")["delta"] == 0
    assert "lost" in {row["state"] for row in broken["must_hit"]}
    worst = report["failing"][0]
    assert worst["lost_must_hit"] and worst["before"]["hits"][0]["counts"] and worst["before"]["hits"][0]["quote"]
    code, said, _ = call("gate", "toy")
    assert code == 1 and "section/bm25: fell by" in said and "    was  first hit that counts: rank 1" in said


def test_a_strict_floor_fails_what_a_lenient_one_passes(toy):
    """Nothing changed in the system: a question it misses is not blamed, whatever the threshold."""
    root, call = toy
    (root / "params/toy/gate.yml").write_text("systems: [fixed/bm25]\nmust_hit: {floor: 1, questions: [t4, t3]}\n")
    assert call("baseline", "toy")[0] == 0 and call("gate", "toy")[0] in (0,)
    states = [row["state"] for row in of(json.loads(call("gate", "toy", "--json")[1]), "fixed/bm25")["must_hit"]]
    assert states == ["missed before", "missed before"]


def test_a_new_baseline_needs_a_reason_while_the_gate_fails_and_records_it(toy):
    root, call = toy
    path = root / "results/toy/baseline.json"
    call("baseline", "toy")
    first = path.read_bytes()
    break_bm25(root)
    code, said, _ = call("baseline", "toy")
    assert code == 1 and "not written: the gate says FAIL" in said and path.read_bytes() == first
    code, said, _ = call("baseline", "toy", "--reason", "  ")
    assert code == 1 and path.read_bytes() == first, "a blank reason is none"
    code, said, _ = call("baseline", "toy", "--reason", "the sections moved")
    about = bases.read(path, "toy")[1]
    assert code == 0 and about["reason"] == "the sections moved" and about["overrode"]["status"] == "FAIL"
    assert any("fell by" in one for one in about["overrode"]["reasons"]) and about["created"]
    assert call("gate", "toy")[0] == 0 and "the sections moved" in call("gate", "toy")[1]
    path.write_text("{")
    assert call("baseline", "toy")[0] == 1 and path.read_text() == "{", (
        "one that cannot be read is not simply replaced either"
    )
    assert call("baseline", "toy", "--reason", "was broken")[0] == 0


def test_json_is_json_alone_whatever_happens(toy):
    _, call = toy
    code, said, problem = call("gate", "toy", "--json")
    report = json.loads(said)
    assert (
        code == 2 == report["exit_code"] and report["status"] == "ERROR" and "no baseline yet" in report["reasons"][0]
    )
    assert problem.startswith("localeval: ")
    call("baseline", "toy")
    report = json.loads(call("gate", "toy", "--json")[1], parse_constant=lambda word: pytest.fail(word))
    assert list(report) == [
        "version", "study", "status", "exit_code", "reasons", "metric", "rule", "origin", "min_effect", "mode", "baseline", "run",
        "fingerprints", "changed_settings", "questions", "systems", "failing", "notes",
    ]  # fmt: skip
    fields = [
        "system",
        "status",
        "reasons",
        "n",
        "before",
        "now",
        "delta",
        "low",
        "high",
        "p_value",
        "p_adjusted",
        "alpha",
        "must_hit",
    ]
    assert list(report["systems"][0]) == [*fields, "not_regraded"]
    assert report["systems"][0]["low"] is None, "no variation has no interval"


def test_a_run_older_than_its_inputs_is_not_judged(toy_as_it_is):
    root, call = toy_as_it_is
    call("baseline", "toy")
    gold = root / "data/toy/gold.jsonl"
    gold.write_text(gold.read_text().replace("How warm", "How hot"))
    code, _, problem = call("gate", "toy")
    assert code == 2 and "20_gold, 30_sweep, 40_rerank is older than its code, parameters or data" in problem


def test_a_run_whose_gains_were_edited_is_not_judged(toy):
    root, call = toy
    call("baseline", "toy")
    path = root / "runs/toy/base/30_sweep/gains.jsonl.gz"
    text = gzip.decompress(path.read_bytes()).decode().replace('"gains": [[2', '"gains": [[1', 1)
    path.write_bytes(gzip.compress(text.encode()))
    code, _, problem = call("gate", "toy")
    assert code == 2 and "gains.jsonl.gz: changed after it was written" in problem


def test_published_results_can_be_judged_and_a_publication_keeps_the_baseline(toy):
    root, call = toy
    call("baseline", "toy")
    baseline = (root / "results/toy/baseline.json").read_bytes()
    assert call("run", "toy", "--publish")[0] == 0
    assert (root / "results/toy/baseline.json").read_bytes() == baseline
    shutil.rmtree(root / "runs")
    code, said, _ = call("gate", "toy")
    assert (
        code == 0
        and "judged are the published results; nothing was executed here" in said
        and "run       results/toy" in said
    )
    code, said, _ = call("baseline", "toy")
    assert code == 0 and "cannot be graded again when labels change" in said
    assert bases.read(root / "results/toy/baseline.json", "toy")[0].systems["section/bm25"].answers["t1"].hits is None


NOT_MEANT = [
    (None, "params/toy/gate.yml: missing; the gate needs at least the line"),
    ("systms: [a]\n", "unknown 'systms' (did you mean 'systems'?)"), ("systems: section/bm25\n", "'systems' must be list"),
    ("systems: [section/bm25]\nalpha: high\n", "'alpha' must be float"), ("systems: [section/bm25]\nsystems: [x]\n", "given twice"),
    ("systems: [section/bm25]\nmust_hit: {questions: [t11]}\n", "'t11' is no answerable human question of the gold (did you mean"),
    ("systems: [section/bm25]\nmust_hit: {questions: [t8]}\n", "'t8' is no answerable human question"),
    ("systems: [section/bm25]\norigin: templated\n", "templated"),
]  # fmt: skip


def test_a_settings_file_that_cannot_be_meant_is_one_line(toy):
    root, call = toy
    call("baseline", "toy")
    path = root / "params/toy/gate.yml"
    for text, message in NOT_MEANT:
        path.unlink() if text is None else path.write_text(text)
        code, said, problem = call("gate", "toy")
        assert code == 2 and message in problem and len(problem.splitlines()) == 1 and said == "", text


def test_a_misspelt_system_is_missing_by_name(toy):
    root, call = toy
    call("baseline", "toy")
    (root / "params/toy/gate.yml").write_text("systems: [section/bm52, fixed/bm25]\n")
    code, said, _ = call("gate", "toy")
    assert code == 1 and "gate toy: MISSING (exit 1)" in said and "did you mean 'section/bm25'?" in said
    code, _, problem = call("baseline", "toy", "--reason", "x")
    assert code == 2 and "a baseline needs every expected system" in problem


def test_another_study_and_another_file_are_said(toy):
    _, call = toy
    code, _, problem = call("gate", "toi")
    assert code == 2 and "did you mean 'toy'" in problem
    code, _, problem = call("gate", "toy", "--baseline", "no.json")
    assert code == 2 and "no.json: no such file" in problem
    call("baseline", "toy")
    code, _, problem = call("gate", "toy", "--run", "runs/none")
    assert code == 2 and "runs/none: no such folder" in problem


def test_a_baseline_may_begin_with_a_mark_of_its_encoding_and_names_nothing_twice(toy):
    root, call = toy
    call("baseline", "toy")
    path = root / "results/toy/baseline.json"
    first = path.read_text(encoding="utf-8")
    path.write_text(first, encoding="utf-8-sig")  # as some editors save it
    assert call("gate", "toy")[0] == 0
    for old, new in (('"value"', '"value": 0.5, "value"'), ('"study"', '"study": "other", "study"')):
        path.write_text(first.replace(old, new, 1))
        code, _, problem = call("gate", "toy")
        assert code == 2 and f"{old.replace(chr(34), chr(39))} is given twice in one object" in problem


def test_a_folder_in_place_of_a_file_is_called_one(toy, tmp_path):
    root, call = toy
    (root / "results/toy/baseline.json").mkdir(parents=True)
    for command in (["gate", "toy"], ["baseline", "toy"], ["baseline", "toy", "--reason", "x"]):
        code, _, problem = call(*command)
        assert code == 2 and "baseline.json: a folder, and no file" in problem, command
    (root / "results/toy/baseline.json").rmdir()
    call("baseline", "toy")
    code, _, problem = call("gate", "toy", "--run", "params/toy/gate.yml")
    assert code == 2 and "params/toy/gate.yml: a file, and no folder" in problem
    code, _, problem = call("judge", "toy", str(tmp_path), "--by", "maintainers")
    assert code == 2 and f"{tmp_path}: a folder, and no file; name a worklist" in problem


def test_the_committed_results_pass_against_the_committed_baseline(monkeypatch, capsys):
    """What is published is what the baseline holds: no verdict of a run on this machine, but both files and the command are sound."""
    monkeypatch.setenv("LOCALEVAL_ROOT", str(PROJECT))
    assert cli.main(["gate", "handbook", "--run", "results/handbook"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("gate handbook: OK (exit 0)") and "judged are the published results" in said


def test_random_histories_never_crash_the_gate():
    """Whatever subset of questions, ranks and states two sides hold, there is one verdict with a known exit code and a text."""
    rng = random.Random(3)
    for _ in range(40):
        old, new = (queries(n) for n in (rng.randint(0, 8), rng.randint(0, 8)))
        draw = lambda asked: ran(
            asked, [rng.choice([None, 1, 4, 11]) for _ in asked], status=rng.choice(["ok", "ok", "empty", "failed"])
        )
        sides = [side(asked, {name: draw(asked) for name in SYSTEMS if rng.random() > 0.1}) for asked in (old, new)]
        report = judge(*sides, must_hit("q01"), asked=new)
        assert report["exit_code"] == gate.EXIT[report["status"]] and list(gatereport.lines(report))


# What people copy


def test_the_examples_are_yaml_and_call_commands_that_exist():
    folder = PROJECT / "docs" / "examples"
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["gate-action.yml", "gate-pre-commit.yaml"]
    called = []
    for file in files:
        text = file.read_text()
        yaml.safe_load(text)
        lines = re.findall(r"(?:run|entry): (localeval [^\n|>]+)|^ +(localeval [^\n|>]+)", text, re.M)
        called += [(one or other).replace('"$STUDY"', "toy").replace('"$LOOK"', "2").split() for one, other in lines]
    assert len(called) == 5
    for words in called:
        assert cli._parser().parse_args([word for word in words[1:] if word]).command


def test_the_page_names_every_verdict_setting_and_field():
    page = (PROJECT / "book" / "gate.md").read_text()
    fields = [
        "study",
        "exit_code",
        "fingerprints",
        "changed_settings",
        "questions",
        "systems",
        "failing",
        "notes",
        "not_regraded",
    ]
    for name in [
        *gate.EXIT,
        *gate.declared(),
        *gate.ON_CHANGE,
        *gate.POLICIES,
        *gate.MODES,
        *gatereport.LISTS,
        *fields,
    ]:
        assert f"`{name}`" in page or f"**{name}**" in page or f"| {name} |" in page, name
    for name, code in gate.EXIT.items():
        assert f"| `{name}` | `{code}` |" in page
