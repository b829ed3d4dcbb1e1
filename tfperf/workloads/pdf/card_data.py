"""The card's `data` and `covariance`: which measurements are fitted, with which errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.runcard.faults import Fault, check_repeats, refuse
from tfperf.runcard.types import MAX_NAMES, STRICT, Folder, Fraction, Name, Names

Scale = Annotated[float, Field(ge=0, le=1e12)]  # of a collision, in GeV2; the largest so far are below 1e9
Weight = Annotated[float, Field(ge=1e-9, le=1e9)]
Limit = Annotated[float, Field(ge=-1e15, le=1e15)]  # of a kinematic variable, in its own unit
Limits = tuple[Limit | None, Limit | None]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Cuts:
    """Points kept; a point that lies on a limit is kept. Q2 and W2 in GeV2."""

    x_min: Fraction | None = Field(default=None, description="smallest x")
    x_max: Fraction | None = Field(default=None, description="largest x")
    q2_min: Scale | None = Field(default=None, description="smallest Q2")
    q2_max: Scale | None = Field(default=None, description="largest Q2")
    w2_min: Scale | None = Field(default=None, description="smallest W2 = Q2 (1 - x) / x")
    columns: Annotated[dict[Name, Limits], Field(max_length=MAX_NAMES)] = Field(
        default_factory=dict,
        description="[low, high] of kinematic columns by their names in the pack, null: no limit; for any set",
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        for low, high in (("x_min", "x_max"), ("q2_min", "q2_max")):
            smallest, largest = getattr(self, low), getattr(self, high)
            if smallest is not None and largest is not None and largest < smallest:
                yield Fault(high, largest, f"must be at least {low} = {smallest:g}")
        for name, (least, most) in self.columns.items():
            if least is not None and most is not None and most < least:
                yield Fault(f"columns.{name}", [least, most], "must be [low, high] with low <= high")

    @property
    def has_scales(self) -> bool:
        """Whether it limits x, Q2 or W2, which only deep-inelastic sets have."""
        return any(one is not None for one in (self.x_min, self.x_max, self.q2_min, self.q2_max, self.w2_min))


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SetChoice:
    """One dataset of the pack, and what is particular to it."""

    name: Name = Field(description="name in the pack")
    training_fraction: Fraction | None = Field(default=None, description="overrides data.training_fraction")
    weight: Weight = Field(default=1.0, description="factor on this set's chi2 in the loss; reports leave it out")
    cuts: Cuts | None = Field(default=None, description="overrides data.cuts")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Data:
    """Which measurements are fitted."""

    pack: Path = Field(description="HDF5 pack of the fit problem, relative to the card")
    sets: Annotated[tuple[SetChoice, ...], Field(max_length=MAX_NAMES)] = Field(
        default=(),
        description="datasets to fit, each {name: ..., weight: ..., training_fraction: ..., cuts: ...}; none: all",
    )
    exclude: Names = Field(default=(), description="datasets left out when `sets` names none")
    training_fraction: Fraction = Field(
        default=0.75, description="share of each set's points that trains, the rest validates"
    )
    cuts: Cuts = Field(
        default_factory=Cuts,
        description="kinematic cuts on all deep-inelastic sets; those on columns on all sets that have them",
    )
    t0: Folder = Field(
        default="pack", description="predictions that scale multiplicative errors: pack, none, fit, or a run folder"
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        yield from check_repeats("sets.{}.name", [s.name for s in self.sets])
        yield from check_repeats("exclude.{}", self.exclude)
        if self.sets and self.exclude:
            yield Fault("exclude", list(self.exclude), "must be left out where data.sets names the sets")


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Covariance:
    """What is added to the experimental covariance."""

    extra: Path | None = Field(default=None, description="HDF5 file with a theory covariance, relative to the card")
    sample_extra: bool = Field(default=True, description="whether pseudo-data fluctuate by it, too")
