"""The benchmark of applied findings makes the change that each asks for, takes it back, and scores what it gains."""

from contextlib import nullcontext
from itertools import groupby
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks.diagnosis.applied import ROUNDS, score_change, time_change
from benchmarks.diagnosis.changes import LONGER, make_change
from benchmarks.diagnosis.fits import Pages, build_mlp, make_arrays, make_dataset
from benchmarks.diagnosis.loops import repeat
from benchmarks.diagnosis.program import Fit, OwnLoop
from tfperf.trace.rules.waits import CHEAPER, FEED, FILLED


class NestedPages(Pages):
    """Of two inputs."""

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        x, y = super().__getitem__(index)
        return (x, x[:, :1]), y


def make_finding(rule: str, change: str = "") -> dict[str, str]:
    return {"rule": rule, "change": change}


@pytest.mark.parametrize("gain, after, within", [
    (2.0, [8.0, 8.1, 3.0], "yes"), (2.4, [8.0, 8.1, 3.0], "yes"), (2.6, [8.0, 8.1, 3.0], "no"),
    (1.4, [8.0, 8.1, 3.0], "no"), (0.02, [10.0, 10.0, 10.0], "yes"), (0.2, [10.1, 10.1, 10.1], "no"),
    (2.0, [], "not made"),
])  # fmt: skip
def test_what_is_said_is_held_against_the_median_of_differences(gain, after, within):
    found = {"rule": "calls", "gain_ms": gain, "before_ms": [10.0] * len(after), "after_ms": after, "failed": ""}
    assert score_change("one", found)["within"] == within


@pytest.mark.parametrize("change, name, value", [
    ("set steps_per_execution=12 of compile(), a divisor", "steps_per_execution", 12),
    ("set jit_compile=True of compile(), or raise the batch size", "jit_compile", True),
])  # fmt: skip
def test_settings_of_compile_are_set_and_taken_back(change, name, value):
    fit = Fit(build_mlp(4, 1), make_dataset(12), 12)
    own = getattr(fit.model, name)
    with pytest.raises(KeyError), make_change(fit, make_finding("calls", change)) as changed:
        assert changed is fit and getattr(fit.model, name) == value != own
        fit.model.fit(fit.data, verbose=0, shuffle=False)
        raise KeyError
    assert getattr(fit.model, name) == own and fit.model.train_function is None


def test_longer_epochs_are_made_where_nothing_else_comes_once_an_epoch():
    fit, finding = Fit(build_mlp(4, 1), make_dataset(2), 2), make_finding("epoch")
    with make_change(fit, finding) as changed:
        assert isinstance(changed, Fit) and changed.steps == LONGER * 2
    for other in (
        Fit(fit.model, fit.data, 2, lambda: [keras.callbacks.Callback()]), Fit(fit.model, make_arrays(2), 2),
        Fit(fit.model, fit.data, 2, settings={"validation_data": make_dataset(1)}),
    ):  # fmt: skip
        with make_change(other, finding) as changed:
            assert changed is None


@pytest.mark.parametrize("data, change", [
    (Pages(False), CHEAPER), (NestedPages(False), CHEAPER), (make_dataset(12), CHEAPER), (make_dataset(12), FEED),
    (make_dataset(12).repeat(), FEED),
])  # fmt: skip
def test_data_that_are_kept_are_the_same(data, change):
    fit = Fit(build_mlp(4, 1), data, 12)
    batches = [data[i] for i in range(12)] if isinstance(data, keras.utils.PyDataset) else list(data.take(12))
    with make_change(fit, make_finding("input", change)) as changed:
        assert isinstance(changed, Fit)
        for _ in range(2):
            for mine, one in zip(changed.data, batches, strict=True):
                tf.nest.map_structure(np.testing.assert_array_equal, mine, tuple(one))


@pytest.mark.parametrize("data, change", [(make_dataset(12), FILLED), (Pages(False), FEED), (make_arrays(1), FEED)])
def test_data_are_not_kept_where_something_else_is_asked_for(data, change):
    with make_change(Fit(build_mlp(4, 1), data, 12), make_finding("input", change)) as changed:
        assert changed is None


class OwnFunction(keras.Model):
    """Takes one batch a call, whatever steps_per_execution says."""

    def make_train_function(self, force: bool = False) -> Any:
        """Some function."""
        self.train_function = lambda iterator: {"loss": next(iterator)}
        return self.train_function


def test_settings_that_a_model_does_not_heed_are_not_set():
    model = OwnFunction()
    model.compile("sgd", jit_compile=False)
    for change in ("set steps_per_execution=12 of compile()", "set jit_compile=True of compile()"):
        with make_change(Fit(model, make_dataset(1), 1), make_finding("calls", change)) as changed:
            assert changed is None


def test_a_change_that_fails_is_told_and_ends_nothing():
    def fail() -> Any:
        raise ValueError("no kernel")

    loop = OwnLoop(repeat(lambda: 0.0).run, changes={"short_operations": fail})
    found = time_change(loop, {"rule": "short_operations", "change": "jit", "gain_ms": 1.0}, 24)
    assert score_change("one", found)["within"] == "fails: ValueError"


def test_each_round_has_the_training_with_the_change_and_without_it():
    taken = []
    loop = OwnLoop(
        repeat(lambda: taken.append("without")).run, changes={"python": lambda: repeat(lambda: taken.append("with"))}
    )
    found = time_change(loop, {"rule": "python", "change": "leave it out", "gain_ms": 4.0}, 24)
    assert len(found["before_ms"]) == len(found["after_ms"]) == ROUNDS
    turns = [one for one, _ in groupby(taken)]
    assert turns == ["with", "without", "with", "without", "with", "without"], "which is first alternates"


def test_a_loop_that_is_changed_takes_as_many_steps():
    count, seen = tf.Variable(0), []

    @tf.function
    def step() -> Any:
        return count.assign_add(1)

    loop = repeat(step, after=lambda number, loss: seen.append(number))
    for rule, steps in (("calls", 16), ("short_operations", 1)):
        with make_change(loop, make_finding(rule)) as changed:
            count.assign(0)
            seen.clear()
            assert isinstance(changed, OwnLoop)
            changed.run(lambda number: nullcontext(), range(3))
            assert int(count) == len(seen) == 3 * steps == 3 * changed.steps_per_call
    with make_change(loop, make_finding("python")) as changed:
        assert changed is None
    assert not repeat(tf.function(lambda: count, jit_compile=True)).changes
