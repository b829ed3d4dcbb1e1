"""The loss of a translator on pairs that it is not trained on."""

from collections.abc import Sequence

import tensorflow as tf

from tfperf.scopes import phase
from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.corpus import Part
from tfperf.workloads.translate.feeding import dataset, held_out_plan
from tfperf.workloads.translate.translating import IDS, Weights, weight_shapes
from tfperf.workloads.translate.translator import Translator, pieces


class Validation:
    """The loss per label of a part, each pair once, on TensorFlow's default device whatever the training's are."""

    def __init__(self, card: Translation, model: Translator, part: Part) -> None:
        self.model = model
        self.batches = dataset(part, held_out_plan(card, part, 1))
        self._compiled = tf.function(self._sum, (weight_shapes(model), IDS, IDS), autograph=False)

    def loss(self, weights: Weights) -> float:
        """Cross entropy in nats with these weights, over all labels that are not padding."""
        there = [tf.constant(weight) for weight in weights]
        total = labels = 0.0
        for ((source, target),), tokens in self.batches:
            total += float(self._compiled(there, source, target))
            labels += float(tokens)
        return total / labels

    def _sum(self, weights: Sequence[tf.Tensor], source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        with phase("validation"):
            tables = zip(weights[:2], pieces(source, target), strict=True)
            return self.model.loss(weights[2:], [tf.gather(table, ids) for table, ids in tables], source, target)
