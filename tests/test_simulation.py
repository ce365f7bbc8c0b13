"""The simulations: the same procedures as the report's own, and rates that are known beforehand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from localeval import abstention, clusters, gate, sequential, simulation, statfigures, stats, stattables
from localeval.records import BadInput, Comparison
from localeval.simulation import Setup

SMALL = Setup(simulations=40, n_resamples=500)
SCORES = np.array([0, 0, 0.3, 0.4, 0.5, 0.63, 0.63, 1, 1, 1, 1, 0.39, 0.0, 0.0, 1.0])
MANY = Setup(simulations=1500, n_resamples=400)


@pytest.mark.parametrize("n", [3, 7, 15, 40])
def test_many_samples_at_once_go_through_the_procedure_of_the_report(n):
    """Interval, permutation p, verdict: bit for bit what `stats` gives for each sample by itself."""
    samples = np.random.default_rng(n).choice([-1, -0.5, 0.0, 0.0, 0.31, 1], size=(40, n))
    samples[0] = 0.25
    samples[1] = 0.0
    low, high = simulation.bootstrap_bounds(samples, SMALL)
    p_values = simulation.permutation_p(samples, SMALL)
    said = simulation.separated(p_values, low, high, n, SMALL.alpha)
    for i, sample in enumerate(samples):
        own = stats.interval(sample, n_resamples=500)
        assert (low[i], high[i]) == pytest.approx((own.low, own.high), abs=1e-12, nan_ok=True)
        assert p_values[i] == stats.sign_flip(sample, n_resamples=500)
        one = Comparison("m", "r", "a", "b", n, sample.mean(), low[i], high[i], p_values[i], None, 0.1)
        assert said[i] == (stats.verdict(one) in ("better", "worse"))


def test_zero_one_differences_have_the_test_that_the_report_prints():
    samples = np.random.default_rng(2).choice([-1.0, 0.0, 0.0, 1.0], size=(30, 20))
    p_values = simulation.report_p(samples, SMALL, True)
    for sample, p in zip(samples, p_values, strict=True):
        before = {str(i): float(one < 0) for i, one in enumerate(sample)}
        after = {str(i): float(one > 0) for i, one in enumerate(sample)}
        assert p == stats.compare(before, after, metric="p@1", rule="r", names=("a", "b")).p_value
    assert simulation.report_p(samples, SMALL, False).tolist() == simulation.permutation_p(samples, SMALL).tolist()


def test_signs_by_coin_keep_sizes_and_have_the_mean():
    differences = np.array([0.5, -0.5, 0.25, 0.0, 1.0, -0.75])
    setup = Setup(simulations=20_000)
    for mean in (0.0, 0.2, -0.3, 0.5):
        samples = simulation.tilted(differences, mean, setup, setup.generator("x"))
        assert set(np.abs(samples).ravel()) <= set(np.abs(differences))
        assert samples.mean() == pytest.approx(mean, abs=0.01)
    with pytest.raises(ValueError, match="no signs"):
        simulation.tilted(differences, 0.51, setup, setup.generator("x"))
    assert not simulation.tilted(np.zeros(4), 0.0, SMALL, SMALL.generator()).any()


def test_centred_keeps_the_shape_and_loses_the_mean():
    differences = np.array([0.9, 0.1, 0.1, 0.1])
    samples = simulation.centred(differences, Setup(simulations=20_000), np.random.default_rng(0))
    assert samples.mean() == pytest.approx(0, abs=0.01)
    assert scipy_stats.skew(samples.ravel()) == pytest.approx(scipy_stats.skew(differences), abs=0.05)


def test_the_rates_of_a_fair_coin_are_those_of_the_binomial():
    """A 0/1 metric, n = 15, half of them hits: Wilson's interval covers with a probability that a sum of binomials gives."""
    values = np.array([0.0, 1.0] * 7 + [1.0])
    p, n = values.mean(), len(values)
    held = sum(
        scipy_stats.binom.pmf(k, n, p) for k in range(n + 1) if stats.wilson(k, n)[0] <= p <= stats.wilson(k, n)[1]
    )
    rows = {row["kind"]: row for row in simulation.coverage(values, MANY, name="coin", binary=True)}
    assert rows["Wilson"]["low"] <= held <= rows["Wilson"]["high"]
    assert rows["Wilson"]["undefined"] == rows["percentile bootstrap"]["undefined"] == 0


def test_an_interval_that_is_too_short_is_caught():
    """Coverage falls with the level: the simulation would see an interval that promises more than it holds."""
    honest = simulation.coverage(SCORES, MANY, name="s")[0]["rate"]
    short = simulation.coverage(SCORES, Setup(MANY.simulations, MANY.n_resamples, alpha=0.4), name="s")[0]["rate"]
    assert 0.88 < honest < 0.98 and 0.5 < short < 0.7


def test_samples_without_variation_are_counted_and_not_covered():
    rare = np.array([0.0] * 19 + [0.4])
    row = simulation.coverage(rare, MANY, name="rare")[0]
    assert row["undefined"] == pytest.approx(0.95**20, abs=0.04)
    assert row["simulations"] == round(MANY.simulations * (1 - row["undefined"]))


def test_tests_keep_their_level_and_a_broken_one_would_not():
    rows = simulation.false_positives(SCORES - 0.45, MANY, name="null")
    rates = {(row["null"], row["test"]): row for row in rows}
    assert rates["signs by coin", "sign-flip permutation"]["rate"] == pytest.approx(0.05, abs=0.02)
    assert rates["centred", "paired t"]["rate"] == pytest.approx(0.05, abs=0.025)
    assert not any(row["test"].startswith("McNemar") for row in rows)
    for null in ("signs by coin", "centred"):
        both = rates[null, "verdict"]["rate"]
        parts = ("sign-flip permutation", "bootstrap interval without zero")
        assert both <= min(rates[null, part]["rate"] for part in parts)
    found = simulation.decisions(simulation.centred(SCORES, MANY, MANY.generator("z")) + 0.5, MANY)
    assert found["sign-flip permutation"].mean() > 0.9  # the same counts are not small where there is something


def test_mcnemar_is_simulated_where_differences_are_wins_and_losses():
    differences = np.array([1.0] * 8 + [-1.0] * 5 + [0.0] * 12)
    rows = simulation.false_positives(differences, MANY, name="wins", zero_one=True)
    (own,) = [row for row in rows if row["test"].startswith("McNemar")]
    assert own["null"] == "signs by coin" and own["rate"] < 0.05


def test_a_family_without_correction_errs_more_often_and_holm_does_not():
    rng = np.random.default_rng(5)
    family = {f"c{i}": {f"q{j}": float(v) for j, v in enumerate(rng.normal(0.3, 1, 30))} for i in range(5)}
    rates = {row["rule"]: row["rate"] for row in simulation.family_errors(family, MANY)}
    assert rates["each at the level by itself"] == pytest.approx(1 - 0.95**5, abs=0.04)
    assert rates["Holm"] == pytest.approx(0.05, abs=0.02)
    assert rates["verdict (Holm and interval)"] <= rates["Holm"]


def test_equal_comparisons_stay_equal_in_a_family():
    """The same differences five times over are one test: drawn together, they err no more often than one."""
    own = {f"q{j}": float(v) for j, v in enumerate(np.random.default_rng(6).normal(0, 1, 30))}
    rates = {row["rule"]: row["rate"] for row in simulation.family_errors({f"c{i}": own for i in range(5)}, MANY)}
    assert rates["each at the level by itself"] == pytest.approx(0.05, abs=0.02)


