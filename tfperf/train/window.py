"""The window of a training that is recorded: how many calls of how many steps, and what a profile is told of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfperf.errors import LostError, TraceError
from tfperf.measure.nvml import read_utilisation
from tfperf.results.files import verify_holder
from tfperf.runcard.profile import Profile
from tfperf.trace.call_times import FEWEST
from tfperf.trace.capture import Capture
from tfperf.trace.notes import ProgramKind

CALLS = 6  # at least, so that chance is known
SPARE = FEWEST + 1  # calls behind the window
SKIPPED = 3  # calls before the window at least; all but the first are timed, too


def count_calls(window: Profile, steps_per_call: int) -> tuple[int, int, int]:
    """Steps in a call, calls to record, and calls before them."""
    per_call = max(1, min(steps_per_call, window.steps // CALLS))
    return per_call, -(-window.steps // per_call), max(-(-window.skip // per_call), SKIPPED)


def count_spare_calls(steps: int | None, used: int, per_call: int) -> int:
    """Calls to take behind the window, for what recording costs to be known: as many as a training of `steps` has.

    used: steps that it takes without them.
    """
    return SPARE if steps is None else min(SPARE, (steps - used) // per_call)


def configure_capture(capture: Capture, optimizers: Sequence[str], loops: int, program: ProgramKind = "engine") -> None:
    """Tell a capture what it records: the engine's steps, in so many loops side by side.

    optimizers: how the names of the optimizer's operations begin.
    """
    capture.loops, capture.program, capture.optimizers = loops, program, list(optimizers)
    capture.read_utilisation = read_utilisation
    capture.turns = None  # a fit's calls differ in length


@dataclass(frozen=True)
class Recording:
    """A profile of a card: the last capture, and the steps in each of its calls."""

    capture: Capture
    steps_per_call: int

    @property
    def overhead(self) -> float | None:
        """How much longer it takes from call to call while they are recorded, 0.05 for 5 %; None: not known."""
        times = self.capture.times
        recorded, plain = times.recorded_ms, times.unrecorded_ms
        return recorded / plain - 1 if recorded and plain else None


class Recorder:
    """The card's window within a fit; its calls are shorter until it is over."""

    def __init__(
        self, window: Profile, logdir: Path, steps_per_call: int, loops: int, optimizers: Sequence[str],
        program: ProgramKind = "engine",
    ) -> None:  # fmt: skip
        self.steps, calls, skipped = count_calls(window, steps_per_call)
        self.capture = Capture(logdir, calls, skipped, window.host_level)
        configure_capture(self.capture, optimizers, loops, program)
        self.capture.usual_turns = steps_per_call
        self.number = 0

    @property
    def over(self) -> bool:
        """Whether the window is recorded."""
        return self.capture.done

    @contextmanager
    def record(self) -> Iterator[None]:
        """One call of the training. Raises: LostError where the profile's folder is another process's now."""
        verify_holder(self.capture.logdir)
        with self.capture.step_safely(self.number):
            yield
        self.number += 1

    def end(self) -> str:
        """End the recording; what is to be said about it."""
        whole = self.capture.done
        try:
            verify_holder(self.capture.logdir)
            self.capture.finish()
        except (TraceError, LostError) as error:
            self.capture.failed = str(error)
        if self.capture.failed:
            return f"warning: profile: {self.capture.failed}"
        if whole:
            return f"profile: {self.capture.calls} calls of {self.steps} steps are recorded in {self.capture.logdir}"
        said = f"before {self.capture.calls} calls of {self.steps} steps were recorded"
        return f"warning: profile: the training ended {said}"


@contextmanager
def record_call(recorder: Recorder | None, steps_per_call: int) -> Iterator[int]:
    """Around a call, which is recorded where the window is not over; the most steps that it may take."""
    if recorder is None or recorder.over:
        yield steps_per_call
        return
    with recorder.record():
        yield recorder.steps


@contextmanager
def end_recording(recorder: Recorder | None, say: Callable[[str], None]) -> Iterator[None]:
    """Around a training: say what came of its window, however it ends."""
    try:
        yield
    finally:
        if recorder is not None:
            say(recorder.end())
