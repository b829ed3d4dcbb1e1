"""Profiles of GPUs, made by hand as TensorFlow's CUPTI collector writes them: streams, kernels, copies."""

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes
from tfperf.trace.phases import PHASES

MARK = {"step_num": 0}
NOTES = parse_notes({"own": True, "optimizers": ["adam"]})


def get_ms(found, device, phase):
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
    return read_attribution(write(tmp_path / "vm.xplane.pb", planes), NOTES)


def test_kernels_belong_to_what_launched_them(found):
    assert set(found.busy) == {"GPU:0"}
    want = {"forward": 0.03, "backward": 0.02, "merge": 0.01, "update": 0.004, "transfer": 0.012, "other": 0.004}
    for phase in PHASES:
        assert get_ms(found, "GPU:0", phase) == [want.get(phase, 0)] * 2, phase
    # 2 to 74 without a hole, 4 of what nobody knows, 4 of a copy
    np.testing.assert_allclose(found.any["GPU:0"], [0.08] * 2)
    assert found.compute_share(unknown=True) == pytest.approx(4 / 80)


def test_copies_have_sizes_and_rates(found):
    up, down = sorted(found.transfers, key=lambda t: t.direction, reverse=True)
    assert (up.direction, down.direction) == ("H2D", "D2H")
    assert up.mbyte == pytest.approx(0.004) and up.ms == pytest.approx(0.008)
    assert up.gbyte_per_second == pytest.approx(0.5) and down.gbyte_per_second == pytest.approx(0.25)


def test_short_kernels_are_counted(found):
    launches = found.launches["GPU:0"]
    assert launches.per_step == 7 and launches.short == pytest.approx(4 / 7)  # 8, 4, 4, 4; 10 us is not short


MODULES = {
    "cluster": [
        ("p", "parameter", "", []), ("fusion_3", "fusion", "", [0]), ("dot.1", "dot", "dense/MatMul", [1]),
        ("copy.7", "copy", "", []),
    ],
    "other": [("fusion_3", "add", "adam/Add", [])],
}  # fmt: skip


def test_instructions_of_a_gpu_are_known_by_module_and_name(tmp_path):
    """fusion_3 is XLA's own in one module: it feeds the product of a layer; in the other it is the optimizer's."""
    kernels = [
        (name, begin, 5, {"hlo_op": name, "hlo_module": module}) for begin, name, module in
        ((10, "fusion_3", "cluster"), (20, "fusion_3", "other"), (30, "dot.1", "cluster"), (40, "copy.7", "cluster"))
    ]  # fmt: skip
    planes = {"/host:CPU": {"p": us(("train", 0, 50, MARK))}, "/device:GPU:0": {"Stream #1": us(*kernels)}}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", planes, MODULES), NOTES)
    assert get_ms(found, "GPU:0", "forward") == [0.01] and get_ms(found, "GPU:0", "update") == [0.005]
    assert {(c.name, c.kind, c.phase, c.inferred) for c in found.costs} == {
        ("fusion_3", "fusion", "forward", True), ("fusion_3", "add", "update", False),
        ("dot.1", "dot", "forward", False), ("copy.7", "copy", "other", False),
    }  # fmt: skip
    assert found.compute_share(unknown=False) == pytest.approx(0.25) and found.compiled


def test_an_instruction_of_a_module_that_is_not_there_is_of_no_phase(tmp_path):
    event = ("fusion_3", 10, 5, {"hlo_op": "fusion_3", "hlo_module": "cluster"})
    planes = {"/host:CPU": {"p": us(("train", 0, 50, MARK))}, "/device:GPU:0": {"Stream #1": us(event)}}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", planes), NOTES)
    assert get_ms(found, "GPU:0", "other") == [0.005] and found.costs[0].kind == "kernel"


def late_kernels(path):
    """Marks of 20 us every 100, from 0; the GPU works from 30 to 90 of each."""
    host = [("train", 100 * i, 20, MARK) for i in range(3)]
    kernels = [("sgemm", 100 * i + 30, 60, {"tf_op": "dense/MatMul:MatMul"}) for i in range(3)]
    planes = {"/host:CPU": {"p": us(*host)}, "/device:GPU:0": {"Stream #1": us(*kernels)}}
    return write(path, planes)


