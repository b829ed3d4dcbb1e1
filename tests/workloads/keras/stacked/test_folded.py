"""Layers without weights as a stack: the same as each replica's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.workloads.keras.stacked.outputs import BATCH, REPLICAS, assert_same_outputs
from tests.workloads.keras.stacked.pairs import assert_same, draw, refuse

LINE, PLANE, SPACE = (6, 3), (6, 4, 3), (4, 6, 4, 2)


def test_a_network_with_a_mask_is_trained_as_each_alone():
    def make():
        x = keras.Input((5, 3))
        masked = layers.Masking()(x)
        left, right = layers.Dense(4, "tanh")(masked), layers.Dense(4)(masked)
        joined = layers.Concatenate()([layers.Add()([left, right]), layers.Maximum()([left, right])])
        y = layers.GlobalAveragePooling1D()(joined)
        model = keras.Model(x, layers.Dense(2)(y))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    x, held = draw(19, 5, 3), draw(11, 5, 3, seed=2)
    for one in (x, held):
        one[np.abs(one[:, :, 0]) > 0.8] = 0
    assert_same(make, (x, draw(19, 2, seed=1)), (held, draw(11, 2, seed=3)), replicas=2)


@pytest.mark.parametrize(
    ("shape", "layer"),
    [
        *((LINE, one) for one in (
            lambda: layers.ReLU(max_value=1, negative_slope=0.1, threshold=0.2), lambda: layers.LeakyReLU(0.2),
            lambda: layers.ELU(0.5), lambda: layers.Softmax(), lambda: layers.Softmax(axis=(1, 2)),
            lambda: layers.Softmax(axis=-2), lambda: layers.Identity(), lambda: layers.Flatten(),
            lambda: layers.Reshape((2, -1)), lambda: layers.Permute((2, 1)),
            lambda: layers.Cropping1D((1, 2)), lambda: layers.ZeroPadding1D((2, 1)), lambda: layers.UpSampling1D(2),
            lambda: layers.AveragePooling1D(3, 2, "same"), lambda: layers.MaxPooling1D(3, 1),
            lambda: layers.MaxPooling1D(2, data_format="channels_first"),
            lambda: layers.GlobalAveragePooling1D(keepdims=True), lambda: layers.GlobalMaxPooling1D(),
            lambda: layers.AdaptiveAveragePooling1D(4), lambda: layers.AdaptiveMaxPooling1D(4),
            lambda: layers.Rescaling(2.0, 1.0), lambda: layers.Rescaling([1.0, 2.0, 3.0]),
            lambda: layers.UnitNormalization(), lambda: layers.UnitNormalization(axis=[1, 2]),
        )),
        *((PLANE, one) for one in (
            lambda: layers.Cropping2D(((1, 0), (1, 2))), lambda: layers.ZeroPadding2D(((1, 0), (0, 2))),
            lambda: layers.UpSampling2D((2, 3), interpolation="bilinear"), lambda: layers.AveragePooling2D((2, 3)),
            lambda: layers.MaxPooling2D((3, 2), padding="same"), lambda: layers.GlobalAveragePooling2D(),
            lambda: layers.GlobalMaxPooling2D(data_format="channels_first"),
            lambda: layers.AdaptiveAveragePooling2D((4, 3)), lambda: layers.AdaptiveMaxPooling2D(2),
            lambda: layers.Resizing(3, 5), lambda: layers.CenterCrop(4, 2), lambda: layers.Flatten("channels_first"),
        )),
        *((SPACE, one) for one in (
            lambda: layers.Cropping3D(1), lambda: layers.ZeroPadding3D((1, 0, 2)), lambda: layers.UpSampling3D(2),
            lambda: layers.AveragePooling3D(2, dtype="float32"),  # TensorFlow has these for no other type
            lambda: layers.MaxPooling3D((1, 3, 2), dtype="float32"),
            lambda: layers.GlobalAveragePooling3D(), lambda: layers.GlobalMaxPooling3D(),
            lambda: layers.AdaptiveAveragePooling3D((2, 4, 3), dtype="float32"),
            lambda: layers.AdaptiveMaxPooling3D(2, dtype="float32"),
        )),
        ((4,), lambda: layers.RepeatVector(3)),
    ],
)  # fmt: skip
def test_layers_of_one_tensor(shape, layer):
    assert_same_outputs(lambda x: layer()(x), shape)


@pytest.mark.parametrize(
    ("layer", "shapes"),
    [
        *((kind, shapes) for kind in (
            layers.Add, layers.Multiply, layers.Average, layers.Maximum, layers.Minimum,
        ) for shapes in ([LINE] * 3, [LINE, (1, 3), (6, 1)], [LINE, (3,)])),
        (layers.Subtract, [LINE, LINE]), (layers.Concatenate, [LINE, (6, 2)]),
        (lambda: layers.Concatenate(axis=1), [LINE, (2, 3), LINE]), (lambda: layers.Concatenate(-2), [LINE, (2, 3)]),
        (lambda: layers.Dot(1), [(5,), (5,)]), (lambda: layers.Dot((2, 1)), [LINE, (3, 5)]),
        (lambda: layers.Dot((-1, -1), normalize=True), [LINE, LINE]), (lambda: layers.Dot(1), [LINE, (6,)]),
    ],
)  # fmt: skip
def test_layers_of_several_tensors(layer, shapes):
    assert_same_outputs(lambda *some: layer()(list(some)), *shapes)


@pytest.mark.parametrize("kind", [layers.Add, layers.Average])
def test_a_number_for_each_sample_is_no_bias(kind):
    assert_same_outputs(lambda x, y: kind()([x, y]), (REPLICAS * BATCH,), (1,))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: layers.Add()([x, layers.ReLU()(x)]), lambda x: layers.Concatenate()([x, layers.Identity()(x)]),
        lambda x: layers.Concatenate(axis=1)([x, x]), lambda x: layers.Minimum()([x, layers.LeakyReLU()(x)]),
        lambda x: layers.GlobalAveragePooling1D()(x), lambda x: layers.ZeroPadding1D(1)(x),
        lambda x: layers.Rescaling(2.0)(x), lambda x: layers.Reshape((3, 6))(x),
        lambda x: layers.Multiply()([layers.UnitNormalization()(x), x]),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")
def test_masks_go_where_they_go_in_each_replica(build):
    assert_same_outputs(build, LINE, masked=True)


def test_a_softmax_of_what_a_mask_keeps():
    assert_same_outputs(lambda x, kept: layers.Softmax()(x, mask=kept > 0), LINE, LINE)


def test_the_same_in_xla():
    def build(x, y):
        pooled = layers.MaxPooling2D()(layers.ZeroPadding2D(1)(x))
        return layers.Add()([layers.Flatten()(pooled), layers.Dot(1)([y, y])])

    assert_same_outputs(build, PLANE, (5,), xla=True)


def test_what_joins_samples_is_refused():
    x, y = keras.Input((4,)), keras.Input((4,))
    for build, reason in (
        (lambda: layers.Concatenate(axis=0)([x, y]), "its axes include that of the samples"),
        (lambda: layers.Concatenate(axis=-2)([x, y]), "its axes include that of the samples"),
        (lambda: layers.Softmax(axis=0)(x), "its axes include that of the samples"),
        (lambda: layers.Softmax(axis=(-2, 1))(x), "its axes include that of the samples"),
        (lambda: layers.UnitNormalization(axis=-2)(x), "its axes include that of the samples"),
        (lambda: layers.Rescaling(np.ones((4, 1)))(x), "it scales each sample of a batch by another number"),
        (lambda: layers.Add()([x, tf.ones((1, 4))]), "it is called with a constant"),
    ):
        assert [one.split(": ")[1] for one in refuse(lambda build=build: _compile(keras.Model([x, y], build())))] == [
            reason
        ]


def _compile(model):
    model.compile("sgd", "mse")
    return model
