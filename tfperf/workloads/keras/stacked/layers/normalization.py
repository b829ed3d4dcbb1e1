"""Normalization by a mean and variance that were found before: they are the template's, for all replicas."""

import keras

from tfperf.workloads.keras.stacked.layer import register
from tfperf.workloads.keras.stacked.layers.folded import FoldedLayer


@register
class StackedNormalization(FoldedLayer):
    """The template's own layer: what it has adapted to is a constant of its program, also where it is alone."""

    kinds = (keras.layers.Normalization,)
