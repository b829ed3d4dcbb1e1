"""Workers of a trial on this machine: processes that take the same steps, each with its part of a batch."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import IO, Any

from tfperf.place.devices import TF_CONFIG
from tfperf.runcard.placement import Placement
from tfperf.study.timing import Enough

COMMAND = (sys.executable, "-m", "tfperf.study.point")
WAIT_SECONDS = 60.0  # for the others' end after this one's
WORKER = "worker"  # in a request: its number, of one that a first worker started
ALONE = 6  # samples where workers cannot agree


class Others:
    """The other workers of a trial, all of which take the same number of samples. Here there are none."""

    def agree(self, enough: Enough) -> Enough:
        """The rule by which this process ends its timing."""
        return enough


class Followers(Others):
    """Processes that the first worker started, and tells after each sample whether there are enough."""

    def __init__(self, inputs: Sequence[IO[str]]) -> None:
        self.inputs = inputs

    def agree(self, enough: Enough) -> Enough:
        """The rule, whose answers go to the others."""

        def told(samples: list[float], timed: float, passed: float) -> str:
            why = enough(samples, timed, passed)
            for one in self.inputs:
                one.write(f"{why}\n")
                one.flush()
            return why

        return told


class Leader(Others):
    """The first worker, which started this process and tells it after each sample whether there are enough."""

    def agree(self, enough: Enough) -> Enough:
        """The answer on standard input, whose end is one, too."""
        return lambda samples, timed, passed: "" if sys.stdin.readline() == "\n" else "told"


class Strangers(Others):
    """Workers of a cluster of the user's: so many samples are taken, since nothing can be agreed on."""

    def agree(self, enough: Enough) -> Enough:
        """After ALONE samples."""
        taken = count(1)
        return lambda samples, timed, passed: "told" if next(taken) >= ALONE else ""


@contextmanager
def workers(placement: Placement, request: Mapping[str, Any]) -> Iterator[Others]:
    """The other workers of a trial with engine multiworker run inside; this process is the first.

    Nothing happens for other engines, and where TF_CONFIG is set already: then the cluster is the user's.
    """
    if placement.engine != "multiworker":
        yield Others()
        return
    if os.environ.get(TF_CONFIG):
        yield Leader() if WORKER in request else Strangers()
        return
    size = 1 if placement.devices == "all" else placement.devices
    settings = [json.dumps(config) for config in _configs(size)]
    with ExitStack() as stack:
        others = [stack.enter_context(_started(k, settings[k], request)) for k in range(1, size)]
        os.environ[TF_CONFIG] = settings[0]
        try:
            yield Followers([other.stdin for other in others if other.stdin is not None])
            for other in others:
                other.wait(WAIT_SECONDS)
        finally:
            del os.environ[TF_CONFIG]
            for other in others:
                other.kill()


def _configs(count: int) -> list[dict[str, Any]]:
    """TF_CONFIG of each worker, at ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    cluster = {"worker": addresses}
    return [{"cluster": cluster, "task": {"type": "worker", "index": k}} for k in range(count)]


def _started(number: int, config: str, request: Mapping[str, Any]) -> "subprocess.Popen[str]":
    """A worker, in the process group of this one, so that it ends with it."""
    child = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {TF_CONFIG: config},
    )  # fmt: skip
    assert child.stdin is not None
    child.stdin.write(json.dumps({**request, WORKER: number, "folder": f"{request['folder']}/worker_{number}"}) + "\n")
    child.stdin.flush()
    return child
