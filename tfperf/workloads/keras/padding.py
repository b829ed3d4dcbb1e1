"""Batches of a stream that pads samples to the longest of their batch: which lengths there are."""

from typing import Any

import tensorflow as tf

from tfperf.sources.data import Data
from tfperf.sources.samples import Samples

MOST_BATCHES = 64  # that are looked at


def find_padded(data: Data) -> dict[int, Any]:
    """A batch by its length, ascending: of half the typical length, the typical (median) and the longest one.

    Fewer where these are the same; none where the stream says that all batches have one shape, or they turn out to. The
    length is the size of the first axis, beside that of the batch, of which the stream does not say how long it is.
    """
    if isinstance(data, Samples) or (axis := _find_axis(data.element_spec)) is None:
        return {}
    number, place = axis
    batches = sorted(data.read_first(MOST_BATCHES), key=lambda batch: int(tf.nest.flatten(batch)[number].shape[place]))
    lengths = [int(tf.nest.flatten(batch)[number].shape[place]) for batch in batches]
    typical = lengths[len(lengths) // 2]
    half = min(lengths, key=lambda length: abs(length - typical / 2))
    found = {length: batches[lengths.index(length)] for length in sorted({half, typical, lengths[-1]}) if length}
    return found if len(found) > 1 else {}


def _find_axis(element_spec: Any) -> tuple[int, int] | None:
    """Place of a tensor among those of a batch, and of its first axis of no fixed size after that of the samples."""
    for number, spec in enumerate(tf.nest.flatten(element_spec)):
        for place, size in enumerate(spec.shape or ()):
            if place and size is None:
                return number, place
    return None
