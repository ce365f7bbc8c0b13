"""The gate: is the run at hand worse than the baseline? Four locks, each a pure function of tables, and one verdict.

1. drop: the mean fell significantly *and* by more than the minimum effect. 2. must-hit: a named question that stood within its
floor at the baseline no longer does. 3. missing: an expected system did not run. 4. fingerprints: both sides measured the same
thing. Reading and writing is done by `baseline`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

from localeval import metrics, sequential, stats
from localeval.provenance import digest
from localeval.records import BadInput, Comparison, ScoringRule, Verdict, near

# Worst first: the verdict of several systems is the worst of theirs. A proven loss is said before what could not be judged.
EXIT = {"FAIL": 1, "MISSING": 1, "ERROR": 2, "NOT COMPARABLE": 2, "WARN": 0, "REPORT-ONLY": 0, "OK": 0}
MEANING = {
    "FAIL": "a significant drop above the minimum effect, or a must-hit question lost",
    "MISSING": "an expected system did not run, or did not answer every question",
    "ERROR": "settings, baseline or run cannot be read, or the run is older than what it was made from",
    "NOT COMPARABLE": "both sides measured different things",
    "WARN": "a mean drop above the minimum effect that is not significant, or a lock that cannot close",
    "REPORT-ONLY": "measured and shown, and not enforced",
    "OK": "no lock closed",
}
MODES = ("fixed", "anytime")
POLICIES = ("error", "report_only", "note")
# What to do when a fingerprint differs. Settings, chunks and labels are what a change may touch and the gate is there to judge;
# another corpus is another measurement; an index that an outside engine rebuilt moves by itself.
ON_CHANGE = {"corpus": "error", "gold": "note", "settings": "note", "chunks": "note", "index": "report_only"}


@dataclass(frozen=True, slots=True)
class MustHit:
    """floor: the worst rank a must-hit question may fall to. floors: the same for single systems. questions: ids that are must-hit
    beside those that the gold file marks."""

    floor: int = 3
    floors: dict = field(default_factory=dict)
    questions: tuple = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What `params/<study>/gate.yml` says. systems: expected, by name. min_effect: of the metric's mean. mode: one of MODES.

    origin: the stratum of questions; empty: the first there is. kept: hits that a baseline stores for each question, from
    which it can be graded again.
    """

    systems: tuple = ()
    metric: str = "evidence_ndcg@10"
    rule: str = "chunk/contains"
    origin: str = ""
    min_effect: float = 0.03
    alpha: float = 0.05
    mode: str = "fixed"
    kept: int = 10
    must_hit: MustHit = field(default_factory=MustHit)
    on_change: dict = field(default_factory=lambda: dict(ON_CHANGE))


def declared() -> dict:
    """Every setting with its default, as plain values: what a settings file is checked against."""
    plain = {one.name: getattr(Settings(), one.name) for one in fields(Settings)}
    must_hit = {one.name: getattr(plain["must_hit"], one.name) for one in fields(MustHit)}
    return plain | {"systems": [], "must_hit": must_hit | {"questions": []}}


def settings(given: Mapping, where: str) -> Settings:
    """Settings from what a file says; where: its name, for errors. Types were checked against `declared`."""
    for name in ("must_hit", "on_change"):
        known = declared()[name]
        for key in (key for key in given.get(name, {}) if key not in known):
            raise BadInput(f"{where}: {name}: unknown {key!r}{near(str(key), known)}; known: {', '.join(known)}")
    hit = MustHit(**given.get("must_hit", {}))
    made = Settings(
        **{**given, "must_hit": replace(hit, questions=_texts(hit.questions, "must_hit: questions", where))}
    )
    systems = _texts(made.systems, "systems", where)
    _check(made, systems, where)
    return replace(made, systems=systems, on_change=ON_CHANGE | made.on_change)


def _texts(values, name: str, where: str) -> tuple[str, ...]:
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) and value for value in values):
        raise BadInput(f"{where}: {name} must be a list of names")
    twice = [value for place, value in enumerate(values) if value in values[:place]]
    if twice:
        raise BadInput(f"{where}: {name}: {twice[0]!r} is given twice; keep one")
    return tuple(values)


