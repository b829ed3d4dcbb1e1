"""What a workload offers to have its memory estimated without running a step: traced steps, as they are and changed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tfperf.errors import UnknownSizeError
from tfperf.measure.static_memory.result import ModelKind, StaticEstimate

MOST = 2**24  # samples of a batch that are tried
SHORTER = "shorter lengths"


@dataclass(frozen=True, kw_only=True)
class TracedStep:
    """A step that is traced for a batch, and what is in memory beside it.

    concrete: a ConcreteFunction; function, specs: a tf.function that XLA compiles and what it takes, None and empty
    where XLA compiles nothing. held: shapes, with bytes of an element as their last part, of tensors that are there
    beside those the function captures; variables: names of the optimizer's; optimizer: its scope; fixed: bytes of
    all variables and samples, for a compiled step. kind: None: as its operations tell.
    """

    concrete: Any
    function: Any = None
    specs: Sequence[Any] = ()
    held: Collection[tuple[int, ...]] = ()
    slots: Collection[str] = ()
    optimizer: str = ""
    fixed: int = 0
    kind: ModelKind | None = None

    def estimate(self) -> StaticEstimate:
        """Compiles, where XLA does, and never runs."""
        from tfperf.measure.static_memory.compiled import estimate_compiled
        from tfperf.measure.static_memory.estimate import estimate_step
        from tfperf.measure.static_memory.result import find_model_kind

        kind = self.kind or find_model_kind(self.concrete)
        if self.function is None:
            return replace(estimate_step(self.concrete, self.held, self.slots, self.optimizer), kind=kind)
        return estimate_compiled(self.function, self.specs, self.fixed, kind, self.optimizer)


class ScaledSteps:
    """Steps of any size, none of which but two small ones is traced. XLA compiles none of them."""

    def __init__(self, sizes: tuple[int, int], trace: Callable[[int], TracedStep]) -> None:
        """trace: of the step of a size; what it works on is let go before the next one is traced."""
        from tfperf.measure.static_memory.program import make_program

        self._sizes, self._traced, self._programs = sizes, list[TracedStep](), list[Any]()
        for size in sizes:
            traced = trace(size)
            self._programs.append(make_program(traced.concrete))
            self._traced.append(replace(traced, concrete=None))
            del traced

    def scale(self, size: int) -> "ScaledStep":
        """The step of a size."""
        return ScaledStep(self, size)

    def estimate(self, size: int) -> StaticEstimate:
        """Of a step of that size."""
        from tfperf.measure.static_memory.estimate import estimate_program
        from tfperf.measure.static_memory.scaling import Scale, scale_program

        (one, other), scale = self._traced, Scale(*self._sizes, size)
        try:
            program = scale_program(self._programs[0], self._programs[1], scale)
            held = [scale.scale_shape(*pair) for pair in zip(one.held, other.held, strict=True)]
        except UnknownSizeError as error:
            return StaticEstimate(peak=None, fixed=None, kind=one.kind, compiled=False, reason=str(error))
        return estimate_program(program, one.kind, held, one.slots, one.optimizer)


@dataclass(frozen=True)
class ScaledStep:
    """One of them."""

    steps: ScaledSteps
    size: int

    def estimate(self) -> StaticEstimate:
        """Nothing is traced any more."""
        return self.steps.estimate(self.size)


class StepTracer(Protocol):
    """A training, or a prediction, whose step is traced for any batch, and with changes that would shrink it."""

    @property
    def most(self) -> int:
        """Samples of the largest batch whose step is traced."""

    def list_variants(self) -> Mapping[str, str]:
        """What may be changed, by its name: in words what is changed."""

    def trace_step(self, batch: int, variant: str = "") -> TracedStep | ScaledStep:
        """The step for so many samples, as the card has it or with a change. Raises: UserError of what cannot be."""


def choose_shorter(lengths: Sequence[int]) -> int | None:
    """The padded length below the longest one, of those that a memory study measures; None: all are the same.

    >>> choose_shorter([6, 12, 40]), choose_shorter([20, 40, 40]), choose_shorter([])
    (12, 20, None)
    """
    return max((one for one in lengths if one < max(lengths)), default=None)


def describe_shorter(lengths: Sequence[int], unit: str) -> str:
    """What a step with `choose_shorter` has; unit: of a length."""
    return f"batches padded to {choose_shorter(lengths)} {unit} in place of {max(lengths)}"
