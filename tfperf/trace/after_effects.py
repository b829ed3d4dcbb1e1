"""By how much causes slow the steps that run after them."""

from collections.abc import Mapping, Sequence

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Times
from tfperf.trace.charges import Charge, move_time
from tfperf.trace.claims import Cause
from tfperf.trace.intervals import NOTHING, Intervals
from tfperf.trace.steps import Steps

STEP: tuple[Cause, ...] = ("work", "between", "dispatch")  # what steps are made of
# these take longer for a large batch, as the step does
BY_BATCH: tuple[Cause, ...] = ("input", "conversion", "compilation", "py_function")
FEWEST = 3  # calls after the cause, and others, from which one can tell
LONG = 1.5  # means of what lies between calls, from which on a cause is there
OFTEN = 0.6  # share of calls from which on it is there in each
SURE = 3.0  # standard errors
ALIKE = 1.05  # counts of operations of calls that do the same
SLOWEST = 2.0  # times as long as others that a call takes at most with the same work
NS_PER_MS = 1e6


def charge_after_effects(
    charges: Sequence[Charge], moments: Mapping[Cause, Intervals], begins: Times, steps: Steps, count: int
) -> list[Charge]:
    """Charges of `count` steps: what calls take longer after a cause than other calls, counts for the cause.

    begins: of all operations. Caches hold other data then, and threads sleep. Medians of both; nothing changes where
    chance may be the reason, or other work: more operations, or much longer ones.
    """
    work = moments.get("work", NOTHING)
    cuts = _find_first(work, steps.call_begin)
    if len(cuts) < 2 * FEWEST + 1:
        return list(charges)
    spent = {cause: times.sum_lengths(cuts) for cause, times in moments.items()}
    before = {cause: ns[:-1].astype(float) for cause, ns in spent.items() if cause not in STEP + BY_BATCH}
    # a call is started before its first operation
    after = {
        cause: (spent[cause][:-1] if cause == "dispatch" else spent[cause][1:]).astype(float)
        for cause in STEP if cause in spent
    }  # fmt: skip
    intruders, whole = (np.sum(list(one.values()), axis=0) for one in (before, after))
    long = intruders > LONG * intruders.mean()
    if min(long.sum(), (~long).sum()) < FEWEST or long.mean() > OFTEN or not _is_longer(whole, long):
        return list(charges)
    if not _is_same_work(np.diff(np.searchsorted(np.sort(begins), cuts))[1:], whole, long):
        return list(charges)
    per_step = float(long.sum()) / NS_PER_MS / count
    less = {cause: per_step * _compute_excess(ns, long) for cause, ns in after.items()}
    whole_less = per_step * _compute_excess(whole, long)  # other parts may be shorter
    less = {cause: ms * min(1.0, whole_less / max(sum(less.values()), 1e-9)) for cause, ms in less.items()}
    given = {cause: max(0.0, float(ns[long].mean() - ns[~long].mean())) for cause, ns in before.items()}
    return move_time(charges, less, given)


def _find_first(work: Intervals, calls: Times) -> Times:
    """When the first operation of each call begins, of those that have any."""
    index = np.searchsorted(work.begin, calls)
    found: Times = np.unique(work.begin[index[index < len(work)]])
    return found


def _compute_excess(ns: Float64Array, long: BoolMask) -> float:
    return max(0.0, float(np.median(ns[long]) - np.median(ns[~long])))


def _is_same_work(operations: Times, ns: Float64Array, long: BoolMask) -> bool:
    """Whether calls `long` have as many operations as others, and do not take so long that these have more to do."""
    for values, most in ((operations, ALIKE), (ns, SLOWEST)):
        one, other = float(np.median(values[long])), float(np.median(values[~long]))
        if not other / most <= one <= other * most:
            return False
    return True


def _is_longer(ns: Float64Array, long: BoolMask) -> bool:
    """Whether calls `long` take longer, by more than chance may do."""
    variance = 0.0
    for side in (ns[long], ns[~long]):
        scale = 1.4826 * float(np.median(np.abs(side - np.median(side))))
        variance += np.pi / 2 * scale**2 / len(side)
    return _compute_excess(ns, long) > SURE * float(np.sqrt(variance))
