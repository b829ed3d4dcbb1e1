"""Some records of many, as if they were all."""

from collections.abc import Callable, Mapping, Sequence
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
                columns.setdefault(name, []).append(values)
            ids.append(these)
        return {name: _join_stretches(parts) for name, parts in columns.items()}, np.concatenate(ids)


def _join_stretches(parts: Sequence[Any]) -> Any:
    """Lists as a list, arrays as an array, also one of objects."""
    is_array = isinstance(parts[0], np.ndarray)
    return np.concatenate(parts) if is_array else [value for one in parts for value in one]


@dataclass(frozen=True)
class RepeatedRecords:
    """Records of another reader, over and over."""

    reader: Any
    times: int

    @property
    def records(self) -> int:
        """How many they seem to be."""
        return int(self.reader.records) * self.times

    def read(self, first: int, last: int) -> tuple[Mapping[str, Sequence[Any]], AnyArray]:
        """Columns and ids of some of them."""
        columns: dict[str, list[Any]] = {}
        ids: list[AnyArray] = []
        while first < last:
            begin = first % self.reader.records
            end = min(self.reader.records, begin + last - first)
            found, these = self.reader.read(begin, end)
            for name, values in found.items():
                columns.setdefault(name, []).append(values)
            ids.append(these)
            first += end - begin
        return {name: _join_stretches(parts) for name, parts in columns.items()}, np.concatenate(ids)


def draw_numbers(total: int, count: int, seed: int, replicate: int) -> Int64Array:
    """Numbers of records, each at most once, rising; other ones for each replicate."""
    draws = np.random.default_rng([seed, replicate])
    found: Int64Array = np.sort(draws.choice(total, min(count, total), replace=False)).astype(np.int64)
    return found


def draw_groups(total: int, groups: int, each: int, seed: int | Sequence[int]) -> Int64Array:
    """Numbers (groups, each) of neighbours: a group from anywhere in each of so many equal parts of all records.

    Raises: ValueError where there are fewer records.
    """
    part = total // groups
    if part < each:
        raise ValueError(f"{total} records have no {groups} groups of {each}")
    draws = np.random.default_rng(seed)
    first = np.arange(groups) * part + draws.integers(0, part - each + 1, groups)
    found: Int64Array = (first[:, None] + np.arange(each)).astype(np.int64)
    return found


def open_sampled(open_reader: Callable[[], Any], numbers: Int64Array) -> SampledRecords:
    """What another process opens: these records of a reader that it opens by itself."""
    return SampledRecords(open_reader(), numbers)


def open_repeated(open_reader: Callable[[], Any], times: int) -> RepeatedRecords:
    """What another process opens: these records, so many times."""
    return RepeatedRecords(open_reader(), times)
