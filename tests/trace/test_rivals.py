"""Steps that are slowed by threads that prepare their data, in profiles made and worked out by hand."""

from dataclasses import replace
from typing import Any

import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.charges import Charge, move_time
from tfperf.trace.notes import parse_notes

NOTES = parse_notes({"own": True, "optimizers": ["adam"]})
CALLS, CALL = 25, {"tf_function_call": "notTraced-nonXla"}


def test_calls_that_wait_for_a_datasets_python_wait_for_input(tmp_path):
    """Of 25 calls each needs 20 us to be started, but for 22 of them it takes 60, while a generator has its turn."""
    python: list[Any] = []
    main: list[Any] = []
    ahead: list[Any] = []
    for number in range(CALLS):
        begin, start = 200.0 * number, 20 if number % 8 == 0 else 60
        python += [("train", begin, 190, {"step_num": number}), ("step", begin, 190, CALL)]
        main += [
            ("IteratorGetNext:IteratorGetNext", begin + start, 30),
            ("a/A:MatMul", begin + start + 30, 160 - start),
        ]
        ahead += [("PyFunc:PyFunc", begin, 200)] if start == 60 else []
    without = 0.0
    for name, extra in (("without", []), ("with", ahead)):
        lines = {"python": us(*python), "main": us(*main), "tf_data_private_threadpool/1": us(*extra)}
        account = read_attribution(write(tmp_path / f"{name}.xplane.pb", {"/host:CPU": lines}), NOTES).account
        dispatch, waits = 1e3 * account.sum("dispatch"), 1e3 * account.sum("input")
        slows = 1e3 * sum(one.slows_ms for one in account.charges)
        if name == "with":
            assert slows == pytest.approx(waits - 30) and 20 < slows < 40
            assert dispatch + slows == pytest.approx(without)
        else:
            assert slows == 0
            without = dispatch


@pytest.mark.parametrize("cores, threads, waits, parts, busy, share, own", [
    (2, 2, 60, 1, 200, 1 / 3, 1 / 3),  # three threads on two processors
    (2, 1, 60, 1, 200, 0.0, 1 / 3),  # operations have one thread
    (4, 4, 60, 1, 200, 1 / 5, 0.0),
    (None, None, 60, 1, 200, 0.0, 0.0),
    (2, 2, 5, 1, 160, 0.8 / 3, 0.8 / 3),  # steps do not wait, but its thread hardly rests
    (2, 2, 5, 1, 100, 0.0, 0.0),  # neither
    (2, 2, 60, 10, 200, 0.0, 1 / 3),  # operations that one thread does
])  # fmt: skip
def test_processors_are_shared_with_a_pipeline(cores, threads, waits, parts, busy, share, own, tmp_path):
    """Calls of 200 us: so many of waiting, 100 of work in so many operations, the rest of what starts and ends them.

    busy: of each, in which the pipeline's thread is at work.
    """
    python: list[Any] = []
    main: list[Any] = []
    for number in range(CALLS):
        begin = 200.0 * number
        python += [("train", begin, 190, {"step_num": number}), ("step", begin, 190, CALL)]
        main += [("IteratorGetNext:IteratorGetNext", begin + 10, waits)]
        main += [(f"a/A{n}:MatMul", begin + 80 + 100 / parts * n, 100 / parts) for n in range(parts)]
    ahead = [("Iterator::Root::Prefetch::Map", 200 * i, busy) for i in range(CALLS)]
    lines = {"python": us(*python), "main": us(*main), "tf_data_private_threadpool/1": us(*ahead)}
    notes = replace(NOTES, cores=cores, threads=threads)
    account = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), notes).account
    assert 1e3 * account.sum("work") == pytest.approx(100 * (1 - share), rel=0.01)
    assert 1e3 * sum(one.slows_ms for one in account.list("input")) == pytest.approx(
        100 * share + (90 - waits) * own, abs=0.5
    )


