"""Workers of a trial on this machine: processes that take the same steps, each with its local batches."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import IO, Any

from tfperf.errors import UnprovedError, WorkerError
from tfperf.measure.timing import StoppingRule
from tfperf.runcard.placement import TF_CONFIG, Placement

COMMAND = (sys.executable, "-m", "tfperf.study.point")
WAIT_SECONDS = 60.0  # for the others' end after this one's
LAST_WORDS_SECONDS = 5.0  # for the others' end after this one's error, which may be theirs
MOST_BYTES = 2**26  # of a record
WORKER = "worker"  # in a request: its number, of one that a first worker started
ALONE = 6  # samples where workers cannot agree


@dataclass(frozen=True)
class _Worker:
    number: int
    process: "subprocess.Popen[str]"
    output: IO[bytes]

    def find_fault(self) -> str | None:
        """Why it did not measure, after its end; None: it did."""
        record = self._read_record()
        if record is None:
            code = self.process.poll()
            return "did not end in time" if code is None else f"ended with {code} and has no record"
        return record.get("error") or "; ".join(record.get("refused", ())) or None

    def list_proof_faults(self) -> list[str]:
        """What it found against the placement."""
        return [f"worker {self.number}: {fault}" for fault in (self._read_record() or {}).get("unproved", ())]

    def _read_record(self) -> dict[str, Any] | None:
        said = os.pread(self.output.fileno(), MOST_BYTES, 0).decode(errors="replace")
        try:
            record: dict[str, Any] = json.loads(said.strip().rpartition("\n")[2])
        except ValueError:
            return None
        return record


class Peers:
    """The other workers of a trial, all of which take the same number of samples. Here there are none."""

    def agree(self, enough: StoppingRule) -> StoppingRule:
        """The rule by which this process ends its timing."""
        return enough


class Followers(Peers):
    """Processes that the first worker started, and tells after each sample whether there are enough."""

    def __init__(self, inputs: Sequence[IO[str]]) -> None:
        self.inputs = inputs

    def agree(self, enough: StoppingRule) -> StoppingRule:
        """The rule, whose answers go to the others."""

        def decide(samples: list[float], timed: float, passed: float) -> str:
            why = enough(samples, timed, passed)
            for one in self.inputs:
                with suppress(BrokenPipeError):  # one that died is told of elsewhere
                    one.write(f"{why}\n")
                    one.flush()
            return why

        return decide


class Leader(Peers):
    """The first worker, which started this process and tells it after each sample whether there are enough."""

    def agree(self, enough: StoppingRule) -> StoppingRule:
        """The answer on standard input, whose end is one, too."""
        return lambda samples, timed, passed: "" if sys.stdin.readline() == "\n" else "told"


class ForeignPeers(Peers):
    """Workers of a cluster of the user's: so many samples are taken, since nothing can be agreed on."""

    def agree(self, enough: StoppingRule) -> StoppingRule:
        """After ALONE samples."""
        numbers = count(1)
        return lambda samples, timed, passed: "told" if next(numbers) >= ALONE else ""


@contextmanager
def start_workers(placement: Placement, request: Mapping[str, Any]) -> Iterator[Peers]:
    """The other workers of a trial with engine multiworker run inside; this process is the first.

    They share its standard error. Where one dies, this process ends too: it would wait for that one for ever. Nothing
    happens for other engines, and where TF_CONFIG is set already: then the cluster is the user's. Raises: WorkerError
    where another has not measured, UnprovedError where another found fault with the placement.
    """
    if placement.engine != "multiworker":
        yield Peers()
        return
    if os.environ.get(TF_CONFIG):
        yield Leader() if WORKER in request else ForeignPeers()
        return
    settings = [json.dumps(config) for config in _make_configs(placement.local_workers)]
    done = Event()
    with ExitStack() as stack:
        others = [_start(stack, k, config, request) for k, config in enumerate(settings) if k]
        for other in others:
            Thread(target=_watch, args=(other, done), daemon=True).start()
        os.environ[TF_CONFIG] = settings[0]
        stack.callback(os.environ.pop, TF_CONFIG, None)
        try:
            yield Followers([other.process.stdin for other in others if other.process.stdin is not None])
        except BaseException:
            done.set()
            _wait(others, LAST_WORDS_SECONDS)
            raise
        done.set()
        _wait(others, WAIT_SECONDS)
        faults = [f"worker {other.number}: {fault}" for other in others if (fault := other.find_fault()) is not None]
        if faults:
            raise WorkerError("; ".join(faults))
        if unproved := [fault for other in others for fault in other.list_proof_faults()]:
            raise UnprovedError(unproved)


def _watch(other: _Worker, done: Event) -> None:
    """End this process when another one dies before the trial is done."""
    other.process.wait()
    fault = None if done.is_set() else other.find_fault()
    if fault is not None:
        print(f"worker {other.number}: {fault}", file=sys.stderr, flush=True)
        time.sleep(LAST_WORDS_SECONDS)  # in which this one may fail by itself, and tell more
        if not done.is_set():
            os._exit(1)


def _wait(others: Sequence[_Worker], seconds: float) -> None:
    """Wait for their ends, so long in all."""
    end = time.monotonic() + seconds
    for other in others:
        with suppress(subprocess.TimeoutExpired):
            other.process.wait(max(0.0, end - time.monotonic()))


def _make_configs(count: int) -> list[dict[str, Any]]:
    """TF_CONFIG of each worker, at ports that are free now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    cluster = {"worker": addresses}
    return [{"cluster": cluster, "task": {"type": "worker", "index": k}} for k in range(count)]


def _start(stack: ExitStack, number: int, config: str, request: Mapping[str, Any]) -> _Worker:
    """A worker, in the process group of this one, so that it ends with it; killed where the stack is left."""
    output = TemporaryFile()  # noqa: SIM115, the stack closes it
    stack.callback(output.close)
    child = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=output, text=True, env=os.environ | {TF_CONFIG: config}
    )  # fmt: skip
    stack.callback(child.kill)
    assert child.stdin is not None
    child.stdin.write(json.dumps({**request, WORKER: number, "folder": f"{request['folder']}/worker_{number}"}) + "\n")
    child.stdin.flush()
    return _Worker(number, child, output)
