"""How many replicas are trained together: as many as fit the memory."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np

from tfperf.data.cache import digest
from tfperf.measure.environment import list_gpus, read_available_bytes, read_memory_bytes
from tfperf.train.cores import Cores, share_cores
from tfperf.workloads.pdf.card import FITTED, Card
from tfperf.workloads.pdf.card_engine import count_threads
from tfperf.workloads.pdf.layers.quadrature import make_quadrature
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.operators.woodbury import build_whitening

# resident memory of a process with TensorFlow imported and a step compiled, as measured
BASE_BYTES = 950e6
# of the memory that is free: other programs want some, too, and the model errs
SHARE = 0.7
CHECKED = 10  # numbers a point that the comparison with the exact chi2 holds of each replica, at the end


def count_parameters(card: Card) -> int:
    """Trained numbers of one replica."""
    widths = (2, *card.model.layers)
    dense = sum((i + 1) * o for i, o in pairwise(widths))
    return dense + (2 * len(FITTED) if card.model.trainable_exponents else 0)


@dataclass(frozen=True)
class Footprint:
    """Predicted peak memory in bytes: of a run; and of each replica that is trained, of the whole result, that is built
    or takes a step at the same time, and of each stack. share: into how many stacks so many replicas are cut."""

    fixed_bytes: float
    bytes_per_trained: float
    bytes_per_result: float
    bytes_per_busy: float = 0.0
    bytes_per_stack: float = 0.0
    share: Callable[[int], Cores] = lambda replicas: Cores(1)

    def estimate_peak_bytes(self, together: int, total: int) -> float:
        """Of a run of `total` replicas, `together` of them at once."""
        cores = self.share(together)
        stacks = min(cores.stacks, together)
        busy = min(together, min(cores.threads, stacks) * ceil(together / stacks))
        trained = together * self.bytes_per_trained + busy * self.bytes_per_busy + stacks * self.bytes_per_stack
        return self.fixed_bytes + trained + total * self.bytes_per_result

    def count_fitting(self, budget: float, total: int) -> int:
        """How many of `total` replicas at once stay within the budget; one, where even that does not."""
        if self.estimate_peak_bytes(total, total) <= budget:
            return total
        low, high = 1, total  # what is found fits; a few more, cut into fewer stacks, may fit too
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.estimate_peak_bytes(middle, total) <= budget else (low, middle)
        return low


def estimate_footprint(card: Card, problem: Problem, quick: bool = False) -> Footprint:
    """The memory of a fit, from the problem of any of its replicas; `quick`: an upper limit instead, at once."""
    dtype = np.dtype(card.engine.precision)
    points, width, entries = len(problem.central), dtype.itemsize, problem.observables.entries
    most = problem.covariance.columns.shape[1] + points // 2
    blocks = [(points, most)] if quick else _list_block_sizes(problem, dtype)
    inverses = 2 * sum(k**2 for _, k in blocks)
    nodes = len(problem.pack.x) + len(make_quadrature(card.model.sum_rules).x)
    activations = 3 * (
        sum(card.model.layers) * nodes + problem.observables.feature_count
    )  # forward, backward and one to spare
    trained = (inverses + 12 * points + 8 * count_parameters(card)) * width + 9 * points
    if card.engine.tolerance and card.engine.form != "shared":
        trained += CHECKED * 8 * points
    # the K^-1 are made in float64, of all blocks, and the largest is copied before it is narrowed
    busy = 2 * 8 * inverses + activations * width
    # each stack has tables and systematics of its own on the device, and systematics in float64
    stack = entries * width + sum(n * k for n, k in blocks) * (8 + width)
    kept = 8 * (3 * points + 3 * count_parameters(card) + 3 * len(FITTED) * len(problem.pack.x))
    dense = 3 * 8 * points**2  # covariance and its factors in the final evaluation
    tables = entries * (2 * 8 + width)
    return Footprint(
        BASE_BYTES + tables + dense, float(trained), float(kept), float(busy), float(stack),
        lambda replicas: _share_cores(card, replicas, entries),
    )  # fmt: skip


def _share_cores(card: Card, replicas: int, entries: int) -> Cores:
    """As a training does; on GPUs the replicas are one stack on each."""
    threads = count_threads(card.engine)
    if list_gpus():
        return Cores(threads)
    steps = sys.maxsize if card.engine.xla is True else card.train.steps
    return share_cores(threads, card.engine.stacks, replicas, entries, steps)


def _list_block_sizes(problem: Problem, dtype: np.dtype[np.floating]) -> list[tuple[int, int]]:
    """Points and systematics of each block of the covariance."""
    covariance, sets = problem.covariance, problem.sets

    def list_sizes() -> list[tuple[int, int]]:
        blocks = build_whitening(covariance, sets, dtype.type).blocks
        return [(block.u.shape[0], block.u.shape[1]) for block in blocks]

    rows = [(name, rows.start, rows.stop) for name, rows in sets.items()]
    return problem.cache.get("block-sizes", digest(covariance, rows, dtype.name), list_sizes)


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
