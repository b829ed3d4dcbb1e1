"""What the layers and operations of a graph are called with: symbolic tensors, and constants."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np


def list_calls(operation: Any) -> list[Any]:
    """All arguments of each call of a layer or operation, those by name too, as nests."""
    return [(node.arguments.args, node.arguments.kwargs) for node in operation._inbound_nodes]


def list_tensors(call: Any) -> list[Any]:
    """The symbolic tensors of a call, (B, ...) each."""
    return [one for one in keras.tree.flatten(call) if isinstance(one, keras.KerasTensor)]


def list_constants(call: Any) -> list[Any]:
    """All else that a call is given: numbers, arrays, tensors, names."""
    return [one for one in keras.tree.flatten(call) if not isinstance(one, keras.KerasTensor)]


def count_axes(value: Any) -> int:
    """Of a tensor, symbolic or not, or an array; 0 for a number or anything else."""
    shape = getattr(value, "shape", None)
    return len(np.shape(value) if isinstance(value, list | tuple) else () if shape is None else shape)


def is_over_samples(axis: int | Iterable[int] | None, count: int) -> bool:
    """Whether one of the axes is that of the samples, of so many axes; None: all of them. Negative: from the end."""
    if axis is None:
        return True
    return any(one % count == 0 for one in (axis if isinstance(axis, Iterable) else [axis]))


def is_cut_by_samples(constant: Any, count: int) -> bool:
    """Whether each sample would get a part of its own of a constant, beside a tensor with so many axes."""
    axes = count_axes(constant)
    return axes > count or (axes == count and np.shape(constant)[0] != 1)


def has_variables(call: Sequence[Any]) -> bool:
    """Whether a call is given a variable."""
    return any(isinstance(one, keras.Variable) for one in list_constants(call))
