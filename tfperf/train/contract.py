"""Whether a stack is what the engine takes it for; the errors are for its author. R replicas."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework.auto_control_deps_utils import get_read_write_resource_inputs  # not public

from tfperf.train.snapshots import check_name, check_type
from tfperf.train.stack import Losses, Stack

# operations that change a table; those that read one are taken for writers by TensorFlow's own list
TABLE_WRITERS = ("LookupTableInsert", "LookupTableImport", "LookupTableRemove")


def check_variables(stack: Stack) -> None:
    """Raises: ValueError for weights or state that are no variables (R, ...), or whose names cannot be kept."""
    weights, state = stack.list_weights(), stack.list_state()
    for variables, kind, where in ((weights, keras.Variable, "list_weights"), (state, tf.Variable, "list_state")):
        member = _format_member(stack, where)
        for name, one in variables.items():
            if faults := [*check_name(name, variables)]:
                raise ValueError(f"{member}: {faults[0]}")
            if not isinstance(one, kind):
                wanted = f"{kind.__module__.split('.')[0]}.Variable"
                raise ValueError(f"{member}: {name}: got a {type(one).__name__}, must be a {wanted}")
            if faults := [*check_type(name, tf.as_dtype(one.dtype).as_numpy_dtype)]:
                raise ValueError(f"{member}: {faults[0]}")
            shared = variables is state and not len(one.shape)
            if not shared and tuple(one.shape[:1]) != (stack.replicas,):
                said = f"got {_format_type(one)}, must have {stack.replicas} replicas first"
                raise ValueError(f"{member}: {name}: {said}")
    trained = {name: v for name, v in weights.items() if v.trainable}
    if not trained:
        raise ValueError(f"{_format_member(stack, 'list_weights')}: none is trainable")
    for name, v in trained.items():
        if tf.as_dtype(v.dtype) != stack.precision and not stack.mixes_types:
            said = f"got {_format_type(v)}, must be of {stack.precision}, as is trained"
            raise ValueError(f"{_format_member(stack, 'list_weights')}: {name}: {said}")


def check_losses(stack: Stack, losses: Losses, where: str) -> None:
    """Raises: ValueError where one has not a number of the stack's precision for each replica; the gate: true or false.

    where: the method that gave them.
    """
    for name, one in zip(Losses._fields, losses, strict=True):
        _check(stack, f"{where}: {name}", one, tf.bool if name == "gate" else tf.as_dtype(stack.precision))


def check_metrics(stack: Stack, metrics: Mapping[str, tf.Tensor]) -> None:
    """Raises: ValueError where one has not a number of the stack's precision for each replica."""
    for name, one in metrics.items():
        _check(stack, f"evaluate_metrics: {name}", one, tf.as_dtype(stack.precision))


def check_assigned(stack: Stack, known: Iterable[tf.Variable], function: Any) -> None:
    """Raises: ValueError for variables that a concrete function assigns, and that are not `known`: none keeps them."""
    handles = {id(v.handle) for v in known}
    unknown = {id(inner): outer for outer, inner in function.graph.captures if id(outer) not in handles}
    for operation in function.graph.get_operations():
        for one in get_read_write_resource_inputs(operation)[1]:
            if id(one) in unknown and not _is_constant_table(unknown[id(one)], function):
                names = [v.name for v in function.graph.variables if v.handle is unknown[id(one)]]
                said = "is assigned, but neither among weights nor state: checkpoints would not have it"
                raise ValueError(f"{type(stack).__name__}: variable {', '.join(names)}: {said}")


def _is_constant_table(handle: Any, function: Any) -> bool:
    """Whether a resource is no variable, whose handle tells its type and shape, but a table that is only read."""
    data = getattr(handle, "_handle_data", None)
    if data is not None and data.is_set:
        return False
    library = function.graph.as_graph_def().library.function
    return not any(node.op.startswith(TABLE_WRITERS) for one in library for node in one.node_def)


def check_metric_names(owner: object, metrics: Iterable[str], reported: Iterable[str]) -> None:
    """Raises: ValueError where a stack reports other names than its factory gives; owner: the factory."""
    if set(metrics) != set(reported):
        said = f"names {', '.join(sorted(metrics))}; its stacks report {', '.join(sorted(reported))}"
        raise ValueError(f"{type(owner).__name__}.metrics: {said}; must be the same")


def check_gradients(stack: Stack, names: Sequence[str], gradients: Sequence[tf.Tensor | None]) -> None:
    """Raises: ValueError for weights on which the objective does not depend."""
    unused = [name for name, slope in zip(names, gradients, strict=True) if slope is None]
    if unused:
        said = "the objective does not depend on it; a weight that is not trained is made with trainable=False"
        raise ValueError(f"{_format_member(stack, 'evaluate_losses')}: {', '.join(unused)}: {said}")


def _check(stack: Stack, where: str, one: tf.Tensor, dtype: tf.DType) -> None:
    shape = [stack.replicas]
    if not isinstance(one, tf.Tensor) or not one.shape.is_compatible_with(shape) or one.dtype != dtype:
        said = f"got {_format_type(one)}, must be {dtype.name} {shape}, a number for each replica"
        raise ValueError(f"{_format_member(stack, where)}: {said}")


def _format_member(stack: Stack, where: str) -> str:
    return f"{type(stack).__name__}.{where}"


def _format_type(one: Any) -> str:
    """Type and shape, as a message has them."""
    if isinstance(one, (keras.Variable, tf.Variable, tf.Tensor)):
        return f"{tf.as_dtype(one.dtype).name} {[*one.shape]}"
    return f"a {type(one).__name__}"
