"""Records as the model takes them: columns of a window, some of whose values differ in length from record to record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, Int64Array
from tfperf.infer.leases import RecordFailure


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
    """One value of each record as a column; ragged where their first axes differ in length, or could.

    Raises: ValueError where they do not fit together.

    >>> join_column([1.0, 2.0]).tolist(), join_column([[1], [2, 3]]).lengths.tolist()
    ([1.0, 2.0], [1, 2])
    """
    arrays = [np.asarray(one) for one in values]
    if len({(one.ndim, one.shape[1:]) for one in arrays}) != 1:
        raise ValueError(f"values have shapes {sorted({one.shape for one in arrays})[:3]}, which do not fit together")
    if arrays[0].ndim == 0 or (len({one.shape for one in arrays}) == 1 and isinstance(values, np.ndarray)):
        return np.stack(arrays)
    return RaggedColumn(np.concatenate(arrays), np.array([len(one) for one in arrays], np.int64))


def measure_lengths(columns: Mapping[str, Column], count: int) -> Int64Array:
    """(count) how long each record is: the longest of its ragged values; 1 where there is none."""
    found = np.ones(count, np.int64)
    for one in columns.values():
        if isinstance(one, RaggedColumn):
            found = np.maximum(found, one.lengths)
    return found
