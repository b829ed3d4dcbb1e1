"""`tfperf compare`: finished runs, or finished sweeps, set side by side; what differs by more than chance may do."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfperf.errors import RunDirectoryError
from tfperf.report.compare import Change, Comparison
from tfperf.results.contents import CARD
from tfperf.results.reading import read_text
from tfperf.results.rundir import holds_run
from tfperf.study.compare_sweeps import sweeps
from tfperf.study.sweep_folder import FILE
from tfperf.workloads.pdf.compare import fits
from tfperf.workloads.translate.compare import translations

FIRST_LINE = "workload: translate"


@dataclass(frozen=True)
class _Kind:
    """Folders of one kind: how they are told, and how two of them are compared."""

    name: str
    is_one: Callable[[Path], bool]
    changes: Callable[[Path, Path], tuple[list[Change], list[str]]]


def _is_translation(folder: Path) -> bool:
    card = folder / CARD
    return holds_run(folder) and os.path.lexists(card) and read_text(card, errors="replace").startswith(FIRST_LINE)


KINDS = (
    _Kind("translation", _is_translation, translations),
    _Kind("fit of replicas", holds_run, fits),
    _Kind("sweep", lambda folder: (folder / FILE).is_file(), sweeps),
)


def compare(folders: Sequence[Path]) -> list[Comparison]:
    """Each of the folders against the first one.

    Raises: RunDirectoryError for folders that are no run and no sweep, of different kinds, not finished or damaged.
    """
    kinds = [_kind(folder) for folder in folders]
    for folder, kind in zip(folders, kinds, strict=True):
        if kind is not kinds[0]:
            what = f"{folder}: is a {kind.name}, {folders[0]} is a {kinds[0].name}"
            raise RunDirectoryError(f"{what}; two of the same kind can be compared")
    return [Comparison(str(folders[0]), str(other), *kinds[0].changes(folders[0], other)) for other in folders[1:]]


def _kind(folder: Path) -> _Kind:
    for kind in KINDS:
        if kind.is_one(folder):
            return kind
    what = "no such folder" if not folder.exists() else "is neither a run nor a sweep"
    raise RunDirectoryError(f"{folder}: {what}; allowed: what `tfperf fit` or `tfperf sweep` has finished")
