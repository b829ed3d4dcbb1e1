"""The validated, frozen configuration of one run: what a runcard may say.

Every field is documented by its `description`: the JSON schema shows it in editors, the example card beside the key.
"""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, check_repeats, refuse
from tfperf.runcard.memory import MemoryBudget
from tfperf.runcard.nodes import CardNode
from tfperf.runcard.profile import Profile
from tfperf.runcard.sweep import Sweep
from tfperf.runcard.types import (
    MAX_REPLICA,
    STRICT,
    Folder,
    Names,
    ReplicaIds,
    Seed,
    Step,
    Title,
    check_whole,
)  # fmt: skip
from tfperf.workloads.pdf.card_data import Covariance as Covariance
from tfperf.workloads.pdf.card_data import Cuts as Cuts
from tfperf.workloads.pdf.card_data import Data as Data
from tfperf.workloads.pdf.card_data import SetChoice as SetChoice
from tfperf.workloads.pdf.card_engine import Engine as Engine
from tfperf.workloads.pdf.card_exponents import FITTED as FITTED
from tfperf.workloads.pdf.card_exponents import Exponents as Exponents
from tfperf.workloads.pdf.card_exponents import Flavour as Flavour
from tfperf.workloads.pdf.card_exponents import check_exponents, complete_exponents
from tfperf.workloads.pdf.card_exponents import make_default_exponents as make_default_exponents
from tfperf.workloads.pdf.card_optimizer import Optimizer as Optimizer

Multiplier = Annotated[float, Field(ge=1e-12, le=1e15)]  # of a penalty

Activation = Literal["tanh", "sigmoid", "relu", "elu", "selu", "gelu", "softplus", "softsign", "swish", "linear"]
Activations = Annotated[tuple[Activation, ...], Field(max_length=32)]
Initializer = Literal["glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal", "lecun_uniform"]


