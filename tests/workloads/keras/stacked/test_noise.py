"""Noise and penalties on what goes through, as a stack: each replica has what it would have alone."""

from functools import partial

import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import build_branches
from tests.workloads.keras.stacked.pairs import assert_same, draw

SHAPES = {1: (4, 6), 2: (3, 4, 6), 3: (2, 3, 4, 6)}
PLAIN = [
    partial(layers.GaussianNoise, 0.3), partial(layers.GaussianDropout, 0.3), partial(layers.AlphaDropout, 0.3),
    partial(layers.SpatialDropout1D, 0.4),
]  # fmt: skip
OTHERS = [
    partial(layers.GaussianNoise, 0.3, seed=3), partial(layers.AlphaDropout, 0.3, noise_shape=(None, 1, 6)),
    partial(layers.GaussianNoise, 0.0), partial(layers.GaussianDropout, 0.0), partial(layers.AlphaDropout, 0.0),
    partial(layers.SpatialDropout1D, 0.0), partial(layers.SpatialDropout1D, 1.0),
]  # fmt: skip


def draw_data(axes=1):
    """Of training and validation."""
    return (draw(21, *SHAPES[axes]), draw(21, 2, seed=1)), (draw(13, *SHAPES[axes], seed=2), draw(13, 2, seed=3))


@pytest.mark.parametrize("xla", [False, True])
def test_each_draws_what_it_would_draw_alone(xla):
    data, held = draw_data()
    stack = assert_same(build_branches(PLAIN, SHAPES[1]), data, held, xla=xla)
    seeds = [one for name, one in stack.items() if "seed_generator" in name]
    assert len(seeds) == len(PLAIN)
    assert all(len(np.unique(one, axis=0)) == len(one) for one in seeds)  # a seed of its own for each replica


def test_options_of_noise():
    assert_same(build_branches(OTHERS, SHAPES[1]), *draw_data())


@pytest.mark.parametrize(("kind", "axes"), [(layers.SpatialDropout2D, 2), (layers.SpatialDropout3D, 3)])
def test_whole_channels_are_dropped(kind, axes):
    makers = [partial(kind, 0.4, data_format=order) for order in ("channels_first", "channels_last")]
    assert_same(build_branches(makers, SHAPES[axes]), *draw_data(axes))


@pytest.mark.parametrize("xla", [False, True])
def test_penalties_on_what_goes_through(xla):
    data, held = draw_data()
    makers = [partial(layers.ActivityRegularization, **one) for one in ({"l1": 0.1}, {"l1": 0.1, "l2": 0.2}, {})]
    assert_same(build_branches(makers, SHAPES[1]), data, held, xla=xla)
