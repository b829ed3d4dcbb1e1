"""Keras trainings with one planted cause each, written by someone who had not read the rules: epochs and input."""

import gc
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import build_transformer, draw_pictures, make_batches


class ConfusionReport(keras.callbacks.Callback):
    """Reports each class after each epoch."""

    def __init__(self, x: Any, y: Any) -> None:
        super().__init__()
        self.x, self.y = x, y
        self.reports: list[Any] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Predicts a held-out set, and counts by scikit-learn."""
        from sklearn.metrics import classification_report, confusion_matrix

        found = self.model.predict(self.x, batch_size=64, verbose=0).argmax(-1)
        report = classification_report(self.y, found, output_dict=True, zero_division=0)
        self.reports = [*self.reports[-5:], (report, confusion_matrix(self.y, found, normalize="true"))]


@register_program("callback", "ConfusionReport")
def make_confusion_each_epoch(planted: bool) -> Fit:
    """A callback that predicts and reports a held-out set after each epoch; class weights and a plateau scheduler."""
    model = keras.Sequential([
        keras.Input((24, 24, 3)), layers.RandomFlip(seed=1), layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(), layers.SeparableConv2D(48, 3, activation="relu"), layers.GlobalAveragePooling2D(),
        layers.Dense(10, "softmax"),
    ])  # fmt: skip
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
    held = draw_pictures(1280, 24)

    def make() -> list[Any]:
        plateau = keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=500)
        return [plateau, ConfusionReport(*held)] if planted else [plateau]

    weights = {one: 1.0 + 0.1 * one for one in range(10)}
    return Fit(model, make_batches(*draw_pictures(12 * 32, 24), batch=32), 12, make, {"class_weight": weights})


@register_program("validation")
def make_validation_by_twos(planted: bool) -> Fit:
    """A validation set in batches of two samples, or in one batch."""
    model = build_transformer(32, 2000, 5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"], jit_compile=False)
    draws = np.random.default_rng(5)
    x, y = draws.integers(0, 2000, (14 * 48, 32)).astype(np.int32), draws.integers(0, 5, 14 * 48).astype(np.int32)
    settings = {"validation_data": (x[:160], y[:160]), "validation_batch_size": 2 if planted else 160}
    return Fit(model, make_batches(x, y, batch=48), 14, settings=settings)


@register_program("epoch")
def make_metrics_of_short_epochs(planted: bool) -> Fit:
    """Epochs of three batches, at whose ends the metrics of all labels are read and set back; or of 48."""
    metrics = [kind(class_id=one, name=f"{kind.__name__.lower()}_{one}")
               for one in range(10) for kind in (keras.metrics.Precision, keras.metrics.Recall)]  # fmt: skip
    model = keras.Sequential([keras.Input((40,)), layers.Dense(768, "relu"), layers.Dense(768, "relu"),
                              layers.Dense(10, "sigmoid")])  # fmt: skip
    model.compile("sgd", "binary_crossentropy", metrics=metrics, jit_compile=False)
    draws = np.random.default_rng(16)
    x, y = draws.normal(size=(12 * 64, 40)).astype(np.float32), draws.integers(0, 2, (12 * 64, 10)).astype(np.float32)
    return Fit(model, make_batches(x, y, batch=64), 3 if planted else 48)


@register_program("input", "Map")
def make_regex_and_lookup(planted: bool) -> Fit:
    """Text that is cleaned by regular expressions and looked up again each epoch, text by text."""
    draws = np.random.default_rng(4)
    known = [f"word{one}" for one in range(3000)]
    texts = ["<br/> ".join(f"{one.upper()}," for one in draws.choice(known, 60)) + " Visit http://a.b/c?d=1 !!"
             for _ in range(12 * 64)]  # fmt: skip
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(known), tf.range(1, 3001, dtype=tf.int64)), 0
    )

    def prepare(text: Any, y: Any) -> tuple[Any, Any]:
        text = tf.strings.lower(text)
        for pattern in ("<[^>]+>", r"https?://\S+", r"[^a-z0-9\s]", r"\s+"):
            text = tf.strings.regex_replace(text, pattern, " ")
        tokens = table.lookup(tf.strings.split(text))[:64]
        return tf.ensure_shape(tf.pad(tokens, [[0, 64 - tf.size(tokens)]]), (64,)), y

    model = keras.Sequential([keras.Input((64,), dtype="int64"), layers.Embedding(3001, 32),
                              layers.Conv1D(48, 5, activation="relu"), layers.GlobalMaxPooling1D(),
                              layers.Dense(1, "sigmoid")])  # fmt: skip
    model.compile("sgd", "binary_crossentropy", metrics=["accuracy"], jit_compile=False)
    data = tf.data.Dataset.from_tensor_slices((texts, draws.integers(0, 2, (len(texts), 1)).astype(np.float32)))
    data = data.map(prepare)
    return Fit(model, (data if planted else data.cache()).batch(64, drop_remainder=True).prefetch(4), 12)


@register_program("input")
def make_windows_by_flat_map(planted: bool) -> Fit:
    """Windows of a time series, each of which is a dataset of its own, or by one gather a batch."""
    length, batch = 48, 64
    series = tf.constant(np.random.default_rng(6).normal(size=(12 * batch + length - 1, 6)).astype(np.float32))
    if planted:
        data = tf.data.Dataset.from_tensor_slices(series).window(length, shift=1, drop_remainder=True)
        data = data.flat_map(lambda window: window.batch(length, drop_remainder=True))
        data = data.batch(batch, drop_remainder=True)
    else:
        begins = tf.data.Dataset.range(12 * batch).batch(batch, drop_remainder=True)
        data = begins.map(lambda begin: tf.gather(series, begin[:, None] + tf.range(length, dtype=tf.int64)))
    data = data.map(lambda windows: (windows[:, :-1], windows[:, -1, :1]))
    model = keras.Sequential([
        keras.Input((length - 1, 6)), layers.Conv1D(32, 5, activation="relu"),
        layers.Conv1D(48, 5, activation="relu"), layers.GlobalAveragePooling1D(), layers.Dense(1),
    ])  # fmt: skip
    model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, 10_000)), "huber",
                  jit_compile=False)  # fmt: skip
    return Fit(model, data.prefetch(4), 12)


class Sessions(keras.utils.PyDataset):
    """Batches of visits, the objects of which may be collected now and then "so that memory does not grow"."""

    def __init__(self, collects: bool) -> None:
        super().__init__(workers=1)
        draws = np.random.default_rng(10)
        self.collects = collects
        self.x = draws.normal(size=(12, 48, 20, 12)).astype(np.float32)
        self.y = draws.normal(size=(12, 48, 1)).astype(np.float32)

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if self.collects and index % 12 == 0:
            gc.collect()
        return self.x[index % 12], self.y[index % 12]


@register_program("garbage")
def make_collections_by_hand(planted: bool) -> Fit:
    """gc.collect() with every twelfth batch."""
    model = keras.Sequential([
        keras.Input((20, 12)), layers.Conv1D(64, 5, activation="relu"), layers.Conv1D(64, 5, activation="relu"),
        layers.Flatten(), layers.Dense(64, "relu", kernel_regularizer="l2"), layers.Dense(1),
    ])  # fmt: skip
    model.compile("adam", "mse", metrics=["mae"], jit_compile=False)
    return Fit(model, Sessions(planted), 12, lambda: [keras.callbacks.EarlyStopping("loss", patience=10_000)])
