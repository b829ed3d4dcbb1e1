"""Layers by an equation and slopes of each replica, as a stack: the same as each alone."""

import keras
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse
from tfperf.workloads.keras.stacked.layers.einsum_dense import add_letter

SEQUENCES = draw(21, 4, 3), draw(21, 2, seed=1)
HELD = draw(13, 4, 3, seed=2), draw(13, 2, seed=3)


def build(layer, *given, **options):
    def make():
        hidden = [layers.Dense(3), layer(*given, **options), layers.Flatten(), layers.Dense(2)]
        return compile_model([keras.Input((4, 3)), *hidden], metrics=["mae"])

    return make


@pytest.mark.parametrize(
    ("equation", "shape", "axes"),
    [
        ("abc,cd->abd", (None, 5), "d"), ("abc,cd->abd", (None, 5), None), ("abc,bd->adc", (6, 3), "dc"),
        ("abc,bcde->ade", (2, 3), "e"), ("abc,bcde->ade", (2, 3), "d"), ("abc,bcd->ad", 7, "d"),
        ("abc,bc->abc", (4, 3), "b"), ("...x,xy->...y", 5, "y"), ("...bx,xyb->...by", (4, 2), "by"),
        ("ab...,bc->ac...", (5, 3), None), ("ab...,bc->ac...", 5, "c"),
    ],
)  # fmt: skip
def test_any_equation(equation, shape, axes):
    assert_same(build(layers.EinsumDense, equation, shape, bias_axes=axes), SEQUENCES, HELD)


@pytest.mark.parametrize("equation", ["abc,cd->abd", "...x,xy->...y"])
def test_with_xla(equation):
    shape = (4, 5) if "." not in equation else 5
    assert_same(build(layers.EinsumDense, equation, shape, activation="tanh"), SEQUENCES, HELD, xla=True)


@pytest.mark.parametrize(
    "options",
    [
        {"activation": "softmax"}, {"kernel_regularizer": "l2", "bias_regularizer": "l1"},
        {"kernel_constraint": "max_norm"}, {"activity_regularizer": "l2"},
    ],
)  # fmt: skip
def test_options(options):
    assert_same(build(layers.EinsumDense, "abc,cd->abd", (4, 5), bias_axes="d", **options), SEQUENCES, HELD)


def test_what_cannot_be_stacked_is_refused():
    def make():
        layer = layers.EinsumDense("abc,cd->abd", (4, 5))
        model = compile_model([keras.Input((4, 3)), layer, layers.Flatten(), layers.Dense(2)])
        layer.enable_lora(2)
        return model

    assert [one.split(": ")[1] for one in refuse(make)] == ["it has LoRA"]


def test_the_new_letter_is_none_of_the_equation():
    assert add_letter("ab,bc->ac") == "dab,dbc->dac"
    assert add_letter("...x,xy->...y") == "a...x,axy->a...y"


@pytest.mark.parametrize("xla", [False, True])
def test_slopes(xla):
    assert_same(build(layers.PReLU), SEQUENCES, HELD, xla=xla)


@pytest.mark.parametrize(
    "options",
    [
        {"shared_axes": [1]}, {"shared_axes": 2, "alpha_initializer": "ones"}, {"shared_axes": [1, 2]},
        {"alpha_regularizer": "l2", "alpha_constraint": "non_neg", "alpha_initializer": "uniform"},
    ],
)  # fmt: skip
def test_options_of_slopes(options):
    assert_same(build(layers.PReLU, **options), SEQUENCES, HELD)
