"""Layers of a model that labels words, and the model itself, whose loss is that of its last layer."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops

from tfperf.zoo.crf import ConditionalRandomField
from tfperf.zoo.entities import CHARACTERS, Numbering, Sentence, score_entities

register = keras.saving.register_keras_serializable("tfperf")


@register
class NumberedWords(layers.Layer):
    """Hands on the numbers of words, and knows what they mean: a saved model needs no other file."""

    def __init__(self, words: Sequence[str], labels: Sequence[str], characters: int, **options: Any) -> None:
        """As of `Numbering`."""
        super().__init__(**options)
        self.numbering = Numbering(tuple(words), tuple(labels), characters)

    def call(self, words: Any) -> Any:
        """words: (B, L)."""
        return words

    def get_config(self) -> dict[str, Any]:
        """As given."""
        known = self.numbering
        own = {"words": [*known.words], "labels": [*known.labels], "characters": known.characters}
        return {**super().get_config(), **own}


@register
class SpelledWords(layers.Layer):
    """What words look like: their characters through a convolution, and the most that each of its filters sees of one.

    Source: Ma & Hovy 2016, "End-to-end sequence labeling via bi-directional LSTM-CNNs-CRF", section 2.1.
    """

    def __init__(self, units: int, filters: int, width: int = 3, **options: Any) -> None:
        """units: of a character; width: characters that a filter sees."""
        super().__init__(**options)
        self.units, self.filters, self.width = units, filters, width
        self.embedding = layers.Embedding(CHARACTERS, units)
        self.convolution = layers.Conv1D(filters, width, padding="same", activation="relu")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """input_shape: (B, L, C)."""
        self.embedding.build((None, input_shape[2]))
        self.convolution.build((None, input_shape[2], self.units))

    def call(self, characters: Any) -> Any:
        """characters: (B, L, C), 0 behind the last; returns (B, L, filters)."""
        shape = ops.shape(characters)
        flat = ops.reshape(characters, (-1, shape[2]))
        known = ops.cast(flat != 0, self.compute_dtype)[:, :, None]
        # not below 0, so that padding is never the most
        seen = self.convolution(self.embedding(flat) * known) * known
        return ops.reshape(ops.max(seen, 1), (-1, shape[1], self.filters))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """(B, L, filters)."""
        return (*input_shape[:2], self.filters)

    def get_config(self) -> dict[str, Any]:
        """As given."""
        return {**super().get_config(), "units": self.units, "filters": self.filters, "width": self.width}


@register
class LabellingModel(keras.Model):
    """Words to emissions (B, L, K), whose loss is the negative log-likelihood of the labels, a mean over sentences.

    What it predicts are the likeliest labels (B, L). Its last layer is the random field, another a `NumberedWords`.
    """

    @property
    def field(self) -> ConditionalRandomField:
        """The last layer."""
        found = self.layers[-1]
        assert isinstance(found, ConditionalRandomField)
        return found

    @property
    def numbering(self) -> Numbering:
        """What its numbers mean."""
        return next(layer.numbering for layer in self.layers if isinstance(layer, NumberedWords))

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """What Keras' own steps train and validate by. y: (B, L); sample_weight: (B)."""
        losses = -self.field.compute_log_likelihood(y_pred, y, x["words"] != 0)
        return ops.mean(losses if sample_weight is None else losses * ops.cast(sample_weight, losses.dtype))

    def predict_step(self, data: Any) -> Any:
        """The likeliest labels (B, L) of a batch."""
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        return self.field.decode_labels(self(x, training=False), x["words"] != 0)

    @cached_property
    def _decode(self) -> Any:
        """`predict_step` for any batch and any length: one program, where XLA would have one for each."""
        characters = self.numbering.characters
        signature = {"words": tf.TensorSpec([None, None], tf.int32, "words"),
                     "characters": tf.TensorSpec([None, None, characters], tf.int32, "characters")}  # fmt: skip
        return tf.function(lambda x: self.predict_step((x,)), input_signature=[signature], autograph=False)

    def label_words(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Labels of the words of some sentences, which are one batch, padded to the longest."""
        lengths = [len(one) for one in sentences]
        x = self.numbering.number_words(sentences, max(lengths))
        return self.numbering.name_labels(self._decode(x).numpy(), lengths)


class EntityScores(keras.callbacks.Callback):
    """Adds to the figures of an epoch how well a model finds what some sentences name: precision, recall, F1.

    Outside of the steps, since only labels of whole sentences tell.
    """

    def __init__(self, sentences: Sequence[Sentence], batch: int) -> None:
        """batch: sentences that are labelled at once."""
        super().__init__()
        self._sentences, self._batch = sentences, batch

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """The figures of the weights as they are."""
        found: list[list[str]] = []
        for start in range(0, len(self._sentences), self._batch):
            found += self.model.label_words([one.words for one in self._sentences[start : start + self._batch]])
        score = score_entities([one.labels for one in self._sentences], found)
        if logs is not None:
            logs |= {f"entity_{name}": value for name, value in score._asdict().items()}

    def get_state(self) -> dict[str, Any]:
        """Nothing: each epoch is scored by itself."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Nothing to do."""
