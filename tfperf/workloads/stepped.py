"""A fit made of a stepper: call after call with checkpoints, signals and progress, and a resume to the same bits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as validated

from tfperf.errors import RunDirectoryError, TrainingError
from tfperf.measure.clock import quartiles
from tfperf.report.compare import Change
from tfperf.report.compare_reports import PART, Figure, Times, compare_times, read_report
from tfperf.report.progress import Show, show_training
from tfperf.results.contents import EVENTS
from tfperf.results.state import Own, Part
from tfperf.runcard.kinds import AnyCard
from tfperf.signals import Signals
from tfperf.train.checkpoint import Checkpoints
from tfperf.train.parts import keep_checkpoints, resume
from tfperf.train.window import Recorder, end_recording, record_call
from tfperf.workloads.job import Job, Session
from tfperf.workloads.stepping import Stepper

C = TypeVar("C", bound=AnyCard)
STATE, STEP, LOSSES = "state/", "fit/step", "fit/losses"  # of a checkpoint


class ResumableStepper(Stepper, Protocol):
    """A stepper that knows how many steps it takes in all, and that can be set to what it was."""

    @property
    def steps(self) -> int:
        """Of the whole training."""

    def snapshot(self) -> Mapping[str, NDArray[Any]]:
        """All that decides the future, by name."""

    def restore(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a snapshot. Raises: ValueError or KeyError for one of another training."""


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    step: int
    steps: int
    steps_per_second: float
    loss: float | None  # mean of the last call's; None: the stepper keeps none

    @property
    def over(self) -> bool:
        """Whether no further step will be taken."""
        return self.step >= self.steps


class Training:
    """A stepper's steps from the first to the last."""

    def __init__(
        self, stepper: ResumableStepper, checkpoints: Checkpoints, every: int, recorder: Recorder | None = None
    ) -> None:
        """every: steps between two checkpoints; recorder: of a profile."""
        self.stepper, self.checkpoints, self.every, self.recorder = stepper, checkpoints, every, recorder
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
            except (ValueError, LookupError, TypeError) as error:
                folder = self.checkpoints.folder
                raise RunDirectoryError(f"{folder}: checkpoint of another program version: {error}") from None
        return self.step, warnings

    def compile(self) -> None:
        """Compile what a call needs, and be where it was before."""
        state = {name: np.copy(value) for name, value in self.stepper.snapshot().items()}
        self.stepper.warm_up()
        self.stepper.restore(state)

    def train(self, signals: Signals, show: Show[Progress]) -> None:
        """Call after call to the end, with a last checkpoint; Interrupted after a checkpoint when a signal came.

        Raises: TrainingError where a loss is not finite; the checkpoint before is kept then.
        """
        steps, saved = self.stepper.steps, self.step
        while self.step < steps:
            with signals.patient():
                taken, seconds = self._call(steps - self.step)
                steps = steps if taken else self.step  # it has ended by itself
                if self.step // self.every > saved // self.every or self.step >= steps or signals.received is not None:
                    self.save()
                    saved = self.step
            show(Progress(self.step, steps, taken / seconds, self.loss))
            signals.stop_if_asked(self.step)

    @property
    def loss(self) -> float | None:
        """Mean of the last call's; None: the stepper keeps none."""
        return float(np.mean(self.losses)) if self.losses else None

    def _call(self, left: int) -> tuple[int, float]:
        """Steps that were taken, of those that are left, and seconds."""
        start = time.perf_counter()
        with record_call(self.recorder, self.stepper.steps_per_call) as most:
            taken = self.stepper.call(steps := min(most, left))
        seconds = time.perf_counter() - start
        losses = [float(loss) for loss in self.stepper.losses()]
        if not np.isfinite(losses).all():
            raise TrainingError(f"the loss is not finite in the {steps} steps after step {self.step}")
        self.step += taken
        if taken:
            self.losses = losses
            self.seconds_per_step.append(seconds / taken)
        return taken, seconds

    def save(self) -> Path:
        """Write a checkpoint of now."""
        state = {f"{STATE}{name}": np.asarray(value) for name, value in self.stepper.snapshot().items()}
        fit = {STEP: np.array(self.step), LOSSES: np.array(self.losses)}
        return self.checkpoints.save(self.step, state | fit)


def _words(now: Progress) -> str:
    return f"{now.steps_per_second:.4g} steps/s" + ("" if now.loss is None else f", loss {now.loss:.4g}")


class SteppedFit(Job[C, Own]):
    """The fit of a card whose training is a stepper: results.h5 holds its last state, report.json steps and loss."""

    def __init__(
        self, card: C, session: Session[Own], build: Callable[[], ResumableStepper], checkpoint_every: int = 1000
    ) -> None:
        """build: makes the training, ready to take its first step; checkpoint_every: steps."""
        super().__init__(card, session)
        self.build, self.checkpoint_every = build, checkpoint_every

    def carry_out(self, part: Part[Own], parts: Sequence[Part[Own]]) -> None:
        """Build, go on where a run was, compile, train, write."""
        run, watch, progress = self.session.run, self.session.watch, self.session.progress
        progress.tell("building the training")
        with watch.stage("build"):
            stepper = self.build()
            recorder = self._record(stepper)
            training = Training(stepper, keep_checkpoints(run, part), self.checkpoint_every, recorder)
            resume(run, part, training, progress.say)
        progress.tell("compiling")
        with watch.stage("compile"):
            training.compile()
        progress.tell("training")
        with watch.stage("train"), end_recording(recorder, progress.say):
            training.train(self.session.signals, show_training(progress, _words))
        progress.tell("writing results and report")
        with watch.stage("write"):
            self.write(self.summarise(training, part), training.stepper.snapshot())
        training.stepper.close()

    def _record(self, stepper: ResumableStepper) -> Recorder | None:
        """What records the card's window."""
        if self.card.profile is None:
            return None
        logdir = self.session.run.path / EVENTS
        return Recorder(self.card.profile, logdir, stepper.steps_per_call, stepper.loops, stepper.optimizers)

    def summarise(self, training: Training, part: Part[Own]) -> dict[str, Any]:
        """report.json."""
        return {
            "steps": training.step, "loss": training.loss,
            "ms_per_step": quartiles(training.seconds_per_step), "resumed_from_steps": part.resumed_from_steps,
            "seconds": self.session.watch.seconds(),
        }  # fmt: skip


@validated(config=PART, frozen=True)
class _Report:
    loss: Figure | None
    ms_per_step: Times


def compare_stepped(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two such fits: their last losses, and times of a step.

    Raises: RunDirectoryError for runs that are not finished, damaged or of another kind.
    """
    a, b = (read_report(folder, _Report) for folder in (before, now))
    times = compare_times(a.ms_per_step, b.ms_per_step)
    if a.loss is None or b.loss is None:
        return times, []
    return [Change("loss of the last call", a.loss, b.loss, b.loss - a.loss, None, None), *times], []
