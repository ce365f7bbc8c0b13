"""Models: found, checked and never fetched; what they cut is counted; the loading path of a cross-encoder on a tiny model."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from localeval import embedding
from localeval.onnxmodel import OnnxEmbedder, exported
from localeval.records import BadInput
from localeval.vectors import VectorCache

MINILM = embedding.CARDS["minilm"]
here = embedding.locate(MINILM)
needs_model = pytest.mark.skipif(here is None, reason="the package with the embedded model is not installed")


@pytest.fixture(scope="module", params=["onnx", "torch"])
def minilm(request, tmp_path_factory):
    if request.param == "torch":
        return embedding.SentenceEmbedder(MINILM, here)
    return OnnxEmbedder(MINILM, here, tmp_path_factory.mktemp("cache"))


def test_unknown_models_are_named():
    with pytest.raises(
        BadInput, match="unknown embedder 'minilmm'; known: minilm, minilm-int8, minilm-bf16, static-english, bge-small"
    ):
        embedding.card_of("minilmm")
    with pytest.raises(BadInput, match="unknown cross encoder 'minilm'; known: ms-marco-minilm"):
        embedding.card_of("minilm", "cross_encoder")


def test_weights_are_looked_for_in_folders_only(tmp_path, monkeypatch):
    card = embedding.CARDS["bge-small"]
    monkeypatch.delenv("LOCALEVAL_MODELS", raising=False)
    assert embedding.locate(card, tmp_path) is None
    assert "models/bge-small" in card.how_to_get and card.how_to_get.startswith("not run: weights not found")
    folder = tmp_path / "models" / "bge-small"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    assert embedding.locate(card, tmp_path) == folder
    monkeypatch.setenv("LOCALEVAL_MODELS", str(tmp_path / "models"))
    assert embedding.locate(card, tmp_path / "elsewhere") == folder


def test_other_weights_than_the_pinned_ones_are_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(BadInput, match=r"not the pinned weights of all-MiniLM-L6-v2 \(sha256 "):
        embedding.verify(MINILM, tmp_path)
    assert len(embedding.verify(replace(MINILM, sha256=""), tmp_path)) == 64
    with pytest.raises(BadInput, match="weights missing"):
        embedding.verify(MINILM, tmp_path / "none")


@needs_model
def test_the_embedded_weights_are_the_pinned_ones():
    assert embedding.verify(MINILM, here) == MINILM.sha256


@pytest.mark.slow
@needs_model
def test_vectors_are_unit_float32_and_do_not_depend_on_the_batch(minilm):
    texts = ["Boil the water.", "word " * 300, "How long does green tea keep?"]
    together, alone = minilm.encode(texts), minilm.encode(texts[:1])
    assert together.dtype == np.float32 and together.shape == (3, 384)
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert np.abs(together[0] - alone[0]).max() < 1e-5
    assert minilm.encode([]).shape[0] == 0


@pytest.mark.slow
@needs_model
def test_both_ways_to_run_a_model_give_the_same_vectors(tmp_path):
    texts = ["Boil the water.", "Fünf Äpfel – 5 °C\n\nnext line", "word " * 400, "x", "日本語 and ½ cup"]
    one, two = embedding.SentenceEmbedder(MINILM, here), OnnxEmbedder(MINILM, here, tmp_path)
    for role in ("query", "passage"):
        assert np.abs(one.encode(texts, role) - two.encode(texts, role)).max() < 2e-6
        for left, right in zip(one.encode_tokens(texts, role), two.encode_tokens(texts, role), strict=True):
            assert left.shape == right.shape and np.abs(left.astype(np.float32) - right.astype(np.float32)).max() < 2e-3
    assert one.token_counts(texts).tolist() == two.token_counts(texts).tolist()
    pooled, tokens = two.query(texts[0])
    assert np.array_equal(pooled, two.encode(texts[:1], "query")[0]) and np.array_equal(
        tokens, two.encode_tokens(texts[:1], "query")[0]
    )


@pytest.mark.slow
@needs_model
def test_a_graph_that_was_changed_is_exported_again(tmp_path):
    graph = exported(MINILM, here, tmp_path)
    whole, written = graph.read_bytes(), graph.stat().st_mtime_ns
    assert exported(MINILM, here, tmp_path).stat().st_mtime_ns == written, "exported once"
    graph.write_bytes(whole[:-10] + b"0123456789")
    assert exported(MINILM, here, tmp_path).read_bytes() == whole


def folder_of(path, **files):
    """A model folder with its small files only; names are written with `__` for a slash."""
    files = {"modules": [{"type": "sentence_transformers.models.Transformer"}, {"type": "sentence_transformers.models.Pooling"}],
             "1_Pooling__config": {"pooling_mode_mean_tokens": True}} | files  # fmt: skip
    for name, content in files.items():
        place = path / f"{name.replace('__', '/')}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(content))
    return path


def test_what_only_the_reference_can_run_is_refused(tmp_path):
    from localeval.onnxmodel import _plain

    assert _plain(folder_of(tmp_path / "a")) == "mean"
    assert _plain(folder_of(tmp_path / "b", **{"1_Pooling__config": {"pooling_mode_cls_token": True}})) == "cls"
    beyond = [
        {"1_Pooling__config": {"pooling_mode_max_tokens": True}},
        {"1_Pooling__config": {"pooling_mode": ["mean", "cls"]}},
        {"modules": [{"type": "x.Transformer"}, {"type": "x.Pooling"}, {"type": "x.Dense"}]},
        {"config_sentence_transformers": {"default_prompt_name": "query"}},
        {"sentence_bert_config": {"do_lower_case": True}},
    ]
    for number, files in enumerate(beyond):
        with pytest.raises(BadInput, match="encoder: torch"):
            _plain(folder_of(tmp_path / str(number), **files))
    (tmp_path / "a/sentence_bert_config.json").write_text("{bad")
    with pytest.raises(BadInput, match="not JSON"):
        _plain(tmp_path / "a")


def test_every_small_file_of_a_model_is_part_of_what_vectors_depend_on(tmp_path):
    seen = {embedding.files_digest(folder_of(tmp_path / "m"))}
    seen.add(
        embedding.files_digest(folder_of(tmp_path / "m", **{"1_Pooling__config": {"pooling_mode_cls_token": True}}))
    )
    (tmp_path / "m/vocab.txt").write_text("a")
    seen.add(embedding.files_digest(tmp_path / "m"))
    assert len(seen) == 3


class Echo:
    """Stands where a model or its tokenizer would, and keeps what it was given."""

    def encode(self, texts, **options):
        self.read = list(texts)
        return np.eye(len(self.read), dtype=np.float32)

    def encode_batch(self, texts):
        self.read = list(texts)
        return []


@pytest.mark.parametrize("encoder", [OnnxEmbedder, embedding.SentenceEmbedder])
def test_each_side_is_read_with_its_own_words_before_it(encoder):
    embedder = encoder.__new__(encoder)
    embedder.card, echo = embedding.CARDS["e5-small"], Echo()
    embedder._model = embedder._tokenizer = echo
    read = embedder.encode if encoder is embedding.SentenceEmbedder else embedder._ids
    assert (read(["tea"], "query"), echo.read)[1] == ["query: tea"]
    assert (read(["tea"], "passage"), echo.read)[1] == ["passage: tea"]


@pytest.mark.parametrize("change", [{"query": "q: "}, {"passage": "p: "}, {"sha256": "f" * 64}, {"name": "e5"}])
def test_vectors_made_in_another_way_are_never_taken_from_the_cache(tmp_path, change):
    embedder = OnnxEmbedder.__new__(OnnxEmbedder)
    embedder.card, embedder._max_tokens = embedding.CARDS["e5-small"], 512
    embedder._files = "0"
    cache = VectorCache(tmp_path)
    before = cache._store(embedder, "pooled")
    embedder.card = replace(embedder.card, **change)
    assert cache._store(embedder, "pooled") != before


@pytest.mark.slow
def test_a_folder_that_does_not_say_how_it_pools_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(BadInput, match="modules.json: missing; save the model in sentence-transformers format"):
        embedding.SentenceEmbedder(embedding.CARDS["bge-small"], tmp_path)


@pytest.mark.slow
@needs_model
def test_what_the_model_does_not_read_is_counted(minilm):
    long = "word " * 400
    assert minilm.token_counts(["word", long]).tolist() == [3, 402]
    assert embedding.truncated_share(minilm, ["word", long]) == 0.5
    assert np.allclose(minilm.encode([long])[0], minilm.encode([long + "and an answer at the end"])[0]), (
        "the tail is never seen"
    )


@pytest.mark.slow
@needs_model
def test_token_vectors_are_unit_rows_without_special_tokens(minilm):
    (tokens,) = minilm.encode_tokens(["Boil the water."])
    assert tokens.dtype == np.float16 and tokens.shape == (4, 384)
    assert np.linalg.norm(tokens.astype(np.float32), axis=1) == pytest.approx(np.ones(4), abs=2e-3)
    (long,) = minilm.encode_tokens(["word " * 400])
    assert len(long) == 254


@pytest.mark.slow
def test_eight_bits_come_near_the_full_model_and_are_kept_apart(tiny_bert, tmp_path_factory):
    folder, _ = tiny_bert("BertModel")
    folder_of(folder)
    cache = tmp_path_factory.mktemp("cache")
    card = embedding.ModelCard("tiny", "embedder", "random weights", 64, "MIT", "3 k")
    full = OnnxEmbedder(card, folder, cache)
    small = OnnxEmbedder(replace(card, name="tiny-int8", precision="int8", reference="tiny"), folder, cache)
    assert len(list((cache / "onnx").glob("*.onnx"))) == 2, "one export, and its copy in eight bits"
    texts = ["tea pot", "kiln fire pot tea " * 20, "fire"]
    one, two = full.encode(texts), small.encode(texts)
    assert (np.sum(one * two, axis=1) > 0.98).all() and not np.array_equal(one, two)
    for embedder, together in ((full, one), (small, two)):
        alone = [embedder.encode([text])[0] for text in texts]
        assert np.array_equal(together, alone), "to the last bit, whatever stood beside a text"
    assert full.settings["dtype"] == "float32" and small.settings["dtype"] == "int8"
    store = VectorCache(cache)._store
    assert store(full, "pooled").folder != store(small, "pooled").folder


def test_the_reference_engine_runs_full_precision_only(tmp_path):
    with pytest.raises(BadInput, match="model minilm-int8 is run by ONNX Runtime: settings 'encoder: onnx'"):
        embedding.SentenceEmbedder(embedding.CARDS["minilm-int8"], tmp_path)
    with pytest.raises(BadInput, match="no 4 bits under ONNX Runtime; known: float32, int8"):
        OnnxEmbedder(replace(MINILM, precision="4 bits"), tmp_path, tmp_path)


def test_a_card_in_lower_precision_names_the_same_weights_in_full():
    for card in embedding.CARDS.values():
        if card.reference:
            full = embedding.CARDS[card.reference]
            assert full.precision == "float32" != card.precision and full.sha256 == card.sha256
            assert (full.query, full.passage, full.max_tokens) == (card.query, card.passage, card.max_tokens)


@needs_model
def test_bfloat16_comes_near_and_has_a_store_of_its_own():
    full, low = (embedding.SentenceEmbedder(embedding.card_of(name), here) for name in ("minilm", "minilm-bf16"))
    texts = ["A kiln wants a slow fire.", "Wells are dug far from latrines."]
    one, two = full.encode(texts), low.encode(texts)
    assert two.dtype == np.float32 and np.linalg.norm(two, axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert 1e-5 < np.abs(one - two).max() < 0.02, "so much is lost, and something is"
    assert [tokens.dtype for tokens in low.encode_tokens(texts)] == [np.float16] * 2
    assert full.settings["dtype"] == "float32" and low.settings["dtype"] == "bfloat16"
    with pytest.raises(BadInput, match="minilm-int8 is run by ONNX Runtime"):
        embedding.SentenceEmbedder(embedding.card_of("minilm-int8"), here)
