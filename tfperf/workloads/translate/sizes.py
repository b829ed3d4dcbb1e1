"""What a card of workload translate amounts to, before anything is trained."""

from dataclasses import dataclass

from tfperf.place.devices import count_devices
from tfperf.place.policy import describe_merge
from tfperf.runcard.placement import Placement
from tfperf.workloads.translate.batches import BatchPlan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import LEFT_OUT, ROLES, EncodedCorpus
from tfperf.workloads.translate.feeding import plan_training
from tfperf.workloads.translate.texts import Sentences, read_sentences


def count_parameters(card: TranslationCard, rows: int) -> int:
    """Trained numbers: two embeddings and the projection, and two weight matrices and a bias of each LSTM layer."""
    units = card.model.units
    return 3 * rows * units + 2 * card.model.layers * 4 * units * (2 * units + 1)


def describe_gradient_merge(placement: Placement) -> str:
    """How gradients are summed."""
    if placement.engine == "tower":
        return describe_merge(placement)
    return f"{placement.merge}, by TensorFlow's strategy"


def count_pairs(encoded: EncodedCorpus) -> dict[str, int]:
    """Pairs of each split, and those left out of each for their length."""
    counts = {name: len(getattr(encoded, name)) for name in ROLES}
    return counts | {LEFT_OUT[name]: encoded.left_out[name] for name in ROLES}


@dataclass(frozen=True)
class TrainingSizes:
    """Sizes of a training."""

    card: TranslationCard
    sentences: Sentences
    devices: int
    epoch: BatchPlan  # the first

    def describe(self) -> list[str]:
        """The sizes for people."""
        pairs, epoch, sizes = count_pairs(self.sentences.encoded), self.epoch, self.sentences.vocabularies
        pieces = ", ".join(f"{vocabulary.size} {side}" for side, vocabulary in sizes.items())
        variables, embeddings, slots, updates = self.card.placement.places
        return [
            f"pairs       {pairs['training']} train, {pairs['validation']} validate, {pairs['test']} test; "
            f"{', '.join(str(pairs[key]) for key in LEFT_OUT.values())} left out, longer than "
            f"{self.card.data.max_length} pieces",
            f"pieces      {pieces or f'synthetic, {self.card.fixed_length} a sentence'}; "
            f"{self.sentences.rows} rows of each table",
            f"steps       {self.card.train.steps} of {len(epoch.pieces)} an epoch, on {self.devices} "
            f"device{'s' if self.devices > 1 else ''}",
            f"batches     {self.card.data.buckets} buckets: {100 * epoch.padding_share:.1f} % padding, "
            f"{100 * epoch.straggler_waste:.1f} % straggler waste, {epoch.dropped} pairs in no step (first epoch)",
            f"placement   engine {self.card.placement.engine}; variables {variables}, embeddings {embeddings}, "
            f"slots {slots}, updates {updates}; gradients {describe_gradient_merge(self.card.placement)}",
            f"parameters  {count_parameters(self.card, self.sentences.rows)}",
        ]


def count_sizes(card: TranslationCard) -> TrainingSizes:
    """Read the sentences of a card and tell the sizes; UserError where they or this machine do not fit the card."""
    sentences, devices = read_sentences(card), count_devices(card.placement)
    return TrainingSizes(
        card, sentences, devices, plan_training(card, sentences.encoded.training, devices, 0)
    )  # fmt: skip
