"""What devices that share a step do in it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.device_rows import group_devices, make_key
from tfperf.trace.device_waits import make_waits_record
from tfperf.trace.notes import parse_notes

STEPS = 8
MARK = {"step_num": 0}


def read(path, lines, cores=None, planes=None):
    """A profile of STEPS steps of 1000 us; lines: {thread: events of one step}."""
    python = [("train", 1000 * i, 1000, MARK) for i in range(STEPS)]
    every = {name: us(*repeat(events)) for name, events in lines.items()}
    planes = {
        device: {"Stream #1": us(*repeat(events))} for device, events in (planes or {}).items()
    }  # fmt: skip
    told = parse_notes({"own": True, "optimizers": ["adam"], "cores": cores})
    host = {"/host:CPU": {"p": us(*python), **every}}
    return read_attribution(write(path / "vm.xplane.pb", host | planes), told)


def repeat(events):
    return [(name, 1000 * i + begin, *rest) for i in range(STEPS) for name, begin, *rest in events]


def get_ms(waits, key):
    return [float(np.median(getattr(one, key))) for one in waits.devices]


def test_towers_wait_for_the_end_of_the_last_and_merge_together(tmp_path):
    """Device 0 works 0 to 200, device 1 0 to 500, the merge takes 100 more; a read ahead of it is no end."""
    main = [("dense/A:MatMul", 0, 200), ("AddN:AddN", 500, 100), ("update_0/Assign:AssignAddVariableOp", 600, 50)]
    pool = [("replica_1/dense/A:MatMul", 0, 500), ("update_1/Assign:AssignAddVariableOp", 650, 60),
            ("replica_1/Sum:Sum", 710, 1)]  # fmt: skip
    (waits,) = read(tmp_path, {"m": main, "n": pool}, cores=2).device_waits
    assert [one.device for one in waits.devices] == ["CPU", "CPU replica_1"] and not waits.collectives
    assert get_ms(waits, "work") == pytest.approx([0.25, 0.561])
    assert get_ms(waits, "wait") == pytest.approx([0.3, 0])
    assert get_ms(waits, "communication") == pytest.approx([0.1, 0.1])
    assert [one.last for one in waits.devices] == [0, 1] and waits.straggler.device == "CPU replica_1"


def test_explicit_towers_have_a_merge_of_their_own(tmp_path):
    lines = {f"t{i}": [(f"tower_{i}/dense/A:MatMul", 0, 100 + 50 * i)] for i in range(3)}
    (waits,) = read(tmp_path, lines | {"m": [("Mean:Mean", 200, 40)]}, cores=4).device_waits
    assert get_ms(waits, "wait") == pytest.approx([0.1, 0.05, 0])
    assert get_ms(waits, "communication") == pytest.approx([0.04] * 3)


def test_kernels_of_a_collective_wait_for_the_last_to_arrive(tmp_path):
    """They begin at 300 and 700, and end at 800: 400 of the first are waiting, 100 communication."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
    planes = {
        f"/device:GPU:{i}": [
            ("sgemm", 0, end, {"tf_op": "dense/MatMul:MatMul"}), (name, end, 800 - end),
            ("gemm", 250, 100, {"tf_op": "gradient_tape/dense/MatMul:MatMul"}),
        ]
        for i, end in enumerate((300, 700))
    }  # fmt: skip
    (waits,) = read(tmp_path, {}, planes=planes).device_waits
    assert [one.device for one in waits.devices] == ["GPU:0", "GPU:1"] and waits.collectives and not waits.turns
    assert get_ms(waits, "wait") == pytest.approx([0.35, 0])  # it works until 350
    assert get_ms(waits, "communication") == pytest.approx([0.1, 0.1])
    assert get_ms(waits, "work") == pytest.approx([0.35, 0.7])


def test_where_devices_wait_equally_long_none_is_last(tmp_path):
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
    work = [("sgemm", 0, 500, {"tf_op": "dense/MatMul:MatMul"}), (name, 500, 200)]
    (waits,) = read(tmp_path, {}, planes={f"/device:GPU:{i}": work for i in range(2)}).device_waits
    assert [one.last for one in waits.devices] == [0, 0] and waits.straggler is None


