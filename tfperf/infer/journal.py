"""Which records are in the output for certain: a line for records of a window, written after they were synced."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import BoolMask, Int64Array
from tfperf.infer.leases import RecordFailure
from tfperf.results.line_journal import append_entries, read_lines

JOURNAL = "journal"
MOST_BYTES = 2**36


@dataclass(frozen=True)
class JournalEntry:
    """Records of a window that are on the disk. numbers: in the window, rising; checksum: as OutputFile.write gives."""

    window: int
    numbers: tuple[int, ...]
    checksum: int
    failures: tuple[RecordFailure, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As values of JSON."""
        mask = np.zeros(max(self.numbers) + 1, bool)
        mask[list(self.numbers)] = True
        return {
            "window": self.window, "mask": base64.b64encode(np.packbits(mask).tobytes()).decode(),
            "checksum": self.checksum,
            "failures": [[one.number, one.reason, one.message] for one in self.failures],
        }  # fmt: skip

    @staticmethod
    def from_json(found: Any) -> "JournalEntry":
        """Back from them. Raises: KeyError, TypeError, ValueError for anything else."""
        bits = np.unpackbits(np.frombuffer(base64.b64decode(found["mask"]), np.uint8))
        window = int(found["window"])
        failures = tuple(RecordFailure(window, int(n), reason, str(told)) for n, reason, told in found["failures"])
        return JournalEntry(window, tuple(map(int, np.flatnonzero(bits))), int(found["checksum"]), failures)


@dataclass
class CommitProgress:
    """What is done, by windows. size: records of a window; records: of all."""

    size: int
    records: int
    failures: list[RecordFailure] = field(default_factory=list)
    _done: dict[int, BoolMask] = field(default_factory=dict)  # of windows that are begun and not whole
    _whole: set[int] = field(default_factory=set)
    count: int = 0

    def count_records(self, window: int) -> int:
        """Of a window: the last one may be shorter."""
        return min(self.size, self.records - window * self.size)

    def add(self, entry: JournalEntry) -> None:
        """Records that are done. Raises: ValueError where one of them was before, or there is none of that number."""
        length = self.count_records(entry.window)
        if entry.window < 0 or not entry.numbers or entry.numbers[-1] >= length:
            raise ValueError(f"window {entry.window} has no record {entry.numbers[-1:]}")
        mask = self._done.setdefault(entry.window, np.zeros(length, bool))
        chosen = np.asarray(entry.numbers)
        if entry.window in self._whole or mask[chosen].any():
            raise ValueError(f"records of window {entry.window} are there twice")
        mask[chosen] = True
        self.count += len(chosen)
        self.failures += entry.failures
        if mask.all():
            del self._done[entry.window]
            self._whole.add(entry.window)

    def is_whole(self, window: int) -> bool:
        """Whether all records of a window are done."""
        return window in self._whole

    def get_done(self, window: int) -> BoolMask:
        """Of each record of a window, whether it is done."""
        if window in self._whole:
            return np.ones(self.count_records(window), bool)
        return self._done.get(window, np.zeros(self.count_records(window), bool))

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return self.count == self.records

    def list_open(self) -> Iterator[int]:
        """Windows that are not whole."""
        return (window for window in range(-(-self.records // self.size)) if window not in self._whole)


def append_records(path: Path, entries: Iterable[JournalEntry]) -> None:
    """Add a line for each, on the disk when this returns. Raises: StorageError."""
    append_entries(path, *(one.to_json() for one in entries))


def read_journal(path: Path) -> Iterator[tuple[JournalEntry | None, str]]:
    """Each line with its entry; None: it is half a line, or not as it was written. Raises: OSError, ValueError."""
    for found, line in read_lines(path, MOST_BYTES):
        try:
            entry = None if found is None else JournalEntry.from_json(found)
        except (KeyError, TypeError, ValueError):
            entry = None
        yield entry, line[:60].decode(errors="replace")


def number_records(entry: JournalEntry, size: int) -> Int64Array:
    """Their numbers among all records; size: of a window."""
    return np.asarray(entry.numbers, np.int64) + entry.window * size


def group_failures(failures: Sequence[RecordFailure]) -> dict[str, int]:
    """How many records failed for each reason."""
    found: dict[str, int] = {}
    for one in failures:
        found[one.reason] = found.get(one.reason, 0) + 1
    return found