def test_the_gate_needs_both_locks():
    samples = np.array(
        [[-0.2] * 10 + [-0.1] * 10, [-0.02] * 10 + [-0.01] * 10, [-1.0, 0.8] * 10, [0.3] * 10 + [0.2] * 10]
    )
    flags = {rule: list(flags) for rule, flags in simulation.gate_rules(samples, 0.03, SMALL).items()}
    assert flags["drop significant"] == [True, True, False, False]
    assert flags["drop above the minimum"] == [True, False, True, False]
    assert flags["both: the gate fails"] == [True, False, False, False]
    for sample, failed in zip(samples, flags["both: the gate fails"], strict=True):
        sides = [
            pd.DataFrame({"system": "a", "query_id": [f"q{i:02d}" for i in range(20)], "value": side})
            for side in (np.zeros(20), sample)
        ]
        (drop,) = gate.drops(*sides, min_effect=0.03, n_resamples=500)
        assert (drop.status == "FAIL") == failed
    rows = {row["rule"]: row["rate"] for row in simulation.gate_errors(SCORES - 0.5, 0.03, MANY, name="g")}
    assert rows["both: the gate fails"] <= min(rows["drop significant"], rows["drop above the minimum"]) < 0.06


def test_repeated_looks_err_as_often_as_independence_says_and_the_anytime_mode_keeps_its_level():
    """Differences of -1 and 1 by coin, n = 40: every look alone errs in a share p, five of them in 1 - (1 - p)^5."""
    differences = np.array([1.0, -1.0] * 20)
    rows = {
        row["rule"]: row
        for row in simulation.gate_errors(differences, 0.0, Setup(simulations=5000, n_resamples=400), name="looks")
    }
    one, many, anytime = (
        rows[f"{rule}"]
        for rule in (
            "both: the gate fails",
            "fails at some of 5 looks, mode fixed",
            "fails at some of 5 looks, mode anytime",
        )
    )
    assert many["simulations"] == anytime["simulations"] == 1000
    assert many["rate"] == pytest.approx(1 - (1 - one["rate"]) ** 5, abs=0.03) and many["rate"] > 0.06
    assert anytime["rate"] <= 0.05
    samples = simulation.tilted(differences, 0.0, SMALL, SMALL.generator("x"))
    flags = simulation.look_rules(samples, np.zeros(40, dtype=bool), -0.5, SMALL)[
        "fails at some of 5 looks, mode anytime"
    ]
    alone = [
        any(
            sequential.confidence_sequence(samples[5 * h + i], sequential.spent(0.05, i + 1)).high < 0 for i in range(5)
        )
        for h in range(8)
    ]
    assert flags.tolist() == alone
    assert simulation.look_rules(samples[:4], np.zeros(4, dtype=bool), 0.0, SMALL) == {}
    assert simulation.look_rules(2 * samples, np.zeros(40, dtype=bool), 0.0, SMALL) == {}, (
        "times are no differences from -1 to 1"
    )


def test_a_sequence_drops_out_most_often_where_it_is_looked_at_with_a_level_too_high():
    values = np.array([1.0, -1.0, 0.0, 0.0, 0.5, -0.25] * 6)
    (row,) = simulation.sequence_coverage(values, MANY, name="v")
    (loose,) = simulation.sequence_coverage(values, Setup(MANY.simulations, 1, alpha=0.9), name="v")
    assert row["rate"] >= 0.95 > loose["rate"] and row["simulations"] == 1500
    assert simulation.sequence_coverage([3.0, 0.0], MANY, name="v") == []


