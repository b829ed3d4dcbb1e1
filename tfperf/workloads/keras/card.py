"""The configuration of a training of any Keras model."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.base_card import BaseCard
from tfperf.runcard.data_sources import CallArguments, DataSource, ModelSource
from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.model_optimizer import ModelOptimizer
from tfperf.runcard.types import MAX_REPLICA, STRICT, CodeName, Names, ReplicaIds, Step

ClassNumber = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,5})$", description="a class, counted from 0")]
EachReplica = (
    Annotated[float, Field(gt=0, le=1e12)]
    | Annotated[tuple[Annotated[float, Field(gt=0, le=1e12)], ...], Field(min_length=1, max_length=MAX_REPLICA)]
)
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
class MaskSource:
    """Which samples each replica is trained on."""

    build: CodeName = Field(
        description="function that returns bool (replicas, samples), true where a replica is trained on a sample"
    )
    arguments: CallArguments = Field(default_factory=dict, description="its keyword arguments")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class EnsembleSettings:
    """In what replicas differ beside their weights and the order of their samples."""

    data: Literal["all", "bootstrap"] | MaskSource = Field(
        default="all", description="samples of each replica: all, as many drawn with replacement, or by masks"
    )
    learning_rate: EachReplica | None = Field(
        default=None, description="in place of the optimizer's: a number, or one for each replica"
    )
    loss_weight: EachReplica | None = Field(
        default=None, description="of the samples' loss, against regularization: a number, or one for each replica"
    )
    patience: Step | None = Field(
        default=None, description="validations without a better loss after which a replica stops; null: none does"
    )
    same_start: bool = Field(default=False, description="allow that all replicas begin with equal weights")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class LoopEngine:
    """How steps are computed."""

    xla: Literal["auto", "step", "loop"] | bool = Field(
        default="auto",
        description="compile with XLA: each step, the whole loop of a call, or whichever of the two is faster (true); "
        "auto: where that is measured to be faster than the graph, and the training long enough to try",
    )
    form: Literal["auto", "lanes", "stacked"] = Field(
        default="auto",
        description="of replicas: lanes take the model's own step, each by itself; stacked does each layer for all at "
        "once; auto: the faster of them, as measured before the first step",
    )
    chunk: Literal["auto"] | Annotated[int, Field(ge=1, le=MAX_REPLICA)] = Field(
        default="auto", description="replicas trained together at most; auto: as many as fit the free memory"
    )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class KerasCard(BaseCard):
    """A card of workload keras. Paths are relative to the card."""

    workload: Literal["keras"] = Field(description="what kind of card this is")
    model: ModelSource = Field(description="the model")
    data: DataSource = Field(description="the samples")
    train: EpochSchedule = Field(description="how it is trained")
    replicas: ReplicaIds | None = Field(
        default=None,
        description="independent copies of the model: how many (50), or a range of ids (51-100); null: one",
    )
    ensemble: EnsembleSettings = Field(default_factory=EnsembleSettings, description="in what replicas differ")
    engine: LoopEngine = Field(default_factory=LoopEngine, description="how steps are computed")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(list_ensemble_faults(self, self.replicas) if self.replicas else self._check_single())
        return self

    def _check_single(self) -> Iterator[Fault]:
        if self.ensemble != EnsembleSettings():
            yield Fault("ensemble", None, "must be left out without replicas")
        for key in ("form", "chunk"):
            if (value := getattr(self.engine, key)) != "auto":
                yield Fault(f"engine.{key}", value, "must be left out without replicas")


def list_ensemble_faults(card: KerasCard, ids: Sequence[int]) -> Iterator[Fault]:
    """What a card says that these replicas cannot have, by full keys."""
    what = "must be left out with replicas"
    if isinstance(card.engine.xla, str) and card.engine.xla != "auto":
        yield Fault("engine.xla", card.engine.xla, "must be auto, true or false with replicas")
    if card.train.steps is not None:
        yield Fault("train.steps", card.train.steps, f"{what}, which train for epochs")
    if card.profile is not None:
        yield Fault("profile", None, f"{what}: steps of one model are recorded")
    if card.train.callbacks and card.engine.form == "stacked":
        yield Fault(
            "engine.form", "stacked", "must be auto or lanes with train.callbacks, which see each replica's model"
        )
    if card.data.batch == "auto":
        yield Fault("data.batch", "auto", "must be a number with replicas")
    if card.data.input is not None:
        yield Fault("data.input", None, what)
    count = len(ids)
    for key in ("learning_rate", "loss_weight"):
        given = getattr(card.ensemble, key)
        if isinstance(given, tuple) and len(given) != count:
            yield Fault(f"ensemble.{key}", len(given), f"must have as many values as there are replicas: {count}")
