"""Training and decoding compute the same logits."""

from __future__ import annotations

import numpy as np
import pytest

from chat_tiny import generate, layers, tokenizer
from chat_tiny.config import ModelConfig
from chat_tiny.params import Params, count
from chat_tiny.transformer import Batch, Transformer

CONFIG = ModelConfig(vocab=tokenizer.VOCAB, layers=3, width=24, heads=3, ffn=40, context=40)


@pytest.fixture(scope="module")
def model() -> Transformer:
    rng = np.random.default_rng(3)
    params = Params.random(CONFIG, rng, np.float64)
    params["lm_head.weight"][:] = rng.normal(0, 0.3, (CONFIG.vocab, CONFIG.width))
    return Transformer(CONFIG, params)


def logits(model: Transformer, rows: list[list[int]], padded_to: int, queries: int) -> np.ndarray:
    """Return the logits (B, Q, vocab) of rows padded on the left."""
    tokens = np.full((len(rows), padded_to), tokenizer.PAD_ID)
    for i, row in enumerate(rows):
        tokens[i, padded_to - len(row) :] = row
    padding = np.array([padded_to - len(row) for row in rows])
    return model._forward(Batch(tokens, padding, np.zeros((len(rows), queries), int)))[0]


def test_left_padding_does_not_change_the_logits(model: Transformer) -> None:
    row = [1, 2, 3, 4, 5, 6]
    alone = logits(model, [row], 6, 3)
    beside = logits(model, [row, [9] * 12], 12, 3)
    np.testing.assert_allclose(beside[0], alone[0], rtol=1e-9, atol=1e-9)


def test_last_layer_is_the_same_for_fewer_queries(model: Transformer) -> None:
    row = list(range(10))
    every = logits(model, [row], 10, 10)
    few = logits(model, [row], 10, 2)
    np.testing.assert_allclose(few[0], every[0, -2:], rtol=1e-12, atol=1e-12)


def test_later_token_does_not_change_earlier_logits(model: Transformer) -> None:
    first = logits(model, [[1, 2, 3, 4]], 4, 4)
    other = logits(model, [[1, 2, 3, 99]], 4, 4)
    np.testing.assert_array_equal(first[0, :3], other[0, :3])
    assert np.abs(first[0, 3] - other[0, 3]).max() > 1e-3


def test_cached_decoding_gives_the_same_logits(model: Transformer) -> None:
    row = [5, 7, 200, 13, 257, 3, 3, 8]
    whole = logits(model, [row], len(row), len(row))[0]
    cache = generate._Cache(model)
    np.testing.assert_allclose(cache.extend(np.array([row[:5]]))[0], whole[4], rtol=1e-9, atol=1e-9)
    for i in range(5, len(row)):
        step = cache.extend(np.array([[row[i]]]))
        np.testing.assert_allclose(step[0], whole[i], rtol=1e-9, atol=1e-9)


def test_greedy_keeps_the_order_of_prompts_of_mixed_lengths(model: Transformer) -> None:
    prompts = [[1, 2, 3], [4, 5], [6, 7, 8], [9]]
    together = generate.greedy(model, prompts, 4)
    alone = [generate.greedy(model, [prompt], 4)[0] for prompt in prompts]
    assert [answer.ids for answer in together] == [answer.ids for answer in alone]
    assert all(answer.margin > 0 for answer in together)


def test_greedy_stops_at_the_end_of_the_context(model: Transformer) -> None:
    answer = generate.greedy(model, [[1] * (CONFIG.context - 2)], 10)[0]
    assert len(answer.ids) <= 2


def test_greedy_stops_at_the_end_of_the_turn(model: Transformer) -> None:
    ending = Transformer(CONFIG, Params(CONFIG, model.params.flat.copy()))
    ending.params["lm_head.weight"][:] = 0
    prompt = [1, 2, 3]
    hidden = _hidden(ending, prompt)
    ending.params["lm_head.weight"][tokenizer.END_ID] = hidden
    answer = generate.greedy(ending, [prompt], 10)[0]
    assert (answer.ids, answer.text) == ([tokenizer.END_ID], "")


def _hidden(model: Transformer, prompt: list[int]) -> np.ndarray:
    """Return the input vector of the head for the last token."""
    batch = Batch(np.array([prompt]), np.array([0]), np.zeros((1, 1), int))
    return model._forward(batch)[1][2][0, -1]


def test_row_longer_than_the_context_is_rejected(model: Transformer) -> None:
    with pytest.raises(ValueError, match="exceeds the context of 40"):
        logits(model, [[1] * 41], 41, 1)


def test_incompatible_sizes_are_rejected() -> None:
    with pytest.raises(ValueError, match="not a multiple"):
        ModelConfig(vocab=9, width=10, heads=4)
    with pytest.raises(ValueError, match="must be even"):
        ModelConfig(vocab=9, width=12, heads=4)


def test_parameters_are_views_of_one_vector() -> None:
    params = Params.zeros(CONFIG)
    params.flat[:] = 1
    assert sum(view.sum() for view in params.values()) == count(CONFIG)
    with pytest.raises(ValueError, match="but the model has"):
        Params(CONFIG, np.zeros(count(CONFIG) + 1))


def test_rotary_embedding_preserves_norms_and_depends_only_on_distance() -> None:
    cos, sin = layers.rope_tables(12, 8, 10000.0, np.dtype(np.float64))
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 1, 1, 12, 8))
    q[:], k[:] = q[:, :, :1], k[:, :, :1]
    turned_q, turned_k = layers.rope(q, cos, sin), layers.rope(k, cos, sin)
    np.testing.assert_allclose(np.linalg.norm(turned_q, axis=-1), np.linalg.norm(q, axis=-1))
    scores = (turned_q @ turned_k.swapaxes(-1, -2))[0, 0]
    np.testing.assert_allclose(np.diag(scores, 3), scores[0, 3], rtol=1e-9)
    np.testing.assert_allclose(layers.rope_backward(turned_q, cos, sin), q, atol=1e-12)
