"""Who answers and who judges, made from parameters; and what the groundedness notebook counts around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from localeval import answering, gguf, groundedness, prompts, stats, strata
from localeval.corpus import Corpus
from localeval.endpoint import Address, Endpoint
from localeval.records import BadInput, Graded, Query, fill, near
from localeval.replies import Replies
from localeval.tables import write_jsonl

GENERATORS = ("extractive", "gguf", "endpoint")
JUDGES = ("checker", "endpoint", "gguf")


@dataclass(frozen=True)
class Setting:
    """folder: where replies are kept. endpoints: "generator" and "judge" -> fields of `Address`. gguf: a file below root, or empty.
    prompts: of `prompts.chosen`."""

    folder: Path
    root: Path
    endpoints: Mapping[str, Mapping]
    gguf: str
    language: str
    sentinel: str
    seed: int
    prompts: Mapping[str, str]
    say: Callable[[str], None] = field(default=lambda text: None)

    def __post_init__(self):
        if not self.sentinel.strip():
            raise BadInput("sentinel: a generator needs a word to decline with")
        for role in set(self.endpoints) - {"generator", "judge"}:
            raise BadInput(
                f"endpoints: unknown role {role!r}{near(role, ['generator', 'judge'])}; known: generator, judge"
            )

    def endpoint(self, role: str) -> Endpoint:
        """The endpoint of a role; refused unless the parameters name it."""
        if role not in self.endpoints:
            raise BadInput(
                f"endpoints: no {role} is named, and nothing is asked that is not; give its base_url and model"
            )
        given = dict(self.endpoints[role])
        for name in ("base_url", "model"):
            if not given.get(name):
                raise BadInput(f"endpoints: {role} needs {name}")
        address = fill(Address, given, f"endpoints: {role}")
        self.say(f"{role}: {address.model} at {address.base_url}")
        return Endpoint(address, Replies(self.folder / "endpoint.jsonl"))

    @cached_property
    def local(self) -> tuple[gguf.LocalModel | None, str]:
        """The model in a GGUF file, made once for all its parts; or none, and what it would take."""
        path = self.root / self.gguf if self.gguf else None
        missing = gguf.missing(path)
        if missing:
            return None, missing
        path = gguf.locate(path, self.folder)
        broken = gguf.trouble(path)
        return (None, broken) if broken else (gguf.LocalModel(path, Replies(self.folder / "gguf.jsonl")), "")


@dataclass(frozen=True)
class Made:
    """Generators that can run, by name; states of those that cannot (status and reason); thresholds of the extractive one."""

    ready: dict[str, groundedness.Generator]
    states: dict[str, tuple[str, str]]
    thresholds: pd.DataFrame

    @property
    def first(self) -> str:
        """The name of the generator that the headline speaks of."""
        return next(iter(self.ready.values())).name


def generators(
    names: Sequence[str], cases: Sequence[groundedness.Case], chunks: Sequence[str], setting: Setting
) -> Made:
    """The named generators. chunks: the texts of all chunks, for the rarity of words. None that can run is an error."""
    ready, states = {}, {}
    thresholds = pd.DataFrame(columns=["origin", "half", "threshold", "questions", "good"])
    for name in names:
        if name not in GENERATORS:
            raise BadInput(f"generators: unknown {name!r}{near(name, GENERATORS)}; known: {', '.join(GENERATORS)}")
        if name == "extractive":
            best = answering.Extractive(*answering.rarities(chunks, setting.language), setting.language)
            checker = answering.Checker(setting.language)
            ready[name], thresholds = groundedness.sentence_generator(cases, best, checker, setting.seed)
        elif name == "endpoint":
            endpoint = setting.endpoint("generator")
            ready[name] = groundedness.EndpointGenerator(endpoint, setting.prompts, setting.sentinel)
        else:
            model, missing = setting.local
            states |= {name: ("not_run", missing)} if missing else {}
            shown = prompts.led_on(setting.language)
            ready |= {name: groundedness.LocalGenerator(model, shown, setting.sentinel)} if model else {}
    if not ready:
        raise BadInput(f"generators: none of {', '.join(names) or 'none'} can run here; 'extractive' needs nothing")
    return Made(ready, states, thresholds)


def judge(name: str, setting: Setting) -> groundedness.Judge:
    """The judge by name. One that cannot run here is an error."""
    if name not in JUDGES:
        raise BadInput(f"judges: unknown {name!r}{near(name, JUDGES)}; known: {', '.join(JUDGES)}")
    if name == "checker":
        return groundedness.RuleJudge(answering.Checker(setting.language))
    if name == "endpoint":
        return groundedness.EndpointJudge(setting.endpoint("judge"), setting.prompts)
    model, missing = setting.local
    if model is None:
        raise BadInput(f"judges: gguf cannot run here: {missing}")
    return groundedness.LocalJudge(model, prompts.led_on(setting.language), setting.prompts["nothing"])


def panel(
    names: Sequence[str], setting: Setting
) -> tuple[groundedness.Judge, list[groundedness.Judge], dict[str, str]]:
    """The judge, which must be able to run; further judges; and of those that cannot run here what it would take."""
    if not names:
        raise BadInput(f"judges: none is named; known: {', '.join(JUDGES)}; 'checker' needs nothing")
    first = judge(names[0], setting)
    untold = {name: setting.local[1] for name in names[1:] if name == "gguf" and setting.local[0] is None}
    return first, [judge(name, setting) for name in names[1:] if name not in untold], untold


def labelled(whole: pd.DataFrame) -> pd.DataFrame:
    """The rows of `handcheck.matched` that have a label."""
    return whole[whole[["human_supported", "human_answers"]].notna().any(axis=1)]


def opinions(
    whole: pd.DataFrame, cases: Sequence[groundedness.Case], further: Sequence[groundedness.Judge]
) -> pd.DataFrame:
    """`handcheck.matched` rows that have a label, as they were judged and as further judges judge them."""
    seen = labelled(whole)
    return pd.concat([seen, *(groundedness.judged_anew(cases, seen, one) for one in further)], ignore_index=True)


def spent(made: Made, judges: Sequence[groundedness.Judge]) -> dict[str, dict]:
    """What was used of each model, by its name. Rules use none."""
    models = [one.model for one in (*made.ready.values(), *judges) if hasattr(one, "model")]
    return {model.name: model.tally.told() for model in models}


def answered(cases: Sequence[groundedness.Case], made: Made, judge: groundedness.Judge, path: Path) -> pd.DataFrame:
    """`groundedness.run` of every generator. The answers go to `path`, which stays on this machine."""
    rows = pd.concat([groundedness.run(cases, one, judge) for one in made.ready.values()], ignore_index=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_jsonl(rows.to_dict("records"), path)
    return rows


def who(
    made: Made,
    judge: groundedness.Judge,
    further: Sequence[groundedness.Judge] = (),
    untold: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Who answered and who judged: a row a generator, then a row a further judge, of the first generator's answers. One that did not run
    has its state and what it would take. untold: of `panel`."""
    rows, first = [], next(iter(made.ready.values()))
    judged = [(one, judge, "every answer") for one in made.ready.values()]
    for one, by, what in judged + [(first, by, "labelled answers") for by in further]:
        same = "yes" if groundedness.same_family(one, by) else "no"
        rows.append((one.name, one.family, by.name, by.family, same, what, "ok", None))
    rows += [(name, None, judge.name, judge.family, None, None, *state) for name, state in made.states.items()]
    rows += [(first.name, first.family, name, None, None, None, "not_run", how) for name, how in (untold or {}).items()]
    columns = ["generator", "its family", "judge", "the judge's family", "same family", "judged", "status", "reason"]
    return pd.DataFrame(rows, columns=columns)


