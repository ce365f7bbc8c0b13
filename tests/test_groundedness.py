"""Answers, verdicts, rates and losses by hand; every rate over its own questions, and no failure counted as an answer."""

from __future__ import annotations

import math
import re
import sys
import types
from pathlib import Path

import pandas as pd
import pytest

from localeval import answering, answertables, generation, gguf, groundedness, handcheck, prompts, tables
from localeval.figures import DASH
from localeval.groundedness import MISSED, RETRIEVED, UNANSWERABLE, Answer, Case, Judgement
from localeval.records import BadInput, Evidence, Graded, Hit, Query, Span
from localeval.replies import Replies

PROJECT = Path(__file__).resolve().parents[1]


def case(
    query_id,
    population=RETRIEVED,
    question="How long does it rise?",
    quotes=("It rises for three hours.",),
    origin="human",
):
    return Case(query_id, question, origin, population, quotes, ("Knead it. It rises for three hours. Then bake it.",))


# Reading replies


@pytest.mark.parametrize(
    "text",
    [
        "The source does not give the date.",
        "Kaynaklarda bu bilgi yok.",
        "Dazu steht nichts im Text.",
        "This is not in the passages.",
        "Les passages ne donnent pas la date.",
        "Cette information ne figure pas dans les documents.",
        "La fuente no indica la fecha.",
        "No se menciona en los pasajes.",
    ],
)
def test_refusals_in_words(text):
    assert groundedness.read_answer(text, "XX").state == "declined"


@pytest.mark.parametrize(
    "text",
    [
        '"I cannot lift this anvil," the smith muttered.', "Sorry, the 1902 edition was withdrawn.", "No, never heat it above 60 °C.",
        "The text was not printed before 1902.", "Der Text ist von 1902.", "Kaynak su 60 dereceye ısıtılır.",
        "Le texte date de 1902, pas de 1904.", "« Je ne peux pas soulever cette enclume », dit-il.", "El texto es de 1902.",
        "No, nunca se calienta a más de 60 °C.",
    ],
)  # fmt: skip
def test_answers_that_sound_like_refusals(text):
    assert groundedness.read_answer(text, "XX") == Answer("answered", text)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('{"supported": true, "answers_question": false}', (True, False)),
        (
            'Sure: {"note": 1} and {"supported": false, "answers_question": true, "reason": "a } brace"} done',
            (False, True),
        ),
        ('{"supported": true, "answers_question": 1}', None),
        ('{"verdict": {"supported": true, "answers_question": true}}', (True, True)),
        ("supported: true", None),
        ("{" * 50, None),
    ],
)
def test_verdicts_are_read_strictly(text, verdict):
    assert groundedness.read_verdict(text) == verdict


@pytest.mark.parametrize("language", prompts.PROMPTS)
def test_refusals_are_told_from_answers_in_every_language(language):
    """On the replies that are published with their labels: no answer is taken for a refusal, and most refusals are found."""
    row = handcheck.refusals(PROJECT / "data/handbook/refusals.csv", "XX").set_index("language").loc[language]
    assert row["wrong"] == 0 and row["found"] >= 4 and row["declines"] == row["answers"] == 6


def test_labelled_refusals_that_cannot_be(tmp_path):
    assert handcheck.refusals(tmp_path / "none.csv", "XX").empty
    (tmp_path / "r.csv").write_text("language,text,declined\nen,No.,maybe\n")
    with pytest.raises(BadInput, match="r.csv: needs the columns language, text and declined, which is yes or no"):
        handcheck.refusals(tmp_path / "r.csv", "XX")


# Prompts

SOURCE = "params/mine/65_groundedness.yml"


@pytest.mark.parametrize("language", ["en", "tr", "de", "fr", "es"])
def test_prompts_hold_everything_in_every_language(language):
    words = prompts.chosen(language, {}, SOURCE)
    filled = prompts.fill(words["answer"], sentinel="XX", passages="PP", question="QQ")
    assert all(part in filled for part in ("XX", "PP", "QQ")) and "{" not in filled
    filled = prompts.fill(words["judge"], passages="PP", question="QQ", answer="AA", gold="GG")
    assert all(part in filled for part in ("PP", "QQ", "AA", "GG", '{"supported": true ')) and words["nothing"]
    assert groundedness.read_verdict(filled) is None, "the example in the prompt is no verdict, if it is sent back"
    assert len(set(prompts.led_on(language).words)) == 5


def test_a_study_asks_in_its_own_words():
    own = {"answer": 'Only from {passages}: {question}. Else {sentinel}. {"json": "stays"}'}
    got = prompts.chosen("de", own, SOURCE)
    assert got["judge"] == prompts.PROMPTS["de"]["judge"] and got["answer"] == own["answer"]
    filled = prompts.fill(got["answer"], sentinel="NO", passages="a {question} in it", question="Why {sentinel}?")
    assert filled == 'Only from a {question} in it: Why {sentinel}?. Else NO. {"json": "stays"}'


