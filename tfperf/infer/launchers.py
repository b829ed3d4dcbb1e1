"""Who starts the workers that a dispatcher gives work to."""

from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Protocol

from tfperf.infer.dispatch_records import Slot
from tfperf.infer.leases import WorkerLoss
from tfperf.infer.subprocesses import MessageProcess
from tfperf.infer.worker import run_worker


class WorkerProcess(Protocol):
    """A process that runs `infer/worker.py: run_worker`, wherever it is."""

    @property
    def connection(self) -> Connection:
        """What it says; at its end it is gone."""

    @property
    def loss(self) -> WorkerLoss:
        """What that is then."""

    def send(self, message: Any) -> None:
        """Have it told soon; nothing where it is gone."""

    def kill(self) -> str:
        """End it with all that it has started; how it ended, and what it said last."""


class Launcher(Protocol):
    """Starts workers on slots."""

    def start(self, slot: int) -> WorkerProcess | None:
        """A worker that begins to load its model; None: there is no machine for it at present. Raises: UserError."""

    def pop_news(self) -> Sequence[str]:
        """What has become of the machines since this was asked last, in words."""


class LocalLauncher:
    """Starts processes of this machine."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots

    def start(self, slot: int) -> MessageProcess:
        """A process of its own."""
        one = self._slots[slot]
        return MessageProcess(run_worker, one.spec, one.environment)

    def pop_news(self) -> Sequence[str]:
        """None."""
        return ()
