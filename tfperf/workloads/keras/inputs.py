"""The samples that a card names, and their order."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from tfperf.arrays import Indices
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import CardError
from tfperf.results.reading import hash_file
from tfperf.sources.code import CodeReference, call_function
from tfperf.sources.samples import Samples, make_samples, read_samples
from tfperf.workloads.keras.card import DataSource, KerasCard, ModelSource


@dataclass(frozen=True)
class SplitSamples:
    """What is trained on, and what validates."""

    training: Samples
    validation: Samples | None


def hash_files(card: KerasCard) -> dict[str, str]:
    """sha256 of the card's files, those with its functions among them, by key."""
    return {key: hash_file(path) for key, path in _list_files(card)}


def _list_files(card: KerasCard) -> Iterator[tuple[str, Path]]:
    for name in ("model", "data"):
        source: ModelSource | DataSource = getattr(card, name)
        if source.file is not None:
            yield f"{name}.file", source.file
        elif source.build is not None and (file := CodeReference.parse(source.build).file) is not None:
            yield f"{name}.build", file


def read_data(card: KerasCard) -> SplitSamples:
    """The samples, the last ones for validation. Raises: UserError."""
    source = card.data
    if source.build is not None:
        reference = CodeReference.parse(source.build)
        keras.utils.set_random_seed(card.seed)  # what it draws is then the same for a resumed run
        found = make_samples(call_function(reference, source.arguments, "data.build"), f"data.build: {reference}")
    else:
        assert source.file is not None
        found = read_samples(source.file, source.inputs, source.targets, source.weights)
    if source.validation is None:
        return SplitSamples(found, None)
    count = len(found) - round(source.validation * len(found))
    if not 0 < count < len(found):
        raise CardError(
            f"data.validation: got {source.validation} of {len(found)} samples; must leave some on each side"
        )
    return SplitSamples(found.select(slice(count)), found.select(slice(count, None)))


def draw_order(seed: int, epoch: int, count: int, shuffle: bool) -> Indices:
    """The order of the samples in an epoch (N): a function of seed and epoch alone."""
    return make_generator(seed, epoch, Purpose.ORDER).permutation(count) if shuffle else np.arange(count)
