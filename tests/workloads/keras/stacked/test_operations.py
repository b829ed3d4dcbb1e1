"""Operations of keras.ops in a graph, as a stack: the same as each replica's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from tests.workloads.keras.stacked.outputs import BATCH, REPLICAS, assert_same_outputs
from tests.workloads.keras.stacked.pairs import assert_same, draw, refuse

ROW, LINE = (6,), (5, 6)
SIX = np.linspace(0.5, 1.5, 6)


def test_a_network_of_layers_and_operations_is_trained_as_each_alone():
    def make():
        x = keras.Input((5, 3))
        queries, keys = layers.Dense(4)(x), layers.Dense(4)(x)
        attended = ops.softmax(ops.matmul(queries, ops.transpose(keys, (0, 2, 1))) / 2.0) @ keys
        y = ops.relu(attended[:, -1]) + ops.mean(queries, axis=-2) * np.array([1.0, 2.0, 0.5, 1.5])
        model = keras.Model(x, layers.Dense(2)(ops.concatenate([y, ops.tanh(x[:, 0])], axis=-1)))
        model.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
        return model

    data = draw(19, 5, 3), draw(19, 2, seed=1)
    assert_same(make, data, (draw(11, 5, 3, seed=2), draw(11, 2, seed=3)), replicas=2)


@pytest.mark.parametrize(
    "build",
    [
        lambda x: [2.0 - x, x + 1, x * SIX, ops.divide(SIX, x * x + 1), -x, abs(x), x**2, x % 0.7, x // 0.3],
        lambda x: [ops.exp(x), ops.log(ops.square(x) + 1), ops.sqrt(abs(x) + 1), ops.tanh(x), ops.sin(x), ops.sign(x)],
        lambda x: [ops.sigmoid(x), ops.relu(x), ops.gelu(x), ops.gelu(x, approximate=False), ops.silu(x), ops.elu(x)],
        lambda x: [ops.softmax(x), ops.softmax(x, axis=1), ops.log_softmax(x), ops.normalize(x), ops.logsumexp(x, 1)],
        lambda x: [ops.cast(x, "float32"), ops.cast(x > 0, "int32"), ops.maximum(x, 0.2), ops.minimum(x, SIX)],
        lambda x: [ops.clip(x, -0.5, 0.5), ops.clip(x, -SIX, SIX), ops.where(x > 0, x, 2 * x), ops.stop_gradient(x)],
        lambda x: [x + np.ones((1, 6)), ops.ones_like(x) + x, ops.rsqrt(x * x + 1), ops.erf(x)],
        lambda x: [ops.mean(x, 1), ops.sum(x, -1, keepdims=True), ops.max(x, (1,)), ops.std(x, -1), ops.argmax(x, -1)],
        lambda x: [ops.concatenate([x, x * 2], -1), ops.stack([x, x], 1), ops.stack([x, x], -1), ops.flip(x, 1)],
        lambda x: [ops.expand_dims(x, 1), ops.squeeze(ops.expand_dims(x, -1), 2), ops.repeat(x, 2, axis=1)],
        lambda x: [*ops.split(x, 3, axis=1), ops.cumsum(x, axis=-1), ops.sort(x), *ops.top_k(x, 2)],
        lambda x: [ops.reshape(x, (-1, 2, 3)), ops.tile(x, (1, 2)), ops.pad(x, ((0, 0), (1, 2)))],
        lambda x: [x[:, 0], x[..., 1:3], x[:, None], x[:, ::-2], x[:, 1:2, None], ops.take(x, [0, 2], axis=1)],
        lambda x: [ops.take(np.arange(12.0).reshape(6, 2), ops.argmax(x, axis=1), axis=0), ops.matmul(x, SIX)],
        lambda x: [x @ np.ones((6, 2)), ops.einsum("bi,bi->b", x, x), ops.einsum("bi,ij->bj", x, np.ones((6, 2)))],
    ],
)  # fmt: skip
def test_operations_of_rows(build):
    assert_same_outputs(build, ROW)


@pytest.mark.parametrize(
    "build",
    [
        lambda x, y: [x + y, x - y, x * y, x / (y * y + 1), ops.maximum(x, y), ops.where(x > y, x, y)],
        lambda x, y: [x + y[:, :1], x[:, :, :1] * y, ops.mean(x, axis=(1, 2), keepdims=True) + y, x + np.ones((5, 1))],
        lambda x, y: [ops.mean(x, axis=(1, 2)), ops.sum(y, -2), ops.norm(x, axis=-1), ops.softmax(x, axis=-2)],
        lambda x, y: [ops.concatenate([x, y], 1), ops.concatenate([x, y], -2), ops.stack([x, y], -3), ops.var(x, [1])],
        lambda x, y: [ops.transpose(x, (0, 2, 1)), ops.swapaxes(y, -1, 1), ops.moveaxis(x, 1, -1)],
        lambda x, y: [ops.matmul(x, ops.transpose(y, (0, 2, 1))), x @ np.ones((6, 2)), ops.matmul(np.ones((3, 5)), y)],
        lambda x, y: [ops.reshape(x, (-1, 30)), ops.reshape(y, (-1, 6, 5)), ops.expand_dims(x, (1, -1))],
        lambda x, y: [x[:, 1], x[:, 1:3, ::2], x[..., 0], y[:, :, -1], y[:, 2, None], x[..., 1, :]],
        lambda x, y: [ops.einsum("nij,nkj->nik", x, y), ops.take_along_axis(x, ops.argsort(y, axis=1), axis=1)],
        lambda x, y: [ops.max_pool(x, 2), ops.average_pool(y, 3, 1, "same"), ops.roll(x, 1, axis=1)],
    ],
)  # fmt: skip
def test_operations_of_sequences(build):
    assert_same_outputs(build, LINE, LINE)


@pytest.mark.parametrize("build", [lambda x, y: x + y, lambda x, y: y + x, lambda x, y: ops.add(np.ones((1, 12)), y)])
def test_a_number_for_each_sample_is_no_bias(build):
    assert_same_outputs(build, (REPLICAS * BATCH,), (1,))


@pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")
def test_masks_go_where_they_go_in_each_replica():
    assert_same_outputs(lambda x: [ops.cast(x, "float64"), x * 2.0, layers.Add()([x, ops.cast(x, "float64")])], LINE,
                        masked=True)  # fmt: skip


def test_whole_numbers():
    def build(x):
        return [ops.one_hot(x, 9), ops.equal(x, 2), x + 1, ops.take(SIX, ops.minimum(x, 5), axis=0)]

    with pytest.raises(AssertionError):  # one_hot is not among them
        assert_same_outputs(build, ROW, dtypes=["int32"])
    assert_same_outputs(lambda x: build(x)[1:], ROW, dtypes=["int32"])


def test_the_same_in_xla():
    def build(x, y):
        return ops.matmul(ops.softmax(x + y), ops.transpose(y, (0, 2, 1)))[:, 0] * 2.0

    assert_same_outputs(build, LINE, LINE, xla=True)


def test_what_joins_samples_is_refused():
    x, y, flat = keras.Input((5, 4)), keras.Input((5, 4)), keras.Input((4,))
    variable = keras.Variable(np.ones(4))
    for build in (
        lambda: ops.mean(x), lambda: ops.mean(x, axis=0), lambda: ops.sum(x, axis=(1, -3)), lambda: ops.max(x, -3),
        lambda: ops.softmax(flat, axis=0), lambda: ops.softmax(flat, axis=-2), lambda: ops.cumsum(flat, axis=0),
        lambda: ops.concatenate([x, y], 0), lambda: ops.concatenate([x, y], -3), lambda: ops.stack([x, y], 0),
        lambda: ops.stack([x, y], -4), lambda: ops.expand_dims(x, 0), lambda: ops.expand_dims(x, -4),
        lambda: ops.squeeze(x[:, :1]), lambda: ops.flip(x), lambda: ops.flip(x, 0), lambda: ops.roll(x, 1),
        lambda: ops.transpose(x), lambda: ops.transpose(x, (1, 0, 2)), lambda: ops.swapaxes(x, 0, 1),
        lambda: ops.moveaxis(x, -3, 1), lambda: ops.reshape(x, (-1, 4)), lambda: ops.reshape(x, (8, 20)),
        lambda: ops.reshape(x, (4, -1)), lambda: ops.reshape(x, -1), lambda: x[0], lambda: x[1:, :],
        lambda: x[:, :, 0][-1, :],
        lambda: x[None, :], lambda: x[..., 0, 0, 0], lambda: x[::-1, ...], lambda: (flat @ ops.ones((4, 4)))[0],
        lambda: x @ flat, lambda: flat @ ops.transpose(flat), lambda: ops.matmul(np.ones((3, 8)), flat),
        lambda: x + flat, lambda: flat + np.ones((8, 4)), lambda: flat * np.ones((2, 1, 4)),
        lambda: ops.maximum(flat, tf.ones((8, 4))), lambda: ops.where(flat > 0), lambda: flat * variable,
        lambda: ops.clip(flat, np.zeros((8, 4)), 1), lambda: ops.take(flat, [0, 1], axis=0), lambda: ops.sort(flat, 0),
        lambda: ops.take(flat, [0, 1]), lambda: ops.einsum("bi,bj->ij", flat, flat),
        lambda: ops.repeat(flat, 2, axis=0),
        lambda: ops.einsum("bi,ci->bc", flat, flat), lambda: ops.einsum("bi,bj->bij", flat, np.ones((8, 4))),
        lambda: ops.pad(flat, ((1, 0), (0, 0))), lambda: ops.pad(flat, 1), lambda: ops.tile(flat, (2, 1)),
        lambda: ops.tile(flat, (2, 1, 1)), lambda: ops.concatenate([flat, tf.ones((8, 4))], 1),
        lambda: ops.outer(flat, flat),
    ):  # fmt: skip
        assert refuse(lambda build=build: _compile([x, y, flat], build())), "nothing is refused"


def _compile(inputs, outputs):
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    return model
