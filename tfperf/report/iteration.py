"""What repeated fits moved in a card, for the terminal."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from tfperf.report.numbers import MISSING
from tfperf.results.moves import Move


def make_moves_table(fits: Sequence[Sequence[Move]]) -> Table:
    """A row for each setting: what the last fit had and would have next, and how far each of the fits moved it."""
    table = Table(title="settings, and how far each fit moved them; *: too far", box=box.ASCII_DOUBLE_HEAD)
    for header in ("setting", "of the last fit", "by its results"):
        table.add_column(header)
    for number in range(1, len(fits) + 1):
        table.add_column(f"fit {number}", justify="right", no_wrap=True)
    table.add_column("allowed", justify="right")
    for same in zip(*fits, strict=True):
        distances = [f"{_format(move)}{' ' if move.is_still else '*'}" for move in same]
        last = same[-1]
        allowed = f"{last.limit:.2g} {last.unit}"
        table.add_row(*map(Text, (last.key, last.before, last.after, *distances, allowed)))
    return table


def _format(move: Move) -> str:
    return MISSING if move.distance is None else f"{move.distance:.3f}"
