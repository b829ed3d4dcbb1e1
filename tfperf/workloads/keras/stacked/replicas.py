"""Tensors of R replicas: folded into the batch, and taken one by one. B samples of each; (R, B, ...)."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

Nest = Any


def fold(tensor: tf.Tensor) -> tf.Tensor:
    """(R, B, ...) as (R B, ...)."""
    return (
        tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], 0))
        if None in tensor.shape[2:]
        else tf.reshape(tensor, [_multiply(*tensor.shape[:2]), *tensor.shape[2:]])
    )


def unfold(tensor: tf.Tensor, replicas: int) -> tf.Tensor:
    """(R B, ...) as (R, B, ...)."""
    whole = tensor.shape[0]
    batch = -1 if whole is None else whole // replicas
    unknown = None in tensor.shape[1:]
    inner = tf.shape(tensor)[1:] if unknown else tensor.shape[1:]
    found = tf.reshape(tensor, tf.concat([[replicas, batch], inner], 0) if unknown else [replicas, batch, *inner])
    return tf.ensure_shape(found, [replicas, None if batch < 0 else batch, *tensor.shape[1:]]) if unknown else found


def _multiply(replicas: int | None, batch: int | None) -> int:
    return -1 if replicas is None or batch is None else replicas * batch


def map_replicas(function: Callable[..., Nest], *tensors: tf.Tensor) -> Nest:
    """What a function of one replica's tensors (...) gives for each: a nest of tensors (R, ...)."""
    shapes = tf.function(lambda *some: function(*some), autograph=False).get_concrete_function(
        *(tf.TensorSpec(one.shape[1:], one.dtype) for one in tensors)
    )
    signature = keras.tree.map_structure(lambda one: tf.TensorSpec(one.shape, one.dtype), shapes.structured_outputs)
    return tf.map_fn(lambda some: function(*some), tensors, fn_output_signature=signature)
