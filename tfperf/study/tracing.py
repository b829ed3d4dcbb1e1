"""The timed steps of a trial traced, between passes that are only timed."""

from pathlib import Path
from statistics import median
from typing import Any

from tfperf.study.breakdown import break_down
from tfperf.study.run_graphs import graph_of
from tfperf.study.window import Window
from tfperf.trace.capture import Capture

LEVEL = 3  # of the host's tracer: at 2 it leaves out what TensorFlow takes for cheap, half of an LSTM's step among it
EVENTS = 1_500_000  # in a trace, about; its size is all that limits the passes
EVENTS_A_COLUMN = 300  # of a layer, forward and backward
MOST, BESIDE = 3, 2  # passes that are traced; that are only timed, before and after


def look_into(window: Window, folder: Path, timed_ms: float, layers: int) -> dict[str, Any]:
    """Where a step's time goes, from a trace; timed_ms: of a step, the trial's median.

    traced_ms, beside_ms: of a step, medians of the traced passes and of those around them; slower: traced over beside;
    agrees: traced over timed. The graphs are asked for last, since that makes TensorFlow forget what operations cost.
    """
    passes, calls, count = plan_passes(window, layers)
    capture = Capture(
        folder, passes * calls, BESIDE * calls, host_level=LEVEL, turns=count, optimizers=("optimizer",)
    )  # fmt: skip
    for number in range((passes + 2 * BESIDE) * calls):
        with capture.step(number):
            window.call(count)
    every = capture.seconds
    each = [1e3 * sum(every[i : i + calls]) / calls / count for i in range(0, len(every), calls)]
    traced, beside = each[BESIDE : BESIDE + passes], each[:BESIDE] + each[BESIDE + passes :]
    found = break_down(folder, graph_of(window.run), window.engine.devices)
    return found | {
        "traced_ms": median(traced), "beside_ms": median(beside), "timed_ms": timed_ms,
        "slower": median(traced) / median(beside), "agrees": median(traced) / timed_ms,
    }  # fmt: skip


def plan_passes(window: Window, layers: int) -> tuple[int, int, int]:
    """How many passes are traced, calls of a pass and steps of a call, so that a trace has EVENTS at most, about.

    A pass is whole, so that traced steps are the timed ones; where all steps are alike, and a pass is too long, it has
    fewer of them. The same on all workers, since it goes by the batches alone.
    """
    events = EVENTS_A_COLUMN * layers * window.columns * len(window.engine.devices.mine)
    if events > EVENTS and window.alike:
        return 1, 1, max(1, min(window.per_call, int(EVENTS * window.steps / events)))
    return max(1, min(MOST, int(EVENTS / events))), window.calls, window.per_call
