"""Layers without weights that look at one sample at a time: the replicas are folded into the batch."""

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.replicas import fold, unfold


@register
class FoldedLayer(StackedLayer[keras.layers.Layer]):
    """The template's own layer, called once with the samples of all replicas."""

    kinds = (
        layers.ReLU, layers.LeakyReLU, layers.ELU, layers.Softmax, layers.Identity,
        layers.Flatten, layers.Reshape, layers.Permute, layers.RepeatVector,
        layers.Cropping1D, layers.Cropping2D, layers.Cropping3D,
        layers.ZeroPadding1D, layers.ZeroPadding2D, layers.ZeroPadding3D,
        layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D,
        layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D,
        layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D,
        layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D, layers.GlobalAveragePooling3D,
        layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D, layers.GlobalMaxPooling3D,
        layers.Add, layers.Subtract, layers.Multiply, layers.Average, layers.Maximum, layers.Minimum,
        layers.Concatenate, layers.Dot, layers.Masking, layers.Rescaling, layers.UnitNormalization,
    )  # fmt: skip

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """Of folded inputs, unfolded."""
        return call_folded(self.layer, values.replicas, *inputs, **options)


def call_folded(layer: Any, replicas: int, *inputs: Any, **options: Any) -> Any:
    """What a layer gives of tensors (R, B, ...) when it is called with (R B, ...); masks go along."""

    def fold_one(tensor: Any) -> Any:
        if not isinstance(tensor, tf.Tensor):
            return tensor
        return move_mask(tensor, fold(tensor), fold)

    def unfold_one(tensor: Any) -> Any:
        return move_mask(tensor, unfold(tensor, replicas), lambda mask: unfold(mask, replicas))

    inputs, options = (keras.tree.map_structure(fold_one, one) for one in (inputs, options))
    return keras.tree.map_structure(unfold_one, layer(*inputs, **options))


def move_mask(source: tf.Tensor, target: tf.Tensor, change: Any) -> tf.Tensor:
    """The target, with what a function makes of the source's mask."""
    mask = getattr(source, "_keras_mask", None)
    if mask is not None:
        target._keras_mask = change(mask)
    return target
