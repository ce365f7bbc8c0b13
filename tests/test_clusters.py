"""Questions that share a document: by hand where it can be, and against statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from localeval import clusters, stats
from localeval.records import Evidence, Query, Span


def query(query_id, *documents):
    return Query(query_id, "?", tuple(Evidence(Span(name, 0, 1)) for name in documents))


def test_a_question_belongs_to_the_document_that_holds_most_of_its_evidence():
    queries = [query("a", "x"), query("b", "y", "x", "x"), query("c", "y", "x"), query("d")]
    assert clusters.by_document(queries) == {"a": "x", "b": "x", "c": "y"}
    assert clusters.across(queries) == 2


def grouped(seed, count, size, between):
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"doc{k:02d}" for k in range(count)], size)
    return np.repeat(rng.normal(0, between, count), size) + rng.normal(0, 0.2, count * size), groups


def test_design_effect_by_hand():
    """Two documents of two questions, alike within: the variance is that of two questions and not of four."""
    d, groups = np.array([0.1, 0.1, 0.3, 0.3]), np.array([0, 0, 1, 1])
    # cluster sums of residuals -0.2 and 0.2: 2 / 1 * 0.08 / 16 = 0.01; s^2 / n = (0.04 / 3) / 4 = 1 / 300
    assert clusters.design_effect(d, groups) == pytest.approx(3.0)
    assert clusters.components(d, groups) == pytest.approx((0.0, 1.0))


def test_alone_in_its_document_every_question_counts_in_full():
    d = np.random.default_rng(0).normal(0.1, 0.3, 40)
    numbers = np.arange(40)
    assert clusters.design_effect(d, numbers) == pytest.approx(1.0)
    names = [f"{n:02d}" for n in numbers]
    got = clusters.clustered(d, names, n_resamples=2000)
    alone = stats.interval(d, n_resamples=2000)
    assert (got.low, got.high, got.n_effective) == pytest.approx((alone.low, alone.high, 40))
    assert got.p_value == stats.sign_flip(d, n_resamples=2000)


def test_cluster_robust_variance_agrees_with_statsmodels():
    import statsmodels.api as sm

    d, groups = grouped(4, 12, 5, 0.3)
    numbers = stats.group_numbers(groups)
    fit = sm.OLS(d, np.ones(len(d))).fit(
        cov_type="cluster", cov_kwds={"groups": numbers, "use_correction": True, "df_correction": False}
    )
    ours = clusters.design_effect(d, numbers) * d.var(ddof=1) / len(d)
    # statsmodels also multiplies by (n - 1) / (n - 1): for a mean both corrections are G / (G - 1)
    assert ours == pytest.approx(fit.cov_params()[0, 0], rel=1e-9)


def test_sign_flips_of_whole_documents_are_exact():
    d, groups = np.array([0.2, 0.1, 0.3, 0.2, 0.1, 0.4]), ["a", "a", "b", "b", "c", "c"]
    got = clusters.clustered(d, groups)
    assert got.p_value == 2 / 8 and got.clusters == 3


def test_shared_documents_widen_the_interval_and_say_what_would_help():
    d, groups = grouped(1, 30, 6, 0.4)
    got, alone = clusters.clustered(d, groups, n_resamples=2000), stats.interval(d, n_resamples=2000)
    assert got.high - got.low > 1.3 * (alone.high - alone.low) and got.design_effect > 2
    assert got.n_effective == pytest.approx(got.n / got.design_effect) and got.advice == "more documents"
    free = clusters.clustered(*grouped(1, 30, 6, 0.0), n_resamples=500)
    assert 0.5 < free.design_effect < 1.5 and free.advice in ("more questions", "both")


def test_components_are_found_again():
    """Between documents sd 0.2, within 0.2, five questions each: of the variance of the mean 5/6 is between."""
    shares = [clusters.components(d, stats.group_numbers(g))[1] for d, g in (grouped(s, 40, 5, 0.2) for s in range(20))]
    assert np.mean(shares) == pytest.approx(5 / 6, abs=0.05)


def test_too_few_documents_are_no_certainty():
    """Two documents with the same mean: drawn whole they never vary, and an interval of no width would read as proof."""
    got = clusters.clustered(np.array([0.1, 0.3, 0.3, 0.1, 0.2, 0.2]), ["a", "a", "b", "b", "c", "c"])
    assert math.isnan(got.low) and math.isnan(got.design_effect) and got.p_value == 2 / 8
    one = clusters.clustered(np.array([0.1, 0.3, 0.2]), ["a"] * 3)
    assert math.isnan(one.low) and math.isnan(one.p_value) and one.advice == "documents are missing"


def test_identical_systems_have_no_interval():
    got = clusters.clustered(np.zeros(6), list("abcdef"))
    assert got.p_value == 1.0 and math.isnan(got.low) and math.isnan(got.design_effect)


def test_the_order_of_rows_does_not_matter():
    d, groups = grouped(2, 8, 4, 0.2)
    order = np.random.default_rng(0).permutation(len(d))
    one, two = clusters.clustered(d, groups), clusters.clustered(d[order], groups[order])
    assert (one.low, one.high, one.p_value) == pytest.approx((two.low, two.high, two.p_value))


def test_designated_comparisons_again_by_document():
    d, groups = grouped(3, 10, 3, 0.2)
    rows = [("a", f"q{n:02d}", 0.0) for n in range(30)] + [("b", f"q{n:02d}", value) for n, value in enumerate(d)]
    scores = pd.DataFrame(rows, columns=["system", "query_id", "value"]).assign(
        rule="r", metric="m", status="scored", origin="human"
    )
    designated = stats.compare_designated(scores, [["m", "r", "a", "b"], ["m", "r", "a", "gone"]], "human")
    known = {f"q{n:02d}": str(name) for n, name in enumerate(groups)}
    (row,) = clusters.compare_designated(scores, designated, known).to_dict("records")
    assert (row["n"], row["clusters"]) == (30, 10) and row["delta"] == pytest.approx(d.mean())
    known.pop("q00")
    assert clusters.compare_designated(scores, designated, known)["n"].tolist() == [29]
