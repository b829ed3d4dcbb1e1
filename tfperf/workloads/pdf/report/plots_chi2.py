"""How well each replica fits, and how it got there."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from tfperf.arrays import BoolMask, Float64Array, Int64Array
from tfperf.report.style import BAND, MEAN, REPLICA, SECOND, THIRD, make_axes_grid
from tfperf.workloads.pdf.report.bands import compute_loss_quantiles, extend_last_values, select_rows
from tfperf.workloads.pdf.results.record import FitResult

BINS = 24
LINES = 10  # replicas drawn one by one


def draw_chi2(result: FitResult) -> Figure:
    """Histograms over the selected replicas of chi2 per point: training and validation, experimental and mean PDF."""
    figure, (own, central) = make_axes_grid(1, 2, width=11.0, height=2.4)
    keep, replicas = result.selected, result.replicas
    training, validation = replicas.chi2_training[keep], replicas.chi2_validation[keep]
    _draw_histogram(own, ("training", training, MEAN), ("validation", validation, SECOND))
    own.set_title("each replica against its own pseudo-data")
    mean_pdf = result.summary.get("chi2_per_point")
    _draw_histogram(central, ("experimental", replicas.chi2_experimental[keep], THIRD), marked=mean_pdf)
    central.set_title("each replica against the measured central values")
    for axis in (own, central):
        axis.set_xlabel(r"$\chi^2$ per point")
        axis.set_ylabel("replicas")
    return figure


def _draw_histogram(axis: Axes, *series: tuple[str, Float64Array, str], marked: float | None = None) -> None:
    """Named values with their colours over common bins, the mean PDF's figure as a line.

    A few outliers are counted in the label instead of flattening the rest.
    """
    pooled = np.concatenate([v for _, v, _ in series])
    pooled = pooled[np.isfinite(pooled)]
    if len(pooled) == 0:
        axis.text(0.5, 0.5, "n/a", ha="center", transform=axis.transAxes)
        return
    low, high = _compute_frame(pooled)
    edges = np.linspace(low, high, BINS + 1)
    for name, values, colour in series:
        finite = values[np.isfinite(values)]
        axis.hist(
            finite, edges.tolist(), histtype="stepfilled", label=_format_label(name, finite, low, high),
            facecolor=to_rgba(colour, 0.3), edgecolor=colour, linewidth=1.0,
        )  # fmt: skip
    if marked is not None:
        axis.axvline(marked, color=MEAN, linewidth=1.6, label=f"mean PDF {marked:.4g}")
    axis.set_ylim(0, axis.get_ylim()[1] * 1.35)  # room for the legend
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.legend(loc="upper left", frameon=True, framealpha=0.85, edgecolor="none")


def _format_label(name: str, values: Float64Array, low: float, high: float) -> str:
    if len(values) == 0:
        return f"{name}: n/a"
    beyond = int(np.sum((values < low) | (values > high)))
    return f"{name}, median {np.median(values):.4g}" + (f" ({beyond} beyond the frame)" if beyond else "")


def _compute_frame(values: Float64Array) -> tuple[float, float]:
    """The range of the values, less what lies more than five quartile distances outside the middle half."""
    q1, q3 = np.quantile(values, (0.25, 0.75))
    reach = 5 * (q3 - q1)
    low, high = max(float(values.min()), q1 - reach), min(float(values.max()), q3 + reach)
    margin = 0.03 * (high - low) or 0.05 * abs(low) or 0.5
    return low - margin, high + margin


def draw_losses(result: FitResult) -> Figure:
    """Losses against the step: median and 68 % over the replicas, a few replicas as thin lines.

    A replica that has stopped keeps its last losses.
    """
    history = result.history
    figure, axes = make_axes_grid(2, 3, width=11.0, height=2.1, top=0.65, hspace=0.8)
    for axis, (title, losses) in zip(axes, [
        (r"training $\chi^2$ per point", history.training), (r"validation $\chi^2$ per point", history.validation),
        (r"experimental $\chi^2$ per point", history.experimental), ("positivity penalty", history.positivity),
    ], strict=False):  # fmt: skip
        _draw_loss(axis, history.step, losses, result.selected)
        axis.set_title(title)
    axes[3].set_yscale("symlog", linthresh=1e-6)  # most penalties end at zero
    axes[3].set_ylim(bottom=0)
    axes[4].plot(history.step, np.isfinite(history.training).sum(axis=1), color=MEAN)
    axes[4].set_title("replicas still running")
    axes[4].set_ylim(bottom=0)
    _draw_histogram(axes[5], *_select_steps(result))
    axes[5].set_title("replicas by step")
    for axis in axes:
        axis.set_xlabel("step")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=len(labels), borderaxespad=0.2)
    return figure


def _draw_loss(axis: Axes, step: Int64Array, losses: Float64Array, selected: BoolMask) -> None:
    """One loss (H, R) with a logarithmic axis."""
    low, median, high = compute_loss_quantiles(losses[:, selected])
    axis.fill_between(
        step, low, high, color=BAND, alpha=0.55, linewidth=0, label="68 %, stopped ones at their last values"
    )
    held = extend_last_values(losses)
    lines = [np.column_stack([step, held[:, r]]) for r in select_rows(selected, LINES)]
    axis.add_collection(LineCollection(lines, colors=REPLICA, linewidths=0.4, alpha=0.5, label="some replicas"))
    axis.plot(step, median, color=MEAN, linewidth=1.4, label="median")
    if not np.any(median > 0):  # nothing for a logarithmic axis, which refuses that
        return
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_locator(NullLocator())


def _select_steps(result: FitResult) -> tuple[tuple[str, Float64Array, str], tuple[str, Float64Array, str]]:
    """When each selected replica had the weights that are kept, and when it stopped."""
    best = result.replicas.best_step[result.selected].astype(np.float64)
    stop = result.replicas.stop_step[result.selected].astype(np.float64)
    return ("best", best[best >= 0], MEAN), ("stopped", stop, SECOND)
