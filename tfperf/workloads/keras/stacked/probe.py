"""Whether the replicas of a stack are independent: another batch for one must not move the others by a bit."""

import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray
from tfperf.train.flat import Flattener
from tfperf.workloads.keras.stacked.stack import KerasStack

LOGGER = logging.getLogger(__name__)
MOST = 300  # characters of an error
PROBED = 3  # replicas that are enough to see what passes between neighbours


def find_coupling(stack: KerasStack) -> str | None:
    """What of the other replicas another batch of the first one changes, in words; None: nothing.

    A stack that cannot take a batch at all is told of in the same way: there are lanes of any model.
    """
    rows = np.stack([one.draw_rows(0, 1)[0] for one in stack.copies.batches])
    try:
        before = _take(stack, rows)
    except Exception as error:  # a handler that does not know what Keras allows
        LOGGER.exception("a stack fails")
        return f"a first batch fails in the stack: {type(error).__name__}: {' '.join(str(error).split())[:MOST]}"
    rows[0] = (rows[0, 0] + 1) % keras.tree.flatten(stack.training)[0].shape[0]  # one sample alone
    after = _take(stack, rows)
    moved = [name for name, values in before.items() if not np.array_equal(values[1:], after[name][1:], equal_nan=True)]
    return f"a batch of one replica changes {', '.join(moved[:3])} of others" if moved else None


def _take(stack: KerasStack, rows: AnyArray) -> dict[str, AnyArray]:
    """Gradients, what variables become, and trained ones after a step (R, ...), for samples (R, B)."""
    trained = {name: v for name, v in stack.weights.items() if v.trainable}
    values = [tf.identity(v.value) for v in trained.values()]
    mapping: list[Any] = list(zip(trained.values(), values, strict=True))
    with tf.GradientTape() as tape:
        tape.watch(values)
        with keras.StatelessScope(state_mapping=mapping):
            objective, assigned = stack.take_batch(tf.constant(rows))
    gradients = tape.gradient(objective, values, unconnected_gradients="zero")
    gradients = [tf.convert_to_tensor(one) for one in gradients]
    found = {f"the gradient of {name}": one for name, one in zip(trained, gradients, strict=True)}
    after = {f"the step of {name}": one for name, one in zip(trained, _step(stack, values, gradients), strict=True)}
    return {name: value.numpy() for name, value in {**found, **assigned, "the loss": objective, **after}.items()}


def _step(stack: KerasStack, values: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """What trained weights (R, ...) are after a first step, which may clip; the stack keeps its own."""
    flat = Flattener([tuple(one.shape) for one in values], [one.dtype.name for one in values])
    row = keras.Variable(flat.join(values), name="row")
    stack.build_optimizer(row, flat).apply([flat.join(gradients)], [row])
    if row.constraint is not None:
        row.assign(row.constraint(row))
    return flat.split(row.value)
