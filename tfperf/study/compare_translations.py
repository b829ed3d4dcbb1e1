"""Two finished translations: time of a step, losses, scores."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfperf.errors import RunDirectoryError
from tfperf.report.compare import Change
from tfperf.results.contents import REPORT
from tfperf.study.compare_fits import refuse_unfinished, times

Report = Mapping[str, Any]
LOSSES = {"validation_best": "lowest validation loss per label", "training_last": "training loss per label, last steps"}
SCORES = {"greedy": "greedy", "beam": "beam search"}


def translations(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two runs, and what to know about it. Raises: RunDirectoryError."""
    a, b = _read(before), _read(now)
    return [*times(a, b), *_figures(a, b)], [
        "ms per step: from quartile to quartile of the calls of one run each; runs differ more: sweep with repeats",
        "losses and scores: one figure a run, so no interval; seeds of their own would give one",
    ]


def _read(folder: Path) -> Report:
    refuse_unfinished(folder)
    path = folder / REPORT
    try:
        report: Report = json.loads(path.read_text(encoding="utf-8"))
        _ = {**report["ms_per_step"]}, {**report["loss"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path}: damaged or not of a translation ({error})") from None
    return report


def _figures(a: Report, b: Report) -> Iterator[Change]:
    """Losses, and scores where both have them."""
    for key, words in LOSSES.items():
        yield _change(words, a["loss"][key], b["loss"][key])
    for key, words in SCORES.items():
        x, y = ((report.get("scores") or {}).get(key) or {} for report in (a, b))
        for name in (name for name in x if name in y):
            yield _change(f"{name.upper() if name == 'bleu' else 'chrF'}, {words}", x[name], y[name])


def _change(name: str, before: float, now: float) -> Change:
    return Change(name, before, now, now - before, None, None)
