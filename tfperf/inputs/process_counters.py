"""What Linux counts of this process: bytes read, time in which threads wanted a core and had none, time of children."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROCESS = Path("/proc/self")


@dataclass(frozen=True)
class ProcessReading:
    """Counters since the process began."""

    read_characters: int  # bytes, by reading calls: from the disk or from memory that the system has for files
    read_bytes: int  # from the disk
    ready_seconds: dict[str, float]  # of each thread, by its number: waiting for a core


@dataclass(frozen=True)
class ProcessCounts:
    """What came between two readings."""

    read_characters: int
    read_bytes: int
    ready_seconds: float  # of the thread that waited for a core longest


def read_process(process: Path = PROCESS) -> ProcessReading:
    """The counters now; zeros for those that the system hides."""
    fields = dict(line.split(": ") for line in _read_text(process / "io").splitlines())
    return ProcessReading(int(fields.get("rchar", 0)), int(fields.get("read_bytes", 0)), _read_ready_times(process))


def read_processor_seconds() -> float:
    """CPU-s of this process and of those that it has begun and that still run, as the workers of a dataset, and theirs.

    Linux tells of others in hundredths of a second.
    """
    return time.process_time() + sum(map(_read_tree_seconds, _list_children(PROCESS)))


def subtract_readings(before: ProcessReading, now: ProcessReading) -> ProcessCounts:
    """What was counted between two readings. A thread that ended takes its time with it.

    Of several threads that wait for a core at once only one holds up the work, so their times do not add up.

    >>> before, now = ProcessReading(5, 0, {"1": 1.0, "2": 9.0}), ProcessReading(8, 0, {"1": 1.5, "3": 0.25})
    >>> subtract_readings(before, now)
    ProcessCounts(read_characters=3, read_bytes=0, ready_seconds=0.5)
    """
    each = (seconds - before.ready_seconds.get(thread, 0.0) for thread, seconds in now.ready_seconds.items())
    ready = max(each, default=0.0)
    return ProcessCounts(now.read_characters - before.read_characters, now.read_bytes - before.read_bytes, ready)


def _read_tree_seconds(number: str) -> float:
    """CPU-s of a process, of its children that have ended, and of those that have not; 0.0 where it has ended."""
    process = PROCESS.parent / number
    # the second field, a name in brackets, may hold spaces; user and system time are the 14th to the 17th
    fields = _read_text(process / "stat").rpartition(")")[2].split()[11:15]
    return sum(map(int, fields)) / os.sysconf("SC_CLK_TCK") + sum(map(_read_tree_seconds, _list_children(process)))


def _list_children(process: Path) -> list[str]:
    return [child for task in (process / "task").glob("*") for child in _read_text(task / "children").split()]


def _read_ready_times(process: Path) -> dict[str, float]:
    """The second number of schedstat, in ns: waiting in a queue of the scheduler (Linux, sched-stats.rst)."""
    found = {}
    for task in (process / "task").glob("*"):
        numbers = _read_text(task / "schedstat").split()
        if len(numbers) == 3:
            found[task.name] = int(numbers[1]) / 1e9
    return found


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:  # hidden, or a thread that has ended meanwhile
        return ""