@pytest.mark.parametrize(
    ("language", "own", "message"),
    [
        ("xx", {}, "language: no prompts in 'xx'; known: en, tr, de, fr, es"),
        (
            "en",
            {"answer": "{passages} {question}"},
            "prompts: answer lacks {sentinel}; it needs {sentinel}, {passages}, {question}",
        ),
        ("en", {"judge": "{passages} {question} {gold}"}, "prompts: judge lacks {answer}; it needs"),
        ("en", {"answer": "{sentinel} {passages} {question} {lang}"}, "prompts: answer has {lang}, which is no place"),
        ("en", {"anwser": "x"}, "prompts: unknown 'anwser' (did you mean 'answer'?)"),
        ("en", {"nothing": " "}, "prompts: nothing must be a text"),
        ("en", {"judge": ["x"]}, "prompts: judge must be a text"),
    ],
)
def test_a_prompt_that_cannot_be_is_named_with_its_file(language, own, message):
    with pytest.raises(BadInput) as problem:
        prompts.chosen(language, own, SOURCE)
    assert str(problem.value).startswith(f"{SOURCE}: {message}") and "\n" not in str(problem.value)


# The extractive answerer and the checker

CHECKER = answering.Checker()


def test_the_best_sentence_holds_the_rare_words():
    texts = ["The loaf bakes for an hour at great heat.", "The loaf cools.", "The loaf rests."]
    best = answering.Extractive(*answering.rarities(texts)).best("How long does the loaf bake?", texts)
    assert best.text == texts[0] and 0 < best.score <= 1
    assert answering.Extractive({}, 0).best("?", ["A sentence of words."]).score == pytest.approx(0.05)
    assert answering.Extractive({}, 0).best("what?", []) == answering.Candidate("", 0.0)


def test_the_threshold_by_hand():
    assert answering.calibrate([0.9, 0.8, 0.4, 0.2], [True, True, False, False]) == 0.8
    assert answering.calibrate([0.9, 0.8, 0.4], [True, False, True]) == 0.9, "of two equal gains the more careful"
    assert answering.calibrate([0.5], [True]) == answering.calibrate([], []) == -math.inf


def test_each_half_is_answered_with_the_threshold_of_the_other():
    cases = [case(f"q{number}") for number in range(20)] + [case("t1", origin="templated")]
    _, table = groundedness.sentence_generator(cases, answering.Extractive({}, 0), CHECKER, 1)
    assert table["questions"].sum() == 21 and set(table["origin"]) == {"human", "templated"}
    strict = groundedness.SentenceGenerator(
        {"q1": answering.Candidate("It.", 0.5)}, {("human", 0): 0.4, ("human", 1): 0.6}, 1
    )
    half = groundedness.abstention.side("q1", 1)
    assert strict.answer(case("q1")).state == ("answered" if half else "declined"), (
        "half 1 uses the threshold of half 0"
    )


@pytest.mark.parametrize(
    ("answer", "supported"),
    [
        ("It rises for three hours.", True),
        ("it RISES for three hours", True),
        ("It rises for 3 hours.", True),
        ("It rises for four hours.", False),
        ("It does not rise for three hours.", False),
        ("It rises for three hours. Then eat Swiss cheese.", False),
        ("Bread is food.", False),
        ("", False),
    ],
)
def test_support_by_rules(answer, supported):
    assert CHECKER.supported(answer, case("q").passages) is supported


def test_a_name_that_no_passage_has_is_not_supported():
    passages = ("The old clock of the tower was mended by Weber in spring.",)
    assert CHECKER.supported("The old clock of the tower was mended by Weber.", passages)
    assert not CHECKER.supported("The old clock of the tower was mended by Fischer.", passages)


def test_the_checker_reads_negation_in_every_language_of_the_prompts():
    for language, plain, denied in (
        ("en", "It rises.", "It does not rise."), ("tr", "Su sıcak.", "Su sıcak değil."), ("de", "Der Teig geht.", "Der Teig geht nicht."),
        ("fr", "La pâte lève.", "La pâte ne lève pas."), ("es", "La masa sube.", "La masa no sube."),
    ):  # fmt: skip
        assert (
            language in prompts.PROMPTS
            and not answering.negated(plain, language)
            and answering.negated(denied, language)
        )
        assert not answering.Checker(language).supported(denied, (plain,))
    with pytest.raises(BadInput, match="no negation in 'xx'; known: en, tr, de, fr, es"):
        answering.Checker("xx")


@pytest.mark.parametrize(
    ("answer", "conveys"),
    [
        ("Yes: it rises for three hours.", True),
        ("It rises 3 hours.", True),
        ("It rises for two hours.", False),
        ("It never rises for three hours.", False),
        ("three", False),
    ],
)
def test_what_an_answer_conveys(answer, conveys):
    assert CHECKER.answers(answer, case("q").quotes) is conveys and not CHECKER.answers(answer, ())


