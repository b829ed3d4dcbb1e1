"""The log of a process that proved a batch, against figures that are counted by hand."""

import json

import pytest

from tests.measure.nvml_stub import build_stub
from tests.measure.test_counters import run
from tfperf.report.memory_log import LOADS, list_counter_lines, list_log_lines, measure_energy
from tfperf.report.memory_page import list_queue_lines
from tfperf.report.proof import RESERVE, estimate_seconds
from tfperf.study.proof import find_proof

GPU, ARENA = {"device": "gpu", "limit": 900}, {"device": "cpu-arena", "limit": 900_000_000}


UNKNOWN = (*LOADS, "pcie_generation", "pcie_width", "corrected_errors", "uncorrected_errors")


def make_stage(name, device=None, peak=None, ram=10, seconds=1.0, counter=None):
    nvml = None
    if counter is not None:
        nvml = [{
            "name": "A", "energy_counter_joules": counter, "held_back": [], **dict.fromkeys(UNKNOWN),
            "power_watts": 61.5,
            "memory": {"total": 8_000_000_000, "used": 3_000_000_000, "own": 5_000_000, "context": None, "others": 0},
        }]  # fmt: skip
    return {"name": name, "device": device, "device_peak": peak, "ram": ram, "ram_peak": ram * 1_000_000,
            "seconds": seconds, "nvml": nvml}  # fmt: skip


def make_proof(counters=None, **work):
    """Of batch 20: 4 MB of data, 50 of a model, 240 at the peak, in 3 steady steps; and of batch 10 before."""
    at = iter(counters or [None] * 12)
    mb = 1_000_000
    stages = [
        make_stage("start", counter=next(at)), make_stage("TensorFlow imported", counter=next(at)),
        make_stage("data read", 4 * mb, 4 * mb, counter=next(at)),
        make_stage("model built", 54 * mb, 60 * mb, ram=30, counter=next(at)),
        make_stage("first step, batch 10", 54 * mb, 999 * mb, ram=99, seconds=50, counter=next(at)),
        make_stage("first step, batch 20", 54 * mb, 200 * mb, seconds=6.0, counter=next(at)),
        *(make_stage(f"step {n}, batch 20", 54 * mb, (238 + n) * mb, 40 + n, 0.5, counter=next(at)) for n in (2, 3, 1)),
        make_stage("validation, batch 20", 54 * mb, 90 * mb, counter=next(at)),
    ]  # fmt: skip
    readings = {"period_seconds": 0.1, "stages": [
        {"stage": "step 2, batch 20", "readings": 3, "share_of_readings": {"gpu0: heat, by hardware": 1, "gpu1: no": 1},
         "figures": {"gpu0.power_watts": {"readings": 3, "mean_of_readings": 10.0, "lowest_reading": 8.0,
                                          "highest_reading": 13.0}, "gpu0.utilisation": None}},
        {"stage": "step 3, batch 20", "readings": 1, "share_of_readings": {},
         "figures": {"gpu0.power_watts": {"readings": 1, "mean_of_readings": 30.0, "lowest_reading": 30.0,
                                          "highest_reading": 30.0}}},
        {"stage": "validation, batch 20", "readings": 1, "share_of_readings": {"gpu0: idle": 1},
         "figures": {"gpu0.power_watts": {"readings": 1, "mean_of_readings": 500.0, "lowest_reading": 500.0,
                                          "highest_reading": 500.0}}},
    ]}  # fmt: skip
    step = {"batch": 20, "seconds_per_step": 0.5, "least": 1, "most": 1, "ram_peak": 1}
    return {"batch": 20, "step": step, "stages": stages, "readings": readings, "work": work or None}


def test_the_log_of_the_stand_in_is_in_its_order_and_counted_by_hand():
    assert list(list_log_lines(make_proof(samples=1000), ARENA)) == [
        ("total memory", "900.0 MB"), ("used before", "4.0 MB"), ("model", "50.0 MB"), ("batch peak", "187.0 MB"),
        ("overall peak", "241.0 MB"), ("peak RAM", "43.0 MB"),
        ("total time", "12.5 s"),  # without the 50 s of another batch
        ("time a batch", "0.50 s"), ("samples", "1000 of an epoch; 4 batches of 20 were taken"),
    ]  # fmt: skip


def test_what_others_use_of_a_gpu_counts_and_what_cannot_be_had_is_told():
    with_nvml = dict(list_log_lines(make_proof(range(1, 13), samples=None), GPU))
    assert with_nvml["total memory"] == "8.00 GB" and with_nvml["used before"] == "3.00 GB"
    assert with_nvml["overall peak"] == "3.24 GB" and with_nvml["samples"].startswith("n/a of an epoch")
    without = dict(list_log_lines(make_proof(), GPU))
    assert without["total memory"] == without["used before"] == without["overall peak"] == "n/a"
    assert without["model"] == "50.0 MB" and without["batch peak"] == "187.0 MB"
    empty = dict(list_log_lines({"batch": 20, "step": {"seconds_per_step": 1}, "stages": []}, GPU))
    assert [key for key, text in empty.items() if text == "n/a"] == [*empty][:7]


def test_energy_is_the_counters_difference_over_the_steady_steps():
    counters = [100.0] * 5 + [200.0, 200.0, 260.0, 260.0, 900.0]
    assert measure_energy(make_proof(counters)) == (60.0, 60)
    assert (
        dict(list_counter_lines(make_proof(counters)))["energy"]
        == "1 J a sample (60 J of 60 samples in 1.50 s of steps)"
    )
    assert measure_energy(make_proof([7.0] * 12)) is None and measure_energy(make_proof()) is None


