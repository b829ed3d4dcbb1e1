"""Which device the others of a step wait for, and why it is last."""

from dataclasses import dataclass
from math import exp, lgamma, log, log1p
from typing import Literal

import numpy as np

from tfperf.arrays import BoolMask, Float64Array
from tfperf.trace.costs import NS_PER_MS
from tfperf.trace.device_rows import UPDATES, DeviceRows

# "larger or slower": all of its operations take longer, and the profile does not say why
StragglerCause = Literal["more work", "slower device", "later start", "larger or slower", "unknown"]
OFTEN = 0.8  # share of steps in which a device has to be last
CHANCE = 0.05  # with which some device of equal ones may be last as often
HALF = 0.5  # of the time by which it is last, from which on something explains it
EVEN = 1.25  # factor by which operations may differ from their common factor
LEAST = 0.01  # of the work, below which updates are too short to say how fast a device is
MOST = 0.8  # share of the time of operations that have to agree, or that all devices have


@dataclass(frozen=True, kw_only=True)
class Straggler:
    """A device that is last in most steps.

    lag_ms: by how much, after the last of the others; median, ms a step. work_ms, others_ms, mean_ms: its own part of
    a step before devices merge, that of the others, of all on average; even_ms: of each where
    all have as much as they are fast. factor: how many times as long as the others
    it takes for operations that all have; larger: how many times as much FLOP and bytes these have, None: not known.
    delay_ms: how much later it begins. operation: of which it has `times` a step, of operation_ms together, the others
    others_times; "" where that is not why.
    """

    device: str
    last_share: float
    lag_ms: float
    cause: StragglerCause
    work_ms: float
    others_ms: float
    mean_ms: float
    even_ms: float
    factor: float
    larger: float | None
    delay_ms: float
    operation: str = ""
    times: float = 0.0
    others_times: float = 0.0
    operation_ms: float = 0.0
    others_operation_ms: float = 0.0

    @property
    def gain_ms(self) -> float:
        """What is estimated to be given back: where work is shared out evenly, and where one is slow by speed.

        Devices that take t each for the same work all take the harmonic mean of t where each has as much as it is fast.
        Where nobody knows why it is last, as if it were not.
        """
        if self.cause == "unknown":
            return self.lag_ms
        if self.cause == "later start":
            return min(self.lag_ms, self.delay_ms)
        to = self.even_ms if self.cause == "slower device" else self.mean_ms
        return min(self.lag_ms, max(self.work_ms - to, 0.0))


def find_straggler(
    rows: DeviceRows, wait_ms: Float64Array, last: Float64Array, valid: BoolMask, begins: Float64Array
) -> Straggler | None:  # fmt: skip
    """The device that most steps wait for, None where none is last in OFTEN of them, and too often for chance.

    wait_ms (S, R): how long each device waits; last (R): share of steps in which each is last; valid (S): those in
    which all take part. begins (S, R): when each begins its own part, ns.
    """
    number, steps = int(last.argmax()), int(valid.sum())
    chance = _compute_chance(round(float(last[number]) * steps), steps, len(last))
    if last[number] < OFTEN or chance > CHANCE or not _is_replicated(rows, number):
        return None
    others = np.delete(wait_ms[valid], number, axis=1).min(axis=1)
    lag = float(np.median(others - wait_ms[valid, number]))
    if lag <= 0:
        return None
    counts, times = _sum_operations(rows, valid)
    work = times.sum(axis=1)
    starts = begins[valid]
    delay = float(np.median(starts[:, number] - np.median(np.delete(starts, number, axis=1), axis=1))) / NS_PER_MS
    others_ms = float(np.delete(work, number).mean())
    larger = _compare_sizes(rows, valid, number)
    found = _WorkComparison(counts, times, number, larger, _compare_updates(rows, valid, number, others_ms))
    cause, key = found.find_cause(lag, delay, float(work[number]) - others_ms)
    more = {} if key is None else found.describe(key)
    return Straggler(
        device=rows.devices.members[number], last_share=float(last[number]), lag_ms=lag, cause=cause,
        work_ms=float(work[number]), others_ms=others_ms, mean_ms=float(work.mean()),
        even_ms=float(len(work) / (1 / np.maximum(work, 1e-9)).sum()), factor=found.factor,
        larger=larger, delay_ms=delay, operation="" if key is None else rows.keys[key], **more,
    )  # fmt: skip


def _compute_chance(times: int, steps: int, devices: int) -> float:
    """Of equal devices, each of which is last by chance, how probable it is that one is last so often, at most.

    A binomial tail for one device, times the number of devices (Bonferroni).
    """
    one, other = -log(devices), log1p(-1 / devices)  # logarithms, for coefficients of many steps are no floats
    ways = lgamma(steps + 1)
    tail = sum(
        exp(ways - lgamma(k + 1) - lgamma(steps - k + 1) + k * one + (steps - k) * other)
        for k in range(times, steps + 1)
    )
    return min(1.0, devices * tail)


