"""A replica of a Keras model as a lane: the model's own steps on the replica's own batches."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName, Float32Array
from tfperf.train.lanes import TrainingLane
from tfperf.train.stack import Losses
from tfperf.workloads.keras.loops import flatten_logs, make_zeros, select_batch
from tfperf.workloads.keras.replicas.draws import RowDraw
from tfperf.workloads.keras.replicas.template import LOSS, ModelTemplate

MOST_ROWS = 1000  # steps whose samples are drawn at once


class KerasLane(TrainingLane):
    """One replica. Its step is the model's `train_step`, its validation all batches of the model's `test_step`."""

    mixes_types = True
    template: ModelTemplate

    def __init__(
        self,
        template: ModelTemplate,
        batches: RowDraw,
        most_rows: int = MOST_ROWS,
        loss_weight: float | None = None,
    ) -> None:
        """most_rows: steps whose samples are given at once, at most; loss_weight: None: the loss is as it is."""
        super().__init__(template)
        self.precision = "float64" if keras.config.floatx() == "float64" else "float32"
        self.epoch, self._batches = template.epoch, batches
        steps = max(1, min(most_rows, MOST_ROWS))
        self.rows = tf.Variable(tf.zeros([steps, template.batch], tf.int32), trainable=False)
        self.first = tf.Variable(0, dtype=tf.int64, trainable=False)  # the step of the first row
        self.last = tf.Variable(tf.zeros([len(template.log_names)]), trainable=False)  # what the last step told
        self.told = tf.Variable(tf.zeros([steps // self.epoch + 2, len(template.metrics)]), trainable=False)
        self.loss_weight = None if loss_weight is None else tf.constant(loss_weight, keras.config.floatx())

    def list_state(self) -> dict[str, tf.Variable]:
        """Beside the model's what the last step told."""
        return self.state | {"last": self.last}

    def list_buffers(self) -> list[tf.Variable]:
        """What the epochs of a call have told."""
        return [self.told]

    def start(self, values: ArraysByName) -> None:
        """Give it the values that it begins with."""
        for name, variable in {**self.weights, **self.state}.items():
            variable.assign(tf.cast(values[name], variable.dtype))

    def feed(self, step: int, count: int) -> int:
        """Give it the samples of the next steps."""
        count = min(count, self.rows.shape[0])
        if count:
            rows = np.zeros(self.rows.shape, np.int32)
            rows[:count] = self._batches.draw_rows(step, count)
            self.rows.assign(rows)
            self.first.assign(step)
        return count

    def take_step(self, step: tf.Tensor, prepared: Any) -> Losses:
        """The model's own."""
        template, rows = self.template, tf.gather(self.rows, step - self.first)
        if template.short:
            is_last = tf.equal(step % self.epoch, self.epoch - 1)
            logs = tf.cond(is_last, lambda: self._train(rows[: template.short]), lambda: self._train(rows))
        else:
            logs = self._train(rows)
        told = tf.stack([tf.cast(logs[name], tf.float32) for name in template.log_names])
        self.last.assign(told)
        return self._make_losses(logs[LOSS], logs[LOSS])

    def _train(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = select_batch(self.template.training, rows)
        if self.loss_weight is not None:
            batch = _weigh(batch, self.loss_weight)
        return dict(flatten_logs(self.template.model.train_step(batch)))

    def _make_losses(self, objective: tf.Tensor, monitor: tf.Tensor) -> Losses:
        objective, monitor = (tf.cast(value, self.precision)[None] for value in (objective, monitor))
        return Losses(objective, monitor, tf.constant([True]), tf.ones_like(objective))

    def validate(self, step: tf.Tensor) -> Losses:
        """What the epoch has told, and the losses of all samples that validate."""
        template, model = self.template, self.template.model
        figures = dict(zip(template.log_names, tf.unstack(self.last), strict=True))
        figures |= self._get_results(template.log_names)
        objective = monitor = figures[LOSS]
        told = list(figures.values())
        if template.test_names:
            model.reset_metrics()
            found = self._run_tests()
            monitor = found[LOSS]
            told += [found[name] for name in template.test_names]
        model.reset_metrics()
        place = (step // self.epoch - 1) % self.told.shape[0]
        row = tf.stack([tf.cast(value, tf.float32) for value in told])
        self.told.assign(tf.tensor_scatter_nd_update(self.told, [[place]], [row]))
        return self._make_losses(objective, monitor)

    def _get_results(self, names: tuple[str, ...]) -> dict[str, tf.Tensor]:
        """The metrics' own where a step tells them by their names, as Keras takes them at an epoch's end."""
        found = dict(flatten_logs(self.template.model.get_metrics_result()))
        return {name: found[name] for name in names} if {*found} == {*names} else {}

    def _run_tests(self) -> dict[str, tf.Tensor]:
        """What the model's test step tells after the last batch."""
        template, batch = self.template, self.template.batch
        whole, rest = divmod(template.validated, batch)

        def test(first: tf.Tensor, count: int) -> dict[str, tf.Tensor]:
            found = self.template.model.test_step(select_batch(template.validation, first + tf.range(count)))
            return dict(flatten_logs(found))

        logs: dict[str, tf.Tensor] = {}
        if whole:
            shapes = tf.function(lambda: test(tf.constant(0), batch), autograph=False).get_concrete_function()
            start = (tf.constant(0), make_zeros(shapes.structured_outputs))
            logs = tf.while_loop(
                lambda i, _: i < whole, lambda i, _: (i + 1, test(i * batch, batch)), start, parallel_iterations=1
            )[1]
        if rest:
            logs = test(tf.constant(whole * batch), rest)
        return logs | self._get_results(template.test_names)

    def read_rows(self, before: int, step: int) -> Mapping[str, Float32Array]:
        """What was told of the epochs (1, n) that ended after step `before`, up to `step`."""
        numbers = np.arange(before // self.epoch, step // self.epoch)
        told = self.told.numpy()[numbers % self.told.shape[0]]
        return {name: told[:, i][None] for i, name in enumerate(self.template.metrics)}


def _weigh(batch: Any, weight: tf.Tensor) -> Any:
    """A batch whose samples weigh so many times as much."""
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    count = tf.shape(keras.tree.flatten(x)[0])[0]
    weights = tf.ones([count], weight.dtype) if weights is None else weights
    return x, y, keras.tree.map_structure(lambda one: tf.cast(one, weight.dtype) * weight, weights)
