"""The points of a sweep as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report.ablation import digits, ratio

Report = Mapping[str, Any]
HEADERS = ("repeats", "ms/step", "mean [95 %]", "ratio to first")


def sweep_table(report: Report) -> RenderableType:
    """sweep_report.json for the terminal; plain characters when piped."""
    table = Table(title=Text(report["title"] or "sweep"), box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    for name in _short(report["keys"]):
        table.add_column(Text(name), overflow="fold")
    for header in HEADERS:
        table.add_column(header, justify="right", no_wrap=True)
    first = report["points"][0]["median"] if report["points"] else None
    for point in report["points"]:
        values = [Text(str(point["values"][key])) for key in report["keys"]]
        table.add_row(*values, *map(Text, _cells(point, first)))
    return Group(table, *(Text(line) for line in _lines(report)))


def _short(keys: Sequence[str]) -> list[str]:
    """The last parts of the keys; the whole of those that would not differ then."""
    last = [key.rpartition(".")[2] for key in keys]
    return [key if last.count(name) > 1 else name for key, name in zip(keys, last, strict=True)]


def _cells(point: Report, first: float | None) -> list[str]:
    all_of_them = point["repeats"] + point["failures"]
    repeats = f"{point['repeats']} of {all_of_them}" if point["failures"] else str(point["repeats"])
    return [repeats, digits(point["median"]), _with_interval(point), digits(ratio(point["median"], first))]


def _with_interval(point: Report) -> str:
    if point["low"] is None:
        return f"{digits(point['mean'])} [n/a]"
    return f"{digits(point['mean'])} [{digits(point['low'])}, {digits(point['high'])}]"


def drift_words(drift: Report | None) -> str:
    """Whether the place in the sweep moved the times."""
    if drift is None:
        return "drift in the course of the sweep: cannot be told from so few repeats"
    percents = [f"{100 * (drift[name] - 1):+.1f}" for name in ("value", "low", "high")]
    change = f"{percents[0]} % [{percents[1]}, {percents[2]}] ms a step from the first trial to the last, "
    change += f"95 % interval over {drift['trials']} trials"
    if drift["low"] <= 1 <= drift["high"]:
        return f"drift in the course of the sweep: none seen ({change})"
    return f"warning: the machine drifted in the course of the sweep: {change}"


def machine_words(machines: Sequence[Report]) -> list[str]:
    """That the trials ran on machines of different kinds; nothing where all are alike."""
    if len(machines) < 2:
        return []
    kinds = ", ".join(f"{m['cpu']} ({m['cores']} cores)" for m in machines)
    return [f"the trials ran on different machines: {kinds}"]


def _lines(report: Report) -> list[str]:
    lines = [
        "ms/step: median over the repeats of each one's median; mean: their geometric mean, [ ]: its 95 % interval",
        drift_words(report["drift"]),
    ]
    lines += machine_words(report["machines"])
    if report["left_out"]:
        lines.append(f"{report['left_out']} samples are left out, since something was traced in them")
    for point in report["points"]:
        which = " ".join(f"{key}={value}" for key, value in point["values"].items())
        lines += [f"failed: {which}: {error}" for error in point["errors"]]
    if report["failed"]:
        lines.append(f"{report['failed']} of {report['trials']} trials failed; --retry-failed measures them again")
    return lines
