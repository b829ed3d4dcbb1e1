"""When replicas that have stopped leave the stack, and which sizes the stack takes then.

A step takes about as long as the stack is large, a stack of another size must be built and compiled: few sizes, and
none that would not pay. All that decides is the card, the step number, how many replicas run, and what was measured
before the first step: neither the number of steps per call nor an interruption changes anything.
"""

from dataclasses import dataclass
from math import ceil

from tfperf.runcard.config import Card
from tfperf.train.choices import Choices

SHARES = (0.75, 0.5, 0.25, 0.125, 0.0625)
LOOKS = 20
# a new stack, in units of the seconds that its step takes to compile: constants and losses take a third of that
STACK_COST = 1.3


@dataclass(frozen=True)
class Retirement:
    """The plan of one training of `replicas` replicas."""

    replicas: int
    steps: int
    at: tuple[int, ...]  # ascending steps before which the stack may shrink
    cost: float  # of a new stack, in steps of the full one

    def size(self, step: int, now: int, running: int) -> int:
        """Size of the stack from this step on: the smallest that holds the running replicas, where that pays."""
        if step not in self.at:
            return now
        new = min((s for s in self.sizes() if running <= s < now), default=now)
        return new if self.saving(step, now - new) > self.cost else now

    def sizes(self) -> tuple[int, ...]:
        """All sizes below the full one, in descending order."""
        return tuple(sorted({ceil(share * self.replicas) for share in SHARES} - {self.replicas}, reverse=True))

    def saving(self, step: int, slots: int) -> float:
        """Steps of the full stack saved by so many slots less, if the last replica stops half way to the last step."""
        return slots / self.replicas * (self.steps - step) / 2

    def until(self, step: int) -> int:
        """The step at which the stack may shrink next, else the last step."""
        return min((s for s in self.at if s > step), default=self.steps)


def plan(card: Card, replicas: int, choices: Choices) -> Retirement:
    """The card's steps; with `auto` those of every twentieth of the training at which the smallest stack would pay."""
    steps, given = card.train.steps, card.engine.retire_at
    if given != "auto":
        return Retirement(replicas, steps, given, 0.0)
    every = Retirement(replicas, steps, (), _cost(choices))
    most = replicas - min(every.sizes(), default=replicas)
    looks = sorted({i * steps // LOOKS for i in range(1, LOOKS)} - {0})
    return Retirement(replicas, steps, tuple(s for s in looks if every.saving(s, most) > every.cost), every.cost)


def _cost(choices: Choices) -> float:
    """Steps of the full stack that take as long as to build and compile another one; 0 where nothing was measured."""
    measured = [STACK_COST * 1e3 * t.compile_seconds / t.ms_per_step for t in choices.taken]
    return min(measured, default=0.0)
