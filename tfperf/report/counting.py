"""Progress of a study: a bar on a terminal, a line for each event elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

Show = Callable[[int, int, str], None]


def left(seconds: float) -> str:
    """A time that is only about right, in words: 40 s, 4 min, 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


@contextmanager
def counted(quiet: bool = False) -> Iterator[Show]:
    """A function to call with how much is done, how much there is, and what goes on; nothing is shown when quiet."""
    if quiet:
        yield lambda *_: None
    elif sys.stderr.isatty():
        with _live() as show:
            yield show
    else:
        yield lambda done, total, words: print(f"[{done}/{total}] {words}", file=sys.stderr, flush=True)


@contextmanager
def _live() -> Iterator[Show]:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[words]}", markup=False))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None, words="")
        before = 0

        def show(done: int, total: int, words: str) -> None:
            nonlocal before
            if done > before:  # a result: it stays on the screen
                bar.console.print(Text(words))
            before = done
            bar.update(task, completed=done, total=total, words=words)

        yield show
