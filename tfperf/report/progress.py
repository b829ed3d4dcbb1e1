"""Progress of a training: a live bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tfperf.train.trainer import Progress

PLAIN_SECONDS = 10.0


def _words(status: Progress) -> str:
    chi2 = status.chi2[np.isfinite(status.chi2)]
    low, middle, high = np.percentile(chi2, [16, 50, 84]) if len(chi2) else [np.nan] * 3
    return (
        f"{status.steps_per_second:.0f} steps/s, chi2/N {middle:.3f} [{low:.3f}, {high:.3f}], {status.running} running"
        + (f", {status.quarantined} quarantined" if status.quarantined else "")
    )


@contextmanager
def shown(quiet: bool, chunk: int = 1, chunks: int = 1) -> Iterator[Callable[[Progress], None]]:
    """A function to call with each status of one of the chunks; nothing is shown when quiet."""
    which = f"chunk {chunk} of {chunks}, " if chunks > 1 else ""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _live(which) as show:
            yield show
    else:
        yield _plain(which)


@contextmanager
def _live(which: str) -> Iterator[Callable[[Progress], None]]:
    columns = (
        TextColumn(f"{which}training"), BarColumn(), MofNCompleteColumn(), TextColumn("steps,"), TimeRemainingColumn(),
        TextColumn("left, {task.fields[words]}"),
    )  # fmt: skip
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=None, words="")

        def show(status: Progress) -> None:
            bar.update(task, completed=status.step, total=status.steps, words=_words(status))

        yield show


def _plain(which: str) -> Callable[[Progress], None]:
    last = time.monotonic()

    def show(status: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_SECONDS or status.step >= status.steps or not status.running:
            last = time.monotonic()
            left = (status.steps - status.step) / status.steps_per_second
            print(
                f"{which}step {status.step}/{status.steps}, at most {left:.0f} s left, {_words(status)}",
                file=sys.stderr,
                flush=True,
            )

    return show
