"""When replicas that have stopped leave their stacks, and how many slots are left then.

A step takes about as long as its stacks are large. Stacks of a size that was never there must be compiled, others only
built: few sizes, and none that would not pay. All that decides is the card, the step number, how many replicas run,
and what was measured before the first step: neither the number of steps per call nor an interruption changes anything.
"""

from dataclasses import dataclass
from typing import Literal

from tfperf.train.choices import Choices
from tfperf.train.shards import StackLayout

RetireAt = Literal["auto"] | tuple[int, ...]
CANDIDATES = 20
# new stacks, in units of the seconds that their step takes to compile: those of a size that is there are only built
NEW_COST, KNOWN_COST = 1.3, 0.3


@dataclass(frozen=True)
class Retirement:
    """The plan of one training of a device's replicas."""

    layout: StackLayout
    steps: int
    retire_at: tuple[int, ...]  # ascending steps before which slots may be given up
    cost: float  # of compiling a step, in steps of all replicas

    def choose_size(self, step: int, now: int, running: int) -> int:
        """Slots from this step on: of those that hold the running replicas the ones that save most."""
        sizes = [slots for slots in self._estimate_costs() if running <= slots < now]
        best = max(sizes, key=lambda slots: self._estimate_gain(step, now, slots), default=now)
        return best if step in self.retire_at and self._estimate_gain(step, now, best) > 0 else now

    def can_pay(self, step: int) -> bool:
        """Whether anything could be gained at a step, if few enough replicas ran."""
        return any(self._estimate_gain(step, self.layout.replicas, slots) > 0 for slots in self._estimate_costs())

    def estimate_saving(self, step: int, slots: int) -> float:
        """Steps of all replicas saved by so many slots less, if the last one stops half way to the last step."""
        return slots / self.layout.replicas * (self.steps - step) / 2

    def find_next_step(self, step: int) -> int:
        """The step at which slots may be given up next, else the last step."""
        return min((s for s in self.retire_at if s > step), default=self.steps)

    def _estimate_costs(self) -> dict[int, float]:
        """What going over to each number of slots costs."""
        costs = dict.fromkeys(self.layout.list_new_sizes(), NEW_COST * self.cost)
        return costs | dict.fromkeys(self.layout.list_known_sizes(), KNOWN_COST * self.cost)

    def _estimate_gain(self, step: int, now: int, slots: int) -> float:
        return self.estimate_saving(step, now - slots) - self._estimate_costs().get(slots, 0.0)


def make_retirement(steps: int, retire_at: RetireAt, layout: StackLayout, choices: Choices) -> Retirement:
    """The steps that are given; with `auto` those of every twentieth of the training at which something could pay."""
    if retire_at != "auto":
        return Retirement(layout, steps, retire_at, 0.0)
    every = Retirement(layout, steps, (), _compute_cost(choices, layout.rounds))
    candidates = sorted({i * steps // CANDIDATES for i in range(1, CANDIDATES)} - {0})
    return Retirement(layout, steps, tuple(step for step in candidates if every.can_pay(step)), every.cost)


def _compute_cost(choices: Choices, rounds: int) -> float:
    """Steps of all stacks that take as long as to compile one; 0 where nothing was measured."""
    return min((1e3 * t.compile_seconds / (rounds * t.ms_per_step) for t in choices.chosen_timings), default=0.0)
