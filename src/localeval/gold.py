"""Gold sets: questions and where their answers stand.

One JSON object a line. The truth of a piece of evidence is its anchor, not its offsets:

    {"query_id": "water-01", "text": "How long must water boil?", "category": "numeric", "tags": [], "split": "dev",
     "origin": "human", "review": "", "must_hit": false,
     "evidence": [{"doc_id": "water.pdf", "kind": "span", "grade": 2, "quote": "Keep it at a rolling boil for one minute.",
                   "before": "Bring the water to the boil. ", "after": " Above 2000 m", "page_index": 4}]}

Only `query_id`, `text` and `evidence` are required; of each piece of evidence `doc_id`, and for kind "span" `quote`.
`evidence: []` means that the corpus does not answer the question. Kind "page" needs `page_index`, kind "section" has the
heading as its `quote`, kind "document" needs nothing more. `source` says where a label came from, where it was not written with the
question: "pooled" is one that somebody found among the hits of systems.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from localeval.chunking import sections
from localeval.corpus import Corpus
from localeval.provenance import existing
from localeval.records import EVIDENCE_KINDS, SOURCES, BadInput, Evidence, Query, Span
from localeval.tokens import UNSPACED, words

CONTEXT = 32  # characters of anchor text kept on each side; more where they do not tell two places apart
SHOWN = 60  # characters of a value or a quote that an error repeats
LISTED = 20  # further bad lines that an error numbers
GRADES = 100  # the highest grade; gains grow as powers of two
MEANINGFUL = 12  # characters; a shorter agreement of a quote with a document is chance
QUERY_KEYS = tuple(field.name for field in fields(Query))
EVIDENCE_KEYS = ("doc_id", *(field.name for field in fields(Evidence) if field.name != "span"))


def _filled(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_TEXT = ("a text", lambda value: isinstance(value, str))
_FILLED = ("a text that is not blank", _filled)

# What each key must hold, in words and as a test; and those no line can do without, with what to write.
MUST_BE = {
    "query_id": _FILLED,
    "text": _FILLED,
    "evidence": (
        "a list of objects ([] for a question the corpus does not answer)",
        lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),
    ),
    "tags": ("a list of texts", lambda value: isinstance(value, list) and all(isinstance(tag, str) for tag in value)),
    "category": _TEXT,
    "split": ("'dev' or 'heldout'", lambda value: value in ("dev", "heldout")),
    "origin": ("'human', 'templated' or 'drafted'", lambda value: value in ("human", "templated", "drafted")),
    "review": _TEXT,
    "must_hit": ("true or false", lambda value: isinstance(value, bool)),
    "doc_id": _TEXT,
    "grade": (f"a whole number from 1 to {GRADES}", lambda value: _whole(value) and 1 <= value <= GRADES),
    "kind": _TEXT,
    "quote": _TEXT,
    "before": _TEXT,
    "after": _TEXT,
    "source": (f"one of {', '.join(SOURCES)}", lambda value: isinstance(value, str) and value in SOURCES),
    "page_index": (
        "a whole number, 0 for the first page",
        lambda value: value is None or (_whole(value) and value >= 0),
    ),
}
NEEDED = {
    "query_id": "give each question its own",
    "text": "write the question",
    "evidence": 'write "evidence": [] if the documents do not answer it',
    "doc_id": "name the document by its path below the corpus folder",
}
_SAME = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-", "\u00ad": None}
)
_PIECE = re.compile(
    r"(?P<plain>[!-,.-~]+(?:[ -](?=[!-~])[!-,.-~]*)*)"
    r"|(?P<line_end>(?<=\S)(?:[-–—−‐‑][^\S\n]*\n|\u00ad(?=\s))\s*)|(?P<space>\s+)"
    r"|(?P<foreign>[^\s\x00-\x7f‘’“”–—−‐‑\u00ad]+)|(?P<other>.)"
)
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_HYPHEN = re.compile("-[ \n]?")
_DIVIDED = re.compile(r"([^\W\d_])-\n(?=[^\W\d_])")
_HALF = re.compile("[\ud800-\udfff]")
_POINTS = ".,'٫٬"  # between two digits they are part of a number


def fold(text: str) -> tuple[str, array]:
    """Text for matching, and the raw offset of each of its characters.

    NFKD (so that composed and decomposed accents meet, in whatever order they were written), straight quotes and hyphens,
    no soft hyphens, white space as one space. A character may become several. A hyphen at the end of a line becomes a hyphen
    and a newline, the only newlines left.
    """
    folded, offsets = [], array("L")
    for piece in _PIECE.finditer(text):
        at, letters = piece.start(), piece[0]
        if piece.lastgroup == "plain" or (piece.lastgroup == "foreign" and unicodedata.is_normalized("NFKD", letters)):
            offsets.extend(range(at, piece.end()))
        elif piece.lastgroup == "line_end":
            letters = "-\n"
            offsets.extend((at, at + 1))
        elif piece.lastgroup == "space":
            letters = "" if folded and folded[-1] in (" ", "-\n") else " "
            offsets.extend([at] * len(letters))
        else:
            apart = [_apart(letter) for letter in letters]
            letters = "".join(apart)
            offsets.extend(at + number for number, parts in enumerate(apart) for _ in parts)
        if letters:
            folded.append(letters)
    return _in_order("".join(folded)), offsets


@lru_cache(maxsize=4096)
def _apart(letter: str) -> str:
    parts = unicodedata.normalize("NFKD", letter)
    return (letter if parts[0] == " " else parts).translate(_SAME)  # an accent alone stays whole


def _in_order(text: str) -> str:
    """Accents of one letter that were written in several characters, in the order of Unicode.

    Their offsets stay, for no match begins or ends between them.
    """
    if unicodedata.is_normalized("NFD", text):
        return text
    letters = list(text)
    for run in _FOREIGN.finditer(text):
        start = run.start()
        for at in range(start, run.end() + 1):
            if at == run.end() or not unicodedata.combining(letters[at]):
                letters[start:at] = sorted(letters[start:at], key=unicodedata.combining)
                start = at + 1
    return "".join(letters)


class Prepared(NamedTuple):
    """One text, ready for many quotes: folded, and once more without its hyphens and the space or line end behind each.

    cuts: where in `bare` something was left out; missing: how many characters up to there.
    """

    folded: str
    offsets: array
    bare: str
    cuts: array
    missing: array


Texts = Callable[[str], Prepared]  # of a document, by its id


def prepare(text: str) -> Prepared:
    folded, offsets = fold(text)
    cuts, missing = array("L", [0]), array("L", [0])
    for hyphen in _HYPHEN.finditer(folded):
        cuts.append(hyphen.start() - missing[-1])
        missing.append(missing[-1] + len(hyphen[0]))
    return Prepared(folded, offsets, _HYPHEN.sub("", folded), cuts, missing)


_prepare_document = lru_cache(maxsize=16)(prepare)  # many quotes are looked up in one document


def find_quote(text: str | Prepared, quote: str) -> list[tuple[int, int]]:
    """Offsets of every place where the quote stands, whatever the line breaks and the kind of quotation marks.

    A hyphen at the end of a line of the text counts as a hyphen or as nothing. An accent belongs to its letter, a letter to
    its word and a digit to its number: "cafe" is not in "café", "cat" not in "cats", "5 mg" not in "2.5 mg". Who looks up
    many quotes in many texts passes what `prepare` makes of each.
    """
    return _places(_prepare_document(text) if isinstance(text, str) else text, _needle(quote))


def _needle(quote: str) -> str:
    return fold(quote)[0].strip()


def _places(text: Prepared, needle: str) -> list[tuple[int, int]]:
    return [
        (text.offsets[start], text.offsets[end - 1] + 1)
        for start, end in _standing(text, needle)
        if not any(_inside_letter(text, at) or _inside_word(text.folded, at) for at in (start, end))
    ]


def _standing(text: Prepared, needle: str) -> Iterator[tuple[int, int]]:
    """Every place of the needle in the folded text, from left to right; those inside a letter or a word too."""
    bare = _HYPHEN.sub("", needle)
    if needle.startswith("-") or not bare:
        found = _pattern(needle).search(text.folded) if needle else None
        while found:
            yield found.span()
            found = _pattern(needle).search(text.folded, found.start() + 1)
        return
    at = text.bare.find(bare)
    while at >= 0:
        start = at + text.missing[bisect_right(text.cuts, at) - 1]
        end = _end(text, needle, start)
        if end:
            yield start, end
        at = text.bare.find(bare, at + 1)


def _end(text: Prepared, needle: str, start: int) -> int:
    """Where the needle that begins here ends; 0 where another text begins."""
    plain = needle.replace("-\n", "- ")
    if text.folded.startswith(plain, start):
        return start + len(plain)
    found = _pattern(needle).match(text.folded, start)
    return found.end() if found else 0


@lru_cache(maxsize=64)
def _pattern(needle: str) -> re.Pattern:
    """Finds the needle in folded text, where a hyphen at a line end may stand for nothing.

    So it may in the needle, between letters: the text may have its word whole again, with the hyphen or without.
    """
    parts, needle = [], _DIVIDED.sub(r"\1-\r", needle.replace("- ", "-\n"))
    for one, two in zip_longest(needle, needle[1:], fillvalue=""):
        if one + two == "-\r":
            continue
        part = "[ \n]" if one == "\n" else "(?:-[ \n]?)?" if one == "\r" else re.escape(one)
        if one == "-" and two not in ("\n", ""):
            part += "\n?"
        elif two.isalpha() and (one.isalpha() or _is_mark(one)):
            part += "(?:-\n)?"
        parts.append(part)
    return re.compile("".join(parts))


def _is_mark(letter: str) -> bool:
    return unicodedata.category(letter).startswith("M")


def _inside_letter(text: Prepared, at: int) -> bool:
    """True between a letter and its accents, and between the parts of one character of the raw text."""
    return 0 < at < len(text.folded) and (text.offsets[at - 1] == text.offsets[at] or _is_mark(text.folded[at]))


def _inside_word(folded: str, at: int) -> bool:
    """True inside a run of letters and digits, and inside a number with a point. Scripts without spaces have no such runs."""
    before, after = folded[max(0, at - 2) : at], folded[at : at + 2]
    if not before or not after:
        return False
    if _of_word(before[-1]) and _of_word(after[0]):
        return True
    number = before + after
    point = len(before) - 1 if before[-1] in _POINTS else len(before) if after[0] in _POINTS else 0
    return 0 < point < len(number) - 1 and number[point - 1].isdigit() and number[point + 1].isdigit()


def _of_word(letter: str) -> bool:
    return (letter.isalnum() or _is_mark(letter)) and not UNSPACED.match(letter)


def _longer(raw: str, text: Prepared, needle: str) -> str:
    """The word or number that the quote stands inside of; empty when it stands nowhere."""
    for start, end in _standing(text, needle):
        if any(_inside_letter(text, at) for at in (start, end)):
            continue
        while _inside_word(text.folded, start):
            start -= 1
        cut = _inside_word(text.folded, end)
        while _inside_word(text.folded, end):
            end += 1
        shown = _tidy(raw[text.offsets[start] : text.offsets[end - 1] + 1])
        if len(shown) > SHOWN:
            shown = "…" + shown[-SHOWN:] if cut else shown[:SHOWN] + "…"
        return f"it stands only inside a longer word or number: {shown!r}"
    return ""


def _where_it_stops(raw: str, text: Prepared, needle: str) -> str:
    """How far a quote that is not found agrees with the text, in whole words; empty when hardly anything agrees."""
    begins = lambda place: not _inside_word(text.folded, place[0])
    first = lambda length: next(filter(begins, _standing(text, needle[:length])), None)
    agreed = bisect_left(range(1, len(needle) + 1), True, key=lambda length: first(length) is None)
    if agreed < MEANINGFUL:
        return ""
    start, end = first(agreed)
    following = needle[agreed : agreed + 1] + text.folded[end : end + 1]
    within_word = needle[agreed - 1].isalnum() and any(one.isalnum() or _is_mark(one) for one in following)
    words_agreed = needle[:agreed].rpartition(" ")[0] if within_word else needle[:agreed].rstrip()
    if len(words_agreed) < MEANINGFUL:
        return ""
    stop = text.offsets[_end(text, words_agreed, start) - 1] + 1
    known, rest = _tidy(raw[text.offsets[start] : stop]), _tidy(raw[stop : stop + 2 * CONTEXT]).strip()
    shown = known if len(known) <= CONTEXT else "…" + known[-CONTEXT:].lstrip()
    goes_on = f"the document goes on with {rest[:CONTEXT]!r}" if rest else "the document ends there"
    return f"it matches up to {shown!r} and {goes_on}"


def _tidy(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def anchor(corpus: Corpus, span: Span, context: int = CONTEXT) -> dict:
    """The anchor of a span: its words, a little text on both sides, its page index. What a gold file stores."""
    text = corpus[span.doc_id].text
    return {
        "quote": _tidy(text[span.start : span.end]),
        "before": _tidy(text[max(0, span.start - context) : span.start]),
        "after": _tidy(text[span.end : span.end + context]),
        "page_index": corpus.layouts[span.doc_id].page_of(span),
    }


def load(path: Path, corpus: Corpus) -> list[Query]:
    """Reads a gold file and resolves every anchor in the corpus.

    The error names the file, the first bad line and the remedy, and the numbers of the other bad lines.
    """
    seen: dict[str, int] = {}
    queries, problems = [], {}
    texts = lru_cache(maxsize=None)(lambda doc_id: prepare(corpus[doc_id].text))  # each once, for this file only
    for number, line in _lines(path):
        try:
            row = _object(line, f"{path}:{number}")
            queries.append(_query(row, _named(row, f"{path}:{number}", number, seen), corpus, texts))
        except BadInput as error:
            problems[number] = str(error)
        except RecursionError:
            problems[number] = f"{path}:{number}: too many brackets inside one another; write one object a line"
    if problems:
        raise BadInput(_first_of(problems))
    if not queries:
        raise BadInput(f"{path}: no question in it; write one JSON object a line")
    if not any(query.answerable for query in queries):
        raise BadInput(f"{path}: no question has evidence, so nothing can be scored; quote the answer of at least one")
    return queries


def _first_of(problems: dict[int, str]) -> str:
    (_, first), *rest = problems.items()
    numbers = ", ".join(str(number) for number, _ in rest[:LISTED]) + (", …" if len(rest) > LISTED else "")
    return first + (f" (and {len(rest)} more line{'s' * (len(rest) > 1)}: {numbers})" if rest else "")


def _named(row: dict, where: str, number: int, seen: dict[str, int]) -> str:
    """The place of a row with its query id, which no earlier line may have."""
    query_id = row.get("query_id")
    if not _filled(query_id):
        return where
    if not query_id.isprintable() or query_id != query_id.strip():
        raise BadInput(
            f"{where}: query_id {query_id!r} holds a line break or another sign that no table shows; leave it out"
        )
    if query_id in seen:
        raise BadInput(
            f"{where}: query_id {query_id!r} is already used on line {seen[query_id]}; give each question its own"
        )
    seen[query_id] = number
    return f"{where}: query {query_id}"


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    """Lines that are not blank, with their numbers. Only a newline ends one: a question may hold other separators."""
    try:
        text = existing(path, "'gold' must name a .jsonl file of questions").read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _object(line: str, where: str) -> dict:
    try:
        row = json.loads(line, object_pairs_hook=_no_twice)
    except json.JSONDecodeError as error:
        raise BadInput(f"{where}: not JSON ({error.msg} at column {error.colno}); one object a line") from None
    except KeyError as error:
        raise BadInput(f"{where}: key {error.args[0]!r} occurs twice in one object; keep one") from None
    except ValueError:
        raise BadInput(f"{where}: a number has thousands of digits; write a small one") from None
    half = _HALF.search(json.dumps(row, ensure_ascii=False))
    if half:
        raise BadInput(f"{where}: {half[0]!r} is half a character; write the whole one, or leave it out")
    if not isinstance(row, dict):
        raise BadInput(f"{where}: expected an object {{...}}, found {type(row).__name__}")
    return row


def _no_twice(pairs: list[tuple[str, object]]) -> dict:
    row = {}
    for key, value in pairs:
        if key in row:
            raise KeyError(key)
        row[key] = value
    return row


def _checked(row: dict, keys: Sequence[str], where: str) -> None:
    """Every key known, none missing that is needed, every value of the type it must have."""
    for key in row:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            raise BadInput(
                f"{where}: unknown key {key!r}"
                + (f" (did you mean {near[0]!r}?)" if near else f"; known: {', '.join(keys)}")
            )
    for key in keys:
        if key in NEEDED and key not in row:
            raise BadInput(f"{where}: no {key!r}; {NEEDED[key]}")
        if key in row and not MUST_BE[key][1](row[key]):
            raise BadInput(f"{where}: {key!r} must be {MUST_BE[key][0]}, found {_shown(row[key])}")


def _shown(value: object) -> str:
    """A value as it stands in the file, cut short."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def _query(row: dict, where: str, corpus: Corpus, texts: Texts) -> Query:
    _checked(row, QUERY_KEYS, where)
    found = tuple(_evidence(item, where, corpus, texts) for item in row["evidence"])
    if len({(item.span, item.kind) for item in found}) < len(found):
        raise BadInput(f"{where}: the same evidence is listed twice; keep it once, with its higher grade")
    return Query(**(row | {"evidence": found, "tags": tuple(row.get("tags", ()))}))


