"""What memory a loader holds, with the processes that make its batches."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tfperf.measure.environment import measure_peak_rss_bytes

PROC = Path("/proc")
OWN = ("Private_Clean:", "Private_Dirty:")  # of a process that was forked most is its parent's


def measure_loader_bytes(proc: Path = PROC) -> int:
    """The most that this process has held, and what its descendants hold by themselves now, where the system tells."""
    return measure_peak_rss_bytes() + sum(map(_read_private_bytes, _list_descendants(proc / "self")))


def _list_descendants(process: Path) -> Iterator[Path]:
    for file in process.glob("task/*/children"):
        with suppress(OSError):
            for number in file.read_text(encoding="ascii").split():
                yield (child := process.parent / number)
                yield from _list_descendants(child)


def _read_private_bytes(process: Path) -> int:
    """0 of one that has ended, or whose pages the system hides."""
    with suppress(OSError):
        lines = (process / "smaps_rollup").read_text(encoding="ascii").splitlines()
        return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(OWN))
    return 0
