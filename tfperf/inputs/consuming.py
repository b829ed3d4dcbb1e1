"""Elements taken from a dataset and thrown away without Python, whose own time would be taken for the dataset's."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.errors import UserError
from tfperf.inputs.process_counters import ProcessCounts, read_process, subtract_readings

BLOCKS = 10  # that the time of a measurement is cut into
MANY = 1000  # elements, that take longer than to ask for them


@dataclass(frozen=True)
class ConsumedBlock:
    """Some elements in a row."""

    elements: int
    seconds: float
    cpu_seconds: float  # of all threads of this process
    ready_seconds: float = 0.0  # in which a thread of it wanted a core and had none, where that was watched


@dataclass(frozen=True)
class Consumption:
    """Blocks of a measurement, and the iterator, which still runs."""

    blocks: tuple[ConsumedBlock, ...]
    counts: ProcessCounts  # while all of them were taken
    first_seconds: float  # until the first element came: buffers fill, functions are made
    iterator: Any


@dataclass(frozen=True)
class LoopCost:
    """What taking elements costs, whatever makes them. CPU-s."""

    call: float  # of a block
    element: float

    def leave_out(self, block: ConsumedBlock) -> float:
        """The CPU time [s] of a block without it; noise may make it negative."""
        return block.cpu_seconds - self.call - block.elements * self.element


def measure_loop(seconds: float) -> LoopCost:
    """By elements that cost nothing, one and many in a call."""
    iterator = open_iterator(tf.data.Dataset.from_tensors((0,)).repeat())
    take = _make_take(iterator, {"output_types": [tf.int32], "output_shapes": [()]})
    take(1)
    one, many = (
        float(np.mean([block.cpu_seconds for block in _take_in_row(take, count, seconds / 2)])) for count in (1, MANY)
    )
    element = max(0.0, (many - one) / (MANY - 1))
    return LoopCost(max(0.0, one - element), element)


def take_elements(dataset: tf.data.Dataset, seconds: float, is_alone: bool = False) -> Consumption:
    """Take elements of a copy's dataset without end for so long, after half as long to warm up.

    is_alone: nothing of it goes on while no element is asked for; then threads are watched between blocks.
    Of slow elements at least two are taken, one of them to warm up, however long they need.
    Raises: UserError where it has no elements; what its functions raise.
    """
    iterator = open_iterator(dataset)
    take = _make_take(iterator, _list_outputs(dataset))
    try:
        start = time.perf_counter()
        take(1)
        first = time.perf_counter() - start
        count = _warm_up(take, seconds)
        before = read_process()
        blocks = tuple((_take_apart if is_alone else _take_in_row)(take, count, seconds))
        return Consumption(blocks, subtract_readings(before, read_process()), first, iterator)
    except tf.errors.OutOfRangeError as error:
        raise UserError("data: a stage of the dataset has no elements, so that nothing can be measured") from error


def open_iterator(dataset: tf.data.Dataset) -> Any:
    """A handle of an iterator, as TensorFlow's operations take it; gone when nothing holds it any more."""
    handle = tf.raw_ops.AnonymousIteratorV3(**_list_outputs(dataset))
    tf.raw_ops.MakeIterator(dataset=tf.data.experimental.to_variant(dataset), iterator=handle)
    return handle


def _list_outputs(dataset: tf.data.Dataset) -> dict[str, Any]:
    """Types and shapes of the tensors that the flat elements of a copy are, as many as its specifications."""
    return {
        "output_types": [one.dtype for one in dataset.element_spec],
        "output_shapes": [one.shape for one in dataset.element_spec],
    }


def _make_take(iterator: Any, outputs: dict[str, Any]) -> Callable[[int], None]:
    """A compiled loop, which costs some microseconds an element, where Python takes a tenth of a millisecond.

    The operation that waits for an element does so in the loop's own thread, where others hand it to one more.
    """

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)  # type: ignore[untyped-decorator]
    def loop(count: Any) -> Any:
        def take_one(done: Any) -> Any:
            element = tf.raw_ops.IteratorGetNextSync(iterator=iterator, **outputs)
            with tf.control_dependencies(element):
                return done + 1

        zero = tf.constant(0, tf.int64)
        return tf.while_loop(lambda done: done < count, take_one, [zero], parallel_iterations=1)

    loop.get_concrete_function()  # traced here, and not in the time of the first element
    return lambda count: loop(tf.constant(count, tf.int64))


def _warm_up(take: Callable[[int], None], seconds: float) -> int:
    """Half the time, by twice as many elements each time; returns how many make a block."""
    count, start = 1, time.perf_counter()
    while True:
        before = time.perf_counter()
        take(count)
        now = time.perf_counter()
        if now - start >= seconds / 2:
            return max(1, round(count * seconds / BLOCKS / (now - before)))
        if now - before < seconds / BLOCKS / 2:
            count *= 2


def _take_in_row(take: Callable[[int], None], count: int, seconds: float) -> list[ConsumedBlock]:
    """Each begins where the one before ends, since the dataset would go on between them, and fill its buffers."""
    blocks: list[ConsumedBlock] = []
    mark = start, _ = time.perf_counter(), time.process_time()
    while mark[0] - start < seconds or not blocks:
        take(count)
        now = time.perf_counter(), time.process_time()
        blocks.append(ConsumedBlock(count, now[0] - mark[0], now[1] - mark[1]))
        mark = now
    return blocks


def _take_apart(take: Callable[[int], None], count: int, seconds: float) -> list[ConsumedBlock]:
    """To look at all threads takes a millisecond, which is no part of a block."""
    blocks: list[ConsumedBlock] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds or not blocks:
        before = read_process()
        start, processor = time.perf_counter(), time.process_time()
        take(count)
        spent = time.perf_counter() - start, time.process_time() - processor
        blocks.append(ConsumedBlock(count, *spent, subtract_readings(before, read_process()).ready_seconds))
    return blocks
