"""Published figures come out again, and what is concluded from margins holds for everything that is possible."""

from __future__ import annotations

import json
import math
import os
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from localeval import published, stats
from localeval.published import NOT_SEPARATED, SUPPORTED, UNKNOWN, UNRESOLVABLE, Rules, judge
from localeval.records import BadInput

FOLDER = Path(__file__).resolve().parents[1] / "data" / "published"
DATA = os.environ.get("LOCALEVAL_DATA", "")
needs_data = pytest.mark.skipif(not DATA, reason="LOCALEVAL_DATA is not set: public collections are not here")


@pytest.fixture(scope="module")
def rules():
    return Rules(published.read(FOLDER, "ranks.csv"))


@pytest.fixture(scope="module")
def claims():
    return published.read(FOLDER, "claims.csv")


def one(rules, kind, **figures):
    """The verdict on a claim made of these figures alone."""
    columns = published.read(FOLDER, "claims.csv").columns
    blank = {name: "" if name in published.TEXT_COLUMNS else math.nan for name in columns}
    row = blank | {"study": "s", "claim": "c", "kind": kind, "factor_low": 1, "factor_high": 1} | figures
    return judge(pd.DataFrame([row]), rules).iloc[0]


# Published figures


def test_intervals_come_out_as_published(rules):
    again = published.reproduced(published.read(FOLDER, "intervals.csv"), rules)
    assert len(again) == 8 and again["largest difference"].max() < 0.0006
    assert (again["reported by the source"] == again["computed here from that"]).all()


@needs_data
def test_the_committed_ranks_are_the_published_ones(rules):
    source = json.loads((Path(DATA) / "turkish_rag_eval" / "perquery_ranks.json").read_text(encoding="utf-8"))
    own = {name: part["rank"].tolist() for name, part in rules.ranks.groupby("system", sort=False)}
    assert list(own.values())[:5] == list(source["first_hit_rank"].values())
    exact = source["published"]["exact from summary.json@9bf67aab"]["hierarchical+hybrid_rrf"]["ndcg@10"]
    assert np.mean(list(rules.values("hierarchical hybrid_rrf").values())) == pytest.approx(exact, abs=1e-12)


@needs_data
@pytest.mark.parametrize("pair", ["bm25_stem5 - bm25_nostem (hierarchical)", "Mursit - e5-base (hierarchical dense)"])
def test_paired_intervals_as_in_the_source(rules, pair):
    source = json.loads((Path(DATA) / "turkish_rag_eval" / "perquery_ranks.json").read_text(encoding="utf-8"))
    names = {"bm25_stem5": "hierarchical bm25_stem5", "bm25_nostem": "hierarchical bm25_nostem"}
    names |= {"Mursit": "hierarchical dense Mursit", "e5-base": "hierarchical dense e5-base"}
    candidate, baseline = (names[side] for side in pair.partition(" (")[0].split(" - "))
    got = stats.compare(rules.values(baseline), rules.values(candidate), metric="m", rule="r", names=("a", "b"))
    assert (got.delta, got.low, got.high) == pytest.approx(source["published"]["paired"][pair], abs=6e-4)


@needs_data
def test_p_values_of_the_topics_of_urbano():
    """Runs 125 and 126 of the ad hoc track of 1999 over 50 topics, as printed with the study's code."""
    runs = pd.read_csv(Path(DATA) / "urbano_sigir2019" / "adhoc8_ap.csv")
    differences = (runs["run126"] - runs["run125"]).to_numpy()
    assert len(differences) == 50
    assert stats.paired_t(differences[:, None])[0] == pytest.approx(0.0013193972, abs=1e-10)
    wilcoxon = scipy_stats.wilcoxon(differences, correction=True, method="approx").pvalue
    assert wilcoxon == pytest.approx(0.003445188, abs=1e-9)  # the reference of the data, not a test of this report
    assert stats.sign_flip(differences, n_resamples=200_000) == pytest.approx(0.001188, abs=1.5e-4)
    got = stats.compare(
        dict(enumerate(runs["run125"])), dict(enumerate(runs["run126"])), metric="ap", rule="trec", names=("125", "126")
    )
    assert stats.verdict(got) == "better" and got.low > 0


