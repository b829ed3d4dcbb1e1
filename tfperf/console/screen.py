"""Tables for people, on a terminal of any width, and the terminal for bars."""

import sys
from collections.abc import Iterator
from copy import copy

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tfperf.console.streams import make_forgiving
from tfperf.console.words import escape_controls

PIPED_WIDTH = 10_000  # a pipe has none: each line stays whole for the program that reads it


def show(renderable: RenderableType) -> None:
    """Print tables and lines on stdout; plain characters when piped."""
    console = Console(file=make_forgiving(sys.stdout))
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    console.print(SafeRenderable(renderable))


def find_terminal() -> Console | None:
    """Where a bar can be drawn: the terminal behind stderr; None where there is none."""
    stream = make_forgiving(sys.stderr)
    return Console(file=stream) if stream.isatty() else None


class SafeRenderable:
    """Tables and lines as any console can take them.

    Text commands no terminal. A table that is wider than the console would break numbers and names to fit: each of its
    rows is told in words instead.
    """

    def __init__(self, renderable: RenderableType) -> None:
        self.renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What rich asks for."""
        for one in _split(self.renderable, console, options):
            for text, style, control in console.render(one, options):
                yield Segment(text if control else escape_controls(text), style, control)


def _split(renderable: RenderableType, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
    if isinstance(renderable, Group):
        for one in renderable.renderables:
            yield from _split(one, console, options)
    elif isinstance(renderable, Table):
        yield from _split_table(renderable, console, options)
    else:
        yield renderable


def _split_table(table: Table, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
    """A table below its title, which would be broken to its width; in words where it is too wide."""
    if table.title:
        yield Text.from_markup(table.title, emoji=False) if isinstance(table.title, str) else table.title
    bare = copy(table)
    bare.title = None
    if Measurement.get(console, options.update_width(PIPED_WIDTH), bare).maximum <= options.max_width:
        yield bare
        return
    yield from _format_rows(table)
    if table.caption:
        yield table.caption


def _format_rows(table: Table) -> Iterator[RenderableType]:
    """Each row: what its first cell holds, below it the others, each after its column's name."""
    headers = [_to_text(column.header) for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        named = zip(headers, map(_to_text, cells), strict=True)
        first, *others = [Text(" ").join(filter(None, (header, cell))) for header, cell in named if cell]
        yield first
        yield Padding(Text(", ").join(others), (0, 0, 0, 2))


def _to_text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text.from_markup(str(cell), emoji=False)
