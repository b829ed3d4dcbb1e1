"""Pictures that are changed at random, which each replica draws from its own seed as it would alone."""

from typing import Any, ClassVar

import tensorflow as tf
from keras import layers

from tfperf.workloads.keras.stacked.draws import draw_replicas
from tfperf.workloads.keras.stacked.layer import StackedLayer, Values, register
from tfperf.workloads.keras.stacked.layers.calls import list_calls, list_tensors
from tfperf.workloads.keras.stacked.layers.folded import call_folded
from tfperf.workloads.keras.stacked.replicas import fold, unfold


@register
class StackedAugmentation(StackedLayer[Any]):
    """The template's own layer, called for one replica after the other. Shapes: (R, B, H, W, C) to the same."""

    kinds: ClassVar[tuple[type[layers.Layer], ...]] = (
        layers.RandomBrightness, layers.RandomContrast, layers.RandomFlip, layers.RandomZoom,
    )  # fmt: skip

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """Boxes and labels that go along with pictures are left to lanes."""
        alone = all(len(list_tensors(call)) == 1 for call in list_calls(layer))
        return None if alone else "it is called with more than pictures"

    def call(self, values: Values, *inputs: Any, training: bool, **options: Any) -> tf.Tensor:
        """The pictures, changed while they are trained on alone."""
        (x,) = inputs
        if not training:
            return call_folded(self.layer, values.replicas, x, training=False)
        return self._change(values, x)

    def _change(self, values: Values, x: tf.Tensor) -> tf.Tensor:
        layer = self.layer
        return draw_replicas(values, layer.generator, lambda one: layer.call(one, training=True), x)


@register
class StackedMotion(StackedAugmentation):
    """Only what is drawn is drawn one after the other; all pictures are moved at once, which is most of the work."""

    kinds = (layers.RandomRotation, layers.RandomTranslation)

    def _change(self, values: Values, x: tf.Tensor) -> tf.Tensor:
        layer = self.layer
        name = "translations" if isinstance(layer, layers.RandomTranslation) else "rotation_matrix"
        picture = tf.zeros(x.shape[1:], x.dtype)  # of which nothing but the shape is looked at
        motions = draw_replicas(
            values, layer.generator, lambda: layer.get_random_transformation(picture, training=True)[name]
        )
        return unfold(layer.transform_images(fold(x), {name: fold(motions)}, training=True), values.replicas)
