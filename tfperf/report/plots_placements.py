"""A sweep over placements in pictures."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfperf.report.style import BAND, FAILED, MEAN, REPLICA, SECOND, THIRD, escape_math, make_axes_grid
from tfperf.report.time_tables import COURSE
from tfperf.report.wording import format_placement
from tfperf.results.placements import PlacementRow

COLOURS = (MEAN, FAILED, THIRD, SECOND, BAND, REPLICA)
COLUMNS, LINE = 5, 0.17  # of the legend above the speeds; inches of its lines
PARTS = {
    "chain": MEAN, "computation": SECOND, "merge": FAILED, "update": THIRD, "transfer": REPLICA, "input": "#7f5f3f",
    "queue": "#a0a0a0", "runtime": BAND, "host": "#d8d8d8",
}  # fmt: skip


def draw_placements(rows: Sequence[PlacementRow]) -> Figure:
    """Left: words per second over devices, with intervals. Right: what the end of a step waits for."""
    traced = [row for row in rows if row.phases]
    entries = max(len({_make_line_key(row) for row in rows}), len(PARTS) + 1 if traced else 0)
    top = 0.3 + LINE * -(-entries // COLUMNS)
    figure, (speed, parts) = make_axes_grid(
        1,
        2,
        width=11.0,
        height=max(2.6, 0.2 * len(traced)),
        wspace=1.9,
        left=0.75,
        top=top,
    )
    _draw_speeds(speed, rows)
    _draw_parts(parts, traced)
    return figure


def _draw_speeds(axes: Axes, rows: Sequence[PlacementRow]) -> None:
    timed = [row for row in rows if row.words_per_second is not None]
    names = list(dict.fromkeys(map(_make_line_key, timed)))
    for name, colour in zip(names, np.resize(COLOURS, len(names)), strict=True):
        mine = sorted((row for row in timed if _make_line_key(row) == name), key=lambda row: row.devices or 0)
        speeds = [row.words_per_second for row in mine if row.words_per_second is not None]
        values = [speed.value for speed in speeds]
        down = [speed.value - (speed.value if speed.low is None else speed.low) for speed in speeds]
        up = [(speed.value if speed.high is None else speed.high) - speed.value for speed in speeds]
        where = [row.devices or 0 for row in mine]
        axes.errorbar(
            where, values, yerr=[down, up], color=colour, fmt=_get_style(mine[0]), ms=4, capsize=3,
            label=escape_math(format_placement(mine[0])),
        )  # fmt: skip
    axes.set_xlabel("devices")
    axes.set_ylabel("words per second")
    axes.set_ylim(bottom=0)
    axes.set_xticks(sorted({row.devices for row in rows if row.devices is not None}))
    _add_legend(axes, COLUMNS)


def _make_line_key(row: PlacementRow) -> tuple[str, str]:
    """Rows of one line did like work; of those that did not each is alone."""
    return row.placement, row.group


def _get_style(row: PlacementRow) -> str:
    return {"strong": "o-", "weak": "s--"}.get(row.scaling or "", "^")


def _draw_parts(axes: Axes, rows: Sequence[PlacementRow]) -> None:
    left = np.zeros(len(rows))
    places = np.arange(len(rows))[::-1]
    for name, colour in PARTS.items():
        widths = np.array([row.phases["course"][name] for row in rows])
        axes.barh(places, widths, left=left, color=colour, label=COURSE[name], height=0.7)
        left = left + widths
    steps = [row.phases["timed_ms"] for row in rows]
    axes.plot(steps, places, "|", color="black", ms=9, label="timed step")
    axes.set_yticks(places, [escape_math(f"{format_placement(row)}, {row.devices}") for row in rows], fontsize=7)
    axes.set_xlabel("ms of a traced step")
    _add_legend(axes, COLUMNS)


def _add_legend(axes: Axes, columns: int) -> None:
    """Above the frame: inside it would hide points; none where nothing was drawn."""
    if not axes.get_legend_handles_labels()[0]:
        return
    axes.legend(
        fontsize=7, ncols=columns, loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, borderpad=0.2,
        columnspacing=1.2, handlelength=1.4,
    )  # fmt: skip
