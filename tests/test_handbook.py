"""The handbook study's data: documents that rebuild to what is committed, and questions that hold on them."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pymupdf
import pytest

from localeval import corpus, gold

DATA = Path(__file__).resolve().parents[1] / "data" / "handbook"


@pytest.fixture(scope="module")
def handbook():
    return corpus.load(DATA / "corpus")


def test_documents_are_built_the_same_twice(tmp_path):
    """Two processes, same bytes; and the committed files hold the text that the sources give now."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import build, pathlib\n"
        "for path in sorted((pathlib.Path(sys.argv[1]) / 'sources').glob('*.md')):\n"
        "    (pathlib.Path(sys.argv[2]) / (path.stem + '.pdf')).write_bytes(build.typeset(path))"
    )
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        subprocess.run([sys.executable, "-c", code, str(DATA), str(tmp_path / name)], check=True)
    one, two = (sorted((tmp_path / name).iterdir()) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    built, committed = corpus.load(tmp_path / "one"), corpus.load(DATA / "corpus")
    assert [doc.text_sha256 for doc in built.documents] == [doc.text_sha256 for doc in committed.documents]


SOURCE = """---
title: A test
columns: {columns}
---

# Contents

<!-- contents -->

<!-- body -->

# 1 First

## 1.1 Short

A word<!-- index: zebra; ant --> with a note.[^1] {words}

{words} another[^2] {words}

[^1]: The first note.

[^2]: The second note.

```formula 1.1
*a*<sup>2</sup> + *b*
```

# 2 Second

Again.<!-- index: ant; emmet = ant -->

# Index

<!-- index -->
"""


@pytest.fixture
def build(monkeypatch):
    monkeypatch.syspath_prepend(str(DATA))
    return importlib.import_module("build")


@pytest.mark.parametrize("columns", [1, 2])
def test_contents_notes_formulas_and_index_are_set(build, tmp_path, columns):
    source = tmp_path / "source.md"
    source.write_text(SOURCE.format(columns=columns, words="and so on " * 380), encoding="utf-8")
    pages = [page.get_text() for page in pymupdf.open(stream=build.typeset(source))]
    again, second = (next(n for n, page in enumerate(pages) if mark in page) for mark in ("Again.", "The second note."))
    assert again > 2 and re.search(rf"2 Second\s+(\. ){{20,}}\.\s+{again - 1}\n", pages[1]), "the cover is page i"
    assert f"ant, 1, {again - 1}\nemmet, see ant\nzebra, 1" in pages[-1]
    assert "The first note." in pages[2] and "another" in pages[second]
    assert any("a2 + b" in page and "(1.1)" in page for page in pages)


def test_a_footnote_that_cannot_be_set_is_refused(build, tmp_path):
    source = tmp_path / "source.md"
    source.write_text("---\ntitle: A test\n---\nText.[^1]\n[^1]: Runs on.\n", encoding="utf-8")
    with pytest.raises(build.BadInput, match="paragraph of its own"):
        build.typeset(source)
    source.write_text("---\ntitle: A test\n---\n| a[^1] |\n|---|\n\n[^1]: Note.\n", encoding="utf-8")
    with pytest.raises(build.BadInput, match="line 4: no footnotes in tables"):
        build.typeset(source)


def test_documents_look_like_real_ones(handbook):
    layouts = handbook.layouts.values()
    assert len(layouts) >= 3 and sum(len(layout.pages) for layout in layouts) >= 20
    for layout in layouts:
        assert {heading.level for heading in layout.headings} == {1, 2, 3}, layout.doc_id
        assert any(page.label != str(page.index + 1) for page in layout.pages) and layout.pages[0].label == "i"
        assert len(layout.boilerplate) >= len(layout.pages), "running headers and page numbers are marked"


def test_questions_hold_on_the_documents(handbook):
    queries = gold.load(DATA / "gold.jsonl", handbook)
    answerable = [query for query in queries if query.answerable]
    assert len(answerable) >= 25 and len(queries) - len(answerable) >= 6
    assert all(query.text.endswith("?") and query.review for query in queries)
    assert all(item.page_index is not None for query in answerable for item in query.evidence)
    kinds = Counter(query.category for query in answerable)
    assert {"paraphrase", "numeric", "table", "definition", "multi_span", "cross_document"} <= set(kinds)
    crossing = [query for query in answerable if query.category == "cross_document"]
    assert all(len({item.span.doc_id for item in query.evidence}) > 1 for query in crossing)


def test_the_gold_file_is_complete_and_in_its_own_format(handbook):
    path = DATA / "gold.jsonl"
    told = gold.dump(gold.load(path, handbook)).replace(', "source": "authored"', "")  # the file leaves the default out
    assert told == path.read_text(encoding="utf-8"), "anchors are complete and current"
