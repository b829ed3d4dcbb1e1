"""How elements lie in a store: all components of one side by side, so that one read gets it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray

# in the file as bytes of another type of the same length, which HDF5 knows
AS_OTHERS = {"bfloat16": "<u2", "bool": "|u1"}
TYPES = (
    "bool", "bfloat16", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "complex64", "complex128",
)  # fmt: skip
LEAST_OFFSET = 4096  # bytes: before it the file says what it holds


@dataclass(frozen=True)
class Component:
    """One tensor of an element. name: its place in the element, as `0` or `image`; dtype: TensorFlow's name."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def item_bytes(self) -> int:
        """Of one number."""
        return 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """Of the tensor."""
        return prod(self.shape) * self.item_bytes

    def to_json(self) -> dict[str, Any]:
        """As values of JSON."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}

    def __str__(self) -> str:
        return f"{self.name} {self.dtype} {self.shape}"


@dataclass(frozen=True)
class RecordLayout:
    """The components of an element, and how they nest: `structure` is a place in them, or a list or dict of structures;
    None: it cannot be told.

    >>> layout = RecordLayout((Component("0", "uint8", (2, 3)), Component("1", "int32", ())), [0, 1])
    >>> layout.record_bytes, layout.offsets, layout.find_block(least_bytes=95)
    (10, (0, 6), 10)
    """

    components: tuple[Component, ...]
    structure: Any

    @property
    def record_bytes(self) -> int:
        """Of an element."""
        return sum(one.bytes for one in self.components)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where in a record each component begins [bytes]."""
        ends = np.cumsum([0, *(one.bytes for one in self.components)])
        return tuple(map(int, ends[:-1]))

    @property
    def data_interval(self) -> int:
        """What the data's place in the file is a multiple of [bytes]: records, so that all bytes up to there are some,
        too, and at least LEAST_OFFSET."""
        return -(-LEAST_OFFSET // self.record_bytes) * self.record_bytes

    def find_block(self, least_bytes: int) -> int:
        """Elements that have so many bytes together."""
        return -(-least_bytes // self.record_bytes)

    def make_dtype(self) -> np.dtype[Any]:
        """Of a record, as HDF5 has it: a field for each component that has a value."""
        fields: list[Any] = [
            (one.name, np.dtype(AS_OTHERS.get(one.dtype, one.dtype)).newbyteorder("<"), one.shape)
            for one in self.components
            if one.bytes
        ]
        return np.dtype(fields)

    def join(self, arrays: Sequence[AnyArray]) -> bytes:
        """The bytes of n records; arrays: of each component, (n, *shape)."""
        count = len(arrays[0])
        parts = [
            np.ascontiguousarray(array).view(np.uint8).reshape(count, one.bytes)
            for array, one in zip(arrays, self.components, strict=True)
        ]
        return (parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)).tobytes()

    def restore_structure(self, parts: Sequence[Any]) -> Any:
        """What belongs to each component, nested as elements are."""
        return _restore_structure(self.structure, parts)

    def to_json(self) -> dict[str, Any]:
        """As values of JSON."""
        return {"components": [one.to_json() for one in self.components], "structure": self.structure}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> "RecordLayout":
        """Back from them. Raises: KeyError, TypeError, ValueError for anything else."""
        components = tuple(
            Component(str(one["name"]), str(one["dtype"]), tuple(map(int, one["shape"]))) for one in found["components"]
        )
        return RecordLayout(components, found["structure"])


def can_store(dtype: str) -> bool:
    """Whether elements of a type are stored: numbers and truths, not texts.

    >>> can_store("uint8"), can_store("string"), can_store("variant")
    (True, False, False)
    """
    return dtype in TYPES


def _restore_structure(structure: Any, parts: Sequence[Any]) -> Any:
    if isinstance(structure, dict):
        return {name: _restore_structure(one, parts) for name, one in structure.items()}
    return (
        tuple(_restore_structure(one, parts) for one in structure) if isinstance(structure, list) else parts[structure]
    )
