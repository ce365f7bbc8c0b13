"""Rerankers: a tiny cross-encoder of random weights goes the way that real weights would, a stub stands for a language model."""

from __future__ import annotations

import json
import math
import shutil
import sys
import types

import numpy as np
import pytest

from localeval import crossencoder, pointwise, preview, sweep
from localeval.crossencoder import CrossEncoder, OnnxCrossEncoder, Pairs, parsed, reranker_card
from localeval.embedding import ModelCard, card_of
from localeval.records import BadInput, Query, Span, System
from localeval.rerank import MaxSim, Unstored, each_once
from localeval.retrieval import Reranked, remembering
from localeval.systems import with_rerankers
from test_retrieval import Fixed, spans
from test_sweep import QUERIES, engines  # noqa: F401

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "tea", "kiln", "fire", "pot", "clay", "slow", "wants", "a"]
SHAPE = preview.Shape(2, 16, 2, 32, 24)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Card and folder of a tiny model, and a cache."""
    pytest.importorskip("torch")
    from transformers import BertTokenizerFast

    root = tmp_path_factory.mktemp("tiny")
    (root / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(str(root / "vocab.txt")).save_pretrained(root / "words")
    card, folder = preview.random_model(SHAPE, root / "words", root / "cache", seed=3)
    return card, folder, root / "cache"


TEXTS = {
    Span("a", 0, 1): "tea pot", Span("b", 0, 1): "kiln fire clay", Span("c", 0, 1): "slow fire " * 20, Span("d", 0, 1): "tea pot",
    Span("e", 0, 1): "never seen", Span("f", 0, 1): "a kiln wants a slow fire",
}  # fmt: skip


def test_both_ways_to_run_a_cross_encoder_give_the_logits_of_the_model(made):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    card, folder, cache = made
    model, words = (
        AutoModelForSequenceClassification.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with torch.no_grad():
        expected = [
            model(**words("slow kiln", text, return_tensors="pt", truncation=True, max_length=24)).logits.item()
            for text in TEXTS.values()
        ]
    torch_scores = CrossEncoder(card, folder, TEXTS.__getitem__)("slow kiln", list(TEXTS))
    onnx = OnnxCrossEncoder(card, folder, TEXTS.__getitem__, cache)("slow kiln", list(TEXTS))
    assert np.ptp(expected) > 0.05, "or equality would say nothing"
    assert torch_scores == pytest.approx(expected, abs=2e-6) and onnx == pytest.approx(expected, abs=1e-5)
    assert torch_scores.dtype == onnx.dtype == np.float64
    assert not ((onnx > 0) & (onnx < 1)).all(), "logits, not shares of one"


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "Electra"])
def test_the_last_layer_may_be_computed_for_its_first_token_only(kind):
    """Electra's classifier is not among those that are cut short, and must come out as it is."""
    import torch
    import transformers

    torch.manual_seed(1)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=40, num_hidden_layers=3, hidden_size=16, num_attention_heads=2, intermediate_size=32, max_position_embeddings=64,
        num_labels=1, initializer_range=0.5, embedding_size=16,
    )  # fmt: skip
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config).eval()
    last, rows = model.base_model.encoder.layer[-1].intermediate, []
    last.register_forward_hook(lambda module, given, made: rows.append(made.shape[1]))
    for length in (1, 2, 30):
        feed = {"input_ids": torch.randint(2, 40, (1, length))}
        feed["token_type_ids"] = torch.zeros_like(feed["input_ids"])
        with torch.no_grad():
            found, expected = crossencoder.first_token(model, feed), model(**feed).logits
        assert found.shape == (1, 1) and found.item() == pytest.approx(expected.item(), abs=1e-5)
    assert rows == [length if kind == "Electra" or full else 1 for length in (1, 2, 30) for full in (False, True)]


def test_eight_bits_lose_a_little_and_the_loss_can_be_seen(made):
    card, folder, cache = made
    full, eight = (OnnxCrossEncoder(card, folder, TEXTS.__getitem__, cache, bits=bits) for bits in (32, 8))
    apart = np.abs(full("slow kiln", list(TEXTS)) - eight("slow kiln", list(TEXTS)))
    assert 0 < apart.max() < 0.5 * np.ptp(full("slow kiln", list(TEXTS)))
    import onnx

    parts = onnx.load(str(crossencoder.exported(full.card, folder, cache, 8))).graph.initializer
    weights = [part for part in parts if part.data_type == onnx.TensorProto.INT8 and len(part.dims) == 2]
    scales = [part for part in parts if part.name.endswith("_scale") and part.dims and part.dims[0] > 1]
    assert len(weights) >= 6 * SHAPE.layers and scales, "every matrix of a layer, with a scale for each channel"


