"""What a graph without weights gives of several replicas at once, beside what it gives of each alone. In float64."""

import keras
import numpy as np
import tensorflow as tf

from tests.workloads.keras.stacked.pairs import EXACT, draw, use_float64
from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.network import StackedNetwork, list_reasons

REPLICAS, BATCH = 3, 4


def assert_same_outputs(build, *shapes, masked=False, xla=False, dtypes=()) -> None:
    """The outputs, their masks, and the gradients of the inputs.

    build: makes the outputs of symbolic inputs (B, *shape) each; masked: the first input's mask leaves places out.
    """
    with use_float64():
        names = [*dtypes, *["float64"] * (len(shapes) - len(dtypes))]
        inputs = [keras.Input(shape, dtype=name) for shape, name in zip(shapes, names, strict=True)]
        model = keras.Model(inputs, build(*inputs))
        assert list_reasons(model) == []
        given = [tf.constant(_draw(shape, name, i)) for i, (shape, name) in enumerate(zip(shapes, names, strict=True))]
        mask = tf.constant(draw(REPLICAS, BATCH, shapes[0][0], seed=9) > -0.5) if masked else None
        network, values = StackedNetwork(model), Values(REPLICAS, lambda variable: None)
        stack = _evaluate(lambda *some: network.call(values, list(some), False), given, mask, xla)
        for r in range(REPLICAS):
            own = None if mask is None else mask[r]
            alone = _evaluate(lambda *some: model(list(some), training=False), [one[r] for one in given], own, xla)
            assert len(alone) == len(stack)
            for want, found in zip(alone, stack, strict=True):
                np.testing.assert_allclose(found[r], want, rtol=EXACT, atol=EXACT)


def _draw(shape, name, seed):
    values = draw(REPLICAS, BATCH, *shape, seed=seed)
    return values if name == "float64" else np.floor(abs(3 * values)).astype(name)


def _evaluate(call, inputs, mask, xla):
    """Outputs, masks of outputs, gradients."""

    @tf.function(jit_compile=xla, autograph=False)
    def take(*some):
        if mask is not None:
            keras.src.backend.set_keras_mask(some[0], mask)
        with tf.GradientTape() as tape:
            tape.watch(some)
            outputs = keras.tree.flatten(call(*some))
            total = sum(tf.reduce_sum(tf.sin(tf.cast(one, tf.float64))) for one in outputs)
        masks = [own for one in outputs if (own := getattr(one, "_keras_mask", None)) is not None]
        floats = [one for one in some if one.dtype.is_floating]
        gradients = tape.gradient(total, floats, unconnected_gradients="zero")
        return [*outputs, *masks, *gradients]

    return [one.numpy() for one in take(*inputs)]
