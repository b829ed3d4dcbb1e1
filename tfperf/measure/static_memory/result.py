"""What an estimate tells, and what kind of model it is of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tfperf.measure.static_memory.owners import HeldBuffer

ModelKind = Literal["dense", "convolution", "recurrent", "attention", "replicas", "encoder-decoder"]
LOOPS, PRODUCTS = ("While", "StatelessWhile", "Enter"), ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")


@dataclass(frozen=True, kw_only=True)
class StaticEstimate:
    """Bytes in use of TensorFlow's allocator at the peak of a step, and those that are there before and after it.

    buffers: alive at the peak, the largest first; kind: of the model, None: not known; compiled: whether XLA told it.
    reason: why there is no estimate; peak and fixed are None then.
    """

    peak: int | None
    fixed: int | None
    kind: ModelKind | None
    compiled: bool
    buffers: Sequence[HeldBuffer] = ()
    reason: str = ""


def find_model_kind(concrete: Any) -> ModelKind:
    """By the operations of a traced function: loops before convolutions, before products of many matrices."""
    definition = concrete.graph.as_graph_def()
    kinds = {node.op for node in definition.node}
    kinds |= {node.op for function in definition.library.function for node in function.node_def}
    if kinds & {*LOOPS}:
        return "recurrent"
    if any(kind.startswith("Conv") and kind[4:5].isdigit() for kind in kinds):
        return "convolution"
    return "attention" if kinds & {*PRODUCTS} else "dense"