def test_numbers_as_they_are_meant():
    assert answering.numbers("drei, 4 oder zwölf", "de") == {"3", "4", "12"} and answering.numbers("üç bir", "tr") == {
        "3"
    }
    assert answering.numbers("1,200 and 0.50, 7,5 and three; 2024") == {"1200", "0.5", "7.5", "3", "2024"}


# Cases and runs


def test_populations_follow_the_rule_and_the_cut():
    span = Span("d", 0, 5)
    evidence = (Evidence(span, quote="gold"),)
    queries = [Query("a", "?", evidence), Query("b", "?", evidence), Query("c", "?"), Query("d", "?", evidence)]
    graded = [
        Graded("a", "scored", ((2, 1.0),)), Graded("b", "scored", ((3, 1.0),)), Graded("c", "unanswerable"), Graded("d", "not_applicable"),
    ]  # fmt: skip
    hits = {("s", "a"): [Hit(Span("d", at, at + 5), 1.0) for at in (0, 5, 10)]}
    cases, left_out = groundedness.cases_of(queries, graded, hits, "s", str, 2)
    assert [one.population for one in cases] == [RETRIEVED, MISSED, UNANSWERABLE] and left_out == 1
    assert cases[0].passages == ("d#0-5", "d#5-10") and cases[0].quotes == ("gold",)
    with pytest.raises(BadInput, match="passages=0"):
        groundedness.cases_of(queries, graded, hits, "s", str, 0)


class Says:
    """A generator or judge by a table."""

    name = family = "table"
    reads_in_order = False

    def __init__(self, replies):
        self._replies = replies

    def answer(self, case):
        return self._replies[case.query_id]

    def judge(self, case, answer, repeat=0):
        got = self._replies[case.query_id]
        return got[repeat] if isinstance(got, list) else got


YES, WRONG, LOOSE = Judgement("judged", True, True), Judgement("judged", True, False), Judgement("judged", False, False)
GIVEN = Answer("answered", "text")


def rows_of(*entries):
    """Entries: population, answer, verdict."""
    cases = [case(f"q{number}", population) for number, (population, _, _) in enumerate(entries)]
    answers = {f"q{number}": answer for number, (_, answer, _) in enumerate(entries)}
    verdicts = {f"q{number}": verdict for number, (_, _, verdict) in enumerate(entries)}
    return groundedness.run(cases, Says(answers), Says(verdicts))


def test_the_published_rates_from_their_counts():
    """The run that the protocol comes from: 33 found and 25 missed; 93.9, 96.8, 96.8; 80.0, 20.0, 60.0, 4.0 percent."""
    no = Answer("declined", "", "sentinel")
    entries = [(RETRIEVED, GIVEN, YES)] * 30 + [(RETRIEVED, GIVEN, LOOSE)] + [(RETRIEVED, no, YES)] * 2
    entries += (
        [(MISSED, no, YES)] * 20 + [(MISSED, GIVEN, YES)] * 3 + [(MISSED, GIVEN, WRONG)] + [(MISSED, GIVEN, LOOSE)]
    )
    got = groundedness.rates(rows_of(*entries)).set_index("rate")
    shown = {name: (row["count"], row["n"], round(100 * row["value"], 1)) for name, row in got[got["n"] > 0].iterrows()}
    assert shown["answered_when_retrieved"] == (31, 33, 93.9)
    assert shown["grounded_when_answered"] == shown["correct_when_answered"] == (30, 31, 96.8)
    assert shown["abstained_when_not_retrieved"] == (20, 25, 80.0) and shown["answered_when_not_retrieved"] == (
        5,
        25,
        20.0,
    )
    assert shown["correct_when_answered_without_span"] == (3, 5, 60.0)
    assert shown["hallucination_rate"] == (1, 25, 4.0), "over all missed, not over the answered"
    assert math.isnan(got.loc["answered_when_unanswerable", "value"])


def test_failures_are_in_no_rate_and_are_counted():
    rows = rows_of(
        (RETRIEVED, GIVEN, YES), (RETRIEVED, GIVEN, YES), (RETRIEVED, GIVEN, Judgement("judge_failed")),
        (RETRIEVED, Answer("no_output"), YES),
        (RETRIEVED, Answer("timed_out"), YES), (MISSED, GIVEN, Judgement("judge_failed")), (MISSED, Answer("declined", "", "words"), YES),
    )  # fmt: skip
    got = groundedness.rates(rows).set_index("rate")[["count", "n"]]
    assert got.loc["grounded_when_answered"].tolist() == [2, 2] and got.loc["answered_when_retrieved"].tolist() == [
        3,
        3,
    ]
    assert got.loc["hallucination_rate"].tolist() == [0, 1], "an answer without a verdict is not a supported one"
    ended = groundedness.states(rows).set_index("population")
    assert ended.loc[RETRIEVED, ["answered", "answered, judge_failed", "no_output", "timed_out"]].tolist() == [
        2,
        1,
        1,
        1,
    ]
    assert ended.loc[MISSED, "declined in words"] == 1


