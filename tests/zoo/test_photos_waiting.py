"""Data that wait: how long, one after the other or not, with Python's lock or not, and the record of it."""

import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tfperf.zoo import photos_waiting
from tfperf.zoo.photos_waiting import StartTimes, Wait, WaitingSequence, load_waiting, load_waiting_sequence, wait

SHAPE = (2, 3)


def test_elements_come_once_each_as_a_dataset_and_as_a_pydataset(tmp_path):
    times = [str(tmp_path / name) for name in ("dataset", "sequence")]
    dataset = load_waiting(0.001, records=7, batch=3, shape=SHAPE, times=times[0], prefetch=1)
    sequence = load_waiting_sequence(0.001, records=7, batch=3, shape=SHAPE, times=times[1])
    assert isinstance(sequence, WaitingSequence) and len(sequence) == int(dataset.cardinality()) == 3
    batches = [(x.numpy(), y.numpy()) for x, y in dataset]
    for number, (x, y) in enumerate(batches):
        other, labels = sequence[number]
        assert other.dtype == x.dtype == np.float32 and labels.dtype == y.dtype == np.int32
        np.testing.assert_array_equal(other, x)
        np.testing.assert_array_equal(labels, y)
    assert [x.shape for x, _ in batches] == [(3, *SHAPE), (3, *SHAPE), (1, *SHAPE)]
    assert [*batches[1][1]] == [3, 4, 5] and np.all(batches[1][0][1] == np.float32(0.04))
    for path in times:
        found = StartTimes(path).read()
        assert sorted(found["index"]) == [*range(7)] and np.all(found["end"] - found["start"] >= 0.001)


def test_one_worker_makes_one_element_after_the_other(tmp_path):
    times = StartTimes(tmp_path / "times")
    start = time.perf_counter()
    for _ in load_waiting(0.005, records=6, shape=SHAPE, times=str(times.path)):
        pass
    found = times.read()
    # a map that depends on Python is one that TensorFlow does not spread over threads by itself
    assert times.count_most_at_once() == 1 and np.all(np.diff(found["start"]) >= 0.005)
    assert [*found["index"]] == [*range(6)] and start < found["start"][0] and found["end"][-1] < time.perf_counter()


def test_several_calls_wait_at_the_same_time(monkeypatch, tmp_path):
    """Each waits until all three are there: with fewer calls at once none would come back."""
    gate = threading.Barrier(3, timeout=20)

    class Meeting(Wait):
        def take(self, index):
            start = time.perf_counter()
            gate.wait()
            self.times.add(index, start, time.perf_counter())

    monkeypatch.setattr(photos_waiting, "Wait", Meeting)
    times = StartTimes(tmp_path / "times")
    for _ in load_waiting(0, records=6, shape=SHAPE, parallel_calls=3, threads=3, times=str(times.path)):
        pass
    assert times.count_most_at_once() == 3


def test_waits_with_the_lock_cannot_overlap():
    start = time.perf_counter()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: wait(0.03, holds_gil=True), range(4)))
    assert time.perf_counter() - start >= 4 * 0.03


def test_a_wait_without_the_lock_lets_others_run():
    one = threading.Thread(target=wait, args=(0.5, False))
    one.start()
    assert one.is_alive(), "this line would come after its end"
    one.join()


@pytest.mark.parametrize("holds_gil", [False, True])
def test_a_wait_takes_its_time_and_no_processor(holds_gil):
    start, used = time.perf_counter(), time.thread_time()
    wait(0.2, holds_gil)
    assert time.perf_counter() - start >= 0.2 and time.thread_time() - used < 0.1


def test_records_are_of_all_threads_and_survive_pickling(tmp_path):
    sequence = load_waiting_sequence(0, records=40, batch=2, shape=SHAPE, workers=3, times=str(tmp_path / "times"))
    assert sequence.workers == 3 and not sequence.use_multiprocessing
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(pickle.loads(pickle.dumps(sequence)).__getitem__, range(20)))
    found = sequence.pause.times.read()
    assert sorted(found["index"]) == [*range(40)] and np.all(np.diff(found["start"]) >= 0)
    sequence.pause.times.clear()
    assert len(sequence.pause.times.read()) == 0 and sequence.pause.times.count_most_at_once() == 0


def test_most_at_once_is_counted_as_by_trying_every_moment(tmp_path):
    random = np.random.default_rng(1)
    for number in range(20):
        times = StartTimes(tmp_path / str(number))
        spans = [sorted(random.integers(0, 20, 2)) for _ in range(9)]
        for index, (start, end) in enumerate(spans):
            times.add(index, start, end + 1)
        wanted = max(sum(start <= moment < end + 1 for start, end in spans) for moment in range(22))
        assert times.count_most_at_once() == wanted
