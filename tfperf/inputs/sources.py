"""Sources of batches that have no graph: what can be told of them by looking at the object."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tfperf.errors import UserError

SourceKind = Literal["arrays", "PyDataset", "DataLoader", "iterable", "function"]


@dataclass(frozen=True)
class SourceDescription:
    """What a source without stages says of itself; None: it does not say, or has no such thing."""

    kind: SourceKind
    type_name: str
    workers: int | None = None  # beside the thread that takes batches; 0: that thread makes them
    are_processes: bool | None = None  # its workers; threads otherwise, which share the interpreter's lock
    queue: int | None = None  # batches that are made ahead, of all workers together
    batches: int | None = None  # in a pass
    batch: int | None = None  # examples
    held_bytes: int | None = None  # in memory

    @property
    def has_workers(self) -> bool:
        """Whether their number can be another."""
        return self.kind in ("PyDataset", "DataLoader")


def describe_source(source: Any) -> SourceDescription:
    """The twin of `read_stages` for arrays, keras PyDataset, torch DataLoader, other iterables and functions.

    Nothing is taken from it. Raises: UserError for what gives no batches.

    >>> describe_source((np.zeros((10, 4), np.float32), np.zeros(10, np.float32)))
    SourceDescription(kind='arrays', type_name='tuple', workers=0, are_processes=None, queue=None, batches=None, \
batch=None, held_bytes=200)
    """
    name = type(source).__name__
    if find_class(source, "torch.utils.data", "DataLoader") is not None:
        return _describe_data_loader(source, name)
    if hasattr(source, "__getitem__") and hasattr(source, "num_batches"):
        return _describe_py_dataset(source, name)
    arrays = _list_arrays(source)
    if arrays is not None:
        return SourceDescription("arrays", name, workers=0, held_bytes=sum(int(one.nbytes) for one in arrays))
    if hasattr(source, "__iter__"):
        length = len(source) if hasattr(source, "__len__") else None
        return SourceDescription("iterable", name, workers=0, batches=length)
    if callable(source):
        return SourceDescription("function", name, workers=0)
    raise UserError(
        f"data: got an object of type {name}; allowed are arrays, a keras PyDataset, a torch DataLoader, another "
        "iterable, or a function that returns one"
    )


def find_class(value: Any, module: str, name: str) -> type[Any] | None:
    """The class of a module that an object is of, by name, since the package need not be there; None: it is not.

    >>> find_class(3, "builtins", "int"), find_class(3, "builtins", "str")
    (<class 'int'>, None)
    """
    return next(
        (one for one in type(value).__mro__ if one.__name__ == name and one.__module__.startswith(module)), None
    )


def _describe_data_loader(source: Any, name: str) -> SourceDescription:
    workers = int(source.num_workers)
    ahead = (source.prefetch_factor or 0) * workers
    try:
        length = len(source)
    except TypeError:  # of an IterableDataset
        length = None
    return SourceDescription(
        "DataLoader", name, workers, True if workers else None, ahead or None, length, source.batch_size
    )


def _describe_py_dataset(source: Any, name: str) -> SourceDescription:
    """Of Keras: with one worker and no processes, the thread that trains makes the batches."""
    workers, processes = int(source.workers), bool(source.use_multiprocessing)
    apart = workers > 1 or (workers > 0 and processes)
    return SourceDescription(
        "PyDataset", name, workers if apart else 0, processes if apart else None,
        int(source.max_queue_size) if apart else None, source.num_batches,
    )  # fmt: skip


def _list_arrays(source: Any) -> list[Any] | None:
    """The arrays of a tuple, a list or a dict of them; None: it is something else."""
    if isinstance(source, np.ndarray):
        return [source]
    if isinstance(source, dict | list | tuple) and source:
        parts = [_list_arrays(one) for one in (source.values() if isinstance(source, dict) else source)]
        return None if any(one is None for one in parts) else [array for one in parts for array in one or ()]
    return None
