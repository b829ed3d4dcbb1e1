"""A fit made of a stepper: call after call with checkpoints, signals and progress, and a resume to the same bits."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic.dataclasses import dataclass as validated

from tfperf.measure.clock import compute_quartiles
from tfperf.report.compare import Change
from tfperf.report.compare_reports import (
    IGNORE_EXTRA,
    NOTE_OF_TIMES,
    FiniteNumber,
    StepQuartiles,
    compare_times,
    read_report,
)
from tfperf.report.progress import make_status_display
from tfperf.report.sections import write_json
from tfperf.results.contents import EVENTS
from tfperf.results.state import Own, Part
from tfperf.runcard.kinds import AnyCard
from tfperf.train.parts import make_checkpoints, resume
from tfperf.train.window import Recorder, end_recording
from tfperf.workloads.job import Job, Session
from tfperf.workloads.stepper_trainer import ResumableStepper, StepperProgress, StepperTrainer

C = TypeVar("C", bound=AnyCard)


class SteppedFit(Job[C, Own]):
    """The fit of a card whose training is a stepper: results.h5 holds its last state, report.json steps and loss."""

    def __init__(
        self, card: C, session: Session[Own], build: Callable[[], ResumableStepper], checkpoint_every: int = 1000
    ) -> None:
        """build: makes the training, ready to take its first step; checkpoint_every: steps."""
        super().__init__(card, session)
        self.build, self.checkpoint_every = build, checkpoint_every

    def fit_part(self, part: Part[Own], parts: Sequence[Part[Own]]) -> None:
        """Build, go on where a run was, compile, train, write."""
        run, watch, progress = self.session.run, self.session.watch, self.session.progress
        progress.show_stage("building the training")
        with watch.measure_stage("build"):
            training = StepperTrainer(self.build(), make_checkpoints(run, part), self.checkpoint_every)
            resume(run, part, training, progress.say)
        if not training.is_over:
            training.recorder = self._make_recorder(training.stepper)
            progress.show_stage("compiling")
            with watch.measure_stage("compile"):
                training.compile()
            progress.show_stage("training")
            with watch.measure_stage("train"), end_recording(training.recorder, progress.say):
                training.train(self.session.signals, make_status_display(progress, StepperProgress.describe))
        progress.show_stage("writing results and report")
        with watch.measure_stage("write"):
            self.write(self.summarise(training, part), training.stepper.snapshot())
        write_json(run.path, self.summarise(training, part))  # with the seconds of writing
        training.stepper.close()

    def _make_recorder(self, stepper: ResumableStepper) -> Recorder | None:
        """What records the card's window."""
        if self.card.profile is None:
            return None
        logdir = self.session.run.path / EVENTS
        return Recorder(self.card.profile, logdir, stepper.steps_per_call, stepper.loops, stepper.optimizers, "card")

    def summarise(self, training: StepperTrainer, part: Part[Own]) -> dict[str, Any]:
        """report.json."""
        return {
            "steps": training.step, "loss": training.loss,
            "ms_per_step": compute_quartiles(training.seconds_per_step), "resumed_from_steps": part.resumed_from_steps,
            "seconds": self.session.watch.sum_seconds(),
        }  # fmt: skip


@validated(config=IGNORE_EXTRA, frozen=True)
class _StepperReport:
    loss: FiniteNumber | None
    ms_per_step: StepQuartiles


def compare_stepped(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two such fits: their last losses, and times of a step.

    Raises: RunDirectoryError for runs that are not finished, damaged or of another kind.
    """
    a, b = (read_report(folder, _StepperReport) for folder in (before, now))
    times = compare_times(a.ms_per_step, b.ms_per_step)
    if a.loss is None or b.loss is None:
        return times, [NOTE_OF_TIMES]
    return [Change("loss of the last call", a.loss, b.loss, b.loss - a.loss, None, None), *times], [NOTE_OF_TIMES]
