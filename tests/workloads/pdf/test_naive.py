"""The naive training and the fit's own: two programs for the same fit."""

from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import tensorflow as tf

from tests.make_pack import FLAVOURS as PACK_FLAVOURS
from tests.make_pack import X, make_pack
from tests.train.problems import make_loop, make_problem
from tfperf.errors import CardError
from tfperf.train.stopping import EarlyStopping
from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.pack import OPERATIONS, Table
from tfperf.workloads.pdf.naive import NaiveTraining
from tfperf.workloads.pdf.naive.observables import contract, pad_table
from tfperf.workloads.pdf.naive.replica import FLAVOURS
from tfperf.workloads.pdf.operators.basis import find_fitted_index
from tfperf.workloads.pdf.operators.observables import combine

NADAM = ["seed=1", "train.optimizer={name: Nadam, learning_rate: 2.6e-3, clipnorm: 6e-6}"]
# what the first case leaves at its default; in both, some replica starts with negative cross sections
OTHER = [
    "seed=6",
    "train.optimizer={name: Adam, learning_rate: 1e-2, clipvalue: 1e-3}",
    "model.trainable_exponents=true", "model.sum_rules={quadrature: trapezoid, tail: analytic}",
    "model.layers=[6, 8]", "model.activations=[sigmoid, linear]",
    "data.sets=[{name: BBB_RATIO}, {name: AAA_F2, weight: 4.0}, {name: CCC_ASY, training_fraction: 1}]",
    "integrability.nodes=3",
]  # fmt: skip
NO_PENALTIES = [
    *NADAM,
    "positivity.sets=none",
    "positivity.denominators=false",
    "integrability.nodes=0",
    "data.training_fraction=1.0",
]
HADRONIC = [*NADAM, "data.sets=[{name: AAA_F2}, {name: HHH_PT}, {name: BBB_RATIO}, {name: HHH_NORM}]"]
CHANNELS = [("sigma", "sigma"), ("sigma", "v3"), ("g", "g"), ("v", "v35"), ("t8", "t24")]


def add_hadronic(path):
    """Two sets and a positivity set with two PDFs for the small pack."""
    rng = np.random.default_rng(8)
    legs = np.array([[PACK_FLAVOURS.index(f) for f in pair] for pair in CHANNELS])
    fitted = (np.array([find_fitted_index(f) for f in names]) for names in zip(*CHANNELS, strict=True))
    left, right = (compute_toy_pdf(X)[indices] for indices in fitted)
    with h5py.File(path, "a") as file:
        for name, operation, points in (("HHH_PT", "NULL", 9), ("HHH_NORM", "RATIO", 7), ("positivity/HHH", "NULL", 4)):
            shapes = {t: (1 if t == "fk_den" else points, len(legs), len(X), len(X)) for t in OPERATIONS[operation]}
            tables = {t: rng.uniform(0.5, 1.5, shape).astype(np.float32) for t, shape in shapes.items()}
            truth = combine(operation, [np.einsum("ncxz,cx,cz->n", t, left, right) for t in tables.values()])
            names = np.array(["CORR", "LUMI_A"], "S16")
            errors = {"stat": 0.05 * truth, "sys": 0.03 * truth[:, None] * rng.normal(size=(points, 2))}
            errors |= {"sys_names": names, "sys_is_mult": np.array([True, False])}
            arrays = tables | errors | {"channels": legs, "cv": truth, "t0": truth, "cuts": np.arange(points)}
            for key, value in (arrays | {"kin": np.full((points, 2), 0.1)}).items():
                file[f"{name}/{key}"] = value
            file[name].attrs["operation"] = operation


def make_both(folder, overrides=(), **card):
    """The fit's own training and the naive one at the same start."""
    loaded, problem = make_problem(folder, overrides, **{"replicas": 2, "steps": 50, **card})
    loop = make_loop(loaded, problem)
    return loop, NaiveTraining(loaded, problem, {n: v.numpy() for n, v in loop.stack.model.list_weights().items()})


def assert_same_losses(loop, naive, tolerance):
    want, got = loop.stack.replica_losses(loop.stack.model(loop.stack.replica_losses.x)), naive.evaluate_losses()
    assert list(got) == list(want._fields)
    for name, value in got.items():
        np.testing.assert_allclose(value, getattr(want, name), rtol=tolerance, atol=1e-30, err_msg=name)
    return got


@pytest.mark.parametrize(
    "overrides", [NADAM, *(pytest.param(one, marks=pytest.mark.slow) for one in (OTHER, NO_PENALTIES, HADRONIC))]
)
def test_steps_are_those_of_the_engine(tmp_path, overrides):
    make_pack(tmp_path / "pack.h5")
    if overrides is HADRONIC:
        add_hadronic(tmp_path / "pack.h5")
    loop, naive = make_both(tmp_path, overrides, precision="float64")
    # channels that are merged keep the float32 of the file
    exact, later, weights = (1e-7, 1e-6, 1e-6) if overrides is HADRONIC else (1e-10, 1e-8, 1e-8)
    losses = assert_same_losses(loop, naive, exact)
    assert overrides is NO_PENALTIES or losses["positivity"].max() > 1, "no penalty: the test shows too little"
    start = naive.get_weights()
    for count, tolerance in ((1, exact), (4, later)):
        loop.run(count, False)
        naive.run(count)
        assert_same_losses(loop, naive, tolerance)
    moved = [np.abs(end - start[name]).max() > 1e-4 for name, end in naive.get_weights().items() if "dense" in name]
    assert all(moved), "the weights hardly moved"
    for name, variable in loop.stack.model.list_weights().items():
        np.testing.assert_allclose(naive.get_weights()[name], variable.numpy(), rtol=0, atol=weights, err_msg=name)


