"""A stack takes over the programs of an equal one: what it would have traced itself, with its own tensors."""

import numpy as np
import pytest
import tensorflow as tf

from tests import make_hadronic
from tests.train.problems import make_ensemble, make_problem
from tfperf.train.blueprints import Blueprint, Blueprints
from tfperf.train.programs import trace
from tfperf.workloads.pdf.forms import build_form

CARDS = {
    "shared": [],
    "joined": ["engine.products=joined"],
    "weighted": ["data.sets=[{name: DDD_SMN, weight: 3}, {name: CCC_ASY}]"],
    "exponents": ["model.trainable_exponents=true"],
    "bare": ["integrability.nodes=0", "positivity.sets=none", "train.optimizer={name: SGD, learning_rate: 0.1}"],
    "folded": ["engine.form=folded", "engine.tolerance=0"],
    "reduced": ["engine.form=folded", "engine.tolerance=1e-3"],
}


def list_programs(ensemble):
    """Every program of the second stack as it takes it over, and as it traces it."""
    first, second = ensemble.build_loops()
    for name in ("steps", "losses"):
        first._trace(name, False)  # a process numbers the functions in its first one otherwise
        first.get_program(name, False)
        yield name, second.get_program(name, False), second._trace(name, False)


QUICK = {("shared", True), ("weighted", False)}


@pytest.mark.parametrize(
    ("kind", "hadronic"),
    [
        pytest.param(kind, hadronic, marks=() if (kind, hadronic) in QUICK else pytest.mark.slow)
        for kind in CARDS
        for hadronic in ([False] if kind == "weighted" else [False, True])  # which names sets of the other pack
    ],
)
def test_a_program_taken_over_is_the_one_traced(tmp_path, kind, hadronic):
    """The name of a program tells its content: under one name there are never two."""
    if hadronic:
        make_hadronic.make_pack(tmp_path / "pack.h5")
    card, problem = make_problem(tmp_path, CARDS[kind], replicas=4)
    assert card.engine.form != "auto"
    ensemble = make_ensemble(card, problem, build_form(card, problem, card.engine.form), stacks=2)
    for name, taken, traced in list_programs(ensemble):
        assert taken.function is traced.function, name
        assert len(taken.captures) == len(traced.captures) > 10
        assert all(one is other for one, other in zip(taken.captures, traced.captures, strict=True)), name


def test_the_second_stack_is_not_traced(tmp_path, monkeypatch):
    from tfperf.train import loop

    card, problem = make_problem(tmp_path, replicas=6)
    names = []
    monkeypatch.setattr(loop, "trace", lambda *args: names.append(args[-1]) or trace(*args))  # type: ignore[func-returns-value]
    ensemble = make_ensemble(card, problem, stacks=3)
    ensemble.run(2, False)
    assert len(names) == 1
    ensemble.evaluate(False)
    ensemble.shrink(6)
    assert len(names) == 2


class Holder:
    """Something with tensors."""

    def __init__(self, size, scale):
        self.scale, self.table = scale, {"rows": [tf.Variable(tf.fill([size], 2.0)), tf.fill([size], 3.0)]}

    def times(self, count):
        variable, constant = self.table["rows"]
        return tf.cast(count, tf.float32) * variable * constant


def test_what_does_not_fit_is_traced_anew():
    signature, ten = [tf.TensorSpec([], tf.int64)], tf.constant(10, tf.int64)
    known = Blueprints()

    def get(holder):
        return known.get_program(vars(holder), ("times",), lambda: trace(holder.times, signature, False, "times"))

    def bind_first(holder):
        made = Blueprint.make(get(first), vars(first))
        assert made is not None
        return made.bind(vars(holder))

    first, same, longer = Holder(2, 1), Holder(2, 1), Holder(3, 1)
    assert get(first).function is get(same).function
    assert bind_first(longer) is None, "of another shape"
    same.table["rows"][0].assign([5.0, 7.0])
    assert get(same)(ten).numpy().tolist() == [150, 210] and get(first)(ten).numpy().tolist() == [60, 60]
    assert get(longer)(ten).numpy().tolist() == [60, 60, 60]
    del same.table["rows"]
    assert bind_first(same) is None, "a tensor is missing"
    elsewhere = tf.Variable(1.0)
    outside = trace(lambda count: tf.cast(count, tf.float32) * elsewhere, signature, False, "outside")
    assert Blueprint.make(outside, vars(first)) is None, "what it works on is not the holder's"


def test_replicas_in_four_stacks_train_as_in_one(tmp_path):
    card, problem = make_problem(tmp_path, precision="float64", replicas=8)
    one, four = (make_ensemble(card, problem, stacks=stacks) for stacks in (1, 4))
    for ensemble in (one, four):
        ensemble.run(20, False)
    assert [shard.size for shard in four.shards] == [2] * 4
    for name, value in one.gather_state().items():
        np.testing.assert_allclose(value, four.gather_state()[name], rtol=1e-10, atol=1e-13, err_msg=name)
