"""The card's `optimizer`: that of the NNPDF4.0 fits where it says nothing else."""

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from tfperf.runcard import optimizers
from tfperf.runcard.optimizers import CLIPPINGS, ElementWise, refuse_coupling
from tfperf.runcard.types import STRICT, Norm, Rate


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Optimizer(optimizers.ReplicaOptimizer):
    """An optimizer by its Keras name and arguments; those left out or null have Keras' defaults."""

    name: Annotated[ElementWise, BeforeValidator(refuse_coupling)] = Field(
        default="Nadam", description="Keras optimizer, one of those that update each entry of a variable by itself"
    )
    learning_rate: Rate = Field(default=2.621e-3, description="step size")
    clipnorm: Norm | None = Field(
        default=6.073e-6,
        description="largest norm of a gradient, per replica and variable; null: off; "
        "left out: 6.073e-6 for Nadam without another clipping (NNPDF4.0), else off",
    )

    @model_validator(mode="before")
    @classmethod
    def _set_default_clipping(cls, given: object) -> object:
        """The default clipping belongs to Nadam: it would stall an optimizer whose step scales with the gradient."""
        keys = given.kwargs if isinstance(given, ArgsKwargs) else given
        if not isinstance(keys, dict) or "clipnorm" in keys:
            return given
        if keys.get("name", "Nadam") == "Nadam" and all(keys.get(c) is None for c in CLIPPINGS):
            return given
        keys = {**keys, "clipnorm": None}
        return ArgsKwargs(given.args, keys) if isinstance(given, ArgsKwargs) else keys