def _evidence(item: dict, where: str, corpus: Corpus, texts: Texts) -> Evidence:
    _checked(item, EVIDENCE_KEYS, where)
    doc_id, kind, grade = item["doc_id"], item.get("kind", "span"), item.get("grade", 1)
    if doc_id not in corpus.layouts and doc_id not in corpus.failures:
        doc_id = _other_form(doc_id, where, corpus)
    if doc_id in corpus.failures:  # a miss that no engine could help would be a false one
        raise BadInput(f"{where}: {doc_id} gave no text, so nothing can find it ({corpus.failures[doc_id]})")
    if kind not in EVIDENCE_KINDS:
        raise BadInput(f"{where}: unknown evidence kind {kind!r}; known: {', '.join(EVIDENCE_KINDS)}")
    if not corpus.layouts[doc_id].pages and (kind == "page" or item.get("page_index") is not None):
        raise BadInput(f"{where}: {doc_id} has no pages; leave out 'page_index', and quote instead of kind 'page'")
    if kind not in ("page", "document") and not _filled(item.get("quote")):
        raise BadInput(f"{where}: evidence of kind {kind!r} needs a 'quote', the exact words of {doc_id}")
    rest = {key: item[key] for key in ("quote", "before", "after", "page_index", "source") if key in item}
    if kind in ("page", "document", "section"):
        return Evidence(_whole_of(item, doc_id, kind, where, corpus), grade, kind, **rest)
    span, found = _one_place(item, doc_id, where, corpus, texts)
    found |= {key: item[key] for key in ("source",) if key in item}
    return Evidence(span, grade, kind, **(found | {"quote": item["quote"]} if kind == "span" else rest))


