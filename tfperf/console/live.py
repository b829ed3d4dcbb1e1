"""A bar on a terminal of any width: what counts comes first and is never cut, the words stand on a line below."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.table import Column
from rich.text import Text

from tfperf.console.stages import Stages, format_count, format_duration, format_stage
from tfperf.console.words import say, to_one_line


def make_fixed_column() -> Column:
    """The column of a bar that is never made narrower: when a terminal is, the bar itself is."""
    return Column(no_wrap=True)


class LiveBar(Progress):
    """How much is done, of how much, `unit`; a bar; a time as `columns` show it; below words, cut to the terminal."""

    def __init__(self, unit: str, *columns: ProgressColumn, console: Console, **options: Any) -> None:
        self.words = ""
        done = MofNCompleteColumn(table_column=make_fixed_column())
        super().__init__(done, TextColumn(unit), BarColumn(), *columns, console=console, **options)
        self.number = self.add_task("", total=None, time="")

    def show_progress(self, done: int, total: int | None, words: str, time: str = "") -> None:
        """Draw how it is now; `time` is the field of that name."""
        self.words = to_one_line(words)
        self.update(self.number, completed=done, total=total, time=time)

    def get_renderables(self) -> Iterable[RenderableType]:
        """What rich draws."""
        yield self.make_tasks_table(self.tasks)
        yield Text(self.words, no_wrap=True, overflow="ellipsis")


class StageBar(LiveBar):
    """A clock and the words of a stage in one line; of a training the bar instead."""

    def __init__(self, format_elapsed: Callable[[], str], console: Console) -> None:
        self.format_elapsed, self.stage = format_elapsed, "starting"
        super().__init__(
            "steps", TextColumn("{task.fields[time]}"), console=console, refresh_per_second=4, transient=True
        )  # fmt: skip

    def get_renderables(self) -> Iterable[RenderableType]:
        """What rich draws."""
        if not self.stage:
            yield from super().get_renderables()
        else:
            yield Text(f"{self.format_elapsed()} {self.stage}", no_wrap=True, overflow="ellipsis")


class LiveStages(Stages):
    """The stages on a terminal: the last line is redrawn by a thread, what is said stands above it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._bar = StageBar(self.format_elapsed, console)
        self._last = ""  # words of the training that is drawn; they stay when it is over

    def __enter__(self) -> "LiveStages":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_training()
        self._bar.stop()

    def show_stage(self, stage: str, number: int | None = None, total: int | None = None, /) -> None:
        """Drawn at once: what comes next may not let the thread draw for a while."""
        super().show_stage(stage)
        self._end_training()
        self._bar.stage = format_stage(stage, number, total)
        self._bar.refresh()

    def say(self, text: str) -> None:
        """Above the line."""
        super().say(text)
        say(text)

    def show_steps(self, done: int, total: int | None, words: Callable[[], str], seconds: float | None) -> None:
        """The bar takes the place of the line."""
        self._bar.stage, found = "", words()
        self._last = f"{self.format_elapsed()} step {format_count(done, total)}, {to_one_line(found)}"
        left = "" if seconds is None or total is None else f"{format_duration(seconds)} left"
        self._bar.show_progress(done, total, found, left)

    def _end_training(self) -> None:
        if self._last:
            say(self._last)
        self._last = ""
