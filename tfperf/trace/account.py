"""An account of the time from step to step: each moment of it has one cause.

A moment counts for the first of CAUSES that is at work then. What runs on devices comes before what the host does
meanwhile, for that is what a step waits for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tfperf.trace.after_effects import charge_after_effects
from tfperf.trace.charges import Charge, merge_charges
from tfperf.trace.claims import CAUSES, Cause, Claims
from tfperf.trace.host_events import find_made
from tfperf.trace.intervals import Intervals, merge_intervals
from tfperf.trace.notes import Notes
from tfperf.trace.rivals import charge_rivals
from tfperf.trace.steps import Steps

EVENT_NS, MOST = 10_000, 0.7  # what an event of the host takes at most to be recorded; share of a charge at most
HALVINGS = 40
BURSTS = 0.5  # share of the time that waits for input from which on batches may come in bursts


@dataclass(frozen=True)
class Account:
    """The time from step to step, shared out without rest.

    steps: how many there were in it. epochs: how many ended in it, and how many would in as many steps of a whole
    training, where that is known: what happens once an epoch is counted as often as it then does.
    iterators: of datasets, that were made. samples: looks at the training's thread.
    overhead_ms: what recording adds to a step, which comes off where events are recorded; None: not known, and nothing
    does. overhead_left_ms: what is more than these can take, and comes off everywhere. kept: the share of any time that
    is left then.
    moments: when each cause has its time, as it was recorded.
    """

    charges: tuple[Charge, ...]
    steps: int
    epochs: int = 0
    expected_epochs: float | None = None
    iterators: int = 0
    samples: int = 0
    overhead_ms: float | None = None
    overhead_left_ms: float = 0.0
    moments: Mapping[Cause, Intervals] = field(default_factory=dict)
    kept: float = 1.0

    @property
    def period_ms(self) -> float:
        """All of it."""
        return sum(charge.ms for charge in self.charges)

    def sum(self, *causes: Cause) -> float:
        """ms a step of these causes together."""
        return sum(charge.ms for charge in self.charges if charge.cause in causes)

    @property
    def work_kept(self) -> float:
        """Share of the operations' time, as it was recorded, that is left without what recording adds, or others."""
        causes: tuple[Cause, ...] = ("work", "eager_work")
        ns = sum(self.moments[cause].length for cause in causes if cause in self.moments)
        return self.sum(*causes) * 1e6 * max(self.steps, 1) / ns if ns else self.kept

    def list(self, cause: Cause) -> list[Charge]:
        """The charges of a cause, the largest first."""
        return sorted((one for one in self.charges if one.cause == cause), key=lambda one: -one.ms)


def make_account(claims: Claims, steps: Steps, notes: Notes) -> Account:
    """The account of the calls that another follows, each up to the first operation of that; of one call, its steps."""
    window, calls = find_window(steps), len(steps.spans[0])
    if not len(window):  # a single operation that takes no time
        return Account((), len(steps))
    count = int((steps.begin < window.end[-1]).sum())
    free, charges, moments = window, [], {}
    for cause in CAUSES:
        mine = free if cause == "unexplained" else free.intersect(claims.find(cause))
        free, moments[cause] = free.subtract(mine) if len(mine) else free, mine
        density = claims.count_events(mine, cause == "input") / max(mine.length, 1)
        charges += [
            Charge(kind, name, ns / 1e6 / count, times / count, density * ns / count)
            for kind, name, ns, times in claims.split(cause, mine)
        ]
    epochs, per_epoch = claims.count_epochs(window), notes.calls_per_epoch
    expected = None if per_epoch is None or calls < 2 else (calls - 1) / per_epoch
    waits = sum(one.ms for one in charges if one.cause == "input") / max(sum(one.ms for one in charges), 1e-9)
    overhead = _find_overhead(notes, waits > BURSTS)
    begins, made = (claims.events.begin[rows] for rows in (claims.rows, find_made(claims.events, steps.lane)))
    if overhead is not None:
        overhead *= len(steps.call_begin) / len(steps)
    charges = charge_after_effects(merge_charges(charges), moments, begins, steps, count)
    charges = charge_rivals(charges, claims, moments, steps, notes, count)
    without, left = _take_off(_share_out(charges, epochs, expected), overhead or 0.0)
    whole = sum(one.ms for one in without)  # what is left slows all of it: threads that record share the processors
    scale = 1.0 - min(left / whole, MOST) if whole else 1.0
    without = [replace(one, ms=one.ms * scale, slows_ms=one.slows_ms * scale) for one in without]
    return Account(
        tuple(without), count, epochs, expected, int(window.contains(made).sum()), claims.count_samples(window),
        overhead, left, moments, scale,
    )  # fmt: skip


def _find_overhead(notes: Notes, bursts: bool) -> float | None:
    """ms that recording adds from call to call; bursts: batches come in such, so that the median is not typical."""
    recorded, plain = notes.recorded_ms, notes.unrecorded_ms
    if bursts and notes.recorded_mean_ms is not None and notes.unrecorded_mean_ms is not None:
        recorded, plain = notes.recorded_mean_ms, notes.unrecorded_mean_ms
    return None if recorded is None or plain is None else max(0.0, recorded - plain)


def _take_off(charges: Sequence[Charge], overhead: float) -> tuple[list[Charge], float]:
    """The charges without what recording adds to a step, ms, and what is left of that.

    Each event takes as long as any other, up to EVENT_NS, and all of a charge's together at most a share of it.
    """
    ms, events = (np.array([getattr(one, name) for one in charges]) for name in ("ms", "events"))
    low, high = 0.0, EVENT_NS / 1e6
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if np.minimum(middle * events, MOST * ms).sum() > overhead else (middle, high)
    off = np.minimum(high * events, MOST * ms)
    left = max(overhead - float(off.sum()), 0.0)
    kept = 1.0 - off / np.maximum(ms, 1e-12)
    pairs = zip(charges, kept.tolist(), strict=True)
    return [replace(one, ms=one.ms * share, slows_ms=one.slows_ms * share) for one, share in pairs], left


def _share_out(charges: Iterable[Charge], epochs: int, expected: float | None) -> list[Charge]:
    """What happens once an epoch, as often as it does in a whole training, however many epochs end in the window."""
    if not epochs or expected is None:
        return list(charges)
    factor = expected / epochs
    return [one.scale(factor) if one.per_epoch else one for one in charges]


def find_window(steps: Steps) -> Intervals:
    """The calls that another follows; of one call, its steps."""
    first, last = steps.spans
    return merge_intervals(first[:1], first[-1:] if len(first) > 1 else last[:1])
