"""`tfperf.fit`: a card, or a Keras model of the program's own with its data."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from tfperf.api.given_cards import refuse_output
from tfperf.api.wording import explain_for_python, make_options, refuse_unknown
from tfperf.console.words import show_text
from tfperf.errors import CardError
from tfperf.results.contents import PAGE
from tfperf.runs.fit import fit as fit_card
from tfperf.study.input_choice import settle_card
from tfperf.workloads.cards import resolve_card
from tfperf.workloads.options import Options


def fit(
    model: Any,
    data: Any = None,
    output: Path | str | None = None,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    steps_per_epoch: int | None = None,
    batch: int | Literal["auto"] | None = None,
    validation: Any = None,
    shuffle: bool | None = None,
    callbacks: Sequence[Any] | None = None,
    class_weight: Mapping[int, float] | None = None,
    seed: int | None = None,
    keys: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    resume: bool = False,
    force: bool = False,
    retry_failed: bool = False,
    replicas: int | str | None = None,
    options: Options | None = None,
    quiet: bool = True,
    **unknown: Any,
) -> Any:
    """Train a model, or carry out a card, and return the record of what was found.

    model: a keras.Model, a function that returns one, a .keras file, or `file.py:function`; or a card, or the path of
    one, with the run directory as the second argument. data: arrays x, (x, y) or (x, y, sample weights), a
    tf.data.Dataset, a keras.utils.PyDataset, a function that returns one of these, or a file. validation: a share, or
    data. output: the run directory; None: only the record remains. keys: further keys of a card of workload keras, by
    their full names. A model that is given is trained in place.

    Examples:
        result = tfperf.fit(model, (x, y), epochs=20, batch=32, validation=0.2)
        result = tfperf.fit(build_model, load_data, "runs/mine", epochs=20, keys={"engine.xla": False})
        result = tfperf.fit("card.yaml", "runs/mine")

    resume: go on with the run that was stopped in `output`; a finished one is returned as it is. force: begin again
    where a run is. replicas: of a card that has some, add these; retry_failed: train those that broke once more.
    Raises: UserError for a faulty card, model, data or directory; Interrupted when a signal stopped the training after
    a checkpoint; TypeError for arguments that there are not, with those that are meant.
    """
    refuse_unknown("fit", unknown)
    refuse_output(output)
    settings = {
        "epochs": epochs, "steps": steps, "steps_per_epoch": steps_per_epoch, "batch": batch,
        "validation": validation, "shuffle": shuffle, "callbacks": callbacks, "class_weight": class_weight,
        "seed": seed,
    }  # fmt: skip
    is_model = data is not None or (callable(model) and not isinstance(model, type))
    of_card = is_card(model) or not is_model
    with explain_for_python(objects=not of_card):
        options = make_options(options, resume, force, retry_failed, replicas)
        if of_card:
            refuse_settings(settings, keys)
            return _fit_card(resolve_card(model, overrides), _take_output(data, output), options, quiet)
        _refuse_for_model(data, overrides)
        return _fit_model(model, data, output, settings, keys or {}, options, quiet)


def _refuse_for_model(data: Any, overrides: Sequence[str]) -> None:
    """CardError for what only a card may have, or leave out."""
    if overrides:
        raise CardError("overrides: are of a card's file; name keys={...} for a model")
    if data is None:
        raise CardError("data: missing; must be arrays, a dataset, a function that returns one of these, or a file")


def _fit_model(
    model: Any, data: Any, output: Path | str | None, settings: Mapping[str, Any], keys: Mapping[str, Any],
    options: Options | None, quiet: bool,
) -> Any:  # fmt: skip
    from tfperf.sources.given import give_objects
    from tfperf.sources.references import find_module_reference
    from tfperf.workloads.keras.given import GivenCard, list_keys

    named = {**list_keys(settings), **keys}
    given = GivenCard(model, data, named, lambda function, key: find_module_reference(function))
    with give_objects(given.objects):
        wanted = {"batch": given.card.data.batch, "data.input": given.card.data.input}
        if given.objects and (keys_of_auto := [name for name, value in wanted.items() if value == "auto"]):
            what = ", ".join(sorted(given.objects))
            raise CardError(f"{keys_of_auto[0]}: got auto, which fresh processes decide; {what}: an object of this "
                            "process, give a function that returns it, or a value")  # fmt: skip
        found = _fit_card(given.card, output, options, quiet)
    return found if output is not None else replace(found, path=None)  # whose folder is gone


def _fit_card(card: Any, output: Path | str | None, options: Options | None, quiet: bool) -> Any:
    """What a fit of the card finds, with what is decided before it where the card says auto."""
    with tempfile.TemporaryDirectory(prefix="tfperf-") as temporary:
        settled = settle_card(card, Path(output or f"{temporary}/run"), options or Options())
    found = fit_card(settled.card, output, options=options, quiet=quiet, decided=settled.decided)
    if output is not None and not quiet:
        show_text(f"{Path(output) / PAGE}")
    return found


def is_card(model: Any) -> bool:
    """Whether what a verb was given is a card, or the path of one."""
    if isinstance(model, str | Path):
        return Path(model).suffix.lower() in (".yaml", ".yml") or Path(model).is_dir()
    return hasattr(type(model), "__dataclass_fields__") and isinstance(getattr(model, "workload", None), str)


def refuse_settings(settings: Mapping[str, Any], keys: Mapping[str, Any] | None) -> None:
    """CardError for settings that a card has itself."""
    if given := [name for name, value in {**settings, "keys": keys}.items() if value is not None]:
        raise CardError(
            f"{', '.join(given)}: a card says that itself; name overrides=['key.sub=value'] for another value"
        )


def _take_output(data: Any, output: Path | str | None) -> Path | str | None:
    """The run directory of a card, which may be the second argument."""
    if data is None:
        return output
    if output is not None or not isinstance(data, str | Path):
        raise CardError("data: a card names its data; the second argument of a card is its run directory")
    return data
