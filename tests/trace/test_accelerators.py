"""Profiles of GPUs, made by hand as TensorFlow's CUPTI collector writes them: streams, kernels, copies."""

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import attribute_path
from tfperf.trace.notes import checked
from tfperf.trace.phases import PHASES

MARK = {"step_num": 0}
NOTES = checked({"own": True, "optimizers": ["adam"]})


def of(found, device, phase):
    return found.busy[device][:, PHASES.index(phase)].round(9).tolist()


@pytest.fixture
def found(tmp_path):
    """Two steps of 100 us, on two streams of one GPU."""
    compute, copies, host = [], [], []
    for begin in (0, 100):
        compute += [
            ("volta_sgemm_128x64_tn", begin + 10, 30, {"tf_op": "dense/MatMul:MatMul"}),
            ("volta_sgemm_128x64_nt", begin + 40, 20, {"tf_op": "gradient_tape/dense/MatMul:MatMul"}),
            ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", begin + 60, 10),
            ("update_kernel", begin + 70, 4, {"tf_op": "adam/Mul:Mul"}),
            ("nobody_knows", begin + 76, 4),
        ]
        copies += [
            ("MemcpyH2D", begin + 2, 8, {"memcpy_details": "kind_src:pageable size:4000 dest:0 async:1"}),
            ("MemcpyD2H", begin + 80, 4, {"memcpy_details": "size:1000 dest:0 async:1"}),
        ]  # fmt: skip
        host.append(("train", begin, 95, MARK))
    planes = {
        "/host:CPU": {"python": us(*host)},
        "/device:GPU:0": {
            "Stream #13(compute)": us(*compute), "Stream #14(copies)": us(*copies),
            # what viewers add must not count twice
            "TensorFlow Ops": us(("dense/MatMul:MatMul", 10, 90)), "Steps": us(("0", 0, 100)),
        },
    }  # fmt: skip
    return attribute_path(write(tmp_path / "vm.xplane.pb", planes), NOTES)


def test_kernels_belong_to_what_launched_them(found):
    assert set(found.busy) == {"GPU:0"}
    want = {"forward": 0.03, "backward": 0.02, "merge": 0.01, "update": 0.004, "transfer": 0.012, "other": 0.004}
    for phase in PHASES:
        assert of(found, "GPU:0", phase) == [want.get(phase, 0)] * 2, phase
    # 2 to 74 without a hole, 4 of what nobody knows, 4 of a copy
    np.testing.assert_allclose(found.any["GPU:0"], [0.08] * 2)
    assert found.share(unknown=True) == pytest.approx(4 / 80)


def test_copies_have_sizes_and_rates(found):
    up, down = sorted(found.transfers, key=lambda t: t.direction, reverse=True)
    assert (up.direction, down.direction) == ("H2D", "D2H")
    assert up.mbyte == pytest.approx(0.004) and up.ms == pytest.approx(0.008)
    assert up.gbyte_per_second == pytest.approx(0.5) and down.gbyte_per_second == pytest.approx(0.25)


def test_short_kernels_are_counted(found):
    launches = found.launches["GPU:0"]
    assert launches.per_step == 7 and launches.short == pytest.approx(4 / 7)  # 8, 4, 4, 4; 10 us is not short


def test_instructions_of_a_gpu_are_known_by_module_and_name(tmp_path):
    """A kernel of XLA names its instruction; where no module comes with the profile nothing is made up."""
    event = ("fusion_3", 10, 5, {"hlo_op": "fusion_3", "hlo_module": "cluster"})
    planes = {"/host:CPU": {"p": us(("train", 0, 50, MARK))}, "/device:GPU:0": {"Stream #1": us(event)}}
    found = attribute_path(write(tmp_path / "vm.xplane.pb", planes), NOTES)
    assert of(found, "GPU:0", "other") == [0.005] and found.costs[0].kind == "kernel"


def late_kernels(path):
    """Marks of 20 us every 100, from 0; the GPU works from 30 to 90 of each."""
    host = [("train", 100 * i, 20, MARK) for i in range(3)]
    kernels = [("sgemm", 100 * i + 30, 60, {"tf_op": "dense/MatMul:MatMul"}) for i in range(3)]
    planes = {"/host:CPU": {"p": us(*host)}, "/device:GPU:0": {"Stream #1": us(*kernels)}}
    return write(path, planes)


def test_kernels_of_a_program_that_does_not_wait_belong_to_the_call_before(tmp_path):
    found = attribute_path(late_kernels(tmp_path / "vm.xplane.pb"))  # of another program: it has no notes
    assert of(found, "GPU:0", "forward") == [0.06] * 3 and found.gaps.tolist() == [0.04] * 2


def test_devices_of_several_hosts_are_told_apart(tmp_path):
    for host in "ab":
        late_kernels(tmp_path / f"{host}.xplane.pb")
    found = attribute_path(tmp_path)
    assert set(found.busy) == {"a GPU:0", "b GPU:0"} and len(found.steps) == 3
    assert of(found, "b GPU:0", "forward") == [0.06] * 3
