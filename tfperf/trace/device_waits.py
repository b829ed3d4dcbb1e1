"""What devices that share a step do in it: they work, communicate, or wait for the one that is last.

In a collective that all enter, a device waits until the last has arrived; the rest of it is communication. Where no
collective is recorded, a device waits from the end of its own part of a step to that of the last device, and what
merges them afterwards is communication.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tfperf.arrays import BoolMask, Float64Array, Indices, TextArray
from tfperf.trace.costs import NS_PER_MS
from tfperf.trace.device_rows import EXCHANGE, SHARED, UPDATES, WORK, DeviceRows, collect_rows, group_devices
from tfperf.trace.intervals import Intervals, merge_intervals
from tfperf.trace.operations import Operations
from tfperf.trace.phases import PhaseRules
from tfperf.trace.planes import Events
from tfperf.trace.steps import Steps
from tfperf.trace.stragglers import Straggler, find_straggler


@dataclass(frozen=True, kw_only=True)
class DeviceWait:
    """A device by step, ms (S): at work, in communication, waiting for another. last: share of steps in which it is it.

    What it does in communication while it works counts as work.
    """

    device: str
    work: Float64Array
    communication: Float64Array
    wait: Float64Array
    last: float


@dataclass(frozen=True, kw_only=True)
class DeviceWaits:
    """Devices that share steps. collectives: whether waits are those in collectives, or those for the last to end.

    turns: whether the devices take turns on a processor's cores or threads, of which there are fewer than devices: they
    wait for these, and not for each other. straggler: which one holds up the others, None: there is none.
    """

    devices: tuple[DeviceWait, ...]
    collectives: bool
    turns: bool
    straggler: Straggler | None


def measure_device_waits(
    events: Events, operations: Operations, devices: TextArray, phase_index: Indices, working: BoolMask,
    steps: Steps, cores: int | None, rules: PhaseRules,
) -> tuple[DeviceWaits, ...]:  # fmt: skip
    """Of each set of devices that share steps, of accelerators alone where there are some.

    devices (n): of each event; working (n): operations of steps; cores: that the program may use, None: not known.
    """
    accelerator = np.array([lane.accelerator for lane in events.lanes] or [False], bool)[events.lane]
    several = (working & accelerator).any()
    working = working & accelerator if several else working
    out = []
    for group in group_devices(np.unique(devices[working]).tolist()):
        rows = collect_rows(events, operations, devices, phase_index, working, steps, group, rules)
        count = len(group.members)
        turns = not several and min(cores or count, len(np.unique(rows.lane[rows.own]))) < count
        out.append(_measure_set(rows, steps, turns))
    return tuple(out)


def _measure_set(rows: DeviceRows, steps: Steps, turns: bool) -> DeviceWaits:
    members, (begins, ends) = rows.devices.members, rows.find_spans(len(steps))
    collectives = bool((rows.collective >= 0).any())
    work, waits, exchange = [], [], []
    for number in range(len(members)):
        mine = rows.device == number
        busy = _merge(rows, mine & ((rows.role == WORK) | (rows.role == UPDATES)))
        wait = _find_collective_waits(rows, number) if collectives else _find_end_waits(ends, number)
        wait = wait.subtract(busy)
        joint = _merge(rows, (rows.role == EXCHANGE) & (mine | _find_joint(rows, ends)))
        work.append(_sum_by_step(busy, steps))
        waits.append(_sum_by_step(wait, steps))
        exchange.append(_sum_by_step(joint.subtract(busy).subtract(wait), steps))
    entered = rows.step[rows.collective >= 0] if collectives else rows.step
    valid: BoolMask = np.isfinite(ends).all(axis=1) & np.isin(np.arange(len(steps)), entered)
    wait_ms = np.stack(waits, axis=1)
    least = wait_ms[valid]
    alone = (least <= least.min(axis=1, keepdims=True)).sum(axis=1) == 1  # where several wait as little, none is last
    last = np.bincount(least[alone].argmin(axis=1), minlength=len(members)) / max(valid.sum(), 1)
    return DeviceWaits(
        devices=tuple(
            DeviceWait(device=d, work=work[i], communication=exchange[i], wait=waits[i], last=float(last[i]))
            for i, d in enumerate(members)
        ),
        collectives=collectives, turns=turns,
        straggler=None if turns else find_straggler(rows, wait_ms, last, valid, begins),
    )  # fmt: skip


def _find_collective_waits(rows: DeviceRows, number: int) -> Intervals:
    """In each collective from a device's arrival to that of the last."""
    some = rows.collective >= 0
    arrivals = np.zeros(rows.collective.max() + 1, np.int64)
    np.maximum.at(arrivals, rows.collective[some], rows.begin[some])
    mine = some & (rows.device == number)
    return merge_intervals(rows.begin[mine], np.minimum(arrivals[rows.collective[mine]], rows.end[mine]))


def _find_end_waits(ends: Float64Array, number: int) -> Intervals:
    """In each step from the end of a device's own part to that of the last."""
    every = ends[~np.isnan(ends).any(axis=1)].astype(np.int64)
    return merge_intervals(every[:, number], every.max(axis=1, initial=0))


def _find_joint(rows: DeviceRows, ends: Float64Array) -> BoolMask:
    """What merges all devices: of none alone, after the first of them has done its part of the step."""
    first = np.where(np.isnan(ends), np.inf, ends).min(axis=1, initial=np.inf)
    out: BoolMask = (rows.device == SHARED) & (rows.begin >= first[rows.step])
    return out


def _merge(rows: DeviceRows, which: BoolMask) -> Intervals:
    return merge_intervals(rows.begin[which], rows.end[which])


def _sum_by_step(times: Intervals, steps: Steps) -> Float64Array:
    """ms of them in each step (S)."""
    cuts = np.stack([steps.begin, steps.end], axis=1).reshape(-1)
    return times.sum_lengths(cuts)[::2] / NS_PER_MS


def make_waits_record(waits: DeviceWaits) -> dict[str, Any]:
    """JSON of the waits of devices, ms a step, means over steps; each step's are lists (S)."""
    rows = [
        {
            "device": one.device, "last_share": one.last,
            **{f"{key}_ms": float(getattr(one, key).mean()) for key in ("work", "communication", "wait")},
            "wait_ms_by_step": one.wait.tolist(),
        }
        for one in waits.devices
    ]  # fmt: skip
    straggler = None if waits.straggler is None else dict(vars(waits.straggler))
    return {"devices": rows, "collectives": waits.collectives, "turns": waits.turns, "straggler": straggler}
