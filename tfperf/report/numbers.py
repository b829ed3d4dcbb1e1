"""Figures as text and the rows of the tables that both the terminal and report.html show."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MISSING = "n/a"
STAGES = ("import", "data", "build", "compile", "train", "write")


def format_number(value: float | None, digits: int = 3) -> str:
    """With that many decimals; n/a for what was not measured.

    >>> format_number(1.21987), format_number(-0.0001), format_number(None)
    ('1.220', '0.000', 'n/a')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{round(value, digits) + 0.0:.{digits}f}"  # + 0.0: no "-0.0"


def format_figure(value: float | None) -> str:
    """With four significant digits; nan for what was not finite, which JSON cannot hold.

    >>> format_figure(0.123456), format_figure(None)
    ('0.1235', 'nan')
    """
    return f"{math.nan if value is None else value:.4g}"


def format_rate(value: float | None, digits: int = 4) -> str:
    """With so many significant digits, and without exponents; n/a for what was not measured.

    >>> format_rate(12.3456), format_rate(123456.7), format_rate(1234.5, 3), format_rate(None)
    ('12.35', '123457', '1234', 'n/a')
    """
    if value is None:
        return MISSING
    return f"{value:.{digits}g}" if value < 10**digits - 0.5 else f"{value:.0f}"


def format_count(value: int | None) -> str:
    """A whole number; n/a for what was not measured."""
    return MISSING if value is None else str(value)


def format_seconds(value: float | None) -> str:
    """Seconds with two significant decimals at most, minutes beside them where they help.

    >>> format_seconds(1.234), format_seconds(42.0), format_seconds(410.0)
    ('1.23 s', '42.0 s', '410 s (6.8 min)')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return (
        f"{value:.2f} s" if value < 10 else f"{value:.1f} s" if value < 120 else f"{value:.0f} s ({value / 60:.1f} min)"
    )


def format_bytes(value: float | None) -> str:
    """Bytes in units of 1000.

    >>> format_bytes(2.8e9), format_bytes(48e6)
    ('2.80 GB', '48.0 MB')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB"


def format_percent(share: float | None) -> str:
    """A share (0 to 1) in per cent; n/a for what was not measured."""
    return MISSING if share is None else f"{100 * share:.1f} %"


@dataclass(frozen=True)
class TimeRow:
    """One line of the timing table: seconds, and their share of the total."""

    stage: str
    seconds: float | None
    share: float | None


def make_time_rows(summary: Mapping[str, Any]) -> list[TimeRow]:
    """Stages, what none of them accounts for, and the total.

    >>> [(row.stage, row.seconds) for row in make_time_rows({"seconds": {"train": 6.0, "total": 8.0}}) if row.seconds]
    [('train', 6.0), ('not attributed', 2.0), ('total', 8.0)]
    """
    clock: Mapping[str, float | None] = summary.get("seconds") or {}
    total = clock.get("total")
    stages = [s for s in dict.fromkeys((*clock, *STAGES)) if s != "total"]
    known = sum(clock.get(s) or 0.0 for s in stages)
    rows = [(s, clock.get(s)) for s in stages] + [("not attributed", None if total is None else total - known)]
    return [TimeRow(s, v, v / total if v is not None and total else None) for s, v in [*rows, ("total", total)]]


def format_speed(summary: Mapping[str, Any]) -> str:
    """Milliseconds per step: median and quartiles."""
    ms = summary.get("ms_per_step") or {}
    median, q1, q3 = (format_number(ms.get(k), 2) for k in ("median", "q1", "q3"))
    return f"{median} ms (quartiles {q1} to {q3})" if median != MISSING else MISSING


def list_leaves(tree: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Leaves of nested mappings and lists as (dotted name, text).

    >>> list(list_leaves({"ms": {"median": 1.5, "q1": None}, "devices": ["CPU:0", "CPU:1"]}))
    [('ms.median', '1.5'), ('ms.q1', 'n/a'), ('devices', 'CPU:0, CPU:1')]
    """
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from list_leaves(value, f"{name}.{key}" if name else str(key))
    elif isinstance(tree, list | tuple) and any(isinstance(v, Mapping) for v in tree):
        for i, value in enumerate(tree, start=1):
            yield from list_leaves(value, f"{name} {i}")
    elif isinstance(tree, list | tuple):
        yield name, ", ".join(map(str, tree)) or "none"
    else:
        yield name, _format_leaf(tree)


def _format_leaf(value: Any) -> str:
    if value is None or value == {}:
        return MISSING if value is None else "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def format_time_line(summary: Mapping[str, Any]) -> str:
    """Seconds of all and of each stage."""
    stages = ", ".join(f"{r.stage} {format_seconds(r.seconds)}" for r in make_time_rows(summary)[:-1])
    return f"time: {format_seconds((summary.get('seconds') or {}).get('total'))} ({stages})"
