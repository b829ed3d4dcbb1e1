"""How many replicas are trained together: as many as fit the memory."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np

from tfperf.data.cache import digest
from tfperf.measure.environment import read_available_bytes, read_memory_bytes
from tfperf.workloads.pdf.card import FITTED, Card
from tfperf.workloads.pdf.layers.quadrature import make_quadrature
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.operators.woodbury import build_whitening

# resident memory of a process with TensorFlow imported and a step compiled, as measured
BASE_BYTES = 950e6
# of the memory that is free: other programs want some, too, and the model errs
SHARE = 0.7


def count_parameters(card: Card) -> int:
    """Trained numbers of one replica."""
    widths = (2, *card.model.layers)
    dense = sum((i + 1) * o for i, o in pairwise(widths))
    return dense + (2 * len(FITTED) if card.model.trainable_exponents else 0)


@dataclass(frozen=True)
class Footprint:
    """Predicted peak memory in bytes: fixed, per replica that is trained at once, per replica of the whole result."""

    fixed_bytes: float
    bytes_per_trained: float
    bytes_per_result: float

    def estimate_peak_bytes(self, together: int, total: int) -> float:
        """Of a run of `total` replicas, `together` of them at once."""
        return self.fixed_bytes + together * self.bytes_per_trained + total * self.bytes_per_result

    def count_fitting(self, budget: float, total: int) -> int:
        """How many of `total` replicas at once stay within the budget; one, where even that does not."""
        left = budget - self.fixed_bytes - total * self.bytes_per_result
        return min(total, max(1, int(left / self.bytes_per_trained)))


def estimate_footprint(card: Card, problem: Problem, quick: bool = False) -> Footprint:
    """The memory of a fit, from the problem of any of its replicas; `quick`: an upper limit instead, at once."""
    dtype = np.dtype(card.engine.precision)
    points, width = len(problem.central), dtype.itemsize
    columns = [problem.covariance.columns.shape[1] + points // 2] if quick else _count_directions(problem, dtype)
    inverses = 2 * sum(k**2 for k in columns)
    nodes = len(problem.pack.x) + len(make_quadrature(card.model.sum_rules).x)
    activations = 3 * (
        sum(card.model.layers) * nodes + problem.observables.feature_count
    )  # forward, backward and one to spare
    # the K^-1 are made in float64, then narrowed and handed over: both copies are there for a moment
    trained = inverses * (8 + 2 * width) + (12 * points + activations + 8 * count_parameters(card)) * width + 9 * points
    kept = 8 * (3 * points + 3 * count_parameters(card) + 3 * len(FITTED) * len(problem.pack.x))
    tables = problem.observables.entries * (2 * 8 + 2 * width)
    dense = 3 * 8 * points**2  # covariance and its factors in the final evaluation
    return Footprint(BASE_BYTES + tables + dense, float(trained), float(kept))


def _count_directions(problem: Problem, dtype: np.dtype[Any]) -> list[int]:
    """Systematics of each block of the covariance."""
    covariance, sets = problem.covariance, problem.sets

    def count() -> list[int]:
        return [block.u.shape[1] for block in build_whitening(covariance, sets, dtype.type).blocks]

    rows = [(name, rows.start, rows.stop) for name, rows in sets.items()]
    return problem.cache.get("directions", digest(covariance, rows, dtype.name), count)


def choose_chunk_size(card: Card, build_problem: Callable[[], Problem], total: int) -> int:
    """How many of `total` replicas are trained together; `build_problem`: that of any one of them, where needed."""
    if card.engine.chunk != "auto":
        return card.engine.chunk
    if total == 1:
        return 1
    one, budget = build_problem(), SHARE * (read_available_bytes() or read_memory_bytes() / 2)
    if estimate_footprint(card, one, quick=True).estimate_peak_bytes(total, total) <= budget:
        return total
    return estimate_footprint(card, one).count_fitting(budget, total)


def split(total: int, most: int) -> list[slice]:
    """The fewest chunks of at most `most` of `total` rows, all of nearly the same size.

    >>> split(10, 4)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    count = ceil(total / most)
    ends = [total * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]
