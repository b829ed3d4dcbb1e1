"""Stacks that break the engine's rules are refused, with what and where; unusual ones that keep them are trained."""

from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.train.least_squares import REPLICAS, SETTINGS, Data, Factory, HeavyBall, LeastSquares, Training
from tests.train.test_any_stack import same
from tfperf.train.ensemble import Ensemble
from tfperf.train.forms import PlainForm
from tfperf.train.stack import Losses


def ones(*shape, dtype="float64", trainable=True):
    return keras.Variable(np.ones(shape), dtype=dtype, trainable=trainable)


class More(LeastSquares):
    """Has weights or state more, as a test adds them."""

    more: ClassVar = {}
    kept: ClassVar = {}

    def list_weights(self):
        return super().list_weights() | self.more

    def list_state(self):
        return self.kept


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ({"more": {"v": ones(8, dtype="float32")}}, r"More.list_weights: v: got float32 \[8\], must be of float64"),
        ({"more": {"v": ones(3, 2)}}, r"More.list_weights: v: got float64 \[3, 2\], must have 8 replicas first"),
        ({"more": {"v": ones(trainable=False)}}, r"More.list_weights: v: got float64 \[\], must have 8 replicas first"),
        ({"more": {"a|b": ones(REPLICAS)}}, r"More.list_weights: got the name 'a\|b'; must be parts between"),
        (
            {"more": {"v": tf.Variable(np.ones(REPLICAS))}},
            "More.list_weights: v: got a ResourceVariable, must be a keras.Variable",
        ),
        ({"kept": {"v": ones(REPLICAS)}}, "More.list_state: v: got a Variable, must be a tensorflow.Variable"),
        ({"kept": {"v": tf.Variable([0.5] * 2)}}, r"More.list_state: v: got float32 \[2\], must have 8 replicas first"),
        ({"more": {"w": ones(REPLICAS, trainable=False)}}, "More.list_weights: none is trainable"),
        (
            {"more": {"v": ones(REPLICAS, dtype="bfloat16", trainable=False)}},
            "v: got .*bfloat16.*; must be of NumPy's own",
        ),
        ({"more": {"v": ones(REPLICAS)}}, "More.evaluate_losses: v: the objective does not depend on it"),
    ],
)
def test_variables_are_refused(added, said, monkeypatch, tmp_path):
    for name, value in added.items():
        monkeypatch.setattr(More, name, value)
    with pytest.raises(ValueError, match=said):
        Training(tmp_path, kind=More).train()


class Told(LeastSquares):
    """Tells its losses as a test changes them."""

    change = staticmethod(lambda losses: losses)
    extra: ClassVar = {}

    def evaluate_losses(self, step, prepared):
        return self.change(super().evaluate_losses(step, prepared))

    def evaluate_metrics(self, step):
        losses, metrics = super().evaluate_metrics(step)
        return losses, metrics | {name: tf.zeros(shape, tf.float64) for name, shape in self.extra.items()}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("objective", tf.reduce_sum, r"got float64 \[\], must be float64 \[8\], a number for each replica"),
        ("monitor", lambda t: tf.cast(t, tf.float32), r"got float32 \[8\], must be float64 \[8\]"),
        ("gate", tf.reduce_all, r"got bool \[\], must be bool \[8\]"),
        ("gate", lambda t: tf.cast(t, tf.float64), r"got float64 \[8\], must be bool \[8\]"),
        ("misfit", lambda t: t[:, None], r"got float64 \[8, 1\], must be float64 \[8\]"),
        ("misfit", lambda t: 1.0, "got a float, must be float64"),
    ],
)
def test_losses_are_refused(name, value, said, monkeypatch, tmp_path):
    def change(losses: Losses):
        return losses._replace(**{name: value(getattr(losses, name))})

    monkeypatch.setattr(Told, "change", staticmethod(change))
    with pytest.raises(ValueError, match=f"Told.evaluate_losses: {name}: {said}"):
        Training(tmp_path, kind=Told).train()


@pytest.mark.parametrize(
    ("extra", "metrics", "said"),
    [
        ({"spread": ()}, ("spread",), r"Told.evaluate_metrics: spread: got float64 \[\], must be float64 \[8\]"),
        (
            {},
            ("spread",),
            "Factory.metrics: names monitor, spread, training; its stacks report monitor, training;",
        ),
        (
            {"spread": (8,)},
            (),
            "names monitor, training; its stacks report monitor, spread, training;",
        ),
    ],
)
def test_metrics_are_refused(extra, metrics, said, monkeypatch, tmp_path):
    monkeypatch.setattr(Told, "extra", extra)
    monkeypatch.setattr(Factory, "metrics", ("training", "monitor", *metrics))
    with pytest.raises(ValueError, match=said):
        Training(tmp_path, kind=Told).ensemble.warm_up(False, False)


def test_what_is_shown_is_one_of_the_metrics(monkeypatch, tmp_path):
    monkeypatch.setattr(Factory, "metrics", ("training",))
    with pytest.raises(ValueError, match=r"Factory.progress_metric: got 'monitor', must be one of \['training'\]"):
        Training(tmp_path)