def test_minimum_detectable_effects_of_the_suite(rules, claims):
    """2.8 sd / sqrt(n): from 0.088 to 0.097 with 104 queries follow 0.170 to 0.187 with 28, printed as 0.17 to 0.19."""
    assert published.detectable_at(0.088, 104, 28) == pytest.approx(0.1696, abs=1e-4)
    assert published.detectable_at(0.097, 104, 28) == pytest.approx(0.1869, abs=1e-4)
    sd = 0.088 * math.sqrt(104) / 2.8
    values = np.array([1.0, -1.0] * 52) * sd * math.sqrt(103 / 104)
    assert stats.mde(values) == pytest.approx(0.088)
    (row,) = [r for r in judge(claims, rules).to_dict("records") if "(n = 28)" in r["reported by the source"]]
    assert row["verdict"] == SUPPORTED
    assert one(rules, "mde", n=104, low=0.05, high=0.06, n_b=28, low_b=0.17, high_b=0.19)["verdict"] == UNKNOWN


def test_published_p_values_agree_with_their_intervals(claims):
    """What an interval implies lies close to the p that stands beside it, for both designated comparisons."""
    known = claims.dropna(subset=["p_value"])
    assert len(known) == 2
    for row in known.to_dict("records"):
        error = published.spread_of(row["low"], row["high"], int(row["n"])) / math.sqrt(row["n"])
        assert published._p(row["delta"], error, int(row["n"])) == pytest.approx(row["p_value"], abs=0.02)


def test_two_published_figures_that_disagree():
    """Ranks 1 x 21, 2 x 7, 3, 5 and two misses over 32 cases: 0.782, where 0.81 is printed."""
    row = one(Rules(pd.DataFrame()), "histogram", n=32, mean=0.81, ranks="1:21 2:7 3:1 5:1")
    assert row["computed here from that"].startswith("0.782") and row["verdict"] == UNKNOWN
    assert one(Rules(pd.DataFrame()), "histogram", n=32, mean=0.78, ranks="1:21 2:7 3:1 5:1")["verdict"] == SUPPORTED


# What margins allow


@pytest.mark.parametrize(("hits", "hits_b", "n"), [(2, 4, 4), (3, 5, 6), (0, 5, 6), (6, 6, 7), (3, 3, 6)])
def test_bounds_over_pairings_are_those_of_all_pairings(hits, hits_b, n):
    """Every choice of which questions each side hits, for small n."""
    p_values = set()
    for one_side, other in product(combinations(range(n), hits), combinations(range(n), hits_b)):
        won, lost = len(set(one_side) - set(other)), len(set(other) - set(one_side))
        p_values.add(scipy_stats.binomtest(won, won + lost).pvalue if won + lost else 1.0)
    assert published.mcnemar_bounds(hits, hits_b, n) == pytest.approx((min(p_values), max(p_values)))


def test_four_questions_cannot_be_told_apart_however_they_fall(rules):
    """86 and 90 of 114: the best case is four wins and no loss, p = 2/16."""
    assert published.mcnemar_bounds(86, 90, 114)[0] == pytest.approx(2 / 16)
    assert one(rules, "paired rates", n=114, hits=86, hits_b=90)["verdict"] == NOT_SEPARATED
    assert one(rules, "paired rates", n=114, hits=60, hits_b=100)["verdict"] == SUPPORTED
    assert one(rules, "paired rates", n=114, hits=50, hits_b=62)["verdict"] == UNKNOWN
    assert one(rules, "paired rates", n=4, hits=2, hits_b=4)["verdict"] == UNRESOLVABLE
    alone = one(rules, "paired rates", n=114, hits=106, hits_b=113)
    family = one(rules, "paired rates", n=114, hits=106, hits_b=113, factor_high=5)
    assert (alone["verdict"], family["verdict"]) == (SUPPORTED, UNKNOWN)


