"""What `tfperf predict --sample` measures, in which order, on which records."""

import math
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tfperf.arrays import AnyArray, Int64Array
from tfperf.infer.dispatch_records import Slot
from tfperf.infer.micro_batches import BatchRule
from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.sampled_records import SampledRecords, draw_groups, draw_numbers, open_sampled
from tfperf.workloads.predict.card import PredictCard
from tfperf.workloads.predict.slots import make_slots

WORKERS = (1, 2, 4, 8)  # of each device
UNITS = (1, 10, 100, 1000)  # records that are handed out at a time
HELD_BYTES = 64 * 2**20  # of a sample that is kept in memory; a larger one is read again for each pass

LEAST_BATCHES, LEAST_UNITS = 12, 4  # of each worker, for which a sample is gone through several times
EACH = 256  # neighbours that are drawn together where batches are made of neighbours

Kind = str  # batch, alone, prepare, own, workers or unit


@dataclass(frozen=True)
class SampleTask:
    """One pass. value: workers of each device, records of a unit, or the rule of batches as JSON; None for others."""

    kind: Kind
    value: Any
    replicate: int

    @property
    def words(self) -> str:
        """For people."""
        value = describe_rule(self.value) if self.kind == "batch" else self.value
        told = {
            "batch": f"batches of {value}", "alone": "one process without a queue",
            "prepare": "reading and preparing", "own": "workers as the card says",
            "workers": f"workers per device: {value}", "unit": f"units of {value} records",
        }[self.kind]  # fmt: skip
        return f"{told}, replicate {self.replicate + 1}"


def describe_rule(rule: Mapping[str, Any]) -> str:
    """Limits of a batch.

    >>> describe_rule({"records": 1, "total_length": None, "is_sorted": True})
    'single records'
    >>> describe_rule({"records": None, "total_length": 512, "is_sorted": False})
    'a length of 512 in all, unsorted'
    """
    if rule["records"] == 1:
        return "single records"
    limits = [f"{rule['records']} records"] if rule["records"] is not None else []
    limits += [f"a length of {rule['total_length']} in all"] if rule["total_length"] is not None else []
    return " and ".join(limits) + ("" if rule["is_sorted"] else ", unsorted")


def list_batch_tasks(rules: Sequence[BatchRule], replicates: int) -> Iterator[SampleTask]:
    """All rules once, then again."""
    for replicate in range(replicates):
        yield from (SampleTask("batch", asdict(rule), replicate) for rule in rules)


def list_further_tasks(card: PredictCard) -> Iterator[SampleTask]:
    """Alone, preparation, the card's workers, numbers of workers, sizes of units, in that order, for each replicate."""
    wanted = card.queue.workers_per_device
    counts = sorted({*WORKERS, *([] if wanted == "auto" else [wanted])})
    sizes = [one for one in UNITS if one == 1 or one <= card.sample.records]
    for replicate in range(card.sample.replicates):
        yield from (SampleTask(kind, None, replicate) for kind in ("alone", "prepare", "own"))
        yield from (SampleTask("workers", count, replicate) for count in counts)
        yield from (SampleTask("unit", size, replicate) for size in sizes)


def make_slots_of(card: PredictCard, workers: int) -> list[Slot]:
    """So many workers on each device of the card; where slownesses stand in for devices, on each that is listed."""
    own = make_slots(card)
    devices = tuple(dict.fromkeys(one.device for one in own))
    slowness: tuple[float, ...] = ()
    if card.queue.slowness:
        listed = len(card.queue.devices) if card.queue.devices != "auto" else len(devices)
        first = own[:: len(own) // listed]
        devices = tuple(one.device for one in first)
        slowness = tuple(one.spec.slowness for one in first for _ in range(workers))
    queue = replace(card.queue, devices=devices, workers_per_device=workers, slowness=slowness)
    return make_slots(replace(card, queue=queue))


def count_repeats(records: int, records_of_batch: float, workers: int, batches_of_unit: int = 1) -> int:
    """How often so many records are gone through, so that each worker has LEAST_BATCHES batches and LEAST_UNITS units.

    >>> count_repeats(3200, 1024, 2), count_repeats(3200, 32, 4), count_repeats(3200, 32, 4, 100)
    (8, 1, 16)
    """
    batches = max(LEAST_BATCHES, LEAST_UNITS * batches_of_unit)
    return max(1, math.ceil(batches * workers * records_of_batch / records))


def draw_windows(card: PredictCard, records: int, replicate: int) -> list[int]:
    """Two windows of all records, of which the second one is timed; the same one twice where there is only one.

    Each replicate has an equal part of all records from which it draws, since they may become longer, or dearer.
    """
    windows = -(-records // card.queue.window)
    whole = max(1, records // card.queue.window)  # the last one may be short
    replicates = card.sample.replicates
    first = min(whole - 1, whole * replicate // replicates)
    last = max(first + 1, whole * (replicate + 1) // replicates)
    timed = int(np.random.default_rng([card.seed, replicate]).integers(first, last))
    return [(timed + 1) % windows, timed]


def set_unit(rule: BatchRule, records: int, records_of_batch: float) -> tuple[BatchRule, int]:
    """Batches, and how many of them are a unit of so many records: smaller ones where the unit is smaller.

    >>> set_unit(BatchRule(records=32), 10, 32.0), set_unit(BatchRule(records=32), 100, 32.0)
    ((BatchRule(records=10, total_length=None, is_sorted=True), 1), \
(BatchRule(records=32, total_length=None, is_sorted=True), 3))
    """
    if records < records_of_batch:
        return replace(rule, records=records), 1
    return rule, max(1, round(records / records_of_batch))


@dataclass(frozen=True)
class HeldRecords:
    """Records that are in memory."""

    columns: Mapping[str, Sequence[Any]]
    ids: AnyArray

    @property
    def records(self) -> int:
        """How many they are."""
        return len(self.ids)

    def read(self, first: int, last: int) -> tuple[Mapping[str, Sequence[Any]], AnyArray]:
        """Columns and ids of some."""
        return {name: values[first:last] for name, values in self.columns.items()}, self.ids[first:last]


def draw_sample(card: PredictCard, spec: PreparerSpec, replicate: int) -> tuple[PreparerSpec, int]:
    """What a pass prepares in place of all records, and how many these are; the same whenever it is asked for."""
    reader = spec.open_reader()
    numbers = draw_records(card, reader.records, replicate)
    held = HeldRecords(*SampledRecords(reader, numbers).read(0, len(numbers)))
    if len(pickle.dumps(held)) > HELD_BYTES:
        return replace(spec, open_reader=partial(open_sampled, spec.open_reader, numbers)), len(numbers)
    return replace(spec, open_reader=partial(_give_back, held)), len(numbers)


def draw_records(card: PredictCard, records: int, replicate: int) -> Int64Array:
    """Numbers of the records of a replicate, rising: any, or groups of neighbours where batches are made of these."""
    groups = card.sample.records // EACH
    if card.queue.sort or not groups or records < 2 * groups * EACH:
        return draw_numbers(records, card.sample.records, card.seed, replicate)
    return draw_groups(records, groups, EACH, [card.seed, replicate]).ravel()


def _give_back(held: HeldRecords) -> HeldRecords:
    return held
