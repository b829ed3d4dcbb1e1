"""Progress of a study: a bar on a terminal, a line for each event elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import TextColumn, TimeElapsedColumn
from rich.text import Text

from tfperf.console.live import LiveBar, whole
from tfperf.console.screen import Shown, screen
from tfperf.console.words import one_line, say

Show = Callable[[int, int, str], None]


@contextmanager
def counted(quiet: bool = False) -> Iterator[Show]:
    """A function to call with how much is done, how much there is, and what goes on; nothing is shown when quiet."""
    if quiet:
        yield lambda *_: None
    elif (console := screen()) is not None:
        with _live(console) as show:
            yield show
    else:
        yield lambda done, total, words: say(f"[{done}/{total}] {one_line(words)}")


@contextmanager
def _live(console: Console) -> Iterator[Show]:
    with LiveBar("done,", TimeElapsedColumn(whole()), TextColumn("so far"), console=console) as bar:
        before = 0

        def show(done: int, total: int, words: str) -> None:
            nonlocal before
            if done > before:  # a result: it stays on the screen
                console.print(Shown(Text(words)))
            before = done
            bar.tell(done, total, words)

        yield show
