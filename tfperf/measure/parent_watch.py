"""A trial's tie to the process that started it: when that one is gone, so is the trial with all that it started.

The starter gives the trial a session and process group of its own, writes one line to its standard input, and keeps
that input open for as long as it lives. The trial forks a watcher that reads on. The input ends when the starter does,
also by SIGKILL, on any Unix; the watcher then kills the whole group: the trial, its own children and itself. A thread
of the trial could not do that while another one keeps the interpreter's lock, and PR_SET_PDEATHSIG would spare the
trial's children. A child of the trial that makes a session of its own is out of reach.
"""

import atexit
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tfperf.errors import UserError

STARTER = "TFPERF_STARTER"  # in the trial's environment: the starter's process id
ORPHANED = 4


def read_request() -> Any:
    """What the starter asks for: the first line of standard input."""
    return json.loads(sys.stdin.readline())


def answer_request(measure: Callable[[Any], Mapping[str, Any]]) -> None:
    """Read the request, tie this process to the starter, print the record; of a UserError `refused`, its faults."""
    asked = read_request()
    watch_parent()
    try:
        record = measure(asked)
    except UserError as error:
        record = {"refused": list(error.faults)}
    print(json.dumps(record), flush=True)


def watch_parent() -> None:
    """From now on be killed as soon as the starter is gone; without effect for a program started by hand."""
    starter = os.environ.pop(STARTER, None)
    if starter is None:
        return
    if os.getppid() != int(starter):
        os._exit(ORPHANED)
    watcher = os.fork()
    if watcher == 0:
        _kill_at_eof()
    atexit.register(_stop_watcher, watcher)  # the first to be registered is the last to be called


def _stop_watcher(watcher: int) -> None:
    os.kill(watcher, signal.SIGKILL)
    os.waitpid(watcher, 0)


def _kill_at_eof() -> NoReturn:
    """Kill this process group at the end of standard input."""
    try:
        while os.read(0, 4096):
            pass
        os.killpg(0, signal.SIGKILL)
    finally:
        os._exit(0)
