"""What of a store is on the disk for certain: a line for each stretch of blocks, written after they were synced."""

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfperf.results.files import append
from tfperf.results.reading import read_bytes

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
        try:
            lines = read_bytes(found.path, MOST_BYTES).split(b"\n")
        except (OSError, ValueError):
            return found
        for line in lines:
            digest, _, text = line.partition(b" ")
            try:
                entry = json.loads(text) if int(digest, 16) == zlib.crc32(text) else None
            except ValueError:
                continue  # half a line, of a process that was killed
            if entry is None or entry["first"] > len(found.checksums):
                continue
            del found.checksums[entry["first"] :]
            found.checksums += entry["checksums"]
            found.seconds += entry["seconds"]
        return found

    def add(self, checksums: Sequence[int], seconds: float) -> None:
        """Blocks that are on the disk. Raises: StorageError."""
        entry = {"first": len(self.checksums), "checksums": list(checksums), "seconds": seconds}
        text = json.dumps(entry)
        # a kill may have left half a line: this one begins a new one
        append(self.path, f"\n{zlib.crc32(text.encode()):08x} {text}\n")
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
