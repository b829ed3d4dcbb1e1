"""What a command is doing, from its first second on: a line that ticks on a terminal, a line a stage elsewhere.

Nothing here imports what takes long: the first line stands before the libraries are loaded of which it tells.
"""

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from tfperf.console.streams import duplicate_stderr, make_forgiving
from tfperf.console.words import say, to_one_line

LOGGER = logging.getLogger(__name__)
WARNING = "warning: "  # how a line begins that is one
PLAIN_SECONDS = 10.0  # between two lines of a training that are not on a terminal
DAYS_FROM = 86_400.0  # s, below which a time is told in hours
COUNT_SECONDS = 1.0  # between two lines of one stage there


class ShowStage(Protocol):
    """A function to call when a stage begins, and as it goes on: its words, and how much of how much it works on."""

    def __call__(self, stage: str, number: int | None = None, total: int | None = None, /) -> None:
        """Show `compiling 2 of 3` for compiling, 2, 3."""


def show_nothing(stage: str, number: int | None = None, total: int | None = None, /) -> None:
    """Tell nobody."""


def format_duration(seconds: float) -> str:
    """A time that is only about right, in words: 40 s, 4 min, 2.5 h.

    >>> format_duration(40.2), format_duration(240), format_duration(9000)
    ('40 s', '4 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def format_interval(seconds: float, low: float | None = None, high: float | None = None) -> str:
    """A time with the limits of its interval, where there are any, with as many digits as these bear; also of days.

    >>> format_interval(12.3, 11.2, 13.4), format_interval(200.0, 191.0, 209.0), format_interval(200.0)
    ('12 s [11 s, 13 s]', '3.3 min [3.2 min, 3.5 min]', '3 min')
    >>> format_interval(400_000.0, 390_000.0, 410_000.0), format_interval(400_000.0)
    ('4.6 days [4.5 days, 4.7 days]', '4.6 days')
    """
    if low is None or high is None:
        return format_duration(seconds) if seconds < DAYS_FROM else f"{seconds / 86_400:.1f} days"
    units = ((100.0, 1.0, "s"), (6000.0, 60.0, "min"), (DAYS_FROM, 3600.0, "h"), (math.inf, 86_400.0, "days"))
    _, scale, unit = next(one for one in units if seconds < one[0])
    half = (high - low) / 2 / scale
    digits = 0 if half >= 1 else 1 if half >= 0.1 or not half else 2
    told = [f"{one / scale:.{digits}f} {unit}" for one in (seconds, low, high)]
    return f"{told[0]} [{told[1]}, {told[2]}]"


def format_stage(stage: str, number: int | None, total: int | None) -> str:
    """The words of a stage, with which of how many."""
    return to_one_line(stage if number is None or total is None else f"{stage} {number} of {total}")


class Stages:
    """Where a command is. This one, for who wants quiet, shows nothing, but logs; any thread may call it."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._logged = ""

    def format_elapsed(self) -> str:
        """Time since the command began, 0:00:07."""
        return str(timedelta(seconds=int(time.monotonic() - self._start)))

    def show_stage(self, stage: str, number: int | None = None, total: int | None = None, /) -> None:
        """A stage begins, or goes on (see ShowStage)."""
        if stage != self._logged:
            self._logged = stage
            LOGGER.info("stage: %s", stage)

    def say(self, text: str) -> None:
        """A line that stays."""
        LOGGER.log(logging.WARNING if text.startswith(WARNING) else logging.INFO, "%s", text)

    def show_steps(self, done: int, total: int | None, words: Callable[[], str], seconds: float | None) -> None:
        """A training took steps, of a total that may not be known.

        seconds: that are left at most, None where none will be taken any more.
        """


class PlainStages(Stages):
    """A line when a stage begins, and one of a training now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._stage, self._last = "", self._start

    def show_stage(self, stage: str, number: int | None = None, total: int | None = None, /) -> None:
        """The same stage again is a line where the one before was said a second ago."""
        super().show_stage(stage)
        now = time.monotonic()
        if stage != self._stage or now - self._last >= COUNT_SECONDS:
            self._stage, self._last = stage, now
            say(f"{self.format_elapsed()} {format_stage(stage, number, total)}")

    def say(self, text: str) -> None:
        """On stderr."""
        super().say(text)
        say(text)

    def show_steps(self, done: int, total: int | None, words: Callable[[], str], seconds: float | None) -> None:
        """The first line after PLAIN_SECONDS, the last at the end."""
        if time.monotonic() - self._last >= PLAIN_SECONDS or seconds is None:
            self._last = time.monotonic()
            rest = "" if seconds is None or total is None else f"at most {format_duration(seconds)} left, "
            say(f"{self.format_elapsed()} step {format_count(done, total)}, {rest}{to_one_line(words())}")


def format_count(done: int, total: int | None) -> str:
    """Of a total that may not be known.

    >>> format_count(3, 10), format_count(3, None)
    ('3/10', '3')
    """
    return str(done) if total is None else f"{done}/{total}"


@contextmanager
def open_stages(quiet: bool = False) -> Iterator[Stages]:
    """Tell the stages of a command on stderr; Python's own words are seen at once while native code's are held back."""
    if quiet:
        yield Stages()
        return
    with duplicate_stderr():
        if not make_forgiving(sys.stderr).isatty():
            yield PlainStages()
            return
        from tfperf.console.live import LiveStages
        from tfperf.console.screen import find_terminal

        console = find_terminal()
        assert console is not None
        with LiveStages(console) as live:
            yield live
