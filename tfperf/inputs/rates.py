"""How fast a source delivers: elements and examples a second, with intervals, after it has warmed up."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from tfperf.errors import UserError
from tfperf.measure.confidence import ConfidenceInterval, estimate_mean

BLOCKS = 20  # that the time is cut into: long enough to be independent, enough of them for a narrow interval


@dataclass(frozen=True)
class RateBlock:
    """What was delivered in a stretch of time."""

    elements: int
    examples: int
    seconds: float
    cpu_seconds: float  # of all threads of this process


@dataclass(frozen=True)
class Rate:
    """Elements and examples a second, and what of the process's CPU time each element took."""

    elements: ConfidenceInterval  # a second
    examples: ConfidenceInterval  # a second
    cpu_seconds: ConfidenceInterval  # of an element, of this process: others that make elements are not counted
    blocks: tuple[RateBlock, ...]
    first_seconds: float  # until the first element came
    passes: int  # ends of the data that were met; what begins a pass anew is part of the time


def measure_rate(
    open_pass: Callable[[], Iterator[Any]], seconds: float, *,
    count_examples: Callable[[Any], int] | None = None, warm_up: float | None = None,
) -> Rate:  # fmt: skip
    """Take elements for so long, pass after pass, and throw them away.

    open_pass: begins a pass (`open_passes` makes it of a source); called again where one ends.
    seconds: of the measurement, of which at most one element more is waited for.
    count_examples: of an element; by default the length of the first axis of its first array.
    warm_up: s before it, that are not counted: buffers fill and AUTOTUNE settles; by default a quarter of `seconds`.
    Raises: UserError where a pass has no element; what the source raises.
    """
    source = _Passes(open_pass)
    start = time.perf_counter()
    source.take()
    first = time.perf_counter() - start
    warm_end = time.perf_counter() + (seconds / 4 if warm_up is None else warm_up)
    while time.perf_counter() < warm_end:
        source.take()
    blocks = _take_blocks(source, seconds, count_examples or count_first_axis)
    return Rate(*summarise_blocks(blocks), tuple(blocks), first, source.ends)


def summarise_blocks(
    blocks: Sequence[RateBlock],
) -> tuple[ConfidenceInterval, ConfidenceInterval, ConfidenceInterval]:
    """Elements/s, examples/s, and CPU-s of an element.

    >>> steady = [RateBlock(elements=5, examples=160, seconds=0.5, cpu_seconds=0.25)] * 3
    >>> [each.value for each in summarise_blocks(steady)]
    [10.0, 320.0, 0.05]
    """
    seconds = [one.seconds for one in blocks]
    elements = [one.elements for one in blocks]
    return (
        estimate_ratio(elements, seconds),
        estimate_ratio([one.examples for one in blocks], seconds),
        estimate_ratio([one.cpu_seconds for one in blocks], elements),
    )


def estimate_ratio(tops: Sequence[float], bottoms: Sequence[float]) -> ConfidenceInterval:
    """Sum of the tops over sum of the bottoms, of pairs that are independent of each other.

    No limit of a positive ratio is below zero. Blocks differ in length, and a mean of their ratios favours short ones.

    Source: ratio estimator, Cochran 1977, Sampling Techniques, eq. 2.46, with Student's t.
    """
    ratio = float(np.sum(tops) / np.sum(bottoms))
    rests = np.subtract(tops, ratio * np.asarray(bottoms, dtype=float))
    half = estimate_mean(rests.tolist()).half
    if half is None:
        return ConfidenceInterval(ratio)
    wide = half / float(np.mean(bottoms))
    return ConfidenceInterval(ratio, max(min(0.0, ratio), ratio - wide), ratio + wide)


def open_passes(source: Any) -> Callable[[], Iterator[Any]]:
    """What begins a pass over a tf.data.Dataset, another iterable, a function that makes one, or a PyDataset.

    A PyDataset is what has `__getitem__` and `num_batches`: its batches are made here, one after the other, by this
    one thread, whatever its `workers` says. Raises: UserError for anything else.
    """
    if hasattr(source, "__getitem__") and hasattr(source, "num_batches"):
        return lambda: _iterate_batches(source)
    if hasattr(source, "__iter__"):
        return lambda: iter(source)
    if callable(source):
        return lambda: iter(source())
    raise UserError(
        f"data: got an object of type {type(source).__name__}; allowed are a tf.data.Dataset, a keras PyDataset, "
        "another iterable, or a function that returns one"
    )


def count_first_axis(element: Any) -> int:
    """Length of the first axis of the first array of an element; one where it has no axis.

    >>> count_first_axis((np.zeros((32, 7)), np.zeros(32))), count_first_axis({"x": 1.0})
    (32, 1)
    """
    while isinstance(element, dict | list | tuple) and element:
        element = next(iter(element.values() if isinstance(element, dict) else element))
    shape: Sequence[int] = getattr(element, "shape", ())
    return int(shape[0]) if len(shape) else 1


class _Passes:
    """Elements of one pass after the other."""

    def __init__(self, open_pass: Callable[[], Iterator[Any]]) -> None:
        self._open, self._iterator, self.ends = open_pass, open_pass(), 0

    def take(self) -> Any:
        for _ in range(2):
            for element in self._iterator:
                return element
            self.ends += 1
            self._iterator = self._open()
        raise UserError(
            "data: a pass has no elements, so nothing can be measured; an iterator can be gone through once"
        )


def _take_blocks(source: _Passes, seconds: float, count_examples: Callable[[Any], int]) -> list[RateBlock]:
    """Each until its time is over; where an element takes longer, each block is one element, and there are fewer."""
    blocks: list[RateBlock] = []
    end = time.perf_counter() + seconds
    while not blocks or time.perf_counter() < end:
        start, processor, elements, examples = time.perf_counter(), time.process_time(), 0, 0
        while not elements or time.perf_counter() - start < seconds / BLOCKS:
            examples += count_examples(source.take())
            elements += 1
        spent = time.perf_counter() - start, time.process_time() - processor
        blocks.append(RateBlock(elements, examples, *spent))
    return blocks


def _iterate_batches(dataset: Any) -> Iterator[Any]:
    """Batches in their order, with what Keras tells the dataset where a pass begins and ends."""
    length = dataset.num_batches
    dataset.on_epoch_begin()
    for number in count() if length is None else range(length):
        yield dataset[number]
    dataset.on_epoch_end()
