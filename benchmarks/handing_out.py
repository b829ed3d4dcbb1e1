"""What handing out a micro-batch costs, by workers that do nothing."""

import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from benchmarks.registry import Row, register_benchmark
from benchmarks.sleepers import Sleeper, make_lengths
from tfperf.arrays import AnyArray
from tfperf.infer.dispatch_records import BatchEvent, DispatchHooks, DispatchRule, Slot
from tfperf.infer.dispatcher import Dispatcher
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.worker import WorkerSpec

RECORDS, WINDOW, ROUNDS = 40_000, 4096, 3
BATCHES = {"8 records": BatchRule(records=8), "1 record": BatchRule(records=1)}


class IdleLoader:
    """Loads a model that only gives each record its number."""

    def __call__(self) -> Sleeper:
        """The model."""
        return Sleeper(0.0)


def run_idle(workers: int, rule: BatchRule, records: int) -> tuple[float, float, int]:
    """Seconds from the first lease to the last rows, CPU seconds of this process meanwhile, and batches."""
    left, last, batches = records, 0.0, 0
    starts: list[float] = []

    def give(window: int, numbers: Sequence[int], values: Mapping[str, AnyArray], *_: Any) -> None:
        nonlocal left, last
        left -= len(numbers)
        last = time.monotonic()

    def note(event: BatchEvent) -> None:
        nonlocal batches
        batches += 1
        if not starts:
            starts.append(time.process_time())

    slots = [Slot(f"worker {place}", WorkerSpec(IdleLoader())) for place in range(workers)]
    dispatcher = Dispatcher(slots, make_lengths(records, WINDOW), DispatchRule(rule), DispatchHooks(give, note))
    windows = -(-records // WINDOW)
    dispatcher.run(iter(range(windows)), windows, lambda window: np.zeros(min(WINDOW, records - window * WINDOW), bool))
    assert left == 0 and dispatcher.first_lease is not None
    return last - dispatcher.first_lease, time.process_time() - starts[0], batches


@register_benchmark(
    "handing-out",
    claim="handing out a micro-batch and taking its rows costs a fraction of a millisecond",
    sweep=f"1 and 2 workers whose model does nothing, batches of 8 records and of 1; {ROUNDS} rounds (--rounds) of "
    f"{RECORDS} records (--records)",
    unit="batches and records a second, medians; CPU seconds of the dispatcher's process for 1000 batches",
)
def measure_handing_out(rounds: int = ROUNDS, records: int = RECORDS) -> Iterator[Row]:
    """A row for each number of workers and kind of batches."""
    for name, rule in BATCHES.items():
        for workers in (1, 2):
            found = [run_idle(workers, rule, records) for _ in range(rounds)]
            yield {
                "workers": workers, "batches of": name,
                "batches/s": median(batches / seconds for seconds, _, batches in found),
                "records/s": median(records / seconds for seconds, _, _ in found),
                "CPU s of 1000 batches": median(1e3 * spent / batches for _, spent, batches in found),
            }  # fmt: skip