class Averaged(HeavyBall):
    """Keeps a running mean of its weights, as weights that are not trained."""

    def __init__(self, data, rows):
        super().__init__(data, rows)
        self.mean = keras.Variable(np.zeros(self.w.shape), dtype="float64", trainable=False)
        self.count = keras.Variable(np.zeros(self.replicas), dtype="int64", trainable=False)

    def list_weights(self):
        return super().list_weights() | {"mean": self.mean, "count": self.count}

    def take_step(self, step, prepared):
        losses = super().take_step(step, prepared)
        self.mean.assign(self.w * 2.0)
        self.count.assign(self.count + 1)
        return losses


def test_best_weights_are_of_one_step(tmp_path):
    """Those that are not trained, too; and through a checkpoint."""
    training = Training(tmp_path, kind=Averaged, stacks=2).train()
    weights, best = training.ensemble.get_best_weights(), training.result()[1]
    assert len(set(best)) > 3
    np.testing.assert_array_equal(weights["count"], best)
    np.testing.assert_array_equal(weights["mean"], 2 * weights["w"])
    again = Training(tmp_path, kind=Averaged, stacks=2)
    again.trainer.resume()
    for name, value in again.ensemble.get_best_weights().items():
        np.testing.assert_array_equal(value, weights[name])


class Arrays(LeastSquares):
    """Computes from NumPy arrays, one of them in an object of its own."""

    def __init__(self, data, rows):
        super().__init__(data, rows)
        self.given, self.y = data, data.y

    def squares(self):
        return (tf.linalg.matvec(self.given.a, tf.convert_to_tensor(self.w)) + self.offset - self.y) ** 2


@dataclass(slots=True)
class Slots:
    y: np.ndarray


class Frame:
    """As a table of another library: what it holds no attribute shows."""

    __slots__ = ()
    kept: ClassVar[dict] = {}

    def __init__(self, y):
        self.kept[id(self)] = y

    y = property(lambda self: self.kept[id(self)])


def close_over(y):
    return lambda: y


HOLDERS = {
    "plain": (lambda y: y, lambda held: held),
    "slots": (Slots, lambda held: held.y),
    "opaque": (Frame, lambda held: held.y),
    "partial": (lambda y: partial(np.asarray, y), lambda held: held()),
    "closure": (close_over, lambda held: held()),
    "mapping": (lambda y: MappingProxyType({"y": y}), lambda held: held["y"]),
    "layer": (lambda y: keras.layers.Rescaling(1.0, offset=y), lambda held: held.offset),
    "method": (lambda y: Slots(y).__class__(y).__getattribute__, lambda held: held("y")),
}


class Holding(LeastSquares):
    """Computes from a NumPy array that it holds in some way."""

    holder = "plain"

    def __init__(self, data, rows):
        super().__init__(data, rows)
        self.y = HOLDERS[self.holder][0](data.y)

    def squares(self):
        y = HOLDERS[self.holder][1](self.y)
        return (tf.linalg.matvec(self.a, tf.convert_to_tensor(self.w)) + self.offset - y) ** 2


@pytest.mark.parametrize("holder", HOLDERS)
def test_arrays_of_one_stack_are_not_anothers(tmp_path, holder, monkeypatch):
    """Four stacks of two, each traced for itself."""
    monkeypatch.setattr(Holding, "holder", holder)
    data = Data.draw()
    same(Training(tmp_path, data, Holding, stacks=4).train().result(), data)


def test_functions_of_one_stack_are_not_anothers(monkeypatch):
    """Of the same name."""
    from tfperf.train.blueprints import list_constants

    def hold(kind):
        stack = LeastSquares(Data.draw(), 8)
        stack.f = kind  # type: ignore[attr-defined]
        return list_constants(stack)

    assert (
        hold(lambda x: x + 1) != hold(lambda x: x + 2)
        and hold(tf.tanh) != hold(tf.sin)
        and hold(tf.sin) == hold(tf.sin)
    )
    assert hold(np.tanh) != hold(np.sin) and hold(abs) != hold(min) and hold({1, 2}) != hold({1, 3})


def test_arrays_that_are_alike_cost_no_tracing(monkeypatch):
    from tfperf.train import loop

    names, trace = [], loop.trace  # type: ignore[attr-defined]
    monkeypatch.setattr(loop, "trace", lambda *args: names.append(args[-1]) or trace(*args))  # type: ignore[func-returns-value]
    for alike, traced in (((), 4), (("given", "y"), 1)):
        monkeypatch.setattr(Arrays, "alike", alike)
        names.clear()
        Ensemble(SETTINGS, Factory(Data.draw(), Arrays), PlainForm(), 4).run(1, False)
        assert len(names) == traced


class Forgetful(HeavyBall):
    """Leaves a variable that it assigns out of its state."""

    def list_state(self):
        return {name: v for name, v in super().list_state().items() if name != "velocity"}


@pytest.mark.parametrize("xla", [False, True])
def test_variables_that_no_checkpoint_would_have_are_refused(tmp_path, xla):
    training = Training(tmp_path, kind=Forgetful, settings=replace(SETTINGS, xla=xla))
    with pytest.raises(ValueError, match=r"Forgetful: variable Variable.*: is assigned, but neither among weights nor"):
        training.train()