def test_declining_everything_does_not_win():
    no = Answer("declined", "", "sentinel")
    got = groundedness.rates(
        rows_of(*[(name, no, YES) for name in groundedness.POPULATIONS for _ in range(10)])
    ).set_index("rate")["value"]
    assert (
        got["abstained_when_unanswerable"]
        == got["abstained_when_not_retrieved"]
        == got["abstained_when_retrieved"]
        == 1
    )
    assert got["answered_when_retrieved"] == 0 and math.isnan(got["grounded_when_answered"])


def test_a_judge_that_wavers_is_found():
    rows = rows_of(*[(RETRIEVED, GIVEN, YES)] * 3)
    cases = [case("q0"), case("q1"), case("q2")]
    wavers = Says(
        {"q0": [YES, YES, WRONG], "q1": [YES, Judgement("judge_failed"), YES], "q2": [YES, *[Judgement("failed")] * 2]}
    )
    again = groundedness.judge_again(cases, rows, wavers, 3, 10).set_index("query_id")
    assert again["same"].to_dict() == {"q0": False, "q1": True, "q2": None} and again["verdicts"].to_dict() == {
        "q0": 3,
        "q1": 2,
        "q2": 1,
    }
    told = generation.consistency(cases, labelled(rows)[0], [wavers], 3, 10)
    assert told["way"].tolist() == ["asked again", "passages reversed"] and told["status"].tolist() == [
        "ok",
        "not applicable",
    ]
    row = told.iloc[0]
    assert (row["same"], row["compared"], row["alone"], row["changed"]) == (1, 2, 1, "q0") and row["low"] < 0.5 < row[
        "high"
    ]
    shown = answertables.consistency(told).set_index("way")["same verdict"]
    assert shown.tolist() == ["1 of 2 [0.09, 0.91]", "not applicable"]
    assert answertables.consistency(told)["not the same"].fillna(DASH).tolist() == ["q0", DASH]
    steady = generation.consistency(cases, labelled(rows)[0], [Says(dict.fromkeys(("q0", "q1", "q2"), YES))], 2, 10)
    assert answertables.consistency(steady)["not the same"].fillna(DASH).tolist() == ["none", DASH]


class LikesTheFirst:
    """A judge with a position bias: an answer is supported where the first passage says it."""

    name, family, reads_in_order = "first only", "stub", True

    def judge(self, case, answer, repeat=0):
        return Judgement("judged", answer in case.passages[0], True)


def test_a_judge_that_prefers_the_first_passage_is_found():
    long = Case("q0", "?", "human", RETRIEVED, ("text",), ("text", "other"))
    both = Case("q1", "?", "human", RETRIEVED, ("text",), ("text", "text"))
    single = Case("q2", "?", "human", RETRIEVED, ("text",), ("text",))
    rows = rows_of(*[(RETRIEVED, GIVEN, YES)] * 3)
    told = generation.consistency([long, both, single], labelled(rows)[0], [LikesTheFirst()], 2, 10).set_index("way")
    assert told["same"].tolist() == [3, 1] and told["compared"].tolist() == [3, 2], "one passage has no other order"
    assert told.loc["passages reversed", "changed"] == "q0" and long.passages == ("text", "other")


def test_a_judge_of_the_same_family_is_said():
    one, two = Says({}), Says({})
    assert groundedness.same_family(one, two)
    two.family = "other"
    made = generation.Made({"x": one}, {"gguf": ("not_run", "how")}, pd.DataFrame())
    assert not groundedness.same_family(one, two)
    told = generation.who(made, one).fillna(DASH)
    assert told["same family"].tolist() == ["yes", DASH] and told["status"].tolist() == ["ok", "not_run"]
    assert told["reason"].tolist() == [DASH, "how"]
    told = generation.who(made, one, [two], {"gguf": "how"}).fillna(DASH)
    assert told["judged"].tolist() == ["every answer", "labelled answers", DASH, DASH]
    assert told["same family"].tolist() == ["yes", "no", DASH, DASH] and told["reason"].tolist()[2:] == ["how", "how"]


def test_the_local_model_is_named_where_it_ran(local):
    one = groundedness.LocalJudge(local(), prompts.led_on("en"), "(none)")
    made = generation.Made({"x": Says({})}, {}, pd.DataFrame())
    assert generation.local_sentence(made, [Says({})]) == "None ran here."
    said = generation.local_sentence(made, [Says({}), one])
    assert said == f"Here it is tiny: it reads 512 tokens and writes at most {gguf.LONGEST}."
    one.model.name, one.model.family = gguf.KNOWN[gguf.PACKAGE]
    assert "small, as its name says, and not trained" in one.model.told() and "no example" in one.model.told()


