"""What becomes of retrieved passages: is a question answered, is the answer supported by the passages, is it the right one?

The protocol: the first k passages go to a generator that may decline; each answer goes to a judge, of another family, which says whether
every claim stands in the passages and whether the answer conveys the gold span. Questions whose span was retrieved, questions whose span
was not, and unanswerable questions are three populations and are never pooled. A judge that gives no verdict is a state, not a verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pandas as pd

from localeval import abstention, answering, stats
from localeval import prompts as texts
from localeval.endpoint import Endpoint, NoReply
from localeval.gguf import LocalModel
from localeval.records import BadInput, Graded, Query

RETRIEVED, MISSED, UNANSWERABLE = "span retrieved", "span not retrieved", "unanswerable"
POPULATIONS = (RETRIEVED, MISSED, UNANSWERABLE)
ANSWER_STATES = {
    "answered": "the generator answered",
    "declined": "the generator said that the passages do not answer",
    "no_output": "the generator returned nothing: neither an answer nor a refusal, in no rate",
    "failed": "the request was given up: in no rate",
    "timed_out": "no reply within the time limit: in no rate",
}


@dataclass(frozen=True)
class Case:
    """One question, what stands for its answer in the gold set, and the passages a generator sees, best first."""

    query_id: str
    question: str
    origin: str
    population: str
    quotes: tuple[str, ...]
    passages: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """state: one of ANSWER_STATES. how: "sentinel" or "words" where it was declined; a reason where it failed."""

    state: str
    text: str = ""
    how: str = ""


@dataclass(frozen=True)
class Judgement:
    """state: "judged", or "judge_failed", "failed", "timed_out" without a verdict. attempts: how often the judge was asked."""

    state: str
    supported: bool | None = None
    answers: bool | None = None
    attempts: int = 1


class Generator(Protocol):
    """Answers a question from its passages, or declines."""

    name: str
    family: str

    def answer(self, case: Case) -> Answer: ...


class Judge(Protocol):
    """Says of an answer whether the passages support it and whether it conveys the gold span. repeat: asked anew, for consistency.
    reads_in_order: whether the order of the passages can matter to it."""

    name: str
    family: str
    reads_in_order: bool

    def judge(self, case: Case, answer: str, repeat: int = 0) -> Judgement: ...


# What a reply is

# A refusal in words: the sources are said not to hold it, in one short sentence. Wider patterns take answers for refusals.
_SOURCES = {
    "en": r"(?:the |these |those |this )?(?:given |provided )?(?:passages?|sources?|texts?|documents?|context|excerpts?)",
    "tr": r"(?:verilen )?(?:kaynak|pasaj|metin|belge)\w*",
    "de": r"(?:de[rnms]|die|das|diese\w*)? ?(?:texte?n?|quellen?|abschnitt\w*|passagen?|dokument\w*|unterlagen)",
    "fr": r"(?:les?|la|ces?|cette|aux?|du|des|l['’])? ?(?:textes?|sources?|passages?|documents?|extraits?|contexte)\b",
    "es": r"(?:el|los|las?|est[aeo]s?|del) ?(?:textos?|fuentes?|pasajes?|documentos?|fragmentos?|contexto)\b",
}
DECLINES = {
    "en": re.compile(
        rf"{_SOURCES['en']} (?:do|does|did) ?(?:not|n['’]t) (?:\w+ )?(?:give|say|state|mention|contain|hold|answer|provide|specify)\b"
        rf"|(?:not|never|nowhere|nothing)\b.{{0,40}}\bin {_SOURCES['en']}|no (?:information|answer|mention)\b.{{0,40}}\b{_SOURCES['en']}",
        re.I,
    ),
    "tr": re.compile(rf"{_SOURCES['tr']}.{{0,60}}\b(?:yok|bulunm\w+|belirtilm\w+|verilm\w+|geçm[ei]\w+|yer alm\w+)", re.I),
    "de": re.compile(
        rf"\b(?:nichts|kein\w*|nicht)\b.{{0,40}}\b(?:in|im) {_SOURCES['de']}|{_SOURCES['de']}.{{0,40}}\b(?:nicht|kein\w*)\b", re.I
    ),
    "fr": re.compile(
        rf"{_SOURCES['fr']} ne .{{0,30}}\b(?:pas|rien|aucune?)\b|\b(?:pas|rien|aucune?)\b.{{0,40}}\bdans {_SOURCES['fr']}"
        rf"|\bne (?:figure|se trouve|apparaît) (?:pas|nulle part)\b.{{0,20}}\bdans {_SOURCES['fr']}", re.I
    ),
    "es": re.compile(
        rf"{_SOURCES['es']} no \w+|\bno (?:se )?(?:figura|aparece|está|encuentra|menciona|indica|dice|hay)\b.{{0,40}}\ben {_SOURCES['es']}",
        re.I,
    ),
}  # fmt: skip
SHORT_REFUSAL = 140  # characters; what is longer says something


def read_answer(text: str, sentinel: str) -> Answer:
    """What a reply is. Declined: the sentinel anywhere in it, as the protocol has it, or a short refusal in words of any known language."""
    text = text.strip()
    if not text:
        return Answer("no_output")
    if sentinel in text:
        return Answer("declined", text, "sentinel")
    if len(text) <= SHORT_REFUSAL and '"' not in text and any(pattern.search(text) for pattern in DECLINES.values()):
        return Answer("declined", text, "words")
    return Answer("answered", text)


VERDICT = ("supported", "answers_question")


def read_verdict(text: str) -> tuple[bool, bool] | None:
    """The first JSON object that carries both verdicts as true or false, in a fence or in prose; None where there is none.

    Words are no verdict: "yes, but" is none, a cut-off object is none, and "true" in quotes is none.
    """
    decoder = json.JSONDecoder()
    for match in re.finditer(r"\{", text):
        try:
            found, _ = decoder.raw_decode(text, match.start())
        except ValueError:
            continue
        if isinstance(found, dict) and all(isinstance(found.get(name), bool) for name in VERDICT):
            return tuple(found[name] for name in VERDICT)
    return None


def joined(passages: Sequence[str]) -> str:
    """Passages in one line."""
    return " ".join(" ".join(passages).split())


def numbered(passages: Sequence[str]) -> str:
    return "\n\n".join(f"[{number}] {text}" for number, text in enumerate(passages, 1))


# Who can answer, who can judge


class EndpointGenerator:
    """A model behind an address."""

    def __init__(self, endpoint: Endpoint, prompts: Mapping[str, str], sentinel: str):
        self.name, self.family = endpoint.name, endpoint.family
        self.model, self._prompt, self._sentinel = endpoint, prompts["answer"], sentinel

    def answer(self, case: Case) -> Answer:
        filled = {"sentinel": self._sentinel, "passages": numbered(case.passages), "question": case.question}
        text = texts.fill(self._prompt, **filled)
        try:
            return read_answer(self.model.complete([{"role": "user", "content": text}]), self._sentinel)
        except NoReply as problem:
            return Answer(problem.state, how=str(problem))


class EndpointJudge:
    """A model behind an address that must reply with a verdict in JSON; it gets one more try."""

    reads_in_order = True

    def __init__(self, endpoint: Endpoint, prompts: Mapping[str, str]):
        self.name, self.family, self.model, self._prompts = endpoint.name, endpoint.family, endpoint, prompts

    def judge(self, case: Case, answer: str, repeat: int = 0) -> Judgement:
        gold = " / ".join(case.quotes) or self._prompts["nothing"]
        filled = {"passages": numbered(case.passages), "question": case.question, "answer": answer, "gold": gold}
        messages = [{"role": "user", "content": texts.fill(self._prompts["judge"], **filled)}]
        for attempt in (0, 1):
            try:
                verdict = read_verdict(self.model.complete(messages, attempt, repeat))
            except NoReply as problem:
                return Judgement(problem.state, attempts=attempt + 1)
            if verdict is not None:
                return Judgement("judged", *verdict, attempts=attempt + 1)
        return Judgement("judge_failed", attempts=2)


class Local:
    """A base model on this machine, led on by examples."""

    def __init__(self, model: LocalModel, examples: texts.Examples):
        self.name, self.family, self.model, self._examples = model.name, model.family, model, examples


class LocalGenerator(Local):
    """It is never told that it may decline, and answers whatever it is asked."""

    def __init__(self, model: LocalModel, examples: texts.Examples, sentinel: str):
        super().__init__(model, examples)
        self._sentinel = sentinel

    def answer(self, case: Case) -> Answer:
        passage, asked, _, answer, _ = self._examples.words
        shown = [f"{passage}: {text}\n{asked}: {q}\n{answer}: {right}" for text, q, right, _ in self._examples.shown]
        after = f"\n{asked}: {case.question}\n{answer}:"
        return read_answer(self.model.complete(f"{passage}: ", joined(case.passages), after, shown), self._sentinel)


class LocalJudge(Local):
    """It is shown verdicts in JSON, and goes on with one, or with something else. It is asked once, since the same prompt gets the same
    reply. repeat: its whole work done again."""

    reads_in_order = True

    def __init__(self, model: LocalModel, examples: texts.Examples, nothing: str):
        super().__init__(model, examples)
        self._nothing = nothing

    def judge(self, case: Case, answer: str, repeat: int = 0) -> Judgement:
        passage, *words = self._examples.words
        asked = lambda *parts: "".join(f"\n{word}: {part}" for word, part in zip(words, parts, strict=True))
        shown = [
            f"{passage}: {text}" + asked(question, right, given, json.dumps(dict.fromkeys(VERDICT, given is right)))
            for text, question, right, wrong in self._examples.shown
            for given in (right, wrong)
        ]
        after = asked(case.question, " / ".join(case.quotes) or self._nothing, joined([answer]), "").rstrip()
        verdict = read_verdict(self.model.complete(f"{passage}: ", joined(case.passages), after, shown, repeat))
        return Judgement("judged", *verdict) if verdict else Judgement("judge_failed")


class SentenceGenerator:
    """The best sentence of the passages where its score reaches the threshold of the other half; else it declines."""

    def __init__(self, best: Mapping[str, answering.Candidate], thresholds: Mapping[tuple[str, int], float], seed: int):
        self.name, self.family = answering.Extractive.name, answering.Extractive.family
        self._best, self._thresholds, self._seed = best, thresholds, seed

    def answer(self, case: Case) -> Answer:
        found, half = self._best[case.query_id], abstention.side(case.query_id, self._seed)
        if not found.text or found.score < self._thresholds[case.origin, 1 - half]:
            return Answer("declined", how="threshold")
        return Answer("answered", found.text)


def sentence_generator(
    cases: Sequence[Case], extractive: answering.Extractive, checker: answering.Checker, seed: int
) -> tuple[SentenceGenerator, pd.DataFrame]:
    """The extractive generator with a threshold for each origin and half, and these as a table: origin, half, threshold, questions, good.

    Good: the best sentence conveys a gold quote, by the checker. Each half is answered with the threshold of the other.
    """
    best = {case.query_id: extractive.best(case.question, case.passages) for case in cases}
    rows = []
    for origin in dict.fromkeys(case.origin for case in cases):
        for half in (0, 1):
            own = [case for case in cases if case.origin == origin and abstention.side(case.query_id, seed) == half]
            good = [checker.answers(best[case.query_id].text, case.quotes) for case in own]
            at = answering.calibrate([best[case.query_id].score for case in own], good)
            rows.append((origin, half, at, len(own), sum(good)))
    table = pd.DataFrame(rows, columns=["origin", "half", "threshold", "questions", "good"])
    thresholds = {(origin, half): at for origin, half, at, _, _ in rows}
    return SentenceGenerator(best, thresholds, seed), table


class RuleJudge:
    """The deterministic checker as a judge: it looks for each claim in every passage, whatever their order."""

    reads_in_order = False

    def __init__(self, checker: answering.Checker):
        self.name, self.family, self._checker = checker.name, checker.family, checker

    def judge(self, case: Case, answer: str, repeat: int = 0) -> Judgement:
        return Judgement(
            "judged", self._checker.supported(answer, case.passages), self._checker.answers(answer, case.quotes)
        )


# Running


def cases_of(
    queries: Sequence[Query], graded: Sequence[Graded], hits: Mapping, system: str, text: Callable, k: int
) -> tuple[list[Case], int]:
    """A case for every question that the rule can judge, and how many it cannot. graded: of one system and rule; hits: of
    `tables.read_hits`; text: span -> its passage."""
    if k < 1:
        raise BadInput(f"passages={k}: a generator needs at least 1")
    by_id, cases = {one.query_id: one for one in graded}, []
    left_out = sum(by_id[query.query_id].status == "not_applicable" for query in queries)
    for query in queries:
        one = by_id[query.query_id]
        if one.status != "not_applicable":
            found = any(rank <= k and gain > 0 for rank, gain in one.gains)
            population = UNANSWERABLE if one.status == "unanswerable" else RETRIEVED if found else MISSED
            quotes = tuple(item.quote or text(item.span) for item in query.evidence)
            passages = tuple(text(hit.span) for hit in hits.get((system, query.query_id), ())[:k])
            cases.append(Case(query.query_id, query.text, query.origin, population, quotes, passages))
    return cases, left_out


def run(cases: Sequence[Case], generator: Generator, judge: Judge) -> pd.DataFrame:
    """Every case answered and judged, a row each. Columns: generator, judge, query_id, origin, population, state, how, judged,
    supported, answers, attempts, answer (the text: it stays on this machine)."""
    rows = []
    for case in cases:
        answer = generator.answer(case)
        verdict = judge.judge(case, answer.text) if answer.state == "answered" else Judgement("", attempts=0)
        rows.append(
            (
                *(generator.name, judge.name, case.query_id, case.origin, case.population, answer.state, answer.how),
                *(verdict.state, verdict.supported, verdict.answers, verdict.attempts, answer.text),
            )
        )
    return pd.DataFrame(rows, columns=COLUMNS)


COLUMNS = [
    "generator", "judge", "query_id", "origin", "population", "state", "how", "judged", "supported", "answers", "attempts", "answer",
]  # fmt: skip


def same_family(generator: Generator, judge: Judge) -> bool:
    """A judge of the generator's family tends to prefer its own."""
    return generator.family.casefold() == judge.family.casefold()


