"""torch's DataLoader as a stream, by a stand-in, and by torch itself where it is installed."""

import importlib.util

import keras
import numpy as np
import pytest

from tests.sources import fake_torch
from tfperf.errors import UserError
from tfperf.inputs.sources import describe_source
from tfperf.sources.data import open_data
from tfperf.sources.data_loaders import DataLoaderStream

HAS_TORCH = importlib.util.find_spec("torch") is not None
LIBRARIES = ["stand-in", pytest.param("torch", marks=pytest.mark.skipif(not HAS_TORCH, reason="needs torch"))]


@pytest.fixture(params=LIBRARIES)
def torch(request):
    return fake_torch if request.param == "stand-in" else importlib.import_module("torch.utils.data")


class Items:
    """Ten samples of a kind."""

    def __init__(self, kind="pair"):
        self.kind = kind

    def __len__(self):
        return 10

    def __getitem__(self, number):
        x, y = np.full((2, 3), number, np.float64), number
        if self.kind == "broken" and number == 9:
            raise ValueError("picture 9 is missing")
        if self.kind == "drawing":
            return np.random.normal(size=2), y
        found = {
            "alone": x,
            "weighed": (x, y, 0.5),
            "dict": {"a": x, "b": y},
            "nested": ({"a": x}, y),
            "text": ("t", y),
        }
        return found.get(self.kind, (x, y))


def take(stream, number):
    stream.move_to(number, 0)
    return [keras.tree.map_structure(lambda tensor: tensor.numpy(), batch) for batch in stream.iterator]


def open_items(torch, kind="pair", **settings):
    return open_loader(torch.DataLoader(Items(kind), **{"batch_size": 4, **settings}))


def open_loader(loader):
    found = open_data(loader, "data.build: file.py:f", draw_nothing)
    assert isinstance(found, DataLoaderStream)
    return found


def draw_nothing(number, count):
    raise AssertionError("a loader has its own order")


@pytest.mark.parametrize("kind", ["pair", "alone", "weighed", "dict", "nested", "text"])
def test_batches_are_those_of_the_dataset_in_keras_form(torch, kind):
    stream, samples = open_items(torch, kind), [Items(kind)[number] for number in range(10)]
    assert stream.length == 3 and stream.unkept == ()
    for _ in range(2):
        batches = take(stream, 0)
        assert [len(keras.tree.flatten(batch)[0]) for batch in batches] == [4, 4, 2]
        one_by_one = [sample if isinstance(sample, tuple | dict) else (sample,) for sample in samples]
        for place in range(len(keras.tree.flatten(batches[0]))):
            joined = np.concatenate([keras.tree.flatten(batch)[place] for batch in batches])
            want = np.array([keras.tree.flatten(sample)[place] for sample in one_by_one])
            np.testing.assert_array_equal(joined.astype(want.dtype), want)
        keras.tree.assert_same_structure(batches[0], one_by_one[0])
        assert all(one.dtype.name in ("float32", "int64", "object") for one in keras.tree.flatten(batches[0]))
        stream.begin_next()
        stream = open_items(torch, kind)


def test_passes_follow_each_other_and_a_later_one_can_be_begun_in_the_middle(torch):
    stream = open_items(torch)
    first, second = take(stream, 0), take(stream, 1)
    assert [batch[1].tolist() for batch in first] == [batch[1].tolist() for batch in second]
    stream.move_to(4, 2)
    assert [batch[1].numpy().tolist() for batch in stream.iterator] == [[8, 9]] and stream.place == (4, 2)


def test_what_is_drawn_is_told(torch):
    (said,) = open_items(torch, shuffle=True).unkept
    assert said == "the order that the DataLoader's RandomSampler draws"
    (said,) = open_items(torch, "drawing").unkept
    assert said == "what Items.__getitem__ draws: it gave two different samples of one number"


def make_numbers(torch):
    """What a worker does not do alone: each gives all of it."""
    kind = type(
        "Numbers", (torch.IterableDataset,), {"__iter__": lambda self: iter([np.ones(2) * i for i in range(5)])}
    )
    return kind()


