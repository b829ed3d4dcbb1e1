"""Tensors of R replicas: folded into the batch, and taken one by one. B samples of each; (R, B, ...)."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

Nest = Any


def fold(tensor: tf.Tensor) -> tf.Tensor:
    """(R, B, ...) as (R B, ...)."""
    return _change_axes(tensor, [_multiply(*tensor.shape[:2])], 2)


def unfold(tensor: tf.Tensor, replicas: int) -> tf.Tensor:
    """(R B, ...) as (R, B, ...)."""
    whole = tensor.shape[0]
    batch = -1 if whole is None else whole // replicas
    return _change_axes(tensor, [replicas, batch], 1)


def _change_axes(tensor: tf.Tensor, first: list[int], behind: int) -> tf.Tensor:
    """With other first axes, of which -1 is unknown, and those behind some as they are, which may be unknown."""
    inner = tensor.shape[behind:]
    if None not in inner:
        return tf.reshape(tensor, [*first, *inner])
    found = tf.reshape(tensor, tf.concat([first, tf.shape(tensor)[behind:]], 0))
    return tf.ensure_shape(found, [*(None if n < 0 else n for n in first), *inner])


def _multiply(replicas: int | None, batch: int | None) -> int:
    return -1 if replicas is None or batch is None else replicas * batch


def map_replicas(function: Callable[..., Nest], *tensors: tf.Tensor) -> Nest:
    """What a function of one replica's tensors (...) gives for each: a nest of tensors (R, ...)."""
    shapes = tf.function(lambda *some: function(*some), autograph=False).get_concrete_function(
        *(tf.TensorSpec(one.shape[1:], one.dtype) for one in tensors)
    )
    signature = keras.tree.map_structure(lambda one: tf.TensorSpec(one.shape, one.dtype), shapes.structured_outputs)
    return tf.map_fn(lambda some: function(*some), tensors, fn_output_signature=signature)
