"""`tfperf.input_report`: whether a model waits for its data, how many workers would do, and what to write."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfperf.api.fitting import is_card
from tfperf.api.given_cards import name_given, refuse_output, write_card
from tfperf.api.records import InputResult
from tfperf.errors import CardError
from tfperf.report.study_progress import show_progress
from tfperf.study.input import run_input_study
from tfperf.workloads.cards import load_checked_card

MOST_SECONDS = 3600  # of a measurement
MOST_WORKERS = 256


def input_report(
    data: Any,
    model: Any = None,
    output: Path | str | None = None,
    *,
    workers: int | None = None,
    sweep: bool = False,
    seconds: float = 10.0,
    batch: int | None = None,
    settings: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    timeout: float = 600.0,
    quiet: bool = True,
) -> InputResult:
    """Measure a model and its data alone and together, and tell who waits for whom, and what to change.

    data: a function that returns a tf.data.Dataset or a keras.utils.PyDataset of batches (x, y) or (x, y, weights), or
    arrays (N, ...); or one of these itself; or the path of a card, after which the folder of results may come in the
    model's place. model: a function that returns a compiled keras.Model, how a card names one, or a keras.Model, whose
    weights and optimizer are put back. output: the folder of results, where the same call goes on; by default a
    temporary one. workers: rates are predicted for so many at most, 2 to 256, by default 8 or twice the cores; sweep:
    measure each of them, too. batch: samples, of arrays; by default the card's 32. settings: values of other keys of a
    card, as {"train.loss": "mse"} for a model that is not compiled. overrides: KEY=VALUE of a card. seconds: of each
    measurement, 1 to 3600. timeout: seconds of a trial at most, 1 to 86400.

    Functions, arrays and cards are measured in fresh processes. A model, a tf.data.Dataset or a PyDataset that is given
    itself cannot be sent to another process: it is measured in this one, without a sweep, nothing of it is taken up
    later, and other numbers of workers are tried of a tf.data.Dataset alone, since another's object would have to be
    changed for it. A generator that is given itself is used up by it.

    Example:
        found = tfperf.input_report(load_data, build_model, "studies/input")
        print(*found.lines, sep="\\n")

    Raises: CardError for faulty cards, models, data and numbers; RunDirectoryError for the folder; TrainingError where
    a trial fails or takes too long; StorageError for the disk; Stopped when a signal came. All but the last are
    UserErrors.
    """
    refuse_output(output)
    _refuse_numbers({"seconds": (seconds, MOST_SECONDS), "timeout": (timeout, 86_400)}, workers)
    if is_card(data):
        folder = Path(output if output is not None else model if model is not None else tempfile.mkdtemp())
        card = load_checked_card(Path(data), overrides)
    else:
        _refuse_model(data)
        if model is None:
            raise CardError("model: missing; must be a function that returns a keras.Model, or a keras.Model")
        folder = Path(output) if output is not None else Path(tempfile.mkdtemp(prefix="tfperf-")) / "input"
        keys = {"data.batch": batch, **(settings or {})}
        given = name_given(model, data, folder, {key: value for key, value in keys.items() if value is not None})
        if given.objects:
            return _measure_objects(given, Path(output) if output is not None else None, sweep, seconds, workers, quiet)
        card = load_checked_card(write_card(given, folder), overrides)
    with show_progress(quiet) as show:
        report = run_input_study(card, folder, show, sweep=sweep, seconds=seconds, timeout=timeout, most=workers)
    return InputResult(report, folder)


def _refuse_model(data: Any) -> None:
    """CardError for a model in the data's place, as in `tfperf.fit`, where it is the first."""
    keras = sys.modules.get("keras")  # where it was never imported there is no model of it
    if keras is not None and isinstance(data, keras.Model):
        raise CardError(
            f"data: got the keras.Model {data.name}; the data come first, the model second: input_report(data, model)"
        )


def _measure_objects(
    given: Any, output: Path | None, sweep: bool, seconds: float, workers: int | None, quiet: bool
) -> InputResult:
    from tfperf.sources.given import give_objects
    from tfperf.study.input_given import measure_given_input

    if sweep:
        what = ", ".join(sorted(given.objects))
        raise CardError(f"sweep: needs fresh processes; {what}: an object of this one, give a function that returns it")
    with give_objects(given.objects), show_progress(quiet) as show:
        return InputResult(measure_given_input(given.card, output, show, seconds, workers), output)


def _refuse_numbers(limits: Mapping[str, tuple[Any, int]], workers: Any) -> None:
    """CardError for what is no number, or out of range."""
    for name, (value, most) in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= most:
            raise CardError(f"{name}: got {value!r}; must be seconds from 1 to {most}")
    if workers is not None and (
        isinstance(workers, bool) or not isinstance(workers, int) or not 2 <= workers <= MOST_WORKERS
    ):
        raise CardError(f"workers: got {workers!r}; must be a number of workers from 2 to {MOST_WORKERS}")
