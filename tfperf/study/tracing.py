"""The timed steps of a trial traced, between passes that are only timed."""

import time
from pathlib import Path
from statistics import median
from typing import Any

from tfperf.study.breakdown import break_down
from tfperf.study.run_graphs import forget_costs, graph_of
from tfperf.study.window import Window
from tfperf.trace.capture import Capture

EVENTS = 1_500_000  # in a trace, about; its size is all that limits the passes
EVENTS_A_COLUMN = 300  # of a layer, forward and backward
MOST, BESIDE = 3, 2  # passes that are traced; that are only timed, before and after


def look_into(window: Window, folder: Path, timed_ms: float, layers: int) -> dict[str, Any]:
    """Where a step's time goes, from a trace; timed_ms: of a step, the trial's median.

    traced_ms, beside_ms: of a step, medians of the traced passes and of those around them; slower: traced over beside;
    agrees: traced over timed. A first traced pass is left out: the profiler's buffers grow in it.
    """
    passes, calls, count = plan_passes(window, layers)
    before, skip = [_timed(window, calls, count) for _ in range(BESIDE)], calls
    forget_costs()
    window.call(1)  # makes the kernels
    capture = Capture(folder, (1 + passes) * calls, 0, host_level=2, turns=count, optimizers=("optimizer",))
    for number in range((1 + passes) * calls):
        with capture.step(number):
            window.call(count)
    every = capture.seconds
    traced = [1e3 * sum(every[i : i + calls]) / calls / count for i in range(skip, len(every), calls)]
    beside = before + [_timed(window, calls, count) for _ in range(BESIDE)]
    found = break_down(folder, graph_of(window.run), window.engine.devices, skip)
    return found | {
        "traced_ms": median(traced), "beside_ms": median(beside), "timed_ms": timed_ms,
        "slower": median(traced) / median(beside), "agrees": median(traced) / timed_ms,
    }  # fmt: skip


def _timed(window: Window, calls: int, count: int) -> float:
    """Milliseconds a step of a pass that nobody records."""
    start = time.perf_counter()
    for _ in range(calls):
        window.call(count)
    return 1e3 * (time.perf_counter() - start) / calls / count


def plan_passes(window: Window, layers: int) -> tuple[int, int, int]:
    """How many passes are traced behind a first, calls of a pass, steps of a call; a trace has EVENTS at most, about.

    A pass is whole, so that traced steps are the timed ones; where all steps are alike, and a pass is too long, it has
    fewer of them. The same on all workers, since it goes by the batches alone.
    """
    events = EVENTS_A_COLUMN * layers * window.columns * len(window.engine.devices.mine)
    if 2 * events > EVENTS and window.alike:
        return 1, 1, max(1, min(window.per_call, int(EVENTS / 2 * window.steps / events)))
    return max(1, min(MOST, int(EVENTS / events) - 1)), window.calls, window.per_call