def test_spreads_of_a_difference_lie_between_the_bounds():
    """However two columns are shuffled against each other, the paired t test stays within the bounds."""
    rng = np.random.default_rng(2)
    a, b = np.sort(rng.beta(1, 1, 40)), np.sort(rng.beta(2, 1, 40))
    low, high = published.pairing_bounds(b.mean() - a.mean(), a.std(ddof=1), b.std(ddof=1), 40)
    for other in (b, b[::-1], *(rng.permutation(b) for _ in range(20))):
        assert low - 1e-12 <= scipy_stats.ttest_rel(other, a).pvalue <= high + 1e-12
    assert published.pairing_bounds(0.3, 0.4, 0.4, 40, least=False)[0] == 0.0


def test_no_values_from_zero_to_one_spread_more_than_their_mean_allows():
    rng = np.random.default_rng(3)
    for values in (rng.random(50), rng.beta(0.2, 0.3, 50), np.array([0.0, 1.0, 1.0])):
        assert values.std() <= published.largest_spread(values.mean()) + 1e-12


def test_the_interval_gives_its_spread_back():
    values = np.random.default_rng(4).normal(0.5, 0.3, 200)
    got = stats.interval(values)
    assert published.spread_of(got.low, got.high, 200) == pytest.approx(values.std(ddof=1), rel=0.03)


def test_smallest_attainable_p():
    assert published.smallest_p(4) == 2 / 16 and published.smallest_p(1) == 1.0
    assert published.smallest_p(6, 3) == pytest.approx(2 / 84) and published.smallest_p(1, 31) == 2 / 32
    assert published.smallest_p(8) == stats.sign_flip([0.1] * 8)


# Verdicts


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ({"delta": 0.1, "low": 0.05, "high": 0.15}, SUPPORTED),
        ({"delta": -0.1, "low": -0.15, "high": -0.05}, SUPPORTED),
        ({"delta": 0.1, "low": -0.01, "high": 0.21}, NOT_SEPARATED),
        ({"delta": 0.1, "low": 0.02, "high": 0.18, "factor_high": 5}, UNKNOWN),
        ({"delta": 0.1, "low": 0.02, "high": 0.18, "factor_low": 4, "factor_high": 5}, NOT_SEPARATED),
        ({"delta": 0.1, "sd": 0.34, "factor_low": 3, "factor_high": 11}, NOT_SEPARATED),
        ({"delta": 0.1, "sd": 0.1, "factor_high": 11}, SUPPORTED),
    ],
)
def test_a_difference_and_its_family(rules, figures, verdict):
    assert one(rules, "difference", n=58, **figures)["verdict"] == verdict


def test_not_separated_says_whether_it_is_equal(rules):
    wide = one(rules, "difference", n=58, delta=0.0, low=-0.2, high=0.2)
    narrow = one(rules, "difference", n=58, delta=0.0, low=-0.02, high=0.02)
    assert (wide["verdict"], narrow["verdict"]) == (NOT_SEPARATED, NOT_SEPARATED)
    assert "Nor is it shown to be equal" in wide["why"] and narrow["why"] == "Equal within 0.05."


def test_as_good_is_a_claim_of_its_own(rules):
    pair = {"baseline": "hierarchical hybrid_rrf", "candidate": "sentence hybrid_rrf", "delta": -0.056, "n": 58}
    assert one(rules, "same", **pair)["verdict"] == NOT_SEPARATED
    assert one(Rules(rules.ranks, margin=0.15), "same", **pair)["verdict"] == SUPPORTED
    assert one(rules, "same rates", n=94, hits=91, hits_b=91)["verdict"] == SUPPORTED
    assert one(rules, "same rates", n=94, hits=60, hits_b=60)["verdict"] == NOT_SEPARATED


