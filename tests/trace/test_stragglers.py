"""Which device the others wait for, and why."""

import pytest

from tests.trace.profiles import us, write
from tfperf.trace.attribution import read_attribution
from tfperf.trace.findings import list_findings
from tfperf.trace.notes import parse_notes
from tfperf.trace.stragglers import _compute_chance

MARK = {"step_num": 0}


def find(path, make, steps=10, own=2, work=()):
    """Findings of rule straggler, and the straggler; make: operations of device d in step i; work: as noted."""
    python = [("train", 1000 * i, 1000, MARK) for i in range(steps)]
    lines = {
        f"t{d}": us(*((name, 1000 * i + begin, length) for i in range(steps) for name, begin, length in make(d, i)))
        for d in range(own)
    }
    told = parse_notes({"own": True, "optimizers": ["adam"], "cores": own, "work": list(work)})
    found = read_attribution(write(path / "vm.xplane.pb", {"/host:CPU": {"p": us(*python)} | lines}), told)
    findings = [one for one in list_findings(found) if one.rule == "straggler"]
    return findings, found.device_waits[0].straggler


def scale(device, factor=1.0, update=1.0, start=0, repeats=1):
    """Two operations of 300 and 100 us, as often and as long as that, and an update of 50 us at the end of a step."""
    head, begin, out = f"replica_{device}/", start, []
    for name, length in [("dense/A:MatMul", 300)] * repeats + [("dense/B:Mul", 100)]:
        out.append((head + name, begin, length * factor))
        begin += length * factor
    return [*out, (f"update_{device}/Assign:AssignAddVariableOp", 930, 50 * update)]


def test_more_operations_are_more_work_and_the_gain_is_the_mean(tmp_path):
    (one,), straggler = find(tmp_path, lambda d, i: scale(d, factor=0.5, repeats=1 + 4 * d))
    assert straggler.cause == "more work" and "with 5 of dense/A:MatMul and 1" in one.what
    assert one.bound_ms == pytest.approx(0.6) and one.gain_ms == pytest.approx(0.3)  # 200 and 800 us: 500 each
    assert "the same work" in one.change


def test_one_larger_operation_is_more_work(tmp_path):
    def make(device, step):
        return [
            (f"replica_{device}/A:MatMul", 0, 200 + 400 * device),
            (f"replica_{device}/B:Mul", 200 + 400 * device, 100),
        ]

    (one,), straggler = find(tmp_path, make)
    assert straggler.cause == "more work" and "most of it A:MatMul with 0.6 and 0.2 ms" in one.what


def test_a_larger_batch_makes_all_longer_but_for_updates(tmp_path):
    (one,), straggler = find(tmp_path, lambda d, i: scale(d, factor=1 + d))
    assert straggler.cause == "more work" and "all operations 2 times as long" in one.what
    assert one.gain_ms == pytest.approx(0.2) and one.bound_ms == pytest.approx(0.4)


def test_a_slower_device_makes_all_longer_updates_included(tmp_path):
    (one,), straggler = find(tmp_path, lambda d, i: scale(d, factor=1 + d / 2, update=1 + d / 2))
    assert straggler.cause == "slower device" and "1.5 times as long" in one.what and "clocks" in one.change
    assert one.gain_ms == pytest.approx(0.6 - 2 / (1 / 0.4 + 1 / 0.6))  # each as much as it is fast
    assert one.bound_ms == pytest.approx(0.2)


def test_without_updates_nobody_can_tell_a_slower_device_from_a_larger_batch(tmp_path):
    (one,), straggler = find(tmp_path, lambda d, i: scale(d, factor=1 + d)[:-1])
    assert straggler.cause == "larger or slower" and "does not tell" in one.what and "batches" in one.change


