"""When replicas that have stopped leave their stacks, and how many slots are left then.

A step takes about as long as its stacks are large. Stacks of a size that was never there must be compiled, others only
built: few sizes, and none that would not pay. All that decides is the card, the step number, how many replicas run,
and what was measured before the first step: neither the number of steps per call nor an interruption changes anything.
"""

from dataclasses import dataclass
from typing import Literal

from tfperf.train.choices import Choices
from tfperf.train.shards import Layout

LOOKS = 20
# new stacks, in units of the seconds that their step takes to compile: those of a size that is there are only built
NEW_COST, KNOWN_COST = 1.3, 0.3


@dataclass(frozen=True)
class Retirement:
    """The plan of one training of a device's replicas."""

    layout: Layout
    steps: int
    at: tuple[int, ...]  # ascending steps before which slots may be given up
    cost: float  # of compiling a step, in steps of all replicas

    def size(self, step: int, now: int, running: int) -> int:
        """Slots from this step on: of those that hold the running replicas the ones that save most."""
        sizes = [slots for slots in self._prices() if running <= slots < now]
        best = max(sizes, key=lambda slots: self._gain(step, now, slots), default=now)
        return best if step in self.at and self._gain(step, now, best) > 0 else now

    def pays(self, step: int) -> bool:
        """Whether anything could be gained at a step, if few enough replicas ran."""
        return any(self._gain(step, self.layout.replicas, slots) > 0 for slots in self._prices())

    def saving(self, step: int, slots: int) -> float:
        """Steps of all replicas saved by so many slots less, if the last one stops half way to the last step."""
        return slots / self.layout.replicas * (self.steps - step) / 2

    def until(self, step: int) -> int:
        """The step at which slots may be given up next, else the last step."""
        return min((s for s in self.at if s > step), default=self.steps)

    def _prices(self) -> dict[int, float]:
        """What going over to each number of slots costs."""
        prices = dict.fromkeys(self.layout.smaller(), NEW_COST * self.cost)
        return prices | dict.fromkeys(self.layout.fewer(), KNOWN_COST * self.cost)

    def _gain(self, step: int, now: int, slots: int) -> float:
        return self.saving(step, now - slots) - self._prices().get(slots, 0.0)


def plan(steps: int, retire_at: Literal["auto"] | tuple[int, ...], layout: Layout, choices: Choices) -> Retirement:
    """The steps that are given; with `auto` those of every twentieth of the training at which something could pay."""
    if retire_at != "auto":
        return Retirement(layout, steps, retire_at, 0.0)
    every = Retirement(layout, steps, (), _cost(choices, layout.rounds))
    looks = sorted({i * steps // LOOKS for i in range(1, LOOKS)} - {0})
    return Retirement(layout, steps, tuple(step for step in looks if every.pays(step)), every.cost)


def _cost(choices: Choices, rounds: int) -> float:
    """Steps of all stacks that take as long as to compile one; 0 where nothing was measured."""
    measured = [1e3 * t.compile_seconds / (rounds * t.ms_per_step) for t in choices.taken]
    return min(measured, default=0.0)
