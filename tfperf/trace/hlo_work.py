"""Work of XLA's instructions, counted from the modules that a profile carries."""

from collections.abc import Container
from typing import Any

from tfperf.measure.hlo import count_instructions
from tfperf.measure.hlo_messages import build_module
from tfperf.measure.roofline import Precision
from tfperf.trace.work import OperationWork

FLOAT64 = 12  # of xla/xla_data.proto: PrimitiveType


def count_module(module: Any, names: Container[str] | None = None) -> dict[str, OperationWork]:
    """Work of one execution of each instruction of a module's message, by name; those without a rule are left out.

    names: of the instructions that are wanted; None: all.

    Of a fusion the bytes are those of its own inputs and outputs, the FLOP those of what it fuses.
    """
    try:
        found = count_instructions(build_module(module), names)
    except ValueError:
        return {}
    widths = _find_precisions(module)
    return {
        name: OperationWork(work.flops, work.bytes, work.transcendental, widths[name]) for name, work in found.items()
    }


def _find_precisions(module: Any) -> dict[str, Precision]:
    """Of each instruction the precision by which its arithmetic is limited: float64 where it has such an array."""
    out: dict[str, Precision] = {}
    for computation in module.computations:
        double = {one.id: _has_float64(one.shape) for one in computation.instructions}
        for one in computation.instructions:
            any_double = double[one.id] or any(double.get(i, False) for i in one.operand_ids)
            out[one.name] = "float64" if any_double else "float32"
    return out


def _has_float64(shape: Any) -> bool:
    return shape.element_type == FLOAT64 or any(_has_float64(part) for part in shape.tuple_shapes)
