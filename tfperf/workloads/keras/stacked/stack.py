"""R replicas of a Keras model as one stack: the engine takes gradients and the optimizer's step for all at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import ArraysByName, Float32Array, FloatArray
from tfperf.train.blueprints import Unread
from tfperf.train.flat import Flattener
from tfperf.train.stack import Losses, Stack
from tfperf.workloads.keras.replicas.draws import RowDraw
from tfperf.workloads.keras.replicas.template import LOSS, ModelTemplate
from tfperf.workloads.keras.stacked import metrics
from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.losses import compute_losses, refuse_loss
from tfperf.workloads.keras.stacked.network import StackedNetwork, list_reasons
from tfperf.workloads.keras.stacked.optimizer import (
    build_optimizer,
    find_tables,
    refuse_optimizer,
    refuse_tables,
)
from tfperf.workloads.keras.stacked.regularizers import penalise_weights

MOST_ROWS = 1000  # steps whose samples are drawn at once


def list_refusals(model: keras.Model) -> list[str]:
    """Why replicas of a model cannot be a stack, in words; empty where they can."""
    own = [
        f"the model has a {name} of its own"
        for name in ("train_step", "test_step")
        if getattr(type(model), name) is not getattr(keras.Model, name)
    ]
    found = [*own, *list_reasons(model), refuse_loss(model)]
    found += [refuse_optimizer(model.optimizer), refuse_tables(model)]
    if model._compile_loss is not None:
        found.append(metrics.refuse_metrics(model))
    if model.dtype_policy.name.startswith("mixed"):
        found.append(f"it computes in {model.dtype_policy.compute_dtype}")
    return [one for one in found if one]


class Copies(Unread):
    """What a stack knows of the model that its replicas are copies of, and of what each draws."""

    def __init__(self, template: ModelTemplate, batches: Sequence[RowDraw], rates: FloatArray | None) -> None:
        """rates: learning rates (R); None: the optimizer has a schedule."""
        self.template, self.batches, self.rates = template, list(batches), rates
        self.network = StackedNetwork(template.model)
        self.names = {id(variable): name for name, variable in template.variables.items()}
        trained = {id(v.value) for v in template.model.trainable_variables}
        self.trained = {name for name, v in template.weights.items() if id(v) in trained}
        optimizer = {id(v.value) for v in template.model.optimizer.variables}
        self.kept = {name: v for name, v in template.state.items() if id(v) not in optimizer}  # metrics, seeds

    def find_name(self, variable: keras.Variable) -> str:
        """Of a variable of the model."""
        return self.names[id(variable.value)]

    def list_trained(self) -> list[keras.Variable]:
        """The model's trained variables, in the order in which a stack has them."""
        own = {self.find_name(variable): variable for variable in self.template.model.trainable_variables}
        return [own[name] for name in self.template.weights if name in own]