def test_a_generator_without_labels_is_named():
    rows = pd.concat(
        [
            rows_of((RETRIEVED, GIVEN, YES)),
            rows_of((RETRIEVED, Answer("answered", "Other."), YES)).assign(generator="b"),
        ]
    )
    whole, _ = labelled(rows, q0=(True, True))
    assert answertables.labelled_sentence(whole).startswith("Answers labelled by hand: 1 of table, none of b;")


# Losses


def test_each_question_is_lost_at_one_stage():
    entries = [(RETRIEVED, GIVEN, YES)] * 5 + [
        (RETRIEVED, Answer("declined"), YES),
        (RETRIEVED, GIVEN, LOOSE),
        (RETRIEVED, GIVEN, WRONG),
    ]
    rows = rows_of(
        *entries,
        (RETRIEVED, GIVEN, Judgement("judge_failed")),
        (RETRIEVED, Answer("failed"), YES),
        (UNANSWERABLE, GIVEN, LOOSE),
    )
    status = ["scored", "scored", "unreachable", "scored", "scored"] + ["scored"] * 5 + ["unanswerable"]
    ranks = [1, 1, 0, 0, 9] + [1] * 5 + [0]
    graded = [
        Graded(f"q{number}", state, ((rank, 1.0),) if rank else ())
        for number, (state, rank) in enumerate(zip(status, ranks, strict=True))
    ]
    far = groundedness.furthest(rows, graded, 5, lost_in_text=["q1"]).set_index("query_id")
    lost = ["", "in the text", "in one chunk", "in the candidates", "in the top", "answered", "supported", "correct"]
    assert far["lost"].tolist() == [*lost, "no verdict", "no verdict"], "the unanswerable one cannot be lost"
    fall = groundedness.waterfall(far.reset_index()).iloc[0]
    assert fall[["questions", *groundedness.STAGES, "no verdict"]].tolist() == [10, 9, 8, 7, 6, 4, 2, 1, 2]
    groups = groundedness.waterfall(
        far.reset_index(), {name: "even" if int(name[1:]) % 2 == 0 else "odd" for name in far.index}
    )
    assert groups["questions"].tolist() == [5, 5]
    listed = groundedness.losses(far.reset_index(), [Query("q1", "why?")], {"q1": "clean"})
    assert len(listed) == 9 and listed.iloc[0][["lost", "class", "question"]].tolist() == [
        "not in the extracted text",
        "clean",
        "why?",
    ]


# Labels


def labelled(rows, **labels):
    given = [(name, handcheck.answer_id("text"), *pair) for name, pair in labels.items()]
    return handcheck.matched(rows, pd.DataFrame(given, columns=list(handcheck.LABELS[:4])))


def test_a_sample_is_even_over_strata_and_stays_the_same():
    rows = rows_of(
        *[(RETRIEVED, GIVEN, YES)] * 30,
        *[(RETRIEVED, GIVEN, WRONG)] * 2,
        *[(MISSED, GIVEN, LOOSE)] * 30,
        (MISSED, Answer("declined"), YES),
    )
    got = handcheck.sample(rows, 12)
    assert got.groupby(["population", "answers", "supported"]).size().tolist() == [5, 2, 5]
    assert got.index.tolist() == handcheck.sample(rows, 12).index.tolist() and len(handcheck.sample(rows, 500)) == 62


