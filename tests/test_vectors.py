"""The store of vectors: each text once, whole after an interruption, made again where it is broken."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localeval import vectors
from localeval.embedding import CARDS
from localeval.records import BadInput
from localeval.vectors import Store, VectorCache, packed, widened


class Made:
    """Vectors that follow from the text; keeps what it was asked for."""

    card = CARDS["minilm"]

    def __init__(self, model="a", fails_at=None):
        self.settings, self.asked, self._fails_at = {"model": model}, [], fails_at

    def encode(self, texts):
        if self._fails_at in texts:
            raise KeyboardInterrupt
        self.asked += texts
        return np.array([self.row(text) for text in texts], np.float32)

    def both(self, texts):
        return self.encode(texts), [
            np.array([self.row(text + str(n)) for n in range(len(text) % 4)], np.float16).reshape(-1, 4)
            for text in texts
        ]

    @staticmethod
    def row(text):
        draw = np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], np.uint32).astype(np.float64) - 2**31
        return draw / np.linalg.norm(draw)


def test_a_text_is_embedded_once_whatever_list_it_stands_in(tmp_path):
    cache, model = VectorCache(tmp_path), Made()
    first = cache.passages(model, ["one", "two", "one"])
    assert model.asked == ["one", "two"] and first.seconds > 0
    assert np.array_equal(first.gathered(), np.array([Made.row(t) for t in ("one", "two", "one")], np.float32))
    again = cache.passages(model, ["three", "two"])
    assert model.asked == ["one", "two", "three"]
    assert np.array_equal(again.gathered(), np.array([Made.row(t) for t in ("three", "two")], np.float32))
    cache.passages(other := Made("b"), ["one"])
    assert other.asked == ["one"], "another model has a store of its own"


def test_the_pass_for_tokens_serves_the_texts_own_vectors_too(tmp_path):
    cache, model = VectorCache(tmp_path), Made()
    stored = cache.tokens(model, ["aaa", "", "bb"])
    assert [len(stored.of(place)) for place in range(3)] == [3, 0, 2]
    assert stored.of(2)[1] == pytest.approx(Made.row("bb1"), abs=1e-3) and stored.vectors.dtype == np.float16
    cache.passages(model, ["bb", "aaa", ""])
    assert model.asked == ["aaa", "", "bb"]


def test_every_finite_number_of_sixteen_bits_is_widened_as_it_is():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].reshape(-1, 4)
    assert np.array_equal(widened(finite).view(np.uint32), finite.astype(np.float32).view(np.uint32)), (
        "signed zeros too"
    )
    assert widened(finite[::2, 1:3]).tolist() == finite[::2, 1:3].astype(np.float32).tolist()
    assert widened(finite[:0]).shape == (0, 4)


def test_eight_bits_are_off_by_little(tmp_path):
    cache = VectorCache(tmp_path)
    model, texts = Made(), ["abc", "defg!"]
    alone = VectorCache(tmp_path / "alone").tokens(Made(), texts, "tokens8")
    full, small = (cache.tokens(model, texts, kind) for kind in ("tokens", "tokens8"))
    assert model.asked == texts, "made of those in sixteen bits, without the model"
    assert all(np.array_equal(alone.of(place), small.of(place)) for place in range(2)), "and no different for it"
    assert small.seconds >= full.seconds > 0
    assert cache.tokens(model, ["abc", "hij"], "tokens8").of(0).tolist() == small.of(0).tolist()
    assert model.asked == [*texts, "hij"], "what is not there in sixteen bits goes through the model"
    assert small.vectors.dtype == np.int8
    for place in range(2):
        assert np.abs(small.of(place) - full.of(place)).max() <= 1 / 254 + 1e-3
    with pytest.raises(BadInput, match="unknown token_vectors 'int4'; known: tokens, tokens8"):
        cache.tokens(Made(), ["a"], "int4")


def test_a_texts_own_vector_takes_half_the_room_in_sixteen_bits(tmp_path):
    cache = VectorCache(tmp_path)
    full, half = (cache.passages(Made(), ["abc", "defg!"], kind) for kind in ("pooled", "pooled16"))
    assert half.vectors.dtype == np.float16 and half.gathered().dtype == np.float32
    assert 0 < np.abs(half.gathered() - full.gathered()).max() <= 2**-11
    with pytest.raises(BadInput, match="unknown pooled_vectors 'int8'; known: pooled, pooled16"):
        cache.passages(Made(), ["a"], "int8")


def test_a_kept_file_is_made_once_and_mended(tmp_path):
    calls, path = [], tmp_path / "sub" / "graph.bin"
    make = lambda part: (calls.append(part), part.write_bytes(b"whole"))
    first = vectors.kept(path, make)
    assert first >= 0 and vectors.kept(path, make) == pytest.approx(first, abs=1e-3) and len(calls) == 1
    path.write_bytes(b"wrong")
    vectors.kept(path, make)
    assert path.read_bytes() == b"whole" and len(calls) == 2
    path.with_suffix(".sha256").write_text(hashlib.sha256(b"whole").hexdigest())
    assert np.isnan(vectors.kept(path, make)) and len(calls) == 2, "an older note has no seconds"
    with pytest.raises(ZeroDivisionError):
        vectors.kept(tmp_path / "other", lambda part: part.write_bytes(b"half") / 0)
    assert [one.name for one in tmp_path.iterdir()] == ["sub"], "nothing is left of what broke"


def test_texts_whose_hashes_begin_alike_are_told_apart(tmp_path):
    store, keys = Store(tmp_path, "pooled"), [b"same 8 b" + bytes([n]) * 24 for n in range(3)]
    store.append(keys[:2], [np.full((1, 2), n, np.float32) for n in range(2)], 0.0)
    known = store.known(keys)
    assert known.keys() == set(keys[:2]) and store.mapped()[known[keys[1]]["start"], 0] == 1


def test_what_was_made_before_an_interruption_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "BLOCK", 2)
    texts = [f"text {n}" for n in range(6)]
    with pytest.raises(KeyboardInterrupt):
        VectorCache(tmp_path).passages(Made(fails_at="text 4"), texts)
    VectorCache(tmp_path).passages(model := Made(), texts)
    assert model.asked == texts[4:]


def breaking(numbers, index):
    def cut(path, keep):
        path.write_bytes(path.read_bytes()[:keep])

    return lambda folder: (cut(folder / "numbers", numbers), cut(folder / "index", index))


BREAKS = {
    "numbers cut short": breaking(20, None),
    "index cut inside an entry": breaking(None, vectors.ENTRY.itemsize + 7),
    "index gone": lambda folder: (folder / "index").unlink(),
    "numbers gone": lambda folder: (folder / "numbers").unlink(),
    "width gone": lambda folder: (folder / "width").unlink(),
    "a byte turned": lambda folder: (folder / "numbers").write_bytes(b"\x01" + (folder / "numbers").read_bytes()[1:]),
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_store_mends_itself(tmp_path, what):
    texts, want = ["one", "two", "three"], np.array([Made.row(t) for t in ("one", "two", "three")], np.float32)
    cache = VectorCache(tmp_path)
    cache.passages(Made(), texts)
    BREAKS[what](cache._store(Made(), "pooled").folder)
    for _ in range(2):
        assert np.array_equal(cache.passages(Made(), texts).gathered(), want)


rows = st.lists(st.tuples(st.text("abc", max_size=3), st.integers(0, 3)), max_size=8)


@settings(max_examples=25)
@given(st.lists(rows, max_size=4))
def test_any_order_of_writing_reads_back(tmp_path_factory, blocks):
    store, truth = Store(tmp_path_factory.mktemp("store"), "tokens"), {}
    for block in blocks:
        arrays = {
            hashlib.sha256(text.encode()).digest(): np.full((n, 2), n + len(text), np.float16) for text, n in block
        }
        store.append(list(arrays), list(arrays.values()), 0.5)
        truth = arrays | truth
    known = store.known(list(truth))
    assert known.keys() == truth.keys()
    for key, entry in known.items():
        assert np.array_equal(store.mapped()[entry["start"] :][: entry["rows"]], truth[key])


def test_numbers_are_packed_in_their_type():
    assert packed(np.array([[1.0, -0.5]]), np.int8).tolist() == [[127, -64]]
