"""PDFs with their bands: one figure per basis and scale of x."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from tfperf.arrays import BoolMask, Float64Array
from tfperf.report.style import BAND, FAILED, MEAN, REPLICA, make_axes_grid
from tfperf.workloads.pdf.report.bands import Band, compute_band
from tfperf.workloads.pdf.results.record import FitResult

NAMES = {
    "sigma": r"$x\,\Sigma$", "g": r"$x\,g$", "v": r"$x\,V$", "v3": r"$x\,V_3$", "v8": r"$x\,V_8$", "t3": r"$x\,T_3$",
    "t8": r"$x\,T_8$", "t15": r"$x\,T_{15}$", "u": r"$x\,u$", "ubar": r"$x\,\bar{u}$", "d": r"$x\,d$",
    "dbar": r"$x\,\bar{d}$", "s": r"$x\,s$", "sbar": r"$x\,\bar{s}$", "c": r"$x\,c = x\,\bar{c}$",
}  # fmt: skip
# what is shown of x: below, networks extrapolate and would set the scale; on the linear axis the sea's rise would
X_RANGES = {"log": (1e-5, 1.0), "linear": (0.0, 1.0)}
SCALED_FROM = {"log": 1e-5, "linear": 0.05}


def draw_pdfs(result: FitResult, pdf: Float64Array, flavours: tuple[str, ...], scale: str) -> Figure:
    """x f against x, `scale` "log" or "linear": pdf (R, F, X) in the basis of the F names `flavours`.

    All replicas as thin lines, those that are left out in orange; mean, 1 sigma and 68 % of the others.
    """
    columns = 4
    rows = -(-len(flavours) // columns)
    figure, axes = make_axes_grid(rows, columns, width=11.0, height=2.05, top=0.65)
    for f, (axis, flavour) in enumerate(zip(axes, flavours, strict=False)):
        _draw(axis, result.x, pdf[:, f], result.selected, scale)
        axis.set_title(NAMES[flavour])
        if f >= len(flavours) - columns:
            axis.set_xlabel("$x$")
    for axis in axes[len(flavours) :]:
        axis.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.text(0.05, 0.98, f"$Q_0$ = {result.q0:g} GeV; mean and bands over {result.selected_words}", va="top")
    figure.legend(handles, labels, loc="upper right", ncols=len(labels), borderaxespad=0.2)
    return figure


def _draw(axis: Axes, x: Float64Array, samples: Float64Array, selected: BoolMask, scale: str) -> None:
    """One flavour: samples (R, X)."""
    axis.set_xscale(scale)
    axis.set_xlim(X_RANGES[scale])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.axhline(0.0, color="#b0b0b0", linewidth=0.8)
    _add_lines(axis, x, samples[selected], REPLICA, 0.35, 2.0, "replicas")
    _add_lines(axis, x, samples[~selected], FAILED, 0.8, 4.5, "replicas that are left out")
    spread = compute_band(samples[selected])
    if spread is None:
        axis.autoscale(axis="y")
        return
    axis.fill_between(x, spread.low, spread.high, color=BAND, alpha=0.55, linewidth=0, label="68 %", zorder=3)
    axis.plot(x, spread.mean, color=MEAN, linewidth=1.4, label="mean", zorder=5)
    for sign, label in ((-1, r"mean $\pm$ 1 $\sigma$"), (1, None)):
        edge = spread.mean + sign * spread.std
        axis.plot(x, edge, color=MEAN, linewidth=0.8, linestyle=(0, (3, 2)), label=label, zorder=4)
    axis.set_ylim(*_compute_limits(spread, x >= SCALED_FROM[scale]))


def _add_lines(
    axis: Axes, x: Float64Array, samples: Float64Array, colour: str, alpha: float, zorder: float, label: str
) -> None:
    finite = [np.column_stack([x, s]) for s in samples if np.isfinite(s).all()]
    if finite:
        axis.add_collection(
            LineCollection(finite, colors=colour, linewidths=0.4, alpha=alpha, zorder=zorder, label=label), autolim=True
        )


def _compute_limits(spread: Band, visible: BoolMask) -> tuple[float, float]:
    """Three sigma of room around the mean where it is shown: a replica far off must not flatten the band."""
    low = float(np.min((spread.mean - 3 * spread.std)[visible]))
    high = float(np.max((spread.mean + 3 * spread.std)[visible]))
    low, high = min(low, 0.0), max(high, 0.0)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin
