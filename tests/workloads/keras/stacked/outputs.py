"""What a graph gives of several replicas at once, beside what it gives of each alone. In float64."""

import keras
import numpy as np
import tensorflow as tf

from tests.workloads.keras.stacked.pairs import EXACT, draw, use_float64
from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.network import StackedNetwork, list_reasons

REPLICAS, BATCH = 3, 4


def assert_same_outputs(build, *shapes, masked=False, xla=False, dtypes=()) -> None:
    """The outputs, their masks, and the gradients of inputs and weights, which are drawn for each replica.

    build: makes the outputs of symbolic inputs (B, *shape) each; masked: the first input's mask leaves places out.
    """
    with use_float64():
        names = [*dtypes, *["float64"] * (len(shapes) - len(dtypes))]
        inputs = [keras.Input(shape, dtype=name) for shape, name in zip(shapes, names, strict=True)]
        model = keras.Model(inputs, build(*inputs))
        assert list_reasons(model) == []
        given = [tf.constant(_draw(shape, name, i)) for i, (shape, name) in enumerate(zip(shapes, names, strict=True))]
        mask = tf.constant(draw(REPLICAS, BATCH, shapes[0][0], seed=9) > -0.5) if masked else None
        weights = [tf.constant(draw(REPLICAS, *v.shape, seed=20 + i)) for i, v in enumerate(model.trainable_variables)]
        stack = _evaluate(_take_stack(model), given, weights, mask, xla)
        for r in range(REPLICAS):
            own = None if mask is None else mask[r]
            alone = _evaluate(_take_alone(model), [x[r] for x in given], [w[r] for w in weights], own, xla)
            assert len(alone) == len(stack)
            for want, found in zip(alone, stack, strict=True):
                np.testing.assert_allclose(found[r], want, rtol=EXACT, atol=EXACT)


def _draw(shape, name, seed):
    values = draw(REPLICAS, BATCH, *shape, seed=seed)
    return values if name == "float64" else np.floor(abs(3 * values)).astype(name)


def _take_stack(model):
    network, places = StackedNetwork(model), {id(v): i for i, v in enumerate(model.trainable_variables)}
    return lambda inputs, weights: network.call(Values(REPLICAS, lambda v: weights[places[id(v)]]), inputs, False)


def _take_alone(model):
    def take(inputs, weights):
        with keras.StatelessScope(state_mapping=[*zip(model.trainable_variables, weights, strict=True)]):
            return model(inputs, training=False)

    return take


def _evaluate(call, inputs, weights, mask, xla):
    """Outputs, masks of outputs, gradients."""

    @tf.function(jit_compile=xla, autograph=False)
    def take(inputs, weights):
        if mask is not None:
            keras.src.backend.set_keras_mask(inputs[0], mask)
        watched = [one for one in (*inputs, *weights) if one.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = keras.tree.flatten(call(inputs, weights))
            total = sum(tf.reduce_sum(tf.sin(tf.cast(one, tf.float64))) for one in outputs)
        masks = [own for one in outputs if (own := getattr(one, "_keras_mask", None)) is not None]
        return [*outputs, *masks, *tape.gradient(total, watched, unconnected_gradients="zero")]

    return [one.numpy() for one in take([*inputs], [*weights])]