@pytest.mark.parametrize("bits", [32, 8])
def test_a_score_does_not_depend_on_what_is_scored_with_it_nor_on_threads(made, bits):
    card, folder, cache = made
    one, two = (OnnxCrossEncoder(card, folder, TEXTS.__getitem__, cache, threads, bits) for threads in (1, 2))
    together = one("slow kiln", list(TEXTS))
    assert [one("slow kiln", [span])[0] for span in TEXTS] == together.tolist()
    assert (
        one("slow kiln", list(TEXTS)[::-1])[::-1].tolist()
        == together.tolist()
        == two("slow kiln", list(TEXTS)).tolist()
    )
    assert together[0] == together[3], "equal texts, equal scores"


def test_a_shallow_depth_is_a_part_of_a_deep_one(made):
    """Candidates are scored once; what each depth returns is what it returns by itself."""
    card, folder, cache = made
    names = ["a", "b", "c", "d", "e", "f"]
    texts = {span: TEXTS[Span(span.doc_id, 0, 1)] for span in spans(*names)}
    scored = []
    scorer = OnnxCrossEncoder(card, folder, lambda span: scored.append(span) or texts[span], cache)
    alone = [Reranked(Fixed(*names), scorer, depth).search("slow kiln", 6) for depth in (1, 2, 4, 6)]
    assert len(scored) == 1 + 2 + 4 + 6
    scored.clear()
    with remembering():
        shared = [Reranked(Fixed(*names), scorer, depth).search("slow kiln", 6) for depth in (1, 2, 4, 6)]
    assert shared == alone and len(scored) == 6
    deepest = {hit.span: hit.score for hit in alone[-1]}
    for depth, hits in zip((1, 2, 4, 6), alone, strict=True):
        derived = sorted(spans(*names[:depth]), key=lambda span: (-deepest[span], span))
        assert [hit.span for hit in hits] == [*derived, *spans(*names[depth:])]


def test_scores_known_inside_a_search_are_not_computed_again_and_forgotten_after_it():
    asked, owner = [], object()
    score = lambda some: asked.append(list(some)) or [len(span.doc_id) for span in some]
    with remembering():
        assert each_once(owner, "q", spans("a", "bb"), score).tolist() == [1, 2]
        assert each_once(owner, "q", spans("bb", "ccc", "a"), score).tolist() == [2, 3, 1]
        each_once(owner, "other", spans("a"), score)
        each_once(object(), "q", spans("a"), score)
    each_once(owner, "q", spans("a"), score)
    assert asked == [spans("a", "bb"), spans("ccc"), spans("a"), spans("a"), spans("a")]
    assert each_once(owner, "q", [], score).tolist() == []


def test_what_does_not_fit_is_counted_and_a_question_stays_whole(made):
    card, folder, _ = made
    pairs = Pairs(card, folder, {"max_position_embeddings": 24})
    assert pairs.cut("slow kiln", ["tea pot", "tea " * 19, "tea " * 20]).tolist() == [False, False, True]
    ((ids, types),) = pairs.read("slow kiln", ["tea " * 30 + "fire"])
    assert len(ids) == 24 and ids[:4] == [WORDS.index(word) for word in ("[CLS]", "slow", "kiln", "[SEP]")]
    assert WORDS.index("fire") not in ids and types == [0] * 4 + [1] * 20
    ((ids, types),) = pairs.read("kiln " * 40, ["tea " * 40])
    assert len(ids) == 24 and types.count(0) in (12, 13), "a question that takes it all leaves half to the passage"
    assert Pairs(card, folder, {"max_position_embeddings": 16}).max_tokens == 16
    assert Pairs(card, folder, {"max_position_embeddings": 24, "model_type": "xlm-roberta"}).max_tokens == 22


