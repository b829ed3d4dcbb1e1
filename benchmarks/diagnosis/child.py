"""One program and its twin: unrecorded periods in turn, then a profile of each, as JSON."""

import importlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.diagnosis.program import PROGRAMS, Fit, OwnLoop

MODULES = (
    "fits", "pipelines", "loops", "retraces", "strategies", "complaints", "complaints_more",
    "unseen_fits_steps", "unseen_fits_layers", "unseen_fits_epochs",
    "unseen_loops_policies", "unseen_loops_tables", "unseen_loops_networks",
    "unseen_again_fits_one", "unseen_again_fits_two", "unseen_again_fits_three",
    "unseen_again_loops_one", "unseen_again_loops_two",
    "unseen_third_fits_one", "unseen_third_fits_two", "unseen_third_fits_three",
    "unseen_third_loops_one", "unseen_third_loops_two", "unseen_third_loops_three",
)  # fmt: skip
BATCH = 64
WARM, STEPS = 4, 24  # steps that are not counted; steps, or as many as are in whole epochs
ROUNDS, FEWEST, LONG = 5, 3, 60.0  # rounds of both; as many once these have taken so many seconds


def load_programs() -> None:
    """Register all programs."""
    for name in MODULES:
        importlib.import_module(f"benchmarks.diagnosis.{name}")


def time_steps(training: Fit | OwnLoop, steps: int = STEPS) -> float:
    """ms a step of so many calls of a loop, or of so many or more steps of a fit, in whole epochs; unrecorded."""
    return _time_fit(training, steps) if isinstance(training, Fit) else _time_loop(training, steps)


def _time_loop(loop: OwnLoop, calls: int) -> float:
    begins: list[float] = []

    @contextmanager
    def clock(number: int) -> Iterator[None]:
        begins.append(time.perf_counter())
        yield

    loop.run(clock, range(WARM + calls + 1))
    return 1e3 * (begins[-1] - begins[WARM]) / (len(begins) - 1 - WARM) / loop.steps_per_call


def _time_fit(fit: Fit, steps: int) -> float:
    """Whole epochs, the first and the last not counted."""
    import keras

    class Clock(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.begins: list[float] = []

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.begins.append(time.perf_counter())

    clock, epochs = Clock(), _count_epochs(fit, steps) + 2
    fit.model.fit(*_get_data(fit), epochs=epochs, verbose=0, callbacks=[clock, *fit.callbacks()], **_get_settings(fit))
    return 1e3 * (clock.begins[-1] - clock.begins[1]) / (epochs - 2) / fit.steps


def _count_epochs(fit: Fit, steps: int) -> int:
    return max(1, -(-steps // fit.steps))


def _get_data(fit: Fit) -> tuple[Any, ...]:
    """x and y, or a dataset that goes on from epoch to epoch: TensorFlow's iterators take 4 to 150 ms to be ended."""
    if isinstance(fit.data, tuple):
        return fit.data
    return (fit.data.repeat() if hasattr(fit.data, "repeat") else fit.data,)


def _get_settings(fit: Fit) -> dict[str, Any]:
    more = {"batch_size": BATCH} if isinstance(fit.data, tuple) else {"steps_per_epoch": fit.steps, "shuffle": False}
    return more | fit.settings


def record(training: Fit | OwnLoop, folder: Path, steps: int = STEPS) -> None:
    """Record a profile of so many steps, or of whole epochs with as many."""
    from tfperf.trace.callback import ProfileCallback
    from tfperf.trace.capture import capture

    if isinstance(training, Fit):
        per_epoch = training.steps // int(training.model.steps_per_execution)
        epochs = _count_epochs(training, steps)
        callback = ProfileCallback(folder, steps=per_epoch * epochs + 1, skip=per_epoch)
        callbacks = [callback, *training.callbacks()]
        training.model.fit(
            *_get_data(training), epochs=3 * epochs + 2, verbose=0, callbacks=callbacks, **_get_settings(training)
        )
    else:
        with capture(folder, steps, skip=WARM, steps_per_call=training.steps_per_call) as window:
            training.run(window.step, range(WARM + 3 * steps))


def read(folder: Path) -> dict[str, Any]:
    """The account and the findings of a profile."""
    from tfperf.trace.attribution import read_attribution
    from tfperf.trace.findings import list_findings

    found = read_attribution(folder)
    return {
        "period_ms": found.account.period_ms, "overhead_ms": found.account.overhead_ms,
        "charges": [asdict(one) for one in sorted(found.account.charges, key=lambda one: -one.ms)[:12]],
        "findings": [asdict(one) for one in list_findings(found)],
        "stages": [asdict(one) for one in found.stages[:3]],
    }  # fmt: skip


def prepare(name: str, small: bool = False, kinds: Sequence[bool] = (True, False)) -> dict[bool, Fit | OwnLoop]:
    """The trainings of a program with the cause and without it, traced and compiled; the devices that it needs.

    small: in the size in which its profile is kept. kinds: True for the one with the cause, False for its twin.
    """
    import tensorflow as tf

    load_programs()
    program = PROGRAMS[name]
    if program.devices > 1:
        tf.config.threading.set_intra_op_parallelism_threads(1)  # no device is helped by the others' processors
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * program.devices)
    size = program.small if small else {}
    trainings = {planted: program.make(planted, **size) for planted in kinds}
    for training in trainings.values():
        time_steps(training)  # which traces and compiles
    return trainings


def main(name: str, output: Path) -> None:
    """Measure one program."""
    trainings = prepare(name)
    program = PROGRAMS[name]
    rounds: list[dict[bool, float]] = []
    captures: list[dict[str, Any]] = []
    start = time.perf_counter()
    while len(rounds) < (ROUNDS if time.perf_counter() - start < LONG else FEWEST):
        rounds.append({planted: time_steps(one) for planted, one in trainings.items()})
        with tempfile.TemporaryDirectory() as folder:
            record(trainings[True], Path(folder))
            captures.append(read(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        record(trainings[False], Path(folder))
        twin = read(Path(folder))
    middle = sorted(captures, key=lambda one: one["findings"][0]["ms"] if one["findings"] else 0.0)[len(rounds) // 2]
    output.write_text(json.dumps({
        "name": name, "rule": program.rule, "words": program.words, "sleeps": program.sleeps,
        "planted_ms": [one[True] for one in rounds], "twin_ms": [one[False] for one in rounds],
        "planted": middle, "twin": twin,
        "captures": [{key: one[key] for key in ("period_ms", "findings")} for one in captures],
    }, indent=1))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
