"""The model's optimizer on the trained numbers of all replicas side by side (R, P)."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import FloatArray
from tfperf.train.flat import Flattener
from tfperf.workloads.keras.stacked.replicas import map_replicas

# whose update of an entry depends on that entry alone
ENTRYWISE = tuple(
    getattr(keras.optimizers, name)
    for name in ("SGD", "RMSprop", "Adam", "AdamW", "Adadelta", "Adagrad", "Adamax", "Nadam", "Ftrl", "Lion")
)
LINEAR = (keras.optimizers.SGD, keras.optimizers.Lion)  # in the gradient
CLIPPING = ("clipnorm", "global_clipnorm", "clipvalue")


def refuse_optimizer(optimizer: Any) -> str | None:
    """Why an optimizer cannot work on all replicas at once, in words; None where it can."""
    if type(optimizer) not in ENTRYWISE:
        return f"{type(optimizer).__name__} is none that updates each entry of a weight by itself"
    rate = getattr(optimizer, "_learning_rate", None)
    if not isinstance(rate, keras.Variable | keras.optimizers.schedules.LearningRateSchedule):
        return "its learning rate is a function"
    return None


def refuse_tables(model: keras.Model) -> str | None:
    """Why an optimizer cannot work on the model's tables of embeddings, in words; None where it can.

    Keras keeps the gradients of a row that a batch has several times apart, and squares and clips them so; a stack has
    their sum alone. Those of a table with a penalty are summed in Keras, too.
    """
    optimizer = model.optimizer
    clips = [name for name in CLIPPING if getattr(optimizer, name, None)]
    if type(optimizer) in LINEAR and not clips:
        return None
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Embedding) and layer.trainable and not layer.embeddings_regularizer:
            what = clips[0] if clips else type(optimizer).__name__
            return f"{what} takes the gradients of a row of {layer.name} that a batch has several times one by one"
    return None


def build_optimizer(
    own: keras.optimizers.Optimizer, weights: Sequence[keras.Variable], row: keras.Variable, flat: Flattener,
    rates: FloatArray | None,
) -> keras.optimizers.Optimizer:  # fmt: skip
    """One for the row (R, P), which clips, decays and constrains each replica's weights as the model's own does.

    weights: the model's, in the order in which `flat` cuts the row; rates: of each replica (R); None: the optimizer has
    a schedule.
    """
    # the loss is not scaled here, so that its gradients are not to be scaled back
    left_out = (*CLIPPING, "loss_scale_factor")
    arguments = {key: value for key, value in own.get_config().items() if key not in left_out}
    limits = {key: value for key in CLIPPING if (value := getattr(own, key, None))}
    decays = np.concatenate(
        [np.full(size, own._use_weight_decay(v)) for size, v in zip(flat.sizes, weights, strict=True)]
    )
    kind = _make_kind(type(own), flat, limits, None if decays.all() else decays)
    found: keras.optimizers.Optimizer = kind.from_config(arguments | {"name": own.name})
    found.build([row])
    if rates is not None:
        found._learning_rate.assign(rates[0])
        found.rates = keras.Variable(rates[:, None], trainable=False, dtype=row.dtype, name="rates")
    row.constraint = _make_constraint(flat, [variable.constraint for variable in weights])
    return found


def _make_kind(kind: type[Any], flat: Flattener, limits: dict[str, float], decays: Any) -> type[Any]:
    """The optimizer's class, for a row of all replicas' weights."""

    class RowOptimizer(kind):
        rates: keras.Variable | None = None

        def _get_current_learning_rate(self) -> Any:
            return super()._get_current_learning_rate() if self.rates is None else self.rates

        def _clip_gradients(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
            return [flat.join(clip(flat.split(one), limits)) for one in gradients] if limits else list(gradients)

        def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
            if self.weight_decay is None:
                return
            for variable in variables:
                amount = tf.cast(self.weight_decay, variable.dtype) * tf.cast(self.learning_rate, variable.dtype)
                change = variable * amount
                variable.assign_sub(change if decays is None else tf.where(decays[None], change, tf.zeros_like(change)))

    RowOptimizer.__name__ = RowOptimizer.__qualname__ = kind.__name__
    return RowOptimizer


def clip(gradients: Sequence[tf.Tensor], limits: dict[str, float]) -> list[tf.Tensor]:
    """Gradients (R, ...), each replica's clipped as Keras clips those of a model alone."""
    if "clipnorm" in limits:
        return [
            tf.clip_by_norm(one, limits["clipnorm"], axes=[*range(1, len(one.shape))]) if len(one.shape) > 1
            else map_replicas(lambda g: tf.clip_by_norm(g, limits["clipnorm"]), one)
            for one in gradients
        ]  # fmt: skip
    if "global_clipnorm" in limits:
        limit = limits["global_clipnorm"]  # a Python number: a cast would round it to float32 on its way
        squares = [tf.reduce_sum(tf.reshape(one * one, [one.shape[0], -1]), axis=1) for one in gradients]
        norm = tf.sqrt(tf.add_n(squares))
        scale = limit * tf.minimum(1.0 / norm, 1.0 / limit) + (norm - norm)  # nan where the norm is not finite
        return [one * tf.reshape(scale, [-1] + [1] * (len(one.shape) - 1)) for one in gradients]
    if "clipvalue" in limits:
        return [tf.clip_by_value(one, -limits["clipvalue"], limits["clipvalue"]) for one in gradients]
    return list(gradients)


def _make_constraint(flat: Flattener, constraints: Sequence[Any]) -> Callable[[Any], tf.Tensor] | None:
    """What keeps the weights of a row where they belong, also on numbers of their own types."""
    if not any(constraints) and not flat.dtypes:
        return None

    def constrain(row: Any) -> tf.Tensor:
        parts = zip(flat.split(tf.convert_to_tensor(row)), constraints, strict=True)
        return flat.join([part if one is None else map_replicas(one, part) for part, one in parts])

    return constrain
