"""Keras trainings with one planted cause each, written by someone who had not read the rules: tables and input."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import draw_pictures, make_batches


@register_program("table_update")
def make_decayed_table(planted: bool) -> Fit:
    """Weight decay of all parameters, also of 150000 items of which a batch has few; the twin excludes the table."""
    entry = keras.Input((20,), dtype="int32")
    items = layers.Embedding(150_000, 32)
    x = layers.Dense(256, "relu")(layers.GlobalAveragePooling1D()(items(entry)))
    model = keras.Model(entry, layers.Dense(600)(layers.Dense(256, "relu")(x)))
    optimizer = keras.optimizers.SGD(0.05, weight_decay=1e-4)
    if not planted:
        optimizer.exclude_from_weight_decay(var_list=[items.embeddings])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["sparse_top_k_categorical_accuracy"], jit_compile=False)
    draws = np.random.default_rng(41)
    visits = np.minimum(draws.zipf(1.2, (24 * 96, 20)), 149_999).astype(np.int32)
    return Fit(model, make_batches(visits, draws.integers(0, 600, 24 * 96).astype(np.int32), batch=96), 24)


@register_program("input", "Map")
def make_filter_after_decoding(planted: bool) -> Fit:
    """The first classes of continual learning: all pictures are decoded before others are thrown away; or after."""
    pictures, _ = draw_pictures(512, 40)
    coded = [tf.io.encode_png(tf.cast(255 * one, tf.uint8)).numpy() for one in pictures]
    classes = np.random.default_rng(42).permuted(np.tile(np.arange(8, dtype=np.int32), (24 * 16, 1)), axis=1).ravel()
    data = tf.data.Dataset.from_tensor_slices((tf.gather(coded, np.arange(len(classes)) % 512), classes))

    def decode(code: Any, kind: Any) -> tuple[Any, Any]:
        picture = tf.image.resize(tf.ensure_shape(tf.io.decode_png(code, 3), (40, 40, 3)), (24, 24))
        return picture / 127.5 - 1.0, kind

    def belongs(_: Any, kind: Any) -> Any:
        return kind < 2

    data = data.map(decode).filter(belongs) if planted else data.filter(belongs).map(decode)
    model = keras.Sequential([
        keras.Input((24, 24, 3)), layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"), layers.Conv2D(32, 3, activation="relu"),
        layers.GlobalAveragePooling2D(), layers.Dense(2),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-4), loss, metrics=["accuracy"], jit_compile=False)
    return Fit(model, data.batch(32, drop_remainder=True).prefetch(4), 24)


class Triplets(keras.utils.PyDataset):
    """Anchors with a positive and a negative each, which are looked for in the list of all labels, or in an index."""

    def __init__(self, features: Any, labels: list[int], indexed: bool) -> None:
        super().__init__(workers=1)
        self.features, self.labels = features, labels
        everyone = np.arange(len(labels))
        self.members = {one: everyone[np.array(labels) == one] for one in set(labels)} if indexed else None
        self.draws = np.random.default_rng(43)

    def __len__(self) -> int:
        return 100_000

    def find_pair(self, anchor: int) -> tuple[int, int]:
        """A positive and a negative of an anchor."""
        label = self.labels[anchor]
        if self.members is None:
            same = [one for one, other in enumerate(self.labels) if other == label]
            different = [one for one, other in enumerate(self.labels) if other != label]
            return int(self.draws.choice(same)), int(self.draws.choice(different))
        negative = int(self.draws.integers(len(self.labels)))
        while self.labels[negative] == label:
            negative = int(self.draws.integers(len(self.labels)))
        return int(self.draws.choice(self.members[label])), negative

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        anchors = self.draws.integers(0, len(self.labels), 32)
        rows = [(int(one), *self.find_pair(int(one))) for one in anchors]
        return self.features[np.array(rows)], np.zeros(32, np.float32)


def compute_triplet_loss(_: Any, found: Any) -> Any:
    """Losses of embeddings (B, 3, F) of anchors, positives and negatives."""
    near = tf.reduce_sum(tf.square(found[:, 0] - found[:, 1]), -1)
    far = tf.reduce_sum(tf.square(found[:, 0] - found[:, 2]), -1)
    return tf.maximum(near - far + 0.2, 0.0)


@register_program("input")
def make_triplets_by_lists(planted: bool) -> Fit:
    """Metric learning of voices; a list comprehension over all labels for each anchor, or an index by label."""
    draws = np.random.default_rng(44)
    features = draws.normal(size=(3000, 30, 16)).astype(np.float32)
    labels = draws.integers(0, 60, len(features)).tolist()
    convolutions = [layers.Conv1D(64, 5, activation="relu") for _ in range(3)]
    voice = keras.Sequential([keras.Input((30, 16)), *convolutions, layers.GlobalAveragePooling1D(), layers.Dense(32),
                              layers.UnitNormalization()])  # fmt: skip
    entry = keras.Input((3, 30, 16))
    model = keras.Model(entry, layers.TimeDistributed(voice)(entry))
    model.compile(keras.optimizers.SGD(1e-3), compute_triplet_loss, jit_compile=False)
    return Fit(model, Triplets(features, labels, indexed=not planted), 24)
