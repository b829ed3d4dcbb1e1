"""Two ways to take many steps of a model over samples in memory: one compiled call, or Keras' own train function."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import keras
import tensorflow as tf

from tfperf.arrays import AnyArray, Indices
from tfperf.sources.samples import Nest, Samples

Logs = dict[str, float]  # what the last step returned: metrics of the epoch so far


class StepLoop(Protocol):
    """Takes steps."""

    def run(self, rows: Indices) -> Logs:
        """A step for each line of `rows` (steps, batch), the samples of its batch; the logs of the last."""


class CompiledLoop:
    """All steps of a call inside one compiled program, with the samples on the device.

    Keras calls a program for each step or unrolls some of them; here a loop in the program gathers each batch and takes
    the model's own step.
    """

    def __init__(self, step: Callable[[Any], Any], samples: Nest, xla: bool) -> None:
        """step: of one batch, as `model.train_step`; samples: tensors (N, ...)."""
        self._step, self._samples, self._xla = step, samples, xla
        self._programs: dict[int, Any] = {}  # by the samples of a batch

    def run(self, rows: Indices) -> Logs:
        """Take the steps."""
        return {key: float(value) for key, value in self.get_program(rows.shape[1])(tf.constant(rows)).items()}

    def get_program(self, batch: int) -> Any:
        """The program for batches of that length, traced when it is first asked for."""
        if batch not in self._programs:
            first = tf.function(self._take_step, autograph=False)
            shapes = first.get_concrete_function(tf.TensorSpec([batch], tf.int64)).structured_outputs
            take = tf.function(self._make_loop(shapes), autograph=False, jit_compile=self._xla)
            self._programs[batch] = take.get_concrete_function(tf.TensorSpec([None, batch], tf.int64))
        return self._programs[batch]

    def _take_step(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        logs = self._step(select_batch(self._samples, rows))
        return dict(_flatten_logs(logs))

    def _make_loop(self, shapes: dict[str, Any]) -> Callable[[tf.Tensor], Any]:
        def take(rows: tf.Tensor) -> Any:
            def body(i: tf.Tensor, _: Any) -> tuple[tf.Tensor, Any]:
                return i + 1, self._take_step(rows[i])

            start = {key: tf.zeros(spec.shape, spec.dtype) for key, spec in shapes.items()}
            return tf.while_loop(lambda i, _: i < tf.shape(rows)[0], body, (tf.constant(0), start))[1]

        return take


class KerasLoop:
    """Keras' train function, a call for each step."""

    def __init__(self, model: keras.Model, samples: Nest, xla: bool) -> None:
        """samples: tensors (N, ...)."""
        self._samples = samples
        model.jit_compile = xla
        model.make_train_function(force=True)
        self._take_step = model.train_function  # of this setting: a later loop of the model has another

    def run(self, rows: Indices) -> Logs:
        """Take the steps."""
        batches = tf.data.Dataset.from_tensor_slices(rows).map(lambda one: select_batch(self._samples, one))
        batches = iter(batches)
        logs: dict[str, Any] = {}
        for _ in rows:
            logs = self._take_step(batches)
        return {key: float(value) for key, value in _flatten_logs(logs)}


def _flatten_logs(logs: Any) -> Iterator[tuple[str, tf.Tensor]]:
    """Of dicts in a dict the inner names; of arrays the mean; no texts."""
    for key, value in logs.items():
        if isinstance(value, dict):
            yield from _flatten_logs(value)
        else:
            tensor = tf.convert_to_tensor(value)
            if tensor.dtype.is_floating or tensor.dtype.is_integer:
                yield str(key), tensor if tensor.shape.rank == 0 else tf.reduce_mean(tensor)


def to_tensors(samples: Samples) -> Nest:
    """The samples on the device; floating-point ones become Keras' floatx, as in Keras' own `fit`."""

    def convert(array: AnyArray) -> tf.Tensor:
        return tf.constant(array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array)

    return keras.tree.map_structure(convert, samples.data)


def select_batch(samples: Nest, rows: tf.Tensor) -> Nest:
    """A batch; its length is known when the step is traced, since kernels differ where it is not."""

    def gather(array: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.gather(array, rows), [rows.shape[0], *array.shape[1:]])

    return keras.tree.map_structure(gather, samples)


def split_rows(order: Indices, batch: int) -> list[Indices]:
    """Samples in the order of steps as whole batches (steps, batch), and the shorter last one by itself.

    >>> import numpy as np
    >>> [rows.tolist() for rows in split_rows(np.arange(5), batch=2)]
    [[[0, 1], [2, 3]], [[4]]]
    """
    whole = len(order) // batch * batch
    parts = [order[:whole].reshape(-1, batch), order[whole:].reshape(1, -1)]
    return [rows for rows in parts if rows.size]
