"""Templated questions: made from headings and sentences by a fixed rule and a seed, without a language model.

They are reproducible and cheap, and they repeat the words of their evidence, which favours lexical engines. They are a
stratum of their own (`origin` is "templated") and are never pooled with questions that people wrote.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

from localeval.chunking import sections, sentences
from localeval.corpus import Corpus
from localeval.gold import anchor, find_quote, prepare
from localeval.records import Document, Evidence, Query, Span
from localeval.tokens import words

SECTION = "What is discussed in the section “{}”?"
FACTUAL = "What is said about {} and {}?"
SENTENCE = (60, 300)  # characters of a sentence that can serve as evidence


def templated(corpus: Corpus, *, per_document: int = 5, unanswerable: int = 0, seed: int = 0) -> list[Query]:
    """At most `per_document` section and as many factual questions for each document, and some that nothing answers.

    A section question carries its section and the first usable sentence in it; a factual one names the two rarest words of a
    sentence. Only sentences that occur once in their document are used. Unanswerable ones ask for headings made of two real ones.
    """
    draw, queries = random.Random(seed), []
    frequency = Counter(word for doc in corpus.documents for word in words(doc.text))
    for number, document in enumerate(corpus.documents):
        about_sections = list(_section_questions(document, corpus))
        facts = list(_factual_questions(document, corpus, frequency))
        for kind, drafts in (("section", about_sections), ("factual", facts)):
            chosen = sorted(draw.sample(range(len(drafts)), min(per_document, len(drafts))))
            queries += [_query(f"t{number:02d}-{kind}-{i:03d}", kind, *drafts[at]) for i, at in enumerate(chosen)]
    queries += [
        _query(f"t-none-{i:03d}", "unanswerable", text, ())
        for i, text in enumerate(_made_up(corpus, unanswerable, draw))
    ]
    return queries


def _query(query_id: str, category: str, text: str, evidence: tuple[Evidence, ...]) -> Query:
    return Query(query_id, text, evidence, category=category, origin="templated")


def _usable(document: Document, start: int, end: int) -> Iterator[Span]:
    for low, high in sentences(document.text, start, end):
        text = document.text[low:high]
        prose = (
            SENTENCE[0] <= len(text) <= SENTENCE[1] and text.endswith(".") and text[0].isupper() and "\n\n" not in text
        )
        if prose and len(find_quote(document.text, text)) == 1:
            yield Span(document.doc_id, low, high)


def _section_questions(document: Document, corpus: Corpus) -> Iterator[tuple[str, tuple[Evidence, ...]]]:
    found = [(start, end, path[-1]) for start, end, path in sections(document, corpus.layouts[document.doc_id]) if path]
    often = Counter(heading for _, _, heading in found)
    for start, end, heading in found:
        sentence = next(_usable(document, start, end), None)
        if sentence and often[heading] == 1 and any(letter.isalpha() for letter in heading):
            whole = Evidence(Span(document.doc_id, start, end), 1, "section", heading)
            yield SECTION.format(heading), (whole, Evidence(sentence, 2, **anchor(corpus, sentence)))


def _factual_questions(
    document: Document, corpus: Corpus, frequency: Counter
) -> Iterator[tuple[str, tuple[Evidence, ...]]]:
    for sentence in _usable(document, 0, len(document.text)):
        terms = sorted(
            {word for word in words(document[sentence]) if len(word) > 4 and word.isalpha()},
            key=lambda w: (frequency[w], w),
        )
        if len(terms) >= 2:
            yield FACTUAL.format(*terms[:2]), (Evidence(sentence, 2, **anchor(corpus, sentence)),)


def _made_up(corpus: Corpus, wanted: int, draw: random.Random) -> list[str]:
    headings = sorted(
        {path[-1] for doc in corpus.documents for _, _, path in sections(doc, corpus.layouts[doc.doc_id]) if path}
    )
    if not wanted or len(headings) < 2:
        return []
    texts = [prepare(doc.text) for doc in corpus.documents]
    made: dict[str, None] = {}
    for _ in range(50 * wanted):
        if len(made) == wanted:
            break
        one, two = draw.sample(headings, 2)
        heading = f"{one.split()[0]} {two.split()[-1]}"
        if not any(find_quote(text, heading) for text in texts):
            made[SECTION.format(heading)] = None
    return list(made)
