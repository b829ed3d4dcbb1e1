"""How a trainable is trained: where, by which optimizer, in which arithmetic. TensorFlow is not imported."""

from dataclasses import dataclass
from typing import Literal

from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.placement import Placement


@dataclass(frozen=True, kw_only=True)
class Method:
    """xla: each device's pass is compiled by it; embedding_gradients: what of them is sent, rows or whole tables."""

    placement: Placement
    optimizer: ModelOptimizer
    precision: Literal["float32", "float64"] = "float32"
    xla: bool = False
    embedding_gradients: Literal["sparse", "dense"] = "sparse"
