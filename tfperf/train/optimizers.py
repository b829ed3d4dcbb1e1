"""Element-wise Keras optimizers on stacked variables, clipped per replica."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfperf.runcard.optimizers import ReplicaOptimizer


def build_optimizer(options: ReplicaOptimizer, variables: Sequence[keras.Variable]) -> keras.optimizers.Optimizer:
    """The card's optimizer with its slots made; clipping is left to `clip`."""
    # named, lest Keras gives every one in a process another name, and what is traced with it
    kind = getattr(keras.optimizers, options.name)
    optimizer: keras.optimizers.Optimizer = kind(**options.make_arguments(), name=options.name.lower())
    optimizer.build(list(variables))
    return optimizer


def _compute_squared_norm(gradient: tf.Tensor) -> tf.Tensor:
    """Sum of squares of each replica: (R, ...) -> (R)."""
    return tf.reduce_sum(gradient * gradient, axis=list(range(1, len(gradient.shape))))


def _scale(gradient: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    return gradient * tf.reshape(factor, [-1] + [1] * (len(gradient.shape) - 1))


def clip(options: ReplicaOptimizer, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Gradients (R, ...) clipped as Keras clips those of a single network, replica by replica.

    `clipnorm`: norm of each variable; `global_clipnorm`: norm over all variables; `clipvalue`: each entry.
    """
    if options.clipvalue is not None:
        return [tf.clip_by_value(g, -options.clipvalue, options.clipvalue) for g in gradients]
    if options.clipnorm is not None:
        limit = tf.constant(options.clipnorm, gradients[0].dtype)
        return [_scale(g, limit / tf.maximum(tf.sqrt(_compute_squared_norm(g)), limit)) for g in gradients]
    if options.global_clipnorm is not None:
        limit = tf.constant(options.global_clipnorm, gradients[0].dtype)
        norm = tf.sqrt(tf.add_n([_compute_squared_norm(g) for g in gradients]))
        return [_scale(g, limit / tf.maximum(norm, limit)) for g in gradients]
    return list(gradients)
