"""A profile's operations, steps, causes and host in Chrome's trace format, for Perfetto and chrome://tracing."""

from collections.abc import Iterator, Mapping
from typing import Any

from tfperf.report.profile_account import WORDS
from tfperf.trace.claims import Cause
from tfperf.trace.intervals import Intervals
from tfperf.trace.phases import PHASES
from tfperf.trace.timeline import Timeline

MOST_EVENTS = 200_000  # of each sort; the viewers get slow beyond
Event = dict[str, Any]


def to_chrome_trace(timeline: Timeline, moments: Mapping[Cause, Intervals]) -> dict[str, Any]:
    """The operations, steps and rows of the host in the Trace Event Format, times in us.

    The first MOST_EVENTS of each. moments: when each cause of the account has its time, which is a row, too.
    """
    devices = sorted({device for device, _ in timeline.lanes})
    groups = list(dict.fromkeys(row.group for row in timeline.host))
    processes = [*devices, "steps", "causes", *groups]
    events = [_make_name("process_name", number, 0, name) for number, name in enumerate(processes)]
    events += [
        _make_name("thread_name", len(devices) + number, 0, name) for number, name in enumerate(("steps", "causes"))
    ]
    for number, (device, line) in enumerate(timeline.lanes):
        events.append(_make_name("thread_name", devices.index(device), number, line))
    for number, row in enumerate(timeline.host):
        events.append(_make_name("thread_name", len(devices) + 2 + groups.index(row.group), number, row.title))
    events += _list_steps(timeline, len(devices))
    events += _list_causes(timeline, moments, len(devices) + 1)
    events += _list_host(timeline, {group: len(devices) + 2 + number for number, group in enumerate(groups)})
    events += _list_operations(timeline, devices)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _make_name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _get_zero(timeline: Timeline) -> int:
    """When the first step begins, which times are since (ns)."""
    return int(timeline.steps.begin[0])


def _make_event(zero: int, name: str, process: int, thread: int, begin: int, end: int) -> Event:
    return {
        "ph": "X", "name": name, "pid": process, "tid": thread, "ts": (begin - zero) / 1e3, "dur": (end - begin) / 1e3,
    }  # fmt: skip


def _list_steps(timeline: Timeline, process: int) -> Iterator[Event]:
    zero = _get_zero(timeline)
    times = zip(timeline.steps.begin.tolist(), timeline.steps.end.tolist(), strict=True)
    for number, (begin, end) in enumerate(times):
        yield _make_event(zero, f"step {number + 1}", process, 0, begin, end)


def _list_causes(timeline: Timeline, moments: Mapping[Cause, Intervals], process: int) -> Iterator[Event]:
    zero = _get_zero(timeline)
    for cause, mine in moments.items():
        for begin, end in zip(mine.begin[:MOST_EVENTS].tolist(), mine.end[:MOST_EVENTS].tolist(), strict=True):
            yield _make_event(zero, WORDS[cause], process, 0, begin, end)


def _list_host(timeline: Timeline, processes: Mapping[str, int]) -> Iterator[Event]:
    zero = _get_zero(timeline)
    for number, row in enumerate(timeline.host):
        columns = (getattr(row, key)[:MOST_EVENTS].tolist() for key in ("name", "begin", "end"))
        for name, begin, end in zip(*columns, strict=True):
            yield _make_event(zero, row.names[name], processes[row.group], number, begin, end)


def _list_operations(timeline: Timeline, devices: list[str]) -> Iterator[Event]:
    zero, processes = _get_zero(timeline), [devices.index(device) for device, _ in timeline.lanes]
    columns = (getattr(timeline, key)[:MOST_EVENTS].tolist() for key in ("name", "lane", "begin", "end", "phase"))
    for name, lane, begin, end, phase in zip(*columns, strict=True):
        event = _make_event(zero, timeline.names[name], processes[lane], lane, begin, end)
        event["cat"] = PHASES[phase]
        yield event
