"""Which loop takes the steps, and whether XLA compiles them: decided before the first step, kept for a resumed run."""

import json
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import keras
import numpy as np
import tensorflow as tf
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from tfperf.arrays import ArraysByName, Indices
from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.measure.quiet import drop_native_logs
from tfperf.runcard.types import STRICT, Step
from tfperf.sources.samples import Nest
from tfperf.workloads.keras.loops import CompiledLoop, KerasLoop, StepLoop
from tfperf.workloads.keras.state import ModelState

COMPARED = 10  # batches that both loops are given
CLOSE = 1e-5  # losses of both under XLA, relative
TIMING_SECONDS, REPEATS = 0.2, 3
CALL_SECONDS = 0.5
FAILURES = (tf.errors.OpError, ValueError, TypeError)
Time = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, kw_only=True)
class LoopChoices:
    """What was decided; all of it is read back when the run is resumed."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    loop: Literal["tfperf", "keras"]
    reason: Annotated[str, Field(max_length=2000)]  # why it is not tfperf's; empty where it is
    xla: bool
    steps_per_call: Step
    ms_per_step: dict[Literal["graph", "XLA"], Time]  # as measured

    def to_dict(self) -> dict[str, Any]:
        """Plain values for run.json."""
        return TypeAdapter(LoopChoices).dump_python(self)  # type: ignore[no-any-return]

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "LoopChoices":
        """The choices of run.json. Raises: ValueError."""
        return TypeAdapter(LoopChoices).validate_json(json.dumps(values))


def make_loop(model: keras.Model, samples: Nest, choices: LoopChoices) -> StepLoop:
    """The loop that was chosen."""
    if choices.loop == "keras":
        return KerasLoop(model, samples, choices.xla)
    return CompiledLoop(model.train_step, samples, choices.xla)


def choose_loop(
    model: keras.Model, samples: Nest, rows: Indices, xla: Literal["auto"] | bool, steps_per_call: int | None,
    show_stage: ShowStage,
) -> tuple[LoopChoices, StepLoop]:  # fmt: skip
    """Compare tfperf's loop with Keras' train function on the first batches, and time graph and XLA.

    samples: tensors (N, ...); rows: (steps, batch) of whole batches. The model's state is put back. In graph mode every
    variable has to be equal to the bit, under XLA losses to 1e-5; else Keras' train function takes the steps.
    """
    state, first = ModelState(model, samples, rows[0]), rows[:COMPARED]
    before = state.snapshot()
    # XLA ends the process where it is given texts
    texts = any(tensor.dtype == tf.string for tensor in keras.tree.flatten(samples))
    if texts and xla is True:
        raise CardError("engine.xla: got true; the data have texts, which XLA cannot take; allowed: auto, false")
    candidates = [xla] if xla != "auto" else [False] if texts else [False, True]
    found: dict[bool, tuple[StepLoop, str]] = {}
    ms: dict[Literal["graph", "XLA"], float] = {}
    for number, compiled in enumerate(candidates, 1):
        show_stage("comparing and timing loops", number, len(candidates))
        try:
            with drop_native_logs(), warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Model doesn't support `jit_compile=True`")
                found[compiled] = _compare(model, samples, first, compiled, state, before)
                ms["XLA" if compiled else "graph"] = _time(found[compiled][0], rows, lambda: state.restore(before))
        except FAILURES:
            state.restore(before)
            if not compiled or len(candidates) == 1:
                raise
    best = min(found, key=lambda one: ms["XLA" if one else "graph"])
    loop, reason = found[best]
    state.restore(before)
    model.jit_compile = best
    least = ms["XLA" if best else "graph"]
    steps = max(1, min(len(rows), int(1e3 * CALL_SECONDS / least))) if steps_per_call is None else steps_per_call
    kind: Literal["tfperf", "keras"] = "keras" if reason else "tfperf"
    return LoopChoices(loop=kind, reason=reason, xla=best, steps_per_call=steps, ms_per_step=ms), loop


def _compare(
    model: keras.Model, samples: Nest, rows: Indices, xla: bool, state: ModelState, before: ArraysByName
) -> tuple[StepLoop, str]:
    """The loop to take, and why it is Keras' own."""
    plain = KerasLoop(model, samples, xla)
    wanted = [plain.run(row[None]).get("loss") for row in rows]
    after = state.snapshot()
    state.restore(before)
    ours = CompiledLoop(model.train_step, samples, xla)
    try:
        losses = [ours.run(row[None]).get("loss") for row in rows] if xla else [ours.run(rows).get("loss")]
    except FAILURES as error:
        state.restore(before)
        return plain, f"tfperf's loop cannot be compiled: {' '.join(str(error).split())[:300]}"
    mine = state.snapshot()
    state.restore(before)
    if xla:
        return (ours, "") if _are_close(wanted, losses) else (plain, "under XLA its losses differ by more than 1e-5")
    differ = [name for name in after if not np.array_equal(after[name], mine[name], equal_nan=True)]
    if not differ:
        return ours, ""
    apart = max(float(np.max(np.abs(np.subtract(after[name], mine[name], dtype=np.float64)))) for name in differ)
    return plain, f"after {len(rows)} steps {differ[0]} differs from Keras' train function; by {apart:.1e} at most"


def _are_close(wanted: Sequence[float | None], found: Sequence[float | None]) -> bool:
    pairs = list(zip(wanted, found, strict=True))
    return all(a == b or (a is not None and b is not None and abs(a - b) <= CLOSE * abs(a)) for a, b in pairs)


def _time(loop: StepLoop, rows: Indices, restore: Callable[[], None]) -> float:
    """ms of a step, the fastest of some repeats."""
    count, found = 1, list[float]()
    while len(found) < REPEATS:
        restore()
        batches = rows[np.arange(count) % len(rows)]
        start = time.perf_counter()
        loop.run(batches)
        seconds = time.perf_counter() - start
        if seconds < TIMING_SECONDS / 2 and count < 10_000:
            count = max(2 * count, int(count * TIMING_SECONDS / max(seconds, 1e-4)))
        else:
            found.append(1e3 * seconds / count)
    return min(found)
