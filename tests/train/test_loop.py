"""The loop against single networks trained one at a time by Keras itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.train.problems import make_loop, make_problem
from tfperf.train.stopping import ReplicaState
from tfperf.workloads.pdf.data.selection import select
from tfperf.workloads.pdf.operators.problem import build_problem

REST = ("float64", True), ("float64", False)
NAMES = ("SGD", "RMSprop", "Adam", "AdamW", "Adamax", "Nadam", "Adagrad", "Adadelta", "Ftrl", "Lion")
QUICK = ("SGD", "RMSprop", "AdamW", "Ftrl")  # none, one and two slots, decay of weights, and a slot of its own kind


def run(loop, count, xla=False):
    loop.run(count, xla)
    return {k: v.numpy() for k, v in loop.stack.model.list_weights().items()}


def single_step(loop, problem, card, r, clips):
    """Weights of replica r after one step of Keras' own optimizer on that replica alone, loss by dense covariance."""
    names = [n for n, v in loop.stack.model.list_weights().items() if v.trainable]
    start = {n: tf.Variable(v.value[r : r + 1]) for n, v in loop.stack.model.list_weights().items()}
    model = type(loop.stack.model)(card.model, 1, "float64")
    cov = reference.covariance(problem.datasets, [d.t0 for d in problem.datasets])
    mask = problem.training[r]
    inverse = np.linalg.inv(cov[np.ix_(mask, mask)])
    inside = problem.pack.x < 1
    tables = [[tf.constant(reference.dense(t)[:, :, inside]) for t in d.tables] for d in problem.datasets]
    positive = [tf.constant(reference.dense(p.table)[:, :, inside]) for p in problem.pack.positivity]
    for name, variable in model.list_weights().items():
        variable.assign(start[name])
    optimizer = getattr(keras.optimizers, card.train.optimizer.name)(**card.train.optimizer.make_arguments(), **clips)
    from tfperf.workloads.pdf.operators.observables import combine

    with tf.GradientTape() as tape:
        pdf = model(problem.pack.x[inside])

        def raw(table):
            return tf.einsum("nfx,fx->n", table, pdf[0])

        sets = zip(problem.datasets, tables, strict=True)
        y = tf.concat([combine(d.operation, [raw(t) for t in ts]) for d, ts in sets], 0)
        residual = tf.boolean_mask(y - problem.data[r], mask)
        hinge = sum(tf.reduce_sum(tf.nn.relu(-raw(p))) for p in positive)
        small = tf.reduce_sum(tf.abs(pdf[0, 5:7, 0]))
        loss = tf.tensordot(residual, tf.linalg.matvec(inverse, residual), 1)
        loss += card.positivity.initial * hinge + card.integrability.initial * small
    variables = [v for v in model.trainable_variables]
    optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
    return {n: model.list_weights()[n].numpy()[0] for n in names}


CLIPPED = (("SGD", "clipnorm"), ("Nadam", "global_clipnorm"), ("SGD", "clipvalue"))  # the other way round


@pytest.mark.parametrize(
    ("name", "clip"),
    [
        *((name, "none") for name in QUICK),
        *(pytest.param(name, "none", marks=pytest.mark.slow) for name in NAMES if name not in QUICK),
        ("Nadam", "clipnorm"),
        ("SGD", "global_clipnorm"),
        ("Nadam", "clipvalue"),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in CLIPPED),
    ],
)
def test_one_step_is_that_of_keras_on_each_replica_alone(tmp_path, name, clip):
    overrides = [f"train.optimizer={{name: {name}, learning_rate: 1e-2, clipnorm: null}}"]
    clips = {} if clip == "none" else {clip: 1e-2}
    overrides += [f"train.optimizer.{k}={v}" for k, v in clips.items()]
    card, problem = make_problem(tmp_path, overrides, precision="float64")
    loop = make_loop(card, problem)
    want = [single_step(loop, problem, card, r, clips) for r in range(3)]
    got = run(loop, 1)
    for r in range(3):
        for key, value in want[r].items():
            np.testing.assert_allclose(got[key][r], value, rtol=1e-7, atol=1e-9, err_msg=f"{key} of replica {r}")


def test_replica_alone_is_the_replica_in_a_stack(tmp_path):
    card, problem = make_problem(tmp_path, precision="float64", replicas=20, steps=100)
    stack = run(make_loop(card, problem), 10)
    card, problem = make_problem(tmp_path, precision="float64", replicas='"17-17"', steps=100)
    alone = run(make_loop(card, problem), 10)
    for name, value in alone.items():
        np.testing.assert_allclose(stack[name][16], value[0], rtol=0, atol=1e-13, err_msg=name)