class KerasStack(Stack):
    """R replicas. Each has its own weights, batch, draws, metrics and statistics."""

    mixes_types = True

    def __init__(self, copies: Copies, most_rows: int = MOST_ROWS, loss_weights: Sequence[float] | None = None) -> None:
        """most_rows: steps whose samples are given at once, at most; loss_weights: (R), None: all 1."""
        template = copies.template
        self.copies, self.replicas, self.epoch = copies, len(copies.batches), template.epoch
        self.precision = "float64" if template.model.dtype_policy.variable_dtype == "float64" else "float32"
        self.weights = {
            name: keras.Variable(tf.zeros([self.replicas, *v.shape], v.dtype), trainable=name in copies.trained)
            for name, v in template.weights.items()
        }
        self.state = {
            name: tf.Variable(tf.zeros([self.replicas, *v.shape], v.dtype), trainable=False)
            for name, v in copies.kept.items()
        }
        steps = max(1, min(most_rows, MOST_ROWS))
        self.rows = tf.Variable(tf.zeros([steps, self.replicas, template.batch], tf.int32), trainable=False)
        self.first = tf.Variable(0, dtype=tf.int64, trainable=False)  # the step of the first row
        told = tf.zeros([steps // self.epoch + 2, self.replicas, len(template.metrics)])
        self.told = tf.Variable(told, trainable=False)
        self.loss_weights = None if loss_weights is None else tf.constant(loss_weights, keras.config.floatx())
        self.training, self.validation = template.training, template.validation
        self._probes: dict[str, tf.Tensor] = {}  # of tables, while losses are differentiated

    def list_weights(self) -> dict[str, keras.Variable]:
        """The model's, with the replicas first."""
        return self.weights

    def list_state(self) -> dict[str, tf.Variable]:
        """Metrics and seeds."""
        return self.state

    def list_buffers(self) -> list[tf.Variable]:
        """What the epochs of a call have told."""
        return [self.told]

    def start(self, starts: Sequence[ArraysByName]) -> None:
        """Give each replica the values that it begins with."""
        for name, variable in {**self.weights, **self.state}.items():
            variable.assign(np.stack([one[name] for one in starts]))

    def build_optimizer(self, row: keras.Variable, flat: Flattener) -> keras.optimizers.Optimizer:
        """The model's own, for the trained numbers of all replicas side by side."""
        copies = self.copies
        return build_optimizer(copies.template.model, copies.list_trained(), row, flat, copies.rates)

    def make_probes(self) -> Sequence[tf.Tensor]:
        """Of tables whose gradients are squared row by row."""
        tables = [self.copies.find_name(one) for one in find_tables(self.copies.template.model)]
        self._probes = {name: tf.zeros_like(self.weights[name].value) for name in tables}
        return [*self._probes.values()]

    def feed(self, step: int, count: int) -> int:
        """Give it the samples of the next steps."""
        count = min(count, self.rows.shape[0])
        if count:
            rows = np.zeros(self.rows.shape, np.int32)
            for r, batches in enumerate(self.copies.batches):
                rows[:count, r] = batches.draw_rows(step, count)
            self.rows.assign(rows)
            self.first.assign(step)
        return count

    def _make_values(self, state: Mapping[str, tf.Tensor] | None = None) -> Values:
        """The variables as they are now; state: in place of some of them, by name."""
        state = state or {}

        def read(variable: keras.Variable) -> tf.Tensor:
            name = self.copies.find_name(variable)
            if name in state:
                return state[name]
            return tf.convert_to_tensor(self.weights[name] if name in self.weights else self.state[name])

        probes = self._probes
        return Values(self.replicas, read, lambda variable: probes.get(self.copies.find_name(variable)))

    def _list_assigned(self, values: Values) -> dict[str, tf.Tensor]:
        found = {self.copies.find_name(variable): value for variable, value in values.assigned.values()}
        return {name: found[name] for name in sorted(found)}

    def _assign(self, found: Mapping[str, tf.Tensor]) -> None:
        for name, value in found.items():
            (self.weights[name] if name in self.weights else self.state[name]).assign(value)

    def evaluate_losses(self, step: tf.Tensor, prepared: Any) -> Losses:
        """The compiled loss and all penalties of the step's batches."""
        template, rows = self.copies.template, tf.gather(self.rows, step - self.first)
        names: list[str] = []  # the same in both branches

        def take(some: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
            objective, assigned = self.take_batch(some)
            names[:] = assigned
            # else the gradient of a branch goes through loops in metrics, whose lists cannot leave it under XLA
            return objective, [tf.stop_gradient(value) for value in assigned.values()]

        if template.short:
            is_last = tf.equal(step % self.epoch, self.epoch - 1)
            objective, found = tf.cond(is_last, lambda: take(rows[:, : template.short]), lambda: take(rows))
        else:
            objective, found = take(rows)
        self._probes = {}
        self._assign(dict(zip(names, found, strict=True)))
        return self._make_losses(objective, objective)

    def _make_losses(self, objective: tf.Tensor, monitor: tf.Tensor) -> Losses:
        objective, monitor = (tf.cast(value, self.precision) for value in (objective, monitor))
        return Losses(objective, monitor, tf.ones([self.replicas], tf.bool), tf.ones_like(objective))

    def take_batch(self, rows: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The objective (R) for samples (R, B), and what variables become."""
        batch = keras.tree.map_structure(lambda one: tf.gather(one, rows), self.training)
        values = self._make_values()
        objective = self._evaluate_batch(values, batch, rows.shape[1], training=True)
        return objective, self._list_assigned(values)

    def _evaluate_batch(self, values: Values, batch: Any, count: int, training: bool) -> tf.Tensor:
        """The objective (R) of a batch (R, B, ...), which the metrics see."""
        model = self.copies.template.model
        x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
        outputs = self.copies.network.call(values, x, training)
        own = self.loss_weights if training else None
        total, each = compute_losses(model, y, outputs, weights, own)
        for penalty in [*values.losses, *penalise_weights(values, model)]:
            total += penalty
        metrics.update_loss_metrics(values, model, total, each, count)
        metrics.update_metrics(values, model, y, outputs, weights)
        return total

    def evaluate_metrics(self, step: tf.Tensor) -> tuple[Losses, Mapping[str, tf.Tensor]]:
        """Of no use: the history keeps what epochs tell."""
        raise NotImplementedError

    def validate(self, step: tf.Tensor) -> Losses:
        """What the epoch has told, and the losses of all samples that validate."""
        template = self.copies.template
        model, values = template.model, self._make_values()
        told = metrics.compute_results(values, model)
        figures = [told[name] for name in template.log_names]
        objective = monitor = told[LOSS]
        metrics.reset(values, model)
        if template.test_names:
            found = metrics.compute_results(self._run_tests(values), model)
            figures += [found[name] for name in template.test_names]
            monitor = found[LOSS]
        self._assign(self._list_assigned(values))
        place = (step // self.epoch - 1) % self.told.shape[0]
        rows = tf.stack([tf.cast(one, tf.float32) for one in figures], axis=1)
        self.told.assign(tf.tensor_scatter_nd_update(self.told, [[place]], rows[None]))
        return self._make_losses(objective, monitor)

    def _run_tests(self, first_values: Values) -> Values:
        """The metrics after all batches that validate, first_values anew."""
        template = self.copies.template
        whole, rest = divmod(template.validated, template.batch)
        state = {name: value for name, value in self._list_assigned(first_values).items() if name in self.state}

        def test(first: tf.Tensor, count: int, state: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
            rows, values = first + tf.range(count), self._make_values(state)

            def take(array: tf.Tensor) -> tf.Tensor:
                one = tf.ensure_shape(tf.gather(array, rows), [count, *array.shape[1:]])
                return tf.repeat(one[None], self.replicas, axis=0)

            self._evaluate_batch(values, keras.tree.map_structure(take, self.validation), count, training=False)
            found = {**state, **self._list_assigned(values)}
            return [found[name] for name in state]

        if whole:
            start = (tf.constant(0), [*state.values()])

            def body(i: tf.Tensor, some: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
                return i + 1, test(i * template.batch, template.batch, dict(zip(state, some, strict=True)))

            found = tf.while_loop(lambda i, _: i < whole, body, start, parallel_iterations=1)[1]
            state = dict(zip(state, found, strict=True))
        if rest:
            state = dict(zip(state, test(tf.constant(whole * template.batch), rest, state), strict=True))
        return self._make_values(state)

    def read_rows(self, before: int, step: int) -> Mapping[str, Float32Array]:
        """What was told of the epochs (R, n) that ended after step `before`, up to `step`."""
        numbers = np.arange(before // self.epoch, step // self.epoch)
        told = self.told.numpy()[numbers % self.told.shape[0]]
        return {name: told[:, :, i].T for i, name in enumerate(self.copies.template.metrics)}
