"""Operations of a profile beside what the machine can do, and what the verdict makes of it."""

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tests.trace.profiles import us, write
from tfperf.measure import ceilings
from tfperf.measure.environment import count_cores, read_cpu_model
from tfperf.measure.roofline import Ceilings
from tfperf.report.profile import make_profile_record, make_profile_tables
from tfperf.report.profile_account import describe_verdict
from tfperf.report.profile_page import render_profile_page
from tfperf.report.profile_work import describe_ceilings
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes

MARK = {"step_num": 0}
HERE: dict[str, Any] = {"cpu": read_cpu_model(), "cores": count_cores(), "threads": 2}
# in 45 us each: 0.8 of the peak, 0.4 of the memory's bandwidth
NEAR = {"name": "a/A", "kind": "MatMul", "flops": 0.8 * 100e9 * 45e-6, "bytes": 0.0}
FAR = {"name": "b/B", "kind": "AddV2", "flops": 0.0, "bytes": 0.4 * 1e14 * 45e-6}


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """An empty cache, a function that stands for the measurement, and how often it was called."""
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path / "cache"))
    calls = []

    def measure(threads, precision):
        calls.append((threads, precision))
        return Ceilings(1e5, 2e5, 100.0 * len(calls), precision, threads)

    return measure, calls


def read(tmp_path, work, names=("a/A:MatMul", "b/B:AddV2"), notes=()):
    """Steps of 100 us, two operations of 45 us in each, 10 us between steps."""
    python: list[Any] = [("train", 100 * i, 90, MARK) for i in range(4)]
    main = [(name, 100 * i + 45 * k, 45) for i in range(4) for k, name in enumerate(names)]
    told = parse_notes({"own": True, "optimizers": [], "work": work, **HERE, **dict(notes)})
    lines = {"/host:CPU": {"p": us(*python), "m": us(*main)}}
    return read_attribution(write(tmp_path / "vm.xplane.pb", lines), told)


def test_the_machine_is_measured_once_where_it_is_the_one_that_recorded(tmp_path, measured):
    measure, calls = measured
    found = read(tmp_path, [NEAR, FAR])
    record = make_profile_record(found, measure)
    assert make_profile_record(found, measure) == record and calls == [(2, "float32")]
    first, second = sorted(record["operations"], key=lambda one: one["name"])
    assert first["share_of_ceiling"] == pytest.approx(0.8) and first["bound_by"] == "compute"
    assert first["flop_per_step"] == pytest.approx(3.6e6) and first["gflop_per_second"] == pytest.approx(80)
    assert second["share_of_ceiling"] == pytest.approx(0.4) and second["bound_by"] == "overhead"
    assert second["gbyte_per_second"] == pytest.approx(4e4)
    assert describe_ceilings(record) == [
        "ceilings of CPU: 100 GFLOP/s in float32, 100000 GB/s from memory, 200000 from caches for operations of at "
        "most 2.00 MiB; measured here with NumPy"
    ]


def test_a_machine_that_was_busy_is_measured_again(tmp_path, measured):
    """An operation that is faster than the ceiling says that the ceiling is too low."""
    measure, calls = measured
    record = make_profile_record(read(tmp_path, [{**NEAR, "flops": 1.5 * 100e9 * 45e-6}]), measure)
    assert len(calls) == 2 and record["operations"][0]["share_of_ceiling"] == pytest.approx(0.75)


@pytest.mark.parametrize(("notes", "why"), [
    ({"cpu": "", "cores": None, "threads": None}, "is not noted"),
    ({"cpu": "another"}, "recorded on another with"), ({"cores": HERE["cores"] + 1}, "and this is"),
])  # fmt: skip
def test_of_another_machine_shares_are_not_known(tmp_path, measured, notes, why):
    record = make_profile_record(read(tmp_path, [NEAR], notes=notes), measured[0])
    assert not measured[1] and record["operations"][0]["share_of_ceiling"] is None
    assert record["operations"][0]["flop_per_step"] == pytest.approx(3.6e6)
    (line,) = describe_ceilings(record)
    assert line.startswith("ceilings of CPU: n/a: ") and why in line


def test_a_measurement_that_fails_fails_no_report(tmp_path, measured):
    def fail(threads, precision):
        raise RuntimeError("no NumPy")

    record = make_profile_record(read(tmp_path, [NEAR]), fail)
    assert describe_ceilings(record) == ["ceilings of CPU: n/a: no NumPy"]


def test_without_work_nothing_is_measured(tmp_path, measured):
    assert describe_ceilings(make_profile_record(read(tmp_path, []), measured[0])) == [] and not measured[1]


