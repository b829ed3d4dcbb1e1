"""A program that measures, as a child process: a line of JSON goes in, the last line that it prints is its record."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from threading import Event
from typing import IO, Any

from tfperf.measure.parent_watch import STARTER
from tfperf.study.first_error import CRASHED, find_first_error
from tfperf.study.memory_kills import PROC, describe_kill, read_kill_count

Record = dict[str, Any]
Task = tuple[Sequence[str], Mapping[str, Any], float]  # command, request, time limit in seconds
POLL_SECONDS = 0.2
DYING_SECONDS = 5.0
ATTEMPTS = 3  # of a task whose program native code ended
OUT_OF_MEMORY = "out of memory: "
# what allocators and TensorFlow say last
MEMORY_WORDS = ("MemoryError", "bad_alloc", "OOM when allocating", "ResourceExhausted", "out of memory")


def run_subprocess(
    command: Sequence[str], request: Mapping[str, Any], stopped: Callable[[], bool], timeout: float | None = None
) -> Record | None:
    """The record that a program prints for a request; of one that failed {"error": why}; None: stopped before that.

    It is killed with its process group, that is with all that it started, when `stopped` says so, `timeout` seconds
    after its start, when this function is left in any way, and when this process dies (parent_watch.py). Its output
    goes to files, so that a grandchild that keeps it open does not hold up the end.
    """
    settings = {"TF_CPP_MIN_LOG_LEVEL": "3"} | os.environ | {STARTER: str(os.getpid())}
    kills = read_kill_count()
    with TemporaryFile() as output, TemporaryFile() as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=errors, env=settings, start_new_session=True
        )
        try:
            _ask(child, request)
            late = _wait(child, stopped, timeout)
        finally:
            _end(child)
        record, said = _parse_record(_read_text(output)), _read_text(errors)
    if record is not None:
        return record
    if late:
        return {"error": f"timeout: not done after {timeout:g} s"}
    if stopped():
        return None
    return {"error": _describe_failure(child.returncode, said, describe_kill(kills, read_kill_count()))}


def run_task(task: Task, stop: Event, attempt: int = 1) -> tuple[Record | None, float]:
    """The record of a task, as `run_subprocess` gives it, and the seconds that it took.

    A program that native code ended is begun again, and its record has the number of `attempts`. TensorFlow's profiler
    does so in about every tenth trial of several workers: where it stops, TensorFlow 2.21 keeps pointers into a vector
    that grows (TraceMeRecorder::Consume, which later versions mend). What is short of memory is not tried again.
    """
    command, request, timeout = task
    start = time.monotonic()
    record = run_subprocess(command, request, stop.is_set, timeout)
    seconds = time.monotonic() - start
    if record is None:
        return None, seconds
    error = str(record.get("error", ""))
    if attempt < ATTEMPTS and CRASHED.search(error) and not error.startswith(OUT_OF_MEMORY):
        return run_task(task, stop, attempt + 1)
    return record | ({"attempts": attempt} if attempt > 1 else {}), seconds


def _ask(child: "subprocess.Popen[bytes]", request: Mapping[str, Any]) -> None:
    """Write the request; the input stays open, which tells the child that this process lives."""
    assert child.stdin is not None
    with suppress(BrokenPipeError):
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()


def _wait(child: "subprocess.Popen[bytes]", stopped: Callable[[], bool], timeout: float | None) -> bool:
    """Wait for its end, or for a reason to end it; whether that is the time."""
    start = time.monotonic()
    while not stopped():
        left = POLL_SECONDS if timeout is None else min(POLL_SECONDS, start + timeout - time.monotonic())
        if left <= 0:
            return True
        with suppress(subprocess.TimeoutExpired):
            child.wait(left)
            return False
    return False


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Nothing of its group outlives it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    end = time.monotonic() + DYING_SECONDS
    while _is_alive(child.pid) and time.monotonic() < end:
        time.sleep(0.01)  # its children take a moment to die; until then they hold memory and devices
    assert child.stdin is not None
    with suppress(BrokenPipeError):
        child.stdin.close()


def _is_alive(group: int) -> bool:
    """Whether a process of a group is there that is no zombie; False where there is no /proc."""
    for stat in PROC.glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return False


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _parse_record(output: str) -> Record | None:
    """The last line, if the program came that far."""
    last = output.strip().rpartition("\n")[2]
    try:
        found = json.loads(last)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _describe_failure(code: int, errors: str, killed: str) -> str:
    """Why it has no record: its signal or exit code, and the first error that it or a worker of it has told."""
    said = find_first_error(errors)
    if code == -signal.SIGKILL:
        return f"its process was {killed}"
    end = f"was ended by {_name_signal(-code)}" if code < 0 else f"ended with {code}"
    memory = OUT_OF_MEMORY if any(word in said for word in MEMORY_WORDS) else ""
    return f"{memory}its process {end}" + (f": {said}" if said else "")


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
