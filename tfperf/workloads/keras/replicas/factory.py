"""Makes the stacks of an ensemble's replicas, in one of two forms."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tfperf.arrays import ArraysByName, FloatArray, ReplicaIndices
from tfperf.data.cache import digest, digest_code
from tfperf.train import choice_cache
from tfperf.train.cores import Cores
from tfperf.train.forms import PlainForm
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.replicas.draws import RowDraw
from tfperf.workloads.keras.replicas.forms import LANES, ReplicaForm
from tfperf.workloads.keras.replicas.lane import KerasLane
from tfperf.workloads.keras.replicas.template import ModelTemplate
from tfperf.workloads.keras.stacked.probe import PROBED, find_difference
from tfperf.workloads.keras.stacked.stack import Copies, KerasStack, list_refusals

MOST_BYTES = 64 * 2**20  # of the samples' numbers that are given at once, for all replicas


class KerasFactory:
    """R replicas of a model."""

    def __init__(
        self, template: ModelTemplate, starts: Sequence[ArraysByName], batches: Sequence[RowDraw],
        loss_weights: Sequence[float] | None, digest_of_model: str | None,
    ) -> None:  # fmt: skip
        """starts: the values that each replica begins with; batches: what each draws. digest_of_model: None: it
        shares no program with others.
        """
        self.template, self.starts, self.batches = template, starts, batches
        self.loss_weights, self._digest = loss_weights, digest_of_model
        self.metrics: Sequence[str] = template.metrics
        self.progress_metric = template.monitored
        self.refusals = list_refusals(template.model)  # why there can be no stack, in words

    @property
    def replicas(self) -> int:
        """How many there are."""
        return len(self.starts)

    def build(self, indices: ReplicaIndices, form: PlainForm) -> KerasLane | KerasStack:
        """The lane of a replica, or the stack of some."""
        most = MOST_BYTES // (4 * self.template.batch * self.replicas)
        weights = None if self.loss_weights is None else [self.loss_weights[r] for r in indices]
        if form.name == LANES:
            (r,) = indices
            return KerasLane(self.template, self.batches[r], most, None if weights is None else weights[0])
        copies = Copies(self.template, [self.batches[r] for r in indices], self._list_rates(indices))
        return KerasStack(copies, most, weights)

    def find_difference(self) -> str | None:
        """Why a stack would not train replicas as the model alone would, in words; None: nothing is seen."""
        if self.refusals or self.replicas < 2:
            return None
        indices = np.arange(min(PROBED, self.replicas))
        stack = self.build(indices, ReplicaForm())
        assert isinstance(stack, KerasStack)
        self.initialize(stack, indices)
        return find_difference(stack, self.starts)

    def _list_rates(self, indices: ReplicaIndices) -> FloatArray | None:
        name = self.template.find_learning_rate()
        return None if name is None else np.array([self.starts[r][name] for r in indices])

    def initialize(self, stack: KerasLane | KerasStack, indices: ReplicaIndices) -> None:
        """What they begin with."""
        if isinstance(stack, KerasStack):
            stack.start([self.starts[r] for r in indices])
        else:
            stack.start(self.starts[indices[0]])

    def find_choices_path(self, card: KerasCard, cores: Cores) -> Path | None:
        """The file that has the choices of an earlier training of such replicas; None: there can be none."""
        if not self._digest:
            return None
        template = self.template
        trained = digest(
            digest_code(__name__), self._digest, self.replicas, template.batch, template.epoch, template.validated,
            self.loss_weights is None, card.engine, card.train, card.ensemble.patience,
        )  # fmt: skip
        return choice_cache.find_path(True, trained, cores)

    def digest(self, form: PlainForm) -> str:
        """The same for all trainings that compute the same with a form."""
        template = self.template
        mine = self._digest or f"{id(template)}"
        return digest(mine, template.batch, template.epoch, template.validated, self.loss_weights is None)
