"""How fast the operations of a profile are beside what their devices can do, and what their time comes to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tfperf.data.cache import Cache
from tfperf.measure.ceilings import Measure, get_ceilings, measure_idle, raise_ceilings
from tfperf.measure.environment import count_cores, read_cpu_model
from tfperf.measure.roofline import Precision
from tfperf.report.ablation import format_digits
from tfperf.report.numbers import MISSING
from tfperf.trace.attribution import PROCESSOR, Attribution
from tfperf.trace.claims import Cause
from tfperf.trace.costs import OperationCost
from tfperf.trace.intervals import NOTHING, Intervals, merge_intervals
from tfperf.trace.notes import Notes
from tfperf.trace.work import HALF, DeviceLimits, WorkRate, convert_ceilings, estimate_rate

WORKING: tuple[Cause, ...] = ("work", "eager_work")
Key = tuple[str, Precision]  # a device and a precision
LONG = 0.05  # share of a step from which on an operation's time tells how fast it is
SHEET = "the data sheet's, not measured"
MEASURED = "measured here with NumPy"


@dataclass(frozen=True)
class RatedCosts:
    """Rates of a profile's operations (n); limits: by device and precision; unknown: by device, why it has none."""

    rates: tuple[WorkRate, ...]
    limits: Mapping[Key, DeviceLimits]
    unknown: Mapping[str, str]


def estimate_rates(attribution: Attribution, measure: Measure | None = None) -> RatedCosts:
    """Rates of the operations of an attribution, in its order.

    The processor is measured, by default with NumPy, where it is the one that recorded, and has work that is known;
    once, for the cache keeps what was found.
    """
    keys = {(one.device, one.work.precision) for one in attribution.costs if one.work is not None}
    limits, unknown = dict[Key, DeviceLimits](), dict[str, str]()
    for device, precision in sorted(keys):
        try:
            limits[device, precision] = _find_limits(device, precision, attribution, measure)
        except (RuntimeError, ValueError, OSError) as error:  # a report must not fail for it
            unknown[device] = str(error)
    rates = [
        estimate_rate(
            one.work,
            one.executions,
            one.busy_ms,
            None if one.work is None else limits.get((one.device, one.work.precision)),
        )
        for one in attribution.costs
    ]
    return RatedCosts(tuple(_drop_shared(attribution.costs, rates)), limits, unknown)


def _drop_shared(costs: Sequence[OperationCost], rates: Sequence[WorkRate]) -> list[WorkRate]:
    """Rates; what several operations that run at once do not reach alone, but together, is no overhead of each."""
    out, groups = list(rates), dict[str, list[int]]()
    for number, one in enumerate(costs):
        if rates[number].share is not None and len(one.moments):
            host = one.device.partition(" ")[0]  # parts of a processor share it
            groups.setdefault(host if host == PROCESSOR else one.device, []).append(number)
    for mine in groups.values():
        begin, end = (np.concatenate([getattr(costs[i].moments, key) for i in mine]) for key in ("begin", "end"))
        shares = np.concatenate([np.full(len(costs[i].moments), rates[i].share) for i in mine])
        zero = begin.min()
        times = np.concatenate([begin, end]) - zero
        order = np.argsort(times, kind="stable")
        times, level = times[order], np.cumsum(np.append(shares, -shares)[order])
        area = np.append(0.0, np.cumsum(level[:-1] * np.diff(times)))  # of the sum of shares, from the first on
        for i in (i for i in mine if rates[i].bound == "overhead"):
            moments = costs[i].moments
            total = np.interp(moments.end - zero, times, area) - np.interp(moments.begin - zero, times, area)
            if total.sum() >= HALF * moments.length:
                out[i] = replace(rates[i], bound=None)
    return out


def _find_limits(
    device: str, precision: Precision, attribution: Attribution, measure: Measure | None
) -> DeviceLimits:  # fmt: skip
    """Raises: ValueError for a device whose limits cannot be known here, RuntimeError where measuring fails."""
    if device.partition(" ")[0] != PROCESSOR:  # an accelerator, or one of several machines
        if device in attribution.limits:
            return attribution.limits[device]
        raise ValueError("the profile does not tell its peaks")
    notes = attribution.notes
    if reason := _refuse_machine(notes):
        raise ValueError(reason)
    cache, threads, measure = Cache(True), notes.threads or count_cores(), measure or measure_idle
    found = get_ceilings(cache, threads, precision, measure)
    if _find_fastest(device, precision, attribution) > found.gflops:  # the machine was busy
        found = raise_ceilings(cache, threads, precision, found, measure)
    return convert_ceilings(found)


