"""What TensorFlow's kernels for the processor do with buffers: new ones, those of an input, and temporary ones.

Source: tensorflow/core/kernels of TensorFlow 2.21, with oneDNN's kernels as it takes them on x86; each rule was seen in
the allocations that its profiler records.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from tfperf.arrays import AnyArray
from tfperf.errors import UnknownSizeError
from tfperf.measure.static_memory.contraction import list_contraction_shapes
from tfperf.measure.static_memory.heap import Heap, Shape, Tensor, TensorList, Value, Variable, is_alone
from tfperf.measure.static_memory.lists import KERNELS as LISTS
from tfperf.measure.static_memory.lists import ListKernels, Results
from tfperf.measure.static_memory.program import Node
from tfperf.measure.static_memory.shapes import ShapeRules, find_value

RESULT, TEMPORARY, CONSTANT, GIVEN, VARIABLE = "result", "temporary", "constant", "given", "variable"
VIEWS = frozenset((
    "Bitcast", "EnsureShape", "ExpandDims", "Identity", "LoopCond", "PlaceholderWithDefault", "PreventGradient",
    "Reshape", "Snapshot", "Squeeze", "StopGradient", "CheckNumerics",
    # on what a TemporaryVariable gives, into which TensorFlow's optimiser turns large sums
    "Assign", "AssignAdd", "AssignSub", "DestroyTemporaryVariable",
))  # fmt: skip
FIRST, EITHER = (0,), (0, 1)
FORWARDS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((
        "Abs", "Acos", "Asin", "Atan", "BiasAdd", "Ceil", "ClipByValue", "Cos", "Digamma", "Elu", "Erf", "Erfc",
        "Erfinv", "Exp", "Expm1", "Floor", "Inv", "LeakyRelu", "Lgamma", "Log", "Log1p", "LogicalNot", "LogSoftmax",
        "Neg", "OnesLike", "Reciprocal", "Relu", "Relu6", "Rint", "Round", "Rsqrt", "Selu", "Sigmoid", "Sign", "Sin",
        "Sinh", "Softmax", "Softplus", "_UnaryOpsComposition", "Softsign", "Sqrt", "Square", "Tan", "Tanh", "ZerosLike",
    ), FIRST),
    **dict.fromkeys((
        "Add", "AddV2", "Atan2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "DivNoNan", "EluGrad", "FloorDiv",
        "FloorMod", "InvGrad", "LeakyReluGrad", "LogicalAnd", "LogicalOr", "Maximum", "Minimum", "Mod", "Mul",
        "MulNoNan", "Pow", "RealDiv", "ReciprocalGrad", "Relu6Grad", "ReluGrad", "RightShift", "LeftShift", "RsqrtGrad",
        "SeluGrad", "SigmoidGrad", "SoftplusGrad", "SqrtGrad", "SquaredDifference", "Sub", "TanhGrad", "TruncateDiv",
        "Xdivy", "Xlogy",
    ), EITHER),
    "Select": (1, 2), "SelectV2": (1, 2),
}  # fmt: skip
ANY = frozenset(("AddN", "AccumulateNV2"))  # write into whichever input is alone
REDUCTIONS = frozenset(("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum"))
COPIES_NOTHING = frozenset(("BroadcastTo", "ConcatV2", "Pack", "Slice", "StridedSlice", "Tile", "Transpose"))
UPDATES = frozenset((
    "AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterUpdate",
    "ResourceScatterMul", "ResourceScatterMin", "ResourceScatterMax",
))  # fmt: skip
CALLS = frozenset(("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf"))
OPAQUE = frozenset(("EagerPyFunc", "PyFunc", "PyFuncStateless"))


class Kernels:
    """Runs operations without their numbers. Each result is held by the caller, who releases the inputs."""

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        self._lists, self._shapes = ListKernels(heap), ShapeRules()

    def run(self, node: Node, inputs: Sequence[Value]) -> tuple[Results, list[Tensor]]:
        """Results, and temporary tensors that go when it is done. Raises: UnknownSizeError."""
        if node.op in CALLS | OPAQUE:
            raise UnknownSizeError(f"{node.name} ({node.op}): what it runs is not part of the graph")
        if node.op in LISTS:
            return self._lists.run(node, inputs), []
        lists = [one for one in inputs if isinstance(one, TensorList)]
        if lists and node.op in ("AddN", "AddV2", "ZerosLike"):
            one = self._lists.fill if node.op == "ZerosLike" else self._lists.add
            return one(node, lists[0] if node.op == "ZerosLike" else lists), []  # type: ignore[arg-type]
        if node.op in VIEWS and inputs:
            return [self._share_buffer(node, inputs[0], self._find_view(node, inputs))], []
        if inputs and isinstance(inputs[0], Variable):
            return self._use_variable(node, inputs[0], inputs[1:]), []
        return self._compute(node, inputs)

    def _find_view(self, node: Node, inputs: Sequence[Value]) -> Shape:
        return self._shapes.find(node, inputs)[0] if isinstance(inputs[0], Tensor) else ()

    def _share_buffer(self, node: Node, given: Value, shape: Shape) -> Value:
        self.heap.keep(given)
        if not isinstance(given, Tensor):
            return given
        return Tensor(given.buffer, shape, node.widths[0], given.value if given.shape == shape else None)

    def _use_variable(self, node: Node, variable: Variable, others: Sequence[Value]) -> Results:
        held = variable.tensor
        if node.op == "VariableShape" and held is not None:
            made = self._make(node, (len(held.shape),), node.widths[0])
            made.value = np.array(held.shape, np.int32)
            return [made]
        if node.op == "ReadVariableOp" and held is not None:
            self.heap.keep(held)
            return [Tensor(held.buffer, held.shape, held.width)]
        if node.op == "AssignVariableOp" and isinstance(others[0], Tensor):
            self._assign(variable, others[0])
        elif node.op in UPDATES and held is not None and not is_alone(held):  # who reads it keeps what it was
            variable.tensor = self.heap.make_tensor(held.shape, held.width, variable.name, VARIABLE)
            self.heap.release(held)
        return [self._make(node, shape, node.widths[port]) for port, shape in enumerate(self._shapes.find(node, []))]

    def _assign(self, variable: Variable, given: Tensor) -> None:
        """Take the tensor over where nobody else has it; else copy it, into the variable's own where that is free."""
        held = variable.tensor
        if is_alone(given):
            self.heap.keep(given)
            variable.tensor = Tensor(given.buffer, given.shape, given.width)
        elif held is not None and is_alone(held) and held.size == given.size:
            return
        else:
            variable.tensor = self.heap.make_tensor(given.shape, given.width, variable.name, VARIABLE)
        if held is not None:
            self.heap.release(held)

    def _compute(self, node: Node, inputs: Sequence[Value]) -> tuple[Results, list[Tensor]]:
        shapes = self._shapes.find(node, inputs)
        tensors = [one for one in inputs if isinstance(one, Tensor)]
        if _is_view(node, tensors, shapes):
            return [self._share_buffer(node, tensors[0], shapes[0])], []
        temporary = [
            self.heap.make_tensor((size,), 1, node.name, TEMPORARY) for size in _list_temporaries(node, tensors, shapes)
        ]
        made: Results = [self._make_result(node, port, shape, tensors) for port, shape in enumerate(shapes)]
        if made and isinstance(made[0], Tensor):
            made[0].value = find_value(node, inputs)
        return made, temporary

    def _make_result(self, node: Node, port: int, shape: Shape, inputs: Sequence[Tensor]) -> Value:
        width = node.widths[port]
        if node.op == "Split" and inputs[0].value is not None and int(inputs[0].value) == 0:
            self.heap.keep(inputs[1])
            return Tensor(inputs[1].buffer, shape, width)
        if width == 0:
            return Variable(node.name)
        if port == (1 if node.op in CROSS_ENTROPIES else 0):
            for place in _list_places(node, len(inputs)):
                given = inputs[place] if place < len(inputs) else None
                if given is not None and is_alone(given) and given.shape == shape and given.width == width:
                    self.heap.keep(given)
                    assert given.buffer is not None
                    given.buffer.operation, given.buffer.shape = node.name, shape
                    return Tensor(given.buffer, shape, width)
        return self._make(node, shape, width)

    def _make(self, node: Node, shape: Shape, width: int) -> Tensor:
        return self.heap.make_tensor(shape, width, node.name, RESULT)


