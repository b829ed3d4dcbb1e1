"""How values of several devices have to be merged, held against the sums that ran."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfperf.place.merge_finder import FoundMerge
from tfperf.place.needs import Pass
from tfperf.place.trainable import Metric
from tfperf.place.transfers import NeededMerge, format_device

NEAR = 1e-3  # of a share: a float16's third


def compute_shares(merge: str, devices: Sequence[int], own: int) -> dict[int, float]:
    """By what the value of each device is multiplied in a merge; own: that of which `first` takes it."""
    if merge == "first":
        return {own: 1.0}
    return dict.fromkeys(devices, 1.0 / len(devices) if merge == "mean" else 1.0)


def check_merges(found: Iterable[FoundMerge], needed: Iterable[NeededMerge]) -> Iterator[str]:
    """Faults of values that have another device's in place of one, one twice or none, or are not divided."""
    every = list(found)
    for merge in needed:
        some = [one for one in every if (one.what, one.number) == (merge.kind, merge.number)]
        some = [one for one in some if merge.device in (None, one.device)]
        if not some:
            yield f"merge of {merge.what}: nothing takes it in the graphs that ran"
        for one in some:
            wanted = _select_own_share(merge, one.shares) if one.all_reduced else merge.shares
            if {*one.shares} != {*wanted} or not all(_is_near(one.shares[k], wanted[k]) for k in wanted):
                got = _format_shares(one.shares) if one.shares else "no sum of what devices found"
                where = f"merge of {merge.what}: {format_device(one.device)} takes {got}"
                yield f"{where}; must be {_format_shares(wanted)}: {one.name}"


def _select_own_share(merge: NeededMerge, found: Mapping[int, float]) -> Mapping[int, float]:
    """What a device has to hand to a collective: its own value, or that of any one, where it is not known which."""
    mine = merge.own if merge.own is not None else next(iter(found), next(iter(merge.shares)))
    return {mine: merge.shares.get(mine, math.nan)}


def _is_near(got: float, want: float) -> bool:
    return abs(got - want) <= NEAR * abs(want)


def _format_shares(shares: Mapping[int, float]) -> str:
    return " + ".join(f"{share:.4g} of device {number}" for number, share in sorted(shares.items()))


def list_metric_merges(first: Pass, metrics: Sequence[Metric], devices: Sequence[int]) -> Iterator[NeededMerge]:
    """Of the loss, and of metrics, that passes compute of what they are given; merge `first` takes the first pass'."""
    named = [("loss", "sum"), *((f"metric {one.name}", one.merge) for one in metrics)]
    for number, (what, merge) in enumerate(named):
        if first.demand.metrics_vary[number]:
            yield NeededMerge(what, "told", number, None, compute_shares(merge, devices, first.number))
