"""Figures of a prediction: throughput by device, sizes of units, what workers did at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfperf.arrays import Float64Array
from tfperf.report.style import BAND, FAILED, MEAN, escape_math, make_axes_grid

MOST_STEPS = 64  # of a curve
MOST_DEVICES = 8  # that have a colour of their own
MOST_BARS = 64
# from how many s on, s in one, its name
TIME_UNITS = ((3 * 3600.0, 3600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
SIZES = {"seconds": "predicted s of a unit", "batches": "batches of a unit"}


@dataclass(frozen=True)
class DeviceCourse:
    """Records a second of devices. edges (n + 1): of bins of time [s]; rates: (n) each, by names of devices."""

    edges: Float64Array
    rates: Mapping[str, Float64Array]


def choose_time_unit(seconds: float) -> tuple[float, str]:
    """Seconds of the unit in which so many are best told, and its name.

    >>> choose_time_unit(20.0), choose_time_unit(7200.0)
    ((1.0, 's'), (60.0, 'min'))
    """
    return next((length, name) for least, length, name in TIME_UNITS if seconds >= least)


def sum_by_device(report: Mapping[str, Any], most: int = MOST_DEVICES) -> DeviceCourse | None:
    """The course of a report, the workers of a device added up; None where no batch was done.

    Beyond `most` devices, those with the fewest records are one. The last bin ends with the run.
    """
    course, end = report["course"], float(report["seconds"] or 0.0)
    records = np.array(course["records"], np.float64).reshape(len(report["workers"]), -1)
    if not records.any() or end <= 0:
        return None
    sums: dict[str, Float64Array] = {}
    for worker, row in zip(report["workers"], records, strict=True):
        sums[worker["device"]] = sums.get(worker["device"], np.zeros(len(row))) + row
    by_size = sorted(sums, key=lambda name: -float(sums[name].sum()))
    if len(sums) > most:
        rest = by_size[most - 1 :]
        sums = {name: sums[name] for name in sums if name not in rest} | {
            f"{len(rest)} other devices": np.sum([sums[name] for name in rest], axis=0)
        }
    edges, places = _join_bins(records.shape[1], course["bin_seconds"], end)
    return DeviceCourse(edges, {name: np.add.reduceat(row, places) / np.diff(edges) for name, row in sums.items()})


def _join_bins(bins: int, width: float, end: float) -> tuple[Float64Array, list[int]]:
    """Edges of at most MOST_STEPS bins, the last of which ends with the run, and where each begins among the first."""
    step = -(-bins // MOST_STEPS)
    places = list(range(0, bins, step))
    if len(places) > 1 and end - places[-1] * width < step * width / 2:  # too little for a rate
        places.pop()
    last = max(end, (places[-1] + 0.5) * width)
    return np.array([*(place * width for place in places), last]), places


def draw_throughput(found: DeviceCourse) -> Figure:
    """Records a second over time, a device on top of the other."""
    figure, (axis,) = make_axes_grid(1, 1, width=9.0, height=2.6, left=0.8)
    length, name = choose_time_unit(found.edges[-1])
    below = np.zeros(len(found.edges) - 1)
    colours = (
        [MEAN] if len(found.rates) == 1 else matplotlib.colormaps["viridis"](np.linspace(0.1, 0.9, len(found.rates)))
    )
    for (device, rates), colour in zip(found.rates.items(), colours, strict=True):
        axis.stairs(
            below + rates, found.edges / length, baseline=below, fill=True, color=colour, label=escape_math(device)
        )
        below = below + rates
    axis.set_xlim(0, found.edges[-1] / length)
    axis.set_ylim(0, 1.25 * float(below.max()))
    axis.set_xlabel(f"{name} since the first unit was handed out")
    axis.set_ylabel("records/s")
    axis.legend(loc="upper right", ncols=4)
    return figure


def draw_units(units: Mapping[str, Any], end: float) -> Figure:
    """Predicted seconds and batches of units over time: medians, and the middle eight of ten."""
    figure, axes = make_axes_grid(1, 2, width=9.0, height=2.2, left=0.8, wspace=0.8)
    length, name = choose_time_unit(end)
    for axis, key in zip(axes, SIZES, strict=True):
        _draw_sizes(axis, units[f"{key}_over_time"], units["bin_seconds"] / length)
        axis.set_xlabel(f"{name} since the first unit")
        axis.set_ylabel(SIZES[key])
        axis.set_xlim(0, max(end, units["bin_seconds"]) / length)
    axes[0].legend(loc="upper right")
    return figure


def _draw_sizes(axis: Axes, found: Sequence[Mapping[str, float] | None], width: float) -> None:
    """Bins without a unit are left out: nothing was handed out then."""
    known = [(place, one) for place, one in enumerate(found) if one is not None]
    at = np.array([(place + 0.5) * width for place, _ in known])
    low, median, high = (np.array([one[key] for _, one in known]) for key in ("low", "median", "high"))
    axis.vlines(at, low, high, color=BAND, linewidth=2.0, label="eight of ten")
    axis.plot(at, median, "o", color=MEAN, ms=2.5, label="median")
    axis.set_ylim(0, 1.3 * max(1e-3, *high) if len(known) else 1)


def draw_tail(workers: Sequence[Mapping[str, Any]], tail: Mapping[str, float]) -> Figure:
    """For how long each worker had nothing to do at the end; of many those that had nothing for longest."""
    known = [one for one in workers if one["idle_seconds"] is not None]
    known = sorted(known, key=lambda one: -one["idle_seconds"])[:MOST_BARS]
    figure, (axis,) = make_axes_grid(1, 1, width=9.0, height=max(0.9, 0.17 * len(known)), left=2.2)
    places = np.arange(len(known))
    axis.barh(places, [one["idle_seconds"] for one in known], color=BAND, height=0.7)
    axis.axvline(tail["commit_seconds"], color=FAILED, linewidth=0.9, label="until the last rows were on the disk")
    axis.set_yticks(places, [escape_math(one["name"]) for one in known])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.15 * max(tail["seconds"], 1e-3))
    axis.set_xlabel("s without work before the last commit")
    axis.legend(loc="lower right")
    return figure
