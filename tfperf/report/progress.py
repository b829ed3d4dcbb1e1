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
    def steps(self) -> int | None:
        """Steps to take at most; None: not known."""

    @property
    def steps_per_second(self) -> float:
        """The speed of late."""

    @property
    def over(self) -> bool:
        """Whether no further step will be taken."""


S = TypeVar("S", bound=Status)
ShowStatus = Callable[[S], None]
DescribeStatus = Callable[[S], str]


def make_status_display(stages: Stages, describe: DescribeStatus[S], prefix: str = "") -> ShowStatus[S]:
    """A function to call with each status, of which `describe` tells; `prefix` stands before."""

    def show(status: S) -> None:
        # at most: it may stop before
        left = 0 if status.over or status.steps is None else status.steps - status.step
        seconds = None if status.over else left / status.steps_per_second
        stages.show_steps(status.step, status.steps, lambda: f"{prefix}{describe(status)}", seconds)

    return show
