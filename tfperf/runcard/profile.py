"""A card's `profile`: which steps of a training are recorded."""

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.runcard.types import STRICT, Step


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Profile:
    """Which steps are recorded by TensorFlow's profiler; it changes no result."""

    steps: Step = Field(default=300, description="steps to record, in whole calls, six at least")
    skip: Annotated[int, Field(ge=0, le=100_000_000)] = Field(
        default=100, description="steps before them, so that all is compiled and warm"
    )
    host_level: Annotated[int, Field(ge=1, le=3)] = Field(
        default=2, description="how much the host tells: 1 marks of steps, 2 operations, 3 all that the runtime does"
    )
