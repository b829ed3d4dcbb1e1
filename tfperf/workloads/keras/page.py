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
    names = list(dict.fromkeys(name.removeprefix(VALIDATED) for name in history))
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
    ends = [(name, format_number(values[-1])) for name, values in history.items()]
    sections = [
        ("curves", "Losses and metrics", curves + render_table(("after the last epoch", ""), ends)),
        ("choices", "How the steps were taken", render_table(("choice", ""), _list_choices(summary))),
        ("times", "Where the time went", render_table(("stage", "seconds"), _list_seconds(summary))),
    ]
    if lines := summary["not_bit_exact"]:
        what = "".join(map(render_paragraph, lines))
        sections.append(("exactness", "What a resumed run may have otherwise", what))
    return render_page(title, _render_head(summary), sections)


def _render_head(summary: Mapping[str, Any]) -> str:
    rate, best = summary["samples_per_second"], summary["best"]
    lines = [f"{summary['epochs']} epochs, {summary['steps']} steps, {summary['parameters']} parameters"]
    if rate is not None:
        known = f"{summary['batch']} a step" if summary["samples"] else f"if each has {summary['batch']}, as the first"
        lines.append(f"{rate:.4g} samples a second in the steps, {known}")
    if summary["ended_by"]:
        lines.append(f"The training was {summary['ended_by']}.")
    if best is not None:
        (name, value) = list(best.items())[1]
        lines.append(f"Best epoch: {best['epoch']}, {name} {format_number(value)}")
    return "".join(map(render_paragraph, lines))


def _list_choices(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was chosen, and why."""
    choices, spent = summary["choices"], summary["ms_per_step"]
    is_graph = choices["compilation"] == "graph"
    agreed = "all variables are to the bit those" if is_graph else "losses and metrics are within 1e-5 of those"
    loop = f"tfperf's: {agreed} of Keras' train function on the first batches"
    if choices["loop"] == "keras":
        loop = "Keras'"
    ms = ", ".join(f"{value:.3g} ms with {name}" for name, value in choices["ms_per_step"].items())
    if not choices["rewrites"]:
        loop += ", both without TensorFlow's rewriting of arithmetic, which rounds otherwise where steps are in a loop"
    rows = [
        ("loop", f"{loop}: {choices['reason']}" if choices["reason"] else loop),
        ("compiled by", f"{choices['compilation']}; in the trial before, with batches at hand, a step took {ms}"),
        (
            "a step of the training, with what ends of epochs take",
            " ".join(f"{name} {value:.3g} ms" for name, value in spent.items() if value is not None),
        ),
        ("steps a call", str(choices["steps_per_call"])),
    ]
    if choices["batch_hooks"]:
        cost = f"{choices['ms_one_step_a_call']:.3g} ms a step"
        rows.append(("callbacks told of each step", f"{', '.join(choices['batch_hooks'])}: one step a call, {cost}"))
    return rows


def _list_seconds(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Stages of the run; of training what was done at the ends of epochs."""
    inner = {f"train, of it {name}": seconds for name, seconds in summary["seconds_of_epoch_ends"].items()}
    rows = {**summary["seconds"], **inner}
    return [(name, f"{seconds:.2f}") for name, seconds in rows.items()]
