"""Passes over some records: how many a second workers, units and batches do. Rows are dropped."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from tfperf.errors import TrainingError
from tfperf.infer.dispatch_records import BatchEvent, DispatchHooks, DispatchRule, Slot
from tfperf.infer.dispatcher import Dispatcher
from tfperf.infer.micro_batches import BatchRule, cut_window
from tfperf.infer.preparer import PreparerSpec, prepare_window
from tfperf.infer.preparer_watch import PreparerWatch
from tfperf.infer.subprocesses import MessageProcess
from tfperf.infer.worker import WorkerSpec, compute_batch

TICK_SECONDS = 0.2
WARM = 2  # batches of a worker, which compile for one shape, then for all
LEAST, LEAST_OF_WORKER = 8, 2  # batches after these that tell a rate: of all workers on average, of each


@dataclass(frozen=True)
class PassResult:
    """What a pass came to. rate: records/s while all workers had work, after the first batches of each; None: there
    were too few to tell. slot_rates: of each slot while it computed."""

    rate: float | None
    slot_rates: tuple[float | None, ...]
    useful_share: float | None
    failed: int


def run_pass(
    slots: Sequence[Slot], spec: PreparerSpec, records: int, rule: DispatchRule, is_stopped: Callable[[], bool]
) -> PassResult:
    """Records through workers, which all begin at once. Raises: TrainingError where nothing runs."""
    events: list[BatchEvent] = []
    failed = [0]

    def count_failures(*given: object) -> None:
        failed[0] += len(given[4])  # type: ignore[arg-type]

    windows = -(-records // spec.window)
    hooks = DispatchHooks(count_failures, events.append, is_stopped=is_stopped)
    Dispatcher(slots, spec, rule, hooks).run(
        iter(range(windows)), windows, lambda window: np.zeros(min(spec.window, records - window * spec.window), bool)
    )
    return summarise_events(events, len(slots), failed[0])


def summarise_events(events: Sequence[BatchEvent], slots: int, failed: int = 0) -> PassResult:
    """Rates of a pass, from its batches: from when each worker had done WARM ones until the first one has no more.

    >>> events = [BatchEvent(0, at, 1.0, 5, 10.0) for at in (3.0, 6.0, *range(7, 15))]  # the first ones were slow
    >>> summarise_events(events, 1).rate
    5.0
    """
    work = [[one for one in events if one.slot == slot] for slot in range(slots)]
    steady = [mine[WARM:] for mine in work]
    if sum(map(len, steady)) < LEAST * slots or min(map(len, steady)) < LEAST_OF_WORKER:
        return PassResult(None, (None,) * slots, None, failed)
    busy = [sum(one.seconds for one in mine) for mine in steady]
    rates = tuple(sum(one.records for one in mine) / time for mine, time in zip(steady, busy, strict=True))
    begin, end = max(mine[WARM - 1].at for mine in work), min(mine[-1].at for mine in work)
    if end <= begin:
        return PassResult(None, (None,) * slots, None, failed)
    # of a batch that was begun before or ended after, what lies between
    cost = sum(one.cost * max(0.0, min(one.at, end) - max(one.at - one.seconds, begin)) / one.seconds for one in events)
    share = sum(one.records for one in events) / sum(one.cost for one in events)
    most = sum(sum(one.cost for one in mine) / time for mine, time in zip(steady, busy, strict=True))
    return PassResult(cost * share / (end - begin), rates, cost / ((end - begin) * most), failed)


@dataclass(frozen=True)
class AloneSpec:
    """What a process needs that does all by itself: reads, prepares, computes."""

    preparer: PreparerSpec
    worker: WorkerSpec
    batch: BatchRule
    seed: int


def run_alone(connection: Connection, spec: AloneSpec) -> None:
    """Say ("done", BatchEvents): batch after batch, nothing beside."""
    events: list[BatchEvent] = []
    reader, prepare, model = spec.preparer.open_reader(), spec.preparer.build_prepare(), spec.worker.load_model()
    begin = time.perf_counter()
    for window in range(-(-reader.records // spec.preparer.window)):
        first = window * spec.preparer.window
        columns, ids = reader.read(first, min(reader.records, first + spec.preparer.window))
        prepared = prepare_window(window, columns, ids, prepare)
        bad = {one.number for one in prepared.failures}
        good = [number for number in range(len(ids)) if number not in bad]
        batches = cut_window(window, prepared.lengths[good], spec.batch)
        for place in np.random.default_rng([spec.seed, window]).permutation(len(batches)):
            batch = batches[place]
            _, seconds = compute_batch(spec.worker, model, prepared.take([good[number] for number in batch.records]))
            at = time.perf_counter() - begin
            events.append(BatchEvent(0, at, max(seconds, 1e-9), len(batch.records), float(batch.padded_length)))
    connection.send(("done", events))


def measure_alone(
    slot: Slot, spec: PreparerSpec, batch: BatchRule, is_stopped: Callable[[], bool], seed: int = 0
) -> PassResult:
    """The same records in one process without a queue. Raises: TrainingError where it ends before."""
    process = MessageProcess(run_alone, AloneSpec(spec, slot.spec, batch, seed), slot.environment)
    try:
        while not process.connection.poll(TICK_SECONDS):
            if is_stopped():
                return PassResult(None, (None,), None, 0)
        _, events = process.connection.recv()
    except EOFError:
        raise TrainingError(f"queue: {slot.name}: {process.kill()}") from None
    finally:
        process.kill()
    return summarise_events(events, 1)


def measure_preparing(
    spec: PreparerSpec, windows: Sequence[int], timeout: float, is_stopped: Callable[[], bool]
) -> PassResult:
    """Records/s that one process reads and prepares, of all windows but the first, before which it begins.

    Raises: TrainingError where the source fails.
    """
    watch = PreparerWatch(spec, timeout, time.monotonic)
    records, begin, left = 0, 0.0, list(windows)
    try:
        watch.request(left.pop(0))
        while not is_stopped():
            for one in watch.receive() if watch.wait(TICK_SECONDS) else ():
                records, begin = (records + len(one.ids), begin) if begin else (0, time.perf_counter())
                if not left:
                    return PassResult(records / (time.perf_counter() - begin), (), None, 0)
                watch.request(left.pop(0))
            watch.is_late()
    finally:
        watch.stop()
    return PassResult(None, (), None, 0)
