"""How the losses of a translation fell."""

import numpy as np
from matplotlib.figure import Figure

from tfperf.arrays import Float64Array
from tfperf.report.style import BAND, MEAN, SECOND, THIRD, make_axes_grid
from tfperf.workloads.translate.results import LossHistory

POINTS = 200  # that the smoothed line has at most
FULL = 5000  # steps that are drawn one by one at most


def draw_losses(history: LossHistory) -> Figure:
    """Loss per label of each batch, its mean over stretches of steps, and the validation's, the lowest marked."""
    figure, (axis,) = make_axes_grid(1, 1, width=11.0, height=3.2)
    steps = np.arange(1, len(history.loss) + 1)
    every = -(-len(steps) // FULL)
    axis.plot(steps[::every], history.loss[::every], color=BAND, linewidth=0.6, alpha=0.8, label="training, a batch")
    axis.plot(*average_stretches(history.loss), color=MEAN, linewidth=1.4, label="training, mean of neighbouring steps")
    axis.plot(
        history.validation_step, history.validation_loss, color=SECOND, marker="o", markersize=2.5, label="validation"
    )
    if history.best is not None:
        best = history.validation_step[history.best], history.validation_loss[history.best]
        axis.plot(*best, "o", color=THIRD, label=f"lowest, {best[1]:.3f} after step {best[0]}")
    axis.set_xlabel("step")
    axis.set_ylabel("loss per label [nat]")
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper right")
    return figure


def average_stretches(losses: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Middle steps and means of at most POINTS stretches of equal length; the last may be shorter."""
    length = max(1, -(-len(losses) // POINTS))
    starts = np.arange(0, len(losses), length)
    counts = np.diff(np.append(starts, len(losses)))
    return starts + (counts + 1) / 2, np.add.reduceat(losses, starts) / counts
