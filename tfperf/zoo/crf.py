"""A linear-chain conditional random field: how likely sequences of labels are, and which one is likeliest.

Source: Lafferty, McCallum & Pereira 2001, "Conditional random fields"; start and end scores, and the use on top of a
recurrent network: Lample et al. 2016, "Neural architectures for named entity recognition", section 2.2.

Letters of shapes: B sequences, L places, K labels. A sequence has at least one place, and all padding behind it.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable("tfperf")
class ConditionalRandomField(keras.layers.Layer):
    """Scores of labels that follow each other, begin and end a sequence; emissions pass through it as they are.

    Its arithmetic is in the precision of its weights, whatever that of the emissions is.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.supports_masking = True  # what a recurrent layer below says of padding is known by the caller, too

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """input_shape: (B, L, K)."""
        count = input_shape[-1]
        assert count is not None
        self.transitions = self.add_weight((count, count), "glorot_uniform", name="transitions")  # [before, after]
        self.starts = self.add_weight((count,), "zeros", name="starts")
        self.ends = self.add_weight((count,), "zeros", name="ends")

    def call(self, emissions: Any) -> Any:
        """emissions: (B, L, K), scores of each label at each place."""
        return emissions

    def compute_log_likelihood(self, emissions: Any, labels: Any, mask: Any) -> Any:
        """The logarithm of the probability of `labels` (B, L); (B). mask: (B, L), true up to each sequence's end."""
        values = ops.cast(emissions, self.variable_dtype)
        return self._score_paths(values, labels, mask) - self._sum_paths(values, mask)

    def decode_labels(self, emissions: Any, mask: Any) -> Any:
        """The likeliest labels (B, L), 0 in the padding, by Viterbi's algorithm."""
        values, mask = ops.cast(emissions, self.variable_dtype), ops.cast(mask, "bool")
        transitions, first = tf.convert_to_tensor(self.transitions), self.starts + values[:, 0]
        stay = tf.range(tf.shape(values)[2]) + tf.zeros_like(first, tf.int32)  # (B, K): each label for itself
        # nothing moves at the first place, which is there so that the loop has at least one: padding neither
        moves = tf.transpose(mask) & (tf.range(tf.shape(mask)[1]) > 0)[:, None]

        def step(before: Any, now: Any) -> Any:
            scores, (emission, is_on) = before[0][:, :, None] + transitions, now
            best, came_from = tf.reduce_max(scores, 1) + emission, tf.argmax(scores, 1, tf.int32)
            return tf.where(is_on[:, None], best, before[0]), tf.where(is_on[:, None], came_from, stay)

        scores, pointers = tf.scan(step, (ops.swapaxes(values, 0, 1), moves), (first, stay))
        last = tf.argmax(scores[-1] + self.ends, 1, tf.int32)
        # padding points from each label to itself: what ends a sequence is handed on to its last place
        before = tf.scan(lambda label, pointer: tf.gather(pointer, label, batch_dims=1), pointers, last, reverse=True)
        return tf.where(mask, tf.transpose(tf.concat([before[1:], last[None]], 0)), 0)

    def _score_paths(self, emissions: Any, labels: Any, mask: Any) -> Any:
        """The score of the path of the labels (B)."""
        on = ops.cast(mask, emissions.dtype)[:, :, None]
        chosen = ops.one_hot(labels, emissions.shape[2], dtype=emissions.dtype) * on
        after = ops.concatenate([on[:, 1:], ops.zeros_like(on[:, :1])], 1)
        moves = ops.einsum("bti,btj->bij", chosen[:, :-1], chosen[:, 1:])  # how often j follows i
        return (
            ops.sum(chosen * emissions, (1, 2)) + ops.sum(moves * self.transitions, (1, 2))
            + ops.sum(chosen[:, 0] * self.starts, 1) + ops.sum(chosen * (on - after) * self.ends, (1, 2))
        )  # fmt: skip

    def _sum_paths(self, emissions: Any, mask: Any) -> Any:
        """The logarithm of the sum of exp(score) over all paths (B), by the forward algorithm."""
        steps = (ops.swapaxes(emissions, 0, 1)[1:], ops.swapaxes(ops.cast(mask, "bool"), 0, 1)[1:])
        transitions = tf.convert_to_tensor(self.transitions)

        def step(before: Any, now: Any) -> Any:
            emission, is_on = now
            after = tf.reduce_logsumexp(before[:, :, None] + transitions, 1) + emission
            return tf.where(is_on[:, None], after, before)

        last = tf.foldl(step, steps, self.starts + emissions[:, 0])
        return tf.reduce_logsumexp(last + self.ends, 1)
