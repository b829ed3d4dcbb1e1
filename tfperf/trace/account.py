"""An account of the time from step to step: each moment of it has one cause.

A moment counts for the first of CAUSES that is at work then. What runs on devices comes before what the host does
meanwhile, for that is what a step waits for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tfperf.trace.claims import CAUSES, Cause, Claims
from tfperf.trace.intervals import Intervals, merge_intervals
from tfperf.trace.notes import Notes
from tfperf.trace.steps import Steps

EPOCH_CAUSES = frozenset(["validation", "epoch"])
EVENT_NS, MOST = 10_000, 0.7  # what an event of the host takes at most to be recorded; share of a charge at most
EPOCH_HOOKS = (
    "on_epoch_begin", "on_epoch_end", "on_test_begin", "on_test_end", "on_test_batch_begin", "on_test_batch_end",
)  # fmt: skip


@dataclass(frozen=True)
class Charge:
    """ms a step that a cause takes; `name`: which callback, line, function or phase. times: how often, a step.

    recording: ms of it at most that it takes to record what happens.
    """

    cause: Cause
    name: str
    ms: float
    times: float = 0.0
    recording: float = 0.0

    @property
    def per_epoch(self) -> bool:
        """Whether it comes at the end of an epoch, or its begin."""
        return self.cause in EPOCH_CAUSES or (self.cause == "callback" and self.name.endswith(EPOCH_HOOKS))


@dataclass(frozen=True)
class Account:
    """The time from step to step, shared out without rest.

    steps: how many there were in it. epochs: how many ended in it, and how many would in as many steps of a whole
    training, where that is known: what happens once an epoch is counted as often as it then does.
    samples: looks at the training's thread. overhead_ms: what recording adds to a step, which comes off where events
    are recorded; None: not known, and nothing does. overhead_left_ms: what is more than these can take, and comes off
    everywhere. kept: the share of any time that is left then.
    moments: when each cause has its time, as it was recorded.
    """

    charges: tuple[Charge, ...]
    steps: int
    epochs: int = 0
    expected_epochs: float | None = None
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

    def list(self, cause: Cause) -> list[Charge]:
        """The charges of a cause, the largest first."""
        return sorted((one for one in self.charges if one.cause == cause), key=lambda one: -one.ms)


def make_account(claims: Claims, steps: Steps, notes: Notes) -> Account:
    """The account of the calls that another follows, each up to the first operation of that; of one call, its steps."""
    window, calls = find_window(steps), len(steps.spans[0])
    count = int((steps.begin < window.end[-1]).sum())
    free, charges, moments = window, [], {}
    for cause in CAUSES:
        mine = free if cause == "unexplained" else free.intersect(claims.find(cause))
        free, moments[cause] = free.subtract(mine) if len(mine) else free, mine
        recorded = EVENT_NS * claims.count_events(mine) / max(mine.length, 1)  # per ns
        charges += [
            Charge(cause, name, ns / 1e6 / count, times / count, min(recorded, MOST) * ns / 1e6 / count)
            for name, ns, times in claims.split(cause, mine)
        ]
    epochs, per_epoch = claims.count_epochs(window), notes.calls_per_epoch
    expected = None if per_epoch is None or calls < 2 else (calls - 1) / per_epoch
    overhead = None
    if notes.recorded_ms is not None and notes.unrecorded_ms is not None:
        overhead = max(0.0, notes.recorded_ms - notes.unrecorded_ms) * len(steps.call_begin) / len(steps)
    shared = _share_out(charges, epochs, expected)
    most = sum(one.recording for one in shared)
    off, left = min(overhead or 0.0, most), max((overhead or 0.0) - most, 0.0)
    without = [replace(one, ms=one.ms - off * one.recording / most) if most else one for one in shared]
    whole = sum(one.ms for one in without)  # what is left slows all of it: threads that record share the processors
    scale = 1.0 - min(left / whole, MOST) if whole else 1.0
    without = [replace(one, ms=one.ms * scale) for one in without]
    return Account(
        tuple(without), count, epochs, expected, claims.count_samples(window), overhead, left, moments, scale
    )


def _share_out(charges: Iterable[Charge], epochs: int, expected: float | None) -> list[Charge]:
    """What happens once an epoch, as often as it does in a whole training, however many epochs end in the window."""
    if not epochs or expected is None:
        return list(charges)
    factor = expected / epochs
    return [
        replace(one, ms=one.ms * factor, times=one.times * factor, recording=one.recording * factor)
        if one.per_epoch else one for one in charges
    ]  # fmt: skip


def find_window(steps: Steps) -> Intervals:
    """The calls that another follows; of one call, its steps."""
    first, last = steps.spans
    return merge_intervals(first[:1], first[-1:] if len(first) > 1 else last[:1])
