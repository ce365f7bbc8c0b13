"""One run against a baseline: what every lock of the gate said, as data (`gate --json`) and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace

from localeval import baseline as bases
from localeval import build, gate, metrics, sequential
from localeval.provenance import existing
from localeval.records import BadInput, Verdict, near

VERSION = 1  # of the JSON; a new field goes to the end, a changed meaning raises it
SHOWN = 3  # failing questions, and hits of each, that the text shows of one system; the JSON has all
TOP = 3


def error(study: str, reason: str) -> dict:
    """The report when nothing could be judged: settings, baseline or run are bad input."""
    return {"version": VERSION, "study": study, "status": "ERROR", "exit_code": gate.EXIT["ERROR"], "reasons": [reason]}


def judge(study: str, base: bases.Side, about: dict, run: bases.Run, settings: gate.Settings, look: int | None) -> dict:
    """The whole report. look: which look at this baseline this is, needed in mode anytime. Fields: see the gate's page of the book."""
    mode = _mode(settings, look)
    matched = bases.match(base, run.side)
    prints = _prints(base, run.side, settings)
    whole = [one.verdict() for one in prints if not one.system] + _same_question(base, run.side)
    parts = {name: [*whole, *_there(name, base, run)] for name in settings.systems}
    for one in (one for one in prints if one.system):
        parts[one.system].append(one.verdict())
    fit = [name for name, some in parts.items() if all(gate.EXIT[part.status] == 0 for part in some)]
    same_corpus = next(one for one in prints if one.name == "corpus").same
    sides, lost = {}, {}
    for name in fit:
        before, lost[name] = bases.regraded(base, name, matched, run, settings, same_corpus=same_corpus)
        sides[name] = before, run.side.systems[name].answers
    dropped = {one.system: one for one in _drops(sides, settings, mode["look"])}
    kept = {name: _held(name, *both, base, run, settings) for name, both in sides.items()}
    for name in fit:
        parts[name] += [_of_drop(dropped.get(name)), *_of_held(kept[name])]
    gone = _gone(base, run.side, matched)
    verdicts = {name: gate.judge_system(some) for name, some in parts.items()}
    status = gate.overall([*(one.status for one in verdicts.values()), *(["WARN"] if gone else [])])
    rows = [
        _system(name, verdicts[name], dropped.get(name), kept.get(name, []), lost.get(name, [])) for name in verdicts
    ]
    return {
        "version": VERSION, "study": study, "status": status, "exit_code": gate.EXIT[status],
        "reasons": [f"{name}: {reason}" for name, one in verdicts.items() if one.status == status for reason in one.reasons] + gone,
        "metric": settings.metric, "rule": settings.rule, "origin": run.side.origin, "min_effect": settings.min_effect,
        "mode": mode | {"family": len(dropped)},
        "baseline": {"file": base.where} | about,
        "run": {"folder": run.side.where, "published": run.published},
        "fingerprints": [asdict(one) | {"same": one.same} for one in prints],
        "changed_settings": settings_changed(base.facts.get("settings", {}), run.side.facts["settings"]),
        "questions": {"shared": len(matched.shared)} | {name: list(getattr(matched, name)) for name in LISTS},
        "systems": rows,
        "failing": [
            row for name in fit if verdicts[name].status != "OK"
            for row in _failing(name, *sides[name], kept[name], run, settings.metric, same_corpus)
        ],
        "notes": [*run.notes, *(reason for one in whole if one.status == "OK" for reason in one.reasons)],
    }  # fmt: skip


LISTS = ("new", "removed", "reworded", "relabelled")


def _mode(settings: gate.Settings, look: int | None) -> dict:
    """Which mode speaks, and what it promises."""
    about = {"name": settings.mode, "alpha": settings.alpha, "look": look}
    if settings.mode == "fixed":
        promise = (
            f"bootstrap and sign-flip test, Holm over systems, alpha {settings.alpha:g} for this one look; "
            "over many looks it is wrong more often"
        )
        return about | {"promise": promise}
    if look is None:
        raise BadInput(
            "mode anytime: say with --look N which look at this baseline this is (1 for the first); each spends a part of alpha"
        )
    own = sequential.spent(settings.alpha, look)
    promise = f"confidence sequence, look {look} may spend {own:.2g} of alpha {settings.alpha:g}, which holds over all looks together"
    return about | {"promise": promise}


