"""What a workload offers to have its memory measured, and the measurement of it in this process, stage by stage."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tfperf.measure.counters import StageCounters
from tfperf.measure.device_memory import DeviceMemory
from tfperf.measure.environment import (
    measure_peak_address_bytes,
    measure_peak_rss_bytes,
    read_rss_bytes,
    reset_peak_rss,
)
from tfperf.workloads.exhaustion import find_exhaustion
from tfperf.workloads.trial_work import describe_work

STEPS = 5  # of a batch, each in a call of its own
MORE_STEPS = 12  # at most, where more seconds are asked for
FAST, FAR = 4, 8  # times a batch, as long as its peak is so many times below the bound
LADDER_SECONDS = 20.0  # after which no larger batch is begun
BATCHES = "batches.jsonl"  # of a trial's folder: what was measured until the process ended


class MemoryTrial(Protocol):
    """A training, or a prediction, that is built stage by stage; its batch can be set again and again."""

    def read_data(self) -> None:
        """Samples, as the workload keeps them."""

    def build_model(self) -> None:
        """All variables of the model."""

    def make_slots(self) -> None:
        """All variables of the optimizer."""

    def list_lengths(self) -> Sequence[int]:
        """Padded lengths to measure, ascending, once the data are read: half of the typical one, this, the longest.

        Two of them may be the same; none where all batches have one shape.
        """

    def set_batch(self, batch: int, length: int | None = None) -> None:
        """What the steps from now on take; samples are repeated where there are fewer. length: None: the longest."""

    def take_steps(self, count: int) -> None:
        """Steps in one call, or as many predictions."""

    def validate(self) -> None:
        """A batch of validation; nothing where there is none."""


@dataclass(frozen=True)
class MemoryStage:
    """What a stage has left and what it has needed at most, in bytes; None: cannot be had. Its time in seconds."""

    name: str
    device: int | None
    device_peak: int | None
    ram: int | None
    ram_peak: int | None
    seconds: float
    energy_joules: float | None  # of the GPU that steps run on
    nvml: list[dict[str, Any]] | None  # of each GPU: measure/counters.py


@dataclass(frozen=True)
class MeasuredBatch:
    """What steps of a batch have needed, in bytes; validation counts.

    Which operations run at once differs from step to step: `least` is the peak of the step that needed least, with
    which others come near to make do where memory is short, since an allocator waits for what runs beside them.
    """

    batch: int
    least: int
    most: int
    ram_peak: int | None
    seconds_per_step: float


class _StageClock:
    """Measures stages one after the other; peaks count anew in each."""

    def __init__(self, began: float, counters: StageCounters) -> None:
        self.stages: list[MemoryStage] = []
        self.memory: DeviceMemory | None = None  # as soon as there is one
        self._counts_ram, self._counters = reset_peak_rss(), counters
        self._start = began

    def run(self, name: str, call: Callable[[], None]) -> MemoryStage:
        """Carry out a stage; what was before the first belongs to it."""
        call()
        now, peak = (None, None) if self.memory is None else self.memory.read()
        ram_peak = measure_peak_rss_bytes() if self._counts_ram else None
        end = time.perf_counter()
        counters = self._counters.read_stage(name, self.memory, peak)
        self.stages.append(MemoryStage(name, now, peak, read_rss_bytes(), ram_peak, end - self._start, **counters))
        reset_peak_rss()
        if self.memory is not None:
            self.memory.reset_peak()
        self._start = time.perf_counter()  # what is read between stages is of none
        return self.stages[-1]


def measure_memory(
    make_trial: Callable[[], MemoryTrial], request: Mapping[str, Any], counters: StageCounters
) -> dict[str, Any]:
    """The record of a request: see study/memory_trial.py. Raises: UserError for faults of the card or its files."""
    memory, clock = DeviceMemory(request["device"], request["limit"]), _StageClock(request["began"], counters)
    found: list[MeasuredBatch] = []
    record: dict[str, Any] = {"readings": counters.readings}
    clock.run("start", lambda: None)
    clock.run("TensorFlow imported", memory.import_tensorflow)
    clock.memory = memory
    clock.run("device ready", memory.prepare)
    batch = int(request["batch"])
    try:
        trial = make_trial()
        clock.run("data read", trial.read_data)
        record["work"] = describe_work(trial)
        record["lengths"] = list(trial.list_lengths())
        clock.run("model built", trial.build_model)
        if request["mode"] == "train":
            clock.run("optimizer's slots made", trial.make_slots)
        begin = time.perf_counter()
        while True:
            found.append(_measure_batch(clock, trial, batch, request))
            _append(Path(request["folder"]) / BATCHES, asdict(found[-1]))
            share, ram = request["share"], request.get("ram")
            is_above = ram is not None and (found[-1].ram_peak or 0) > ram
            following = None if share is None or is_above else _find_next(found, memory, share, begin)
            if following is None:
                break
            batch = following
    except Exception as error:
        if (why := find_exhaustion(error)) is None:
            raise
        record["exhausted"] = {"batch": batch, "why": why}
    return record | {
        "stages": [asdict(stage) for stage in clock.stages], "batches": [asdict(one) for one in found],
        "address_space": measure_peak_address_bytes(),
    }  # fmt: skip


def _measure_batch(clock: _StageClock, trial: MemoryTrial, batch: int, request: Mapping[str, Any]) -> MeasuredBatch:
    """Of a request `more`: seconds for which further steps are taken where they are short."""
    mode, more = request["mode"], request["more"]
    trial.set_batch(batch, request.get("length"))
    what = "step" if mode == "train" else "prediction"
    steps = [clock.run(f"first {what}, batch {batch}", lambda: trial.take_steps(1))]
    while len(steps) <= STEPS or (len(steps) <= MORE_STEPS and sum(one.seconds for one in steps[1:]) < more):
        steps.append(clock.run(f"{what} {len(steps) + 1}, batch {batch}", lambda: trial.take_steps(1)))
    peaks = [one.device_peak or 0 for one in steps]
    least, most = min(peaks), max(peaks)
    if mode == "train":
        held = clock.run(f"validation, batch {batch}", trial.validate)
        least, most = max(least, held.device_peak or 0), max(most, held.device_peak or 0)
        steps.append(held)
    ram = [one.ram_peak for one in steps if one.ram_peak is not None]
    seconds = float(np.median([one.seconds for one in steps[1 : len(peaks)]]))
    return MeasuredBatch(batch, least, most, max(ram, default=None), seconds)


def choose_next(batch: int, peak: float, bound: float) -> int:
    """Half more, and twice as much, by turns; four times as much where that cannot be too much.

    A peak grows at most as its batch does; below the bound some are left that lie on one line. peak, bound: of this
    batch and of the largest, in bytes.

    >>> [choose_next(batch, 3e9, 4e9) for batch in (1, 2, 8, 12, 16, 96)]
    [2, 3, 12, 16, 24, 128]
    >>> choose_next(8, 1e8, 4e9)
    32
    """
    if FAR * peak <= bound:
        return FAST * batch
    return batch + 1 if batch < 3 else batch * 4 // 3 if batch % 3 == 0 else batch * 3 // 2


def _find_next(found: list[MeasuredBatch], memory: DeviceMemory, share: float, begin: float) -> int | None:
    """The next batch; None where it would be above a share of the memory, or not there in time."""
    last = found[-1]
    spent = time.perf_counter() - begin
    if memory.limit is None or spent + 3 * STEPS * last.seconds_per_step > LADDER_SECONDS:
        return None
    bound = compute_bound(found[0].most, memory.limit, share)
    per_sample = 0.0
    if len(found) > 1:
        per_sample = (last.most - found[-2].most) / (last.batch - found[-2].batch)
    batch = choose_next(last.batch, last.most, bound)
    return batch if last.most + per_sample * (batch - last.batch) <= bound else None


def compute_bound(least: float, limit: float, share: float) -> float:
    """Bytes that are a share of the way from what the smallest batch needs to the limit."""
    return least + share * (limit - least)


def _append(file: Path, content: Mapping[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as target:
        target.write(json.dumps(content) + "\n")
