"""Files that only grow by lines, each with its checksum: what a kill leaves half written is passed over."""

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfperf.results.files import append
from tfperf.results.reading import open_regular


def append_entries(path: Path, *entries: Mapping[str, Any]) -> None:
    """Add entries, on the disk when this returns. Raises: StorageError, the file is as it was before then."""
    texts = map(json.dumps, entries)
    lines = (f"{zlib.crc32(text.encode()):08x} {text}\n" for text in texts)
    append(path, "\n" + "".join(lines))  # a kill may have left half a line: these begin a new one


def read_entries(path: Path, most_bytes: int) -> Iterator[Any]:
    """The entries whose lines are whole; none where there is no such file. Raises: ValueError for other than a regular
    file, or a larger one."""
    for entry, _ in read_lines(path, most_bytes):
        if entry is not None:
            yield entry


def read_lines(path: Path, most_bytes: int) -> Iterator[tuple[Any, bytes]]:
    """Each line that is not empty, with its entry; None: it is not as it was written."""
    if not path.exists():
        return
    with open_regular(path, most_bytes, links=False) as file:
        for line in file:
            if (line := line.rstrip(b"\n")) == b"":
                continue
            digest, _, text = line.partition(b" ")
            try:
                entry = json.loads(text) if int(digest, 16) == zlib.crc32(text) else None
            except ValueError:
                entry = None
            yield entry, line
