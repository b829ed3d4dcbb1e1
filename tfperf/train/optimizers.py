"""Element-wise Keras optimizers on stacked variables, clipped per replica."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfperf.runcard.optimizers import Optimizer


def build_optimizer(card: Optimizer, variables: Sequence[keras.Variable]) -> keras.optimizers.Optimizer:
    """The card's optimizer with its slots made; clipping is left to `clip`."""
    # named, lest Keras gives every one in a process another name, and what is traced with it
    kind = getattr(keras.optimizers, card.name)
    optimizer: keras.optimizers.Optimizer = kind(**card.arguments(), name=card.name.lower())
    optimizer.build(list(variables))
    return optimizer


def _squared_norm(gradient: tf.Tensor) -> tf.Tensor:
    """Sum of squares of each replica: (R, ...) -> (R)."""
    return tf.reduce_sum(gradient * gradient, axis=list(range(1, len(gradient.shape))))


def _scaled(gradient: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    return gradient * tf.reshape(factor, [-1] + [1] * (len(gradient.shape) - 1))


def clip(card: Optimizer, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Gradients (R, ...) clipped as Keras clips those of a single network, replica by replica.

    `clipnorm`: norm of each variable; `global_clipnorm`: norm over all variables; `clipvalue`: each entry.
    """
    if card.clipvalue is not None:
        return [tf.clip_by_value(g, -card.clipvalue, card.clipvalue) for g in gradients]
    if card.clipnorm is not None:
        limit = tf.constant(card.clipnorm, gradients[0].dtype)
        return [_scaled(g, limit / tf.maximum(tf.sqrt(_squared_norm(g)), limit)) for g in gradients]
    if card.global_clipnorm is not None:
        limit = tf.constant(card.global_clipnorm, gradients[0].dtype)
        norm = tf.sqrt(tf.add_n([_squared_norm(g) for g in gradients]))
        return [_scaled(g, limit / tf.maximum(norm, limit)) for g in gradients]
    return list(gradients)
