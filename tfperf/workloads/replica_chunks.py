"""What run.json keeps of replicas that are trained together."""

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.errors import RunDirectoryError
from tfperf.results.contents import STATE
from tfperf.results.rundir import RunDirectory
from tfperf.results.state import STRICT, Part, RunState, StepCount
from tfperf.runcard.types import MAX_REPLICA

Id = Annotated[int, Field(ge=1, le=MAX_REPLICA)]
Count = Annotated[int, Field(ge=1, le=MAX_REPLICA)]


@dataclass(config=STRICT)
class ReplicaChunk:
    """Replicas trained together: the first are the card's, extensions and retries add more.

    What does not fit the memory at once is trained in chunks, one part each, one after the other.
    """

    ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_REPLICA)]
    attempts: list[Annotated[int, Field(ge=0, le=10**6)]]
    chunk: Count = 1  # of `chunks` that one command asked for
    chunks: Count = 1
    stacks: list[tuple[StepCount, Count]] = field(default_factory=list)  # a step, and the stack's size from it on
    bound: dict[str, Any] = field(default_factory=dict)  # work of a step against the machine's limits; once done
    tolerance: dict[str, Any] = field(default_factory=dict)  # how exact the losses were; once done, if they may not be

    @model_validator(mode="after")
    def _refuse_misfits(self) -> Self:
        if len(set(self.ids)) != len(self.ids) or len(self.attempts) != len(self.ids) or self.chunk > self.chunks:
            raise ValueError("ids, attempts and chunks do not fit together")
        return self


ReplicaPart = Part[ReplicaChunk]
ReplicaRun = RunDirectory[ReplicaChunk]


def refuse_missing_chunks(path: Path, state: RunState[ReplicaChunk]) -> None:
    """RunDirectoryError where the chunks of what one command asked for do not follow each other to the last."""
    due, chunks = 1, 0
    for own in (part.own for part in state.parts):
        if own.chunk != due or (due > 1 and own.chunks != chunks):
            raise RunDirectoryError(f"{path / STATE}: damaged: chunk {own.chunk} of {own.chunks} where {due} is due")
        due, chunks = own.chunk % own.chunks + 1, own.chunks
    if due > 1:
        raise RunDirectoryError(f"{path / STATE}: damaged: chunk {due} of {chunks} is missing")


def list_sibling_chunks(run: ReplicaRun, part: ReplicaPart) -> Sequence[ReplicaPart]:
    """The parts that one command asked for together with this one, in their order."""
    first = run.find_index(part) - part.own.chunk + 1
    return run.loaded_state.parts[first : first + part.own.chunks]
