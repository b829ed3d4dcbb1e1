"""Two runs or two sweeps side by side, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tfperf.report.ablation import format_digits
from tfperf.report.numbers import MISSING

ChangeWords = tuple[str, str]  # for less, for more
TIMES: ChangeWords = ("faster", "slower")
NUMBERS: ChangeWords = ("lower", "higher")
WARNING = "warning: "  # what a note begins with that is read before the table
SAME, UNKNOWN = "same within noise", "no interval known"


@dataclass(frozen=True)
class Change:
    """A figure before and now, and by how much it changed: the difference, or the ratio now / before.

    low, high: limits of what changed; None where nothing tells how much of it is chance.
    """

    name: str
    before: float
    now: float
    amount: float
    low: float | None
    high: float | None
    words: ChangeWords = NUMBERS
    effect_measure: Literal["difference", "ratio"] = "difference"

    @property
    def verdict(self) -> str:
        """In words; the same where the limits enclose no change."""
        if self.low is None or self.high is None:
            return UNKNOWN
        none = 1.0 if self.effect_measure == "ratio" else 0.0
        if self.low <= none <= self.high:
            return SAME
        return self.words[0] if self.high < none else self.words[1]


@dataclass(frozen=True)
class Comparison:
    """What differs between two folders, the first being the one before; `notes` are lines to be read with it."""

    before: str
    now: str
    changes: Sequence[Change]
    notes: Sequence[str] = ()


def make_comparison_table(comparison: Comparison) -> RenderableType:
    """A comparison for the terminal; plain characters when piped."""
    title = Text(f"{comparison.now} against {comparison.before}")
    table = Table(title=title, box=box.ASCII_DOUBLE_HEAD, title_justify="left")
    table.add_column("", overflow="fold")
    for header in ("before", "now", "change", "95 % interval"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for change in comparison.changes:
        table.add_row(*_format_cells(change))
    above = [note for note in comparison.notes if note.startswith(WARNING)]
    below = [note for note in comparison.notes if note not in above]
    return Group(*map(Text, above), table, *map(Text, below))


def _format_cells(change: Change) -> list[str | Text]:
    sign = "x " if change.effect_measure == "ratio" else ""
    limits = MISSING
    if change.low is not None and change.high is not None:
        limits = f"{_format_signed(change, change.low)} to {_format_signed(change, change.high)}"
    by = f"{sign}{_format_signed(change, change.amount)}"
    return [Text(change.name), format_digits(change.before), format_digits(change.now), by, limits, change.verdict]


def _format_signed(change: Change, value: float) -> str:
    """Three significant digits; differences with their sign."""
    if change.effect_measure == "ratio":
        return format_digits(value)
    size = abs(value)  # of differences may be far below 1
    digits = format_digits(size) if size == 0 or size >= 1e-4 else f"{size:.1e}"
    return f"{'-' if value < 0 else '+'}{digits}"
