"""Steps on demand: what is timed was taken, and by a training that is sound."""

import time

import pytest

from tfperf.errors import CardError, TrainingError
from tfperf.workloads.stepper import FEWEST, WARM, measure_steps, take_steps


class Steps:
    """Steps that are waited for; as many as there are."""

    steps_per_call, loops, optimizers = 10, 1, ()

    def __init__(self, there=10**9, steps=None, loss=1.0):
        self.there, self.steps, self.loss, self.taken, self.closed = there, steps, loss, 0, False

    def warm_up(self):
        pass

    def call(self, steps):
        time.sleep(1e-3 if self.taken % 20 else 4e-3)  # the median's interval is never close
        taken = min(steps, self.there - self.taken)
        self.taken += taken
        return taken

    def list_losses(self):
        return [self.loss, 1.0]

    def close(self):
        self.closed = True


def measure(stepper, **request):
    asked = {"warmup": 0, "steps": 1, "seconds": 0.2, "began": time.perf_counter() - 10} | request
    return measure_steps(stepper, asked)


def test_steps_are_timed():
    stepper = Steps()
    record = measure(stepper)
    assert 0.1 < record["ms_per_step"]["median"] < 1 and stepper.closed
    assert stepper.taken == record["steps"] + 10 * (WARM + record["left_out"]) and record["losses"] == [1.0, 1.0]
    assert record["first_step"] == 10 * WARM


@pytest.mark.parametrize("there", [0, 15, 45])
def test_steps_that_were_not_taken_are_not_timed(there):
    """A training that has stopped answers at once: thousand times as fast."""
    with pytest.raises(TrainingError, match=f"ended after {there % 10} of the 10 steps"):
        measure(Steps(there))


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_training_that_broke_is_not_timed(loss):
    with pytest.raises(TrainingError, match=f"a loss of the last steps is {loss}"):
        measure(Steps(loss=loss))


def test_no_step_is_taken_beyond_those_that_there_are():
    stepper = Steps(there=100, steps=105)
    record = measure(stepper, seconds=60)
    assert stepper.taken == 100 and record["timing"]["ended"] == "steps" and record["samples"] == 10 - WARM


def test_a_training_that_is_too_short_is_refused_before_it_begins():
    stepper = Steps(steps=10 * (WARM + FEWEST) - 1)
    with pytest.raises(CardError, match=f"has 69 steps; {FEWEST} calls of 10 .* after {WARM} others"):
        measure(stepper)
    assert not stepper.taken
    with pytest.raises(CardError, match="12 calls of 10 steps are to be timed after 3"):
        measure(Steps(steps=149), warmup=21, steps=120)


def test_a_call_says_what_it_took():
    take_steps(Steps(there=10), 10)
    with pytest.raises(TrainingError):
        take_steps(Steps(there=9), 10)
