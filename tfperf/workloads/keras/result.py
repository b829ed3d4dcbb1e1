"""The record of a finished fit of a Keras model."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
from pydantic.dataclasses import dataclass as validated

from tfperf.errors import RunDirectoryError, UserError
from tfperf.report.compare import Change
from tfperf.report.compare_reports import IGNORE_EXTRA, NOTE_OF_TIMES, StepQuartiles, compare_times, read_report
from tfperf.report.numbers import format_figure
from tfperf.results.contents import REPORT, RESULTS
from tfperf.results.files import make_folder, write_atomically
from tfperf.results.reading import read_json
from tfperf.results.tables import make_frame
from tfperf.workloads.keras.files import BEST, FINAL

HISTORY = "history.json"  # of a record that was saved


@dataclass(frozen=True, repr=False)
class KerasResult:
    """What a fit of a Keras model has found.

    summary: report.json; history: each loss and metric after each epoch; path: of the run, None where it is gone;
    trained: the model as it was after the last step, where this process has it.
    """

    summary: Mapping[str, Any]
    history: Mapping[str, Sequence[float]]
    path: Path | None = None
    trained: Any = field(default=None, compare=False)

    def __repr__(self) -> str:
        last = ", ".join(f"{name}={format_figure(value)}" for name, value in self.summary["last"].items())
        return f"KerasResult(epochs={self.summary['epochs']}, steps={self.summary['steps']}, {last})"

    @property
    def model(self) -> Any:
        """The trained keras.Model. Raises: UserError where neither this process nor a folder has it."""
        if self.trained is not None:
            return self.trained
        if self.path is None:
            raise UserError("the run had no folder of its own; name one: tfperf.fit(..., output=FOLDER)")
        from tfperf.sources.models import load_model

        return load_model(self.path / FINAL, "model")

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row for each epoch, counted from 1. Raises: UserError without pandas."""
        frame = make_frame(self.history)
        frame.index = range(1, len(frame) + 1)
        frame.index.name = "epoch"
        return frame

    def save(self, folder: Path | str) -> Path:
        """Write model.keras, best.keras where there is one, history.json and report.json to a folder; returns it."""
        target = Path(folder)
        make_folder(target)
        files = [] if self.path is None else [self.path / name for name in (FINAL, BEST)]
        for file in files:
            if file.is_file():
                shutil.copyfile(file, target / file.name)
        if self.path is None and self.trained is not None:
            from tfperf.workloads.keras.files import write_model

            write_model(self.trained, target / FINAL)
        for name, content in ((HISTORY, self.history), (REPORT, self.summary)):
            with write_atomically(target / name) as temporary:
                temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return target


def read_result(folder: Path, trained: Any = None) -> KerasResult:
    """The record of a finished run; trained: its model, where this process has it. Raises: RunDirectoryError."""
    summary = read_report(folder, dict[str, Any])
    try:
        with h5py.File(folder / RESULTS) as file:
            history = {name: values[()].tolist() for name, values in file.get("history", {}).items()}
    except OSError as error:
        raise RunDirectoryError(f"{folder / RESULTS}: damaged: {error}") from None
    return KerasResult(summary, history, folder, trained)


def read_saved(folder: Path) -> KerasResult:
    """The record that `KerasResult.save` wrote. Raises: RunDirectoryError."""
    try:
        return KerasResult(read_json(folder / REPORT), read_json(folder / HISTORY), folder)
    except OSError as error:
        raise RunDirectoryError(f"{folder}: {error}") from None


@validated(config=IGNORE_EXTRA, frozen=True)
class _Report:
    last: dict[str, float | None]  # None: not finite
    best: dict[str, float] | None
    ms_per_step: StepQuartiles


def compare_fits(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two fits: losses and metrics after the last epoch, the best of them, times of a step.

    Raises: RunDirectoryError for runs that are not finished, damaged or of another kind.
    """
    a, b = (read_report(folder, _Report) for folder in (before, now))
    pairs = [(f"{name} after the last epoch", value, b.last[name]) for name, value in a.last.items() if name in b.last]
    figures = [(name, old, new) for name, old, new in pairs if old is not None and new is not None]
    notes = [f"{name}: not finite in one of them or both" for name, old, new in pairs if old is None or new is None]
    if a.best is not None and b.best is not None:
        figures += [(f"best {name}", a.best[name], b.best[name]) for name in a.best if name in b.best]
    changes = [Change(name, old, new, new - old, None, None) for name, old, new in figures]
    return [*changes, *compare_times(a.ms_per_step, b.ms_per_step)], [
        f"{NOTE_OF_TIMES}; with what ends of epochs take",
        "losses and metrics: one figure a run, so no interval; seeds of their own would give one",
        *notes,
    ]
