"""The engine on a stack that belongs to no workload, against descent in NumPy, one problem after the other."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.train.least_squares import (
    FRICTION,
    REPLICAS,
    ROWS,
    SETTINGS,
    STEPS,
    Data,
    Factory,
    FirstRows,
    HeavyBall,
    LeastSquares,
    RowsCheck,
    Training,
)
from tests.train.problems import signal_at
from tfperf.errors import Interrupted
from tfperf.train.choice_cache import find_path, read, write
from tfperf.train.choices import Choices
from tfperf.train.choosing import choose
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import PlainForm, PlainForms
from tfperf.train.stopping import ReplicaState

KINDS = {LeastSquares: 0.0, HeavyBall: FRICTION}


def same(result, data, rows=None, friction=0.0):
    """AssertionError where an engine's result is not that of NumPy, for some replicas."""
    weights, best, stop, _ = result
    for r in range(len(data.y)) if rows is None else rows:
        kept, best_step, stop_step = data.fit_slowly(r, friction)
        assert (best[r], stop[r]) == (best_step, stop_step), r
        np.testing.assert_allclose(weights[r], kept, rtol=1e-11, atol=1e-12)


def test_problems_say_something():
    data = Data.draw()
    ends = [data.fit_slowly(r) for r in range(REPLICAS)]
    assert len({stop for *_, stop in ends}) > 3 and max(stop for *_, stop in ends) == STEPS


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_found(kind, tmp_path):
    data, answers = Data.solve()
    np.testing.assert_allclose(Training(tmp_path, data, kind).train().result()[0], answers, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kind", "xla"), [
    (LeastSquares, False), (HeavyBall, False), (HeavyBall, True),
    pytest.param(LeastSquares, True, marks=pytest.mark.slow),
])  # fmt: skip
def test_each_replica_is_descent_on_its_problem_alone(kind, xla, tmp_path, caplog):
    """Three stacks, which are left out and made smaller as replicas stop."""
    caplog.set_level("INFO", "tfperf")
    settings = replace(SETTINGS, xla=xla)
    training = Training(tmp_path, kind=kind, stacks=3, at=(30, 60, 90), settings=settings).train()
    same(training.result(), training.data, friction=KINDS[kind])
    assert training.ensemble.sizes[0][1] == REPLICAS > training.ensemble.size
    assert training.seen[-1].over and np.isfinite(training.seen[-1].latest).all()
    assert re.search(rf"step 30: \d replicas run; the stacks retire from {REPLICAS} slots to \d", caplog.text)
    rows = training.trainer.make_history().metrics
    assert rows.keys() == {"training", "monitor"} and np.isnan(rows["monitor"][-1]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_broken_replica_is_left_alone_with_its_weights(kind, tmp_path, caplog):
    whole = Data.draw()
    y = whole.y.copy()
    y[2, np.flatnonzero(whole.trains[2])[0]] = np.nan
    healthy, broken = (Training(tmp_path / n, d, kind).train() for n, d in (("a", whole), ("b", replace(whole, y=y))))
    others = [r for r in range(REPLICAS) if r != 2]
    same(broken.result(), whole, others, KINDS[kind])
    for one, other in zip(healthy.result(), broken.result(), strict=True):
        np.testing.assert_array_equal(one[others], other[others])
    weights, _, stop, state = broken.result()
    assert (ReplicaState(state[2]), stop[2], weights[2].tolist()) == (ReplicaState.QUARANTINED, 0, [0.0] * 3)
    assert broken.ensemble.count_quarantined() == 1
    assert caplog.text.count("1 replicas are quarantined, 0 before") == 1


def test_what_a_step_of_the_stacks_own_changed_in_stopped_replicas_is_undone(tmp_path):
    training = Training(tmp_path, kind=HeavyBall).train()
    end, (*_, stop, _) = training.ensemble.gather_state(), training.result()
    np.testing.assert_array_equal(end["state/taken"], stop)
    assert end["state/calls"] == training.ensemble.step == STEPS
    for r in np.flatnonzero(stop < STEPS):
        assert np.abs(end["state/velocity"][r]).max() > 0


def test_broken_state_of_a_stack_breaks_its_replica_alone(tmp_path):
    training = Training(tmp_path, kind=HeavyBall)
    stack = training.ensemble.largest_loop.stack
    assert isinstance(stack, HeavyBall)
    velocity = stack.velocity
    velocity.assign(np.where(np.arange(REPLICAS)[:, None] == 4, np.inf, velocity))
    weights, _, stop, state = training.train().result()
    assert (ReplicaState(state[4]), stop[4], weights[4].tolist()) == (ReplicaState.QUARANTINED, 0, [0.0] * 3)
    others = [r for r in range(REPLICAS) if r != 4]
    same((weights, *training.result()[1:]), training.data, others, FRICTION)


# HeavyBall has state of its own beside the engine's
@pytest.mark.parametrize("kind", [HeavyBall, pytest.param(LeastSquares, marks=pytest.mark.slow)])
def test_resumed_training_has_the_same_bits(kind, tmp_path):
    whole = Training(tmp_path / "whole", kind=kind, stacks=2, at=(30, 60)).train()
    first = Training(tmp_path / "cut", kind=kind, stacks=2, at=(30, 60))
    with pytest.raises(Interrupted):
        first.train(signal_at(first.ensemble, 50))
    again = Training(tmp_path / "cut", kind=kind, stacks=2, at=(30, 60))
    assert again.trainer.resume() == (50, [])
    again.train()
    for name, value in whole.ensemble.gather_state().items():
        np.testing.assert_array_equal(value, again.ensemble.gather_state()[name], err_msg=name)
    first_losses, second_losses = (t.trainer.make_history().metrics["training"] for t in (whole, again))
    np.testing.assert_array_equal(first_losses, second_losses)
    other = HeavyBall if kind is LeastSquares else LeastSquares
    with pytest.raises(Exception, match="another loop"):
        Training(tmp_path / "cut", kind=other, stacks=2).trainer.resume()


@pytest.mark.slow
def test_two_devices_are_one(tmp_path):
    command = [sys.executable, "-m", "tests.train.least_squares", str(tmp_path), "2", "two"]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2], timeout=300)
    weights, *_ = Training(tmp_path / "one", at=(40, 80)).train().result()
    two = np.load(tmp_path / "two.npz")
    assert len({str(p) for p in two["places"]}) == 2 and two["sizes"][-1][1] < REPLICAS
    same([two[k] for k in ("w", "best", "stop", "state")], Data.draw())
    np.testing.assert_allclose(weights, two["w"], rtol=0, atol=1e-13)


