"""The part of a page that sets an ensemble's spread beside its errors."""

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from tfperf.report.numbers import format_figure
from tfperf.report.page import render_image, render_paragraph, render_table
from tfperf.report.style import MEAN, REPLICA, SECOND, apply_style, make_axes_grid, to_png


def render_calibration(found: Mapping[str, Any]) -> str:
    """Figures, a plot, and what they do not say."""
    if "n/a" in found:
        return render_paragraph(f"n/a: {found['n/a']}")
    draw, list_rows, words = {
        "numbers": (draw_numbers, _list_numbers, NUMBERS), "classes": (draw_classes, _list_classes, CLASSES),
    }[found["kind"]]  # fmt: skip
    with apply_style():
        image = render_image(to_png(draw(found)), words)
    table = render_table((f"of {found['samples']} validation targets", ""), list_rows(found))
    return image + table + (render_paragraph(UNWEIGHTED, "soft") if found["unweighted"] else "")


UNWEIGHTED = (
    "Samples of weight zero are left out; all others count alike in these figures, though they have sample weights."
)


NUMBERS = (
    "Left: the share of targets inside central intervals of the replicas. Dashed: the share to be expected of so many "
    "replicas if targets scatter as replicas do (normal draws); dotted: the share that an interval is named by, which "
    "that of few replicas does not reach, since it is too narrow. The intervals hold what replicas differ in; noise of "
    "the targets is not in them, so that fewer targets lie inside where there is noise. Right: errors of the mean "
    "against the spread of the replicas, in groups of growing spread; dashed: as large as each other."
)
CLASSES = (
    "How often the class with the largest mean probability is right, at each such probability; on the line where the "
    "probabilities are right."
)


def draw_numbers(found: Mapping[str, Any]) -> Figure:
    """Coverage, and errors against spreads."""
    figure, axes = make_axes_grid(1, 2, width=11.0, height=3.6)
    left, right = axes
    left.plot([0, 1], [0, 1], color=REPLICA, linestyle=":", label="as named")
    expected = f"expected of {found['replicas']} replicas"
    left.plot(found["levels"], found["expected_coverage"], color=SECOND, linestyle="--", label=expected)
    left.plot(found["levels"], found["coverage"], color=MEAN, marker="o", label="found")
    left.legend(loc="best")
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
    inside = dict(zip(found["levels"], zip(found["coverage"], found["expected_coverage"], strict=True), strict=True))
    few = f"expected of {found['replicas']} replicas that scatter as the targets do"
    return [
        ("error of the mean (rms)", format_figure(found["rms_error"])),
        ("error of one replica (rms), in the median", format_figure(found["rms_error_of_one"])),
        ("error of a constant, the mean of these targets (rms)", format_figure(found["rms_error_of_constant"])),
        ("spread of the replicas (rms)", format_figure(found["rms_spread"])),
        *(
            row
            for level in (0.68, 0.95)
            for row in (
                (f"targets inside the central {100 * level:.0f} %", f"{100 * inside[level][0]:.1f} %"),
                (few, f"{100 * inside[level][1]:.1f} %"),
            )
        ),
    ]


def _list_classes(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    def describe(entropy: Mapping[str, float | None]) -> str:
        return "n/a" if entropy["median"] is None else f"{entropy['median']:.3f} nats"

    return [
        ("accuracy of the mean", f"{100 * found['accuracy_of_mean']:.1f} %"),
        ("accuracy of one replica, in the median", f"{100 * found['accuracy_of_one']:.1f} %"),
        ("accuracy of the most frequent class", f"{100 * found['share_of_most_frequent']:.1f} %"),
        ("expected calibration error", f"{100 * found['calibration_error']:.1f} %"),
        ("entropy of the mean where it is right, in the median", describe(found["entropy_right"])),
        ("entropy of the mean where it is wrong, in the median", describe(found["entropy_wrong"])),
    ]
