"""How long a prediction still takes, with an interval: what is left, from a sample of records, over the rate so far."""

import math
from dataclasses import dataclass, field

import numpy as np

from tfperf.measure.confidence import ConfidenceInterval, estimate_mean

LEAST_BLOCKS, MOST_BLOCKS = 6, 24  # that the time so far is cut into
RECENT_SECONDS = 120.0  # that a rate is told of at least, where there are as many
MOST_PARTS = 4096  # that a log has
UNSEEN = 0.04  # relative: what changes a machine's speed from one part of a run to another, and no block has seen


@dataclass(frozen=True)
class CostSample:
    """Costs of records from all over all records: means (n) of groups of neighbours, each drawn at random."""

    means: tuple[float, ...]

    def estimate_mean(self) -> ConfidenceInterval:
        """Of a record of the source. Groups are drawn, so it is as sure as their scatter says, drift or not."""
        return estimate_mean(self.means)


@dataclass
class RateLog:
    """Batches that were computed, and their cost, over time. begin, and all times: in s since the first lease.

    What is old is kept in ever larger parts, so that the log stays short.
    """

    begin: float = 0.0
    at: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)
    total: float = 0.0

    def add(self, at: float, cost: float) -> None:
        """A batch that was done then."""
        self.at.append(at)
        self.cost.append(cost)
        self.batches.append(1.0)
        self.total += cost
        if len(self.at) > MOST_PARTS:
            self.cost, self.batches = _join_pairs(self.cost), _join_pairs(self.batches)
            self.at = [*self.at[1::2], *(self.at[-1:] if len(self.at) % 2 else [])]

    def estimate_rate(self, now: float, batch_cost: float = 0.0) -> ConfidenceInterval:
        """Cost a second until now, of the last half of the log, but of at least RECENT_SECONDS; without limits where
        there are too few batches to tell. batch_cost: what each batch costs beside its own cost, whatever is in it.

        Raises: ValueError where there are none.
        """
        first = max(self.begin, min(now - RECENT_SECONDS, (self.begin + now) / 2))
        at, cost = np.array(self.at), np.array(self.cost) + batch_cost * np.array(self.batches)
        chosen = (at > first) & (at <= now)
        total = float(cost[chosen].sum())
        if not total:
            raise ValueError("nothing was computed")
        rate = total / (now - first)
        blocks = min(MOST_BLOCKS, int(chosen.sum()) // 4)
        if blocks < LEAST_BLOCKS:
            return ConfidenceInterval(rate)
        sums, _ = np.histogram(at[chosen], np.linspace(first, now, blocks + 1), weights=cost[chosen])
        found = estimate_mean([float(one) * blocks / (now - first) for one in sums])
        return ConfidenceInterval(rate, found.low, found.high)


def _join_pairs(values: list[float]) -> list[float]:
    """Sums of neighbours; the last one alone where it has none."""
    return [sum(values[place : place + 2]) for place in range(0, len(values), 2)]


def estimate_time_left(
    rate: ConfidenceInterval, known_cost: float, records: int, record_cost: ConfidenceInterval
) -> ConfidenceInterval:
    """Seconds for batches of a known cost, and for records of which only the mean cost is known [cost each].

    Relative errors of rate and cost, and UNSEEN, are added as independent ones are.

    >>> sure = ConfidenceInterval(100.0, 99.0, 101.0)
    >>> found = estimate_time_left(sure, 500.0, 10, ConfidenceInterval(50.0, 50.0, 50.0))
    >>> found.value, round(found.high / found.value, 3)
    (10.0, 1.042)
    """
    cost = known_cost + records * record_cost.value
    if cost <= 0:
        return ConfidenceInterval(0.0, 0.0, 0.0)
    seconds = cost / rate.value
    if rate.low is None or (records and record_cost.low is None):
        return ConfidenceInterval(seconds)
    of_rate = _find_half(rate)
    of_cost = records * (_find_half(record_cost) * record_cost.value) / cost if records else 0.0
    half = math.sqrt(of_rate**2 + of_cost**2 + UNSEEN**2)
    return ConfidenceInterval(seconds, seconds * math.exp(-half), seconds * math.exp(half))


def _find_half(found: ConfidenceInterval) -> float:
    """Half of an interval, relative to its value."""
    assert found.low is not None and found.high is not None
    return (found.high - found.low) / 2 / found.value
