"""An LSTM layer that takes all positions of a sentence in one operation. T positions, B sequences, U units."""

from typing import Any

import keras
import tensorflow as tf


class BlockLSTM(keras.layers.LSTM):
    """Keras' LSTM by TensorFlow's block kernel, in float32 alone.

    Keras runs a loop of many small operations a position, and of more for the gradients; a CPU has to launch each.
    The kernel is one operation for the whole sequence and one for its gradients. A mask has to be true from each
    sequence's first position up to its last: the states returned are those of the last one, and outputs behind it mean
    nothing, where Keras repeats the last one's.
    """

    def inner_loop(self, sequences: tf.Tensor, initial_state: Any, mask: Any, training: bool = False) -> Any:
        """Last output (B, U), outputs (B, T, U) and last states h, c (B, U) of sequences (B, T, I); mask (B, T)."""
        cell = self.cell
        kernel = tf.concat([cell.kernel.value, cell.recurrent_kernel.value], 0)
        h, c = _run(tf.transpose(sequences, [1, 0, 2]), *initial_state, kernel, cell.bias.value)
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        last = [_select_last(state, before, mask) for state, before in zip((h, c), initial_state, strict=True)]
        return last[0], tf.transpose(h, [1, 0, 2]), last


def _select_last(states: tf.Tensor, before: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """The state (B, U) after each sequence's last position, of states (T, B, U); `before` (B, U) where it has none."""
    if mask is None:
        return states[-1]
    lengths = tf.reduce_sum(tf.cast(mask, tf.int32), 1)
    last = tf.gather_nd(states, tf.stack([tf.maximum(lengths - 1, 0), tf.range(tf.size(lengths))], 1))
    return tf.where(lengths[:, None] > 0, last, before)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _run(x: tf.Tensor, h: tf.Tensor, c: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> Any:
    """States h, c (T, B, U) after each position of x (T, B, I), from h and c (B, U); kernel (I + U, 4 U), bias (4 U).

    TensorFlow's own gradient of the operation takes the gates in another order than the operation itself.
    """
    peep = tf.zeros_like(bias[: bias.shape[0] // 4])  # connections that such a cell does not have
    given: dict[str, Any] = {
        "seq_len_max": tf.shape(x, tf.int64)[0], "x": x, "cs_prev": c, "h_prev": h, "w": kernel, "wci": peep,
        "wcf": peep, "wco": peep, "b": bias, "use_peephole": False,
    }  # fmt: skip
    outputs = tf.raw_ops.BlockLSTMV2(**given, cell_clip=0.0)

    def gradients(h_grad: tf.Tensor, cs_grad: tf.Tensor) -> tuple[tf.Tensor, ...]:
        found = tf.raw_ops.BlockLSTMGradV2(**given, **outputs._asdict(), cs_grad=cs_grad, h_grad=h_grad)
        return found.x_grad, found.h_prev_grad, found.cs_prev_grad, found.w_grad, found.b_grad

    return (outputs.h, outputs.cs), gradients
