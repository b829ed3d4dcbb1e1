"""Which places of validation samples an ensemble's figures count: what Keras' loss counts. N samples."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tfperf.arrays import AnyArray, BoolMask
from tfperf.sources.samples import Samples
from tfperf.workloads.keras.replicas.predicting import find_mask


def find_weights(samples: Samples) -> AnyArray | None:
    """Sample weights of one output (N, ...); None where there are none, or of several outputs."""
    found = keras.tree.flatten(samples.data[2]) if len(samples.data) > 2 else []
    return np.asarray(found[0]) if len(found) == 1 else None


def find_masks(model: keras.Model, samples: Samples, batch_size: int) -> list[AnyArray]:
    """What excludes places, true where they count: the mask of the model's output, and weights of zero; (N, ...)."""
    mask: Any = find_mask(model, samples.data[0], batch_size)
    weights = find_weights(samples)
    return [one for one in (mask, None if weights is None else weights != 0) if one is not None]


def has_uneven_weights(weights: AnyArray | None) -> bool:
    """Whether weights differ beside those that are zero."""
    return weights is not None and len(np.unique(weights[weights != 0])) > 1


def combine_places(masks: Sequence[AnyArray], shape: tuple[int, ...]) -> BoolMask:
    """True where all of them count, at each place (N, ...) of this shape.

    One of fewer axes is of all places along the missing last ones. Raises: ValueError where one does not fit.

    >>> combine_places([np.array([True, False])], (2, 3)).sum(axis=1)
    array([3, 0])
    """
    found = np.ones(shape, bool)
    for one in masks:
        while one.ndim > len(shape) and one.shape[-1] == 1:
            one = one[..., 0]
        found &= np.broadcast_to(one.reshape(one.shape + (1,) * (len(shape) - one.ndim)), shape).astype(bool)
    return found
