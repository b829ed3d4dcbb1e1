"""Normalization layers as a stack: the same as each alone, with statistics of their own."""

import keras
import numpy as np
import pytest
from keras import layers

from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse

X, Y = draw(21, 6), draw(21, 2, seed=1)
HELD = draw(13, 6, seed=2), draw(13, 2, seed=3)
IMAGES = draw(19, 4, 3, 6), draw(19, 2, seed=1)
HELD_IMAGES = draw(11, 4, 3, 6, seed=2), draw(11, 2, seed=3)


def build(layer, shape=(6,), **options):
    """A network whose middle is normalized; layer: its class."""

    def make():
        hidden = [layers.Dense(6, "tanh"), layer(**options), layers.Flatten(), layers.Dense(2)]
        return compile_model([keras.Input(shape), *hidden], metrics=["mae"])

    return make


def draw_sequences(seed=0):
    """Sequences (21, 5, 3) of which the last parts are 0, and targets."""
    x = draw(21, 5, 3, seed=seed)
    x[np.arange(5) >= np.random.default_rng(seed).integers(1, 6, size=(21, 1))] = 0
    return x, draw(21, 2, seed=seed + 1)


def build_masked(*middle):
    """A mean over what is not masked; middle: makers of layers between the mask and it."""

    def make():
        inner = [one() for one in middle]
        return compile_model(
            [keras.Input((5, 3)), layers.Masking(), *inner, layers.GlobalAveragePooling1D(), layers.Dense(2)]
        )

    return make


@pytest.mark.parametrize("xla", [False, True])
def test_batches_with_statistics_of_their_own(xla):
    stack = assert_same(build(layers.BatchNormalization, momentum=0.8), (X, Y), HELD, xla=xla)
    (means,) = (value for name, value in stack.items() if name.startswith("model") and name.endswith("moving_mean"))
    assert not np.allclose(means[0], means[1])


@pytest.mark.parametrize(
    "options",
    [
        {"center": False}, {"scale": False}, {"center": False, "scale": False, "epsilon": 0.1}, {"trainable": False},
        {"gamma_regularizer": "l2", "beta_regularizer": "l1", "activity_regularizer": "l2"},
        {"gamma_constraint": "non_neg", "beta_constraint": "max_norm"},
    ],
)  # fmt: skip
def test_options_of_batch_normalization(options):
    assert_same(build(layers.BatchNormalization, **options), (X, Y), HELD)


@pytest.mark.parametrize("axis", [-1, 1, 2, -2])
def test_channels_on_any_axis(axis):
    assert_same(build(layers.BatchNormalization, (4, 3, 6), axis=axis, momentum=0.7), IMAGES, HELD_IMAGES)


@pytest.mark.parametrize(
    "options",
    [{}, {"center": False}, {"scale": False}, {"renorm_clipping": {"rmin": 0.9, "rmax": 1.1, "dmax": 0.1}}],
)
def test_renormalization(options):
    make = build(layers.BatchNormalization, renorm=True, momentum=0.8, renorm_momentum=0.6, **options)
    assert_same(make, (X, Y), HELD)


def test_statistics_over_devices_are_refused():
    make = build(layers.BatchNormalization, synchronized=True)
    assert [one.split(": ")[1] for one in refuse(make)] == ["it synchronizes its statistics over devices"]


def test_a_layer_that_is_used_twice_moves_its_statistics_twice():
    def make():
        shared, inputs = layers.BatchNormalization(momentum=0.6), keras.Input((6,))
        outputs = layers.Dense(2)(shared(layers.Dense(6, "tanh")(shared(inputs))))
        model = keras.Model(inputs, outputs)
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    assert_same(make, (X, Y), HELD)


@pytest.mark.parametrize("xla", [False, True])
def test_masked_steps_are_left_out_of_statistics(xla):
    make = build_masked(lambda: layers.Dense(4), lambda: layers.BatchNormalization(momentum=0.7))
    assert_same(make, draw_sequences(), draw_sequences(2), xla=xla)


def test_a_mask_reaches_through_layers_that_pass_it_on():
    middle = (
        lambda: layers.LayerNormalization(), lambda: layers.GroupNormalization(3), lambda: layers.PReLU(),
        lambda: layers.UnitNormalization(), lambda: layers.GaussianNoise(0.1), lambda: layers.SpatialDropout1D(0.2),
        lambda: layers.AlphaDropout(0.1), lambda: layers.GaussianDropout(0.1),
        lambda: layers.ActivityRegularization(0.1), lambda: layers.BatchNormalization(),
    )  # fmt: skip
    assert_same(build_masked(*middle), draw_sequences(), draw_sequences(2))