AGAIN, REVERSED = "asked again", "passages reversed"


def judge_again(cases: Sequence[Case], rows: pd.DataFrame, judge: Judge, repeats: int, sample: int) -> pd.DataFrame:
    """The first `sample` judged answers, by the hash of their id, judged `repeats` times in all, and once with their passages in
    reversed order where a judge reads them in order and there are at least two. Columns: query_id, way (AGAIN or REVERSED), verdicts
    (that came, the first included), same (whether all are the same; None below two)."""
    by_id, found = {case.query_id: case for case in cases}, []
    judged = rows[rows["judged"] == "judged"].set_index("query_id")["answer"]
    for query_id in sorted(judged.index, key=lambda name: abstention.digest(name, 0))[:sample]:
        case, answer = by_id[query_id], judged[query_id]
        first = judge.judge(case, answer)
        anew = {AGAIN: [judge.judge(case, answer, repeat) for repeat in range(1, repeats)]} if repeats > 1 else {}
        if judge.reads_in_order and len(case.passages) > 1:
            anew[REVERSED] = [judge.judge(replace(case, passages=case.passages[::-1]), answer)]
        for way, more in anew.items():
            given = [(one.supported, one.answers) for one in (first, *more) if one.state == "judged"]
            found.append((query_id, way, len(given), len(set(given)) == 1 if len(given) > 1 else None))
    return pd.DataFrame(found, columns=["query_id", "way", "verdicts", "same"])


