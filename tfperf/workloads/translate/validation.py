"""The loss of a translator on pairs that it is not trained on."""

from collections.abc import Sequence

import tensorflow as tf

from tfperf.scopes import phase
from tfperf.workloads.translate.batch_translator import IDS, TranslatorWeights, list_weight_shapes
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.feeding import build_dataset, plan_held_out
from tfperf.workloads.translate.translator import Translator, select_input_ids


class Validation:
    """The loss per label of a split, each pair once, on TensorFlow's default device whatever the training's are."""

    def __init__(self, card: TranslationCard, model: Translator, split: Split) -> None:
        self.model = model
        self.batches = build_dataset(split, plan_held_out(card, split, 1))
        self._compiled = tf.function(self._sum, (list_weight_shapes(model), IDS, IDS), autograph=False)

    def evaluate_loss(self, weights: TranslatorWeights) -> float:
        """Cross entropy in nats with these weights, over all labels that are not padding."""
        there = [tf.constant(weight) for weight in weights]
        total = labels = 0.0
        for ((source, target),), tokens in self.batches:
            total += float(self._compiled(there, source, target))
            labels += float(tokens)
        return total / labels

    def _sum(self, weights: Sequence[tf.Tensor], source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        with phase("validation"):
            rows = [tf.gather(*pair) for pair in zip(weights[:2], select_input_ids(source, target), strict=True)]
            return self.model.compute_loss(weights[2:], rows, source, target)
