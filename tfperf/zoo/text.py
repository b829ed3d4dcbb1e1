"""Which program a short text is from, by a small transformer."""

import csv
import re
from pathlib import Path

import keras
import numpy as np
from keras import layers, ops

from tfperf.arrays import AnyArray, TextArray
from tfperf.errors import UserError
from tfperf.zoo.inputs import find_file, reorder_samples

PAIRS = Path("data", "gettext_en_de", "pairs.tsv")
LABEL, TEXT = "package", "english"
MARK = re.compile(r"([^\w\s])")  # a word of its own


def load_samples(
    pairs: str | None = None, words: int = 2000, length: int = 24, learned_share: float = 0.8
) -> tuple[AnyArray, AnyArray]:
    """x (N, length), numbers of words, 0 after the last and 1 for rare ones; y (N), the label's place in the alphabet.

    pairs: a tab-separated file in UTF-8 with columns `package` and `english`; None: data/gettext_en_de/pairs.tsv of the
    repository. A relative path is one of the folder in which the command runs. Only the first `learned_share` of the
    samples say which words have numbers, the `words` - 2 most frequent ones: those that validate must not. Words after
    the first `length` are cut off; marks are words. Raises: UserError for a file that is missing or no such table.
    """
    labels, texts = reorder_samples(*_read_columns(_find_pairs(pairs)))
    lines = np.array([MARK.sub(r" \1 ", text.lower()) for text in texts])
    numbering = layers.TextVectorization(words, standardize=None, output_sequence_length=length)
    numbering.adapt(lines[: max(1, round(learned_share * len(lines)))])
    _, y = np.unique(labels, return_inverse=True)
    return np.asarray(numbering(lines)).astype(np.int32), y.astype(np.int32)


def build_model(
    words: int = 2000, length: int = 24, classes: int = 18, units: int = 64, heads: int = 4, blocks: int = 1,
    dropout: float = 0.2, last_dropout: float = 0.5, weight_decay: float = 0.5, learning_rate: float = 5e-4,
) -> keras.Model:  # fmt: skip
    """(B, length) numbers of words to probabilities (B, classes); places after a text's last word count for nothing.

    words, length: as of `load_samples`; dropout: in the blocks; last_dropout: before the last layer.
    """
    inputs = keras.Input((length,), dtype="int32")
    # by itself, as no layer passes on the mask of an embedding to which one without a mask is added
    known = ops.not_equal(inputs, 0)
    places = ops.cumsum(ops.ones_like(inputs), axis=1) - 1
    # no dropout here: before a normalisation it would change the scale of what the network sees once it is trained
    hidden = layers.Add()([layers.Embedding(words, units)(inputs), layers.Embedding(length, units)(places)])
    for _ in range(blocks):
        hidden = _add_block(hidden, known, units, heads, dropout)
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(hidden), mask=known)
    model = keras.Model(inputs, layers.Dense(classes, "softmax")(layers.Dropout(last_dropout)(pooled)))
    optimizer = keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _add_block(
    hidden: keras.KerasTensor, known: keras.KerasTensor, units: int, heads: int, dropout: float
) -> keras.KerasTensor:
    """A block of Vaswani et al. 2017, "Attention is all you need", normalised before each of its halves.

    Shapes: hidden (B, length, units); known (B, length), true where there is a word.
    """
    normal = layers.LayerNormalization()(hidden)
    attention = layers.MultiHeadAttention(heads, units // heads)
    attended = attention(normal, normal, attention_mask=ops.expand_dims(known, 1))
    hidden = layers.Add()([hidden, layers.Dropout(dropout)(attended)])
    wide = layers.Dense(2 * units, "gelu")(layers.LayerNormalization()(hidden))
    return layers.Add()([hidden, layers.Dropout(dropout)(layers.Dense(units)(wide))])


def _find_pairs(pairs: str | None) -> Path:
    return find_file(PAIRS, pairs, "pairs", f"must be a tab-separated file with columns {LABEL} and {TEXT}")


def _read_columns(path: Path) -> tuple[TextArray, TextArray]:
    """Labels and texts (N) each; rows without a text are left out."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            found = [(row[LABEL] or "", row[TEXT]) for row in table if (row[TEXT] or "").strip()]
    except (OSError, UnicodeDecodeError, csv.Error, KeyError) as error:
        reason = f"no column {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(
            f"pairs: {path}: cannot be read: {reason}; must be a tab-separated file with columns {LABEL} and {TEXT}"
        ) from None
    if not found:
        raise UserError(f"pairs: {path}: has no texts; must have at least one")
    labels, texts = zip(*found, strict=True)
    return np.array(labels), np.array(texts)
