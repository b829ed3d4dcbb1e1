"""`tfperf.profile`, `tfperf.compare`, `tfperf.load`: what the verbs of the command line find, as records."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfperf.api.fitting import is_card
from tfperf.api.given_cards import refuse_output
from tfperf.api.records import ComparisonResult, ProfileResult, SweepResult
from tfperf.errors import RunDirectoryError
from tfperf.results.contents import RESULTS
from tfperf.results.rundir import has_run


def profile(
    model: Any,
    data: Any = None,
    output: Path | str | None = None,
    *,
    keys: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    repeat: int = 1,
    quiet: bool = True,
    **settings: Any,
) -> ProfileResult:
    """Record steps of a model's training and tell where their time goes.

    model, data, keys and settings: as `tfperf.fit` has them; or the path of a card, or of a profile, a run or a log
    directory. output: the folder of the profile and its report.

    Example:
        found = tfperf.profile(model, (x, y), "profiles/mine", batch=128)
        found.to_pandas()

    Raises: UserError for faulty cards and models; TraceError for what is no profile.
    """
    from tfperf.report.profile import read_profile
    from tfperf.report.profile_files import prepare_folder, write_profile
    from tfperf.runs.recording import record_card
    from tfperf.workloads.cards import load_checked_card

    if isinstance(model, str | Path) and not str(model).endswith((".yaml", ".yml")) and data is None:
        return ProfileResult(read_profile(Path(model))[1], Path(model))
    refuse_output(output)
    folder = Path(output or tempfile.mkdtemp(prefix="tfperf-profile-"))
    if is_card(model):
        card = load_checked_card(Path(model), overrides) if isinstance(model, str | Path) else model
        record_card(card, folder, repeat, quiet=quiet)
    else:
        from tfperf.sources.given import give_objects
        from tfperf.workloads.keras.given import GivenCard, list_keys

        chosen = {"train.epochs": 1_000_000, **list_keys(settings), **(keys or {})}
        if "train.steps" in chosen:
            del chosen["train.epochs"]
        given = GivenCard(model, data, chosen)
        with give_objects(given.objects):
            record_card(given.card, folder, repeat, quiet=quiet)
    found, record = read_profile(folder)
    prepare_folder(folder)
    write_profile(folder, found, record, folder.name)
    return ProfileResult(record, folder)


def compare(*folders: Path | str) -> ComparisonResult:
    """Tell what differs between finished runs, or sweeps: each of the others against the first.

    Raises: RunDirectoryError for folders that are no run and no sweep, of different kinds, not finished or damaged.
    """
    from tfperf.study.compare import compare_folders

    if len(folders) < 2:
        raise RunDirectoryError("compare: takes two folders at least")
    return ComparisonResult(compare_folders([Path(folder) for folder in folders]))


def load(folder: Path | str, *, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """The record of a finished run or sweep, as `tfperf.fit` or `tfperf.sweep` returned it, or that it saved.

    A file is an ensemble that was saved; custom_objects: the classes and functions of your own that its model has, by
    name. Raises: RunDirectoryError for what is none of these, not finished or damaged.
    """
    from tfperf.study.sweep_folder import FILE, read_report
    from tfperf.workloads.cards import read_workload_name
    from tfperf.workloads.keras.replicas.outcome import is_ensemble
    from tfperf.workloads.keras.result import HISTORY, read_saved
    from tfperf.workloads.registry import WORKLOADS

    if not isinstance(folder, str | os.PathLike):
        raise RunDirectoryError(f"load: got {type(folder).__name__}; must be the path of a folder or file")
    path = Path(folder)
    if path.is_file() or is_ensemble(path / RESULTS):
        from tfperf.workloads.keras.replicas.result import read_ensemble

        return read_ensemble(path, custom_objects)
    if has_run(path):
        return WORKLOADS.get(read_workload_name(path)).read_result(path)
    if (path / FILE).is_file():
        return SweepResult(read_report(path), path)
    if (path / HISTORY).is_file():
        return read_saved(path)
    what = "no such folder" if not path.exists() else "is neither a run nor a sweep"
    raise RunDirectoryError(f"{path}: {what}; allowed: what `tfperf fit` or `tfperf sweep` has finished")
