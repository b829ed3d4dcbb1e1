"""Rates of model and data alone and together, of a made-up training on a made-up clock."""

import subprocess
import sys

import pytest

from tfperf.inputs.bound import has_shared_cores
from tfperf.workloads.input_trial import BLOCK_SECONDS, LEAST_ROUNDS, SIDES, measure_ceilings, measure_loader


class MadeUpTrial:
    """Each side's steps take their time; drift: of the machine, from turn to turn."""

    batch = 16
    pass_length: int | None = None

    def __init__(self, model=0.010, data=0.005, both=0.012, drift=1.0):
        self.seconds, self.drift = {"model": model, "data": data, "both": both}, drift
        self.now, self.was_put_back, self.taken = 0.0, False, []

    def clock(self):
        return self.now

    def take(self, side, steps):
        self.now += self.seconds[side] * steps
        self.seconds = {key: value * self.drift ** (steps * self.seconds[side]) for key, value in self.seconds.items()}
        self.taken.append((side, steps))

    def put_back(self):
        self.was_put_back = True

    def describe_source(self, seconds):
        return {}


def test_rates_and_waiting_are_those_of_the_sides():
    trial = MadeUpTrial()
    found = measure_ceilings(trial, 6.0, trial.clock)
    for side, seconds in {"model": 0.010, "data": 0.005, "both": 0.012}.items():
        assert found[side]["rate"]["value"] == pytest.approx(1 / seconds)
        assert found[side]["steps"] * seconds == pytest.approx(BLOCK_SECONDS, rel=0.05)
    assert found["waits"]["value"] == pytest.approx(1 - 0.010 / 0.012) and found["batch"] == 16
    assert trial.was_put_back and len(found["both"]["blocks"]) == LEAST_ROUNDS


def test_a_machine_that_grows_slower_does_not_make_the_model_wait():
    trial = MadeUpTrial(model=0.010, both=0.010, drift=1.02)
    found = measure_ceilings(trial, 20.0, trial.clock)
    assert abs(found["waits"]["value"]) < 0.01 and found["model"]["blocks"][0] > 1.2 * found["model"]["blocks"][-1]
    last = [side for side, _ in trial.taken[-4 * len(SIDES) :: 2]]
    assert sorted(last[:3]) == sorted(SIDES) and last[3:] == last[2::-1], "by turns, each with its lead-in"


def test_the_state_is_put_back_where_a_side_fails():
    trial = MadeUpTrial()
    trial.seconds.pop("both")
    with pytest.raises(KeyError):
        measure_ceilings(trial, 1.0, trial.clock)
    assert trial.was_put_back


def test_a_step_that_is_longer_than_a_turn_is_taken_alone():
    trial = MadeUpTrial(model=3.0, data=0.5, both=3.5)
    assert measure_ceilings(trial, 1.0, trial.clock)["model"]["steps"] == 1


WORKER = """
import sys, time
for line in sys.stdin:
    end = time.process_time() + float(line)
    while time.process_time() < end:
        pass
    print(flush=True)
"""
SPENT = 0.04  # CPU-s of a batch


class WorkerTrial(MadeUpTrial):
    """Its batches are made by another process."""

    def __init__(self, worker):
        super().__init__(model=0.25, data=0.25, both=0.25)
        self.worker = worker

    def take(self, side, steps):
        super().take(side, steps)
        if side != "model":
            self.worker.stdin.write(f"{SPENT * steps}\n".encode())
            self.worker.stdin.flush()
            self.worker.stdout.readline()


def test_the_time_of_workers_that_are_processes_counts_on_each_side():
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        trial = WorkerTrial(worker)
        found = measure_ceilings(trial, 1.0, trial.clock)
        worker.communicate()
    spent = {side: found[side]["processor_seconds"] for side in SIDES}
    assert spent["data"] == pytest.approx(SPENT, rel=0.3) and spent["both"] == pytest.approx(SPENT, rel=0.3)
    assert spent["model"] < 0.3 * SPENT
    assert has_shared_cores({**found, "model": {"processor_seconds": SPENT}}, free_cores=3 * SPENT)


class PassingLoader:
    """Each call has a process of its own, which then ends, as the workers of a pass do."""

    pass_length = None

    def __init__(self):
        self.now = 0.0

    def clock(self):
        return self.now

    def take(self, steps):
        self.now += 0.25 * steps
        with subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
            worker.communicate(f"{2 * SPENT * steps}\n".encode())


def test_the_time_of_workers_that_end_with_their_pass_counts():
    loader = PassingLoader()
    found = measure_loader(loader, 1, 1.0, loader.clock)
    assert 2 * SPENT < found["processor_seconds"] < 4 * SPENT  # an interpreter's start is in it


class ShortPasses(MadeUpTrial):
    """To begin a pass of 10 batches takes as long as 100 of them."""

    pass_length = 10

    def __init__(self):
        super().__init__(model=0.001, data=0.010, both=0.010)
        self.place = 0

    def take(self, side, steps):
        super().take(side, steps)
        if side != "model":
            numbers = range(self.place, self.place + steps)
            self.now += sum(1.0 for number in numbers if number % 10 == 0)
            self.place += steps


def test_blocks_are_whole_passes_whose_beginnings_are_in_the_rates():
    trial = ShortPasses()
    found = measure_ceilings(trial, 30.0, trial.clock)
    assert found["data"]["steps"] % 10 == 0 and found["both"]["steps"] % 10 == 0
    assert found["data"]["rate"]["value"] == pytest.approx(10 / 1.1, rel=0.02)
    assert found["data"]["rate"]["low"] > 0.95 * found["data"]["rate"]["value"]
