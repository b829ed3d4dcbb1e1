"""Whether the replicas of a stack are independent: another batch for one must not move the others by a bit."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray
from tfperf.workloads.keras.stacked.stack import KerasStack

PROBED = 3  # replicas that are enough to see what passes between neighbours


def find_coupling(stack: KerasStack) -> str | None:
    """What of the other replicas another batch of the first one changes, in words; None: nothing."""
    rows = np.stack([one.draw_rows(0, 1)[0] for one in stack.copies.batches])
    before = _take(stack, rows)
    rows[0] = (rows[0, 0] + 1) % keras.tree.flatten(stack.training)[0].shape[0]  # one sample alone
    after = _take(stack, rows)
    moved = [name for name, values in before.items() if not np.array_equal(values[1:], after[name][1:], equal_nan=True)]
    return f"a batch of one replica changes {', '.join(moved[:3])} of others" if moved else None


def _take(stack: KerasStack, rows: AnyArray) -> dict[str, AnyArray]:
    """Gradients and what variables become (R, ...), for samples (R, B)."""
    trained = {name: v for name, v in stack.weights.items() if v.trainable}
    values = [tf.identity(v.value) for v in trained.values()]
    mapping: list[Any] = list(zip(trained.values(), values, strict=True))
    with tf.GradientTape() as tape:
        tape.watch(values)
        with keras.StatelessScope(state_mapping=mapping):
            objective, assigned = stack.take_batch(tf.constant(rows))
    gradients = tape.gradient(objective, values, unconnected_gradients="zero")
    found = {f"the gradient of {name}": tf.convert_to_tensor(g) for name, g in zip(trained, gradients, strict=True)}
    return {name: value.numpy() for name, value in {**found, **assigned, "the loss": objective}.items()}
