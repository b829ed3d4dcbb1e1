"""How busy devices are, counted by hand on profiles made by hand."""

import random

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tfperf.report.profile import make_profile_record
from tfperf.report.profile_devices import describe_use
from tfperf.trace.attribution import read_attribution
from tfperf.trace.device_use import make_use_record
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import parse_notes

MARK = {"step_num": 0}
NOTES = {"own": True, "optimizers": ["adam"]}


def read(path, compute, copies, notes=NOTES, calls=((0, 200),), **planes):
    lines = {"Stream #13(compute)": us(*compute), "Stream #14(copies)": us(*copies)}
    host = {"python": us(*(("train", begin, length, MARK) for begin, length in calls))}
    planes = {"/host:CPU": host, "/device:GPU:0": lines, **planes}
    return read_attribution(write(path / "vm.xplane.pb", planes), parse_notes(notes))


def copy(begin, length, size=1000, direction="H2D"):
    return (f"Memcpy{direction}", begin, length, {"memcpy_details": f"size:{size} dest:0 async:1"})


def kernel(begin, length, name="sgemm"):
    return (name, begin, length, {"tf_op": "dense/MatMul:MatMul"})


def test_busy_is_the_union_of_kernels_and_copies_alone_what_only_copies_do(tmp_path):
    """Of 200 us kernels run from 10 to 60 and from 100 to 140; copies from 50 to 80 and, back, from 150 to 160."""
    compute = [kernel(10, 30), kernel(30, 30, "other"), kernel(100, 40)]
    copies = [copy(50, 30, 3_000_000), copy(150, 10, direction="D2H"), ("Memset", 170, 10)]
    (use,) = read(tmp_path, compute, copies).device_use
    assert use.device == "GPU:0" and use.seconds == pytest.approx(200e-6)
    assert use.busy == pytest.approx(90 / 200) and use.copies_alone == pytest.approx(30 / 200)
    assert len(use.shares) == 50 and sum(use.shares) / 50 == pytest.approx(use.busy)
    np.testing.assert_allclose(use.shares[:4], [0, 0, 0.5, 1])  # parts of 4 us: the third is from 8 to 12
    copies = use.copies
    assert copies is not None and copies.mbyte == pytest.approx(3) and copies.seconds == pytest.approx(30e-6)
    assert copies.beside == pytest.approx(1 / 3) and copies.alone == pytest.approx(20 / 200)
    assert copies.verdict == "wait" and make_use_record(use)["copies"]["verdict"] == "wait"


@pytest.mark.parametrize(("begin", "verdict", "said"), [
    (20, "overlap", "100% of them while kernels run: they overlap"),
    (110, "wait", "0% of them while kernels run: copies and steps wait for each other"),
])  # fmt: skip
def test_copies_overlap_or_wait_and_the_cure_is_named(tmp_path, begin, verdict, said):
    found = read(tmp_path, [kernel(0, 100)], [copy(begin, 40)], {**NOTES, "utilisation": [0.97, None]})
    (use,) = found.device_use
    assert use.copies is not None and use.copies.verdict == verdict
    lines = describe_use(make_profile_record(found))
    assert said in lines[1] and lines[0].startswith("GPU:0: kernels run for 50.0% of the 0.000200 s")
    assert lines[2].startswith("aside: NVML's utilisation at the recording's end: 97%, n/a; it is of the driver's last")
    cures = [one for one in list_findings(found) if "prefetch_to_device" in one.change]
    assert [one.share for one in cures] == ([] if verdict == "overlap" else [pytest.approx(40 / 200)])


def test_shares_are_those_of_brute_force(tmp_path):
    """Each microsecond is looked at by itself."""
    draw = random.Random(4)
    compute = [kernel(draw.randrange(900), draw.randrange(1, 40)) for _ in range(12)]
    copies = [copy(draw.randrange(900), draw.randrange(1, 40), 7) for _ in range(12)]
    (use,) = read(tmp_path, compute, copies, calls=((0, 400), (500, 500))).device_use
    busy, copying = np.zeros(1000, bool), np.zeros(1000, bool)
    for events, mask in ((compute, busy), (copies, copying)):
        for _, begin, length, *_ in events:
            mask[begin : begin + length] = True
    assert use.busy == pytest.approx(busy.mean())
    assert use.copies_alone == pytest.approx((copying & ~busy).mean())
    np.testing.assert_allclose(use.shares, busy.reshape(50, 20).mean(axis=1))
    assert use.copies is not None and use.copies.beside == pytest.approx((copying & busy).sum() / copying.sum())
    assert use.copies.mbyte == pytest.approx(12 * 7e-6)


def test_each_accelerator_is_told_and_not_its_host(tmp_path):
    more = {"/device:GPU:1": {"Stream #13": us(kernel(0, 20))}}
    one, two = read(tmp_path, [kernel(0, 100)], [], **more).device_use
    assert (one.device, one.busy, two.device, two.busy) == ("GPU:0", 0.5, "GPU:1", pytest.approx(0.1))
    assert one.copies is None


def test_a_processor_is_busy_with_steps_and_not_with_their_input(tmp_path):
    """Of 100 us a product takes 30; its input is awaited for 50, while a dataset's own thread works."""
    main = [("IteratorGetNext:IteratorGetNext", 10, 50), ("dense/MatMul:MatMul", 60, 30)]
    planes = {"/host:CPU": {
        "python": us(("train", 0, 100, MARK)), "tf_Compute/1": us(*main),
        "tf_data_private_threadpool/1": us(("resize/ResizeBilinear:ResizeBilinear", 10, 45)),
    }}  # fmt: skip
    found = read_attribution(write(tmp_path / "vm.xplane.pb", planes), parse_notes(NOTES))
    (use,) = found.device_use
    assert use.device == "CPU" and use.busy == pytest.approx(0.3) and use.copies is None
    (line,) = describe_use(make_profile_record(found))
    assert line == (
        "CPU: operations of steps run for 30.0% of the 0.000100 s that are recorded, waiting for a core included, "
        "fetching input not"
    )
