"""What a fit of replicas prints at its end."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report import numbers
from tfperf.report.numbers import count, number
from tfperf.workloads.pdf.report.chi2 import Chi2Row, chi2_rows, chi2_totals


def summary_table(summary: Mapping[str, Any]) -> RenderableType:
    """report.json for the terminal: chi2 per dataset and in all, replicas, time; plain characters when piped."""
    return Group(_chi2_table(summary), *(Text(line) for line in _lines(summary)))


def _chi2_table(summary: Mapping[str, Any]) -> Table:
    # ASCII lines and text that is no markup: the table is read by programs and names come from users
    table = Table(
        title=Text(str(summary.get("title") or "tfperf fit")), box=box.ASCII_DOUBLE_HEAD, title_justify="left"
    )
    table.add_column("dataset", overflow="fold")
    for header in ("points", "chi2/N", "without t0"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in chi2_rows(summary):
        table.add_row(*_cells(row))
    table.add_section()
    for row in chi2_totals(summary):
        table.add_row(*_cells(row), style="bold")
    return table


def _cells(row: Chi2Row) -> tuple[Text, str, str, str]:
    return Text(row.name), count(row.points), number(row.chi2), number(row.chi2_no_t0)


def _lines(summary: Mapping[str, Any]) -> list[str]:
    replicas = summary.get("replicas") or {}
    statuses = ", ".join(f"{n} {s}" for s, n in (replicas.get("by_status") or {}).items())
    engine = summary.get("engine") or {}
    choices = ", ".join(
        f"{k} {engine.get(k)}" for k in ("precision", "xla", "threads", "cpu_stacks", "steps_per_call") if k in engine
    )
    return [
        f"replicas: {count(replicas.get('converged'))} of {count(replicas.get('total'))} converged "
        f"({statuses or numbers.MISSING})",
        numbers.time_line(summary),
        f"step: {numbers.speed(summary)}, {count(summary.get('steps'))} steps; {choices or numbers.MISSING}",
        f"peak memory: {numbers.size(summary.get('peak_rss_bytes'))}",
    ]
