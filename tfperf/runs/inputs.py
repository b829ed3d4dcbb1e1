"""The files that a card names: what they hold, and their hashes. All is read before a run directory is touched."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfperf.data.cache import Cache, file_digest
from tfperf.data.closure import toy_pdf
from tfperf.data.pack import Pack
from tfperf.data.selection import Selection, select
from tfperf.data.validate import validate
from tfperf.errors import CardError
from tfperf.results import store
from tfperf.results.contents import RESULTS
from tfperf.results.record import FitResult
from tfperf.runcard.config import Card
from tfperf.runs.unchanged import refuse_inside

Array = NDArray[np.float64]
T0_WORDS = ("pack", "none", "fit")
LAWS: dict[str, Callable[[Array], Array]] = {"toy": toy_pdf}


@dataclass(frozen=True)
class Inputs:
    """What a card's files hold."""

    hashes: Mapping[str, str]  # sha256 by the key that names the file
    selection: Selection
    t0_pdf: Array | None  # (8, X), where `data.t0` names a run
    law: Callable[[Array], Array] | None  # truth of a closure test: x (X) -> x f (8, X)


def read_inputs(card: Card, output: Path | None = None) -> Inputs:
    """Read and check all files of a card; CardError or PackError for faults, and for files inside the run directory."""
    files = _files(card)
    faults = [f"{key}: {path} does not exist or is no file" for key, path in files.items() if not path.is_file()]
    if faults:
        raise CardError(*faults)
    if output is not None:
        refuse_inside(files, output)
    # a pack without faults has none the next time
    Cache(card.engine.cache).get("valid", file_digest(card.data.pack), lambda: validate(card.data.pack))
    selection = select(card)
    return Inputs(
        {key: file_digest(path) for key, path in files.items()}, selection,
        None if card.data.t0 in T0_WORDS else pdf_of_run(Path(card.data.t0), selection.pack, "data.t0"),
        _law(card, selection.pack),
    )  # fmt: skip


def _files(card: Card) -> dict[str, Path]:
    """Every file that the result depends on, by the key of the card that names it."""
    files = {"data.pack": card.data.pack}
    if card.covariance.extra is not None:
        files["covariance.extra"] = card.covariance.extra
    if card.data.t0 not in T0_WORDS:
        files["data.t0"] = Path(card.data.t0) / RESULTS
    if card.closure is not None and card.closure.law not in LAWS:
        files["closure.law"] = Path(card.closure.law) / RESULTS
    return files


def mean_pdf(result: FitResult) -> Array:
    """x f (8, X) of the mean over converged replicas; CardError when none converged."""
    if not result.converged.any():
        raise CardError(f"{result.title or 'the run'}: no replica converged; it has no mean PDF")
    mean: Array = result.pdf[result.converged].mean(axis=0)
    return mean


def pdf_of_run(run: Path, pack: Pack, key: str, replica: int | None = None) -> Array:
    """PDF (8, X) of a finished run's replica, by default of their mean, on the pack's grid.

    CardError when the run was fitted on another grid or has no such converged replica.
    """
    result = store.read(run / RESULTS)
    if result.x.shape != pack.x.shape or not np.allclose(result.x, pack.x, rtol=1e-10, atol=0):
        raise CardError(f"{key}: {run} was fitted on another x grid than that of {pack.path}")
    if not np.isclose(result.q0, pack.q0, rtol=1e-10):
        raise CardError(f"{key}: {run} was fitted at Q0 = {result.q0:g} GeV, {pack.path} is at {pack.q0:g} GeV")
    if replica is None:
        return mean_pdf(result)
    found = np.flatnonzero((result.replicas.id == replica) & result.converged)
    if not len(found):
        raise CardError(f"closure.replica: got {replica}; {run} has no converged replica of that number")
    truth: Array = result.pdf[found[0]]
    return truth


def _law(card: Card, pack: Pack) -> Callable[[Array], Array] | None:
    if card.closure is None:
        return None
    if card.closure.law in LAWS:
        return LAWS[card.closure.law]
    truth = pdf_of_run(Path(card.closure.law), pack, "closure.law", card.closure.replica)
    return lambda _: truth