def test_a_graph_that_was_changed_is_made_again(made):
    card, folder, cache = made
    scorer = OnnxCrossEncoder(card, folder, TEXTS.__getitem__, cache)
    path = crossencoder.exported(scorer.card, folder, cache)
    before = path.read_bytes()
    path.write_bytes(before[:-1] + b"?")
    crossencoder.exported(scorer.card, folder, cache)
    assert path.read_bytes()[-1:] == before[-1:]


def test_names_of_rerankers(tmp_path, made):
    assert parsed("ms-marco-minilm") == ("ms-marco-minilm", "") and parsed("x:int8") == ("x", "int8")
    with pytest.raises(BadInput, match="unknown 'int' .did you mean 'int8'.*known: fp32, int8, torch"):
        parsed("x:int")
    assert reranker_card("ms-marco-minilm", tmp_path) is card_of("ms-marco-minilm", "cross_encoder")
    with pytest.raises(BadInput, match="unknown cross encoder 'own'.*models/NAME"):
        reranker_card("own", tmp_path)
    shutil.copytree(made[1], tmp_path / "models" / "own")
    card = reranker_card("own", tmp_path)
    assert (card.name, card.max_tokens, card.licence) == ("own", 24, "not known")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architectures": ["BertModel"]}, "a BertModel with 1 outputs; a reranker is"),
        ({"id2label": {"0": "no", "1": "yes"}}, "with 2 outputs"),
        ({"id2label": None}, "with 2 outputs"),
        ({"architectures": None}, "a none with"),
        ({"auto_map": {"AutoModel": "code.Model"}}, "needs code of its own, which is never run"),
    ],
)
def test_what_is_no_reranker_is_refused(made, tmp_path, change, words):
    card, folder, cache = made
    shutil.copytree(folder, tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config.setdefault("id2label", {"0": "LABEL_0"})
    (tmp_path / "m" / "config.json").write_text(json.dumps(config | change))
    for make in (
        lambda: CrossEncoder(card, tmp_path / "m", str),
        lambda: OnnxCrossEncoder(card, tmp_path / "m", str, cache),
    ):
        with pytest.raises(BadInput, match=words):
            make()


def test_pinned_weights_are_checked_and_a_missing_file_is_named(made, tmp_path):
    card, folder, cache = made
    pinned = ModelCard("tiny", "cross_encoder", "tiny", 24, "MIT", "3 k", sha256="0" * 64)
    with pytest.raises(BadInput, match="not the pinned weights of tiny"):
        OnnxCrossEncoder(pinned, folder, str, cache)
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m" / "tokenizer.json").unlink()
    with pytest.raises(BadInput, match="tokenizer.json: missing"):
        OnnxCrossEncoder(card, tmp_path / "m", str, cache)
    (tmp_path / "m" / "config.json").write_text("{")
    with pytest.raises(BadInput, match="config.json: not JSON"):
        OnnxCrossEncoder(card, tmp_path / "m", str, cache)


def test_every_reranker_is_a_row_and_says_what_it_does_not_read(engines, made, monkeypatch):  # noqa: F811
    monkeypatch.delenv("LOCALEVAL_MODELS", raising=False)
    shutil.copytree(made[1], engines.root / "models" / "own")
    names = ["own", "own:int8", "own:torch", "ms-marco-minilm", "llm:none"]
    systems = with_rerankers([System("sentence", "bm25")], names, [2, 3])
    outcome = sweep.run(systems, QUERIES, engines, repeats=1)
    state = dict(zip(outcome.runs["system"], outcome.runs["status"], strict=True))
    assert [state[f"sentence/bm25+{name}@3"] for name in names] == ["ok", "ok", "ok", "not_run", "not_run"]
    reasons = dict(zip(outcome.runs["system"], outcome.runs["reason"], strict=True))
    assert "save cross-encoder/ms-marco-MiniLM-L-6-v2" in reasons["sentence/bm25+ms-marco-minilm@3"]
    for query in QUERIES:
        one, two = (outcome.hits[f"sentence/bm25+{name}@3", query.query_id] for name in ("own", "own:torch"))
        assert [hit.span for hit in one] == [hit.span for hit in two]
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in two], abs=3e-6)
    rows = sweep.unread(outcome.hits, systems, QUERIES, engines)
    assert rows["reranker"].tolist() == ["own", "own:int8", "own:torch"] and (rows["depth"] == 3).all()
    first = rows.iloc[0]
    candidates = [outcome.hits["sentence/bm25", query.query_id][:3] for query in QUERIES]
    assert first["pairs"] == sum(map(len, candidates)) and first["reads_tokens"] == 24 and first["pairs_cut"] == 0
    assert first["passages"] == len({hit.span for some in candidates for hit in some}) and len(first["weights"]) == 12
    long = [Query("long", "tea " * 30)]
    again = sweep.run(systems[:3], long, engines, repeats=1)
    assert sweep.unread(again.hits, systems[:3], long, engines)["pairs_cut"].tolist() == [1.0]


