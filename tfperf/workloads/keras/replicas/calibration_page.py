"""The part of a page that sets an ensemble's spread beside its errors."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from tfperf.report.numbers import format_figure
from tfperf.report.page import render_image, render_paragraph, render_table
from tfperf.report.style import MEAN, SECOND, apply_style, make_axes_grid, to_png


def render_calibration(found: Mapping[str, Any]) -> str:
    """Figures, a plot, and what they do not say."""
    if "n/a" in found:
        return render_paragraph(f"n/a: {found['n/a']}")
    draw, list_rows, words = {
        "numbers": (draw_numbers, _list_numbers, NUMBERS), "classes": (draw_classes, _list_classes, CLASSES),
    }[found["kind"]]  # fmt: skip
    with apply_style():
        image = render_image(to_png(draw(found)), words)
    return image + render_table((f"of {found['samples']} values that validate", ""), list_rows(found))


NUMBERS = (
    "Left: the share of targets inside central intervals of the replicas; on the line where the intervals are right. "
    "They hold what replicas differ in; noise of the targets is not in them, so that fewer targets than the line says "
    "lie inside where there is noise. Right: errors of the mean against the spread of the replicas, in groups of "
    "growing spread."
)
CLASSES = (
    "How often the class with the largest mean probability is right, at each such probability; on the line where the "
    "probabilities are right."
)


def draw_numbers(found: Mapping[str, Any]) -> Figure:
    """Coverage, and errors against spreads."""
    figure, axes = make_axes_grid(1, 2, width=11.0, height=3.6)
    left, right = axes
    left.plot([0, 1], [0, 1], color=SECOND, linestyle="--")
    left.plot(found["levels"], found["coverage"], color=MEAN, marker="o")
    left.set_xlabel("central interval")
    left.set_ylabel("targets inside")
    most = max(*found["spreads"], *found["errors"])
    right.plot([0, most], [0, most], color=SECOND, linestyle="--")
    right.plot(found["spreads"], found["errors"], color=MEAN, marker="o")
    right.set_xlabel("spread of the replicas (rms)")
    right.set_ylabel("error of their mean (rms)")
    return figure


def draw_classes(found: Mapping[str, Any]) -> Figure:
    """The reliability diagram."""
    figure, axes = make_axes_grid(1, 1, width=5.5, height=3.6)
    (axis,) = axes
    axis.plot([0, 1], [0, 1], color=SECOND, linestyle="--")
    axis.plot(found["confidence"], found["accuracy"], color=MEAN, marker="o")
    axis.set_xlabel("mean probability of the class")
    axis.set_ylabel("share that is right")
    return figure


def _list_numbers(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    inside = dict(zip(found["levels"], found["coverage"], strict=True))
    return [
        ("error of the mean (rms)", format_figure(found["rms_error"])),
        ("error of one replica (rms), in the median", format_figure(found["rms_error_of_one"])),
        ("spread of the replicas (rms)", format_figure(found["rms_spread"])),
        ("targets inside the central 68 %", f"{100 * inside[0.68]:.1f} %"),
    ]


def _list_classes(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    def describe(entropy: Mapping[str, float | None]) -> str:
        return "n/a" if entropy["median"] is None else format_figure(entropy["median"])

    return [
        ("accuracy of the mean", f"{100 * found['accuracy_of_mean']:.1f} %"),
        ("accuracy of one replica, in the median", f"{100 * found['accuracy_of_one']:.1f} %"),
        ("expected calibration error", f"{100 * found['calibration_error']:.1f} %"),
        ("entropy of the mean where it is right, in the median", f"{describe(found['entropy_right'])} nats"),
        ("entropy of the mean where it is wrong, in the median", f"{describe(found['entropy_wrong'])} nats"),
    ]
