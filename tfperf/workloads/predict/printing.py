"""What `tfperf predict` says while it works, and at its end."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import TextColumn

from tfperf.console.live import LiveBar, make_fixed_column
from tfperf.console.screen import find_terminal
from tfperf.console.stages import ShowStage, format_duration, show_nothing
from tfperf.console.words import say
from tfperf.report.store import describe_rate
from tfperf.results.contents import PAGE

PLAIN_SHARE = 20  # lines about, of a whole prediction, where there is no terminal

ShowRecords = Callable[[int, int, float, str], None]


@contextmanager
def show_predicting(quiet: bool = False) -> Iterator[tuple[ShowRecords, ShowStage]]:
    """Two functions: one to tell how many records are committed, of how many, and how many a second; one for stages."""
    if quiet:
        yield (lambda done, total, rate, words: None), show_nothing
    elif (console := find_terminal()) is not None:
        columns = TextColumn("{task.fields[time]}", table_column=make_fixed_column())
        with LiveBar("records", columns, console=console) as bar:
            yield (
                lambda done, total, rate, words: bar.show_progress(
                    done, total, words, describe_rate(done, total, rate)
                ),
                lambda stage, *_: bar.show_progress(0, None, stage),
            )
    else:
        yield _PlainRecordLines().show, lambda stage, *_: say(stage)


class _PlainRecordLines:
    def __init__(self) -> None:
        self._told, self._words = -1, ""

    def show(self, done: int, total: int, rate: float, words: str) -> None:
        """A line for each part, and for each new word."""
        part = done * PLAIN_SHARE // total
        if part > self._told or words != self._words:
            self._told, self._words = part, words
            say(f"{done}/{total} records, {describe_rate(done, total, rate)}{words and f'; {words}'}")


def list_predict_lines(summary: Mapping[str, Any]) -> list[str]:
    """How it went; summary: as report.json has it."""
    rate = summary["rate"]
    lines = [
        f"{summary['committed']} of {summary['records']} records in {summary['file']}"
        + ("" if rate is None else f", {rate:.4g} records/s in {format_duration(summary['seconds'])}")
    ]
    if summary["useful_share"] is not None:
        lines.append(
            f"useful share {summary['useful_share']:.1%}: of what all workers could have computed in that time"
        )
    lines += [
        f"{one['name']}: {one['records']} records"
        + ("" if one["rate"] is None else f", {one['rate']:.4g}/s while busy")
        for one in summary["workers"]
    ]
    if summary["failed"]:
        told = ", ".join(f"{count} {reason}" for reason, count in summary["reasons"].items())
        lines.append(f"{summary['failed']} records failed ({told}); their rows are NaN, their status says why")
    return [*lines, f"report: {Path(summary['file']).with_name(PAGE)}"]