def judged_anew(cases: Sequence[Case], rows: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """The same rows with the verdicts of another judge."""
    by_id = {case.query_id: case for case in cases}
    said = [judge.judge(by_id[row.query_id], row.answer) for row in rows.itertuples()]
    verdicts = {"judged": [one.state for one in said], "attempts": [one.attempts for one in said]}
    for column in ("supported", "answers"):
        verdicts[column] = pd.Series([getattr(one, column) for one in said], rows.index, object)
    return rows.assign(judge=judge.name, **verdicts)


# Rates, each with its denominator

RATES = {
    "answered_when_retrieved": (RETRIEVED, "asked", lambda r: r["state"] == "answered"),
    "abstained_when_retrieved": (RETRIEVED, "asked", lambda r: r["state"] == "declined"),
    "grounded_when_answered": (RETRIEVED, "judged", lambda r: r["supported"] == True),  # noqa: E712 (a column of objects)
    "correct_when_answered": (RETRIEVED, "judged", lambda r: r["answers"] == True),  # noqa: E712
    "abstained_when_not_retrieved": (MISSED, "asked", lambda r: r["state"] == "declined"),
    "answered_when_not_retrieved": (MISSED, "asked", lambda r: r["state"] == "answered"),
    "correct_when_answered_without_span": (MISSED, "judged", lambda r: r["answers"] == True),  # noqa: E712
    "hallucination_rate": (MISSED, "asked and judged", lambda r: r["supported"] == False),  # noqa: E712
    "abstained_when_unanswerable": (UNANSWERABLE, "asked", lambda r: r["state"] == "declined"),
    "answered_when_unanswerable": (UNANSWERABLE, "asked", lambda r: r["state"] == "answered"),
    "unsupported_when_unanswerable": (UNANSWERABLE, "asked and judged", lambda r: r["supported"] == False),  # noqa: E712
}
DENOMINATORS = {
    "asked": "answered or declined",
    "judged": "answered, with a verdict",
    "asked and judged": "declined, or answered with a verdict",
}


def denominator(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows a rate is over. An answer without a verdict is in no rate that needs one; no output and a failure are in none."""
    population, over, _ = RATES[name]
    part = rows[(rows["population"] == population) & rows["state"].isin(["answered", "declined"])]
    if over == "judged":
        return part[part["judged"] == "judged"]
    return part[part["judged"].isin(["judged", ""])] if over == "asked and judged" else part


def rates(rows: pd.DataFrame) -> pd.DataFrame:
    """Every rate of every generator, judge and origin. Columns: generator, judge, origin, population, rate, value, low, high (Wilson),
    count, n, over. n = 0: not defined."""
    found = []
    for keys, part in rows.groupby(["generator", "judge", "origin"], sort=False):
        for name, (population, over, counts) in RATES.items():
            own = denominator(part, name)
            count, n = int(counts(own).sum()), len(own)
            low, high = stats.wilson(count, n) if n else (float("nan"),) * 2
            found.append(
                (*keys, population, name, count / n if n else float("nan"), low, high, count, n, DENOMINATORS[over])
            )
    columns = ["generator", "judge", "origin", "population", "rate", "value", "low", "high", "count", "n", "over"]
    return pd.DataFrame(found, columns=columns)


def states(rows: pd.DataFrame) -> pd.DataFrame:
    """How every question ended, counted: a row a generator, judge, origin and population."""
    judged = rows["judged"].map({"judged": "answered"}).fillna("answered, " + rows["judged"])
    words = rows["state"].where(rows["state"] != "answered", judged)
    words = words.mask(rows["how"].eq("words") & rows["state"].eq("declined"), "declined in words")
    counts = (
        rows.assign(ended=words).groupby(["generator", "judge", "origin", "population", "ended"], sort=False).size()
    )
    return counts.unstack(fill_value=0).reset_index().rename_axis(columns=None)


# Where a question is lost

STAGES = ("in the text", "in one chunk", "in the candidates", "in the top", "answered", "supported", "correct")
LOST = {
    "in the text": "not in the extracted text", "in one chunk": "in the text, in no single chunk",
    "in the candidates": "in one chunk, not among the candidates", "in the top": "a candidate, below the passages",
    "answered": "retrieved, declined", "supported": "answered, not supported", "correct": "supported, not correct",
    "no verdict": "no answer or no verdict: a failure, not a loss",
}  # fmt: skip


def furthest(rows: pd.DataFrame, graded: Sequence[Graded], k: int, lost_in_text: Sequence[str] = ()) -> pd.DataFrame:
    """How far each answerable question came with every generator, for the rows of one judge. Columns: generator, query_id, origin, passed
    (number of STAGES), lost (the first stage it did not pass, "no verdict", or "" for none).

    A question passes a retrieval stage with any of its evidence; an answer without the evidence in the passages is not a way round.
    """
    by_id, found = {one.query_id: one for one in graded}, []
    for row in rows.to_dict("records"):
        one = by_id.get(row["query_id"])
        if one and one.status in ("scored", "unreachable"):
            first = min((rank for rank, gain in one.gains if gain > 0), default=0)
            checks = [one.query_id not in lost_in_text, one.status == "scored", first > 0, 0 < first <= k]
            checks += [row["state"] == "answered", row["supported"] is True, row["answers"] is True]
            passed = next((place for place, check in enumerate(checks) if not check), len(STAGES))
            lost = STAGES[passed] if passed < len(STAGES) else ""
            broke = row["state"] not in ("answered", "declined") or row["judged"] not in ("judged", "")
            found.append(
                (row["generator"], one.query_id, row["origin"], passed, "no verdict" if broke and passed >= 4 else lost)
            )
    return pd.DataFrame(found, columns=["generator", "query_id", "origin", "passed", "lost"])


def waterfall(far: pd.DataFrame, by: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Questions left after each stage, by generator, origin and a group of questions. by: query id -> group. Columns: generator, origin,
    group, questions, the STAGES, no verdict."""
    groups = far["query_id"].map(by) if by is not None else "all"
    rows = []
    for keys, part in far.assign(group=groups).groupby(["generator", "origin", "group"], sort=False):
        left = [int((part["passed"] > place).sum()) for place in range(len(STAGES))]
        rows.append((*keys, len(part), *left, int((part["lost"] == "no verdict").sum())))
    return pd.DataFrame(rows, columns=["generator", "origin", "group", "questions", *STAGES, "no verdict"])


def losses(far: pd.DataFrame, queries: Sequence[Query], groups: Mapping[str, str]) -> pd.DataFrame:
    """Each lost question at the stage where it was lost, earliest stage first. Columns: lost, origin, class, query_id, question."""
    texts = {query.query_id: query.text for query in queries}
    order = {stage: place for place, stage in enumerate(LOST)}
    gone = far[far["lost"] != ""].sort_values("lost", key=lambda column: column.map(order), kind="stable")
    frame = gone.assign(
        question=gone["query_id"].map(texts), **{"class": gone["query_id"].map(groups).str.replace("_", " ")}
    )
    return frame.assign(lost=frame["lost"].map(LOST))[["lost", "origin", "class", "query_id", "question"]].reset_index(
        drop=True
    )