def _other_form(doc_id: str, where: str, corpus: Corpus) -> str:
    """The one document whose name differs from this only in how its accents are stored, as file systems change them."""
    wanted = unicodedata.normalize("NFC", doc_id)
    found = [name for name in corpus.layouts if unicodedata.normalize("NFC", name) == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(
            f"{where}: no document {doc_id!r} in the corpus, but {len(found)} that differ from it and from each other only "
            "in the Unicode form of their accents; rename all but one"
        )
    near = difflib.get_close_matches(doc_id, corpus.layouts, 1)
    raise BadInput(f"{where}: no document {doc_id!r} in the corpus" + (f" (did you mean {near[0]!r}?)" if near else ""))


def _whole_of(item: dict, doc_id: str, kind: str, where: str, corpus: Corpus) -> Span:
    document, layout = corpus[doc_id], corpus.layouts[doc_id]
    if kind == "document":
        return Span(doc_id, 0, len(document.text))
    if kind == "section":
        return _section(item["quote"], doc_id, where, corpus)
    page = next((page for page in layout.pages if page.index == item.get("page_index")), None)
    if page is None:
        raise BadInput(
            f"{where}: {doc_id} has no page_index {_shown(item.get('page_index'))} (0 to {len(layout.pages) - 1})"
        )
    if not document.text[page.start : page.end].strip():
        raise BadInput(f"{where}: {doc_id} has no text on page_index {page.index}, so nothing can find it")
    return Span(doc_id, page.start, page.end)


def _section(quote: str, doc_id: str, where: str, corpus: Corpus) -> Span:
    wanted = _needle(quote)
    found = [
        (a, b)
        for a, b, path in sections(corpus[doc_id], corpus.layouts[doc_id])
        if path and _needle(path[-1]) == wanted
    ]
    if len(found) != 1:
        raise BadInput(f"{where}: {len(found)} sections of {doc_id} are headed {quote!r}; quote one heading exactly")
    return Span(doc_id, *found[0])


def _one_place(item: dict, doc_id: str, where: str, corpus: Corpus, texts: Texts) -> tuple[Span, dict]:
    """The one place of the quote that agrees best with its anchor, and its anchor; none, or several alike, is an error."""
    quote, text, layout = item["quote"], texts(doc_id), corpus.layouts[doc_id]
    needle = _needle(quote)
    places = [Span(doc_id, *place) for place in _places(text, needle)]
    if not places:
        found = (corpus[doc_id].text, text, needle)
        remedy = _longer(*found) or _where_it_stops(*found) or "quote its exact words (line breaks do not matter)"
        raise BadInput(f"{where}: quote not found in {doc_id}: {quote[:SHOWN]!r}; {remedy}")
    page = item.get("page_index")
    if page is not None:
        on_page = [span for span in places if layout.page_of(span) == page]
        if not on_page:
            found = layout.page_of(places[0])
            raise BadInput(
                f"{where}: quote stands on page_index {found} of {doc_id}, not on {_shown(page)}: {quote[:SHOWN]!r}"
            )
        places = on_page
    best = _best(places, item, text)
    if len(best) > 1:  # the very anchor of one of them decides, by what folding takes away
        sides = {key: item.get(key, "") for key in ("before", "after")}
        same = [span for span in best if anchor(corpus, span) | sides == anchor(corpus, span)]
        best = same if len(same) == 1 else best
    if len(best) > 1:
        given = any(sides.values())
        remedy = "mend its before and after, which do not tell the places apart" if given else "give before and after"
        raise BadInput(
            f"{where}: quote stands {len(places)} times in {doc_id}: {quote[:SHOWN]!r}; lengthen it, or {remedy}"
        )
    return best[0], _anchor_among(places, best[0], corpus, text)


def _anchor_among(places: list[Span], chosen: Span, corpus: Corpus, text: Prepared) -> dict:
    """The anchor of the chosen place, with as much context as tells it from the others on its page."""
    page_of, context = corpus.layouts[chosen.doc_id].page_of, CONTEXT
    found = anchor(corpus, chosen)
    rivals = [span for span in places if page_of(span) == found["page_index"]]
    while _best(rivals, found, text) != [chosen] and context < len(text.folded):
        context *= 2
        found = anchor(corpus, chosen, context)
    return found


BLANKS = 8  # between a quote and its neighbours, at most


def _best(places: list[Span], item: dict, text: Prepared) -> list[Span]:
    """Of several places those that agree best with the anchor."""
    if len(places) < 2:
        return places
    before = fold(item.get("before", "") + ".")[0][:-1].replace("\n", " ")  # the full stop stands for the quote
    after = fold("." + item.get("after", ""))[0][1:].replace("\n", " ")
    scores = []
    for span in places:
        start, end = bisect_left(text.offsets, span.start), bisect_left(text.offsets, span.end)
        left = text.folded[max(0, start - len(before) - BLANKS) : start].replace("\n", " ")
        right = text.folded[end : end + len(after) + BLANKS].replace("\n", " ")
        exact = _agreement(before[::-1], left[::-1]) + _agreement(after, right)
        typed = _agreement(before[::-1].lstrip(), left[::-1].lstrip()) + _agreement(after.lstrip(), right.lstrip())
        scores.append((exact, typed))  # people leave out the blank beside the quote
    return [span for span, score in zip(places, scores, strict=True) if score == max(scores)]


def _agreement(given: str, there: str) -> int:
    """Characters, from the quote outwards, that agree: all that are given, else whole words of them.

    Where not one word agrees, half of what is given has to; less is chance.
    """
    alike = next((at for at, (one, two) in enumerate(zip(given, there, strict=False)) if one != two), len(there))
    if alike >= len(given):
        return len(given)
    whole = alike
    while whole and _of_word(given[whole - 1]) and any(map(_of_word, (given[whole], *there[whole : whole + 1]))):
        whole -= 1
    return whole if any(map(_of_word, given[:whole])) else alike if 2 * alike >= len(given) else 0


ORIGINS = ("human", "drafted", "templated")


def stratum(queries: Sequence[Query], origin: str = "") -> str:
    """The origin whose questions the headline figures are about: the one asked for, else human, drafted, templated, the first there is."""
    have = [name for name in ORIGINS if any(query.origin == name for query in queries)]
    if origin and origin not in have:
        raise BadInput(f"origin: no question of origin {origin!r}; this gold set has {', '.join(have)}")
    return origin or have[0]


def describe(queries: Iterable[Query]):
    """Questions, answerable ones and pieces of evidence by origin and category."""
    import pandas as pd

    frame = pd.DataFrame(
        [
            (q.origin, q.category or "(none)", q.answerable, len(q.evidence), len({e.span.doc_id for e in q.evidence}))
            for q in queries
        ],
        columns=["origin", "category", "answerable", "evidence", "documents"],
    )
    return frame.groupby(["origin", "category"], as_index=False).agg(
        questions=("answerable", "size"),
        answerable=("answerable", "sum"),
        pieces_of_evidence=("evidence", "sum"),
        documents_each=("documents", "max"),
    )


def overlap(queries: Iterable[Query], corpus: Corpus):
    """How many of a question's words stand in its evidence and in the headings above it: high shares favour lexical engines.

    Columns: query_id, origin, category, in_evidence, in_headings; shares of distinct words of four letters or more, in scripts without
    spaces of pairs of neighbouring letters, NaN for a question without any or without evidence.
    """
    import pandas as pd

    rows = []
    for query in queries:
        asked = {word for word in words(query.text) if len(word) >= (2 if UNSPACED.match(word) else 4)}
        evidence = {word for item in query.evidence for word in words(corpus.text(item.span))}
        headings = {word for item in query.evidence for word in words(_headings_above(item.span, corpus))}
        known = bool(asked and query.evidence)
        shares = [len(asked & seen) / len(asked) if known else float("nan") for seen in (evidence, headings)]
        rows.append((query.query_id, query.origin, query.category, *shares))
    return pd.DataFrame(rows, columns=["query_id", "origin", "category", "in_evidence", "in_headings"])


def _headings_above(span: Span, corpus: Corpus) -> str:
    found = (
        path
        for start, end, path in sections(corpus[span.doc_id], corpus.layouts[span.doc_id])
        if start <= span.start < end
    )
    return " ".join(next(found, ()))


def dump(queries: Iterable[Query]) -> str:
    """Queries as gold lines, anchors complete and offsets left out: what belongs in `data/<study>/gold.jsonl`."""
    lines = []
    for query in queries:
        row = asdict(query)
        for item in row["evidence"]:
            item["doc_id"] = item.pop("span")["doc_id"]
        row["evidence"] = [{key: item[key] for key in EVIDENCE_KEYS} for item in row["evidence"]]
        lines.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def write_resolved(queries: Iterable[Query], path: Path) -> None:
    """Queries with their offsets for the corpus at hand: the artefact `queries.jsonl`."""
    with path.open("w", encoding="utf-8") as out:
        for query in queries:
            row = asdict(query)
            for item in row["evidence"]:
                item["span"] = str(Span(**item["span"]))
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_resolved(path: Path) -> list[Query]:
    queries = []
    for number, line in _lines(path):
        row = _object(line, f"{path}:{number}")
        evidence = tuple(Evidence(**(item | {"span": Span.parse(item["span"])})) for item in row.pop("evidence"))
        queries.append(Query(**(row | {"evidence": evidence, "tags": tuple(row["tags"])})))
    return queries
