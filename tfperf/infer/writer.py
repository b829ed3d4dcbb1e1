"""Rows on their way into the output: written as they come, synced and noted in the journal every few seconds.

The order is what survives any kill and any loss of power: rows, status, sync, journal line, sync.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tfperf.arrays import AnyArray, Int64Array
from tfperf.infer.dataset_names import IDS, STATUS, STATUS_CODES
from tfperf.infer.journal import JOURNAL, CommitProgress, JournalEntry, append_records, number_records, read_journal
from tfperf.infer.leases import RecordFailure
from tfperf.infer.output_file import OutputFile

SYNC_SECONDS = 2.0
HELD_BYTES = 32 * 2**20  # of rows that wait to be written beside their neighbours

Committed = Callable[[Sequence[JournalEntry]], None]


@dataclass(frozen=True)
class Rows:
    """What came out for records of a window: numbers (n) there, values of each output (n, ...), ids (n); those that
    failed have rows of NaN."""

    window: int
    numbers: tuple[int, ...]
    values: Mapping[str, AnyArray]
    ids: AnyArray
    failures: tuple[RecordFailure, ...] = ()

    @property
    def bytes(self) -> int:
        """Of the values."""
        return sum(one.nbytes for one in self.values.values())


@dataclass
class RowWriter:
    """Puts rows into the file, notes them in the journal of its folder, then announces what was committed."""

    file: OutputFile
    folder: Path
    progress: CommitProgress
    announce: Committed = lambda entries: None
    clock: Callable[[], float] = time.monotonic
    _held: dict[int, list[Rows]] = field(default_factory=dict)  # by windows
    _bytes: int = 0
    _written: list[JournalEntry] = field(default_factory=list)  # not synced yet
    _synced: float = field(default=0.0)

    def __post_init__(self) -> None:
        self._synced = self.clock()

    def add(self, rows: Rows) -> None:
        """Take rows; some are written, and perhaps committed, now. Raises: StorageError."""
        self._held.setdefault(rows.window, []).append(rows)
        self._bytes += rows.bytes
        if self.clock() - self._synced >= SYNC_SECONDS:
            self.commit()
        elif self._bytes >= HELD_BYTES:
            self._write()
            self.file.begin_sync()  # so that the commit has less to wait for

    def commit(self) -> None:
        """Have all that was taken on the disk, and in the journal. Raises: StorageError."""
        self._write()
        if self._written:
            self.file.sync()
            append_records(self.folder / JOURNAL, self._written)
            for entry in self._written:
                self.progress.add(entry)
            done, self._written = self._written, []
            self.announce(done)
        self._synced = self.clock()

    def finish(self) -> None:
        """Commit all, and say that the file is whole. Raises: ValueError where records are missing."""
        self.commit()
        if not self.progress.is_complete:
            raise ValueError(f"{self.progress.records - self.progress.count} records are missing")
        self.file.finish()

    def _write(self) -> None:
        for window in sorted(self._held):
            self._written.append(self._write_window(window, self._held[window]))
        self._held, self._bytes = {}, 0

    def _write_window(self, window: int, parts: Sequence[Rows]) -> JournalEntry:
        numbers = np.concatenate([one.numbers for one in parts])
        order = np.argsort(numbers, kind="stable")
        failures = tuple(failure for one in parts for failure in one.failures)
        status = np.full(len(numbers), STATUS_CODES["done"], np.uint8)
        places = {int(number): place for place, number in enumerate(numbers)}
        for one in failures:
            status[places[one.number]] = STATUS_CODES[one.reason]
        values = {name: _merge([one.values[name] for one in parts], order) for name in parts[0].values}
        ids = np.concatenate([one.ids for one in parts])[order].astype(self.file.plan.id_type)
        chosen = tuple(map(int, numbers[order]))
        entry = JournalEntry(window, chosen, 0, failures)
        everything = {**values, IDS: ids, STATUS: status[order]}
        checksum = self.file.write(number_records(entry, self.progress.size), everything)
        return JournalEntry(window, chosen, checksum, failures)


def _merge(parts: Sequence[AnyArray], order: Int64Array) -> AnyArray:
    """Rows (n, ...) of parts one after the other, in an order; copied once, or not at all.

    >>> _merge([np.array([[2.0], [0.0]]), np.array([[1.0]])], np.array([1, 2, 0])).ravel().tolist()
    [0.0, 1.0, 2.0]
    """
    if len(parts) == 1 and np.all(order[1:] > order[:-1]):
        return parts[0]
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    found = np.empty((len(order), *parts[0].shape[1:]), parts[0].dtype)
    first = 0
    for part in parts:
        found[places[first : first + len(part)]] = part
        first += len(part)
    return found


def recover(folder: Path, progress: CommitProgress) -> int:
    """Read what the journal says into `progress`; how many lines were not as they were written, as of a kill.

    Raises: RunDirectoryError by way of ValueError where entries contradict each other.
    """
    broken = 0
    for entry, _ in read_journal(folder / JOURNAL):
        if entry is None:
            broken += 1
        else:
            progress.add(entry)
    return broken
