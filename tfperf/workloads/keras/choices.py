"""Which loop takes the steps, and whether XLA compiles them: decided before the first step, kept for a resumed run."""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import keras
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from tfperf.console.stages import ShowStage
from tfperf.errors import CardError
from tfperf.measure.quiet import drop_native_logs
from tfperf.runcard.types import STRICT, Step
from tfperf.workloads.keras.comparison import FAILURES, compare_loops, time_loop
from tfperf.workloads.keras.feeds import Feed
from tfperf.workloads.keras.loops import Compilation, PlainArithmeticLoop, StepLoop
from tfperf.workloads.keras.state import ModelState

COMPARED = 10  # batches that both loops are given
WORTH_COMPILING = 20.0  # seconds of a training in graph mode below which XLA, which takes some to compile, is not tried
CALL_SECONDS = 0.5
MOST_STEPS = 10_000  # of a call
Time = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, kw_only=True)
class LoopChoices:
    """What was decided; all of it is read back when the run is resumed."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT
    loop: Literal["tfperf", "keras"]
    reason: Annotated[str, Field(max_length=2000)]  # why it is not tfperf's; empty where it is
    compilation: Compilation
    steps_per_call: Step
    ms_per_step: dict[Compilation, Time]  # as measured
    rewrites: bool = True  # whether TensorFlow may rewrite arithmetic, which rounds otherwise in a loop
    batch_hooks: tuple[Annotated[str, Field(max_length=256)], ...] = ()  # callbacks that ask for one step a call
    ms_one_step_a_call: Time | None = None  # as measured where there are such

    def to_dict(self) -> dict[str, Any]:
        """Plain values for run.json."""
        return TypeAdapter(LoopChoices).dump_python(self)  # type: ignore[no-any-return]

    def explain(self) -> list[str]:
        """What a user may want to change, in words."""
        found = [f"Keras' own train function takes the steps: {self.reason}"] if self.reason else []
        if self.batch_hooks and self.ms_one_step_a_call is not None:
            many, one = min(self.ms_per_step.values()), self.ms_one_step_a_call
            names = ", ".join(self.batch_hooks)
            found.append(f"{names}: told of each step, so a call takes one: {one:.3g} ms a step, {many:.3g} without")
        return found

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "LoopChoices":
        """The choices of run.json. Raises: ValueError."""
        return TypeAdapter(LoopChoices).validate_json(json.dumps(values))


def make_loop(model: keras.Model, feed: Feed, choices: LoopChoices) -> StepLoop:
    """The loop that was chosen."""
    if choices.loop == "keras":
        return feed.make_keras_loop(model, choices.compilation != "graph")
    loop = feed.make_loop(model.train_step, choices.compilation)
    return loop if choices.rewrites else PlainArithmeticLoop(loop)


class LoopWishes(NamedTuple):
    """What a card and its callbacks ask for."""

    xla: Literal["auto", "step", "loop"] | bool
    steps_per_call: int | None  # None: as measured
    steps: int | None = None  # of the whole training; None: not known
    batch_hooks: tuple[str, ...] = ()


class Candidate(NamedTuple):
    """A loop that may take the steps: why it is Keras' own, if it is, and how long a step takes."""

    loop: StepLoop
    reason: str
    ms: float


def choose_loop(
    model: keras.Model, feed: Feed, state: ModelState, wishes: LoopWishes, show_stage: ShowStage
) -> tuple[LoopChoices, StepLoop]:
    """Compare tfperf's loop with Keras' train function on the first batches, and time graph and XLA.

    The model's state is put back. In graph mode every variable has to be equal to the bit, under XLA losses to 1e-5;
    else Keras' train function takes the steps. Raises: CardError for wishes that cannot be had.
    """
    before, recorded = state.snapshot(), feed.record(COMPARED)
    found: dict[Compilation, Candidate] = {}
    candidates = _list_candidates(wishes, feed)
    for number, compilation in enumerate(candidates, 1):
        if "graph" in found and _is_short(wishes.steps, found["graph"].ms):
            break
        show_stage("comparing and timing loops", number, len(candidates))
        state.restore(before)
        try:
            with _keep_quiet():
                loop, reason = compare_loops(model, feed, recorded, compilation, state, before)
                found[compilation] = Candidate(loop, reason, time_loop(loop, recorded, state, before))
        except FAILURES:
            if compilation == "graph" or (number == len(candidates) and not found):
                state.restore(before)
                raise
    chosen = min(found, key=lambda one: found[one].ms)
    best = found[chosen]
    alone = time_loop(best.loop, recorded, state, before, single=True) if wishes.batch_hooks else None
    state.restore(before)
    model.jit_compile = chosen != "graph"
    most = feed.steps_per_epoch or MOST_STEPS
    steps = 1 if wishes.batch_hooks else min(most, wishes.steps_per_call or max(1, int(1e3 * CALL_SECONDS / best.ms)))
    choices = LoopChoices(
        loop="keras" if best.reason else "tfperf", reason=best.reason, compilation=chosen, steps_per_call=steps,
        ms_per_step={one: candidate.ms for one, candidate in found.items()},
        rewrites=not isinstance(best.loop, PlainArithmeticLoop), batch_hooks=wishes.batch_hooks,
        ms_one_step_a_call=alone,
    )  # fmt: skip
    return choices, best.loop


def _is_short(steps: int | None, ms: float) -> bool:
    return steps is not None and 1e-3 * steps * ms < WORTH_COMPILING


def _list_candidates(wishes: LoopWishes, feed: Feed) -> Sequence[Compilation]:
    """The graph first."""
    # XLA ends the process where it is given texts
    if feed.has_texts and wishes.xla not in ("auto", False):
        raise CardError("engine.xla: the data have texts, which XLA cannot take; allowed: auto, false")
    if wishes.xla == "loop" and "XLA loop" not in feed.compilations:
        raise CardError(
            "engine.xla: got loop; XLA cannot take a stream into its loop; allowed: auto, true, false, step"
        )
    if wishes.batch_hooks and (wishes.steps_per_call or 1) > 1:
        names = ", ".join(wishes.batch_hooks)
        raise CardError(f"train.steps_per_call: got {wishes.steps_per_call}; must be 1 for {names}, told of each step")
    if wishes.xla is False or feed.has_texts:
        return ["graph"]
    words: dict[str | bool, Sequence[Compilation]] = {
        "auto": feed.compilations,
        True: feed.compilations[1:],
        "step": ["XLA step"],
        "loop": ["XLA loop"],
    }
    return words[wishes.xla]


@contextmanager
def _keep_quiet() -> Iterator[None]:
    with drop_native_logs(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Model doesn't support `jit_compile=True`")
        yield
