"""A bar on a terminal of any width: what counts comes first and is never cut, the words stand on a line below."""

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.table import Column
from rich.text import Text

from tfperf.console.words import one_line


def whole() -> Column:
    """The column of a bar that is never made narrower: when a terminal is, the bar itself is."""
    return Column(no_wrap=True)


class LiveBar(Progress):
    """How much is done, of how much, `unit`; a bar; a time as `columns` show it; below words, cut to the terminal."""

    def __init__(self, unit: str, *columns: ProgressColumn, console: Console) -> None:
        self.words = ""
        count = MofNCompleteColumn(table_column=whole())
        super().__init__(count, TextColumn(unit), BarColumn(), *columns, console=console)
        self.number = self.add_task("", total=None, time="")

    def tell(self, done: int, total: int | None, words: str, time: str = "") -> None:
        """Draw how it is now; `time` is the field of that name."""
        self.words = one_line(words)
        self.update(self.number, completed=done, total=total, time=time)

    def get_renderables(self) -> Iterable[RenderableType]:
        """What rich draws."""
        yield self.make_tasks_table(self.tasks)
        yield Text(self.words, no_wrap=True, overflow="ellipsis")
