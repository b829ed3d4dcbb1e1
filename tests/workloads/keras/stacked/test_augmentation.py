"""Pictures that are changed at random, as a stack: each replica's are those that it would see alone."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import join_branches
from tests.workloads.keras.stacked.pairs import COMPARED, STEPS, draw, make_factory, train
from tfperf.workloads.keras.replicas.forms import LANES, STACKED
from tfperf.workloads.keras.stacked.stack import list_refusals

SHAPE = (4, 5, 2)
MOTIONS = [
    partial(layers.RandomTranslation, 0.3, 0.2, fill_mode="constant"), partial(layers.RandomRotation, 0.1),
    partial(layers.RandomTranslation, 0.3, 0.2, interpolation="nearest", seed=3),
]  # fmt: skip
OTHERS = [
    partial(layers.RandomZoom, 0.2), partial(layers.RandomFlip), partial(layers.RandomFlip, "vertical"),
    partial(layers.RandomBrightness, 0.2, value_range=(0, 1)), partial(layers.RandomContrast, 0.3, value_range=(0, 1)),
]  # fmt: skip
# of weights of about 1 after ten steps in float32; Keras itself cannot move pictures in float64
SINGLE = 1e-5


def build(makers):
    def make():
        inputs = keras.Input(SHAPE)
        return join_branches(inputs, inputs, makers)

    return make


def draw_data():
    """Of training and validation, in batches of 8 with a rest."""
    parts = ((0, 21), (1, 13))
    pictures = [np.random.default_rng(seed).uniform(size=(n, *SHAPE)).astype(np.float32) for seed, n in parts]
    return [(x, draw(len(x), 2, seed=2).astype(np.float32)) for x in pictures]


@pytest.mark.slow
@pytest.mark.parametrize("makers", [MOTIONS, OTHERS])
def test_each_sees_what_it_would_see_alone(makers):
    factory = make_factory(build(makers), *draw_data())
    assert list_refusals(factory.template.model) == []
    (lanes, rows), (stack, others) = (train(factory, form, STEPS) for form in (LANES, STACKED))
    names = [name for name in lanes if name.startswith(COMPARED) and name in stack]
    for name in names:
        np.testing.assert_allclose(stack[name], lanes[name], rtol=SINGLE, atol=SINGLE, err_msg=name)
    for name, figures in rows[1].items():
        np.testing.assert_allclose(others[1][name], figures, rtol=SINGLE, err_msg=name)
    seeds = [stack[name] for name in names if "seed_generator" in name]
    assert len(seeds) == len(makers)
    assert any(len(np.unique(one, axis=0)) == len(one) for one in seeds)  # a seed of its own for each replica


def test_boxes_are_refused():
    def make():
        inputs = {"images": keras.Input(SHAPE, name="images"), "labels": keras.Input((1,), name="labels")}
        changed = layers.RandomFlip()(inputs)
        model = keras.Model(inputs, layers.Dense(1)(layers.Flatten()(changed["images"])))
        model.compile("sgd", "mse")
        return model

    assert any("it is called with more than pictures" in reason for reason in list_refusals(make()))
