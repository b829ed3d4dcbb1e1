"""By how much the threads of a dataset slow the steps beside them."""

from collections.abc import Mapping, Sequence

import numpy as np

from tfperf.trace.charges import Charge, move_time
from tfperf.trace.claims import Cause, Claims
from tfperf.trace.intervals import NOTHING, Intervals
from tfperf.trace.notes import Notes
from tfperf.trace.stages import count_busy_threads
from tfperf.trace.steps import Steps

HOST: tuple[Cause, ...] = ("between", "dispatch")  # what the training's thread does itself in calls
WAITS = 0.1  # share of the time that steps wait for input from which on buffers are empty, and its threads never rest
SHORTEST, HELD = 10, 0.25  # per cent of calls that nothing holds up; share of their time that is more than scatter
RESTLESS = 0.7  # share of the time that its threads are at work from which on they hardly rest either
FEWEST = 7  # calls from which one can tell
OWN: tuple[Cause, ...] = (*HOST, "python", "eager")  # what the training's thread does itself
OWN_THREADS = 2  # it, and one that it hands operations to
SPLIT_NS = 20_000  # what operations take from which on threads share them
NS_PER_MS = 1e6


def charge_rivals(
    charges: Sequence[Charge],
    claims: Claims,
    moments: Mapping[Cause, Intervals],
    steps: Steps,
    notes: Notes,
    count: int,
) -> list[Charge]:
    """Charges of `count` steps: what threads that prepare the data slow them by counts as input.

    What they take of the processors only where steps wait for it, or its threads hardly rest.
    """
    sums: dict[Cause, float] = {}
    for one in charges:
        sums[one.cause] = sums.get(one.cause, 0.0) + one.ms
    less = _compute_held(moments, claims, steps, count)
    waits = sums.get("input", 0.0) + sum(less.values()) >= WAITS * sum(sums.values())
    busy = 1.0 if waits else _compute_busy_share(claims, moments)
    if busy >= RESTLESS:
        rivals = count_busy_threads(claims.events)
        shared = {
            cause: busy * share * max(sums.get(cause, 0.0) - less.get(cause, 0.0), 0.0)
            for cause, share in _compute_shares(claims, notes, rivals).items()
        }
        # they take no more of the processors than they work
        most = _compute_busy_share(claims, moments) * rivals * sum(sums.values())
        part = min(1.0, most / max(sum(shared.values()), 1e-9))
        less = {cause: less.get(cause, 0.0) + part * shared.get(cause, 0.0) for cause in {*less, *shared}}
    return move_time(charges, less, {"input": 1.0})


def _compute_held(
    moments: Mapping[Cause, Intervals], claims: Claims, steps: Steps, count: int
) -> dict[Cause, float]:  # fmt: skip
    """ms a step by which the training's own thread is held up by a dataset's Python: one thread at a time runs it.

    Longer than the shortest tenth of calls; none where that is no more than calls differ by anyway, or the threads are
    not busy for most of them.
    """
    cuts, busy = steps.call_begin, claims.busy_ahead
    spent = {cause: moments[cause] for cause in HOST if len(moments.get(cause, NOTHING))}
    if not claims.calls_python_ahead or len(cuts) < FEWEST or not spent:
        return {}
    whole = np.sum([times.sum_lengths(cuts) for times in spent.values()], axis=0)
    beside = {cause: times.intersect(busy).sum_lengths(cuts) for cause, times in spent.items()}
    every = np.sum(list(beside.values()), axis=0)
    longer = np.clip(np.minimum(every, whole - np.percentile(whole, SHORTEST)), 0, None)
    if longer.sum() < HELD * whole.sum() or 2 * every.sum() < whole.sum():
        return {}
    shares = {cause: float((longer * ns / np.maximum(every, 1)).sum()) for cause, ns in beside.items()}
    return {cause: ns / NS_PER_MS / count for cause, ns in shares.items()}


def _compute_busy_share(claims: Claims, moments: Mapping[Cause, Intervals]) -> float:
    """Share of the time in which threads of the dataset are at work."""
    every = sum(times.length for times in moments.values())
    return sum(times.intersect(claims.busy_ahead).length for times in moments.values()) / max(every, 1)


def _compute_shares(claims: Claims, notes: Notes, rivals: float) -> dict[Cause, float]:
    """By cause the share of its time that it would not take without the threads of the dataset.

    Processors are shared out evenly among all threads that are at work: those of the dataset, and of the training its
    own with one that it hands operations to, or as many as operations may use. Operations that are too short for
    several threads lose nothing to these, nor do those of accelerators.
    """
    cores = notes.cores
    if not cores or not rivals:
        return {}
    shares: dict[Cause, float] = dict.fromkeys(OWN, max(0.0, 1.0 - cores / (OWN_THREADS + rivals)))
    if not any(claims.events.lanes[number].accelerator for number in np.unique(claims.events.lane[claims.rows])):
        ns = (claims.events.end - claims.events.begin)[claims.rows]
        long = float(ns[ns >= SPLIT_NS].sum() / max(ns.sum(), 1))
        shares["work"] = long * max(0.0, 1.0 - cores / (min(notes.threads or cores, cores) + rivals))
    return shares
