"""Is a page fit to be searched? Features of its text, signals of its PDF, a class, a score, and a reason in words.

Text alone cannot tell a scan with a readable OCR layer from a born-digital page, so the rules use both: 18 features
that need nothing but the text, and what the page shows beside it (`corpus.Signals`). No model, network or randomness.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pandas as pd

from localeval.corpus import Corpus, Layout, Page, Reading, Signals

CLASSES = ("digital_clean", "likely_scanned", "mixed_or_uncertain", "low_text", "digital_noisy", "blank")
FEATURES = (
    "n_chars",  # characters that are not white space
    "alpha",  # shares of them: letters,
    "digit",  # digits,
    "symbol",  # neither of both nor common punctuation,
    "bad_char",  # replacement, private-use and control characters in words, and "(cid:n)"; not bullets and lone signs
    "latin",  # share of the letters that are Latin
    "single_token",  # shares of the tokens, which white space separates: one Latin letter,
    "long_token",  # more than 25 letters in a row,
    "good_token",  # shaped like a word, a number or an identifier,
    "stopword",  # a frequent short word of twenty languages, of two letters or more,
    "mixed_script",  # letters of scripts that do not stand together
    "vowel",  # share of the Latin letters
    "mean_line",  # characters
    "short_line",  # share of the lines under 20 characters
    "broken_line",  # share of the letters in long lines of hardly a vowel and no stopword, or of letters with accents
    "confusion",  # shares of the tokens: digits or bars among letters, as OCR misreads them,
    "inner_punct",  # punctuation between letters
    "bigram_entropy",  # bits: entropy of a letter given the one before it
)
SIGNALS = tuple(field.name for field in fields(Signals))
READING = ("reading", "engine", "dpi", "word_confidence", "before", "after")  # `corpus.Reading`; reading is its state
PAGE_COLUMNS = (
    *("doc_id", "page_index", "page_label", "class", "quality", "confidence", "reason"),
    *(*FEATURES, *SIGNALS, *READING),
)
DOCUMENT_COLUMNS = (
    *("doc_id", "pages", "blank", "short", "clean_fraction", "mean_quality", "degraded_fraction"),
    *("verdict", "failed_guard"),
)

# Weights of the part scores; each row sums to 1.
QUALITY_WEIGHTS = {"chars": 0.22, "words": 0.26, "language": 0.14, "confusion": 0.12, "lines": 0.10, "entropy": 0.06}
QUALITY_WEIGHTS |= {"volume": 0.10}
CONFIDENCE_WEIGHTS = {"volume": 0.20, "chars": 0.22, "words": 0.22, "language": 0.16, "confusion": 0.12, "lines": 0.08}

# Of twenty languages at once, to tell prose from no language; `tokens.STOP_WORDS` are those a search in one language leaves out.
STOPWORDS = frozenset(
    re.findall(
        r"\w\w+",  # a letter alone would also be found in letter-spaced text
        """the of and to in is for that with as are on by be this or an it at from not can which if
        ve bir bu için ile da de olarak olan gibi daha en çok ya var
        der die das und den von zu mit ist im nicht ein eine auf für dem des als auch sich
        le la les des et est une du dans pour que qui par sur pas au un en
        el los las del una por con para se como más su al lo y
        il di che per non sono della si nel o os do um uma com na no em não
        het een van dat niet zijn voor met op
        och att det som är på av för med den till inte har om jag ett og er ikke til ved også hvis kan
        ja on ei se että kun hän ovat niin mutta joka tai olla
        je na se že to za by od do ako sa aj nie jak jest są oraz przez dla które tym lub być czy po
        és az hogy nem egy ez ha csak vagy meg is și nu este sau din pe care sunt iar mai
        dan yang di untuk dengan ini dari dalam và là của có được cho không các một với
        els amb és dels que si fer""",
    )
)


def _of(origin: str, default: float, decides: str):
    """A threshold: where its value comes from, the value, and what it decides."""
    return field(default=default, metadata={"origin": origin, "decides": decides})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Every number the rules compare with; the fields' metadata say where it comes from and what it decides.

    published: the study whose document rule this is. measured: set on pages of 52 documents of known origin (born-digital
    in several scripts, scans with and without OCR, broken encodings) and on 472 pages of other archives that a person labelled.
    chosen: says what a rule is for.
    """

    clean_fraction: float = _of(
        "published", 0.85, "guard one of a clean document: share of its pages that are digital clean, at least"
    )
    mean_quality: float = _of("published", 0.78, "guard two: mean quality of its pages, at least")
    degraded_fraction: float = _of(
        "published", 0.10, "guard three: share of its pages that are noisy or scanned, at most"
    )
    short_quality: float = _of(
        "measured",
        0.50,
        "a low text page of this quality is short and sound: it leaves the document rule as a blank page does",
    )
    ocr_confidence: float = _of("published", 0.55, "a page with less confidence is worth reading again with OCR")
    clean_quality: float = _of(
        "measured",
        0.70,
        "digital clean: quality of the page, at least; pages of code and tables that read well are above",
    )
    scan_image: float = _of(
        "measured", 0.50, "likely scanned: images on this share of the page, with less text than scan_chars"
    )
    scan_alone: float = _of("measured", 0.05, "likely scanned: images on this share of a page that holds nothing else")
    scan_chars: int = _of("measured", 100, "likely scanned: fewer characters than this under such images")
    low_text_chars: int = _of(
        "measured", 150, "low text: fewer characters; title pages and stubs lie below, pages of a few sentences above"
    )
    invisible_text: float = _of(
        "measured", 0.50, "likely scanned: an OCR layer is all invisible, a born-digital page never"
    )
    full_image: float = _of("measured", 0.80, "likely scanned: an image as large as this share of the page,")
    full_image_invisible: float = _of("measured", 0.05, "and under it this share of invisible text is enough")
    bad_char: float = _of(
        "measured",
        0.03,
        "digital noisy: share of unreadable characters; formulas and lists on sound pages have up to 0.026",
    )
    lost_ligatures: float = _of(
        "measured",
        0.005,
        "digital noisy: share of control characters among Latin letters; print has about one ligature in a hundred, and a "
        "font that lost one of them spoils each word with it",
    )
    removed_other: float = _of(
        "measured",
        0.10,
        "digital noisy: share of control characters in other scripts, where they are no lost ligatures",
    )
    mixed_script: float = _of(
        "measured", 0.08, "digital noisy: share of words that mix scripts, from a font read through the wrong table"
    )
    long_token: float = _of(
        "measured", 0.25, "digital noisy: share of overlong words, in text without spaces (Latin only)"
    )
    single_token: float = _of(
        "measured", 0.25, "digital noisy: share of single letters, in text with a space after each"
    )
    broken_line: float = _of(
        "measured",
        0.15,
        "digital noisy: share of letters in lines of no language, from one font read through the wrong table",
    )
    label_lines: float = _of(
        "measured", 0.80, "mixed or uncertain, not noisy: share of short lines, as a drawing's labels have them,"
    )
    label_vectors: int = _of("measured", 20, "and at least as many lines or areas drawn")
    figure_chars: int = _of(
        "measured", 300, "mixed or uncertain: with fewer characters such a page is a drawing, however good its labels"
    )
    latin: float = _of(
        "measured", 0.80, "rules on words are for Latin letters: other scripts have other spaces and vowels,"
    )
    letters: float = _of("chosen", 0.50, "and for pages of letters: a table of numbers and units has few vowels")
    good_token: float = _of(
        "measured", 0.72, "digital noisy: share of word-like words; the weakest clean Latin page is above"
    )
    vowel: float = _of(
        "measured", 0.24, "digital noisy: share of vowels; shifted letters have fewer than any language tried"
    )
    stopword: float = _of("measured", 0.02, "a page with fewer common words is no prose in a known language, and needs")
    common: float = _of(
        "measured", 0.10, "share of common words from which a page is prose, whatever signs and names are in it"
    )
    good_token_alone: float = _of("measured", 0.85, "this share of word-like words instead")
    sure_words: float = _of("measured", 92.0, "OCR this sure of its words (0 to 100) had 0.96 of them right (F1), and")
    unsure_words: float = _of("measured", 50.0, "68 had 0.66; down the same line, every second word is wrong")


