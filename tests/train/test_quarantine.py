"""A replica that breaks is frozen; the others get the bits that they would have got without it."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests.train.problems import make_loop, make_problem
from tfperf.train import steps
from tfperf.train.loop import Loop
from tfperf.train.optimizers import clip
from tfperf.train.stopping import BLOWN_UP, EarlyStopping, ReplicaState

CLIPPINGS = ("clipnorm", "global_clipnorm", "clipvalue", "none")
POISONS = {"nan": np.nan, "inf": np.inf, "3e38": 3e38, "1e4": 1e4}
MORE = [("weights", "inf"), ("weights", "1e4"), ("gradient", "inf"), ("gradient", "3e38")]  # in slow runs
REPLICAS, BROKEN, STEPS = 5, 2, 20
OTHERS = np.arange(REPLICAS) != BROKEN
# what cannot be told from a large but honest value: an outlier in the data, a gradient that a clipping makes small
HARMLESS = {("data", "1e4", c) for c in CLIPPINGS} | {("gradient", "1e4", c) for c in CLIPPINGS}
HARMLESS |= {("weights", "1e4", c) for c in CLIPPINGS}
HARMLESS |= {("gradient", p, "clipvalue") for p in ("inf", "3e38")}
HARMLESS |= {("gradient", "3e38", c) for c in ("clipnorm", "global_clipnorm")}


def test_quarantined_replica_is_frozen_even_if_it_had_better_weights_to_come(tmp_path):
    card, problem = make_problem(tmp_path, replicas=3)
    loop: Loop = make_loop(card, problem)
    loop.run(5, False)
    loop.stopping.quarantine(tf.constant([False, True, False]), tf.constant(5, tf.int64))
    before = loop.snapshot()
    loop.run(10, False)
    after = loop.snapshot()
    for name, value in before.items():
        if value.ndim:
            np.testing.assert_array_equal(value[1], after[name][1], err_msg=name)
            if name.startswith("model/dense"):
                assert not np.array_equal(value[0], after[name][0])


class Case:
    """One compiled loop whose gradients can be poisoned, its start, and where the healthy replicas end."""

    def __init__(self, folder, monkeypatch, xla, clipping):
        extra = [] if clipping == "none" else [f"train.optimizer.{clipping}=1e-3"]
        self.xla, self.clipping = xla, clipping
        self.card, self.problem = make_problem(
            folder, ["train.optimizer.clipnorm=null", "train.stopping.patience=40", *extra], replicas=REPLICAS
        )
        self.poison = tf.Variable(np.zeros(REPLICAS, np.float32))

        def poisoned(options, gradients):
            first, *rest = gradients
            wrong = tf.reshape(self.poison, [-1, 1, 1])
            return clip(options, [tf.where(wrong != 0, wrong, first), *rest])

        monkeypatch.setattr(steps, "clip", poisoned)
        self.loop = make_loop(self.card, self.problem)
        self.start = self.loop.snapshot()
        self.healthy = self.run(self.loop)

    def run(self, loop):
        loop.run(STEPS, self.xla)
        return loop.snapshot()

    def broken(self, place, value):
        """The end of a run with a wrong value in one replica's weights or gradient."""
        start = {name: np.copy(array) for name, array in self.start.items()}
        if place == "weights":
            start["model/dense_1/kernel"][BROKEN, 0, 0] = value
        self.loop.restore(start)
        self.poison.assign(np.where(OTHERS, 0, value if place == "gradient" else 0).astype(np.float32))
        end = self.run(self.loop)
        self.poison.assign(np.zeros(REPLICAS, np.float32))
        return end


# compiled by XLA for minutes all together: a norm over all weights has most to spread
COMPILED = [pytest.param((True, c), marks=() if c == "global_clipnorm" else pytest.mark.slow) for c in CLIPPINGS]


@pytest.fixture(scope="module", params=[*((False, c) for c in CLIPPINGS), *COMPILED], ids=str)
def case(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield Case(tmp_path_factory.mktemp("quarantine"), patch, *request.param)


def same_for_others(one, other, others=OTHERS):
    for name, value in one.items():
        mine, theirs = (value[others], other[name][others]) if value.ndim else (value, other[name])
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.parametrize(
    ("place", "poison"),
    [("weights", "nan"), ("weights", "3e38"), ("gradient", "nan"), ("gradient", "1e4")]
    + [pytest.param(place, poison, marks=pytest.mark.slow) for place, poison in MORE],
)
def test_others_do_not_notice_a_broken_replica(case, place, poison):
    end = case.broken(place, POISONS[poison])
    same_for_others(case.healthy, end)
    broken = end["stopping/state"][BROKEN] == ReplicaState.QUARANTINED
    assert broken == ((place, poison, case.clipping) not in HARMLESS)
    if broken and place == "gradient":  # frozen with the weights that it had before
        for name, value in case.start.items():
            if name.startswith("model/"):
                np.testing.assert_array_equal(end[name][BROKEN], value[BROKEN], err_msg=name)


def test_others_do_not_notice_broken_data(case):
    """Each poison in a replica of its own: data are constants of the compiled step."""
    data = case.problem.data.copy()
    for row, value in zip((0, 1, 2, 4), POISONS.values(), strict=True):
        point = np.flatnonzero(case.problem.training[row])[0]
        data[row, point] = value if value != 1e4 else data[row, point] * 1e4
    with np.errstate(over="ignore"):  # 3e38 over its error
        loop = make_loop(case.card, replace(case.problem, data=data))
    end = case.run(loop)
    same_for_others(case.healthy, end, [3])
    assert end["stopping/state"].tolist() == [ReplicaState.QUARANTINED] * 3 + [ReplicaState.RUNNING] * 2


def states(chi2, patience=3):
    """States of a replica step by step, by its misfit."""
    stopping, out = EarlyStopping(1, patience, "float32"), []
    for step, value in enumerate(chi2):
        loss = tf.constant([value], tf.float32)
        stopping.quarantine_losses(tf.constant(step, tf.int64), loss, loss)
        out.append(int(stopping.state[0]))
    return out


def test_replica_that_recovers_from_a_pole_is_not_quarantined():
    high = 10 * BLOWN_UP
    assert states([high, high, 1.0, high, high, 1.0]) == [ReplicaState.RUNNING] * 6
    assert states([1.0, high, high, high, 1.0]) == [ReplicaState.RUNNING] * 3 + [ReplicaState.QUARANTINED] * 2
    assert states([np.nan])[0] == states([np.inf])[0] == ReplicaState.QUARANTINED
