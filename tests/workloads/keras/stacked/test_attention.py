"""Attention as a stack: the same as each alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, draw, refuse

LENGTH, OTHER, WIDTH = 4, 5, 6
Y, HELD_Y = draw(21, 2, seed=1), draw(13, 2, seed=3)


def draw_gaps(samples, length, seed):
    """Sequences with steps of zeros, of which one sample has nothing else."""
    x = draw(samples, length, WIDTH, seed=seed)
    x[np.random.default_rng(seed).random((samples, length)) < 0.3] = 0
    x[0] = 0
    return x


def draw_pair(samples, seed):
    return draw_gaps(samples, LENGTH, seed), draw_gaps(samples, OTHER, seed + 1)


PAIR, HELD = draw_pair(21, 0), draw_pair(13, 7)


def compare(attend, masked=False, **options):
    """attend: what attention gives of two sequences."""

    def make():
        given = [keras.Input((LENGTH, WIDTH)), keras.Input((OTHER, WIDTH))]
        some = [layers.Dense(WIDTH, "tanh")(layers.Masking()(one) if masked else one) for one in given]
        flat = [layers.Flatten()(one) for one in keras.tree.flatten(attend(*some))]
        model = keras.Model(given, layers.Dense(2)(layers.Concatenate()(flat) if len(flat) > 1 else flat[0]))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse", metrics=["mae"])
        return model

    return assert_same(make, (PAIR, Y), (HELD, HELD_Y), **options)


@pytest.mark.parametrize("xla", [False, True])
def test_heads_look_at_themselves_and_at_others(xla):
    def attend(x, other):
        y = layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
        y = layers.Add()([x, y])
        return layers.MultiHeadAttention(2, 3)(query=y, value=other)

    compare(attend, masked=True, xla=xla)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({}, {}), ({"value_dim": 4, "use_bias": False}, {}), ({"output_shape": 5}, {"use_causal_mask": True}),
        ({"output_shape": (2, 3)}, {}), ({"dropout": 0.3}, {}), ({"dropout": 0.3}, {"use_causal_mask": True}),
        ({}, {"return_attention_scores": True}),
        ({"dropout": 0.2}, {"return_attention_scores": True, "use_causal_mask": True}),
        ({"use_gate": True, "sliding_window": 2}, {}), ({"sliding_window": 2}, {"use_causal_mask": True}),
        ({"activity_regularizer": "l2", "kernel_regularizer": "l1", "bias_constraint": "max_norm"}, {}),
    ],
)  # fmt: skip
def test_options_of_heads(options, call, masked):
    compare(lambda x, other: layers.MultiHeadAttention(2, 3, **options)(x, other, **call), masked)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({}, {}), ({"dropout": 0.3}, {"use_causal_mask": True}), ({"use_gate": True}, {"use_causal_mask": True}),
        ({"use_bias": False, "sliding_window": 2}, {"return_attention_scores": True}),
    ],
)  # fmt: skip
def test_options_of_groups(options, call, masked):
    compare(lambda x, other: layers.GroupQueryAttention(3, 4, 2, **options)(x, other, **call), masked)


@pytest.mark.parametrize("kind", [layers.MultiHeadAttention, layers.GroupQueryAttention])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_key_and_a_mask_for_all_samples(kind, dropout):
    shown = np.tril(np.ones((1, LENGTH, OTHER), bool), 1)

    def attend(x, other):
        sizes = (2, 3) if kind is layers.MultiHeadAttention else (3, 4, 2)
        return kind(*sizes, dropout=dropout)(x, other, layers.Dense(WIDTH, "tanh")(other), attention_mask=shown)

    compare(attend, True)


def test_a_mask_that_each_sample_has():
    def make():
        x, shown = keras.Input((LENGTH, WIDTH)), keras.Input((LENGTH, LENGTH), dtype="bool")
        y = layers.MultiHeadAttention(2, 3)(layers.Masking()(x), x, attention_mask=shown)
        model = keras.Model([x, shown], layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    assert_same(make, ((PAIR[0], draw(21, LENGTH, LENGTH, seed=4) > 0), Y))


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2), None])
def test_axes_of_heads(axes, dropout):
    def make():
        x = keras.Input((3, 2, WIDTH))
        y = layers.MultiHeadAttention(2, 3, attention_axes=axes, dropout=dropout)(x, x)
        model = keras.Model(x, layers.Dense(2)(layers.Flatten()(y)))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    assert_same(make, (draw(21, 3, 2, WIDTH), Y), (draw(13, 3, 2, WIDTH, seed=2), HELD_Y))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("kind", "options", "call"),
    [
        (layers.Attention, {}, {}), (layers.Attention, {"use_scale": True}, {"use_causal_mask": True}),
        (layers.Attention, {"score_mode": "concat"}, {}),
        (layers.Attention, {"score_mode": "concat", "use_scale": True}, {"return_attention_scores": True}),
        (layers.Attention, {"dropout": 0.3}, {"return_attention_scores": True}),
        (layers.AdditiveAttention, {}, {}), (layers.AdditiveAttention, {"use_scale": False}, {"use_causal_mask": True}),
        (layers.AdditiveAttention, {"dropout": 0.3}, {"use_causal_mask": True}),
    ],
)  # fmt: skip
def test_attention_without_heads(kind, options, call, masked):
    def attend(x, other):
        found = kind(**options)([x, other], **call)
        key = layers.Dense(WIDTH)(other)
        return [found, kind(**options)([x, other, key])] if masked else found

    compare(attend, masked)


def test_the_querys_mask_goes_on():
    def attend(x, other):
        y = layers.Attention()([x, other])
        z = layers.GroupQueryAttention(3, 4, 2)(x, other)
        return [layers.LSTM(3)(one) for one in (y, z, layers.MultiHeadAttention(2, 3)(x, other))]

    compare(attend, True)


def test_what_cannot_be_stacked_is_named():
    def make():
        x = keras.Input((LENGTH, WIDTH))
        heads = layers.MultiHeadAttention(2, 3, name="a")
        model = keras.Model(x, heads(x, x))
        heads.query_dense.enable_lora(2)
        model.compile("sgd", "mse")
        return model

    assert refuse(make) == ["MultiHeadAttention (a): it has LoRA"]
