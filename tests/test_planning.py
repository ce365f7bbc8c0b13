"""The planning page: its formulas by hand, and its script against the functions it repeats."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from localeval import book, build, planning, stats, tables
from localeval.planning import BEST, BEST_TOO_SLOW, NOT_SHOWN, SURVIVES, TOO_SLOW, Values
from localeval.records import BadInput, Graded

SCRIPT = Path(__file__).resolve().parents[1] / "book" / "assets" / "planning.js"
BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)


def some_values(n=60, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.choice([0, 0.39, 0.5, 0.63, 1.0], size=n)
    table = np.array([base, np.clip(base + rng.normal(0, 0.05, n), 0, 1), 0.3 * rng.random(n), base, np.zeros(n)])
    return Values(
        "ndcg",
        ("best", "near", "other", "twin", "<b>&none"),
        (30.0, 9.5, 2.0, 80.0, 0.5),
        {5: np.round(table, 3), 10: np.round(table[::-1], 3)},
    )


def page(values, **options):
    return planning.data(values, **({"n": 58, "sd": 0.2945, "budget_ms": 50.0, "margin": 0.05} | options))


# Formulas


def test_minimum_effect_is_the_rule_of_the_report_with_more_digits():
    """z(0.975) + z(0.8) = 1.9600 + 0.8416: `stats.mde` rounds the sum to 2.8."""
    assert planning.minimum_effect(1, 1.0) == pytest.approx(2.8015852, abs=1e-6)
    differences = np.random.default_rng(1).normal(0, 0.3, 58)
    own = planning.minimum_effect(58, differences.std(ddof=1))
    assert own == pytest.approx(stats.mde(differences), rel=6e-4)


@pytest.mark.parametrize("effect", [0.013, 0.05, 0.2])
@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_the_number_needed_is_the_least_that_shows_the_effect(effect, alpha):
    n = stats.questions_needed(0.37, effect, alpha=alpha, power=0.9)
    assert planning.minimum_effect(n, 0.37, alpha, 0.9) <= effect < planning.minimum_effect(n - 1, 0.37, alpha, 0.9)


def test_the_first_table_holds_three_spreads():
    table = planning.needed_table(0.3, [0.05, 0.1])
    assert list(table.columns) == ["true difference", "questions, sd 0.15", "questions, sd 0.3", "questions, sd 0.6"]
    assert table.iloc[1].tolist() == [0.1, 18, 71, 283]


def test_a_rule_that_nothing_is_graded_under_is_refused():
    graded = {("a", "chunk/contains"): []}
    with pytest.raises(BadInput, match="did you mean 'chunk/contains'"):
        planning.values_at(
            graded,
            pd.DataFrame({"system": [], "p95_ms": []}),
            metric="p",
            rule="chunk/contain",
            cuts=[1],
            origin="human",
        )


def test_shared_documents_ask_for_more_questions():
    """A design effect of 4 is twice the spread, and four times the questions; below 1 it changes nothing."""
    table = planning.needed_table(0.3, [0.05, 0.1], design=4.0)
    assert list(table.columns)[-1] == "questions, sd 0.3, shared documents"
    assert table.iloc[:, -1].tolist() == table["questions, sd 0.6"].tolist() == [1131, 283]
    assert planning.needed_table(0.3, [0.1], design=0.4).iloc[0].tolist()[-1] == 71
    told = planning.answer(Values("m", (), (), {}), 58, 0.3, 50, 0.05, 4.0)
    assert "(design effect 4.00), the first is 0.221" in told and "928 questions would be needed" in told
    for effects in ([], [0.0], [-0.1], ["a"], [float("nan")]):
        with pytest.raises(BadInput, match="effects:"):
            planning.needed_table(0.3, effects)


def test_the_design_effect_of_a_study_is_that_of_its_comparisons():
    rows = pd.DataFrame(
        [
            ("ndcg@10", "human", 2.0),
            ("ndcg@5", "human", 0.3),
            ("ndcg@10", "human", 4.0),
            ("ndcg@10", "drafted", 9.0),
            ("rr", "human", 9.0),
        ],
        columns=["metric", "origin", "design_effect"],
    )
    assert planning.typical_design(rows, "ndcg", "human") == 2.0  # of 1, 2 and 4
    assert planning.typical_design(rows, "ndcg", "templated") is None
    assert planning.typical_design(rows.assign(design_effect=float("nan"))) is None


# Survivors


def test_who_survives_by_hand():
    values = some_values()
    rows = planning.survivors(values, 5, 50.0, 0.05).set_index("system")
    assert [rows.loc[name, "state"] for name in ("other", "twin", "<b>&none")] == [NOT_SHOWN, TOO_SLOW, NOT_SHOWN]
    assert {rows.loc["best", "state"], rows.loc["near", "state"]} == {BEST, SURVIVES}
    assert planning.choice(rows.reset_index()) == "near"
    small = planning.survivors(values, 5, 0.1, 0.05)
    assert set(small["state"]) == {TOO_SLOW, BEST_TOO_SLOW} and planning.choice(small) == ""


def test_a_copy_survives_without_any_margin_and_a_worse_one_does_not():
    table = np.array([[0.2, 0.9, 0.4, 1.0], [0.2, 0.9, 0.4, 1.0], [0.2, 0.8, 0.3, 0.9]])
    values = Values("p", ("slow", "fast", "worse"), (9.0, 3.0, 1.0), {1: table})
    rows = planning.survivors(values, 1, 10.0, 0.0)
    assert list(rows["state"]) == [SURVIVES, BEST, NOT_SHOWN]
    assert rows["difference"].tolist() == pytest.approx([0, 0, -0.075])
    bound = -0.075 - 2.353363 * np.std([0, -0.1, -0.1, -0.1], ddof=1) / 2
    assert rows["bound"][2] == pytest.approx(bound, abs=1e-6)
    assert planning.survivors(values, 1, 10.0, 0.2)["state"][2] == SURVIVES


def test_one_question_shows_nothing():
    values = Values("p", ("a", "b"), (1.0, 2.0), {1: np.array([[1.0], [1.0]])})
    assert list(planning.survivors(values, 1, 5.0, 0.5)["state"]) == [BEST, NOT_SHOWN]
    assert page(values)["t"] is None


# What goes into the page


def graded(query, rank):
    return Graded(query, "scored", ((rank, 1.0),) if rank else (), ideal=(1.0,), ranked=10, origin="human")


def test_values_are_those_of_the_timed_systems():
    cases = {("a", "r"): [graded("q1", 1), graded("q2", 2)], ("b", "r"): [graded("q1", 0), graded("q2", 1)]}
    cases |= {("noise", "r"): cases["a", "r"], ("never timed", "r"): cases["a", "r"]}
    totals = pd.DataFrame({"system": ["a", "b", "noise"], "p95_ms": [3.14159, 2.0, 0.1]})
    setup = {"metric": "success", "rule": "r", "origin": "human", "leave_out": ["noise"]}
    got = planning.values_at(cases, totals, cuts=[1, 2], **setup)
    assert got.systems == ("a", "b") and got.p95_ms == (3.14159, 2.0) and got.n == 2
    assert got.values[1].tolist() == [[1, 0], [0, 1]] and got.values[2].tolist() == [[1, 1], [0, 1]]
    assert planning.values_at(cases, totals, cuts=[1, 2], most=1, **setup).systems == ("a",)
    nothing = planning.values_at({}, totals, cuts=[1], **setup)
    assert nothing.systems == () and page(nothing)["values"] == {} and planning.state_table(nothing, 1, 0).empty


def test_spread_and_number_to_begin_with():
    rows = pd.DataFrame({"n": [58, 90, 40], "mde": [0.1, 0.2, 0.9], "designated": [True, True, False]})
    n, sd, own = planning.typical(rows)
    assert (n, own) == (90, True)
    assert sd == pytest.approx(np.median([0.1 * math.sqrt(58) / 2.8, 0.2 * math.sqrt(90) / 2.8]))
    named = rows.assign(metric=["ndcg@10", "p@1", "rr"], origin="human")
    assert planning.typical(named, "ndcg", "human")[:2] == (58, pytest.approx(0.1 * math.sqrt(58) / 2.8))
    assert planning.typical(named, "ndcg", "templated") == (100, 0.4, False)
    assert planning.typical(rows.assign(mde=math.nan)) == (100, 0.4, False)
    assert planning.typical(rows.head(0)) == (100, 0.4, False)


def test_a_system_timed_twice_keeps_its_first_times():
    one = pd.DataFrame({"system": ["a", "a"], "phase": ["total", "encode"], "p95_ms": [1.0, 0.5]})
    two = pd.DataFrame({"system": ["a", "b"], "phase": ["total", "total"], "p95_ms": [9.0, 2.0]})
    assert planning.first_times([one, two]).to_dict("list") == {
        "system": ["a", "b"],
        "phase": ["total"] * 2,
        "p95_ms": [1.0, 2.0],
    }


def test_data_cannot_leave_its_element_and_is_plain_json():
    html = planning.Embedded(page(some_values()))._repr_html_()
    start, end = '<div class="le-own" hidden><script type="application/json" class="le-plan-data">', "</script></div>"
    assert html.startswith(start) and html.endswith(end)
    inside = html[len(start) : -len(end)]
    assert "<" not in inside and json.loads(inside)["systems"][-1] == "<b>&none"


def test_the_answer_says_what_there_is():
    assert "no system was timed" in planning.answer(Values("m", (), (), {}), 58, 0.3, 50, 0.05).lower()
    assert "No system within 0.1 ms is shown" in planning.answer(some_values(), 58, 0.3, 0.1, 0.05)
    assert "of 5 systems survive" in planning.answer(some_values(), 58, 0.3, 50, 0.05)


# The script


@pytest.mark.skipif(not shutil.which("node"), reason="node is not here")
def test_the_script_computes_what_python_computes():
    """For worked examples, and for settings that the page does not carry."""
    values = some_values(seed=3)
    more = [
        [cut, budget, margin, list(rows["state"]), planning.choice(rows), rows["bound"].fillna(-9).tolist()]
        for cut in values.values for budget in (0.7, 10, 100) for margin in (0.01, 0.1)
        for rows in [planning.survivors(values, cut, budget, margin)]
    ]  # fmt: skip
    code = """const page = require(process.argv[1]); const { data, more } = JSON.parse(require("fs").readFileSync(0));
    const bad = more.filter(([cut, budget, margin, states, choice, bounds]) => { const rows = page.survivors(data, cut, budget, margin);
      return rows.some((row, i) => row.state !== states[i] || Math.abs((Number.isNaN(row.bound) ? -9 : row.bound) - bounds[i]) > 1e-9) ||
        page.choice(rows) !== choice; });
    const broken = structuredClone(data); broken.examples.plans[0].mde += 1e-6; broken.examples.chosen[0].states[0] = "x";
    const more_figures = [page.quantile(0.975), page.powerOf(0.1, 126, 0.4, 0.05)];
    console.log(JSON.stringify([page.wrongExamples(data), page.wrongExamples(broken), bad.length, ...more_figures]));"""
    given, command = json.dumps({"data": page(values), "more": more}), ["node", "-e", code, str(SCRIPT)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wrong, wrong_when_broken, bad, quantile, power = json.loads(done.stdout)
    assert (wrong, wrong_when_broken, bad) == (0, 2, 0)
    assert quantile == pytest.approx(1.959963985, abs=1e-9) and power == pytest.approx(0.8, abs=0.002)


@pytest.mark.skipif(not BROWSER, reason="no browser is here")
def test_the_page_lives_from_the_file_system_and_stands_without_script(tmp_path):
    """Built from the file system alone: sliders with labels, words that change, and the same numbers as Python's."""
    values = some_values()
    table = '<table class="le-table"><caption>Static.</caption><tbody><tr><th scope="row">a</th></tr></tbody></table>'
    parts = [planning.Page(kind, kind, table)._repr_html_() for kind in ("plan", "choose")]
    data, script = planning.Embedded(page(values))._repr_html_(), f'<script src="{SCRIPT.as_uri()}"></script>'
    whole = f'<html lang="en"><body>{data}{"".join(parts)}{script}</body></html>'
    (tmp_path / "page.html").write_text(whole, encoding="utf-8")
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
    ]
    done = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, check=False, timeout=120
    )
    from bs4 import BeautifulSoup

    dom = BeautifulSoup(done.stdout, "html.parser")
    sections = dom.select("section.le-plan")
    assert [section.get("data-wrong") for section in sections] == ["0", "0"]
    labels = {label["for"] for label in dom.select("label")}
    sliders = dom.select("input[type=range]")
    assert (
        len(sliders) == 8 and {one["id"] for one in sliders} == labels and all(one["aria-valuetext"] for one in sliders)
    )
    said = [one.get_text() for one in dom.select("[aria-live=polite]")]
    assert said[0].startswith(
        f"With 58 questions the smallest true difference that is found in 80% of studies is {planning.minimum_effect(58, 0.2945):.3f}"
    )
    chosen = planning.survivors(values, 10, 50.0, 0.05)
    left = chosen["state"].isin([BEST, SURVIVES]).sum()
    assert said[1] == f"{left} of 5 systems survive; the fastest of them is {planning.choice(chosen)}."
    rows = dom.select(".le-plan-live tbody tr")
    assert {row.th.get_text(): row.find_all("td")[-1].get_text() for row in rows} == dict(
        zip(chosen["system"], chosen["state"], strict=True)
    )
    assert len(dom.select("table caption")) == 3  # the tables of the page stay