def test_a_sheet_is_written_filled_and_read(tmp_path):
    rows = rows_of((RETRIEVED, GIVEN, YES), (RETRIEVED, GIVEN, WRONG))
    path = tmp_path / "deep" / "sheet.csv"
    handcheck.write_sheet(rows, [case("q0"), case("q1")], path)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert list(frame.columns) == list(handcheck.SHEET) and frame["passages"].str.contains("rises").all()
    assert not {"judged", "verdict"} & set(frame.columns), "the person does not see what the judge said"
    frame.loc[0, ["supported", "answers_question"]] = ["Yes", " no "]
    frame.to_csv(path, index=False)
    handcheck.write_sheet(rows, [case("q0"), case("q1")], path)
    labels = handcheck.read_labels(path)
    assert labels.loc[0, ["supported", "answers_question"]].tolist() == [True, False], (
        "what was filled in is not written over"
    )
    whole, stale = handcheck.matched(rows, labels)
    assert stale == 0 and whole["human_answers"].tolist() == [False, None]
    changed = rows.assign(answer="another")
    assert (
        handcheck.matched(changed, labels)[1] == 2
        and handcheck.matched(changed, labels)[0]["human_answers"].isna().all()
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query_id,answer_id,supported\nq,a,yes\n", "lacks the column 'answers_question'"),
        ("query_id,answer_id,supported,answers_question\nq,a,maybe,no\n", r":2: supported is 'maybe'; write yes or no"),
        ("query_id,answer_id,supported,answers_question\nq,a,yes,no\nq,a,no,no\n", "q is labelled twice"),
        ("", "not a table"),
    ],
)
def test_labels_that_cannot_be(tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(BadInput, match=message):
        handcheck.read_labels(tmp_path / "labels.csv")


def test_judge_against_person_by_hand():
    """20 labels: 8 both yes, 3 only the judge, 1 only the person, 8 both no: agreement 0.8, chance 0.55 x 0.45 + 0.45 x 0.55."""
    pairs = [(YES, True)] * 8 + [(YES, False)] * 3 + [(WRONG, True)] + [(WRONG, False)] * 8
    rows = rows_of(*[(RETRIEVED, GIVEN, verdict) for verdict, _ in pairs])
    whole, _ = labelled(rows, **{f"q{number}": (True, person) for number, (_, person) in enumerate(pairs)})
    got = handcheck.confusion(whole).set_index("verdict")
    row = got.loc["answers"]
    assert row[["both yes", "judge yes", "label yes", "both no", "n"]].tolist() == [8, 3, 1, 8, 20]
    chance = 0.55 * 0.45 + 0.45 * 0.55
    assert (
        row["agreement"] == 0.8
        and row["base rate"] == 0.45
        and row["kappa"] == pytest.approx((0.8 - chance) / (1 - chance))
    )
    assert row["kappa_low"] < row["kappa"] < row["kappa_high"]
    assert math.isnan(got.loc["supported", "kappa"]), "everything yes: agreement by chance is certain"


@pytest.mark.parametrize("cells", [(5, 0, 3, 0), (5, 3, 0, 0), (0, 4, 0, 4), (0, 0, 4, 4), (0, 0, 0, 0)])
def test_kappa_is_not_defined_where_one_side_always_says_the_same(cells):
    both, judge, label, neither = cells
    pairs = [(YES, True)] * both + [(YES, False)] * judge + [(WRONG, True)] * label + [(WRONG, False)] * neither
    whole, _ = labelled(
        rows_of(*[(RETRIEVED, GIVEN, verdict) for verdict, _ in pairs] or [(RETRIEVED, GIVEN, YES)]),
        **{f"q{number}": (None, said) for number, (_, said) in enumerate(pairs)},
    )
    rows = handcheck.confusion(whole)
    row = rows.set_index("verdict").loc["answers"]
    assert row[["kappa", "kappa_low", "kappa_high"]].isna().all()
    assert set(answertables.judge_errors(rows, {})["kappa"]) == {DASH}


def test_further_judges_are_held_against_the_same_labels():
    rows = rows_of((RETRIEVED, GIVEN, YES), (RETRIEVED, GIVEN, WRONG), (RETRIEVED, GIVEN, YES))
    whole, _ = labelled(rows, q0=(True, True), q1=(True, True))
    other = Says({"q0": WRONG, "q1": Judgement("judge_failed")})
    other.name = "second"
    told = handcheck.confusion(generation.opinions(whole, [case("q0"), case("q1")], [other])).set_index(
        ["judge", "verdict"]
    )
    assert told.loc[("table", "answers"), ["both yes", "label yes", "n", "no verdict"]].tolist() == [1, 1, 2, 0]
    assert told.loc[("second", "answers"), ["both yes", "label yes", "n", "no verdict"]].tolist() == [0, 1, 1, 1]
    said = answertables.judge_sentence(told.reset_index())
    assert (
        "table gives a verdict on 2 of 2, of which 1 agree" in said
        and "second gives a verdict on 1 of 2, of which 0 agree" in said
    )
    assert answertables.judge_errors(told.reset_index(), {"gguf": "how"})["judge"].tolist()[-1] == "gguf: not run"
    assert answertables.judge_errors(told.reset_index(), {})["agree"].tolist() == [
        "2 of 2",
        "1 of 2",
        "1 of 1",
        "0 of 1",
    ]
    none = handcheck.confusion(generation.opinions(labelled(rows)[0], [], [other]))
    assert none.empty and answertables.judge_sentence(none) == ""


def test_corrected_rates_by_hand():
    """100 answers, judged right 60; of 20 labelled yes 15 hold, of 20 labelled no 2 are right: 0.6 x 0.75 + 0.4 x 0.1 = 0.49."""
    rows = rows_of(*[(RETRIEVED, GIVEN, YES)] * 60, *[(RETRIEVED, GIVEN, WRONG)] * 40)
    labels = {f"q{number}": (True, number < 15) for number in range(20)} | {
        f"q{60 + number}": (True, number < 2) for number in range(20)
    }
    whole, _ = labelled(rows, **labels)
    row = handcheck.corrected(whole, 1).set_index("rate").loc["correct_when_answered"]
    assert row["as judged"] == 0.6 and row["powered"] == pytest.approx(0.49) and row["labels"] == 40
    assert row["rogan_gladen"] == pytest.approx(0.49), "with one population both are the same"
    assert row["powered_low"] < 0.40 and row["powered_high"] > 0.58
    few, _ = labelled(rows, q0=(True, True), q60=(True, False))
    wide = handcheck.corrected(few, 1).set_index("rate").loc["correct_when_answered"]
    assert wide["powered_high"] - wide["powered_low"] > 1.5 * (row["powered_high"] - row["powered_low"]), (
        "few labels, wide"
    )
    none = handcheck.corrected(labelled(rows)[0], 1).set_index("rate").loc["correct_when_answered"]
    assert none["as judged"] == 0.6 and math.isnan(none["powered"]) and math.isnan(none["rogan_gladen"])


def test_a_perfect_sample_does_not_look_certain():
    rows = rows_of(*[(RETRIEVED, GIVEN, YES)] * 10)
    whole, _ = labelled(rows, **{f"q{number}": (True, True) for number in range(10)})
    row = handcheck.corrected(whole, 1).set_index("rate").loc["correct_when_answered"]
    assert row["powered"] == 1 and row["powered_low"] < 0.95


def test_a_judge_no_better_than_chance_corrects_nothing():
    pairs = [(YES, True), (YES, False), (WRONG, True), (WRONG, False)] * 10
    rows = rows_of(*[(RETRIEVED, GIVEN, verdict) for verdict, _ in pairs])
    whole, _ = labelled(rows, **{f"q{number}": (True, person) for number, (_, person) in enumerate(pairs)})
    row = handcheck.corrected(whole, 1).set_index("rate").loc["correct_when_answered"]
    assert row["powered"] == 0.5 and row["rogan_gladen_high"] - row["rogan_gladen_low"] > 0.8


def test_intervals_hold_the_truth_as_often_as_they_say():
    """100 draws of a known world: 95 % intervals of the corrected rate hold it in about that share."""
    import numpy as np

    held = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        said = random.random(150) < 0.6
        truth = np.where(said, random.random(150) < 0.8, random.random(150) < 0.2)
        frame = pd.DataFrame(
            {"answers": said, "population": RETRIEVED, "judged": "judged", "human_answers": None}, dtype=object
        )
        seen = [*np.flatnonzero(said)[:20], *np.flatnonzero(~said)[:20]]
        frame.loc[seen, "human_answers"] = truth[seen].astype(object)
        _, low, high = handcheck._powered(frame, len(frame), "answers", True, random)
        held += low <= 0.6 * 0.8 + 0.4 * 0.2 <= high
    assert 88 <= held <= 100


# The local model


def setting_of(folder, **more):
    given = {
        "endpoints": {},
        "gguf": "",
        "language": "en",
        "sentinel": "X",
        "seed": 1,
        "prompts": prompts.PROMPTS["en"],
    }
    return generation.Setting(folder, folder, **given | more)


def test_a_model_that_is_not_installed_says_how(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: None)
    assert "pip install" in gguf.missing(None)
    setting = setting_of(tmp_path)
    made = generation.generators(["extractive", "gguf"], [case("q")], ["some text"], setting)
    assert made.first == "best sentence" and made.states["gguf"][0] == "not_run"
    first, further, untold = generation.panel(["checker", "gguf"], setting)
    assert first.name == "rule checker" and not further and "pip install" in untold["gguf"]
    with pytest.raises(BadInput, match="none of gguf can run here"):
        generation.generators(["gguf"], [], [], setting)
    with pytest.raises(BadInput, match=r"unknown 'extracted' \(did you mean 'extractive'"):
        generation.generators(["extracted"], [], [], setting)
    with pytest.raises(BadInput, match="judges: gguf cannot run here: pip install"):
        generation.panel(["gguf"], setting)
    with pytest.raises(BadInput, match="judges: none is named"):
        generation.panel([], setting)


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", r"crashes here \(signal 11\).*GGML_NATIVE=OFF"),
        (
            "import surely_not_installed",
            "cannot run tiny.gguf .ModuleNotFoundError: No module named 'surely_not_installed'",
        ),
        (
            "def Llama(**more): raise ValueError('Failed to load model from file')",
            "cannot run tiny.gguf .ValueError: Failed to load",
        ),
    ],
)
def test_a_library_that_crashes_is_a_state(tmp_path, monkeypatch, module, told):
    """Tried in a child process with a real module of that name: this process goes on."""
    (tmp_path / "llama_cpp.py").write_text(module)
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: object())
    made = generation.generators(
        ["extractive", "gguf"], [case("q")], ["some text"], setting_of(tmp_path, gguf="tiny.gguf")
    )
    assert list(made.ready) == ["extractive"]
    assert re.search(told, made.states["gguf"][1]) and "\n" not in made.states["gguf"][1]


