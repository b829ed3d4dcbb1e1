"""Folded losses against dense covariances, for every kind of set and systematics that cross from one to the other."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests import make_hadronic as hadronic
from tests import reference
from tests.train.problems import make_ensemble, make_losses, make_problem, reduced_to
from tfperf.errors import CardError
from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.forms import RAISE, Chi2Form, build_form, list_forms
from tfperf.workloads.pdf.prior import sample_pdfs

REPLICAS = 3


def build(folder, precision, *overrides):
    """Card and problem with ratios, asymmetries, hadronic sets and positivity."""
    if not (folder / "pack.h5").exists():
        hadronic.make_pack(folder / "pack.h5")
    return make_problem(folder, overrides, precision=precision, replicas=REPLICAS)


class Truth:
    """chi2 and penalties of a problem in float64, from all fourteen flavours and dense covariances."""

    def __init__(self, problem):
        self.problem = problem
        cov = reference.covariance(problem.datasets, [d.t0 for d in problem.datasets])
        self.inverses = []
        for r in range(REPLICAS):
            for mask in (problem.training[r], ~problem.training[r]):
                inverse = np.zeros_like(cov)
                inverse[np.ix_(mask, mask)] = np.linalg.inv(cov[np.ix_(mask, mask)])
                self.inverses.append(inverse)

    def chi2(self, pdf, r, half):
        residual = hadronic.predictions(self.problem.datasets, pdf) - self.problem.data[r]
        return residual @ self.inverses[2 * r + half] @ residual

    def positivity(self, pdf):
        sets = sum(np.maximum(0, -hadronic.evaluate(p.table, pdf)).sum() for p in self.problem.pack.positivity)
        toy = compute_toy_pdf(self.problem.pack.x)
        return sets + hadronic.sum_negative_denominators(self.problem.datasets, pdf, toy)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Card, problem, its truth, losses by form, and PDFs (R, 8, X) of networks that no basis was made of."""
    card, problem = build(tmp_path_factory.mktemp("folded"), "float64")
    x = problem.pack.x[: problem.observables.nodes]
    pdf = np.zeros((REPLICAS, 8, len(problem.pack.x)))
    pdf[..., : len(x)] = sample_pdfs(card.model, x, 10, seed=99)[-REPLICAS:]
    every = build_form(card, problem, "folded")
    losses = {"shared": make_losses(card, problem), "folded": make_losses(card, problem, every)}
    return card, problem, Truth(problem), losses, pdf


def on_nodes(problem, losses, pdf):
    return tf.constant(pdf[..., np.isin(problem.pack.x, losses.x)], losses.dtype)


def test_sets_of_the_case_are_of_every_kind(case):
    _, problem, _, losses, _ = case
    kinds = {(d.operation, d.tables[0].hadronic) for d in problem.datasets}
    assert kinds >= {("NULL", False), ("NULL", True), ("RATIO", False), ("RATIO", True), ("ASY", True)}
    every = losses["folded"].loss_constants
    assert every.folded.coupled, "no systematic crosses from linear to other sets: the tests below show little"
    assert len(every.points.central) == sum(len(d.cv) for d in problem.datasets) - 17 - 8


@pytest.mark.parametrize("form", ["shared", "folded"])
def test_losses_are_those_of_dense_covariances(case, form):
    _, problem, truth, losses, pdf = case
    losses = losses[form]
    got = losses(on_nodes(problem, losses, pdf))
    for r in range(REPLICAS):
        assert got.training[r].numpy() == pytest.approx(truth.chi2(pdf[r], r, 0), rel=1e-8)
        assert got.validation[r].numpy() == pytest.approx(truth.chi2(pdf[r], r, 1), rel=1e-8)
        assert got.positivity[r].numpy() == pytest.approx(truth.positivity(pdf[r]), rel=1e-10, abs=1e-12)
    negative = losses(on_nodes(problem, losses, -pdf)).positivity.numpy()
    np.testing.assert_allclose(negative, [truth.positivity(-p) for p in pdf], rtol=1e-10)
    assert (negative > 0).all(), "no penalty at all: the comparison shows little"
    toy, datasets = compute_toy_pdf(problem.pack.x), problem.datasets
    watched = [hadronic.sum_negative_denominators(datasets, -p, toy) for p in pdf]
    assert min(watched) > 0.1, "no denominator below zero: the comparison shows little"


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("form", ["shared", "folded"])
def test_gradients_are_those_of_dense_covariances(case, form, xla):
    """Along random directions, by differences of the truth."""
    _, problem, truth, losses, _ = case
    losses = losses[form]

    @tf.function(jit_compile=xla)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            training = losses(x).training
        return tape.gradient(training, x)

    # near the law that the data scatter around: far from poles of ratios, where differences would be of no use
    laws = hadronic.compute_toy_pdf(hadronic.X) * np.array([0.97, 1.0, 1.03])[:, None, None]
    got = gradient(on_nodes(problem, losses, laws)).numpy()
    rng, h = np.random.default_rng(2), 1e-4
    for r in range(REPLICAS):
        for _ in range(3):
            shape = rng.normal(size=(8, 1)) * np.cos(rng.normal() * np.log(hadronic.X))
            direction = hadronic.compute_toy_pdf(hadronic.X) * shape
            ends = [truth.chi2(laws[r] + s * h * direction, r, 0) for s in (1, -1)]
            inside = on_nodes(problem, losses, direction[None]).numpy()[0]
            assert (got[r] * inside).sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)


def test_validation_has_no_gradient(case):
    _, problem, _, losses, pdf = case
    x = on_nodes(problem, losses["folded"], pdf)
    with tf.GradientTape() as tape:
        tape.watch(x)
        validation = losses["folded"](x).validation
    assert not np.any(tape.gradient(validation, x))


def test_all_directions_lose_nothing_in_float32(case, tmp_path):
    """As exact as every point on its own, or to 1e-5 of chi2 per point: where fits are, and far away.

    Some eighty times float32's rounding; how much of it is seen depends on the order of the processor's sums.
    """
    _, _, truth, _, pdf = case
    card, problem = build(tmp_path, "float32", "engine.tolerance=0")
    form = build_form(card, problem, "folded")
    assert form.basis is not None and form.rank == form.basis.rank
    both = make_losses(card, problem), make_losses(card, problem, form)
    laws = np.stack([hadronic.compute_toy_pdf(hadronic.X) * f for f in (0.99, 1.0, 1.01)])
    for given in (laws, pdf):
        exact = given.astype(np.float32).astype(np.float64)
        shared, folded = (one(on_nodes(problem, one, exact))[:2] for one in both)
        for half, masks in enumerate((problem.training, ~problem.training)):
            for r, mask in enumerate(masks):
                want = truth.chi2(exact[r], r, half)
                unit = max(want, mask.sum())
                assert abs(folded[half][r] - want) / unit < 2 * abs(shared[half][r] - want) / unit + 1e-5


def test_error_of_the_losses_falls_with_the_rank(case):
    card, problem, truth, _, pdf = case
    worst = []
    for rank in (5, 10, 20, 25):
        losses = make_losses(card, problem, reduced_to(card, problem, rank))
        got = losses(on_nodes(problem, losses, pdf)).training.numpy()
        worst.append(max(abs(got[r] / truth.chi2(pdf[r], r, 0) - 1) for r in range(REPLICAS)))
    assert worst[0] > 10 * worst[2] and sorted(worst, reverse=True) == worst
    assert worst[-1] < 1e-8


def test_experimental_chi2_is_exact_with_any_basis(case):
    """It is what people see, and it is not folded."""
    card, problem, _, losses, pdf = case
    reduced = make_losses(card, problem, reduced_to(card, problem, 5))
    a, b = (one.compute_experimental_chi2(on_nodes(problem, one, pdf)).numpy() for one in (losses["shared"], reduced))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_weights_of_sets_are_not_folded(tmp_path):
    weight = "data.sets=[{name: DIS, weight: 2.0}, {name: DY}]"
    card, problem = build(tmp_path, "float64", weight, "engine.form=auto")
    assert list_forms(card, problem) == ("shared",)
    card, problem = build(tmp_path, "float64", weight, "engine.form=folded")
    with pytest.raises(CardError, match=r"engine\.form: got 'folded'; the fit has weights of sets.*allowed: auto"):
        list_forms(card, problem)
    card, problem = build(tmp_path, "float64", "data.sets=[{name: DY}, {name: DIS_RATIO}]", "engine.form=folded")
    with pytest.raises(CardError, match=r"engine\.form: got 'folded'; the fit has no deep-inelastic set"):
        list_forms(card, problem)
    card, problem = build(tmp_path, "float64", "engine.form=auto")
    assert list_forms(card, problem) == ("shared", "folded")


