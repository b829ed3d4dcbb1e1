"""A card's `memory`: for which budget `tfperf memory` looks for the largest batch."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.runcard.types import STRICT

Gibibytes = Annotated[float, Field(gt=0, le=100_000)]
MemoryDevice = Literal["gpu", "cpu-arena"]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class MemoryBudget:
    """What may be used; it changes no result."""

    budget: Literal["device"] | Gibibytes = Field(
        default="device", description="GiB of the device's memory that may be used; device: all that it has"
    )
    margin: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.05, description="share of the budget that the recommended batch leaves free"
    )
    ram: Literal["free"] | Gibibytes = Field(
        default="free", description="GiB of the host's memory that may be used; free: what is free when it begins"
    )
    device: Literal["auto"] | MemoryDevice = Field(
        default="auto",
        description="auto: a GPU where there is one; cpu-arena: the processor with a GPU's allocator and a limit",
    )
