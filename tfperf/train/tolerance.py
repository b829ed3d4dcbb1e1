"""Are the losses of a training the exact ones? Checked while it trains, on a few replicas. R replicas."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfperf.arrays import ArraysByName, Float32Array, ReplicaIndices
from tfperf.train.ensemble import Ensemble

SAMPLED, SHARE = 4, 25  # replicas that a check looks at: so many at least, and one in so many


class ToleranceCheck:
    """The checks of one training; as it stands here, of one whose losses are exact.

    A workload whose forms leave something out derives its own, which says by how much their losses deviate.
    """

    def __init__(self, tolerance: float = 0.0, every: int = 1) -> None:
        """every: steps between checks."""
        self.tolerance, self.every = tolerance, every
        self.found: list[tuple[int, int, float]] = []  # step, the first of the form's numbers, worst deviation

    def may_deviate(self, form: Any) -> bool:
        """Whether the losses of a form can differ from the exact ones."""
        return False

    def compute_deviation(
        self, weights: ArraysByName, losses: Mapping[str, Float32Array], indices: ReplicaIndices
    ) -> float:
        """The worst of the replicas `indices` (n): their weights (n, ...), and all that the history keeps (R)."""
        raise NotImplementedError

    def mend(self, form: Any, step: int, worst: float) -> Any:
        """The form to go on with after a violation; the same where another would not help.

        Raises: ToleranceError where the training has to stop.
        """
        raise NotImplementedError

    def is_due(self, form: Any, step: int) -> bool:
        """True at every `every` steps of a form that may deviate."""
        return self.may_deviate(form) and step % self.every == 0

    def find_next_step(self, form: Any, step: int) -> int:
        """The next step at which a check is due."""
        return step - step % self.every + self.every if self.may_deviate(form) else sys.maxsize

    def check_ensemble(self, ensemble: Ensemble, losses: Mapping[str, Float32Array]) -> None:
        """Compare the losses (R) of a few running replicas; go on with another form if need be."""
        indices = np.flatnonzero(np.isfinite(losses[ensemble.factory.metrics[0]]))
        if not len(indices):  # all that run are about to be quarantined
            return
        count = min(max(SAMPLED, len(indices) // SHARE), len(indices))
        indices = indices[np.unique(np.linspace(0, len(indices) - 1, count).astype(int))]
        state, form = ensemble.gather_state(), ensemble.form
        weights = {n.removeprefix("model/"): v[indices] for n, v in state.items() if n.startswith("model/")}
        worst = self.compute_deviation(weights, losses, indices)
        self.found.append((ensemble.step, next(iter(form.numbers), 0), worst))
        if worst > self.tolerance and (other := self.mend(form, ensemble.step, worst)) != form:
            ensemble.use(other)