CROSS_ENTROPIES = frozenset(("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits"))


def _list_places(node: Node, count: int) -> Sequence[int]:
    """Inputs whose buffer its result may take."""
    if node.op in ANY:
        return range(count)
    return FIRST if node.op in CROSS_ENTROPIES else FORWARDS.get(node.op, ())


def _is_view(node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]) -> bool:
    """Whether its result is its first input."""
    if not inputs or len(shapes) != 1:
        return False
    size = prod(shapes[0]) * node.widths[0]
    if node.op in REDUCTIONS:
        return inputs[0].size == size and inputs[0].width == node.widths[0]
    if node.op == "StridedSlice":
        return inputs[0].size == size
    return node.op in COPIES_NOTHING and inputs[0].shape == shapes[0] and _is_in_order(node, inputs)


def _is_in_order(node: Node, inputs: Sequence[Tensor]) -> bool:
    if node.op != "Transpose":
        return True
    order: AnyArray | None = inputs[1].value
    return order is not None and list(order) == sorted(order)


def _list_temporaries(node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]) -> list[int]:
    """Bytes of each."""
    if node.op in REDUCTIONS and inputs:
        return _list_reduction_temporaries(inputs, shapes[0])
    if node.op in CROSS_ENTROPIES and inputs:
        return [inputs[0].shape[0] * inputs[0].width]
    if node.op == "Einsum":
        return list_contraction_shapes(node.attr["equation"].s.decode(), inputs, shapes[0])
    return []


def _list_reduction_temporaries(inputs: Sequence[Tensor], shape: Shape) -> list[int]:
    """The input in another order, where axes that go and axes that stay alternate more than three times."""
    given, axes = inputs[0], inputs[1].value if len(inputs) > 1 else None
    if axes is None:
        return []
    gone = {int(axis) % max(len(given.shape), 1) for axis in np.atleast_1d(axes)}
    runs: list[bool] = []
    for axis, length in enumerate(given.shape):
        if length != 1 and (not runs or runs[-1] != (axis in gone)):
            runs.append(axis in gone)
    return [given.size] if len(runs) > 3 else []
