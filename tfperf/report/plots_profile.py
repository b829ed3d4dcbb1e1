"""Steps of a profile as a picture: what ran when, and how long each step took."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tfperf.report.style import REPLICA, escape_math, make_axes_grid
from tfperf.trace.attribution import Attribution
from tfperf.trace.intervals import merge_intervals
from tfperf.trace.phases import PHASES
from tfperf.trace.timeline import Timeline

COLOURS = dict(zip(
    PHASES,
    ("#6f9fd8", "#0b3d75", "#8a5fb0", "#d1a10c", "#4f8a3d", "#d1670c", "#3aa6a0", "#c0504d", "#b9bec6"), strict=True,
))  # fmt: skip
MOST_STEPS, PIXELS, ROW = 3, 3000, 0.22  # steps; what can be told apart in their time; inches of a thread
MOST_LANES = 24


def draw_timeline(attribution: Attribution) -> Figure:
    """Above: the operations of a few steps in the middle of a call, by thread or stream. Below: all steps' lengths."""
    first, last = select_steps(attribution.timeline)
    lanes = _select_busiest(attribution.timeline, first, last)
    figure, axes = make_axes_grid(2, 1, width=11.0, height=max(1.3, ROW * len(lanes)), left=2.2, hspace=0.7, top=0.55)
    _draw_operations(axes[0], attribution.timeline, lanes, first, last)
    _draw_lengths(axes[1], attribution)
    return figure


def select_steps(timeline: Timeline) -> tuple[int, int]:
    """The first and last of the steps to be drawn: of the middle call, and not more than can be told apart."""
    steps = timeline.steps
    mine = np.flatnonzero(steps.call == steps.call[len(steps) // 2])
    some = mine[len(mine) // 2 :][:MOST_STEPS] if len(mine) > MOST_STEPS else mine[:MOST_STEPS]
    if len(mine) == 1:  # a call for each step: its neighbours show what lies between
        middle = len(steps) // 2
        some = np.arange(max(0, middle - 1), min(len(steps), middle + MOST_STEPS - 1))
    return int(some[0]), int(some[-1])


def _select_busiest(timeline: Timeline, first: int, last: int) -> list[int]:
    """Lanes in which most time is spent, in order."""
    begin, end = timeline.steps.begin[first], timeline.steps.end[last]
    inside = (timeline.end > begin) & (timeline.begin < end)
    time = np.bincount(timeline.lane[inside], (timeline.end - timeline.begin)[inside], len(timeline.lanes))
    best = np.argsort(-time, kind="stable")[:MOST_LANES]
    return sorted(int(lane) for lane in best if time[lane] > 0)


def _draw_operations(axis: Axes, timeline: Timeline, lanes: list[int], first: int, last: int) -> None:
    begin, end = int(timeline.steps.begin[first]), int(timeline.steps.end[last])
    inside = np.flatnonzero((timeline.end > begin) & (timeline.begin < end))
    finest = (end - begin) // PIXELS  # what lies closer is drawn as one
    for row, lane in enumerate(lanes):
        for number, phase in enumerate(PHASES):
            mine = inside[(timeline.lane[inside] == lane) & (timeline.phase[inside] == number)]
            bars = merge_intervals(timeline.begin[mine], timeline.end[mine] + finest)
            if len(bars):
                left, width = (bars.begin - begin) / 1e6, (bars.end - bars.begin - finest / 2) / 1e6
                axis.broken_barh(
                    list(zip(left, width, strict=True)), (row - 0.4, 0.8), color=COLOURS[phase], linewidth=0
                )
    for step in range(first, last + 1):
        axis.axvline((timeline.steps.begin[step] - begin) / 1e6, color="#1c2430", linewidth=0.7)
    axis.set_xlim(0, (end - begin) / 1e6)
    axis.set_ylim(len(lanes) - 0.4, -0.6)
    axis.set_yticks(range(len(lanes)), [escape_math(_format_lane(*timeline.lanes[lane])) for lane in lanes])
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("ms")
    axis.set_title(f"steps {first + 1} to {last + 1}; a line where each begins", loc="left", pad=18)
    used = [phase for i, phase in enumerate(PHASES) if (timeline.phase[inside] == i).any()]
    axis.legend(
        handles=[Patch(color=COLOURS[phase], label=phase) for phase in used], ncols=len(used) or 1,
        loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2,
    )  # fmt: skip


def _format_lane(device: str, line: str) -> str:
    """A short name of a thread or stream."""
    return f"{device} {shorten_lane(line)[:24]}"


def shorten_lane(line: str) -> str:
    """A thread's or stream's name with the end of its number alone.

    >>> shorten_lane("tf_Compute/-5684095116145413416")
    'tf_Compute/3416'
    """
    name, _, number = line.partition("/")
    return f"{name}/{number[-4:]}" if number else name


def _draw_lengths(axis: Axes, attribution: Attribution) -> None:
    """Each step's length, stacked by phase of the busiest device, and the gap behind each call."""
    device = max(attribution.any, key=lambda d: float(attribution.any[d].sum()))
    middles = (attribution.timeline.steps.begin - attribution.timeline.steps.begin[0]) / 1e6
    axis.plot(middles, attribution.steps, ".", markersize=2.5, color="#1c2430", label="step")
    busy, label = attribution.any[device], escape_math(f"{device} busy")
    axis.plot(middles, busy, ".", markersize=2.5, color=COLOURS["forward"], label=label)
    if len(attribution.gaps):
        ends = (attribution.timeline.steps.spans[1][:-1] - attribution.timeline.steps.begin[0]) / 1e6
        axis.plot(ends, attribution.gaps, "x", markersize=4, color=REPLICA, label="gap behind a call")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("ms since the first step")
    axis.set_ylabel("ms")
    axis.legend(loc="lower right", ncols=3, bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
