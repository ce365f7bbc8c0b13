"""Templated questions: same seed, same questions; anchors that load; never pooled by accident."""

from __future__ import annotations

from localeval import drafting, gold
from localeval.corpus import Corpus, Heading, Layout, make_document, read_plain

TEXT = """# Kilns

A kiln with thick walls cools slowly and wastes less of the fuel that was burnt in it.

## Glazes

Celadon glazes owe their pale green colour to a little iron that was fired without much air.

## Stacking

Tall pieces stand in the middle, where the flame is steady, and small bowls fill the shelves.
"""


def corpus(tmp_path):
    (tmp_path / "kilns.md").write_text(TEXT)
    document, layout = read_plain(tmp_path / "kilns.md", "kilns.md")
    return Corpus((document,), {"kilns.md": layout}, {})


def test_same_seed_same_questions(tmp_path):
    read = corpus(tmp_path)
    one = drafting.templated(read, per_document=2, unanswerable=1, seed=3)
    assert one == drafting.templated(read, per_document=2, unanswerable=1, seed=3)
    assert [query.category for query in one] == ["section", "section", "factual", "factual", "unanswerable"]
    assert {query.origin for query in one} == {"templated"}


def test_a_section_question_carries_its_section_and_a_sentence(tmp_path):
    read = corpus(tmp_path)
    query = next(q for q in drafting.templated(read, per_document=9) if "Glazes" in q.text)
    assert [item.kind for item in query.evidence] == ["section", "span"]
    section, sentence = query.evidence
    assert section.span.contains(sentence.span) and read.text(sentence.span).startswith("Celadon")


def test_drafts_load_as_gold(tmp_path):
    read = corpus(tmp_path)
    queries = drafting.templated(read, per_document=9, unanswerable=2)
    (tmp_path / "gold.jsonl").write_text(gold.dump(queries), encoding="utf-8")
    assert gold.load(tmp_path / "gold.jsonl", read) == queries


def test_a_document_without_headings_or_sentences_has_no_questions():
    document = make_document("a.txt", "too short", b"")
    assert drafting.templated(Corpus((document,), {"a.txt": Layout("a.txt")}, {}), per_document=5, unanswerable=3) == []


def test_made_up_headings_fold_each_document_once(monkeypatch):
    texts = [f"# K{i} kiln\n\nWords.\n\n# G{i} glaze\n\nWords." for i in range(40)]
    documents = tuple(make_document(f"{i:02d}.md", text, b"") for i, text in enumerate(texts))
    layouts = {
        doc.doc_id: Layout(
            doc.doc_id,
            headings=(Heading(0, doc.text.index("\n"), 1), Heading(doc.text.index("# G"), doc.text.rindex("\n\n"), 1)),
        )
        for doc in documents
    }
    folded, fold = [], gold.fold
    monkeypatch.setattr(gold, "fold", lambda text: folded.append(text) or fold(text))
    queries = drafting.templated(Corpus(documents, layouts, {}), per_document=0, unanswerable=10)
    assert len(queries) == 10 and all(not query.answerable for query in queries)
    assert sorted(text for text in folded if len(text) > 20) == sorted(texts)
