"""The timed steps of a trial traced, between passes that are only timed."""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from tfperf.place.breakdown import break_down
from tfperf.place.engine import PlacementEngine
from tfperf.place.function_graphs import remake_kernels
from tfperf.place.run_graphs import record_largest_graph
from tfperf.place.shapes import SETTLE_SECONDS
from tfperf.trace.capture import Capture

EVENTS = 1_500_000  # in a trace, about; its size is all that limits the passes
MOST, BESIDE = 3, 2  # passes that are traced; that are only timed, before and after


class StepWindow(Protocol):
    """Steps of an engine that are taken over and over again, in passes of so many calls of so many steps."""

    engine: PlacementEngine[Any]
    steps: int
    per_call: int
    events: float  # that one pass leaves in a trace on each device, about
    lengths: Sequence[float]  # of the examples of each device, mean over steps, where time goes with them
    alike: bool  # all steps

    @property
    def calls(self) -> int:
        """Of one pass."""

    def call(self, count: int | None = None) -> Any:
        """Take the next call, or so many steps."""

    def run(self) -> Any:
        """Take one pass."""


def trace_steps(window: StepWindow, folder: Path, timed_ms: float) -> dict[str, Any]:
    """Where a step's time goes, from a trace; timed_ms: of a step, the trial's median.

    traced_ms, beside_ms: of a step, medians of the traced passes and of those around them; agrees: traced over timed;
    slower: processor time of traced steps over that of those beside them, which other programs hardly change. A first
    traced pass is left out: the profiler's buffers grow in it. Empty where `break_down` is.
    """
    passes, calls, count = plan_passes(window)

    def measure_pass(capture: Capture | None = None) -> tuple[float, float]:
        """Milliseconds a step of a pass, by the clock and of the processor."""
        clock, processor = time.perf_counter(), time.process_time()
        for number in range(calls):
            with capture.step(number) if capture else nullcontext():
                window.call(count)
        spent = time.perf_counter() - clock, time.process_time() - processor
        return 1e3 * spent[0] / calls / count, 1e3 * spent[1] / calls / count

    beside = [measure_pass() for _ in range(BESIDE)]
    remake_kernels()
    window.call(1)  # makes the kernels
    # what ends the recording is no part of a pass
    capture = Capture(folder, (1 + passes) * calls + 1, 0, host_level=2, turns=count, optimizers=("optimizer",))
    traced = [measure_pass(capture) for _ in range(1 + passes)][1:]
    time.sleep(SETTLE_SECONDS)
    capture.stop()
    beside += [measure_pass() for _ in range(BESIDE)]
    devices = window.engine.devices
    lengths = [window.lengths[k] for k, _ in devices.mine]
    found = break_down(folder, record_largest_graph(window.run), devices, calls, lengths)
    if not found:
        return {}
    (traced_ms, cost), (beside_ms, cost_beside) = (
        [median(column) for column in zip(*every, strict=True)] for every in (traced, beside)
    )
    return found | {
        "traced_ms": traced_ms, "beside_ms": beside_ms, "timed_ms": timed_ms, "slower": cost / cost_beside,
        "agrees": traced_ms / timed_ms,
    }  # fmt: skip


def plan_passes(window: StepWindow) -> tuple[int, int, int]:
    """How many passes are traced behind a first, calls of a pass, steps of a call; a trace has EVENTS at most, about.

    A pass is whole, so that traced steps are the timed ones; where all steps are alike, and a pass is too long, it has
    fewer of them. The same on all workers, since it goes by the batches alone.
    """
    events = window.events * len(window.engine.devices.mine)
    if 2 * events > EVENTS and window.alike:
        return 1, 1, max(1, min(window.per_call, int(EVENTS / 2 * window.steps / events)))
    return max(1, min(MOST, int(EVENTS / events) - 1)), window.calls, window.per_call
