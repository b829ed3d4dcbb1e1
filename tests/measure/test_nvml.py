"""Figures of NVML against a stub that says which."""

import json
import subprocess
import sys

import pytest

from tests.measure.nvml_stub import build_stub
from tfperf.measure.nvml import open_gpus
from tfperf.measure.visible_gpus import find_visible_gpus

READ = """
import json
from dataclasses import asdict
from tfperf.measure.nvml import open_gpus
with open_gpus() as gpus:
    print(json.dumps([
        {"name": gpu.name, "uuid": gpu.uuid, "energy": [gpu.read_energy(), gpu.read_energy()],
         **asdict(gpu.read_load()), **asdict(gpu.read_memory(holds=True)), **asdict(gpu.read_health()),
         "traffic": gpu.read_traffic(), "all used": gpu.read_used()} for gpu in gpus]))
"""
FIRST = {
    "name": "NVIDIA Stub A", "uuid": "GPU-aaaa-1", "energy": [1000.0, 1002.5], "power_watts": 61.5,
    "sm_clock_mhz": 1410, "memory_clock_mhz": 1215, "utilisation": 0.37, "memory_utilisation": 0.12,
    "temperature_celsius": 58, "held_back": ["power cap", "heat, by hardware", "reason 0x1000"],
    "total": 8_000_000_000, "used": 3_000_000_001, "free": 4_999_999_999,
    "own": 700_000_000, "others": 1_300_000_000, "pcie_generation": 4, "pcie_width": 8,
    "corrected_errors": 3, "uncorrected_errors": 0, "traffic": [1_500_000.0, 2_600_000.0],
    "all used": 3_000_000_001,
}  # fmt: skip
SECOND = FIRST | {
    "name": "NVIDIA Stub B", "uuid": "GPU-abbb-2", "energy": [2000.0, 2005.0], "power_watts": 123.0,
    "sm_clock_mhz": 2820, "memory_clock_mhz": 2430, "utilisation": 0.74, "temperature_celsius": None, "held_back": [],
    "total": 16_000_000_000, "used": 3_000_000_002, "free": 12_999_999_998,
    "own": None, "others": None,  # this process holds memory there and is not listed: which one it is, is unknown
    "pcie_width": 16, "all used": 3_000_000_002,
}  # fmt: skip
NOTHING = dict.fromkeys(FIRST) | {"energy": [None, None], "traffic": [None, None]}


def read(environment, **more):
    done = subprocess.run(
        [sys.executable, "-c", READ], capture_output=True, text=True, check=True, env={**environment, **more}
    )
    return json.loads(done.stdout)


def test_every_figure_of_each_device_is_what_the_library_says(tmp_path):
    assert read(build_stub(tmp_path), CUDA_DEVICE_ORDER="PCI_BUS_ID") == [FIRST, SECOND]


def test_devices_are_those_that_the_process_sees(tmp_path):
    stub = build_stub(tmp_path, second="NVIDIA Stub A")
    both = [FIRST, SECOND | {"name": "NVIDIA Stub A"}]
    assert read(stub) == both
    assert read(stub, CUDA_VISIBLE_DEVICES="1,0") == both[::-1] and read(stub, CUDA_VISIBLE_DEVICES="-1") == []
    assert read(stub, CUDA_VISIBLE_DEVICES="GPU-ab") == both[1:]


def test_a_part_of_a_device_gives_what_it_can(tmp_path):
    (part,) = read(build_stub(tmp_path), CUDA_VISIBLE_DEVICES="MIG-part")
    there = {"name": "NVIDIA Stub A MIG 1g", "uuid": "MIG-part", "total": 24_000_000_000, "used": 3_000_000_003,
             "free": 20_999_999_997, "all used": 3_000_000_003}  # fmt: skip
    assert part == NOTHING | there
    assert read(build_stub(tmp_path), CUDA_VISIBLE_DEVICES="MIG-other") == []


def test_functions_that_a_library_lacks_give_nothing(tmp_path):
    first, second = read(build_stub(tmp_path, "BARE"), CUDA_DEVICE_ORDER="PCI_BUS_ID")
    there = ("name", "uuid", "total", "used", "free", "all used")
    assert first == NOTHING | {key: FIRST[key] for key in there}
    assert second == NOTHING | {key: SECOND[key] for key in there}


def test_a_device_that_cannot_draw_tells_of_those_that_compute(tmp_path):
    first, _ = read(build_stub(tmp_path, "COMPUTING"), CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert first == FIRST | {"others": 1_200_000_000}


def test_an_older_driver_tells_what_holds_clocks_back_by_another_name(tmp_path):
    assert read(build_stub(tmp_path, "OLD"), CUDA_DEVICE_ORDER="PCI_BUS_ID") == [FIRST, SECOND]


def test_a_library_that_does_not_start_has_no_devices(tmp_path):
    assert read(build_stub(tmp_path, "FAILING")) == []


def test_without_the_package_there_are_no_devices(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with open_gpus() as gpus:
        assert gpus == []


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, [0, 1, 2]), ("", []), ("2, 0", [2, 0]), ("0,3,1", [0]), ("1,1,0", [1]),
        ("GPU-b", [2]), ("GPU-a", []), ("GPU-ab,GPU-aa", [1, 0]), ("MIG-x,0", ["MIG-x", 0]),
        ("-1", []), ("none", []), ("b", []),
    ],
)  # fmt: skip
def test_visible_devices(visible, found):
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert find_visible_gpus(environment, ["GPU-aa", "GPU-ab", "GPU-b"], ["A", "A", "A"]) == found


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, []), ({"CUDA_VISIBLE_DEVICES": "1"}, []), ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, [1]),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, [0, 1]),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}, [1]),
    ],
)  # fmt: skip
def test_numbers_of_unlike_devices_tell_nothing_unless_they_are_those_of_the_bus(environment, found):
    assert find_visible_gpus(environment, ["GPU-a", "GPU-b"], ["A", "B"]) == found


def test_devices_whose_order_is_unknown_are_named(tmp_path):
    code = "from tfperf.measure.nvml import list_unordered_gpus as found; print(*found(), sep=', ')"
    stub = build_stub(tmp_path)
    for more, told in (({}, "NVIDIA Stub A, NVIDIA Stub B"), ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "")):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**stub, **more}
        )
        assert done.stdout.strip() == told
