"""Descriptions of sources without a graph; torch's loader by a class of its name, since torch need not be there."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest

from tfperf.errors import UserError
from tfperf.inputs.sources import describe_source


class Numbers(keras.utils.PyDataset):
    def __len__(self):
        return 7

    def __getitem__(self, number):
        raise AssertionError("nothing is taken")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, (0, None, None)),  # Keras makes batches in the thread that trains
        ({"workers": 3, "max_queue_size": 5}, (3, False, 5)),
        ({"workers": 1, "use_multiprocessing": True}, (1, True, 10)),
        ({"workers": 0, "use_multiprocessing": True}, (0, None, None)),
    ],
)
def test_a_py_dataset_tells_its_workers(settings, told):
    found = describe_source(Numbers(**settings))
    assert (found.kind, found.type_name, found.batches) == ("PyDataset", "Numbers", 7)
    assert (found.workers, found.are_processes, found.queue) == told


def make_loader(length, **fields):
    def count(self):
        if length is None:
            raise TypeError("object of type 'IterableDataset' has no len()")
        return length

    loader = type("DataLoader", (SimpleNamespace,), {"__len__": count, "__iter__": None})
    loader.__module__ = "torch.utils.data.dataloader"
    return type("MyLoader", (loader,), {})(**fields)


@pytest.mark.parametrize(
    ("length", "workers", "factor", "told"),
    [(9, 4, 2, (4, True, 8, 9)), (None, 0, None, (0, None, None, None))],
)
def test_a_torch_loader_tells_its_workers(length, workers, factor, told):
    found = describe_source(make_loader(length, num_workers=workers, prefetch_factor=factor, batch_size=32))
    assert (found.kind, found.batch) == ("DataLoader", 32)
    assert (found.workers, found.are_processes, found.queue, found.batches) == told


def test_arrays_tell_what_they_hold():
    found = describe_source(({"x": np.zeros((10, 3)), "y": np.zeros(10, np.int32)}, np.zeros(10, np.int8)))
    assert (found.kind, found.held_bytes) == ("arrays", 10 * 3 * 8 + 10 * 4 + 10)


def test_iterables_and_functions_are_told_apart():
    assert describe_source([1, 2]).kind == "iterable" and describe_source([1, 2]).batches == 2
    assert describe_source(iter([1])).batches is None
    assert describe_source(lambda: [1]).kind == "function"
    with pytest.raises(UserError, match="type int; allowed are arrays"):
        describe_source(3)
