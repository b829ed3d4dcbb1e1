"""A fit made of a stepper: killed anywhere it goes on to the same bits, and what breaks leaves a checkpoint."""

import signal

import numpy as np
import pytest
import tensorflow as tf

from tests.train.problems import checkpoints_in
from tfperf.errors import Interrupted, RunDirectoryError, TrainingError
from tfperf.signals import Signals
from tfperf.workloads.stepper_trainer import StepperTrainer

STEPS = 95


class Walk:
    """A number that a map with chaos moves: one step too many, too few or twice is another number."""

    steps_per_call, loops, optimizers = 10, 1, ()

    def __init__(self, steps=STEPS, ends=10**9, breaks=10**9):
        self.steps, self.ends, self.breaks = steps, ends, breaks
        self.x, self.taken, self.calls = np.array([0.3, 0.6]), 0, []

    def _step(self):
        self.x = 3.9 * self.x * (1 - self.x)
        self.taken += 1

    def warm_up(self):
        self._step()

    def call(self, steps):
        taken = min(steps, self.ends - self.taken)
        for _ in range(taken):
            self._step()
        self.calls.append(steps)
        return taken

    def list_losses(self):
        return [np.nan if self.taken > self.breaks else float(self.x.mean())]

    def snapshot(self):
        return {"x": self.x, "taken": np.array(self.taken)}

    def restore(self, snapshot):
        self.x, self.taken = snapshot["x"].copy(), int(snapshot["taken"])

    def close(self):
        pass


def walk(steps=STEPS):
    one = Walk()
    for _ in range(steps):
        one._step()
    return one.x


def fit(folder, stepper=None, signals=None, stop_at=None, every=20):
    training = StepperTrainer(stepper or Walk(), checkpoints_in(folder), every)
    step, warnings = training.resume()
    training.compile()
    signals, seen = signals or Signals(), []

    def show(now):
        seen.append(now)
        if stop_at is not None and now.step >= stop_at:
            signals.received = signal.SIGTERM

    training.train(signals, show)
    return training, step, seen, warnings


def test_all_steps_are_taken_once(tmp_path):
    training, _, seen, _ = fit(tmp_path)
    np.testing.assert_array_equal(training.stepper.x, walk())
    assert training.stepper.calls == [10] * 9 + [5] and [s.step for s in seen[-2:]] == [90, 95] and seen[-1].over
    assert training.losses == [float(walk().mean())] and len(training.seconds_per_step) == 10


@pytest.mark.parametrize("stop_at", [10, 30, 60])
def test_a_stopped_training_goes_on_to_the_same_bits(tmp_path, stop_at):
    with pytest.raises(Interrupted):
        fit(tmp_path, stop_at=stop_at)
    training, step, _, _ = fit(tmp_path)
    assert step == stop_at
    np.testing.assert_array_equal(training.stepper.x, walk())
    again, step, seen, _ = fit(tmp_path)
    assert step == STEPS and not seen and again.losses == training.losses
    np.testing.assert_array_equal(again.stepper.x, walk())


def test_a_signal_within_a_call_leaves_a_checkpoint_of_its_end(tmp_path):
    signals = Signals()
    stepper = Walk()
    plain = stepper.call

    def call(steps):
        signals.received = signal.SIGTERM if stepper.taken >= 20 else None
        return plain(steps)

    stepper.call = call  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        fit(tmp_path, stepper, signals, every=1000)
    assert fit(tmp_path)[1] == 30


def test_a_training_that_breaks_keeps_the_checkpoint_before(tmp_path):
    with pytest.raises(TrainingError, match="not finite in the 10 steps after step 50"):
        fit(tmp_path, Walk(breaks=55))
    training, step, _, _ = fit(tmp_path)
    assert step == 40
    np.testing.assert_array_equal(training.stepper.x, walk())


def test_a_training_may_end_by_itself(tmp_path):
    training, _, seen, _ = fit(tmp_path, Walk(ends=47))
    assert training.step == 47 and seen[-1].over and fit(tmp_path, Walk(ends=47))[1] == 47
    np.testing.assert_array_equal(training.stepper.x, walk(47))


def test_checkpoints_of_another_program_are_refused(tmp_path):
    fit(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Walk, "restore", lambda self, snapshot: self.__dict__.update(x=snapshot["y"]))
        with pytest.raises(RunDirectoryError, match="another program version: 'y'"):
            fit(tmp_path)


def test_losses_need_not_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Walk, "list_losses", lambda self: [])
    training, _, seen, _ = fit(tmp_path)
    assert training.loss is None and {s.loss for s in seen} == {None} and fit(tmp_path)[0].loss is None


@pytest.mark.parametrize("stop_at", [50, 95])
def test_a_signal_between_two_calls_leaves_a_checkpoint(tmp_path, stop_at):
    with pytest.raises(Interrupted, match=f"step {stop_at}"):
        fit(tmp_path, stop_at=stop_at, every=1000)
    training, step, _, _ = fit(tmp_path)
    assert step == stop_at and len(training.seconds_per_step) == 10, "times before it, too"
    np.testing.assert_array_equal(training.stepper.x, walk())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("a|b", np.ones(2), r"got the name 'a\|b'"),
        ("", np.ones(2), "got the name ''"),
        ("x/", np.ones(2), "got the name 'x/'"),
        ("x/../y", np.ones(2), "got the name 'x/../y'"),
        ("x/mean", np.ones(2), "got the name 'x'"),
        ("text", np.array("state"), "text: got <U5; must be of NumPy's own numbers"),
        ("half", tf.ones(2, tf.bfloat16).numpy(), "half: got bfloat16; must be"),
        ("objects", np.array([{}]), "objects: got object; must be"),
    ],
)
def test_a_snapshot_that_files_do_not_give_back_is_refused_before_the_first_step(tmp_path, name, value, said):
    stepper = Walk()
    plain = stepper.snapshot
    stepper.snapshot = lambda: {**plain(), name: value}  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match=said):
        fit(tmp_path, stepper)
    assert not stepper.calls and not list(tmp_path.glob("step*"))


@pytest.mark.parametrize("more", [1, -11])
def test_a_call_that_took_other_steps_than_there_are_is_refused(tmp_path, more):
    stepper = Walk()
    plain = stepper.call
    stepper.call = lambda steps: plain(steps) + more  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match=f"a call of 10 steps after step 0 says that it took {10 + more}"):
        fit(tmp_path, stepper)
