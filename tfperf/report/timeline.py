"""The timeline of a profile's page: what its script draws, as data that nothing executes."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import Indices, Times
from tfperf.console.words import escape_controls
from tfperf.report.page import escape_text, render_paragraph
from tfperf.report.plots_profile import COLOURS, MOST_LANES, shorten_lane
from tfperf.report.profile_account import WORDS
from tfperf.trace.attribution import Attribution
from tfperf.trace.claims import CAUSES, Cause
from tfperf.trace.host_events import is_dataset_thread
from tfperf.trace.host_rows import HostRow
from tfperf.trace.intervals import merge_intervals
from tfperf.trace.timeline import Timeline

SCRIPT = Path(__file__).parent / "timeline.js"
MOST = 20_000  # events of all rows
MOST_STEPS, MOST_OF_ROW = 1000, 600  # of the row of steps; of a row of the host
BINS = 1500  # parts of the whole time, behind the operations: what is shorter than one is not told apart
VIEW = 50  # steps up to which the whole is shown at first; else as many
NAME = 160  # characters; 20 000 names of that length are what makes a page large
CAUSE_COLOURS: dict[Cause, str] = {
    "garbage": "#7a1f5c", "compilation": "#a3271f", "callback": "#c0504d", "validation": "#3aa6a0", "work": "#7fb069",
    "eager_work": "#4f8a3d", "method": "#9c8b3a", "py_function": "#d1670c", "conversion": "#8a5fb0", "input": "#d1a10c",
    "epoch": "#6b5b3e", "dispatch": "#6f9fd8", "between": "#c5d8ee", "eager": "#b06fd8", "python": "#e08e45",
    "unexplained": "#b9bec6",
}  # fmt: skip
# what is drawn of the host: an event, or how busy it is in a part of the time of which not all events are drawn
SHARES = (
    ("busy up to 25 %", "#d3dfe9"),
    ("25 to 50 %", "#adc3d4"),
    ("50 to 75 %", "#86a4bb"),
    ("over 75 %", "#5d7f99"),
)
HOST = ("host", "#5d7f99")
KINDS = (("step", "#33475f"), HOST, *SHARES)


@dataclass
class TimelineRows:
    """Rows while they are made; events are begin, length, name, kind; times in ns since `zero`, others are numbers."""

    zero: int
    names: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    def add(
        self, group: str, title: str, events: Iterable[tuple[int, int, str, int]], until: int | None = None
    ) -> None:  # fmt: skip
        """A row of events (begin, end, name, kind); until: when what is shown of it ends, None: all of it is shown."""
        flat: list[int] = []
        for begin, end, name, kind in events:
            number = self.names.setdefault(_shorten_name(name), len(self.names))
            flat += (begin - self.zero, end - begin, number, kind)
        self.count += len(flat) // 4
        row = {"group": escape_controls(group), "title": escape_controls(title), "events": flat}
        self.rows.append(row | {"until": None if until is None else until - self.zero})


def _shorten_name(name: str) -> str:
    """A name without what commands terminals, of one that is too long the end, where an operation's own name is."""
    return escape_controls(name if len(name) <= NAME else f"…{name[-NAME:]}")


def render_timeline(attribution: Attribution, picture: str) -> str:
    """The section of the page; picture: HTML that stands for it where scripts do not run."""
    data, said = make_timeline_data(attribution)
    keys = "+ and - zoom, left and right move, 0 shows all, up and down choose a row, comma and full stop an event."
    label = f"Timeline of the recorded steps. {keys}"
    buttons = "".join(
        f'<button type="button" id="timeline-{name}">{text}</button>'
        for name, text in (("in", "+"), ("out", "−"), ("left", "◀"), ("right", "▶"), ("all", "all"), ("few", "3 steps"))
    )
    help_text = f"Wheel: zoom, after a click into the picture or with Ctrl. Drag: move. Keys: {keys}"
    return (
        f'{render_paragraph(said, "soft")}\n<div class="timeline" id="timeline-live" hidden>\n'
        f'<div>{buttons} <span class="soft">{escape_text(help_text)}</span></div>\n'
        f'<canvas id="timeline-canvas" tabindex="0" role="application" aria-label="{escape_text(label)}"></canvas>\n'
        '<div id="timeline-tip" class="long" role="status" hidden></div>\n'
        '<div class="soft" id="timeline-legend"></div>\n</div>\n'
        f'<details id="timeline-still" open><summary>A picture of some steps</summary>{picture}</details>\n'
        f'<script type="application/json" id="timeline-data">{encode_inert(data)}</script>'
    )


