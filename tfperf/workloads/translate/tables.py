"""What a translation prints at its end."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report import numbers
from tfperf.report.numbers import MISSING, format_count, format_number
from tfperf.workloads.translate.report import format_scores


def make_summary_table(summary: Mapping[str, Any]) -> RenderableType:
    """report.json for the terminal: scores, losses, time, placement; plain characters when piped."""
    title = Text(str(summary.get("title") or "tfperf fit"))
    table = Table(title=title, box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    table.add_column("translated")
    for header in ("BLEU", "chrF"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in format_scores(summary):
        table.add_row(*row)
    return Group(table, *(Text(line) for line in _format_lines(summary)))


def _format_lines(summary: Mapping[str, Any]) -> list[str]:
    loss, data, placement = (summary.get(key) or {} for key in ("loss", "data", "placement"))
    first, last = (format_number(loss.get(f"training_{end}")) for end in ("first", "last"))
    return [
        f"loss per label: training {first} to {last}, "
        f"validation {format_number(loss.get('validation_first'))} to {format_number(loss.get('validation_best'))} "
        f"(step {format_count(loss.get('best_step'))} of {format_count(summary.get('steps'))})",
        f"batches: {numbers.format_percent(data.get('padding_share'))} padding, "
        f"{numbers.format_percent(data.get('straggler_waste'))} straggler waste",
        f"placement: engine {placement.get('engine', MISSING)}, devices {format_count(placement.get('devices'))}",
        numbers.format_time_line(summary),
        f"step: {numbers.format_speed(summary)}; {format_number(summary.get('words_per_second'), 0)} words/s",
        f"peak memory: {numbers.format_bytes(summary.get('peak_rss_bytes'))}",
    ]