def _find_fastest(device: str, precision: Precision, attribution: Attribution) -> float:
    """GFLOP/s of the fastest operation, of those that take long enough to tell."""
    rates = (
        estimate_rate(one.work, one.executions, one.busy_ms, None).gflops
        for one in attribution.costs
        if one.device == device and one.work and one.work.precision == precision
        and one.busy_ms >= LONG * attribution.mean_ms
    )  # fmt: skip
    return max((rate for rate in rates if rate is not None), default=0.0)


def _refuse_machine(notes: Notes) -> str:
    """Why ceilings of this machine say nothing of the profile; empty where they do."""
    if not notes.cpu or not notes.cores:
        return "which processor it was recorded on is not noted"
    here = read_cpu_model(), count_cores()
    if here == (notes.cpu, notes.cores):
        return ""
    cores = "1 core" if notes.cores == 1 else f"{notes.cores} cores"
    return f"recorded on {notes.cpu} with {cores}, and this is {here[0]} with {here[1]}"


def make_rate_record(rate: WorkRate) -> dict[str, Any]:
    """JSON of a rate; null: not known."""
    return {
        "flop_per_step": rate.flops, "bytes_per_step": rate.bytes, "gflop_per_second": rate.gflops,
        "gbyte_per_second": rate.gb_s, "share_of_ceiling": rate.share, "bound_by": rate.bound,
    }  # fmt: skip


def make_work_record(attribution: Attribution, rated: RatedCosts) -> dict[str, Any]:
    """JSON of what operations do: ceilings by device and precision, and ms a step in which operations run.

    near_ms: such that reach half of a ceiling or more; far_ms: of the rest, such that reach less; unknown_ms: of the
    rest, such of which nobody can tell. They add up to the time in which operations run, without what recording adds.
    """
    account, window = attribution.account, NOTHING
    for cause in WORKING:
        window = window.add(account.moments.get(cause, NOTHING))
    near = _merge(attribution, rated, window, lambda rate: (rate.share or 0.0) >= HALF)
    known = _merge(attribution, rated, window, lambda rate: (rate.share or 0.0) >= HALF or rate.bound == "overhead")
    scale = account.sum(*WORKING) / max(1, window.length)
    ceilings = [
        {"device": device, "precision": precision, **asdict(one)} for (device, precision), one in rated.limits.items()
    ]
    return {
        "near_ms": near * scale, "far_ms": (known - near) * scale, "unknown_ms": (window.length - known) * scale,
        "ceilings": ceilings, "unknown": dict(rated.unknown),
    }  # fmt: skip


def _merge(
    attribution: Attribution, rated: RatedCosts, window: Intervals, is_one: Callable[[WorkRate], bool]
) -> int:  # fmt: skip
    """ns of the window in which at least one operation runs of those whose rate is one."""
    mine = [cost.moments for cost, rate in zip(attribution.costs, rated.rates, strict=True) if is_one(rate)]
    if not mine:
        return 0
    every = merge_intervals(np.concatenate([m.begin for m in mine]), np.concatenate([m.end for m in mine]))
    return every.intersect(window).length


def describe_ceilings(record: Mapping[str, Any]) -> list[str]:
    """Against what shares are taken, and of which devices nobody can tell, and why."""
    out = []
    for one in record["work"]["ceilings"]:
        figures = [f"{format_digits(one['gflops'])} GFLOP/s in {one['precision']}",
                   f"{format_digits(one['memory_gb_s'])} GB/s from memory"]  # fmt: skip
        if one["cache_gb_s"] is not None:
            size = format_digits(one["cached_bytes"] / 2**20)
            figures.append(f"{format_digits(one['cache_gb_s'])} from caches for operations of at most {size} MiB")
        out.append(f"ceilings of {one['device']}: {', '.join(figures)}; {SHEET if one['sheet'] else MEASURED}")
    return out + [f"ceilings of {device}: n/a: {why}" for device, why in record["work"]["unknown"].items()]


def format_rate(operation: Mapping[str, Any]) -> tuple[str, str]:
    """Share of the ceiling and what bounds an operation, for a row of a table."""
    share, bound = operation["share_of_ceiling"], operation["bound_by"]
    return MISSING if share is None else f"{share:.0%}", bound or MISSING
