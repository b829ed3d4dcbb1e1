"""A Keras model whose memory is measured: the steps of a fit, with any batch."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.sources.data import Data
from tfperf.sources.samples import Samples
from tfperf.sources.user_errors import run_user_code
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.inputs import TrainingData, read_data
from tfperf.workloads.keras.loops import Compilation, MemoryLoop, StepLoop, StreamLoop, select_batch, to_tensors
from tfperf.workloads.keras.models import make_model
from tfperf.workloads.keras.padding import find_padded
from tfperf.workloads.trial_work import TrialWork

COMPILATIONS: dict[str | bool, Compilation] = {
    False: "graph", "auto": "graph", "step": "XLA step", "loop": "XLA loop", True: "XLA loop",
}  # fmt: skip
Run = Callable[[int], Any]


class KerasMemoryTrial:
    """Steps of a model over batches of any length, as a fit takes them; or predictions."""

    _data: TrainingData
    _model: keras.Model
    _run: Run
    _validate: Run | None = None

    def __init__(self, card: KerasCard, mode: str) -> None:
        """mode: train or predict."""
        self._card, self._mode = card, mode
        self._compilation = COMPILATIONS[card.engine.xla]
        self._tensors: dict[int, Any] = {}
        self._lengths: list[int] = []  # where these differ
        self._padded: dict[int, Any] = {}  # a batch of each

    def read_data(self) -> None:
        """Samples in memory go to the device, as in a fit."""
        self._data = read_data(self._card)
        padded = find_padded(self._data.training)
        self._lengths, self._padded = [length for length, _ in padded], dict(padded)
        for part in (self._data.training, self._data.validation if self._mode == "train" else None):
            if isinstance(part, Samples):
                self._tensors[id(part)] = keras.tree.map_structure(_copy, to_tensors(part))

    def count_work(self) -> TrialWork:
        """Of a stream at most as many samples as its batches have if all are as long as the first."""
        train, held = self._card.train, self._data.validation if self._mode == "train" else None
        samples = self._count_samples(self._data.training, train.steps_per_epoch)
        held_samples = 0 if held is None else self._count_samples(held, None)
        return TrialWork(samples=samples, held_samples=held_samples or 0, epochs=train.epochs, steps=train.steps)

    def _count_samples(self, data: Data, steps_per_epoch: int | None) -> int | None:
        if isinstance(data, Samples):
            return len(data)
        steps = steps_per_epoch or data.length
        if steps is None:
            return None
        return steps * int(keras.tree.flatten(data.read_first(1)[0])[0].shape[0])

    def build_model(self) -> None:
        """Build it for a batch of two samples."""
        self._model = self._make_model()
        model, batch = self._model, _repeat(self._read_batch(self._data.training), 2)
        if not model.built and type(model).call is not keras.Model.call:
            run_user_code(lambda: self._make_variables(batch), "model: tracing its step", None)

    def _make_variables(self, batch: Any) -> None:
        """By tracing what they are for; slots are made, too, where the model is compiled."""
        if self._model.compiled:
            self._model._symbolic_build(data_batch=batch)
        else:
            tf.function(self._model.predict_step, autograph=False).get_concrete_function(batch)

    def make_slots(self) -> None:
        """Those of Keras' own optimizers; others have theirs with the first step."""
        optimizer = self._model.optimizer
        if isinstance(optimizer, keras.optimizers.Optimizer) and not optimizer.built:
            optimizer.build(self._model.trainable_variables)

    def list_lengths(self) -> list[int]:
        """Of the first batches of a stream that pads them differently."""
        return self._lengths

    def set_batch(self, batch: int, length: int | None = None) -> None:
        """Compiled anew."""
        first = self._padded[length or max(self._padded)] if self._padded else self._read_batch(self._data.training)
        if self._mode == "predict":
            self._run = self._make_predictions(_repeat(first, batch))
            return
        self._run = self._make_run(self._data.training, self._model.train_step, batch, first)
        held = self._data.validation
        if held is not None:
            first = self._read_batch(held) if isinstance(held, Samples) or not self._padded else first
            self._validate = self._make_run(held, self._model.test_step, batch, first)

    def take_steps(self, count: int) -> None:
        """In one call."""
        run_user_code(lambda: self._run(count), "model: in a step", None)

    def validate(self) -> None:
        """One batch."""
        if (validate := self._validate) is not None:
            run_user_code(lambda: validate(1), "model: validating", None)

    def _make_model(self) -> keras.Model:
        return make_model(self._card, predicts=self._mode == "predict")

    def _read_batch(self, data: Any) -> Any:
        if isinstance(data, Samples):
            return select_batch(self._tensors[id(data)], tf.range(min(len(data), 2), dtype=tf.int64))
        return data.read_first(1)[0]

    def _make_run(self, data: Any, step: Any, batch: int, first: Any) -> Run:
        """Calls of so many steps, as the loops of a fit take them; first: samples of a stream."""
        loop: StepLoop
        if isinstance(data, Samples):
            count = len(data)
            loop = MemoryLoop(step, self._tensors[id(data)], batch, self._compilation)
            return lambda steps: loop.run(np.arange(steps * batch).reshape(steps, batch) % count)
        compilation: Compilation = "graph" if self._compilation == "graph" else "XLA step"
        batches = tf.data.Dataset.from_tensors(_repeat(first, batch)).repeat()
        loop = StreamLoop(step, batches.element_spec, compilation)
        return lambda steps: loop.run((iter(batches), steps))

    def _make_predictions(self, inputs: Any) -> Run:
        """Calls of Keras' own step of `predict`, each with a batch that is there."""
        predict = tf.function(self._model.predict_step, autograph=False, jit_compile=self._compilation != "graph")

        def run(count: int) -> None:
            for _ in range(count):
                predict(inputs)

        return run


def _copy(tensor: tf.Tensor) -> tf.Tensor:
    """In memory of the device: on a processor TensorFlow may use the array's own in its place."""
    return tensor if tensor.dtype == tf.string else tf.raw_ops.DeepCopy(x=tensor)


def _repeat(batch: Any, count: int) -> Any:
    """A batch of so many samples, those that are there again and again."""

    def repeat(tensor: tf.Tensor) -> tf.Tensor:
        return tf.gather(tensor, tf.range(count) % tf.shape(tensor)[0])

    return keras.tree.map_structure(repeat, batch)
