"""The part of a page with an ensemble's predictions: means and bands beside targets, curves, how unsure it is."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfperf.arrays import Float64Array
from tfperf.report.page import render_image, render_paragraph
from tfperf.report.style import BAND, FAILED, LEGEND_ROOM, MEAN, apply_style, make_axes_grid, place_legend, to_png
from tfperf.workloads.keras.replicas.calibration import MOST_SAMPLES, HeldClasses, HeldNumbers

MOST_OUTPUTS = 4  # that are drawn
MOST_BARS = 150
FEW = 40  # replicas: below it 2.5 % of them are less than one
SELECTED = "Validation samples; these samples also chose the best epochs, so the figures are optimistic."


def render_bands(values: HeldNumbers | HeldClasses) -> str:
    """Plots with what they show."""
    with apply_style():
        if isinstance(values, HeldClasses):
            return render_image(to_png(draw_entropies(values)), ENTROPIES) + render_paragraph(SELECTED, "soft")
        images = [render_image(to_png(draw_curves(values)), CURVE)] if values.curve is not None else []
        images.append(render_image(to_png(draw_bands(values)), BANDS))
    return "".join([*images, *(render_paragraph(line, "soft") for line in list_remarks(values))])


CURVE = (
    "Mean of the replicas (line), their central 68 % and 95 % (dark and light band), targets of validation samples "
    "(dots). The bands are of what replicas differ in; noise of the targets is not in them."
)
BANDS = (
    "Left: target against mean, with the central 68 % (thick) and 95 % (thin) of the replicas; on the dashed line "
    "where the mean is right. Right: the same samples by growing mean, with both bands, and targets as dots."
)
ENTROPIES = (
    "Entropy of the mean probabilities, as shares of the predictions that are right, and of those that are wrong. An "
    "ensemble that knows what it does not know is less sure (further right) where it is wrong."
)


def list_remarks(values: HeldNumbers) -> list[str]:
    """What else is to be said of the bands."""
    count, outputs = values.targets.shape
    remarks = [SELECTED]
    if outputs > MOST_OUTPUTS:
        remarks.append(f"The first {MOST_OUTPUTS} of {outputs} outputs are drawn.")
    if values.replicas < FEW:
        remarks.append(
            f"The central 95 % of {values.replicas} replicas are nearly all that lies between the outermost."
        )
    if count > MOST_BARS:
        remarks.append(f"Left: {MOST_BARS} of {count} samples, evenly by their means.")
    if count == MOST_SAMPLES:
        remarks.append(f"The first {MOST_SAMPLES} validation samples.")
    return remarks


def draw_curves(values: HeldNumbers) -> Figure:
    """Bands over the only input, a panel for each output."""
    curve, inputs = values.curve, values.inputs
    assert curve is not None and inputs is not None
    count = min(MOST_OUTPUTS, values.mean.shape[1])
    figure, axes = make_axes_grid(count, 1, width=11.0, height=3.2, right=LEGEND_ROOM)
    for output, axis in enumerate(axes):
        _draw_ribbon(axis, curve.inputs, curve.mean[:, output], curve.ends[..., output])
        axis.plot(inputs, values.targets[:, output], ".", color=FAILED, markersize=4, label="targets")
        axis.set_ylabel(_name_output(output, count))
        place_legend(axis)
    axes[-1].set_xlabel("input")
    return figure


def draw_bands(values: HeldNumbers) -> Figure:
    """A row for each output: targets against means with bars, and both by rank."""
    count = min(MOST_OUTPUTS, values.mean.shape[1])
    figure, axes = make_axes_grid(count, 2, width=11.0, height=3.6, right=LEGEND_ROOM)
    for output in range(count):
        order = np.argsort(values.mean[:, output])
        mean, ends, targets = values.mean[order, output], values.ends[:, order, output], values.targets[order, output]
        _draw_bars(axes[2 * output], mean, ends, targets)
        right = axes[2 * output + 1]
        ranks = np.arange(1.0, len(mean) + 1)
        _draw_ribbon(right, ranks, mean, ends)
        right.plot(ranks, targets, ".", color=FAILED, markersize=4, label="targets")
        right.set_xlabel("sample, by growing mean")
        right.set_ylabel(_name_output(output, count))
        place_legend(right)
        axes[2 * output].set_ylabel(f"mean of the replicas{'' if count == 1 else f', output {output + 1}'}")
        axes[2 * output].set_xlabel("target")
    return figure


def _name_output(output: int, count: int) -> str:
    return "output" if count == 1 else f"output {output + 1}"


def _draw_bars(axis: Axes, mean: Float64Array, ends: Float64Array, targets: Float64Array) -> None:
    """Of samples by their means, at most MOST_BARS of them."""
    rows = np.unique(np.linspace(0, len(mean) - 1, min(MOST_BARS, len(mean))).round().astype(int))
    rows = rows[np.isfinite(targets[rows])]
    limits = [float(one) for one in (targets[rows].min(), targets[rows].max())] if len(rows) else []
    axis.plot(limits, limits, color=FAILED, linestyle="--")
    for low, high, width in ((ends[0], ends[3], 0.6), (ends[1], ends[2], 2.2)):
        axis.vlines(targets[rows], low[rows], high[rows], color=BAND, linewidth=width)
    axis.plot(targets[rows], mean[rows], ".", color=MEAN, markersize=4)


def _draw_ribbon(axis: Axes, x: Float64Array, mean: Float64Array, ends: Float64Array) -> None:
    """ends: quantiles (4, N) at ENDS."""
    axis.fill_between(x, ends[0], ends[3], color=BAND, alpha=0.3, linewidth=0, label="central 95 %")
    axis.fill_between(x, ends[1], ends[2], color=BAND, alpha=0.6, linewidth=0, label="central 68 %")
    axis.plot(x, mean, color=MEAN, label="mean")


def draw_entropies(values: HeldClasses) -> Figure:
    """Histograms of the right and of the wrong."""
    figure, axes = make_axes_grid(1, 1, width=8.0, height=3.2, left=0.75, right=LEGEND_ROOM)
    (axis,) = axes
    edges = np.linspace(0, math.log(values.classes), 16).tolist()
    for chosen, colour, label in ((values.is_right, MEAN, "right"), (~values.is_right, FAILED, "wrong")):
        some = values.entropy[chosen]
        if len(some):
            shares = np.full(len(some), 1 / len(some))
            told = f"{label} ({len(some)})"
            axis.hist(some, edges, weights=shares, color=colour, alpha=0.55, label=told)
    axis.set_xlabel(f"entropy, nats (at most ln {values.classes} = {math.log(values.classes):.3g})")
    axis.set_ylabel("share")
    place_legend(axis)
    return figure
