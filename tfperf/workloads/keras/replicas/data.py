"""What replicas are trained on and what validates: samples in memory, or batches of a stream that all take."""

from dataclasses import dataclass

from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.sources.samples import Samples
from tfperf.sources.streams import BatchStream
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.inputs import TrainingData, read_data
from tfperf.workloads.keras.replicas.stream import StreamWindow, check_stream, gather_samples


@dataclass(frozen=True)
class ReplicaData:
    """For all replicas of a training."""

    samples: Samples  # of which each replica's are drawn; of a stream some batches to trace a step with
    validation: Samples | None
    batch: int  # samples of a step
    window: StreamWindow | None  # of a stream

    @property
    def count(self) -> int:
        """Samples of an epoch."""
        return len(self.samples) if self.window is None else self.window.samples


def make_replica_data(card: KerasCard, data: TrainingData, show_stage: ShowStage) -> ReplicaData:
    """The data of a card. Raises: UserError for data that replicas cannot be trained on."""
    training, held = data.training, data.validation
    for key, part in (("data", training), ("data.validation", held)):
        if isinstance(part, BatchStream):
            check_stream(part, key)
        elif part is not None and any(array.dtype.kind in "US" for array in part.arrays):
            raise CardError(f"{key}: has texts; replicas take numbers: index the texts before")
    if isinstance(held, BatchStream):
        show_stage("reading the data that validate")
        steps = getattr(card.data.validation, "steps", None)
        held = gather_samples(held, steps, "data.validation")
    per_epoch = card.train.steps_per_epoch
    if isinstance(training, BatchStream):
        if card.ensemble.data != "all":
            what = "bootstrap" if card.ensemble.data == "bootstrap" else "masks"
            raise CardError(
                f"ensemble.data: got {what}; must be all for {training.name}, whose batches all replicas take: samples "
                "of their own need arrays in memory"
            )
        show_stage("reading the first batches")
        window = StreamWindow(training, per_epoch, show_stage)
        return ReplicaData(window.example, held, window.batch, window)
    if per_epoch is not None:
        raise CardError("train.steps_per_epoch: must be left out for samples in memory, of which an epoch takes all")
    return ReplicaData(training, held, data.batch, None)


def read_stream(card: KerasCard) -> BatchStream:
    """The card's stream, once more from its first batch on."""
    found = read_data(card).training
    assert isinstance(found, BatchStream)
    return found