@cache
def read_script() -> str:
    """The script that draws it, as it stands in the page; its hash is in the page's policy."""
    return SCRIPT.read_text(encoding="utf-8")


def encode_inert(data: Any) -> str:
    """JSON that no text in it can end the element of, or begin another in: `<`, `>` and `&` are written as escapes.

    >>> encode_inert(["</script>"])
    '["\\\\u003c/script\\\\u003e"]'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def make_timeline_data(attribution: Attribution) -> tuple[dict[str, Any], str]:
    """What the script draws, times in ns since the first step, and which part of the profile that is, in words.

    At most MOST events: all steps and rows of the host as far as they go, then the causes and operations of as many
    whole steps as there is room for, one at least.
    """
    timeline = attribution.timeline
    begin, end = int(timeline.steps.begin[0]), _find_end(timeline)
    made = TimelineRows(begin)
    causes = [(WORDS[one], CAUSE_COLOURS[one]) for one in CAUSES]
    _add_steps(made, timeline)
    host = [_list_host(row, begin, end) for row in timeline.host]
    left = MOST - made.count - BINS - sum(map(len, host))
    steps = _count_steps(attribution, left)
    until = int(timeline.steps.begin[steps]) if steps < len(timeline.steps) else end
    exact = until if _count_causes(attribution, until) <= left // 2 or steps > 1 else begin
    _add_causes(made, attribution, exact, end)
    for row, events in zip(timeline.host, host, strict=True):
        made.add(row.group, row.title, events)
    lanes = _add_operations(made, timeline, until, MOST - made.count)
    view = int(timeline.steps.begin[VIEW]) - begin if len(timeline.steps) > VIEW else end - begin
    data = {
        "end": end - begin, "view": view, "kinds": [*KINDS, *causes, *COLOURS.items()], "names": list(made.names),
        "rows": made.rows,
        "steps": (timeline.steps.begin - begin).tolist()[: MOST_STEPS + 1],
        "groups": [["host", KINDS.index(SHARES[0])], ["causes", len(KINDS)], ["operations", len(KINDS) + len(CAUSES)]],
    }  # fmt: skip
    return data, _describe_part(timeline, steps, exact, *lanes)


def _describe_part(timeline: Timeline, steps: int, exact: int, left_out: int, lanes_left_out: int) -> str:
    """Which part of the profile the timeline has; exact: until when causes are told moment by moment, ns."""
    every, end = len(timeline.steps), _find_end(timeline)
    ms = (end - int(timeline.steps.begin[0])) / 1e6
    parts = [f"Operations of {f'all {every}' if steps == every else f'the first {steps} of {every}'} steps"]
    if left_out:
        parts.append(f"but for the {left_out} shortest of them")
    if lanes_left_out:
        parts.append(f"of the {MOST_LANES} busiest threads and streams ({lanes_left_out} more are in trace.json.gz)")
    text = [f"{', '.join(parts)}."]
    if exact < end:
        which = "Behind these steps causes" if exact > timeline.steps.begin[0] else "Causes"
        text.append(f"{which} are those that have most of each {ms / BINS:.2g} ms.")
    if any(len(row) > MOST_OF_ROW for row in timeline.host):
        text.append(f"Rows with many events say how busy the host is in each {ms / MOST_OF_ROW:.2g} ms.")
    return " ".join([*text, "trace.json.gz, for Perfetto, has more."])


def _find_end(timeline: Timeline) -> int:
    return int(max(timeline.steps.call_end[-1], timeline.steps.end.max()))


def _add_steps(made: TimelineRows, timeline: Timeline) -> None:
    steps = timeline.steps
    times = zip(steps.begin[:MOST_STEPS].tolist(), steps.end[:MOST_STEPS].tolist(), strict=True)
    until = int(steps.begin[MOST_STEPS]) if len(steps) > MOST_STEPS else None
    made.add("", "steps", ((begin, end, str(i), 0) for i, (begin, end) in enumerate(times, 1)), until)


def _count_steps(attribution: Attribution, room: int) -> int:
    """How many steps' causes and operations there is room for, one at least; a pipeline's own threads not counted."""
    timeline = attribution.timeline
    edges = np.append(timeline.steps.begin[1:], _find_end(timeline) + 1)
    own = [i for i, (_, line) in enumerate(timeline.lanes) if not is_dataset_thread(line)]
    room = room if len(own) == len(timeline.lanes) else room // 2  # the rest is for the pipeline's
    operations = timeline.begin[np.isin(timeline.lane, own)]
    begins = np.sort(np.concatenate([operations, *(one.begin for one in attribution.account.moments.values())]))
    return max(1, int((np.searchsorted(begins, edges) <= room).sum()))


def _count_causes(attribution: Attribution, until: int) -> int:
    return sum(int((one.begin < until).sum()) for one in attribution.account.moments.values())


def _add_causes(made: TimelineRows, attribution: Attribution, until: int, end: int) -> None:
    """Each moment's cause up to a time; behind it the one that has most of each of equal parts of the time."""
    moments = attribution.account.moments
    events = [
        (begin, stop, CAUSES.index(cause))
        for cause, mine in moments.items()
        for begin, stop in zip(*(part.tolist() for part in _cut(mine.begin, mine.end, until)), strict=True)
    ]
    last = max((int(mine.end[-1]) for mine in moments.values() if len(mine)), default=until)
    if until < last:
        count = max(1, BINS * (last - until) // (end - made.zero))
        cuts = np.unique(np.linspace(until, last, count + 1).astype(np.int64))
        sums = np.array([moments[cause].sum_lengths(cuts) if cause in moments else 0 * cuts[1:] for cause in CAUSES])
        most = sums.argmax(axis=0)
        first = np.flatnonzero(np.append(True, most[1:] != most[:-1]))
        stops = cuts[np.append(first[1:], len(most))]
        events += zip(cuts[first].tolist(), stops.tolist(), most[first].tolist(), strict=True)
    named = ((b, e, WORDS[CAUSES[cause]], len(KINDS) + cause) for b, e, cause in sorted(events))
    made.add("", "causes", named, last if last < end else None)


def _cut(begin: Times, end: Times, until: int) -> tuple[Times, Times]:
    some = begin < until
    return begin[some], np.minimum(end[some], until)


def _list_host(row: HostRow, begin: int, end: int) -> list[tuple[int, int, str, int]]:
    """A row's events; of many, how busy it is in each of equal parts of the time, neighbours that are alike as one."""
    if len(row) <= MOST_OF_ROW:
        columns = (values.tolist() for values in (row.begin, row.end, row.name))
        return [(b, e, row.names[n], KINDS.index(HOST)) for b, e, n in zip(*columns, strict=True)]
    cuts = np.unique(np.linspace(begin, end, MOST_OF_ROW + 1).astype(np.int64))
    shares = merge_intervals(row.begin, row.end).sum_lengths(cuts) / np.diff(cuts)
    level = np.where(shares > 0, np.minimum(shares * len(SHARES), len(SHARES) - 1).astype(int), -1)
    first = np.flatnonzero(np.append(True, level[1:] != level[:-1]))
    columns = (values.tolist() for values in (cuts[first], cuts[np.append(first[1:], len(level))], level[first]))
    return [(b, e, row.title, KINDS.index(SHARES[one])) for b, e, one in zip(*columns, strict=True) if one >= 0]


def _add_operations(made: TimelineRows, timeline: Timeline, until: int, room: int) -> tuple[int, int]:
    """The operations up to a time, by thread or stream; returns how many and how many lanes there is no room for."""
    inside = np.flatnonzero((timeline.begin < until) & (timeline.end > made.zero))
    lengths = timeline.end - timeline.begin
    time = np.bincount(timeline.lane[inside], lengths[inside], len(timeline.lanes))
    busiest = np.argsort(-time, kind="stable")[:MOST_LANES]
    mine = inside[np.isin(timeline.lane[inside], busiest)]
    longest = np.sort(mine[np.argsort(-lengths[mine], kind="stable")[:room]])
    last = until if until < _find_end(timeline) else None
    for lane in sorted(busiest.tolist()):
        rows = longest[timeline.lane[longest] == lane]
        if len(rows):
            device, line = timeline.lanes[lane]
            made.add(device, shorten_lane(line), _list_operations(timeline, rows), last)
    return len(mine) - len(longest), int((time > 0).sum() - (time[busiest] > 0).sum())


def _list_operations(timeline: Timeline, rows: Indices) -> Iterator[tuple[int, int, str, int]]:
    columns = (getattr(timeline, key)[rows].tolist() for key in ("begin", "end", "name", "phase"))
    for begin, end, name, phase in zip(*columns, strict=True):
        yield begin, end, timeline.names[name], len(KINDS) + len(CAUSES) + phase
