"""The configuration of a training of any Keras model."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.base_card import BaseCard
from tfperf.runcard.data_sources import CallArguments, DataSource, ModelSource
from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.types import STRICT, CodeName, Names, Step

ClassNumber = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,5})$", description="a class, counted from 0")]
ClassWeights = Annotated[
    dict[ClassNumber, Annotated[float, Field(ge=0, le=1e12)]], Field(min_length=1, max_length=100_000)
]
CallbackName = Literal[
    "EarlyStopping", "ReduceLROnPlateau", "ModelCheckpoint", "CSVLogger", "TensorBoard",
    "TerminateOnNaN", "SwapEMAWeights",
]  # fmt: skip
ScheduleName = Literal[
    "CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay", "PiecewiseConstantDecay",
    "PolynomialDecay",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, config=STRICT)
class CallbackSource:
    """A callback: Keras' own by name, or what a function returns."""

    name: CallbackName | None = Field(default=None, description="one of keras.callbacks")
    build: CodeName | None = Field(
        default=None, description="function that returns a keras.callbacks.Callback; to be resumed it needs get_state "
        "(returns a dict) and set_state",
    )  # fmt: skip
    arguments: CallArguments = Field(
        default_factory=dict, description="its keyword arguments; relative paths are below callbacks/ of the run"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        if (self.name is None) == (self.build is None):
            refuse([Fault("" if self.name is None else "build", None, "must name one of name and build")])
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class RateSchedule:
    """A learning rate that depends on the step."""

    name: ScheduleName = Field(description="one of keras.optimizers.schedules")
    arguments: CallArguments = Field(default_factory=dict, description="its keyword arguments")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EpochSchedule:
    """How long, and by what rule; what is left out is the compiled model's own."""

    epochs: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="passes through the training samples"
    )
    steps: Step | None = Field(default=None, description="steps in all, in place of epochs")
    steps_per_epoch: Step | None = Field(
        default=None, description="after which an epoch ends, of a stream of batches; null: when the stream does"
    )
    optimizer: ModelOptimizer | None = Field(default=None, description="a Keras optimizer and its arguments")
    learning_rate_schedule: RateSchedule | None = Field(
        default=None, description="in place of the optimizer's learning rate"
    )
    accumulate: Annotated[int, Field(ge=2, le=100_000)] | None = Field(
        default=None, description="steps whose gradients are averaged for one update; null: each step updates"
    )
    loss: Annotated[str, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="of a model with one output, by its Keras name"
    )
    metrics: Names = Field(default=(), description="beside the loss, by their Keras names")
    class_weight: ClassWeights | None = Field(
        default=None, description="weight of the samples of each class; others: 1"
    )
    callbacks: Annotated[tuple[CallbackSource, ...], Field(max_length=100)] = Field(
        default=(), description="in Keras' order"
    )
    steps_per_call: Literal["auto"] | Step = Field(
        default="auto", description="steps inside one compiled call; auto: about half a second of them"
    )
    checkpoint_every: Step = Field(default=1000, description="steps between checkpoints, at the next call's end")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        if (self.epochs is None) == (self.steps is None):
            yield Fault("" if self.epochs is None else "steps", None, "must name one of epochs and steps")
        changing = [one.name for one in self.callbacks if one.name == "ReduceLROnPlateau"]
        if self.learning_rate_schedule is not None and changing:
            yield Fault(
                "learning_rate_schedule", None, f"excludes the callback {changing[0]}, which sets the rate, too"
            )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LoopEngine:
    """How steps are computed."""

    xla: Literal["auto", "step", "loop"] | bool = Field(
        default="auto",
        description="compile with XLA: each step, the whole loop of a call, or whichever of the two is faster (true); "
        "auto: where that is measured to be faster than the graph, and the training long enough to try",
    )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class KerasCard(BaseCard):
    """A card of workload keras. Paths are relative to the card."""

    workload: Literal["keras"] = Field(description="what kind of card this is")
    model: ModelSource = Field(description="the model")
    data: DataSource = Field(description="the samples")
    train: EpochSchedule = Field(description="how it is trained")
    engine: LoopEngine = Field(default_factory=LoopEngine, description="how steps are computed")