def test_the_script_asks_for_nothing():
    text = SCRIPT.read_text(encoding="utf-8")
    assert not any(
        word in text for word in ("http:", "https:", "fetch(", "XMLHttpRequest", "import(", "localStorage", "eval(")
    )


# On the toy study


@pytest.mark.slow
def test_simulation_and_planning_run_on_a_tiny_study(executed, tmp_path, monkeypatch):
    """A handful of questions and one engine: the pages say what there is, and nothing breaks."""
    root = tmp_path / "project"
    shutil.copytree(executed[0], root)
    monkeypatch.setenv("LOCALEVAL_ROOT", str(root))
    settings = {
        "53_simulation": "{simulations: 40, n_resamples: 100, time_simulations: 10}",
        "56_planning": "{cuts: [1, 5]}",
    }
    for name, text in settings.items():
        (root / "params/toy" / f"{name}.yml").write_text(text, encoding="utf-8")
    said = []
    build.run(root, "toy", say=said.append)
    assert said[-1].startswith("toy: 2 of ")
    for name in settings:
        assert book.check_notebook(root / "runs/toy/base" / f"{name}.ipynb") == []
    coverage = tables.read_csv(root / "runs/toy/base/53_simulation/coverage.csv")
    assert (
        coverage["rate"].notna().any()
        and coverage["rate"].dropna().between(0, 1).all()
        and {"paired difference", "warm time"} <= set(coverage["of"])
    )
    arms = tables.read_csv(root / "runs/toy/base/30_sweep/arms.csv")
    assert set(arms["arm"]) == {"engine", "random", "reversed", "title-only", "duplicate", "oracle"}
