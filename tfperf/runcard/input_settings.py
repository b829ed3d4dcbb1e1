"""How a tf.data.Dataset is run, and what else may be tried of the function that makes it: keys of cards."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.runcard.types import STRICT, Name

MOST_THREADS = 1024
ParallelCount = Annotated[int, Field(ge=1, le=MOST_THREADS)]
Calls = Literal["auto"] | ParallelCount
StageCalls = Annotated[dict[Name, Calls], Field(min_length=1, max_length=100)]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class InputSettings:
    """How the batches of a tf.data.Dataset are made. Its elements and their order stay what they are, bit for bit."""

    threads: ParallelCount | None = Field(
        default=None, description="of a pool for this dataset alone; no more calls run at once; null: as it is"
    )
    parallel_calls: Calls | StageCalls | None = Field(
        default=None,
        description="of every map whose function has no state, or of those named: {stage: calls}; auto: as AUTOTUNE "
        "chooses; null: as they are",
    )
    prefetch: Literal["auto"] | Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="batches that are made ahead; auto: as AUTOTUNE chooses; null: as it is"
    )
    ordered: bool | None = Field(
        default=None, description="false: batches come as they get ready, in another order; null: as it is"
    )


AS_IT_IS = InputSettings()