DEFAULTS = Thresholds()
NATIVE = Reading()


def features(text: str) -> dict[str, float]:
    """The 18 FEATURES of a page, all 0 for a page without text. Dot leaders of tables of contents are left out."""
    text = _LEADERS.sub(" ", text)
    tokens, rows, kinds = text.split(), text.splitlines(), _kinds(text)
    lines = [len(line.strip()) for line in rows if line and not line.isspace()]
    latin, found = kinds["latin"], dict.fromkeys(FEATURES, 0)
    for names, count in Counter(map(_TOKENS.__getitem__, tokens)).items():  # hundreds of tokens, few combinations
        for name in names.split():
            found[name] += count
    signs = _SIGN if latin > 0.8 * kinds["alpha"] else _LONE
    lone = len(signs.findall(text)) if kinds["bad"] else 0  # they harm no word
    cid = sum(map(len, re.findall(r"\(cid:\d+\)", text))) if "(cid:" in text else 0
    total = sum(kinds[name] for name in ("bad", "alpha", "digit", "common", "symbol"))
    values = {name: count / max(1, len(tokens)) for name, count in found.items()}
    values |= {name: kinds[name] / max(1, total) for name in ("alpha", "digit", "symbol")}
    values |= {
        "n_chars": total,
        "bad_char": min(1.0, (kinds["bad"] - lone + cid) / max(1, total)),
        "latin": latin / max(1, kinds["alpha"]),
        "vowel": kinds["vowel"] / max(1, latin),
        "mean_line": sum(lines) / max(1, len(lines)),
        "short_line": sum([length < 20 for length in lines]) / max(1, len(lines)),
        "broken_line": _broken(rows) / max(1, kinds["alpha"]),
        "bigram_entropy": _bigram_entropy(text),
    }
    return {name: float(value) for name, value in values.items()}


