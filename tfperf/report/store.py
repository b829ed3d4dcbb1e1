"""What `tfperf store` says while it works, and of what it has made."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.progress import TextColumn

from tfperf.console.live import LiveBar, make_fixed_column
from tfperf.console.screen import find_terminal
from tfperf.console.stages import ShowStage, format_duration, show_nothing
from tfperf.console.words import say

PLAIN_SHARE = 10  # lines about, of a whole store, where there is no terminal

UNWATCHED = (
    "stages read files whose names come from data, so changes of these files are not seen; name their folder by "
    "--watch (in Python watch=) in another store"
)

ShowElements = Callable[[int, int, float], None]


@contextmanager
def show_storing(quiet: bool = False) -> Iterator[tuple[ShowElements, ShowStage]]:
    """Two functions: one to tell how many elements are stored, of how many, and how many a second; one for stages."""
    if quiet:
        yield (lambda done, total, rate: None), show_nothing
    elif (console := find_terminal()) is not None:
        columns = TextColumn("{task.fields[time]}", table_column=make_fixed_column())
        with LiveBar("elements", columns, console=console) as bar:
            words = ""

            def show_stage(stage: str, number: int | None = None, total: int | None = None, /) -> None:
                nonlocal words
                words = stage
                bar.show_progress(0, None, words)

            yield (
                lambda done, total, rate: bar.show_progress(done, total, words, describe_rate(done, total, rate)),
                show_stage,
            )
    else:
        yield _PlainLines().show, lambda stage, *_: say(stage)


class _PlainLines:
    def __init__(self) -> None:
        self._told = -1

    def show(self, done: int, total: int, rate: float) -> None:
        """A line for each tenth."""
        tenth = done * PLAIN_SHARE // total
        if tenth > self._told:
            self._told = tenth
            say(f"{done}/{total} elements, {describe_rate(done, total, rate)}")


def describe_rate(done: int, total: int, rate: float) -> str:
    """Rate and time left.

    >>> describe_rate(1000, 4000, 250.0)
    '250/s, 12 s left'
    """
    left = f", {format_duration((total - done) / rate)} left" if rate > 0 and done < total else ""
    return f"{rate:.3g}/s{left}"


def list_store_lines(summary: Mapping[str, Any]) -> list[str]:
    """What was stored, and how it is read; summary: as study/store.py makes it."""
    stage = f"stage '{summary['stage']}'" if summary["stage"] else "the last stage that can be stored"
    lines = [
        f"{summary['elements']} elements after {stage}: {', '.join(summary['components'])}",
        f"{summary['bytes'] / 1e6:.1f} MB in {summary['file']}, prepared in {format_duration(summary['seconds'])}",
    ]
    if summary["is_unwatched"]:
        lines.append(UNWATCHED)
    if summary["fault"] is None:
        return [*lines, f"a card reads it by data: {{store: {summary['folder']}}}"]
    return [*lines, f"the rest of the pipeline cannot be applied by itself: {summary['fault']}", *summary["lines"]]
