"""Memory by phase."""

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.memory_peaks import MemoryPeak
from tfperf.trace.notes import parse_notes

NOTES = parse_notes({"own": True, "optimizers": ["adam"]})
OPERATIONS = [("dense/A:MatMul", 10, 30), ("gradient_tape/dense/A:MatMul", 40, 30), ("adam/Mul:Mul", 70, 20)]


def allocate(at, mbyte, name="", event="MemoryAllocation", allocator="GPU_0_bfc"):
    stats = {"bytes_allocated": int(1e6 * mbyte), "allocator_name": allocator}
    return event, at, 0, stats | ({"tf_op": name} if name else {})


def read(path, events):
    lines = {"p": us(("train", 0, 100, {"step_num": 0}), ("train", 100, 100, {"step_num": 1})), "m": us(*events)}
    return read_attribution(write(path / "vm.xplane.pb", {"/host:CPU": lines}), NOTES).memory_peaks


def test_each_phase_has_the_most_that_is_in_use_when_it_asks(tmp_path):
    events = [(name, begin + 100 * step, length) for step in (0, 1) for name, begin, length in OPERATIONS]
    events += [
        allocate(11, 5, "dense/A"), allocate(111, 7, "dense/A"), allocate(41, 9, "gradient_tape/dense/A"),
        allocate(45, 30, event="MemoryDeallocation"), allocate(71, 6, "adam/Mul"), allocate(72, 2, allocator="cpu"),
        allocate(500, 90, "dense/A"), allocate(1, 80, "dense/A"),  # not in a step
    ]  # fmt: skip
    assert read(tmp_path, events) == (
        MemoryPeak(allocator="GPU_0_bfc", phase="forward", mbyte=7, operation="dense/A"),
        MemoryPeak(allocator="GPU_0_bfc", phase="backward", mbyte=9, operation="gradient_tape/dense/A"),
        MemoryPeak(allocator="GPU_0_bfc", phase="update", mbyte=6, operation="adam/Mul"),
        MemoryPeak(allocator="cpu", phase="other", mbyte=2, operation=""),
    )


def test_a_profile_without_allocations_has_none(tmp_path):
    assert read(tmp_path, OPERATIONS) == ()