def test_shared_documents_make_an_interval_over_questions_too_narrow():
    """Twelve documents of eight questions that are alike: over questions far too narrow, over documents nearly right. Without a
    tie between questions of a document both hold."""
    rng = np.random.default_rng(3)
    documents, setup = np.repeat([f"d{i:02d}" for i in range(12)], 8), Setup(simulations=600, n_resamples=400)
    alike = np.repeat(rng.normal(0, 1, 12), 8) + rng.normal(0, 0.1, 96)
    rates = lambda values: {
        row["kind"]: row["rate"] for row in simulation.cluster_coverage(values, documents, setup, name="c")
    }
    dependent, apart = rates(alike), rates(rng.permutation(alike))
    assert dependent["questions resampled"] < 0.65 and dependent["documents resampled"] > 0.85
    assert apart["questions resampled"] > 0.88
    assert simulation.cluster_coverage(alike[:40], documents[:40], setup, name="c") == [], (
        "five documents have no such interval"
    )


def test_cluster_intervals_go_through_the_procedure_of_the_report():
    rng = np.random.default_rng(4)
    members = [rng.normal(size=n) for n in (3, 1, 7, 2, 5, 4, 6)]
    drawn = rng.integers(0, 7, size=(5, 7))
    low, high = simulation._cluster_bounds(drawn, members, SMALL)
    samples = [np.concatenate([members[one] for one in row]) for row in drawn]
    for i, row in enumerate(drawn):
        groups = np.concatenate([[f"{place}"] * len(members[one]) for place, one in enumerate(row)])
        own = clusters.clustered(samples[i], groups, n_resamples=500)
        assert (low[i], high[i]) == pytest.approx((own.low, own.high), abs=1e-12)
    ends = simulation._question_bounds(samples, SMALL)
    for i, sample in enumerate(samples):
        own = stats.interval(sample, n_resamples=500)
        assert (ends[0][i], ends[1][i]) == pytest.approx((own.low, own.high), abs=1e-12)


def test_areas_go_through_the_procedure_of_their_page_and_are_covered():
    rng = np.random.default_rng(5)
    signal = rng.random(50)
    correct = rng.random(50) < signal
    facts = pd.DataFrame({"system": "s", "query_id": [f"q{i:02d}" for i in range(50)]})
    page = abstention.abstention(
        facts.assign(signal="top_score", value=signal), facts.assign(answerable=True, correct=correct), seed=SMALL.seed, n_resamples=300
    ).iloc[0]  # fmt: skip
    again = abstention.areas(signal, correct, abstention.resamples(50, seed=SMALL.seed, n_resamples=300))
    for kind in ("aurc", "augrc"):
        assert np.quantile(again[kind], [0.025, 0.975]) == pytest.approx([page[f"{kind}_low"], page[f"{kind}_high"]])
        assert abstention.areas(signal, correct)[kind][0] == pytest.approx(page[kind])
    rows = {row["kind"]: row for row in simulation.area_coverage(signal, correct, Setup(300, 300), name="s")}
    assert set(rows) == {"bootstrap of the AURC", "bootstrap of the AUGRC"}
    assert all(0.85 < row["rate"] < 1 and row["simulations"] == 300 for row in rows.values())
    short = simulation.area_coverage(signal, correct, Setup(300, 300, alpha=0.5), name="s")
    assert all(row["rate"] < 0.7 for row in short)


def test_power_at_the_minimum_detectable_effect_is_four_in_five():
    differences = np.random.default_rng(8).normal(0.02, 0.4, 80)
    rows = simulation.power(differences, [0.0, stats.mde(differences), 5.0], 0.03, MANY, name="p")
    rates = {(row["effect"], row["way"], row["test"]): row["rate"] for row in rows}
    mde = stats.mde(differences)
    assert rates[mde, "shifted", "sign-flip permutation"] == pytest.approx(0.8, abs=0.05)
    assert rates[0.0, "shifted", "sign-flip permutation"] == pytest.approx(0.05, abs=0.02)
    assert (5.0, "signs by coin", "gate") not in rates and rates[5.0, "shifted", "gate"] == 1


