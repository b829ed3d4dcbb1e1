"""Windows that are prepared ahead, and what has come out for them until all of their records have."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tfperf.arrays import AnyArray, BoolMask
from tfperf.infer.leases import BatchTask, RecordFailure
from tfperf.infer.micro_batches import BatchRule, MicroBatch, cut_window
from tfperf.infer.prepared import Column, PreparedWindow

Values = Mapping[str, AnyArray]


@dataclass
class OpenWindow:
    """A window that workers are at. done: of each record, whether an earlier life has committed it."""

    prepared: PreparedWindow
    batches: Sequence[MicroBatch]  # that are to be run
    left: set[int] = field(default_factory=set)  # places of batches that are not settled
    singles: dict[int, dict[int, Values]] = field(default_factory=dict)  # by places of batches, by records


class WindowQueue:
    """The windows that are open, by their numbers."""

    def __init__(self, rule: BatchRule, seed: int | None = None) -> None:
        """seed: of a random order of the batches of a window; None: the longest first."""
        self._rule, self._seed = rule, seed
        self._open: dict[int, OpenWindow] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def bytes(self) -> int:
        """Of all that is prepared."""
        return self._bytes

    def add(self, prepared: PreparedWindow, done: BoolMask) -> tuple[list[MicroBatch], list[RecordFailure]]:
        """Open a window: the batches that are to be run, and records that could not be prepared.

        Batches are cut of all records that could be prepared, done or not, so that they are the same in each life.
        """
        bad = {one.number for one in prepared.failures}
        numbers = [number for number in range(len(prepared.lengths)) if number not in bad]
        batches = cut_window(prepared.window, prepared.lengths[numbers], self._rule)
        if bad:
            batches = [
                MicroBatch(one.window, one.place, tuple(numbers[place] for place in one.records), one.longest)
                for one in batches
            ]  # fmt: skip
        wanted = [one for one in batches if not np.all(done[list(one.records)])] if np.any(done) else batches
        if self._seed is not None:
            order = np.random.default_rng([self._seed, prepared.window]).permutation(len(wanted))
            wanted = [wanted[place] for place in order]
        failures = [one for one in prepared.failures if not done[one.number]]
        if wanted:
            self._open[prepared.window] = OpenWindow(prepared, wanted, {one.place for one in wanted})
            self._bytes += prepared.bytes
        return wanted, failures

    def take_columns(self, task: BatchTask) -> dict[str, Column]:
        """What a worker needs for a task."""
        return self._open[task.batch.window].prepared.take(task.records if task.is_single else task.batch.records)

    def get_ids(self, window: int, numbers: Sequence[int]) -> AnyArray:
        """Of records of an open window."""
        return self._open[window].prepared.ids[list(numbers)]

    def keep_single(self, key: tuple[int, int], record: int, values: Values) -> None:
        """What came out for a record that was run by itself."""
        self._open[key[0]].singles.setdefault(key[1], {})[record] = values

    def pop_singles(self, key: tuple[int, int]) -> Iterator[tuple[int, Values]]:
        """All of a batch, which is settled or run again."""
        yield from sorted(self._open[key[0]].singles.pop(key[1], {}).items())

    def settle(self, key: tuple[int, int]) -> None:
        """A batch is done; its window is closed with the last one."""
        window = self._open[key[0]]
        window.left.discard(key[1])
        if not window.left:
            self._bytes -= window.prepared.bytes
            del self._open[key[0]]
