"""The part of a page that has each replica's best loss. R replicas, E epochs."""

import numpy as np
from matplotlib.figure import Figure

from tfperf.arrays import BoolMask, Float64Array, Int64Array
from tfperf.report.numbers import format_figure
from tfperf.report.page import render_image, render_paragraph, render_table
from tfperf.report.style import FAILED, MEAN, SECOND, apply_style, escape_math, make_axes_grid, to_png
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome

FENCE = 1.5  # interquartile ranges from a quartile
FEWEST = 8  # replicas, of whose quartiles something can be said
MOST_NAMED = 20


def find_outliers(values: Float64Array) -> BoolMask:
    """Values further than FENCE interquartile ranges from the quartiles; none among fewer than FEWEST.

    Source: Tukey 1977, "Exploratory Data Analysis", section 2D: of normal values 0.7 % lie there.
    """
    if len(values) < FEWEST:
        return np.zeros(len(values), bool)
    low, high = np.percentile(values, [25, 75])
    room = FENCE * (high - low)
    found: BoolMask = (values < low - room) | (values > high + room)
    return found


def render_losses(found: EnsembleOutcome, monitored: str) -> str:
    """A plot of the losses, ascending, and a table of the outliers."""
    best = found.find_best(monitored)
    good = found.replicas.is_usable & np.isfinite(best)
    if not good.any():
        return render_paragraph("n/a: all replicas broke")
    ids, losses = found.replicas.id[good], best[good]
    with apply_style():
        image = render_image(to_png(draw_losses(ids, losses, find_outliers(losses), monitored)), CAPTION)
    return image + render_outliers(ids, losses, found.replicas.best_epoch[good], monitored)


def render_outliers(ids: Int64Array, losses: Float64Array, epochs: Int64Array, monitored: str) -> str:
    """The outliers, the furthest first, or that there are none."""
    apart = find_outliers(losses)
    if len(ids) < FEWEST:
        return render_paragraph(f"Of fewer than {FEWEST} replicas none is called an outlier.")
    if not apart.any():
        return render_paragraph("No replica is an outlier.")
    order = [i for i in np.argsort(-np.abs(losses - np.median(losses)), kind="stable") if apart[i]]
    rows = [(str(ids[i]), format_figure(losses[i]), str(epochs[i])) for i in order]
    left = len(rows) - MOST_NAMED
    table = render_table(("outlier", f"best {monitored}", "epoch"), rows[:MOST_NAMED])
    return table + (render_paragraph(f"and {left} more") if left > 0 else "")


CAPTION = (
    "The best loss of each replica that did not break, in ascending order; dashed: median and quartiles. Outliers, "
    "with their numbers: outside 1.5 times the interquartile range (Tukey), as 0.7 % of many normal values are, "
    "and more of few."
)


def draw_losses(ids: Int64Array, losses: Float64Array, apart: BoolMask, monitored: str) -> Figure:
    """Ascending losses; of the outliers the furthest are named."""
    figure, axes = make_axes_grid(1, 1, width=11.0, height=2.6)
    (axis,) = axes
    order = np.argsort(losses, kind="stable")
    ranks = np.arange(1, len(ids) + 1)
    for level in np.percentile(losses, [25, 50, 75]):
        axis.axhline(level, color=SECOND, linestyle="--", linewidth=0.7)
    axis.plot(ranks, losses[order], "o", color=MEAN, markersize=4)
    furthest = set(np.argsort(-np.abs(losses - np.median(losses)), kind="stable")[:MOST_NAMED].tolist())
    for rank, i in zip(ranks, order, strict=True):
        if apart[i]:
            axis.plot(rank, losses[i], "o", color=FAILED, markersize=5)
        if apart[i] and i in furthest:
            axis.annotate(
                str(ids[i]), (rank, losses[i]), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=8
            )
    axis.set_xlabel("rank by loss")
    axis.set_ylabel(escape_math(f"best {monitored}"))
    return figure
