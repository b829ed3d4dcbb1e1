"""report.html of an ensemble: how the losses of its replicas went, which stopped when. R replicas, E epochs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tfperf.arrays import Float64Array
from tfperf.report.numbers import format_figure
from tfperf.report.page import render_image, render_page, render_paragraph, render_table
from tfperf.report.style import (
    LEGEND_ROOM,
    MEAN,
    REPLICA,
    SECOND,
    apply_style,
    escape_math,
    make_axes_grid,
    place_legend,
    to_png,
)
from tfperf.workloads.keras.page import VALIDATED
from tfperf.workloads.keras.replicas.bands_page import render_bands
from tfperf.workloads.keras.replicas.calibration import HeldClasses, HeldNumbers
from tfperf.workloads.keras.replicas.calibration_page import render_calibration
from tfperf.workloads.keras.replicas.forms import LANES, PARTS
from tfperf.workloads.keras.replicas.losses_page import render_losses
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome
from tfperf.workloads.keras.replicas.settings import list_settings, name_status
from tfperf.workloads.keras.replicas.verdict import list_verdicts


def render_report(title: str, found: EnsembleOutcome, values: HeldNumbers | HeldClasses | None) -> str:
    """The page of a run; values: what the replicas predict of validation samples."""
    with apply_style():
        curves = render_image(
            to_png(draw_curves(found.history)),
            CURVES,
        )
    sections = [
        ("curves", "Losses and metrics", curves),
        *([] if values is None else [("bands", "Predictions", render_bands(values))]),
        ("replicas", "Replicas", _render_replicas(found.summary)),
        ("losses", "Best losses of the replicas", render_losses(found, found.summary["monitored"])),
        ("calibration", "Spread and errors", render_calibration(found.summary["calibration"])),
        ("settings", "Settings", render_table(("setting", ""), list_settings(found.summary["settings"]), kind="text")),
        ("choices", "How the steps were taken", render_table(("choice", ""), _list_choices(found.summary))),
        ("times", "Where the time went", render_table(("stage", "seconds"), _list_seconds(found.summary))),
    ]
    return render_page(title, _render_head(found.summary), sections)


CURVES = (
    "After each epoch: median of the replicas still training at that epoch, and the range of the central 68 % of them. "
    "Right of a dotted line fewer than half of all replicas are left, so that a median may move since others stopped."
)


def draw_curves(history: Mapping[str, Float64Array]) -> Figure:
    """One panel for each figure by epoch, of training and validation."""
    names = list(dict.fromkeys(name.removeprefix(VALIDATED) for name in history))
    figure, axes = make_axes_grid(len(names), 1, width=11.0, height=2.2, right=LEGEND_ROOM)
    for axis, name in zip(axes, names, strict=True):
        for key, colour, label in ((name, MEAN, "training"), (f"{VALIDATED}{name}", SECOND, "validation")):
            if key in history:
                epochs, low, middle, high = _list_bands(history[key])
                axis.fill_between(epochs, low, high, color=colour, alpha=0.25, linewidth=0)
                axis.plot(epochs, middle, color=colour, label=label)
        if (last := find_last_of_half(history.get(name, history.get(f"{VALIDATED}{name}")))) is not None:
            axis.axvline(last + 0.5, color=REPLICA, linestyle=":", label="fewer than half left")
        axis.set_ylabel(escape_math(name))
        place_legend(axis)
    axes[-1].set_xlabel("epoch")
    return figure


def find_last_of_half(values: Float64Array | None) -> int | None:
    """The last epoch, from 1, that at least half of the replicas trained in (E, R); None: the last that any did.

    >>> find_last_of_half(np.array([[1.0, 1.0, 1.0], [1.0, 1.0, np.nan], [1.0, np.nan, np.nan]]))
    2
    """
    left = np.zeros(0) if values is None else np.isfinite(values).mean(axis=1)
    many, some = np.flatnonzero(left >= 0.5), np.flatnonzero(left)
    return int(many[-1]) + 1 if len(many) and many[-1] < some[-1] else None


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
    verdicts = [render_paragraph(one.text, "warning" if one.warns else "") for one in list_verdicts(summary)]
    return "".join([*verdicts, *(render_paragraph(line, "soft") for line in lines)])


def _render_replicas(summary: Mapping[str, Any]) -> str:
    count = summary["replicas"]
    rows = [(name_status(name, summary["settings"]), str(number)) for name, number in count["by_status"].items()]
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
        f"{_name_layout(one, choices)}, {_name_program(one)}: {one['ms_of_all']:.3g}" for one in choices["tried"]
    )
    before = " (by an earlier run)" if choices.get("cached") else ""
    reasons = [("not stacked", reason) for reason in summary["not_stacked"]]
    middle, low, high = (spent[name] for name in ("median", "q1", "q3"))
    return [
        *reasons,
        ("form", f"{choices['form']}, {_name_program(choices)}"),
        ("measured before training, ms a step of all replicas", f"{tried}{before}" if tried else "not tried"),
        (
            "in the training, a step of all replicas",
            _list_part_steps(summary) if middle is None else f"{middle:.3g} ms (quartiles {low:.3g} to {high:.3g})",
        ),
        ("steps per compiled call", str(choices["steps_per_call"])),
    ]


def _list_part_steps(summary: Mapping[str, Any]) -> str:
    """Of a run that several commands have trained."""
    parts = [(len(one["replicas"]), one["ms_per_step"]["median"]) for one in summary.get("parts", [])]
    return "; ".join(f"of {count}: {ms:.3g} ms" for count, ms in parts if ms is not None) or "n/a"


def _name_program(one: Mapping[str, Any]) -> str:
    return "XLA" if one["xla"] else "TensorFlow graph"


def _name_layout(one: Mapping[str, Any], choices: Mapping[str, Any]) -> str:
    """Of a form that was tried."""
    if one["form"] == LANES:
        return LANES
    stacks = choices["cpu_stacks"] if choices["products"] == PARTS else choices["threads"]
    return f"{one['form']}, {f'{stacks} stacks side by side' if one['products'] == PARTS else 'one stack'}"


def _list_seconds(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Without the stage of writing, which the page is a part of."""
    return [
        ("all before this page was written" if name == "total" else name, f"{seconds:.2f}")
        for name, seconds in summary["seconds"].items()
        if name != "write"
    ]
