"""How much shorter steps are without some of their operations."""

import numpy as np
import pytest

from tests.trace.profiles import us, write
from tests.trace.test_findings import MARK, find
from tfperf.trace.freed_time import estimate_freed_time
from tfperf.trace.planes import decode_events, read_spaces


def read(path, **lanes):
    """Events of a processor's threads: name, begin, length in us; which of them are called `one`."""
    file = write(path / "vm.xplane.pb", {"/host:CPU": {name: us(*rows) for name, rows in lanes.items()}})
    events = decode_events(read_spaces(file), lambda name: True)
    ones = np.array([events.names[name].startswith("one") for name in events.name])
    return events, ones, ~ones


@pytest.mark.parametrize("cores, freed", [(None, 20_000), (1, 60_000), (2, 60_000), (3, 20_000)])
def test_beside_others_as_much_is_freed_as_all_cores_are_shared(tmp_path, cores, freed):
    """One runs from 0 to 100, another from 20: of two cores each has one for 80, alone the first has 20."""
    events, ones, others = read(tmp_path, a=[("one:Mul", 0, 100)], b=[("other:Mul", 20, 80)])
    assert estimate_freed_time(events, ones, others, cores) == pytest.approx(freed)


def test_each_thread_counts_once_whatever_it_has_inside(tmp_path):
    events, ones, others = read(tmp_path, a=[("one:Mul", 0, 100), ("one:Inner", 10, 50)], b=[("other:Mul", 0, 100)],
                 c=[("other:Mul", 0, 100), ("other:Inner", 20, 20)])  # fmt: skip
    assert estimate_freed_time(events, ones, others, 2) == pytest.approx(100_000 / 3)


def test_nothing_is_freed_without_any(tmp_path):
    events, _, others = read(tmp_path, b=[("other:Mul", 20, 80)])
    assert estimate_freed_time(events, ~others, others, 2) == 0
    assert estimate_freed_time(events, ~others, ~others, 2) == 0


def test_kernels_of_an_accelerator_share_no_cores(tmp_path):
    lines = {"a": us(("one:Mul", 0, 100)), "b": us(("other:Mul", 0, 100))}
    events = decode_events(read_spaces(write(tmp_path / "vm.xplane.pb", {"/device:GPU:0": lines})), lambda name: True)
    ones = np.array([events.names[name].startswith("one") for name in events.name])
    assert estimate_freed_time(events, ones, ~ones, 2) == 0


def test_constant_work_beside_other_operations_is_told_by_its_share_of_the_cores(tmp_path):
    python = [("train", 100 * i, 100, MARK) for i in range(4)]
    main = [("dense/MatMul:MatMul", 100 * i, 90) for i in range(4)]
    beside = [("tables/transpose:Transpose", 100 * i + 50, 50) for i in range(4)]
    notes = {"constant": ["tables/transpose"], "cores": 2}
    (one,) = find(tmp_path, python, main, notes=notes, lines={"n": beside})
    assert one.gain_ms == pytest.approx(0.01 + 0.04 / 2) and one.bound_ms == pytest.approx(0.05)


def test_hosts_share_no_cores(tmp_path):
    for host, name in (("a", "one"), ("b", "other")):
        write(tmp_path / f"{host}.xplane.pb", {"/host:CPU": {"t": us((f"{name}:Mul", 0, 100))}})
    events = decode_events(read_spaces(tmp_path), lambda name: True)
    ones = np.array([events.names[name].startswith("one") for name in events.name])
    assert len(events) == 2 and estimate_freed_time(events, ones, ~ones, 2) == 0
