"""Up to where a pipeline can be run once and stored, and how fast stored elements are read."""

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfperf.inputs.pipeline import Pipeline, Stage

DRAWING = ("random", "sample_from", "sampling")  # beginnings of kinds whose elements are drawn
ORDERING = ("shuffle", "prefetch", "options", "cache")  # that change no element, so that nothing is stored behind them
MOST_BYTES, READ_SECONDS = 32_000_000, 0.2

CheckStage = Callable[[Stage], bool]


@dataclass(frozen=True)
class StorePoint:
    """The last stage behind which elements can be stored."""

    position: int
    element_bytes: int
    read_seconds: float  # of a core, for a stored element


def find_store_point(pipeline: Pipeline, can_split: CheckStage, is_same: CheckStage) -> int | None:
    """The last stage up to which no stage draws or has no end, and whose elements all have one shape.

    can_split: whether a store can be made there (`stores/split.py`). is_same: whether two passes give the same elements
    there; asked where Python is run, since a graph does not show whether that draws. None where there is no such stage
    with another before it. A shuffle draws an order alone, which is drawn for what is stored, too.
    """
    for position, stage in reversed(list(enumerate(pipeline.stages))):
        every = [pipeline.stages[one] for one in (*pipeline.list_parents(position), position)]
        is_fit = all(map(_is_repeatable, every)) and stage.inputs and stage.element_bytes and _is_made(stage)
        if is_fit and can_split(stage) and (not any(one.has_python for one in every) or is_same(stage)):
            return position
    return None


def _is_made(stage: Stage) -> bool:
    return not stage.kind.startswith(ORDERING)


def _is_repeatable(stage: Stage) -> bool:
    drawn = stage.draws or stage.kind.startswith(DRAWING)
    return not (drawn or stage.cardinality == math.inf)


def measure_store_point(pipeline: Pipeline, can_split: CheckStage, is_same: CheckStage) -> StorePoint | None:
    """The same with its bytes, and what reading records of that size costs here."""
    position = find_store_point(pipeline, can_split, is_same)
    if position is None:
        return None
    size = pipeline.stages[position].element_bytes
    assert size is not None
    return StorePoint(position, size, measure_read_seconds(size))


def measure_read_seconds(record_bytes: int) -> float:
    """CPU seconds of a record of a file that the system has in memory, read and decoded by tf.data."""
    count = max(1, MOST_BYTES // record_bytes)
    with tempfile.TemporaryDirectory(prefix="tfperf-") as folder:
        path = Path(folder) / "records"
        np.zeros(count * record_bytes, np.uint8).tofile(path)
        records = tf.data.FixedLengthRecordDataset(str(path), record_bytes)
        decoded = records.map(lambda one: tf.io.decode_raw(one, tf.uint8)).repeat().prefetch(1)
        iterator, done = iter(decoded), 0
        next(iterator)
        began, used = time.perf_counter(), time.process_time()
        while not done or time.perf_counter() < began + READ_SECONDS:
            next(iterator)
            done += 1
        return (time.process_time() - used) / done
