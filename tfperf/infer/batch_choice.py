"""How many records go through the model at once: what is fastest of what was tried, single records among it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfperf.errors import TrainingError
from tfperf.infer.launchers import WorkerProcess
from tfperf.infer.leases import BatchTask
from tfperf.infer.micro_batches import BatchRule, MicroBatch, cut_window
from tfperf.infer.prepared import PreparedWindow

GROWTH = 4  # from one size to the next
MOST_RECORDS, MOST_LENGTH = 1024, 65_536
BETTER = 1.05  # times as fast as a smaller size, that a larger one must be


@dataclass(frozen=True)
class MeasuredRule:
    """Records a second of one worker with batches of such a rule."""

    rule: BatchRule
    rate: float


def list_rules(window: PreparedWindow, is_sorted: bool) -> list[BatchRule]:
    """What is tried for such records: one by one, then ever larger budgets."""
    found = [BatchRule(records=1, is_sorted=is_sorted)]
    typical = float(np.mean(window.lengths))
    if window.lengths.max() == 1:
        size = GROWTH
        while size <= MOST_RECORDS:
            found.append(BatchRule(records=size, is_sorted=is_sorted))
            size *= GROWTH
        return found
    length = 2 ** int(np.ceil(np.log2(2 * typical)))
    while length <= MOST_LENGTH:
        found.append(BatchRule(total_length=length, is_sorted=is_sorted))
        length *= GROWTH
    return found


def measure_rule(worker: WorkerProcess, window: PreparedWindow, rule: BatchRule, seconds: float) -> MeasuredRule:
    """Batches of all lengths, from the longest to the shortest, for so many seconds after a first pass over some.

    Raises: TrainingError where the model fails.
    """
    good = [number for number in range(len(window.lengths)) if number not in {one.number for one in window.failures}]
    cut = cut_window(window.window, window.lengths[good], rule)
    batches = [MicroBatch(one.window, one.place, tuple(good[n] for n in one.records), one.longest) for one in cut]
    spent, records = 0.0, 0
    for place in [0, len(batches) - 1]:  # both ends compile what there is to compile
        run_batch(worker, window, batches[place])
    for place in _spread(len(batches)):
        spent += run_batch(worker, window, batches[place])
        records += len(batches[place].records)
        if spent >= seconds:
            break
    return MeasuredRule(rule, records / spent)


def run_batch(worker: WorkerProcess, window: PreparedWindow, batch: MicroBatch) -> float:
    """Seconds that a worker takes for one. Raises: TrainingError where it fails."""
    worker.send([(BatchTask(batch), window.take(batch.records))])
    while True:
        kind, *rest = worker.connection.recv()
        if kind == "rows":
            return max(float(rest[3]), 1e-9)
        if kind == "raised":
            raise TrainingError(f"model: a batch of {len(batch.records)} records: {rest[2]}")


def choose_rule(found: Sequence[MeasuredRule]) -> BatchRule:
    """The smallest that no other beats by more than BETTER."""
    best = max(one.rate for one in found)
    return next(one.rule for one in found if one.rate * BETTER >= best)


def _spread(count: int) -> Sequence[int]:
    """All numbers below `count`, so that the first ones are spread over all.

    >>> list(_spread(6))
    [0, 5, 4, 2, 1, 3]
    """
    order = dict.fromkeys([0, count - 1])
    step = 1 << count.bit_length()
    while step:
        order.update(dict.fromkeys(range(0, count, step)))
        step //= 2
    return list(order)
