"""What a card's code makes: the model and a batch, for `tfperf check --build`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfperf.console.stages import ShowStage
from tfperf.measure.quiet import drop_native_logs
from tfperf.report.numbers import format_bytes
from tfperf.sources.image_stream import ImageStream
from tfperf.sources.samples import Samples
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.inputs import read_data
from tfperf.workloads.keras.models import count_parameters, make_model
from tfperf.workloads.keras.training import KerasTraining


def describe_build(card: KerasCard, show_stage: ShowStage) -> Sequence[str]:
    """Summary, parameters, bytes and shapes, a line each; no step is taken. Raises: UserError, UserCodeError."""
    with drop_native_logs():
        show_stage("reading data")
        data = read_data(card)
        show_stage("building the model")
        model = make_model(card)
        training = KerasTraining(card, model, data, Path("callbacks"))
        batch = training.feed.read_first_batch()
    lines: list[str] = []
    model.summary(print_fn=lambda text, **_: lines.extend(str(text).splitlines()), line_length=78)
    count, trainable = count_parameters(model), _count(model.trainable_variables)
    lines += [
        f"parameters  {count}, {trainable} of them trainable; {_format_size(_sum_bytes(model.variables))}",
        f"optimizer   {_format_size(_sum_slots(model))} of {type(model.optimizer).__name__}",
        f"a batch     {_format_size(sum(_get_bytes(one) for one in tf.nest.flatten(batch, expand_composites=True)))}",
        *_describe_batch(batch),
        f"an epoch    {training.feed.steps_per_epoch or 'an unknown number of'} steps",
    ]
    if isinstance(data.training, ImageStream):
        lines.append(f"classes     {', '.join(data.training.files.classes)}, numbered from 0 in that order")
    if isinstance(data.training, Samples):
        lines.append(f"samples     {len(data.training)} to train, {_count_validation(data.validation)} to validate")
    return lines


def _describe_batch(batch: Any) -> list[str]:
    parts = batch if isinstance(batch, tuple) else (batch,)
    return [
        f"  {name:<9} {', '.join(_describe_tensor(one) for one in tf.nest.flatten(part))}"
        for name, part in zip(("inputs", "targets", "weights"), parts, strict=False)
    ]


def _describe_tensor(tensor: Any) -> str:
    return f"{tuple(tensor.shape)} {tensor.dtype.name}"


def _count_validation(data: Any) -> str:
    return "none" if data is None else str(len(data)) if isinstance(data, Samples) else "a stream"


def _count(variables: Iterable[keras.Variable]) -> int:
    return sum(tf.TensorShape(variable.shape).num_elements() for variable in variables)


def _sum_bytes(variables: Iterable[keras.Variable]) -> int:
    return sum(_get_bytes(variable.value) for variable in variables)


def _sum_slots(model: keras.Model) -> int:
    return 0 if model.optimizer is None else _sum_bytes(model.optimizer.variables)


def _get_bytes(tensor: Any) -> int:
    return int(tensor.shape.num_elements() * tensor.dtype.size)


def _format_size(count: int) -> str:
    return f"{count} bytes" if count < 100_000 else format_bytes(count)
