"""What a cause takes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tfperf.trace.claims import Cause
from tfperf.trace.host_events import FIRST_BATCH

EPOCH_CAUSES = frozenset(["validation", "epoch"])
EPOCH_HOOKS = (
    "on_epoch_begin", "on_epoch_end", "on_test_begin", "on_test_end", "on_test_batch_begin", "on_test_batch_end",
)  # fmt: skip


@dataclass(frozen=True)
class Charge:
    """ms a step that a cause takes; `name`: which callback, line, function or phase. times: how often, a step.

    events: how many are recorded meanwhile a step, each of which takes time. slows_ms: of ms, by how much it slows
    steps that run after it, or beside it.
    """

    cause: Cause
    name: str
    ms: float
    times: float = 0.0
    events: float = 0.0
    slows_ms: float = 0.0

    @property
    def per_epoch(self) -> bool:
        """Whether it comes at the end of an epoch, or its begin."""
        if self.cause == "input":
            return self.name == FIRST_BATCH
        return self.cause in EPOCH_CAUSES or (self.cause == "callback" and self.name.endswith(EPOCH_HOOKS))

    def scale(self, factor: float) -> "Charge":
        """The same, so many times as often."""
        return Charge(
            self.cause, self.name, self.ms * factor, self.times * factor, self.events * factor, self.slows_ms * factor
        )


def merge_charges(charges: Iterable[Charge]) -> list[Charge]:
    """Those of a cause and a name as one."""
    found: dict[tuple[Cause, str], Charge] = {}
    for one in charges:
        before = found.get((one.cause, one.name), Charge(one.cause, one.name, 0.0))
        found[one.cause, one.name] = replace(
            one, ms=before.ms + one.ms, times=before.times + one.times, events=before.events + one.events,
            slows_ms=before.slows_ms + one.slows_ms,
        )  # fmt: skip
    return list(found.values())


def move_time(charges: Sequence[Charge], less: Mapping[Cause, float], shares: Mapping[Cause, float]) -> list[Charge]:
    """The charges with ms of some causes less, at most half of each, and these given to others in these shares.

    So are the events in that time, in which recording has its part.
    """
    sums: dict[Cause, float] = {}
    for one in charges:
        sums[one.cause] = sums.get(one.cause, 0.0) + one.ms
    less = {cause: min(ms, sums.get(cause, 0.0) / 2) for cause, ms in less.items()}
    shares = {cause: share for cause, share in shares.items() if sums.get(cause)}
    total, whole = sum(less.values()), sum(shares.values())
    if not total or not whole:
        return list(charges)
    moved = sum(one.events * less.get(one.cause, 0.0) / sums[one.cause] for one in charges if sums[one.cause])
    out = []
    for one in charges:
        mine = one.ms / sums[one.cause] if sums[one.cause] else 0.0
        gone = less.get(one.cause, 0.0) / sums[one.cause] if sums[one.cause] else 0.0
        part = shares.get(one.cause, 0.0) / whole * mine
        out.append(replace(
            one, ms=one.ms * (1 - gone) + total * part, slows_ms=one.slows_ms + total * part,
            events=one.events * (1 - gone) + moved * part,
        ))  # fmt: skip
    return out
