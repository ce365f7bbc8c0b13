"""When should a system decline to answer? A signal of its own certainty, a threshold, and what the threshold is worth.

Sees tidy tables only. Risk: the share of wrong answers among the answered. Generalised risk: the share of wrong answers among all
questions asked. Answering a question that has no answer is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from localeval import stats
from localeval.records import BadInput, at_least

THIN = 20  # answers; a share of fewer is marked
LEAST = 5  # answers that a threshold must leave, to be one at all


def check(*, show: int, floors: Sequence[float], n_resamples: int, **shares: float) -> None:
    """Refuses parameters that nothing can be made of. shares: each strictly between 0 and 1."""
    at_least(1, show=show, n_resamples=n_resamples)
    if not floors or not all(0 < floor <= 1 for floor in floors):
        raise BadInput(f"floors={list(floors)}: give at least one selective accuracy above 0 and at most 1")
    for name, share in shares.items():
        if not 0 < share < 1:
            raise BadInput(f"{name}={share}: give a share above 0 and below 1")


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


# Curves and their areas


def _filled(signal: np.ndarray) -> np.ndarray:
    """A missing signal is the least certain of all."""
    return np.where(np.isnan(signal), -np.inf, signal)


def risk_coverage(signal: np.ndarray, correct: np.ndarray, weight: np.ndarray | None = None) -> pd.DataFrame:
    """Risk among the answered as the threshold falls. Columns: threshold, answered, coverage, risk.

    signal: (n,) higher means more certain; correct: (n,) bool; weight: (n,) of each question, 1 by default. Equal signals are
    answered together, so that the curve does not depend on the order of rows.
    """
    signal, weight = _filled(signal), np.ones(len(signal)) if weight is None else weight
    order = np.argsort(-signal, kind="stable")
    ordered = signal[order]
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) if len(ordered) else np.array([], dtype=int)
    mass = weight[order].cumsum()[last]
    wrong = (weight * ~np.asarray(correct, dtype=bool))[order].cumsum()[last]
    return pd.DataFrame(
        {
            "threshold": ordered[last], "answered": last + 1,
            "coverage": mass / (weight.sum() or 1.0), "risk": np.divide(wrong, mass, out=np.zeros(len(last)), where=mass > 0),
        }
    )  # fmt: skip


def aurc(signal: np.ndarray, correct: np.ndarray) -> float:
    """Area under the risk-coverage curve (Geifman and El-Yaniv 2017): mean risk over the n coverages 1/n .. 1; lower is better.

    Within a group of equal signals the risk is that of a random order of its members.
    """
    return float(_aurc(*_counts(signal, ~np.asarray(correct, dtype=bool)))[0])


def augrc(signal: np.ndarray, correct: np.ndarray) -> float:
    """Area under the generalised risk-coverage curve (Traub et al. 2024): wrong answers as a share of all questions, over coverage.

    Trapezoids from 0; between 0 and 1/2, lower is better. Unlike AURC it does not weigh the first few answers most.
    """
    return float(_augrc(*_counts(signal, ~np.asarray(correct, dtype=bool)))[0])


def auroc(signal: np.ndarray, positive: np.ndarray) -> float:
    """Probability that a positive has the higher signal, ties half (Mann-Whitney). NaN without both kinds."""
    return float(_auroc(*_counts(signal, np.asarray(positive, dtype=bool)))[0])


def _counts(signal: np.ndarray, flag: np.ndarray, times: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Members and flagged members of every group of equal signals, best group first, for every resample: twice (resamples, groups).

    times: (resamples, n), how often each row was drawn; None for the sample itself.
    """
    signal = _filled(signal)
    order = np.argsort(-signal, kind="stable")
    if not len(order):
        return np.zeros((1, 0)), np.zeros((1, 0))
    starts = np.flatnonzero(np.append(True, signal[order][1:] != signal[order][:-1]))
    drawn = (np.ones((1, len(signal))) if times is None else times)[:, order]
    return np.add.reduceat(drawn, starts, axis=1), np.add.reduceat(drawn * flag[order], starts, axis=1)


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


