"""Dense networks as a stack: the same as each alone."""

import keras
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

X, Y = draw(37, 5), draw(37, 2, seed=1)
HELD = draw(13, 5, seed=2), draw(13, 2, seed=3)


def build(*more, optimizer=None, **options):
    def make():
        hidden = [layers.Dense(7, "tanh", **options), *more]
        return compile_model([keras.Input((5,)), *hidden, layers.Dense(2)], metrics=["mae"], optimizer=optimizer)

    return make


@pytest.mark.parametrize("xla", [False, True])
def test_a_network_with_a_shorter_last_batch_and_a_validation(xla):
    assert_same(build(), (X, Y), HELD, xla=xla)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_regularizer": "l1"}, {"kernel_regularizer": "l2"}, {"kernel_regularizer": "l1l2"},
        {"activity_regularizer": "l2"}, {"bias_regularizer": keras.regularizers.L2(0.1)},
        {"kernel_constraint": "max_norm"},
        {"kernel_constraint": keras.constraints.UnitNorm(axis=0)}, {"use_bias": False},
    ],
)  # fmt: skip
def test_penalties_and_constraints_are_each_replicas(options):
    assert_same(build(**options), (X, Y))


def test_dropout_draws_what_each_would_draw_alone():
    assert_same(lambda: build(layers.Dropout(0.4))(), (X, Y), HELD)


def test_axes_between_samples_and_features():
    def make():
        return compile_model([keras.Input((3, 4)), layers.Dense(6, "relu"), layers.Flatten(), layers.Dense(1)])

    assert_same(make, (draw(21, 3, 4), draw(21, 1)))


def test_a_layer_that_is_used_twice_and_a_model_within():
    def make():
        shared = layers.Dense(5, "tanh")
        inner = keras.Sequential([layers.Dense(4, "relu"), layers.Dense(5)])
        inputs = keras.Input((5,))
        outputs = layers.Dense(2)(layers.Add()([shared(shared(inputs)), inner(inputs)]))
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    assert_same(make, (X, Y), HELD)


def test_what_has_no_stacked_form_is_named():
    class Own(layers.Layer):
        def call(self, x):
            return x

    def make():
        return compile_model([keras.Input((5,)), Own(name="mine"), layers.Dense(2, activation=lambda x: x)])

    assert refuse(make) == [
        "Own (mine) has no stacked form", "Dense (dense): its activation <lambda> is not one of Keras'"
    ] or refuse(make)[0] == "Own (mine) has no stacked form"  # fmt: skip
