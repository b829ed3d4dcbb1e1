"""Where XLA's instructions come from: the modules that a profile carries, read without TensorFlow."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

METADATA_PLANE, MODULE_STAT = "/host:metadata", "Hlo Proto"
INT64, STRING, MESSAGE = 3, 9, 11  # of google.protobuf.FieldDescriptorProto.Type
OPTIONAL, REPEATED = 1, 3
# what is read of xla/service/hlo.proto and xla/xla_data.proto: field, number, type
FIELDS = {
    "Metadata": (("op_type", 1, STRING), ("op_name", 2, STRING)),
    "Shape": (("element_type", 2, INT64), ("dimensions", 3, [INT64]), ("tuple_shapes", 4, ["Shape"])),
    "Dot": (
        ("lhs_contracting", 1, [INT64]), ("rhs_contracting", 2, [INT64]), ("lhs_batch", 3, [INT64]),
        ("rhs_batch", 4, [INT64]),
    ),
    "WindowDimension": (("size", 1, INT64), ("stride", 2, INT64), ("base_dilation", 6, INT64)),
    "Window": (("dimensions", 1, ["WindowDimension"]),),
    "Convolution": (
        ("kernel_input_feature", 3, INT64), ("kernel_output_feature", 4, INT64), ("kernel_spatial", 6, [INT64]),
    ),
    "Instruction": (
        ("name", 1, STRING), ("opcode", 2, STRING), ("shape", 3, "Shape"), ("metadata", 7, "Metadata"),
        ("parameter_number", 9, INT64), ("window", 15, "Window"), ("convolution", 16, "Convolution"),
        ("custom_call_target", 28, STRING), ("dot", 30, "Dot"), ("id", 35, INT64), ("operand_ids", 36, [INT64]),
        ("called_computation_ids", 38, [INT64]),
    ),
    "Computation": (("name", 1, STRING), ("instructions", 2, ["Instruction"]), ("id", 5, INT64), ("root_id", 6, INT64)),
    "Module": (("name", 1, STRING), ("entry", 2, STRING), ("computations", 3, ["Computation"])),
    "Hlo": (("hlo_module", 1, "Module"),),
}  # fmt: skip


@dataclass(frozen=True)
class InstructionOrigin:
    """One instruction: the operation of the program that it comes from ("" where XLA made it), and its neighbours."""

    opcode: str
    op_name: str
    operands: tuple[int, ...]  # numbers in the computation
    called: tuple[int, ...]  # numbers of computations


@dataclass(frozen=True)
class ComputationOrigins:
    """Instructions by number, and their names."""

    instructions: dict[int, InstructionOrigin]
    names: dict[int, str]


@cache
def build_message_class() -> Any:
    """The message class of a module, with the fields that are read."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="tfperf/hlo_names.proto", package="tfperf_hlo", syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            repeated, (kind,) = isinstance(kind, list), kind if isinstance(kind, list) else (kind,)
            own = {"type_name": f".tfperf_hlo.{kind}", "type": MESSAGE} if isinstance(kind, str) else {"type": kind}
            message.field.add(name=field, number=number, label=REPEATED if repeated else OPTIONAL, **own)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tfperf_hlo.Hlo"))


def read_modules(space: Any) -> Iterator[Any]:
    """The message of each module in a profile; those that cannot be read are left out."""
    from google.protobuf.message import DecodeError

    planes = [plane for plane in space.planes if plane.name == METADATA_PLANE]
    for event in (event for plane in planes for event in plane.event_metadata.values()):
        for stat in event.stats:
            message = build_message_class()()
            try:
                message.ParseFromString(stat.bytes_value)
            except DecodeError:
                continue
            yield message.hlo_module


def decode_computations(module: Any) -> dict[int, ComputationOrigins]:
    """The computations of a module's message, by number."""
    return {
        c.id: ComputationOrigins(
            {
                i.id: InstructionOrigin(
                    i.opcode, i.metadata.op_name, tuple(i.operand_ids), tuple(i.called_computation_ids)
                )
                for i in c.instructions
            },
            {i.id: i.name for i in c.instructions},
        )
        for c in module.computations
    }