def test_times_go_through_the_procedure_of_the_latency_table(monkeypatch):
    seconds = np.random.default_rng(9).gamma(2, 0.01, (30, 3))
    rows = [("a", f"q{i:02d}", "total", r, s) for i, line in enumerate(seconds) for r, s in enumerate(line)]
    table = stats.latency_table(pd.DataFrame(rows, columns=["system", "query_id", "phase", "repeat", "seconds"]))
    seen = []
    monkeypatch.setattr(simulation, "_held", lambda low, high, truth: seen.append((low[0], high[0], truth)) or {})
    same = Setup(seed=stats.SEED)
    monkeypatch.setattr(
        Setup, "generator", lambda *about: type("Same", (), {"integers": lambda self, a, b, size: np.arange(b)})()
    )
    simulation.latency_coverage(seconds, same, name="a", simulations=1, n_resamples=2000)
    bounds = [seen[0][0], seen[0][1], seen[1][0], seen[1][1]]
    assert np.array(bounds) * 1000 == pytest.approx(
        table[["mean_low", "mean_high", "p95_low", "p95_high"]].to_numpy()[0]
    )
    assert [seen[0][2] * 1000, seen[1][2] * 1000] == pytest.approx(table[["mean_ms", "p95_ms"]].to_numpy()[0])


def study(n=20, systems=("a", "b"), metric="ndcg@10"):
    rng = np.random.default_rng(4)
    rows = [(s, "r", metric, f"q{i}", float(rng.random()), "scored", "human") for s in systems for i in range(n)]
    return pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])


def comparison_rows(*entries):
    columns = ["metric", "rule", "baseline", "candidate", "n", "designated", "origin"]
    return pd.DataFrame([(*entry, "human") for entry in entries], columns=columns)


def test_designated_pairs_come_first_and_exploratory_ones_stand_in():
    scores = study(systems=("a", "b", "c", "d"))
    explored = [("ndcg@10", "r", "a", other, 20, False) for other in "bcd"]
    named = comparison_rows(("ndcg@10", "r", "c", "d", 20, True), *explored)
    assert [(pair.baseline, pair.candidate) for pair in simulation.pairs(scores, named)] == [("c", "d")]
    stood_in = simulation.pairs(scores, comparison_rows(*explored), most=2)
    assert [pair.candidate for pair in stood_in] == ["b", "c"]
    assert simulation.pairs(scores, comparison_rows(("ndcg@10", "r", "a", "b", 0, True))) == []
    assert simulation.pairs(scores, comparison_rows(("ndcg@10", "r", "a", "a", 20, True))) == []
    gap = scores[~((scores["system"] == "b") & (scores["query_id"] == "q3"))]
    (pair,) = simulation.pairs(gap, comparison_rows(("ndcg@10", "r", "a", "b", 19, True)))
    assert "q3" not in pair.before and len(pair.values) == 19


def test_a_study_without_comparisons_gives_empty_tables():
    for table in (
        simulation.described([]), simulation.interval_coverage([], SMALL, bool), simulation.test_errors([], SMALL, bool),
        simulation.rule_errors([], 0.03, SMALL, bool), simulation.power_at_mde([], 0.03, SMALL), simulation.first_curve([], 0.03, SMALL)[1],
    ):  # fmt: skip
        assert table.empty and len(table.columns) > 3
    area = lambda answerable: simulation.areas_coverage(
        pd.DataFrame(columns=["signal"]), study(), answerable, ["a"], SMALL, metric="p@7", rule="r"
    )
    nothing = area({})
    with pytest.raises(BadInput, match="no scores of p@7"):
        area({"q1": True})
    assert nothing.empty and simulation.shared_coverage([], {}, SMALL).empty
    assert (
        simulation.sides([]) == []
        and simulation.pooled(simulation.rule_errors([], 0.03, SMALL, bool), ["of", "rule"]).empty
    )