_LEADERS = re.compile(r"[.·…_](?: ?[.·…_]){3,} ?")
_LONE = re.compile(
    r"(?m)(?:(?<!\S)|^[ \t]*)[\ufffd\ue000-\uf8ff](?!\S)|^[ \t]*[\ufffd\ue000-\uf8ff](?![\ufffd\ue000-\uf8ff])"
)


# In Latin text also one beside fewer than three letters: a bracket of a formula, as in "f\ufffdx(t)\ufffd".
_SIGN = re.compile(
    r"(?<![^\W\d_]{3})(?<![\ufffd\ue000-\uf8ff])[\ufffd\ue000-\uf8ff](?![\ufffd\ue000-\uf8ff])(?![^\W\d_]{3})|"
    + _LONE.pattern.removeprefix("(?m)"),
    re.MULTILINE,
)
_CODE_LINE, _ANY_WORD = re.compile(r"[(){}=<>_]"), re.compile(r"\w+")


def _kinds(text: str) -> dict[str, int]:
    """How many characters are of each of KINDS. ASCII is counted by a table, the few others one by one."""
    plain = text.encode("ascii", "ignore")
    counts = (np.bincount(np.frombuffer(plain, np.uint8), minlength=128) @ _ascii_kinds()).tolist()
    kinds = dict(zip(KINDS, counts, strict=True))
    for char, count in Counter(_NOT_ASCII.findall(text)).items() if len(plain) < len(text) else ():
        for kind in _CHARS[char]:
            kinds[kind] += count
    return kinds


KINDS = ("space", "bad", "alpha", "digit", "common", "symbol", "latin", "vowel")  # vowel: of the Latin letters
_NOT_ASCII = re.compile("[^\x00-\x7f]")


@lru_cache
def _ascii_kinds() -> np.ndarray:
    """One row a character, one column a kind: 1 where it is of that kind."""
    return np.array([[kind in _CHARS[chr(code)] for kind in KINDS] for code in range(128)], np.intp)


def _broken(lines: list[str]) -> int:
    """Letters in lines that are no language, as a font read through the wrong table leaves them on a page of others.

    Either most of them carry accents, as Cyrillic read as Latin has them; or there are 30 Latin letters or more in five
    words or more, fewer than a quarter of them vowels, without a stopword and without a sign of code.
    """
    found = 0
    for line in lines:
        accented = not line.isascii() and len(line) - len(line.encode("ascii", "ignore")) >= 5  # 0.6 of 8, or more
        odd = len(line) >= 34 and _no_language(line)  # 30 letters and four gaps
        if not accented and not odd:
            continue
        letters = [char for char in line if _script(char) == "LATIN"]
        accents = accented and len(letters) >= 8 and sum(not char.isascii() for char in letters) > 0.6 * len(letters)
        if accents or (odd and len(letters) >= 30 and sum(map(_is_vowel, letters)) < 0.25 * len(letters)):
            found += len(letters)
    return found


