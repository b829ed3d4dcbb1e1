"""Replicas over several devices: each gets the bits that it would get in such a stack on one device.

Logical CPUs stand for the devices; they are fixed before TensorFlow starts, so that processes of their own train.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.runs.conftest import same_bits
from tests.train.shard_runs import AT, BROKEN, CPUS, STEPS, STOP
from tfperf.train.shards import run_parallel, split_indices
from tfperf.workloads.pdf.results import store

ROOT = Path(__file__).parents[2]


def run_trainings(folder, *trainings):
    """The folder in which a process with logical CPUs made a folder of each of these trainings."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "TFPERF_CACHE": str(folder / "cache"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-W", "error", "-m", "tests.train.shard_runs", str(folder), *trainings]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


class Found:
    """What is kept of one training."""

    def __init__(self, path):
        with np.load(path) as file:
            self.arrays = {name: file[name] for name in file.files if name != "facts"}
            self.facts = json.loads(str(file["facts"])) if "facts" in file.files else {}

    def state(self, prefix, rows=slice(None)):
        """Arrays of some replicas by name."""
        found = {k: v[rows] for k, v in self.arrays.items() if k.startswith(prefix) and v.ndim}
        assert found
        return found


def assert_same(one, other, **close):
    """The same arrays, bit for bit unless a tolerance is given."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        if close and value.dtype.kind == "f":
            np.testing.assert_allclose(value, other[name], **close, err_msg=name)
        else:
            np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    return run_trainings(tmp_path_factory.mktemp("quick"), "bits", "places", "fits")


@pytest.fixture(scope="module")
def bits(quick):
    return {path.stem: Found(path) for path in (quick / "bits").glob("*.npz")}


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    folder = run_trainings(tmp_path_factory.mktemp("resumed"), "resume")
    return {path.stem: Found(path) for path in (folder / "resume").glob("*.npz")}


@pytest.mark.slow
def test_replica_gets_the_bits_of_such_a_stack_on_one_device_through_retirement(bits, tmp_path):
    two, alone = bits["two"], Found(run_trainings(tmp_path, "alone") / "alone" / "alone.npz")
    assert len(alone.facts["sizes"]) > 1, "the stack did not shrink: the test shows less"
    assert two.facts["slots"][1:] == alone.facts["slots"]
    for prefix in ("at/10/", "at/20/", "at/30/", "at/40/", "end/", "best/"):
        assert_same(two.state(prefix, slice(4, 8)), alone.state(prefix))
    both = np.isin(alone.arrays["history/step"], two.arrays["history/step"])
    for name in ("training", "validation", "experimental", "positivity"):
        mine = two.arrays[f"history/{name}"][np.isin(two.arrays["history/step"], alone.arrays["history/step"])]
        np.testing.assert_array_equal(mine[:, 4:], alone.arrays[f"history/{name}"][both])


def test_number_of_devices_changes_no_bit_where_stacks_are_as_large(bits):
    assert_same(bits["two"].state("at/20/"), bits["four"].state("at/20/", slice(8)))


@pytest.mark.slow
def test_with_xla_too(tmp_path):
    folder = run_trainings(tmp_path, "xla") / "xla"
    two, alone = Found(folder / "two.npz"), Found(folder / "alone.npz")
    assert_same(two.state("at/20/", [2, 3]), alone.state("at/20/"))


@pytest.mark.slow
def test_number_of_devices_changes_rounding_alone(tmp_path):
    """test_any_stack.py has a smaller one."""
    folder = run_trainings(tmp_path, "exact") / "exact"
    one, three = Found(folder / "one.npz"), Found(folder / "three.npz")
    assert three.facts["slots"] == [2, 3, 3]
    for prefix in ("at/10/", "end/", "best/"):
        # rounding of 1e-16 grows in training
        assert_same(one.state(prefix), three.state(prefix), rtol=1e-9, atol=1e-9)


def test_stacks_come_to_their_end_one_by_one(bits):
    two = bits["two"]
    state, stop, steps = (two.arrays["end/stopping/state"], two.arrays["end/stopping/stop_step"], two.facts["steps"])
    assert (state == 1).all() and steps == [stop[:4].max() + 1, stop[4:].max() + 1] and steps[0] != steps[1]
    assert int(two.arrays["end/step"]) == max(steps), "the scalars are those of the last one"
    assert int(two.arrays["history/step"][-1]) == max(steps)
    assert two.facts["sizes"] == [[0, 8], [AT[0], sum(two.facts["slots"])]]


def test_broken_replica_changes_no_bit_on_any_device(bits):
    healthy, poisoned = bits["two"], bits["poisoned"]
    assert poisoned.facts["quarantined"] == 1 and healthy.facts["quarantined"] == 0
    others = np.arange(8) != BROKEN
    for prefix in ("at/10/", "at/20/", "at/30/"):
        assert_same(healthy.state(prefix, others), poisoned.state(prefix, others))


@pytest.mark.slow
def test_training_resumes_to_the_same_bits_on_as_many_devices(resumed):
    want, got = resumed["whole"], resumed["on-2"]
    assert resumed["stopped-interrupted"].facts["slots"] != [4, 4], "nothing retired before the interruption"
    assert got.facts["resumed"] == STOP and got.facts["warnings"] == []
    assert got.facts["slots"] == want.facts["slots"] and got.facts["sizes"] == want.facts["sizes"]
    for prefix in ("end/", "best/"):
        assert_same(want.state(prefix), got.state(prefix))


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 3])
def test_training_resumes_on_another_number_of_devices_with_a_warning(resumed, devices):
    want, got = resumed["whole"], resumed[f"on-{devices}"]
    assert got.facts["resumed"] == STOP and len(got.facts["slots"]) == devices
    (warning,) = got.facts["warnings"]
    assert f"spread over 2 stacks, are over {devices}" in warning
    for prefix in ("end/", "best/"):
        assert_same(want.state(prefix), got.state(prefix), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_tolerance_is_checked_and_raised_over_all_devices(tmp_path):
    folder = run_trainings(tmp_path, "tolerance") / "tolerance"
    one, two = Found(folder / "one.npz"), Found(folder / "two.npz")
    assert two.facts["slots"] == [3, 3] and two.facts["rank"] > 8
    assert [f[:2] for f in two.facts["found"]] == [f[:2] for f in one.facts["found"]]
    np.testing.assert_allclose([f[2] for f in two.facts["found"]], [f[2] for f in one.facts["found"]], rtol=1e-6)
    assert_same(one.state("end/"), two.state("end/"), rtol=1e-9, atol=1e-9)


def test_stacks_live_on_their_devices_and_step_at_the_same_time(quick):
    facts = json.loads((quick / "places" / "places.json").read_text())
    assert facts["placed"] == [[0], [1], [2]] and facts["rows"] == [[0], [1, 2], [3, 4]]
    assert facts["shards"] == 2, "two replicas need no more than two of the four devices"
    begins, ends, taken = zip(*facts["spans"], strict=True)
    assert taken == (STEPS,) * 3
    assert max(begins) < min(ends), "a call began after another one had ended"
    assert f"engine.devices: got {CPUS + 1}, but TensorFlow sees /device:CPU:0" in facts["fault"]
    assert f"allowed: all, 1 to {CPUS}" in facts["fault"]


def test_fit_on_two_devices_is_the_fit_in_two_chunks(quick):
    folder = quick / "fits"
    same_bits(folder / "devices", folder / "chunks")
    result = store.read(folder / "devices" / "results.h5")
    assert list(result.summary["engine"]["stacks"]) == ["1-8"]
    assert list(store.read(folder / "chunks" / "results.h5").summary["engine"]["stacks"]) == ["1-4", "5-8"]


def test_calls_run_at_the_same_time_and_their_errors_arrive():
    start = time.perf_counter()
    assert run_parallel([lambda: time.sleep(0.5) or 1, lambda: time.sleep(0.5) or 2]) == [1, 2]  # type: ignore[func-returns-value]
    assert time.perf_counter() - start < 0.9
    with pytest.raises(ZeroDivisionError):
        run_parallel([lambda: 1, lambda: 1 // 0])
    assert run_parallel([]) == []


@pytest.mark.parametrize(("rows", "count", "sizes"), [(8, 3, [2, 3, 3]), (5, 2, [2, 3]), (4, 4, [1] * 4), (7, 1, [7])])
def test_parts_are_cut_as_chunks_are(rows, count, sizes):
    from tfperf.workloads.replica_parts import split

    found = split_indices(np.arange(rows), count)
    assert [len(p) for p in found] == sizes and np.concatenate(found).tolist() == list(range(rows))
    assert [[p[0], p[-1] + 1] for p in found] == [[s.start, s.stop] for s in split(rows, max(sizes))]
