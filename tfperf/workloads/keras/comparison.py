"""Whether tfperf's loop and Keras' train function agree on the same batches, and how long their steps take."""

import time
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray, ArraysByName
from tfperf.workloads.keras.feeds import Feed, Recorded
from tfperf.workloads.keras.loops import Compilation, Logs, PlainArithmeticLoop, StepLoop
from tfperf.workloads.keras.state import ModelState

CLOSE = 1e-5  # losses and metrics of both under XLA, relative
TIMING_SECONDS, REPEATS = 0.2, 3
FAILURES = (tf.errors.OpError, ValueError, TypeError)


def compare_loops(
    model: keras.Model,
    feed: Feed,
    recorded: Recorded,
    compilation: Compilation,
    state: ModelState,
    before: ArraysByName,
) -> tuple[StepLoop, str]:
    """The loop to take, and why it is Keras' own."""
    plain = feed.make_keras_loop(model, compilation != "graph")
    try:
        ours = feed.make_loop(model.train_step, compilation)
        if compilation != "graph":
            wanted = _run_all(plain, recorded, single=True)
            state.restore(before)
            same = _are_close(wanted, _run_all(ours, recorded, single=True))
            return (ours, "") if same else (plain, "under XLA losses or metrics differ by more than 1e-5")
        if not (first := _find_difference(plain, ours, recorded, state, before)):
            return ours, ""
        exact = PlainArithmeticLoop(ours)
        if not _find_difference(PlainArithmeticLoop(plain), exact, recorded, state, before):
            return exact, ""
    except FAILURES as error:
        state.restore(before)
        plain.run(next(iter(recorded.split(single=True))))  # where that fails too, the model does
        return plain, f"tfperf's loop cannot be compiled: {' '.join(str(error).split())[:300]}"
    finally:
        state.restore(before)
    return plain, f"after {len(recorded)} steps {first}"


def _find_difference(
    plain: StepLoop, ours: StepLoop, recorded: Recorded, state: ModelState, before: ArraysByName
) -> str:
    """What differs after the recorded steps, in words; empty where every variable is the same to the bit."""
    after = []
    for loop, single in ((plain, True), (ours, False)):
        state.restore(before)
        _run_all(loop, recorded, single)
        after.append(state.snapshot())
    wanted, mine = after
    apart = {
        name: _measure_difference(wanted[name], mine[name])
        for name in wanted
        if not np.array_equal(wanted[name], mine[name], equal_nan=True)
    }
    if not apart:
        return ""
    largest = max(apart, key=lambda name: apart[name])
    first = next(iter(apart))
    more = "" if largest == first else f", {largest} by {apart[largest]:.1e}"
    return f"{first} differs from Keras' train function by {apart[first]:.1e} of its largest value{more}"


def _measure_difference(one: AnyArray, other: AnyArray) -> float:
    """The largest difference over the largest value."""
    a, b = (np.asarray(array, np.float64) for array in (one, other))
    return float(np.max(np.abs(a - b)) / max(float(np.max(np.abs(a))), np.finfo(np.float32).tiny))


def _are_close(wanted: Sequence[Logs], found: Sequence[Logs]) -> bool:
    return all(
        {*a} == {*b} and all(a[key] == b[key] or abs(a[key] - b[key]) <= CLOSE * abs(a[key]) for key in a)
        for a, b in zip(wanted, found, strict=True)
    )


def time_loop(
    loop: StepLoop, recorded: Recorded, state: ModelState, before: ArraysByName, single: bool = False
) -> float:
    """ms of a step, the fastest of some repeats; single: with a call for each."""
    count, found = 1, list[float]()
    while len(found) < REPEATS:
        state.restore(before)
        calls = [recorded.repeat(1)] * count if single else [recorded.repeat(count)]
        start = time.perf_counter()
        for batches in calls:
            loop.run(batches)
        seconds = time.perf_counter() - start
        if seconds < TIMING_SECONDS / 2 and count < 10_000:
            count = max(2 * count, int(count * TIMING_SECONDS / max(seconds, 1e-4)))
        else:
            found.append(1e3 * seconds / count)
    return min(found)


def _run_all(loop: StepLoop, recorded: Recorded, single: bool) -> list[Logs]:
    """The logs of each call."""
    return [loop.run(batches)[1] for batches in recorded.split(single)]
