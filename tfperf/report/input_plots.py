"""Figures of an input study: rates of stages, the knee, what storing would give, the device before and after."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfperf.report.input import list_measured_rates
from tfperf.report.input_ahead import StoreGain
from tfperf.report.input_stages import StageRow
from tfperf.report.style import BAND, FAILED, MEAN, REPLICA, SECOND, THIRD, escape_math, make_axes_grid

MOST_EPOCHS = 50


def draw_waterfall(report: Mapping[str, Any], rows: Sequence[StageRow]) -> Figure:
    """The pipeline's rate up to each stage, with its interval, and the step's."""
    known = [one for one in rows if one.rate is not None]
    figure, (axis,) = make_axes_grid(1, 1, width=9.0, height=max(1.2, 0.26 * len(known)), left=1.9)
    places, rates = np.arange(len(known)), np.array([one.rate or 0.0 for one in known])
    axis.barh(places, rates, color=BAND, height=0.6, label="data up to the stage")
    for place, one in zip(places, known, strict=True):
        low, high = one.rate_limits
        if low is not None and high is not None:
            axis.plot([max(low, 1e-9), high], [place, place], color=MEAN, linewidth=1.2)
    step = report["as_it_is"]["model"]["rate"]["value"]
    axis.axvline(step, color=FAILED, linewidth=1.0, label="steps of the model alone")
    both = report["as_it_is"]["both"]["rate"]["value"]
    axis.axvline(both, color=THIRD, linewidth=1.0, linestyle="--", label="both together")
    axis.set_xscale("log")
    axis.set_xlim(left=min([both, step, *rates]) / 2)
    axis.set_yticks(places, [escape_math(one.name) for one in known])
    axis.invert_yaxis()
    axis.set_xlabel("batches/s")
    axis.legend(loc="lower right")
    return figure


def draw_workers(report: Mapping[str, Any]) -> Figure:
    """Rates of 1, 2, ... workers: predicted, what the prediction rests on, and what a sweep measured."""
    workers = report["workers"]
    figure, (axis,) = make_axes_grid(1, 1, width=7.0, height=2.8)
    counts = [one["workers"] for one in workers["predicted"]]
    axis.plot(counts, [one["rate"] for one in workers["predicted"]], color=SECOND, label="predicted")
    rests_on = [(one["workers"], one["rate"]) for one in workers["measured"]]
    axis.plot(*zip(*rests_on, strict=True), "s", color=SECOND, ms=5, label="which the prediction rests on")
    if workers["sweep"]:
        _draw_sweep(axis, list_measured_rates(workers))
    step = report["as_it_is"]["model"]["rate"]["value"]
    top = max(one["rate"] for one in workers["predicted"])
    if step < 3 * top:  # else the curve would be flat
        axis.axhline(step, color=FAILED, linewidth=0.8, label="steps of the model alone")
    knee = workers["knee_with_step"]
    axis.axvline(knee, color=THIRD, linewidth=0.8, label=f"knee: {knee}")
    if report["cores"] > 1:
        usual = report["cores"] - 1
        axis.axvline(usual, color=REPLICA, linewidth=0.8, linestyle=":", label=f"cores minus one: {usual}")
    axis.set_ylim(bottom=0)
    axis.set_xticks(counts)
    axis.set_xlabel("workers")
    axis.set_ylabel("batches/s of the data alone")
    axis.legend(loc="lower right")
    return figure


def _draw_sweep(axis: Axes, measured: Mapping[int, Sequence[float]]) -> None:
    """The middle of each number of workers, with the least and the most."""
    counts = sorted(measured)
    middle = np.array([math.prod(measured[one]) ** (1 / len(measured[one])) for one in counts])
    ends = np.array([[min(measured[one]), max(measured[one])] for one in counts]).T
    spread = np.abs(ends - middle)
    axis.errorbar(counts, middle, yerr=spread, fmt="o", color=MEAN, ms=4, capsize=3, label="measured, least to most")


def draw_break_even(gain: StoreGain) -> Figure:
    """Seconds since the beginning, by epochs, with and without what is stored."""
    epochs = 10 if gain.epochs is None else min(MOST_EPOCHS, max(4, 2 * math.ceil(gain.epochs)))
    figure, (axis,) = make_axes_grid(1, 1, width=7.0, height=2.4)
    numbers = range(epochs + 1)
    axis.plot(numbers, gain.list_course(epochs, False), color=MEAN, label="as it is")
    axis.plot(
        numbers,
        gain.list_course(epochs, True),
        color=SECOND,
        label=escape_math(f"what comes before {gain.before} stored"),
    )
    if gain.epochs is not None and gain.epochs <= epochs:
        crossing = gain.epochs * gain.epoch_seconds
        axis.plot([gain.epochs], [crossing], "o", color=FAILED, ms=5, label=f"paid after {gain.epochs:.1f} epochs")
    axis.set_xlabel("epochs")
    axis.set_ylabel("s since the beginning")
    axis.legend(loc="upper left")
    return figure


def draw_busy(before: Mapping[str, Any], after: Mapping[str, Any]) -> Figure:
    """Share of the time in which the device computes, as it is and with what was applied; each a figure with limits."""
    figure, (axis,) = make_axes_grid(1, 1, width=5.0, height=0.9, left=1.2)
    for place, (one, colour) in enumerate(((before, BAND), (after, MEAN))):
        axis.barh(place, 100 * one["value"], color=colour, height=0.6)
        if one["low"] is not None:
            axis.plot([100 * one["low"], 100 * one["high"]], [place, place], color=REPLICA, linewidth=1.2)
    axis.set_yticks([0, 1], ["as it is", "applied"])
    axis.invert_yaxis()
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of the time that the device is busy")
    return figure
