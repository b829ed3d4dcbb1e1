"""The metrics of a model, for each replica by itself: their variables have the replicas first. B samples of each."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.compile_utils import CompileMetrics

from tfperf.workloads.keras.loops import flatten_logs
from tfperf.workloads.keras.stacked.layer import Values
from tfperf.workloads.keras.stacked.losses import SAMPLEWISE, apply_mask, expand_weights, fold_outputs
from tfperf.workloads.keras.stacked.replicas import fold, map_replicas, unfold

# beside those of losses: accuracies
ACCURACIES = tuple(
    getattr(keras.metrics, name)
    for name in (
        "binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy", "top_k_categorical_accuracy",
        "sparse_top_k_categorical_accuracy",
    )
)  # fmt: skip


def refuse_metrics(model: keras.Model) -> str | None:
    """Why a model's metrics cannot be kept for each replica, in words; None where they can."""
    if type(model).compute_metrics is not keras.Model.compute_metrics:
        return "the model has a compute_metrics of its own"
    compiled = [*_list_compiled(model), *model._compile_loss.metrics]
    own = {id(one) for one in (model._loss_tracker, model._compile_metrics, *compiled)}
    others = [one.name for one in model.metrics if id(one) not in own]
    return f"layers have metrics of their own: {', '.join(others)}" if others else None


def _list_compiled(model: keras.Model) -> list[keras.metrics.Metric]:
    compiled = model._compile_metrics
    return [] if compiled is None else list(compiled.metrics)


def update_loss_metrics(
    values: Values, model: keras.Model, total: tf.Tensor, each: Sequence[tf.Tensor], batch: int
) -> None:
    """Note the losses of a batch (R): the total, and that of each output."""
    own = [one for one in model._compile_loss.metrics if one is not None]
    pairs = [(model._loss_tracker, total), *zip(own, each, strict=False)]
    for metric, value in pairs:
        _add_mean(values, metric, tf.cast(value, metric.dtype) * batch, tf.cast(batch, metric.dtype))


def _add_mean(values: Values, metric: Any, total: tf.Tensor, count: tf.Tensor) -> None:
    values.assign(metric.total, values.get(metric.total) + total)
    values.assign(metric.count, values.get(metric.count) + tf.cast(count, metric.dtype))


def update_metrics(values: Values, model: keras.Model, targets: Any, outputs: Any, weights: Any) -> None:
    """Let the compiled metrics see a batch: targets, outputs, weights (R, B, ...)."""
    compiled: CompileMetrics | None = model._compile_metrics
    if compiled is None:
        return
    y, y_pred = compiled._flatten_y(targets), compiled._flatten_y(outputs)
    given = [None] * len(y) if weights is None else compiled._flatten_y(weights)
    given = given if len(given) == len(y) else [given[0]] * len(y)
    for lists, used in ((compiled._flat_metrics, [None] * len(y)), (compiled._flat_weighted_metrics, given)):
        for several, one, found, weight in zip(lists, y, y_pred, used, strict=False):
            for metric in several.metrics if several else ():
                _update(values, metric, one, found, weight)


def _update(values: Values, metric: Any, y: tf.Tensor, y_pred: tf.Tensor, weights: tf.Tensor | None) -> None:
    own = type(metric).update_state is keras.metrics.MeanMetricWrapper.update_state
    mask = getattr(y_pred, "_keras_mask", None)
    if own and metric._fn in (*SAMPLEWISE, *ACCURACIES) and len(y_pred.shape) > 2:
        _update_mean(values, metric, y, y_pred, apply_mask(weights, mask, tf.as_dtype(metric.dtype), rescale=False))
    else:
        _update_slowly(values, metric, [y, y_pred], weights, mask)


def _update_mean(values: Values, metric: Any, y: tf.Tensor, y_pred: tf.Tensor, weights: tf.Tensor | None) -> None:
    """Of a number for each sample; as Keras takes the mean of places within samples."""
    found = unfold(
        tf.cast(metric._fn(fold(y), fold_outputs(y_pred), **metric._fn_kwargs), metric.dtype), y_pred.shape[0]
    )
    count = tf.cast(tf.shape(found)[1], metric.dtype)
    if weights is not None:
        weights = expand_weights(found, tf.cast(weights, metric.dtype))
        found = _average_from(found, len(weights.shape))
        weights = tf.broadcast_to(weights, tf.shape(found))
        found = found * weights
        count = tf.reduce_sum(_average_from(weights, 2), axis=1)
    _add_mean(values, metric, tf.reduce_sum(_average_from(found, 2), axis=1), count)


def _average_from(values: tf.Tensor, axis: int) -> tf.Tensor:
    axes = [*range(axis, len(values.shape))]
    return tf.reduce_mean(values, axes) if axes else values


def _update_slowly(
    values: Values, metric: Any, pair: Sequence[tf.Tensor], weights: tf.Tensor | None, mask: tf.Tensor | None
) -> None:
    """One replica after the other, by the metric's own update."""
    variables, logits = metric.variables, getattr(pair[1], "_keras_logits", None)
    more = [one for one in (weights, mask, logits) if one is not None]
    given = [*pair, *more, *(values.get(v) for v in variables)]

    def update(*some: tf.Tensor) -> list[tf.Tensor]:
        rest = list(some)
        y, y_pred = rest.pop(0), rest.pop(0)
        own = None if weights is None else rest.pop(0)
        if mask is not None:
            y_pred._keras_mask = rest.pop(0)
        if logits is not None:
            y_pred._keras_logits = rest.pop(0)
        with keras.StatelessScope(state_mapping=list(zip(variables, rest, strict=True))) as scope:
            metric.update_state(y, y_pred, sample_weight=own)
        return [tf.convert_to_tensor(scope.get_current_value(v)) for v in variables]

    for variable, value in zip(variables, map_replicas(update, *given), strict=True):
        values.assign(variable, value)


def compute_results(values: Values, model: keras.Model) -> Any:
    """What the metrics evaluate of each replica (R), by their names."""
    variables = [variable for metric in model.metrics for variable in metric.variables]
    return _map_state(values, variables, lambda: dict(flatten_logs(model.get_metrics_result())))


def reset(values: Values, model: keras.Model) -> None:
    """Let the metrics of all replicas begin anew."""
    variables = [variable for metric in model.metrics for variable in metric.variables]
    with keras.StatelessScope(state_mapping=[(v, tf.zeros(v.shape, v.dtype)) for v in variables]) as scope:
        model.reset_metrics()
    for variable in variables:
        value = tf.convert_to_tensor(scope.get_current_value(variable))
        values.assign(variable, tf.repeat(value[None], values.replicas, axis=0))


def _map_state(values: Values, variables: Sequence[keras.Variable], evaluate: Callable[[], Any]) -> Any:
    def compute(*state: tf.Tensor) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, state, strict=True))):
            return evaluate()

    return map_replicas(compute, *(values.get(variable) for variable in variables))
