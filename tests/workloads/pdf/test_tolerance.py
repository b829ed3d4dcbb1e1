"""Checks of the tolerance during a training: what they find, and how it goes on."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.make_pack import make_card
from tests.train.problems import checkpoints_in, make_ensemble, make_losses, make_problem, reduced_to
from tfperf.errors import CardError, Interrupted, ToleranceError
from tfperf.signals import Signals
from tfperf.train.retirement import Retirement
from tfperf.train.shards import StackLayout
from tfperf.train.trainer import Trainer
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.evaluate import evaluate_pdf
from tfperf.workloads.pdf.forms import Chi2Form
from tfperf.workloads.pdf.operators.loss_constants import build_linear_basis
from tfperf.workloads.pdf.prior import sample_pdfs
from tfperf.workloads.pdf.tolerance import Chi2Check

REPLICAS, STEPS, EVERY, TOLERANCE = 3, 60, 20, 1e-3
KEYS = [f"engine.tolerance={TOLERANCE}", f"engine.check_every={EVERY}", f"train.stopping.patience={STEPS}"]
# predictions of untrained networks on their poles would hide all others
LINEAR = ["data.sets=[{name: AAA_F2}, {name: AAA_FL}, {name: CCC_ADD}]"]


def exact(card, problem, state):
    """chi2 per point (2, R) of the training and validation halves at a state's weights, with dense covariances."""
    weights = {n.removeprefix("model/"): v for n, v in state.items() if n.startswith("model/")}
    y = problem.observables.predict(evaluate_pdf(card, weights, problem.pack.x))
    cov = reference.covariance(problem.datasets, [d.t0 for d in problem.datasets])
    out = np.empty((2, REPLICAS))
    for half, masks in enumerate((problem.training, ~problem.training)):
        for r, mask in enumerate(masks):
            out[half, r] = reference.chi2(y[r] - problem.data[r], cov, mask) / mask.sum()
    return out


class Watched(Chi2Check):
    """A check that keeps the state before and after each look, and what the deviation should have been."""

    def __init__(self, card, problem):
        super().__init__(card, problem)
        self.states, self.wanted = [], []

    def check_ensemble(self, ensemble, losses):
        before = {n: np.copy(v) for n, v in ensemble.gather_state().items()}
        want = exact(self.card, self.problem, before)
        got = np.stack([losses["training"], losses["validation"]]).astype(np.float64)
        self.wanted.append(np.max(np.abs(got - want) / np.maximum(1, want)))
        super().check_ensemble(ensemble, losses)
        ensemble.run(0, False)  # builds the stack again where it was given up
        self.states.append((before, {n: np.copy(v) for n, v in ensemble.gather_state().items()}))


class At(Signals):
    """A signal that comes with the end of the call at a step."""

    def __init__(self, ensemble, step):
        self.ensemble, self.step = ensemble, step
        super().__init__()

    @property
    def received(self):
        return 15 if self.ensemble.step == self.step else None

    @received.setter
    def received(self, _):
        pass


class Training:
    """A training of the small problem that begins with a form."""

    def __init__(self, folder, rank=10, form=None, overrides=()):
        self.card, self.problem = make_problem(folder, [*KEYS, *LINEAR, *overrides], replicas=REPLICAS, steps=STEPS)
        self.ensemble = make_ensemble(self.card, self.problem, form or reduced_to(self.card, self.problem, rank))
        self.check = Watched(self.card, self.problem)
        never = Retirement(StackLayout(REPLICAS), STEPS, (), 0.0)
        self.trainer = Trainer(self.ensemble, False, 10, never, checkpoints_in(folder / "checkpoints"), self.check)

    def train(self, until=None):
        signals = Signals() if until is None else At(self.ensemble, until)
        self.trainer.train(signals, lambda _: None)
        return self


def get_form(training) -> Chi2Form:
    form = training.ensemble.form
    assert isinstance(form, Chi2Form)
    return form


@pytest.fixture(scope="module")
def raised(tmp_path_factory):
    return Training(tmp_path_factory.mktemp("raised")).train()


def test_rank_is_raised_step_by_step_until_it_suffices(raised):
    found, most = raised.check.found, raised.ensemble.form.basis.rank
    assert [step for step, *_ in found] == [20, 40, 60]
    rank = 10
    for _, used, worst in found:
        assert used == rank
        rank = min(most, rank + 20) if worst > TOLERANCE else rank
    assert found[0][2] > TOLERANCE and raised.ensemble.form.rank == rank > 10
    assert found[-1][2] <= TOLERANCE, "no rank sufficed: the test shows half"


def test_deviation_is_that_from_dense_covariances(raised):
    np.testing.assert_allclose([worst for *_, worst in raised.check.found], raised.check.wanted, rtol=1e-6, atol=1e-9)


def test_training_goes_on_with_the_same_weights_and_step(raised):
    assert len(raised.check.states) == 3
    for before, after in raised.check.states:
        assert before.keys() == after.keys()
        for name, value in before.items():
            np.testing.assert_array_equal(value, after[name], err_msg=name)
    assert raised.ensemble.step == STEPS