def _check(made: Settings, systems: Sequence[str], where: str) -> None:
    """Every value in its range; the first that is not is bad input."""
    if not systems:
        raise BadInput(f"{where}: systems: name at least one, as runs.csv of the study spells it")
    metrics.parse(made.metric)
    ScoringRule.parse(made.rule)
    floors = made.must_hit.floors
    if not isinstance(floors, dict) or any(name not in systems for name in floors):
        unknown = next((name for name in floors if name not in systems), "") if isinstance(floors, dict) else ""
        raise BadInput(f"{where}: must_hit: floors: {unknown!r} is none of the systems{near(str(unknown), systems)}")
    whole = {"must_hit: floor": made.must_hit.floor, "kept": made.kept} | {
        f"must_hit: floors: {k}": v for k, v in floors.items()
    }
    wrong = [name for name, value in whole.items() if type(value) is not int or value < 1]
    if wrong:
        raise BadInput(f"{where}: {wrong[0]} must be a whole number of 1 or more, found {whole[wrong[0]]!r}")
    deepest = max([made.must_hit.floor, *floors.values(), metrics.parse(made.metric)[1] or 0])
    if deepest > made.kept:
        raise BadInput(
            f"{where}: kept={made.kept}: keep at least {deepest} hits, for the metric and the floors look that deep"
        )
    if not (0 <= made.min_effect < math.inf and 0 < made.alpha < 1):
        raise BadInput(f"{where}: min_effect must be 0 or more, and alpha between 0 and 1")
    if made.mode not in MODES:
        raise BadInput(f"{where}: mode {made.mode!r} is not known{near(made.mode, MODES)}; one of {', '.join(MODES)}")
    for name, policy in made.on_change.items():
        if policy not in POLICIES:
            raise BadInput(f"{where}: on_change: {name}: {policy!r} is not known; one of {', '.join(POLICIES)}")


# Lock 1: the drop


@dataclass(frozen=True, slots=True)
class Drop:
    """One system on the questions both sides have. delta: now minus baseline. low, high: 95 % bootstrap interval in mode fixed, the
    confidence sequence at `alpha` in mode anytime. alpha: what this test was held against. status: FAIL, WARN or OK."""

    system: str
    n: int
    before: float
    now: float
    delta: float
    low: float
    high: float
    p_value: float
    p_adjusted: float
    alpha: float
    status: str
    reason: str


def drops(
    baseline, current, *, min_effect: float, alpha: float = 0.05, mode: str = "fixed", look: int = 1, seed: int = stats.SEED,
    n_resamples: int = stats.N_RESAMPLES,
) -> list[Drop]:  # fmt: skip
    """Lock 1 for every system of both tables that shares a question; a pure function of tables.

    baseline, current: tables with the columns system, query_id, value, of one metric under one rule; a value that is NaN raises
    BadInput. In mode fixed Holm corrects over the systems; in mode anytime each gets an equal part of what `look` may spend.
    """
    sides = {
        name: (before, now)
        for name in dict.fromkeys(baseline["system"])
        if (before := _values(baseline, name)) and (now := _values(current, name)) and before.keys() & now.keys()
    }
    if mode == "anytime":
        level = sequential.spent(alpha, look) / max(1, len(sides))
        return [_sequential(name, *both, min_effect, level) for name, both in sides.items()]
    setup = {"metric": "", "rule": "", "seed": seed, "n_resamples": n_resamples}
    compared = [stats.compare(*both, names=(name, name), **setup) for name, both in sides.items()]
    adjusted = stats.holm([one.p_value for one in compared])
    done = [replace(one, p_adjusted=p) for one, p in zip(compared, adjusted, strict=True)]
    return [_fixed(one, *sides[one.candidate], min_effect, alpha, len(done)) for one in done]


def _values(table, system: str) -> dict[str, float]:
    part = table[table["system"] == system]
    values = dict(zip(part["query_id"], map(float, part["value"]), strict=True))
    if len(values) < len(part):
        raise BadInput(f"{system}: a question has two values; run its notebook again")
    for query in (query for query, value in values.items() if not math.isfinite(value)):
        raise BadInput(f"{system}: question {query} has a value that is no number; run its notebook again")
    return values


def _fixed(one: Comparison, before: dict, now: dict, min_effect: float, alpha: float, family: int) -> Drop:
    shared = sorted(before.keys() & now.keys())
    possible = family * 2.0 ** (1 - one.n) <= alpha
    worse = stats.verdict(one, alpha) == "worse"
    how = f"adjusted p {one.p_adjusted:.2g}, family of {family}"
    status, reason = _judged(one.delta, worse, possible, min_effect, f"{how}, n = {one.n}")
    means = (math.fsum(side[query] for query in shared) / len(shared) for side in (before, now))
    numbers = (one.delta, one.low, one.high, one.p_value, one.p_adjusted, alpha)
    return Drop(one.candidate, one.n, *means, *numbers, status, reason)


