"""Statistics against published figures, exact small cases and an independent implementation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from localeval import stats
from localeval.metrics import measure
from localeval.records import BadInput, Graded

# First relevant rank of 58 questions (0 = none in the top 10) of two published systems, and their published figures.
HIERARCHICAL = """1 4 1 1 1 0 1 7 1 1 5 1 1 1 1 0 1 1 6 1 1 1 4 0 8 1 2 1 2 1 1 0 0 1 0 0 0 5 0 1 1 1 8 2 0 5 9 5 1 10 4 1 4 0 3 0 1 1"""
SENTENCE = """1 2 1 1 5 6 1 10 1 1 0 1 1 9 1 0 1 1 6 1 0 0 1 0 8 1 1 1 3 2 1 0 0 1 0 0 0 4 0 1 1 2 10 2 0 4 7 3 1 2 2 1 4 0 2 0 0 1"""


def graded(ranks):
    return [
        Graded(f"q{i:02d}", "scored", ((rank, 1.0),) if rank else (), ideal=(1.0,), ranked=10)
        for i, rank in enumerate(map(int, ranks.split()))
    ]


def values(ranks, name):
    return {one.query_id: measure(one, name) for one in graded(ranks)}


@pytest.mark.parametrize(
    ("ranks", "ndcg", "mrr", "low", "high"),
    [
        (HIERARCHICAL, 0.6133357210, 0.5586891, 0.508024, 0.715814),
        (SENTENCE, 0.5575131550, 0.5004995, 0.453010, 0.662491),
    ],
)
def test_published_means_and_intervals(ranks, ndcg, mrr, low, high):
    got = stats.interval(list(values(ranks, "ndcg@10").values()))
    assert got.mean == pytest.approx(ndcg, abs=1e-9)
    assert (got.low, got.high) == pytest.approx((low, high), abs=1e-6)
    assert np.mean(list(values(ranks, "rr@10").values())) == pytest.approx(mrr, abs=1e-7)


def test_published_paired_difference():
    both = values(SENTENCE, "ndcg@10"), values(HIERARCHICAL, "ndcg@10")
    got = stats.compare(*both, metric="ndcg@10", rule="chunk/contains", names=("sentence", "hierarchical"))
    assert (got.delta, got.low, got.high) == pytest.approx((0.055823, -0.01406, 0.13478), abs=1e-5)
    assert got.n == 58 and stats.verdict(got) == "not separated"
    assert got.mde == pytest.approx(2.8 * 0.2945 / math.sqrt(58), abs=1e-4)


def test_swapping_the_sides_mirrors_the_result():
    one, two = values(SENTENCE, "ndcg@10"), values(HIERARCHICAL, "ndcg@10")
    forth = stats.compare(one, two, metric="m", rule="r", names=("a", "b"))
    back = stats.compare(two, one, metric="m", rule="r", names=("b", "a"))
    assert (back.delta, back.low, back.high) == pytest.approx((-forth.delta, -forth.high, -forth.low))
    assert back.p_value == forth.p_value


def test_pairs_by_query_id_not_by_order():
    a = [0.95, 0.05, 0.60, 0.30, 0.80, 0.10, 0.70, 0.20]
    b = [x - d for x, d in zip(a, [0.05, 0.04, 0.06, 0.05, 0.05, 0.04, 0.06, 0.05], strict=True)]
    one = {f"q{i}": x for i, x in enumerate(b)}
    two = dict(reversed([(f"q{i}", x) for i, x in enumerate(a)]))
    got = stats.compare(one, two, metric="m", rule="r", names=("b", "a"))
    assert got.delta == pytest.approx(0.05)
    assert (got.low, got.high) == pytest.approx((0.045, 0.055), abs=2e-3)


def test_pairs_say_more_than_two_intervals_side_by_side():
    """Every question differs a little and all alike: the pairs see it, intervals of both systems overlap almost wholly."""
    one = {f"q{n}": value for n, value in enumerate([0.95, 0.05, 0.60, 0.30, 0.80, 0.10, 0.70, 0.20])}
    two = {query: value - 0.05 + 0.01 * (n % 2) for n, (query, value) in enumerate(one.items())}
    got = stats.compare(two, one, metric="m", rule="r", names=("b", "a"))
    assert 0 < got.low < got.high < 0.06 and got.p_value == 2 / 256
    a, b = (stats.interval(list(side.values())) for side in (one, two))
    assert a.low < b.mean < a.high and b.low < a.mean < b.high


def test_a_resample_is_as_large_as_the_sample_and_drawn_with_replacement():
    means = stats.resampled_means(np.arange(10.0), stats.SEED, 2000)
    assert len(means) == 2000 and means.std() == pytest.approx(np.arange(10).std() / math.sqrt(10), rel=0.1)


def test_sign_flip_is_exact_for_few_pairs():
    assert stats.sign_flip([0.2] * 8) == 2 / 256
    assert stats.sign_flip([0.1] * 3) == 2 / 8
    assert stats.sign_flip([0.0] * 5) == 1.0


def test_sign_flip_is_never_zero():
    assert stats.sign_flip([0.2] * 40, n_resamples=999) == 1 / 1000


@pytest.mark.parametrize("n", [14, 58, 101])
def test_signs_are_the_same_stream_in_any_block(monkeypatch, n):
    differences = np.random.default_rng(n).normal(0.05, 0.4, n)
    signs = np.random.default_rng(stats.SEED).integers(0, 2, size=(stats.N_RESAMPLES, n), dtype=np.int8) * 2 - 1
    beyond = np.sum(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
    for draws in (1, 7 * n, 1000 * n + 3, stats.DRAWS):
        monkeypatch.setattr(stats, "DRAWS", draws)
        assert stats.sign_flip(differences) == (beyond + 1) / (stats.N_RESAMPLES + 1)


def test_sign_flip_holds_no_table_of_all_signs():
    import tracemalloc

    differences = np.random.default_rng(1).normal(0.0, 0.4, 20_000)
    tracemalloc.start()
    stats.sign_flip(differences, n_resamples=2000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000


def test_sign_flip_agrees_with_scipy():
    from scipy import stats as scipy_stats

    differences = np.random.default_rng(3).normal(0.1, 0.4, 60)
    theirs = scipy_stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(1)
    ).pvalue
    assert stats.sign_flip(differences) == pytest.approx(theirs, abs=0.02)


def test_no_variation_is_said_and_never_looks_like_certainty():
    assert stats.interval([1.0] * 12, binary=True).low == pytest.approx(0.7575, abs=1e-4)
    none = stats.interval([0.0] * 20, binary=True)
    assert (none.low, none.high) == pytest.approx((0.0, 0.1611), abs=1e-4)
    flat = stats.interval([0.6] * 20)
    assert math.isnan(flat.low) and flat.note == "no variation, n = 20"
    assert stats.interval([]).note == "no values"


def test_same_seed_same_interval():
    draws = list(range(10))
    assert stats.interval(draws, n_resamples=2000) == stats.interval(draws, n_resamples=2000)
    got = stats.interval(draws, n_resamples=2000)
    assert got.low < got.mean < got.high


def test_holm():
    shuffled = [0.040, 0.010, 0.200, 0.014, 0.013]
    assert stats.holm(shuffled) == pytest.approx([0.080, 0.050, 0.200, 0.052, 0.052])
    assert stats.holm([]) == []


def test_minimum_detectable_effect():
    differences = np.random.default_rng(0).normal(0.056, 0.4, 58)
    assert stats.mde(differences) == pytest.approx(2.8 * differences.std(ddof=1) / math.sqrt(58), abs=1e-12)
    assert math.isnan(stats.mde([0.3]))


def test_a_constant_difference_is_not_certainty():
    one = {"a": 0.4, "b": 0.5, "c": 0.6}
    got = stats.compare(one, {q: v + 0.1 for q, v in one.items()}, metric="m", rule="r", names=("a", "b"))
    assert got.p_value == 0.25 and got.delta == pytest.approx(0.1)
    assert math.isnan(got.low) and math.isnan(got.mde) and stats.verdict(got) == "unresolvable"
    same = stats.compare(one, one, metric="m", rule="r", names=("a", "a"))
    assert (same.delta, same.p_value) == (0.0, 1.0)


def test_too_few_queries_are_unresolvable():
    few = {f"q{i}": 0.0 for i in range(4)}
    got = stats.compare(few, dict.fromkeys(few, 1.0), metric="m", rule="r", names=("a", "b"))
    assert stats.verdict(got) == "unresolvable"
    assert stats.verdict(stats.compare(few, few, metric="m", rule="r", names=("a", "a"))) == "unresolvable"


def test_percentile_by_nearest_rank():
    assert stats.percentile([40, 90], 0.5) == 40
    assert stats.percentile([30, 31, 31, 32, 33, 33, 34, 35, 36, 400], 0.95) == 400
    assert stats.percentile(range(1, 101), 0.95) == 95
    assert math.isnan(stats.percentile([], 0.5))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40).filter(lambda v: max(v) - min(v) > 1e-6))
def test_the_interval_lies_within_the_values(sample):
    got = stats.interval(sample, n_resamples=500)
    assert min(sample) - 1e-12 <= got.low <= got.high <= max(sample) + 1e-12


def test_a_comparison_names_its_stratum_and_holm_counts_the_whole_family():
    rng = np.random.default_rng(3)
    rows = [
        (system, "r", "p@1", f"{origin}{n}", float(rng.random() + lift), "scored", origin)
        for origin in ("human", "templated") for system, lift in (("a", 0.0), ("b", 0.4)) for n in range(30)
    ]  # fmt: skip
    scores = pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])
    named = [["p@1", "r", "a", "b"], ["p@1", "r", "a", "b", "templated"], ["p@1", "r", "a", "b", "drafted"]]
    got = stats.compare_designated(scores, named, "human", n_resamples=500)
    assert got["origin"].tolist() == ["human", "templated", "drafted"] and got["n"].tolist() == [30, 30, 0]
    assert got["verdict"].tolist() == ["better", "better", "not_run"]
    assert (got["p_adjusted"].dropna() >= got["p_value"].dropna()).all()
    alone = stats.compare_designated(scores, named[:1], "human", n_resamples=500)
    assert alone["delta"][0] == got["delta"][0] and alone["p_adjusted"][0] == alone["p_value"][0]
    with pytest.raises(BadInput, match="entry 1 must be"):
        stats.compare_designated(scores, [["p@1", "r", "a"]], "human")


# What was added for whole leaderboards, checked against independent implementations


@pytest.mark.parametrize(("hits", "n"), [(0, 20), (20, 20), (7, 31), (1, 1), (2.7, 9.3)])
def test_wilson_is_where_the_score_test_ends(hits, n):
    """Each end is a rate that is z standard errors of its own away from what was seen."""
    z = float(scipy_stats.norm.ppf(0.975))
    low, high = stats.wilson(hits, n)
    for end in (low, high):
        assert (hits / n - end) ** 2 == pytest.approx(z * z * end * (1 - end) / n, abs=1e-12)
    assert 0 <= low < high <= 1


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_agrees_with_statsmodels(p):
    from statsmodels.stats.multitest import multipletests

    assert stats.holm(p) == pytest.approx(multipletests(p, method="holm")[1].tolist())


def test_benjamini_hochberg_by_hand():
    # p * m / rank: .01 * 4, .04 * 2, .03 * 4 / 3 and .2, each no more than the next one up.
    assert stats.benjamini_hochberg([]) == []
    assert stats.benjamini_hochberg([0.2, 0.01, 0.04, 0.03]) == pytest.approx([0.2, 0.04, 0.16 / 3, 0.16 / 3])


@pytest.mark.parametrize(("better", "worse"), [(9, 2), (2, 9), (0, 0), (1, 0), (30, 18), (6, 6)])
def test_mcnemar_agrees_with_statsmodels_and_with_all_patterns_of_signs(better, worse):
    from statsmodels.stats.contingency_tables import mcnemar

    d = np.array([1.0] * better + [-1.0] * worse + [0.0] * 20)
    got = stats.mcnemar(d[:, None])[0]
    assert got == pytest.approx(mcnemar([[10, worse], [better, 10]], exact=True).pvalue, abs=1e-12)
    if better + worse <= 13:
        assert got == pytest.approx(stats.sign_flip(d), abs=1e-12)


def test_paired_t_agrees_with_scipy():
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(0)
    one, two = rng.random((2, 40, 5))
    assert stats.paired_t(two - one) == pytest.approx(ttest_rel(two, one).pvalue, rel=1e-9)
    assert np.isnan(stats.paired_t(np.ones((5, 1)))).all() and np.isnan(stats.paired_t(np.ones((1, 1)))).all()


def test_zero_differences_change_no_p():
    """Of 60 questions five differ: 32 patterns are all there are, however many questions agree."""
    d = np.array([0.3, 0.2, 0.4, 0.1, 0.5] + [0.0] * 55)
    assert stats.sign_flip(d) == stats.sign_flip(d[:5]) == 2 / 32


def test_a_comparison_of_hits_is_mcnemars_and_of_grades_is_not():
    hits = {f"q{n:02d}": float(n % 2) for n in range(40)}
    more = hits | {f"q{n:02d}": 1.0 for n in range(0, 16, 2)}
    got = stats.compare(hits, more, metric="p@1", rule="r", names=("a", "b"))
    assert got.test == "exact McNemar" and got.p_value == 2 / 2**8 and got.differ == 8
    grades = stats.compare(hits, more | {"q39": 0.9}, metric="rr", rule="r", names=("a", "b"))
    assert grades.test == "exact sign flip" and grades.differ == 9
    rng = np.random.default_rng(0)
    wide = [{f"q{n:02d}": value for n, value in enumerate(rng.random(40))} for _ in "ab"]
    assert stats.compare(*wide, metric="rr", rule="r", names=("a", "b")).test == "sign flip, 10,000 draws"


def test_tests_that_disagree_are_flagged():
    """Fourteen of ninety differ, eleven of them for the candidate: McNemar .057, t .032."""
    one = {f"q{n:02d}": float(n < 3) for n in range(90)}
    two = {f"q{n:02d}": float(3 <= n < 14) for n in range(90)}
    rows = [
        (name, "r", "p@1", q, v, "scored", "human") for name, side in (("a", one), ("b", two)) for q, v in side.items()
    ]
    scores = pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])
    (row,) = stats.compare_designated(scores, [["p@1", "r", "a", "b"]], "human").to_dict("records")
    assert row["p_value"] == pytest.approx(0.0574, abs=1e-4) and row["p_t"] == pytest.approx(0.0317, abs=1e-3)
    assert row["tests_disagree"] and row["family_size"] == 1


def test_questions_needed_agree_with_statsmodels():
    from statsmodels.stats.power import NormalIndPower

    n = NormalIndPower(ddof=0).solve_power(0.05 / 0.3, alpha=0.05, power=0.8, ratio=0)
    assert stats.questions_needed(0.3, 0.05) == math.ceil(n) == 283
    assert stats.questions_needed(0.3, 0.05, sides=1) < 283
    for sd, effect in ((0.0, 0.1), (float("nan"), 0.1), (0.3, 0.0)):
        assert stats.questions_needed(sd, effect) is None


def test_the_number_needed_makes_the_effect_detectable():
    d = np.random.default_rng(0).normal(0.05, 0.3, 283)
    d = 0.05 + (d - d.mean()) * 0.3 / d.std(ddof=1)
    assert stats.mde(d) == pytest.approx(0.05, rel=2e-3)


# Values that are not there


def test_values_that_are_not_defined_are_left_out_and_counted():
    got = stats.interval([1.0, 0.5, float("nan"), float("nan")])
    assert (got.mean, got.n, got.note) == (0.75, 2, "2 of 4 not defined")
    nothing = stats.interval([float("nan")] * 3)
    assert math.isnan(nothing.mean) and nothing.n == 0 and nothing.note == "no values; 3 of 3 not defined"
    flat = stats.interval([1.0, float("nan")], binary=True)
    assert flat.note == "no variation, n = 1: Wilson; 1 of 2 not defined" and flat.low < 0.21


@pytest.mark.parametrize("bad", [float("inf"), -float("inf")])
def test_an_infinite_value_is_an_error_and_no_mean(bad):
    with pytest.raises(BadInput, match="is no score"):
        stats.interval([0.1, bad])
    with pytest.raises(BadInput, match="is no score"):
        stats.compare({"a": 0.1, "b": bad}, {"a": 0.2, "b": 0.3}, metric="m", rule="r", names=("a", "b"))


def test_pairs_need_both_values():
    one, two = {"a": 0.1, "b": float("nan"), "c": 0.3, "d": 0.1}, {"a": 0.2, "b": 0.2, "c": float("nan"), "e": 0.5}
    got = stats.compare(one, two, metric="m", rule="r", names=("a", "b"))
    assert got.n == 1 and got.delta == pytest.approx(0.1) and stats.verdict(got) == "unresolvable"
    with pytest.raises(ValueError, match="share no query"):
        stats.compare({"a": float("nan")}, {"a": 1.0}, metric="m", rule="r", names=("a", "b"))


def tidy(**systems):
    rows = [(name, "r", "m", q, v, "scored", "human") for name, side in systems.items() for q, v in side.items()]
    return pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])


def test_a_system_with_missing_questions_is_compared_on_those_it_has_and_says_so():
    scores = tidy(a={f"q{n}": 0.1 * n for n in range(8)}, b={f"q{n}": 0.1 * n + 0.05 for n in range(6)}, c={"x": 1.0})
    got = stats.compare_designated(
        scores, [["m", "r", "a", "b"], ["m", "r", "a", "c"], ["m", "r", "b", "gone"]], "human"
    )
    assert got["n"].tolist() == [6, 0, 0]
    assert got["reason"].tolist()[:2] == [
        "questions without a pair are left out: 2 of a",
        "no question has both scores",
    ]
    assert got["verdict"].tolist()[1:] == ["not_run"] * 2 and got["family_size"].dropna().tolist() == [1]


def test_a_table_without_values_gives_no_figure_and_no_verdict():
    nothing = tidy(a={"q": float("nan")}, b={"q": float("nan")})
    (row,) = stats.compare_designated(nothing, [["m", "r", "a", "b"]], "human").to_dict("records")
    assert (row["n"], row["verdict"]) == (0, "not_run")
    (first, _) = stats.summary(nothing).to_dict("records")
    assert math.isnan(first["mean"]) and first["n"] == 0 and first["note"].startswith("no values")
    with pytest.raises(BadInput, match="no system has a figure"):
        stats.best(stats.summary(nothing), "r", "m")
    assert stats.summary(nothing.head(0)).empty and stats.compare_designated(nothing, [], "human").empty


def test_one_question_resolves_nothing():
    got = stats.compare({"q": 0.0}, {"q": 1.0}, metric="p@1", rule="r", names=("a", "b"))
    assert got.p_value == 1.0 and math.isnan(got.low) and math.isnan(got.p_t) and stats.verdict(got) == "unresolvable"


# Metrics of which less is better, and slices


def test_less_time_is_better_and_the_delta_keeps_its_sign():
    slow = {f"q{n:02d}": 10.0 + n % 3 for n in range(30)}
    fast = {query: value - 4 + 0.1 * (value % 2) for query, value in slow.items()}
    got = stats.compare(slow, fast, metric="ms", rule="warm/total", names=("slow", "fast"))
    assert got.delta < 0 and stats.verdict(got) == "better"
    back = stats.compare(fast, slow, metric="ms", rule="warm/total", names=("fast", "slow"))
    assert stats.verdict(back) == "worse"
    assert stats.direction("ms") == -1 and stats.direction("evidence_ndcg@10") == 1 and stats.direction("recall@5") == 1
    summary = stats.summary(tidy(slow=slow, fast=fast).assign(metric="ms"))
    assert stats.best(summary, "r", "ms")["system"] == "fast"


def test_latency_is_a_metric_like_any_other():
    timings = pd.DataFrame(
        [
            ("a", "q1", "total", 1, 0.002),
            ("a", "q1", "total", 2, 0.004),
            ("a", "q1", "encode", 1, 9.0),
            ("a", "x", "total", 1, 1.0),
        ],
        columns=["system", "query_id", "phase", "repeat", "seconds"],
    )
    (row,) = stats.latency_scores(timings, {"q1": "human"}).to_dict("records")
    assert row == {
        "system": "a",
        "rule": "warm/total",
        "metric": "ms",
        "query_id": "q1",
        "value": pytest.approx(3.0),
        "status": "scored",
        "origin": "human",
    }


def test_slices_are_one_family_and_a_single_slice_is_none():
    rng = np.random.default_rng(1)
    one = {f"q{n:02d}": float(rng.random()) for n in range(60)}
    two = {q: v + (0.3 if n < 20 else 0.0) + float(rng.normal(0, 0.05)) for n, (q, v) in enumerate(one.items())}
    kind = {f"q{n:02d}": "abc"[n // 20] for n in range(60)}
    got = stats.slices(
        tidy(a=one, b=two), ["m", "r", "a", "b"], {"kind": kind, "all": dict.fromkeys(one, "x")}, "human"
    )
    assert got["slice"].tolist() == ["a", "b", "c"] and got["cut"].tolist() == ["kind"] * 3
    assert got["verdict"].tolist() == ["better", "not separated", "not separated"]
    assert got["p_adjusted"].tolist() == pytest.approx(stats.benjamini_hochberg(got["p_value"]))
    assert stats.slices(tidy(a=one), ["m", "r", "a", "b"], {"kind": kind}, "human").empty
