"""Two finished translations: time of a step, losses, scores."""

from collections.abc import Iterator
from pathlib import Path

from pydantic.dataclasses import dataclass

from tfperf.report.compare import Change
from tfperf.report.compare_reports import (
    IGNORE_EXTRA,
    NOTE_OF_TIMES,
    FiniteNumber,
    StepQuartiles,
    compare_times,
    read_report,
)

LOSSES = {"validation_best": "lowest validation loss per label", "training_last": "training loss per label, last steps"}
SCORES = {"greedy": "greedy", "beam": "beam search"}


@dataclass(config=IGNORE_EXTRA, frozen=True)
class ReportedLosses:
    """Per label."""

    validation_best: FiniteNumber
    training_last: FiniteNumber


@dataclass(config=IGNORE_EXTRA, frozen=True)
class TranslationReport:
    """What is compared of report.json."""

    ms_per_step: StepQuartiles
    loss: ReportedLosses
    scores: dict[str, dict[str, FiniteNumber] | None] | None = None


def compare_translations(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two runs, and what to know about it. Raises: RunDirectoryError."""
    a, b = read_report(before, TranslationReport), read_report(now, TranslationReport)
    return [*compare_times(a.ms_per_step, b.ms_per_step), *_compare_figures(a, b)], [
        NOTE_OF_TIMES,
        "losses and scores: one figure a run, so no interval; seeds of their own would give one",
    ]


def _compare_figures(a: TranslationReport, b: TranslationReport) -> Iterator[Change]:
    """Losses, and scores where both have them."""
    for key, words in LOSSES.items():
        yield _make_change(words, getattr(a.loss, key), getattr(b.loss, key))
    for key, words in SCORES.items():
        x, y = ((report.scores or {}).get(key) or {} for report in (a, b))
        for name in (name for name in x if name in y):
            yield _make_change(f"{name.upper() if name == 'bleu' else 'chrF'}, {words}", x[name], y[name])


def _make_change(name: str, before: float, now: float) -> Change:
    return Change(name, before, now, now - before, None, None)
