"""Tables of where the time of traced steps goes: by device, on the longest chain, and up to a step's end."""

from collections.abc import Iterable, Mapping

from tfperf.report.ablation import format_digits
from tfperf.report.course import describe_wait
from tfperf.report.numbers import MISSING
from tfperf.report.wording import format_row_head
from tfperf.results.placements import PlacementRow

Cells = list[tuple[str, ...]]
HeaderAndCells = tuple[tuple[str, ...], Cells]
BUSY = ("forward", "backward", "merge", "update", "transfer", "input", "other")
COURSE = {
    "chain": "recurrent steps", "computation": "rest of passes", "merge": "merge", "update": "update",
    "transfer": "transfer", "input": "input", "queue": "core taken", "runtime": "runtime", "host": "host",
}  # fmt: skip
MOST = 3  # causes that are listed


def format_device_cells(rows: Iterable[PlacementRow]) -> HeaderAndCells:
    """Busy by phase, what of it ran at once, and waiting, of each device; they add up to the step."""
    header = (
        "placement", "devices", "device", *(f"{name} ms" for name in BUSY), "- at once ms", "waiting ms", "= step ms",
        "at once", "waits for",
    )  # fmt: skip
    lines: Cells = []
    for row in _select_traced(rows):
        step = row.phases["step_ms"]
        lines += [(
            *format_row_head(row), name, *(_format_share(one["busy"][phase], step) for phase in BUSY),
            _format_share(one["overlap"], step), _format_share(one["waiting"], step), format_digits(step),
            _format_largest(one["overlaps"]),
            _format_largest({describe_wait(what, row): ms for what, ms in one["waits"].items()}),
        ) for name, one in row.phases["devices"].items()]  # fmt: skip
    return header, lines


def format_pass_cells(rows: Iterable[PlacementRow]) -> HeaderAndCells:
    """Means of passes over devices, their imbalance and how the forward pass grew."""
    header = ("placement", "devices", "forward ms", "backward ms", "slowest / mean", "forward growth")
    return header, [(
        *format_row_head(row), format_digits(row.phases["mean"]["forward"]),
        format_digits(row.phases["mean"]["backward"]), format_digits(row.phases["imbalance"]),
        format_digits(row.growth),
    ) for row in _select_traced(rows)]  # fmt: skip


def format_chain_cells(rows: Iterable[PlacementRow]) -> HeaderAndCells:
    """The longest chain: its length beside the step's, and what it consists of."""
    header = (
        "placement", "devices", "longest chain ms", "of step", "operations", "in recurrent steps ms",
        *(f"{name} ms" for name in BUSY), "by device ms", "by kind ms",
    )  # fmt: skip
    lines: Cells = []
    for row in _select_traced(rows):
        one = row.phases["critical"]
        lines.append((
            *format_row_head(row), format_digits(one["ms"]), f"{one['share']:.0%}", f"{one['operations']:.0f}",
            format_digits(one["loops_ms"]), *(_format_share(one["phases"].get(name, 0.0), one["ms"]) for name in BUSY),
            _format_largest(one["devices"]), _format_largest(one["kinds"]),
        ))  # fmt: skip
    return header, lines


def format_course_cells(rows: Iterable[PlacementRow]) -> HeaderAndCells:
    """What the end of a step waits for, beside the bound's terms, and whether the traced steps are like the timed."""
    header = (
        "placement", "devices", "timed ms", "traced ms", "traced / timed", *(f"{name} ms" for name in COURSE.values()),
        "not known", "bound ms: arithmetic, chain, copies; update", "MB sent",
    )  # fmt: skip
    lines: Cells = []
    for row in _select_traced(rows):
        found, step = row.phases, row.phases["step_ms"]
        lines.append((
            *format_row_head(row), format_digits(found["timed_ms"]), format_digits(found["traced_ms"]),
            format_digits(found["agrees"]), *(_format_share(found["course"][name], step) for name in COURSE),
            f"{found['unattributed']:.1%}", *_format_bound(row.bound),
        ))  # fmt: skip
    return header, lines


def _format_bound(bound: Mapping[str, float | None]) -> tuple[str, str]:
    if not bound:
        return MISSING, MISSING
    passes = ", ".join(format_digits(bound[f"{name}_ms"]) for name in ("computation", "chain", "sent"))
    return f"{passes}; {format_digits(bound['update_ms'])}", format_digits((bound["sent_bytes"] or 0.0) / 1e6)


def _select_traced(rows: Iterable[PlacementRow]) -> list[PlacementRow]:
    return [row for row in rows if row.phases]


def _format_share(ms: float, step_ms: float) -> str:
    return f"{format_digits(ms)} ({ms / step_ms:.0%})" if step_ms else format_digits(ms)


def _format_largest(figures: Mapping[str, float]) -> str:
    """The largest few, each with its name."""
    some = sorted(figures.items(), key=lambda item: -item[1])[:MOST]
    return "; ".join(f"{name}\N{NO-BREAK SPACE}{format_digits(ms)}" for name, ms in some if ms > 0)