def _no_language(line: str) -> bool:
    """Five words or more, none of them a stopword, and no sign of code."""
    folded = line.casefold()
    if not STOPWORDS.isdisjoint(folded.split()) or _CODE_LINE.search(line):  # by far the most
        return False
    words = _ANY_WORD.findall(folded)
    return len(words) >= 5 and STOPWORDS.isdisjoint(words)


@lru_cache(maxsize=1 << 14)
def _kind(char: str) -> str:
    category = unicodedata.category(char)
    if char.isspace():
        return "space"
    if char == "\ufffd" or category in ("Co", "Cc", "Cn", "Cs"):
        return "bad"
    if category[0] in "LM":
        return "alpha"
    return "digit" if category == "Nd" else "common" if char in ".,;:!?'\"()-/‐–—‘’“”«»،؛؟、。「」" else "symbol"


@lru_cache(maxsize=1 << 14)
def _script(char: str) -> str:
    """First word of the letter's Unicode name ("LATIN", "ARABIC", "CJK"); empty for what is no letter."""
    return unicodedata.name(char, "").split(" ")[0] if char.isalpha() else ""


@lru_cache(maxsize=1 << 14)
def _is_vowel(char: str) -> bool:
    return unicodedata.normalize("NFD", char)[0].casefold() in "aeiouyıæœøå"


_MIXABLE = {"", "MODIFIER", "FULLWIDTH", "HALFWIDTH", "CJK", "BOPOMOFO", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}
_MIXABLE |= {"HANGUL", "ARABIC", "GREEK"}
_RUN = re.compile(r"[^\W\d_]{26}")
_WORD = re.compile(r"[´`¨]?[^\W\d_]+(?:['’.\-‐/_:@&´`¨˜ˆ¸ˇ˘˝]+[^\W\d_]+)*\d{0,2}")  # some fonts set accents apart
_ALIKE = re.compile(r"[aceiopxyïABCEHIKMOPTXÏ]")  # Latin letters that stand in for Cyrillic ones
_NUMBER = re.compile(r"[-+−±~<>=]?[$€£§#]?\d+(?:[.,:/–\-]\d+)*(?:%|°|st|nd|rd|th|[a-zA-Z]{1,2})?")
_CODE_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]+h?|[0-9][0-9A-Fa-f]*[hH]|[0-9A-F]{2,8}")
_OPERATOR = re.compile(r"[−=+∂∇∑∏∫√≤≥≈≠×±∈→∞]")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_+")
_LIKE_CODE = re.compile(r"[\\#@%&$-]*[A-Za-z_.$][\w.$@\\]*(?:[(\[{=<:/~*-].*)?|<?/?\w+[>;]|[^\w\s]{1,3}")


class _Chars(dict):
    """Which of KINDS a character is; worked out when first asked for."""

    def __missing__(self, char: str) -> tuple[str, ...]:
        latin = _script(char) == "LATIN"
        self[char] = told = (_kind(char),) + ("latin",) * latin + ("vowel",) * (latin and _is_vowel(char))
        return told


class _Tokens(dict):
    """The names of the features that a token has, in one word each; worked out when first asked for, and kept for the pages to
    come. As one text, for its hash is worked out once."""

    def __missing__(self, token: str) -> str:
        if len(self) >= MOST_TOKENS:
            self.clear()
        core = token.strip(_AROUND)
        if core != token:  # the signs around a word change none of its features
            told = self[core]
        else:
            names = " ".join(_token_features(core))
            told = _COMBINATIONS.setdefault(names, names)
        self[token] = told
        return told