def _check_growth(initial: float, final: float) -> Iterator[Fault]:
    if final < initial:
        yield Fault("final", final, f"must be at least initial = {initial:g}")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Closure:
    """Pseudo-data from a known law instead of measurements."""

    level: Annotated[Literal[0, 2], BeforeValidator(check_whole)] = Field(
        default=0, description="0: no noise; 2: noise of the truth and of each replica"
    )
    law: Folder = Field(default="toy", description="the Les Houches toy PDF, or a run folder whose PDF is the truth")
    replica: Annotated[int, Field(ge=1, le=MAX_REPLICA)] | None = Field(
        default=None,
        description="the run's replica that is the truth; null: the mean over those that pass postfit's vetoes",
    )
    noise: Seed = Field(default=0, description="number of the truth's noise draw (level 2)")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        if self.replica is not None and self.law == "toy":
            yield Fault("replica", self.replica, "must be null where law = toy: only a run has replicas")
        if self.noise and self.level == 0:
            yield Fault("noise", self.noise, "must be 0 or left out where level = 0, which has no noise")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SumRules:
    """Quadrature of the momentum and valence integrals."""

    quadrature: Literal["gauss", "trapezoid"] = Field(
        default="gauss",
        description="gauss: `nodes` per panel, log x in [1e-9, 0.1] and x in [0.1, 1]; trapezoid: 2000 points",
    )
    nodes: Annotated[int, Field(ge=4, le=512)] = Field(default=32, description="Gauss-Legendre nodes per panel")
    tail: Literal["none", "analytic"] = Field(default="none", description="what is added for x below 1e-9")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Model:
    """The network of one replica and its physics."""

    layers: Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Field(min_length=1, max_length=32)] = Field(
        default=(25, 20, 8), description="units per layer; the last gives the 8 flavours"
    )
    activations: Activations = Field(default=("tanh", "tanh", "linear"), description="one per layer")
    initializer: Initializer = Field(
        default="glorot_normal", description="Keras initializer of the kernels, biases are zero"
    )
    exponents: Annotated[dict[Flavour, Exponents], AfterValidator(complete_exponents)] = Field(
        default_factory=make_default_exponents,
        description="ranges that each replica's preprocessing x^(1-alpha) (1-x)^beta is drawn from; "
        "a flavour left out has the NNPDF4.0 ranges",
    )
    trainable_exponents: bool = Field(default=False, description="train the exponents within their ranges")
    sum_rules: SumRules = Field(default_factory=SumRules, description="quadrature of the sum rules")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        if self.layers[-1] != len(FITTED):
            yield Fault("layers", list(self.layers), f"must end with {len(FITTED)}, one unit per flavour")
        if len(self.activations) != len(self.layers):
            text = f"must be as long as model.layers = {list(self.layers)}"
            yield Fault("activations", list(self.activations), text)
        yield from check_exponents(self.exponents)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Positivity:
    """Penalty sum(max(0, -prediction)) over positivity sets and denominators, and the gate on it."""

    sets: Literal["all", "none"] | Annotated[Names, Field(min_length=1)] = Field(
        default="all", description="positivity sets of the pack: all, none, or a list of names"
    )
    denominators: bool = Field(
        default=True,
        description="whether denominators of ratios and asymmetries must not be negative, too, in units of those of "
        "a toy PDF",
    )
    initial: Multiplier = Field(default=100.0, description="multiplier at the first step")
    final: Multiplier = Field(default=1e6, description="multiplier at the last step; geometric in between")
    threshold: Multiplier = Field(
        default=1e-6, description="a replica's weights count as best only with its penalty below this"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        yield from _check_growth(self.initial, self.final)
        if not isinstance(self.sets, str):
            yield from check_repeats("sets.{}", self.sets)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Integrability:
    """Penalty on |x T3| and |x T8| at the smallest x of the grid."""

    nodes: Annotated[int, Field(ge=0, le=10)] = Field(
        default=1, description="grid nodes counted from the smallest x; 0: off"
    )
    initial: Multiplier = Field(default=10.0, description="multiplier at the first step")
    final: Multiplier = Field(default=100.0, description="multiplier at the last step; geometric in between")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(_check_growth(self.initial, self.final))
        return self


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Stopping:
    """When a replica stops."""

    patience: Step | None = Field(
        default=None, description="steps without a better validation chi2; null: a tenth of train.steps"
    )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Train:
    """How long and with which optimizer."""

    steps: Step = Field(description="steps that a replica takes at most")
    steps_per_call: Literal["auto"] | Step = Field(default="auto", description="steps inside one compiled call")
    checkpoint_every: Step = Field(default=1000, description="steps between checkpoints, kept at the next call's end")
    optimizer: Optimizer = Field(default_factory=Optimizer, description="a Keras optimizer and its arguments")
    stopping: Stopping = Field(default_factory=Stopping, description="when a replica stops")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        if self.steps_per_call != "auto" and self.steps_per_call > self.steps:
            yield Fault("steps_per_call", self.steps_per_call, f"must be at most train.steps = {self.steps}")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Card:
    """A whole runcard of workload pdf."""

    card_node: ClassVar[CardNode | None] = None  # of a loaded card the tree that it came from

    workload: Literal["pdf"] = Field(default="pdf", description="what kind of card this is")
    title: Title = Field(default="", description="what the report is headed with")
    seed: Seed = Field(default=0, description="the one seed that all draws derive from")
    replicas: ReplicaIds = Field(description="how many (100), or a range of ids (101-200)")
    data: Data = Field(description="which measurements are fitted")
    covariance: Covariance = Field(
        default_factory=Covariance, description="what is added to the experimental covariance"
    )
    closure: Closure | None = Field(default=None, description="pseudo-data from a known law instead of measurements")
    model: Model = Field(default_factory=Model, description="the network of one replica and its physics")
    positivity: Positivity = Field(default_factory=Positivity, description="penalty on negative cross sections")
    integrability: Integrability = Field(
        default_factory=Integrability, description="penalty on |x T3| and |x T8| at the smallest x of the grid"
    )
    train: Train = Field(description="how long and with which optimizer")
    engine: Engine = Field(
        default_factory=Engine, description="how the step is computed; none of this changes what is computed"
    )
    profile: Profile | None = Field(default=None, description="steps of a fit to be recorded for tfperf profile")
    sweep: Sweep | None = Field(default=None, description="values that tfperf sweep goes through")
    memory: MemoryBudget | None = Field(default=None, description="what tfperf memory may use")

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        if self.closure is not None and self.data.t0 not in ("pack", "none"):
            text = "must be pack or none in a closure test, whose law gives the t0 predictions (pack)"
            refuse([Fault("data.t0", self.data.t0, text)])
        refuse(self.engine.check_retirement(self.train.steps))
        return self