def test_nothing_stands_out_only_where_most_time_is_near_a_ceiling(tmp_path, measured):
    rest = "0.0100 ms a step are unexplained"
    both = make_profile_record(read(tmp_path, [NEAR, {**NEAR, "name": "b/B", "kind": "AddV2"}]), measured[0])
    assert describe_verdict(both)[-1] == (
        f"nothing stands out: 0.0900 of 0.100 ms are operations that reach over half of what the machine can do; {rest}"
    )
    one = make_profile_record(read(tmp_path, [NEAR, FAR]), measured[0])
    assert describe_verdict(one)[-1] == (
        "no single change stands out: of 0.100 ms, 0.0450 are operations that reach less than half of what the machine "
        f"can do, 0.00 operations of which that is not known; {rest}"
    )
    none = describe_verdict(make_profile_record(read(tmp_path, [NEAR]), measured[0]))
    assert "0.00 are operations that reach less" in none[-1] and "0.0450 operations of which" in none[-1]


def test_what_recording_adds_is_in_no_part_of_the_operations_time(tmp_path, measured):
    """A step takes 50 us unrecorded: of its operations, which take 90 while they are recorded, no more is told."""
    found = read(tmp_path, [NEAR, FAR], notes={"recorded_ms": 0.1, "unrecorded_ms": 0.05})
    record = make_profile_record(found, measured[0])
    parts = [record["work"][key] for key in ("near_ms", "far_ms", "unknown_ms")]
    assert sum(parts) == pytest.approx(found.account.sum("work")) and sum(parts) <= 0.05
    assert parts[0] == pytest.approx(parts[1]) and parts[0] > 0


def test_operations_that_run_at_the_same_time_are_not_added_up(tmp_path, measured):
    """Two of 45 us at once are 45 us of the step, which is not 80 % of it."""
    work = [NEAR, {**NEAR, "name": "b/B", "kind": "AddV2"}]
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(4)]
    lines = {"p": us(*python), "m": us(*(("a/A:MatMul", 100 * i, 45) for i in range(4))),
             "n": us(*(("b/B:AddV2", 100 * i, 45) for i in range(4)))}  # fmt: skip
    told = parse_notes({"own": True, "optimizers": [], "work": work, **HERE})
    record = make_profile_record(
        read_attribution(write(tmp_path / "vm.xplane.pb", {"/host:CPU": lines}), told), measured[0]
    )
    assert record["work"]["near_ms"] == pytest.approx(0.045) and record["work"]["far_ms"] == 0


def test_tables_and_page_have_the_shares(tmp_path, measured):
    found = read(tmp_path, [NEAR], ("a/A:MatMul", "<b>c/C:Relu"))
    record = make_profile_record(found, measured[0]) | {"captures": 1, "series": []}
    console = Console(width=200, record=True)
    console.print(make_profile_tables(record))
    text = console.export_text()
    assert "of ceiling" in text and "bound by" in text and "80%" in text and "compute" in text and "n/a" in text
    page = render_profile_page(found, record, "t")
    assert all(word in page for word in ("of ceiling", "bound by", "3.60", "multiply-add", "ceilings of CPU", "80%"))
    unknown = make_profile_record(read(tmp_path, []), measured[0])
    console.print(make_profile_tables(unknown))
    assert "of ceiling" not in console.export_text(), "columns without a figure"


def test_operations_that_fill_the_machine_together_are_not_said_to_be_overhead(tmp_path, measured):
    """Two of 0.4 of the ceiling each: at once nobody knows how fast one would be alone; in turn they are slow."""
    work = [FAR | {"name": "a/A", "kind": "MatMul"}, FAR]
    python: list[Any] = [("train", 100 * i, 100, MARK) for i in range(4)]
    told = parse_notes({"own": True, "optimizers": [], "work": work, **HERE})
    for begin, far in ((0, 0.0), (45, 0.09)):
        lines = {"p": us(*python), "m": us(*(("a/A:MatMul", 100 * i, 45) for i in range(4))),
                 "n": us(*(("b/B:AddV2", 100 * i + begin, 45) for i in range(4)))}  # fmt: skip
        path = write(tmp_path / f"{begin}.xplane.pb", {"/host:CPU": lines})
        record = make_profile_record(read_attribution(path, told), measured[0])
        assert record["work"]["far_ms"] == pytest.approx(far)


def test_a_processor_in_use_is_not_measured(tmp_path, monkeypatch):
    ticks = iter([(100, 100), (190, 110)])

    def tell():
        used, idle = next(ticks)
        return f"cpu  {used} 0 0 {idle} 0 0 0 0 0 0\n"

    monkeypatch.setattr(ceilings, "USAGE", SimpleNamespace(read_text=lambda encoding: tell()))
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path / "cache"))
    (line,) = describe_ceilings(make_profile_record(read(tmp_path, [NEAR])))
    assert line.startswith("ceilings of CPU: n/a: other programs use 90% of the processor")
    monkeypatch.setattr(ceilings, "USAGE", tmp_path / "nothing")
    assert ceilings.measure_usage() == 0
