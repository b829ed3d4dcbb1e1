"""Is chi2 of the training what the exact operators give? Checked during the fit and at its end, in float64.

A deviation is |engine - exact| / max(1, exact), of chi2 per point, over training and validation halves.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tfperf.errors import UserError
from tfperf.train.ensemble import Ensemble
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.evaluate import pdf_on_grid
from tfperf.workloads.pdf.forms import Form
from tfperf.workloads.pdf.operators.compiled import is_hadronic, is_linear, whitened
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.operators.reduction import Basis
from tfperf.workloads.pdf.operators.threads import one_thread
from tfperf.workloads.pdf.operators.woodbury import Whitened

Array = NDArray[np.float64]
SAMPLED, SHARE = 4, 25  # replicas that a check during the fit looks at: so many at least, and one in so many


class ToleranceError(UserError):
    """chi2 of the training left the card's tolerance, and the card wants the fit to stop then."""


class ToleranceCheck:
    """The checks of one training: `found` are (step, rank, worst deviation), in order."""

    def __init__(self, card: Card, problem: Problem) -> None:
        self.card, self.problem = card, problem
        self.found: list[tuple[int, int, float]] = []

    @cached_property
    def _white(self) -> Whitened:
        return whitened(self.problem)

    def due(self, form: Form, step: int) -> bool:
        """True at every `check_every` steps of a form that may deviate: by its basis, or by products in TF32."""
        return self._deviates(form) and step % self.card.engine.check_every == 0

    def _deviates(self, form: Form) -> bool:
        return self.card.engine.tolerance > 0 and (form.basis is not None or self.card.engine.tf32)

    def until(self, form: Form, step: int) -> int:
        """The next step at which a check is due, else the last step."""
        every = self.card.engine.check_every
        return step - step % every + every if self._deviates(form) else self.card.train.steps

    @one_thread
    def look(self, ensemble: Ensemble, losses: Mapping[str, NDArray[np.float32]]) -> None:
        """Compare the engine's losses (R) with the exact ones of a few running replicas; raise the rank if need be."""
        rows = np.flatnonzero(np.isfinite(losses["training"]))
        if not len(rows):  # all that run are about to be quarantined
            return
        count = min(max(SAMPLED, len(rows) // SHARE), len(rows))
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, count).astype(int))]
        state = ensemble.look()
        weights = {n.removeprefix("model/"): v[rows] for n, v in state.items() if n.startswith("model/")}
        pdf = pdf_on_grid(self.card, weights, self.problem.pack.x)
        exact = self._chi2(self.problem.observables.predict(pdf), rows)
        got = np.stack([losses["training"][rows], losses["validation"][rows]]).astype(np.float64)
        worst = _deviation(got, exact)
        self.found.append((ensemble.step, ensemble.form.rank, worst))
        if worst > self.card.engine.tolerance:
            self._violated(ensemble, worst)

    def _violated(self, ensemble: Ensemble, worst: float) -> None:
        form, tolerance = ensemble.form, self.card.engine.tolerance
        if self.card.engine.on_violation == "fail":
            raise ToleranceError(
                f"engine.tolerance: at step {ensemble.step} chi2 per point is off by {worst:.2g}, got {tolerance:g} "
                f"with {form.rank} directions; allowed: a larger tolerance, on_violation: raise_rank, or form: shared"
            )
        if (more := form.raised()) != form:
            ensemble.use(more)
        elif self.card.engine.tf32:
            raise ToleranceError(
                f"engine.tolerance: at step {ensemble.step} chi2 per point is off by {worst:.2g}, got {tolerance:g}; "
                "more directions do not mend it: leave engine.tf32 out, or allow a larger tolerance"
            )

    @one_thread
    def best(self, form: Form, weights: Mapping[str, NDArray[np.floating]]) -> float | None:
        """The worst deviation of reduced from exact chi2 at weights (R) of all replicas; None for an exact form."""
        if form.basis is None or self.card.engine.tolerance == 0:
            return None
        pdf = pdf_on_grid(self.card, weights, self.problem.pack.x)
        predict, datasets = self.problem.observables.predict, self.problem.datasets
        exact = predict(pdf)
        reduced = exact.copy()
        for kind, basis, rank in ((is_linear, form.basis, form.rank), (is_hadronic, form.hadronic, form.hadronic_rank)):
            if basis is not None:
                mine = np.concatenate([np.full(len(d.cv), kind(d)) for d in datasets])
                reduced[:, mine] = predict(self._kept(pdf, basis.first(rank)))[:, mine]
        rows = np.arange(len(pdf))
        return _deviation(self._chi2(reduced, rows), self._chi2(exact, rows))

    def _kept(self, pdf: Array, basis: Basis) -> Array:
        """What a basis keeps of PDFs (R, 8, X)."""
        nodes, out = self.problem.observables.nodes, pdf.copy()
        inside = pdf[..., :nodes].reshape(len(pdf), -1)
        out[..., :nodes] = (inside - basis.lost(inside)).reshape(pdf[..., :nodes].shape)
        return out

    def _chi2(self, predictions: Array, rows: NDArray[np.intp]) -> Array:
        """chi2 per point (2, n) of the training and validation halves of the replicas `rows`."""
        residual, training = predictions - self.problem.data[rows], self.problem.training[rows]
        halves = []
        for mask in (training, ~training):
            points = mask.sum(axis=1)
            # weights of the sets are left out, as in the history
            chi2 = self._white.chi2(residual, mask.astype(np.float64))
            halves.append(np.where(points > 0, chi2 / np.maximum(points, 1), np.nan))
        return np.stack(halves)


def _deviation(got: Array, exact: Array) -> float:
    """The worst over all halves and replicas; replicas without points in a half, or broken ones, do not count."""
    found = np.abs(got - exact) / np.maximum(1, exact)
    return float(np.nanmax(found, initial=0.0)) if np.isfinite(found).any() else 0.0
