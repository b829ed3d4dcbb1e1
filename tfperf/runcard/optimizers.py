"""The optimizer of a stack of replicas: Keras' element-wise optimizers by name, with their own arguments."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.types import STRICT, Norm, Rate, Step, Strength

ElementWise = Literal["SGD", "RMSprop", "Adam", "AdamW", "Adamax", "Nadam", "Adagrad", "Adadelta", "Ftrl", "Lion"]
MIXES = "it mixes the entries of a variable"
# those that would couple stacked replicas, and why
COUPLING = {
    "Adafactor": MIXES, "Lamb": MIXES, "Muon": MIXES, "LossScaleOptimizer": "it has one scale for the losses of all",
}  # fmt: skip
CLIPPINGS = ("clipnorm", "clipvalue", "global_clipnorm")
# what each optimizer takes beside the arguments that all of them share
OWN: dict[str, frozenset[str]] = {
    "SGD": frozenset({"momentum", "nesterov"}),
    "RMSprop": frozenset({"rho", "momentum", "epsilon", "centered"}),
    "Adam": frozenset({"beta_1", "beta_2", "epsilon", "amsgrad"}),
    "AdamW": frozenset({"beta_1", "beta_2", "epsilon", "amsgrad"}),
    "Adamax": frozenset({"beta_1", "beta_2", "epsilon"}),
    "Nadam": frozenset({"beta_1", "beta_2", "epsilon"}),
    "Adagrad": frozenset({"initial_accumulator_value", "epsilon"}),
    "Adadelta": frozenset({"rho", "epsilon"}),
    "Ftrl": frozenset(
        {
            "learning_rate_power",
            "initial_accumulator_value",
            "l1_regularization_strength",
            "l2_regularization_strength",
            "l2_shrinkage_regularization_strength",
            "beta",
        }
    ),
    "Lion": frozenset({"beta_1", "beta_2"}),
}
Decay = Annotated[float, Field(ge=0, lt=1)]
Offset = Annotated[float, Field(ge=1e-30, le=1e3)]


def refuse_coupling(name: object) -> object:
    """The name itself; a validation error for an optimizer that stacked replicas cannot have."""
    if isinstance(name, str) and name in COUPLING:
        why = f"{COUPLING[name]}, which would couple the stacked replicas"
        refuse([Fault("", name, f"{why}; allowed: {', '.join(get_args(ElementWise))}")])
    return name


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Arguments:
    """The arguments of Keras' element-wise optimizers; those left out or null have Keras' defaults."""

    name: str
    learning_rate: Rate
    momentum: Annotated[float, Field(ge=0, le=1)] | None = Field(default=None, description="SGD, RMSprop")
    nesterov: bool | None = Field(default=None, description="SGD: Nesterov's form of the momentum")
    rho: Decay | None = Field(default=None, description="RMSprop, Adadelta: decay of the mean square")
    beta_1: Decay | None = Field(default=None, description="Adam and its kin, Lion: decay of the mean gradient")
    beta_2: Decay | None = Field(default=None, description="Adam and its kin, Lion: decay of the second mean")
    epsilon: Offset | None = Field(default=None, description="added to the denominator")
    centered: bool | None = Field(
        default=None, description="RMSprop: divide by the variance instead of the mean square"
    )
    amsgrad: bool | None = Field(default=None, description="Adam, AdamW: keep the largest second moment")
    initial_accumulator_value: Strength | None = Field(default=None, description="Adagrad, Ftrl")
    learning_rate_power: Annotated[float, Field(ge=-10, le=0)] | None = Field(default=None, description="Ftrl")
    l1_regularization_strength: Strength | None = Field(default=None, description="Ftrl")
    l2_regularization_strength: Strength | None = Field(default=None, description="Ftrl")
    l2_shrinkage_regularization_strength: Strength | None = Field(default=None, description="Ftrl")
    beta: Strength | None = Field(default=None, description="Ftrl")
    weight_decay: Strength | None = Field(default=None, description="decoupled decay of the weights")

    def check_foreign(self, takes: Mapping[str, frozenset[str]]) -> Iterator[Fault]:
        """Arguments given that only other optimizers take; `takes`: those of each beside the common ones."""
        own = takes[self.name]
        for key in sorted(frozenset().union(*takes.values()) - own):
            if getattr(self, key) is not None:
                yield Fault(key, getattr(self, key), f"{self.name} takes: {', '.join(sorted(own))}")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ReplicaOptimizer(Arguments):
    """An optimizer by its Keras name and arguments; those left out or null have Keras' defaults."""

    name: Annotated[ElementWise, BeforeValidator(refuse_coupling)] = Field(
        default="Adam", description="Keras optimizer, one of those that update each entry of a variable by itself"
    )
    learning_rate: Rate = Field(default=1e-3, description="step size")
    clipnorm: Norm | None = Field(
        default=None, description="largest norm of a gradient, per replica and variable; null: off"
    )
    clipvalue: Norm | None = Field(default=None, description="largest size of a gradient's entry")
    global_clipnorm: Norm | None = Field(default=None, description="largest norm of a replica's whole gradient")
    use_ema: bool = Field(
        default=False, description="average the weights over the steps; needs ema_overwrite_frequency"
    )
    ema_momentum: Annotated[float, Field(ge=0, le=1)] | None = Field(default=None, description="decay of that average")
    ema_overwrite_frequency: Step | None = Field(
        default=None, description="steps between writing the average into the weights"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        yield from self.check_foreign(OWN)
        yield from check_clipping(self)
        if self.name == "Lion" and self.beta_1 == 0:
            yield Fault("beta_1", 0, "must be above 0 for Lion")
        if self.use_ema and self.ema_overwrite_frequency is None:
            why = "the best weights are chosen in training, so the average must be written into them"
            yield Fault("use_ema", True, f"needs ema_overwrite_frequency: {why}")
        for key in ("ema_momentum", "ema_overwrite_frequency"):
            if not self.use_ema and getattr(self, key) is not None:
                yield Fault(key, getattr(self, key), "must be null unless use_ema is true")

    @model_serializer(mode="wrap")
    def _drop_unset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        return {k: v for k, v in tree.items() if v is not None or k == "clipnorm"}

    def make_arguments(self) -> dict[str, Any]:
        """Keyword arguments of the Keras class `name`, without clipping, which the engine does per replica."""
        keys = (k for k in self.__dataclass_fields__ if k != "name" and k not in CLIPPINGS)
        return {k: getattr(self, k) for k in keys if getattr(self, k) is not None}


def check_clipping(options: Any) -> Iterator[Fault]:
    """Clippings of an optimizer beside another one."""
    clippings = [c for c in CLIPPINGS if getattr(options, c) is not None]
    for key in clippings[1:]:
        yield Fault(key, getattr(options, key), f"must be null beside {clippings[0]}: one clipping at most")
