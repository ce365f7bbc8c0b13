"""Tokenisers: text in, index terms out. One function serves documents and queries alike, and its name is recorded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

Tokenise = Callable[[str], list[str]]

_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[a-z0-9]+")
_IDENTIFIER = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")


def fold(text: str) -> str:
    """NFKC, soft hyphens removed, case folded: what matching compares."""
    return unicodedata.normalize("NFKC", text).replace("\u00ad", "").casefold()


def words(text: str) -> list[str]:
    """Runs of letters and digits of any script, folded."""
    return _WORD.findall(fold(text))


def ascii_words(text: str) -> list[str]:
    """`[a-z0-9]+` of the lower-cased text: the rule of many published BM25 figures. Loses every other letter; for comparison."""
    return _LATIN.findall(text.lower())


def code_aware(text: str) -> list[str]:
    """Words, and for identifiers also their parts: split at underscores, camelCase humps and digits before case is folded.

    >>> code_aware("parseHTTPHeader_v2")
    ['parsehttpheader_v2', 'parse', 'http', 'header', 'v', '2']
    """
    terms = []
    for token in _IDENTIFIER.findall(unicodedata.normalize("NFKC", text).replace("\u00ad", "")):
        terms.append(token.casefold())
        parts = [part.casefold() for part in _PARTS.findall(token)]
        if len(parts) > 1:
            terms.extend(parts)
    return terms


TOKENISERS: dict[str, Tokenise] = {"words": words, "ascii_words": ascii_words, "code_aware": code_aware}
