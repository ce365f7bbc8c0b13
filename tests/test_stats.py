"""Statistics against published figures, exact small cases and an independent implementation."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
