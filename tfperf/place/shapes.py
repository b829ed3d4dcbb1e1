"""Shapes of what every operation of a call was given, as TensorFlow's profiler tells them."""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tfperf.errors import UserError

# TensorFlow 2.21 may write to freed memory where a profile ends while collective operations of other workers run; few
# do after this time (docs/upgrading.md)
SETTLE_SECONDS = 0.5
# 3: with shapes
EVERYTHING = {"host_tracer_level": 3, "python_tracer_level": 0, "device_tracer_level": 0, "delay_ms": 0}
SHAPE = "shape"
WIDTHS = {
    "bool": 1, "int8": 1, "uint8": 1, "half": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "float": 4, "int32": 4,
    "uint32": 4, "double": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip


# types whose names are others in profiles
PROFILED = {"float16": "half", "float32": "float", "float64": "double"}
UNKNOWN = -1  # a dimension of a tensor that nothing asked for


class TensorType(NamedTuple):
    """A tensor: its type by TensorFlow's name, and its dimensions."""

    kind: str
    dimensions: tuple[int, ...]

    @property
    def size(self) -> int | None:
        """Its bytes; None: its type has no fixed width, or a dimension is not known."""
        width = WIDTHS.get(self.kind)
        return None if width is None or UNKNOWN in self.dimensions else width * math.prod(self.dimensions)


# what an operation was given, by name: each list of inputs with how often; None: no tensor, or one without a shape
Inputs = tuple[TensorType | None, ...]
OperationInputs = Mapping[str, Mapping[Inputs, int]]


class Level:
    """A number for TensorFlow's profiler, which takes every int for a truth value, and then leaves it out (2.21)."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


def trace_inputs(call: Callable[[], Any]) -> OperationInputs:
    """What every operation was given that ran in a call. Raises: UserError where another profile is being recorded."""
    import tensorflow as tf

    options = tf.profiler.experimental.ProfilerOptions(**{name: Level(n) for name, n in EVERYTHING.items()})
    with TemporaryDirectory() as folder:
        try:
            tf.profiler.experimental.start(folder, options)
        except tf.errors.AlreadyExistsError:
            raise UserError("another profile is being recorded in this process; only one can be at a time") from None
        try:
            call()
            time.sleep(SETTLE_SECONDS)
        finally:
            tf.profiler.experimental.stop()
        return parse_profile(b"".join(file.read_bytes() for file in Path(folder).rglob("*.xplane.pb")))


def parse_profile(recorded: bytes) -> dict[str, Counter[Inputs]]:
    """The same of a profile."""
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

    found: dict[str, Counter[Inputs]] = {}
    for plane in XSpace.FromString(recorded).planes:
        shape = next((number for number, stat in plane.stat_metadata.items() if stat.name == SHAPE), None)
        runs: Counter[tuple[int, int | str]] = Counter()
        for line in plane.lines:
            for event in line.events:
                for stat in event.stats:
                    if stat.metadata_id == shape:
                        runs[event.metadata_id, stat.ref_value or stat.str_value] += 1
        for (number, value), count in runs.items():
            text = value if isinstance(value, str) else plane.stat_metadata[value].name
            name = plane.event_metadata[number].name.rpartition(":")[0]
            found.setdefault(name, Counter())[parse_inputs(text)] += count
    return found


@cache
def parse_inputs(text: str) -> Inputs:
    """Inputs as `(float[30,12];;int32[])` tells them.

    >>> weights, nothing, index = parse_inputs("(float[30,12];;int32[])")
    >>> weights, weights.size, nothing, index.size
    (TensorType(kind='float', dimensions=(30, 12)), 1440, None, 4)
    """
    return tuple(_parse_tensor_type(one) for one in text.strip("()").split(";"))


def _parse_tensor_type(text: str) -> TensorType | None:
    match = re.fullmatch(r"(\w+)\[([\d,]*)\]", text)
    return match and TensorType(match[1], tuple(int(d) for d in match[2].split(",") if d))
