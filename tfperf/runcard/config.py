"""The validated, frozen configuration of one run: what a runcard may say.

Every field is documented by its `description`, which the JSON schema carries to editors.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from tfperf.runcard.optimizers import Optimizer
from tfperf.runcard.types import Fraction, NonNegative, Positive, PositiveInt, Range, ReplicaIds, Step

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

Activation = Literal["tanh", "sigmoid", "relu", "elu", "selu", "gelu", "softplus", "softsign", "swish", "linear"]
Flavour = Literal["sigma", "g", "v", "v3", "v8", "t3", "t8", "t15"]
FITTED: tuple[Flavour, ...] = ("sigma", "g", "v", "v3", "v8", "t3", "t8", "t15")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Cuts:
    """Points kept: x_min <= x <= x_max, q2_min <= Q2 <= q2_max, Q2 (1 - x) / x >= w2_min; Q2, W2 in GeV2."""

    x_min: NonNegative | None = None
    x_max: Positive | None = None
    q2_min: NonNegative | None = None
    q2_max: Positive | None = None
    w2_min: NonNegative | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SetChoice:
    """One dataset of the pack, and what is particular to it."""

    name: str
    training_fraction: Fraction | None = Field(None, description="overrides data.training_fraction")
    weight: Positive = Field(1.0, description="factor on this set's chi2 in the loss; reports leave it out")
    cuts: Cuts | None = Field(None, description="overrides data.cuts")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Data:
    """Which measurements are fitted."""

    pack: Path = Field(description="HDF5 pack of the fit problem, relative to the card")
    sets: tuple[SetChoice, ...] = Field((), description="datasets to fit; none named: all in the pack")
    exclude: tuple[str, ...] = Field((), description="datasets left out when `sets` names none")
    training_fraction: Fraction = Field(0.75, description="share of each set's points that trains, the rest validates")
    cuts: Cuts = Field(default_factory=Cuts)
    t0: str = Field("pack", description="predictions that scale multiplicative errors: pack, none, fit, or a run folder")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Covariance:
    """What is added to the experimental covariance."""

    extra: Path | None = Field(None, description="HDF5 file with a theory covariance, relative to the card")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Closure:
    """Pseudo-data from a known law instead of measurements."""

    level: Literal[0, 2] = Field(0, description="0: no noise; 2: noise of the truth and of each replica")
    law: str = Field("toy", description="the Les Houches toy PDF, or a run folder whose mean PDF is the truth")
    noise: Annotated[int, Field(ge=0)] = Field(0, description="number of the truth's noise draw (level 2)")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Exponents:
    """Ranges that the preprocessing exponents of x^(1-alpha) (1-x)^beta are drawn from, one flavour."""

    alpha: Range
    beta: Range


def default_exponents() -> dict[Flavour, Exponents]:
    """Ranges of the NNPDF4.0 fits (arXiv:2109.02653, evolution basis)."""
    ranges = {
        "sigma": ((1.089, 1.119), (1.475, 3.119)),
        "g": ((0.7504, 1.098), (2.814, 5.669)),
        "v": ((0.479, 0.7384), (1.549, 3.532)),
        "v3": ((0.1073, 0.4397), (1.733, 3.458)),
        "v8": ((0.5507, 0.7837), (1.516, 3.356)),
        "t3": ((-0.4506, 0.9305), (1.745, 3.424)),
        "t8": ((0.5877, 0.8687), (1.522, 3.515)),
        "t15": ((1.089, 1.141), (1.492, 3.222)),
    }
    return {f: Exponents(alpha=ranges[f][0], beta=ranges[f][1]) for f in FITTED}


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SumRules:
    """Quadrature of the momentum and valence integrals."""

    quadrature: Literal["gauss", "trapezoid"] = Field(
        "gauss", description="gauss: `nodes` per panel, log x in [1e-9, 0.1] and x in [0.1, 1]; trapezoid: 2000 points"
    )
    nodes: Annotated[int, Field(ge=4, le=512)] = Field(32, description="Gauss-Legendre nodes per panel")
    tail: Literal["none", "analytic"] = Field("none", description="what is added for x below 1e-9")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Model:
    """The network of one replica and its physics."""

    layers: tuple[PositiveInt, ...] = Field((25, 20, 8), description="units per layer; the last gives the 8 flavours")
    activations: tuple[Activation, ...] = Field(("tanh", "tanh", "linear"), description="one per layer")
    initializer: Literal[
        "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal", "lecun_uniform"
    ] = "glorot_normal"
    exponents: dict[Flavour, Exponents] = Field(default_factory=default_exponents)
    trainable_exponents: bool = Field(False, description="train the exponents within their ranges")
    sum_rules: SumRules = Field(default_factory=SumRules)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Positivity:
    """Penalty sum(max(0, -prediction)) over the positivity sets, and the gate on it."""

    sets: Literal["all", "none"] | tuple[str, ...] = Field("all", description="positivity sets of the pack")
    initial: Positive = Field(100.0, description="multiplier at the first step")
    final: Positive = Field(1e6, description="multiplier at the last step; geometric in between")
    threshold: Positive = Field(1e-6, description="a replica's weights count as best only with its penalty below this")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Integrability:
    """Penalty on |x T3| and |x T8| at the smallest x of the grid."""

    nodes: Annotated[int, Field(ge=0, le=10)] = Field(1, description="grid nodes counted from the smallest x; 0: off")
    initial: Positive = 10.0
    final: Positive = 100.0


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Stopping:
    """When a replica stops."""

    patience: PositiveInt | None = Field(
        None, description="steps without a better validation chi2; none: a tenth of train.steps"
    )


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Train:
    """How long and with which optimizer."""

    steps: Step
    steps_per_call: Literal["auto"] | PositiveInt = Field("auto", description="steps inside one compiled call")
    checkpoint_every: PositiveInt = Field(1000, description="steps between checkpoints, kept at the next call's end")
    optimizer: Optimizer = Field(default_factory=Optimizer)
    stopping: Stopping = Field(default_factory=Stopping)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Engine:
    """How the step is computed; none of this changes what is computed."""

    precision: Literal["float32", "float64"] = "float32"
    xla: Literal["auto"] | bool = Field("auto", description="compile with XLA; auto: measured before the first step")
    threads: Literal["auto"] | PositiveInt = Field("auto", description="auto: one per available core")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Card:
    """A whole runcard."""

    title: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="the one seed that all draws derive from")
    replicas: ReplicaIds = Field(description="a number (100) or a range (101-200)")
    data: Data
    covariance: Covariance = Field(default_factory=Covariance)
    closure: Closure | None = None
    model: Model = Field(default_factory=Model)
    positivity: Positivity = Field(default_factory=Positivity)
    integrability: Integrability = Field(default_factory=Integrability)
    train: Train
    engine: Engine = Field(default_factory=Engine)


def as_tree(card: Card) -> dict[str, Any]:
    """The card as plain YAML-able values with every default filled in; loading it gives an equal card."""
    from pydantic import TypeAdapter

    tree: dict[str, Any] = TypeAdapter(Card).dump_python(card, mode="json")
    return tree
