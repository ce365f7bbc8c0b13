"""Tokenisers: text in, index terms out. One function serves documents and queries alike, and its name is recorded.

A hyphen, an apostrophe and a separator inside a number end a word: `re entry` finds `re-entry`, `reentry` does not; `12,500` is `12`
and `500`, found by `12,500` and not by `12500`. A hyphen at a line end, which may be the printer's, gives both forms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache, reduce

from localeval.records import BadInput, near

Tokenise = Callable[[str], list[str]]

_LATIN = re.compile(r"[a-z0-9]+")
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+)"
)


@lru_cache
def _word() -> re.Pattern:
    """Runs of letters, digits and underscores with the marks that belong to them: Python's own class drops vowel signs."""
    marks = "".join(chr(code) for code in range(0x300, 0x20000) if unicodedata.category(chr(code)).startswith("M"))
    return re.compile(rf"\w[\w{marks}]*")


def _clean(text: str) -> str:
    return unicodedata.normalize("NFKC", text.replace("\u00ad", ""))


def fold(text: str) -> str:
    """NFKC, soft hyphens removed, case folded: what matching compares. The dot that folding leaves on a Turkish i is dropped."""
    return _clean(text).casefold().replace("i\u0307", "i")


def words(text: str) -> list[str]:
    """Runs of letters and digits of any script, folded; in scripts without spaces each letter and each pair of neighbours.

    >>> words("Re-entry 茶碗と")
    ['re', 'entry', '茶', '茶碗', '碗', '碗と', 'と']
    >>> words("lan-\\nterns")
    ['lan', 'terns', 'lanterns']
    """
    return list(_runs(fold(text)))


def words_tr(text: str) -> list[str]:
    """`words` in Turkish case: `I` is the capital of `ı`, and `İ` of `i`."""
    return words(_clean(text).replace("I", "ı").replace("İ", "i"))


