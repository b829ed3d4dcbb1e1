"""A torch DataLoader as a stream of batches; torch is known by the names of its classes, and need not be there."""

import sys
from collections.abc import Iterator
from typing import Any

from tfperf.inputs.sources import find_class
from tfperf.sources.batches import are_equal, to_batch
from tfperf.sources.python_streams import IterableStream

TORCH = "torch.utils.data"
# settings that a loader of other workers takes over; those of workers alone where it has some
KEPT = ("collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator")
OF_WORKERS = ("prefetch_factor", "multiprocessing_context", "persistent_workers")


def is_data_loader(value: Any) -> bool:
    """Whether an object is torch's DataLoader, or of a class of the user's that is one."""
    return find_class(value, TORCH, "DataLoader") is not None


def set_torch_seed(seed: int) -> None:
    """Give torch's own generator a seed, where the user's code has imported torch: Keras does so for its backend."""
    if (torch := sys.modules.get("torch")) is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(seed)


class DataLoaderStream(IterableStream):
    """Batches of a DataLoader, made by its own workers; their arrays share the memory of its tensors."""

    name = "a DataLoader"

    def __init__(self, loader: Any, what: str) -> None:
        """what: who gave it, for messages. Raises: UserError where its first batches are none."""
        self._loader = loader
        super().__init__(what)
        if (said := _find_unkept(loader)) is not None:
            self.unkept = (said,)

    @property
    def source(self) -> Any:
        """The loader."""
        return self._loader

    @property
    def length(self) -> int | None:
        """As it says; of an IterableDataset mostly not known."""
        try:
            return len(self._loader)
        except TypeError:
            return None

    def make_iterator(self) -> Iterator[Any]:
        """The loader's own."""
        return iter(self._loader)

    def set_workers(self, count: int) -> None:
        """Processes of its own, of a new loader of the same data."""
        self._loader = change_workers(self._loader, count)
        self.forget_begun()


def change_workers(loader: Any, count: int) -> Any:
    """A DataLoader of the same dataset, batches, order and settings with so many worker processes."""
    settings = {key: getattr(loader, key) for key in KEPT}
    if count:
        settings |= {key: getattr(loader, key, None) for key in OF_WORKERS}
    if find_class(loader.dataset, TORCH, "IterableDataset") is not None:
        settings |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    elif loader.batch_sampler is not None:
        settings["batch_sampler"] = loader.batch_sampler
    else:  # its samples are given as they are
        settings |= {"batch_size": None, "sampler": loader.sampler}
    kind = find_class(loader, TORCH, "DataLoader")
    assert kind is not None
    return kind(loader.dataset, num_workers=count, **settings)


def _find_unkept(loader: Any) -> str | None:
    """What may be another in a second pass, in words."""
    dataset, order = type(loader.dataset).__name__, type(getattr(loader, "sampler", None)).__name__
    if find_class(loader.dataset, TORCH, "IterableDataset") is not None:
        return f"what {dataset}, an IterableDataset, gives by itself"
    if order != "SequentialSampler" or type(loader.batch_sampler).__name__ not in ("BatchSampler", "NoneType"):
        return f"the order that the DataLoader's {order} draws"
    if are_equal(to_batch(loader.dataset[0]), to_batch(loader.dataset[0])):
        return None
    return f"what {dataset}.__getitem__ draws: it gave two different samples of one number"