def test_shared_form_needs_no_constants_of_its_own(case):
    card, problem, _, _, _ = case
    assert Chi2Form().build_constants(problem, "float64") is None
    assert build_form(card, problem, "shared") == Chi2Form()


def deviations(truth, problem, losses, pdfs):
    """|got - exact| / max(1, exact) of chi2 per point, of all halves at PDFs (n, 8, X)."""
    out = []
    for i in range(0, len(pdfs), REPLICAS):
        some = pdfs[i : i + REPLICAS]
        got = losses(on_nodes(problem, losses, some))
        for half, masks in enumerate((problem.training, ~problem.training)):
            for r, mask in enumerate(masks):
                want = truth.chi2(some[r], r, half) / mask.sum()
                out.append(abs(got[half][r].numpy() / mask.sum() - want) / max(1, want))
    return np.array(out)


def test_hadronic_cores_keep_the_tolerance(case, tmp_path):
    truth = case[2]
    card, problem = build(tmp_path, "float64", "engine.tolerance=1e-3")
    form = build_form(card, problem, "folded")
    x = problem.pack.x[: problem.observables.nodes]
    pdfs = np.zeros((15, 8, len(problem.pack.x)))
    pdfs[..., : len(x)] = sample_pdfs(card.model, x, 40, seed=98)[::2][:15]
    losses = make_losses(card, problem, form)
    core = losses.loss_constants.points.core
    assert core is not None and sum(t.stop - t.start for t in core.outputs) == 9 + 7
    assert np.quantile(deviations(truth, problem, losses, pdfs), 0.95) < 1e-3
    few = make_losses(card, problem, replace(form, hadronic_rank=10))
    assert np.quantile(deviations(truth, problem, few, pdfs), 0.95) > 1e-3
    assert form.basis is not None and form.hadronic is not None
    most = replace(form, rank=form.basis.rank, hadronic_rank=form.hadronic.rank, tolerance=1e-9)
    full = make_losses(card, problem, most)
    every = deviations(truth, problem, full, pdfs)
    assert np.median(every) < 1e-6 and every.max() < 1e-4
    at = on_nodes(problem, losses, np.stack([hadronic.compute_toy_pdf(hadronic.X)] * REPLICAS))
    with tf.GradientTape() as tape:
        tape.watch(at)
        training = losses(at).training
    slope = tape.gradient(training, at).numpy()
    for d in pdfs[5:8]:  # the gradient is that of the reduced losses themselves
        inside, h = on_nodes(problem, losses, d[None]).numpy(), 1e-5
        ends = [losses(at + s * h * inside).training.numpy() for s in (1, -1)]
        np.testing.assert_allclose((slope * inside).sum(axis=(1, 2)), (ends[0] - ends[1]) / (2 * h), rtol=1e-5)


def test_a_raised_form_survives_a_checkpoint(tmp_path):
    card, problem = build(tmp_path, "float64", "engine.tolerance=1e-2")
    form = build_form(card, problem, "folded").replace_numbers((3, 12, 0))
    raised = form.raise_rank()
    assert (raised.rank, raised.hadronic_rank, raised.raises) == (3 + RAISE, 12 + RAISE, 1)
    state = make_ensemble(card, problem, raised).snapshot()
    resumed = make_ensemble(card, problem, form)
    resumed.restore(state)
    assert resumed.form == raised
    assert form.basis is not None and form.hadronic is not None
    full = form.replace_numbers((form.basis.rank, form.hadronic.rank, 3))
    assert full.raise_rank() is full


def test_a_raise_neglects_less_of_the_cores(tmp_path):
    card, problem = build(tmp_path, "float64", "engine.tolerance=100")
    form = build_form(card, problem, "folded")
    widths = []
    for raises in (0, 12):
        constants = form.replace_numbers((10, 12, raises)).build_constants(problem, "float64")
        assert constants is not None and constants.points.core is not None
        widths.append(constants.points.core.expand.shape[1])
    assert widths[0] < widths[1]
