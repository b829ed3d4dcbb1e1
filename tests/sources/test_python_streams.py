"""Generators, iterables and functions that make them, as streams of batches."""

import numpy as np
import pytest
import tensorflow as tf

from tfperf.errors import UserCodeError, UserError
from tfperf.inputs.problems import find_source_problems
from tfperf.inputs.sources import describe_source
from tfperf.sources.data import open_data
from tfperf.sources.python_streams import GeneratorStream
from tfperf.workloads.keras.inputs import keep_order

BATCHES = [(np.full((size, 2), number, np.float64), np.arange(size)) for number, size in enumerate((3, 3, 3, 1))]


class Batches:
    """An iterable that gives a new iterator for each pass."""

    def __iter__(self):
        return iter(BATCHES)

    def __len__(self):
        return len(BATCHES)


def open_stream(source):
    found = open_data(source, "data.build: file.py:f", keep_order)
    assert isinstance(found, GeneratorStream)
    return found


def take(stream, number):
    stream.move_to(number, 0)
    return [batch[0].numpy()[0, 0] for batch in stream.iterator]


@pytest.mark.parametrize("source", [Batches(), lambda: iter(BATCHES), Batches])
def test_a_new_pass_is_made_each_time(source):
    stream = open_stream(source)
    assert [take(stream, number) for number in range(3)] == [[0, 1, 2, 3]] * 3
    assert stream.length == (4 if isinstance(source, Batches) else None) and stream.unkept == ("a Python generator",)
    assert stream.element_spec == (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None], tf.int64))


def test_a_generator_ends_with_its_first_pass():
    stream = open_stream(one for one in BATCHES)
    assert len(stream.read_first(3)) == 3 and stream.place == (0, 0)
    assert take(stream, 0) == [0, 1, 2]
    assert stream.open_next() and [batch[0].numpy()[0, 0] for batch in stream.iterator] == [3]
    with pytest.raises(UserError, match=r"file.py:f: its generator is used up after one pass, .* return a function"):
        stream.begin_next()


def test_a_pass_is_asked_for_once_and_no_batch_is_lost():
    calls = []

    def make():
        calls.append(len(calls))
        return iter(BATCHES)

    stream = open_stream(make)
    assert take(stream, 0) == [0, 1, 2, 3] and calls == [0]
    assert take(stream, 1) == [0, 1, 2, 3] and calls == [0, 1]


def test_what_went_before_is_gone_through_again():
    """Each pass counts on from where the one before ended."""

    def make():
        state = {"at": 0}

        def count():
            for _ in range(3):
                state["at"] += 1
                yield (np.full((2, 1), state["at"]),)

        return count

    whole = open_stream(make())
    passes = [take(whole, number) for number in range(3)]
    assert passes == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    later = open_stream(make())
    later.read_first(1)
    later.move_to(2, 1)
    assert [batch[0].numpy()[0, 0] for batch in later.iterator] == [8, 9]


def test_one_thread_makes_all_batches():
    stream = open_stream(Batches())
    assert not stream.has_workers and not describe_source(stream.source).has_workers
    assert [one.kind for one in find_source_problems(describe_source(stream.source))] == ["python_generator"]
    with pytest.raises(UserError, match="a Python generator runs in one thread, whatever number of workers"):
        stream.set_workers(2)


def fail_later():
    yield from BATCHES[:3]
    raise ValueError("page 3 is missing")


def test_faults_of_the_users_code_are_told_with_their_place():
    stream = open_stream(fail_later)
    stream.move_to(0, 0)
    with pytest.raises(tf.errors.OpError):
        list(stream.iterator)
    fault = stream.find_fault()
    assert fault is not None and fault.startswith("batch 4: ValueError: page 3 is missing (")
    assert f"test_python_streams.py, line {fail_later.__code__.co_firstlineno + 2})" in fault
    with pytest.raises(UserError, match="data: epoch 1: ValueError: page 3 is missing"):
        open_stream(fail_later).move_to(1, 0)


def raise_at_once():
    raise OSError("no such folder")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (iter([]), "file.py:f: the dataset has no batch"),
        (lambda: 3, "file.py:f: its function returned a int; must return an iterator"),
        (lambda: (np.ones(3), np.ones(3)), "file.py:f: its function returned a tuple; must return an iterator"),
        (iter([np.float32(3)]), r"a batch holds float32 of shape \(\); must hold arrays of numbers or texts whose"),
        (iter([(np.ones(2),) * 4]), r"its batches are 4 things; must be x, \(x, y\) or"),
        (iter([(np.ones(2),), (np.ones(2),) * 2]), "file.py:f: its batches differ in what they hold"),
        (map(lambda x: 1 / x, [0]), "file.py:f: batch 1: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_what_are_no_batches_is_refused(source, said):
    with pytest.raises(UserError, match=said):
        open_stream(source)


def test_a_function_that_fails_is_told_with_its_traceback():
    with pytest.raises(UserCodeError, match=r"file.py:f: raised OSError"):
        open_stream(raise_at_once)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ((np.ones((3, 5)), np.ones(3, int)), r"float32 of shape \(3, 5\), where the first batches hold float32 of"),
        ((np.ones((3, 2)), np.ones(3, "int32")), r"int32 of shape \(3,\), where the first batches hold int64 of"),
        ((np.ones((3, 2)),), "it holds an array, where the first batches hold 2 things"),
        ({"x": np.ones(2)}, "it holds a dict of x, where the first batches hold 2 things"),
    ],
)
def test_a_later_batch_of_another_kind_is_told(odd, said):
    stream = open_stream(iter([*BATCHES, odd]))
    stream.move_to(0, 0)
    with pytest.raises(tf.errors.OpError):
        list(stream.iterator)
    with pytest.raises(AssertionError, match=rf"batch 5: ValueError: .*{said}"):
        raise AssertionError(stream.find_fault())


def test_lengths_that_differ_in_the_first_batches_may_differ_in_all():
    stream = open_stream(iter([(np.ones((2, 4)),), (np.ones((2, 6)),), (np.ones((1, 9)),)]))
    stream.move_to(0, 0)
    assert [batch[0].shape.as_list() for batch in stream.iterator] == [[2, 4], [2, 6], [1, 9]]