def _augrc(members: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    n = members.sum(axis=1)
    if not members.shape[1]:
        return np.full(len(members), np.nan)
    return (members * (wrong.cumsum(axis=1) - wrong / 2)).sum(axis=1) / n**2


def _auroc(members: np.ndarray, positive: np.ndarray) -> np.ndarray:
    negative = members - positive
    below = negative.sum(axis=1, keepdims=True) - negative.cumsum(axis=1)
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    wins = (positive * (below + 0.5 * negative)).sum(axis=1)
    return np.divide(wins, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


def resamples(n: int, *, seed: int, n_resamples: int) -> np.ndarray:
    """How often each of n questions is drawn in each bootstrap resample: (n_resamples, n)."""
    if not n:
        return np.zeros((n_resamples, 0))
    draws = np.random.default_rng(seed).integers(0, n, size=(n_resamples, n))
    return np.array([np.bincount(row, minlength=n) for row in draws], dtype=float)


def _interval(name: str, value: np.ndarray, again: np.ndarray) -> dict:
    """A value and its percentile interval; not defined where no resample differs from another."""
    known = again[~np.isnan(again)]
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) and np.ptp(known) > 0 else (np.nan, np.nan)
    return {name: float(value[0]), f"{name}_low": low, f"{name}_high": high}


def _joined(signals: pd.DataFrame, outcome: pd.DataFrame) -> pd.DataFrame:
    both = signals.merge(outcome, on=["system", "query_id"], validate="many_to_one")
    return both.sort_values(["system", "signal", "query_id"])


def abstention(signals: pd.DataFrame, outcome: pd.DataFrame, *, seed: int, n_resamples: int = 1000) -> pd.DataFrame:
    """How useful every signal of every system is. signals: of `certainty.table`; outcome: of `outcomes`.

    Columns: system, signal, n, unanswerable, correct; aurc and augrc, each with its interval, its value for a random order and for an
    oracle (all right answers first); gained = (random - aurc) / (random - oracle), the share of what any signal could gain, with
    its interval: comparable between systems, which a raw area is not, since that one mostly follows how often the system is right;
    and auroc of answerable against unanswerable with its interval. A signal that a system does not have has no row.
    """
    rows, drawn = [], {}
    for (system, signal), part in _joined(signals, outcome).groupby(["system", "signal"], sort=False):
        if part["value"].isna().all():
            continue
        value, correct, answerable = (part[name].to_numpy() for name in ("value", "correct", "answerable"))
        times = drawn.setdefault(len(part), resamples(len(part), seed=seed, n_resamples=n_resamples))
        rows.append(
            {
                "system": system, "signal": signal, "n": len(part), "unanswerable": int((~answerable).sum()), "correct": int(correct.sum()),
                **_areas(_counts(value, ~correct), _counts(value, ~correct, times)),
                **_interval("auroc", _auroc(*_counts(value, answerable)), _auroc(*_counts(value, answerable, times))),
            }
        )  # fmt: skip
    if not rows:
        raise BadInput("no system has a signal of its certainty: run one that is not random")
    return pd.DataFrame(rows)


def distinct(signals: pd.DataFrame, outcome: pd.DataFrame) -> int:
    """How many settings were truly tried: signals that put the same answers of the same questions in the same order count once, such as
    a cosine that is the score of the first hit."""
    seen = set()
    for _, part in _joined(signals, outcome).groupby(["system", "signal"], sort=False):
        if part["value"].notna().any():
            value = np.unique(_filled(part["value"].to_numpy()), return_inverse=True)[1]
            seen.add((tuple(part["query_id"]), value.tobytes(), part["correct"].to_numpy(bool).tobytes()))
    return len(seen)


def _areas(own: tuple[np.ndarray, np.ndarray], again: tuple[np.ndarray, np.ndarray]) -> dict:
    """Both areas and the share gained, of a sample and its resamples. own, again: members and wrong, of `_counts`."""
    risk = float(own[1].sum() / own[0].sum())
    found = {}
    for name, function, random in (("aurc", _aurc, risk), ("augrc", _augrc, risk / 2)):
        found |= _interval(name, function(*own), function(*again))
        found |= {f"{name}_random": random, f"{name}_oracle": float(function(*_oracle(*own))[0])}
    return found | _interval("gained", _gained(*own), _gained(*again))


def _oracle(members: np.ndarray, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same questions as two groups: all right answers, then all wrong ones."""
    bad = wrong.sum(axis=1)
    return np.stack([members.sum(axis=1) - bad, bad], axis=1), np.stack([np.zeros(len(bad)), bad], axis=1)


def _gained(members: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    random, oracle = wrong.sum(axis=1) / members.sum(axis=1), _aurc(*_oracle(members, wrong))
    empty = np.full(len(random), np.nan)
    return np.divide(random - _aurc(members, wrong), random - oracle, out=empty, where=random > oracle + 1e-12)


def curves(signals: pd.DataFrame, outcome: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """Risk-coverage curves of the chosen rows of `abstention`, each between random order and an oracle. Columns: panel (the system
    with its signal), line, coverage, risk."""
    both, parts = _joined(signals, outcome), []
    for system, signal in chosen[["system", "signal"]].itertuples(index=False):
        part = both[(both["system"] == system) & (both["signal"] == signal)]
        correct, name = part["correct"].to_numpy(), signal.replace("_", " ")
        lines = _bounds(correct) | {name: risk_coverage(part["value"].to_numpy(), correct)}
        parts += [frame.assign(panel=f"{system}: {name}", line=line) for line, frame in lines.items()]
    return pd.concat(parts, ignore_index=True)[["panel", "line", "coverage", "risk"]]


def _bounds(correct: np.ndarray) -> dict[str, pd.DataFrame]:
    n, right = len(correct), int(correct.sum())
    counts = np.arange(1, n + 1)
    return {
        "random order": pd.DataFrame({"coverage": [1 / n, 1.0], "risk": 1 - right / n}),
        "oracle": pd.DataFrame({"coverage": counts / n, "risk": np.maximum(0, counts - right) / counts}),
    }


# Thresholds


def weights(answerable: np.ndarray, share: float | None) -> np.ndarray:
    """Weight of each question such that unanswerable ones are `share` of all: mean 1. None: as they were asked. NaN where the sample
    has none of a kind that must have weight."""
    answerable = np.asarray(answerable, dtype=bool)
    if share is None:
        return np.ones(len(answerable))
    if not 0 <= share < 1:
        raise BadInput(f"unanswerable_share={share}: give a share from 0 to below 1")
    rare = 1 - answerable.mean() if len(answerable) else 0.0
    if rare == 1 or (share and not rare):
        return np.full(len(answerable), np.nan)
    return np.where(answerable, (1 - share) / (1 - rare), share / rare if rare else 0.0)


def selective(
    signals: pd.DataFrame, outcome: pd.DataFrame, chosen: pd.DataFrame, floors: Sequence[float], share: float | None = None
) -> pd.DataFrame:  # fmt: skip
    """For each chosen row of `abstention` and each floor: the highest coverage whose selective accuracy reaches the floor.

    share: of unanswerable questions that the figures are re-weighted to. Columns: system, signal, floor, threshold, answered, coverage,
    accuracy with a Wilson interval (of Kish's effective number of answers where weighted), false_answers and unanswerable (the
    false-answer rate is their ratio), state: "" or "thin" (fewer than THIN answers) or "no threshold qualifies".
    """
    both, rows = _joined(signals, outcome), []
    for system, signal in chosen[["system", "signal"]].itertuples(index=False):
        part = both[(both["system"] == system) & (both["signal"] == signal)]
        weight = weights(part["answerable"].to_numpy(), share)
        for floor in floors:
            rows.append({"system": system, "signal": signal, "floor": floor, **_pick(part, weight, floor)})
    return pd.DataFrame(rows)


def _pick(part: pd.DataFrame, weight: np.ndarray, floor: float) -> dict:
    value, correct = _filled(part["value"].to_numpy()), part["correct"].to_numpy()
    names = ("threshold", "answered", "coverage", "accuracy", "low", "high", "false_answers")
    missing = {"unanswerable": int((~part["answerable"]).sum()), **dict.fromkeys(names, np.nan)}
    if np.isnan(weight).any():
        return missing | {"state": "not defined: no unanswerable question"}
    curve = risk_coverage(value, correct, weight)
    good = curve[(1 - curve["risk"] >= floor - 1e-12) & (curve["answered"] >= LEAST) & np.isfinite(curve["threshold"])]
    if good.empty:
        return missing | {"state": "no threshold qualifies"}
    row = good.iloc[-1]
    chosen = value >= row["threshold"]
    effective = weight[chosen].sum() ** 2 / (weight[chosen] ** 2).sum()
    low, high = stats.wilson((1 - row["risk"]) * effective, effective)
    false = int((chosen & ~part["answerable"].to_numpy()).sum())
    found = {
        "threshold": row["threshold"],
        "answered": int(row["answered"]),
        "coverage": row["coverage"],
        "accuracy": 1 - row["risk"],
    }
    state = "thin" if row["answered"] < THIN else ""
    return missing | found | {"low": low, "high": high, "false_answers": false, "state": state}


def digest(query_id: str, seed: int) -> bytes:
    """An order, or a side, that a question has from its id alone, so that new questions move no old one."""
    return hashlib.sha256(f"{seed}:{query_id}".encode()).digest()


def side(query_id: str, seed: int) -> int:
    """0 or 1: the fold of a question."""
    return digest(query_id, seed)[0] % 2


def p_value(wrong: int, n: int, allowed: float) -> float:
    """p of "the risk is above `allowed`" given so many wrong of n: the binomial tail, of which Hoeffding-Bentkus is a relaxation for
    losses that are not 0 or 1 (Bates et al. 2021)."""
    from scipy.stats import binom

    return float(binom.cdf(wrong, n, allowed)) if n else 1.0


GRID = 10  # thresholds tried for the risk among the answered: each at level error / GRID


def certified_threshold(signal: np.ndarray, correct: np.ndarray, *, allowed: float, error: float, among: str) -> float:
    """The lowest threshold whose risk is at most `allowed` with probability 1 - `error` over the questions it was chosen on; NaN if none.

    among "asked": wrong answers as a share of all questions, which only grows as the threshold falls: risk-controlling prediction
    sets walk down until the bound fails (Bates et al. 2021). among "answered": the share of wrong answers is not monotone, so
    GRID thresholds fixed by coverage are tested with Bonferroni's correction (Learn then Test, Angelopoulos et al. 2021).
    """
    signal, n = _filled(signal), len(signal)
    curve = risk_coverage(signal, correct)
    curve = curve[np.isfinite(curve["threshold"])]
    wrong = (curve["risk"] * curve["answered"]).round().astype(int)
    if among == "asked":
        good = np.cumprod([p_value(count, n, allowed) <= error for count in wrong]).astype(bool)
    else:
        tried = np.isin(np.arange(len(curve)), np.searchsorted(curve["coverage"], np.arange(1, GRID + 1) / GRID - 1e-9))
        bounds = (p_value(count, size, allowed) for count, size in zip(wrong, curve["answered"], strict=True))
        good = tried & np.array([p <= error / GRID for p in bounds], dtype=bool)
    return float(curve.loc[good, "threshold"].min()) if good.any() else float("nan")


def certified(
    signals: pd.DataFrame, outcome: pd.DataFrame, chosen: pd.DataFrame, *, allowed: float, error: float, seed: int
) -> pd.DataFrame:
    """Thresholds with a risk bound for the chosen rows of `abstention`: chosen on one fold, checked on the other, both ways.

    Columns: system, signal, risk ("of the answered" or "of all asked"), fold, chosen_on (questions), threshold, held_out (questions),
    answered, wrong, observed (the risk on the held-out fold) with a Wilson interval, false_answers, unanswerable, and holds: whether
    the observed risk is within the allowed one; "no threshold qualifies" where none does.
    """
    both, rows = _joined(signals, outcome), []
    both = both.assign(fold=[side(query, seed) for query in both["query_id"]])
    for system, signal in chosen[["system", "signal"]].itertuples(index=False):
        part = both[(both["system"] == system) & (both["signal"] == signal)]
        for among in ("answered", "asked"):
            for fold in (0, 1):
                seen, held = part[part["fold"] == fold], part[part["fold"] != fold]
                facts = {"value": seen["value"].to_numpy(), "correct": seen["correct"].to_numpy()}
                at = certified_threshold(facts["value"], facts["correct"], allowed=allowed, error=error, among=among)
                named = {
                    "system": system,
                    "signal": signal,
                    "risk": "of the answered" if among == "answered" else "of all asked",
                }
                rows.append(named | {"fold": fold + 1, "chosen_on": len(seen), **_checked(held, at, allowed, among)})
    return pd.DataFrame(rows)


def _checked(held: pd.DataFrame, threshold: float, allowed: float, among: str) -> dict:
    """What a threshold does on questions it was not chosen on."""
    empty = dict.fromkeys(("answered", "wrong", "observed", "low", "high", "false_answers"), np.nan)
    found = {"threshold": threshold, "held_out": len(held), **empty, "unanswerable": int((~held["answerable"]).sum())}
    if np.isnan(threshold):
        return found | {"holds": "no threshold qualifies"}
    taken = held[_filled(held["value"].to_numpy()) >= threshold]
    wrong, n = int((~taken["correct"]).sum()), len(taken) if among == "answered" else len(held)
    observed = wrong / n if n else np.nan
    low, high = stats.wilson(wrong, n) if n else (np.nan, np.nan)
    told = "nothing answered" if not n else "yes" if observed <= allowed else "no"
    figures = {"answered": len(taken), "wrong": wrong, "observed": observed, "low": low, "high": high}
    return found | figures | {"false_answers": int((~taken["answerable"]).sum()), "holds": told}


def at_coverage(signals: pd.DataFrame, outcome: pd.DataFrame, coverage: float, names: Sequence[str]) -> pd.DataFrame:
    """Accuracy among about the `coverage` most certain questions, for each system and each named signal, with a Wilson interval.

    Equal signals are answered together, so `answered` may be more. Columns: system, signal, answered, correct, accuracy, low, high.
    """
    rows = []
    for (system, signal), part in _joined(signals, outcome).groupby(["system", "signal"], sort=False):
        if signal in names and part["value"].notna().any():
            curve = risk_coverage(part["value"].to_numpy(), part["correct"].to_numpy())
            row = curve[curve["coverage"] >= coverage - 1e-9].iloc[0]
            right = round((1 - row["risk"]) * row["answered"])
            rows.append(
                (system, signal, int(row["answered"]), right, 1 - row["risk"], *stats.wilson(right, row["answered"]))
            )
    return pd.DataFrame(rows, columns=["system", "signal", "answered", "correct", "accuracy", "low", "high"])


def compare(
    signals: pd.DataFrame, scores: pd.DataFrame, outcome: pd.DataFrame, *, metric: str, rule: str, coverage: float, seed: int,
    n_resamples: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """`abstention` and `at_coverage` of systems that were made anew from stored hits, over the questions of `outcome`; empty ones
    where there are none."""
    if scores.empty:
        keys = ["system", "signal", "correct", "n"]
        spread = [f"{name}{end}" for name in ("gained", "auroc") for end in ("", "_low", "_high")]
        return pd.DataFrame(columns=keys + spread), at_coverage(signals, outcome.head(0), coverage, ())
    answerable = dict(zip(outcome["query_id"], outcome["answerable"].astype(bool), strict=True))
    own = outcomes(scores, answerable, metric=metric, rule=rule)
    return (
        abstention(signals, own, seed=seed, n_resamples=n_resamples),
        at_coverage(signals, own, coverage, list(dict.fromkeys(signals["signal"]))),
    )


def areas(signal: np.ndarray, correct: np.ndarray, times: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """`aurc` and `augrc` of every resample, by name, each (resamples,). times: of `resamples`; None: of the sample itself."""
    counted = _counts(signal, ~np.asarray(correct, dtype=bool), times)
    return {"aurc": _aurc(*counted), "augrc": _augrc(*counted)}
