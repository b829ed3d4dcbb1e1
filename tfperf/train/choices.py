"""What was decided before the first step: the form of the losses and their products, XLA or graph, steps per call."""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter

from tfperf.runcard.types import STRICT, Step
from tfperf.train.cores import Cores

MOST_STEPS = 1000
MOST_THREADS = 10_000
MOST_TIMINGS = 1000
Word = Annotated[str, Field(min_length=1, max_length=100)]
Time = Annotated[float, Field(ge=0)]
Threads = Annotated[int, Field(ge=1, le=MOST_THREADS)]
CoresTried = Annotated[tuple[tuple[Threads, Threads, Time], ...], Field(max_length=MOST_TIMINGS)]


@dataclass(frozen=True)
class CandidateTiming:
    """One candidate as measured, on the largest stack and those that take their steps at the same time.

    call_ms: what a call takes beside its steps; ms_of_all: a step of all replicas, with its share of a call.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    form: Word
    products: Word
    xla: bool
    compile_seconds: Time
    ms_per_step: Time
    call_ms: Time = 0.0
    ms_of_all: Time = 0.0


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What was decided; all of it is read back when the run is resumed."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    form: Word
    products: Word
    xla: bool
    losses_xla: bool  # whether the losses between calls are compiled, too
    steps_per_call: Step
    threads: Threads  # of TensorFlow, for the operations of all stacks
    cpu_stacks: Threads
    tried: Annotated[tuple[CandidateTiming, ...], Field(max_length=MOST_TIMINGS)]
    cores_tried: CoresTried = ()  # threads, stacks, and ms per step of all replicas
    cached: bool = False  # found by an earlier run

    @property
    def chosen_timings(self) -> list[CandidateTiming]:
        """Those of what was chosen; empty where it was not measured."""
        mine = (self.form, self.products, self.xla)
        return [t for t in self.tried if (t.form, t.products, t.xla) == mine]

    @property
    def cores(self) -> Cores:
        """How the CPU is used."""
        return Cores(self.threads, self.cpu_stacks)

    def describe(self) -> str:
        """What was decided, in words."""
        steps, losses = ("XLA" if xla else "graph" for xla in (self.xla, self.losses_xla))
        return (
            f"form {self.form}, products {self.products}, steps by {steps}, losses by {losses}, "
            f"{self.steps_per_call} steps a call, {self.threads} threads, {self.cpu_stacks} stacks"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for run.json."""
        return asdict(self)

    @staticmethod
    def from_dict(values: dict[str, Any], forms: Collection[str], layouts: Collection[str]) -> "Choices":
        """The choices of run.json. Raises: ValueError for values of another type, out of range, or of other forms."""
        try:
            found = TypeAdapter(Choices).validate_json(json.dumps(values))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"no choices: {error}") from None
        for form, products in [(found.form, found.products), *((t.form, t.products) for t in found.tried)]:
            if form not in forms or products not in layouts:
                raise ValueError(f"no form: {form} with products {products}")
        return found
