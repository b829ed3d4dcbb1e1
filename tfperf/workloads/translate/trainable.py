"""The translator as what is placed: a local batch is (source (B, S), target (B, T)), ids, PAD behind."""

from collections.abc import Sequence

import tensorflow as tf

from tfperf.errors import UserError
from tfperf.place import engine as engines
from tfperf.place.devices import Devices
from tfperf.place.method import Method
from tfperf.place.shapes import TensorType
from tfperf.place.trainable import BatchPosition, LocalBatches, PassInputs, PassOutcome, Trainable
from tfperf.place.transfers import Flops
from tfperf.workloads.translate.arithmetic import count_lstm_flops, count_pass_flops
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.dropout import sample_masks
from tfperf.workloads.translate.feeding import compute_max_columns
from tfperf.workloads.translate.translator import Translator, select_input_ids


class TrainableTranslator(Translator, Trainable):
    """Losses are cross entropies, and a batch counts as its labels."""

    def __init__(self, card: TranslationCard, rows: int) -> None:
        super().__init__(card, rows)
        self.card = card
        source, target = compute_max_columns(card)
        self.most_look_ups = source, target - 1

    def select_ids(self, local_batch: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Pieces of both sides."""
        source, target = local_batch
        return select_input_ids(source, target)

    def survey(self, local_batches: LocalBatches) -> list[tf.Tensor]:
        """Columns that are looked up of source and target, where they are most among the local batches."""
        sides = zip(*(select_input_ids(source, target) for source, target in local_batches), strict=True)
        return [tf.reduce_max(tf.stack([tf.shape(ids)[1] for ids in side])) for side in sides]

    def sample_draws(
        self, position: BatchPosition, local_batch: Sequence[tf.Tensor], rows: Sequence[tf.Tensor],
        survey: Sequence[tf.Tensor],
    ) -> list[tf.Tensor] | None:  # fmt: skip
        """What dropout leaves, by `sample_masks`; none without dropout."""
        return sample_masks(self.card, position, rows, survey) if self.card.model.dropout else None

    def compute(self, given: PassInputs) -> PassOutcome:
        """The sum of a local batch's cross entropies."""
        source, target = given.local_batch
        return PassOutcome(self.compute_loss(given.weights, given.rows, source, target, given.draws))

    def count_flops(self, local_batch: Sequence[TensorType]) -> Flops:
        """By counting: TensorFlow's graphs have loops for layers."""
        (batch, source), (_, target) = (side.dimensions for side in local_batch)
        network, labels = self.card.model, target - 1
        every = count_pass_flops(network, self.rows, batch, source, labels)
        return Flops(every, count_lstm_flops(network, batch, source, labels))


TranslationEngine = engines.PlacementEngine[TrainableTranslator]


def make_method(card: TranslationCard) -> Method:
    """How a card's translator is trained."""
    return Method(
        placement=card.placement, optimizer=card.train.optimizer, precision=card.engine.precision, xla=card.engine.xla,
        embedding_gradients=card.engine.embedding_gradients,
    )  # fmt: skip


def build_engine(card: TranslationCard, rows: int, devices: Devices) -> TranslationEngine:
    """The card's engine for a translator with so many rows in its tables.

    Raises: UserError where the card asks for a kernel that the devices do not have.
    """
    if card.engine.lstm == "cudnn" and devices.logical:
        raise UserError("engine.lstm: got 'cudnn', which needs a GPU; allowed here: auto, block, plain")
    return engines.build_engine(lambda: TrainableTranslator(card, rows), make_method(card), devices)
