"""Dropout whose draws belong to the examples of a global batch, so that they do not depend on who computes them."""

import tensorflow as tf

PHILOX = 1  # Salmon et al. 2011, as TensorFlow implements it on every device: 4 draws of 32 bits a count
DRAWS = 4
LAYERS = 64  # at most


class Draws:
    """The draws of one step for the examples from number `first` on of a global batch.

    Example e, column t and unit u of a layer have draw ((e C) + t) U + u of the stream of (seed, step, layer), where C
    is at least the columns of the longest example of the global batch: none depends on how examples are divided.
    """

    def __init__(self, seed: int, step: tf.Tensor, first: int) -> None:
        """`step`: its number, an integer scalar."""
        self.key, self.step, self.first = tf.constant([seed], tf.uint64), tf.cast(step, tf.int64), first

    def keep(self, x: tf.Tensor, columns: tf.Tensor, rate: float, layer: int) -> tf.Tensor:
        """Which entries of x (B, T, U) a layer keeps, each with probability 1 - rate; layer: 0 to 63.

        columns (): of the longest example of the global batch.
        """
        rows, length, units = tf.shape(x, tf.int64)[0], tf.shape(x)[1], x.shape[2]
        columns = -(-tf.cast(columns, tf.int64) // DRAWS) * DRAWS  # so that no count is shared by two examples
        counter = tf.stack([self.first * columns * units // DRAWS, self.step * LAYERS + layer])
        draws = tf.raw_ops.StatelessRandomUniformV2(
            shape=tf.stack([rows, columns, units]), key=self.key, counter=tf.cast(counter, tf.uint64), alg=PHILOX,
            dtype=tf.float32,
        )  # fmt: skip
        return draws[:, :length] >= rate


def drop(x: tf.Tensor, kept: tf.Tensor, rate: float) -> tf.Tensor:
    """The entries of x that are kept, scaled so that the mean stays (Srivastava et al. 2014); the others zero."""
    return tf.where(kept, x / (1 - rate), tf.zeros_like(x))
