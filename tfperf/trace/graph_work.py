"""FLOP and bytes of an operation in a graph, by the sizes of its inputs and outputs.

A multiply-add is 2 FLOP, any other arithmetic of an element 1; exp, tanh and their like are counted apart. Bytes are
inputs and outputs, each once; slices, gathers and scatters move only what they touch.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tfperf.trace.work import OperationWork

KINDS = """
elementwise: Abs Add AddV2 BiasAdd Cast Ceil ClipByValue Div DivNoNan Equal Floor FloorDiv FloorMod Greater GreaterEqual
elementwise: IsFinite IsNan Less LessEqual LogicalAnd LogicalNot LogicalOr Maximum Minimum Mul MulNoNan Neg NotEqual
elementwise: RealDiv Reciprocal Relu Relu6 Relu6Grad ReluGrad LeakyRelu LeakyReluGrad Round Select SelectV2 Sign Square
elementwise: SquaredDifference Sub Xdivy ZerosLike OnesLike
transcendental: Atan Cos Elu Erf Exp Expm1 Log Log1p Pow Rsqrt Sigmoid Sin Softplus Sqrt Tan Tanh
reduction: All Any ArgMax ArgMin BiasAddGrad EuclideanNorm L2Loss Max Mean Min Prod Sum SegmentSum UnsortedSegmentSum
moves: BroadcastTo Concat ConcatV2 Fill GatherNd MirrorPad OneHot Pack Pad PadV2 ReverseV2 Roll Split SplitV Tile
moves: Transpose Unpack
part: Gather GatherV2 ResourceGather Slice StridedSlice
uncounted: AvgPoolGrad Cumsum EluGrad FusedBatchNormGradV3 FusedBatchNormV3 LogSoftmax MaxPoolGrad ResizeBilinear
uncounted: RsqrtGrad SigmoidGrad Softmax SoftmaxCrossEntropyWithLogits SoftplusGrad SparseSoftmaxCrossEntropyWithLogits
uncounted: SqrtGrad TanhGrad TopKV2
"""
GROUP = {
    kind: group.rstrip(":") for group, *kinds in map(str.split, KINDS.strip().splitlines()) for kind in kinds
}  # fmt: skip
CONVOLUTION = re.compile(r"(DepthwiseConv2dNative|Conv[23]D)(Backprop(?:Input|Filter))?(V2)?")
# arithmetic of an element, by the update's formula, and slots
UPDATES = {
    "ResourceApplyGradientDescent": (2, 0), "ResourceApplyMomentum": (4, 1), "ResourceApplyKerasMomentum": (4, 1),
    "ResourceApplyAdagrad": (7, 1), "ResourceApplyAdagradV2": (7, 1), "ResourceApplyAdam": (12, 2),
}  # fmt: skip
Attributes = Callable[[str], object]


@dataclass(frozen=True)
class TensorSize:
    """An input or output: its dimensions, and bytes of an element; of a resource those of its variable."""

    dims: tuple[int, ...]
    itemsize: int
    double: bool = False  # whether it is float64

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return self.size * self.itemsize


Sizes = Sequence[TensorSize]


def count_operation(kind: str, inputs: Sizes, outputs: Sizes, get: Attributes) -> OperationWork | None:
    """Work of one execution; None for a type that there is no rule for.

    get: an attribute by its name. Raises: KeyError, IndexError or ValueError where an operation has not what its type
    should have.
    """
    found = _count(kind, inputs, outputs, get)
    if found is None:
        return None
    flops, moved, functions = found
    double = any(one.double for one in (*inputs, *outputs))
    return OperationWork(flops, float(moved), float(functions), "float64" if double else "float32")


def _count(kind: str, inputs: Sizes, outputs: Sizes, get: Attributes) -> tuple[float | None, float, float] | None:
    """FLOP, bytes, evaluations of transcendental functions."""
    moved = sum(one.bytes for one in (*inputs, *outputs))
    if kind in _PRODUCTS:
        return _PRODUCTS[kind](inputs, outputs, get), moved, 0
    if CONVOLUTION.fullmatch(kind):
        return _count_convolution(kind, inputs, outputs), moved, 0
    if kind in UPDATES:
        flops, slots = UPDATES[kind]
        return flops * inputs[0].size, 2 * (1 + slots) * inputs[0].bytes + inputs[0].bytes, 0
    match GROUP.get(kind, kind):
        case "elementwise":
            return outputs[0].size, moved, 0
        case "transcendental":
            return 0, moved, outputs[0].size
        case "reduction":
            return inputs[0].size, moved, 0
        case "moves":
            return 0, moved, 0
        case "part":
            return 0, 2 * outputs[0].bytes + sum(one.bytes for one in inputs[1:]), 0
        case "uncounted":
            return None, moved, 0
    return _count_rest(kind, inputs, outputs, get)


def _count_rest(kind: str, inputs: Sizes, outputs: Sizes, get: Attributes) -> tuple[float, float, float] | None:
    moved = sum(one.bytes for one in (*inputs, *outputs))
    match kind:
        case "AddN":
            return (len(inputs) - 1) * outputs[0].size, moved, 0
        case "MaxPool" | "AvgPool":
            return math.prod(_list_numbers(get("ksize"))) * outputs[0].size, moved, 0
        case "AssignAddVariableOp" | "AssignSubVariableOp":  # reads and writes the variable
            return inputs[0].size, 2 * inputs[0].bytes + inputs[1].bytes, 0
        case "ResourceScatterAdd" | "ResourceScatterSub":  # rows in and out, updates and their indices
            return inputs[2].size, 3 * inputs[2].bytes + inputs[1].bytes, 0
    return None


def _count_matrix_product(inputs: Sizes, outputs: Sizes, get: Attributes) -> int:
    """2 M N K."""
    return 2 * outputs[0].size * inputs[0].dims[-2 if get("transpose_a") else -1]


def _count_batch_product(inputs: Sizes, outputs: Sizes, get: Attributes) -> int:
    """2 M N K of each matrix."""
    return 2 * outputs[0].size * inputs[0].dims[-2 if get("adj_x") else -1]


def _count_einsum(inputs: Sizes, outputs: Sizes, get: Attributes) -> int | None:
    """2 x the product of all sizes that letters stand for; of one input its elements. None: with an ellipsis."""
    equation = get("equation")
    text = equation.decode() if isinstance(equation, bytes) else str(equation)
    if "." in text or len(inputs) > 2:
        return None
    sizes: dict[str, int] = {}
    for letters, one in zip(text.partition("->")[0].split(","), inputs, strict=True):
        sizes |= dict(zip(letters, one.dims, strict=True))
    return (2 if len(inputs) == 2 else 1) * math.prod(sizes.values())


_PRODUCTS: Mapping[str, Callable[[Sizes, Sizes, Attributes], int | None]] = {
    "MatMul": _count_matrix_product, "BatchMatMul": _count_batch_product, "BatchMatMulV2": _count_batch_product,
    "BatchMatMulV3": _count_batch_product, "Einsum": _count_einsum,
}  # fmt: skip


def _count_convolution(kind: str, inputs: Sizes, outputs: Sizes) -> int:
    """2 x elements of the result x elements of the kernel that make one of them, of both gradients, too.

    Places of a window that lie in the padding count.
    """
    found = CONVOLUTION.fullmatch(kind)
    gradient = found[2] if found else None
    kernel = outputs[0] if gradient == "BackpropFilter" else inputs[1]
    made = inputs[2] if gradient else outputs[0]
    made_by = kernel.dims[-2:] if kind.startswith("Depthwise") else kernel.dims[-1:]
    return 2 * made.size * kernel.size // max(1, math.prod(made_by))


def _list_numbers(value: object) -> list[int]:
    return [int(n) for n in value] if isinstance(value, list | tuple) else []
