"""What Linux counts of this process: bytes read, time in which threads wanted a core and had none, time of children."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROCESS = Path("/proc/self")
TRIES = 5  # readings of a process whose children end meanwhile


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


class ProcessorMeter:
    """CPU time of this process and of all that it has begun, as the workers of a dataset, those that have ended, too.

    Linux tells of others in hundredths of a second. Of a process that nobody waited for what it used since the last
    reading is not known. The time that readings take is left out.
    """

    def __init__(self) -> None:
        self._last = self._lost = self._own = 0.0

    def read_seconds(self) -> float:
        """CPU-s since this process began, never fewer than at the last reading."""
        began = time.thread_time()
        now = time.process_time() - self._own + _read_descendant_seconds(PROCESS)
        self._lost += max(0.0, self._last - now)
        self._last = now
        self._own += time.thread_time() - began
        return now + self._lost


def read_process(process: Path = PROCESS) -> ProcessReading:
    """The counters now; zeros for those that the system hides."""
    fields = dict(line.split(": ") for line in _read_text(process / "io").splitlines())
    return ProcessReading(int(fields.get("rchar", 0)), int(fields.get("read_bytes", 0)), _read_ready_times(process))


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


def _read_descendant_seconds(process: Path) -> float:
    """CPU-s of all that a process has begun: of children that it has waited for, and theirs, and of the others.

    A child that it waits for meanwhile might be counted twice, or not at all, so all is read again then.
    """
    ended = others = 0.0
    for _ in range(TRIES):
        ended = _read_own_and_ended(process)[1]
        others = sum(_read_own_and_ended(one)[0] + _read_descendant_seconds(one) for one in _list_children(process))
        if _read_own_and_ended(process)[1] == ended:
            break
    return ended + others


def _read_own_and_ended(process: Path) -> tuple[float, float]:
    """CPU-s of a process, and of its children that it has waited for; zeros where it is gone."""
    # the second field, a name in brackets, may hold spaces; user and system time are the 14th to the 17th
    fields = [int(one) for one in _read_text(process / "stat").rpartition(")")[2].split()[11:15]]
    tick = os.sysconf("SC_CLK_TCK")
    return sum(fields[:2]) / tick, sum(fields[2:]) / tick


def _list_children(process: Path) -> list[Path]:
    numbers = [child for task in (process / "task").glob("*") for child in _read_text(task / "children").split()]
    return [PROCESS.parent / number for number in numbers]


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
