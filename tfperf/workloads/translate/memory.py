"""A translator whose memory is measured: the steps of a fit on one device, with any number of pairs and any length."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from tfperf.arrays import Int64Array
from tfperf.place.devices import HOST, Devices, make_devices
from tfperf.place.engine import take_steps
from tfperf.place.state import list_trained_variables
from tfperf.runcard.placement import Placement
from tfperf.workloads.translate.batch_translator import BatchTranslator
from tfperf.workloads.translate.batches import ADDED, BatchPlan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.feeding import build_dataset, plan_training
from tfperf.workloads.translate.texts import Sentences, read_sentences
from tfperf.workloads.translate.trainable import TrainableTranslator, TranslationEngine, build_engine
from tfperf.workloads.translate.validation import Validation


class TranslationMemoryTrial:
    """Steps of the card's engine, or greedy translations, of batches of any number of pairs and any padded length."""

    _sentences: Sentences
    _model: TrainableTranslator
    _engine: TranslationEngine
    _batches: Iterator[Any]
    _validation: Validation
    _translator: BatchTranslator
    _source: tf.Tensor

    def __init__(self, card: TranslationCard, mode: str) -> None:
        """mode: train or predict."""
        self._card, self._mode = card, mode
        self._devices = make_one_device(card.placement)

    def read_data(self) -> None:
        """Pairs stay on the host, as in a fit."""
        self._sentences = read_sentences(self._card)

    def build_model(self) -> None:
        """Both tables and all layers."""
        self._model = TrainableTranslator(self._card, self._sentences.rows)
        if self._mode == "predict":
            self._translator = BatchTranslator(self._model, 1, self._card.decode.max_length)

    def make_slots(self) -> None:
        """By the engine, which makes a model of its own: the one before is let go first."""
        del self._model
        self._engine = build_engine(self._card, self._sentences.rows, self._devices)
        self._validation = Validation(self._card, self._engine.model, self._sentences.encoded.validation)

    def list_lengths(self) -> Sequence[int]:
        """Pieces of the longer side to which the batches of the first epoch are padded."""
        plan = plan_training(self._card, self._split, 1, 0)
        columns = np.maximum(plan.lengths[..., 0], plan.lengths[..., 1] - ADDED)
        typical = int(np.sort(columns, axis=None)[columns.size // 2])
        return () if columns.min() == self._longest else (max(1, typical // 2), typical, self._longest)

    def set_batch(self, batch: int, length: int | None = None) -> None:
        """Sources of `length` pieces, by default of the longest padded length; targets have START and END beside."""
        plan = plan_repeated(self._split, batch, length or self._longest)
        every = build_dataset(self._split, plan)
        if self._mode == "predict":
            ((self._source, _),), _ = next(iter(every))
            return
        self._batches, self._validation.batches = iter(every.repeat()), every

    def take_steps(self, count: int) -> None:
        """In one call; translations one after the other, with the variables' own values as weights."""
        if self._mode == "train":
            take_steps(self._engine, self._batches, count)
            return
        for _ in range(count):
            weights = [tf.convert_to_tensor(v.value) for v in (*self._model.embeddings, *self._model.weights)]
            self._translator.translate(weights, self._source)

    def validate(self) -> None:
        """One batch, with a copy of the weights beside those that are trained, as in a fit."""
        weights = list_trained_variables(self._engine.model).values()
        self._validation.evaluate_loss([np.asarray(v.numpy()) for v in weights])

    @property
    def _split(self) -> Split:
        return self._sentences.encoded.training

    @cached_property
    def _longest(self) -> int:
        """The longest padded length of a batch, whatever order its pairs come in."""
        width = 1 if self._card.data.buckets == "none" else self._card.data.bucket_width
        return -(-int(count_longer_side(self._split).max()) // width) * width


def make_one_device(placement: Placement) -> Devices:
    """The GPU; without one the host stands for the device.

    TensorFlow runs already, and its processor cannot be divided any more; logical ones share their memory anyway.
    """
    if tf.config.list_physical_devices("GPU"):
        return make_devices(replace(placement, devices=1))
    tf.config.set_soft_device_placement(False)
    return Devices(HOST, (HOST,), logical=True)


def count_longer_side(split: Split) -> Int64Array:
    """Pieces of the longer side of each pair (n)."""
    return np.maximum(split.source.lengths, split.target.lengths)


def plan_repeated(split: Split, batch: int, length: int) -> BatchPlan:
    """One step for one device: the longest pairs that the length holds, again and again where there are too few.

    Where no pair is that short, the shortest ones, which are cut.
    """
    sides = count_longer_side(split)
    fitting = np.flatnonzero(sides <= length)
    order = fitting[np.argsort(-sides[fitting], kind="stable")] if len(fitting) else np.argsort(sides, kind="stable")
    columns = np.array([[[length, length + ADDED]]])
    return BatchPlan(np.resize(order, (1, 1, batch)), columns, np.zeros(1, np.int64), dropped=0)
