"""report.html of an ensemble: how the losses of its replicas went, which stopped when. R replicas, E epochs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tfperf.arrays import Float64Array
from tfperf.report.numbers import format_figure
from tfperf.report.page import render_image, render_page, render_paragraph, render_table
from tfperf.report.style import MEAN, SECOND, apply_style, escape_math, make_axes_grid, to_png
from tfperf.workloads.keras.page import VALIDATED
from tfperf.workloads.keras.replicas.bands_page import render_bands
from tfperf.workloads.keras.replicas.calibration import HeldClasses, HeldNumbers
from tfperf.workloads.keras.replicas.calibration_page import render_calibration
from tfperf.workloads.keras.replicas.losses_page import render_losses
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome


def render_report(title: str, found: EnsembleOutcome, values: HeldNumbers | HeldClasses | None) -> str:
    """The page of a run; values: what the replicas predict of samples that validate."""
    with apply_style():
        curves = render_image(
            to_png(draw_curves(found.history)),
            "After each epoch: median of the replicas that still trained, and the range of the central 68 % of them.",
        )
    sections = [
        ("curves", "Losses and metrics", curves),
        *([] if values is None else [("bands", "Predictions", render_bands(values))]),
        ("replicas", "Replicas", _render_replicas(found.summary)),
        ("losses", "Best losses of the replicas", render_losses(found, found.summary["monitored"])),
        ("calibration", "Spread and errors", render_calibration(found.summary["calibration"])),
        ("choices", "How the steps were taken", render_table(("choice", ""), _list_choices(found.summary))),
        ("times", "Where the time went", render_table(("stage", "seconds"), _list_seconds(found.summary))),
    ]
    return render_page(title, _render_head(found.summary), sections)


def draw_curves(history: Mapping[str, Float64Array]) -> Figure:
    """One panel for each figure by epoch, of training and validation."""
    names = list(dict.fromkeys(name.removeprefix(VALIDATED) for name in history))
    figure, axes = make_axes_grid(len(names), 1, width=11.0, height=2.2)
    for axis, name in zip(axes, names, strict=True):
        for key, colour, label in ((name, MEAN, "training"), (f"{VALIDATED}{name}", SECOND, "validation")):
            if key in history:
                epochs, low, middle, high = _list_bands(history[key])
                axis.fill_between(epochs, low, high, color=colour, alpha=0.25, linewidth=0)
                axis.plot(epochs, middle, color=colour, label=label)
        axis.set_ylabel(escape_math(name))
        axis.legend(loc="upper right")
    axes[-1].set_xlabel("epoch")
    return figure


def _list_bands(values: Float64Array) -> tuple[Float64Array, ...]:
    """Epochs at which any replica trained, and 16, 50 and 84 % of these replicas' values (E, R)."""
    some = np.isfinite(values).any(axis=1)
    rows = np.where(np.isfinite(values[some]), values[some], np.nan)
    bands = np.nanpercentile(rows, [16, 50, 84], axis=1) if some.any() else np.zeros((3, 0))
    return (np.flatnonzero(some) + 1.0, *bands)


def _render_head(summary: Mapping[str, Any]) -> str:
    count, best, epochs = summary["replicas"], summary["best"], summary["epochs"]
    lines = [f"{count['usable']} of {count['total']} replicas, {summary['parameters']} parameters each"]
    if best["median"] is not None:
        least, middle, most = (format_figure(best[name]) for name in ("least", "median", "most"))
        lines.append(f"Best {summary['monitored']}: {middle} in the median, from {least} to {most}.")
        least, most = (f"{epochs[name]:.0f}" for name in ("least", "most"))
        lines.append(f"Trained for {least if least == most else f'{least} to {most}'} epochs.")
    return "".join(map(render_paragraph, lines))


def _render_replicas(summary: Mapping[str, Any]) -> str:
    count = summary["replicas"]
    rows = [(name.replace("_", " "), str(number)) for name, number in count["by_status"].items()]
    table = render_table(("status", "replicas"), rows)
    if count["failed"]:
        broken = ", ".join(map(str, count["failed"]))
        table += render_paragraph(
            f"Replicas {broken} broke: a loss or a weight was not finite. No figure has them; --retry-failed begins "
            "them anew."
        )
    return table


def _list_choices(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    choices, spent = summary["choices"], summary["ms_per_step"]
    tried = "; ".join(
        f"{one['form']} {one['products']}, {'XLA' if one['xla'] else 'graph'}: {one['ms_of_all']:.3g} ms"
        for one in choices["tried"]
    )
    before = " (by an earlier run)" if choices.get("cached") else ""
    reasons = [("not stacked", reason) for reason in summary["not_stacked"]]
    return [
        *reasons,
        ("form", f"{choices['form']}, compiled by {'XLA' if choices['xla'] else 'the graph'}"),
        ("in the trial before, a step of all replicas", f"{tried}{before}" if tried else "not tried"),
        (
            "in the training, a step of all replicas",
            " ".join(f"{name} {ms:.3g} ms" for name, ms in spent.items() if ms is not None),
        ),
        ("steps a call", str(choices["steps_per_call"])),
    ]


def _list_seconds(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, f"{seconds:.2f}") for name, seconds in summary["seconds"].items()]