def _sequential(name: str, before: dict, now: dict, min_effect: float, level: float) -> Drop:
    """In the order of hashed ids: fixed before anything was measured, and without the order in which people wrote them."""
    shared = sorted(before.keys() & now.keys(), key=digest)
    got = sequential.confidence_sequence([now[query] - before[query] for query in shared], level)
    possible = _could_fail(got.n, level)
    how = f"confidence sequence up to {got.high:+.3f} at level {level:.2g}, n = {got.n}"
    status, reason = _judged(got.mean, got.high < 0, possible, min_effect, how)
    means = (math.fsum(side[query] for query in shared) / len(shared) for side in (before, now))
    return Drop(name, got.n, *means, got.mean, got.low, got.high, math.nan, math.nan, level, status, reason)


@lru_cache
def _could_fail(n: int, level: float) -> bool:
    """Whether the largest drop there is, from 1 to 0 in every question, would be significant."""
    return sequential.confidence_sequence([-1.0] * n, level).high < 0


def _judged(delta: float, significant: bool, possible: bool, min_effect: float, how: str) -> tuple[str, str]:
    large = delta < -min_effect
    if large and significant:
        return "FAIL", f"fell by {-delta:.4f}, more than {min_effect:g}, and significantly ({how})"
    if large:
        return "WARN", f"fell by {-delta:.4f}, more than {min_effect:g}, and not significantly ({how})"
    if not possible:
        return (
            "WARN",
            f"no drop could be significant with so few questions ({how}): only a must-hit question can fail this gate",
        )
    if significant:
        return "OK", f"fell significantly, by {-delta:.4f}, no more than {min_effect:g} ({how})"
    return "OK", f"changed by {delta:+.4f} ({how})"


# Lock 2: must-hit questions


@dataclass(frozen=True, slots=True)
class Held:
    """A must-hit question of one system: its rank at the baseline and now, None where it was missed; state: one of HELD."""

    system: str
    query_id: str
    floor: int
    before: int | None
    now: int | None
    state: str


HELD = {
    "kept": "within its floor then and now",
    "gained": "outside at the baseline, within now",
    "lost": "within at the baseline, outside now: FAIL",
    "missed before": "outside at the baseline already: not blamed",
    "not comparable": "one side has no rank for it: WARN, for the lock does not hold it",
}


def held(
    system: str, floor: int, before: Mapping[str, int | None], now: Mapping[str, int | None], wanted: Iterable[str]
) -> list[Held]:
    """Lock 2 for one system. before, now: question -> rank of its first hit that counts, None where none does; absent: not ranked."""
    rows = []
    for query in wanted:
        inside = [side.get(query) is not None and side[query] <= floor for side in (before, now)]
        state = {(True, True): "kept", (False, True): "gained", (True, False): "lost"}.get(
            tuple(inside), "missed before"
        )
        state = state if query in before and query in now else "not comparable"
        rows.append(Held(system, query, floor, before.get(query), now.get(query), state))
    return rows


# Lock 4: fingerprints, and the verdict over all


@dataclass(frozen=True, slots=True)
class Print:
    """A fingerprint of both sides. system: empty where it is one of the whole run. Empty texts were not recorded."""

    name: str
    baseline: str
    current: str
    policy: str
    system: str = ""

    @property
    def same(self) -> bool:
        """Known on both sides, and equal. What nobody recorded is not the same; an index that neither side has is no question."""
        return self.baseline == self.current and bool(self.baseline or self.name == "index")

    def verdict(self) -> Verdict:
        """What the difference does: NOT COMPARABLE, REPORT-ONLY, or OK with a note."""
        if self.same:
            return Verdict("OK")
        status = {"error": "NOT COMPARABLE", "report_only": "REPORT-ONLY", "note": "OK"}[self.policy]
        what = "changed since the baseline" if self.baseline and self.current else "was not recorded on both sides"
        return Verdict(status, (f"{self.name}{f' of {self.system}' if self.system else ''} {what}",))


def judge_system(parts: Sequence[Verdict]) -> Verdict:
    """One system's verdict from those of its locks: the worst, unless it is only reported or cannot be compared.

    A system that did not run is missing whatever else holds. REPORT-ONLY takes the force out of FAIL and WARN, and says so.
    """
    statuses = [part.status for part in parts]
    reasons = tuple(reason for part in parts for reason in part.reasons)
    for status in ("MISSING", "ERROR", "NOT COMPARABLE"):
        if status in statuses:
            return Verdict(status, reasons)
    worst = overall(statuses)
    if "REPORT-ONLY" not in statuses:
        return Verdict(worst, reasons)
    would = worst if worst in ("FAIL", "WARN") else "OK"
    return Verdict("REPORT-ONLY", (*reasons, f"not enforced; it would be {would}"))


def overall(statuses: Iterable[str]) -> str:
    """The worst status, in the order of EXIT: FAIL, MISSING, ERROR, NOT COMPARABLE, WARN, REPORT-ONLY, OK. None at all: ERROR."""
    order = list(EXIT)
    return min(statuses, key=order.index, default="ERROR")
