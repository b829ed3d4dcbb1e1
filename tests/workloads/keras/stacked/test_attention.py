"""Attention as a stack: the same as each alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import join_branches
from tests.workloads.keras.stacked.pairs import assert_same, draw, refuse

pytestmark = pytest.mark.filterwarnings("ignore:.*destroy the mask:UserWarning")  # what flattens them
LENGTH, OTHER, WIDTH, SAMPLES = 3, 4, 4, 16


def draw_gaps(samples, length, seed):
    """Sequences with steps of zeros, of which one sample has nothing else."""
    x = draw(samples, length, WIDTH, seed=seed)
    x[np.random.default_rng(seed).random((samples, length)) < 0.3] = 0
    x[0] = 0
    return x


def draw_pair(samples, seed):
    return draw_gaps(samples, LENGTH, seed), draw_gaps(samples, OTHER, seed + 1)


PAIR, HELD, Y, HELD_Y = draw_pair(21, 0), draw_pair(8, 7), draw(21, 2, seed=1), draw(8, 2, seed=3)


def compare(attends, masked=False, held=False, replicas=2, samples=SAMPLES, **options):
    """attends: functions side by side, of two sequences."""

    def make():
        given = [keras.Input((LENGTH, WIDTH)), keras.Input((OTHER, WIDTH))]
        pair = [layers.Masking()(one) if masked else one for one in given]

        def take(attend):
            def run(_):
                # heads take masks away from what they are given
                own = [layers.LayerNormalization()(one) for one in pair]
                found = [layers.Flatten()(one) for one in keras.tree.flatten(attend(*own))]
                return layers.Concatenate()(found) if len(found) > 1 else found[0]

            return lambda: run

        return join_branches(given, None, [take(one) for one in attends])

    data = [one[:samples] for one in PAIR]
    return assert_same(
        make, ((data[0], data[1]), Y[:samples]), (HELD, HELD_Y) if held else None, replicas=replicas, **options
    )


def look_twice(x, other):
    """At themselves, with a sum, and at others."""
    y = layers.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
    y = layers.Add()([x, y])
    return layers.MultiHeadAttention(2, 3)(query=y, value=other)


def test_heads():
    compare([look_twice], masked=True)


@pytest.mark.parametrize("xla", [False, True])
def test_a_shorter_last_batch(xla):
    compare([look_twice], True, not xla, samples=21, xla=xla)


OPTIONS = [
    ({}, {}), ({"value_dim": 4, "use_bias": False}, {}), ({"output_shape": 5}, {"use_causal_mask": True}),
    ({"output_shape": (2, 3)}, {}), ({}, {"return_attention_scores": True}),
    ({"use_gate": True, "sliding_window": 2}, {}), ({"sliding_window": 2}, {"use_causal_mask": True}),
    ({"activity_regularizer": "l2", "kernel_regularizer": "l1", "bias_constraint": "max_norm"}, {}),
]  # fmt: skip
DROPS = [
    ({"dropout": 0.3}, {}), ({"dropout": 0.3}, {"use_causal_mask": True}),
    ({"dropout": 0.2, "use_gate": True}, {"return_attention_scores": True, "use_causal_mask": True}),
]  # fmt: skip
GROUPS = [
    ({}, {}), ({"dropout": 0.3}, {"use_causal_mask": True}), ({"use_gate": True}, {"use_causal_mask": True}),
    ({"use_bias": False, "sliding_window": 2}, {"return_attention_scores": True}),
]  # fmt: skip


def attend_by(kind, sizes, cases):
    """A function for each case; Keras takes scores to be square when it builds a model."""

    def make(options, call):
        return lambda x, other: kind(*sizes, **options)(x, x if "return_attention_scores" in call else other, **call)

    return [make(*case) for case in cases]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "attends",
    [
        attend_by(layers.MultiHeadAttention, (2, 3), OPTIONS), attend_by(layers.MultiHeadAttention, (2, 3), DROPS),
        attend_by(layers.GroupQueryAttention, (3, 4, 2), GROUPS),
    ],
)  # fmt: skip
def test_options_of_heads_and_groups(attends, masked):
    compare(attends, masked, held=masked)


def test_a_key_and_a_mask_for_all_samples():
    shown = np.tril(np.ones((1, LENGTH, OTHER), bool), 1)

    def attend(kind, sizes, dropout):
        def run(x, other):
            key = layers.Dense(WIDTH, "tanh")(other)
            return kind(*sizes, dropout=dropout)(x, other, key, attention_mask=shown)

        return run

    sizes = {layers.MultiHeadAttention: (2, 3), layers.GroupQueryAttention: (3, 4, 2)}
    compare([attend(kind, some, rate) for kind, some in sizes.items() for rate in (0.0, 0.2)], masked=True, probe=True)


def test_a_mask_that_each_sample_has():
    def make():
        x, shown = keras.Input((LENGTH, WIDTH)), keras.Input((LENGTH, LENGTH), dtype="bool")
        y = layers.MultiHeadAttention(2, 3)(layers.Masking()(x), x, attention_mask=shown)
        return join_branches([x, shown], y, [lambda: layers.SimpleRNN(3)])

    data = (PAIR[0][:SAMPLES], draw(SAMPLES, LENGTH, LENGTH, seed=4) > 0), Y[:SAMPLES]
    assert_same(make, data, replicas=2, probe=True)


def test_axes_of_heads():
    def attend(axes, dropout):
        def run(x):
            return layers.MultiHeadAttention(2, 3, attention_axes=axes, dropout=dropout)(x, x)

        return lambda: run

    def make():
        x = keras.Input((3, 2, WIDTH))
        cases = [((1,), 0.0), ((2,), 0.2), ((1, 2), 0.0), (None, 0.2)]
        return join_branches(x, x, [attend(axes, rate) for axes, rate in cases])

    assert_same(make, (draw(SAMPLES, 3, 2, WIDTH), Y[:SAMPLES]), replicas=2)


PLAIN = [
    (layers.Attention, {}, {}), (layers.Attention, {"use_scale": True}, {"use_causal_mask": True}),
    (layers.Attention, {"score_mode": "concat"}, {}),
    (layers.Attention, {"score_mode": "concat", "use_scale": True}, {"return_attention_scores": True}),
    (layers.Attention, {"dropout": 0.3}, {"return_attention_scores": True}),
    (layers.AdditiveAttention, {}, {}), (layers.AdditiveAttention, {"use_scale": False}, {"use_causal_mask": True}),
    (layers.AdditiveAttention, {"dropout": 0.3}, {"use_causal_mask": True}),
]  # fmt: skip


@pytest.mark.parametrize("masked", [False, True])
def test_attention_without_heads(masked):
    def attend(kind, options, call):
        def run(x, other):
            some = [x, other, layers.Dense(WIDTH)(other)] if masked else [x, other]
            return kind(**options)(some, **call)

        return run

    compare([attend(*case) for case in PLAIN], masked, held=True)


def test_the_querys_mask_goes_on():
    def attend(x, other):
        y = layers.Attention()([x, other])
        z = layers.GroupQueryAttention(3, 4, 2)(x, other)
        return [layers.SimpleRNN(3)(one) for one in (y, z, layers.MultiHeadAttention(2, 3)(x, other))]

    compare([attend], masked=True)


def test_what_cannot_be_stacked_is_named():
    def make():
        x = keras.Input((LENGTH, WIDTH))
        heads = layers.MultiHeadAttention(2, 3, name="a")
        model = keras.Model(x, heads(x, x))
        heads.query_dense.enable_lora(2)
        model.compile("sgd", "mse")
        return model

    assert refuse(make) == ["MultiHeadAttention (a): it has LoRA"]
