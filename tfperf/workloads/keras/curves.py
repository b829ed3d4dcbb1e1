"""How a model's losses and metrics went."""

import numpy as np
from matplotlib.figure import Figure

from tfperf.report.style import MEAN, SECOND, escape_math, make_axes_grid

VALIDATED = "val_"


def draw_curves(history: dict[str, list[float]]) -> Figure:
    """One panel for each figure by epoch, of training and validation."""
    names = [name for name in history if not name.startswith(VALIDATED)]
    figure, axes = make_axes_grid(len(names), 1, width=11.0, height=2.2)
    for axis, name in zip(axes, names, strict=True):
        for key, colour, label in ((name, MEAN, "training"), (f"{VALIDATED}{name}", SECOND, "validation")):
            if key in history:
                epochs = np.arange(1, len(history[key]) + 1)
                axis.plot(epochs, history[key], color=colour, marker="o", markersize=2.5, label=label)
        axis.set_ylabel(escape_math(name))
        axis.legend(loc="upper right")
    axes[-1].set_xlabel("epoch")
    return figure
