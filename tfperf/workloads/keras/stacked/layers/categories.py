"""Layers that put samples into categories, without weights."""

from typing import Any

from keras import layers

from tfperf.workloads.keras.stacked.layer import register
from tfperf.workloads.keras.stacked.layers.folded import FoldedLayer


@register
class StackedCategories(FoldedLayer):
    """The template's own layer, called once with the samples of all replicas."""

    kinds = (layers.Discretization, layers.CategoryEncoding, layers.Hashing, layers.HashedCrossing)

    @classmethod
    def refuse(cls, layer: Any) -> str | None:
        """Sparse tensors have no replicas, and of a batch without other axes Keras makes one sample."""
        if layer.sparse:
            return "it gives sparse tensors"
        ranks = {len(one.shape) for node in layer._inbound_nodes for one in node.input_tensors}
        if 1 in ranks and layer.output_mode in ("multi_hot", "count"):
            return "it takes the whole batch for one sample"
        return None