MOST_TOKENS = 1 << 17
_CHARS, _TOKENS, _COMBINATIONS = _Chars(), _Tokens(), {}
_AROUND = ".,;:!?'\"()[]{}<>‘’“”«»*-–—•|،؛؟"
_CONFUSED = re.compile(r"[a-z][0-9|!][a-z]|[0-9][a-z]+[0-9]")
_INNER = re.compile(r"[^\W\d_][^\w\s'’.\-‐/:@&][^\W\d_]")
_FOUR, _FIVE, _DIGIT = re.compile(r"[^\W\d_]{4}"), re.compile(r"[^\W\d_]{5,}"), re.compile(r"\d")
_STREWN = re.compile(r"[a-z][A-Z][a-z]*[A-Z][a-z]?[A-Z]")
_VOWEL = re.compile("[aeiouyAEIOUY]")


def _token_features(core: str) -> tuple[str, ...]:
    return _letters_features(core) if core.isascii() and core.isalpha() else _any_features(core)


def _any_features(core: str) -> tuple[str, ...]:
    scripts = set(map(_script, core))
    found = {
        "single_token": len(core) == 1 and scripts == {"LATIN"},
        "long_token": bool(_RUN.search(core)),
        "good_token": _is_good(core, scripts),
        "stopword": core.casefold() in STOPWORDS,
        "mixed_script": len(scripts - _MIXABLE) > 1 and _mixes(core, scripts),
        "confusion": bool(_CONFUSED.search(core)),
        "inner_punct": bool(_INNER.search(core)),
    }
    return tuple(name for name, holds in found.items() if holds)


def _letters_features(core: str) -> tuple[str, ...]:
    """The same for a token of nothing but ASCII letters, as most are: the other patterns cannot hold."""
    long, spelled = len(core) > 25, len(core) < 5 or _VOWEL.search(core)
    good = not long and spelled and (not _STREWN.search(core) or _is_identifier(core))
    names = ("single_token",) * (len(core) == 1) + ("long_token",) * long
    return names + ("good_token",) * bool(good) + ("stopword",) * (core.lower() in STOPWORDS)


def _mixes(core: str, scripts: set[str]) -> bool:
    """Not where a Latin letter only stands in for the Cyrillic one that looks like it, as keyboards and fonts do."""
    return "CYRILLIC" not in scripts or len({*map(_script, _ALIKE.sub("", core))} - _MIXABLE) > 1


def _is_good(core: str, scripts: set[str]) -> bool:
    """Shaped like a word, number or identifier. Five letters without a vowel, or capitals strewn about, are no word."""
    if not core or _NUMBER.fullmatch(core) or (_CODE_NUMBER.fullmatch(core) and _DIGIT.search(core)):
        return True
    if scripts - {"", "LATIN"} and "LATIN" not in scripts:
        return True
    if _OPERATOR.search(core) and not _FOUR.search(core):  # a formula
        return True
    spelled = all(any(map(_is_vowel, run)) for run in _FIVE.findall(core))
    strewn = _STREWN.search(core)
    shaped = _WORD.fullmatch(core) or _LIKE_CODE.fullmatch(core)
    return bool(not _RUN.search(core) and spelled and shaped and (not strewn or _is_identifier(core)))


def _is_identifier(core: str) -> bool:
    """Several words written as one, `likeThisOne` or `XMLParserOf2`: no part of four letters or more lacks a vowel."""
    parts = _PARTS.findall(core)
    lower = [part for part in parts if part[-1].islower() and len(part) > 3]
    return "".join(parts) == core and bool(lower) and all(any(map(_is_vowel, part)) for part in lower)


def _bigram_entropy(text: str) -> float:
    """Entropy of pairs of letters less that of single letters, in bits; about 3 for prose, 0 without text."""
    folded = text.casefold()
    count = _counts if folded.isascii() or not _FOREIGN.search(folded) else _foreign_counts
    pairs, single = count(folded)
    return _entropy(pairs) - _entropy(single) if pairs else 0.0


_NO_LETTERS, _FOREIGN = re.compile(r"[\W\d_]+"), re.compile(r"[^\W\d_\x00-\x7f]")
_NO_SMALL = bytes(set(range(128)) - set(string.ascii_lowercase.encode()))


def _counts(folded: str) -> tuple[list[int], list[int]]:
    """How often each pair of letters and each letter comes, where all letters are from a to z: tables count quickest."""
    letters = folded.encode("ascii", "ignore").translate(None, _NO_SMALL)
    codes = np.frombuffer(letters, np.uint8).astype(np.intp) - ord("a")
    return _by_first(codes[:-1] * 26 + codes[1:], 26**2), _by_first(np.concatenate([codes[-1:], codes[:-1]]), 26)


