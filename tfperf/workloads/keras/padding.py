"""Batches of a stream that pads samples to the longest of their batch: which lengths there are."""

from typing import Any

import tensorflow as tf

from tfperf.sources.data import Data
from tfperf.sources.samples import Samples

MOST_BATCHES = 64  # that are looked at


def find_padded(data: Data) -> list[tuple[int, Any]]:
    """Lengths and batches of them: of half the typical length, the typical (median) and the longest one.

    Two of these may be the same; none where the stream says that all batches have one shape, or they turn out to. The
    length is the size of the first axis, beside that of the batch, of which the stream does not say how long it is.
    """
    if isinstance(data, Samples) or (axis := _find_axis(data.element_spec)) is None:
        return []
    number, place = axis
    batches = [(_get_size(tf.nest.flatten(batch)[number], place), batch) for batch in data.read_first(MOST_BATCHES)]
    batches = sorted((one for one in batches if one[0]), key=lambda one: one[0])
    if not batches or batches[0][0] == batches[-1][0]:
        return []
    typical = batches[len(batches) // 2]
    half = min(batches, key=lambda one: abs(one[0] - typical[0] / 2))
    return [half, typical, batches[-1]]


def _get_size(tensor: Any, place: int) -> int:
    """Of an axis; 0 where there is none."""
    return int(tensor.shape[place]) if len(tensor.shape) > place else 0


def _find_axis(element_spec: Any) -> tuple[int, int] | None:
    """Place of a tensor among those of a batch, and of its first axis of no fixed size after that of the samples."""
    for number, spec in enumerate(tf.nest.flatten(element_spec)):
        if spec.shape.rank is None:
            return number, 1
        for place, size in enumerate(spec.shape or ()):
            if place and size is None:
                return number, place
    return None
