"""Stages of a pipeline, by what each does itself."""

import pytest

from tests.trace.profiles import us, write
from tfperf.trace.planes import decode_events, read_spaces
from tfperf.trace.stages import count_busy_threads, sum_stages


def test_a_stage_takes_what_those_inside_of_it_do_not(tmp_path):
    waits = [("Iterator::Root", 0, 100), ("Iterator::Root::Prefetch", 2, 96)]
    works = [
        ("Iterator::Root::Prefetch::Map", 0, 50), ("Iterator::Root::Prefetch::Map::Batch", 10, 30),
        *(("Iterator::Root::Prefetch::Map::Batch::Slices", begin, 5) for begin in (15, 22)),
        ("Iterator::Root::Prefetch::Map", 60, 10),
    ]  # fmt: skip
    lines = {"tf_data_iterator_get_next/1": us(*waits), "tf_data_private_threadpool/2": us(*works)}
    events = decode_events(read_spaces(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})))
    found = {one.name: one.ms for one in sum_stages(events, 2)}
    assert found == pytest.approx({
        "Prefetch::Map": (20 + 10) / 2e3, "Prefetch::Map::Batch": 20 / 2e3, "Prefetch::Map::Batch::Slices": 10 / 2e3,
    })  # fmt: skip
    assert next(iter(found)) == "Prefetch::Map"  # what waits for another thread is no work


def test_functions_in_threads_of_their_own_count_for_the_stages_that_call_them(tmp_path):
    """Of both passes over the data, whose stages have numbers; beside what a stage does itself in that thread."""
    asked = [(f"Iterator::Root::Prefetch::ForeverRepeat[{i}]::MapAndBatch::Slices", 100 * i, 10) for i in (1, 2)]
    asked += [(f"Iterator::Root::Prefetch::ForeverRepeat[{i}]::MapAndBatch", 100 * i + 20, 60) for i in (1, 2)]
    works = [
        ("ExecutorState::Process", 100, 50),
        ("ExecutorState::Process", 120, 10),
        ("a/A:MatMul", 130, 5),
        ("ExecutorState::Process", 200, 40),
        ("Iterator::Root::Prefetch::ForeverRepeat[2]::MapAndBatch::Slices", 210, 8),
    ]
    steps = [("ExecutorState::Process", 0, 300)]
    lines = {
        "tf_data_iterator_resource/1": us(*asked),
        "tf_data_private_threadpool/2": us(*works),
        "tf_Compute/3": us(*steps),
    }
    events = decode_events(read_spaces(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})))
    found = {one.name: one.ms for one in sum_stages(events, 2)}
    name = "Prefetch::ForeverRepeat::MapAndBatch"
    assert found == pytest.approx({name: (50 + 40 - 8) / 2e3, f"{name}::Slices": (20 + 8) / 2e3})


def test_a_thread_that_waits_for_another_stage_is_not_at_work(tmp_path):
    """One maps for 80 us of 100, another for 40 of them; a third asks these for elements all the time."""
    lines = {
        "python": us(("train", 0, 100, {"step_num": 0})),
        "tf_data_private_threadpool/3": us(("Iterator::Root::Prefetch", 0, 100)),
        "tf_data_private_threadpool/1": us(("Iterator::Root::Prefetch::Map", 0, 80)),
        "tf_data_private_threadpool/2": us(("ExecutorState::Process", 40, 40)),
    }
    events = decode_events(read_spaces(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})))
    assert count_busy_threads(events) == pytest.approx(1.5)


def test_in_what_a_strategy_asks_for_its_devices_batches_it_waits(tmp_path):
    waits = [("Iterator::Root::Prefetch::Generator", 0, 100), ("Iterator::Root::Prefetch::FlatMap::Generator", 0, 30)]
    lines = {f"tf_data_private_threadpool/{i}": us(one) for i, one in enumerate(waits)}
    events = decode_events(read_spaces(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines})))
    assert [one.name for one in sum_stages(events, 1)] == ["Prefetch::FlatMap::Generator"]
