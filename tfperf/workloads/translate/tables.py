"""What a translation prints at its end."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report import numbers
from tfperf.report.numbers import count, number
from tfperf.workloads.translate.report import score_rows


def summary_table(summary: Mapping[str, Any]) -> RenderableType:
    """report.json for the terminal: scores, losses, time, placement; plain characters when piped."""
    table = Table(
        title=Text(str(summary.get("title") or "tfperf fit")), box=box.ASCII_DOUBLE_HEAD, title_justify="left"
    )
    table.add_column("translated")
    for header in ("BLEU", "chrF"):
        table.add_column(header, justify="right", no_wrap=True)
    for row in score_rows(summary):
        table.add_row(*row)
    return Group(table, *(Text(line) for line in _lines(summary)))


def _lines(summary: Mapping[str, Any]) -> list[str]:
    loss, data, placement = (summary.get(key) or {} for key in ("loss", "data", "placement"))
    return [
        f"loss per label: training {number(loss.get('training_first'))} to {number(loss.get('training_last'))}, "
        f"validation {number(loss.get('validation_first'))} to {number(loss.get('validation_best'))} "
        f"(step {count(loss.get('best_step'))} of {count(summary.get('steps'))})",
        f"batches: {numbers.percent(data.get('padding_share'))} padding, "
        f"{numbers.percent(data.get('straggler_waste'))} straggler waste",
        f"placement: engine {placement.get('engine', numbers.MISSING)}, devices {count(placement.get('devices'))}",
        numbers.time_line(summary),
        f"step: {numbers.speed(summary)}; {number(summary.get('words_per_second'), 0)} words/s",
        f"peak memory: {numbers.size(summary.get('peak_rss_bytes'))}",
    ]