def local_sentence(made: Made, judges: Sequence[groundedness.Judge]) -> str:
    """What the model in a GGUF file is that answered or judged."""
    models = [getattr(one, "model", None) for one in (*made.ready.values(), *judges)]
    return next((model.told() for model in models if isinstance(model, gguf.LocalModel)), "None ran here.")


# Around a run


def best_system(summary: pd.DataFrame, rule: str, metric: str, origin: str) -> str:
    """The system with the highest mean of a metric, the random arm left out; ties: the first."""
    part = summary[(summary["origin"] == origin) & ~summary["system"].str.endswith("/random")]
    return stats.best(part, rule, metric)["system"]


def graded_of(graded: Mapping[tuple[str, str], list[Graded]], system: str, rule: str, notebook: str) -> list[Graded]:
    """What one system's hits were worth under a rule; a name that did not run there is bad input."""
    if (system, rule) not in graded:
        names = sorted({name for name, _ in graded})
        known = {text for _, text in graded}
        if rule not in known:
            raise BadInput(
                f"rule: {notebook} has no gains under {rule!r}{near(rule, known)}; it has {', '.join(sorted(known))}"
            )
        raise BadInput(f"system: {system!r} did not run in {notebook}{near(system, names)}; it has {', '.join(names)}")
    return graded[system, rule]


def populations(cases: Sequence[groundedness.Case], left_out: int) -> pd.DataFrame:
    """Questions by origin and population, and in each row those of all origins that the rule cannot judge."""
    frame = pd.DataFrame([(case.origin, case.population) for case in cases], columns=["origin", "population"])
    wide = frame.groupby(["origin", "population"], sort=False).size().unstack(fill_value=0)
    wide = wide.reindex(columns=list(groundedness.POPULATIONS), fill_value=0).reset_index().rename_axis(columns=None)
    return wide.assign(**{"not applicable": left_out})


def question_classes(queries: Sequence[Query], corpus: Corpus) -> dict[str, str]:
    """The class of the pages that a question's evidence stands on, as ingestion gives it."""
    return strata.question_classes(queries, corpus, strata.page_classes(corpus), "class")


def consistency(
    cases: Sequence[groundedness.Case], whole: pd.DataFrame, judges: Sequence[groundedness.Judge], repeats: int, sample: int
) -> pd.DataFrame:  # fmt: skip
    """Of `sample` answers, labelled ones where there are any, whether judges say the same when they are asked again, and when the passages
    stand in reversed order: a row a judge and way.

    Columns: judge, way, status, same, compared (answers with two verdicts or more), low, high (Wilson), alone (answers without a second
    verdict), changed (ids). A judge to which order cannot matter has the status "not applicable".
    """
    found, rows = [], whole if labelled(whole).empty else labelled(whole)
    for judge in judges:
        again = groundedness.judge_again(cases, rows, judge, repeats, sample)
        for way in (groundedness.AGAIN, groundedness.REVERSED):
            if way == groundedness.REVERSED and not judge.reads_in_order:
                found.append((judge.name, way, "not applicable", *[float("nan")] * 5, ""))
                continue
            own = again[again["way"] == way]
            told = own[own["same"].notna()]
            same, n = int(told["same"].sum()), len(told)
            low, high = stats.wilson(same, n) if n else (float("nan"),) * 2
            changed = ", ".join(told.loc[~told["same"].astype(bool), "query_id"])
            found.append((judge.name, way, "ok", same, n, low, high, len(own) - n, changed))
    columns = ["judge", "way", "status", "same", "compared", "low", "high", "alone", "changed"]
    return pd.DataFrame(found, columns=columns)
