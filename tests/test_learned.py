"""Learned sparse retrieval: index by hand, and the model's formula against its logits."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from localeval import embedding
from localeval.learned import LearnedSparse, Splade
from localeval.records import Span
from localeval.vectors import Stored


def stored(*texts):
    rows = [np.array(text, np.float32).reshape(-1, 2) for text in texts]
    ends = np.cumsum([len(one) for one in rows])
    return Stored(np.concatenate(rows), ends - [len(one) for one in rows], ends, 0.0)


def spans(*names):
    return [Span(name, 0, 1) for name in names]


def test_scores_are_inner_products_by_hand():
    texts = stored([(7, 1.0), (9, 2.0)], [(9, 0.5)], [], [(3, 1.0)])
    index = LearnedSparse(spans(*"badc"), texts, lambda query: np.array([(9, 2.0), (7, 3.0), (999, 5.0)], np.float32))
    assert [(hit.span.doc_id, hit.score) for hit in index.search("?", 10)] == [("b", 7.0), ("a", 1.0)]
    nothing = LearnedSparse(spans("a"), stored([(1, 1.0)]), lambda query: np.zeros((0, 2), np.float32))
    assert (
        nothing.search("?", 10) == []
        and LearnedSparse([], stored([]), lambda query: np.ones((1, 2))).search("?", 5) == []
    )


@pytest.mark.slow
def test_weights_follow_the_formula_on_a_tiny_model(tiny_bert):
    folder, model = tiny_bert("BertForMaskedLM")
    import torch
    from transformers import BertTokenizerFast

    splade = Splade(embedding.ModelCard("tiny", "sparse", "random weights", 8, "MIT", "3 k"), folder)
    read = BertTokenizerFast(str(folder / "vocab.txt"))("tea pot", return_tensors="pt")
    want = torch.log1p(torch.relu(model(**read).logits[0])).max(dim=0).values.detach().numpy()
    rows = splade.encode_sparse(["tea pot"])[0]
    assert rows[:, 0].tolist() == np.flatnonzero(want > 0).tolist() and rows[:, 1] == pytest.approx(
        want[want > 0], abs=1e-6
    )
    assert splade.token_counts(["tea pot", "tea " * 20]).tolist() == [4, 22]
    assert embedding.truncated_share(splade, ["tea pot", "tea " * 20]) == 0.5
    assert splade.words(rows, 1)[0][0] in (folder / "vocab.txt").read_text().split()


def test_the_real_model_knows_what_a_text_is_about():
    card = embedding.CARDS["splade-tiny"]
    if importlib.util.find_spec(card.package) is None:
        pytest.skip(f"{card.package} is not installed: pip install -r requirements-models.txt")
    splade = Splade(card, embedding.locate(card))
    index = LearnedSparse(
        spans("capital", "kiln"), stored(*splade.encode_sparse(["Paris is the capital of France.", "A kiln burns clay."])),
        lambda query: splade.encode_sparse([query])[0],
    )  # fmt: skip
    assert index.search("capital of france", 1)[0].span.doc_id == "capital"
