"""How fast each worker is, as it runs, and how much it is given at a time."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfperf.infer.leases import Load

MEMORY_SECONDS = 10.0  # of a worker's own time, after which a batch counts 1/e of the last one
IN_FLIGHT = 2  # units that a worker has: it begins the next while the rows of the last are on their way
FIXED_COSTS = 100.0  # that a unit is at least as long as
MOST_BATCHES = 1000  # of a unit: what handing out one costs is little beside so many
LAST_SHARE = 0.5  # of a worker's share of what is left, that a unit is at most


@dataclass
class WorkerPace:
    """Seconds that a worker takes for batches, as a straight line over their cost; what is old fades.

    A cost is the length that is computed, padding counted, or the number of records where these have none.

    >>> pace = WorkerPace()
    >>> for cost in (100.0, 300.0):
    ...     pace.add(cost, 0.01 + cost / 1000)
    >>> round(pace.predict([200.0, 200.0]), 6)
    0.42
    """

    weight: float = 0.0
    cost: float = 0.0  # sums over batches, each with its weight
    seconds: float = 0.0
    cost_squared: float = 0.0
    product: float = 0.0

    def add(self, cost: float, seconds: float) -> None:
        """A batch, of so many seconds of computing. Raises: ValueError where one is not above 0."""
        if cost <= 0 or seconds <= 0:
            raise ValueError(f"a batch has a cost, and takes time, above 0: {cost}, {seconds}")
        fade = 2.718281828459045 ** (-seconds / MEMORY_SECONDS)
        for name, value in (
            ("weight", 1.0), ("cost", cost), ("seconds", seconds), ("cost_squared", cost * cost),
            ("product", cost * seconds),
        ):  # fmt: skip
            setattr(self, name, fade * getattr(self, name) + value)

    @property
    def is_known(self) -> bool:
        """Whether a batch was seen."""
        return self.weight > 0

    @property
    def rate(self) -> float:
        """Cost a second, of such batches as were seen lately. Raises: ZeroDivisionError where none was."""
        return self.cost / self.seconds

    def fit_line(self) -> tuple[float, float]:
        """Seconds of a batch, and of each unit of cost; without a part of a batch where that is not told apart."""
        mean = self.cost / self.weight
        spread = self.cost_squared / self.weight - mean * mean
        through_zero = 0.0, self.seconds / self.cost
        if spread <= 1e-4 * mean * mean:
            return through_zero
        slope = (self.product / self.weight - mean * self.seconds / self.weight) / spread
        fixed = self.seconds / self.weight - slope * mean
        return (fixed, slope) if slope > 0 and fixed > 0 else through_zero

    def predict(self, costs: Sequence[float]) -> float:
        """Seconds that batches of these costs take."""
        return self.predict_load(Load(len(costs), sum(costs)))

    def predict_load(self, load: Load) -> float:
        """Seconds that so many batches take."""
        fixed, slope = self.fit_line()
        return fixed * load.batches + slope * load.cost


@dataclass(frozen=True)
class UnitRule:
    """How long a unit is. seconds: of computing; fixed_seconds: what handing out one costs, whatever is in it;
    batches: in each, where the user says so."""

    seconds: float = 1.0
    fixed_seconds: float = 0.0
    batches: int | None = None

    @property
    def goal(self) -> float:
        """Seconds of a unit while there is much to do."""
        return max(self.seconds, FIXED_COSTS * self.fixed_seconds)


@dataclass
class Paces:
    """Of all workers that are there."""

    rule: UnitRule
    workers: dict[int, WorkerPace] = field(default_factory=dict)

    def list_unit_limits(self, worker: int) -> tuple[int, float]:
        """Batches, and their cost, of which a worker is given no more at a time, whatever there is to do."""
        mine = self.workers[worker]
        if not mine.is_known:
            return 1, math.inf
        if self.rule.batches is not None:
            return self.rule.batches, math.inf
        return MOST_BATCHES, self.rule.goal * mine.rate

    def choose_count(
        self, worker: int, costs: Sequence[float], backlog: Mapping[int, Load], further: float = 0.0
    ) -> int:
        """How many of the next batches a worker is to be given; 0: it would end after all others had done them.

        costs: of batches that nobody has, the next one first, as many as `list_unit_limits` says or more; further: of
        those after them, about where they are not known yet; backlog: what each worker has.
        """
        if not costs:
            return 0
        mine = self.workers[worker]
        if not mine.is_known:
            return 1 if not backlog[worker].batches else 0  # one batch tells its rate
        limit, cost = self.list_unit_limits(worker)
        if self.rule.batches is not None:
            return min(limit, len(costs))
        left = sum(costs) + further
        most = min(cost, LAST_SHARE * self._estimate_share(worker) * left)
        count, total = 1, costs[0]
        while count < min(len(costs), limit) and total + costs[count] <= most:
            total += costs[count]
            count += 1
        if count > 1 or self._is_first_to_end(worker, costs, left, backlog):
            return count
        return 0

    def _estimate_share(self, worker: int) -> float:
        """Of a worker in what all do; those that have done nothing yet are taken to be as fast as the mean."""
        known = [one.rate for one in self.workers.values() if one.is_known]
        return self.workers[worker].rate / (sum(known) / len(known) * len(self.workers))

    def _is_first_to_end(self, worker: int, costs: Sequence[float], left: float, backlog: Mapping[int, Load]) -> bool:
        """Whether a worker has done the next batch before the others could have done all that nobody has, with it.

        Where all are idle, one of them is the first to end the next batch: somebody takes it.
        """
        others = {one: pace for one, pace in self.workers.items() if pace.is_known and one != worker}
        if not others:
            return True
        mine = backlog[worker]
        own = self.workers[worker].predict_load(Load(mine.batches + 1, mine.cost + costs[0]))
        rest = Load(math.ceil(len(costs) * left / sum(costs)), left)
        busy = {one: pace.predict_load(backlog[one]) for one, pace in others.items()}
        alone = {one: pace.predict_load(rest) for one, pace in others.items()}
        together = (1 + sum(busy[one] / alone[one] for one in others)) / sum(1 / alone[one] for one in others)
        next_one = min(busy[one] + pace.predict_load(Load(1, costs[0])) for one, pace in others.items())
        return own <= max(*busy.values(), next_one, together)
