"""Tables of where the time of traced steps goes: by device, on the longest chain, and up to a step's end."""

from collections.abc import Iterable, Mapping

from tfperf.report.ablation import digits
from tfperf.report.course import waited
from tfperf.report.numbers import MISSING
from tfperf.report.wording import called, whole
from tfperf.results.placements import PlacementRow

Cells = list[tuple[str, ...]]
Table = tuple[tuple[str, ...], Cells]
BUSY = ("forward", "backward", "merge", "update", "transfer", "input", "other")
COURSE = {
    "chain": "recurrent steps", "computation": "rest of passes", "merge": "merge", "update": "update",
    "transfer": "transfer", "input": "input", "queue": "core taken", "runtime": "runtime", "host": "host",
}  # fmt: skip
MOST = 3  # causes that are listed


def device_cells(rows: Iterable[PlacementRow]) -> Table:
    """Busy by phase, what of it ran at once, and waiting, of each device; they add up to the step."""
    header = (
        "placement", "devices", "device", *(f"{name} ms" for name in BUSY), "- at once ms", "waiting ms", "= step ms",
        "at once", "waits for",
    )  # fmt: skip
    lines: Cells = []
    for row in _traced(rows):
        step = row.phases["step_ms"]
        for name, one in row.phases["devices"].items():
            lines.append((
                called(row), whole(row.devices), name, *(_share(one["busy"][phase], step) for phase in BUSY),
                _share(one["overlap"], step), _share(one["waiting"], step), digits(step), _first(one["overlaps"]),
                _first({waited(what, row): ms for what, ms in one["waits"].items()}),
            ))  # fmt: skip
    return header, lines


def pass_cells(rows: Iterable[PlacementRow]) -> Table:
    """Means of passes over devices, their imbalance and how the forward pass grew."""
    header = ("placement", "devices", "forward ms", "backward ms", "slowest / mean", "forward growth")
    return header, [
        (
            called(row), whole(row.devices), digits(row.phases["mean"]["forward"]),
            digits(row.phases["mean"]["backward"]), digits(row.phases["imbalance"]), digits(row.growth),
        )
        for row in _traced(rows)
    ]  # fmt: skip


def chain_cells(rows: Iterable[PlacementRow]) -> Table:
    """The longest chain: its length beside the step's, and what it consists of."""
    header = (
        "placement", "devices", "longest chain ms", "of step", "operations", "in recurrent steps ms",
        *(f"{name} ms" for name in BUSY), "by device ms", "by kind ms",
    )  # fmt: skip
    lines: Cells = []
    for row in _traced(rows):
        found = row.phases["critical"]
        lines.append((
            called(row), whole(row.devices), digits(found["ms"]), f"{found['share']:.0%}", f"{found['operations']:.0f}",
            digits(found["loops_ms"]), *(_share(found["phases"].get(name, 0.0), found["ms"]) for name in BUSY),
            _first(found["devices"]), _first(found["kinds"]),
        ))  # fmt: skip
    return header, lines


def course_cells(rows: Iterable[PlacementRow]) -> Table:
    """What the end of a step waits for, beside the bound's terms, and whether the traced steps are like the timed."""
    header = (
        "placement", "devices", "timed ms", "traced ms", "traced / timed", *(f"{name} ms" for name in COURSE.values()),
        "not known", "bound ms: arithmetic, chain, copies; update", "MB sent",
    )  # fmt: skip
    lines: Cells = []
    for row in _traced(rows):
        found, step = row.phases, row.phases["step_ms"]
        lines.append((
            called(row), whole(row.devices), digits(found["timed_ms"]), digits(found["traced_ms"]),
            digits(found["agrees"]), *(_share(found["course"][name], step) for name in COURSE),
            f"{found['unattributed']:.1%}", *_bound(row.bound),
        ))  # fmt: skip
    return header, lines


def _bound(bound: Mapping[str, float | None]) -> tuple[str, str]:
    if not bound:
        return MISSING, MISSING
    passes = ", ".join(digits(bound[f"{name}_ms"]) for name in ("computation", "chain", "sent"))
    return f"{passes}; {digits(bound['update_ms'])}", digits((bound["sent_bytes"] or 0.0) / 1e6)


def _traced(rows: Iterable[PlacementRow]) -> list[PlacementRow]:
    return [row for row in rows if row.phases]


def _share(ms: float, step: float) -> str:
    return f"{digits(ms)} ({ms / step:.0%})" if step else digits(ms)


def _first(figures: Mapping[str, float]) -> str:
    """The largest few, each with its name."""
    some = sorted(figures.items(), key=lambda item: -item[1])[:MOST]
    return "; ".join(f"{name}\N{NO-BREAK SPACE}{digits(ms)}" for name, ms in some if ms > 0)
