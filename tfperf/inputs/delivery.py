"""What a dataset delivers: digests of its first elements, and how fast they come to a step that takes its time."""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.inputs.graph_copy import copy_graph

PASSES = 2  # whose elements are compared: in the second one caches are full and shuffles go on
LEAST = 2  # elements of each pass
BEGINNINGS, BEGIN_SECONDS = 3, 3.0  # passes that are begun, in so many seconds


@dataclass(frozen=True)
class DigestLimits:
    """How much of a pass is compared: at most so many elements, and no more of them after so many seconds."""

    elements: int | None = 16  # None: all
    seconds: float = 4.0


@dataclass(frozen=True)
class ElementDigests:
    """Of the first elements of some passes: sha256 of all they hold, and of structure, types and shapes alone."""

    values: list[list[str]]
    shapes: list[list[str]]
    cardinality: int  # of a pass; below 0: endless, or not known


def digest_elements(dataset: tf.data.Dataset, limits: DigestLimits) -> ElementDigests:
    """The first elements of each pass; the second one has as many as the first, in any case.

    Raises: UserError where a pass has no element; what its functions raise.
    """
    values: list[list[str]] = []
    shapes: list[list[str]] = []
    count = None
    for _ in range(PASSES):
        found = list(_digest_pass(dataset, count, limits))
        if not found:
            raise UserError("data: a pass has no batch; is a generator used up?")
        count = len(found)
        values.append([value for value, _ in found])
        shapes.append([shape for _, shape in found])
    return ElementDigests(values, shapes, int(dataset.cardinality()))


def measure_beginning(dataset: tf.data.Dataset) -> float:
    """Seconds until a pass has its first element: the least of some passes, of a copy, so that no order goes on.

    Raises: UserError where a pass has no element; what its functions raise.
    """
    copy = copy_graph(dataset)
    passes, times, end = copy.build(), list[float](), time.perf_counter() + BEGIN_SECONDS
    while not times or (len(times) < BEGINNINGS and time.perf_counter() < end):
        began = time.perf_counter()
        if not list(islice(passes, 1)):
            raise UserError("data: a pass has no batch; is a generator used up?")
        times.append(time.perf_counter() - began)
    return min(times)


def measure_delivery(dataset: tf.data.Dataset, seconds: float, step_seconds: float) -> float:
    """Elements/s, passes one after the other, taken by a step that waits so long after each without a core.

    It stands for a device that computes beside the processor. Half as long is a warm-up, in which buffers fill.
    Raises: UserError where a pass has no element; what its functions raise.
    """
    elements = _repeat_passes(dataset)
    _take(elements, seconds / 2, step_seconds)
    start = time.perf_counter()
    return _take(elements, seconds, step_seconds) / (time.perf_counter() - start)


def _take(elements: Iterator[Any], seconds: float, step_seconds: float) -> int:
    """How many came in that time, the last of which may come later."""
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end or not count:
        next(elements)
        count += 1
        if step_seconds:
            time.sleep(step_seconds)
    return count


def _repeat_passes(dataset: tf.data.Dataset) -> Iterator[Any]:
    while True:
        passing = iter(dataset)
        first = list(islice(passing, 1))
        if not first:
            raise UserError("data: a pass has no batch; is a generator used up?")
        yield from chain(first, passing)


def _digest_pass(dataset: tf.data.Dataset, count: int | None, limits: DigestLimits) -> Iterator[tuple[str, str]]:
    end = time.perf_counter() + limits.seconds
    for number, element in enumerate(islice(dataset, limits.elements if count is None else count), 1):
        yield _digest_element(element)
        if count is None and number >= LEAST and time.perf_counter() > end:
            return


def _digest_element(element: Any) -> tuple[str, str]:
    names = tf.nest.map_structure(lambda part: type(part).__name__, element)
    parts = [np.asarray(part) for part in tf.nest.flatten(element, expand_composites=True)]
    shape = hashlib.sha256(repr((names, [(part.dtype.name, part.shape) for part in parts])).encode())
    value = shape.copy()
    for part in parts:
        # of texts an array has the addresses
        value.update(repr(part.tolist()).encode() if part.dtype == object else part.tobytes())
    return value.hexdigest(), shape.hexdigest()