def test_a_dataset_without_numbers_has_no_length(torch):
    stream = open_loader(torch.DataLoader(make_numbers(torch), batch_size=2))
    assert stream.length is None and stream.unkept == ("what Numbers, an IterableDataset, gives by itself",)
    assert [len(batch[0]) for batch in take(stream, 0)] == [2, 2, 1]
    assert describe_source(stream.source).kind == "DataLoader"


def test_what_is_raised_is_told_with_its_place(torch):
    stream = open_items(torch, "broken")
    stream.move_to(0, 0)
    with pytest.raises(Exception, match="picture 9"):
        list(stream.iterator)
    fault = stream.find_fault()
    assert fault is not None and fault.startswith("batch 3: ValueError: picture 9 is missing (")
    assert "test_data_loaders.py, line" in fault


def test_what_are_no_batches_is_refused(torch):
    with pytest.raises(UserError, match=r"file.py:f: a batch holds .* of shape \(\); must hold arrays"):
        open_items(torch, "pair", batch_size=None)
    loaders = torch.DataLoader(Items()), torch.DataLoader(Items())
    with pytest.raises(UserError, match="returned several datasets"):
        open_data(loaders, "f", draw_nothing)


def make_batches(items):
    return np.stack([x for x, _ in items]), np.array([y for _, y in items])


def test_other_workers_get_the_same_batches_and_settings():
    settings = {"collate_fn": make_batches, "worker_init_fn": print, "timeout": 7, "pin_memory": True}
    more = {"prefetch_factor": 3, "persistent_workers": True, "multiprocessing_context": "spawn"}
    stream = open_items(fake_torch, num_workers=2, **settings, **more)
    before = [batch[1].tolist() for batch in take(stream, 0)]
    sampler = stream.source.batch_sampler
    stream.set_workers(5)
    made = fake_torch.DataLoader.made[-1]
    assert made == {**made, **settings, **more, "num_workers": 5} and stream.source.batch_sampler is sampler
    assert [batch[1].tolist() for batch in take(stream, 1)] == before
    stream.set_workers(0)
    made = fake_torch.DataLoader.made[-1]
    assert made["num_workers"] == 0 and not made["persistent_workers"] and made["timeout"] == 7
    assert [batch[1].tolist() for batch in take(stream, 2)] == before


def test_workers_of_datasets_without_numbers_or_batches():
    stream = open_loader(fake_torch.DataLoader(make_numbers(fake_torch), batch_size=2, drop_last=True))
    stream.set_workers(3)
    assert fake_torch.DataLoader.made[-1] | {"batch_size": 2, "drop_last": True} == fake_torch.DataLoader.made[-1]
    whole = fake_torch.DataLoader([np.ones((4, 2)), np.zeros((3, 2))], batch_size=None)
    stream = open_loader(whole)
    stream.set_workers(3)
    assert [len(batch[0]) for batch in take(stream, 0)] == [4, 3]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_processes_of_torch_make_the_same_batches():
    torch = importlib.import_module("torch.utils.data")
    stream = open_items(torch, "weighed")
    before = [batch[1].tolist() for batch in take(stream, 0)]
    stream.set_workers(2)
    assert [batch[1].tolist() for batch in take(stream, 1)] == before
    broken = open_items(torch, "broken", num_workers=1)
    broken.move_to(0, 0)
    with pytest.raises(Exception, match="picture 9"):
        list(broken.iterator)
    fault = broken.find_fault()
    assert fault is not None and fault.startswith("batch 3: ValueError: picture 9 is missing (")
    assert "test_data_loaders.py, line" in fault


def test_tensors_share_their_memory(torch):
    tensors = fake_torch.Tensor if torch is fake_torch else importlib.import_module("torch").from_numpy
    held = np.ones((2, 3), np.float32)
    batch = open_loader(torch.DataLoader([tensors(held)], batch_size=None))._started
    assert batch is not None and np.shares_memory(next(batch)[0], held)
