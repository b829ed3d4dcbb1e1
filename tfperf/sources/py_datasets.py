"""A keras.utils.PyDataset as a stream of batches, in an order that tfperf draws."""

import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import lru_cache, partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import keras

from tfperf.arrays import Indices
from tfperf.console.stages import ShowStage
from tfperf.errors import UserError
from tfperf.sources.batches import are_equal, make_spec, to_batch
from tfperf.sources.modules import find_folder, use_folder
from tfperf.sources.python_streams import PythonStream

DrawOrder = Callable[[int, int], Indices]  # of a pass and a number of batches


class PyDatasetStream(PythonStream):
    """Batches of a PyDataset, made by its workers ahead of time and given in order."""

    name, has_own_order = "a PyDataset", False

    def __init__(self, dataset: keras.utils.PyDataset, draw_order: DrawOrder) -> None:
        """draw_order: the batches of a pass; not asked for a dataset without an end. Raises: UserError."""
        self._dataset, self._draw_order = dataset, draw_order
        self._length = _count_batches(dataset)
        super().__init__(_make_spec(dataset, self._length))
        self._number_begun = -1  # the last pass whose beginning the dataset was told
        self._pool: Executor | None = None
        self._folder = find_folder(type(dataset))  # whose modules its processes import
        if dataset.workers > 1:
            self.unkept = (f"what {dataset.workers} workers draw by themselves (batches keep their order)",)
        elif not _is_repeatable(dataset):
            self.unkept = (
                f"what {type(dataset).__name__}.__getitem__ draws: it gave two different batches of one number",
            )

    @property
    def length(self) -> int | None:
        """As the dataset says."""
        return self._length

    @property
    def is_endless(self) -> bool:
        """As the dataset says."""
        return self._length is None

    @property
    def source(self) -> keras.utils.PyDataset:
        """The dataset."""
        return self._dataset

    def set_workers(self, count: int) -> None:
        """Its own workers: threads, or processes where it wants these."""
        self._dataset.workers = count

    def start_pass(self, number: int, skip: int, show_stage: ShowStage) -> Iterator[Any]:
        """The dataset is told of the end of each pass before, also of those that are left out."""
        for _ in range(self._number_begun + 1, number + 1):
            self._dataset.on_epoch_end()  # also before the first, as Keras does
            self._dataset.on_epoch_begin()
        self._number_begun = number
        order = None if self._length is None else self._draw_order(number, self._length)
        return self.open_iterator(
            lambda: self._get_batches(map(int, order[skip:]) if order is not None else count(skip)), skip
        )

    def _get_batches(self, places: Iterator[int]) -> Iterator[Any]:
        pool = self._open_pool()
        if pool is None:
            yield from (to_batch(self._dataset[place]) for place in places)
            return
        get: Callable[[int], Any] = self._dataset.__getitem__
        if isinstance(pool, ProcessPoolExecutor):
            with nullcontext() if self._folder is None else use_folder(self._folder):
                get = partial(_get_batch, pickle.dumps(self._dataset))
        waiting: deque[Future[Any]] = deque()
        for place in places:
            waiting.append(pool.submit(get, place))
            if len(waiting) >= max(self._dataset.max_queue_size, self._dataset.workers):
                yield to_batch(waiting.popleft().result())
        for future in waiting:
            yield to_batch(future.result())

    def _open_pool(self) -> Executor | None:
        """Kept from pass to pass: its processes import what the user's file does."""
        workers = self._dataset.workers
        if self._pool is None and self._dataset.use_multiprocessing:
            # a fork would copy TensorFlow's threads in whatever state they are
            context = get_context("spawn")
            self._pool = ProcessPoolExecutor(max(workers, 1), context, _prepare_worker, (self._folder,))
        elif self._pool is None and workers > 1:
            self._pool = ThreadPoolExecutor(workers)
        return self._pool


def _count_batches(dataset: keras.utils.PyDataset) -> int | None:
    """None where the dataset has no end. Raises: UserError where it has no batch."""
    try:
        count = dataset.num_batches
    except NotImplementedError:
        raise UserError(f"data: {type(dataset).__name__} has no __len__, which says how many batches it has") from None
    if count is not None and count < 1:
        raise UserError(f"data: {type(dataset).__name__} has {count} batches; must have one at least")
    return None if count is None else int(count)


def _is_repeatable(dataset: keras.utils.PyDataset) -> bool:
    """Whether it gives the same batch of the same number twice."""
    return are_equal(to_batch(dataset[0]), to_batch(dataset[0]))


def _prepare_worker(folder: Path | None) -> None:
    """Its own folder comes first for the modules of the dataset's file, whichever was used last."""
    if folder is not None:
        sys.path.insert(0, str(folder))


@lru_cache(maxsize=1)
def _load_dataset(content: bytes) -> keras.utils.PyDataset:
    return pickle.loads(content)


def _get_batch(content: bytes, place: int) -> Any:
    """A batch of the dataset as it was when the pass began."""
    return _load_dataset(content)[place]


def _make_spec(dataset: keras.utils.PyDataset, length: int | None) -> Any:
    """Of all batches, from some of them: lengths that differ are unknown, those of batches always are."""
    places = [0, 1] if length is None else sorted({0, length // 2, length - 1})
    return make_spec([to_batch(dataset[place]) for place in places], f"data: {type(dataset).__name__}")
