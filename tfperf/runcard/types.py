"""Value types of the runcard, with their limits."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
PositiveInt = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(gt=0, le=1)]
Step = Annotated[int, Field(ge=1, le=100_000_000)]
MAX_REPLICA = 100_000
