"""Whether the replicas of a stack are what each is alone: independent, and with the first step of the model's own."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray, ArraysByName
from tfperf.train.flat import Flattener
from tfperf.workloads.keras.loops import select_batch
from tfperf.workloads.keras.replicas.template import LOSS, ModelTemplate
from tfperf.workloads.keras.stacked.stack import KerasStack

LOGGER = logging.getLogger(__name__)
MOST = 300  # characters of an error
PROBED = 3  # replicas that are enough to see what passes between neighbours
COMPARED = 2  # of them with the model alone
ROUNDED, NEAR = 1e-3, 0.05  # shares of a loss, and of what a step changes, by which float32 may round them


@dataclass(frozen=True)
class AloneStep:
    """A first step by the model's own train_step, outside of a graph.

    loss: that it tells; before, after: that of the same batch without dropout; values: of all variables then.
    """

    loss: float
    before: float
    after: float
    values: ArraysByName


def find_difference(stack: KerasStack, starts: Sequence[ArraysByName]) -> str | None:
    """Why a stack would not train its replicas as the model alone would, in words; None: nothing is seen.

    Another batch for the first replica must not change a bit of the others, and the first step of two of them must be
    that of the model's own train_step, but for rounding. A stack that cannot take a batch at all is told of, too: there
    are lanes of any model. starts: what each replica begins with.
    """
    rows = np.stack([one.draw_rows(0, 1)[0] for one in stack.copies.batches])
    try:
        before = _take(stack, rows)
    except Exception as error:  # a handler that does not know what Keras allows
        LOGGER.exception("a stack fails")
        return f"a first batch fails in the stack: {type(error).__name__}: {' '.join(str(error).split())[:MOST]}"
    other = rows.copy()
    other[0] = (rows[0, 0] + 1) % keras.tree.flatten(stack.training)[0].shape[0]  # one sample alone
    after = _take(stack, other)
    moved = [name for name, values in before.items() if not np.array_equal(values[1:], after[name][1:], equal_nan=True)]
    if moved:
        return f"a batch of one replica changes {', '.join(moved[:3])} of others"
    if stack.loss_weights is not None:  # whose batches have another form
        return None
    return next(filter(None, (_compare(stack, before, starts[r], rows[r], r) for r in range(COMPARED))), None)


def _compare(
    stack: KerasStack, found: Mapping[str, AnyArray], start: ArraysByName, rows: AnyArray, replica: int
) -> str | None:
    """What of a replica's first step is not as the model alone would take it, in words."""
    template = stack.copies.template
    alone = _step_alone(template, start, rows)
    loss = float(found["the loss"][replica])
    if not np.isfinite([loss, alone.loss]).all():
        return None
    if abs(loss - alone.loss) > ROUNDED * (abs(alone.loss) + 1e-3):
        return f"the loss of its first batch as a stack is {loss:.6g}, of the model alone {alone.loss:.6g}"
    stacked = {
        name: found[key][replica] for name in template.weights
        if (key := f"the step of {name}") in found or (key := name) in found
    }  # fmt: skip
    after = _evaluate(template, {**alone.values, **stacked}, rows)
    least = ROUNDED * abs(alone.before)
    if abs(after - alone.after) > max(NEAR * abs(alone.before - alone.after), least):
        return (
            f"a first step as a stack changes the loss of its batch from {alone.before:.6g} to {after:.6g}, of the "
            f"model alone to {alone.after:.6g}"
        )
    state = {name: v[replica] for name, v in found.items() if name in template.state and v.dtype.kind == "f"}
    far = [name for name, value in state.items() if not _is_near(value, alone.values[name])]
    return f"a first step as a stack leaves another {far[0]} than the model alone" if far else None


def _is_near(value: AnyArray, wanted: AnyArray) -> bool:
    return np.allclose(value, wanted, rtol=NEAR, atol=ROUNDED * float(np.abs(wanted).max(initial=0)), equal_nan=True)


def _step_alone(template: ModelTemplate, start: ArraysByName, rows: AnyArray) -> AloneStep:
    """The template's model has its values back afterwards."""
    model, variables = template.model, template.variables
    before = _evaluate(template, start, rows)
    _assign(template, start)
    logs = model.train_step(select_batch(template.training, tf.constant(rows)))
    values = {name: variable.numpy() for name, variable in variables.items()}
    loss = float(logs[LOSS])
    return AloneStep(loss, before, _evaluate(template, values, rows), values)


def _evaluate(template: ModelTemplate, values: ArraysByName, rows: AnyArray) -> float:
    """The loss of a batch with these values of the variables, without dropout."""
    model = template.model
    _assign(template, values)
    x, y, weights = keras.utils.unpack_x_y_sample_weight(select_batch(template.training, tf.constant(rows)))
    loss = float(model.compute_loss(x, y, model(x, training=False), weights, training=False))
    _assign(template, template.initial)
    return loss


def _assign(template: ModelTemplate, values: ArraysByName) -> None:
    for name, variable in template.variables.items():
        variable.assign(values[name])


def _take(stack: KerasStack, rows: AnyArray) -> dict[str, AnyArray]:
    """Gradients, what variables become, and trained ones after a step (R, ...), for samples (R, B)."""
    trained = {name: v for name, v in stack.weights.items() if v.trainable}
    values = [tf.identity(v.value) for v in trained.values()]
    mapping: list[Any] = list(zip(trained.values(), values, strict=True))
    probes = [*stack.make_probes()]
    with tf.GradientTape() as tape:
        tape.watch([*values, *probes])
        with keras.StatelessScope(state_mapping=mapping):
            objective, assigned = stack.take_batch(tf.constant(rows))
    slopes = tape.gradient(objective, [*values, *probes], unconnected_gradients="zero")
    slopes = [tf.convert_to_tensor(one) for one in slopes]
    gradients, probed = slopes[: len(values)], slopes[len(values) :]
    found = {f"the gradient of {name}": one for name, one in zip(trained, gradients, strict=True)}
    after = {
        f"the step of {name}": one for name, one in zip(trained, _step(stack, values, gradients, probed), strict=True)
    }
    return {name: value.numpy() for name, value in {**found, **assigned, "the loss": objective, **after}.items()}


def _step(
    stack: KerasStack, values: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor], probed: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """What trained weights (R, ...) are after a first step, which may clip; the stack keeps its own."""
    flat = Flattener([tuple(one.shape) for one in values], [one.dtype.name for one in values])
    row = keras.Variable(flat.join(values), name="row")
    optimizer = stack.build_optimizer(row, flat)
    optimizer.probed = probed
    optimizer.apply([flat.join(gradients)], [row])
    if row.constraint is not None:
        row.assign(row.constraint(row))
    return flat.split(row.value)
