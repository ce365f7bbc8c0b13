"""Leaderboards: which systems can be told apart, which rank each may have, and what the best of many is worth beyond its luck.

Everything is computed on questions that all systems answered, with draws that all systems share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from localeval import stats
from localeval.records import BadInput, near

FEW_QUESTIONS = 20  # below it a held-out mean is not shown: its interval spans most of the scale


@dataclass(frozen=True, slots=True)
class Panel:
    """Values of several systems on the same questions. values: (questions, systems), none missing.

    left_out: questions that some system has no value for; they are in no figure. direction: 1 where more is better, else -1.
    """

    metric: str
    rule: str
    origin: str
    systems: tuple[str, ...]
    query_ids: tuple[str, ...]
    values: np.ndarray
    left_out: int = 0

    @property
    def direction(self) -> int:
        return stats.direction(self.metric)

    @property
    def means(self) -> np.ndarray:
        return self.values.mean(axis=0)

    @property
    def best(self) -> int:
        """The column of the best mean (tie: the first)."""
        return int(np.argmax(self.direction * self.means))

    def only(self, query_ids) -> Panel:
        """The panel on some of its questions."""
        keep = [query in query_ids for query in self.query_ids]
        kept = tuple(query for query, kept in zip(self.query_ids, keep, strict=True) if kept)
        return Panel(self.metric, self.rule, self.origin, self.systems, kept, self.values[keep], self.left_out)


def panel(scores: pd.DataFrame, metric: str, rule: str, origin: str, systems: Sequence[str] = ()) -> Panel:
    """The panel of one metric, rule and origin of a tidy `scores` table, questions by id, systems in order of appearance.

    systems: only these; empty: all. No value at all, an infinite value, or no question that all have is an error.
    """
    part = scores[(scores["metric"] == metric) & (scores["rule"] == rule) & (scores["origin"] == origin)]
    names = list(systems) or list(dict.fromkeys(part["system"]))
    absent = [name for name in names if name not in set(part["system"])]
    if part.empty or absent:
        what = absent[0] if len(part) else f"{metric} under {rule} for {origin} questions"
        raise BadInput(
            f"no scores of {what}{near(what, part['system']) if len(part) else ''}; name one that the sweep computes"
        )
    wide = part.pivot(index="query_id", columns="system", values="value").sort_index()[names]
    if np.isinf(wide.to_numpy()).any():
        raise BadInput(f"{metric} under {rule}: an infinite value is no score; run the notebook that wrote it again")
    whole = wide.dropna()
    if whole.empty:
        fewest = wide.notna().sum().idxmin()
        raise BadInput(
            f"{metric} under {rule}: no question that all systems have; {fewest} has {wide[fewest].count()}, leave it out"
        )
    return Panel(metric, rule, origin, tuple(names), tuple(whole.index), whole.to_numpy(), len(wide) - len(whole))


PAIRS = ("baseline", "candidate", "n", "delta", "low", "high", "p_value", "p_holm", "p_family", "p_t")


def pairs(board: Panel, *, seed: int = stats.SEED, n_resamples: int = stats.N_RESAMPLES) -> pd.DataFrame:
    """Every pair of systems: candidate minus baseline with its interval, and p alone, by Holm over all pairs, by the largest
    statistic of the family (see `stats.sign_flips`), and of the t test. Columns: PAIRS.

    Each row holds what `stats.compare` gives for that pair. Random flips cannot give a p below 1 / (n_resamples + 1), so with
    more pairs than alpha times that Holm's p can separate nothing; p_family can.
    """
    first, second = np.triu_indices(len(board.systems), 1)
    differences = board.values[:, second] - board.values[:, first]
    p, family, p_t, _ = stats.paired_tests(
        differences, zero_one=stats.is_zero_one(board.values), seed=seed, n_resamples=n_resamples
    )
    tails = _pair_bounds(board, first, second, seed, n_resamples)
    tails[np.ptp(differences, axis=0) <= stats.TIE] = np.nan
    names = np.array(board.systems, dtype=object)
    columns = (
        names[first],
        names[second],
        len(differences),
        differences.mean(axis=0),
        *tails.T,
        p,
        stats.holm(p),
        family,
        p_t,
    )
    return pd.DataFrame(dict(zip(PAIRS, columns, strict=True)))


def _pair_bounds(board: Panel, first, second, seed: int, n_resamples: int) -> np.ndarray:
    """Percentile bounds of all paired differences, (pairs, 2): the difference of resampled means is the mean of resampled differences."""
    means, tails = stats.resampled_means(board.values, seed, n_resamples), np.empty((len(first), 2))
    for start in range(0, len(first), stats.COLUMNS_AT_ONCE):
        some = slice(start, start + stats.COLUMNS_AT_ONCE)
        tails[some] = stats.bounds(means[:, second[some]] - means[:, first[some]])
    return tails


RANKS = (
    "system",
    "mean",
    "low",
    "high",
    "n",
    "rank",
    "rank_low",
    "rank_high",
    "group",
    "band_low",
    "band_high",
    "p_first",
)


def ranks(
    board: Panel,
    every_pair: pd.DataFrame,
    *,
    alpha: float = stats.ALPHA,
    seed: int = stats.SEED,
    n_resamples: int = stats.N_RESAMPLES,
) -> pd.DataFrame:
    """The leaderboard with what can be said of its order, best first. every_pair: of `pairs`. Columns: RANKS.

    rank_low .. rank_high: the ranks a system may have, together for all systems at level 1 - alpha: one more than the systems
    shown to be better, up to all but those shown to be worse (Mogstad, Romano, Shaikh and Wilhelm 2024), by p_family. group: tie
    groups from the top; a group ends before the first system that is shown to be worse than the group's first.
    band_low .. band_high: the middle 95 % of a system's rank over resampled questions; p_first: the share of them in which it is
    first, ties shared. Bands are no test: a system that is never told apart can still have a narrow one.
    """
    size = len(board.systems)
    beats = _beats(board, every_pair, alpha)
    order = np.argsort(-board.direction * board.means, kind="stable")
    shares = rank_shares(board, seed=seed, n_resamples=n_resamples)
    below = shares.cumsum(axis=1)
    band = [1 + (below < level - 1e-9).sum(axis=1) for level in (0.025, 0.975)]
    found = stats.intervals(
        list(board.values.T), binary=[stats.is_zero_one(board.values)] * size, seed=seed, n_resamples=n_resamples
    )
    columns = {
        "system": board.systems, "mean": [one.mean for one in found], "low": [one.low for one in found],
        "high": [one.high for one in found], "n": len(board.query_ids), "rank": order.argsort() + 1,
        "rank_low": 1 + beats.sum(axis=0), "rank_high": size - beats.sum(axis=1), "group": _groups(beats, order),
        "band_low": band[0], "band_high": band[1], "p_first": shares[:, 0],
    }  # fmt: skip
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)[list(RANKS)]


def _beats(board: Panel, every_pair: pd.DataFrame, alpha: float) -> np.ndarray:
    """(systems, systems): whether the row's system is shown to be better than the column's."""
    number, size = {name: place for place, name in enumerate(board.systems)}, len(board.systems)
    beats = np.zeros((size, size), dtype=bool)
    shown = every_pair[every_pair["p_family"] <= alpha]
    for row in shown.itertuples():
        candidate_wins = row.delta * board.direction > 0
        winner, loser = (row.candidate, row.baseline) if candidate_wins else (row.baseline, row.candidate)
        beats[number[winner], number[loser]] = True
    return beats


def _groups(beats: np.ndarray, order: np.ndarray) -> np.ndarray:
    group, first, groups = 1, order[:1], np.empty(len(order), dtype=int)
    for system in order:
        if beats[first[0], system]:
            group, first = group + 1, [system]
        groups[system] = group
    return groups


def rank_shares(board: Panel, *, seed: int = stats.SEED, n_resamples: int = stats.N_RESAMPLES) -> np.ndarray:
    """Share of the resamples in which each system has each rank, (systems, ranks); rows and columns sum to 1.

    Systems with the same mean share their ranks in equal parts.
    """
    means = board.direction * stats.resampled_means(board.values, seed, n_resamples)
    size = means.shape[1]
    order = np.argsort(-means, axis=1, kind="stable")
    ordered = np.take_along_axis(means, order, axis=1)
    opens = np.ones(ordered.shape, dtype=bool)
    opens[:, 1:] = ordered[:, :-1] - ordered[:, 1:] > stats.TIE
    run = opens.cumsum() - 1  # a number for every run of equal means; a row always opens one
    starts = np.flatnonzero(opens.ravel())
    lengths = np.diff(np.append(starts, opens.size))
    first, length = (starts % size)[run], lengths[run]
    steps = np.zeros((size, size + 1))  # where a share begins and ends, summed up below
    system = order.ravel()
    np.add.at(steps, (system, first), 1 / length)
    np.add.at(steps, (system, first + length), -1 / length)
    return np.abs(steps.cumsum(axis=1)[:, :size]) / len(means)


@dataclass(frozen=True, slots=True)
class Optimism:
    """What the best of a grid reported, and what to expect of it on new questions like these."""

    system: str
    systems: int
    n: int
    reported: float
    expected: float


def optimism(board: Panel, *, seed: int = stats.SEED, n_resamples: int = stats.N_RESAMPLES) -> Optimism:
    """The luck in the best mean of many, by the bootstrap (Efron 1983): choose the best on a resample, judge it on the sample.

    On each resample the chosen system's mean there exceeds its mean on all questions by what choosing gained; the average is
    subtracted. One system has none. It is the luck of choosing among these systems only, not of tuning them on these questions.
    """
    means = board.direction * stats.resampled_means(board.values, seed, n_resamples)
    luck = means - means.mean(axis=0)  # of each system over all resamples none, however few are drawn
    chosen = means.argmax(axis=1)
    gained = float(luck[np.arange(len(means)), chosen].mean())
    reported = float(board.means[board.best])
    best = board.systems[board.best]
    return Optimism(
        best, len(board.systems), len(board.query_ids), reported, reported - board.direction * max(0.0, gained)
    )


HELD_OUT = ("questions", "system", "mean", "low", "high", "n", "chosen_on")


def held_out(
    board: Panel, split: dict[str, str], *, seed: int = stats.SEED, n_resamples: int = stats.N_RESAMPLES
) -> pd.DataFrame:
    """The best system on the questions of split "dev", and its mean there and on those of split "heldout". Columns: HELD_OUT.

    Two rows; no row where either side has fewer than FEW_QUESTIONS questions: say so.
    """
    sides = {
        name: board.only({query for query in board.query_ids if split.get(query) == name})
        for name in ("dev", "heldout")
    }
    if min(len(side.query_ids) for side in sides.values()) < FEW_QUESTIONS:
        return pd.DataFrame(columns=list(HELD_OUT))
    chosen, rows = sides["dev"].best, []
    for name, side in sides.items():
        values = side.values[:, chosen]
        got = stats.interval(values, binary=stats.is_zero_one(values), seed=seed, n_resamples=n_resamples)
        rows.append((name, board.systems[chosen], got.mean, got.low, got.high, got.n, "dev"))
    return pd.DataFrame(rows, columns=list(HELD_OUT))
