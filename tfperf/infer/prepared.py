"""Records as the model takes them: columns of a window, some of whose values differ in length from record to record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, Int64Array
from tfperf.infer.leases import RecordFailure

NUMBERS, VALUES = "biufc", "biufcSU"  # NumPy's kinds of types


@dataclass(frozen=True)
class RaggedColumn:
    """Values of n records, one after the other. lengths (n): how many each has, along its first axis."""

    flat: AnyArray
    lengths: Int64Array

    def take(self, numbers: Sequence[int]) -> "RaggedColumn":
        """Of some records, in their order."""
        limits = self._limits
        parts = [self.flat[limits[one] : limits[one + 1]] for one in numbers]
        return RaggedColumn(np.concatenate([self.flat[:0], *parts]), self.lengths[list(numbers)])

    @cached_property
    def _limits(self) -> list[int]:
        """(n + 1) where the values of each record begin, and where those of the last one end."""
        return [0, *np.cumsum(self.lengths).tolist()]

    def pad(self, fill: Any = 0) -> AnyArray:
        """(n, longest, ...), filled up at the end.

        >>> RaggedColumn(np.array([1, 2, 3]), np.array([1, 2])).pad().tolist()
        [[1, 0], [2, 3]]
        """
        longest = max(1, int(self.lengths.max()))
        found = np.full((len(self.lengths), longest, *self.flat.shape[1:]), fill, self.flat.dtype)
        found[np.arange(longest) < self.lengths[:, None]] = self.flat
        return found


Column = AnyArray | RaggedColumn


@dataclass(frozen=True)
class PreparedWindow:
    """Records of a window: columns by the names of the model's inputs; lengths (n), 1 where none is ragged; ids (n).

    Records that could not be prepared have a failure, and values of no meaning.
    """

    window: int
    columns: Mapping[str, Column]
    lengths: Int64Array
    ids: AnyArray
    failures: tuple[RecordFailure, ...] = ()

    @property
    def bytes(self) -> int:
        """Of all columns."""
        return sum(
            one.nbytes if isinstance(one, np.ndarray) else one.flat.nbytes + one.lengths.nbytes
            for one in self.columns.values()
        )

    def take(self, numbers: Sequence[int]) -> dict[str, Column]:
        """Columns of some records, in their order."""
        chosen = list(numbers)
        return {
            name: one[chosen] if isinstance(one, np.ndarray) else one.take(chosen) for name, one in self.columns.items()
        }


def join_column(values: Sequence[Any]) -> Column:
    """One value of each record as a column; ragged where values have an axis, which may differ in length.

    Raises: ValueError where they do not fit together, or one is no number, no text and no array of such.

    >>> join_column([1.0, 2.0]).tolist(), join_column([[1], [2, 3]]).lengths.tolist()
    ([1.0, 2.0], [1, 2])
    """
    arrays = [np.asarray(one) for one in values]
    for value, one in zip(values, arrays, strict=True):
        if one.dtype.kind not in VALUES:
            raise ValueError(f"a value is {_describe_value(value, one)}; must be numbers or texts")
    if arrays[0].ndim == 0 and not any(one.ndim for one in arrays):
        return _concatenate([one[None] for one in arrays])
    lengths = np.array([len(one) if one.ndim else 0 for one in arrays], np.int64)
    return RaggedColumn(_concatenate(arrays), lengths)


def join_columns(columns: Sequence[Column]) -> Column:
    """Columns of different records, one after the other. Raises: ValueError where they do not fit together."""
    if all(isinstance(one, RaggedColumn) for one in columns):
        ragged = [one for one in columns if isinstance(one, RaggedColumn)]
        return RaggedColumn(_concatenate([one.flat for one in ragged]), np.concatenate([one.lengths for one in ragged]))
    return _concatenate([one if isinstance(one, np.ndarray) else one.flat for one in columns])


def describe_kind(column: Column) -> tuple[Any, ...]:
    """What columns of different records must have in common to be joined; of one without values None."""
    flat = column if isinstance(column, np.ndarray) else column.flat
    if not isinstance(column, np.ndarray) and not len(flat) and flat.ndim == 1:
        return ()  # an empty list, which has no type
    return isinstance(column, np.ndarray), flat.shape[1:], "number" if flat.dtype.kind in NUMBERS else flat.dtype.kind


def _concatenate(arrays: Sequence[AnyArray]) -> AnyArray:
    """Those without values say nothing of the type, and lists without any nothing of the shape."""
    shaped = [one for one in arrays if one.size or one.ndim > 1] or arrays[:1]
    if len({(one.ndim, one.shape[1:]) for one in shaped}) != 1:
        raise ValueError(f"values have shapes {sorted({one.shape for one in shaped})[:3]}, which do not fit together")
    filled = [one for one in shaped if one.size] or shaped[:1]
    if len({"number" if one.dtype.kind in NUMBERS else one.dtype.kind for one in filled}) != 1:
        raise ValueError(f"values have types {sorted({str(one.dtype) for one in filled})[:3]}, which do not mix")
    return np.concatenate(filled)


def _describe_value(value: Any, array: AnyArray) -> str:
    if value is None:
        return "missing (null)"
    return f"of type {type(value).__name__}" if array.ndim == 0 else f"{type(value).__name__} of unequal or odd values"


def measure_lengths(columns: Mapping[str, Column], count: int) -> Int64Array:
    """(count) how long each record is: the longest of its ragged values; 1 where there is none."""
    found = np.ones(count, np.int64)
    for one in columns.values():
        if isinstance(one, RaggedColumn):
            found = np.maximum(found, one.lengths)
    return found
