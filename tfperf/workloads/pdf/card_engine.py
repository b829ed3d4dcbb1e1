"""The card's `engine`: how the step is computed."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from tfperf.measure.environment import count_cores
from tfperf.runcard.faults import Fault, refuse
from tfperf.runcard.types import MAX_REPLICA, STRICT, Step


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Engine:
    """How the step is computed; none of this changes what is computed."""

    precision: Literal["float32", "float64"] = Field(
        default="float32", description="of the training; reports use float64"
    )
    xla: Literal["auto"] | bool = Field(
        default="auto", description="compile with XLA; auto: where it is faster and the steps can pay for it, measured"
    )
    threads: Literal["auto", "measure"] | Annotated[int, Field(ge=1, le=1024)] = Field(
        default="auto",
        description="CPU threads; auto: one per available core; measure: the fastest of a few numbers, tried together "
        "with stacks",
    )
    tf32: bool = Field(
        default=False, description="products in TensorFloat-32 on GPUs that have it; errs by 1e-3: needs a tolerance"
    )
    stacks: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = Field(
        default="auto",
        description="stacks of replicas on a CPU, of which as many as there are threads train at the same time; "
        "auto: the same number for each thread, of about 10 replicas, one alone where tables are large",
    )
    devices: Literal["all"] | Annotated[int, Field(ge=1, le=1024)] = Field(
        default="all",
        description="GPUs that the replicas are spread over, without a GPU the CPU; all: every visible one",
    )
    form: Literal["auto", "shared", "folded"] = Field(
        default="auto",
        description="shared: all replicas' predictions from one product, masks as weights; folded: points, masks and "
        "covariance of each replica in one small matrix; auto: the faster one, measured where the steps can pay for it",
    )
    tolerance: Annotated[float, Field(ge=0, le=100)] = Field(
        default=0.0,
        description="how far chi2 per point may be off, times max(1, chi2 per point), for speed; 0: exact to rounding",
    )
    check_every: Step = Field(default=1000, description="steps between comparisons with the exact chi2")
    on_violation: Literal["raise_rank", "refit", "fail"] = Field(
        default="raise_rank",
        description="where chi2 leaves the tolerance; raise_rank: go on more exactly, and fit replicas that "
        "are still off at their best weights again, exactly; refit: only that; fail: stop",
    )
    products: Literal["auto", "grouped", "joined", "padded"] = Field(
        default="auto",
        description="grouped: several products, each over the flavours and grid nodes that its predictions use; "
        "joined: one over all that are used; padded: over all there are, to compare with; "
        "auto: the faster of the first two, measured where the steps can pay for it",
    )
    retire_at: Literal["auto"] | Annotated[tuple[Step, ...], Field(max_length=1000)] = Field(
        default="auto",
        description="steps at which replicas that have stopped leave the stack; []: never; "
        "auto: each twentieth of train.steps, where fewer or smaller stacks save more than they cost to make",
    )
    chunk: Literal["auto"] | Annotated[int, Field(ge=1, le=MAX_REPLICA)] = Field(
        default="auto", description="replicas trained together at most; auto: as many as fit the free memory"
    )

    cache: Literal["renew"] | bool = Field(
        default=True,
        description="keep operators, what was measured and what XLA compiled for a CPU for the next run, on disk; "
        "renew: without looking at what is there",
    )

    @model_validator(mode="after")
    def _refuse_faults(self) -> Self:
        refuse(self._check_keys())
        return self

    def _check_keys(self) -> Iterator[Fault]:
        if self.tf32 and self.tolerance == 0:
            yield Fault("tf32", True, "needs a tolerance above 0: products err by 1e-3 then, which has to be watched")
        if self.retire_at != "auto":
            for i, (before, step) in enumerate(pairwise(self.retire_at), 1):
                if step <= before:
                    yield Fault(f"retire_at.{i}", step, f"must be above {before}, the step before it in the list")

    def check_retirement(self, steps: int) -> Iterator[Fault]:
        """Steps of `retire_at` that do not lie before the last of `steps`."""
        for i, step in enumerate(() if self.retire_at == "auto" else self.retire_at):
            if step >= steps:
                yield Fault(f"engine.retire_at.{i}", step, f"must be below train.steps = {steps}")


def count_threads(engine: Engine) -> int:
    """How many threads TensorFlow gets: the card's number, by default one per core."""
    return engine.threads if isinstance(engine.threads, int) else count_cores()