def _prints(base: bases.Side, now: bases.Side, settings: gate.Settings) -> list[gate.Print]:
    facts = [{name: _text(side.facts.get(name, "")) for name in ("corpus", "gold", "settings")} for side in (base, now)]
    rows = [gate.Print(name, *(one[name] for one in facts), settings.on_change[name]) for name in facts[0]]
    for name in (name for name in settings.systems if name in base.systems and name in now.systems):
        ran = base.systems[name], now.systems[name]
        rows.append(gate.Print("chunks", ran[0].chunks, ran[1].chunks, settings.on_change["chunks"], name))
        rows.append(gate.Print("index", ran[0].index, ran[1].index, settings.on_change["index"], name))
    return rows


def _text(value: object) -> str:
    return value if isinstance(value, str) else bases.digest_json(value)


def settings_changed(before: Mapping, now: Mapping) -> list[dict]:
    """Settings of the notebooks that differ, one a row: name, baseline, current; null where a side does not have it."""
    flat = [
        {f"{notebook}: {name}": value for notebook, some in side.items() for name, value in some.items()}
        for side in (before, now)
    ]
    return [
        {"name": name, "baseline": flat[0].get(name), "current": flat[1].get(name)}
        for name in dict.fromkeys([*flat[0], *flat[1]])
        if flat[0].get(name) != flat[1].get(name)
    ]


def _same_question(base: bases.Side, now: bases.Side) -> list[Verdict]:
    """Gains of another rule, or of other questions, are another measurement."""
    pairs = {"rule": (base.rule, now.rule), "origin": (base.origin, now.origin)}
    return [
        Verdict(
            "NOT COMPARABLE",
            (f"the baseline was measured with {name} {old!r}, the gate asks for {new!r}; make it again",),
        )
        for name, (old, new) in pairs.items()
        if old != new
    ]


def _there(name: str, base: bases.Side, run: bases.Run) -> Iterator[Verdict]:
    """Lock 3: the system ran, and answered every question; and the baseline has it."""
    ran = run.side.systems.get(name)
    if ran is None:
        yield Verdict("MISSING", (f"did not run{near(name, run.known)}; the run has {len(run.known)} systems",))
    elif ran.status not in bases.RAN:
        yield Verdict("MISSING", (f"did not run: {ran.status}{f' ({ran.reason})' if ran.reason else ''}",))
    elif unanswered := [query for query in run.side.questions if query not in ran.answers]:
        few = ", ".join(unanswered[:SHOWN])
        yield Verdict("MISSING", (f"no answer to {len(unanswered)} of {len(run.side.questions)} questions ({few})",))
    if name not in base.systems:
        yield Verdict(
            "NOT COMPARABLE", (f"the baseline does not hold it{near(name, base.systems)}; make the baseline again",)
        )


def _drops(sides: Mapping, settings: gate.Settings, look: int | None) -> list[gate.Drop]:
    import pandas as pd

    columns = ["system", "query_id", "value"]
    frames = [
        pd.DataFrame(
            [(name, *row) for name, both in sides.items() for row in _values(both[place], settings)], columns=columns
        )
        for place in (0, 1)
    ]
    return gate.drops(*frames, min_effect=settings.min_effect, alpha=settings.alpha, mode=settings.mode, look=look or 1)


def _values(answers: Mapping[str, bases.Answer], settings: gate.Settings) -> Iterator[tuple[str, float]]:
    for query, answer in answers.items():
        value = metrics.measure(answer.graded, settings.metric)
        if value is not None:
            yield query, value


def _of_drop(drop: gate.Drop | None) -> Verdict:
    if drop is None:
        return Verdict("NOT COMPARABLE", ("no question has a value on both sides",))
    return Verdict(drop.status, (drop.reason,))


def _held(name: str, before, now, base: bases.Side, run: bases.Run, settings: gate.Settings) -> list[gate.Held]:
    ranks = [
        {query: bases.first_rank(one) for query, one in side.items() if one.graded.status in ("scored", "unreachable")}
        for side in (before, now)
    ]
    floor = settings.must_hit.floors.get(name, settings.must_hit.floor)
    return gate.held(name, floor, *ranks, [query for query, one in run.side.questions.items() if one.must_hit])


def _of_held(rows: Iterable[gate.Held]) -> Iterator[Verdict]:
    """Lock 2, a verdict a question that is not simply kept."""
    for row in rows:
        ranks = " -> ".join(f"rank {rank}" if rank else "missed" for rank in (row.before, row.now))
        if row.state == "lost":
            yield Verdict("FAIL", (f"must-hit question {row.query_id} lost ({ranks}; floor {row.floor})",))
        elif row.state == "not comparable":
            yield Verdict("WARN", (f"must-hit question {row.query_id} has no rank on both sides, so nothing holds it",))


