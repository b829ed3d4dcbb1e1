"""What a report says of devices that share steps, and of memory."""

import json
from io import StringIO

import pytest
from rich.console import Console

from tests.trace.profiles import us, write
from tfperf.report.profile import make_profile_record, make_profile_tables, merge_records
from tfperf.report.profile_devices import NO_MEMORY, TURNS
from tfperf.report.profile_files import write_profile
from tfperf.trace.attribution import read_attribution
from tfperf.trace.notes import parse_notes


def read(path, lines, cores=2):
    python = [("train", 100 * i, 100, {"step_num": 0}) for i in range(6)]
    every = {
        name: us(*((event, 100 * i + begin, *rest) for i in range(6) for event, begin, *rest in events))
        for name, events in lines.items()
    }
    told = parse_notes({"own": True, "cores": cores})
    return read_attribution(write(path / "vm.xplane.pb", {"/host:CPU": {"p": us(*python)} | every}), told)


def write_pages(found, folder):
    record = merge_records([make_profile_record(found)])
    write_profile(folder, found, record, "title")
    screen = StringIO()
    Console(width=160, file=screen).print(make_profile_tables(record))
    return (folder / "report.html").read_text(), json.loads((folder / "report.json").read_text()), screen.getvalue()


def test_devices_and_memory_have_tables(tmp_path):
    memory = {"bytes_allocated": 123_000_000, "allocator_name": "GPU_0_bfc", "tf_op": "dense/<b>A"}
    main = [("dense/<b>A:MatMul", 0, 20), ("MemoryAllocation", 1, 0, memory)]
    found = read(tmp_path, {"m": main, "n": [("replica_1/dense/<b>A:MatMul", 0, 90)]})
    page, report, screen = write_pages(found, tmp_path / "report")
    first, second = report["device_waits"][0]["devices"]
    assert (first["device"], second["last_share"]) == ("CPU", 1) and first["wait_ms"] == pytest.approx(0.07)
    assert report["device_waits"][0]["straggler"]["cause"] == "larger or slower"
    assert report["memory_peaks"] == [
        {"allocator": "GPU_0_bfc", "phase": "forward", "mbyte": 123, "operation": "dense/<b>A"}
    ]
    for text in (page, screen):
        assert "CPU replica_1" in text and "0.07" in text and "GPU_0_bfc" in text and "123" in text
        assert "from the end of its own part" in text and TURNS not in text
    assert "<b>A" not in page and NO_MEMORY not in page


def test_what_a_profile_has_nothing_of_is_said(tmp_path):
    page, report, screen = write_pages(read(tmp_path, {"m": [("dense/A:MatMul", 0, 90)]}), tmp_path / "report")
    assert NO_MEMORY in page and 'id="devices"' not in page and "devices that share" not in screen
    assert report["device_waits"] == report["memory_peaks"] == []


def test_devices_that_take_turns_are_said_to(tmp_path):
    lines = {"m": [("dense/A:MatMul", 0, 20)], "n": [("replica_1/dense/A:MatMul", 0, 90)]}
    page, _, screen = write_pages(read(tmp_path, lines, cores=1), tmp_path / "report")
    assert TURNS in page and TURNS in screen
