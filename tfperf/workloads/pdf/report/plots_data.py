"""Measurements over predictions, one panel per dataset, one figure per experiment."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfperf.arrays import BoolMask, Float64Array, Indices
from tfperf.report.style import BAND, MEAN, escape_math, make_axes_grid
from tfperf.workloads.pdf.report.bands import compute_band
from tfperf.workloads.pdf.results.record import DatasetResult

TICKS = 14
WIDEST = 0.6  # the ratio is shown at most from 1 - WIDEST to 1 + WIDEST


def draw_data(datasets: Sequence[DatasetResult], selected: BoolMask) -> Figure:
    """Data over theory, point by point in bins of Q2, for at least one dataset; selected (R)."""
    figure, axes = make_axes_grid(len(datasets), 1, width=11.0, height=1.45, left=0.65, hspace=0.75)
    for axis, dataset in zip(axes, datasets, strict=True):
        _draw(axis, dataset, selected)
    return figure


def _draw(axis: Axes, dataset: DatasetResult, selected: BoolMask) -> None:
    order, column = _sort_points(dataset)
    theory = np.where(dataset.mean == 0, np.nan, dataset.mean)[order]
    ratio, error = dataset.cv[order] / theory, dataset.sigma[order] / np.abs(theory)
    index = np.arange(len(order))
    spread = compute_band(dataset.predictions[selected][:, order])
    if spread is not None:
        width = spread.std / np.abs(theory)
        axis.fill_between(index, 1 - width, 1 + width, step="mid", color=BAND, alpha=0.7, linewidth=0)
    axis.axhline(1.0, color=MEAN, linewidth=0.9)
    half = _compute_half_range(ratio, error)
    outside = np.abs(ratio - 1) > half
    axis.vlines(index, ratio - error, ratio + error, color="#222222", linewidth=0.6)
    axis.plot(index[~outside], ratio[~outside], ".", color="#222222", markersize=3)
    for sign, marker in ((1, "^"), (-1, "v")):
        beyond = index[outside & (sign * (ratio - 1) > 0)]
        axis.plot(beyond, np.full(len(beyond), 1 + sign * half * 0.97), marker, color="#c02020", markersize=4)
    axis.set_ylim(1 - half, 1 + half)
    axis.set_xlim(-0.7, max(len(order), 1) - 0.3)
    axis.set_ylabel("data / theory")
    name = escape_math(dataset.name)
    if dataset.label not in ("", dataset.name):
        name = f"{escape_math(dataset.label)}   ({name})"
    axis.set_title(f"{name}:  {len(order)} points, $\\chi^2/N$ = {dataset.chi2:.2f}")
    _label_bins(axis, dataset, order, column)


def _sort_points(dataset: DatasetResult) -> tuple[Indices, int | None]:
    """Points by Q2, then by x, and the column of Q2; as they are where there is no Q2."""
    names = [c.lower() for c in dataset.kin_columns]
    if "q2" not in names:
        return np.arange(len(dataset.cv)), None
    q2 = names.index("q2")
    first = names.index("x") if "x" in names else q2
    return np.lexsort((dataset.kin[:, first], dataset.kin[:, q2])), q2


def _compute_half_range(ratio: Float64Array, error: Float64Array) -> float:
    """Wide enough for nineteen points of twenty with their errors; single wild points must not flatten the others."""
    reach = (np.abs(ratio - 1) + error)[np.isfinite(ratio)]
    return float(min(max(1.1 * np.quantile(reach, 0.95), 0.02), WIDEST)) if len(reach) else WIDEST


def _label_bins(axis: Axes, dataset: DatasetResult, order: Indices, column: int | None) -> None:
    """Every other bin of Q2 shaded, as many named as there is room for."""
    axis.grid(axis="x", visible=False)
    if column is None or len(order) == 0:
        axis.set_xlabel("point")
        return
    q2 = dataset.kin[order, column]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(q2) > 1e-3 * q2[1:]) + 1])
    ends = np.append(starts[1:], len(q2))
    if len(starts) <= len(q2) / 2:  # bins, not a value of its own for each point
        for start, end in list(zip(starts, ends, strict=True))[1::2]:
            axis.axvspan(start - 0.5, end - 0.5, color="#f1f1ec", linewidth=0, zorder=0)
    middle, apart = (starts + ends - 1) / 2, len(q2) / TICKS
    ticks: list[int] = []
    for i, m in enumerate(middle):
        if not ticks or m - middle[ticks[-1]] >= apart:
            ticks.append(i)
    axis.set_xticks(
        middle[ticks], [f"{q2[starts[i]]:.3g}" if q2[starts[i]] < 1000 else f"{q2[starts[i]]:.0f}" for i in ticks]
    )
    axis.set_xlabel("$Q^2$ [GeV$^2$]; within a bin, points by $x$", labelpad=1)
