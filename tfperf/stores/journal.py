"""What of a store is on the disk for certain: a line for each stretch of blocks, written after they were synced."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tfperf.results.line_journal import append_entries, read_entries

JOURNAL = "journal"
MOST_BYTES = 2**30


@dataclass
class StoreJournal:
    """Checksums of the blocks from the first one on, and the seconds that they took."""

    path: Path
    checksums: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @staticmethod
    def read(folder: Path) -> "StoreJournal":
        """What a journal says in lines that are whole; where one begins before the end of others, these were undone."""
        found = StoreJournal(folder / JOURNAL)
        with suppress(OSError, ValueError):  # no journal that can be read: nothing is known to be there
            for entry in read_entries(found.path, MOST_BYTES):
                if entry["first"] <= len(found.checksums):
                    del found.checksums[entry["first"] :]
                    found.checksums += entry["checksums"]
                    found.seconds += entry["seconds"]
        return found

    def add(self, checksums: Sequence[int], seconds: float) -> None:
        """Blocks that are on the disk. Raises: StorageError."""
        entry = {"first": len(self.checksums), "checksums": list(checksums), "seconds": seconds}
        append_entries(self.path, entry)
        self.checksums += checksums
        self.seconds += seconds

    def trim(self, is_as_written: Iterable[bool]) -> None:
        """Forget all blocks from the first one on that is not as it was written."""
        good = 0
        for whole in is_as_written:
            if not whole:
                break
            good += 1
        del self.checksums[good:]
