"""Convolutions as a stack: the same as each replica's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.workloads.keras.stacked.outputs import assert_same_outputs
from tests.workloads.keras.stacked.pairs import assert_same, compile_model, draw, refuse
from tfperf.workloads.keras.stacked.layers import convolution_sums

Y = draw(19, 2, seed=1)
SHAPES = {1: (7, 4), 2: (6, 5, 4), 3: (4, 5, 4, 2)}


def build(shape, *hidden):
    return lambda: compile_model([keras.Input(shape), *(one() for one in hidden), layers.Flatten(), layers.Dense(2)])


def check(shape, *hidden, held=None, **options):
    assert_same(build(shape, *hidden), (draw(19, *shape), Y), held, replicas=2, **options)


def test_layers_one_after_another():
    check(
        (8, 8, 1),
        lambda: layers.Conv2D(3, 3, activation="relu"),
        lambda: layers.MaxPooling2D(),
        lambda: layers.Conv2D(4, 2, activation="relu"),
        held=(draw(11, 8, 8, 1, seed=2), draw(11, 2, seed=3)),
    )


CONVOLUTIONS = [
    (layers.Conv1D, 1, {"kernel_size": 3}),
    (layers.Conv1D, 1, {"kernel_size": 3, "padding": "causal", "dilation_rate": 2}),
    (layers.Conv1D, 1, {"kernel_size": 2, "padding": "same", "strides": 3, "use_bias": False}),
    (layers.Conv1D, 1, {"kernel_size": 1, "strides": 2, "padding": "same", "activation": "softmax"}),
    (layers.Conv1D, 1, {"kernel_size": 3, "groups": 2}),
    (layers.Conv2D, 2, {"kernel_size": 3, "padding": "same", "activation": "tanh"}),
    (layers.Conv2D, 2, {"kernel_size": (3, 2), "strides": (2, 1), "bias_initializer": "normal"}),
    (layers.Conv2D, 2, {"kernel_size": 2, "dilation_rate": (2, 3), "padding": "same"}),
    (layers.Conv2D, 2, {"kernel_size": 1, "use_bias": False}),
    (layers.Conv2D, 2, {"kernel_size": (2, 3), "groups": 4, "padding": "same", "strides": 2}),
    (layers.Conv3D, 3, {"kernel_size": 2, "padding": "same", "strides": (1, 2, 1)}),
    (layers.Conv3D, 3, {"kernel_size": (3, 1, 2)}),
    (layers.Conv1DTranspose, 1, {"kernel_size": 3, "strides": 2, "padding": "same"}),
    (layers.Conv1DTranspose, 1, {"kernel_size": 3, "use_bias": False}),
    (layers.Conv2DTranspose, 2, {"kernel_size": 3, "strides": (2, 1), "activation": "relu"}),
    (layers.Conv2DTranspose, 2, {"kernel_size": 3, "strides": 2, "padding": "same", "output_padding": 1}),
    (layers.Conv3DTranspose, 3, {"kernel_size": 2, "strides": 2, "padding": "same"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("hidden", "options"),
    [
        (lambda: layers.Conv2D(4, 3, kernel_regularizer="l2", kernel_constraint="max_norm"), {}),
        (lambda: layers.Conv1D(4, 2, groups=2, activity_regularizer="l1"), {}),
        (lambda: layers.SeparableConv2D(3, 2, depth_multiplier=2), {}),
        (lambda: layers.Conv2DTranspose(3, 2), {"xla": True}),
    ],
)  # fmt: skip
def test_networks_are_trained_as_each_alone(hidden, options):
    check(SHAPES[hidden().rank], hidden, **options)


@pytest.mark.parametrize(("kind", "rank", "options"), CONVOLUTIONS)
def test_each_replica_has_kernels_of_its_own(kind, rank, options):
    assert_same_outputs(lambda x: kind(4, **options)(x), SHAPES[rank])


CHANNELWISE = [
    (layers.DepthwiseConv1D, 1, {"kernel_size": 3, "depth_multiplier": 2}),
    (layers.DepthwiseConv1D, 1, {"kernel_size": 2, "strides": 2, "padding": "same", "use_bias": False}),
    (layers.DepthwiseConv2D, 2, {"kernel_size": 3, "padding": "same", "activation": "tanh"}),
    (layers.DepthwiseConv2D, 2, {"kernel_size": 2, "dilation_rate": 2, "depth_multiplier": 3}),
    (layers.DepthwiseConv2D, 2, {"kernel_size": 2, "strides": 2, "dilation_rate": 2, "padding": "same"}),
    (layers.SeparableConv1D, 1, {"filters": 3, "kernel_size": 3, "padding": "same", "activation": "softmax"}),
    (layers.SeparableConv1D, 1, {"filters": 3, "kernel_size": 2, "strides": 2, "use_bias": False}),
    (layers.SeparableConv2D, 2, {"filters": 3, "kernel_size": 3, "depth_multiplier": 2}),
    (layers.SeparableConv2D, 2, {"filters": 3, "kernel_size": 2, "dilation_rate": 2, "padding": "same"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "rank", "options"), CHANNELWISE)
def test_each_channel_of_each_replica_is_filtered_by_itself(kind, rank, options):
    assert_same_outputs(lambda x: kind(**options)(x), SHAPES[rank])


def test_many_channels_are_filtered_replica_by_replica():
    channels = convolution_sums.MOST_CHANNELS + 1
    assert_same_outputs(lambda x: layers.DepthwiseConv2D(2)(x), (4, 4, channels))


@pytest.mark.parametrize(
    ("shape", "hidden"),
    [
        ((6, 5, 3), lambda: layers.Conv2D(4, 3, padding="same", strides=2)),
        ((6, 5, 5), lambda: layers.Conv2D(4, 3, dilation_rate=2, activation="relu")),
        ((6, 5, 2), lambda: layers.DepthwiseConv2D(2, strides=2, padding="same", depth_multiplier=2)),
        ((6, 4), lambda: layers.SeparableConv1D(3, 2, dilation_rate=2)),
        ((4, 5, 2), lambda: layers.Conv2DTranspose(3, 2, dilation_rate=2)),
        ((4, 5, 2), lambda: layers.Conv2D(4, 2, groups=2)),
    ],
)
def test_the_same_in_xla(shape, hidden):
    assert_same_outputs(lambda x: hidden()(x), shape, xla=True)


@pytest.mark.parametrize(
    "hidden",
    [
        lambda: layers.Conv2D(4, 2, data_format="channels_first", activation="softmax"),
        lambda: layers.Conv2DTranspose(3, 2, data_format="channels_first"),
        lambda: layers.DepthwiseConv2D(2, data_format="channels_first"),
        lambda: layers.SeparableConv2D(3, 2, data_format="channels_first"),
    ],
)
def test_channels_first(hidden):
    assert_same_outputs(lambda x: hidden()(x), (3, 5, 6), xla=True)


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize(("strides", "dilations"), [((1, 1), (1, 1)), ((2, 3), (1, 1)), ((1, 1), (2, 3))])
def test_windows_are_where_tensorflow_has_them(padding, strides, dilations):
    x, kernel = tf.constant(draw(2, 3, 9, 8, 2)), tf.constant(draw(2, 3, 2, 2, 5, seed=1))
    want = tf.stack([
        tf.nn.convolution(x[r], kernel[r], strides, padding.upper(), dilations=dilations) for r in range(2)
    ])  # fmt: skip
    found = 0
    for place, part in convolution_sums.cut_windows(x, (3, 2), strides, padding, dilations):
        found += tf.einsum("rbhwc,rcf->rbhwf", part, kernel[(slice(None), *place)])
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


def test_lora_is_refused():
    def make():
        model = build((4, 4, 2), lambda: layers.Conv2D(4, 2))()
        model.layers[0].enable_lora(2)
        return model

    assert [one.endswith("it has LoRA") for one in refuse(make)] == [True]


def test_a_bias_that_keras_adds_along_another_axis_is_refused():
    (reason,) = refuse(build((3, 5, 4), lambda: layers.DepthwiseConv2D(2, data_format="channels_first")))
    assert "along another axis" in reason
