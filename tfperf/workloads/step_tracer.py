"""What a workload offers to have its memory estimated without running a step: traced steps, as they are and changed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tfperf.measure.static_memory.result import StaticEstimate


@dataclass(frozen=True, kw_only=True)
class TracedStep:
    """A step that is traced for a batch, and what is in memory beside it.

    concrete: a ConcreteFunction; function, specs: a tf.function that XLA compiles and what it takes, None and empty
    where XLA compiles nothing. held: shapes, with bytes of an element as their last part, of tensors that are there
    beside those the function captures; variables: names of the optimizer's; optimizer: its scope; fixed: bytes of
    all variables and samples, for a compiled step.
    """

    concrete: Any
    function: Any = None
    specs: Sequence[Any] = ()
    held: Collection[tuple[int, ...]] = ()
    slots: Collection[str] = ()
    optimizer: str = ""
    fixed: int = 0

    def estimate(self) -> StaticEstimate:
        """Compiles, where XLA does, and never runs."""
        from tfperf.measure.static_memory.compiled import estimate_compiled
        from tfperf.measure.static_memory.estimate import estimate_step
        from tfperf.measure.static_memory.result import find_model_kind

        if self.function is None:
            return estimate_step(self.concrete, self.held, self.slots, self.optimizer)
        kind = find_model_kind(self.concrete)
        return estimate_compiled(self.function, self.specs, self.fixed, kind, self.optimizer)


class StepTracer(Protocol):
    """A training, or a prediction, whose step is traced for any batch, and with changes that would shrink it."""

    def list_variants(self) -> Mapping[str, str]:
        """What may be changed, by its name: in words what is changed."""

    def trace_step(self, batch: int, variant: str = "") -> TracedStep:
        """The step for so many samples, as the card has it or with a change. Raises: UserError of what cannot be."""
