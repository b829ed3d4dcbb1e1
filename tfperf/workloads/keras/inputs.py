"""The model and the samples that a card names."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from tfperf.errors import CardError
from tfperf.results.reading import hash_file
from tfperf.sources.code import CodeReference, call_function
from tfperf.sources.models import build_model, load_model
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


def make_model(card: KerasCard) -> keras.Model:
    """The model, compiled; its first weights are the same for the same seed. Raises: UserError."""
    keras.utils.clear_session()  # names carry counters: they are part of what checkpoints and files hold
    keras.utils.set_random_seed(card.seed)
    source = card.model
    if source.build is not None:
        model = build_model(CodeReference.parse(source.build), source.arguments, "model.build")
    else:
        assert source.file is not None
        model = load_model(source.file, "model.file")
    _compile(model, card)
    return model


def _compile(model: keras.Model, card: KerasCard) -> None:
    train = card.train
    given = [key for key in ("optimizer", "loss", "metrics") if getattr(train, key)]
    if not given:
        if not model.compiled:
            raise CardError("train.loss: missing; the model is not compiled, so the card must name loss and optimizer")
        return
    if not model.compiled and (missing := [key for key in ("optimizer", "loss") if key not in given]):
        raise CardError(*(f"train.{key}: missing; the model is not compiled" for key in missing))
    own = model.get_compile_config() if model.compiled else {}
    loss, metrics = train.loss or own.get("loss"), [*train.metrics] or own.get("metrics")
    try:
        optimizer = model.optimizer if train.optimizer is None else _make_optimizer(card)
        model.compile(optimizer=optimizer, loss=loss, metrics=metrics)
        if train.loss is not None:
            keras.losses.get(train.loss)
        for name in train.metrics:
            keras.metrics.get(name)
    except ValueError as error:
        raise CardError(f"train: {' '.join(str(error).split())[:300]}") from None


def _make_optimizer(card: KerasCard) -> keras.optimizers.Optimizer:
    chosen = card.train.optimizer
    assert chosen is not None
    clipping = {key: value for key in ("clipnorm", "clipvalue", "global_clipnorm") if (value := getattr(chosen, key))}
    return getattr(keras.optimizers, chosen.name)(**chosen.make_arguments(), **clipping)


def draw_order(seed: int, epoch: int, count: int, shuffle: bool) -> np.ndarray:
    """The order of the samples in an epoch (N): a function of seed and epoch alone."""
    from tfperf.data.keys import Purpose, make_generator

    return make_generator(seed, epoch, Purpose.ORDER).permutation(count) if shuffle else np.arange(count)