def test_a_mask_reaches_into_a_model_within():
    """There it is found at tensors: the inner model was built without one."""

    def inner():
        middle = [layers.LayerNormalization(), layers.GroupNormalization(1), layers.PReLU(), layers.GaussianNoise(0.1)]
        return keras.Sequential([keras.Input((5, 3)), *middle, layers.BatchNormalization(momentum=0.7)])

    assert_same(build_masked(inner), draw_sequences(), draw_sequences(2))


def test_a_mask_that_is_an_input():
    def make():
        inputs, mask = keras.Input((5, 3)), keras.Input((5,), dtype="bool")
        x = layers.BatchNormalization(momentum=0.7)(layers.Dense(4)(inputs), mask=mask)
        model = keras.Model([inputs, mask], layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    (x, y), (held, wanted) = draw_sequences(), draw_sequences(2)
    assert_same(make, ((x, x.any(-1)), y), ((held, held.any(-1)), wanted))


@pytest.mark.parametrize("xla", [False, True])
def test_layers(xla):
    assert_same(build(layers.LayerNormalization), (X, Y), HELD, xla=xla)


@pytest.mark.parametrize(
    "options",
    [
        {"axis": 1}, {"axis": (1, 3)}, {"axis": [3, 2]}, {"axis": (-1, 1)}, {"axis": -2, "center": False},
        {"scale": False}, {"center": False, "scale": False, "epsilon": 0.1},
        {"gamma_regularizer": "l2", "beta_constraint": "max_norm"},
    ],
)  # fmt: skip
def test_options_of_layer_normalization(options):
    assert_same(build(layers.LayerNormalization, (4, 3, 6), **options), IMAGES, HELD_IMAGES)


@pytest.mark.filterwarnings("ignore:You passed `rms_scaling=True`:UserWarning")
@pytest.mark.parametrize("axis", [-1, (1, 2)])
def test_layers_by_their_variance_alone(axis):
    assert_same(build(layers.LayerNormalization, (4, 3, 6), axis=axis, rms_scaling=True), IMAGES, HELD_IMAGES)


@pytest.mark.parametrize("xla", [False, True])
def test_groups(xla):
    assert_same(build(layers.GroupNormalization, (4, 3, 6), groups=3), IMAGES, HELD_IMAGES, xla=xla)


@pytest.mark.parametrize(
    "options",
    [
        {"groups": 2, "axis": 1}, {"groups": 3, "axis": 2}, {"groups": -1}, {"groups": 1, "center": False},
        {"groups": 2, "scale": False, "axis": -3}, {"groups": 2, "gamma_regularizer": "l2", "epsilon": 0.1},
    ],
)  # fmt: skip
def test_options_of_group_normalization(options):
    assert_same(build(layers.GroupNormalization, (4, 3, 6), **options), IMAGES, HELD_IMAGES)


@pytest.mark.parametrize("xla", [False, True])
def test_root_mean_squares(xla):
    assert_same(build(layers.RMSNormalization), (X, Y), HELD, xla=xla)


@pytest.mark.parametrize("options", [{"axis": (2, 3)}, {"axis": (-1,), "epsilon": 0.1}, {"axis": (1, 2, 3)}])
def test_options_of_root_mean_squares(options):
    assert_same(build(layers.RMSNormalization, (4, 3, 6), **options), IMAGES, HELD_IMAGES)


@pytest.mark.parametrize("axis", [-1, 1, (1, -1)])
def test_units(axis):
    assert_same(build(layers.UnitNormalization, (4, 3, 6), axis=axis), IMAGES, HELD_IMAGES)


@pytest.mark.parametrize("options", [{}, {"axis": (1, 2)}, {"axis": None}, {"invert": True}])
def test_what_was_adapted_before_is_the_same_for_all(options):
    def make():
        normalize = layers.Normalization(**options)
        normalize.adapt(IMAGES[0] * 3 + 1)
        return compile_model([keras.Input((4, 3, 6)), normalize, layers.Flatten(), layers.Dense(2)])

    assert_same(make, IMAGES, HELD_IMAGES)


@pytest.mark.parametrize("xla", [False, True])
def test_a_mean_and_variance_that_are_given(xla):
    def make():
        normalize = layers.Normalization(mean=[0.5] * 6, variance=[*range(1, 7)])
        return compile_model([keras.Input((6,)), normalize, layers.Dense(2)])

    assert_same(make, (X, Y), HELD, xla=xla)
