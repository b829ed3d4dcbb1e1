"""The attention LSTM encoder-decoder. B sentence pairs, S and T pieces, U units, V rows of the tables, L layers.

Encoder and decoder are stacked LSTM layers; the decoder begins with the encoder's last states. Attention is the dot
product of decoder and encoder outputs (Luong, Pham & Manning 2015, eq. 8, `dot`), without parameters: its context is
added to the decoder's output. Three matrices of (V, U): two embeddings and the projection before the softmax.
"""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.dropout import drop
from tfperf.workloads.translate.lstm import BlockLSTM
from tfperf.workloads.translate.vocabulary import PAD

DropoutMasks = Sequence[tf.Tensor]  # of each layer's inputs: true where they are kept
LSTMStates = list[list[tf.Tensor]]  # of each layer: h, c, (B, U) each
CUDNN = {"auto": "auto", "plain": False, "cudnn": True, "block": False}


class Core(keras.layers.Layer):
    """All between the embedded sentences and the logits."""

    def __init__(self, card: TranslationCard, rows: int) -> None:
        network, kernel = card.model, CUDNN[card.engine.lstm]
        layer = BlockLSTM if is_block_lstm(card) else keras.layers.LSTM
        super().__init__(name="translator", dtype=card.engine.precision)
        seeds = iter(range(card.seed * 1000, card.seed * 1000 + 1000))

        def make_lstm(name: str) -> keras.layers.LSTM:
            return layer(
                network.units, return_sequences=True, return_state=True, use_cudnn=kernel, name=name,
                kernel_initializer=keras.initializers.GlorotUniform(next(seeds)), dtype=self.dtype_policy,
                recurrent_initializer=keras.initializers.Orthogonal(seed=next(seeds)),
            )  # fmt: skip

        self.encoder = [make_lstm(f"encoder_{i}") for i in range(network.layers)]
        self.decoder = [make_lstm(f"decoder_{i}") for i in range(network.layers)]
        self.attention = keras.layers.Attention(name="attention", dtype=self.dtype_policy)
        self.projection = keras.layers.Dense(
            rows, use_bias=False, name="projection", dtype=self.dtype_policy,
            kernel_initializer=keras.initializers.GlorotUniform(next(seeds)),
        )  # fmt: skip
        self.units, self.dropout = network.units, network.dropout

    def build(self, shapes: object = None) -> None:
        """Make the variables."""
        for layer in (*self.encoder, *self.decoder):
            layer.build((None, None, self.units))
        self.projection.build((None, None, self.units))
        self.built = True

    def encode(
        self, vectors: tf.Tensor, mask: tf.Tensor, dropout_masks: DropoutMasks | None = None, training: bool = False
    ) -> tuple[tf.Tensor, LSTMStates]:
        """Outputs (B, S, U) and last states of embedded sources (B, S, U); mask (B, S): false where padded."""
        return self._run_layers(self.encoder, vectors, mask, None, dropout_masks, training)

    def decode(
        self, vectors: tf.Tensor, states: LSTMStates, memory: tf.Tensor, mask: tf.Tensor,
        dropout_masks: DropoutMasks | None = None, training: bool = False,
    ) -> tuple[tf.Tensor, LSTMStates]:  # fmt: skip
        """Logits (B, T, V) and last states, after embedded targets (B, T, U); memory (B, S, U) and its mask (B, S)."""
        outputs, states = self._run_layers(self.decoder, vectors, None, states, dropout_masks, training)
        context = self.attention([outputs, memory], mask=[None, mask])
        return self.projection(outputs + context), states

    def call(
        self, source: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, dropout_masks: DropoutMasks | None = None,
        training: bool = False,
    ) -> tf.Tensor:  # fmt: skip
        """Logits (B, T, V) of embedded sentences (B, S, U) and (B, T, U); mask (B, S): false where padded.

        dropout_masks: what dropout leaves of the inputs of each layer, encoder's first; none: all.
        """
        layers = len(self.encoder)
        memory, states = self.encode(source, mask, dropout_masks and dropout_masks[:layers], training)
        return self.decode(target, states, memory, mask, dropout_masks and dropout_masks[layers:], training)[0]

    def _run_layers(
        self, layers: Sequence[keras.layers.LSTM], x: tf.Tensor, mask: tf.Tensor | None, begin: LSTMStates | None,
        dropout_masks: DropoutMasks | None, training: bool,
    ) -> tuple[tf.Tensor, LSTMStates]:  # fmt: skip
        states = []
        for i, layer in enumerate(layers):
            if dropout_masks is not None:
                x = drop(x, dropout_masks[i], self.dropout)
            x, *state = layer(x, mask=mask, initial_state=None if begin is None else begin[i], training=training)
            states.append(state)
        return x, states


def is_block_lstm(card: TranslationCard) -> bool:
    """Whether LSTM layers are computed by TensorFlow's block kernel: left to `auto`, where nothing is faster."""
    engine = card.engine
    if engine.lstm != "auto":
        return engine.lstm == "block"
    return engine.precision == "float32" and not engine.xla and not tf.config.list_physical_devices("GPU")


class Translator:
    """The model: two embedding tables and the core. Its variables can be replaced by values, as `compute_loss` does."""

    def __init__(self, card: TranslationCard, rows: int) -> None:
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

    def compute_loss(
        self, values: Sequence[tf.Tensor], rows: Sequence[tf.Tensor], source: tf.Tensor, target: tf.Tensor,
        dropout_masks: DropoutMasks | None = None,
    ) -> tf.Tensor:  # fmt: skip
        """Sum of the cross entropy of the next piece over all that are not padding, a scalar.

        values: of `weights`, in their order; rows: vectors of the pieces `source` (B, S) and of `target[:, :-1]`
        (B, T); dropout_masks: what dropout leaves, as `sample_masks` gives it.
        """
        # layers keep seeds whether or not they draw from them
        state = [tf.zeros(2, tf.uint32)] * len(self.core.non_trainable_variables)
        mask = tf.not_equal(source, PAD)
        logits, _ = self.core.stateless_call(
            list(values), state, rows[0], mask, rows[1], dropout_masks=dropout_masks, training=dropout_masks is not None
        )
        return sum_token_losses(logits, target[:, 1:])


def sum_token_losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Sum over labels (B, T) that are not padding of their cross entropy under logits (B, T, V), a scalar."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_sum(tf.where(tf.not_equal(labels, PAD), each, tf.zeros((), each.dtype)))


def select_input_ids(source: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The ids that are looked up in each table: (B, S), and (B, T - 1) without the last column, which is a label."""
    return source, target[:, :-1]
