"""report.html: how losses and metrics went, and how the steps were taken."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tfperf.report.numbers import format_number
from tfperf.report.page import render_image, render_page, render_paragraph, render_table
from tfperf.report.style import MEAN, SECOND, apply_style, escape_math, make_axes_grid, to_png

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


def render_report(title: str, summary: Mapping[str, Any], history: dict[str, list[float]]) -> str:
    """The page of a run, from its report.json and the figures of each epoch."""
    with apply_style():
        curves = render_image(to_png(draw_curves(history)), "After each epoch.") if history else ""
    rows = [(key, str(value)) for key, value in summary["choices"].items()]
    ends = [(name, format_number(values[-1])) for name, values in history.items()]
    sections = [
        ("curves", "Losses and metrics", curves + render_table(("after the last epoch", ""), ends)),
        ("choices", "How the steps were taken", render_table(("choice", ""), rows)),
    ]
    head = render_paragraph(f"{summary['steps']} steps, {summary['parameters']} parameters")
    return render_page(title, head, sections)
