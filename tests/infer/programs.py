"""Records, preparations and models for processes of their own: small, without TensorFlow."""

import os
import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from tfperf.infer.preparer import PreparerSpec
from tfperf.infer.worker import WorkerSpec

WIDTH = 4


@dataclass(frozen=True)
class Numbers:
    """Records that are lists of their own number, of lengths that vary."""

    records: int

    def read(self, first, last):
        numbers = np.arange(first, last)
        return {"number": numbers}, 10 * numbers


def measure(number):
    return 1 + number * 7919 % 13


def prepare(columns, faults):
    found = []
    for number in map(int, columns["number"]):
        fail(faults.get(number))
        found.append(np.full(measure(number), number, np.int64))
    return {"tokens": found}


def fail(how):
    if how == "raised":
        raise ValueError("a bad record")
    if how == "crashed":
        os.abort()
    if how == "hung":
        time.sleep(1000)


def make_preparer(records, window, faults=None):
    return PreparerSpec(partial(Numbers, records), partial(partial, prepare, faults=faults or {}), window)


def compute(inputs, faults, seconds, of_batch, most=None):
    tokens = inputs["tokens"]
    if most is not None and len(tokens) > most:
        raise MemoryError(f"{len(tokens)} records are too many")
    for number in map(int, tokens[:, 0]):
        fail(faults.get(number))
    time.sleep(of_batch + seconds * tokens.size)
    return {"rows": np.stack([tokens[:, 0] * k for k in range(WIDTH)], axis=1).astype(np.float32)}


def make_worker(faults=None, seconds=0.0, of_batch=0.0, slowness=1.0, most=None):
    """most: records of a batch; None: any number."""
    keywords = {"faults": faults or {}, "seconds": seconds, "of_batch": of_batch, "most": most}
    return WorkerSpec(partial(partial, compute, **keywords), slowness=slowness)


def make_truth(records):
    return np.arange(records)[:, None] * np.arange(WIDTH, dtype=np.float32)
