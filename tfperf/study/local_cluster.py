"""Workers of a trial on this machine: processes that take the same steps, each with its part of a batch."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tfperf.place.devices import TF_CONFIG
from tfperf.runcard.placement import Placement

COMMAND = (sys.executable, "-m", "tfperf.study.point")
WAIT_SECONDS = 60.0  # for the others' end after this one's


@contextmanager
def workers(placement: Placement, request: Mapping[str, Any]) -> Iterator[None]:
    """The other workers of a trial with engine multiworker run inside; this process is the first.

    Nothing happens for other engines, and where TF_CONFIG is set already: then the cluster is the user's.
    """
    if placement.engine != "multiworker" or os.environ.get(TF_CONFIG):
        yield
        return
    count = 1 if placement.devices == "all" else placement.devices
    settings = [json.dumps(config) for config in _configs(count)]
    with ExitStack() as stack:
        others = [stack.enter_context(_started(k, settings[k], request)) for k in range(1, count)]
        os.environ[TF_CONFIG] = settings[0]
        try:
            yield
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
    child.stdin.write(json.dumps({**request, "folder": f"{request['folder']}/worker_{number}"}) + "\n")
    child.stdin.flush()
    return child