def _by_first(codes: np.ndarray, size: int) -> list[int]:
    """How often each code comes, in the order they come in, so that sums over them are those of `_foreign_counts`."""
    counts, first = np.bincount(codes, minlength=size), np.empty(size, np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    found = np.flatnonzero(counts)
    return counts[found[np.argsort(first[found])]].tolist()


def _foreign_counts(folded: str) -> tuple[list[int], list[int]]:
    letters = _NO_LETTERS.sub("", folded)
    pairs, single = Counter(pairwise(letters)), Counter(letters[-1:])
    for (letter, _), count in pairs.items():
        single[letter] += count
    return list(pairs.values()), list(single.values())


def _entropy(counts: list[int]) -> float:
    """Bits. Most of the counts are equal small numbers, so each number is taken once."""
    total, alike = sum(counts), Counter(counts)
    return math.log2(total) - sum([times * count * math.log2(count) for count, times in alike.items()]) / total


def _ramp(value: float, worst: float, best: float) -> float:
    """0 at `worst` and beyond, 1 at `best` and beyond, straight between."""
    return min(1.0, max(0.0, (value - worst) / (best - worst)))


def part_scores(f: dict[str, float], limits: Thresholds = DEFAULTS) -> dict[str, float]:
    """Scores in [0, 1] by name, 1 for a good page, all 0 without text.

    What other scripts than Latin have no scale for (word shapes, common words, letter pairs) is 1.
    """
    if not f["n_chars"]:
        return dict.fromkeys(QUALITY_WEIGHTS, 0.0)
    latin = f["latin"] > limits.latin
    spaced = min(_ramp(f["single_token"], 0.40, 0.15), _ramp(f["long_token"], 0.40, 0.10))
    words = min(spaced, _ramp(f["good_token"], 0.40, 0.85)) if latin else 1.0
    language = (_ramp(f["stopword"], 0.0, 0.10) + _ramp(f["vowel"], 0.20, 0.30)) / 2
    return {
        "chars": _ramp(f["bad_char"], 0.10, 0.0) * _ramp(f["symbol"], 0.50, 0.20),
        "words": min(words, _ramp(f["mixed_script"], 0.20, 0.0)),
        "language": language if latin else 1.0,
        "confusion": _ramp(f["confusion"] + f["inner_punct"], 0.20, 0.04),
        "lines": _ramp(f["mean_line"], 5.0, 25.0),
        "entropy": _ramp(f["bigram_entropy"], 1.5, 2.6) if latin else 1.0,
        "volume": _ramp(f["n_chars"], 50, 600),
    }


def _by_ocr(reading: Reading) -> bool:
    return reading.state == "replaced" and reading.word_confidence is not None


def _sureness(reading: Reading, limits: Thresholds) -> float:
    """How sure OCR was of the text it gave, in [0, 1]; 1 where the text came from elsewhere.

    Text alone cannot say: OCR writes plausible words whatever it saw.
    """
    return _ramp(reading.word_confidence, limits.unsure_words, limits.sure_words) if _by_ocr(reading) else 1.0


def quality(f: dict[str, float], signals: Signals, limits: Thresholds = DEFAULTS, reading: Reading = NATIVE) -> float:
    """How well the page can be searched, in [0, 1]. Bad characters and unsure OCR weigh on everything; a scan loses 0.2."""
    parts = part_scores(f, limits)
    text = sum(weight * parts[name] for name, weight in QUALITY_WEIGHTS.items()) * (0.25 + 0.75 * parts["chars"])
    picture = _ramp(signals.image_coverage, 0.3, 0.8) if f["n_chars"] < limits.low_text_chars else 0.0
    scan = max(float(_by_ocr(reading)), signals.invisible_text, picture)
    return max(0.0, text * _sureness(reading, limits) - 0.20 * scan)


def confidence(f: dict[str, float], limits: Thresholds = DEFAULTS, reading: Reading = NATIVE) -> float:
    """How far the text can be trusted, in [0, 1]: six part scores, cut when the worst of the three main ones is low.

    Of a page that OCR read it is no higher than OCR's own sureness.
    """
    parts = part_scores(f, limits)
    score = sum(weight * parts[name] for name, weight in CONFIDENCE_WEIGHTS.items())
    worst = min(parts["chars"], parts["words"], parts["language"])
    return min(_sureness(reading, limits), score * (0.4 + 0.8 * worst) if worst <= 0.75 else score)


def classify(
    f: dict[str, float], signals: Signals, limits: Thresholds = DEFAULTS, reading: Reading = NATIVE
) -> tuple[str, str]:
    """The class of a page and why: the first rule that holds. The text may have come from another reading of the page."""
    n, image, hidden = f["n_chars"], signals.image_coverage, signals.invisible_text
    lost = 0 if reading.state == "replaced" else signals.removed_chars
    latin = f["latin"] > limits.latin
    removed, most = lost / max(1, n + lost), limits.lost_ligatures if latin else limits.removed_other
    full, score = image >= limits.full_image, quality(f, signals, limits, reading)
    drawn = f["short_line"] > limits.label_lines and signals.vectors >= limits.label_vectors
    scanned = full and (hidden >= limits.full_image_invisible or reading.state == "replaced")
    prose = latin and f["alpha"] > limits.letters
    spaced = f["single_token"] > limits.single_token and f["stopword"] < limits.stopword
    odd = prose and f["stopword"] < limits.common
    unknown = f["stopword"] < limits.stopword and f["good_token"] < limits.good_token_alone
    alone = not n and not signals.vectors and image >= limits.scan_alone
    picture = full or alone or (image >= limits.scan_image and (not n or hidden >= limits.invisible_text))
    scan, noisy = "likely_scanned", "likely_scanned" if scanned else "digital_noisy"
    figure = drawn and latin and f["stopword"] < limits.common and n < limits.figure_chars and not scanned
    garbled = "mixed_or_uncertain" if drawn and noisy == "digital_noisy" else noisy
    images, words = f"images cover {image:.0%} of it", "of the words"
    rules = (
        (signals.unreadable, "low_text", "the page could not be read"),
        (picture and n < limits.scan_chars, scan, f"{images}, with {n:.0f} characters of text"),
        (not n and not image and not signals.vectors, "blank", "nothing on it"),
        (n < limits.low_text_chars, "low_text", f"only {n:.0f} characters of text"),
        (hidden >= limits.invisible_text, scan, f"{hidden:.0%} of its text is invisible, as OCR leaves it"),
        (full and hidden >= limits.full_image_invisible, scan, f"{images}, and {hidden:.0%} of its text is invisible"),
        (f["bad_char"] > limits.bad_char, noisy, f"{f['bad_char']:.0%} of the characters cannot be read"),
        (removed > most, noisy, f"{removed:.1%} of the characters were control characters"),
        (f["mixed_script"] > limits.mixed_script, noisy, f"{f['mixed_script']:.0%} {words} mix scripts"),
        (latin and f["long_token"] > limits.long_token, noisy, f"{f['long_token']:.0%} {words} are overlong"),
        (figure, "mixed_or_uncertain", f"{signals.vectors} lines or areas drawn, and few words but labels"),
        (spaced, garbled, f"{f['single_token']:.0%} {words} are single letters"),
        (odd and f["good_token"] < limits.good_token, garbled, f"only {f['good_token']:.0%} {words} look like words"),
        (prose and f["vowel"] < limits.vowel, garbled, f"only {f['vowel']:.0%} of the letters are vowels"),
        (
            f["broken_line"] > limits.broken_line,
            noisy,
            f"{f['broken_line']:.0%} of the letters are in lines of no language",
        ),
        (odd and unknown, garbled, f"hardly a common word, and {f['good_token']:.0%} {words} look like words"),
        (scanned, scan, images),
        (
            _by_ocr(reading),
            "mixed_or_uncertain",
            f"read by OCR, {reading.word_confidence or 0:.0f} % sure of its words",
        ),
        (score >= limits.clean_quality, "digital_clean", f"quality {score:.3f}"),
        (True, "mixed_or_uncertain", f"quality {score:.3f}, below {limits.clean_quality:g}"),
    )
    return next((name, reason) for holds, name, reason in rules if holds)


def page_table(corpus: Corpus, thresholds: Thresholds = DEFAULTS) -> pd.DataFrame:
    """One row a page: PAGE_COLUMNS. page_index counts from 0.

    Pages of every layout, those of documents without any text too. Signals and readings are missing for what is no PDF;
    a blank page has neither quality nor confidence.
    """
    texts, rows = {document.doc_id: document.text for document in corpus.documents}, []
    for doc_id, layout in sorted(corpus.layouts.items()):
        text = texts.get(doc_id, "")
        for page in layout.pages or (Page(0, "1", 0, len(text)),):
            row = {"doc_id": doc_id, "page_index": page.index, "page_label": page.label}
            rows.append(row | _judged(text[page.start : page.end], *_beside(layout, page.index), thresholds))
    return pd.DataFrame(rows, columns=list(PAGE_COLUMNS))


def _beside(layout: Layout, index: int) -> tuple[Signals | None, Reading | None]:
    """What the file shows beside the text of a page, and where that text came from; None where the layout does not say."""
    return tuple(rows[index] if rows else None for rows in (layout.signals, layout.readings))


def _judged(text: str, signals: Signals | None, reading: Reading | None, limits: Thresholds) -> dict:
    f, shown, given = features(text), signals or Signals(), reading or NATIVE
    name, reason = classify(f, shown, limits, given)
    blank = name == "blank"
    scores = {
        "quality": math.nan if blank else quality(f, shown, limits, given),
        "confidence": math.nan if blank else confidence(f, limits, given),
    }
    told = asdict(signals) if signals else dict.fromkeys(SIGNALS)
    return {"class": name, "reason": reason} | scores | f | told | _told(reading)


def _told(reading: Reading | None) -> dict:
    return {name: getattr(reading, "state" if name == "reading" else name, None) for name in READING}


def document_table(pages: pd.DataFrame, thresholds: Thresholds = DEFAULTS) -> pd.DataFrame:
    """One row a document, from `page_table`: digital_clean when it passes all three guards, else mixed_quality.

    Blank pages leave every denominator, and so do short pages whose few words are sound (a title page, the end of a
    chapter, a figure with its caption): they neither help nor harm a search. A document of such pages alone has no
    fractions, and is not clean. A repaired file is never clean: text may be missing from it. failed_guard names every
    guard that failed.
    """
    rows = []
    for doc_id, group in pages.groupby("doc_id", sort=True):
        short = (group["class"] == "low_text") & (group["quality"] >= thresholds.short_quality)
        counted = group[(group["class"] != "blank") & ~short]
        clean = (counted["class"] == "digital_clean").mean()
        degraded = counted["class"].isin(["digital_noisy", "likely_scanned"]).mean()
        mean = counted["quality"].mean()
        guards = {
            "clean_fraction": round(clean, 9) >= thresholds.clean_fraction,  # a mean may miss its edge by a last digit
            "mean_quality": round(mean, 9) >= thresholds.mean_quality,
            "degraded_fraction": round(degraded, 9) <= thresholds.degraded_fraction,
            "repaired": not any(value is True for value in group["repaired"].tolist()),  # missing for what is no PDF
        }
        failed = ", ".join(name for name, passed in guards.items() if not passed)
        verdict = "mixed_quality" if failed else "digital_clean"
        blank = (group["class"] == "blank").sum()
        rows.append((doc_id, len(group), blank, short.sum(), clean, mean, degraded, verdict, failed))
    return pd.DataFrame(rows, columns=list(DOCUMENT_COLUMNS))


def class_table(pages: pd.DataFrame, documents: pd.DataFrame) -> pd.DataFrame:
    """Pages by class and their share of all pages; then all pages, and the documents that are not clean, of all documents."""
    counts = pages["class"].value_counts().reindex(CLASSES, fill_value=0)
    rows = [(name, f"{count:,}", count / max(1, len(pages))) for name, count in counts.items()]
    mixed = (documents["verdict"] != "digital_clean").sum()
    rows += [("all pages", f"{len(pages):,}", 1.0 if len(pages) else math.nan)]
    rows += [("documents of mixed quality", f"{mixed:,} of {len(documents):,}", math.nan)]
    return pd.DataFrame(rows, columns=["class", "pages", "share of pages"])
