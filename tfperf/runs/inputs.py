"""The files that a card names besides its data: what they hold, and their hashes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tfperf.data.closure import toy_pdf
from tfperf.data.pack import Pack
from tfperf.errors import CardError
from tfperf.results import store
from tfperf.results.record import FitResult
from tfperf.results.rundir import RESULTS, file_hash
from tfperf.runcard.config import Card

Array = NDArray[np.float64]
T0_WORDS = ("pack", "none", "fit")
LAWS: dict[str, Callable[[Array], Array]] = {"toy": toy_pdf}


def input_hashes(card: Card) -> dict[str, str]:
    """sha256 of every file that the result depends on, by the key of the card that names it."""
    files = {"data.pack": card.data.pack}
    if card.covariance.extra is not None:
        files["covariance.extra"] = card.covariance.extra
    if card.data.t0 not in T0_WORDS:
        files["data.t0"] = Path(card.data.t0) / RESULTS
    if card.closure is not None and card.closure.law not in LAWS:
        files["closure.law"] = Path(card.closure.law) / RESULTS
    faults = [f"{key}: {path} does not exist or is no file" for key, path in files.items() if not path.is_file()]
    if faults:
        raise CardError(*faults)
    return {key: file_hash(path) for key, path in files.items()}


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
    if replica is None:
        return mean_pdf(result)
    found = np.flatnonzero((result.replicas.id == replica) & result.converged)
    if not len(found):
        raise CardError(f"closure.replica: got {replica}; {run} has no converged replica of that number")
    truth: Array = result.pdf[found[0]]
    return truth


def t0_pdf(card: Card, pack: Pack) -> Array | None:
    """PDF whose predictions scale multiplicative errors, where `data.t0` names a run."""
    return None if card.data.t0 in T0_WORDS else pdf_of_run(Path(card.data.t0), pack, "data.t0")


def law(card: Card, pack: Pack) -> Callable[[Array], Array] | None:
    """The truth of a closure test as a function of the pack's grid, None for real data."""
    if card.closure is None:
        return None
    if card.closure.law in LAWS:
        return LAWS[card.closure.law]
    truth = pdf_of_run(Path(card.closure.law), pack, "closure.law", card.closure.replica)
    return lambda _: truth
