"""What pages show: values, tables and figures, each with its words and the same bytes every time."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from localeval import answerfigures, figures, pagefigures, pricefigures, report
from localeval.records import BadInput

SYSTEMS = ["fixed/bm25", "section/bm25", "section/hybrid:minilm+maxsim@40"]
RULES = ["document/contains", "chunk/contains"]
SRC = Path(__file__).parents[1] / "src"


def summary(systems=SYSTEMS, rules=RULES, metric="ndcg@10"):
    rows = [
        {"system": s, "rule": r, "metric": metric, "mean": 0.5 + 0.1 * i + 0.2 * (r == RULES[0]), "n": 94}
        for i, s in enumerate(systems)
        for r in rules
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(low=frame["mean"] - 0.07, high=frame["mean"] + 0.06)


def strict():
    rows = summary(rules=RULES[1:])
    return rows.assign(mean_ms=[2.0, 30.0, 700.0], p50_ms=[1.8, 28.0, 650.0], p95_ms=[3.1, 60.0, 1500.0])


def pages():
    quality = np.linspace(0.2, 0.95, 30)
    return pd.DataFrame(
        {
            "doc_id": ["a.pdf"] * 10 + ["b.pdf"] * 20,
            "page_index": [*range(10), *range(20)],
            "class": np.where(quality > 0.4, "digital_clean", "likely_scanned"),
            "quality": quality,
        }
    )


def depths():
    mean = np.array([0.6, 0.66, 0.7])
    return pd.DataFrame(
        {"depth": [0, 20, 80], "mean": mean, "low": mean - 0.1, "high": mean + 0.1, "mean_ms": [9, 250, 990]}
    )


def documents():
    return pd.DataFrame({"doc_id": ["a.pdf", "b.pdf"], "verdict": ["mixed_quality", "digital_clean"]})


def plots():
    risk = pd.DataFrame({"coverage": [0.1, 0.5, 1.0], "risk": [0.02, 0.1, 0.31]})
    shared = pd.DataFrame({"system": ["a", "a", "b", "b"], "questions": [1, 100] * 2, "seconds": [9, 0.1, 1, 1]})
    return {
        "forest": figures.forest(summary(), metric="ndcg@10", group="rule", caption="Words."),
        "rules": figures.rules_side_by_side(summary(), "ndcg@10", RULES, SYSTEMS, caption="Words."),
        "latency": figures.quality_vs_latency(strict(), metric="ndcg@10", budget_ms=1000, caption="Words."),
        "classes": pagefigures.page_classes(pages(), documents(), caption="Words."),
        "strip": pagefigures.quality_strip(pages(), caption="Words."),
        "depth": pricefigures.depth_curve(depths(), metric="ndcg@10", caption="Words."),
        "risk": answerfigures.risk_coverage(risk, caption="Words."),
        "amortised": pricefigures.amortised(shared, caption="Words."),
        "histogram": figures.histogram([1, 2, 2, 3, 9], label="latency in ms", marks={"budget": 5}, caption="Words."),
    }


@pytest.fixture(scope="module")
def drawn():
    return plots()


# Values


@pytest.fixture
def glued(monkeypatch):
    seen = {}
    monkeypatch.setattr("myst_nb.glue", lambda name, value, display: seen.update({name: (value, display)}))
    return seen


@pytest.mark.parametrize(
    ("value", "kind"), [(np.float64(0.5), float), (np.int64(3), int), (np.bool_(True), bool), ("bm25", str), (7, int)]
)
def test_publish_glues_plain_python(glued, value, kind):
    report.publish("key", value)
    assert glued == {"key": (value, False)}
    assert type(glued["key"][0]) is kind


@pytest.mark.parametrize("value", [float("nan"), np.float64("nan"), np.float64("inf"), None, pd.NA, pd.NaT])
def test_publish_refuses_what_is_not_defined(glued, value):
    with pytest.raises(BadInput, match=r"'best_ndcg'.*not defined"):
        report.publish("best_ndcg", value)
    assert not glued


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, np.array([1.0, 2.0])])
def test_publish_refuses_what_prose_cannot_quote(glued, value):
    with pytest.raises(BadInput, match="cannot be quoted"):
        report.publish("key", value)


def test_publish_takes_figures_and_tables(glued, drawn):
    shown = report.table(summary(), "All means.")
    report.publish("table", shown)
    report.publish("figure", drawn["forest"])
    assert glued["table"][0] is shown and glued["figure"][0] is drawn["forest"]


def test_interval():
    assert figures.interval(0.7123, 0.62, 0.8) == "0.71 [0.62, 0.80]"
    assert figures.interval(-0.031, -0.1, 0.04) == "−0.03 [−0.10, 0.04]"
    assert figures.interval(0.5, float("nan"), float("nan")) == "0.50"
    assert figures.interval(float("nan"), 0, 1) == "—"
    assert figures.interval(0.5, 0.4, 0.6, ".0%") == "50% [40%, 60%]"
    low = pd.Series([0.1, 0.2], index=[4, 2])
    assert figures.interval(low + 0.1, low, low + 0.2).to_dict() == {4: "0.20 [0.10, 0.30]", 2: "0.30 [0.20, 0.40]"}


# Tables


def cells(table, selector):
    from bs4 import BeautifulSoup

    return [cell.get_text() for cell in BeautifulSoup(table.html, "html.parser").select(selector)]


def test_table_formats_aligns_and_names_its_rows():
    frame = pd.DataFrame(
        {
            "system": ["a/bm25", "b"], "mean_ms": [1234.5, float("nan")], "n": [12345, 7], "share": [0.25, -0.5],
            "ndcg@10": ["0.71 [0.62, 0.80]", "—"], "paired": [True, False], "note": ["3 of <4>", None],
        }
    )  # fmt: skip
    shown = report.table(frame, "Means & more.", formats={"mean_ms": ",.1f", "share": ".0%"})
    assert cells(shown, "thead th") == ["system", "mean ms", "n", "share", "ndcg@10", "paired", "note"]
    assert cells(shown, "tbody th[scope=row]") == ["a/bm25", "b"]
    assert cells(shown, "tbody td.le-num") == ["1,234.5", "12,345", "25%", "0.71 [0.62, 0.80]", "—", "7", "−50%", "—"]
    assert cells(shown, "tbody td.le-text") == ["yes", "3 of <4>", "no", "—"]
    assert cells(shown, 'span[title="not defined"]') == ["—", "—", "—"]
    assert cells(shown, "caption") == ["Means & more."]
    assert "a/<wbr>bm25" in shown.html and "&lt;4&gt;" in shown.html
    assert repr(shown) == "[table, 2 rows] Means & more."


def test_table_shows_states_as_chips():
    frame = pd.DataFrame(
        {"system": ["a", "b"], "state": ["ok", "not_run"], "word": ["ok", "fine"], "verdict": ["pass", "x"]}
    )
    shown = report.table(frame, "States.")
    assert cells(shown, ".le-state") == ["ok", "not run"]
    assert 'data-state="not_run" title="was not started' in shown.html
    assert cells(report.table(frame, "States.", states=["verdict"]), ".le-state") == ["pass", "x"]


def test_table_of_a_named_index_and_of_a_single_row():
    frame = summary().groupby("system").agg(mean=("mean", "mean"))
    assert cells(report.table(frame, "Means."), "thead th") == ["system", "mean"]
    assert "le-sortable" in report.table(frame, "Means.").html
    assert "le-sortable" not in report.table(frame.head(1), "One mean.").html
    assert "le-sortable" not in report.table(frame, "Means.", sortable=False).html


def test_what_is_long_in_a_table_can_go_on_in_the_next_line():
    frame = pd.DataFrame({"system": ["section/bm25"], "evidence_ndcg@10": ["0.71 [0.62, 0.80]"], "why": ["no <b> [x]"]})
    html = report.table(frame, "Words.").html
    assert "section/<wbr>bm25" in html and "evidence_<wbr>ndcg<wbr>@10" in html
    assert "<span>0.71</span> <span>[0.62, 0.80]</span>" in html and "no &lt;b&gt; [x]" in html
    assert "le-wide" not in html
    assert "le-wide" in report.table(pd.DataFrame([range(report.WIDE)], columns=list("abcdefg")), "Words.").html


def test_a_table_says_names_in_words_unless_they_have_to_be_typed():
    frame = pd.DataFrame({"class": ["digital_clean", "low_text, likely_scanned"], "name": ["bad_char", "hybrid_rrf x"]})
    shown = report.table(frame, "Classes.", formats={"name": ""})
    assert cells(shown, "tbody tr > *") == ["digital clean", "bad_char", "low text, likely scanned", "hybrid_rrf x"]


def test_a_table_without_rows_is_its_caption():
    shown = report.table(summary().head(0), "No system ran.")
    assert cells(shown, "p") == ["No system ran."] and not cells(shown, "caption") and not cells(shown, "th")


def test_more_engines_than_colours_differ_in_their_marks(monkeypatch):
    rows = pd.concat([strict()] * 4, ignore_index=True)
    rows = rows.assign(system=[f"s/e{n}" for n in range(12)], engine=[f"e{n}" for n in range(12)], chunker="s")
    monkeypatch.setattr(figures, "Figure", lambda fig, **words: fig)
    drawn = figures.quality_vs_latency(rows, metric="ndcg@10", caption="Words.").axes[0].get_lines()
    assert len({(line.get_color(), line.get_marker(), line.get_fillstyle()) for line in drawn}) == 12


def test_table_refuses_bad_input():
    frame = summary()
    with pytest.raises(BadInput, match="caption"):
        report.table(frame, "  ")
    with pytest.raises(BadInput, match="no column 'mrr'"):
        report.table(frame, "Means.", formats={"mrr": ".2f"})
    with pytest.raises(BadInput, match="flat and unique"):
        report.table(frame.pivot_table(index="system", columns=["rule", "metric"], values="mean"), "Means.")


# Figures


def canvas():
    from matplotlib.figure import Figure as Canvas

    with figures.theme():
        fig = Canvas(figsize=(3, 2))
        fig.subplots().plot([1, 3, 2], label="a")
    return fig


@pytest.mark.parametrize(
    "words", [{"alt": "", "caption": "c"}, {"alt": "a", "caption": " "}, {"alt": None, "caption": "c"}]
)
def test_a_figure_needs_words(words):
    with pytest.raises(BadInput, match="a figure needs"):
        figures.Figure(canvas(), **words)


def test_a_figure_has_a_name_and_a_visible_caption():
    figure = figures.Figure(canvas(), alt='Line "a"\n from 1 to 3', caption="A line & its caption.")
    html = figure._repr_html_()
    assert 'role="img" aria-label="Line &quot;a&quot; from 1 to 3"' in html
    assert "<figcaption>A line &amp; its caption.</figcaption>" in html
    assert repr(figure) == '[figure] Line "a" from 1 to 3'


def test_figures_follow_the_page(drawn):
    for figure in drawn.values():
        assert "<style" not in figure.svg and "DejaVu" not in figure.svg and "<metadata" not in figure.svg
        assert "var(--pst-color-text-base, #0a0b0c)" in figure.svg and "var(--le-series-1, #0072b2)" in figure.svg
        bare = re.sub(r"var\([^)]*\)", "", figure.svg)
        assert set(re.findall(r"#[0-9a-f]{6}\b", bare)) <= {"#ffffff"}, "a colour that no theme can change"


def test_figures_never_share_an_id(drawn):
    found = [set(re.findall(r'\sid="([^"]+)"', figure.svg)) for figure in drawn.values()]
    assert sum(map(len, found)) == len(set().union(*found))
    for ids, figure in zip(found, drawn.values(), strict=True):
        used = re.findall(r'(?:url\(#|href="#)([^)"]+)', figure.svg)
        assert used and set(used) <= ids


def elsewhere(code: str) -> str:
    """What a fresh interpreter prints, with another seed for its hashes."""
    paths = f"import sys; sys.path[:0] = [{str(SRC)!r}, {str(Path(__file__).parent)!r}]\n"
    environment = os.environ | {"PYTHONHASHSEED": "4"}
    done = subprocess.run([sys.executable, "-c", paths + code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def digest(figures) -> str:
    return hashlib.sha256("".join(figure.svg for figure in figures.values()).encode()).hexdigest()


def test_figures_are_the_same_bytes_in_another_process(drawn):
    assert elsewhere("import test_report as t\nprint(t.digest(t.plots()))") == digest(drawn)


def test_plotting_libraries_load_when_something_is_drawn():
    code = "from localeval import report\nprint([m for m in ('matplotlib', 'seaborn', 'myst_nb') if m in sys.modules])"
    assert elsewhere(code) == "[]"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("forest", ["chunk/contains section/bm25 0.60 [0.53, 0.66]", "document/contains fixed/bm25 0.70"]),
        ("rules", ["fixed/bm25 document/contains 0.70 [0.63, 0.76]", "fixed/bm25 chunk/contains 0.50"]),
        ("latency", ["Budget 1,000 ms", "section/bm25 0.60 [0.53, 0.66] at 30 ms (P50 28, P95 60)"]),
        ("classes", ["likely scanned 8 of 30 (26.7%)", "mixed quality 1 of 2 (50.0%)"]),
        ("strip", ["a.pdf median 0.32 over 10 pages"]),
        ("depth", ["depth 20 0.66 [0.56, 0.76] at 250 ms"]),
        ("risk", ["2.0% at coverage 10%", "31.0% at coverage 100%"]),
        ("amortised", ["a 9 s at 1 and 0.1 s at 100; b 1 s at 1 and 1 s at 100"]),
        ("histogram", ["5 values from 1 to 9, median 2", "budget at 5"]),
    ],
)
def test_alternative_texts_hold_the_numbers(drawn, name, said):
    for text in said:
        assert text in drawn[name].alt


def test_a_long_alternative_text_names_the_ends():
    rows = summary(systems=[f"s{i:02}" for i in range(30)], rules=RULES[1:])
    alt = figures.forest(rows, metric="ndcg@10", caption="Words.").alt
    assert "30 rows; highest and lowest: s29 3.40" in alt and "s00 0.50" in alt and "s10" not in alt


def test_a_value_that_is_not_defined_is_said_and_drawn_as_a_dash():
    rows = summary().astype({"mean": float})
    rows.loc[0, ["mean", "low", "high"]] = float("nan")
    figure = figures.rules_side_by_side(rows, "ndcg@10", RULES, SYSTEMS, caption="Words.")
    assert "fixed/bm25 document/contains not defined" in figure.alt
    assert ">—</text>" in figure.svg


def test_names_are_text_not_formulas():
    rows = summary(systems=["a$b$c_d", "e<f>&"], rules=RULES[1:])
    svg = figures.forest(rows, metric="ndcg@10", caption="Words.").svg
    assert ">a$b$c_d</text>" in svg and ">e&lt;f&gt;&amp;</text>" in svg


def test_plots_refuse_frames_they_would_misread():
    with pytest.raises(BadInput, match="no column 'low'"):
        figures.forest(summary().drop(columns="low"), metric="ndcg@10", caption="Words.")
    with pytest.raises(BadInput, match="no rows left for metric 'mrr@10'"):
        figures.forest(summary(), metric="mrr@10", caption="Words.")
    with pytest.raises(BadInput, match="more than one row for fixed/bm25"):
        figures.quality_vs_latency(pd.concat([strict(), strict()]), metric="ndcg@10", caption="Words.")
    with pytest.raises(BadInput, match="no row of 'ndcg@10' for rule 'page/overlaps'"):
        figures.rules_side_by_side(summary(), "ndcg@10", [*RULES, "page/overlaps"], SYSTEMS, caption="Words.")
    with pytest.raises(BadInput, match="11 systems"):
        many = pd.concat([depths().assign(system=str(i)) for i in range(11)])
        pricefigures.depth_curve(many, metric="ndcg@10", caption="Words.")
    with pytest.raises(BadInput, match="latency above 0"):
        figures.quality_vs_latency(strict().assign(p50_ms=0.0), metric="ndcg@10", caption="Words.")
    with pytest.raises(BadInput, match="no defined value"):
        figures.histogram([float("nan")], label="x", caption="Words.")


def test_the_price_figure_tells_engines_by_colour_chunkers_by_shape_and_joins_depths():
    rows = pd.DataFrame({
        "system": ["a/x", "a/x", "b/y"], "engine": ["x", "x", "y"], "chunker": ["a", "a", "b"], "depth": [0, 10, 0],
        "metric": "rr", "mean": [0.5, 0.6, 0.7], "low": 0.4, "high": 0.8, "mean_ms": [2.0, 9.0, 4.0], "p50_ms": [2.0, 8.0, 4.0],
        "p95_ms": [3.0, 12.0, 5.0],
    })  # fmt: skip
    html = figures.quality_vs_latency(rows, metric="rr", caption="Words.")._repr_html_()
    assert "a/x depth 10 0.60" in html and html.count("--le-series-1") > 1 and "--le-series-2" in html
    assert figures.quality_vs_latency(rows.drop(columns=["depth"]).iloc[1:], metric="rr", caption="Words.").alt
    with pytest.raises(BadInput, match="above 0 ms"):
        figures.quality_vs_latency(rows.assign(mean_ms=0.0), metric="rr", caption="Words.")


def test_empty_classes_of_a_categorical_column_are_shown():
    order = ["digital_clean", "low_text", "likely_scanned"]
    frame = pages().assign(**{"class": lambda p: pd.Categorical(p["class"], categories=order)})
    alt = pagefigures.page_classes(frame, documents(), caption="Words.").alt
    assert "digital clean 22 of 30 (73.3%); low text 0 of 30 (0.0%); likely scanned 8 of 30" in alt


def test_the_style_sheet_defines_every_colour_in_both_themes():
    css = (Path(__file__).parents[1] / "book/assets/localeval.css").read_text(encoding="utf-8")
    light, dark = css.split('html[data-theme="dark"] {', 1)
    for variable in figures.VARIABLES.values():
        if variable.startswith("--le-"):
            assert f"{variable}: #" in light and f"{variable}: #" in dark.split("}")[0]
    for colour in figures.COLOURS:
        assert colour in light, "the fallback in the figure is the light colour"


def test_numbers_at_the_ends_of_lines_do_not_cover_one_another(monkeypatch):
    """Two lines that end at nearly one point: both depths are written, apart."""
    kept = []
    rows = pd.DataFrame({
        "system": ["x"] * 3 + ["y"] * 3, "depth": [0, 40, 80] * 2, "mean": [0.5, 0.69, 0.7, 0.6, 0.695, 0.701],
        "mean_ms": [10, 30, 50.0, 9, 29, 49.5],
    })  # fmt: skip
    rows = rows.assign(
        low=rows["mean"] - 0.1, high=rows["mean"] + 0.1, p50_ms=rows["mean_ms"], p95_ms=rows["mean_ms"] + 5
    )
    with monkeypatch.context() as patch:
        patch.setattr(figures, "_svg", lambda fig: kept.append(fig) or "<svg></svg>")
        patch.setattr(figures, "_inline", lambda svg, alt: svg)
        figures.quality_vs_latency(rows.assign(engine=rows["system"]), metric="rr", caption="Words.")
    (fig,) = kept
    fig.canvas.draw()
    notes = [note for note in fig.axes[0].texts if note.get_text() in ("0", "40", "80")]
    assert sorted(note.get_text() for note in notes) == ["0", "0", "80", "80"]
    boxes = [note.get_window_extent() for note in notes]
    assert not any(one.overlaps(two) for place, one in enumerate(boxes) for two in boxes[:place])
