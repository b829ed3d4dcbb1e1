"""Is chi2 of the training what the exact operators give? Checked during the fit and at its end, in float64.

A deviation is |engine - exact| / max(1, exact), of chi2 per point, over training and validation halves.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tfperf.arrays import ArraysByName, Float32Array, Float64Array, ReplicaIndices, ReplicaWeights
from tfperf.errors import ToleranceError
from tfperf.train.tolerance import ToleranceCheck
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.evaluate import evaluate_pdf
from tfperf.workloads.pdf.forms import Chi2Form
from tfperf.workloads.pdf.operators.loss_constants import is_hadronic, is_linear, truncate_whitening
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.operators.reduction import Basis
from tfperf.workloads.pdf.operators.threads import one_thread
from tfperf.workloads.pdf.operators.woodbury import Whitening


class Chi2Check(ToleranceCheck):
    """The checks of one training."""

    def __init__(self, card: Card, problem: Problem) -> None:
        super().__init__(card.engine.tolerance, card.engine.check_every)
        self.card, self.problem = card, problem

    @cached_property
    def _white(self) -> Whitening:
        return truncate_whitening(self.problem)

    def may_deviate(self, form: Chi2Form) -> bool:
        """True of a form that deviates by its basis, or by products in TF32."""
        return self.tolerance > 0 and (form.basis is not None or self.card.engine.tf32)

    @one_thread
    def compute_deviation(
        self, weights: ArraysByName, losses: Mapping[str, Float32Array], indices: ReplicaIndices
    ) -> float:
        """Of chi2 per point in both halves."""
        pdf = evaluate_pdf(self.card, weights, self.problem.pack.x)
        got = np.stack([losses["training"][indices], losses["validation"][indices]]).astype(np.float64)
        exact = self._compute_chi2(self.problem.observables.predict(pdf), indices)
        return float(_compute_deviations(got, exact).max(initial=0.0))

    def mend(self, form: Chi2Form, step: int, worst: float) -> Chi2Form:
        """With more directions."""
        off = f"engine.tolerance: at step {step} chi2 per point is off by {worst:.2g}, got {self.tolerance:g}"
        if self.card.engine.on_violation == "refit":
            return form  # at the end it is known who is off where it counts
        if self.card.engine.on_violation == "fail":
            raise ToleranceError(
                f"{off} with {form.rank} directions; "
                "allowed: a larger tolerance, on_violation: raise_rank or refit, or form: shared"
            )
        more = form.raise_rank()
        if more == form and self.card.engine.tf32:
            raise ToleranceError(
                f"{off}; more directions do not mend it: leave engine.tf32 out, or allow a larger tolerance"
            )
        return more

    @one_thread
    def compute_best_deviations(self, form: Chi2Form, weights: ReplicaWeights) -> Float64Array | None:
        """Deviations (R) of reduced from exact chi2 at weights (R) of all replicas; None for an exact form."""
        if form.basis is None or self.card.engine.tolerance == 0:
            return None
        pdf = evaluate_pdf(self.card, weights, self.problem.pack.x)
        predict, datasets = self.problem.observables.predict, self.problem.datasets
        exact = predict(pdf)
        reduced = exact.copy()
        for kind, basis, rank in ((is_linear, form.basis, form.rank), (is_hadronic, form.hadronic, form.hadronic_rank)):
            if basis is not None:
                mine = np.concatenate([np.full(len(d.cv), kind(d)) for d in datasets])
                reduced[:, mine] = predict(self._project(pdf, basis.truncate(rank)))[:, mine]
        indices = np.arange(len(pdf))
        return _compute_deviations(self._compute_chi2(reduced, indices), self._compute_chi2(exact, indices))

    def summarise(self, form: Chi2Form, weights: ReplicaWeights) -> dict[str, Any]:
        """What the checks found, the last of them at the best weights (R); empty for an exact form.

        off: numbers of the replicas that are beyond the tolerance there.
        """
        each = self.compute_best_deviations(form, weights)
        best = None if each is None else float(each.max(initial=0.0))
        off = [] if each is None else [i for i, one in zip(self.problem.ids, each, strict=True) if one > self.tolerance]
        sampled = max((worst for *_, worst in self.found), default=None)
        if best is None and sampled is None:
            return {}
        return {
            "tolerance": self.tolerance, **form.directions, "worst_best": best, "worst_sampled": sampled,
            "checks": self.found, "violated": bool(off), "off": off,
        }  # fmt: skip

    def _project(self, pdf: Float64Array, basis: Basis) -> Float64Array:
        """What a basis keeps of PDFs (R, 8, X)."""
        nodes, out = self.problem.observables.nodes, pdf.copy()
        inside = pdf[..., :nodes].reshape(len(pdf), -1)
        out[..., :nodes] = (inside - basis.compute_remainder(inside)).reshape(pdf[..., :nodes].shape)
        return out

    def _compute_chi2(self, predictions: Float64Array, indices: ReplicaIndices) -> Float64Array:
        """chi2 per point (2, n) of the training and validation halves of the replicas `indices`."""
        residual, training = predictions - self.problem.data[indices], self.problem.training[indices]
        halves = []
        for mask in (training, ~training):
            points = mask.sum(axis=1)
            # weights of the sets are left out, as in the history
            chi2 = self._white.compute_chi2(residual, mask.astype(np.float64))
            halves.append(np.where(points > 0, chi2 / np.maximum(points, 1), np.nan))
        return np.stack(halves)


def _compute_deviations(got: Float64Array, exact: Float64Array) -> Float64Array:
    """The worse half of each replica (R); a half without points, or a broken replica, does not deviate."""
    found = np.abs(got - exact) / np.maximum(1, exact)
    each: Float64Array = np.where(np.isnan(found), 0.0, found).max(axis=0)
    return each
