"""`tfperf compare`: finished runs, sweeps, or memory studies side by side; what differs by more than chance may do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tfperf.errors import RunDirectoryError
from tfperf.report.compare import Change, Comparison
from tfperf.results.contents import CARD
from tfperf.results.rundir import has_run
from tfperf.runs.unchanged import describe_differences
from tfperf.study.compare_memory import compare_memory
from tfperf.study.compare_sweeps import compare_sweeps
from tfperf.study.sweep_folder import FILE
from tfperf.study.trial_log import MEMORY_FILE
from tfperf.workloads.cards import read_workload_name
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.workload import Workload


@dataclass(frozen=True)
class _Kind:
    """Folders of one kind, and how two of them are compared."""

    title: str
    compare: Callable[[Path, Path], tuple[list[Change], list[str]]]


def compare_folders(folders: Sequence[Path]) -> list[Comparison]:
    """Each of the folders against the first one.

    Raises: RunDirectoryError for folders that are none of these, of different kinds, not finished or damaged.
    """
    kinds = [_find_kind(folder) for folder in folders]
    for folder, kind in zip(folders, kinds, strict=True):
        if kind.title != kinds[0].title:
            what = f"{folder}: is a {kind.title}, {folders[0]} is a {kinds[0].title}"
            raise RunDirectoryError(f"{what}; two of the same kind can be compared")
    return [Comparison(str(folders[0]), str(other), *kinds[0].compare(folders[0], other)) for other in folders[1:]]


def _compare_runs(workload: Workload[Any], before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two runs, and what their cards and files have to do with it."""
    changes, notes = workload.compare(before, now)
    try:
        same = "cards and files are the same" if has_run(before) else "cards are the same"
        found = describe_differences(before, now, workload) or [same]
    except RunDirectoryError as error:  # what was found is of use without them, too
        found = [*error.faults]
    return changes, [*notes, *found]


def _find_kind(folder: Path) -> _Kind:
    if has_run(folder):
        workload = WORKLOADS.get(read_workload_name(folder))
        if not workload.has_verb("compare"):
            raise RunDirectoryError(f"{folder}: runs of workload {workload.name} cannot be compared")
        return _Kind(workload.title, partial(_compare_runs, workload))
    if (folder / FILE).is_file():
        return _Kind("sweep", compare_sweeps)
    if (folder / MEMORY_FILE).is_file():
        return _Kind("memory study", compare_memory)
    if (folder / CARD).is_file() and (workload := WORKLOADS.get(read_workload_name(folder))).has_own_run(folder):
        return _Kind(workload.title, partial(_compare_runs, workload))
    what = "no such folder" if not folder.exists() else "is no run, no sweep and no memory study"
    done = "what `tfperf fit`, `tfperf predict`, `tfperf sweep` or `tfperf memory` has finished"
    raise RunDirectoryError(f"{folder}: {what}; allowed: {done}")
