"""The handbook study's data: documents that rebuild to what is committed, and questions that hold on them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

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
    assert gold.dump(gold.load(path, handbook)) == path.read_text(encoding="utf-8"), "anchors are complete and current"