def note_work(factor=1.0, kinds=("A:MatMul", "B:Mul")):
    """FLOP of two operations on two devices; those of the second have `factor` times as much."""
    each = [(d, *kind.split(":")) for d in (0, 1) for kind in kinds]
    return [
        {"name": f"replica_{d}/dense/{name}", "kind": kind, "flops": 1e6 * (factor if d else 1), "bytes": 1e4}
        | {"transcendental": 0.0, "precision": "float32"} for d, name, kind in each
    ]  # fmt: skip


def test_flop_that_are_known_tell_a_larger_batch_from_a_slower_device(tmp_path):
    """There are no updates to tell it."""
    (one,), straggler = find(tmp_path / "1", lambda d, i: scale(d, factor=1 + d)[:-1], work=note_work(2.0))
    assert straggler.cause == "more work" and straggler.larger == pytest.approx(2)
    assert "since they are 2 times as large" in one.what
    (one,), straggler = find(tmp_path / "2", lambda d, i: scale(d, factor=1 + d)[:-1], work=note_work())
    assert straggler.cause == "slower device" and straggler.larger == pytest.approx(1)
    assert "which are not larger: a slower device" in one.what


def test_flop_of_a_small_part_tell_nothing(tmp_path):
    known = note_work(kinds=("B:Mul",))  # a quarter of the time
    straggler = find(tmp_path, lambda d, i: scale(d, factor=1 + d)[:-1], work=known)[1]
    assert straggler.cause == "larger or slower" and straggler.larger is None


def test_a_later_start_gives_back_at_most_its_delay(tmp_path):
    (one,), straggler = find(tmp_path, lambda d, i: scale(d, start=250 * d))
    assert straggler.cause == "later start" and "begins 0.25 ms later" in one.what and "input" in one.change
    assert one.gain_ms == one.bound_ms == pytest.approx(0.25)


def test_a_device_that_stands_still_half_way_is_told_without_a_reason(tmp_path):
    def make(device, step):
        first, second, update = scale(device)
        return [first, (second[0], second[1] + 300 * device, second[2]), update]

    (one,), straggler = find(tmp_path, make)
    assert straggler.cause == "unknown" and "does not tell why" in one.what
    assert one.gain_ms == one.bound_ms == pytest.approx(0.3)


@pytest.mark.parametrize("late", [(0, 1) * 5, (1,) * 7 + (0,) * 3])
def test_a_device_that_is_last_by_chance_is_no_straggler(tmp_path, late):
    findings, straggler = find(tmp_path, lambda d, i: scale(d, factor=1 + (d == late[i])))
    assert findings == [] and straggler is None


def test_few_steps_do_not_make_a_straggler(tmp_path):
    assert find(tmp_path, lambda d, i: scale(d, factor=1 + d), steps=3) == ([], None)


def test_a_small_lag_is_no_finding(tmp_path):
    findings, straggler = find(tmp_path, lambda d, i: scale(d, factor=1 + 0.1 * d))
    assert findings == [] and straggler.lag_ms == pytest.approx(0.04)  # of 1 ms


def test_parts_of_a_model_on_several_devices_are_no_stragglers(tmp_path):
    """The second device goes on with what the first gives."""
    names = ["tower_0/A:MatMul", "tower_1/B:Conv2D"]
    findings, straggler = find(tmp_path, lambda d, i: [(names[d], 400 * d, 400)])
    assert findings == [] and straggler is None


def test_the_slowest_of_three_is_measured_against_the_next(tmp_path):
    (one,), straggler = find(tmp_path, lambda d, i: scale(d, factor=(0.5, 1, 2)[d], update=(0.5, 1, 2)[d]), own=3)
    assert straggler.device == "CPU replica_2" and one.bound_ms == pytest.approx(0.4) and one.gain_ms <= 0.4


def test_chance_that_one_of_the_devices_is_last_so_often_is_the_binomial_law():
    assert _compute_chance(9, 10, 2) == pytest.approx(2 * 11 / 2**10)
    assert _compute_chance(10, 10, 4) == pytest.approx(4 * 4**-10)
    assert _compute_chance(550, 1100, 2) == 1 and 0.001 < _compute_chance(600, 1100, 2) < 0.01
