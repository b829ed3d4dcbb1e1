"""The change that a finding asks for, made in a training."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.diagnosis.program import Fit, OwnLoop
from tfperf.trace.rules.waits import CHEAPER, FEED

LONGER = 16  # times as many steps an epoch
AHEAD = 2  # batches


@contextmanager
def make_change(training: Fit | OwnLoop, finding: Mapping[str, Any]) -> Iterator[Fit | OwnLoop | None]:
    """The training with it, for as long as this is entered; None where only the program's author can make it."""
    if isinstance(training, OwnLoop):
        make = training.changes.get(finding["rule"])
        yield None if make is None else make()
    elif (settings := read_settings(training, finding)) is not None:
        with set_model(training.model, settings):
            yield training
    else:
        change = CHANGES.get(finding["rule"])
        yield None if change is None else change(training, finding["change"])


def read_settings(fit: Fit, finding: Mapping[str, Any]) -> dict[str, Any] | None:
    """What of `compile` a change names; None where it names nothing of it, or the model heeds no setting."""
    if type(fit.model).make_train_function is not keras.Model.make_train_function:
        return None
    if steps := re.search(r"steps_per_execution=(\d+)", finding["change"]):
        return {"steps_per_execution": int(steps[1])}
    return {"jit_compile": True} if "jit_compile=True" in finding["change"] else None


@contextmanager
def set_model(model: keras.Model, settings: Mapping[str, Any]) -> Iterator[None]:
    """Have a model train with other settings of `compile`, and then with its own."""
    own = {name: getattr(model, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(model, name, value)
        model.train_function = None  # made anew at the next fit
        yield
    finally:
        for name, value in own.items():
            setattr(model, name, value)
        model.train_function = None


def make_longer_epochs(fit: Fit, change: str) -> Fit | None:
    """Epochs of LONGER times as many steps; None where something else is done once an epoch, too."""
    if fit.settings or fit.callbacks() or not hasattr(fit.data, "repeat"):
        return None
    return replace(fit, steps=LONGER * fit.steps)


def keep_data(fit: Fit, change: str) -> Fit | None:
    """What a pipeline or a PyDataset makes of an epoch, made once; None where that is not asked for."""
    if isinstance(fit.data, tf.data.Dataset) and change in (FEED, CHEAPER):
        return replace(fit, data=fit.data.take(fit.steps).cache().prefetch(AHEAD))
    if isinstance(fit.data, keras.utils.PyDataset) and change == CHEAPER:
        batches = [fit.data[number] for number in range(fit.steps)]
        arrays = tf.nest.map_structure(lambda *parts: np.stack(parts), *batches)
        return replace(fit, data=tf.data.Dataset.from_tensor_slices(arrays).cache().prefetch(AHEAD))
    return None


CHANGES: dict[str, Callable[[Fit, str], Fit | None]] = {
    "epoch": make_longer_epochs, "input": keep_data,
}  # fmt: skip
