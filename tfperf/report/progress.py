"""Progress of a training in words."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from tfperf.console.stages import Stages


class Status(Protocol):
    """How far a training is."""

    @property
    def step(self) -> int:
        """Steps taken."""

    @property
    def steps(self) -> int:
        """Steps to take at most."""

    @property
    def steps_per_second(self) -> float:
        """The speed of late."""

    @property
    def over(self) -> bool:
        """Whether no further step will be taken."""


S = TypeVar("S", bound=Status)
Show = Callable[[S], None]
Words = Callable[[S], str]


def show_training(stages: Stages, words: Words[S], which: str = "") -> Show[S]:
    """A function to call with each status, of which `words` tells; `which` stands before."""

    def show(status: S) -> None:
        # at most: it may stop before
        seconds = None if status.over else (status.steps - status.step) / status.steps_per_second
        stages.step(status.step, status.steps, lambda: f"{which}{words(status)}", seconds)

    return show
