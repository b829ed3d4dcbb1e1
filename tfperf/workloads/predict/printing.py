"""What `tfperf predict` says while it works, and at its end."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import TextColumn

from tfperf.console.live import LiveBar, make_fixed_column
from tfperf.console.screen import find_terminal
from tfperf.console.stages import ShowStage, format_duration, format_interval, show_nothing
from tfperf.console.words import say
from tfperf.report.numbers import format_rate
from tfperf.results.contents import PAGE
from tfperf.workloads.predict.progress import PredictionState, ShowRecords

PLAIN_SHARE = 20  # lines about, of a whole prediction, where there is no terminal
MOST_WORKERS = 8  # whose shares are shown


@contextmanager
def show_predicting(quiet: bool = False) -> Iterator[tuple[ShowRecords, ShowStage]]:
    """Two functions: one to tell how far a prediction is, one for stages."""
    if quiet:
        yield (lambda state: None), show_nothing
    elif (console := find_terminal()) is not None:
        columns = TextColumn("{task.fields[time]}", table_column=make_fixed_column())
        with LiveBar("records", columns, console=console) as bar:
            yield (
                lambda state: bar.show_progress(
                    state.done, state.total, "; ".join(list_words(state)), describe_pace(state)
                ),
                lambda stage, *_: bar.show_progress(0, None, stage),
            )
    else:
        yield _PlainRecordLines().show, lambda stage, *_: say(stage)


class _PlainRecordLines:
    def __init__(self) -> None:
        self._told, self._words = -1, ""

    def show(self, state: PredictionState) -> None:
        """A line for each part, and for each new thing that happened."""
        part = state.done * PLAIN_SHARE // state.total
        if part > self._told or state.words != self._words:
            self._told, self._words = part, state.words
            pace = describe_pace(state)
            say("; ".join([f"{state.done}/{state.total} records" + (pace and f", {pace}"), *list_words(state)]))


def describe_pace(state: PredictionState) -> str:
    """Rate, and time left with its interval; nothing where there is no rate.

    >>> from tfperf.measure.confidence import ConfidenceInterval
    >>> describe_pace(PredictionState(1000, 4000, 250.0, ConfidenceInterval(12.0, 11.0, 13.0)))
    '250/s, 12 s [11 s, 13 s] left'
    >>> describe_pace(PredictionState(4000, 4000, 250.0))
    '250/s'
    """
    left = state.left
    if not state.rate:
        return ""
    if left is None or state.done == state.total:
        return f"{format_rate(state.rate, 3)}/s"
    return f"{format_rate(state.rate, 3)}/s, {format_interval(left.value, left.low, left.high)} left"


def list_words(state: PredictionState) -> list[str]:
    """Useful share, shares of workers, and what happened last."""
    found = [] if state.useful_share is None else [f"useful share {state.useful_share:.0%}"]
    if len(state.shares) > 1:
        named = [f"{name} {share:.0%}" for name, share in state.shares[:MOST_WORKERS]]
        more = len(state.shares) - MOST_WORKERS
        found.append(", ".join(named) + (f" and {more} more" if more > 0 else ""))
    return [*found, *([state.words] if state.words else [])]


def list_predict_lines(summary: Mapping[str, Any]) -> list[str]:
    """How it went; summary: as report.json has it."""
    rate = summary["rate"]
    lines = [
        f"{summary['committed']} of {summary['records']} records in {summary['file']}"
        + ("" if rate is None else f", {format_rate(rate)} records/s in {format_duration(summary['seconds'])}")
    ]
    if summary["useful_share"] is not None:
        lines.append(
            f"useful share {summary['useful_share']:.1%}: of what all workers could have computed in that time"
        )
    lines += [
        f"{one['name']}: {one['records']} records"
        + ("" if one["rate"] is None else f", {format_rate(one['rate'])}/s while busy")
        for one in summary["workers"]
    ]
    if summary["failed"]:
        told = ", ".join(f"{count} {reason}" for reason, count in summary["reasons"].items())
        lines.append(f"{summary['failed']} records failed ({told}); their rows are NaN, their status says why")
    return [*lines, f"report: {Path(summary['file']).with_name(PAGE)}"]
