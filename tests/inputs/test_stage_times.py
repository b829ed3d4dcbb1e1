"""Times of stages: differences of blocks that are made by hand, and a real pipeline whose costs are known."""

import time

import numpy as np
import pytest
import tensorflow as tf

from tfperf.inputs import stage_times
from tfperf.inputs.consuming import ConsumedBlock, Consumption, LoopCost, measure_loop
from tfperf.inputs.elements import count_inputs, count_per_output
from tfperf.inputs.process_counters import ProcessCounts, ProcessReading, read_process, subtract_readings
from tfperf.inputs.stage_times import measure_stages
from tfperf.inputs.stages import read_stages
from tfperf.inputs.tuning import StageTuning
from tfperf.measure.confidence import ConfidenceInterval

CALL, LOOP = 2e-4, 1e-5


def blocks(cpu, wait, read=0, ready=0.0):
    """Ten elements in each of three blocks, with these costs of an element beside the loop's."""
    seconds = cpu + LOOP + wait + ready + CALL / 10
    one = ConsumedBlock(10, 10 * seconds, CALL + 10 * (cpu + LOOP), 10 * ready)
    return Consumption((one,) * 3, ProcessCounts(30 * read, 0, 0.0), 0.5, None)


def script(monkeypatch, prefixes):
    """Let measurements find, stage by stage, (CPU, wait, bytes, {place: elements}) of the dataset cut there."""
    runs = []
    for cpu, wait, read, elements in prefixes:
        runs += [(blocks(cpu, wait, read), elements), (blocks(cpu, wait), {})]
    waiting = list(runs)
    counted = [elements for _, elements in runs[::2]]
    monkeypatch.setattr(stage_times, "measure_loop", lambda seconds: LoopCost(CALL, LOOP))
    monkeypatch.setattr(stage_times, "take_elements", lambda *_, **__: waiting.pop(0)[0])
    monkeypatch.setattr(
        stage_times, "read_tuning",
        lambda *_: {place: StageTuning(n, None, False, None, 0, 0, 0, False) for place, n in counted.pop(0).items()},
    )  # fmt: skip


def test_stages_cost_what_their_prefix_costs_more(monkeypatch):
    dataset = tf.data.Dataset.range(9).map(lambda x: x).filter(lambda x: x > 2).batch(4)
    script(monkeypatch, [
        (0.001, 0.0, 100, {0: 5}), (0.003, 0.010, 100, {0: 5, 1: 5}), (0.010, 0.030, 300, {1: 30, 2: 10}),
        (0.045, 0.121, 1200, {2: 41, 3: 10}),
    ])  # fmt: skip
    _, times = measure_stages(dataset, 1.0, rounds=1)
    assert [one.cpu.value for one in times.stages] == pytest.approx([0.001, 0.002, 0.001, 0.005])
    assert [one.wait.value for one in times.stages] == pytest.approx([0.0, 0.010, 0.0, 0.001])
    assert [one.read_characters for one in times.stages] == pytest.approx([100, 0, 0, 0])
    assert [one.per_output for one in times.stages] == pytest.approx([12.0, 12.0, 4.0, 1.0])
    seconds = [12 * 0.001, 12 * 0.012, 4 * 0.001, 0.006]
    assert [times.get_seconds(place) for place in range(4)] == pytest.approx(seconds)
    assert times.get_share(1) == pytest.approx(seconds[1] / sum(seconds))
    assert times.rate.value == pytest.approx(1 / (0.166 + LOOP + CALL / 10)) and times.unordered_rate is None


def test_a_cache_costs_what_is_read_from_it(monkeypatch):
    dataset = tf.data.Dataset.range(9).map(lambda x: x).cache().batch(2)
    script(monkeypatch, [(0.001, 0, 0, {}), (0.101, 0, 0, {}), (0.0005, 0, 0, {}), (0.002, 0, 0, {})])
    _, times = measure_stages(dataset, 1.0, rounds=1)
    assert [one.cpu.value for one in times.stages] == pytest.approx([0.001, 0.100, 0.0005, 0.001])