def _gone(base: bases.Side, now: bases.Side, matched: bases.Matched) -> list[str]:
    """Must-hit questions of the baseline that left the gate: a lock must not be opened by taking the question away."""
    away = {**dict.fromkeys(matched.removed, "was removed"), **dict.fromkeys(matched.reworded, "was reworded")}
    loose = [name for name in matched.shared if not now.questions[name].must_hit]
    away |= dict.fromkeys(loose, "is no longer marked")
    return [f"must-hit question {name} {what}" for name, what in away.items() if base.questions[name].must_hit]


def _system(name: str, verdict: Verdict, drop: gate.Drop | None, kept: list[gate.Held], lost: list[str]) -> dict:
    numbers = dict.fromkeys(("n", "before", "now", "delta", "low", "high", "p_value", "p_adjusted", "alpha"))
    if drop:
        numbers = {key: getattr(drop, key) for key in numbers}
    rows = [{key: value for key, value in asdict(one).items() if key != "system"} for one in kept]
    return {
        "system": name,
        "status": verdict.status,
        "reasons": list(verdict.reasons),
        **numbers,
        "must_hit": rows,
        "not_regraded": lost,
    }


def _failing(
    name: str, before, now, kept: list[gate.Held], run: bases.Run, metric: str, same_corpus: bool
) -> list[dict]:
    """Questions that fell, lost must-hits first, then the deepest falls: what stood at the top, and what does now."""
    lost = {row.query_id for row in kept if row.state == "lost"}
    rows = []
    for query in (query for query in before if query in now):
        values = [metrics.measure(side[query].graded, metric) for side in (before, now)]
        if None not in values and (values[1] < values[0] or query in lost):
            shown = [
                _shown(side[query], value, run, query, text)
                for side, value, text in zip((before, now), values, (same_corpus, True), strict=True)
            ]
            asked = run.side.questions[query]
            rows.append(
                {"system": name, "query_id": query, "text": asked.text, "lost_must_hit": query in lost,
                 "delta": values[1] - values[0], "before": shown[0], "now": shown[1]}
            )  # fmt: skip
    return sorted(rows, key=lambda row: (not row["lost_must_hit"], row["delta"]))


def _shown(answer: bases.Answer, value: float, run: bases.Run, query: str, has_text: bool) -> dict:
    """A ranking as a person compares it: its worth, the rank of its first hit that counts, its first hits with their words."""
    hits = None
    if answer.hits is not None:
        text = run.text if has_text else {}
        hits = [
            {"rank": rank, "span": str(span), "counts": bases.counts(span, run.queries[query], run.side.rule) if has_text else None,
             "quote": bases.quote(span, text)}
            for rank, span in enumerate(answer.hits[:TOP], 1)
        ]  # fmt: skip
    return {"value": value, "rank": bases.first_rank(answer), "hits": hits}


# As text


def lines(report: dict) -> Iterator[str]:
    """The report for a terminal: the verdict first, then what it rests on, then the questions that fell."""
    yield f"gate {report['study']}: {report['status']} (exit {report['exit_code']})"
    yield from (f"  {reason}" for reason in report["reasons"])
    if report["status"] == "ERROR" and "systems" not in report:
        return
    base, run, mode = report["baseline"], report["run"], report["mode"]
    yield f"\nmode      {mode['name']}: {mode['promise']}"
    yield f"measured  {report['metric']} under {report['rule']}, {report['origin']} questions; minimum effect {report['min_effect']:g}"
    yield f"baseline  {base['file']}, made {base['created']} from {base['source']}" + (
        f" ({base['reason']})" if base["reason"] else ""
    )
    yield f"run       {run['folder']}"
    yield f"questions {_questions(report['questions'])}"
    for row in report["changed_settings"]:
        yield f"changed   {row['name']}: {row['baseline']} -> {row['current']}"
    yield from (f"note      {note}" for note in report["notes"])
    yield ""
    yield from _table(report["systems"])
    for row in report["systems"]:
        if row["status"] != report["status"]:  # the reasons of the others stand above
            yield from (f"  {row['system']}: {reason}" for reason in row["reasons"])
    yield from _side_by_side(report["failing"])


def _questions(counted: dict) -> str:
    said = [f"{len(counted[name])} {name} ({_few(counted[name])})" for name in LISTS if counted[name]]
    return "; ".join([f"{counted['shared']} on both sides", *said])


