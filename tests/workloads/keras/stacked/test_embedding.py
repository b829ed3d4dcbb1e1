"""Embeddings and layers that make categories, as a stack: the same as each alone."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse


def draw_words(seed=0, most=7, shape=(21, 5), dtype="int32"):
    """Words from 0 to most - 1, and targets."""
    return np.random.default_rng(seed).integers(0, most, size=shape).astype(dtype), draw(shape[0], 2, seed=seed + 1)


def build(*middle, dtype="int32", **options):
    def make():
        inner = [one() for one in middle]
        table = layers.Embedding(7, 4, **options)
        end = [layers.GlobalAveragePooling1D(), layers.Dense(2)]
        return compile_model([keras.Input((5,), dtype=dtype), table, *inner, *end], metrics=["mae"])

    return make


@pytest.mark.parametrize("xla", [False, True])
def test_words_of_each_replicas_table(xla):
    assert_same(build(), draw_words(), draw_words(3), xla=xla)


@pytest.mark.parametrize(
    "options",
    [
        {"embeddings_regularizer": "l2"}, {"embeddings_constraint": "max_norm"}, {"activity_regularizer": "l1"},
        {"trainable": False},
    ],
)  # fmt: skip
def test_options(options):
    assert_same(build(**options), draw_words(), draw_words(3))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64"])
def test_words_of_any_type(dtype):
    assert_same(build(dtype=dtype), draw_words(dtype=dtype), draw_words(3, dtype=dtype))


@pytest.mark.parametrize("xla", [False, True])
def test_word_zero_is_masked(xla):
    make = build(lambda: layers.Dense(3), lambda: layers.BatchNormalization(momentum=0.7), mask_zero=True)
    assert_same(make, draw_words(), draw_words(3), xla=xla)


def test_word_zero_is_masked_in_a_model_within():
    def inner():
        return keras.Sequential([keras.Input((5, 4)), layers.PReLU(), layers.BatchNormalization(momentum=0.7)])

    assert_same(build(inner, mask_zero=True), draw_words(), draw_words(3))


def test_words_of_one_and_of_two_axes():
    def make():
        table, one, two = layers.Embedding(7, 4), keras.Input((), dtype="int32"), keras.Input((3, 2), dtype="int32")
        outputs = layers.Dense(2)(layers.Concatenate()([table(one), layers.Flatten()(table(two))]))
        model = keras.Model([one, two], outputs)
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    (one, y), (two, _) = draw_words(shape=(21,)), draw_words(shape=(21, 3, 2))
    assert_same(make, ((one, two), y))


def test_weights_that_are_not_stacked_are_refused():
    def make():
        table = layers.Embedding(7, 4)
        model = compile_model([keras.Input((5,), dtype="int32"), table, layers.Flatten(), layers.Dense(2)])
        table.enable_lora(2)
        return model

    assert [one.split(": ")[1] for one in refuse(make)] == ["it has LoRA"]


@pytest.mark.parametrize(
    "options", [{"tie_weights": True}, {"tie_weights": False, "logit_soft_cap": 0.5}, {"mask_zero": True}]
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


NUMBERS = [
    lambda: layers.Discretization([-1.0, 0.0, 1.0], output_mode="one_hot"),
    lambda: layers.Discretization([-1.0, 0.0, 1.0], output_mode="count"),
    lambda: layers.Discretization([-1.0, 0.0, 1.0], output_mode="multi_hot"),
]


@pytest.mark.parametrize("category", range(len(NUMBERS)))
def test_numbers_in_categories(category):
    def make():
        inner = [NUMBERS[category](), layers.Flatten(), layers.Dense(2)]
        return compile_model([keras.Input((5,)), *inner])

    assert_same(make, (draw(21, 5), draw(21, 2, seed=1)), (draw(13, 5, seed=2), draw(13, 2, seed=3)))


WORDS = [
    lambda: layers.CategoryEncoding(7, output_mode="multi_hot"),
    lambda: layers.CategoryEncoding(7, output_mode="count"),
    lambda: layers.CategoryEncoding(7, output_mode="one_hot"),
    lambda: layers.Hashing(4, output_mode="count"),
    lambda: layers.Hashing(4, salt=3, mask_value=2, output_mode="one_hot"),
]


@pytest.mark.parametrize("category", range(len(WORDS)))
def test_words_in_categories(category):
    def make():
        inner = [WORDS[category](), layers.Flatten(), layers.Dense(2)]
        return compile_model([keras.Input((5,), dtype="int32"), *inner])

    assert_same(make, draw_words(), draw_words(3))


def test_categories_that_are_looked_up():
    def make():
        inner = [layers.Hashing(3), layers.Embedding(3, 4), layers.Flatten(), layers.Dense(2)]
        return compile_model([keras.Input((5,), dtype="int32"), *inner])

    assert_same(make, draw_words(), draw_words(3))


def test_pairs_of_words():
    def make():
        one, two = keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")
        crossed = layers.HashedCrossing(5, output_mode="one_hot")((one, two))
        model = keras.Model([one, two], layers.Dense(2)(crossed))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    one, y = draw_words(shape=(21, 1))
    assert_same(make, ((one, draw_words(3, shape=(21, 1))[0]), y))


def test_what_takes_a_batch_for_one_sample_is_refused():
    def make():
        inputs = keras.Input((), dtype="int32")
        model = keras.Model(inputs, layers.CategoryEncoding(7, output_mode="one_hot")(inputs))
        model.compile("sgd", "mse")
        return model

    def mix():
        inputs = keras.Input((), dtype="int32")
        counts = layers.CategoryEncoding(7, output_mode="count", name="counts")(inputs)
        model = keras.Model(inputs, counts)
        model.compile("sgd", "mse")
        return model

    assert refuse(make) == []
    assert refuse(mix) == ["CategoryEncoding (counts): it takes the whole batch for one sample"]
