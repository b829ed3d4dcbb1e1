"""Calls of the compiled loop until all replicas are done, with history, checkpoints and signals."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfperf.errors import Interrupted, RunDirectoryError
from tfperf.results.record import LOSSES, History
from tfperf.train import checkpoint
from tfperf.train.loop import Loop
from tfperf.train.signals import Signals

HISTORY, OWNER = "history/", "owner/"


@dataclass(frozen=True)
class Progress:
    """What the host learns after each call."""

    step: int
    steps: int
    running: int
    steps_per_second: float
    chi2: NDArray[np.float64]  # (R) experimental, per point


class Trainer:
    """Runs a loop to its end; the history and the loop's state make up a checkpoint."""

    def __init__(
        self, loop: Loop, xla: bool, steps_per_call: int, folder: Path, owner: Mapping[str, Sequence[int]]
    ) -> None:
        """`owner`: whole numbers by name that tell whose checkpoints these are; others are not taken up."""
        self.loop, self.xla, self.steps_per_call, self.folder = loop, xla, steps_per_call, folder
        self.owner = {OWNER + name: np.array(numbers, np.int64) for name, numbers in owner.items()}
        self.rows: dict[str, list[NDArray[np.float32]]] = {name: [] for name in LOSSES}
        self.steps: list[int] = []
        self.seconds_per_step: list[float] = []
        self._latest: NDArray[np.float64] | None = None

    def resume(self) -> tuple[int, list[str]]:
        """Take up the newest checkpoint; returns its step (0: there is none) and warnings about damaged ones."""
        arrays, warnings = checkpoint.load(self.folder)
        if all(np.array_equal(arrays.get(name, ()), numbers) for name, numbers in self.owner.items()):
            try:
                self.loop.restore({k: v for k, v in arrays.items() if not k.startswith((HISTORY, OWNER))})
            except ValueError as error:
                raise RunDirectoryError(f"{self.folder}: checkpoint of another program version: {error}") from None
            self.steps = arrays[HISTORY + "step"].tolist()
            self.rows = {name: list(arrays[HISTORY + name].astype(np.float32)) for name in LOSSES}
        return int(self.loop.step), warnings

    def train(self, signals: Signals, report: Callable[[Progress], None]) -> None:
        """Call after call to the end, with a last checkpoint; Interrupted after a checkpoint when a signal came."""
        card = self.loop.card
        saved = int(self.loop.step)
        while not self.loop.done():
            before, start = int(self.loop.step), time.perf_counter()
            self.loop.run(min(self.steps_per_call, card.train.steps - before), self.xla)
            step = int(self.loop.step)
            seconds = time.perf_counter() - start
            self.seconds_per_step.append(seconds / max(step - before, 1))
            self._record(step)
            due = step // card.train.checkpoint_every > saved // card.train.checkpoint_every
            if due or signals.received is not None:
                self.save()
                saved = step
            report(self._progress(step, (step - before) / seconds))
            if signals.received is not None:
                raise Interrupted(signals.received, step)
        self.loop.judge(self.xla)
        self.save()

    def save(self) -> Path:
        """Write a checkpoint of now."""
        arrays = self.loop.snapshot() | self.owner
        arrays[HISTORY + "step"] = np.array(self.steps, np.int64)
        count = self.loop.model.replicas
        for name, rows in self.rows.items():
            arrays[HISTORY + name] = np.array(rows, np.float32).reshape(len(rows), count)
        return checkpoint.save(self.folder, int(self.loop.step), arrays)

    def history(self) -> History:
        """All rows so far."""
        stacked = {n: np.array(r, np.float64).reshape(len(r), self.loop.model.replicas) for n, r in self.rows.items()}
        return History(np.array(self.steps, np.int64), **stacked)

    def _record(self, step: int) -> None:
        row = self.loop.evaluate(self.xla)
        self.steps.append(step)
        for name in LOSSES:
            self.rows[name].append(row[name])

    def _progress(self, step: int, rate: float) -> Progress:
        running = int(np.sum(self.loop.stopping.running().numpy()))
        row = self.rows["experimental"][-1].astype(np.float64)
        # a replica that stopped keeps the chi2 it was last seen with
        self._latest = chi2 = row if self._latest is None else np.where(np.isfinite(row), row, self._latest)
        return Progress(step, self.loop.card.train.steps, running, rate, chi2)
