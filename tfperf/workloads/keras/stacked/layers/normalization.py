"""Normalization by a mean and variance that were found before: they are the template's, for all replicas."""

from typing import Any

import keras

from tfperf.workloads.keras.stacked.layer import register
from tfperf.workloads.keras.stacked.layers.folded import FoldedLayer


@register
class StackedNormalization(FoldedLayer):
    """The template's own layer: what it has adapted to is a constant of its program, also where it is alone."""

    kinds = (keras.layers.Normalization,)

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """A mean for each sample of a batch is not stacked."""
        if 0 in layer._keep_axis:
            return "its axes include that of the samples"
        return super().refuse(layer)