@pytest.mark.parametrize("step", [20, pytest.param(30, marks=pytest.mark.slow)])
def test_training_stopped_after_a_raise_resumes_to_the_same_bits(raised, tmp_path, step):
    first = Training(tmp_path)
    with pytest.raises(Interrupted):
        first.train(until=step)
    assert get_form(first).rank > 10
    first.ensemble.close()
    second = Training(tmp_path)
    assert second.trainer.resume()[0] == step
    assert get_form(second).rank == get_form(first).rank and second.check.found == first.check.found
    second.train()
    assert second.check.found == raised.check.found
    for name, value in raised.ensemble.gather_state().items():
        np.testing.assert_array_equal(value, second.ensemble.gather_state()[name], err_msg=name)
    for name, row in raised.trainer.make_history().metrics.items():
        np.testing.assert_array_equal(row, second.trainer.make_history().metrics[name], err_msg=name)


def test_a_card_that_wants_it_stops_and_is_told_why(tmp_path):
    training = Training(tmp_path, overrides=["engine.on_violation=fail"])
    with pytest.raises(ToleranceError) as stop:
        training.train()
    ((step, rank, worst),) = training.check.found
    assert (step, rank) == (20, 10)
    assert str(stop.value).startswith(
        f"engine.tolerance: at step 20 chi2 per point is off by {worst:.2g}, got 0.001 with 10 directions; allowed: "
    )
    assert "on_violation: raise_rank" in str(stop.value) and stop.value.exit_code == 2
    assert training.ensemble.step == 20


def test_basis_of_other_sets_is_found_out_and_there_is_nothing_to_raise(tmp_path):
    """A basis that knows of one set only, all of its directions."""
    card, small = make_problem(tmp_path, ["data.sets=[{name: AAA_FL}]"], replicas=REPLICAS)
    x = small.pack.x[: small.observables.nodes]
    basis, _ = build_linear_basis(small, sample_pdfs(card.model, x, 300, 1), 0.0)
    training = Training(tmp_path, form=Chi2Form("folded", basis.rank, basis=basis))
    ensemble, loop = training.ensemble, training.ensemble.largest_loop
    training.train()
    assert min(worst for *_, worst in training.check.found) > TOLERANCE
    assert {rank for _, rank, _ in training.check.found} == {basis.rank}
    assert ensemble.largest_loop is loop, "compiled again for nothing"
    each = training.check.compute_best_deviations(get_form(training), ensemble.get_best_weights())
    assert each is not None and each.shape == (REPLICAS,) and each.max() > TOLERANCE
    fails = Training(tmp_path, form=ensemble.form, overrides=["engine.on_violation=fail"])
    with pytest.raises(ToleranceError):
        fails.train()


def test_figure_at_best_weights_is_that_of_the_folded_losses(raised):
    """What the host works out from the basis is what the device would have made of these weights in float64."""
    card, problem = raised.card, raised.problem
    card = replace(card, engine=replace(card.engine, precision="float64"))
    weights = raised.ensemble.get_best_weights()
    pdf, state = evaluate_pdf(card, weights, problem.pack.x), {f"model/{n}": v for n, v in weights.items()}
    want = exact(card, problem, state)
    for rank in (10, 20):
        form = reduced_to(card, problem, rank)
        losses = make_losses(card, problem, form)
        halves = losses(tf.constant(pdf[..., np.isin(problem.pack.x, losses.x)]))
        points = np.stack([problem.training.sum(axis=1), (~problem.training).sum(axis=1)])
        got = np.stack([halves.training, halves.validation]) / points
        worst = np.max(np.abs(got - want) / np.maximum(1, want), axis=0)
        assert worst.min() > 1e-6, "exact: the comparison shows nothing"
        np.testing.assert_allclose(raised.check.compute_best_deviations(form, weights), worst, rtol=1e-6)


def test_exact_forms_are_not_checked(raised):
    card, problem, steps = raised.card, raised.problem, range(1, 50)
    check = Chi2Check(card, problem)
    folded, weights = raised.ensemble.form, raised.ensemble.get_best_weights()
    assert [step for step in steps if check.is_due(folded, step)] == [20, 40]
    assert (
        not any(check.is_due(Chi2Form(), s) for s in steps)
        and check.compute_best_deviations(Chi2Form(), weights) is None
    )
    assert [check.find_next_step(folded, step) for step in (0, 19, 20)] == [20, 20, 40]
    assert check.find_next_step(Chi2Form(), 3) > STEPS  # nothing cuts the calls of an exact form short
    none = Chi2Check(replace(card, engine=replace(card.engine, tolerance=0.0)), problem)
    assert not any(none.is_due(folded, s) for s in steps) and none.compute_best_deviations(folded, weights) is None


def test_stopped_replicas_are_left_out(raised):
    """Their losses are nan, and those of the others still count."""
    check = Chi2Check(raised.card, raised.problem)
    want = exact(raised.card, raised.problem, raised.ensemble.gather_state())
    losses = {"training": want[0].astype(np.float32), "validation": want[1].astype(np.float32)}
    losses["training"][1] = losses["validation"][1] = np.nan
    check.check_ensemble(raised.ensemble, losses)
    assert check.found[0][2] < 1e-5
    losses["validation"][2] *= 1.01
    form = raised.ensemble.form
    check.check_ensemble(raised.ensemble, losses)
    raised.ensemble.use(form)
    assert check.found[1][2] == pytest.approx(0.01 * want[1, 2] / max(1, want[1, 2]), rel=1e-3)


def test_tf32_needs_a_tolerance_to_be_watched(tmp_path):
    card = make_card(tmp_path)
    with pytest.raises(CardError, match=r"engine\.tf32: got true; needs a tolerance above 0"):
        load_card(card, ["engine.tf32=true"])
    assert load_card(card, ["engine.tf32=true", "engine.tolerance=1e-3"]).engine.tf32
