"""Embeddings and layers that make categories, as a stack: the same as each alone."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import join_branches
from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

Table = partial(layers.Embedding, 7, 4)


def draw_words(seed=0, most=7, shape=(21, 5), dtype="int32"):
    """Words from 0 to most - 1, and targets."""
    return np.random.default_rng(seed).integers(0, most, size=shape).astype(dtype), draw(shape[0], 2, seed=seed + 1)


def build(*makers, dtype="int32", end=layers.Flatten):
    """A network that sends words through layers side by side."""

    def make():
        inputs = keras.Input((5,), dtype=dtype)
        return join_branches(inputs, inputs, [*makers], end)

    return make


def test_words_of_each_replicas_table():
    others = [
        partial(Table, embeddings_regularizer="l2"), partial(Table, embeddings_constraint="max_norm"),
        partial(Table, activity_regularizer="l1"), partial(Table, trainable=False),
    ]  # fmt: skip
    assert_same(build(Table, *others), draw_words(), draw_words(3))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64"])
def test_words_of_any_type(dtype):
    assert_same(build(Table, dtype=dtype), draw_words(dtype=dtype))


@pytest.mark.parametrize("xla", [False, True])
def test_word_zero_is_masked(xla):
    def make_middle():
        return [partial(Table, mask_zero=True)(), layers.Dense(3), layers.BatchNormalization(momentum=0.7)]

    def make():
        end = [layers.GlobalAveragePooling1D(), layers.Dense(2)]
        return compile_model([keras.Input((5,), dtype="int32"), *make_middle(), *end])

    assert_same(make, draw_words(), draw_words(3), xla=xla)


@pytest.mark.filterwarnings("ignore:Layer 'sequential.* was passed an input with a mask:UserWarning")
def test_word_zero_is_masked_in_a_model_within():
    def make():
        inner = keras.Sequential([keras.Input((5, 4)), layers.PReLU(), layers.BatchNormalization(momentum=0.7)])
        end = [layers.GlobalAveragePooling1D(), layers.Dense(2)]
        return compile_model([keras.Input((5,), dtype="int32"), Table(mask_zero=True), inner, *end])

    assert_same(make, draw_words(), draw_words(3))


def test_words_of_one_and_of_two_axes():
    def make():
        table, one, two = Table(), keras.Input((), dtype="int32"), keras.Input((3, 2), dtype="int32")
        x = layers.Concatenate()([table(one), layers.Flatten()(table(two))])
        return join_branches([one, two], x, [layers.ReLU])

    (one, y), (two, _) = draw_words(shape=(21,)), draw_words(shape=(21, 3, 2))
    assert_same(make, ((one, two), y))


def test_weights_that_are_not_stacked_are_refused():
    def make():
        table = Table()
        model = compile_model([keras.Input((5,), dtype="int32"), table, layers.Flatten(), layers.Dense(2)])
        table.enable_lora(2)
        return model

    assert [one.split(": ")[1] for one in refuse(make)] == ["it has LoRA"]


@pytest.mark.parametrize(
    "options", [{"tie_weights": True, "mask_zero": True}, {"tie_weights": False, "logit_soft_cap": 0.5}]
)
def test_scores_of_words_by_the_same_table_or_another(options):
    def make():
        table, words = layers.ReversibleEmbedding(7, 4, **options), keras.Input((5,), dtype="int32")
        model = keras.Model(words, table(layers.LayerNormalization()(table(words)), reverse=True))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(1e-1, momentum=0.9), loss)
        return model

    words, held = draw_words()[0], draw_words(3)[0]
    assert_same(make, (words, words[:, ::-1].copy()), (held, held))


def test_numbers_in_categories():
    def make():
        inputs, bins = keras.Input((5,)), partial(layers.Discretization, [-0.5, 0.0, 0.5])
        makers = [partial(bins, output_mode=mode) for mode in ("one_hot", "count", "multi_hot")]
        return join_branches(inputs, inputs, makers)

    assert_same(make, (draw(21, 5), draw(21, 2, seed=1)), (draw(13, 5, seed=2), draw(13, 2, seed=3)))


def test_words_in_categories():
    encoded = [partial(layers.CategoryEncoding, 7, output_mode=mode) for mode in ("multi_hot", "count", "one_hot")]
    hashed = [
        partial(layers.Hashing, 4, output_mode="count"),
        lambda: keras.Sequential([layers.Hashing(4, salt=3, mask_value=2), layers.Embedding(4, 3)]),
    ]
    assert_same(build(*encoded, *hashed), draw_words(), draw_words(3))


def test_pairs_of_words():
    def make():
        one, two = keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")
        return join_branches([one, two], (one, two), [partial(layers.HashedCrossing, 5, output_mode="one_hot")])

    one, y = draw_words(shape=(21, 1))
    assert_same(make, ((one, draw_words(3, shape=(21, 1))[0]), y))


def test_what_takes_a_batch_for_one_sample_is_refused():
    def make(**options):
        inputs = keras.Input((), dtype="int32")
        model = keras.Model(inputs, layers.CategoryEncoding(7, name="words", **options)(inputs))
        model.compile("sgd", "mse")
        return model

    assert refuse(partial(make, output_mode="one_hot")) == []
    count = refuse(partial(make, output_mode="count"))
    assert count == ["CategoryEncoding (words): it takes the whole batch for one sample"]
    assert refuse(partial(make, sparse=True)) == ["CategoryEncoding (words): it gives sparse tensors"]
