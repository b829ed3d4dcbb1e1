"""Some records of many, as if they were all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, Int64Array


@dataclass(frozen=True)
class SampledRecords:
    """Records of these numbers (n), rising, of another reader."""

    reader: Any
    numbers: Int64Array

    @property
    def records(self) -> int:
        """How many they are."""
        return len(self.numbers)

    def read(self, first: int, last: int) -> tuple[Mapping[str, Sequence[Any]], AnyArray]:
        """Columns and ids of some of them, which are read one stretch of neighbours at a time."""
        wanted = self.numbers[first:last]
        columns: dict[str, list[Any]] = {}
        ids: list[AnyArray] = []
        breaks = np.flatnonzero(np.diff(wanted) != 1) + 1
        for run in np.split(wanted, breaks):
            found, these = self.reader.read(int(run[0]), int(run[-1]) + 1)
            for name, values in found.items():
                columns.setdefault(name, []).extend(values)
            ids.append(these)
        return {name: _stack(values) for name, values in columns.items()}, np.concatenate(ids)


def _stack(values: list[Any]) -> Any:
    """An array where values are some, as the reader gives them."""
    return np.stack(values) if isinstance(values[0], np.ndarray | np.generic) else values


def draw_numbers(total: int, count: int, seed: int, replicate: int) -> Int64Array:
    """Numbers of records, each at most once, rising; other ones for each replicate."""
    draws = np.random.default_rng([seed, replicate])
    found: Int64Array = np.sort(draws.choice(total, min(count, total), replace=False)).astype(np.int64)
    return found
