"""The configuration of a training of any Keras model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.base_card import BaseCard
from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.types import STRICT, CodeName, Name, Names, Step

Text = Annotated[str, Field(max_length=4096)]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Number = Annotated[float, Field(ge=-1e300, le=1e300)]
Scalar = bool | Whole | Number | Text | None
Value = Scalar | Annotated[tuple[Scalar, ...], Field(max_length=1000)]
Arguments = Annotated[dict[Name, Value], Field(max_length=100)]
Share = Annotated[float, Field(gt=0, lt=1)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ModelSource:
    """Where the model comes from: a function that returns it, or a file."""

    build: CodeName | None = Field(
        default=None, description="function that returns a keras.Model: file.py:function or module:function"
    )
    arguments: Arguments = Field(default_factory=dict, description="its keyword arguments")
    file: Path | None = Field(default=None, description=".keras file in place of a function; Keras' safe mode reads it")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(_check_source(self))
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataSource:
    """Where the samples come from, and how they are cut into batches."""

    build: CodeName | None = Field(
        default=None, description="function that returns arrays: x, (x, y) or (x, y, sample weights)"
    )
    arguments: Arguments = Field(default_factory=dict, description="its keyword arguments")
    file: Path | None = Field(default=None, description=".npz or HDF5 file in place of a function")
    inputs: Names = Field(default=("x",), description="arrays of the file that the model takes; several are a dict")
    targets: Names = Field(default=("y",), description="arrays of the file that it is to find; several are a dict")
    weights: Name | None = Field(default=None, description="array of the file with a weight for each sample")
    batch: Annotated[int, Field(ge=1, le=10_000_000)] = Field(default=32, description="samples of a step")
    shuffle: bool = Field(default=True, description="draw a new order for each epoch; false: the data's own")
    validation: Share | None = Field(
        default=None, description="share of the samples, the last ones, that validates after each epoch; null: none"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse([*_check_source(self), *([] if self.inputs else [Fault("inputs", (), "must name at least one array")])])
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EpochSchedule:
    """How long, and by what rule; what is left out is the compiled model's own."""

    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = Field(description="passes through the training samples")
    optimizer: ModelOptimizer | None = Field(default=None, description="a Keras optimizer and its arguments")
    loss: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="of a model with one output, by its Keras name"
    )
    metrics: Names = Field(default=(), description="beside the loss, by their Keras names")
    steps_per_call: Literal["auto"] | Step = Field(
        default="auto", description="steps inside one compiled call; auto: about half a second of them"
    )
    checkpoint_every: Step = Field(default=1000, description="steps between checkpoints, at the next call's end")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LoopEngine:
    """How steps are computed."""

    xla: Literal["auto"] | bool = Field(
        default="auto", description="compile with XLA; auto: where it is measured to be faster and the model allows it"
    )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class KerasCard(BaseCard):
    """A card of workload keras. Paths are relative to the card."""

    workload: Literal["keras"] = Field(description="what kind of card this is")
    model: ModelSource = Field(description="the model")
    data: DataSource = Field(description="the samples")
    train: EpochSchedule = Field(description="how it is trained")
    engine: LoopEngine = Field(default_factory=LoopEngine, description="how steps are computed")


def _check_source(source: ModelSource | DataSource) -> Iterator[Fault]:
    if (source.build is None) == (source.file is None):
        yield Fault("" if source.build is None else "file", None, "must name one of build and file")
    if source.build is None and source.arguments:
        yield Fault("arguments", None, "must be left out without build")