def test_rates_do_not_depend_on_what_else_is_simulated():
    scores = study(systems=("a", "b", "c"))
    two = comparison_rows(("ndcg@10", "r", "a", "b", 20, True), ("ndcg@10", "r", "b", "c", 20, True))
    both = simulation.test_errors(simulation.pairs(scores, two), SMALL, lambda metric: False)
    last = simulation.test_errors(simulation.pairs(scores, two.tail(1)), SMALL, lambda metric: False)
    assert both.tail(len(last)).reset_index(drop=True).equals(last)


def test_pooled_rates_count_all_simulations():
    rows = pd.DataFrame({"of": ["x", "x"], "rule": ["r", "r"], "rate": [0.1, 0.3], "simulations": [100, 300]})
    (got,) = simulation.pooled(rows, ["of", "rule"]).to_dict("records")
    assert got["rate"] == pytest.approx(0.25) and got["simulations"] == 400 and got["comparisons"] == 2
    assert (got["low"], got["high"]) == pytest.approx(stats.wilson(100, 400)) and (got["lowest"], got["highest"]) == (
        0.1,
        0.3,
    )


@pytest.mark.parametrize("wrong", [{"simulations": 0}, {"n_resamples": 0}, {"alpha": 0.0}, {"alpha": 1.0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(BadInput):
        Setup(**wrong)


# To read


def test_the_power_curve_says_its_numbers_in_words():
    rows = simulation.power_curve(
        simulation.pairs(study(), comparison_rows(("ndcg@10", "r", "a", "b", 20, True)))[0], 0.03, SMALL
    )
    shifted = rows[rows["way"] == "shifted"].assign(system=rows["test"])
    figure = statfigures.power_curve(shifted, mde=0.2, caption="Found.")
    assert figure.alt.startswith(
        "Power against the true difference; minimum detectable effect 0.200. sign-flip permutation at 0.000"
    )
    assert "gate at" in figure.alt and "<svg" in figure._repr_html_()


def test_rates_are_read_with_their_error_and_a_single_comparison_has_no_range():
    rows = pd.DataFrame(
        {"of": ["x", "x", "y"], "rule": ["r"] * 3, "rate": [0.1, 0.3, 0.5], "simulations": [100, 300, 10]}
    )
    table = stattables.rates(simulation.pooled(rows, ["of", "rule"]), ["of", "rule"])
    assert table["rate"][0] == "25.0% [21.0%, 29.5%]" and table["of single ones"].tolist() == ["10.0% to 30.0%", "—"]


def test_the_answer_quotes_what_was_simulated():
    some = simulation.pairs(study(), comparison_rows(("ndcg@10", "r", "a", "b", 20, True)))
    never = lambda metric: False
    coverage = simulation.pooled(simulation.interval_coverage(some, SMALL, never), ["of", "kind"])
    level = simulation.pooled(simulation.test_errors(some, SMALL, never), ["null", "test"])
    called = simulation.pooled(simulation.rule_errors(some, 0.03, SMALL, never), ["of", "rule"])
    told = stattables.simulation_answer(
        coverage, level, called, simulation.power_at_mde(some, 0.03, SMALL), 0.05, len(some)
    )
    assert (
        "A family of size 1 " in told
        and f"{called.set_index(['of', 'rule']).loc[('family', 'Holm'), 'rate']:.1%} of the samples" in told
    )
    shared = simulation.shared_coverage(some, {f"q{i}": f"d{i % 7}" for i in range(20)}, SMALL)
    whole = simulation.pooled(pd.concat([simulation.interval_coverage(some, SMALL, never), shared]), ["of", "kind"])
    harder = stattables.simulation_answer(whole, level, called, simulation.power_at_mde(some, 0.03, SMALL), 0.05, 1)
    assert f"one over documents in {shared['rate'][1]:.1%}." in harder and told[:60] == harder[:60]
    assert "Looked at 5 times, the gate fails in vain in" in told and "whole documents" not in told
    assert stattables.simulation_answer(coverage, level, called, None, 0.05, 0).startswith(
        "No comparison of this study"
    )
