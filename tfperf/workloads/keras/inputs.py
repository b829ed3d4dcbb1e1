"""The samples that a card names, split, weighed, and their order."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfperf.arrays import Indices
from tfperf.data.cache import digest
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import CardError
from tfperf.runcard.data_sources import SampleSource, ValidationSource
from tfperf.runcard.input_settings import InputSettings
from tfperf.sources.class_weights import weigh_classes
from tfperf.sources.code import CodeReference, find_function
from tfperf.sources.data import Data, read_source
from tfperf.sources.data_loaders import set_torch_seed
from tfperf.sources.image_stream import ImageStream
from tfperf.sources.images import list_images, split_images
from tfperf.sources.samples import Samples
from tfperf.sources.streams import BatchStream, DatasetStream
from tfperf.workloads.keras.card import KerasCard

DEFAULT_BATCH = 32
DrawOrder = Callable[[int, int], Indices]


@dataclass(frozen=True)
class TrainingData:
    """What is trained on, and what validates; batch: samples of a step, of samples in memory."""

    training: Data
    validation: Data | None
    batch: int
    draw_order: DrawOrder

    def hash_arrays(self) -> dict[str, str]:
        """A digest of the arrays that are in memory, which no file of the card may tell of."""
        parts = [part for part in (self.training, self.validation) if isinstance(part, Samples)]
        return {"the arrays of data": digest(*(array for part in parts for array in part.arrays))} if parts else {}


def read_data(card: KerasCard) -> TrainingData:
    """The samples, the last ones for validation where a share is asked for. Raises: UserError."""
    source = card.data
    batch = source.batch if isinstance(source.batch, int) else DEFAULT_BATCH  # auto: a memory study sets it itself
    order = partial(draw_order, card.seed, shuffle=source.shuffle is not False)
    keras.utils.set_random_seed(card.seed)  # what a function draws is then the same for a resumed run
    if source.build is not None:
        find_function(CodeReference.parse(source.build), "data.build")  # whose file may import torch
        set_torch_seed(card.seed)
    training: Data
    validation: Data | None = None
    share = source.validation if isinstance(source.validation, float) else None
    if source.folder is not None:
        training, validation = _open_images(source, share, batch, card.seed, order)
    else:
        training = read_source(source, "data", order)
    if isinstance(training, Samples) and share is not None:
        training, validation = _split(training, share)
    elif isinstance(training, BatchStream) and source.folder is None:
        _refuse_for_streams(card, training)
    if isinstance(source.validation, ValidationSource):
        validation = _read_validation(source.validation, batch)
    if card.train.class_weight is not None:
        weights = {int(number): weight for number, weight in card.train.class_weight.items()}
        training = weigh_classes(training, weights, "train.class_weight")
    if isinstance(source.input, InputSettings):  # auto is settled before; who only measures takes the data as they are
        _apply_settings(training, source.input)
    return TrainingData(training, validation, batch, order)


def _apply_settings(training: Data, settings: InputSettings) -> None:
    if not isinstance(training, DatasetStream):
        raise CardError("data.input: must be left out for all but a function that returns a tf.data.Dataset")
    training.apply_settings(settings)


def draw_order(seed: int, epoch: int, count: int, shuffle: bool) -> Indices:
    """The order of the samples in an epoch (N): a function of seed and epoch alone."""
    return make_generator(seed, epoch, Purpose.ORDER).permutation(count) if shuffle else np.arange(count)


def _split(found: Samples, share: float) -> tuple[Samples, Samples]:
    count = len(found) - round(share * len(found))
    if not 0 < count < len(found):
        raise CardError(f"data.validation: got {share} of {len(found)} samples; must leave some on each side")
    return found.select(slice(count)), found.select(slice(count, None))


def _open_images(
    source: SampleSource, share: float | None, batch: int, seed: int, order: DrawOrder
) -> tuple[ImageStream, ImageStream | None]:
    size = source.image_size
    assert source.folder is not None and size is not None
    files = list_images(Path(source.folder))
    parts = (files, None) if share is None else split_images(files, share, seed)

    def open_part(part: Any, draw: DrawOrder) -> ImageStream:
        return ImageStream(part, size, source.channels, batch, draw)

    return open_part(parts[0], order), None if parts[1] is None else open_part(parts[1], keep_order)


def keep_order(epoch: int, count: int) -> Indices:
    """The samples as they come (N)."""
    return np.arange(count)


def _refuse_for_streams(card: KerasCard, stream: BatchStream) -> None:
    """CardError for keys that batches made elsewhere leave no room for."""
    what, faults = stream.name, []
    if card.data.batch is not None:
        faults.append(f"data.batch: got {card.data.batch}; must be left out for {what}, whose elements are batches")
    if isinstance(card.data.validation, float):
        faults.append(f"data.validation: a share cannot be taken of {what}; name data of its own: {{build: ...}}")
    if card.data.shuffle and stream.has_own_order:
        faults.append(f"data.shuffle: must be left out for {what}, which has its own order")
    if stream.is_endless and card.train.steps is None and card.train.steps_per_epoch is None:
        faults.append(f"train.steps_per_epoch: missing; {what} without an end needs it, or train.steps")
    if faults:
        raise CardError(*faults)


def _read_validation(source: ValidationSource, batch: int) -> Data:
    key = "data.validation"
    if source.folder is not None:
        found: Data = _open_images(source, None, batch, 0, keep_order)[0]
    else:
        found = read_source(source, key, keep_order)
    if isinstance(found, BatchStream) and found.is_endless and source.steps is None:
        raise CardError(f"{key}.steps: missing; a dataset without an end needs it")
    if isinstance(found, Samples) and source.steps is not None:
        raise CardError(f"{key}.steps: must be left out for samples in memory, all of which validate")
    if isinstance(found, BatchStream):
        found.replays = False  # all of them are the same in whatever order
        if source.steps is not None and found.has_history:
            found.unkept = (*found.unkept, "which of its batches validate, since each pass has another order")
    return found
