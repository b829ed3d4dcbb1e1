"""How much shorter steps are without some of their operations."""

import numpy as np

from tfperf.arrays import BoolMask, Times
from tfperf.trace.host_events import merge_events
from tfperf.trace.intervals import merge_intervals
from tfperf.trace.planes import Events


def estimate_freed_time(events: Events, ones: BoolMask, others: BoolMask, cores: int | None) -> float:
    """ns that are free without the operations `ones` (n), beside which `others` (n) run.

    While none of the others runs, all of it. While others do, nothing, but on a processor of which all cores have
    something to do: there each thread has as much of them as any other, so that what is left gets the share of what is
    gone. cores: that the program may use; None: not known, as of several hosts.
    """
    alone = merge_events(events, ones).subtract(merge_events(events, others))
    if not cores or len({lane.host for lane in events.lanes}) > 1:
        return float(alone.length)
    host = np.array([not lane.accelerator for lane in events.lanes] or [False], bool)[events.lane]
    mine, every = (_merge_by_lane(events, mask & host) for mask in (ones, ones | others))
    times = np.concatenate([*mine, *every])
    if not len(times):
        return float(alone.length)
    signs = np.repeat([1, -1, 1, -1], [len(one) for one in (*mine, *every)])
    order = np.argsort(times, kind="stable")
    is_mine = np.arange(len(times)) < 2 * len(mine[0])
    running, all_running = (np.cumsum(np.where(which, signs, 0)[order])[:-1] for which in (is_mine, ~is_mine))
    lengths = np.diff(times[order])
    full = (all_running >= cores) & (running < all_running)
    return float(alone.length + (lengths[full] * running[full] / all_running[full]).sum())


def _merge_by_lane(events: Events, which: BoolMask) -> tuple[Times, Times]:
    """Begins and ends (n) of when each lane is busy with these events, of one lane after the other."""
    rows = np.flatnonzero(which)
    if not len(rows):
        return events.begin[rows], events.end[rows]
    zero = events.begin[rows].min()
    far = events.end[rows].max() - zero + 1
    shift = events.lane[rows].astype(np.int64) * far - zero
    found = merge_intervals(events.begin[rows] + shift, events.end[rows] + shift)
    back = found.begin // far * far - zero
    return found.begin - back, found.end - back
