"""Layers without weights that look at one sample at a time: the replicas are folded into the batch."""

from collections.abc import Collection
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import layers

from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.calls import (
    count_axes,
    is_cut_by_samples,
    is_over_samples,
    list_calls,
    list_constants,
    list_tensors,
)
from tfperf.workloads.keras.stacked.replicas import fold, unfold

ALONG_AXES = (layers.Concatenate, layers.Softmax, layers.UnitNormalization)  # the axes are told to the layer


@register
class FoldedLayer(StackedLayer[keras.layers.Layer]):
    """The template's own layer, called once with the samples of all replicas."""

    kinds: ClassVar[tuple[type[Any], ...]] = (
        layers.ReLU, layers.LeakyReLU, layers.ELU, layers.Softmax, layers.Identity,
        layers.Flatten, layers.Reshape, layers.Permute, layers.RepeatVector,
        layers.Cropping1D, layers.Cropping2D, layers.Cropping3D,
        layers.ZeroPadding1D, layers.ZeroPadding2D, layers.ZeroPadding3D,
        layers.UpSampling1D, layers.UpSampling2D, layers.UpSampling3D,
        layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D,
        layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D,
        layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D, layers.GlobalAveragePooling3D,
        layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D, layers.GlobalMaxPooling3D,
        layers.AdaptiveAveragePooling1D, layers.AdaptiveAveragePooling2D, layers.AdaptiveAveragePooling3D,
        layers.AdaptiveMaxPooling1D, layers.AdaptiveMaxPooling2D, layers.AdaptiveMaxPooling3D,
        layers.Subtract, layers.Multiply, layers.Maximum, layers.Minimum,
        layers.Concatenate, layers.Dot, layers.Masking, layers.Rescaling, layers.UnitNormalization,
        layers.Resizing, layers.CenterCrop,
    )  # fmt: skip

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """Axes that join samples are not stacked, nor constants beside the tensors."""
        for call in list_calls(layer):
            if any(count_axes(one) for one in list_constants(call)):
                return "it is called with a constant"
            if reason := _refuse_samples(layer, [count_axes(one) for one in list_tensors(call)]):
                return reason
        return None

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """Of folded inputs, unfolded."""
        return call_folded(self.layer, values.replicas, *inputs, **options)


@register
class FoldedSum(FoldedLayer):
    """Layers that add their inputs up, those of one number a sample first."""

    kinds = (layers.Add, layers.Average)

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> Any:
        """Of folded inputs, unfolded."""
        (terms,) = inputs
        return call_folded(self.layer, values.replicas, sorted(terms, key=lambda one: not is_number(one)), **options)


def is_number(tensor: Any) -> bool:
    """Whether a tensor (R, B, ...) has one number for each sample.

    As second operand, and with as many samples as the first has features, Keras would take it for a bias.
    """
    return isinstance(tensor, tf.Tensor) and all(size == 1 for size in tensor.shape[2:])


def _refuse_samples(layer: Any, counts: list[int]) -> str | None:
    """Why a layer looks beyond a sample where its tensors have so many axes; None where it does not."""
    if isinstance(layer, ALONG_AXES) and any(is_over_samples(layer.axis, count) for count in counts):
        return "its axes include that of the samples"
    if isinstance(layer, layers.Rescaling) and any(
        is_cut_by_samples(one, count) for one in (layer.scale, layer.offset) for count in counts
    ):
        return "it scales each sample of a batch by another number"
    return None


def call_folded(layer: Any, replicas: int, *inputs: Any, **options: Any) -> Any:
    """What a layer gives of tensors (R, B, ...) when it is called with (R B, ...); masks go along."""
    inputs, options = (fold_nest(one) for one in (inputs, options))
    return unfold_nest(layer(*inputs, **options), replicas)


def fold_nest(nest: Any, constants: Collection[int] = ()) -> Any:
    """Tensors (R, B, ...) as (R B, ...), with their masks; constants: identities of what is left as it is."""

    def fold_one(tensor: Any) -> Any:
        if not isinstance(tensor, tf.Tensor) or id(tensor) in constants:
            return tensor
        return move_mask(tensor, fold(tensor), fold)

    return keras.tree.map_structure(fold_one, nest)


def unfold_nest(nest: Any, replicas: int) -> Any:
    """Tensors (R B, ...) as (R, B, ...), with their masks, and the logits by which Keras computes cross-entropies."""

    def unfold_one(tensor: Any) -> Any:
        target = move_mask(tensor, unfold(tensor, replicas), lambda mask: unfold(mask, replicas))
        if hasattr(tensor, "_keras_logits"):
            target._keras_logits = unfold(tensor._keras_logits, replicas)
        return target

    return keras.tree.map_structure(unfold_one, nest)


def move_mask(source: tf.Tensor, target: tf.Tensor, change: Any) -> tf.Tensor:
    """The target, with what a function makes of the source's mask."""
    mask = getattr(source, "_keras_mask", None)
    if mask is not None:
        target._keras_mask = change(mask)
    return target
