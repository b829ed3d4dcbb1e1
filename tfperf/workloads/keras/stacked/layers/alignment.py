"""Weights and masks of R replicas beside the tensors that they are for. B samples of each; (R, B, ...)."""

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf


def shift_axes(axes: Iterable[int], rank: int) -> list[int]:
    """Axes of one replica's tensor as those of a tensor of all, which has `rank` axes."""
    return [axis % (rank - 1) + 1 for axis in axes]


def align_weights(weights: tf.Tensor, x: tf.Tensor, axes: Iterable[int]) -> tf.Tensor:
    """Weights (R, n, ...) as (R, 1, ..., n, ..., 1), to be used with x; axes: theirs in x, which count from R."""
    shape = [1] * len(x.shape)
    for axis in axes:
        shape[axis] = x.shape[axis]
    return tf.reshape(weights, [weights.shape[0], *shape[1:]])


def align_right(weights: tf.Tensor, rank: int) -> tf.Tensor:
    """Weights (R, ...) as (R, 1, ..., 1, ...), of so many axes: as one replica's are broadcast."""
    return tf.reshape(weights, [weights.shape[0], *[1] * (rank - len(weights.shape)), *weights.shape[1:]])


def find_mask(x: tf.Tensor, options: Mapping[str, Any]) -> tf.Tensor | None:
    """The mask that a layer is called with, else that of its inputs."""
    mask = options.get("mask")
    return getattr(x, "_keras_mask", None) if mask is None else mask


def set_mask(y: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """The outputs, with a mask where there is one."""
    if mask is not None:
        y._keras_mask = mask
    return y
