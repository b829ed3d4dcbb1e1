"""The attention LSTM encoder-decoder. B sentence pairs, S and T pieces, U units, V rows of the tables, L layers.

Encoder and decoder are stacked LSTM layers; the decoder begins with the encoder's last states. Attention is the dot
product of decoder and encoder outputs (Luong, Pham & Manning 2015, eq. 8, `dot`), without parameters: its context is
added to the decoder's output. Three matrices of (V, U): two embeddings and the projection before the softmax.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfperf.workloads.translate.card import Translation
from tfperf.workloads.translate.dropout import drop
from tfperf.workloads.translate.lstm import BlockLSTM
from tfperf.workloads.translate.vocabulary import PAD

Kept = Sequence[tf.Tensor]  # of each layer's inputs: true where they are kept
States = list[list[tf.Tensor]]  # of each layer: h, c, (B, U) each
CUDNN = {"auto": "auto", "plain": False, "cudnn": True, "block": False}


class Core(keras.layers.Layer):
    """All between the embedded sentences and the logits."""

    def __init__(self, card: Translation, rows: int) -> None:
        network, kernel = card.model, CUDNN[card.engine.lstm]
        layer = BlockLSTM if takes_blocks(card) else keras.layers.LSTM
        super().__init__(name="translator", dtype=card.engine.precision)
        seeds = iter(range(card.seed * 1000, card.seed * 1000 + 1000))

        def lstm(name: str) -> keras.layers.LSTM:
            return layer(
                network.units, return_sequences=True, return_state=True, use_cudnn=kernel, name=name,
                kernel_initializer=keras.initializers.GlorotUniform(next(seeds)), dtype=self.dtype_policy,
                recurrent_initializer=keras.initializers.Orthogonal(seed=next(seeds)),
            )  # fmt: skip

        self.encoder = [lstm(f"encoder_{i}") for i in range(network.layers)]
        self.decoder = [lstm(f"decoder_{i}") for i in range(network.layers)]
        self.dropout = network.dropout
        self.attention = keras.layers.Attention(name="attention", dtype=self.dtype_policy)
        self.projection = keras.layers.Dense(
            rows, use_bias=False, name="projection", dtype=self.dtype_policy,
            kernel_initializer=keras.initializers.GlorotUniform(next(seeds)),
        )  # fmt: skip
        self.units = network.units

    def build(self, shapes: object = None) -> None:
        """Make the variables."""
        for layer in (*self.encoder, *self.decoder):
            layer.build((None, None, self.units))
        self.projection.build((None, None, self.units))
        self.built = True

    def encode(
        self, vectors: tf.Tensor, mask: tf.Tensor, kept: Kept | None = None, training: bool = False
    ) -> tuple[tf.Tensor, States]:
        """Outputs (B, S, U) and last states of embedded sources (B, S, U); mask (B, S): false where padded."""
        return self._stack(self.encoder, vectors, mask, None, kept, training)

    def decode(
        self, vectors: tf.Tensor, states: States, memory: tf.Tensor, mask: tf.Tensor, kept: Kept | None = None,
        training: bool = False,
    ) -> tuple[tf.Tensor, States]:  # fmt: skip
        """Logits (B, T, V) and last states, after embedded targets (B, T, U); memory (B, S, U) and its mask (B, S)."""
        outputs, states = self._stack(self.decoder, vectors, None, states, kept, training)
        context = self.attention([outputs, memory], mask=[None, mask])
        return self.projection(outputs + context), states

    def call(
        self, source: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, kept: Kept | None = None, training: bool = False
    ) -> tf.Tensor:
        """Logits (B, T, V) of embedded sentences (B, S, U) and (B, T, U); mask (B, S): false where padded.

        kept: what dropout leaves of the inputs of each layer, encoder's first; none: all.
        """
        layers = len(self.encoder)
        memory, states = self.encode(source, mask, kept and kept[:layers], training)
        return self.decode(target, states, memory, mask, kept and kept[layers:], training)[0]

    def _stack(
        self, layers: Sequence[keras.layers.LSTM], x: tf.Tensor, mask: tf.Tensor | None, begin: States | None,
        kept: Kept | None, training: bool,
    ) -> tuple[tf.Tensor, States]:  # fmt: skip
        states = []
        for i, layer in enumerate(layers):
            if kept is not None:
                x = drop(x, kept[i], self.dropout)
            x, *state = layer(x, mask=mask, initial_state=None if begin is None else begin[i], training=training)
            states.append(state)
        return x, states


def takes_blocks(card: Translation) -> bool:
    """Whether LSTM layers are computed by TensorFlow's block kernel: left to `auto`, where nothing is faster."""
    engine = card.engine
    if engine.lstm != "auto":
        return engine.lstm == "block"
    return engine.precision == "float32" and not engine.xla and not tf.config.list_physical_devices("GPU")


class Translator:
    """The model: two embedding tables and the core. Its variables can be replaced by values, as `loss` does."""

    def __init__(self, card: Translation, rows: int) -> None:
        self.rows = rows
        self.tables = []
        for i, side in enumerate(("source", "target")):
            start = keras.initializers.RandomUniform(-0.1, 0.1, seed=card.seed * 1000 + 998 + i)
            table = keras.layers.Embedding(
                rows, card.model.units, embeddings_initializer=start, name=f"{side}_embedding",
                dtype=card.engine.precision,
            )  # fmt: skip
            table.build()
            self.tables.append(table)
        self.core = Core(card, rows)
        self.core.build()
        self.embeddings: Sequence[keras.Variable] = [table.embeddings for table in self.tables]  # source, target
        self.weights: Sequence[keras.Variable] = list(self.core.trainable_variables)  # all others, the projection last

    def loss(
        self, values: Sequence[tf.Tensor], rows: Sequence[tf.Tensor], source: tf.Tensor, target: tf.Tensor,
        kept: Kept | None = None,
    ) -> tf.Tensor:  # fmt: skip
        """Sum of the cross entropy of the next piece over all that are not padding, a scalar.

        values: of `weights`, in their order; rows: vectors of the pieces `source` (B, S) and of `target[:, :-1]`
        (B, T); kept: what dropout leaves, as `draw_kept` gives it.
        """
        # layers keep seeds whether or not they draw from them
        state = [tf.zeros(2, tf.uint32)] * len(self.core.non_trainable_variables)
        mask = tf.not_equal(source, PAD)
        logits, _ = self.core.stateless_call(
            list(values), state, rows[0], mask, rows[1], kept=kept, training=kept is not None
        )
        return token_losses(logits, target[:, 1:])


def token_losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Sum over labels (B, T) that are not padding of their cross entropy under logits (B, T, V), a scalar."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_sum(tf.where(tf.not_equal(labels, PAD), each, tf.zeros((), each.dtype)))


def pieces(source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The ids that are looked up in each table: (B, S), and (B, T - 1) without the last column, which is a label."""
    return source, target[:, :-1]
