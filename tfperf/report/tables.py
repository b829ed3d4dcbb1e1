"""What a run prints at its end."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report import numbers
from tfperf.report.numbers import Chi2Row, count, number
from tfperf.workloads.translate.report import score_rows


def summary_table(summary: Mapping[str, Any]) -> RenderableType:
    """report.json for the terminal: chi2 per dataset and in all, replicas, time; plain characters when piped."""
    return Group(_chi2_table(summary), *(Text(line) for line in _lines(summary)))


def translation_table(summary: Mapping[str, Any]) -> RenderableType:
    """report.json of a translation for the terminal: scores, losses, time, placement; plain characters when piped."""
    table = Table(
        title=Text(str(summary.get("title") or "tfperf fit")), box=box.ASCII_DOUBLE_HEAD, title_justify="left"
    )
    table.add_column("translated")
    for header in ("BLEU", "chrF"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in score_rows(summary):
        table.add_row(*row)
    return Group(table, *(Text(line) for line in _translation_lines(summary)))


def _translation_lines(summary: Mapping[str, Any]) -> list[str]:
    loss, data, placement = (summary.get(key) or {} for key in ("loss", "data", "placement"))
    return [
        f"loss per label: training {number(loss.get('training_first'))} to {number(loss.get('training_last'))}, "
        f"validation {number(loss.get('validation_first'))} to {number(loss.get('validation_best'))} "
        f"(step {count(loss.get('best_step'))} of {count(summary.get('steps'))})",
        f"batches: {numbers.percent(data.get('padding_share'))} padding, "
        f"{numbers.percent(data.get('straggler_waste'))} straggler waste",
        f"placement: engine {placement.get('engine', numbers.MISSING)}, devices {count(placement.get('devices'))}",
        _time_line(summary),
        f"step: {numbers.speed(summary)}; {number(summary.get('words_per_second'), 0)} words/s",
        f"peak memory: {numbers.size(summary.get('peak_rss_bytes'))}",
    ]


def _time_line(summary: Mapping[str, Any]) -> str:
    stages = ", ".join(f"{r.stage} {numbers.seconds(r.seconds)}" for r in numbers.time_rows(summary)[:-1])
    return f"time: {numbers.seconds((summary.get('seconds') or {}).get('total'))} ({stages})"


def _chi2_table(summary: Mapping[str, Any]) -> Table:
    # ASCII lines and text that is no markup: the table is read by programs and names come from users
    table = Table(
        title=Text(str(summary.get("title") or "tfperf fit")), box=box.ASCII_DOUBLE_HEAD, title_justify="left"
    )
    table.add_column("dataset", overflow="fold")
    for header in ("points", "chi2/N", "without t0"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in numbers.chi2_rows(summary):
        table.add_row(*_cells(row))
    table.add_section()
    for row in numbers.chi2_totals(summary):
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
        _time_line(summary),
        f"step: {numbers.speed(summary)}, {count(summary.get('steps'))} steps; {choices or numbers.MISSING}",
        f"peak memory: {numbers.size(summary.get('peak_rss_bytes'))}",
    ]