def token_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Offsets of the tokens that sizes are counted in: a run of letters and digits, one letter of a script without spaces, or one
    other sign. A mark stays with its letter."""
    at = 0
    for run in _word().finditer(text):
        yield from ((place, place + 1) for place in range(at, run.start()) if not text[place].isspace())
        at = run.start()
        for place, part in enumerate(UNSPACED.split(run[0])):
            step = 1 if place % 2 else max(1, len(part))
            yield from ((start, min(start + step, at + len(part))) for start in range(at, at + len(part), step))
            at += len(part)
    yield from ((place, place + 1) for place in range(at, len(text)) if not text[place].isspace())


_DIVIDED = re.compile(r"(?<=[^\W\d_])[-‐][ \t]*\n\s*(?=[^\W\d_])")
_LAST, _FIRST = re.compile(r"\w+$"), re.compile(r"\w+")
_LONGEST = 60  # letters on either side of a line end; more are no word


def _runs(text: str) -> Iterator[str]:
    """Words of the text; those that a hyphen divides at a line end in parts, and once more joined, at the end."""
    for run in _word().findall(text):
        if run.isascii():
            yield run
            continue
        for place, part in enumerate(UNSPACED.split(run)):  # every second part is of a script without spaces
            if place % 2:
                yield from (one for at in range(len(part)) for one in dict.fromkeys((part[at], part[at : at + 2])))
            elif part:
                yield part
    for divided in _DIVIDED.finditer(text):
        start, end = divided.span()
        joined = _LAST.search(text, max(0, start - _LONGEST), start)[0] + _FIRST.match(text, end, end + _LONGEST)[0]
        if not UNSPACED.search(joined):
            yield joined


def ascii_words(text: str) -> list[str]:
    """`[a-z0-9]+` of the lower-cased text: the rule of many published BM25 figures. Loses every other letter; for comparison.

    Words divided at a line end stay in parts: the rule knows no lines.
    """
    return _LATIN.findall(text.lower())


def code_aware(text: str) -> list[str]:
    """Words, and for identifiers also their parts: split at underscores, camelCase humps and digits before case is folded.

    >>> code_aware("parseHTTPHeader_v2")
    ['parsehttpheader_v2', 'parse', 'http', 'header', 'v', '2']
    >>> code_aware("für")
    ['für']
    """
    return [term for token in _runs(_clean(text)) for term in _identifier(token)]


@lru_cache(maxsize=1 << 17)
def _identifier(token: str) -> tuple[str, ...]:
    """The token folded, and its parts where it has several. Kept, since words come again."""
    token = token.strip("_")
    if not token:
        return ()
    parts = [fold(part) for part in _humps(token)]
    return (fold(token), *(parts if len(parts) > 1 else ()))


def _humps(token: str) -> list[str]:
    """Parts of an identifier, in letters of any script: cut at underscores, before digits and after them, before a capital that
    follows a small letter, and before the last capital of several when a small letter follows."""
    parts = [""]
    for at, letter in enumerate(token):
        before, after = token[at - 1 : at], token[at + 1 : at + 2]
        digit = before.isdigit() != letter.isdigit() and bool(before) and not unicodedata.combining(letter)
        hump = letter.isupper() and (before.islower() or (before.isupper() and after.islower()))
        if letter == "_" or digit or hump:
            parts.append("")
        parts[-1] += "" if letter == "_" else letter
    return [part for part in parts if part]


TOKENISERS: dict[str, Tokenise] = {
    "words": words, "words_tr": words_tr, "ascii_words": ascii_words, "code_aware": code_aware
}  # fmt: skip

STOP_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(text.split())
    for language, text in {
        "en": "a an and are as at be been but by can do does for from had has have how if in into is it its not of on or so that the "
        "their then there these they this to was were what when where which who why will with you your",
        "tr": "acaba ama bir biri bu bunu da daha de değil diye en gibi hangi hem her için ile ise kadar ki kim mi mı mu mü nasıl ne "
        "neden nerede o olan olarak olur şu ve veya ya",
        "de": "aber als am an auch auf aus bei das dass dem den der des die ein eine einem einen einer eines er es für hat ich ihr im in "
        "ist mit nach nicht noch nur oder sein sich sie sind so über um und von vor war was wenn wer wie wird wo zu zum zur",
        "fr": "à au aux avec ce ces cette comment dans de des du elle en est et il ils la le les leur mais ne où ou par pas plus pour "
        "que quel quelle qui quoi sa se ses son sont sur un une",
        "es": "a al como cómo con cuál cuando de del donde dónde el ella en es esta este la las lo los más no o para pero por qué que "
        "quien se sin son su sus un una y ya",
    }.items()
}
SNOWBALL = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish", "fi": "finnish", "fr": "french",
    "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sv": "swedish", "tr": "turkish",
}  # fmt: skip


def _without_stop_words(language: str) -> Tokenise:
    left_out = _named(STOP_WORDS, language, "stop words")
    return lambda terms: [term for term in terms if term not in left_out]


def _snowball(language: str) -> Tokenise:
    """Porter's Snowball stems (snowballstemmer)."""
    import snowballstemmer

    stem = lru_cache(maxsize=1 << 17)(snowballstemmer.stemmer(_named(SNOWBALL, language, "Snowball stems")).stemWord)
    return lambda terms: [stem(term) for term in terms]


def _prefix(length: str) -> Tokenise:
    """The first letters of each term: a stemmer for languages that build words at their end (Can et al. 2008: 5 for Turkish)."""
    if not length.isdecimal() or not 1 <= int(length) <= 50:
        raise BadInput(f"tokeniser: prefix:{length} is no length; write prefix:5")
    return lambda terms: [term[: int(length)] for term in terms]


def _named(known: dict, name: str, what: str):
    if name not in known:
        raise BadInput(f"tokeniser: no {what} for {name!r}; known: {', '.join(known)}")
    return known[name]


STEPS: dict[str, Callable[[str], Tokenise]] = {"stop": _without_stop_words, "snowball": _snowball, "prefix": _prefix}


def tokeniser(name: str) -> Tokenise:
    """A tokeniser by name, with steps after plus signs, taken from left to right: the name is what results record.

    Steps: `stop:LANGUAGE` leaves out frequent short words, `snowball:LANGUAGE` and `prefix:LENGTH` cut words to stems.

    >>> tokeniser("words+stop:en+prefix:4")("The kettles in the kitchen")
    ['kett', 'kitc']
    """
    first, *steps = name.split("+")
    if first not in TOKENISERS:
        raise BadInput(f"unknown tokeniser {first!r}{near(first, TOKENISERS)}; known: {', '.join(TOKENISERS)}")
    made = []
    for step in steps:
        kind, _, value = step.partition(":")
        if kind not in STEPS:
            raise BadInput(f"tokeniser {name}: unknown step {kind!r}{near(kind, STEPS)}; known: {', '.join(STEPS)}")
        made.append(STEPS[kind](value))
    return reduce(lambda before, after: lambda text: after(before(text)), made, TOKENISERS[first])
