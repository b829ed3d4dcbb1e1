"""What a fit of replicas prints at its end."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report import numbers
from tfperf.report.numbers import format_count, format_number
from tfperf.workloads.pdf.report.chi2 import Chi2Row, make_chi2_rows, make_chi2_totals

CHOICES = ("precision", "xla", "threads", "cpu_stacks", "steps_per_call")


def make_summary_table(summary: Mapping[str, Any]) -> RenderableType:
    """report.json for the terminal: chi2 per dataset and in all, replicas, time; plain characters when piped."""
    return Group(_make_chi2_table(summary), *(Text(line) for line in _format_lines(summary)))


def _make_chi2_table(summary: Mapping[str, Any]) -> Table:
    # ASCII lines and text that is no markup: the table is read by programs and names come from users
    table = Table(
        title=Text(str(summary.get("title") or "tfperf fit")), box=box.ASCII_DOUBLE_HEAD, title_justify="left"
    )
    table.add_column("dataset", overflow="fold")
    for header in ("points", "chi2/N", "without t0"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in make_chi2_rows(summary):
        table.add_row(*_format_cells(row))
    table.add_section()
    for row in make_chi2_totals(summary):
        table.add_row(*_format_cells(row), style="bold")
    return table


def _format_cells(row: Chi2Row) -> tuple[Text, str, str, str]:
    return Text(row.name), format_count(row.points), format_number(row.chi2), format_number(row.chi2_no_t0)


def _format_lines(summary: Mapping[str, Any]) -> list[str]:
    replicas = summary.get("replicas") or {}
    statuses = ", ".join(f"{n} {s}" for s, n in (replicas.get("by_status") or {}).items())
    engine = summary.get("engine") or {}
    choices = ", ".join(f"{k} {engine.get(k)}" for k in CHOICES if k in engine) or numbers.MISSING
    return [
        f"replicas: {format_count(replicas.get('converged'))} of {format_count(replicas.get('total'))} converged "
        f"({statuses or numbers.MISSING})",
        numbers.format_time_line(summary),
        f"step: {numbers.format_speed(summary)}, {format_count(summary.get('steps'))} steps; {choices}",
        f"peak memory: {numbers.format_bytes(summary.get('peak_rss_bytes'))}",
    ]
