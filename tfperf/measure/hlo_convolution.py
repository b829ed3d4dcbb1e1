"""FLOPs of convolutions in HLO.

A multiply-add is 2 FLOP. Places of a window that lie in the padding count, as in a count by hand from sizes alone; the
zeros that a dilated input is filled up with do not.
"""

import math
import re

from tfperf.measure.hlo_text import Array, Computation, Instruction

LABELS = re.compile(r"\bdim_labels=(\w+)_(\w+)->(\w+)")
DILATION = re.compile(r"\blhs_dilate=([\dx]+)")
LIBRARY = re.compile(
    r'custom_call_target="[^"]*conv(?:olution|BiasActivation|(Forward|BackwardInput|BackwardFilter))', re.IGNORECASE
)


def count_convolution(computation: Computation, instruction: Instruction) -> int:
    """2 x elements of the result x elements of the kernel that make one of them.

    Of the gradients that a library computes the arrays change places: the arithmetic is that of the forward pass.
    Raises: ValueError where sizes or labels of dimensions are missing.
    """
    labels = LABELS.search(instruction.attributes)
    sides = [computation.get_operand(instruction, i) for i in (0, 1)]
    if labels is None or not all(one.arrays for one in (*sides, instruction)):
        raise ValueError(f"HLO: {instruction.name}: its dimensions have no labels, or it is no array")
    kernel, made = sides[1].arrays[0], instruction.arrays[0]
    called = LIBRARY.search(instruction.raw) if instruction.opcode == "custom-call" else None
    match (called[1] or "").lower() if called else "":
        case "backwardinput":
            made = sides[0].arrays[0]
        case "backwardfilter":
            kernel, made = made, sides[1].arrays[0]
    dilation = DILATION.search(instruction.attributes)
    zeros = math.prod(int(n) for n in dilation[1].split("x")) if dilation and called is None else 1
    return 2 * made.size * (kernel.size // max(1, _get_outputs(instruction, kernel, labels[2]))) // zeros


def _get_outputs(instruction: Instruction, kernel: Array, labels: str) -> int:
    """Features that a kernel makes."""
    at = labels.find("o")
    if not 0 <= at < len(kernel.dims):
        raise ValueError(f"HLO: {instruction.name}: its kernel has no dimension of outputs")
    return kernel.dims[at]
