"""The history as TensorBoard events: one run per statistic and per replica, so that they overlay in one chart."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.report.tensorboard import FILE, write_run
from tfperf.workloads.pdf.report.bands import compute_loss_quantiles, extend_last_values, select_rows
from tfperf.workloads.pdf.results.record import FitResult, ReplicaHistory

REPLICAS = 5


def write_events(folder: Path, result: FitResult) -> None:
    """Write folder/<run>/FILE with the losses at their true steps; a replica that has stopped keeps its last ones.

    Runs: median, q16, q84 over the selected replicas, all (how many still run), and a few replicas.
    Every event carries the time of writing: the history has no clock.
    Raises: StorageError.
    """
    now, runs = time.time(), dict(_make_runs(result))
    for run, series in runs.items():
        write_run(folder / run, result.history.step, series, now)
    for old in folder.glob(f"replica_*/{FILE}"):  # of a fit that this one extends: other replicas were picked
        if old.parent.name not in runs:
            old.unlink()
            old.parent.rmdir()


def _make_runs(result: FitResult) -> Iterator[tuple[str, dict[str, Float64Array]]]:
    """Names of the runs with their series, each (H)."""
    losses, keep = _select_losses(result.history), result.selected
    quantiles = {tag: compute_loss_quantiles(values[:, keep]) for tag, values in losses.items()}
    for i, run in enumerate(("q16", "median", "q84")):
        yield run, {tag: q[i] for tag, q in quantiles.items()}
    running = np.isfinite(result.history.training).sum(axis=1, dtype=np.float64)
    yield "all", {"replicas/running": running}
    for r in select_rows(keep, REPLICAS):
        yield (
            f"replica_{result.replicas.id[r]}",
            {tag: extend_last_values(values)[:, r] for tag, values in losses.items()},
        )


def _select_losses(history: ReplicaHistory) -> dict[str, Float64Array]:
    return {
        "chi2/training": history.training,
        "chi2/validation": history.validation,
        "chi2/experimental": history.experimental,
        "positivity/penalty": history.positivity,
    }
