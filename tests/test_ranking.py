"""Leaderboards: the same numbers as one pair at a time, rank ranges by hand, and luck that is not taken for merit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from localeval import ranking, stats
from localeval.records import BadInput


def tidy(values, metric="ndcg@10", origin="human"):
    """values: system -> list of values, question q00 first."""
    rows = [
        (system, "chunk/contains", metric, f"q{n:02d}", value, "scored", origin)
        for system, column in values.items()
        for n, value in enumerate(column)
    ]
    return pd.DataFrame(rows, columns=["system", "rule", "metric", "query_id", "value", "status", "origin"])


def board_of(values, metric="ndcg@10"):
    return ranking.panel(tidy(values, metric), metric, "chunk/contains", "human")


def noisy(seed, means, n=60):
    rng = np.random.default_rng(seed)
    hard = rng.normal(0, 0.25, n)
    return {f"s{k}": (mean + hard + rng.normal(0, 0.15, n)).tolist() for k, mean in enumerate(means)}


@pytest.mark.parametrize(("n", "binary"), [(11, False), (60, False), (60, True)])
def test_all_pairs_say_what_each_pair_says_alone(n, binary):
    values = noisy(3, [0.5, 0.5, 0.6, 0.8], n)
    if binary:
        values = {name: [float(one > 0.6) for one in column] for name, column in values.items()}
    values["twin"] = values["s0"]
    board = board_of(values)
    got = ranking.pairs(board, n_resamples=4000)
    alone = [
        stats.compare(
            *[dict(zip(board.query_ids, values[name], strict=True)) for name in (row.baseline, row.candidate)],
            metric="ndcg@10", rule="r", names=(row.baseline, row.candidate), n_resamples=4000,
        )
        for row in got.itertuples()
    ]  # fmt: skip
    for column in ("delta", "low", "high", "p_value", "p_t"):
        assert got[column].tolist() == pytest.approx([getattr(one, column) for one in alone], abs=1e-12, nan_ok=True), (
            column
        )
    assert got["p_holm"].tolist() == pytest.approx(stats.holm([one.p_value for one in alone]), abs=1e-12)
    assert set(got["n"]) == {n} and len(got) == 10


def test_intervals_of_many_are_those_of_each_alone():
    rng = np.random.default_rng(0)
    columns = [rng.random(n) for n in (30, 7, 30, 1)] + [[1.0] * 12, []]
    flags = [False] * 4 + [True, False]
    many = stats.intervals(columns, binary=flags, n_resamples=2000)
    for got, values, flag in zip(many, columns, flags, strict=True):
        alone = stats.interval(values, binary=flag, n_resamples=2000)
        assert (got.n, got.note) == (alone.n, alone.note)
        assert (got.low, got.high) == pytest.approx((alone.low, alone.high), abs=1e-12, nan_ok=True)


def test_family_p_by_hand():
    """Two columns of three questions: all eight patterns of signs, the largest of |sum| / norm in each."""
    d = np.array([[1.0, 1.0], [1.0, -2.0], [1.0, 1.0]])
    p, family = stats.sign_flips(d, n_resamples=100)
    # First column: |sum| 3 in 2 of 8. Second: 0 in every pattern. Largest: 3 / sqrt 3 = 1.73; second column 4 / sqrt 6 = 1.63 at most.
    assert p.tolist() == [2 / 8, 1.0] and family.tolist() == [2 / 8, 1.0]


def test_family_p_is_never_below_the_own_p_and_grows_with_the_family():
    d = np.random.default_rng(5).normal(0.08, 0.3, (80, 12))
    p, family = stats.sign_flips(d, n_resamples=3000)
    assert (family >= p - 2 / 3000).all() and family.min() > p.min()
    _, few = stats.sign_flips(d[:, :3], n_resamples=3000)
    assert (few <= family[:3]).all()


def test_family_p_keeps_its_level_under_no_difference():
    """Four equal systems: some pair is called different in about one of twenty leaderboards, not in six times as many."""
    first, second = np.triu_indices(4, 1)
    called = 0
    for seed in range(200):
        values = np.array(list(noisy(seed, [0.5] * 4, 25).values())).T
        called += stats.sign_flips(values[:, second] - values[:, first], n_resamples=400)[1].min() <= 0.05
    assert 0 < called <= 20, "binomial(200, .05): above 20 has a chance of 0.1 %"


def test_rank_ranges_and_tie_groups_by_hand():
    """s0 and s1 alike, s2 far above, s3 far below: one first rank, two that may be second or third, one last."""
    board = board_of(noisy(1, [0.5, 0.51, 0.9, 0.1]))
    rows = ranking.ranks(board, ranking.pairs(board, n_resamples=2000), n_resamples=2000).set_index("system")
    assert rows.loc["s2", ["rank", "rank_low", "rank_high", "group"]].tolist() == [1, 1, 1, 1]
    assert rows.loc["s3", ["rank", "rank_low", "rank_high", "group"]].tolist() == [4, 4, 4, 3]
    for name in ("s0", "s1"):
        assert rows.loc[name, ["rank_low", "rank_high", "group"]].tolist() == [2, 3, 2]
    assert rows.loc["s2", "p_first"] == 1.0 and rows["p_first"].sum() == pytest.approx(1)


def test_where_less_is_better_the_order_turns():
    board = board_of(noisy(1, [0.5, 0.9, 0.1]), metric="ms")
    rows = ranking.ranks(board, ranking.pairs(board, n_resamples=1000), n_resamples=1000)
    assert rows["system"].tolist() == ["s2", "s0", "s1"] and rows["rank_high"].tolist() == [1, 2, 3]
    assert board.systems[board.best] == "s2"
    found = ranking.optimism(board, n_resamples=500)
    assert found.expected >= found.reported, "of a cost, luck makes the best look cheaper"


def test_rank_shares_are_shares_and_equal_systems_split_them():
    values = noisy(2, [0.5, 0.6])
    values["twin"] = values["s1"]
    shares = ranking.rank_shares(board_of(values), n_resamples=500)
    assert shares.sum(axis=0) == pytest.approx([1, 1, 1]) and shares.sum(axis=1) == pytest.approx([1, 1, 1])
    assert shares[1] == pytest.approx(shares[2]), "twins have every rank alike"
    same = ranking.rank_shares(board_of({"a": [0.1, 0.4], "b": [0.1, 0.4]}), n_resamples=50)
    assert same == pytest.approx(np.full((2, 2), 0.5))


def test_rank_shares_against_a_plain_count():
    board = board_of(noisy(8, [0.5, 0.52, 0.55], 20))
    means = stats.resampled_means(board.values, n_resamples=300)
    plain = np.zeros((3, 3))
    for row in means:
        for rank, system in enumerate(np.argsort(-row)):
            plain[system, rank] += 1 / 300
    assert ranking.rank_shares(board, n_resamples=300) == pytest.approx(plain)


def test_optimism_takes_most_of_the_luck_away():
    """Ten equal systems, true mean 0.5: the best reports more, and what is expected of it is far nearer to 0.5."""
    found = [ranking.optimism(board_of(noisy(seed, [0.5] * 10)), seed=seed, n_resamples=200) for seed in range(40)]
    centre = [np.mean([noisy(seed, [0.5] * 10)[one.system] for one in [found[seed]]]) for seed in range(40)]
    assert [one.reported for one in found] == pytest.approx(centre)
    hard = np.array([np.mean(np.random.default_rng(seed).normal(0, 0.25, 60)) for seed in range(40)])
    reported = np.mean([one.reported for one in found] - hard) - 0.5
    expected = np.mean([one.expected for one in found] - hard) - 0.5
    assert reported > 0.02 and abs(expected) < reported / 2


def test_one_system_has_no_luck_and_no_pair():
    board = board_of(noisy(1, [0.5]))
    found, every_pair = ranking.optimism(board, n_resamples=200), ranking.pairs(board, n_resamples=200)
    assert found.expected == found.reported and every_pair.empty
    (row,) = ranking.ranks(board, every_pair, n_resamples=200).to_dict("records")
    assert (row["rank_low"], row["rank_high"], row["group"], row["p_first"]) == (1, 1, 1, 1.0)


def test_held_out_chooses_on_one_side_and_judges_on_the_other():
    values = noisy(1, [0.5, 0.5, 0.5], 60)
    split = {f"q{n:02d}": "dev" if n < 35 else "heldout" for n in range(60)}
    rows = ranking.held_out(board_of(values), split, n_resamples=200)
    dev = {name: np.mean(column[:35]) for name, column in values.items()}
    chosen = max(dev, key=dev.get)
    assert rows["system"].tolist() == [chosen] * 2 and rows["n"].tolist() == [35, 25]
    assert rows["mean"].tolist() == pytest.approx([dev[chosen], np.mean(values[chosen][35:])])
    assert ranking.held_out(board_of(values), dict.fromkeys(split, "dev")).empty


def test_a_missing_question_is_left_out_for_all_and_counted():
    scores = tidy({"a": [0.1, 0.2, 0.3], "b": [0.3, 0.2, 0.1]})
    board = ranking.panel(scores.drop(index=5), "ndcg@10", "chunk/contains", "human")
    assert board.query_ids == ("q00", "q01") and board.left_out == 1
    gone = scores.assign(value=scores["value"].where(scores["query_id"] != "q00"))
    assert ranking.panel(gone, "ndcg@10", "chunk/contains", "human").query_ids == ("q01", "q02")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda scores: scores.head(0), "no scores of ndcg@10 under chunk/contains for human questions"),
        (lambda scores: scores.assign(value=np.nan), "no question that all systems have"),
        (lambda scores: scores.assign(value=np.inf), "an infinite value is no score"),
        (lambda scores: scores[(scores["system"] == "a") == (scores["query_id"] == "q00")], "no question that all"),
    ],
)
def test_a_board_without_numbers_says_why(change, said):
    scores = tidy({"a": [0.1, 0.2], "b": [0.3, 0.2]})
    with pytest.raises(BadInput, match=said):
        ranking.panel(change(scores), "ndcg@10", "chunk/contains", "human")


def test_a_board_of_one_question_claims_nothing():
    board = board_of({"a": [0.1], "b": [0.9]})
    every_pair = ranking.pairs(board)
    assert every_pair["p_value"].tolist() == [1.0] and every_pair["low"].isna().all()
    rows = ranking.ranks(board, every_pair)
    assert rows["rank_high"].tolist() == [2, 2] and rows["low"].isna().all() and set(rows["group"]) == {1}


def test_sixty_systems_take_seconds():
    """CPU time, which a busy machine does not lengthen; the memory of resamples is bounded by blocks."""
    import time

    rng = np.random.default_rng(0)
    values = np.clip(rng.beta(0.5, 0.4, (300, 1)) + rng.normal(0, 0.25, (300, 60)), 0, 1)
    board = ranking.Panel("ndcg@10", "r", "human", tuple(map(str, range(60))), tuple(map(str, range(300))), values)
    start = time.process_time()
    every_pair = ranking.pairs(board)
    ranking.ranks(board, every_pair)
    assert len(every_pair) == 1770 and time.process_time() - start < 8
