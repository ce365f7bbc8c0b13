"""The pages: what a build refuses, and for every check the fault it exists for."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from localeval import book
from localeval.records import BadInput

ROOT = Path(__file__).parents[1]
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACw="


# Typed numbers

CLEAN_PROSE = """---
title: Page 7
---
# Findings of BM25 and ndcg@10

The best reaches {glue:text}`toy/30_sweep.ipynb::best:.2f` (P95 under {glue:text}`limit:,d` ms, `k1 = 1.5`).

1. See [the second table](page2.md#t-2) and {doc}`toy/30_sweep`.
2) Or <https://example.org/2024>, https://example.org/v1/2 and ![two curves](fig_2.png).

(label-3)=
| system | mean |
|---|---:|
| a | {glue:text}`a:.3f` |

```{glue:} fig_1
:doc: toy/30_sweep.ipynb
:width: 300
```

````{note}
Nested.

```python
print(42)
```
````

:::{div} le-provenance
Executed on `2026-01-02`.
:::

<!-- 12 words
over 2 lines --> [not run]{.le-state} two of three[^4].

~~~text
99
~~~
"""


def test_prose_without_typed_numbers(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(CLEAN_PROSE, encoding="utf-8")
    assert book.check_prose([path]) == []


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("Recall rose to 0.84.", "0.84"),
        ("It lost −3 points.", "−3"),
        ("About 37% of them.", "37%"),
        ("- over 1,234 questions", "1,234"),
        ("3. and 4 more", "4"),
        ("## Table 2", "2"),
        ("| a | 0.5 |", "0.5"),
        ("[the 12 misses](misses.md)", "12"),
        ("```{admonition} All 9 of them\nText.\n```", "9"),
        ("```{note}\nOnly 8.\n```", "8"),
        (":::{div} le-provenance\nRun 6.\n:::", "6"),
        ("```{note}\n:class: tip\nBest of 5.\n```", "5"),
        ("Half (½) of them", "½"),
        ("**7**", "7"),
        ("```python\nx = 1\n```\nthen 11", "11"),
        ("in 2024", "2024"),
    ],
)
def test_a_typed_number_is_found(tmp_path, line, number):
    path = tmp_path / "page.md"
    path.write_text(f"# Page\n\n{line}\n", encoding="utf-8")
    (problem,) = book.check_prose([path])
    assert problem.startswith(f"{path}: line ") and f"typed number {number!r}" in problem


def test_typed_numbers_are_found_in_markdown_cells_only_and_by_line(tmp_path):
    path = tmp_path / "page.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("x = 5"), new_markdown_cell("# Title\n\n`5` and\n6 more")]), path)
    (problem,) = book.check_prose([path])
    assert problem.startswith(f"{path}: cell 2: line 4: typed number '6'")


# Executed notebooks


def executed():
    cells = [
        new_markdown_cell("# Sweep"),
        new_code_cell("seed: int = 7", execution_count=1, metadata={"tags": ["parameters", "remove-cell"]}),
        new_code_cell("seed = 8", execution_count=2, metadata={"tags": ["injected-parameters"]}),
        new_code_cell(
            "seed", execution_count=3, outputs=[new_output("execute_result", {"text/plain": "8"}, execution_count=3)]
        ),
        new_code_cell(""),
    ]
    return new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})


def show(notebook, **data):
    notebook.cells[3].outputs.append(new_output("display_data", data))


def stream(notebook, text):
    notebook.cells[3].outputs.append(new_output("stream", name="stdout", text=text))


def written(notebook, tmp_path) -> Path:
    path = tmp_path / "30_sweep.ipynb"
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def test_a_good_executed_notebook(tmp_path):
    notebook = executed()
    show(notebook, **{"text/html": '<a href="https://example.org/home/x">a</a> chunk/contains</td> and/or /overlaps'})
    stream(notebook, "two lines\r\nof text, 3/4 done, ~/var\n")
    assert book.check_notebook(written(notebook, tmp_path)) == []


FAULTS = {
    "was not executed": lambda n: n.cells[3].update(execution_count=None),
    "executed out of order": lambda n: n.cells[3].update(execution_count=1),
    "ended with KeyError: 'x'": lambda n: n.cells[3].outputs.append(
        new_output("error", ename="KeyError", evalue="'x'", traceback=[])
    ),
    "cell 4: an absolute path in its output: /home/ann/data": lambda n: show(
        n, **{"text/plain": "read /home/ann/data"}
    ),
    "in its output: /tmp/x/plot.py": lambda n: stream(n, "warning at /tmp/x/plot.py:3"),
    "in its output: C:\\Users": lambda n: show(n, **{"text/html": "<p>C:\\Users\\ann</p>"}),
    "in its output: D:/Users": lambda n: stream(n, "read D:/Users/ann/tea.md\n"),
    "in its output: file:///srv": lambda n: show(n, **{"text/html": '<a href="file:///srv/x">x</a>'}),
    "in the metadata: /opt/": lambda n: n.metadata.update(papermill={"input_path": "/opt/localeval/a.ipynb"}),
    "cell 1: an absolute path in its metadata": lambda n: n.cells[0].metadata.update(source="/Users/ann/a.md"),
    "widget-view": lambda n: show(n, **{"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}),
    "text/latex": lambda n: show(n, **{"text/latex": "$x$"}),
    "widget state": lambda n: n.metadata.update(widgets={}),
    "progress bar": lambda n: stream(n, " 10%|#\r 20%|##\n"),
    "0 cells tagged 'parameters'": lambda n: n.cells[1].metadata.update(tags=[]),
    "2 cells tagged 'parameters'": lambda n: n.cells[3].metadata.update(tags=["parameters"]),
    "2 cells of injected": lambda n: n.cells[3].metadata.update(tags=["injected-parameters"]),
    "kernel 'venv'": lambda n: n.metadata.kernelspec.update(name="venv"),
    "kernel None": lambda n: n.metadata.pop("kernelspec"),
}


@pytest.mark.parametrize("said", FAULTS)
def test_a_fault_of_an_executed_notebook_is_found(tmp_path, said):
    notebook = executed()
    FAULTS[said](notebook)
    (problem,) = book.check_notebook(written(notebook, tmp_path))
    assert said in problem and problem.startswith(str(tmp_path)) and "\n" not in problem


def test_an_unreadable_notebook_is_one_problem(tmp_path):
    path = tmp_path / "broken.ipynb"
    path.write_text("{", encoding="utf-8")
    for check in (book.check_notebook, book.check_source, lambda p: book.check_prose([p])):
        (problem,) = check(path)
        assert problem.startswith(f"{path}: not a readable notebook")


# Source notebooks


def source(
    code="means = frame.groupby('system').mean()", parameters="seed: int = 7  # of the resampling\nnames = ['a', 1]"
):
    cells = [
        new_markdown_cell("# Sweep"),
        new_code_cell(parameters, metadata={"tags": ["parameters"]}),
        new_code_cell(code),
    ]
    return new_notebook(cells=cells)


def test_a_good_source_notebook(tmp_path):
    code = 'report.table(f, f"Means of {n:,.2f}, ndcg@10.")\nreport.forest(f, metric="p@1", cut=3, caption="Two.")'
    assert book.check_source(written(source(code), tmp_path)) == []
    assert (
        book.check_source(written(source("x = [y for y in z]", '"""Text."""\na = -1.5\nb: dict = {}'), tmp_path)) == []
    )
    assert book.check_source(written(source("\n".join(["x = 1"] * 15)), tmp_path)) == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(): pass", "'def'"),
        ("async def f(): pass", "'def'"),
        ("class A: pass", "'class'"),
        ("x = 1\nfor y in z: x += y", "line 2: 'for'"),
        ("while x: x -= 1", "'while'"),
        ("print(1)", "print()"),
        ("%matplotlib inline", "not plain Python"),
        ("\n".join(["x = 1"] * 16), "has 16 lines"),
        ("figures.forest(f, caption='Over 94 questions.')", "typed number '94'"),
        ("figures.forest(f, caption=f'{n} of 94')", "typed number '94'"),
        ("figures.forest(f, caption='All ' + 'of 94')", "typed number '94'"),
        ("figures.Figure(f, alt='From 3 up', caption='c')", "typed number '3'"),
        ("report.table(f, 'Top 5.')", "typed number '5'"),
    ],
)
def test_a_fault_of_a_source_notebook_is_found(tmp_path, code, said):
    (problem,) = book.check_source(written(source(code), tmp_path))
    assert "cell 3: " in problem and said in problem


@pytest.mark.parametrize("line", ["n = int('3')", "n: int", "n = other", "import os", "a.b = 3", "n += 1"])
def test_parameters_are_literals(tmp_path, line):
    (problem,) = book.check_source(written(source(parameters=f"seed = 7\n{line}"), tmp_path))
    assert "cell 2: line 2: parameters are literals only" in problem


def test_parameters_are_not_too_many(tmp_path):
    many = lambda count: "\n".join(f"p{number} = 1" for number in range(count))
    assert book.check_source(written(source(parameters=many(20)), tmp_path)) == []
    (problem,) = book.check_source(written(source(parameters=many(21)), tmp_path))
    assert "has 21 parameters; at most 20" in problem


def test_a_source_notebook_has_one_parameters_cell_and_no_outputs(tmp_path):
    notebook = source()
    notebook.cells[1].metadata.tags = []
    assert "0 cells tagged 'parameters'" in book.check_source(written(notebook, tmp_path))[0]
    (problem,) = book.check_source(written(executed(), tmp_path))[:1]
    assert "holds outputs" in problem


# Built pages

PAGE = f"""<!doctype html><html><head><link rel="stylesheet" href="_static/a.css"><link rel="canonical" href="https://e.org/">
<script src="_static/a.js?v=1"></script></head><body>
<h1 id="top">Page</h1><a name="old"></a><a href="other.html#there">o</a><a href="#top">t</a><a href="#old">t</a>
<a href="#">x</a>
<a href="https://example.org/x.html">e</a><a href="mailto:a@example.org">m</a><a href="sub/">s</a>
<img src="{PIXEL}" alt="A dot"><svg role="img" aria-label="A line"><g><svg></svg></g></svg>
<svg aria-hidden="true"></svg>
<p style="background: url('{PIXEL}')"></p></body></html>"""


def site(tmp_path, page=PAGE, css="a { background: url(b.svg#x) url(data:x) } /* url(https://e.org/x) */"):
    root = tmp_path / "html"
    for folder in ("_static", "sub"):
        (root / folder).mkdir(parents=True)
    (root / "page.html").write_text(page, encoding="utf-8")
    (root / "other.html").write_text('<p id="there"></p>', encoding="utf-8")
    (root / "sub/index.html").write_text('<meta http-equiv="Refresh" content="0; url=../page.html">', encoding="utf-8")
    (root / "_static/a.css").write_text(css, encoding="utf-8")
    for name in ("a.js", "b.svg"):
        (root / "_static" / name).write_text("", encoding="utf-8")
    return root


def test_good_pages(tmp_path):
    assert book.check_links(site(tmp_path)) == []


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<a href="gone.html">x</a>', "<a> points to a missing file: gone.html"),
        ('<a href="other.html#gone">x</a>', "<a> points to a missing anchor: other.html#gone"),
        ('<a href="#gone">x</a>', "missing anchor: #gone"),
        ('<script src="_static/gone.js"></script>', "<script> points to a missing file"),
        ('<div class="math notranslate">\\[x^n\\]</div>', "holds a formula"),
        ('<script src="https://cdn.example.org/m.js"></script>', "<script> loads from elsewhere"),
        ('<script src="//cdn.example.org/m.js"></script>', "<script> loads from elsewhere"),
        ('<script>const THEBE = "https://cdn.example.org/t.js"</script>', "inline script names an outside file"),
        ('<link rel="stylesheet" href="https://cdn.example.org/a.css">', "<link> loads from elsewhere"),
        ('<link rel="preconnect" href="https://fonts.example.org">', "<link> loads from elsewhere"),
        ('<iframe src="https://example.org/v"></iframe>', "<iframe> loads from elsewhere"),
        ('<img src="http://example.org/a.png" alt="A dot">', "<img> loads from elsewhere"),
        ('<picture><source srcset="https://example.org/a.webp 2x"></picture>', "<source> loads from elsewhere"),
        ('<p style="background: url(https://example.org/a.png)"></p>', "a style loads from elsewhere"),
        ("<style>@import 'https://example.org/a.css';</style>", "a style loads from elsewhere"),
        ('<meta http-equiv="refresh" content="0; url=gone.html">', "<meta refresh> points to a missing file"),
        (f'<img src="{PIXEL}">', "<img> without alt text"),
        (f'<img src="{PIXEL}" alt=" ">', "<img> without alt text"),
        (f'<img src="{PIXEL}" alt="plot.png">', "alt text is a file name"),
        (f'<img src="{PIXEL}" alt="../_images/1f3a">', "alt text is a file name"),
        ("<svg><path/></svg>", "<svg> without aria-label"),
        ('<p id="top"></p>', "2 elements share the id 'top'"),
    ],
)
def test_a_fault_of_a_page_is_found(tmp_path, html, said):
    (problem,) = book.check_links(site(tmp_path, PAGE.replace("</body>", f"{html}</body>")))
    assert problem.startswith("page.html: ") and said in problem


@pytest.mark.parametrize(
    ("css", "said"),
    [
        ("@font-face { src: url('https://fonts.example.org/a.woff2') }", "a style loads from elsewhere"),
        ("@import url(//example.org/a.css);", "a style loads from elsewhere"),
        ('@import "https://example.org/a.css";', "a style loads from elsewhere"),
        ("a { background: url(gone.svg) }", "a style names a missing file: gone.svg"),
    ],
)
def test_a_fault_of_a_style_sheet_is_found(tmp_path, css, said):
    (problem,) = book.check_links(site(tmp_path, css=css))
    assert problem.startswith("_static/a.css: ") and said in problem


def test_no_pages_is_a_problem(tmp_path):
    (problem,) = book.check_links(tmp_path)
    assert "build the book first" in problem


# Building

INTRO = """# Toy

