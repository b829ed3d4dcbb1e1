"""The files that a card names: what they hold, and their hashes. All is read before a run directory is touched."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.data.cache import Cache, digest_file
from tfperf.errors import CardError, PackError, UserError
from tfperf.results.contents import RESULTS
from tfperf.runcard.faults import Fault, format_names
from tfperf.runcard.places import make_unfit_error, refuse_inside
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.data.closure import compute_toy_pdf
from tfperf.workloads.pdf.data.covariance import read_fitted_extra
from tfperf.workloads.pdf.data.pack import Pack
from tfperf.workloads.pdf.data.selection import Selection, try_select
from tfperf.workloads.pdf.data.validate import validate
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.postfit import find_passing
from tfperf.workloads.pdf.results.record import FitResult

T0_WORDS = ("pack", "none", "fit")
LAWS: dict[str, Callable[[Float64Array], Float64Array]] = {"toy": compute_toy_pdf}


@dataclass(frozen=True)
class Inputs:
    """What a card's files hold."""

    hashes: Mapping[str, str]  # sha256 by the key that names the file
    selection: Selection
    t0_pdf: Float64Array | None  # (8, X), where `data.t0` names a run
    law: Callable[[Float64Array], Float64Array] | None  # truth of a closure test: x (X) -> x f (8, X)


def read_inputs(card: Card, output: Path | None = None) -> Inputs:
    """Read and check all files of a card.

    Raises: UnfitCardError with all faults of the card that its files tell, CardError for files inside the run
    directory, PackError for a faulty pack.
    """
    files = _list_files(card)
    if output is not None:
        refuse_inside(files, output)
    reading = _Reading(card)
    reading.read(files)
    if reading.faults:
        raise make_unfit_error(card, reading.faults)
    hashes = {key: digest_file(path) for key, path in files.items()}
    return Inputs(hashes, reading.selection, reading.t0_pdf, reading.law)


def check_inputs(card: Card) -> list[Fault]:
    """What the files of a card tell against it; none of the pack itself, whose faults leave nothing to be told."""
    reading = _Reading(card)
    try:
        reading.read(_list_files(card))
    except UserError:
        return []
    return reading.faults


@dataclass
class _Reading:
    """The files of a card as far as they fit it, and the faults in which they do not."""

    card: Card
    faults: list[Fault] = field(default_factory=list)
    selection: Selection = field(init=False)
    t0_pdf: Float64Array | None = None
    law: Callable[[Float64Array], Float64Array] | None = None

    def read(self, files: Mapping[str, Path]) -> None:
        """All of them. Raises: PackError for a faulty pack."""
        gone = {key: path for key, path in files.items() if not path.is_file()}
        self.faults += [Fault(key, str(path), f"{path} does not exist or is no file") for key, path in gone.items()]
        if "data.pack" in gone:
            return
        # a pack without faults has none the next time
        pack = self.card.data.pack
        Cache(self.card.engine.cache).get("valid", digest_file(pack), lambda: validate(pack))
        self.selection, found = try_select(self.card)
        self.faults += found
        readers = {"data.pack": self._check_pack_t0, "covariance.extra": self._check_extra, "data.t0": self._read_t0}
        for key, read in {**readers, "closure.law": self._read_law}.items():
            if key in files and key not in gone:
                read()
        if self.card.closure is not None and self.card.closure.law in LAWS:
            self.law = LAWS[self.card.closure.law]

    def _check_pack_t0(self) -> None:
        names = [d.name for d in self.selection.pack.datasets if d.t0 is None]
        if names and self.card.data.t0 == "pack" and self.card.closure is None:
            text = f"the pack has no t0 for {format_names(names)}; allowed: none, fit, a run folder"
            self.faults.append(Fault("data.t0", "pack", text))

    def _check_extra(self) -> None:
        path = self.card.covariance.extra
        assert path is not None
        try:
            read_fitted_extra(path, self.selection.pack.datasets)
        except PackError as error:
            self.faults += [Fault("covariance.extra", str(path), fault) for fault in error.faults]

    def _read_t0(self) -> None:
        self.t0_pdf = self._read_pdf(Path(self.card.data.t0), "data.t0")

    def _read_law(self) -> None:
        assert self.card.closure is not None
        truth = self._read_pdf(Path(self.card.closure.law), "closure.law", self.card.closure.replica)
        self.law = None if truth is None else lambda _: truth

    def _read_pdf(self, run: Path, key: str, replica: int | None = None) -> Float64Array | None:
        """PDF (8, X) of a finished run's converged replica, by default of the mean, on the pack's grid."""
        try:
            result = store.read(run / RESULTS)
            _refuse_other_grid(result, run, self.selection.pack)
            if replica is None:
                return average_pdf(result)
        except UserError as error:
            self.faults += [Fault(key, str(run), fault) for fault in error.faults]
            return None
        found = np.flatnonzero((result.replicas.id == replica) & result.converged)
        if not len(found):
            text = f"{run} has no converged replica of that number"
            self.faults.append(Fault("closure.replica", replica, text))
            return None
        truth: Float64Array = result.pdf[found[0]]
        return truth


def _list_files(card: Card) -> dict[str, Path]:
    """Every file that the result depends on, by the key of the card that names it."""
    files = {"data.pack": card.data.pack}
    if card.covariance.extra is not None:
        files["covariance.extra"] = card.covariance.extra
    if card.data.t0 not in T0_WORDS:
        files["data.t0"] = Path(card.data.t0) / RESULTS
    if card.closure is not None and card.closure.law not in LAWS:
        files["closure.law"] = Path(card.closure.law) / RESULTS
    return files


def average_pdf(result: FitResult) -> Float64Array:
    """x f (8, X) of the mean over the replicas that pass postfit's vetoes, or that converged where none does.

    So it is a function of the results alone, whether postfit was applied or not. CardError when none converged.
    """
    if not result.converged.any():
        raise CardError(f"{result.title or 'the run'}: no replica converged; it has no mean PDF")
    passed = find_passing(result)
    mean: Float64Array = result.pdf[passed if passed.any() else result.converged].mean(axis=0)
    return mean


def _refuse_other_grid(result: FitResult, run: Path, pack: Pack) -> None:
    """CardError for a run that was fitted elsewhere than the pack's tables are."""
    if result.x.shape != pack.x.shape or not np.allclose(result.x, pack.x, rtol=1e-10, atol=0):
        raise CardError(f"{run} was fitted on another x grid than that of {pack.path}")
    if not np.isclose(result.q0, pack.q0, rtol=1e-10):
        raise CardError(f"{run} was fitted at Q0 = {result.q0:g} GeV, {pack.path} is at {pack.q0:g} GeV")
