"""Stands for torch where it is not installed: classes of its names, which do what tfperf needs of them."""

import random
from typing import ClassVar

import numpy as np


class Tensor:
    """An array that is no array before it was detached, as one with a gradient."""

    def __init__(self, array, ready=False):
        self.held, self.ready, self.ndim = np.asarray(array), ready, np.ndim(array)

    def detach(self):
        return Tensor(self.held, True)

    def cpu(self):
        return self

    def numpy(self):
        assert self.ready, "Can't call numpy() on Tensor that requires grad"
        return self.held

    def __array__(self, dtype=None, copy=None):
        return self.numpy()


class IterableDataset:
    """What is gone through, and has no numbers."""

    def __iter__(self):
        raise NotImplementedError


class SequentialSampler:
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return iter(range(self.count))


class RandomSampler(SequentialSampler):
    def __iter__(self):
        return iter(random.sample(range(self.count), self.count))


class BatchSampler:
    def __init__(self, sampler, batch_size):
        self.sampler, self.batch_size = sampler, batch_size

    def __iter__(self):
        rows = list(self.sampler)
        return iter([rows[i : i + self.batch_size] for i in range(0, len(rows), self.batch_size)])


class DataLoader:
    """Makes batches in its own thread; `made` holds the settings of all loaders."""

    made: ClassVar[list[dict[str, object]]] = []

    def __init__(
        self, dataset, batch_size=1, shuffle=False, num_workers=0, collate_fn=None, batch_sampler=None, sampler=None,
        pin_memory=False, timeout=0, worker_init_fn=None, generator=None, prefetch_factor=None,
        multiprocessing_context=None, persistent_workers=False, drop_last=False,
    ):  # fmt: skip
        if not num_workers and (persistent_workers or prefetch_factor or multiprocessing_context):
            raise ValueError("persistent_workers option needs num_workers > 0")
        if batch_sampler is not None and batch_size != 1:
            raise ValueError("batch_sampler option is mutually exclusive with batch_size")
        self.made.append({key: value for key, value in locals().items() if key != "self"})
        self.dataset, self.num_workers, self.drop_last = dataset, num_workers, drop_last
        self.collate_fn, self.pin_memory, self.timeout = collate_fn or collate, pin_memory, timeout
        self.worker_init_fn, self.generator, self.prefetch_factor = worker_init_fn, generator, prefetch_factor
        self.multiprocessing_context, self.persistent_workers = multiprocessing_context, persistent_workers
        self.batch_size, self.batch_sampler, self.sampler = batch_size, batch_sampler, sampler
        if batch_sampler is not None:
            self.batch_size, self.sampler = None, batch_sampler.sampler
        elif not isinstance(dataset, IterableDataset):
            self.sampler = sampler or (RandomSampler if shuffle else SequentialSampler)(len(dataset))
            self.batch_sampler = None if batch_size is None else BatchSampler(self.sampler, batch_size)

    def __len__(self):
        if isinstance(self.dataset, IterableDataset):
            raise TypeError("object of type 'IterableDataset' has no len()")
        return len(list(self.batch_sampler or self.sampler))

    def __iter__(self):
        if isinstance(self.dataset, IterableDataset):
            items = list(self.dataset)
            rows = [items[i : i + self.batch_size] for i in range(0, len(items), self.batch_size)]
            return map(self.collate_fn, rows)
        if self.batch_sampler is None:
            return (self.dataset[i] for i in self.sampler)
        return (self.collate_fn([self.dataset[i] for i in rows]) for rows in self.batch_sampler)


def collate(items):
    """As torch's default: dicts of tensors, lists of what tuples held, texts as they are."""
    first = items[0]
    if isinstance(first, dict):
        return {key: collate([one[key] for one in items]) for key in first}
    if isinstance(first, tuple | list):
        return [collate(list(column)) for column in zip(*items, strict=True)]
    return tuple(items) if isinstance(first, str) else Tensor(np.stack([np.asarray(one) for one in items]))


for one in (DataLoader, IterableDataset, SequentialSampler, RandomSampler, BatchSampler):
    one.__module__ = "torch.utils.data"