class _WorkComparison:
    """Operations of the device `number` beside those of the others.

    counts (R, K): how many there are of each of K operations a step; times: ms a step. larger: how many times as large
    its operations are; updates: how many times as long it takes to update its weights, which no batch makes longer;
    None: that is not known.
    """

    def __init__(
        self, counts: Float64Array, times: Float64Array, number: int, larger: float | None, updates: float | None
    ) -> None:  # fmt: skip
        self.counts, self.others = counts[number], np.delete(counts, number, axis=0).mean(axis=0)
        self.times, self.others_ms = times[number], np.delete(times, number, axis=0).mean(axis=0)
        self.larger, self.updates = larger, updates
        self.same = (self.others_ms > 0) & (abs(self.counts - self.others) <= 0.1 * self.others) & (self.times > 0)
        theirs = self.others_ms[self.same].sum()
        self.factor = float(self.times[self.same].sum() / theirs) if theirs else 1.0

    def find_cause(self, lag: float, delay: float, excess: float) -> tuple[StragglerCause, int | None]:
        """Why it is last by `lag` ms, and in which operation that is: it begins by `delay`, works by `excess` more."""
        if max(delay, excess) < HALF * lag:
            return "unknown", None
        if delay > excess:
            return "later start", None
        more = np.maximum(self.counts - self.others, 0) * self.times / np.maximum(self.counts, 1e-9)
        if more.sum() >= HALF * excess:
            return "more work", int(more.argmax())
        if not self._is_even():
            return "more work", int((self.times - self.others_ms).argmax())
        half = 1 + HALF * (self.factor - 1)
        if self.larger is not None:
            return ("slower device" if self.larger < half else "more work"), None
        if self.updates is None:
            return "larger or slower", None
        return ("slower device" if self.updates >= half else "more work"), None

    def describe(self, key: int) -> dict[str, float]:
        """Of an operation how many there are a step, and what they take."""
        return {
            "times": float(self.counts[key]), "others_times": float(self.others[key]),
            "operation_ms": float(self.times[key]), "others_operation_ms": float(self.others_ms[key]),
        }  # fmt: skip

    def _is_even(self) -> bool:
        """Whether most operations take longer by the same factor."""
        each = self.times[self.same] / self.others_ms[self.same] / self.factor
        near = (each <= EVEN) & (each >= 1 / EVEN)
        return bool(self.times[self.same][near].sum() >= MOST * self.times.sum())


def _is_replicated(rows: DeviceRows, number: int) -> bool:
    """Whether devices do the same, each on its own part of a batch; else one may wait for the results of another."""
    counts, times = _sum_operations(rows, np.ones(int(rows.step.max(initial=0)) + 1, bool))
    common, others = (counts > 0).sum(axis=0) > 1, np.delete(times, number, axis=0)
    return bool((others[:, common].sum(axis=1) >= HALF * others.sum(axis=1)).all())


def _sum_operations(rows: DeviceRows, valid: BoolMask) -> tuple[Float64Array, Float64Array]:
    """Of each device's own operations how many there are a step, and their ms: (R, K), in the valid steps (S)."""
    mine = rows.own & valid[rows.step]
    shape = len(rows.devices.members), len(rows.keys)
    where = rows.device[mine] * shape[1] + rows.key[mine]
    lengths = (rows.end - rows.begin)[mine] / NS_PER_MS
    counts, times = np.bincount(where, minlength=shape[0] * shape[1]), np.bincount(where, lengths, shape[0] * shape[1])
    steps = max(int(valid.sum()), 1)
    return counts.reshape(shape) / steps, times.reshape(shape) / steps


def _compare_sizes(rows: DeviceRows, valid: BoolMask, number: int) -> float | None:
    """How many times as much FLOP, or bytes, a device's operations have as those of the others that are the same.

    Weighted by the time that these take; None where it is not known for most of that, or of its own time.
    """
    mine, shape = rows.own & valid[rows.step], (len(rows.devices.members), len(rows.keys))
    where = rows.device[mine] * shape[1] + rows.key[mine]
    counts, sizes, lengths = (
        np.bincount(where, values, shape[0] * shape[1]).reshape(shape)
        for values in (None, rows.size[mine], (rows.end - rows.begin)[mine].astype(np.float64))
    )
    known = (counts.min(axis=0) > 0) & np.isfinite(sizes).all(axis=0)
    if (lengths[:, known].sum(axis=1) <= HALF * lengths.sum(axis=1)).any():
        return None
    theirs = np.delete(lengths[:, known], number, axis=0).mean(axis=0)
    each = sizes[:, known] / counts[:, known]
    ratio = each[number] / np.delete(each, number, axis=0).mean(axis=0)
    return float((theirs * ratio).sum() / theirs.sum())


def _compare_updates(rows: DeviceRows, valid: BoolMask, number: int, work_ms: float) -> float | None:
    """How many times as long a device takes to update its weights; None where that is too short to say."""
    mine = (rows.role == UPDATES) & (rows.device >= 0) & valid[rows.step]
    lengths = (rows.end - rows.begin)[mine] / NS_PER_MS / max(int(valid.sum()), 1)
    sums = np.bincount(rows.device[mine], lengths, len(rows.devices.members))
    others = np.delete(sums, number)
    return float(sums[number] / others.mean()) if others.min() >= LEAST * work_ms and others.min() > 0 else None
