"""Keras trainings with one planted cause each, by someone who had not read the rules, again: callbacks and data."""

import random
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from benchmarks.diagnosis.program import Fit, register_program
from benchmarks.diagnosis.unseen_parts import draw_pictures, make_batches


class MovingAverage(keras.callbacks.Callback):
    """Averages the weights over the steps, at each step or once an epoch."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps, self.count = steps, 0
        self.average: list[Any] = []

    def on_train_begin(self, logs: Any = None) -> None:
        """Begins with the weights as they are."""
        self.average = self.model.get_weights()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """One step of the average."""
        self.count += 1
        if self.count % self.steps == 0:
            keep = 0.999**self.steps
            weights = self.model.get_weights()
            self.average = [keep * a + (1.0 - keep) * b for a, b in zip(self.average, weights, strict=True)]


@register_program("callback", "MovingAverage")
def make_average_of_weights_in_numpy(planted: bool) -> Fit:
    """A segmenter whose weights are averaged in NumPy by a callback, after each step or after each epoch."""
    entry = keras.Input((24, 24, 3))
    a = layers.Conv2D(8, 3, padding="same", activation="relu")(entry)
    b = layers.Conv2D(32, 3, 4, padding="same", activation="relu")(a)
    x = layers.Dense(384, "relu")(layers.Flatten()(b))
    x = layers.Reshape((6, 6, 32))(layers.Dense(6 * 6 * 32, "relu")(x))
    x = layers.Concatenate()([a, layers.UpSampling2D(4)(x)])
    model = keras.Model(entry, layers.Conv2D(4, 1, activation="softmax")(x))
    model.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy", jit_compile=False)
    y = np.random.default_rng(41).integers(0, 4, (24 * 16, 24, 24)).astype(np.int32)
    return Fit(model, make_batches(draw_pictures(24 * 16, 24)[0], y, batch=16), 24,
               lambda: [MovingAverage(1 if planted else 24)])  # fmt: skip


@register_program("validation")
def make_validation_by_all_windows(planted: bool) -> Fit:
    """A forecast that is validated after each epoch by windows that begin at every hour, or at every fiftieth."""
    model = keras.Sequential([
        keras.Input((72, 5)), layers.Conv1D(32, 5, padding="causal", activation="relu"),
        layers.Conv1D(32, 5, padding="causal", activation="relu", dilation_rate=2), layers.Flatten(), layers.Dense(6),
    ])  # fmt: skip
    model.compile("sgd", "mae", metrics=["mse"], jit_compile=False)
    draws = np.random.default_rng(42)
    x, y = draws.normal(size=(24 * 32, 72, 5)).astype(np.float32), draws.normal(size=(24 * 32, 6)).astype(np.float32)
    series = draws.normal(size=(1600 + 78, 5)).astype(np.float32)
    begins = np.arange(0, 1600, 1 if planted else 50)
    windows = series[begins[:, None] + np.arange(72)]
    wanted = series[begins[:, None] + np.arange(72, 78), 0]
    held = make_batches(windows, wanted, batch=32)
    plateau = keras.callbacks.ReduceLROnPlateau(patience=10_000)
    return Fit(model, make_batches(x, y, batch=32), 24, lambda: [plateau], {"validation_data": held})


@register_program("epoch")
def make_epochs_of_few_samples(planted: bool) -> Fit:
    """Few samples with weights: epochs of two batches of arrays, or the same samples 40 times in each epoch."""
    draws, times = np.random.default_rng(43), 1 if planted else 40
    x = np.tile(draws.normal(size=(2 * 64, 200)).astype(np.float32), (times, 1))
    y = np.tile(draws.integers(0, 5, 2 * 64).astype(np.int32), times)
    weights = np.tile(draws.random(2 * 64).astype(np.float32), times)
    model = keras.Sequential([
        keras.Input((200,)), layers.Dense(512, "elu"), layers.Dropout(0.3), layers.Dense(512, "elu"), layers.Dense(5),
    ])  # fmt: skip
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss, weighted_metrics=["accuracy"], jit_compile=False)
    return Fit(model, (x, y), 2 * times, settings={"sample_weight": weights})


@register_program("calls")
def make_wide_and_deep_by_single_steps(planted: bool) -> Fit:
    """A small model of nine columns by name, with one step in each call or 24."""
    numbers = {f"n{one}": keras.Input((1,), name=f"n{one}") for one in range(5)}
    kinds = {f"k{one}": keras.Input((1,), dtype="int32", name=f"k{one}") for one in range(4)}
    rows = [layers.Flatten()(layers.Embedding(50, 6)(one)) for one in kinds.values()]
    x = layers.Concatenate()([*numbers.values(), *rows])
    deep = layers.Dense(32, "relu")(layers.Dense(64, "relu")(x))
    model = keras.Model({**numbers, **kinds}, layers.Dense(1, "sigmoid")(layers.Concatenate()([x, deep])))
    model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy", metrics=["accuracy"], jit_compile=False,
                  steps_per_execution=1 if planted else 24)  # fmt: skip
    draws, count = np.random.default_rng(44), 48 * 32
    columns = {one: draws.normal(size=(count, 1)).astype(np.float32) for one in numbers}
    columns |= {one: draws.integers(0, 50, (count, 1)).astype(np.int32) for one in kinds}
    y = draws.integers(0, 2, (count, 1)).astype(np.float32)
    return Fit(model, make_batches(columns, y, batch=32), 48)


def make_records(count: int, numbers: int) -> list[bytes]:
    """Examples with so many numbers by name, a list and a label."""
    draws = np.random.default_rng(45)

    def make(values: Any, kind: str = "float_list") -> Any:
        whole = tf.train.Int64List if kind == "int64_list" else tf.train.FloatList
        return tf.train.Feature(**{kind: whole(value=values)})

    records = []
    for _ in range(count):
        features = {f"number_{one}": make([draws.normal()]) for one in range(numbers)}
        features["history"] = make(draws.normal(size=32))
        features["label"] = make([int(draws.integers(0, 2))], "int64_list")
        records.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return records


@register_program("input", "Map")
def make_examples_parsed_one_by_one(planted: bool) -> Fit:
    """Records with 24 numbers by name are parsed one by one and then batched, or batched and parsed once an epoch."""
    numbers, batch = 24, 128
    wanted = {f"number_{one}": tf.io.FixedLenFeature((), tf.float32) for one in range(numbers)}
    wanted |= {"history": tf.io.FixedLenFeature((32,), tf.float32), "label": tf.io.FixedLenFeature((), tf.int64)}

    def parse(record: Any) -> tuple[Any, Any]:
        found = (tf.io.parse_single_example if planted else tf.io.parse_example)(record, wanted)
        history, label = found.pop("history"), found.pop("label")
        x = tf.concat([tf.stack([found[f"number_{one}"] for one in range(numbers)], -1), history], -1)
        return x, tf.cast(label, tf.float32)[..., None]

    records = tf.data.Dataset.from_tensor_slices(make_records(12 * batch, numbers))
    if planted:
        data = records.map(parse).batch(batch, drop_remainder=True)
    else:
        data = records.batch(batch, drop_remainder=True).map(parse)
    model = keras.Sequential([
        keras.Input((numbers + 32,)), layers.Dense(640, "relu"), layers.Dropout(0.2), layers.Dense(512, "relu"),
        layers.Dense(1, "sigmoid"),
    ])  # fmt: skip
    model.compile(keras.optimizers.SGD(0.01), "binary_crossentropy", jit_compile=False)
    return Fit(model, data.prefetch(4), 12)


class NegativeSampler(keras.utils.PyDataset):
    """Users, an item each, and items that the user has not seen, from a list of all of them or by rejection."""

    def __init__(self, lists: bool, users: int, items: int) -> None:
        super().__init__(workers=1)
        draws = np.random.default_rng(46)
        self.lists, self.users, self.items = lists, users, items
        self.chance, self.draws = random.Random(1), draws
        self.seen = draws.random((users, items)) < 0.02
        self.sets = [set(np.flatnonzero(one).tolist()) for one in self.seen]
        self.chosen = draws.integers(0, users, (12, 64))
        self.right = draws.integers(0, items, (12, 64, 1))

    def __len__(self) -> int:
        return 100_000

    def _draw(self, users: Any) -> Any:
        if self.lists:
            lists = []
            for user in users:
                unseen = [item for item in range(self.items) if item not in self.sets[user]]
                lists.append(self.chance.sample(unseen, 7))
            return np.array(lists)
        drawn = self.draws.integers(0, self.items, (len(users), 7))
        while (again := self.seen[users[:, None], drawn]).any():
            drawn[again] = self.draws.integers(0, self.items, again.sum())
        return drawn

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        users, right = self.chosen[index % 12], self.right[index % 12]
        items = np.concatenate([right, self._draw(users)], -1).astype(np.int32)
        return (users.astype(np.int32)[:, None], items), np.zeros((64,), np.int32)


@register_program("input", "NegativeSampler")
def make_negatives_from_lists(planted: bool) -> Fit:
    """Items that a user has not seen are drawn from a Python list of all of them for each sample, or by rejection."""
    users, items = 500, 1500
    user, item = keras.Input((1,), dtype="int32"), keras.Input((8,), dtype="int32")
    x = layers.Dense(256, "relu")(layers.Flatten()(layers.Embedding(users, 32)(user)))
    y = layers.Dense(256)(layers.Dense(256, "relu")(layers.Embedding(items, 32)(item)))
    model = keras.Model([user, item], layers.Dot(-1)([y, layers.Dense(256)(x)]))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.05), loss, metrics=["accuracy"], jit_compile=False)
    return Fit(model, NegativeSampler(planted, users, items), 12)
