"""Is chi2 of the training what the exact operators give? Checked during the fit and at its end, in float64.

A deviation is |engine - exact| / max(1, exact), of chi2 per point, over training and validation halves.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tfperf.errors import UserError
from tfperf.operators.compiled import linear_points, whitened
from tfperf.operators.problem import Problem
from tfperf.operators.woodbury import Whitened
from tfperf.runcard.config import Card
from tfperf.train.ensemble import Ensemble
from tfperf.train.evaluate import pdf_on_grid
from tfperf.train.forms import Form

Array = NDArray[np.float64]
SAMPLED = 4  # replicas that a check during the fit looks at


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
        """True at every `check_every` steps of a form that may deviate."""
        return self.card.engine.tolerance > 0 and form.basis is not None and step % self.card.engine.check_every == 0

    def until(self, step: int) -> int:
        """The next step at which a check may be due."""
        every = self.card.engine.check_every
        return step - step % every + every

    def look(self, ensemble: Ensemble, losses: Mapping[str, NDArray[np.float32]]) -> None:
        """Compare the engine's losses (R) with the exact ones of a few running replicas; raise the rank if need be."""
        rows = np.flatnonzero(np.isfinite(losses["training"]))
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(SAMPLED, len(rows))).astype(int))]
        state = ensemble.look()
        weights = {n.removeprefix("model/"): v[rows] for n, v in state.items() if n.startswith("model/")}
        exact = self._exact(pdf_on_grid(self.card, weights, self.problem.pack.x), rows)
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
        ensemble.use(form.raised())

    def best(self, form: Form, weights: Mapping[str, NDArray[np.floating]]) -> float | None:
        """The worst deviation of reduced from exact chi2 at weights (R) of all replicas; None for an exact form."""
        if form.basis is None or self.card.engine.tolerance == 0:
            return None
        pdf = pdf_on_grid(self.card, weights, self.problem.pack.x)
        nodes, basis = self.problem.observables.nodes, form.basis.first(form.rank)
        reduced = pdf.copy()
        inside = pdf[..., :nodes].reshape(len(pdf), -1)
        reduced[..., :nodes] = (inside - basis.lost(inside)).reshape(pdf[..., :nodes].shape)
        rows = np.arange(len(pdf))
        return _deviation(self._exact(pdf, rows, reduced), self._exact(pdf, rows))

    def _exact(self, pdf: Array, rows: NDArray[np.intp], linear_pdf: Array | None = None) -> Array:
        """chi2 per point (2, n) of the training and validation halves; linear points from `linear_pdf` where given."""
        predictions = self.problem.observables.predict(pdf)
        if linear_pdf is not None:
            linear = linear_points(self.problem)
            predictions[:, linear] = self.problem.observables.predict(linear_pdf)[:, linear]
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
