"""The history as TensorBoard events: one run per statistic and per replica, so that they overlay in one chart.

Written with TensorBoard's own record writer; TensorFlow is not imported.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
from tensorboard.plugins.scalar.summary_v2 import scalar_pb  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from tfperf.results.files import atomic_write, make_folder
from tfperf.workloads.pdf.report.bands import drawn, running_quantiles
from tfperf.workloads.pdf.results.record import FitResult, History

Array = NDArray[np.float64]
# a fixed name: writing again replaces the events instead of adding a second file to the same run
FILE = "events.out.tfevents.0.tfperf"
REPLICAS = 5


def write_events(folder: Path, result: FitResult) -> None:
    """Write folder/<run>/FILE with the losses at their true steps; nan (a stopped replica) leaves a gap.

    Runs: median, q16, q84 over the converged replicas still running, all (how many that are), and a few replicas.
    Every event carries the time of writing: the history has no clock.
    Raises: StorageError.
    """
    now, runs = time.time(), dict(_runs(result))
    for run, series in runs.items():
        write_run(folder / run, result.history.step, series, now)
    for old in folder.glob(f"replica_*/{FILE}"):  # of a fit that this one extends: other replicas were picked
        if old.parent.name not in runs:
            old.unlink()
            old.parent.rmdir()


def write_run(folder: Path, steps: NDArray[np.int64], series: Mapping[str, Array], now: float) -> None:
    """Write folder/FILE with series (H) by tag at steps (H); nan leaves a gap. Raises: StorageError."""
    make_folder(folder)
    with atomic_write(folder / FILE) as temporary, temporary.open("wb") as stream:
        writer = RecordWriter(stream)
        writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
        for event in _events(steps, series, now):
            writer.write(event.SerializeToString())
        writer.flush()


def _runs(result: FitResult) -> Iterator[tuple[str, dict[str, Array]]]:
    """Names of the runs with their series, each (H)."""
    losses, keep = _losses(result.history), result.converged
    quantiles = {tag: running_quantiles(values[:, keep]) for tag, values in losses.items()}
    for i, run in enumerate(("q16", "median", "q84")):
        yield run, {tag: q[i] for tag, q in quantiles.items()}
    running = np.isfinite(result.history.training).sum(axis=1, dtype=np.float64)
    yield "all", {"replicas/running": running}
    for r in drawn(keep, REPLICAS):
        yield f"replica_{result.replicas.id[r]}", {tag: values[:, r] for tag, values in losses.items()}


def _losses(history: History) -> dict[str, Array]:
    return {
        "chi2/training": history.training,
        "chi2/validation": history.validation,
        "chi2/experimental": history.experimental,
        "positivity/penalty": history.positivity,
    }


def _events(steps: NDArray[np.int64], series: Mapping[str, Array], now: float) -> Iterator[Event]:
    for row, step in enumerate(steps):
        for tag, values in series.items():
            if np.isfinite(values[row]):
                yield Event(wall_time=now, step=int(step), summary=scalar_pb(tag, values[row]))
