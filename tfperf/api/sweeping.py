"""`tfperf.sweep`: a card, or a Keras model of the program's own, at every point of some keys."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.api.fitting import is_card
from tfperf.api.records import SweepResult
from tfperf.errors import CardError
from tfperf.report.study_progress import show_progress
from tfperf.results.files import make_folder, write_atomically
from tfperf.study.placements import write_report
from tfperf.study.sweep import run_sweep

CODE = "_code"  # after the name of a sweep's folder: what its card names


def sweep(
    build: Any,
    data: Any = None,
    output: Path | str | None = None,
    *,
    keys: Mapping[str, Sequence[Any]] | None = None,
    repeats: int | None = None,
    settings: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    on: str | None = None,
    retry_failed: bool = False,
    quiet: bool = True,
) -> SweepResult:
    """Measure the steps of a model at every combination of values of some keys, each trial in a fresh process.

    build: a function that returns a keras.Model, or how a card names one; or the path of a card with a sweep block.
    data: a function that returns arrays or a dataset, or arrays (x, y) or (x, y, sample weights). output: the folder of
    results; the same call goes on where it was. keys: full keys of a card, arguments of the functions included
    (`model.arguments.units`), each with its values. settings: values of other keys; `sweep.*` tells how trials are
    measured.

    Example:
        found = tfperf.sweep(build_model, load_data, "sweeps/units",
                             keys={"model.arguments.units": [32, 64], "data.batch": [32, 128]})
        found.to_pandas()

    Raises: UserError for what no fresh process can have, faulty cards or folders; Stopped when a signal came.
    """
    if is_card(build):
        if settings or keys or repeats:
            raise CardError("keys: a card says that itself; name overrides=['key.sub=value'] for another value")
        card, folder = Path(build), _check_output(output if output is not None else data)
    else:
        folder = _check_output(output)
        card = _write_card(build, data, folder, keys, repeats, settings or {})
    report = run_sweep(card, overrides, folder, partial(show_progress, quiet), on, retry_failed)
    write_report(folder, report)
    return SweepResult(report, folder)


def _check_output(output: Any) -> Path:
    if output is None:
        raise CardError("output: missing; must be the folder of results")
    return Path(output)


def _write_card(
    build: Any, data: Any, output: Path, keys: Mapping[str, Sequence[Any]] | None, repeats: int | None,
    settings: Mapping[str, Any],
) -> Path:  # fmt: skip
    """The card of a sweep, beside its folder, with what it names that only this program has."""
    from tfperf.sources.references import name_function
    from tfperf.workloads.keras.given import GivenCard, to_yaml

    if not keys:
        raise CardError("keys: missing; must be full keys of a card, each with a list of values")
    folder = output.with_name(f"{output.name}{CODE}")
    more = {"train.epochs": 1_000_000, **settings} if "train.steps" not in settings else dict(settings)
    block = {"sweep.keys": keys, **({} if repeats is None else {"sweep.repeats": repeats})}
    given = GivenCard(
        build, _keep_arrays(data, folder), {**more, **block}, lambda f, key: name_function(f, folder, key)
    )
    if given.objects:
        what = ", ".join(sorted(given.objects))
        raise CardError(
            f"{what}: an object of this process, which a fresh one has not; give a function that returns it"
        )
    make_folder(folder)
    path = folder / "card.yaml"
    with write_atomically(path) as temporary:
        temporary.write_text(to_yaml(given.card), encoding="utf-8")
    return path


def _keep_arrays(data: Any, folder: Path) -> Any:
    """Arrays as a file of them; anything else as it is."""
    parts = data if isinstance(data, tuple) else (data,)
    if not 1 <= len(parts) <= 3 or not all(isinstance(part, np.ndarray) for part in parts):
        return data
    make_folder(folder)
    names = ("x", "y", "weights")[: len(parts)]
    with write_atomically(folder / "data.npz") as temporary, temporary.open("wb") as stream:
        np.savez(stream, **dict(zip(names, parts, strict=True)))
    keys = {"file": str((folder / "data.npz").resolve())}
    return {
        **keys,
        **({"weights": "weights"} if "weights" in names else {}),
        **({"targets": []} if len(names) == 1 else {}),
    }
