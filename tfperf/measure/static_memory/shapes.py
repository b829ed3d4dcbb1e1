"""Shapes and small integers that are known only when their operation runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import UnknownSizeError
from tfperf.measure.static_memory.heap import Shape, Tensor, TensorList, Value
from tfperf.measure.static_memory.program import Node

MOST_NUMBERS = 1024  # of a tensor whose numbers are followed
ELEMENTWISE = frozenset((
    "Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Pow", "SquaredDifference", "DivNoNan", "Less",
    "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr", "SelectV2", "FloorDiv",
    "FloorMod", "BitwiseAnd", "BitwiseOr",
))  # fmt: skip
SAME = frozenset((
    "Abs", "Cast", "Ceil", "Cos", "Elu", "Erf", "Erfc", "Exp", "Floor", "Identity", "Inv", "Log", "Log1p", "LogicalNot",
    "Neg", "OnesLike", "Reciprocal", "Relu", "ReluGrad", "Round", "Rsqrt", "RsqrtGrad", "Sigmoid", "SigmoidGrad",
    "Sign", "Sin", "Softmax", "Softplus", "Sqrt", "SqrtGrad", "Square", "StopGradient", "Tanh", "TanhGrad", "ZerosLike",
    "BiasAdd", "Switch", "Enter", "Exit", "NextIteration", "AddN", "ReverseV2",
))  # fmt: skip
Function = Callable[..., Any]
PURE: Mapping[str, Function] = {
    "Add": np.add, "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "FloorDiv": np.floor_divide,
    "FloorMod": np.mod, "Minimum": np.minimum, "Maximum": np.maximum, "Less": np.less, "LessEqual": np.less_equal,
    "Greater": np.greater, "GreaterEqual": np.greater_equal, "Equal": np.equal, "NotEqual": np.not_equal,
    "LogicalAnd": np.logical_and, "LogicalOr": np.logical_or, "LogicalNot": np.logical_not, "Neg": np.negative,
    "Identity": np.array, "Size": np.size, "Range": np.arange, "Reshape": np.reshape,
    "Squeeze": np.squeeze, "ExpandDims": lambda x, axis: np.expand_dims(x, int(axis)),
    "ConcatV2": lambda *given: np.concatenate(given[:-1], int(given[-1])),
    "GatherV2": lambda x, rows, axis: np.take(x, rows, int(axis)),
    "Prod": lambda x, axes: np.prod(x, tuple(np.atleast_1d(axes)), dtype=x.dtype),
    "Sum": lambda x, axes: np.sum(x, tuple(np.atleast_1d(axes)), dtype=x.dtype),
    "Max": lambda x, axes: np.max(x, tuple(np.atleast_1d(axes))),
    "Fill": lambda shape, x: np.full(shape, x), "SelectV2": np.where,
    "Pack": lambda *given: np.stack(given), "InvertPermutation": np.argsort,
}  # fmt: skip


def find_value(node: Node, inputs: Sequence[Value | None]) -> AnyArray | None:
    """The numbers of its first result, where they follow from those that are known."""
    if node.op == "Shape" and isinstance(inputs[0], Tensor):
        return np.array(inputs[0].shape, np.int32)
    if node.op == "Cast" and (known := _get_value(inputs[0])) is not None and node.widths[0] in (4, 8):
        return known.astype(np.int64) if known.dtype.kind in "ib" else None
    if node.op == "StridedSlice":
        return _cut(node, [_get_value(one) for one in inputs])
    function = PURE.get(node.op)
    if function is None or not inputs:
        return None
    known_inputs = [_get_value(one) for one in inputs]
    if any(one is None for one in known_inputs):
        return None
    try:
        found = np.asarray(function(*known_inputs))
    except (ValueError, TypeError, IndexError):
        return None
    return found if found.size <= MOST_NUMBERS else None


def read_constant(node: Node) -> AnyArray | None:
    """The numbers of a small constant of integers or truth values."""
    from tensorflow import make_ndarray

    proto = node.attr["value"].tensor
    shape = node.shapes[0]
    if shape is None or int(np.prod(shape)) > MOST_NUMBERS or proto.dtype not in (3, 9, 10):  # int32, int64, bool
        return None
    found: AnyArray = make_ndarray(proto)
    return found


class ShapeRules:
    """Shapes of results; what has been asked of TensorFlow for an operation and such inputs is kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], list[Shape | None]] = {}

    def find(self, node: Node, inputs: Sequence[Value | None]) -> Sequence[Shape]:
        """Of all results. Raises: UnknownSizeError."""
        if node.static is not None:
            return node.static
        given = [one.shape for one in inputs if isinstance(one, Tensor)]
        if node.op in ELEMENTWISE:
            return [np.broadcast_shapes(*given)]
        if node.op in SAME and given:
            return [given[0]] * len(node.shapes)
        key = (node.index, *map(_make_key, inputs))
        if key not in self._known:
            self._known[key] = _ask_tensorflow(node, inputs)
        found = [shape for shape in self._known[key] if shape is not None]
        if len(found) < len(node.shapes):
            raise UnknownSizeError(f"the size of what {node.name} ({node.op}) gives is not known before it runs")
        return found


