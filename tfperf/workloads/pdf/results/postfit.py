"""Which replicas of a finished run enter its PDF set: vetoes on failures, positivity, integrability, chi2, arc length.

Source: NNPDF's `postfit`, `validphys.fitveto` of package nnpdf 4.1.5 (GPL-3.0; arXiv:2109.02671): its order, its
thresholds of 4 sigma and 0.5, and its population sigma.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table

from tfperf.arrays import BoolMask, Float64Array
from tfperf.errors import RunDirectoryError, UserError
from tfperf.results.files import write_atomically
from tfperf.results.reading import parse_json, read_bytes
from tfperf.workloads.pdf.kind import POSTFIT
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.record import EVOLUTION, FitResult
from tfperf.workloads.pdf.results.veto_figures import ARC_FLAVOURS, INTEGRABLE

SIGMAS, MOST_SIGMAS = 4.0, 1e6
MOST_INTEGRABILITY = 0.5  # of the sum of |x f| over three nodes
LARGEST = 1e100  # of a figure: beyond it squares, and with them the limits, are infinite
MOST_BYTES = 10**8  # of the report, which has a few hundred for each veto on each replica


@dataclass(frozen=True)
class Limit:
    """What one figure may be at most: mean + sigmas x sigma over the replicas that passed."""

    mean: float
    sigma: float
    limit: float

    def is_passed_by(self, values: Float64Array, sigmas: float) -> BoolMask:
        """Which figures are within it; none that is nan."""
        return np.asarray(values - self.mean <= sigmas * self.sigma)


@dataclass(frozen=True)
class Failure:
    """One replica that one veto took out; a replica may fail several. None where there is no figure."""

    replica: int
    veto: str
    value: float | None
    limit: float | None


@dataclass(frozen=True)
class PostfitReport:
    """Who passed, who did not and why; `limits` are those of the last round, which nobody failed."""

    total: int
    passed: tuple[int, ...]
    failures: tuple[Failure, ...]
    limits: Mapping[str, Limit]
    sigmas: float
    has_integrability: bool = True  # False: the results are of a version that did not record it
    chosen: tuple[int, ...] = ()  # of those that passed, the replicas that are used, in the order of their new numbers


def veto_replicas(result: FitResult, sigmas: float = SIGMAS) -> PostfitReport:
    """The vetoes on a fit's replicas.

    Replicas that failed, broke positivity or have no finite figures are out, and those that one sum rule does not
    converge for. Then, round by round, each one is out whose experimental chi2 or one of whose arc lengths is beyond
    mean + `sigmas` x sigma of those that the round before left, until as many are left as before. Small values are
    never vetoed. Among n replicas none lies beyond sqrt(n - 1) sigma: 4 sigma needs at least 18. The first round's
    means are over all that converged, as in NNPDF's code.

    Raises: UserError where `sigmas` is not in (0, 1e6].
    """
    if not 0 < sigmas <= MOST_SIGMAS:
        raise UserError(f"sigmas: got {sigmas}; must be above 0 and at most {MOST_SIGMAS:g} (usual: {SIGMAS:g})")
    figures, integrability = _select_values(result), result.replicas.integrability
    converged, failures = _veto_unfit(result, figures)
    is_integrable = np.ones(len(converged), bool)
    if integrability is not None:
        is_integrable = np.all(integrability <= MOST_INTEGRABILITY, axis=1)
    left = converged
    while True:
        limits = {name: _compute_limit(values[left], sigmas) for name, values in figures.items()} if left.any() else {}
        masks = [limit.is_passed_by(figures[name], sigmas) for name, limit in limits.items()]
        now = np.all([converged, is_integrable, *masks], axis=0)
        if left.sum() <= 1:  # a single one is never far from its own mean
            now = left & is_integrable
        if now.sum() == left.sum():
            break
        left = now
    failures += _list_vetoes(result, converged, figures, limits, sigmas)
    failures.sort(key=lambda f: f.replica)
    passed = tuple(int(i) for i in result.replicas.id[left])
    return PostfitReport(
        len(result.replicas.id), passed, tuple(failures), limits, sigmas, integrability is not None, passed
    )


def find_passing(result: FitResult) -> BoolMask:
    """Which replicas pass the vetoes: (R), whether postfit was applied or not."""
    return np.isin(result.replicas.id, veto_replicas(result).passed)


def apply_postfit(run: Path, sigmas: float = SIGMAS, count: int | None = None) -> PostfitReport:
    """Apply the vetoes to the finished run in folder `run`; RUN/postfit.json keeps the report for all that follows.

    count: how many of those that pass are chosen, the first ones; None: all. Raises: UserError where fewer pass,
    RunDirectoryError where there are no results, StorageError where the report cannot be written.
    """
    results = run / "results.h5"
    report = veto_replicas(store.read(results), sigmas)
    if count is not None:
        if count > len(report.passed):
            raise UserError(f"-n: got {count}; {len(report.passed)} of {report.total} replicas of {run} pass")
        report = replace(report, chosen=report.passed[:count])
    with write_atomically(run / POSTFIT) as temporary:
        temporary.write_text(json.dumps({**asdict(report), "results_sha256": _digest_file(results)}, indent=1) + "\n")
    return report


def read_survivors(run: Path, result: FitResult) -> BoolMask | None:
    """Which replicas of the run's `result` its postfit has chosen: (R); None where postfit has not been applied.

    Raises: RunDirectoryError where RUN/postfit.json is damaged, or older than the results.
    """
    path = run / POSTFIT
    if not os.path.lexists(path):
        return None
    try:
        report = parse_json(read_bytes(path, MOST_BYTES))
        # reports of versions before have no choice among those that passed
        digest, passed = report["results_sha256"], report.get("chosen", report["passed"])
        if not isinstance(digest, str) or not all(type(i) is int for i in passed) or len(set(passed)) != len(passed):
            raise ValueError("must have a digest and numbers of replicas, none twice")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path}: damaged ({error}); run `tfperf postfit` again") from error
    if digest != _digest_file(run / "results.h5"):
        raise RunDirectoryError(f"{path}: made from other results than results.h5; run `tfperf postfit` again")
    if unknown := set(passed) - set(result.replicas.id.tolist()):
        raise RunDirectoryError(f"{path}: damaged (no replica {min(unknown)}); run `tfperf postfit` again")
    return np.isin(result.replicas.id, passed)


def make_veto_table(report: PostfitReport) -> Table:
    """The report for the screen: one row per replica and veto that it failed."""
    title = f"postfit: {len(report.passed)} of {report.total} replicas pass"
    table = Table(title=title, caption=_format_caption(report), box=box.ASCII_DOUBLE_HEAD)  # programs read it too
    for column in ("replica", "veto", "value", f"limit (mean + {report.sigmas:g} sigma)"):
        table.add_column(column, justify="left" if column == "veto" else "right")
    for failure in report.failures:
        table.add_row(str(failure.replica), failure.veto, _format_number(failure.value), _format_number(failure.limit))
    return table


def _select_values(result: FitResult) -> dict[str, Float64Array]:
    """What is compared with a limit: name -> (R)."""
    arcs = result.replicas.arc_length
    lengths = {f"arc length of {f}": arcs[:, EVOLUTION.index(f)] for f in ARC_FLAVOURS}
    return {"chi2": result.replicas.chi2_experimental, **lengths}


def _veto_unfit(result: FitResult, figures: Mapping[str, Float64Array]) -> tuple[BoolMask, list[Failure]]:
    """Those whose figures may set limits: (R); and the others."""
    failures = []
    for r, (number, status) in enumerate(zip(result.replicas.id, result.replicas.status, strict=True)):
        if status == "no_positivity":
            failures.append(Failure(int(number), "positivity", float(result.replicas.positivity[r]), None))
        elif not result.converged[r]:
            failures.append(Failure(int(number), status, None, None))
        elif bad := [name for name, values in figures.items() if not abs(values[r]) <= LARGEST]:
            failures.append(Failure(int(number), f"{bad[0]} {_describe_unusable(figures[bad[0]][r])}", None, None))
    return ~np.isin(result.replicas.id, [f.replica for f in failures]), failures


def _describe_unusable(value: np.float64) -> str:
    return f"is beyond {LARGEST:g}" if np.isfinite(value) else "is not finite"


def _list_vetoes(
    result: FitResult, converged: BoolMask, figures: Mapping[str, Float64Array], limits: Mapping[str, Limit],
    sigmas: float,
) -> list[Failure]:  # fmt: skip
    """Which of the converged replicas are beyond which limits."""
    numbers, found = result.replicas.id, list[Failure]()
    if result.replicas.integrability is not None:
        for flavour, values in zip(INTEGRABLE, result.replicas.integrability.T, strict=True):
            found += [
                Failure(int(numbers[r]), f"integrability of {flavour}", float(values[r]), MOST_INTEGRABILITY)
                for r in np.flatnonzero(converged & ~(values <= MOST_INTEGRABILITY))
            ]
    for name, limit in limits.items():
        beyond = converged & ~limit.is_passed_by(figures[name], sigmas)
        found += [Failure(int(numbers[r]), name, float(figures[name][r]), limit.limit) for r in np.flatnonzero(beyond)]
    return found


def _compute_limit(values: Float64Array, sigmas: float) -> Limit:
    mean, sigma = float(values.mean()), float(values.std())
    return Limit(mean, sigma, mean + sigmas * sigma)


def _format_caption(report: PostfitReport) -> str:
    needed = int(np.floor(report.sigmas**2)) + 2
    if len(report.passed) < needed:
        return f"fewer than {needed} replicas are left: none of them can lie {report.sigmas:g} sigma above their mean"
    chi2 = report.limits["chi2"]
    told = f"those that pass: experimental chi2 per point {chi2.mean:.3f} ± {chi2.sigma:.3f}"
    if len(report.chosen) < len(report.passed):
        told += f"; the first {len(report.chosen)} are chosen, as 1 to {len(report.chosen)}"
    if not report.has_integrability:
        told += "; these results have no integrability numbers, and arc lengths of another definition"
    return told


def _format_number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4g}"


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
