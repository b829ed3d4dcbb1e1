"""How many replicas of a Keras model are trained together: as many as fit the memory."""

from collections.abc import Iterable
from math import prod
from typing import Any

import keras
import tensorflow as tf

from tfperf.measure.environment import count_cores, list_gpus, read_available_bytes, read_memory_bytes
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.replicas.forms import LANES
from tfperf.workloads.keras.replicas.template import ModelTemplate
from tfperf.workloads.keras.stacked.network import list_reasons

SHARE = 0.7  # of the memory that is free: other programs want some, and the estimate errs
# of a replica's variables there are: its start, those of its loop, their last snapshot on the host
COPIES = 3
# of its weights beside these: the best ones, on the device and the host, gradient, and a spare one of an update
WEIGHT_COPIES = 4
ACTIVATION_COPIES = 3  # of what layers give: forward, backward, and one to spare


def choose_chunk_size(card: KerasCard, template: ModelTemplate, total: int) -> int:
    """How many of `total` replicas are trained together."""
    if card.engine.chunk != "auto":
        return card.engine.chunk
    budget = SHARE * read_free_bytes()
    weights, every = (_count_bytes(found.values()) for found in (template.weights, template.variables))
    kept = COPIES * every + WEIGHT_COPIES * weights
    activations = ACTIVATION_COPIES * count_activation_bytes(template.model, template.batch)
    # lanes take their steps one beside the other on a CPU's cores
    in_lanes = card.engine.form == LANES or bool(list_reasons(template.model))
    side = min(total, count_cores()) if in_lanes else total

    def estimate(together: int) -> float:
        return together * kept + min(side, together) * activations + total * weights

    while total > 1 and estimate(total) > budget:
        total = -(-total // 2)
    return total


def read_free_bytes() -> float:
    """Of the memory that training can take: of all GPUs, else of the machine."""
    gpus = [gpu["memory_bytes"] for gpu in list_gpus() if gpu.get("memory_bytes")]
    if gpus and tf.config.list_physical_devices("GPU"):
        return float(sum(gpus))
    return float(read_available_bytes() or read_memory_bytes() / 2)


def _count_bytes(variables: Iterable[tf.Variable]) -> int:
    return sum(prod(one.shape) * one.dtype.size for one in variables)


def count_activation_bytes(model: keras.Model, batch: int) -> int:
    """Bytes of what the layers of a functional or sequential model give for a batch; 0 of another model."""
    inner: Any = getattr(model, "_functional", None) or model
    total = 0
    for operation in getattr(inner, "operations", ()):
        if isinstance(operation, keras.Model):
            total += count_activation_bytes(operation, batch)
        for node in operation._inbound_nodes:
            for tensor in node.output_tensors:
                sizes = [batch if number == 0 else size for number, size in enumerate(tensor.shape)]
                # an axis of unknown length counts once
                total += prod(size or 1 for size in sizes) * tf.as_dtype(tensor.dtype).size
    return total
