"""Layers by an equation and slopes of each replica, as a stack: the same as each alone."""

from functools import partial

import keras
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import build_branches
from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse
from tfperf.workloads.keras.stacked.layers.einsum_dense import add_letter

SEQUENCES = draw(21, 4, 3), draw(21, 2, seed=1)
HELD = draw(13, 4, 3, seed=2), draw(13, 2, seed=3)

EQUATIONS = [
    ("abc,cd->abd", (4, 5), "d"), ("abc,cd->abd", (4, 5), None), ("abc,bd->adc", (6, 3), "dc"),
    ("abc,bcde->ade", (2, 3), "e"), ("abc,bcde->ade", (2, 3), "d"), ("abc,bcd->ad", 7, "d"),
    ("abc,bc->abc", (4, 3), "b"), ("...x,xy->...y", 5, "y"), ("...bx,xyb->...by", (4, 2), "by"),
    ("ab...,bc->ac...", 5, None), ("ab...,bc->ac...", 5, "c"),
]  # fmt: skip


@pytest.mark.parametrize("xla", [False, True])
def test_any_equation(xla):
    makers = [partial(layers.EinsumDense, one, shape, bias_axes=axes) for one, shape, axes in EQUATIONS]
    assert_same(build_branches(makers, (4, 3), 3), SEQUENCES, HELD, xla=xla)


def test_options():
    make = partial(layers.EinsumDense, "abc,cd->abd", (4, 5), bias_axes="d")
    makers = [
        partial(make, activation="softmax"), partial(make, kernel_regularizer="l2", bias_regularizer="l1"),
        partial(make, kernel_constraint="max_norm"), partial(make, activity_regularizer="l2"),
    ]  # fmt: skip
    assert_same(build_branches(makers, (4, 3), 3), SEQUENCES, HELD)


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
    slopes = partial(layers.PReLU, alpha_initializer="uniform")
    makers = [
        layers.PReLU, partial(slopes, shared_axes=[1]), partial(slopes, shared_axes=2),
        partial(slopes, shared_axes=[1, 2]), partial(slopes, alpha_regularizer="l2", alpha_constraint="non_neg"),
    ]  # fmt: skip
    assert_same(build_branches(makers, (4, 3), 3), SEQUENCES, HELD, xla=xla)
