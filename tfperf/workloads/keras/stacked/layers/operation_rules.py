"""Which operations of Keras look at one sample at a time, and which calls of them do not, in words. B samples."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import keras
from keras.src.ops import core, linalg, math, nn, numpy

from tfperf.workloads.keras.stacked.layers.calls import (
    count_axes,
    is_cut_by_samples,
    is_over_samples,
    list_constants,
    list_tensors,
)

Rule = Callable[[Any, Any], str | None]  # why such a call of an operation is refused; None where it is not

# one number, or one of each operand, at a time
ELEMENTWISE = """
Absolute Abs Fabs Add Arccos Arccosh Arcsin Arcsinh Arctan Arctan2 Arctanh Cbrt Ceil Clip Cos Cosh Deg2rad Rad2deg
Divide DivideNoNan TrueDivide Equal Exp Exp2 Expm1 Floor FloorDivide FullLike Greater GreaterEqual Heaviside Hypot
Isclose Isfinite Isinf Isnan Isneginf Isposinf Less LessEqual Log Log10 Log1p Log2 Logaddexp Logaddexp2 LogicalAnd
LogicalNot LogicalOr LogicalXor Maximum Fmax Minimum Fmin Mod Fmod Multiply NanToNum Negative NotEqual OnesLike Power
Reciprocal Round Sign Signbit Sin Sinc Sinh Sqrt Square Subtract Tan Tanh Trunc Where ZerosLike
Relu Relu6 Sigmoid SparseSigmoid Softplus Softsign SoftShrink SparsePlus Silu Squareplus LogSigmoid LeakyRelu
HardSigmoid HardSilu Elu Selu Gelu Celu TanhShrink HardTanh HardShrink Threshold
Rsqrt Erf Erfc Erfinv Cast SaturateCast StopGradient
"""
# along axes of its tensors that the operation is told
ALONG_AXES = """
Mean Sum Max Min Prod Var Std Amax Amin All Argmax Argmin CountNonzero Median Cumsum Cumprod Flip Sort Argsort Roll
Concatenate Split Squeeze Repeat TakeAlongAxis Softmax LogSoftmax Glu Normalize Logsumexp Norm
"""
INNER = "MaxPool AveragePool AdaptiveMaxPool AdaptiveAveragePool TopK"  # never along the first of two axes or more


def find_kinds(names: str) -> tuple[type, ...]:
    """The operations of those names, of which a version of Keras may lack some."""
    modules = (numpy, nn, math, core, linalg)
    found = (next((vars(module)[name] for module in modules if name in vars(module)), None) for name in names.split())
    return tuple(one for one in found if one is not None)


def _list_operands(call: Any) -> list[Any]:
    """As they are given: a list is an array of numbers."""
    return [*call[0], *call[1].values()]


def refuse_operands(operation: Any, call: Any) -> str | None:
    """Operands must be aligned by sample."""
    counts = {count_axes(one) for one in list_tensors(call)}
    if len(counts) > 1:
        return "its operands have different numbers of axes"
    (count,), operands = counts, _list_operands(call)
    if isinstance(operation, numpy.Where) and (len(operands) < 3 or any(one is None for one in operands)):
        return "it tells places, not values"
    own = [one for one in operands if not isinstance(one, keras.KerasTensor)]
    own += [getattr(operation, name, None) for name in ("x_min", "x_max")]
    if any(is_cut_by_samples(one, count) for one in own):
        return "its constant has a part for each sample of a batch"
    return None


def refuse_axes(operation: Any, call: Any) -> str | None:
    """The axes that it works along must not include the first."""
    if any(count_axes(one) for one in list_constants(call)):
        return "it is called with a constant"
    if any(is_over_samples(operation.axis, count_axes(one)) for one in list_tensors(call)):
        return "its axes include that of the samples"
    return None


def refuse_new_axes(operation: Any, call: Any) -> str | None:
    """The axes that it adds must not come first."""
    axis = operation.axis
    more = 1 if isinstance(axis, int) else len(axis)
    if any(count_axes(one) for one in list_constants(call)):
        return "it is called with a constant"
    if any(is_over_samples(axis, count_axes(one) + more) for one in list_tensors(call)):
        return "it adds an axis before that of the samples"
    return None


def refuse_single_axis(operation: Any, call: Any) -> str | None:
    """There must be other axes than that of the samples."""
    return "it mixes samples" if any(count_axes(one) < 2 for one in list_tensors(call)) else None


def refuse_taking(operation: Any, call: Any) -> str | None:
    """Constant places must be selected of each sample, or each sample's places of the first axis of a constant."""
    x, places = _list_operands(call)
    first, second = (isinstance(one, keras.KerasTensor) for one in (x, places))
    count = count_axes(x)
    if (first and second) or operation.axis is None:
        return "its places differ from sample to sample, or are those of a whole batch"
    fine = is_over_samples(operation.axis, count) != first
    return None if fine else "its axis is that of the samples"