def test_late_interaction_says_what_it_does_not_read_and_can_do_without_stored_vectors():
    class Letters:
        def encode_tokens(self, texts):
            return [np.eye(26, dtype=np.float16)[[ord(letter) - 97 for letter in text]] for text in texts]

    texts, asked = ["ab", "xyz", "a"], np.eye(26, dtype=np.float32)[[0, 1]]
    scorer = MaxSim(spans("p", "q", "r"), Unstored(Letters(), texts), lambda query: asked, [False, True, False], 2)
    assert scorer("ab", spans("p", "q", "r")).tolist() == [1.0, 0.0, 0.5]
    assert scorer.cut("ab", spans("q", "p")).tolist() == [True, False] and scorer.reads == 2
    assert MaxSim(spans("p"), Unstored(Letters(), texts), None).cut("ab", spans("p")).tolist() == [False]


def test_kinds_of_late_interaction_are_known_by_name(engines):  # noqa: F811
    assert [engines._kind(how) for how in ("", "float16", "int8")] == ["tokens", "tokens", "tokens8"]
    with pytest.raises(
        BadInput, match="reranker 'maxsim:int4': unknown 'int4' .did you mean 'int8'.*known: maxsim, maxsim:float16"
    ):
        with_rerankers([], ["maxsim:int4"], [])
    with pytest.raises(BadInput, match="maxsim compares vectors of a model"):
        with_rerankers([System("a", "bm25")], ["maxsim:int8"], [10])


# A language model


def stub(odds, room=200, texts=TEXTS):
    return pointwise.Pointwise(odds, lambda prompt: len(prompt.split()), room, texts.__getitem__)


def test_a_language_model_ranks_by_its_odds_and_sees_question_and_passage():
    seen = []
    scorer = stub(lambda prompt: seen.append(prompt) or float(prompt.count("kiln")))
    assert scorer("slow {kiln}", [Span("a", 0, 1), Span("f", 0, 1)]).tolist() == [1.0, 2.0]
    assert seen[1].endswith(
        "Passage: a kiln wants a slow fire\nQuestion: slow {kiln}\nDoes the passage answer the question? Answer:"
    )
    assert scorer.cut("slow kiln", list(TEXTS)).tolist() == [False] * 6


def test_a_passage_that_does_not_fit_loses_its_end_and_a_question_never_does():
    asked = stub(lambda prompt: 0.0)._prompt("slow kiln", "")
    seen = []
    scorer = stub(lambda prompt: seen.append(prompt) or 0.0, room=len(asked.split()) + 5)
    scorer("slow kiln", [Span("c", 0, 1)])
    assert "Passage: slow fire slow fire slow" in seen[0] and len(seen[0].split()) == len(asked.split()) + 5
    assert scorer.cut("slow kiln", [Span("c", 0, 1), Span("a", 0, 1)]).tolist() == [True, False]
    with pytest.raises(ValueError, match="a question of .* leaves no room for a passage"):
        scorer("kiln " * 300, [Span("a", 0, 1)])


def test_odds_that_are_no_number_are_a_failure_and_not_a_score():
    for odds in (math.nan, math.inf):
        with pytest.raises(ValueError, match="no odds of yes against no"):
            stub(lambda prompt, odds=odds: odds)("q", [Span("a", 0, 1)])


