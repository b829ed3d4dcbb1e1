"""The compiled loss of a model, for each replica by itself. B samples of each of R replicas."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.src.losses.loss import squeeze_or_expand_to_same_rank
from keras.src.losses.losses import LossFunctionWrapper
from keras.src.trainers.compile_utils import CompileLoss

from tfperf.workloads.keras.stacked.replicas import fold, map_replicas, unfold

# functions that give a number for each sample, or place in it, and look at nothing else of the batch
SAMPLEWISE = tuple(
    getattr(keras.losses, name)
    for name in (
        "binary_crossentropy", "binary_focal_crossentropy", "categorical_crossentropy",
        "categorical_focal_crossentropy", "categorical_hinge", "cosine_similarity", "hinge", "huber", "kl_divergence",
        "log_cosh", "mean_absolute_error",
        "mean_absolute_percentage_error", "mean_squared_error", "mean_squared_logarithmic_error", "poisson",
        "sparse_categorical_crossentropy", "squared_hinge",
    )
)  # fmt: skip
# classes whose `call` is that function; one of the user's may look at all samples of a batch
OWN = (
    LossFunctionWrapper,
    *(one for one in vars(keras.losses).values() if isinstance(one, type) and issubclass(one, LossFunctionWrapper)),
)
MEANS = ("sum_over_batch_size", "mean")


def refuse_loss(model: keras.Model) -> str | None:
    """Why a model's loss cannot be taken replica by replica, in words; None where it can."""
    if type(model).compute_loss is not keras.Model.compute_loss:
        return "the model has a compute_loss of its own"
    if not isinstance(model._compile_loss, CompileLoss):
        return "the model is compiled without a loss"
    losses = [loss for _, loss, _, _ in model._compile_loss._flat_losses or ()]
    if any(getattr(loss, "reduction", "sum") in (None, "none") for loss in losses):
        return "its loss has no reduction: it is a number for each sample"
    return None


def compute_losses(
    model: keras.Model, targets: Any, outputs: Any, weights: Any, loss_weights: tf.Tensor | None = None
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The compiled loss of each replica (R), and of each output (R each) before the outputs' own weights.

    targets, outputs, weights: (R, B, ...) each, or nests of them; loss_weights: of each replica (R).
    """
    compiled = model._compile_loss
    total, each = tf.zeros([], keras.config.floatx()), []
    for path, loss, weight, _ in compiled._flat_losses:
        y, y_pred = (
            _resolve(targets, path, compiled, "_y_true_build_structure"),
            _resolve(outputs, path, compiled, "_y_pred_build_structure"),
        )
        own = _resolve(weights, path, compiled, None) if keras.tree.is_nested(weights) else weights
        value = tf.cast(compute_loss(loss, y, y_pred, own), compiled.dtype)
        each.append(value)
        total = total + (value if weight is None else value * weight)
    return (total if loss_weights is None else total * loss_weights), each


def _resolve(nest: Any, path: Sequence[Any], compiled: CompileLoss, structure: str | None) -> Any:
    if not keras.tree.is_nested(nest):
        return nest
    if structure is not None:
        nest = keras.tree.pack_sequence_as(getattr(compiled, structure), keras.tree.flatten(nest))
    for place in path:
        nest = nest[place]
    return nest


def compute_loss(loss: Any, y: tf.Tensor, y_pred: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
    """One loss of each replica (R)."""
    mask, logits = getattr(y_pred, "_keras_mask", None), getattr(y_pred, "_keras_logits", None)
    if _is_samplewise(loss) and len(y_pred.shape) > 2:
        return _reduce(loss, unfold_values(loss, y, y_pred), weights, mask)
    given = [y, y_pred, *(one for one in (weights, mask, logits) if one is not None)]

    def compute(y: tf.Tensor, y_pred: tf.Tensor, *more: tf.Tensor) -> tf.Tensor:
        rest = list(more)
        own = None if weights is None else rest.pop(0)
        if mask is not None:
            y_pred._keras_mask = rest.pop(0)
        if logits is not None:
            y_pred._keras_logits = rest.pop(0)
        return loss(y, y_pred, own)

    return map_replicas(compute, *given)


def _is_samplewise(loss: Any) -> bool:
    """Whether it is one of Keras' own, which give each sample a value of its own, of its last axis."""
    if type(loss) not in OWN or loss.reduction not in (*MEANS, "sum"):
        return False
    return loss.fn in SAMPLEWISE and loss._fn_kwargs.get("axis", -1) == -1


def unfold_values(loss: Any, y: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """What a loss gives of each sample, or place in it (R, B, ...)."""
    replicas = y_pred.shape[0]
    targets, outputs = tf.cast(fold(y), loss.dtype), tf.cast(fold_outputs(y_pred), loss.dtype)
    return unfold(tf.convert_to_tensor(loss.call(targets, outputs)), replicas)


def fold_outputs(y_pred: tf.Tensor) -> tf.Tensor:
    """A model's outputs folded into the batch, with the logits that Keras computes cross-entropies from."""
    folded = fold(y_pred)
    if hasattr(y_pred, "_keras_logits"):
        folded._keras_logits = fold(y_pred._keras_logits)
    return folded


def _reduce(loss: Any, values: tf.Tensor, weights: tf.Tensor | None, mask: tf.Tensor | None) -> tf.Tensor:
    """As Keras reduces the values of one replica: weighted, masked, their mean or sum."""
    axes = [*range(1, len(values.shape))]
    weights = apply_mask(weights, mask, values.dtype, rescale=loss.reduction in MEANS)
    if weights is not None:
        values = values * expand_weights(values, tf.cast(weights, values.dtype))
    total = tf.reduce_sum(values, axes)
    if loss.reduction == "sum":
        return total
    return total / tf.cast(tf.reduce_prod(tf.shape(values)[1:]), total.dtype)


def expand_weights(values: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Weights (R, B, ...) with as many axes as the values."""
    replicas = values.shape[0]
    return unfold(squeeze_or_expand_to_same_rank(fold(values), fold(weights))[1], replicas)


def apply_mask(weights: tf.Tensor | None, mask: tf.Tensor | None, dtype: tf.DType, rescale: bool) -> tf.Tensor | None:
    """Weights of what is not masked; rescale: so that the mean of all is that of what is not masked."""
    if mask is None:
        return weights
    kept = tf.cast(mask, dtype)
    if rescale:
        axes = [*range(1, len(kept.shape))]
        count = tf.cast(tf.reduce_prod(tf.shape(kept)[1:]), dtype)
        kept *= tf.math.divide_no_nan(count, tf.reduce_sum(kept, axes, keepdims=True))
    if weights is None:
        return kept
    replicas = kept.shape[0]
    pair = squeeze_or_expand_to_same_rank(fold(kept), fold(tf.cast(weights, dtype)))
    return unfold(pair[1] * pair[0], replicas)
