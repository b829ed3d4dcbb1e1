"""`tfperf.ensemble`: independent copies of any Keras model, trained in one program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfperf.api.fitting import fit as fit_model
from tfperf.api.wording import explain_for_python, refuse_unknown
from tfperf.arrays import FloatArray
from tfperf.errors import CardError
from tfperf.workloads.options import Options, parse_replicas


@dataclass(frozen=True)
class EnsembleSetup:
    """Copies of a model that are still to be trained, see `tfperf.ensemble`."""

    model: Any
    settings: Mapping[str, Any] = field(default_factory=dict)  # by full keys of a card

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int,
        batch_size: int | None = None,
        validation: Any = None,
        sample_weight: Any = None,
        callbacks: Sequence[Any] | None = None,
        run: Path | str | None = None,
        resume: bool = False,
        force: bool = False,
        retry_failed: bool = False,
        replicas: int | str | None = None,
        keys: Mapping[str, Any] | None = None,
        options: Options | None = None,
        quiet: bool = True,
        **unknown: Any,
    ) -> Any:
        """Train all copies, each as if alone, and return the record: predictions, bands, plain models.

        x, y, sample_weight: arrays, or dicts or tuples of them; or x alone a function that returns (x, y), a dataset of
        batches, or a file. callbacks: Keras' own objects, of which each copy gets one like it, or functions that return
        one; they are called by epochs.
        batch_size: 32 where it is left out. validation: a share of the samples, the last ones, or (x, y). run: the run
        directory; None: only the record remains. keys: further keys of a card, by their full names.
        resume: go on with the run that was stopped there; a finished one is returned as it is. force: begin again where
        a run is. replicas: add these to a finished run ("51-60"). retry_failed: train those that broke once more.

        Raises: UserError for a faulty model, data or directory; Interrupted when a signal stopped the training after a
        checkpoint; TypeError for arguments that there are not, with those that are meant.
        """
        refuse_unknown("fit", unknown)
        if y is not None and _is_whole(x):
            raise CardError(f"y: must be left out for x of type {type(x).__name__}, which gives inputs and targets")
        if sample_weight is not None and y is None:
            raise CardError("sample_weight: needs y")
        parts = [x, y, sample_weight]
        data = x if y is None else tuple(parts[: 3 if sample_weight is not None else 2])
        named = {**self.settings, **(keys or {})}
        return fit_model(
            self.model, data, run, epochs=epochs, batch=batch_size, validation=validation, callbacks=callbacks,
            keys=named, resume=resume, force=force, retry_failed=retry_failed, replicas=replicas, options=options,
            quiet=quiet,
        )  # fmt: skip


def _is_whole(x: Any) -> bool:
    """Whether it gives inputs and targets: a dataset, a loader, a function or a path."""
    names = {kind.__name__ for kind in type(x).__mro__}
    is_dataset = hasattr(x, "element_spec") or bool(names & {"PyDataset", "DataLoader"})
    return is_dataset or callable(x) or isinstance(x, str | Path)


def ensemble(
    model: Any,
    *,
    replicas: int | str,
    seed: int = 0,
    data: Any = "all",
    learning_rate: float | Sequence[float] | FloatArray | None = None,
    loss_weight: float | Sequence[float] | FloatArray | None = None,
    patience: int | None = None,
    same_start: bool = False,
    form: str = "auto",
    **unknown: Any,
) -> EnsembleSetup:
    """R independent copies of a Keras model, to be trained in one program.

    model: a function that returns a keras.Model, `file.py:function`, or with same_start a keras.Model or a .keras file.
    replicas: how many, or a range of ids ("101-200"): what replica 17 becomes depends on its id and the seed alone.
    data: "all"; "bootstrap": as many samples, drawn with replacement; or masks, bool (R, N). learning_rate and
    loss_weight: a number, or one for each. patience: validations without a better loss after which a replica stops.

    Example:
        fit = tfperf.ensemble(build_model, replicas=50, data="bootstrap", patience=20).fit(x, y, epochs=200,
                                                                                         validation=0.25)
        fit.mean(x), fit.std(x), fit.quantiles(x, [0.16, 0.84]), fit.model(17)

    Raises: CardError for settings that no card may have; TypeError for arguments that there are not.
    """
    refuse_unknown("ensemble", unknown)
    settings = {
        "replicas": replicas, "seed": seed, "ensemble.data": data, "ensemble.learning_rate": learning_rate,
        "ensemble.loss_weight": loss_weight, "ensemble.patience": patience, "ensemble.same_start": same_start,
        "engine.form": form,
    }  # fmt: skip
    chosen = {key: value for key, value in settings.items() if value is not None}
    _refuse_settings(chosen)
    return EnsembleSetup(model, chosen)


def _refuse_settings(settings: Mapping[str, Any]) -> None:
    """CardError for what a card cannot have, whatever its model and data are."""
    from tfperf.workloads.keras.given import GivenCard

    with explain_for_python():
        if isinstance(ids := settings["replicas"], str):
            parse_replicas(ids)
        _ = GivenCard(object(), object(), {**settings, "train.epochs": 1}).card