@pytest.mark.parametrize(
    ("kind", "figures", "verdict"),
    [
        ("rate", {"hits": 2, "n": 8, "reference": 0.4655}, NOT_SEPARATED),
        ("rate", {"hits": 20, "n": 25, "reference": 0.5}, SUPPORTED),
        ("groups", {"n": 1, "mean": 0.0, "n_b": 31, "mean_b": 0.84}, UNRESOLVABLE),
        ("groups", {"n": 6, "mean": 0.87, "n_b": 3, "mean_b": 0.67}, UNKNOWN),
        ("groups", {"n": 58, "mean": 0.78, "n_b": 238, "mean_b": 0.57}, SUPPORTED),
        ("groups", {"n": 58, "mean": 0.6, "n_b": 238, "mean_b": 0.57}, UNKNOWN),
        ("few", {"n": 5, "mean": 0.27, "mean_b": 0.81}, UNRESOLVABLE),
        ("few", {"n": 6, "mean": 0.27, "mean_b": 0.81}, UNKNOWN),
        ("times", {"mean": 34, "mean_b": 395, "low": 29.8, "high": 38.0}, SUPPORTED),
        ("times", {"mean": 29, "mean_b": 34, "low": 29.8, "high": 38.0}, NOT_SEPARATED),
        ("tail", {"n": 114, "mean": 1605.2, "reference": 1000}, SUPPORTED),
        ("tail", {"n": 114, "mean": 905.2, "reference": 1000}, UNKNOWN),
        ("category", {"n": 104, "low": 0.088, "high": 0.097, "n_b": 23}, UNKNOWN),
        ("paired means", {"n": 104, "mean": 0.248, "mean_b": 0.645}, SUPPORTED),
        ("paired means", {"n": 104, "mean": 0.6, "mean_b": 0.645}, UNKNOWN),
    ],
)
def test_verdicts_of_other_kinds(rules, kind, figures, verdict):
    assert one(rules, kind, **figures)["verdict"] == verdict


def test_a_p95_says_how_many_answers_took_that_long():
    row = one(Rules(pd.DataFrame()), "tail", n=114, mean=1605.2, reference=1000)
    values = np.arange(1, 115)
    slower = int(np.sum(values >= stats.percentile(values, 0.95)))
    assert row["computed here from that"].startswith(f"at least {slower} of 114")


def test_every_claim_is_judged_and_reported_stands_apart(rules, claims):
    judged = judge(claims, rules)
    assert len(judged) == len(claims) and set(judged["verdict"]) == set(published.VERDICTS)
    assert (judged[["reported by the source", "computed here from that", "why"]].map(len) > 0).all(axis=None)
    counted = published.counted(judged)
    assert counted["claims"].sum() == len(claims) and list(counted["study"]) == list(dict.fromkeys(claims["study"]))
    assert set(claims["study"]) == set(published.read(FOLDER, "studies.csv")["study"])
    assert published.answer(judged).startswith(f"Of {len(claims)} claims ")


def test_rates_carry_the_interval_of_their_count():
    rates = published.read(FOLDER, "rates.csv")
    table = published.with_intervals(rates, 0.05)
    judge_row = table[table["counted"] == "14 of 16"].iloc[0]
    assert judge_row["computed here from that"] == "0.875 [0.640, 0.965]"
    printed = rates[rates["reported"].str.endswith("%")]
    assert len(printed) >= 5
    for row in printed.to_dict("records"):
        digits = len(row["reported"].partition(".")[2]) - 1
        assert round(100 * row["hits"] / row["n"], digits) == float(row["reported"][:-1])


def test_wrong_files_are_named(tmp_path, rules, claims):
    with pytest.raises(BadInput, match="no such file"):
        published.read(tmp_path, "claims.csv")
    (tmp_path / "claims.csv").write_text("study,n\na,many\n", encoding="utf-8")
    with pytest.raises(BadInput, match="column 'n'"):
        published.read(tmp_path, "claims.csv")
    with pytest.raises(BadInput, match="line 2: unknown kind 'guess'"):
        judge(claims.head(1).assign(kind="guess"), rules)
    with pytest.raises(BadInput, match="no system 'x'"):
        rules.values("x")
