"""Batches that Python code makes, as Keras and tf.data take them, and what they have in common."""

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfperf.arrays import AnyArray
from tfperf.errors import UserError

Nest = Any  # an array (N, ...), or a dict or tuple of nests


def to_batch(found: Any) -> Nest:
    """A tuple of nests of arrays, or a dict of inputs alone; floats become floatx, as in Keras' own `fit`."""
    if isinstance(found, Mapping):
        return keras.tree.map_structure(_to_array, _replace_lists(found))
    data = found if isinstance(found, tuple) else tuple(found) if isinstance(found, list) else (found,)
    while len(data) > 1 and data[-1] is None:
        data = data[:-1]
    return tuple(keras.tree.map_structure(_to_array, _replace_lists(part)) for part in data)


def _replace_lists(value: Any) -> Any:
    """Lists of arrays as tuples, as in Keras' own `fit`; those of numbers or texts, as torch collates, as arrays."""
    if isinstance(value, Mapping):
        return {key: _replace_lists(one) for key, one in value.items()}
    if isinstance(value, list | tuple) and value and all(isinstance(one, str | bytes | Number) for one in value):
        return np.array(value)
    several = isinstance(value, list) and value and all(hasattr(one, "__array__") and np.ndim(one) for one in value)
    return tuple(map(_replace_lists, value)) if several or isinstance(value, tuple) else value


def _to_array(value: Any) -> AnyArray:
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # of torch: one with a gradient or on a GPU is no array yet
        value = value.detach().cpu().numpy()  # which shares its memory
    array = np.asarray(value)
    return array.astype(keras.config.floatx(), copy=False) if array.dtype.kind == "f" else array


def make_spec(batches: Sequence[Nest], what: str) -> Nest:
    """A nest of TensorSpec for all batches, from some: lengths that differ are unknown, those of batches always are.

    what: who makes them, for messages. Raises: UserError where they differ otherwise, or are no batches.
    """

    def merge(*arrays: AnyArray) -> tf.TensorSpec:
        first = arrays[0]
        if first.dtype.kind not in "biufUS" or not first.ndim:
            raise UserError(
                f"{what}: a batch holds {first.dtype} of shape {first.shape}; must hold arrays of numbers or texts "
                "whose first axis is the sample"
            )
        shape = [n if all(one.shape[i] == n for one in arrays) else None for i, n in enumerate(first.shape)]
        return tf.TensorSpec([None, *shape[1:]], _get_type(first))

    try:
        return keras.tree.map_structure(merge, *batches)
    except (ValueError, TypeError, IndexError) as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(f"{what}: its batches differ in what they hold: {said}") from None


def check_batch(batch: Nest, spec: Nest) -> Nest:
    """The batch. Raises: ValueError where it does not fit what the first batches were like."""
    try:
        keras.tree.assert_same_structure(batch, spec)
    except (ValueError, TypeError):
        raise ValueError(f"it holds {_describe(batch)}, where the first batches hold {_describe(spec)}") from None
    for array, one in zip(keras.tree.flatten(batch), keras.tree.flatten(spec), strict=True):
        if _get_type(array) != one.dtype or not one.shape.is_compatible_with(array.shape):
            raise ValueError(
                f"it holds {array.dtype} of shape {array.shape}, where the first batches hold {one.dtype.name} of "
                f"shape {one.shape}"
            )
    return batch


def are_equal(one: Nest, other: Nest) -> bool:
    """Whether two batches, or samples, hold the same values.

    >>> are_equal((np.array([1, np.nan]),), (np.array([1, np.nan]),)), are_equal((np.array(1),), (np.array(2),))
    (True, False)
    """
    first, second = keras.tree.flatten(one), keras.tree.flatten(other)
    return len(first) == len(second) and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(first, second, strict=True)
    )


def _describe(nest: Nest) -> str:
    if isinstance(nest, dict):
        return f"a dict of {', '.join(map(str, nest))}"
    return f"{len(nest)} things" if isinstance(nest, tuple) and len(nest) > 1 else "an array"


def _get_type(array: AnyArray) -> tf.DType:
    return tf.string if array.dtype.kind in "US" else tf.as_dtype(array.dtype)
