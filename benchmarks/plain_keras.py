"""A translation in plain Keras, as its users write it: layers, tf.data, MirroredStrategy, `fit`. Nothing of tfperf.

The model is the one of tfperf/workloads/translate/translator.py, so that the same weights give the same loss.
"""

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

PAD, START, END = 0, 1, 2


def build_model(rows: int, units: int, layers: int, dtype: str = "float32") -> keras.Model:
    """An encoder-decoder with dot attention: (source (B, S), target (B, T)) -> logits (B, T, rows)."""
    source, target = (keras.Input((None,), dtype="int32", name=name) for name in ("source", "target"))

    def build_lstm(name: str) -> keras.layers.LSTM:
        return keras.layers.LSTM(units, return_sequences=True, return_state=True, name=name, dtype=dtype)

    x, states = keras.layers.Embedding(rows, units, mask_zero=True, name="source_embedding", dtype=dtype)(source), []
    for i in range(layers):
        x, *state = build_lstm(f"encoder_{i}")(x)
        states.append(state)
    # what is behind a target's end weighs nothing in the loss: a mask would be needless work
    y = keras.layers.Embedding(rows, units, name="target_embedding", dtype=dtype)(target)
    for i in range(layers):
        y, *_ = build_lstm(f"decoder_{i}")(y, initial_state=states[i])
    context = keras.layers.Attention(name="attention", dtype=dtype)([y, x])
    y = keras.layers.Add(name="add", dtype=dtype)([y, context])
    logits = keras.layers.Dense(rows, use_bias=False, name="projection", dtype=dtype)(y)
    return keras.Model([source, target], logits)


def make_loss(dtype: str = "float32") -> keras.losses.Loss:
    """The mean over the labels that have weight."""
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction="mean_with_sample_weight", dtype=dtype
    )


def make_batches(
    source: Sequence[NDArray[np.int32]], target: Sequence[NDArray[np.int32]], size: int, limits: Sequence[int],
    seed: int, cache: bool,
) -> tf.data.Dataset:  # fmt: skip
    """Batches of like length, each padded to its longest: ((source, target), labels, weights of the labels).

    limits: lengths that end a bucket. cache: batches are formed once, and shuffled as wholes in later epochs.
    """
    sides = [tf.ragged.constant(side, dtype=tf.int32) for side in (source, target)]
    pairs = tf.data.Dataset.from_tensor_slices(tuple(sides)).shuffle(len(source), seed)
    pairs = pairs.map(lambda s, t: (s, tf.concat([[START], t, [END]], 0)), tf.data.AUTOTUNE)
    out = pairs.bucket_by_sequence_length(
        lambda s, t: tf.maximum(tf.size(s), tf.size(t) - 2), [limit + 1 for limit in limits],
        [size] * (len(limits) + 1), drop_remainder=True,
    )  # fmt: skip
    if cache:
        out = out.cache().shuffle(len(source) // size, seed)
    return out.map(_split_target, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _split_target(source: tf.Tensor, target: tf.Tensor) -> tuple[Any, tf.Tensor, tf.Tensor]:
    labels = target[:, 1:]
    return (source, target[:, :-1]), labels, tf.cast(labels != PAD, tf.float32)


class EpochTimer(keras.callbacks.Callback):
    """Wall and CPU time at the end of each epoch, its loss, and the steps until then."""

    def __init__(self) -> None:
        super().__init__()
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.losses: list[float] = []
        self.steps: list[int] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Keras has waited for the epoch's losses."""
        self.wall.append(time.perf_counter())
        self.cpu.append(time.process_time())
        self.losses.append(float((logs or {})["loss"]))
        self.steps.append(int(self.model.optimizer.iterations.numpy()))


def make_strategy(devices: Sequence[str], bare: bool) -> tf.distribute.Strategy:
    """Copies on all devices; bare: none around one device.

    Gradients are summed in the fastest way that works on CPUs: with TensorFlow's own choice, a ring, `fit` fails where
    an execution has several steps (a placeholder is not fed), and takes a step too many where it has one.
    """
    if bare and len(devices) == 1:
        return tf.distribute.get_strategy()
    merge = tf.distribute.HierarchicalCopyAllReduce() if len(devices) > 1 else None
    return tf.distribute.MirroredStrategy(devices, merge)


def train(
    strategy: tf.distribute.Strategy, sizes: tuple[int, int, int], data: tf.data.Dataset, rate: float, per_call: int,
    epochs: int,
) -> EpochTimer:  # fmt: skip
    """`fit` with Adam; sizes: rows, units, layers; per_call: steps in one execution."""
    with strategy.scope():
        model = build_model(*sizes)
        model.compile(keras.optimizers.Adam(rate), make_loss(), steps_per_execution=per_call)
    stamps = EpochTimer()
    model.fit(data, epochs=epochs, verbose=0, callbacks=[stamps])
    return stamps
