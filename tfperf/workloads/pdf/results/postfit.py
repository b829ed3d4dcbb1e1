"""Which replicas of a finished run enter its PDF set: vetoes on failures, positivity, chi2 and arc length.

Source: the vetoes of NNPDF's `postfit` (arXiv:2109.02671), with its thresholds of 4 sigma and its population sigma.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table

from tfperf.arrays import BoolMask, Float64Array, Int64Array
from tfperf.errors import RunDirectoryError, UserError
from tfperf.results.files import write_atomically
from tfperf.results.reading import parse_json, read_bytes
from tfperf.workloads.pdf.kind import POSTFIT
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.record import EVOLUTION, FitResult

SIGMAS = 4.0
LARGEST = 1e100  # of a figure: beyond it squares, and with them the limits, are infinite
MOST_BYTES = 10**8  # of the report, which has a few hundred for each veto on each replica


@dataclass(frozen=True)
class Limit:
    """What one figure may be at most: mean + sigmas x sigma over the replicas that passed."""

    mean: float
    sigma: float
    limit: float


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


def veto_replicas(result: FitResult, sigmas: float = SIGMAS) -> PostfitReport:
    """The vetoes on a fit's replicas.

    Replicas that failed, broke positivity or have no finite figures go first. Then, round by round, each one with an
    experimental chi2 or an arc length beyond mean + `sigmas` x sigma of those left goes too, until nobody does. Small
    values are never vetoed. Among n replicas none lies beyond sqrt(n - 1) sigma: 4 sigma needs at least 18.

    Raises: UserError where `sigmas` is not positive.
    """
    if not sigmas > 0:
        raise UserError(f"sigmas: got {sigmas}; must be above 0 (usual: {SIGMAS:g})")
    figures = _select_values(result)
    alive, failures = _veto_unfit(result, figures)
    while True:
        limits, fallen = _veto_outliers(result.replicas.id, alive, figures, sigmas)
        if not fallen:
            break
        failures += fallen
        alive = alive & ~np.isin(result.replicas.id, [f.replica for f in fallen])
    failures.sort(key=lambda f: f.replica)
    passed = tuple(int(i) for i in result.replicas.id[alive])
    return PostfitReport(len(result.replicas.id), passed, tuple(failures), limits, sigmas)


def apply_postfit(run: Path, sigmas: float = SIGMAS) -> PostfitReport:
    """Apply the vetoes to the finished run in folder `run`; RUN/postfit.json keeps the report for `export-lhapdf`.

    Raises: RunDirectoryError where there are no results, StorageError where the report cannot be written.
    """
    results = run / "results.h5"
    report = veto_replicas(store.read(results), sigmas)
    with write_atomically(run / POSTFIT) as temporary:
        temporary.write_text(json.dumps({**asdict(report), "results_sha256": _digest_file(results)}, indent=1) + "\n")
    return report


def read_survivors(run: Path, result: FitResult) -> BoolMask | None:
    """Which replicas of the run's `result` passed its postfit: (R); None where postfit has not been applied.

    Raises: RunDirectoryError where RUN/postfit.json is damaged, or older than the results.
    """
    path = run / POSTFIT
    if not os.path.lexists(path):
        return None
    try:
        report = parse_json(read_bytes(path, MOST_BYTES))
        digest, passed = report["results_sha256"], report["passed"]
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
    lengths = {f"arc length of {f}": result.replicas.arc_length[:, i] for i, f in enumerate(EVOLUTION)}
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


def _veto_outliers(
    numbers: Int64Array, alive: BoolMask, figures: Mapping[str, Float64Array], sigmas: float
) -> tuple[dict[str, Limit], list[Failure]]:
    """The limits that those alive set, and which of them are beyond."""
    limits = {name: _compute_limit(values[alive], sigmas) for name, values in figures.items()} if alive.any() else {}
    fallen = [
        Failure(int(numbers[r]), name, float(figures[name][r]), limit.limit)
        for name, limit in limits.items()
        for r in np.flatnonzero(alive & (figures[name] > limit.limit))
    ]
    return limits, fallen


def _compute_limit(values: Float64Array, sigmas: float) -> Limit:
    mean, sigma = float(values.mean()), float(values.std())
    return Limit(mean, sigma, mean + sigmas * sigma)


def _format_caption(report: PostfitReport) -> str:
    needed = int(np.floor(report.sigmas**2)) + 2
    if len(report.passed) < needed:
        return f"fewer than {needed} replicas are left: none of them can lie {report.sigmas:g} sigma above their mean"
    chi2 = report.limits["chi2"]
    return f"those that pass: experimental chi2 per point {chi2.mean:.3f} ± {chi2.sigma:.3f}"


def _format_number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4g}"


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
