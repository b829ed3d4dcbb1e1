"""A translator with given weights, read by its decoder piece after piece. B sentence pairs, S and T pieces, U units."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from tfperf.arrays import AnyArray, Int32Array
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.decoding import ALPHA, repeat_state, search_beam
from tfperf.workloads.translate.feeding import build_dataset, plan_held_out
from tfperf.workloads.translate.translator import LSTMStates, Translator
from tfperf.workloads.translate.vocabulary import PAD

TranslatorWeights = Sequence[AnyArray]  # of a translator: both tables, then its `weights` in their order
IDS = tf.TensorSpec((None, None), tf.int32)  # of any number of sentences, of any length


def list_weight_shapes(model: Translator) -> list[tf.TensorSpec]:
    """Shape and type of each of a translator's weights."""
    return [tf.TensorSpec(v.shape, v.dtype) for v in (*model.embeddings, *model.weights)]


class BatchTranslator:
    """Translates batches on TensorFlow's default device, by the same graph for all shapes and weights.

    The state of a hypothesis is what the decoder's layers remember; the encoded source is the sentence's.
    """

    def __init__(self, model: Translator, beam: int, max_length: int) -> None:
        """`beam` 1: greedy, by the log probability itself."""
        self.model, self.beam, self.max_length = model, beam, max_length
        self.dtype = tf.as_dtype(model.core.compute_dtype)
        signature = list_weight_shapes(model), IDS
        self._compiled = tf.function(self.trace, signature, autograph=False)

    def translate(self, weights: Sequence[tf.Tensor], source: tf.Tensor) -> Int32Array:
        """Ids (B, T) of the translations of source (B, S), END and PAD behind; T = `max_length`."""
        ids: Int32Array = self._compiled(list(weights), source).numpy()
        return ids

    def trace(self, weights: Sequence[tf.Tensor], source: tf.Tensor) -> tf.Tensor:
        """What a graph of it is traced from."""
        core, (source_table, target_table, *values) = self.model.core, weights
        with keras.StatelessScope(state_mapping=list(zip(core.trainable_variables, values, strict=True))):
            mask = tf.not_equal(source, PAD)
            memory, states = core.encode(tf.gather(source_table, source), mask)
            memory, mask = repeat_state((memory, mask), self.beam)

            def step(last: tf.Tensor, states: LSTMStates) -> tuple[tf.Tensor, LSTMStates]:
                vectors = tf.gather(target_table, last)[:, None]
                logits, states = core.decode(vectors, states, memory, mask)
                return tf.nn.log_softmax(logits[:, 0]), states

            batch, alpha = tf.shape(source)[0], ALPHA if self.beam > 1 else 0.0
            ids, _ = search_beam(
                step, repeat_state(states, self.beam), batch, self.beam, self.max_length, alpha, self.dtype
            )
        return ids


def translate_split(
    card: TranslationCard, translator: BatchTranslator, weights: TranslatorWeights, split: Split,
    before_batch: Callable[[], None] = lambda: None,
) -> list[Int32Array]:  # fmt: skip
    """The ids (T) of each pair's translation, in the split's order; `before_batch` is called before each batch."""
    plan, there = plan_held_out(card, split, 1), [tf.constant(weight) for weight in weights]
    found: dict[int, Int32Array] = {}
    for rows, (((source, _),), _) in zip(plan.rows[:, 0], build_dataset(split, plan), strict=True):
        before_batch()
        found.update(zip(rows.tolist(), translator.translate(there, source), strict=True))
    return [found[i] for i in range(len(split))]  # filling has no number from 0 on
