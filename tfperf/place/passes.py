"""When the passes of each device begin and end in the steps of a trace, and which device is the last."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfperf.arrays import BoolMask, Times
from tfperf.measure.confidence import estimate_mean
from tfperf.trace.runs import OperationRuns

SMALL = 0.005  # share of a pass below which an operation is none of its begin or end: constants run at any time
MOST_OUTSIDE = 0.1  # of a pass may be in operations whose runs cannot be told apart by step
NS_PER_MS = 1e6

Span = tuple[Times, Times]  # begin and end in ns, of each step (s)


def find_span(runs: OperationRuns, which: BoolMask, steps: int) -> Span | None:
    """From the first to the last of some operations (n, by the graph's number) in each step.

    None where it is not known: they run not equally often in all steps, or one step's before the last one's end.
    """
    mine = np.flatnonzero(which[runs.node])
    nodes, inverse, counts = np.unique(runs.node[mine], return_inverse=True, return_counts=True)
    if not len(nodes):
        return None
    time = np.bincount(inverse, runs.end[mine] - runs.begin[mine])
    even = counts % steps == 0
    if time[~even].sum() > MOST_OUTSIDE * time.sum():
        return None
    begins, ends = [], []
    for node in np.flatnonzero(even & (time >= SMALL * time.sum())).tolist():
        rows = mine[inverse == node].reshape(steps, -1)
        begins.append(runs.begin[rows].min(axis=1))
        ends.append(runs.end[rows].max(axis=1))
    if not begins:
        return None
    begin, end = np.min(begins, axis=0), np.max(ends, axis=0)
    return None if (begin[1:] < end[:-1]).any() else (begin, end)


def compare_ends(spans: Mapping[str, Span], lengths: Sequence[float]) -> dict[str, dict[str, Any]]:
    """By device how far, in ms, the end of its passes lies behind the mean of the devices' ends, and for what.

    lengths: of each device, mean over steps. ends: what `begins`, `length` and `pace` add up to: it begins later; its
    examples are longer, where time goes with their length; the same work takes it longer. low, high: limits of `ends`
    that hold for all devices at once with 95 % probability, if steps are independent. last: share of the steps in which
    the device is the last. Empty for less than two devices.
    """
    if len(spans) < 2:
        return {}
    begin, end = (np.array(side) / NS_PER_MS for side in zip(*spans.values(), strict=True))
    length = end - begin
    late = {"ends": end - end.mean(axis=0), "begins": begin - begin.mean(axis=0)}
    longer = length.mean() * (np.asarray(lengths) / np.mean(lengths) - 1)
    last = np.bincount(end.argmax(axis=0), minlength=len(spans)) / end.shape[1]
    out = {}
    for k, name in enumerate(spans):
        known = estimate_mean(late["ends"][k].tolist(), comparisons=len(spans))
        begins, more = float(late["begins"][k].mean()), float(longer[k])
        out[name] = {
            "ends": known.value, "low": known.low, "high": known.high, "begins": begins, "length": more,
            "pace": known.value - begins - more, "last": float(last[k]), "steps": int(end.shape[1]),
            "takes": float(length[k].mean()),
        }  # fmt: skip
    return out
