"""The translator as what is placed: a part of a batch is (source (B, S), target (B, T)), ids, PAD behind."""

from collections.abc import Sequence

import tensorflow as tf

from tfperf.errors import UserError
from tfperf.place import engine as engines
from tfperf.place.copies import Flops
from tfperf.place.devices import Devices
from tfperf.place.method import Method
from tfperf.place.shapes import Value
from tfperf.place.trainable import Given, Outcome, Parts, Place, Trainable
from tfperf.workloads.translate.arithmetic import lstm_flops, pass_flops
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.dropout import draw_kept
from tfperf.workloads.translate.feeding import most_columns
from tfperf.workloads.translate.translator import Translator, pieces


class TrainableTranslator(Translator, Trainable):
    """Losses are cross entropies, and a batch counts as its labels."""

    def __init__(self, card: Translation, rows: int) -> None:
        super().__init__(card, rows)
        self.card = card
        source, target = most_columns(card)
        self.most_look_ups = source, target - 1

    def look_up(self, part: Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Pieces of both sides."""
        source, target = part
        return pieces(source, target)

    def survey(self, parts: Parts) -> list[tf.Tensor]:
        """Columns that are looked up of source and target, where they are most among the parts of a batch."""
        sides = zip(*(pieces(source, target) for source, target in parts), strict=True)
        return [tf.reduce_max(tf.stack([tf.shape(ids)[1] for ids in side])) for side in sides]

    def draw(
        self, place: Place, part: Sequence[tf.Tensor], rows: Sequence[tf.Tensor], survey: Sequence[tf.Tensor]
    ) -> list[tf.Tensor] | None:
        """What dropout leaves, by `draw_kept`; none without dropout."""
        return draw_kept(self.card, place, rows, survey) if self.card.model.dropout else None

    def compute(self, given: Given) -> Outcome:
        """The sum of a part's cross entropies."""
        source, target = given.part
        return Outcome(self.loss(given.weights, given.rows, source, target, given.draws))

    def count_flops(self, part: Sequence[Value]) -> Flops:
        """By counting: TensorFlow's graphs have loops for layers."""
        (batch, source), (_, target) = (side.dimensions for side in part)
        network = self.card.model
        return Flops(
            pass_flops(network, self.rows, batch, source, target - 1), lstm_flops(network, batch, source, target - 1)
        )


TranslationEngine = engines.Engine[TrainableTranslator]


def make_method(card: Translation) -> Method:
    """How a card's translator is trained."""
    return Method(
        placement=card.placement, optimizer=card.train.optimizer, precision=card.engine.precision, xla=card.engine.xla,
        embedding_gradients=card.engine.embedding_gradients,
    )  # fmt: skip


def make_engine(card: Translation, rows: int, devices: Devices) -> TranslationEngine:
    """The card's engine for a translator with so many rows in its tables.

    Raises: UserError where the card asks for a kernel that the devices do not have.
    """
    if card.engine.lstm == "cudnn" and devices.logical:
        raise UserError("engine.lstm: got 'cudnn', which needs a GPU; allowed here: auto, block, plain")
    return engines.make_engine(lambda: TrainableTranslator(card, rows), make_method(card), devices)
