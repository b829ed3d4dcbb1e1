import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.train.problems import make_loop, make_problem
from tfperf.workloads.pdf.card import FITTED
from tfperf.workloads.pdf.losses import compute_multiplier


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    card, problem = make_problem(tmp_path_factory.mktemp("losses"), precision="float64", replicas=4)
    return card, problem, make_loop(card, problem)


def exact(problem, pdf):
    full = np.concatenate([pdf, np.zeros((*pdf.shape[:2], 1))], axis=-1)  # x = 1
    return problem.observables.predict(full), problem.observables.predict_positive(full)


def test_losses_are_those_of_dense_masked_covariances(case):
    _, problem, loop = case
    pdf = loop.stack.model(loop.stack.replica_losses.x)
    losses = loop.stack.replica_losses(pdf)
    y, positive = exact(problem, pdf.numpy())
    cov = reference.covariance(problem.datasets, [d.t0 for d in problem.datasets])
    for r in range(4):
        residual = y[r] - problem.data[r]
        want = reference.chi2(residual, cov, problem.training[r])
        assert losses.training[r].numpy() == pytest.approx(want, rel=1e-10)
        want = reference.chi2(residual, cov, ~problem.training[r])
        assert losses.validation[r].numpy() == pytest.approx(want, rel=1e-10)
        want = reference.chi2(y[r] - problem.central, cov, np.ones(len(cov), bool))
        assert loop.stack.replica_losses.compute_experimental_chi2(pdf)[r].numpy() == pytest.approx(want, rel=1e-10)
        assert losses.positivity[r].numpy() == pytest.approx(np.maximum(0, -positive[r]).sum(), abs=1e-12)
        small = [abs(pdf.numpy()[r, FITTED.index(f), 0]) for f in ("t3", "t8")]
        assert losses.integrability[r].numpy() == pytest.approx(sum(small), rel=1e-12)


def test_gradient_is_that_of_the_training_chi2_and_validation_has_none(case):
    _, _, loop = case
    pdf = tf.constant(loop.stack.model(loop.stack.replica_losses.x).numpy())
    with tf.GradientTape() as tape:
        tape.watch(pdf)
        training = loop.stack.replica_losses(pdf).training
    got = tape.gradient(training, pdf).numpy()
    rng = np.random.default_rng(0)
    for _ in range(5):  # central differences along random directions
        direction = rng.normal(size=pdf.shape)
        h = 1e-5
        ends = [loop.stack.replica_losses(pdf + s * h * direction).training.numpy() for s in (1, -1)]
        want = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose((got * direction).sum(axis=(1, 2)), want, rtol=1e-6)
    with tf.GradientTape() as tape:
        tape.watch(pdf)
        validation = loop.stack.replica_losses(pdf).validation
    assert not np.any(tape.gradient(validation, pdf))


def test_weight_of_a_set_multiplies_its_chi2(tmp_path):
    plain, weighted = (
        make_loop(*make_problem(tmp_path, precision="float64", overrides=[
            "integrability.nodes=0", f"data.sets=[{{name: DDD_SMN, weight: {w}}}]"]))
        for w in (1.0, 4.0)
    )  # fmt: skip
    pdf = plain.stack.model(plain.stack.replica_losses.x)
    want = 4 * plain.stack.replica_losses(pdf).training.numpy()
    np.testing.assert_allclose(weighted.stack.replica_losses(pdf).training, want, rtol=1e-12)


def test_float32_losses_are_close_to_float64(tmp_path, case):
    _, _, double = case
    card, problem = make_problem(tmp_path, precision="float32", replicas=4)
    single, exact = make_loop(card, problem).stack.replica_losses, double.stack.replica_losses
    pdf = double.stack.model(exact.x)
    for a, b in zip(single(tf.cast(pdf, "float32")), exact(pdf), strict=True):
        # |e|^2 - z^T K^-1 z cancels at most to a few per cent here, so a few hundred roundings
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_multiplier_grows_geometrically():
    values = [float(compute_multiplier(10, 1000, 101, tf.constant(i, tf.int64), "float64")) for i in (0, 50, 100)]
    np.testing.assert_allclose(values, [10, 100, 1000], rtol=1e-12)
