"""A trial's stages with counters, over a library that says what each stage takes."""

import json
import os
import subprocess
import sys

import pytest

from tests.measure.nvml_stub import build_stub

# a device whose region is taken with the first tensor, which the model is
TRIAL = """
import json, sys, tempfile, time
from tfperf.measure import device_memory
from tfperf.measure.counters import open_counters
from tfperf.workloads import memory_trial

class Memory(device_memory.DeviceMemory):
    tensors = 0
    import_tensorflow = prepare = reset_peak = lambda self: None
    def read(self):
        return Memory.tensors, Memory.tensors

class Trial:
    read_data = make_slots = validate = lambda self: None
    def build_model(self):
        Memory.tensors = 30
        while not counters._reader._found.count:  # a stage in which the thread comes to read
            time.sleep(0.01)
    def list_lengths(self):
        return ()

    def set_batch(self, batch, length=None):
        pass
    def take_steps(self, count):
        pass

memory_trial.DeviceMemory = Memory
request = {"device": sys.argv[1], "limit": 500 * 2**20, "began": 0.0, "batch": 8, "mode": "train", "share": None,
           "more": 0, "folder": tempfile.mkdtemp()}
with open_counters(sys.argv[1]) as counters:
    print(json.dumps(memory_trial.measure_memory(Trial, request, counters)))
"""


def run(environment, device="gpu"):
    settings = {**environment, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    command = [sys.executable, "-c", TRIAL, device]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, env=settings).stdout)


def test_each_stage_has_its_energy_and_the_figures_of_each_device(tmp_path):
    record = run(build_stub(tmp_path))
    stages = record["stages"]
    assert len(stages) > 10 and [stage["energy_joules"] for stage in stages] == [2.5] * len(stages)
    assert [one["energy_joules"] for one in stages[-1]["nvml"]] == [2.5, 5.0]
    first, last = (stage["nvml"][0]["energy_counter_joules"] for stage in (stages[0], stages[-1]))
    assert last - first == pytest.approx(2.5 * (len(stages) - 1))
    one = stages[-1]["nvml"][0]
    assert one["power_watts"] == 61.5 and one["held_back"][0] == "power cap" and one["corrected_errors"] == 3
    assert [one["name"] for one in stages[-1]["nvml"]] == ["NVIDIA Stub A", "NVIDIA Stub B"]


def test_the_context_is_what_the_allocator_has_not_taken(tmp_path):
    record = run(build_stub(tmp_path))
    memory = {stage["name"]: stage["nvml"][0]["memory"] for stage in record["stages"]}
    assert memory["device ready"]["context"] is None  # whether the region is taken is not known before a tensor is
    built = memory["model built"]
    assert built["own"] == 700_000_000 and built["context"] == 700_000_000 - 500 * 2**20
    assert built["others"] == 1_300_000_000
    # the second device does not list this process, which has it from then on
    unlisted = {stage["name"]: stage["nvml"][1]["memory"]["others"] for stage in record["stages"]}
    assert unlisted["start"] == 1_200_000_000 and unlisted["device ready"] is None


def test_readings_are_apart_from_stages_and_say_their_period(tmp_path):
    record = run(build_stub(tmp_path))
    readings = record["readings"]
    assert readings["period_seconds"] == 0.1
    assert [one["stage"] for one in readings["stages"]] == [stage["name"] for stage in record["stages"]]
    seen = [one for one in readings["stages"] if one["readings"]]
    assert "model built" in [one["stage"] for one in seen]
    figures = seen[0]["figures"]
    assert figures["gpu1.power_watts"]["mean_of_readings"] == 123.0 and figures["gpu1.temperature_celsius"] is None
    assert figures["gpu0.received_bytes_per_s"]["highest_reading"] == 2_600_000.0
    assert figures["ram_bytes"]["lowest_reading"] > 1e6
    assert seen[0]["share_of_readings"]["gpu0: heat, by hardware"] == 1.0
    assert not any("peak" in key for one in seen for figure in one["figures"].values() for key in figure or ())


@pytest.mark.parametrize("device", ["gpu", "cpu-arena"])
def test_without_a_library_stages_have_no_counters(tmp_path, device):
    stub = build_stub(tmp_path) if device == "cpu-arena" else {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    record = run(stub, device)  # the stand-in's steps are not the GPU's
    assert all(stage["energy_joules"] is None and stage["nvml"] is None for stage in record["stages"])
