"""Claims of the kind "as good as, within a margin": tested, with the margin named before the run. *Not separated* is no such claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from localeval import stats
from localeval.records import BadInput


@dataclass(frozen=True, slots=True)
class Claim:
    """Candidate against baseline with a margin. delta: candidate minus baseline; low, high: the middle 90 % of its bootstrap.

    p_as_good: one-sided t test of "worse by the margin or more" (non-inferiority). p_equivalent: the larger of the two one-sided
    tests (TOST, Schuirmann 1987). p_worse: of "worse by less than the margin". verdict: one of VERDICTS. needed: questions for
    which "as good" would be shown in four of five repeats if both were equal.
    """

    n: int
    delta: float
    low: float
    high: float
    margin: float
    p_as_good: float
    p_equivalent: float
    p_worse: float
    needed: int | None = None
    lower_is_better: bool = False
    verdict: str = ""


VERDICTS = {
    "equivalent": "neither better nor worse by the margin",
    "as good": "not worse by the margin",
    "worse": "worse by more than the margin",
    "not shown": "none of these is shown",
    "tests disagree": "the t test shows it and the bootstrap interval does not, or the reverse",
    "same values": "equal on every question, so nothing can be tested",
    "no variation": "all differences are the same, so nothing can be tested",
}


def claim(
    differences: Sequence[float],
    margin: float,
    *,
    lower_is_better: bool = False,
    seed: int = stats.SEED,
    n_resamples: int = stats.N_RESAMPLES,
) -> Claim:
    """Tests whether the candidate is as good as the baseline within the margin. differences: candidate minus baseline.

    The two-sided 90 % interval lies above -margin exactly when a one-sided test at 5 % would say so; t and bootstrap must agree.
    """
    if not margin > 0 or not np.isfinite(margin):
        raise BadInput(f"margin={margin}: must be above 0, in the units of the metric, and named before the run")
    d = np.asarray(differences, dtype=float)
    if not len(d) or not np.isfinite(d).all():
        raise BadInput("a claim needs at least one question with both values, and finite ones")
    sign, n = -1 if lower_is_better else 1, len(d)
    if np.ptp(d) <= stats.TIE:
        return decided(Claim(n, float(d.mean()), *[np.nan] * 2, margin, *[np.nan] * 3, None, lower_is_better))
    low, high = stats.bounds(stats.resampled_means(d[:, None], seed, n_resamples), 0.9)[0]
    lower, upper = (float(stats.t_values(sign * d[:, None], against=side)[0]) for side in (-margin, margin))
    as_good, not_more, worse = (float(stats.t_below(t, n)) for t in (-lower, upper, lower))
    needed = stats.questions_needed(d.std(ddof=1), margin, sides=1)
    return decided(
        Claim(
            n,
            float(d.mean()),
            float(low),
            float(high),
            margin,
            as_good,
            max(as_good, not_more),
            worse,
            needed,
            lower_is_better,
        )
    )


def decided(one: Claim, alpha: float = stats.ALPHA) -> Claim:
    """The claim with its verdict, from its p-values (corrected ones where they were put in) and its interval."""
    if np.isnan(one.low):
        return replace(one, verdict="same values" if one.n > 1 and abs(one.delta) <= stats.TIE else "no variation")
    low, high = (-one.high, -one.low) if one.lower_is_better else (one.low, one.high)
    tested = [p <= alpha for p in (one.p_equivalent, one.p_as_good, one.p_worse)]
    inside = [-one.margin < low and high < one.margin, low > -one.margin, high < -one.margin]
    for verdict, test, interval in zip(("equivalent", "as good", "worse"), tested, inside, strict=True):
        if test and interval:
            return replace(one, verdict=verdict)
    return replace(one, verdict="tests disagree" if tested[1:] != inside[1:] else "not shown")


def corrected(claims: Sequence[Claim]) -> list[Claim]:
    """The claims as one family: each kind of p by Holm, verdicts anew. Those without variation are not in it.

    What the correction takes away is not shown; tests disagree only where they did before it.
    """
    tested = [place for place, one in enumerate(claims) if not np.isnan(one.low)]
    adjusted = {
        name: stats.holm([getattr(claims[place], name) for place in tested])
        for name in ("p_as_good", "p_equivalent", "p_worse")
    }
    done = list(claims)
    for number, place in enumerate(tested):
        again = decided(replace(claims[place], **{name: p[number] for name, p in adjusted.items()}))
        taken = again.verdict == "tests disagree" != claims[place].verdict
        done[place] = replace(again, verdict="not shown") if taken else again
    return done


CLAIMED = (
    *("metric", "rule", "baseline", "candidate", "origin", "n", "delta", "low", "high", "margin"),
    *("p_as_good", "p_equivalent", "needed", "verdict", "reason", "family_size"),
)


def claims(
    scores: pd.DataFrame,
    named: Sequence[Sequence[str]],
    margin: float,
    origin: str,
    *,
    seed: int = stats.SEED,
    n_resamples: int = stats.N_RESAMPLES,
) -> pd.DataFrame:
    """The claims that were named before the run as one family with Holm's correction. Columns: CLAIMED.

    named: `[[metric, rule, baseline, candidate], ...]`, with the origin of the questions as a fifth text where it is another: the
    candidate is claimed to be as good as the baseline. low, high: 90 %. A side without scores: "not_run", and the reason.
    """
    stats.check_named(named, "claims", origin)
    rows, made = [], []
    for metric, rule, baseline, candidate, *other in named:
        about = dict(zip(CLAIMED, (metric, rule, baseline, candidate, (other or [origin])[0]), strict=False))
        differences, _, reason = stats.named_differences(scores, about)
        rows.append(about | {"n": len(differences), "verdict": "not_run" if reason else "", "reason": reason})
        if not reason:
            lower = stats.direction(metric) < 0
            made.append(
                (rows[-1], claim(differences, margin, lower_is_better=lower, seed=seed, n_resamples=n_resamples))
            )
    for (row, _), one in zip(made, corrected([one for _, one in made]), strict=True):
        row |= {name: getattr(one, name) for name in Claim.__dataclass_fields__ if name in CLAIMED} | {
            "family_size": len(made)
        }
    return pd.DataFrame(rows, columns=list(CLAIMED))
