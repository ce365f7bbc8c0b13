"""BM25 and its terms: formulas by hand, rank-bm25 as oracle, what each tokeniser finds, and what no lexical engine may do."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localeval.lexical import BM25, IDF, RankBM25, unweighted_share
from localeval.records import BadInput, Hit, Span
from localeval.tokens import SNOWBALL, STOP_WORDS, TOKENISERS, ascii_words, code_aware, fold, tokeniser, words, words_tr


def spans(*names):
    return [Span(name, 0, 1) for name in names]


def docs(hits):
    return [hit.span.doc_id for hit in hits]


def test_bm25_by_hand():
    index = BM25(spans("a", "b", "c"), ["kiln kiln fire", "kiln ash", "glaze"], words)
    (first, second) = index.search("kiln", 10)
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / 2))
    assert first == Hit(Span("a", 0, 1), round(expected, 6))
    assert second.span.doc_id == "b"


def test_a_term_in_half_of_the_texts_still_counts():
    texts = ["kettle steam", "kettle lid", "spoon lid", "fork steam"]
    lucene = BM25(spans(*"abcd"), texts, words).search("kettle", 10)
    assert docs(lucene) == ["a", "b"] and all(hit.score > 0 for hit in lucene)
    okapi = BM25(spans(*"abcd"), texts, words, variant="okapi").search("kettle", 10)
    assert [hit.score for hit in okapi] == [0.0, 0.0], (
        "the reference arm keeps its zero, and still returns only matches"
    )
    both = BM25(spans("a", "b"), ["tea pot", "tea cup"], words).search("tea", 10)
    assert all(hit.score > 0 for hit in both)


@pytest.mark.parametrize(
    ("texts", "query"), [([], "tea"), (["", ""], "tea"), (["tea"], ""), (["tea"], "?!"), (["tea"], "coffee")]
)
def test_nothing_in_common_returns_nothing(texts, query):
    assert BM25(spans(*"ab"[: len(texts)]), texts, words).search(query, 10) == []


def test_unknown_variant_and_repeated_ids():
    with pytest.raises(BadInput, match="known: lucene, okapi, plus, l"):
        BM25(spans("a"), ["x"], words, variant="bm26")
    with pytest.raises(ValueError, match="two units have the id a#0-1"):
        BM25(spans("a", "a"), ["x", "y"], words)


vocabulary = st.lists(st.sampled_from(["tea", "kiln", "fire", "ash", "lid", "pot"]), max_size=6).map(" ".join)


@given(st.lists(vocabulary, min_size=1, max_size=8), vocabulary)
def test_every_text_with_a_query_term_is_found_with_a_positive_score(texts, query):
    names = [f"d{i}" for i in range(len(texts))]
    hits = BM25(spans(*names), texts, words).search(query, 100)
    wanted = {name for name, text in zip(names, texts, strict=True) if set(text.split()) & set(query.split())}
    assert set(docs(hits)) == wanted and all(hit.score > 0 for hit in hits)


def test_accented_words_share_no_letters():
    index = BM25(spans("a", "b"), ["Die Kühe über dem Hügel", "Die Tür steht offen"], code_aware)
    assert index.search("für Öl", 10) == [] and docs(index.search("TÜR", 10)) == ["b"]


WHOLE = [tokenise for name, tokenise in TOKENISERS.items() if name != "ascii_words"]


@pytest.mark.parametrize("tokenise", WHOLE)
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the kiln fires at nine", "when does the kiln fire"),
        ("Bursa'nın fırını", "Bursa’nın"),
        ("Bursa’nın fırını", "Bursa"),
        ("do not, or don’t, pour", "don't?"),
        ("crème brûlée", "cre\u0300me bru\u0302le\u0301e"),
        ("cre\u0300me", "crème"),
        ("ﬂat stone", "flat"),
        ("ＯＡＫ stool", "oak"),
        ("seal BX-2207 here", 'BX-2207: "'),
        ("ash::sieve", "ash::sieve*"),
        ("a load of 12,500 kg", "12,500"),
        ("re-entry valve", "re entry"),
        ("古い土鍋で米を炊く", "土鍋"),
        ("緑茶を飲む", "茶"),
        ("ดื่มชาเขียวร้อน", "ชาเขียว"),
        ("x axis", "x"),
    ],
)
def test_a_query_meets_its_text_however_both_were_typed(tokenise, text, query):
    index = BM25(spans("other", "text"), ["nothing to see", text], tokenise)
    assert docs(index.search(query, 10)) == ["text"]


@pytest.mark.parametrize(
    ("text", "query"), [("re-entry valve", "reentry"), ("a load of 12,500 kg", "12500"), ("3,5 mm", "35")]
)
def test_what_the_rule_of_words_is_known_to_miss(text, query):
    assert BM25(spans("text"), [text], code_aware).search(query, 10) == []


def test_part_of_a_number_never_goes_before_that_number():
    index = BM25(spans("part", "whole"), ["a load of 12,500 kg", "a load of 500 kg"], code_aware)
    assert docs(index.search("500", 10)) == ["whole", "part"]


def test_an_identifier_is_found_by_its_parts_and_first_by_itself():
    texts = ["parse http header v 2", "parseHTTPHeader_v2", "parseHTTPHeader_v3"]
    index = BM25(spans(*"abc"), texts, code_aware)
    assert docs(index.search("parseHTTPHeader_v2", 10))[0] == "b" and len(index.search("http header", 10)) == 3


@pytest.mark.parametrize("tokenise", [words, code_aware])
@given(text=st.text(st.sampled_from("aZé ıİßﬁ_-'’7½茶と急ชกשجक\u0300\u00ad"), max_size=30))
def test_no_letter_is_lost(tokenise, text):
    assert {letter for letter in fold(text) if letter.isalnum()} <= set("".join(tokenise(text)))


def test_turkish_capitals_meet_their_small_letters():
    for capital, small in (("ILICA", "ılıca"), ("İNCİR", "incir")):
        assert docs(BM25(spans("text"), [capital], words_tr).search(small, 1)) == ["text"]


@given(st.permutations(range(5)))
def test_the_order_of_input_does_not_matter(order):
    texts = ["tea pot", "tea cup", "tea", "lid", "tea pot"]
    names = "abcde"
    shuffled = BM25(spans(*(names[i] for i in order)), [texts[i] for i in order], words)
    assert shuffled.search("tea pot", 9) == BM25(spans(*names), texts, words).search("tea pot", 9)


@pytest.mark.parametrize(
    ("tokenise", "text", "terms"),
    [
        (words, "çay ocağı 茶碗 naïve", ["çay", "ocağı", "茶", "茶碗", "碗", "naïve"]),
        (words, "ﬁnal o\u00adﬃce CAFE\u0301", ["final", "office", "café"]),
        (ascii_words, "naïve", ["na", "ve"]),
        (code_aware, "parseHTTPHeader_v2", ["parsehttpheader_v2", "parse", "http", "header", "v", "2"]),
        (code_aware, "plain words", ["plain", "words"]),
        (
            code_aware,
            "für Müller ÖlTank çayOcağı",
            ["für", "müller", "öltank", "öl", "tank", "çayocağı", "çay", "ocağı"],
        ),
        (code_aware, "_ __init__ a1", ["init", "a1", "a", "1"]),
        (words, "हिन्दी İstanbul", ["हिन्दी", "istanbul"]),
        (words, "茶 AI茶v2", ["茶", "ai", "茶", "v2"]),
        (words, "INDEX Isı", ["index", "isı"]),
        (words_tr, "IĞDIR İzin I\u0307zin ısı", ["ığdır", "izin", "izin", "ısı"]),
    ],
)
def test_tokenisers(tokenise, text, terms):
    assert tokenise(text) == terms


def test_a_bm25_search_imports_no_heavy_engine():
    code = (
        "from localeval import sweep, provenance\nfrom localeval.lexical import BM25\nfrom localeval.records import Span\n"
        "from localeval.tokens import words\nassert BM25([Span('a', 0, 3)], ['tea'], words).search('tea', 1)\n"
        "assert provenance.heavy_modules() == [], provenance.heavy_modules()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@given(st.lists(vocabulary, min_size=1, max_size=12), vocabulary)
def test_okapi_is_rank_bm25_to_the_last_bit(texts, query):
    from rank_bm25 import BM25Okapi

    ours, places = (
        BM25(spans(*(f"d{i:02d}" for i in range(len(texts)))), texts, str.split, variant="okapi"),
        query.split(),
    )
    known = [ours._columns[term] for term in places if term in ours._columns]
    scores, found = ours._matrix.scores(known)
    if any(texts):
        assert scores.tolist() == BM25Okapi([text.split() for text in texts]).get_scores(places).tolist()
    assert found.tolist() == [bool(set(text.split()) & set(places)) for text in texts]


@given(st.lists(vocabulary, min_size=1, max_size=12), vocabulary, st.integers(1, 12))
def test_the_reference_arm_ranks_as_the_fast_one_ties_included(texts, query, k):
    names = spans(*(f"d{i:02d}" for i in range(len(texts))))
    assert RankBM25(names, texts, words).search(query, k) == BM25(names, texts, words, variant="okapi").search(query, k)


@pytest.mark.parametrize("variant", IDF)
def test_every_cut_of_a_long_list_is_the_beginning_of_the_whole(variant):
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(["tea", "pot", "lid", "ash", "oak"], size=1 + i % 4)) for i in range(300)]
    index = BM25(spans(*(f"d{i:03d}" for i in range(300))), texts, words, variant=variant)
    whole = index.search("tea pot tea", 300)
    assert len(whole) > 200 and all(index.search("tea pot tea", k) == whole[:k] for k in (1, 2, 5, 10, 50, 120))


def test_plus_and_l_by_hand():
    texts, tf, relative = ["kiln kiln fire", "kiln ash", "glaze"], 2, 3 / 2
    norm = 0.25 + 0.75 * relative
    plus = math.log(4 / 2) * (tf * 2.5 / (tf + 1.5 * norm) + 1)
    assert BM25(spans(*"abc"), texts, words, variant="plus").search("kiln", 1)[0].score == round(plus, 6)
    c = tf / norm + 0.5
    long = math.log(4 / 2.5) * 2.5 * c / (1.5 + c)
    assert BM25(spans(*"abc"), texts, words, variant="l").search("kiln", 1)[0].score == round(long, 6)


def test_words_of_half_of_a_small_corpus_are_counted():
    index = BM25(spans(*"abcd"), ["tea pot", "tea lid", "oak", "ash"], words)
    assert unweighted_share(index, ["tea and oak", "tea"], words) == pytest.approx(2 / 3)
    assert math.isnan(unweighted_share(index, ["coffee"], words))
    assert index.size == 4 and [index.texts_with(term) for term in ("tea", "oak", "coffee")] == [2, 1, 0]


@pytest.mark.parametrize(
    ("name", "text", "terms"),
    [
        ("words+stop:en", "What is the kiln for", ["kiln"]),
        ("words+snowball:en", "kettles boiling", ["kettl", "boil"]),
        ("words_tr+prefix:5", "fırınlarından fırında", ["fırın", "fırın"]),
        ("words+stop:en+snowball:en+prefix:3", "the kettles", ["ket"]),
    ],
)
def test_steps_are_taken_in_their_order(name, text, terms):
    assert tokeniser(name)(text) == terms


@pytest.mark.parametrize("language", SNOWBALL)
def test_every_named_stemmer_is_there(language):
    assert tokeniser(f"words+snowball:{language}")("waters 12") != []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("code_awre", "unknown tokeniser 'code_awre' .did you mean 'code_aware'"),
        ("words+stp:en", "unknown step 'stp' .did you mean 'stop'"),
        ("words+stop:xx", "no stop words for 'xx'; known: en"),
        ("words+snowball:", "no Snowball stems for ''"),
        ("words+prefix:0", "prefix:0 is no length"),
        ("words+prefix:five", "prefix:five is no length"),
    ],
)
def test_a_tokeniser_that_is_not_known_is_named(name, message):
    with pytest.raises(BadInput, match=message):
        tokeniser(name)


def test_a_question_of_stop_words_returns_nothing():
    index = BM25(spans("a", "b"), ["what is the kiln", "what is it"], tokeniser("words+stop:en"))
    assert index.search("what is it", 5) == []


def test_stop_words_are_folded_as_the_tokeniser_folds_them():
    assert all(words(word) == [word] for some in STOP_WORDS.values() for word in some)
