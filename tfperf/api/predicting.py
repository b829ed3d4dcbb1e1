"""`tfperf.predict`: a Keras model over many records, into one file that survives any end."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from tfperf.api.fitting import is_card
from tfperf.api.given_cards import refuse_output
from tfperf.api.records import StudyRecord
from tfperf.arrays import AnyArray
from tfperf.errors import CardError
from tfperf.workloads.cards import load_checked_card, resolve_card


@dataclass(frozen=True, repr=False)
class PredictResult(StudyRecord):
    """What was computed. summary: report.json; path: the HDF5 file."""

    summary: Mapping[str, Any]
    path: Path

    def __repr__(self) -> str:
        found = self.summary
        return f"PredictResult(records={found['records']}, failed={found['failed']}, file={str(self.path)!r})"

    def read_rows(self, name: str | None = None) -> AnyArray:
        """(records, ...) of an output, by default the only one, NaN where records failed. Raises: KeyError for another
        name, and where there are several outputs."""
        with h5py.File(self.path) as file:
            names = [one for one in file if one not in ("ids", "status", "finished")]
            if name is None and len(names) != 1:
                raise KeyError(f"name: must be one of {', '.join(names)}")
            found: AnyArray = file[names[0] if name is None else name][:]
            return found

    def list_rows(self) -> list[Mapping[str, Any]]:
        """A worker each."""
        return list(self.summary["workers"])

    def get_content(self) -> Any:
        """The summary."""
        return dict(self.summary)


def predict(
    model: Any, source: Any, output: Path | str | None = None, *, preprocess: Any = None, columns: Sequence[str] = (),
    id: str | None = None, batch: int | Mapping[str, int] | None = None, keys: Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (), resume: bool = False, yes: bool = False, quiet: bool = True,
) -> PredictResult:  # fmt: skip
    """Run a model over all records, each exactly once, by processes on all devices; rows go to one HDF5 file.

    model: a keras.Model, a function that returns one, a .keras file, or `file.py:function`; or the path of a card of
    workload predict, after which the run directory comes in the source's place. source: globs of HDF5, Parquet, .npy
    or text files (a record in each line), told by their suffix; an array (N, ...); or a list of texts. preprocess: a
    function from a dict of columns, of n records, to a dict of the model's inputs; or `file.py:function`, which returns
    such a function; or a file, as a card names it. columns, id: as a card's source has them. batch: records, or what
    a card's queue says; by default it is measured. keys: further keys of a card, by their full names. yes: more than
    half of the free disk may be taken.

    Examples:
        found = tfperf.predict(model, "texts/*.parquet", "runs/mine", preprocess=prepare, columns=["text"])
        rows = found.read_rows()

    What was committed survives any end; resume goes on there. Records that fail are counted in `summary`; their rows
    are NaN. Raises: UserError for a faulty model, source, or directory; Interrupted when a signal came.
    """
    from tfperf.workloads.predict.card import PredictCard
    from tfperf.workloads.predict.given import write_predict_card
    from tfperf.workloads.predict.job import PredictOptions, predict_card
    from tfperf.workloads.predict.printing import show_predicting

    if is_card(model):
        refuse_given(preprocess=preprocess, columns=columns or None, id=id, batch=batch, keys=keys)
        card, folder = resolve_card(model, overrides), Path(_find_output(source, output))
    else:
        if output is None:
            raise CardError("output: missing; must be a folder")
        refuse_output(output)
        if overrides:
            raise CardError("overrides: are of a card's file; name keys={...} for a model")
        folder = Path(output)
        card = load_checked_card(write_predict_card(model, source, folder, preprocess, columns, id, batch, keys or {}))
    if not isinstance(card, PredictCard):
        raise CardError(f"workload: got '{card.workload}', which does not offer predict; predict does")
    with show_predicting(quiet) as (show, show_stage):
        summary = predict_card(card, folder, PredictOptions(resume, lambda told: yes, show, show_stage))
    return PredictResult(summary, Path(summary["file"]))


def refuse_given(**given: Any) -> None:
    """CardError for what a card says itself."""
    if names := [name for name, value in given.items() if value is not None]:
        raise CardError(f"{', '.join(names)}: a card says that itself; name overrides=['key.sub=value']")


def _find_output(source: Any, output: Any) -> Path | str:
    """The run directory of a card, which may be the second argument."""
    found = source if output is None else output
    if not isinstance(found, str | os.PathLike) or (output is not None and source is not None):
        raise CardError("source: a card names its records; the second argument of a card is its run directory")
    return os.fspath(found)
