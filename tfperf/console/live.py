"""A bar on a terminal of any width: what counts comes first and is never cut, the words stand on a line below."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.table import Column
from rich.text import Text

from tfperf.console.stages import Stages, count, left
from tfperf.console.words import one_line, say


def whole() -> Column:
    """The column of a bar that is never made narrower: when a terminal is, the bar itself is."""
    return Column(no_wrap=True)


class LiveBar(Progress):
    """How much is done, of how much, `unit`; a bar; a time as `columns` show it; below words, cut to the terminal."""

    def __init__(self, unit: str, *columns: ProgressColumn, console: Console, **options: Any) -> None:
        self.words = ""
        done = MofNCompleteColumn(table_column=whole())
        super().__init__(done, TextColumn(unit), BarColumn(), *columns, console=console, **options)
        self.number = self.add_task("", total=None, time="")

    def tell(self, done: int, total: int | None, words: str, time: str = "") -> None:
        """Draw how it is now; `time` is the field of that name."""
        self.words = one_line(words)
        self.update(self.number, completed=done, total=total, time=time)

    def get_renderables(self) -> Iterable[RenderableType]:
        """What rich draws."""
        yield self.make_tasks_table(self.tasks)
        yield Text(self.words, no_wrap=True, overflow="ellipsis")


class StageBar(LiveBar):
    """A clock and the words of a stage in one line; of a training the bar instead."""

    def __init__(self, clock: Callable[[], str], console: Console) -> None:
        self.clock, self.stage = clock, "starting"
        super().__init__(
            "steps", TextColumn("{task.fields[time]}"), console=console, refresh_per_second=4, transient=True
        )  # fmt: skip

    def get_renderables(self) -> Iterable[RenderableType]:
        """What rich draws."""
        if not self.stage:
            yield from super().get_renderables()
        else:
            yield Text(f"{self.clock()} {self.stage}", no_wrap=True, overflow="ellipsis")


class LiveStages(Stages):
    """The stages on a terminal: the last line is redrawn by a thread, what is said stands above it."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._bar = StageBar(self.clock, console)
        self._last = ""  # words of the training that is drawn; they stay when it is over

    def __enter__(self) -> "LiveStages":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_training()
        self._bar.stop()

    def tell(self, stage: str, number: int | None = None, total: int | None = None, /) -> None:
        """Drawn at once: what comes next may not let the thread draw for a while."""
        self._end_training()
        self._bar.stage = count(stage, number, total)
        self._bar.refresh()

    def say(self, text: str) -> None:
        """Above the line."""
        say(text)

    def step(self, done: int, total: int, words: Callable[[], str], seconds: float | None) -> None:
        """The bar takes the place of the line."""
        self._bar.stage, found = "", words()
        self._last = f"{self.clock()} step {done}/{total}, {one_line(found)}"
        self._bar.tell(done, total, found, "" if seconds is None else f"{left(seconds)} left")

    def _end_training(self) -> None:
        if self._last:
            self.say(self._last)
        self._last = ""
