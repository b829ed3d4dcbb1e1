"""Normalization layers as a stack: the same as each alone, with statistics of their own."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.branches import build_branches, join_branches
from tests.workloads.keras.stacked.pairs import assert_same, draw, refuse

X, Y = draw(21, 6), draw(21, 2, seed=1)
HELD = draw(13, 6, seed=2), draw(13, 2, seed=3)
IMAGES = draw(19, 4, 3, 6), draw(19, 2, seed=1)
HELD_IMAGES = draw(11, 4, 3, 6, seed=2), draw(11, 2, seed=3)

Batches, Groups, Layers = layers.BatchNormalization, layers.GroupNormalization, layers.LayerNormalization
Squares, Units = layers.RMSNormalization, layers.UnitNormalization


def make_all(kind, *options):
    return [partial(kind, **one) for one in options]


def draw_sequences(seed=0):
    """Sequences (21, 5, 3) of which the last parts are 0, and targets."""
    x = draw(21, 5, 3, seed=seed)
    x[np.arange(5) >= np.random.default_rng(seed).integers(1, 6, size=(21, 1))] = 0
    return x, draw(21, 2, seed=seed + 1)


def build_masked(*makers):
    """Means over what is not masked, after each of some layers."""

    def make():
        inputs = keras.Input((5, 3))
        x = layers.Dense(6)(layers.Masking()(inputs))
        return join_branches(inputs, x, [*makers], layers.GlobalAveragePooling1D)

    return make


@pytest.mark.parametrize("xla", [False, True])
def test_batches_with_statistics_of_their_own(xla):
    stack = assert_same(build_branches([partial(Batches, momentum=0.8)], (6,)), (X, Y), HELD, xla=xla)
    (means,) = (one for name, one in stack.items() if name.startswith("model/") and name.endswith("moving_mean"))
    assert not np.allclose(means[0], means[1])


def test_options_of_batch_normalization():
    makers = make_all(
        Batches, {"center": False}, {"scale": False}, {"center": False, "scale": False, "epsilon": 0.1},
        {"trainable": False}, {"gamma_regularizer": "l2", "beta_regularizer": "l1", "activity_regularizer": "l2"},
        {"gamma_constraint": "non_neg", "beta_constraint": "max_norm"},
    )  # fmt: skip
    assert_same(build_branches(makers, (6,)), (X, Y), HELD)


def test_channels_on_any_axis():
    makers = make_all(Batches, *({"axis": axis, "momentum": 0.7} for axis in (-1, 1, 2, -2)))
    assert_same(build_branches(makers, (4, 3, 6)), IMAGES, HELD_IMAGES)


def test_renormalization():
    options = {"center": False}, {"scale": False}, {"renorm_clipping": {"rmin": 0.9, "rmax": 1.1, "dmax": 0.1}}
    makers = make_all(partial(Batches, renorm=True, momentum=0.8, renorm_momentum=0.6), {}, *options)
    assert_same(build_branches(makers, (6,)), (X, Y), HELD)


def test_statistics_over_devices_are_refused():
    make = build_branches([partial(Batches, synchronized=True)], (6,))
    assert [one.split(": ")[1] for one in refuse(make)] == ["it synchronizes its statistics over devices"]


def test_a_layer_that_is_used_twice_moves_its_statistics_twice():
    def make():
        shared, inputs = Batches(momentum=0.6), keras.Input((6,))
        return join_branches(inputs, shared(inputs), [partial(layers.Dense, 6), lambda: shared])

    assert_same(make, (X, Y), HELD)


@pytest.mark.parametrize("xla", [False, True])
def test_masked_steps_are_left_out_of_statistics(xla):
    assert_same(build_masked(partial(Batches, momentum=0.7)), draw_sequences(), draw_sequences(2), xla=xla)


def test_a_mask_reaches_through_layers_that_pass_it_on():
    passing = [
        Layers, partial(Groups, 3), layers.PReLU, Units, partial(layers.GaussianNoise, 0.1),
        partial(layers.SpatialDropout1D, 0.2), partial(layers.AlphaDropout, 0.1), partial(layers.GaussianDropout, 0.1),
        partial(layers.ActivityRegularization, 0.1), partial(Batches, momentum=0.7),
    ]  # fmt: skip
    assert_same(build_masked(*passing), draw_sequences(), draw_sequences(2))


@pytest.mark.filterwarnings("ignore:Layer 'sequential.* was passed an input with a mask:UserWarning")
def test_a_mask_reaches_into_a_model_within():
    """There it is found at tensors: the inner model was built without one."""

    def make_inner():
        passing = [Layers(), Groups(3), layers.PReLU(), layers.GaussianNoise(0.1), Units(), Batches(momentum=0.7)]
        return keras.Sequential([keras.Input((5, 6)), layers.Dense(3), *passing])

    def make():
        inputs = keras.Input((5, 3))
        hidden = layers.Dense(6)(layers.Masking()(inputs))
        return join_branches(inputs, hidden, [make_inner], layers.GlobalAveragePooling1D)

    assert_same(make, draw_sequences(), draw_sequences(2))


def test_a_mask_that_is_an_input():
    def make():
        inputs, mask = keras.Input((5, 3)), keras.Input((5,), dtype="bool")
        x = Batches(momentum=0.7)(layers.Dense(4)(inputs), mask=mask)
        return join_branches([inputs, mask], x, [Layers], layers.GlobalAveragePooling1D)

    (x, y), (held, wanted) = draw_sequences(), draw_sequences(2)
    assert_same(make, ((x, x.any(-1)), y), ((held, held.any(-1)), wanted))


def test_samples_by_their_own_statistics_with_xla():
    makers = [Layers, partial(Layers, axis=(1, 3)), partial(Groups, 3), Squares, partial(Squares, axis=(2, 3)), Units]
    assert_same(build_branches(makers, (4, 3, 6)), IMAGES, HELD_IMAGES, xla=True)


def test_options_of_layer_normalization():
    makers = make_all(
        Layers, {"axis": 1}, {"axis": (1, 3)}, {"axis": [3, 2]}, {"axis": (-1, 1)}, {"axis": -2, "center": False},
        {"scale": False}, {"center": False, "scale": False, "epsilon": 0.1},
        {"gamma_regularizer": "l2", "beta_constraint": "max_norm"},
    )  # fmt: skip
    assert_same(build_branches(makers, (4, 3, 6)), IMAGES, HELD_IMAGES)


@pytest.mark.filterwarnings("ignore:You passed `rms_scaling=True`:UserWarning")
def test_layers_by_their_variance_alone():
    makers = make_all(partial(Layers, rms_scaling=True), {}, {"axis": (1, 2)}, {"scale": False})
    assert_same(build_branches(makers, (4, 3, 6)), IMAGES, HELD_IMAGES)


def test_options_of_group_normalization():
    makers = make_all(
        Groups, {"groups": 3}, {"groups": 2, "axis": 1}, {"groups": 3, "axis": 2}, {"groups": -1},
        {"groups": 1, "center": False}, {"groups": 2, "scale": False, "axis": -3},
        {"groups": 2, "gamma_regularizer": "l2", "epsilon": 0.1},
    )  # fmt: skip
    assert_same(build_branches(makers, (4, 3, 6)), IMAGES, HELD_IMAGES)


def test_axes_of_root_mean_squares_and_of_units():
    squares = make_all(Squares, {}, {"axis": (2, 3)}, {"axis": (-1,), "epsilon": 0.1}, {"axis": (1, 2, 3)})
    units = make_all(Units, {"axis": 1}, {"axis": (1, -1)})
    assert_same(build_branches([*squares, *units], (4, 3, 6)), IMAGES, HELD_IMAGES)


def make_adapted(**options):
    normalize = layers.Normalization(**options)
    normalize.adapt(IMAGES[0] * 3 + 1)
    return normalize


@pytest.mark.parametrize("xla", [False, True])
def test_what_was_adapted_before_is_the_same_for_all(xla):
    adapted = make_all(make_adapted, {}, {"axis": (1, 2)}, {"axis": None}, {"invert": True})
    given = partial(layers.Normalization, mean=[0.5] * 6, variance=[*range(1, 7)])
    assert_same(build_branches([*adapted, given], (4, 3, 6)), IMAGES, HELD_IMAGES, xla=xla)


def test_a_mean_for_each_sample_is_refused():
    def make():
        inputs = keras.Input(batch_shape=(8, 6))
        return join_branches(inputs, inputs, [partial(layers.Normalization, axis=(0, 1), name="each")])

    assert refuse(make) == ["Normalization (each): its axes include that of the samples"]