The best of {glue:text}`toy/10_toy.ipynb::n:,d` systems reaches {glue:text}`toy/10_toy.ipynb::best:.2f`.
[Here](toy/10_toy.ipynb).

:::{div} le-provenance le-local
A local run; one system was [not run]{.le-state}.
:::

```{glue:} means
:doc: toy/10_toy.ipynb
```
"""
CODE = """
import pandas as pd
from localeval import figures, report

rows = pd.DataFrame({"system": ["a", "b"], "mean": [0.5, 0.61], "low": [0.4, 0.52], "high": [0.6, 0.7]})
report.publish("n", len(rows))
report.publish("best", rows["mean"].max())
report.publish("means", report.table(rows, "Means of both systems."))
"""
FOREST = 'figures.forest(rows, metric="ndcg@10", caption="Both systems.")'


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """A book of two pages and a notebook, executed by a real kernel."""
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("staged")
    (folder / "book/toy").mkdir(parents=True)
    shutil.copy(ROOT / "_config.yml", folder)
    shutil.copytree(ROOT / "book/assets", folder / "book/assets")
    toc = "format: jb-book\nroot: intro\nchapters:\n  - file: toy/index\n    sections:\n      - file: toy/10_toy\n"
    (folder / "book/_toc.yml").write_text(toc)
    (folder / "book/intro.md").write_text(INTRO, encoding="utf-8")
    (folder / "book/toy/index.md").write_text("# Findings\n\nBest: {glue:text}`10_toy.ipynb::best:.2f`.\n")
    cells = [
        new_markdown_cell("# Sweep\n\nBest: {glue:text}`best:.3f`."),
        new_code_cell("seed = 7", metadata={"tags": ["parameters"]}),
        new_code_cell(CODE.strip(), metadata={"tags": ["remove-cell"]}),
        new_code_cell(
            'figures.forest(rows, metric="ndcg@10", caption="Both systems.")', metadata={"tags": ["hide-input"]}
        ),
    ]
    notebook = new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    NotebookClient(notebook, kernel_name="python3").execute()
    nbformat.write(notebook, folder / "book/toy/10_toy.ipynb")
    return folder


@pytest.fixture(scope="module")
def built(staged, tmp_path_factory):
    output = tmp_path_factory.mktemp("site") / "html"
    assert book.build(staged, output) == output / "index.html"
    return output


def text(path: Path, selector: str) -> list[str]:
    from bs4 import BeautifulSoup

    return [e.get_text() for e in BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").select(selector)]


def test_the_staged_book_passes_its_own_checks(staged, built):
    assert book.check_links(built) == []
    assert book.check_prose([*staged.rglob("*.md"), *staged.rglob("*.ipynb")]) == []
    assert book.check_notebook(staged / "book/toy/10_toy.ipynb") == []


def test_numbers_figures_and_tables_reach_the_pages(built):
    assert text(built / "intro.html", "article p")[0] == "The best of 2 systems reaches 0.61.\nHere."
    assert text(built / "toy/index.html", "article p") == ["Best: 0.61."]
    assert text(built / "intro.html", "article table caption") == ["Means of both systems."]
    assert text(built / "intro.html", ".le-provenance .le-state") == ["not run"]
    assert text(built / "toy/10_toy.html", "article figcaption") == ["Both systems."]
    page = (built / "toy/10_toy.html").read_text(encoding="utf-8")
    assert 'aria-label="Forest plot of ndcg@10, mean with interval. a 0.50 [0.40, 0.60]; b 0.61 [0.52, 0.70]."' in page
    assert text(built / "toy/10_toy.html", "details.hide summary p") == ["Show the code", "Hide the code"]


def test_the_site_holds_no_debugging_files_and_nothing_of_the_machine(staged, built):
    assert not list(built.rglob("*.map"))
    for path in built.rglob("*.html"):
        assert str(staged) not in path.read_text(encoding="utf-8")


def test_a_warning_fails_the_build_by_page_and_keeps_the_old_site(staged, tmp_path):
    broken, output = tmp_path / "staged", tmp_path / "html"
    shutil.copytree(staged, broken)
    (broken / "book/intro.md").write_text(
        INTRO.replace("::best:.2f", "::nope:.2f").replace("toy/10_toy.ipynb)", "gone.md)")
    )
    output.mkdir()
    (output / "old.html").write_text("old")
    with pytest.raises(BadInput, match=r"^book/intro\.md:3: WARNING: .*\(and 1 more\)") as error:
        book.build(broken, output)
    assert "\n" not in str(error.value) and str(tmp_path) not in str(error.value)
    assert [path.name for path in output.iterdir()] == ["old.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["html", "staged"]


def test_a_formula_cannot_call_another_host(staged, tmp_path):
    folder = tmp_path / "staged"
    shutil.copytree(staged, folder)
    with (folder / "book/toy/index.md").open("a") as page:
        page.write("\n```{math}\nx^n\n```\n")
    book.build(folder, tmp_path / "html")
    problems = book.check_links(tmp_path / "html")
    assert any(problem.startswith("toy/index.html: holds a formula") for problem in problems)
    assert not any("elsewhere" in problem for problem in problems)


def test_a_build_needs_its_files(tmp_path):
    with pytest.raises(BadInput, match=r"_config\.yml: no such file"):
        book.build(tmp_path, tmp_path / "html")
    shutil.copy(ROOT / "_config.yml", tmp_path)
    (tmp_path / "book/_static").mkdir(parents=True)
    (tmp_path / "book/_toc.yml").write_text("root: intro\n")
    with pytest.raises(BadInput, match=r"_static: every script"):
        book.build(tmp_path, tmp_path / "html")


def test_a_crash_names_the_page_that_was_read():
    stdout = "reading sources... [ 33%] intro\nreading sources... [ 66%] toy/index\n"
    stderr = "Traceback (most recent call last):\n  File 'x'\nAttributeError: no attribute 'astext'\n"
    said = book._build_problem(stdout, stderr, Path("/x"))
    assert said == "book/toy/index: the build broke: AttributeError: no attribute 'astext'"


def test_quotes_of_values_that_are_not_there_and_pages_nobody_lists_are_found(tmp_path):
    glued = {"cell_type": "code", "source": "", "metadata": {}, "outputs": [
        {"output_type": "display_data", "data": {}, "metadata": {"scrapbook": {"name": "best_mean", "mime_prefix": ""}}}]}  # fmt: skip
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/30_sweep.ipynb").write_text(json.dumps({"cells": [glued], "metadata": {}}))
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: index\nparts:\n- chapters:\n  - file: toy/index\n")
    (tmp_path / "index.md").write_text("# Toy\n\nIt has {glue:text}`toy/30_sweep.ipynb::best_mean:.2f`.\n")
    (tmp_path / "toy/index.md").write_text(
        "# Toy\n\n{glue:text}`30_sweep.ipynb::best_maen:.2f` and\n{glue:text}`40_rerank.ipynb::x:s`.\n\n"
        "```{glue:} fig\n:doc: 30_sweep.ipynb\n```\n\n```markdown\n{glue:text}`30_sweep.ipynb::an_example:s`\n```\n"
    )
    (tmp_path / "lost.md").write_text("# Lost\n")
    found = [line.removeprefix(f"{tmp_path}/") for line in book.check_glue(tmp_path)]
    assert found == [
        "lost.md: not in book/_toc.yml, so nobody will see it; list it there",
        "toy/index.md: line 3: 30_sweep.ipynb holds no value 'best_maen' (did you mean 'best_mean'?)",
        "toy/index.md: line 4: 40_rerank.ipynb holds no value 'x'",
        "toy/index.md: line 6: 30_sweep.ipynb holds no value 'fig'",
    ]
