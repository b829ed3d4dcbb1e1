"""A stepper's steps from the first to the last, with checkpoints, signals and progress."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tfperf.arrays import ArraysByName
from tfperf.errors import RunDirectoryError, TrainingError
from tfperf.report.progress import ShowStatus
from tfperf.runcard.types import MAX_STEP
from tfperf.signals import Signals
from tfperf.train.checkpoint import Checkpoints
from tfperf.train.snapshots import check_snapshot
from tfperf.train.window import Recorder, record_call
from tfperf.workloads.stepper import Stepper

STATE, STEP, LOSSES, SECONDS = "state/", "fit/step", "fit/losses", "fit/seconds_per_step"  # of a checkpoint


class ResumableStepper(Stepper, Protocol):
    """A stepper that can be set to what it was.

    `steps` may be None until it has ended by itself: a call that takes none is the last.
    """

    def snapshot(self) -> ArraysByName:
        """All that decides the future, by name."""

    def restore(self, snapshot: ArraysByName) -> None:
        """Go on from a snapshot. Raises: ValueError or KeyError for one of another training."""


@dataclass(frozen=True)
class StepperProgress:
    """How far a training is."""

    step: int
    steps: int | None  # None: not known before the end
    steps_per_second: float
    loss: float | None  # mean of the last call's; None: the stepper keeps none

    @property
    def over(self) -> bool:
        """Whether no further step will be taken."""
        return self.steps is not None and self.step >= self.steps

    def describe(self) -> str:
        """Speed and loss."""
        return f"{self.steps_per_second:.4g} steps/s" + ("" if self.loss is None else f", loss {self.loss:.4g}")


class StepperTrainer:
    """A stepper's steps from the first to the last."""

    def __init__(self, stepper: ResumableStepper, checkpoints: Checkpoints, every: int) -> None:
        """every: steps between two checkpoints."""
        self.stepper, self.checkpoints, self.every = stepper, checkpoints, every
        self.recorder: Recorder | None = None  # of a profile
        self.step, self.seconds_per_step = 0, list[float]()
        self.losses: list[float] = []  # of the last call

    def resume(self) -> tuple[int, list[str]]:
        """Take up the newest checkpoint; its step (0: there is none) and warnings of damaged ones."""
        arrays, warnings = self.checkpoints.load()
        if arrays:
            try:
                state = {name.removeprefix(STATE): v for name, v in arrays.items() if name.startswith(STATE)}
                self.stepper.restore(state)
                self.step, self.losses = int(arrays[STEP]), arrays[LOSSES].tolist()
                self.seconds_per_step = arrays[SECONDS].tolist()
            except (ValueError, LookupError, TypeError) as error:
                folder = self.checkpoints.folder
                raise RunDirectoryError(f"{folder}: checkpoint of another program version: {error}") from None
        return self.step, warnings

    def compile(self) -> None:
        """Compile what a call needs, and be where it was before.

        Raises: TrainingError where the stepper's snapshot cannot be kept in files.
        """
        state = {name: np.copy(value) for name, value in self.stepper.snapshot().items()}
        if faults := [f"snapshot: {one}" for one in check_snapshot(state)]:
            raise TrainingError(*faults)
        self.stepper.warm_up()
        self.stepper.restore(state)

    def train(self, signals: Signals, show: ShowStatus[StepperProgress]) -> None:
        """Call after call to the end, with a last checkpoint; Interrupted after a checkpoint when a signal came.

        Raises: TrainingError where a loss is not finite; the checkpoint before is kept then.
        """
        saved, ended = self.step, self.is_over
        with signals.defer():
            while not ended:
                count, seconds = self._call(MAX_STEP if self.stepper.steps is None else self.stepper.steps - self.step)
                ended = self.is_over or not count  # it may end by itself
                show(StepperProgress(self.step, self.step if ended else self.stepper.steps, count / seconds, self.loss))
                if self.step // self.every > saved // self.every or ended or signals.received is not None:
                    self.save()
                    saved = self.step
                signals.stop_if_asked(self.step)

    @property
    def is_over(self) -> bool:
        """Whether all steps are taken."""
        return self.stepper.steps is not None and self.step >= self.stepper.steps

    @property
    def loss(self) -> float | None:
        """Mean of the last call's; None: the stepper keeps none."""
        return float(np.mean(self.losses)) if self.losses else None

    def _call(self, left: int) -> tuple[int, float]:
        """Steps that were taken, of those that are left, and seconds."""
        with record_call(self.recorder, self.stepper.steps_per_call) as most:
            start = time.perf_counter()
            count = self.stepper.call(steps := min(most, left))
            seconds = time.perf_counter() - start
        if not 0 <= count <= steps:
            raise TrainingError(f"a call of {steps} steps after step {self.step} says that it took {count}")
        losses = [float(loss) for loss in self.stepper.list_losses()]
        if not np.isfinite(losses).all():
            raise TrainingError(f"the loss is not finite in the {steps} steps after step {self.step}")
        self.step += count
        if count:
            self.losses = losses
            self.seconds_per_step.append(seconds / count)
        return count, seconds

    def save(self) -> Path:
        """Write a checkpoint of now."""
        state = {f"{STATE}{name}": np.asarray(value) for name, value in self.stepper.snapshot().items()}
        fit = {STEP: np.array(self.step), LOSSES: np.array(self.losses), SECONDS: np.array(self.seconds_per_step)}
        return self.checkpoints.save(self.step, state | fit)
