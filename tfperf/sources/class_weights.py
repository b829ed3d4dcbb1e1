"""Weights of classes as weights of their samples."""

from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from tfperf.errors import CardError
from tfperf.runcard.faults import format_names
from tfperf.sources.data import Data
from tfperf.sources.samples import Nest, Samples


def weigh_classes(data: Data, weights: Mapping[int, float], key: str) -> Data:
    """Data whose samples have the weights of their classes, 1 where a class has none.

    key: the card's, for messages. Raises: CardError where targets are no classes, or samples have weights already.
    """
    _refuse(data.data if isinstance(data, Samples) else data.element_spec, key)
    _refuse_absent(data, weights, key)
    table = np.ones(max(weights) + 2, keras.config.floatx())  # its last entry is for all other classes
    for number, weight in weights.items():
        table[number] = weight
    if isinstance(data, Samples):
        return Samples((*data.data[:2], _find_weights(data.data[1], table).numpy()))
    spec = tf.TensorSpec([None], tf.as_dtype(table.dtype))
    data.apply_to_batches(
        lambda inputs, targets: (inputs, targets, _find_weights(targets, table)), (*data.element_spec, spec)
    )
    return data


def _refuse(data: Nest, key: str) -> None:
    if not isinstance(data, tuple) or len(data) < 2:
        raise CardError(f"{key}: the data have no targets")
    if len(data) > 2:
        raise CardError(f"{key}: the data have sample weights of their own; leave one of them out")
    targets = keras.tree.flatten(data[1])
    what = "must be the number of a class (N) or (N, 1), or one-hot (N, classes)"
    if len(targets) > 1:
        raise CardError(f"{key}: the data have {len(targets)} targets; {what}")
    shape, kind = targets[0].shape, tf.as_dtype(targets[0].dtype)
    if len(shape) not in (1, 2) or not (kind.is_integer or kind.is_floating or kind.is_bool):
        raise CardError(f"{key}: the targets are {kind.name} of shape {tuple(shape)}; {what}")


def _refuse_absent(data: Data, weights: Mapping[int, float], key: str) -> None:
    """CardError for classes that no target can be of, as far as that is known before training."""
    (targets,) = keras.tree.flatten((data.data if isinstance(data, Samples) else data.element_spec)[1])
    width = targets.shape[1] if len(targets.shape) == 2 else 1
    if width is None or (width == 1 and not isinstance(data, Samples)):
        return
    classes = {*range(width)} if width > 1 else {int(one) for one in np.unique(np.round(targets)) if np.isfinite(one)}
    if absent := [number for number in weights if number not in classes]:
        there = format_names([str(one) for one in sorted(classes)])
        raise CardError(*(f"{key}.{one}: no training sample is of this class; there are: {there}" for one in absent))


def _find_weights(targets: Nest, table: np.ndarray) -> tf.Tensor:
    """Weights (N) of targets (N), (N, 1) or (N, classes)."""
    (found,) = map(tf.convert_to_tensor, keras.tree.flatten(targets))
    if found.shape.rank == 2:
        found = found[:, 0] if found.shape[1] == 1 else tf.argmax(found, axis=1)
    numbers = tf.cast(tf.round(found) if found.dtype.is_floating else found, tf.int64)
    others = len(table) - 1
    return tf.gather(tf.constant(table), tf.where((numbers >= 0) & (numbers < others), numbers, others))