def test_counters_that_cannot_be_had_are_told():
    lines = dict(list_counter_lines(make_proof()))
    assert lines["energy"] == "n/a a sample" and lines["GPU's counters"].startswith("n/a (memory by process, power")
    lines = dict(list_counter_lines(make_proof([None] * 4 + [7.0] * 12)))
    assert lines["energy"] == "n/a a sample" and lines["PCIe"] == "generation n/a, lanes n/a"
    assert lines["its memory"] == "this process 5.0 MB, of which its context n/a; other processes 0.0 MB"
    assert lines["memory errors"] == "corrected n/a, uncorrected n/a"
    assert "power 61.5 W" in lines["at the last step's end"] and "SM clock n/a" in lines["at the last step's end"]


def test_readings_say_their_period_and_that_they_are_no_peaks():
    lines = dict(list_counter_lines(make_proof(range(12))))
    assert lines["sampled every 0.1 s"] == (
        "power 15 W (8 W to 30 W); utilisation n/a (means of 4 readings in the steps, no peaks)"
    )
    assert lines["clocks held back by"] == "heat, by hardware"


def test_figures_of_the_library_reach_the_log(tmp_path):
    record = run(build_stub(tmp_path))
    proof = find_proof([json.loads(json.dumps(record))], 8)
    assert proof is not None
    lines = dict(list_counter_lines(proof))
    assert lines["energy"].startswith("0.3125 J a sample")  # 2.5 J between readings, of a batch of 8 each
    assert lines["GPU"] == "NVIDIA Stub A" and lines["PCIe"] == "generation 4, lanes 8"
    assert lines["its memory"] == "this process 700.0 MB, of which its context 175.7 MB; other processes 1.30 GB"
    assert lines["memory errors"] == "corrected 3, uncorrected 0"
    assert lines["clocks held back by"] == "heat, by hardware, power cap, reason 0x1000"
    assert lines["GPU 1, without steps"] == "NVIDIA Stub B: 3.00 GB in use, power 123 W"
    assert dict(list_log_lines(proof, GPU))["total memory"] == "8.00 GB"


START = 4 * 1.0 + 6.0  # seconds before the first step, and of it


@pytest.mark.parametrize(
    ("mode", "work", "batches"),
    [
        ("train", {"samples": 1000, "epochs": 3}, 150), ("train", {"samples": 1000, "steps": 7}, 7),
        ("train", {"samples": 1001, "held_samples": 490, "epochs": 3}, 3 * (51 + 25)),
        ("train", {"samples": 100, "held_samples": 21, "steps": 11}, 11 + 3 * 2),
        ("train", {"samples": 7, "epochs": 60}, 60),  # a batch may be larger than an epoch
        ("predict", {"samples": 1000, "held_samples": 100, "epochs": 3}, 50),
    ],
)  # fmt: skip
def test_a_time_limit_is_that_of_all_batches_with_a_reserve(mode, work, batches):
    found = estimate_seconds(make_proof(**work), mode)
    assert found is not None and found[0] == pytest.approx(RESERVE * (START + batches * 0.5))
    assert "at 0.50 s a batch of 20, after 10.0 s" in found[1] and "times 1.5 as a reserve" in found[1]


@pytest.mark.parametrize("work", [{}, {"samples": None, "epochs": 3}, {"samples": 10}])
def test_without_the_number_of_samples_or_epochs_there_is_no_time_limit(work):
    assert estimate_seconds(make_proof(**work), "train") is None


def test_queue_lines_ask_for_ram_processors_gpus_and_time():
    found = {"points": [{"ram_peak": 3.1e9}, {"ram_peak": None}], "proof": make_proof(samples=80_000, epochs=3)}
    report = {"modes": {"train": found}, "cores": 4, "room": GPU}
    slurm, sge, told = list_queue_lines(report, "train")  # 1.5 x (10 s + 6000 s), rounded up
    assert slurm == "#SBATCH --mem=4G --cpus-per-task=4 --gres=gpu:1 --time=02:31:00"
    assert sge == "#$ -l h_vmem=1G -pe smp 4 -l gpu=1 -l h_rt=02:31:00"  # for each slot
    assert told.startswith("# time limit: 3 epochs of 80000 samples, 4000 batches each, at 0.50 s")
    taken = {**report, "modes": {"train": {**found, "proof": make_proof(samples=80_000) | {"address_space": 30e9}}}}
    _, sge, said, _ = list_queue_lines(taken, "train")
    assert sge.startswith("#$ -l h_vmem=9G -pe smp 4"), "33 GB of address space, on four slots"
    assert said == "# h_vmem limits the address space: 30.00 GB were taken"
    unknown = {**report, "modes": {"train": {**found, "proof": make_proof()}}}
    assert list_queue_lines(unknown, "train")[0] == "#SBATCH --mem=4G --cpus-per-task=4 --gres=gpu:1"
    assert list_queue_lines(unknown, "train")[2] == "# time limit: n/a, the number of samples is unknown"


def test_a_process_of_the_batch_alone_proves_it():
    def measured(*batches, number=0):
        return {"batches": [{"batch": batch} for batch in batches], "stages": [batches], "work": number}

    failed = {"failed": "no", "batches": [], "stages": []}
    records = [measured(8, 12), measured(12), measured(12, number=3), failed, measured(8, 12)]
    found = find_proof(records, 12)
    assert found is not None and found["stages"] == [(12,)] and found["work"] == 3
    smaller = find_proof(records, 8)
    assert smaller is not None and smaller["stages"] == [(8, 12)]
    assert find_proof(records, 16) is None
