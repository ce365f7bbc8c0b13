"""Answers and verdicts that need no language model: the best sentence of the passages, and a check by spans, numbers, names, negation.

They are rules and make the errors of rules: an answer is one sentence of a passage, so it is supported by construction, and whether it
answers is judged by its words. What the checker gets wrong is measured by hand (`handcheck`), not assumed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from localeval.chunking import sentences
from localeval.records import BadInput, near
from localeval.tokens import STOP_WORDS, fold, words

SHORTEST = 3  # words; a shorter sentence is a heading or a scrap
STEM = 6  # letters of a word that are compared: a plain stemmer that needs no language


def content(text: str, language: str = "en") -> list[str]:
    """The words that carry meaning: no stop words, cut to their first letters; numbers whole."""
    left_out = STOP_WORDS.get(language, frozenset())
    return [term if term.isdigit() else term[:STEM] for term in words(text) if term not in left_out]


# The extractive answerer


@dataclass(frozen=True)
class Candidate:
    """The best sentence for a question and its score, 0 to 1. text: empty where no passage has a sentence."""

    text: str
    score: float


class Extractive:
    """Scores every sentence of the passages: the share of the question's words it holds, each weighed by its rarity in the corpus;
    a little for the sentences beside it and for the passage's rank. frequency: in how many of n chunks a word stands."""

    name, family = "best sentence", "rules that choose a sentence"

    def __init__(self, frequency: Mapping[str, int], n: int, language: str = "en"):
        self._frequency, self._n, self._language = frequency, n, language

    def best(self, question: str, passages: Sequence[str]) -> Candidate:
        asked = {term: self._rarity(term) for term in set(content(question, self._language))}
        whole = sum(asked.values())
        found = Candidate("", 0.0)
        for rank, passage in enumerate(passages):
            texts = [passage[start:end] for start, end in sentences(passage)]
            shares = [self._share(text, asked, whole) for text in texts]
            for place, text in enumerate(texts):
                beside = max([*shares[max(0, place - 1) : place], *shares[place + 1 : place + 2], 0.0])
                score = 0.8 * shares[place] + 0.15 * beside + 0.05 / (1 + rank)
                if len(words(text)) >= SHORTEST and score > found.score + 1e-12:
                    found = Candidate(" ".join(text.split()), score)
        return found

    def _rarity(self, term: str) -> float:
        held = self._frequency.get(term, 0)
        return math.log(1 + (self._n - held + 0.5) / (held + 0.5))

    def _share(self, text: str, asked: Mapping[str, float], whole: float) -> float:
        there = set(content(text, self._language))
        return sum(weight for term, weight in asked.items() if term in there) / whole if whole else 0.0


def rarities(texts: Iterable[str], language: str = "en") -> tuple[Counter, int]:
    """In how many texts each word of `content` stands, and how many texts there are."""
    frequency, n = Counter(), 0
    for text in texts:
        frequency.update(set(content(text, language)))
        n += 1
    return frequency, n


def calibrate(scores: Sequence[float], good: Sequence[bool]) -> float:
    """The threshold at or above which to answer: the one with the highest share of good answers let through plus share of bad ones
    held back (Youden 1950); ties: the highest. Without both kinds nothing can be told apart, and everything is answered."""
    scores, good = np.asarray(scores, dtype=float), np.asarray(good, dtype=bool)
    if good.all() or not good.any():
        return -math.inf
    cuts = np.unique(scores)[::-1]
    gains = [(scores[good] >= cut).mean() - (scores[~good] >= cut).mean() for cut in cuts]
    return float(cuts[int(np.argmax(gains))])


# The deterministic checker

NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
NUMBER_WORDS = {  # where "one" is mostly an article, it is left out
    language: {word: str(number) for number, word in enumerate(text.split())}
    for language, text in {
        "en": "zero one two three four five six seven eight nine ten eleven twelve",
        "tr": "sıfır - iki üç dört beş altı yedi sekiz dokuz on",
        "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "fr": "zéro - deux trois quatre cinq six sept huit neuf dix onze douze",
        "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
    }.items()
}
NEGATION = {
    "en": re.compile(r"\b(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|\w+n['’]t)\b", re.I),
    "tr": re.compile(r"\b(?:değil\w*|yok\w*|hiç\w*|asla|\w+(?:ma|me)(?:z|dı|di|mış|miş|yor)\w*)\b", re.I),
    "de": re.compile(r"\b(?:nicht|kein\w*|nie|niemals|nichts|ohne|weder)\b", re.I),
    "fr": re.compile(r"\b(?:pas|jamais|aucune?|rien|sans|ni)\b", re.I),
    "es": re.compile(r"\b(?:no|nunca|jamás|ning[uú]n\w*|nada|sin|ni|tampoco)\b", re.I),
}
NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-ZÀ-ÖØ-Þİ][\w’'-]{2,}")
ENOUGH = 0.6  # share of a claim's words that one place of a passage must hold
SUBSTANCE = 0.5  # share of a quote's words that an answer must hold to convey it


def numbers(text: str, language: str = "en") -> set[str]:
    """Numbers as they are meant: `1,200` is 1200, `0.50` is 0.5, `three` is 3."""
    named = NUMBER_WORDS.get(language, {})
    found = set()
    for match in NUMBER.finditer(text):
        plain = re.sub(r",(?=\d{3}\b)", "", match[0]).replace(",", ".")
        found.add(plain.rstrip("0").rstrip(".") if plain.count(".") == 1 else plain)
    return found | {named[word] for word in words(text) if word in named}


def names(text: str) -> set[str]:
    """Words with a capital inside a sentence, folded: people, places, products."""
    return {fold(match[0]) for match in NAME.finditer(" ".join(text.split()))}


def negated(text: str, language: str = "en") -> bool:
    return len(NEGATION[language].findall(text)) % 2 == 1


def flat(text: str) -> str:
    """Text as spans are compared in: folded words, one space between them."""
    return f" {' '.join(words(text))} "


@dataclass(frozen=True)
class Checker:
    """Judges by rules. supported: every sentence of the answer stands in a passage, or one place of a passage holds most of its words,
    all its numbers and names, and the same negation. answers_question: the answer holds a gold quote or lies in one, or holds enough
    of its words, one of its numbers where it has any, and the same negation."""

    language: str = "en"
    name: str = "rule checker"
    family: str = "rules that match words"

    def __post_init__(self):
        if self.language not in NEGATION:
            known = ", ".join(NEGATION)
            raise BadInput(
                f"language: the checker knows no negation in {self.language!r}{near(self.language, NEGATION)}; known: {known}"
            )

    def supported(self, answer: str, passages: Sequence[str]) -> bool:
        claims = [answer[start:end] for start, end in sentences(answer)]
        return bool(claims) and all(any(self._stated(claim, passage) for passage in passages) for claim in claims)

    def _stated(self, claim: str, passage: str) -> bool:
        if flat(claim) in flat(passage):
            return True
        texts = [passage[start:end] for start, end in sentences(passage)]
        return any(self._same(claim, " ".join(texts[place : place + 2])) for place in range(len(texts)))

    def _same(self, claim: str, place: str) -> bool:
        held, wanted = set(content(place, self.language)), set(content(claim, self.language))
        enough = bool(wanted) and len(wanted & held) / len(wanted) >= ENOUGH
        stated = numbers(claim, self.language) <= numbers(place, self.language) and names(claim) <= {
            fold(word) for word in re.findall(r"[\w’'-]+", place)
        }
        return enough and stated and negated(claim, self.language) == negated(place, self.language)

    def answers(self, answer: str, quotes: Sequence[str]) -> bool:
        return any(self._conveys(answer, quote) for quote in quotes)

    def _conveys(self, answer: str, quote: str) -> bool:
        one, other = flat(answer), flat(quote)
        if other.strip() and (other in one or (one in other and len(one) >= SUBSTANCE * len(other))):
            return True
        wanted = set(content(quote, self.language))
        share = len(wanted & set(content(answer, self.language))) / len(wanted) if wanted else 0.0
        figures = numbers(quote, self.language)
        agrees = not figures or bool(figures & numbers(answer, self.language))
        return share >= SUBSTANCE and agrees and negated(answer, self.language) == negated(quote, self.language)
