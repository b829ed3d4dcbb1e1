"""The model's optimizer on the trained numbers of all replicas side by side (R, P)."""

from collections.abc import Callable, Sequence
from types import FunctionType
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
# in the gradient and its square
QUADRATIC = tuple(getattr(keras.optimizers, name) for name in ("RMSprop", "Adam", "AdamW", "Adagrad", "Nadam"))
CLIPPING = ("clipnorm", "global_clipnorm", "clipvalue")


def refuse_optimizer(optimizer: Any) -> str | None:
    """Why an optimizer cannot work on all replicas at once, in words; None where it can."""
    if type(optimizer) not in ENTRYWISE:
        return f"{type(optimizer).__name__} is none that updates each entry of a weight by itself"
    rate = getattr(optimizer, "_learning_rate", None)
    if not isinstance(rate, keras.Variable | keras.optimizers.schedules.LearningRateSchedule):
        return "its learning rate is a function"
    return None


def find_tables(model: keras.Model) -> list[keras.Variable]:
    """Tables of embeddings whose gradients an optimizer takes row by row, where a batch has a row several times.

    Keras squares them and takes their norms before it sums them, but where there is a penalty on the table, or where
    gradients are summed over several batches.
    """
    optimizer = model.optimizer
    clips = any(getattr(optimizer, name, None) for name in CLIPPING)
    if optimizer.gradient_accumulation_steps or (type(optimizer) in LINEAR and not clips):
        return []
    layers = [one for one in model._flatten_layers() if isinstance(one, keras.layers.Embedding) and one.trainable]
    # one that also goes back from rows to words has a gradient of a product as well
    summed = {
        id(one.embeddings) for one in layers if one.embeddings_regularizer or type(one) is not keras.layers.Embedding
    }
    return [*{id(one.embeddings): one.embeddings for one in layers if id(one.embeddings) not in summed}.values()]


def refuse_tables(model: keras.Model) -> str | None:
    """Why an optimizer cannot work on the model's tables of embeddings, in words; None where it can."""
    if type(model.optimizer) not in ENTRYWISE or not (tables := find_tables(model)):
        return None
    kind = type(model.optimizer)
    if kind in (*LINEAR, *QUADRATIC) and not getattr(model.optimizer, "clipvalue", None):
        return None
    what = "clipvalue" if kind in (*LINEAR, *QUADRATIC) else kind.__name__
    return f"{what} takes the gradients of a row of {tables[0].path} that a batch has several times one by one"


def build_optimizer(
    model: keras.Model, weights: Sequence[keras.Variable], row: keras.Variable, flat: Flattener,
    rates: FloatArray | None,
) -> keras.optimizers.Optimizer:  # fmt: skip
    """One for the row (R, P), which clips, decays and constrains each replica's weights as the model's own does.

    weights: the model's, in the order in which `flat` cuts the row; rates: of each replica (R); None: the optimizer has
    a schedule.
    """
    own, tables = model.optimizer, [id(one) for one in find_tables(model)]
    # the loss is not scaled here, so that its gradients are not to be scaled back
    left_out = (*CLIPPING, "loss_scale_factor")
    arguments = {key: value for key, value in own.get_config().items() if key not in left_out}
    limits = {key: value for key in CLIPPING if (value := getattr(own, key, None))}
    decays = np.concatenate(
        [np.full(size, own._use_weight_decay(v)) for size, v in zip(flat.sizes, weights, strict=True)]
    )
    places = [next(n for n, one in enumerate(weights) if id(one) == table) for table in tables]
    kind = _make_kind(type(own), flat, limits, None if decays.all() else decays, places)
    found: keras.optimizers.Optimizer = kind.from_config(arguments | {"name": own.name})
    found.build([row])
    if rates is not None:
        found._learning_rate.assign(rates[0])
        found.rates = keras.Variable(rates[:, None], trainable=False, dtype=row.dtype, name="rates")
    row.constraint = _make_constraint(flat, [variable.constraint for variable in weights])
    return found


