"""Temporary tensors of an Einsum: operands and result in the order that the matrix product wants.

Source: tensorflow/core/kernels/linalg/einsum_op_impl.h.
"""

from collections.abc import Mapping, Sequence
from math import prod

from tfperf.measure.static_memory.heap import Shape, Tensor

BATCH, FREE, CONTRACTED, SUMMED = range(4)
SWAPPED = {BATCH: 0, CONTRACTED: 1, FREE: 2, SUMMED: 3}  # an order that the product can read without a copy


def list_contraction_shapes(equation: str, inputs: Sequence[Tensor], shape: Shape) -> list[int]:
    """Bytes of the temporary tensors beside the result, which is made of the last of them where it is not copied.

    An operand that lies in another order is copied, and so is the result: the product has first what all have, then
    what each operand alone has.
    """
    left, _, result = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if "." in equation or len(operands) != len(inputs):
        return []
    numbers = {label: place for place, label in enumerate(dict.fromkeys(left.replace(",", "")))}
    kinds = {label: _find_kind(label, operands, result) for label in numbers}
    found = [given.size for labels, given in zip(operands, inputs, strict=True) if _needs_copy(labels, kinds, numbers)]
    order = [label for label in numbers if kinds[label] == BATCH]
    for labels in operands:
        order += sorted((one for one in labels if kinds[one] == FREE), key=numbers.__getitem__)
    width = inputs[0].width
    if "".join(order) != result:
        found.append(prod(shape) * width)
    return found


def _find_kind(label: str, operands: Sequence[str], result: str) -> int:
    single = len(operands) == 1 or sum(label in one for one in operands) == 1
    return (FREE if single else BATCH) if label in result else (SUMMED if single else CONTRACTED)


def _needs_copy(labels: str, kinds: Mapping[str, int], numbers: Mapping[str, int]) -> bool:
    """Whether neither of the two orders that the product reads is the operand's own."""
    plain = [(kinds[label], numbers[label]) for label in labels]
    swapped = [(SWAPPED[kinds[label]], numbers[label]) for label in labels]
    return plain != sorted(plain) and swapped != sorted(swapped)
