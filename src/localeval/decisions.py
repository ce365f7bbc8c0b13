"""From tables to decisions. Sees tidy tables only.

Abstention: a system may decline to answer when a signal of its own certainty is low. Shown as risk against coverage, and as
how well the signal tells answerable questions from unanswerable ones.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from localeval.records import BadInput


def outcomes(scores: pd.DataFrame, answerable: dict[str, bool], *, metric: str, rule: str) -> pd.DataFrame:
    """Right or wrong at first rank, for every system and every query. Columns: system, query_id, answerable, correct.

    answerable: query id -> whether the corpus answers it. Answering an unanswerable query is wrong. An answerable one without a
    score cannot be judged under the rule (not applicable) and has no row: it is neither right nor wrong.
    metric: a 0/1 metric such as p@1. Nothing to judge at all is an error.
    """
    part = scores[(scores["rule"] == rule) & (scores["metric"] == metric)]
    if part.empty:
        raise BadInput(f"no scores of {metric} under {rule}: choose a metric and a rule that the sweep computes")
    wide = part.pivot(index="system", columns="query_id", values="value").reindex(columns=list(answerable))
    long = wide.stack(future_stack=True).rename("value").reset_index()
    long["answerable"] = long["query_id"].map(answerable)
    long = long[long["value"].notna() | ~long["answerable"]]
    return long.assign(correct=long["value"].fillna(0) > 0).drop(columns="value").reset_index(drop=True)


def risk_coverage(signal: np.ndarray, correct: np.ndarray) -> pd.DataFrame:
    """Risk among the answered as the threshold falls. Columns: threshold, answered, coverage, risk.

    signal: (n,) higher means more certain; correct: (n,) bool. Equal signals are answered together, so that the curve does not
    depend on the order of rows. A missing signal (NaN: nothing was retrieved) is the least certain of all.
    """
    signal = np.where(np.isnan(signal), -np.inf, signal)
    order = np.argsort(-signal, kind="stable")
    ordered, wrong = signal[order], np.cumsum(~np.asarray(correct, dtype=bool)[order])
    last = (
        np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
        if len(ordered)
        else np.array([], dtype=int)
    )
    answered = last + 1
    return pd.DataFrame(
        {
            "threshold": ordered[last],
            "answered": answered,
            "coverage": answered / max(len(ordered), 1),
            "risk": wrong[last] / np.maximum(answered, 1),
        }
    )


def aurc(signal: np.ndarray, correct: np.ndarray) -> float:
    """Area under the risk-coverage curve (Geifman and El-Yaniv 2017): mean risk over the n coverages 1/n .. 1; lower is better.

    Within a group of equal signals the risk is that of a random order of its members.
    """
    return float(_aurc(*_counts(signal, ~np.asarray(correct, dtype=bool)))[0])


def auroc(signal: np.ndarray, positive: np.ndarray) -> float:
    """Probability that a positive has the higher signal, ties half (Mann-Whitney). NaN without both kinds."""
    return float(_auroc(*_counts(signal, np.asarray(positive, dtype=bool)))[0])


def _counts(signal: np.ndarray, flag: np.ndarray, draws: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Members and flagged members of every group of equal signals, best group first, for every resample: twice (resamples, groups).

    draws: (resamples, n) row numbers; None for the sample itself. A missing signal is the lowest.
    """
    _, group = np.unique(-np.where(np.isnan(signal), -np.inf, signal), return_inverse=True)
    draws = np.arange(len(signal))[None, :] if draws is None else draws
    members = np.zeros((len(draws), group.max(initial=-1) + 1))
    flagged = np.zeros_like(members)
    rows = np.arange(len(draws))[:, None]
    np.add.at(members, (rows, group[draws]), 1)
    np.add.at(flagged, (rows, group[draws]), flag[draws])
    return members, flagged


def _aurc(members: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """With a answered and w wrong before a group of c members, e of them wrong, the i-th answer has risk (w + e (i - a) / c) / i."""
    n = int(members[0].sum())
    if not n:
        return np.full(len(members), np.nan)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])
    after = members.cumsum(axis=1).astype(int)
    before = after - members.astype(int)
    slope = np.divide(wrong, members, out=np.zeros_like(wrong), where=members > 0)
    level = wrong.cumsum(axis=1) - wrong - slope * before
    return (wrong + level * (harmonic[after] - harmonic[before])).sum(axis=1) / n


def _auroc(members: np.ndarray, positive: np.ndarray) -> np.ndarray:
    negative = members - positive
    below = negative.sum(axis=1, keepdims=True) - negative.cumsum(axis=1)
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    wins = (positive * (below + 0.5 * negative)).sum(axis=1)
    return np.divide(wins, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def abstention(signals: pd.DataFrame, outcome: pd.DataFrame, *, seed: int, n_resamples: int = 2000) -> pd.DataFrame:
    """How useful every signal of every system is. signals: `signals.csv`; outcome: from `outcomes`.

    Columns: system, signal, n, unanswerable, correct, aurc with its interval, aurc_random (the overall risk), aurc_oracle
    (all right answers first), gained = (random - aurc) / (random - oracle), the share of what any signal could gain, and
    auroc of answerable against unanswerable with its interval.
    """
    both = signals.merge(outcome, on=["system", "query_id"], validate="many_to_one").sort_values(
        ["system", "signal", "query_id"]
    )
    rows = []
    for (system, signal), part in both.groupby(["system", "signal"], sort=False):
        value, correct, answerable = (part[name].to_numpy() for name in ("value", "correct", "answerable"))
        draws = np.random.default_rng(seed).integers(0, len(part), size=(n_resamples, len(part)))
        rows.append(
            {
                "system": system, "signal": signal, "n": len(part), "unanswerable": int((~answerable).sum()), "correct": int(correct.sum()),
                **_with_interval("aurc", _aurc, value, ~correct, draws),
                "aurc_random": 1 - correct.mean(), "aurc_oracle": aurc(correct.astype(float), correct),
                "gained": _gained(value, correct),
                **_with_interval("auroc", _auroc, value, answerable, draws),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _gained(signal: np.ndarray, correct: np.ndarray) -> float:
    """Comparable between systems, which a raw area is not: that one mostly follows how often the system is right."""
    random, oracle = 1 - correct.mean(), aurc(correct.astype(float), correct)
    return (random - aurc(signal, correct)) / (random - oracle) if random > oracle else float("nan")


def curves(signals: pd.DataFrame, outcome: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """Risk-coverage curves of the chosen rows of `abstention`. Columns: system (with its signal), threshold, answered, coverage, risk."""
    both = signals.merge(outcome, on=["system", "query_id"]).sort_values("query_id")
    parts = []
    for system, signal in chosen[["system", "signal"]].itertuples(index=False):
        part = both[(both["system"] == system) & (both["signal"] == signal)]
        curve = risk_coverage(part["value"].to_numpy(), part["correct"].to_numpy())
        parts.append(curve.assign(system=f"{system}: {signal.replace('_', ' ')}"))
    return pd.concat(parts, ignore_index=True)


def _with_interval(name, function, signal, flag, draws) -> dict:
    value, again = function(*_counts(signal, flag))[0], function(*_counts(signal, flag, draws))
    known = again[~np.isnan(again)]
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) and np.ptp(known) > 0 else (np.nan, np.nan)
    return {name: value, f"{name}_low": low, f"{name}_high": high}
