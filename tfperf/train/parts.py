"""A part of a run as it begins: its checkpoints, and whether the machine is still the same."""

from collections.abc import Callable
from typing import Any, Protocol

from tfperf.results.contents import CHECKPOINTS
from tfperf.results.rundir import RunDirectory
from tfperf.results.state import Part
from tfperf.train.checkpoint import Checkpoints

Say = Callable[[str], None]


def warn_of_change(part: Part[Any], machine: dict[str, Any], say: Say) -> None:
    """Say what of the machine is not as when the part began."""
    for key in (k for k in machine if part.machine.get(k) != machine[k]):
        say(f"warning: {key} was {part.machine.get(key)}, is {machine[key]}: bits may differ from an uninterrupted run")


def make_checkpoints(run: RunDirectory[Any], part: Part[Any]) -> Checkpoints:
    """The checkpoints of a part."""
    return Checkpoints(run.path / CHECKPOINTS, run.loaded_state.identity, part.key)


class Resumable(Protocol):
    """A training that goes on from its checkpoints."""

    def resume(self) -> tuple[int, list[str]]:
        """Take up the newest one; its step (0: there is none) and warnings."""


def resume(run: RunDirectory[Any], part: Part[Any], trainer: Resumable, say: Say) -> None:
    """Have a training go on where it was, say so, and note it."""
    step, warnings = trainer.resume()
    for warning in warnings:
        say(f"warning: {warning}")
    if step:
        say(f"going on from step {step}")
        part.resumed_from_steps.append(step)
        run.save_state()
