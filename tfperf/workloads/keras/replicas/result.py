"""The record of a trained ensemble: predictions of its replicas, plain models, one file that holds all.

R replicas, N samples; "..." is the shape of a model's output.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import keras
import numpy as np

from tfperf.arrays import AnyArray, Float64Array
from tfperf.errors import UserError
from tfperf.report.numbers import format_figure
from tfperf.results.contents import RESULTS
from tfperf.results.tables import make_frame
from tfperf.sources.models import load_model
from tfperf.workloads.keras.replicas import outcome as outcomes
from tfperf.workloads.keras.replicas.outcome import EnsembleOutcome, ReplicaTable
from tfperf.workloads.keras.replicas.predicting import ReplicaPredictor, list_weights

MISSING = re.compile(r"Could not locate (?P<kind>class|function) '(?P<name>\w+)'")  # Keras says
FILE = re.compile(r" \S*/model\.keras:")
BATCH = 256  # samples of a call


@dataclass(frozen=True, repr=False)
class EnsembleResult:
    """What a fit of replicas has found; all of it is of each replica's best weights, by the loss that is monitored.

    summary: report.json; replicas: a row for each; history: each loss and metric (E, R) after each of E epochs, nan
    once a replica had stopped; path: of the run or file, None where it is gone.
    """

    outcome: EnsembleOutcome = field(compare=False)
    path: Path | None = None
    template: Any = field(default=None, compare=False)  # a model like each replica's, where this process has it
    custom_objects: Mapping[str, Any] = field(default_factory=dict, compare=False)
    build: Callable[[], keras.Model] | None = field(default=None, compare=False)  # another one, where it has a builder

    def __repr__(self) -> str:
        count, best = self.summary["replicas"], self.summary["best"]["median"]
        told = "n/a" if best is None else format_figure(best)
        return f"EnsembleResult({count['usable']} of {count['total']} replicas, {self.summary['monitored']}={told})"

    @property
    def summary(self) -> Mapping[str, Any]:
        """report.json."""
        return self.outcome.summary

    @property
    def replicas(self) -> ReplicaTable:
        """Ids, seeds, attempts, statuses, best and last epochs (R)."""
        return self.outcome.replicas

    @property
    def history(self) -> Mapping[str, Float64Array]:
        """Each loss and metric (E, R)."""
        return self.outcome.history

    def predict(self, x: Any, batch_size: int = BATCH) -> Any:
        """What each replica predicts (R, N, ...): row i is of replica number `replicas.id[i]`; nan of one that broke
        before its first epoch's end. A dict or tuple of such arrays where the model has several outputs.

        x: arrays, dicts or tuples of them, or a tf.data.Dataset of batches, with targets or without.
        """
        return self._predictor.predict(self.outcome.weights, x, batch_size)

    def mean(self, x: Any, batch_size: int = BATCH) -> Any:
        """The mean over the replicas that did not break (N, ...)."""
        return self._reduce(x, batch_size, lambda values: values.mean(axis=0))

    def std(self, x: Any, batch_size: int = BATCH) -> Any:
        """The standard deviation over these replicas (N, ...), with R - 1 below the sum. Raises: UserError for one."""
        if self.replicas.is_usable.sum() < 2:
            raise UserError("std: of one replica there is no deviation; fit two at least")
        return self._reduce(x, batch_size, lambda values: values.std(axis=0, ddof=1))

    def quantiles(self, x: Any, levels: Sequence[float] | float, batch_size: int = BATCH) -> Any:
        """Quantiles over these replicas (len(levels), N, ...); a number is a list of one.

        Raises: UserError for levels outside 0 to 1.
        """
        try:
            asked = np.atleast_1d(np.asarray(levels, float))
        except (TypeError, ValueError):
            asked = np.zeros(0)
        if asked.ndim != 1 or not asked.size or not np.all((asked >= 0) & (asked <= 1)):
            raise UserError(f"quantiles: got levels {levels!r:.200}; must be numbers from 0 to 1")
        return self._reduce(x, batch_size, lambda values: np.quantile(values, asked, axis=0))

    def _reduce(self, x: Any, batch_size: int, reduce: Callable[[AnyArray], AnyArray]) -> Any:
        good = self.replicas.is_usable
        if not good.any():
            raise UserError("all replicas broke: there is nothing to predict with")
        weights = {name: values[good] for name, values in self.outcome.weights.items()}
        found = self._predictor.predict(weights, x, batch_size)

        def reduce_one(values: AnyArray) -> AnyArray:
            # of whole numbers and truths the mean is none
            kind = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
            return reduce(values.astype(np.float64)).astype(kind)

        return keras.tree.map_structure(reduce_one, found)

    def model(self, replica: int) -> keras.Model:
        """A plain Keras model with the best weights of a replica, by its number, counted from 1.

        Raises: UserError for one there is not, and for a model that cannot be built again.
        """
        ids = self.replicas.id
        if not isinstance(replica, Integral) or isinstance(replica, bool):
            kind = type(replica).__name__
            raise UserError(f"model: got {replica!r:.100} of type {kind}; must be the number of a replica: {ids[0]}")
        if replica not in ids:
            raise UserError(f"model: got replica {replica}; there are {ids[0]} to {ids[-1]}, {len(ids)} in all")
        row = int(np.flatnonzero(ids == replica)[0])
        found = self._make_model()
        for variable, values in zip(list_weights(found), self.outcome.weights.values(), strict=True):
            variable.assign(values[row])
        return found

    @cached_property
    def _predictor(self) -> ReplicaPredictor:
        return ReplicaPredictor(self._make_model() if self.template is None else self.template)

    def _make_model(self) -> keras.Model:
        """A model of its own, by the file of one, else by the builder, else by what this process has."""
        fault = "the model cannot be saved by Keras, and so not be built from this file"
        if self.outcome.model:
            try:
                return self._load_model()
            except UserError as error:
                fault = _explain_missing(str(error), self.path)
        if self.build is not None:
            return self.build()
        if self.template is not None and not self.outcome.model:
            return keras.models.clone_model(self.template)
        raise UserError(fault)

    def _load_model(self) -> keras.Model:
        """By the file of the model; weights may be those that it begins with. Raises: UserError."""
        own = {} if self.template is None else list_own_classes(self.template)
        objects, weights = own | dict(self.custom_objects), self.outcome.weights.values()
        with TemporaryDirectory(prefix="tfperf-") as folder:
            path = Path(folder) / "model.keras"
            path.write_bytes(self.outcome.model)
            try:
                return load_model(path, "model", objects)
            except UserError:
                if (found := build_by_config(path, objects, [one.shape[1:] for one in weights])) is None:
                    raise
                return found

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with a row for each replica. Raises: UserError without pandas."""
        table = self.replicas
        frame = make_frame({name: getattr(table, name) for name in outcomes.INTEGERS} | {"status": table.status})
        return frame.set_index("id")

    def save(self, path: Path | str) -> Path:
        """Write all to one file, which `tfperf.load` reads; returns its path. Raises: StorageError."""
        target = Path(path)
        if not self.outcome.model:
            raise UserError(f"save: {target}: Keras cannot save the model, so a file could not be read; keep the run")
        outcomes.write(target, self.outcome)
        return target