class Llama:
    """In place of llama.cpp: a character is a token, a prompt is answered by its last words."""

    says = staticmethod(lambda prompt: " About 9 o'clock. ")
    prompts: list = []  # noqa: RUF012

    def __init__(self, model_path, verbose, n_ctx, n_threads, n_threads_batch, seed):
        assert not verbose and n_ctx == 512

    def tokenize(self, text, special):
        return [*text.decode()]

    def reset(self):
        self.prompts.append(None)

    def create_completion(self, prompt, max_tokens, temperature, stop):
        assert temperature == 0 and stop == ["\n"] and len(prompt) + max_tokens <= 512
        assert self.prompts.pop() is None, "a reply depends on nothing that was asked before"
        self.prompts.append("".join(prompt))
        return {
            "choices": [{"text": self.says("".join(prompt))}],
            "usage": {"prompt_tokens": len(prompt), "completion_tokens": 4},
        }


@pytest.fixture
def local(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", types.SimpleNamespace(Llama=Llama))
    monkeypatch.setattr(Llama, "prompts", [])
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    return lambda: gguf.LocalModel(tmp_path / "tiny.gguf", Replies(tmp_path / "r.jsonl"), context=512)


def test_a_local_model_goes_on_and_is_asked_once(local):
    """The prompt ends at the answer, its passages are cut to its room, and a new process asks nothing again."""
    one = groundedness.LocalGenerator(local(), prompts.led_on("en"), "XX")
    long = Case("q", "When?", "human", RETRIEVED, (), ("word " * 2000,))
    assert one.answer(long) == one.answer(long) == Answer("answered", "About 9 o'clock.")
    assert len(Llama.prompts) == 1 and Llama.prompts[0].endswith("\nQuestion: When?\nAnswer:")
    assert (one.model.tally.replies, one.model.tally.kept, one.model.tally.cut) == (1, 0, 1)
    again = groundedness.LocalGenerator(local(), prompts.led_on("en"), "XX")
    assert again.answer(long).text == "About 9 o'clock." and len(Llama.prompts) == 1
    assert (
        again.model.tally.seconds == pytest.approx(one.model.tally.seconds) and again.model.tally.completion_tokens == 4
    )
    german = groundedness.LocalGenerator(local(), prompts.led_on("de"), "XX").answer(
        Case("q", "Wann?", "human", RETRIEVED, (), ("x",))
    )
    assert german.state == "answered" and Llama.prompts[-1].endswith("\nFrage: Wann?\nAntwort:")
    with pytest.raises(BadInput, match="tiny.gguf: a question of .* leaves no room for passages"):
        one.answer(Case("q", "When? " * 100, "human", RETRIEVED, (), ("x",)))


@pytest.mark.parametrize(
    ("reply", "state", "verdict"),
    [
        (' {"supported": true, "answers_question": false}', "judged", (True, False)),
        (" yes", "judge_failed", (None, None)),
        (' {"supported": tr', "judge_failed", (None, None)),
    ],
)
def test_a_local_judge_is_shown_verdicts_and_none_is_made_up(local, monkeypatch, reply, state, verdict):
    monkeypatch.setattr(Llama, "says", staticmethod(lambda prompt: reply))
    model = local()
    model._setting["n_ctx"] = 2048
    monkeypatch.setattr(Llama, "__init__", lambda self, **more: None)
    monkeypatch.setattr(
        Llama,
        "create_completion",
        lambda self, prompt, **more: Llama.prompts.append("".join(prompt)) or {"choices": [{"text": reply}]},
    )
    judge = groundedness.LocalJudge(model, prompts.led_on("en"), "(none)")
    got = judge.judge(case("q", quotes=()), "Three\nhours.")
    assert (got.state, (got.supported, got.answers), got.attempts) == (state, verdict, 1)
    asked = Llama.prompts[-1]
    assert asked.count('Verdict: {"supported": true, "answers_question": true}') == asked.count("Verdict: {") / 2 == 2
    assert asked.endswith("\nQuestion: How long does it rise?\nRight answer: (none)\nAnswer: Three hours.\nVerdict:")
    assert model.tally.uncounted == 1 and judge.reads_in_order


def test_a_named_file_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: object())
    assert gguf.missing(tmp_path / "none.gguf") == "no file none.gguf: name the model's file as gguf"
    assert gguf.missing(None) == "" and gguf.locate(tmp_path / "a.gguf", tmp_path) == tmp_path / "a.gguf"


def test_no_answer_is_published(executed):
    """Answers stay in the ignored folder: no artefact and no page of the notebook holds one, and labels come without texts."""
    root = executed[0]
    answers = [
        row["answer"] for row in tables.read_jsonl(root / "runs/.cache/answers/toy.jsonl") if len(row["answer"]) > 20
    ]
    assert answers
    written = "".join(path.read_text() for path in (root / "runs/toy/base/65_groundedness").iterdir())
    written += (root / "runs/toy/base/65_groundedness.ipynb").read_text()
    assert not [text for text in answers if text in written]
    assert "runs/" in (PROJECT / ".gitignore").read_text().split()
    for path in (PROJECT / "data").glob("*/handcheck.csv"):
        assert tuple(path.read_text().splitlines()[0].split(",")) == handcheck.LABELS
