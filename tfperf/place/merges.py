"""How values of several devices have to be merged, held against the sums that ran."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfperf.place.copies import Merge, short
from tfperf.place.merged import Merged
from tfperf.place.needs import Pass
from tfperf.place.trainable import Metric

NEAR = 1e-3  # of a share: a float16's third


def shares_of(merge: str, devices: Sequence[int], own: int) -> dict[int, float]:
    """By what the value of each device is multiplied in a merge; own: that of which `first` takes it."""
    if merge == "first":
        return {own: 1.0}
    return dict.fromkeys(devices, 1.0 / len(devices) if merge == "mean" else 1.0)


def judge_merges(found: Iterable[Merged], needed: Iterable[Merge]) -> Iterator[str]:
    """Faults of values that have another device's in place of one, one twice or none, or are not divided."""
    every = list(found)
    for merge in needed:
        some = [one for one in every if (one.what, one.number) == (merge.kind, merge.number)]
        some = [one for one in some if merge.device in (None, one.device)]
        if not some:
            yield f"merge of {merge.what}: nothing takes it in the graphs that ran"
        for one in some:
            wanted = _own(merge, one.shares) if one.gathered else merge.shares
            if {*one.shares} != {*wanted} or not all(_near(one.shares[k], wanted[k]) for k in wanted):
                told = _text(one.shares) if one.shares else "no sum of what devices found"
                where = f"merge of {merge.what}: {short(one.device)} takes {told}"
                yield f"{where}; must be {_text(wanted)}: {one.name}"


def _own(merge: Merge, found: Mapping[int, float]) -> Mapping[int, float]:
    """What a device has to hand to a collective: its own value, or that of any one, where it is not known which."""
    mine = merge.own if merge.own is not None else next(iter(found), next(iter(merge.shares)))
    return {mine: merge.shares.get(mine, math.nan)}


def _near(got: float, want: float) -> bool:
    return abs(got - want) <= NEAR * abs(want)


def _text(shares: Mapping[int, float]) -> str:
    return " + ".join(f"{share:.4g} of device {number}" for number, share in sorted(shares.items()))


def merges_told(every: Sequence[Pass], metrics: Sequence[Metric], devices: Sequence[int]) -> Iterator[Merge]:
    """Of the loss, and of metrics, that passes compute of what they are given; `first` is the first pass'."""
    told = [("loss", "sum"), *((f"metric {one.name}", one.merge) for one in metrics)]
    for number, (what, merge) in enumerate(told):
        if every[0].demand.told[number]:
            yield Merge(what, "told", number, None, shares_of(merge, devices, every[0].number))