def test_losses_agree_in_single_precision(tmp_path):
    loop, naive = make_both(tmp_path)  # of the card's own seed no replica sits at the pole of a ratio
    assert_same_losses(loop, naive, 1e-5)
    loop.run(1, False)
    naive.run(1)
    assert_same_losses(loop, naive, 1e-5)


@pytest.mark.slow
def test_stopping_and_best_weights_are_those_of_the_engine(tmp_path):
    overrides = ["train.stopping.patience=6", "train.optimizer={name: Adam, learning_rate: 0.05, clipnorm: null}"]
    loop, naive = make_both(tmp_path, overrides, precision="float64", replicas=3, steps=40)
    for count in (13, 27):
        loop.run(count, False)
        naive.run(count)
    loop.keep_best(False)
    naive.keep_best()
    assert naive.step == int(loop.step)
    np.testing.assert_array_equal(naive.best_step, loop.stopping.best_step)
    np.testing.assert_array_equal(naive.running, loop.stopping.is_running())
    np.testing.assert_array_equal(naive.stop_step, loop.stopping.stop_step)
    np.testing.assert_allclose(naive.best, loop.stopping.best, rtol=1e-6)
    assert len(set(naive.best_step)) > 1 and not naive.running.all(), "the test shows nothing"
    for name, value in naive.get_best_weights().items():
        np.testing.assert_allclose(value, loop.get_best_weights()[name], rtol=0, atol=1e-6, err_msg=name)


def test_rule_of_stopping_is_the_engines(tmp_path):
    """On made-up losses, which pass the gate and fail it, now and then as NaN."""
    replicas, steps, rng = 40, 60, np.random.default_rng(5)
    _, naive = make_both(tmp_path, ["train.stopping.patience=12", "data.sets=[{name: DDD_SMN}]"], replicas=replicas)
    values = rng.uniform(1, 2, (steps, replicas)) - 0.03 * np.arange(steps)[:, None]
    values[rng.uniform(size=values.shape) < 0.02] = np.nan
    positivity = rng.choice([0.0, 1.0], values.shape, p=[0.3, 0.7])
    rule = EarlyStopping(replicas, 12, "float64")
    for step, (value, penalty) in enumerate(zip(values, positivity, strict=True)):
        gate = tf.constant(penalty < naive.card.positivity.threshold)
        rule.record_best(tf.constant(step, tf.int64), tf.constant(value), gate)
        rule.stop_impatient(tf.constant(step, tf.int64), gate)
        naive.watched = SimpleNamespace(predict_on_batch=lambda _, now=(value * naive.points_watched, penalty): now)
        naive._watch(step)
    np.testing.assert_array_equal(naive.best_step, rule.best_step)
    np.testing.assert_array_equal(naive.stop_step, rule.stop_step)
    np.testing.assert_array_equal(naive.running, rule.is_running())
    assert naive.running.any() and not naive.running.all(), "the test shows nothing"


def test_training_points_are_watched_where_none_validates(tmp_path):
    _, naive = make_both(tmp_path, NO_PENALTIES, precision="float64")
    naive.keep_best()
    points = len(naive.problem.central)
    np.testing.assert_allclose(naive.best, naive.evaluate_losses()["training"] / points, rtol=1e-12)


def test_training_ends_when_all_have_stopped(tmp_path):
    overrides = ["train.stopping.patience=1", "positivity.threshold=1e9", "data.sets=[{name: DDD_SMN}]"]
    overrides += ["train.optimizer={name: SGD, learning_rate: 10.0, clipnorm: 1.0}"]  # jumps about
    loop, naive = make_both(tmp_path, overrides, precision="float64")
    loop.run(50, False)
    naive.run(50)
    naive.run(50)
    assert naive.step == int(loop.step) < 50 and not naive.running.any()


@pytest.mark.parametrize("pdfs", [1, 2])
def test_padded_table_predicts_what_its_entries_say(pdfs):
    rng = np.random.default_rng(4)
    inside = np.array([True, True, True, False])
    channels = ((("g",), ("v3",), ("t35",)), (("g", "g"), ("sigma", "v3"), ("v3", "t8")))[pdfs - 1]
    values = rng.normal(size=(2, 4, 3) if pdfs == 1 else (2, 3, 4, 4))
    pdf = rng.normal(size=(5, 3, 14))
    got = contract(pad_table(Table(lambda: values, 2, channels), inside, "float64"), pdf)

    def xf(r, flavour, x):
        return pdf[r, x, FLAVOURS.index(flavour)]

    for r in range(5):
        for n in range(2):
            if pdfs == 1:
                want = sum(values[n, x, c] * xf(r, f, x) for x in range(3) for c, (f,) in enumerate(channels))
            else:
                want = sum(
                    values[n, c, x, z] * xf(r, f, x) * xf(r, g, z)
                    for c, (f, g) in enumerate(channels) for x in range(3) for z in range(3)
                )  # fmt: skip
            assert float(got[r, n]) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("key", ["global_clipnorm: 1.0", "use_ema: true, ema_overwrite_frequency: 2"])
def test_what_one_keras_fit_cannot_do_is_refused(tmp_path, key):
    with pytest.raises(CardError, match=f"train.optimizer.{key.split(':')[0]}: got"):
        make_both(tmp_path, [f"train.optimizer={{name: Adam, clipnorm: null, {key}}}"])
