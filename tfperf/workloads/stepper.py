"""Steps on demand: what `tfperf profile` and `tfperf sweep` take from a workload that has nothing of its own."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from tfperf.errors import CardError, TrainingError
from tfperf.measure.environment import measure_peak_rss_bytes
from tfperf.measure.quiet import drop_native_logs
from tfperf.measure.timing import Sample, TimingRule, TraceCounter, time_steps
from tfperf.report.study_progress import ShowCount
from tfperf.runcard.kinds import AnyCard
from tfperf.runcard.profile import Profile
from tfperf.trace.capture import capture
from tfperf.trace.notes import ProgramKind
from tfperf.train.window import Recording, configure_capture, count_calls, count_spare_calls

FEWEST = 5  # samples of a trial at least
WARM = 2  # calls before anything is timed: they trace and compile


class Stepper(Protocol):
    """A training that is built, and takes steps when it is asked to."""

    @property
    def steps_per_call(self) -> int:
        """Steps of a call as long as a fit's."""

    @property
    def steps(self) -> int | None:
        """Steps that can be taken in all; None: as many as are asked for."""

    @property
    def loops(self) -> int:
        """Compiled loops that run side by side in a call."""

    @property
    def optimizers(self) -> Sequence[str]:
        """How the names of the optimizer's operations begin."""

    def warm_up(self) -> None:
        """Compile all that a call needs."""

    def call(self, steps: int) -> int:
        """Take steps in one call, with what a fit does beside it; returns how many were taken."""

    def list_losses(self) -> Sequence[float]:
        """Of the last call, for a record; empty: none are kept."""

    def close(self) -> None:
        """Free what it holds."""


def take_steps(stepper: Stepper, steps: int) -> None:
    """Take so many steps in a call. Raises: TrainingError where there were fewer: a time of none says nothing."""
    count = stepper.call(steps)
    if count != steps:
        raise TrainingError(f"the training ended after {count} of the {steps} steps of a call that was to be timed")


def record_steps(
    card: AnyCard,
    stepper: Stepper,
    logdir: Path,
    repeat: int,
    show: ShowCount,
    program: ProgramKind = "card",
    steps_per_epoch: int | None = None,
) -> Recording:
    """Record the card's window of a stepper's steps with TensorFlow's profiler, `repeat` times.

    Raises: CardError where the training is too short for that; TrainingError where it ends before.
    """
    window = card.profile or Profile()
    per_call, calls, skipped = count_calls(window, stepper.steps_per_call)
    if stepper.steps is not None and repeat * (skipped + calls) * per_call > stepper.steps:
        times = "" if repeat == 1 else f", {repeat} times"
        said = f"{calls} calls of {per_call} steps are to be recorded after {skipped} others{times}"
        raise CardError(f"the training has {stepper.steps} steps; {said}")
    spare = count_spare_calls(stepper.steps, repeat * (skipped + calls) * per_call, per_call * repeat)
    stepper.warm_up()
    series = uuid4().hex
    for number in range(repeat):
        show(number, repeat, f"records {calls} calls of {per_call} steps")
        wait_for_second()
        with drop_native_logs(), capture(logdir, calls, skipped, window.host_level) as recording:
            configure_capture(recording, stepper.optimizers, stepper.loops, program)
            recording.turns, recording.usual_turns = per_call, stepper.steps_per_call
            recording.series = series
            recording.calls_per_epoch = steps_per_epoch and steps_per_epoch / per_call
            for call in range(skipped + recording.calls + spare):
                with recording.step(call):
                    take_steps(stepper, per_call)
    show(repeat, repeat, "recorded")
    stepper.close()
    return Recording(recording, per_call)


def wait_for_second() -> None:
    """Wait for the clock's next second: TensorFlow calls a profile's folder by it."""
    time.sleep(1.05 - time.time() % 1)


def measure_steps(stepper: Stepper, request: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a trial: see study/point.py.

    Raises: CardError where the training is too short; TrainingError where it ends, or its loss is not finite.
    """
    per_call, traces = stepper.steps_per_call, TraceCounter()
    warm, fewest = (
        max(least, math.ceil(int(request[key]) / per_call)) for least, key in ((WARM, "warmup"), (FEWEST, "steps"))
    )
    if stepper.steps is not None and (warm + fewest) * per_call > stepper.steps:
        said = f"{fewest} calls of {per_call} steps are to be timed after {warm} others"
        raise CardError(f"the training has {stepper.steps} steps; {said}")
    stepper.warm_up()
    for _ in range(warm):
        take_steps(stepper, per_call)

    def take() -> Sample:
        traces.mark()
        clock, processor = time.perf_counter(), time.process_time()
        take_steps(stepper, per_call)
        seconds, spent = time.perf_counter() - clock, time.process_time() - processor
        return Sample(per_call, seconds, traces.is_unchanged(), spent)

    starting, most = time.perf_counter() - float(request["began"]), float(request["seconds"])
    last = math.inf if stepper.steps is None else stepper.steps // per_call - warm
    timing = time_steps(take, TimingRule(fewest, starting, most, last), most)
    losses = [float(loss) for loss in stepper.list_losses()]
    if broken := [loss for loss in losses if not math.isfinite(loss)]:
        raise TrainingError(f"a loss of the last steps is {broken[0]}; steps of a training that broke are not timed")
    stepper.close()
    return timing.make_record(starting) | {
        "steps": timing.steps, "first_step": warm * per_call, "steps_per_call": per_call, "losses": losses,
        "peak_rss_bytes": measure_peak_rss_bytes(),
    }  # fmt: skip