@pytest.mark.parametrize(
    ("precision", "xla"),
    [("float32", False), *(pytest.param(*p, marks=pytest.mark.slow) for p in REST)],
)
def test_replica_is_bitwise_independent_of_its_neighbours(tmp_path, precision, xla):
    card, _ = make_problem(tmp_path, precision=precision, replicas=6, steps=300)
    ends = []
    for ids in ((3, 4, 5, 6, 7, 8), (30, 4, 31, 6, 7, 2)):
        problem = build_problem(card, select(card), ids)
        ends.append({n: v[[1, 3, 4]] for n, v in run(make_loop(card, problem), 200, xla).items()})
    for name in ends[0]:
        np.testing.assert_array_equal(ends[0][name], ends[1][name], err_msg=name)


@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_steps_per_call_change_no_bit(tmp_path, xla):
    card, problem = make_problem(tmp_path, steps=100)
    one, many = make_loop(card, problem), make_loop(card, problem)
    one.run(60, xla)
    for count in (1, 7, 52):
        many.run(count, xla)
    for (name, a), b in zip(one.snapshot().items(), many.snapshot().values(), strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


def host_rule(values, passes, patience):
    """Best step and stop step by the rule, one replica at a time: values and gates of each step."""
    best, best_step = np.inf, -1
    for step, (value, ok) in enumerate(zip(values, passes, strict=True)):
        if ok and value < best:
            best, best_step = value, step
        if ok and best_step >= 0 and step - best_step >= patience:
            return best_step, step
    return best_step, len(values)


def test_stopping_and_best_weights_follow_the_rule_step_by_step(tmp_path):
    overrides = ["train.stopping.patience=6", "train.optimizer={name: Adam, learning_rate: 0.05, clipnorm: null}"]
    card, problem = make_problem(tmp_path, overrides, precision="float64", replicas=6, steps=80)
    traced = make_loop(card, problem)
    values, gates, weights = [], [], []
    frozen = make_loop(card, problem)
    for _ in range(80):  # the same training with nobody ever stopped
        terms = traced.stack.evaluate_terms()
        values.append((terms.validation * (1 / (~problem.training).sum(axis=1))).numpy())
        gates.append(terms.positivity.numpy() < card.positivity.threshold)
        weights.append({n: v.numpy() for n, v in traced.stack.model.list_weights().items()})
        traced.stopping.state.assign(tf.zeros_like(traced.stopping.state))
        traced.run(1, False)
    frozen.run(80, False)
    stops = []
    for r in range(6):
        best_step, stop = host_rule([v[r] for v in values], [g[r] for g in gates], 6)
        assert frozen.stopping.best_step[r] == best_step
        if stop < 80:
            stops.append(stop)
            assert frozen.stopping.state[r] == ReplicaState.STOPPED and frozen.stopping.stop_step[r] == stop
        if best_step >= 0:
            for name, value in frozen.get_best_weights().items():
                np.testing.assert_array_equal(value[r], weights[best_step][name][r])
    assert stops, "no replica stopped: the test shows nothing"


def test_no_replica_passes_a_gate_that_cannot_be_passed(tmp_path):
    card, problem = make_problem(tmp_path, steps=40)
    loop = make_loop(card, problem)
    loop.stack.threshold = -1.0
    weights = run(loop, 40)
    assert loop.stopping.best_step.numpy().tolist() == [-1, -1, -1]
    for name, value in loop.get_best_weights().items():
        np.testing.assert_array_equal(value, weights[name])


def test_average_of_weights_is_each_replicas_own(tmp_path):
    extra = "use_ema: true, ema_momentum: 0.5, ema_overwrite_frequency: 4"
    overrides = [f"train.optimizer={{name: Adam, clipnorm: null, {extra}}}"]
    card, problem = make_problem(tmp_path, overrides, precision="float64", replicas=5)
    stack = run(make_loop(card, problem), 9)
    card, problem = make_problem(tmp_path, overrides, precision="float64", replicas='"4-4"')
    alone = run(make_loop(card, problem), 9)
    for name, value in alone.items():
        np.testing.assert_allclose(stack[name][3], value[0], rtol=0, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_look_at_the_losses_changes_nothing_and_judging_does(tmp_path, xla):
    card, problem = make_problem(tmp_path, ["positivity.sets=none"])
    loop = make_loop(card, problem)
    before = loop.snapshot()
    losses = loop.evaluate(xla)
    for name, value in loop.snapshot().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    loop.keep_best(xla)
    np.testing.assert_array_equal(loop.snapshot()["stopping/best_step"], 0)
    np.testing.assert_allclose(loop.snapshot()["stopping/best"], losses["validation"], rtol=1e-6)
