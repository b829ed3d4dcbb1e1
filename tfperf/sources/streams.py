"""Training data as batches in an order: of a tf.data.Dataset, pass after pass, to be gone through again by count."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import tensorflow as tf

from tfperf.console.stages import ShowStage, show_nothing
from tfperf.errors import UserError
from tfperf.inputs.settings import apply_settings
from tfperf.runcard.input_settings import InputSettings
from tfperf.sources.dataset_graph import UNORDERED, DatasetGraph


class BatchStream(ABC):
    """Batches, pass after pass. A pass is an iterator that ends, or never does.

    unkept: what of it may differ when it is gone through again, in words; empty: nothing.
    """

    name: str  # of its kind, for messages
    has_workers = True  # whether their number can be set
    has_own_order = True  # whether it says itself in which order its batches come

    element_spec: Any  # of a batch: (inputs,), (inputs, targets) or (inputs, targets, weights), nests of TensorSpec
    unkept: Sequence[str] = ()
    has_history = False  # whether a pass depends on those before it
    replays = True  # whether passes that are left out are gone through where a later one depends on them

    def __init__(self) -> None:
        self._number, self._done = -1, 0  # the pass that is open, and batches that were taken of it
        self._open: Iterator[Any] = iter(())
        self._function: Callable[..., Any] | None = None
        self._first: list[Any] = []  # batches that were looked at before they were taken
        self._rest: Iterator[Any] | None = None  # what follows them

    @property
    @abstractmethod
    def length(self) -> int | None:
        """Batches of a pass; None where that is not known before its end."""

    @property
    @abstractmethod
    def is_endless(self) -> bool:
        """Whether a pass never ends."""

    @abstractmethod
    def start_pass(self, number: int, skip: int, show_stage: ShowStage) -> Iterator[Any]:
        """An iterator of tf.data over a pass from its batch `skip` on. Numbers are asked for in ascending order."""

    @property
    @abstractmethod
    def source(self) -> Any:
        """What makes the batches, for who measures it: a tf.data.Dataset of a pass, or what the user gave."""

    @abstractmethod
    def set_workers(self, count: int) -> None:
        """Let so many threads, or workers of its own, make the batches of passes that begin from now on.

        Raises: UserError where it has no workers.
        """

    def find_fault(self) -> str | None:
        """After a batch could not be made: why, where the stream knows more than TensorFlow's error says."""
        return None

    def apply_to_batches(self, function: Callable[..., Any], element_spec: Any) -> None:
        """Let a function change each batch before it is given; element_spec: of what it returns."""
        self._function, self.element_spec = function, element_spec

    def apply_function(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """The batches of a pass as they are given."""
        return dataset if self._function is None else dataset.map(self._function)

    def read_first(self, count: int) -> list[Any]:
        """The first batches, as many as there are of `count`, which the first pass will give again.

        Raises: UserError where there is none, or where the data fail and the stream knows why.
        """
        if self._number < 0:
            self._number, self._rest = 0, self.start_pass(0, 0, show_nothing)
        if len(self._first) < count and self._rest is not None and not self._done:
            self._first += self._read(self._rest, count - len(self._first))
            if not self._first:
                raise UserError("the dataset has no batch")
            self._open = iter(self.repeat(self._first))
        return self._first[:count]

    def _read(self, rest: Iterator[Any], count: int) -> list[Any]:
        try:
            return list(islice(rest, count))
        except tf.errors.OpError:
            if (fault := self.find_fault()) is not None:
                raise UserError(f"data: {fault}") from None
            raise

    def repeat(self, batches: Sequence[Any]) -> tf.data.Dataset:
        """A dataset of batches in memory, whose iterators can stand for those of the stream."""
        signature = self.element_spec
        found = tf.data.Dataset.from_generator(lambda: batches, output_signature=signature).cache()
        for _ in found:
            pass  # a cache that is full is read without Python
        return found

    def move_to(self, number: int, done: int, show_stage: ShowStage = show_nothing) -> None:
        """Be where `done` batches of pass `number` were taken. Only forward; the same place costs nothing."""
        if (number, done) == (self._number, self._done):
            return
        if number == self._number == 0 and self._rest is not None:
            for _ in range(done - self._done):
                self._take_one()
        else:
            self._open, self._rest = self.start_pass(number, done, show_stage), None
        self._number, self._done = number, done

    def _take_one(self) -> None:
        try:
            next(self._open)
        except StopIteration:
            if self._rest is None:
                return
            self._open, self._rest = self._rest, None
            next(self._open, None)

    @property
    def iterator(self) -> Iterator[Any]:
        """What the next batches are to be taken from; when it has no more, `open_next` tells whether others follow."""
        return self._open

    def count(self, batches: int) -> None:
        """Told how many batches were taken from the iterator."""
        self._done += batches

    def open_next(self) -> bool:
        """After the iterator has ended: whether the pass goes on in another one."""
        if self._rest is None:
            return False
        self._open, self._rest = self._rest, None
        return True

    @property
    def place(self) -> tuple[int, int]:
        """The pass, and how many of its batches were taken."""
        return max(self._number, 0), self._done

    def begin_next(self) -> None:
        """Begin the pass after this one."""
        self.move_to(self._number + 1, 0)


class DatasetStream(BatchStream):
    """A tf.data.Dataset of batches: each pass is an iterator of it, as in Keras' own `fit`."""

    name = "a tf.data.Dataset"

    def __init__(self, dataset: tf.data.Dataset, pipeline: tf.data.Dataset | None = None) -> None:
        """dataset: its elements are batches, x, (x, y) or (x, y, weights); pipeline: what tells of its stages, of a
        dataset that is made of a graph."""
        super().__init__()
        self._dataset = dataset
        self.element_spec = dataset.element_spec
        graph = DatasetGraph(dataset if pipeline is None else pipeline)
        self.has_history, self.unkept = graph.has_history, graph.list_unkept()
        self._passed = -1  # the last pass that an iterator was made for
        self._current: Iterator[Any] = iter(())  # that iterator

    @property
    def length(self) -> int | None:
        """As tf.data knows it."""
        count = int(self._dataset.cardinality())
        return count if count >= 0 else None

    @property
    def is_endless(self) -> bool:
        """As tf.data knows it."""
        return bool(self._dataset.cardinality() == tf.data.INFINITE_CARDINALITY)

    @property
    def source(self) -> tf.data.Dataset:
        """The dataset."""
        return self._dataset

    def set_workers(self, count: int) -> None:
        """Threads of the dataset's own pool."""
        self._dataset = limit_threads(self._dataset, count)

    def apply_to_batches(self, function: Callable[..., Any], element_spec: Any) -> None:
        """The dataset's own `map`."""
        self._dataset = self._dataset.map(function)
        self.element_spec = self._dataset.element_spec

    def apply_settings(self, settings: InputSettings) -> None:
        """Make the batches in another way. Raises: CardError where a setting does not fit the dataset."""
        self._dataset = apply_settings(self._dataset, settings)
        if settings.ordered is False and UNORDERED not in self.unkept:
            self.has_history, self.unkept = True, (*self.unkept, UNORDERED)

    def start_pass(self, number: int, skip: int, show_stage: ShowStage) -> Iterator[Any]:
        """Passes that were left out are gone through where a later one depends on them."""
        if self.replays and self.has_history:
            for passed in range(max(self._passed, 0), number):
                if passed == self._passed:
                    deque(self._current, maxlen=0)  # what is left of it, which is nothing but for a resumed run
                    continue
                show_stage("resuming: going through earlier epochs of the data again", passed + 1, number)
                deque(self._dataset, maxlen=0)
        self._passed, self._current = number, iter(self._dataset)
        deque(islice(self._current, skip), maxlen=0)
        return self._current


def limit_threads(dataset: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """With a pool of its own of so many threads, in which the functions of its stages run."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = count
    return dataset.with_options(options)