def refuse_order(operation: Any, call: Any) -> str | None:
    """The first axis must stay where it is."""
    (tensor,) = list_tensors(call)
    count = count_axes(tensor)
    if isinstance(operation, numpy.Transpose):
        moved = count > 1 if operation.axes is None else is_over_samples(operation.axes[1:], count)
    elif isinstance(operation, numpy.Swapaxes):
        moved = is_over_samples((operation.axis1, operation.axis2), count)
    else:
        moved = is_over_samples((*operation.source, *operation.destination), count)
    return "it moves the axis of the samples" if moved else None


def refuse_shape(operation: Any, call: Any) -> str | None:
    """The first axis must be left out, as -1, and the rest have as many numbers as before."""
    (tensor,) = list_tensors(call)
    first, *rest = [operation.newshape] if isinstance(operation.newshape, int) else operation.newshape
    before = tensor.shape[1:]
    if first != -1 or None in (*before, *rest) or -1 in rest or prod(before) != prod(rest):
        return "its shape does not leave the axis of the samples as -1, and all other sizes known"
    return None


def refuse_key(operation: Any, call: Any) -> str | None:
    """The whole first axis must be selected, and no others by arrays."""
    x, key = _list_operands(call)
    parts = [*key] if isinstance(key, tuple | list) else [key]
    simple = all(one is None or one is Ellipsis or isinstance(one, int | slice) for one in parts)
    if not isinstance(x, keras.KerasTensor) or not simple:
        return "it takes parts by arrays"
    selected = sum(one is not None and one is not Ellipsis for one in parts)
    if parts[0] == slice(None) or (parts[0] is Ellipsis and selected < count_axes(x)):
        return None
    return "it takes some samples of a batch only"


def refuse_product(operation: Any, call: Any) -> str | None:
    """Two tensors must be products of each sample; a constant must be a matrix, or a vector that comes second."""
    x1, x2 = _list_operands(call)
    first, second = (isinstance(one, keras.KerasTensor) for one in (x1, x2))
    counts = count_axes(x1), count_axes(x2)
    if first and second:
        fine = counts[0] == counts[1] > 2
    elif first:
        fine = counts[0] > 1 and counts[1] <= 2
    else:
        fine = counts[0] == 2 and counts[1] > 2
    return None if fine else "it mixes samples"


def refuse_letters(operation: Any, call: Any) -> str | None:
    """One letter must be the samples': the first of each tensor, and of what comes out, and in no constant."""
    terms, arrow, result = operation.subscripts.replace(" ", "").partition("->")
    letters = terms.split(",")
    tensors = [isinstance(one, keras.KerasTensor) for one in call[0]]
    if not arrow or "." in terms or len(letters) != len(tensors) or not result:
        return "its subscripts do not name all axes"
    samples = result[0]
    right = [
        term.startswith(samples) and term.count(samples) == 1 if own else samples not in term
        for term, own in zip(letters, tensors, strict=True)
    ]
    return None if all(right) and result.count(samples) == 1 else "it mixes samples"


def refuse_padding(operation: Any, call: Any) -> str | None:
    """No samples may be added."""
    return None if tuple(operation.pad_width[0]) == (0, 0) else "it adds samples"


def refuse_repeats(operation: Any, call: Any) -> str | None:
    """No samples may be repeated."""
    (tensor,) = list_tensors(call)
    repeats: Sequence[int] = [operation.repeats] if isinstance(operation.repeats, int) else operation.repeats
    count = count_axes(tensor)
    fine = len(repeats) < count or (len(repeats) == count and repeats[0] == 1)
    return None if fine else "it repeats samples"


def list_rules() -> dict[type, Rule]:
    """By the kind of operation; what is not among them has no stacked form."""
    named: list[tuple[str, Rule]] = [
        (ELEMENTWISE, refuse_operands), (ALONG_AXES, refuse_axes), ("ExpandDims Stack", refuse_new_axes),
        (INNER, refuse_single_axis), ("Transpose Swapaxes Moveaxis", refuse_order),
        ("Reshape", refuse_shape), ("GetItem", refuse_key), ("Matmul", refuse_product), ("Take", refuse_taking),
        ("Einsum", refuse_letters), ("Pad", refuse_padding), ("Tile", refuse_repeats),
    ]  # fmt: skip
    return {kind: rule for names, rule in named for kind in find_kinds(names)}
