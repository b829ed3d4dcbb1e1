"""The optimizer of one model: any of Keras' that has an update of its own, by name and arguments."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.optimizers import OWN, Arguments, Decay, ElementWise, Offset, check_clipping
from tfperf.runcard.types import STRICT, Name, Norm, Rate, Strength

Rule = Literal[ElementWise, "ScheduleFreeAdamW", "Adafactor", "Lamb", "Muon"]
NO_RULES = {
    "LossScaleOptimizer": "it scales the loss for float16; in float32 and float64 powers of two change no bit, so name "
    "the optimizer inside it",
    "MultiOptimizer": "it has no update of its own, only variables and other optimizers; name one of these",
}
MUON = frozenset(
    ["adam_beta_1", "adam_beta_2", "adam_weight_decay", "adam_lr_ratio", "epsilon", "exclude_layers",
     "exclude_embeddings", "muon_a", "muon_b", "muon_c", "momentum", "ns_steps", "nesterov", "rms_rate"]
)  # fmt: skip
# what each takes beside the arguments that all of them share
TAKES: dict[str, frozenset[str]] = {
    **OWN,
    "ScheduleFreeAdamW": frozenset(["beta_1", "beta_2", "epsilon", "warmup_steps"]),
    "Adafactor": frozenset(["beta_2_decay", "epsilon_1", "epsilon_2", "clip_threshold", "relative_step"]),
    "Lamb": frozenset(["beta_1", "beta_2", "epsilon"]),
    "Muon": MUON,
}
SHARED = frozenset(["learning_rate", "weight_decay"])
Factor = Annotated[float, Field(ge=-1e3, le=1e3)]


def _refuse_no_rule(name: object) -> object:
    if isinstance(name, str) and name in NO_RULES:
        refuse([Fault("", name, f"{NO_RULES[name]}; allowed: {', '.join(get_args(Rule))}")])
    return name


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ModelOptimizer(Arguments):
    """The optimizer, by its Keras name and arguments; those left out or null have Keras' defaults."""

    name: Annotated[Rule, BeforeValidator(_refuse_no_rule)] = Field(default="Adam", description="Keras optimizer")
    learning_rate: Rate = Field(default=1e-3, description="step size")
    momentum: Annotated[float, Field(ge=0, le=1)] | None = Field(default=None, description="SGD, RMSprop, Muon")
    nesterov: bool | None = Field(default=None, description="SGD, Muon: Nesterov's form of the momentum")
    beta_1: Decay | None = Field(default=None, description="Adam and its kin, Lion, Lamb: decay of the mean gradient")
    beta_2: Decay | None = Field(default=None, description="Adam and its kin, Lion, Lamb: decay of the second mean")
    warmup_steps: Annotated[int, Field(ge=0, le=100_000_000)] | None = Field(
        default=None, description="ScheduleFreeAdamW: steps in which the step size rises"
    )
    beta_2_decay: Annotated[float, Field(ge=-10, le=0)] | None = Field(default=None, description="Adafactor")
    epsilon_1: Offset | None = Field(default=None, description="Adafactor: added to squared gradients")
    epsilon_2: Offset | None = Field(default=None, description="Adafactor: least size of a variable's step")
    clip_threshold: Norm | None = Field(default=None, description="Adafactor: largest mean square of an update")
    relative_step: bool | None = Field(default=None, description="Adafactor: steps shrink with their number")
    ns_steps: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None, description="Muon: iterations that make an update orthogonal"
    )
    muon_a: Factor | None = Field(default=None, description="Muon: factor of the iteration")
    muon_b: Factor | None = Field(default=None, description="Muon: of its third power")
    muon_c: Factor | None = Field(default=None, description="Muon: of its fifth power")
    rms_rate: Strength | None = Field(default=None, description="Muon: size of an update beside Adam's")
    exclude_layers: Annotated[tuple[Name, ...], Field(max_length=100)] | None = Field(
        default=None, description="Muon: words; variables whose path has one take AdamW, as those without two axes do"
    )
    exclude_embeddings: bool | None = Field(default=None, description="Muon: embedding tables take AdamW")
    adam_beta_1: Decay | None = Field(default=None, description="Muon: of that AdamW")
    adam_beta_2: Decay | None = Field(default=None, description="Muon: of that AdamW")
    adam_weight_decay: Strength | None = Field(default=None, description="Muon: of that AdamW")
    adam_lr_ratio: Strength | None = Field(default=None, description="Muon: that AdamW's step size over Muon's")
    clipnorm: Norm | None = Field(
        default=None, description="largest norm of a variable's gradient, after it is summed over devices; null: off"
    )
    clipvalue: Norm | None = Field(default=None, description="largest size of its entries; null: off")
    global_clipnorm: Norm | None = Field(
        default=None, description="largest norm of the whole gradient, after it is summed over devices; null: off"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        # without momentum is what every rule can be
        yield from (f for f in self.check_foreign(TAKES) if (f.key, f.value) != ("momentum", 0))
        yield from check_clipping(self)
        if self.name in ("Lion", "ScheduleFreeAdamW") and self.beta_1 == 0:
            yield Fault("beta_1", 0, f"must be above 0 for {self.name}")

    @model_serializer(mode="wrap")
    def _drop_unset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        tree: dict[str, Any] = handler(self)
        return {key: value for key, value in tree.items() if value is not None}

    def make_arguments(self) -> dict[str, Any]:
        """Keyword arguments of the Keras class `name`, without clipping, which the engines do after they summed."""
        found = {key: getattr(self, key) for key in sorted(TAKES[self.name] | SHARED)}
        if self.exclude_layers is not None:
            found["exclude_layers"] = [re.escape(word) for word in self.exclude_layers]  # Keras takes patterns
        return {key: value for key, value in found.items() if value is not None}