def _make_kind(
    kind: type[Any], flat: Flattener, limits: dict[str, float], decays: Any, tables: Sequence[int]
) -> type[Any]:
    """The optimizer's class, for a row of all replicas' weights; tables: places of those with squares of their own."""

    class RowOptimizer(kind):
        rates: keras.Variable | None = None
        probed: Sequence[tf.Tensor] = ()  # sums of squares of the tables' gradients (R, ...)

        def _get_current_learning_rate(self) -> Any:
            return super()._get_current_learning_rate() if self.rates is None else self.rates

        def _clip_gradients(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
            self.squares = None
            if not (limits or tables):
                return list(gradients)
            (row,) = gradients
            parts = flat.split(row)
            squares = [one * one for one in parts]
            for place, value in zip(tables, self.probed, strict=True):
                squares[place] = value
            parts, squares = clip(parts, limits, squares, tables)
            self.squares = flat.join(squares) if tables else None
            return [flat.join(parts)]

        def update_step(self, gradient: tf.Tensor, variable: Any, learning_rate: Any) -> None:
            step = kind.update_step
            if self.squares is not None and kind in QUADRATIC:
                step = _use_squares(step, gradient, self.squares)
            step(self, gradient, variable, learning_rate)

        def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
            if self.weight_decay is None:
                return
            for variable in variables:
                amount = tf.cast(self.weight_decay, variable.dtype) * tf.cast(self.learning_rate, variable.dtype)
                change = variable * amount
                variable.assign_sub(change if decays is None else tf.where(decays[None], change, tf.zeros_like(change)))

    RowOptimizer.__name__ = RowOptimizer.__qualname__ = kind.__name__
    return RowOptimizer


class _SquaringOperations:
    """Keras' operations; the square of one tensor is given."""

    def __init__(self, operations: Any, tensor: tf.Tensor, square: tf.Tensor) -> None:
        self._operations, self._tensor, self._square = operations, tensor, square

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def cast(self, x: Any, dtype: Any) -> Any:
        found = self._operations.cast(x, dtype)
        if x is self._tensor:
            self._tensor = found
        return found

    def square(self, x: Any) -> Any:
        return self._square if x is self._tensor else self._operations.square(x)


def _use_squares(step: Callable[..., None], gradient: tf.Tensor, squares: tf.Tensor) -> Callable[..., None]:
    """Keras' own step of an optimizer, in which the square of the gradient is another tensor."""
    names = step.__globals__
    return FunctionType(
        step.__code__,
        {**names, "ops": _SquaringOperations(names["ops"], gradient, squares)},
        step.__name__,
        step.__defaults__,
        step.__closure__,
    )


def clip(
    gradients: Sequence[tf.Tensor], limits: dict[str, float], squares: Sequence[tf.Tensor], tables: Sequence[int] = ()
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Gradients (R, ...), each replica's clipped as Keras clips those of a model alone, and their squares.

    tables: places of those whose squares are not those of the gradients.
    """
    if "clipnorm" in limits:
        pairs = [
            _scale_table(g, s, limits["clipnorm"]) if place in tables else (_clip_norm(g, limits["clipnorm"]), s)
            for place, (g, s) in enumerate(zip(gradients, squares, strict=True))
        ]
        return [g for g, _ in pairs], [s if place in tables else g * g for place, (g, s) in enumerate(pairs)]
    if "global_clipnorm" in limits:
        limit = limits["global_clipnorm"]  # a Python number: a cast would round it to float32 on its way
        norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.reshape(one, [one.shape[0], -1]), axis=1) for one in squares]))
        scale = limit * tf.minimum(1.0 / norm, 1.0 / limit) + (norm - norm)  # nan where the norm is not finite
        found = [one * tf.reshape(scale, [-1] + [1] * (len(one.shape) - 1)) for one in gradients]
        return found, [one * one for one in found]  # Keras sums the rows of a table to scale them
    if "clipvalue" in limits:
        found = [tf.clip_by_value(one, -limits["clipvalue"], limits["clipvalue"]) for one in gradients]
        return found, [one * one for one in found]
    return list(gradients), list(squares)


def _clip_norm(gradient: tf.Tensor, limit: float) -> tf.Tensor:
    if len(gradient.shape) == 1:
        return map_replicas(lambda g: tf.clip_by_norm(g, limit), gradient)
    return tf.clip_by_norm(gradient, limit, axes=[*range(1, len(gradient.shape))])


def _scale_table(gradient: tf.Tensor, squares: tf.Tensor, limit: float) -> tuple[tf.Tensor, tf.Tensor]:
    norm = tf.sqrt(tf.reduce_sum(squares, [*range(1, len(squares.shape))], keepdims=True))
    scale = limit / tf.maximum(norm, limit)
    return gradient * scale, squares * scale * scale


def _make_constraint(flat: Flattener, constraints: Sequence[Any]) -> Callable[[Any], tf.Tensor] | None:
    """What keeps the weights of a row where they belong, also on numbers of their own types."""
    if not any(constraints) and not flat.dtypes:
        return None

    def constrain(row: Any) -> tf.Tensor:
        parts = zip(flat.split(tf.convert_to_tensor(row)), constraints, strict=True)
        return flat.join([part if one is None else map_replicas(one, part) for part, one in parts])

    return constrain
