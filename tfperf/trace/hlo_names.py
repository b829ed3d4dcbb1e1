"""Where XLA's instructions come from: the modules that a profile carries, read without TensorFlow."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

METADATA_PLANE, MODULE_STAT = "/host:metadata", "Hlo Proto"
INT64, STRING, MESSAGE = 3, 9, 11  # of google.protobuf.FieldDescriptorProto.Type
OPTIONAL, REPEATED = 1, 3
# what is read of xla/service/hlo.proto: field, number, type
FIELDS = {
    "Metadata": (("op_type", 1, STRING), ("op_name", 2, STRING)),
    "Instruction": (
        ("name", 1, STRING), ("opcode", 2, STRING), ("metadata", 7, "Metadata"), ("id", 35, INT64),
        ("operand_ids", 36, [INT64]), ("called_computation_ids", 38, [INT64]),
    ),
    "Computation": (("name", 1, STRING), ("instructions", 2, ["Instruction"]), ("id", 5, INT64)),
    "Module": (("name", 1, STRING), ("computations", 3, ["Computation"])),
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


def decode_modules(space: Any) -> Iterator[tuple[str, dict[int, ComputationOrigins]]]:
    """Name and computations, by number, of each module in a profile; those that cannot be read are left out."""
    from google.protobuf.message import DecodeError

    planes = [plane for plane in space.planes if plane.name == METADATA_PLANE]
    for event in (event for plane in planes for event in plane.event_metadata.values()):
        for stat in event.stats:
            message = build_message_class()()
            try:
                message.ParseFromString(stat.bytes_value)
            except DecodeError:
                continue
            yield message.hlo_module.name, _decode_computations(message.hlo_module)


def _decode_computations(module: Any) -> dict[int, ComputationOrigins]:
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