@pytest.mark.parametrize("kind, held", [("PyFunc:PyFunc", True), ("map/B:Mul", False)])
def test_only_python_holds_up_the_thread_that_starts_calls(kind, held, tmp_path):
    """Each needs 20 us to be started, but for most of them it takes 60, while a pipeline's thread is at work."""
    python: list[Any] = []
    main: list[Any] = []
    for number in range(CALLS):
        begin, start = 200.0 * number, 20 if number % 8 == 0 else 60
        python += [("train", begin, 190, {"step_num": number}), ("step", begin, 190, CALL)]
        main += [("IteratorGetNext:IteratorGetNext", begin + start, 5), ("a/A:MatMul", begin + start + 5, 185 - start)]
    ahead = [(kind, 200.0 * number, 200) for number in range(CALLS) if number % 8]
    lines = {"python": us(*python), "main": us(*main), "tf_data_private_threadpool/1": us(*ahead)}
    account = read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), NOTES).account
    assert (1e3 * account.sum("dispatch") < 45) == held


def test_operations_of_an_accelerator_share_no_processors(tmp_path):
    python: list[Any] = []
    kernels: list[Any] = []
    for number in range(CALLS):
        begin = 200.0 * number
        python += [("train", begin, 190, {"step_num": number}), ("step", begin, 190, CALL),
                   ("Iterator::Root", begin + 10, 60)]  # fmt: skip
        kernels.append(("kernel", begin + 80, 100))
    ahead = [("Iterator::Root::Prefetch::Map", 0, 200 * CALLS)]
    planes = {
        "/host:CPU": {"python": us(*python), "tf_data_private_threadpool/1": us(*ahead)},
        "/device:GPU:0": {"Stream #1": us(*kernels)},
    }
    account = read_attribution(write(tmp_path / "vm.xplane.pb", planes), replace(NOTES, cores=2, threads=2)).account
    assert 1e3 * account.sum("work") == pytest.approx(100) and 1e3 * account.sum("input") > 60


def read_waiting_steps(path, busy, **notes):
    """Account of calls of 200 us, which wait for 60 and work for 100; a pipeline's thread is at work for `busy`."""
    python: list[Any] = []
    main: list[Any] = []
    for number in range(CALLS):
        begin = 200.0 * number
        python += [("train", begin, 190, {"step_num": number}), ("step", begin, 190, CALL)]
        main += [("IteratorGetNext:IteratorGetNext", begin + 10, 60), ("a/A:MatMul", begin + 80, 100)]
    ahead = [("Iterator::Root::Prefetch::Map", 200 * i, busy) for i in range(CALLS)]
    lines = {"python": us(*python), "main": us(*main), "tf_data_private_threadpool/1": us(*ahead)}
    told = replace(NOTES, cores=2, threads=2, **notes)
    return read_attribution(write(path / "vm.xplane.pb", {"/host:CPU": lines}), told).account


def test_threads_take_no_more_of_the_processors_than_they_work(tmp_path):
    account = read_waiting_steps(tmp_path, busy=8)
    assert 1e3 * sum(one.slows_ms for one in account.list("input")) == pytest.approx(8, rel=0.01)


def test_what_is_moved_is_no_more_than_what_a_cause_has_without_recording(tmp_path):
    account = read_waiting_steps(tmp_path, busy=200, recorded_ms=0.2, unrecorded_ms=0.12)
    assert all(one.slows_ms <= one.ms * (1 + 1e-9) for one in account.charges)
    assert account.sum("input") > 0.02


def test_what_recording_adds_comes_off_moved_time_in_the_same_share(tmp_path):
    shares = []
    for overhead in (0.0, 0.02):
        account = read_waiting_steps(tmp_path, busy=200, recorded_ms=0.2, unrecorded_ms=0.2 - overhead)
        assert account.overhead_left_ms == 0
        waits = account.list("input")
        shares.append(sum(one.slows_ms for one in waits) / sum(one.ms for one in waits))
    assert 0 < shares[0] < 1 and shares[1] == pytest.approx(shares[0])


def test_time_that_is_moved_takes_its_part_of_the_events_with_it():
    charges = [Charge("work", "a", 6.0, events=60.0), Charge("work", "b", 2.0, events=10.0), Charge("input", "", 1.0)]
    work, other, waits = move_time(charges, {"work": 2.0}, {"input": 1.0})
    assert (work.ms, other.ms, waits.ms, waits.slows_ms) == pytest.approx((4.5, 1.5, 3.0, 2.0))
    assert (work.events, other.events, waits.events) == pytest.approx((45.0, 7.5, 17.5))