def test_what_the_loop_costs_is_left_out():
    assert LoopCost(CALL, LOOP).leave_out(blocks(0.003, 0.5).blocks[0]) == pytest.approx(10 * 0.003)
    found = measure_loop(0.05)
    assert 0 < found.element < found.call  # a call from Python is more than a turn of a compiled loop


def test_what_the_machine_takes_from_a_thread_is_no_waiting():
    block = blocks(0.001, 0.002, ready=0.5).blocks[0]
    assert stage_times._compute_wait(block) == pytest.approx(10 * 0.002)
    assert stage_times._compute_wait(blocks(0.001, 0.0, ready=-0.1).blocks[0]) == pytest.approx(0.0, abs=1e-9)


def test_errors_of_differences_add_up_by_squares():
    whole, part = ConfidenceInterval(10.0, 6.0, 14.0), ConfidenceInterval(2.0, 1.0, 3.0)
    found = stage_times.subtract(whole, [(3.0, part)])
    assert found == ConfidenceInterval(4.0, -1.0, 9.0)
    assert stage_times.subtract(whole, [(1.0, ConfidenceInterval(1.0))]).low is None


def test_elements_that_nothing_tells_are_unknown():
    pipeline = read_stages(tf.data.Dataset.range(9).filter(lambda x: x > 2).batch(4))
    inputs = {place: count_inputs(pipeline, place, {}) for place in range(3)}
    assert inputs == {0: {}, 1: {0: None}, 2: {1: 4.0}}
    assert count_per_output(pipeline, inputs) == [None, 4.0, 1.0]


def test_counters_of_a_process_are_those_of_its_files(tmp_path):
    (tmp_path / "io").write_text("rchar: 70\nwchar: 1\nread_bytes: 30\n")
    for thread, text in {"1": "5 2000000000 3", "2": "gone"}.items():
        (tmp_path / "task" / thread).mkdir(parents=True)
        (tmp_path / "task" / thread / "schedstat").write_text(text)
    assert read_process(tmp_path) == ProcessReading(70, 30, {"1": 2.0})
    empty = read_process(tmp_path / "none")
    assert empty == ProcessReading(0, 0, {})
    assert subtract_readings(empty, read_process(tmp_path)) == ProcessCounts(70, 30, 2.0)


def test_a_real_pipeline_is_charged_where_it_waits_and_reads(tmp_path):
    size = 200_000
    (tmp_path / "file").write_bytes(bytes(size))
    path = str(tmp_path / "file")

    def sleep(x):
        time.sleep(0.01)
        return x

    def wait(x):
        return tf.numpy_function(sleep, [x], tf.string)

    def read(x):
        return tf.strings.length(tf.io.read_file(x))

    paths = tf.data.Dataset.from_tensors(path).repeat()
    dataset = paths.map(wait, num_parallel_calls=2, name="wait").map(read, name="read").batch(2)
    pipeline, times = measure_stages(dataset, 1.5, rounds=1)
    assert [one.label for one in pipeline.stages] == ["tensor", "repeat", "wait", "read", "batch"]
    waiting, reading = times.stages[2], times.stages[3]
    # both calls sleep at least so long, whatever else the machine does; a few elements may have been made before
    assert waiting.prefix.rate.value <= 1.3 * 2 / 0.01
    assert waiting.prefix.alone_wait.value > 0.005 > times.stages[1].prefix.alone_wait.value
    assert int(np.argmax([one.read_characters for one in times.stages])) == 3
    assert reading.prefix.read_characters == pytest.approx(size, rel=0.5)
    assert waiting.tuning is not None and waiting.tuning.parallelism == 2.0
    assert [one.per_output for one in times.stages] == [2.0, 2.0, 2.0, 2.0, 1.0]
    assert times.unordered_rate is not None
