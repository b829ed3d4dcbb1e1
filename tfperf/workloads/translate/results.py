"""The record of a trained translation as one HDF5 file, results.h5, written atomically.

Layout, version 1. N steps, H validations. Checksums, units and texts as in `store`.

    /           attributes: kind ("tfperf translation"), layout (int), title, best_step (whose weights are kept),
                run and digest (whose results they are)
    weights/    one dataset per variable; slashes in a name make groups; attribute `names`: their order
    history/    loss (N) of each step's batch, validation_step (H), validation_loss (H)
    summary     (1) report.json as text
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from tfperf.arrays import ArraysByName, Float64Array, Int64Array
from tfperf.results.files import write_hdf5
from tfperf.results.hdf5 import encode_texts, open_checked, refuse_others, write_array, write_identity, write_texts
from tfperf.results.json_text import to_json
from tfperf.results.state import Identity

KIND = "tfperf translation"
LAYOUT = 1
UNITS = {"loss": "per label", "validation_loss": "per label", "validation_step": "steps"}


@dataclass(frozen=True)
class LossHistory:
    """Losses per label (cross entropy in nats) of a training."""

    loss: Float64Array  # (N) of each step's batch, from step 1 on
    validation_step: Int64Array  # (H) steps taken
    validation_loss: Float64Array  # (H)

    @property
    def best(self) -> int | None:
        """The row of the lowest validation loss, the first of equal ones; None before there is one."""
        return int(np.argmin(self.validation_loss)) if len(self.validation_loss) else None


@dataclass(frozen=True)
class TranslationResult:
    """Everything a training leaves behind; `summary` is report.json."""

    title: str
    best_step: int  # steps after which the validation loss was lowest
    weights: ArraysByName  # of that step
    history: LossHistory
    summary: Mapping[str, Any] = field(default_factory=dict)


def write(path: Path, result: TranslationResult, identity: Identity | None = None) -> None:
    """Write `result` to `path`; what was there before stays until all bytes are on the disk. Raises: StorageError."""
    with write_hdf5(path) as file:
        file.attrs.update({"kind": encode_texts(KIND), "layout": LAYOUT, "title": encode_texts(result.title)})
        write_identity(file, identity)
        file.attrs["best_step"] = result.best_step
        file.create_group("weights").attrs["names"] = encode_texts(*result.weights)
        for name, weights in result.weights.items():
            write_array(file["weights"], name, weights)
        history = file.create_group("history")
        for f in fields(LossHistory):
            write_array(history, f.name, getattr(result.history, f.name), UNITS[f.name])
        write_texts(file, "summary", (to_json(result.summary),))


def read(path: Path, identity: Identity | None = None) -> TranslationResult:
    """The record that `write` stored. Raises: RunDirectoryError where there is none, or it is damaged."""
    with open_checked(path, KIND, LAYOUT) as file:
        refuse_others(path, file, identity)
        loss = file.read_array("history/loss", "float", "H")
        steps = file.read_array("history/validation_step", "integer", "V")
        losses, names = file.read_array("history/validation_loss", "float", "V"), file.read_names("weights")
        return TranslationResult(
            title=file.read_text("", "title"), best_step=int(file.read_number("", "best_step")),
            weights={name: file.read_array(f"weights/{name}", "number", more=True) for name in names},
            history=LossHistory(loss, steps, losses), summary=file.read_summary(),
        )  # fmt: skip