def _few(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


def _table(rows: list[dict]) -> Iterator[str]:
    width = max(6, *(len(row["system"]) for row in rows)) + 2
    yield f"{'system':<{width}}{'verdict':<16}{'n':>4}{'before':>9}{'now':>9}{'change':>9}  {'interval':<18}must-hit"
    for row in rows:
        held = row["must_hit"]
        kept = (
            f"{sum(one['state'] in ('kept', 'gained') for one in held)} of {len(held)} within" if held else "none named"
        )
        if row["n"] is None:
            yield f"{row['system']:<{width}}{row['status']:<16}   no measurement"
            continue
        ends = f"{row['low']:+.3f} to {row['high']:+.3f}" if row["low"] == row["low"] else "no variation"
        numbers = f"{row['n']:>4}{row['before']:>9.4f}{row['now']:>9.4f}{row['delta']:>+9.4f}"
        yield f"{row['system']:<{width}}{row['status']:<16}{numbers}  {ends:<18}{kept}"


def _side_by_side(failing: list[dict]) -> Iterator[str]:
    for system in dict.fromkeys(row["system"] for row in failing):
        own = [row for row in failing if row["system"] == system]
        yield f"\n{system}: {len(own)} question{'s' * (len(own) != 1)} fell" + (
            f"; the first {SHOWN}" if len(own) > SHOWN else ""
        )
        for row in own[:SHOWN]:
            must = ", must-hit" if row["lost_must_hit"] else ""
            yield f"  {row['query_id']}{must}: {row['before']['value']:.3f} -> {row['now']['value']:.3f}  {row['text']}"
            for word, side in (("was", row["before"]), ("now", row["now"])):
                yield from _hits(word, side)


def _hits(word: str, side: dict) -> Iterator[str]:
    at = f"first hit that counts: rank {side['rank']}" if side["rank"] else "no hit counts"
    yield f"    {word}  {at}" + ("; its hits were not stored" if side["hits"] is None else "")
    for hit in side["hits"] or ():
        yield f"      {hit['rank']}{'*' if hit['counts'] else ' '} {hit['span']}  {hit['quote']}"


# The commands


def read_settings(root, study: str) -> gate.Settings:
    """`params/<study>/gate.yml`. Not there, or not as it should be: bad input that says what to write."""
    where = f"params/{study}/gate.yml"
    build.notebooks(root, study)  # says which studies there are
    if not (root / where).is_file():
        raise BadInput(f"{where}: missing; the gate needs at least the line 'systems: [NAME, ...]'")
    return gate.settings(build.read_params(root, study, "gate", gate.declared()), where)


def of_study(root, study: str, folder: str = "", file=None, look: int | None = None) -> dict:
    """The report of a study's run against its baseline. folder: of the run, below the project; file: another baseline."""
    settings = read_settings(root, study)
    path = root / file if file else bases.path_of(root, study)
    base, about = bases.read(path, study)
    run = bases.read_run(root, study, settings, folder)
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return judge(study, replace(base, where=shown), about, run, settings, look)


def make(root, study: str, folder: str, reason: str, look: int | None = None) -> tuple[bool, list[str]]:
    """Writes the baseline of a study; returns whether it did, and what to say.

    A first baseline needs nothing. A later one needs a reason unless the gate passes, and records what the reason overrode.
    """
    settings = read_settings(root, study)
    run, path = bases.read_run(root, study, settings, folder), bases.path_of(root, study)
    missing = [
        (name, one) for name in settings.systems for one in _there(name, run.side, run) if one.status == "MISSING"
    ]
    if missing:
        raise BadInput(
            f"{run.side.where}: {missing[0][0]} {missing[0][1].reasons[0]}; a baseline needs every expected system"
        )
    overrode = None
    if path.exists():
        existing(path, "move it away, the baseline is written there")
        verdict = _verdict(root, study, folder, look)
        if gate.EXIT[verdict.status]:
            overrode = verdict
        if overrode and not reason.strip():
            refused = f"not written: the gate says {verdict.status} against {path.relative_to(root)}; say why with --reason TEXT"
            return False, [refused, *(f"  {line}" for line in verdict.reasons)]
    made = bases.content(run, settings, study)
    bases.write(path, made, source=run.side.where, reason=reason.strip(), overrode=overrode)
    hits = sum(one.hits is not None for ran in run.side.systems.values() for one in ran.answers.values())
    said = f"{path.relative_to(root)}: {len(made['systems'])} systems, {len(made['questions'])} {run.side.origin} questions"
    without = "; the run holds no hits, so this baseline cannot be graded again when labels change" if not hits else ""
    over = f"; overrode {overrode.status}: {reason.strip()}" if overrode else ""
    return True, [f"{said}, from {run.side.where}{over}{without}"]


def _verdict(root, study: str, folder: str, look: int | None) -> Verdict:
    """What the gate says to a run; a baseline that cannot be read is an ERROR here, and no end."""
    try:
        report = of_study(root, study, folder, None, look)
    except BadInput as problem:
        return Verdict("ERROR", (str(problem).replace(f"{root}/", ""),))
    return Verdict(report["status"], tuple(report["reasons"]))
