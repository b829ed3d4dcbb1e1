"""Random numbers that belong to the examples of a global batch, so that they do not depend on who computes them."""

from collections.abc import Sequence

import tensorflow as tf

PHILOX = 1  # Salmon et al. 2011, as TensorFlow implements it on every device: 4 draws of 32 bits a count
DRAWS = 4
STREAMS = 64  # at most


class Draws:
    """The draws of one step for the examples from number `first` on of a global batch.

    If an example has D draws, draw d of example e is number e D + d of the stream of (seed, step, stream), whatever
    local batch it is in.
    """

    def __init__(self, seed: int, step: tf.Tensor, first: int) -> None:
        """`step`: its number, an integer scalar."""
        self.key, self.step, self.first = tf.constant([seed], tf.uint64), tf.cast(step, tf.int64), first

    def sample_uniform(self, examples: int, each: Sequence[int], stream: int) -> tf.Tensor:
        """Draws (examples, *each) from [0, 1), float32; stream: 0 to 63, as the number of a layer."""
        entries = 1
        for size in each:
            entries *= size
        whole = -(-entries // DRAWS) * DRAWS  # so that no count is shared by two examples
        return tf.reshape(self.sample_entries([examples, whole], stream)[:, :entries], [examples, *each])

    def sample_entries(self, shape: Sequence[int | tf.Tensor], stream: int) -> tf.Tensor:
        """The same of a shape (examples, ...), with a multiple of 4 draws an example; sizes may be int64 tensors."""
        shape = tf.stack([tf.cast(size, tf.int64) for size in shape])
        counter = tf.stack([self.first * tf.reduce_prod(shape[1:]) // DRAWS, self.step * STREAMS + stream])
        return tf.raw_ops.StatelessRandomUniformV2(
            shape=shape, key=self.key, counter=tf.cast(counter, tf.uint64), alg=PHILOX, dtype=tf.float32
        )
