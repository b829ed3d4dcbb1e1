"""Batches that Python code gives one after the other: generators, other iterables, functions that make them."""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import chain, islice
from typing import Any

import tensorflow as tf

from tfperf.console.stages import ShowStage
from tfperf.errors import UserError
from tfperf.sources.batches import Nest, check_batch, make_spec, to_batch
from tfperf.sources.streams import BatchStream
from tfperf.sources.user_errors import FRAME, find_place, run_user_code

LOOKED_AT = 2  # batches whose shapes tell those of all, as in Keras' own `fit`
MOST_PARTS = 3  # inputs, targets, weights


class PythonStream(BatchStream):
    """Batches that Python code makes; what it raises is told with its place."""

    def __init__(self, element_spec: Nest) -> None:
        """element_spec: of the batches as they are made."""
        super().__init__()
        self.element_spec = self._own_spec = element_spec
        self._fault: str | None = None

    def open_iterator(self, get_batches: Callable[[], Iterator[Nest]], skip: int) -> Iterator[Any]:
        """An iterator of tf.data over batches, the first of which is the one at `skip` of its pass."""
        watched = tf.data.Dataset.from_generator(
            lambda: self._watch(get_batches(), skip), output_signature=self._own_spec
        )
        return iter(self.apply_function(watched))

    def _watch(self, batches: Iterator[Nest], done: int) -> Iterator[Nest]:
        number = done
        try:
            for number, batch in enumerate(batches, done + 1):  # noqa: B007
                yield batch
        except Exception as error:
            self._fault = f"batch {number + 1}: {_describe(error)}"
            raise

    def find_fault(self) -> str | None:
        """What making a batch raised."""
        return self._fault


class IterableStream(PythonStream):
    """Batches of what can be gone through, in the order in which it gives them."""

    def __init__(self, what: str) -> None:
        """what: who gives them, for messages. Raises: UserError where the first ones are no batches."""
        self._what, self._passed = what, -1  # the last pass that was started
        self._current: Iterator[Any] = iter(())  # that pass, as tf.data gives it
        batches = self._open_pass()
        first = self._take_first(batches)
        super().__init__(make_spec(first, what))
        self._started: Iterator[Nest] | None = chain(first, batches)  # a pass of which some were looked at

    @abstractmethod
    def make_iterator(self) -> Iterator[Any]:
        """A new pass, as the user's code gives it. Raises: UserError where there is none."""

    def _open_pass(self) -> Iterator[Nest]:
        return map(to_batch, run_user_code(self.make_iterator, self._what, None))

    def _take_first(self, batches: Iterator[Nest]) -> list[Nest]:
        found: list[Nest] = []
        try:
            found += islice(batches, LOOKED_AT)
        except Exception as error:
            raise UserError(f"{self._what}: batch {len(found) + 1}: {_describe(error)}") from error
        if not found:
            raise UserError(f"{self._what}: the dataset has no batch")
        if any(isinstance(batch, tuple) and not 1 <= len(batch) <= MOST_PARTS for batch in found):
            raise UserError(
                f"{self._what}: its batches are {len(found[0])} things; must be x, (x, y) or (x, y, sample weights)"
            )
        return found

    @property
    def is_endless(self) -> bool:
        """Nobody can tell before its end."""
        return False

    def forget_begun(self) -> None:
        """Let the next pass be a new one, though some of its batches were looked at."""
        self._started = None

    def start_pass(self, number: int, skip: int, show_stage: ShowStage) -> Iterator[Any]:
        """Passes that were left out are gone through where a later one depends on them."""
        if self.replays and self.has_history:
            for passed in range(max(self._passed, 0), number):
                show_stage("resuming: going through earlier epochs of the data again", passed + 1, number)
                self._pass_over(self._current if passed == self._passed else self._take_pass(), passed)
        batches, self._passed = self._take_pass(), number
        self._current = self.open_iterator(lambda: self._take_rest(batches, skip), skip)
        return self._current

    def _pass_over(self, batches: Iterator[Any], number: int) -> None:
        try:
            deque(batches, maxlen=0)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"data: epoch {number + 1}: {self.find_fault() or _describe(error)}") from None

    def _take_pass(self) -> Iterator[Nest]:
        started, self._started = self._started, None
        return self._open_pass() if started is None else started

    def _take_rest(self, batches: Iterator[Nest], skip: int) -> Iterator[Nest]:
        deque(islice(batches, skip), maxlen=0)
        return (check_batch(batch, self._own_spec) for batch in batches)


class GeneratorStream(IterableStream):
    """A generator, which can be gone through once, another iterable, or a function that is called for each pass."""

    name, has_workers, has_history = "a Python generator", False, True
    unkept = ("a Python generator",)

    def __init__(self, source: Any, what: str) -> None:
        """source: an iterator, an iterable, or a function without arguments. Raises: UserError."""
        self._source, self._is_used_up = source, False
        super().__init__(what)

    @property
    def source(self) -> Any:
        """The generator, iterable or function."""
        return self._source

    @property
    def length(self) -> int | None:
        """Of an iterable, as it says."""
        return len(self._source) if isinstance(self._source, Sized) else None

    def set_workers(self, count: int) -> None:
        """Raises: UserError, since there is one thread, whatever is asked."""
        raise UserError(f"data: {self.name} runs in one thread, whatever number of workers is asked for")

    def make_iterator(self) -> Iterator[Any]:
        """Raises: UserError for a second pass of what can be gone through once, and for what gives no batches."""
        if isinstance(self._source, Iterator):
            if self._is_used_up:
                raise UserError(
                    f"{self._what}: its generator is used up after one pass, and another was to begin; return a "
                    "function that makes one (it is called for each pass), or train with steps_per_epoch on one "
                    "that does not end"
                )
            self._is_used_up = True
            return iter(self._source)
        found = self._source if isinstance(self._source, Iterable) else self._source()
        if not isinstance(found, Iterable) or hasattr(found, "__array__") or isinstance(found, tuple | list | dict):
            raise UserError(f"{self._what}: its function returned a {type(found).__name__}; must return an iterator")
        return iter(found)


def _describe(error: Exception) -> str:
    """What was raised, and where; of an error that tells the traceback of another process, what that one raised."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if any(map(FRAME.match, lines)):
        return f"{lines[-1].strip()[:300]} ({find_place(error)})"
    return f"{type(error).__name__}: {' '.join(' '.join(lines).split())[:300]} ({find_place(error)})"
