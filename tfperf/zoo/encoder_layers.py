"""Layers of BERT's encoder: embeddings of tokens and their places, blocks of attention, and a row for each text.

Letters of shapes: B texts, L places, W numbers of a place. Where a text is over, its places are padding: `known` (B, L)
is false there, and what they hold changes nothing.

Source: Devlin et al. 2019, "BERT: pre-training of deep bidirectional transformers for language understanding", and its
published code for what the paper leaves out: the 1e-12 of the normalisations, weights drawn with a deviation of 0.02.
"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

EPSILON = 1e-12
DEVIATION = 0.02
TYPES = 2  # kinds of tokens; all are of the first one here
MASKED = -3e4  # the score of padding: its exponential is 0, and float16 has it

register = keras.saving.register_keras_serializable(package="tfperf")


def draw_initializer(seed: int, place: int) -> keras.initializers.Initializer:
    """What draws the weights of a place among those of a layer: always the same ones for the same seed."""
    number = int(np.random.SeedSequence([seed, place]).generate_state(1)[0]) >> 1
    return keras.initializers.TruncatedNormal(stddev=DEVIATION, seed=number)


@register
class EmbeddedTokens(layers.Layer):
    """The sum of what a token, its place and its kind stand for, normalised."""

    def __init__(self, vocabulary: int, width: int, positions: int, seed: int = 1, **options: Any) -> None:
        """vocabulary: numbers of tokens lie below; width: W; positions: the largest L."""
        super().__init__(**options)
        self.vocabulary, self.width, self.positions, self.seed = vocabulary, width, positions, seed
        self.normalization = layers.LayerNormalization(epsilon=EPSILON, dtype=self.dtype_policy)

    def build(self, tokens_shape: tuple[int | None, ...]) -> None:
        """tokens_shape: (B, L)."""
        self.token_table = self._add_table(0, self.vocabulary, "token_table")
        self.position_table = self._add_table(1, self.positions, "position_table")
        self.type_table = self._add_table(2, TYPES, "type_table")
        self.normalization.build((*tokens_shape, self.width))

    def _add_table(self, place: int, size: int, name: str) -> Any:
        return self.add_weight((size, self.width), draw_initializer(self.seed, place), name=name)

    def call(self, tokens: Any) -> Any:
        """tokens: (B, L); returns (B, L, W)."""
        places = self.position_table[: ops.shape(tokens)[1]]
        return self.normalization(ops.take(self.token_table, tokens, axis=0) + places + self.type_table[0])

    def get_config(self) -> dict[str, Any]:
        """As given."""
        own = {"vocabulary": self.vocabulary, "width": self.width, "positions": self.positions, "seed": self.seed}
        return {**super().get_config(), **own}


@register
class EncoderBlock(layers.Layer):
    """What each place takes from all others, then a small network on each place alone; both are added and normalised.

    Source: Vaswani et al. 2017, "Attention is all you need", section 3; Hendrycks & Gimpel 2016 for the exact GELU.
    """

    def __init__(self, width: int, heads: int, inner: int, seed: int = 1, **options: Any) -> None:
        """width: W, a multiple of heads; inner: units of the small network."""
        super().__init__(**options)
        self.width, self.heads, self.inner, self.seed = width, heads, inner, seed
        self.projection = self._make_dense(0, 3 * width)  # to queries, keys and values, in one product
        self.mixing = self._make_dense(1, width)
        self.widening = self._make_dense(2, inner)
        self.narrowing = self._make_dense(3, width)
        self.first_normalization = layers.LayerNormalization(epsilon=EPSILON, dtype=self.dtype_policy)
        self.second_normalization = layers.LayerNormalization(epsilon=EPSILON, dtype=self.dtype_policy)

    def _make_dense(self, place: int, units: int) -> layers.Dense:
        return layers.Dense(units, kernel_initializer=draw_initializer(self.seed, place), dtype=self.dtype_policy)

    def build(self, hidden_shape: tuple[int | None, ...], known_shape: tuple[int | None, ...]) -> None:
        """hidden_shape: (B, L, W); known_shape: (B, L)."""
        for layer in (self.projection, self.mixing, self.widening, self.first_normalization, self.second_normalization):
            layer.build(hidden_shape)
        self.narrowing.build((*hidden_shape[:-1], self.inner))

    def call(self, hidden: Any, known: Any) -> Any:
        """hidden: (B, L, W); known: (B, L); returns (B, L, W)."""
        hidden = self.first_normalization(hidden + self.mixing(self._gather_values(hidden, known)))
        wide = self.widening(hidden)
        wide = 0.5 * wide * (1 + ops.erf(wide * 0.5**0.5))  # TensorFlow's own GELU has its root of 2 in float32 alone
        return self.second_normalization(hidden + self.narrowing(wide))

    def _gather_values(self, hidden: Any, known: Any) -> Any:
        batch, length = ops.shape(hidden)[:2]
        shape = (batch, length, self.heads, self.width // self.heads)
        queries, keys, values = (ops.reshape(one, shape) for one in ops.split(self.projection(hidden), 3, axis=-1))
        scores = ops.einsum("bqhd,bkhd->bhqk", queries * (self.width // self.heads) ** -0.5, keys)
        padding = 1 - ops.cast(known, scores.dtype)[:, None, None, :]
        shares = tf.nn.softmax(scores + padding * MASKED)  # Keras' own warns of texts with one token
        return ops.reshape(ops.einsum("bhqk,bkhd->bqhd", shares, values), (batch, length, self.width))

    def get_config(self) -> dict[str, Any]:
        """As given."""
        own = {"width": self.width, "heads": self.heads, "inner": self.inner, "seed": self.seed}
        return {**super().get_config(), **own}


@register
class MeanRow(layers.Layer):
    """The mean over the places that are known, scaled to length 1; 0 of a text that has none.

    Source: Reimers & Gurevych 2019, "Sentence-BERT: sentence embeddings using Siamese BERT-networks", section 3.
    """

    def build(self, hidden_shape: tuple[int | None, ...], known_shape: tuple[int | None, ...]) -> None:
        """hidden_shape: (B, L, W); known_shape: (B, L)."""

    def call(self, hidden: Any, known: Any) -> Any:
        """hidden: (B, L, W); known: (B, L); returns (B, W)."""
        shares = ops.cast(known, hidden.dtype)[:, :, None]
        mean = ops.sum(hidden * shares, 1) / ops.maximum(ops.sum(shares, 1), 1)
        length = ops.sqrt(ops.sum(ops.square(mean), -1, keepdims=True))
        return mean / ops.maximum(length, EPSILON)
