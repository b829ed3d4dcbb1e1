"""A keras.utils.PyDataset as a stream of batches, in an order that tfperf draws."""

import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray, Indices
from tfperf.console.stages import ShowStage
from tfperf.errors import UserError
from tfperf.sources.modules import find_folder, use_folder
from tfperf.sources.streams import BatchStream
from tfperf.sources.user_errors import find_place

DrawOrder = Callable[[int, int], Indices]  # of a pass and a number of batches


class PyDatasetStream(BatchStream):
    """Batches of a PyDataset, made by its workers ahead of time and given in order."""

    def __init__(self, dataset: keras.utils.PyDataset, draw_order: DrawOrder) -> None:
        """draw_order: the batches of a pass; not asked for a dataset without an end. Raises: UserError."""
        super().__init__()
        self._dataset, self._draw_order = dataset, draw_order
        self._length = _count_batches(dataset)
        self.element_spec = self._own_spec = _make_spec(dataset, self._length)
        self._number_begun = -1  # the last pass whose beginning the dataset was told
        self._pool: Executor | None = None
        self._folder = find_folder(type(dataset))  # whose modules its processes import
        self._fault: str | None = None
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
        batches = tf.data.Dataset.from_generator(lambda: self._make(order, skip), output_signature=self._own_spec)
        return iter(self.apply_function(batches))

    def _make(self, order: Indices | None, skip: int) -> Iterator[Any]:
        """Batches from the one at `skip` on."""
        places = map(int, order[skip:]) if order is not None else _count_from(skip)
        number = skip
        try:
            for number, batch in enumerate(self._get_batches(places), skip + 1):  # noqa: B007
                yield batch
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            self._fault = f"batch {number + 1}: {type(error).__name__}: {text} ({find_place(error)})"
            raise

    def _get_batches(self, places: Iterator[int]) -> Iterator[Any]:
        pool = self._open_pool()
        if pool is None:
            yield from (_to_batch(self._dataset[place]) for place in places)
            return
        get: Callable[[int], Any] = self._dataset.__getitem__
        if isinstance(pool, ProcessPoolExecutor):
            with nullcontext() if self._folder is None else use_folder(self._folder):
                get = partial(_get_batch, pickle.dumps(self._dataset))
        waiting: deque[Future[Any]] = deque()
        for place in places:
            waiting.append(pool.submit(get, place))
            if len(waiting) >= max(self._dataset.max_queue_size, self._dataset.workers):
                yield _to_batch(waiting.popleft().result())
        for future in waiting:
            yield _to_batch(future.result())

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

    def find_fault(self) -> str | None:
        """What making a batch raised."""
        return self._fault


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
    once, again = (keras.tree.flatten(_to_batch(dataset[0])) for _ in range(2))
    return len(once) == len(again) and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(once, again, strict=True)
    )


def _count_from(first: int) -> Iterator[int]:
    while True:
        yield first
        first += 1


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


def _to_batch(found: Any) -> Any:
    """A tuple of nests of arrays, or a dict of inputs alone; floats become floatx, as in Keras' own `fit`."""
    if isinstance(found, dict):
        return keras.tree.map_structure(_to_array, _replace_lists(found))
    data = found if isinstance(found, tuple) else tuple(found) if isinstance(found, list) else (found,)
    while len(data) > 1 and data[-1] is None:
        data = data[:-1]
    return tuple(keras.tree.map_structure(_to_array, _replace_lists(part)) for part in data)


def _replace_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _replace_lists(one) for key, one in value.items()}
    several = isinstance(value, list) and value and all(hasattr(one, "__array__") and np.ndim(one) for one in value)
    return tuple(map(_replace_lists, value)) if several or isinstance(value, tuple) else value


def _to_array(value: Any) -> AnyArray:
    array = np.asarray(value)
    return array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array


def _make_spec(dataset: keras.utils.PyDataset, length: int | None) -> Any:
    """Of all batches, from some of them: lengths that differ are unknown, those of batches always are."""
    places = [0, 1] if length is None else sorted({0, length // 2, length - 1})
    batches = [_to_batch(dataset[place]) for place in places]

    def merge(*arrays: AnyArray) -> tf.TensorSpec:
        first = arrays[0]
        if first.dtype.kind not in "biufUS" or not first.ndim:
            raise UserError(f"data: {type(dataset).__name__}: a batch holds {first.dtype} of shape {first.shape}")
        shape = [n if all(one.shape[i] == n for one in arrays) else None for i, n in enumerate(first.shape)]
        return tf.TensorSpec([None, *shape[1:]], tf.as_dtype(first.dtype) if first.dtype.kind != "U" else tf.string)

    try:
        return keras.tree.map_structure(merge, *batches)
    except (ValueError, TypeError, IndexError) as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(f"data: {type(dataset).__name__}: its batches differ in what they hold: {said}") from None