def test_form_that_leaves_something_out_is_found_out_and_mended(tmp_path):
    data = Data.draw()
    check = RowsCheck(data)
    training = Training(tmp_path, data, form=FirstRows(numbers=(8,)), check=check).train()
    assert [(step, number) for step, number, _ in check.found][:3] == [(10, 8), (20, 16), (30, ROWS)]
    assert check.found[0][2] > 1e-3 and check.found[2][2] < 1e-9
    assert training.ensemble.form.numbers == (ROWS,)


def test_choices_are_measured_and_kept(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "tfperf")
    monkeypatch.setenv("TFPERF_CACHE", str(tmp_path))
    settings = replace(SETTINGS, steps_per_call="auto", cache=True)
    ensemble = Ensemble(settings, Factory(Data.draw()), PlainForm())
    choices = choose(ensemble, PlainForms(), Cores(1))
    assert (choices.form, choices.products, choices.xla) == ("plain", "plain", False)
    assert 1 <= choices.steps_per_call <= STEPS and ensemble.step == 0
    assert f"tried: {choices.tried[0]}" in caplog.text
    path = find_path(True, ensemble.factory.digest(PlainForm()), choices.cores)
    assert write(path, choices) == ()
    assert read(settings, path, ["plain"], ["plain"]) == replace(choices, cached=True)
    assert read(settings, path, ["other"], ["plain"]) is None
    with pytest.raises(ValueError, match="no form: plain"):
        Choices.from_dict(choices.to_dict(), ["plain"], ["other"])
