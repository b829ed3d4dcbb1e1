"""Whether a stack is what the engine takes it for; the errors are for its author. R replicas."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework.auto_control_deps_utils import get_read_write_resource_inputs  # not public

from tfperf.train.snapshots import name_faults, type_faults
from tfperf.train.stack import Losses, Stack


def check_variables(stack: Stack) -> None:
    """Raises: ValueError for weights or state that are no variables (R, ...), or whose names cannot be kept."""
    weights, state = stack.weights(), stack.state()
    for where, held, kind in (("weights", weights, keras.Variable), ("state", state, tf.Variable)):
        for name, one in held.items():
            if faults := [*name_faults(name, held)]:
                raise ValueError(f"{_of(stack, where)}: {faults[0]}")
            if not isinstance(one, kind):
                wanted = f"{kind.__module__.split('.')[0]}.Variable"
                raise ValueError(f"{_of(stack, where)}: {name}: got a {type(one).__name__}, must be a {wanted}")
            if faults := [*type_faults(name, tf.as_dtype(one.dtype).as_numpy_dtype)]:
                raise ValueError(f"{_of(stack, where)}: {faults[0]}")
            shared = where == "state" and not len(one.shape)
            if not shared and tuple(one.shape[:1]) != (stack.replicas,):
                raise ValueError(
                    f"{_of(stack, where)}: {name}: got {_kind(one)}, must have {stack.replicas} replicas first"
                )
    trained = {name: v for name, v in weights.items() if v.trainable}
    if not trained:
        raise ValueError(f"{_of(stack, 'weights')}: none is trainable")
    for name, v in trained.items():
        if tf.as_dtype(v.dtype) != stack.precision:
            raise ValueError(
                f"{_of(stack, 'weights')}: {name}: got {_kind(v)}, must be of {stack.precision}, as is trained"
            )


def check_losses(stack: Stack, losses: Losses, where: str) -> None:
    """Raises: ValueError where one has not a number of the stack's precision for each replica; the gate: true or false.

    where: the method that gave them.
    """
    for name, one in zip(Losses._fields, losses, strict=True):
        _check(stack, f"{where}: {name}", one, tf.bool if name == "gate" else tf.as_dtype(stack.precision))


def check_rows(stack: Stack, rows: Mapping[str, tf.Tensor]) -> None:
    """Raises: ValueError where one has not a number of the stack's precision for each replica."""
    for name, one in rows.items():
        _check(stack, f"report: {name}", one, tf.as_dtype(stack.precision))


def check_assigned(stack: Stack, known: Iterable[tf.Variable], made: Any) -> None:
    """Raises: ValueError for variables that a concrete function assigns, and that are not `known`: none keeps them."""
    handles = {id(v.handle) for v in known}
    unknown = {id(inner): outer for outer, inner in made.graph.captures if id(outer) not in handles}
    for operation in made.graph.get_operations():
        for one in get_read_write_resource_inputs(operation)[1]:
            if id(one) in unknown:
                names = [v.name for v in made.graph.variables if v.handle is unknown[id(one)]]
                said = "is assigned, but neither among weights nor state: checkpoints would not have it"
                raise ValueError(f"{type(stack).__name__}: variable {', '.join(names)}: {said}")


def check_names(owner: object, rows: Iterable[str], reported: Iterable[str]) -> None:
    """Raises: ValueError where a stack reports other names than its factory gives; owner: the factory."""
    if set(rows) != set(reported):
        said = f"names {', '.join(sorted(rows))}; its stacks report {', '.join(sorted(reported))}"
        raise ValueError(f"{type(owner).__name__}.rows: {said}; must be the same")


def check_slopes(stack: Stack, names: Sequence[str], slopes: Sequence[tf.Tensor | None]) -> None:
    """Raises: ValueError for weights on which the objective does not depend."""
    unused = [name for name, slope in zip(names, slopes, strict=True) if slope is None]
    if unused:
        said = "the objective does not depend on it; a weight that is not trained is made with trainable=False"
        raise ValueError(f"{_of(stack, 'losses')}: {', '.join(unused)}: {said}")


def _check(stack: Stack, where: str, one: tf.Tensor, dtype: tf.DType) -> None:
    shape = [stack.replicas]
    if not isinstance(one, tf.Tensor) or not one.shape.is_compatible_with(shape) or one.dtype != dtype:
        wanted = f"{dtype.name} {shape}"
        raise ValueError(f"{_of(stack, where)}: got {_kind(one)}, must be {wanted}, a number for each replica")


def _of(stack: Stack, where: str) -> str:
    return f"{type(stack).__name__}.{where}"


def _kind(one: Any) -> str:
    """Type and shape, as a message has them."""
    if isinstance(one, (keras.Variable, tf.Variable, tf.Tensor)):
        return f"{tf.as_dtype(one.dtype).name} {[*one.shape]}"
    return f"a {type(one).__name__}"