def _make_key(given: Value | None) -> object:
    if not isinstance(given, Tensor):
        return None
    return given.shape, None if given.value is None else given.value.tobytes()


def _get_value(value: Value | None) -> AnyArray | None:
    return value.value if isinstance(value, Tensor) else None


def _cut(node: Node, inputs: Sequence[AnyArray | None]) -> AnyArray | None:
    """One entry or a range of a vector, as programs take of shapes."""
    vector, begin, end, stride = inputs
    if vector is None or begin is None or end is None or stride is None or vector.ndim != 1 or begin.size != 1:
        return None
    if node.attr["shrink_axis_mask"].i == 1:
        return np.asarray(vector[int(begin[0])])
    first = None if node.attr["begin_mask"].i else int(begin[0])
    last = None if node.attr["end_mask"].i else int(end[0])
    return np.asarray(vector[first : last : int(stride[0])])


def _ask_tensorflow(node: Node, inputs: Sequence[Value | None]) -> list[Shape | None]:
    """By its own rules, in a graph of that operation alone."""
    import tensorflow as tf

    graph = tf.Graph()
    definition = tf.compat.v1.NodeDef()
    definition.name, definition.op = "asked", node.op
    for key, value in node.attr.items():
        if not key.startswith("_"):
            definition.attr[key].CopyFrom(value)
    with graph.as_default():
        given = {}
        for place, one in enumerate(inputs):
            given[f"given{place}"] = _make_input(node, place, one)
            definition.input.append(f"given{place}")
        whole = tf.compat.v1.GraphDef(node=[definition])
        try:
            (made,) = tf.graph_util.import_graph_def(whole, input_map=given, return_elements=["asked"], name="")
        except ValueError as error:
            raise UnknownSizeError(f"{node.name} ({node.op}): {error}") from None
    return [tuple(one.shape) if one.shape.is_fully_defined() else None for one in made.outputs]


def _make_input(node: Node, place: int, given: Value | None) -> Any:
    import tensorflow as tf

    kind = _list_types(node)[place]
    if isinstance(given, Tensor):
        if given.value is not None:
            return tf.constant(given.value, kind)
        return tf.compat.v1.placeholder(kind, given.shape)
    if isinstance(given, TensorList) and given.shape is not None:
        return tf.compat.v1.placeholder(tf.variant, [])
    return tf.compat.v1.placeholder(kind, [])


def _list_types(node: Node) -> list[Any]:
    """Of its inputs."""
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry  # not public

    found: list[Any] = []
    for argument in op_def_registry.get(node.op).input_arg:
        one = argument.type or node.attr[argument.type_attr].type
        if argument.type_list_attr:
            found += [tf.as_dtype(kind) for kind in node.attr[argument.type_list_attr].list.type]
        else:
            count = node.attr[argument.number_attr].i if argument.number_attr else 1
            found += [tf.as_dtype(one)] * count
    return found
