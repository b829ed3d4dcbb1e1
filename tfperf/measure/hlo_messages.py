"""The messages of XLA's modules, as profiles carry them, as if they had been read from HLO text.

Source: xla/service/hlo.proto and xla/xla_data.proto.
"""

from collections.abc import Mapping
from typing import Any

from tfperf.measure.hlo_text import Array, Computation, Instruction, Module

# bits of an element by the numbers of xla/xla_data.proto: PrimitiveType
BITS = {
    1: 8, 2: 8, 3: 16, 4: 32, 5: 64, 6: 8, 7: 16, 8: 32, 9: 64, 10: 16, 11: 32, 12: 64, 14: 0, 15: 64, 16: 16, 17: 0,
    18: 128, 19: 8, 20: 8, 21: 4, 22: 4, 23: 8, 24: 8, 25: 8, 26: 2, 27: 2, 28: 8, 29: 8, 30: 1, 31: 1, 32: 4, 33: 8,
}  # fmt: skip
CALLED = {"fusion": "calls", "call": "to_apply"}


def build_module(module: Any) -> Module:
    """The computations of a module's message as if they had been read from text.

    Raises: ValueError for what makes no sense.
    """
    names = {computation.id: computation.name for computation in module.computations}
    return Module({one.name: _build_computation(one, names) for one in module.computations}, module.entry)


def _build_computation(message: Any, names: Mapping[int, str]) -> Computation:
    known = {one.id: one.name for one in message.instructions}
    if any(operand not in known for one in message.instructions for operand in one.operand_ids):
        raise ValueError(f"HLO: {message.name}: an operand is missing")
    instructions = {one.name: _build_instruction(one, known, names) for one in message.instructions}
    return Computation(message.name, instructions, known.get(message.root_id, next(reversed(instructions), "")))


def _build_instruction(one: Any, known: Mapping[int, str], names: Mapping[int, str]) -> Instruction:
    inside = str(one.parameter_number) if one.opcode == "parameter" else ", ".join(known[i] for i in one.operand_ids)
    attributes = ", ".join(_list_attributes(one, names))
    target = f'custom_call_target="{one.custom_call_target}"'
    return Instruction(one.name, tuple(_list_arrays(one.shape)), one.opcode, inside, attributes, target)


def _list_arrays(shape: Any) -> list[Array]:
    if shape.tuple_shapes:
        return [array for part in shape.tuple_shapes for array in _list_arrays(part)]
    if shape.element_type not in BITS:
        return []
    return [Array(BITS[shape.element_type], tuple(shape.dimensions))]


def _list_attributes(one: Any, names: Mapping[int, str]) -> list[str]:
    """What a count needs of an instruction's attributes, as text has them."""
    called = [names[i] for i in one.called_computation_ids if i in names]
    out = [f"{CALLED[one.opcode]}={called[0]}"] if called and one.opcode in CALLED else []
    if one.HasField("dot"):
        pairs = [(f"{side}_{kind}", getattr(one.dot, f"{side}_{kind}")) for side in ("lhs", "rhs")
                 for kind in ("batch", "contracting")]  # fmt: skip
        out += [f"{key}_dims={{{','.join(map(str, numbers))}}}" for key, numbers in pairs]
    if window := one.window.dimensions:
        keys = ("size", "size"), ("stride", "stride"), ("lhs_dilate", "base_dilation")
        parts = [f"{key}={'x'.join(str(max(1, getattr(d, field))) for d in window)}" for key, field in keys]
        out.append(f"window={{{' '.join(parts)}}}")
    if one.HasField("convolution"):
        out.append(f"dim_labels=x_{_label_kernel(one.convolution)}->x")
    return out


def _label_kernel(convolution: Any) -> str:
    """Of each dimension of a kernel what it is: i and o for features, a number for an axis."""
    labels = {convolution.kernel_input_feature: "i", convolution.kernel_output_feature: "o"}
    labels |= {at: str(axis) for axis, at in enumerate(convolution.kernel_spatial)}
    return "".join(labels[at] for at in sorted(labels))
