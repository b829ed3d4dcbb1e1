"""The points of a sweep as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report.ablation import compute_ratio, format_digits

Report = Mapping[str, Any]
HEADERS = ("repeats", "ms/step", "mean [95 %]", "ratio to first")


def make_sweep_table(report: Report) -> RenderableType:
    """sweep_report.json for the terminal; plain characters when piped."""
    table = Table(title=Text(report["title"] or "sweep"), box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    for name in _shorten_keys(report["keys"]):
        table.add_column(Text(name), overflow="fold")
    for header in HEADERS:
        table.add_column(header, justify="right", no_wrap=True)
    first = report["points"][0]["median"] if report["points"] else None
    for point in report["points"]:
        values = [Text(str(point["values"][key])) for key in report["keys"]]
        table.add_row(*values, *map(Text, _format_cells(point, first)))
    return Group(table, *(Text(line) for line in _describe_report(report)))


def _shorten_keys(keys: Sequence[str]) -> list[str]:
    """The last parts of the keys; the whole of those that would not differ then."""
    last = [key.rpartition(".")[2] for key in keys]
    return [key if last.count(name) > 1 else name for key, name in zip(keys, last, strict=True)]


def _format_cells(point: Report, first: float | None) -> list[str]:
    good, failures, median = (point[key] for key in ("repeats", "failures", "median"))
    repeats = f"{good} of {good + failures}" if failures else str(good)
    return [repeats, format_digits(median), _format_interval(point), format_digits(compute_ratio(median, first))]


def _format_interval(point: Report) -> str:
    if point["low"] is None:
        return f"{format_digits(point['mean'])} [n/a]"
    return f"{format_digits(point['mean'])} [{format_digits(point['low'])}, {format_digits(point['high'])}]"


def describe_drift(drift: Report | None) -> str:
    """Whether the place in the sweep moved the times."""
    if drift is None:
        return "drift in the course of the sweep: cannot be told from so few repeats"
    percents = [f"{100 * (drift[name] - 1):+.1f}" for name in ("value", "low", "high")]
    change = f"{percents[0]} % [{percents[1]}, {percents[2]}] ms a step from the first trial to the last, "
    change += f"95 % interval over {drift['trials']} trials"
    if drift["low"] <= 1 <= drift["high"]:
        return f"drift in the course of the sweep: none seen ({change})"
    return f"warning: the machine drifted in the course of the sweep: {change}"


def describe_machines(machines: Sequence[Report]) -> list[str]:
    """That the trials ran on machines of different kinds; nothing where all are alike."""
    if len(machines) < 2:
        return []
    kinds = ", ".join(f"{m['cpu']} ({m['cores']} cores)" for m in machines)
    return [f"the trials ran on different machines: {kinds}"]


def _describe_report(report: Report) -> list[str]:
    lines = [
        "ms/step: median over the repeats of each one's median; mean: their geometric mean, [ ]: its 95 % interval",
        describe_drift(report["drift"]),
    ]
    lines += describe_machines(report["machines"])
    if report["left_out"]:
        lines.append(f"{report['left_out']} samples are left out, since something was traced in them")
    for point in report["points"]:
        which = " ".join(f"{key}={value}" for key, value in point["values"].items())
        lines += [f"failed: {which}: {error}" for error in point["errors"]]
    if report["failed"]:
        lines.append(f"{report['failed']} of {report['trials']} trials failed; --retry-failed measures them again")
    return lines
