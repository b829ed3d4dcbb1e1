"""Progress of a training: a live bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import TextColumn

from tfperf.console.live import LiveBar
from tfperf.console.screen import screen
from tfperf.console.words import say
from tfperf.report.counting import left
from tfperf.report.numbers import number
from tfperf.train.trainer import Progress
from tfperf.train.translation import TranslationProgress

PLAIN_SECONDS = 10.0


class Status(Protocol):
    """How far a training is."""

    @property
    def step(self) -> int:
        """Steps taken."""

    @property
    def steps(self) -> int:
        """Steps to take at most."""

    @property
    def steps_per_second(self) -> float:
        """The speed of late."""

    @property
    def over(self) -> bool:
        """Whether no further step will be taken."""


S = TypeVar("S", bound=Status)
Show = Callable[[S], None]
Words = Callable[[S], str]


def replica_words(status: Progress) -> str:
    """What a line says of replicas."""
    chi2 = status.chi2[np.isfinite(status.chi2)]
    low, middle, high = np.percentile(chi2, [16, 50, 84]) if len(chi2) else [np.nan] * 3
    return (
        f"{status.steps_per_second:.0f} steps/s, chi2/N {middle:.3f} [{low:.3f}, {high:.3f}], {status.running} running"
        + (f", {status.quarantined} quarantined" if status.quarantined else "")
    )


def translation_words(status: TranslationProgress) -> str:
    """What a line says of a translation."""
    return (
        f"{status.steps_per_second:.1f} steps/s, {status.words_per_second:.0f} words/s, loss {status.loss:.3f}, "
        f"validation {number(status.validation_loss)}"
    )


def chunk_words(chunk: int, chunks: int) -> str:
    """Which of several chunks a line is about, to stand before it."""
    return f"chunk {chunk} of {chunks}, " if chunks > 1 else ""


@contextmanager
def shown(quiet: bool, words: Words[S], which: str = "") -> Iterator[Show[S]]:
    """A function to call with each status, of which `words` tells; `which` stands before. Quiet: nothing is shown."""
    if quiet:
        yield lambda _: None
    elif (console := screen()) is not None:
        with _live(console, words, which) as show:
            yield show
    else:
        yield _plain(words, which)


@contextmanager
def _live(console: Console, words: Words[S], which: str) -> Iterator[Show[S]]:
    with LiveBar("steps", TextColumn("{task.fields[time]}"), console=console) as bar:
        bar.tell(0, None, f"{which}training")

        def show(status: S) -> None:
            bar.tell(status.step, status.steps, f"{which}{words(status)}", f"{left(_seconds_left(status))} left")

        yield show


def _seconds_left(status: Status) -> float:
    """At most: it may stop before."""
    return (status.steps - status.step) / status.steps_per_second


def _plain(words: Words[S], which: str) -> Show[S]:
    last = time.monotonic()

    def show(status: S) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_SECONDS or status.over:
            last = time.monotonic()
            seconds = _seconds_left(status)
            say(f"{which}step {status.step}/{status.steps}, at most {seconds:.0f} s left, {words(status)}")

    return show
