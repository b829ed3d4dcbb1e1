"""What a layer of a graph is called with, by name, with the masks that Keras fills in."""

from inspect import signature
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.workloads.keras.stacked.layers.calls import list_calls, list_constants


def bind_arguments(layer: Any, inputs: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Every argument of the layer's call.

    Keras fills in `mask` only where one argument alone has tensors, else `NAME_mask`, and never what is given.
    """
    bound = signature(layer.call).bind(*inputs, **options)
    bound.apply_defaults()
    arguments = bound.arguments
    tensors = [name for name, value in arguments.items() if _has_tensors(value)]
    wanted = ["mask"] if len(tensors) == 1 else [f"{name}_mask" for name in tensors]
    for name, mask in zip(tensors, wanted, strict=True):
        if mask in arguments and arguments[mask] is None:
            arguments[mask] = keras.tree.map_structure(read_mask, arguments[name])
    return arguments


def convert_inputs(layer: Any, nest: Any) -> Any:
    """What a layer is called with, in the type in which it computes, with masks: as `keras.layers.Layer.__call__`.

    Constants of the graph, which have no replicas in front, are marked.
    """
    if not isinstance(layer, keras.layers.Layer) or not layer._convert_input_args:
        return nest
    constants = {id(one) for call in list_calls(layer) for one in list_constants(call)}

    def cast(value: Any) -> Any:
        found = layer.dtype_policy.convert_input(value, layer.autocast, layer.input_dtype)
        if isinstance(found, tf.Tensor) and id(value) in constants:
            found = tf.identity(found)
            found._tfperf_is_shared = True
            return found
        return value if found is value else set_mask(found, read_mask(value))

    return keras.tree.map_structure(cast, nest)


def is_shared(value: Any) -> bool:
    """Whether a converted input is a constant of the graph, which has no replicas in front."""
    return isinstance(value, np.ndarray) or getattr(value, "_tfperf_is_shared", False)


def _has_tensors(value: Any) -> bool:
    if not keras.tree.is_nested(value):
        return isinstance(value, tf.Tensor | np.ndarray)
    flat = keras.tree.flatten(value)
    return bool(flat) and all(one is None or isinstance(one, tf.Tensor | np.ndarray) for one in flat)


def read_mask(tensor: Any) -> Any:
    """The mask of a tensor, None where it has none."""
    return getattr(tensor, "_keras_mask", None)


def set_mask(tensor: tf.Tensor, mask: Any) -> tf.Tensor:
    """The tensor, with that mask."""
    if mask is not None:
        tensor._keras_mask = mask
    return tensor