def test_kernels_of_a_program_that_does_not_wait_belong_to_the_call_before(tmp_path):
    found = read_attribution(late_kernels(tmp_path / "vm.xplane.pb"))  # of another program: it has no notes
    assert get_ms(found, "GPU:0", "forward") == [0.06] * 3 and found.gaps.tolist() == [0.04] * 2


def test_devices_of_several_hosts_are_told_apart(tmp_path):
    for host in "ab":
        late_kernels(tmp_path / f"{host}.xplane.pb")
    found = read_attribution(tmp_path)
    assert set(found.busy) == {"a GPU:0", "b GPU:0"} and len(found.steps) == 3
    assert get_ms(found, "b GPU:0", "forward") == [0.06] * 3


def test_launches_on_the_host_and_copies_of_an_instruction_on_two_gpus_are_no_steps(tmp_path):
    """Two calls of four turns; the host writes an event of the same name for each launch, and both GPUs run all."""
    host, launches, kernels = [], [], []
    for call in (0, 1000):
        host.append(("train", call, 900, MARK))
        for turn in range(4):
            begin = call + 200 * turn
            for offset, name in ((10, "while/dense/MatMul:MatMul"), (100, "while/adam/Mul:Mul")):
                launches.append((name, begin + offset, 2))
                kernels.append(("some_kernel", begin + offset + 5, 60, {"tf_op": name}))
    planes = {
        "/host:CPU": {"python": us(*host), "tf_Compute/1": us(*launches)},
        "/device:GPU:0": {"Stream #1": us(*kernels)}, "/device:GPU:1": {"Stream #1": us(*kernels)},
    }  # fmt: skip
    found = read_attribution(write(tmp_path / "vm.xplane.pb", planes), NOTES)
    assert len(found.steps) == 8
    assert get_ms(found, "GPU:0", "forward") == get_ms(found, "GPU:1", "forward") == [0.06] * 8
    assert found.launches["GPU:0"].per_step == 2


def test_marks_of_the_host_and_the_name_that_take_most_time_count(tmp_path):
    """Another host's clock is 40 us off; the validation's marks are shorter."""
    for host, shift in (("a", 0), ("b", 40)):
        python = [("train", 100 * i + shift, 70, MARK) for i in range(3)]
        python += [("test", 100 * i + 75 + shift, 10, MARK) for i in range(3)]
        kernels = [("sgemm", 100 * i + shift, 60, {"tf_op": "dense/MatMul:MatMul"}) for i in range(3)]
        write(tmp_path / f"{host}.xplane.pb", {
            "/host:CPU": {"p": us(*python)}, "/device:GPU:0": {"Stream #1": us(*kernels)},
        })  # fmt: skip
    found = read_attribution(tmp_path)
    assert len(found.steps) == 3 and found.calls == 3
    assert get_ms(found, "a GPU:0", "forward") == [0.06] * 3


def test_steps_do_not_overlap_when_kernels_run_into_the_next_call(tmp_path):
    host = [("train", 100 * i, 20, MARK) for i in range(3)]
    kernels = [("sgemm", 100 * i + 10, 100, {"tf_op": "dense/MatMul:MatMul"}) for i in range(3)]
    planes = {"/host:CPU": {"p": us(*host)}, "/device:GPU:0": {"Stream #1": us(*kernels)}}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", planes))
    assert found.steps.tolist() == [0.1] * 3


def test_calls_without_operations_are_told(tmp_path):
    host = [("train", 10 * i, 8, MARK) for i in range(4)]
    kernels = [("sgemm", 5, 10, {"tf_op": "dense/MatMul:MatMul"}), ("sgemm", 100, 10, {"tf_op": "dense/MatMul:MatMul"})]
    planes = {"/host:CPU": {"p": us(*host)}, "/device:GPU:0": {"Stream #1": us(*kernels)}}
    found = read_attribution(write(tmp_path / "vm.xplane.pb", planes))
    assert found.problems == ("2 of 4 calls have no operation: the program does not wait for its devices",)
