"""`tfperf.sweep`: a card, or a Keras model of the program's own, at every point of some keys."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tfperf.api.fitting import is_card
from tfperf.api.given_cards import refuse_output, write_given_card
from tfperf.api.records import SweepResult
from tfperf.errors import CardError
from tfperf.report.study_progress import show_progress
from tfperf.study.placements import write_report
from tfperf.study.sweep import run_sweep


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
        if not keys:
            raise CardError("keys: missing; must be full keys of a card, each with a list of values")
        block = {"sweep.keys": keys, **({} if repeats is None else {"sweep.repeats": repeats})}
        card = write_given_card(build, data, folder, {**(settings or {}), **block})
    report = run_sweep(card, overrides, folder, partial(show_progress, quiet), on, retry_failed)
    write_report(folder, report)
    return SweepResult(report, folder)


def _check_output(output: Any) -> Path:
    if output is None:
        raise CardError("output: missing; must be the folder of results")
    refuse_output(output)
    return Path(output)
