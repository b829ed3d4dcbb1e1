"""Makes the stacks of an ensemble's replicas."""

from collections.abc import Sequence

from tfperf.arrays import ArraysByName, ReplicaIndices
from tfperf.data.cache import digest
from tfperf.train.forms import PlainForm
from tfperf.workloads.keras.replicas.draws import BatchDraw
from tfperf.workloads.keras.replicas.lane import KerasLane
from tfperf.workloads.keras.replicas.template import ModelTemplate

MOST_BYTES = 64 * 2**20  # of the samples' numbers that are given at once, for all replicas


class KerasFactory:
    """R replicas of a model."""

    def __init__(
        self, template: ModelTemplate, starts: Sequence[ArraysByName], batches: Sequence[BatchDraw],
        loss_weights: Sequence[float] | None, digest_of_model: str,
    ) -> None:  # fmt: skip
        """starts: the values that each replica begins with; batches: what each draws."""
        self.template, self.starts, self.batches = template, starts, batches
        self.loss_weights, self._digest = loss_weights, digest_of_model
        self.metrics: Sequence[str] = template.metrics
        self.progress_metric = template.monitored

    @property
    def replicas(self) -> int:
        """How many there are."""
        return len(self.starts)

    def build(self, indices: ReplicaIndices, form: PlainForm) -> KerasLane:
        """The lane of a replica."""
        (r,) = indices
        most = MOST_BYTES // (4 * self.template.batch * self.replicas)
        weight = None if self.loss_weights is None else self.loss_weights[r]
        return KerasLane(self.template, self.batches[r], most, weight)

    def initialize(self, stack: KerasLane, indices: ReplicaIndices) -> None:
        """What it begins with."""
        stack.start(self.starts[indices[0]])

    def digest(self, form: PlainForm) -> str:
        """The same for all trainings that compute the same with a form."""
        template = self.template
        return digest(self._digest, template.batch, template.epoch, template.validated, self.loss_weights is None)
