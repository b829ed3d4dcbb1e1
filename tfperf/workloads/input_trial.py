"""What a workload offers to have its input measured, and how fast model and data are alone and together."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, Protocol

from tfperf.inputs.process_counters import ProcessorMeter
from tfperf.measure.confidence import ConfidenceInterval, estimate_middle_ratio
from tfperf.measure.worker_memory import measure_loader_bytes

Side = Literal["model", "data", "both"]
SIDES: tuple[Side, ...] = ("model", "data", "both")
BLOCK_SECONDS = 0.5  # of a side, before another one has its turn
# of a block, taken before it: what was prepared in the turn of the model lies in buffers, and comes faster
LEAD_IN: Mapping[Side, float] = {"model": 0.25, "data": 1.25, "both": 1.25}
MOST_LONGER, LONGEST_PASS = 20, 2.5  # steps of a pass, by those of a block, and s of it, from which on blocks are parts
LEAST_ROUNDS, MOST_STEPS = 6, 100_000  # of fewer rounds no interval is known
SURE, LONGER = 0.05, 3  # how narrow an interval should be, to either side, and how many times as long that may take
WARM_STEPS = 2


class InputTrial(Protocol):
    """A training whose model and data can be taken apart."""

    @property
    def batch(self) -> int | None:
        """Samples of a step; None: batches do not say."""

    @property
    def pass_length(self) -> int | None:
        """Batches of a pass of the data; None: not known, or it has no end."""

    def take(self, side: Side, steps: int) -> None:
        """Steps of the model over one batch again and again, batches of the data alone, or both as they are."""

    def put_back(self) -> None:
        """Give the model the weights and slots that it had."""

    def describe_source(self, seconds: float) -> dict[str, Any]:
        """What makes the batches: its kind, its stages with their times measured for so long, what is wrong with it."""


class Loader(Protocol):
    """Data without a model, made by some number of workers."""

    @property
    def pass_length(self) -> int | None:
        """Batches of a pass; None: not known, or it has no end."""

    def take(self, steps: int) -> None:
        """So many batches."""


@dataclass(frozen=True)
class Ceiling:
    """How fast a side is: steps a second by blocks, the middle with its interval, CPU-s a step with its workers'."""

    blocks: list[float]
    rate: ConfidenceInterval
    processor_seconds: float
    steps: int  # of a block


def measure_ceilings(
    trial: InputTrial, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
    """The record of the three sides, measured by turns for so many seconds, after a warm-up of each.

    What changes the machine's speed for longer than a turn changes all of them; every other time the turns go the other
    way round. Where the share of the time that the model waits is not known within SURE by then, it goes on, up to
    LONGER times as long. The model's state is put back.
    """
    try:
        lengths = {"model": None, "data": trial.pass_length, "both": trial.pass_length}
        counts = {side: _find_pass_count(partial(trial.take, side), lengths[side], clock) for side in SIDES}
        rates: dict[Side, list[float]] = {side: [] for side in SIDES}
        processor: dict[Side, float] = dict.fromkeys(SIDES, 0.0)
        meter, start, rounds = ProcessorMeter(), clock(), 0
        while rounds < LEAST_ROUNDS or clock() < start + seconds * (1 if _is_sure(rates) else LONGER):
            for side in SIDES if rounds % 2 else reversed(SIDES):
                trial.take(side, math.ceil(LEAD_IN[side] * counts[side]))
                used, began = meter.read_seconds(), clock()
                trial.take(side, counts[side])
                rates[side].append(counts[side] / (clock() - began))
                processor[side] += meter.read_seconds() - used
            rounds += 1
    finally:
        trial.put_back()
    found = {
        side: Ceiling(
            rates[side], estimate_middle_ratio(rates[side]), processor[side] / rounds / counts[side], counts[side]
        )
        for side in SIDES
    }
    return {"batch": trial.batch, **{side: asdict(ceiling) for side, ceiling in found.items()}, **describe_wait(found)}


def measure_loader(
    loader: Loader, workers: int, seconds: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
    """The record of data alone: batches a second with an interval, CPU seconds of a batch, bytes of RAM at the most.

    `usual` is the median of the blocks' rates, which a block that others disturbed leaves as it is.
    """
    count = _find_pass_count(loader.take, loader.pass_length, clock)
    rates, meter = list[float](), ProcessorMeter()
    before, end = meter.read_seconds(), clock() + seconds
    while len(rates) < LEAST_ROUNDS or clock() < end:
        began = clock()
        loader.take(count)
        rates.append(count / (clock() - began))
    used = meter.read_seconds() - before
    rate = asdict(estimate_middle_ratio(rates))
    seconds = used / count / len(rates)
    return {
        "workers": workers, "rate": rate, "usual": statistics.median(rates), "processor_seconds": seconds,
        "ram": measure_loader_bytes(),
    }  # fmt: skip


def describe_wait(found: Mapping[Side, Ceiling]) -> dict[str, Any]:
    """`waits`: share of the time in which the model waits for its input, with an interval: 1 less the ratio of the
    rates of both and of the model alone, block by block."""
    ratio = _compare_sides({side: ceiling.blocks for side, ceiling in found.items()})
    low, high = (None if limit is None else 1 - limit for limit in (ratio.high, ratio.low))
    return {"waits": asdict(ConfidenceInterval(1 - ratio.value, low, high))}


def _compare_sides(rates: Mapping[Side, Sequence[float]]) -> ConfidenceInterval:
    """How fast both are, as a share of the model alone."""
    pairs = zip(rates["both"], rates["model"], strict=True)
    return estimate_middle_ratio([both / model for both, model in pairs])


def _is_sure(rates: Mapping[Side, Sequence[float]]) -> bool:
    return _compare_sides(rates).is_within(SURE)


def _find_pass_count(take: Callable[[int], None], length: int | None, clock: Callable[[], float]) -> int:
    """The same in whole passes of so many steps, where one is short: each block has its share of what it is to begin
    one."""
    count = _find_count(take, clock)
    if length is None or length > MOST_LONGER * count:
        return count
    began = clock()
    take(length)
    return count if clock() - began > LONGEST_PASS else -(-count // length) * length


def _find_count(take: Callable[[int], None], clock: Callable[[], float]) -> int:
    """Steps that take about a block's time, after those that compile."""
    take(WARM_STEPS)
    count = 1
    while True:
        began = clock()
        take(count)
        spent = clock() - began
        if spent >= BLOCK_SECONDS / 2 or count >= MOST_STEPS:
            return max(1, min(MOST_STEPS, round(count * BLOCK_SECONDS / max(spent, 1e-9))))
        count = min(MOST_STEPS, count * (4 if spent < BLOCK_SECONDS / 8 else 2))