def test_collectives_of_a_processor_are_matched_by_key(tmp_path):
    """Two at once; of each the numbers of names are in the order of devices."""
    key = [{"instance_key": i} for i in (7, 8)]
    main = [("dense/A:MatMul", 0, 400), ("adam/CollectiveReduceV2:CollectiveReduceV2", 400, 100, key[0]),
            ("adam/CollectiveReduceV2_2:CollectiveReduceV2", 500, 50, key[1])]  # fmt: skip
    pool = [("replica_1/dense/A:MatMul", 0, 100), ("adam/CollectiveReduceV2_1:CollectiveReduceV2", 100, 400, key[0]),
            ("adam/CollectiveReduceV2_3:CollectiveReduceV2", 500, 50, key[1])]  # fmt: skip
    (waits,) = read(tmp_path, {"m": main, "n": pool}, cores=2).device_waits
    assert waits.collectives and get_ms(waits, "wait") == pytest.approx([0, 0.3])
    assert get_ms(waits, "communication") == pytest.approx([0.15, 0.15]) and waits.straggler.device == "CPU"


@pytest.mark.parametrize("cores, threads", [(1, "mn"), (2, "mm")])
def test_devices_that_take_turns_wait_for_cores_and_accuse_nobody(tmp_path, cores, threads):
    first, second = ("dense/A:MatMul", 0, 400), ("replica_1/dense/A:MatMul", 400, 400)
    lines = {threads[0]: [first]}
    lines.setdefault(threads[1], []).append(second)
    (waits,) = read(tmp_path, lines, cores=cores).device_waits
    assert waits.turns and waits.straggler is None and get_ms(waits, "wait") == pytest.approx([0.4, 0])
    record = make_waits_record(waits)
    assert record["turns"] and record["devices"][0]["wait_ms"] == pytest.approx(0.4) and record["straggler"] is None


def test_one_device_waits_for_none(tmp_path):
    assert read(tmp_path, {"m": [("dense/A:MatMul", 0, 400)]}).device_waits == ()


def test_names_without_devices_are_the_same_on_all():
    assert make_key("StatefulPartitionedCall/gradient_tape/replica_2/dense_1/MatMul/MatMul_1:MatMul") == (
        "StatefulPartitionedCall/gradient_tape/dense_1/MatMul/MatMul:MatMul"
    )
    assert make_key("fusion.3") == "fusion.3" and make_key("replica_1:Mul") == "replica_1:Mul"


def test_devices_are_grouped_by_host_in_the_order_of_their_numbers():
    names = ["a GPU:10", "a GPU:2", "b GPU:0", "CPU"]
    assert [group.members for group in group_devices(names)] == [("a GPU:2", "a GPU:10")]


LIVE = """
import sys
import keras, numpy as np, tensorflow as tf
from tfperf.trace.callback import ProfileCallback
tf.config.threading.set_inter_op_parallelism_threads(2)
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(512, "relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
x = np.ones((640, 64), np.float32)
model.fit(x, x[:, :1], batch_size=64, epochs=2, verbose=0, callbacks=[ProfileCallback(sys.argv[1], steps=6, skip=4)])
"""


@pytest.mark.slow
def test_a_strategy_names_its_devices_collectives_and_allocations_as_they_are_read(tmp_path):
    environment = os.environ | {"TF_CPU_ALLOCATOR_USE_BFC": "true"}
    for attempt in range(3):  # the profiler may write to freed memory where there are collectives
        logs = tmp_path / str(attempt)
        if not subprocess.run([sys.executable, "-c", LIVE, str(logs)], env=environment, capture_output=True).returncode:
            break
    found = read_attribution(logs)
    (waits,) = found.device_waits
    assert waits.collectives and [one.device for one in waits.devices] == ["CPU", "CPU replica_1"]
    assert all((one.work > 0).all() and (one.communication + one.wait > 0).all() for one in waits.devices)
    assert {"forward", "backward"} <= {peak.phase for peak in found.memory_peaks}
    assert all(0.1 < peak.mbyte < 100 and peak.operation for peak in found.memory_peaks if peak.phase == "forward")
