"""Progress of a study: a bar on a terminal, a line for each event elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import TextColumn, TimeElapsedColumn
from rich.text import Text

from tfperf.console.live import LiveBar, make_fixed_column
from tfperf.console.screen import SafeRenderable, find_terminal
from tfperf.console.words import say, to_one_line

ShowCount = Callable[[int, int, str], None]


@contextmanager
def show_progress(quiet: bool = False) -> Iterator[ShowCount]:
    """A function to call with how much is done, how much there is, and what goes on; nothing is shown when quiet."""
    if quiet:
        yield lambda *_: None
    elif (console := find_terminal()) is not None:
        with _show_live_bar(console) as show:
            yield show
    else:
        yield lambda done, total, words: say(f"[{done}/{total}] {to_one_line(words)}")


@contextmanager
def _show_live_bar(console: Console) -> Iterator[ShowCount]:
    with LiveBar("done,", TimeElapsedColumn(make_fixed_column()), TextColumn("so far"), console=console) as bar:
        before = 0

        def show(done: int, total: int, words: str) -> None:
            nonlocal before
            if done > before:  # a result: it stays on the screen
                console.print(SafeRenderable(Text(words)))
            before = done
            bar.show_progress(done, total, words)

        yield show
