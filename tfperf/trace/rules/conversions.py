"""Arrays that become tensors at each call."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfperf.trace.rules.rule import Cost, Rule

if TYPE_CHECKING:
    from tfperf.trace.attribution import Attribution


def find(found: "Attribution") -> Iterator[Cost]:
    """All of it: a dataset makes tensors beside the steps. What Keras' own train function makes remains."""
    if found.program == "keras" and not found.notes.own_train_function:
        return
    ms = found.account.sum("conversion")
    before = sum(one.ms for one in found.account.list("conversion") if not one.name)
    what = "lists or arrays are made" if 2 * before > ms else "arguments of a compiled call are made"
    yield Cost(f"{what} tensors of, at each call", ms, ms)


RULE = Rule(
    "conversion", "Arrays are converted at each call", find,
    {
        "engine": "keep the data on the device", "card": "give the data as a dataset",
        "keras": "make tensors of arrays once, before fit: tf.constant(array); or take them from a tf.data.Dataset",
        "loop": "pass tensors: take batches from a tf.data.Dataset",
        "jax": "put batches on the device ahead of the step, by jax.device_put",
    },
    before="for i in range(steps):\n    step(x[i * 64 : (i + 1) * 64])  # NumPy arrays",
    after="data = tf.data.Dataset.from_tensor_slices(x).batch(64).prefetch(2)\nfor batch in data:\n    step(batch)",
)  # fmt: skip