def read_ensemble(path: Path, custom_objects: Mapping[str, Any] | None = None) -> EnsembleResult:
    """The record of a finished run, or of a file that `save` wrote. Raises: RunDirectoryError."""
    file = path / RESULTS if path.is_dir() else path
    return EnsembleResult(outcomes.read(file), path, custom_objects=custom_objects or {})


def list_own_classes(model: keras.Model) -> dict[str, type]:
    """The classes of a model and its layers that are not Keras' own, by name."""
    kinds = {type(one) for one in (model, *model._flatten_layers())}
    return {kind.__name__: kind for kind in kinds if not kind.__module__.startswith("keras.")}


def build_by_config(path: Path, objects: Mapping[str, Any], shapes: Sequence[tuple[int, ...]]) -> keras.Model | None:
    """The model of a .keras file without its weights, which Keras finds in classes of one's own by the names of layers:
    others than the file has where the process made layers before. None where its weights are not of these shapes."""
    try:
        with ZipFile(path) as file:
            config = json.loads(file.read("config.json"))
        found = keras.saving.deserialize_keras_object(config, custom_objects=dict(objects), safe_mode=True)
    except Exception:  # of the user's own classes
        return None
    fits = isinstance(found, keras.Model) and [tuple(one.shape) for one in list_weights(found)] == [*shapes]
    return found if fits else None


def _explain_missing(fault: str, path: Path | None) -> str:
    """Why a model cannot be built, with what can be done; the file that it was read from is gone by then."""
    if (found := MISSING.search(fault)) is None:
        return FILE.sub("", fault)
    name = found["name"]
    return (
        f"model: {found['kind']} {name} of your own is missing: register it by "
        "@keras.saving.register_keras_serializable() and import its file before, or name it: "
        f"tfperf.load({str(path)!r}, custom_objects={{{name!r}: {name}}})"
    )
