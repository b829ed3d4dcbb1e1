import numpy as np
import pytest
import tensorflow as tf
from scipy.integrate import quad

from tests import reference
from tfperf.workloads.pdf.card import FITTED, Model, SumRules
from tfperf.workloads.pdf.model import PDF

X = np.array([1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.7, 0.95])


def make(card=None, ids=(1, 2, 3), dtype="float64", seed=4, attempts=None):
    model = PDF(card or Model(), len(ids), dtype)
    model.initialize(seed, ids, attempts or [0] * len(ids))
    return model


def arrays(model):
    return {k: v.numpy() for k, v in model.list_weights().items()}


def _integral(f):
    low = quad(lambda u: float(f(np.exp(u)) * np.exp(u)), np.log(1e-9), np.log(0.1), epsrel=1e-11, limit=500)[0]
    return low + quad(lambda x: float(f(x)), 0.1, 1, epsrel=1e-11, limit=500)[0]


def test_pdf_is_network_times_preprocessing_with_the_sum_rules_fulfilled():
    model = make()
    weights, pdf = arrays(model), model(X).numpy()
    for r in range(3):
        raw = reference.preprocessed(X, weights, r)
        ratio = pdf[r] / raw
        assert np.abs(ratio / ratio[:, :1] - 1).max() < 1e-12  # one factor per flavour
        factor = dict(zip(FITTED, ratio[:, 0], strict=True))
        assert all(factor[f] == pytest.approx(1, rel=1e-12) for f in ("sigma", "t3", "t8", "t15"))

        def x_f(x, flavour, r=r):
            return reference.preprocessed(np.array([x]), weights, r)[FITTED.index(flavour), 0]

        for flavour, total in (("v", 3), ("v3", 1), ("v8", 3)):
            assert factor[flavour] * _integral(lambda x, f=flavour: x_f(x, f) / x) == pytest.approx(total, rel=1e-6)
        momentum = _integral(lambda x: x_f(x, "sigma")) + factor["g"] * _integral(lambda x: x_f(x, "g"))
        assert momentum == pytest.approx(1, rel=1e-6)


def test_analytic_tail_adds_what_lies_below_the_first_node():
    """With a network that is constant the integrals are Beta functions."""
    from scipy.special import beta

    model = make(Model(sum_rules=SumRules(tail="analytic")))
    for layer in model.hidden:
        layer.kernel.assign(tf.zeros_like(layer.kernel))
    model.hidden[-1].bias.assign(tf.ones_like(model.hidden[-1].bias))
    pdf, weights = model(X).numpy(), arrays(model)
    alpha, exponent = (weights[f"preprocessing/{n}"][:, FITTED.index("v8"), 0] for n in ("alpha", "beta"))
    want = 3 / beta(1 - alpha, 1 + exponent)
    got = pdf[:, FITTED.index("v8"), 3] / (X[3] ** (1 - alpha) * (1 - X[3]) ** exponent)
    np.testing.assert_allclose(got, want, rtol=1e-8)


def test_replica_starts_the_same_whatever_else_is_in_the_stack():
    alone, stack = arrays(make(ids=(17,))), arrays(make(ids=(3, 17, 40)))
    for name, value in alone.items():
        np.testing.assert_array_equal(value[0], stack[name][1], err_msg=name)
    again = arrays(make(ids=(17,), attempts=[1]))
    assert not np.array_equal(again["dense_0/kernel"], alone["dense_0/kernel"])


@pytest.mark.parametrize(("initializer", "variance"), [("glorot_normal", 2 / 45), ("he_normal", 2 / 25)])
def test_kernels_have_the_spread_of_a_single_network(initializer, variance):
    kernel = arrays(make(Model(initializer=initializer), ids=range(1, 201)))["dense_1/kernel"]
    assert kernel.shape == (200, 25, 20)
    # Keras' truncated normals keep the stated variance; that of n samples scatters by less than 2/sqrt(n)
    assert kernel.var() / variance == pytest.approx(1, abs=4 / np.sqrt(kernel.size) * 2)


def test_exponents_lie_in_their_ranges():
    card = Model()
    weights = arrays(make(card, ids=range(1, 51)))
    for i, flavour in enumerate(FITTED):
        for name in ("alpha", "beta"):
            low, high = getattr(card.exponents[flavour], name)
            drawn = weights[f"preprocessing/{name}"][:, i, 0]
            assert low <= drawn.min() < drawn.max() <= high
            assert drawn.max() - drawn.min() > 0.8 * (high - low)


def test_weights_move_to_a_model_rebuilt_from_the_card(tmp_path):
    model = make()
    path = tmp_path / "pdf.weights.h5"
    model.save_weights(path)
    other = PDF(Model(), 3, "float64")
    other.load_weights(path)
    np.testing.assert_array_equal(model(X).numpy(), other(X).numpy())
    third = PDF(Model(), 3, "float64")
    third.assign_weights(arrays(model))
    np.testing.assert_array_equal(model(X).numpy(), third(X).numpy())
    with pytest.raises(ValueError, match="dense_0/kernel"):
        PDF(Model(), 2, "float64").assign_weights(arrays(model))


def test_trained_exponents_stay_in_their_ranges_and_have_gradients():
    model = make(Model(trainable_exponents=True))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(model(X))
    gradients = tape.gradient(total, [v.value for v in model.exponents])
    assert all(np.abs(g).min() > 0 for g in gradients)
    alpha = model.preprocessing.alpha
    moved = alpha.constraint(alpha.value + 10.0)
    np.testing.assert_allclose(moved[0, 0, 0], model.options.exponents["sigma"].alpha[1])
