"""Groups of questions by what their evidence stands on: the class of its pages, the kind of its document."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from localeval import quality
from localeval.corpus import Corpus, Signals
from localeval.records import Query

SEVERAL = "several"  # the class of a question whose pieces of evidence are of different classes


def page_classes(corpus: Corpus) -> pd.DataFrame:
    """The class of every page as ingestion gives it, and by its text alone. Columns: doc_id, page_index, class, text_class."""
    pages = quality.page_table(corpus)
    texts = [corpus.text(unit.span) for unit in corpus.pages()]
    alone = [quality.classify(quality.features(text), Signals())[0] for text in texts]
    return pages[["doc_id", "page_index", "class"]].assign(text_class=alone)


def question_classes(queries: Sequence[Query], source: Corpus, pages: pd.DataFrame, column: str) -> dict[str, str]:
    """The class of the pages that a question's evidence stands on; SEVERAL where they differ. pages: of `page_classes`."""
    known = {(row["doc_id"], row["page_index"]): row[column] for row in pages.to_dict("records")}
    found = {}
    for query in queries:
        layouts = source.layouts
        classes = {
            known[item.span.doc_id, _page_index(layouts[item.span.doc_id], item.span)] for item in query.evidence
        }
        if classes:
            found[query.query_id] = classes.pop() if len(classes) == 1 else SEVERAL
    return found


def _page_index(layout, span) -> int:
    """Of the page the span stands on; a document without pages is one page."""
    return layout.page_of(span) if layout.pages else 0


def question_kinds(queries: Sequence[Query], kinds: dict[str, str]) -> dict[str, str]:
    """The kind of document that a question's evidence stands in; SEVERAL where they differ. kinds: doc_id -> kind."""
    found = {}
    for query in queries:
        own = {kinds.get(item.span.doc_id, "not labelled") for item in query.evidence}
        if own:
            found[query.query_id] = own.pop() if len(own) == 1 else SEVERAL
    return found