def test_a_language_model_that_is_not_here_says_what_it_takes(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install llama-cpp-python" in pointwise.missing("own", tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert pointwise.missing("own", tmp_path).endswith("save a model's GGUF file as models/own.gguf")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "own.gguf").write_bytes(b"GGUF")
    for told in ("", "llama-cpp-python crashes here"):
        monkeypatch.setattr(pointwise, "trouble", lambda path, told=told: told)
        assert pointwise.missing("own", tmp_path) == (f"not run: {told}" if told else "")
    with pytest.raises(BadInput, match="'llm' needs a model's name behind a colon"):
        pointwise.missing("", tmp_path)


def test_the_odds_are_read_behind_the_last_token_of_the_prompt(tmp_path, monkeypatch):
    """A stand-in for llama.cpp: its words are its tokens, and the logit of yes is what the prompt says of kilns."""
    words = ["<s>", "yes", "no", "kiln"]

    class Llama:
        def __init__(self, path, n_ctx, **options):
            self.ctx, self.read, self.room = self, [], n_ctx
            if path.endswith("broken.gguf"):
                raise ValueError("no GGUF")

        def tokenize(self, text, add_bos):
            found = text.decode().split()
            words.extend(word for word in dict.fromkeys(found) if word not in words)
            return [0] * add_bos + [words.index(word) for word in found]

        def reset(self):
            self.read = []

        def eval(self, tokens):
            assert len(tokens) <= self.room and tokens[0] == 0
            self.read += tokens

    def logits(model, place):
        assert place == -1
        return {1: float(model.read.count(3)), 2: 0.5}

    fake = types.SimpleNamespace(Llama=Llama, llama_get_logits_ith=logits)
    monkeypatch.setitem(sys.modules, "llama_cpp", fake)
    scorer = pointwise.load("own", tmp_path, TEXTS.__getitem__, room=200)
    assert scorer("fire", [Span("a", 0, 1), Span("b", 0, 1)]).tolist() == [-0.5, 0.5], (
        "nothing of the passage before is left"
    )
    with pytest.raises(BadInput, match="broken.gguf: llama.cpp cannot load it .no GGUF"):
        pointwise.load("broken", tmp_path, TEXTS.__getitem__)
    monkeypatch.setattr(pointwise, "NO", " yes")
    with pytest.raises(BadInput, match="use another model"):
        pointwise.load("own", tmp_path, TEXTS.__getitem__)


# Cost preview


def test_a_preview_measures_every_way_in_turn_and_says_that_it_is_cost_only(made):
    ticks = iter(range(1000))
    pairs = [("slow kiln", ["tea pot", "clay fire"]), ("tea", ["pot", "a kiln", "fire", "tea"])]
    rows = preview.measure({"tiny": SHAPE}, pairs, made[1], made[2], clock=lambda: next(ticks))
    assert rows["run by"].tolist() == list(preview.ARMS) and (rows["weights"] == preview.LABEL).all()
    assert next(ticks) == 2 * 3 * 3, "both questions by three ways, and the first once more before"
    assert (
        (rows["mean_ms"] == 1000).all()
        and (rows["per_candidate_ms"] == 1000 / 3).all()
        and (rows["questions"] == 2).all()
    )
    assert list(rows.columns) == preview.COST and not set(rows.columns) & {"mean", "ndcg@10", "value"}


def test_random_weights_are_the_same_each_time_and_for_every_way_to_run_them(made, tmp_path):
    card, folder, cache = made
    again = preview.random_model(SHAPE, folder, tmp_path, seed=3)
    assert (again[1] / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert preview.random_model(SHAPE, folder, tmp_path, seed=4)[0].name != again[0].name
    ways = preview.arms(card, folder, cache)
    plain, fast, _ = (np.asarray(score("slow kiln", list(TEXTS.values()))) for score in ways.values())
    assert 1 / (1 + np.exp(-np.asarray(fast))) == pytest.approx(plain, abs=2e-6), "the plain call squashes its logits"


def test_shapes_are_checked():
    assert preview.shapes({"x": [1, 4, 2, 8, 16]}) == {"x": preview.Shape(1, 4, 2, 8, 16)}
    for sizes, words in (
        ([1, 4], "give .layers"),
        ([1, 4, 3, 8, 16], "cannot be shared"),
        ([0, 4, 2, 8, 16], "from 1 on"),
    ):
        with pytest.raises(BadInput, match=words):
            preview.shapes({"x": sizes})


@pytest.mark.parametrize("depth", [0, -1, 2.0, True])
def test_a_depth_that_is_none_is_refused(depth):
    with pytest.raises(BadInput, match="1 or more"):
        with_rerankers([System("a", "bm25")], ["ms-marco-minilm"], [10, depth])
