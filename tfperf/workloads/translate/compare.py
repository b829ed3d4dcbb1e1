"""Two finished translations: time of a step, losses, scores."""

from collections.abc import Iterator
from pathlib import Path

from pydantic.dataclasses import dataclass

from tfperf.report.compare import Change
from tfperf.report.compare_reports import PART, Figure, Times, compare_times, read_report

LOSSES = {"validation_best": "lowest validation loss per label", "training_last": "training loss per label, last steps"}
SCORES = {"greedy": "greedy", "beam": "beam search"}


@dataclass(config=PART, frozen=True)
class Losses:
    """Per label."""

    validation_best: Figure
    training_last: Figure


@dataclass(config=PART, frozen=True)
class Report:
    """What is compared of report.json."""

    ms_per_step: Times
    loss: Losses
    scores: dict[str, dict[str, Figure] | None] | None = None


def translations(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two runs, and what to know about it. Raises: RunDirectoryError."""
    a, b = read_report(before, Report), read_report(now, Report)
    return [*compare_times(a.ms_per_step, b.ms_per_step), *_figures(a, b)], [
        "ms per step: from quartile to quartile of the calls of one run each; runs differ more: sweep with repeats",
        "losses and scores: one figure a run, so no interval; seeds of their own would give one",
    ]


def _figures(a: Report, b: Report) -> Iterator[Change]:
    """Losses, and scores where both have them."""
    for key, words in LOSSES.items():
        yield _change(words, getattr(a.loss, key), getattr(b.loss, key))
    for key, words in SCORES.items():
        x, y = ((report.scores or {}).get(key) or {} for report in (a, b))
        for name in (name for name in x if name in y):
            yield _change(f"{name.upper() if name == 'bleu' else 'chrF'}, {words}", x[name], y[name])


def _change(name: str, before: float, now: float) -> Change:
    return Change(name, before, now, now - before, None, None)
