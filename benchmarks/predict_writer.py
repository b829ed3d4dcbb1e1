"""Rows on their way to the disk: the writer of a prediction, with checksums, journal and syncs, beside plain writes."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.registry import Row, register_benchmark
from tfperf.arrays import Float32Array
from tfperf.infer.journal import CommitProgress
from tfperf.infer.output_file import OutputFile, OutputPlan, OutputSpec, create_output
from tfperf.infer.writer import Rows, RowWriter

WIDTH, WINDOW, BATCH = 768, 4096, 64


def list_batches(records: int, seed: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Windows, and numbers of records there, as workers give them back: those of a window in any order."""
    draws = np.random.default_rng(seed)
    for window in range(records // WINDOW):
        order = draws.permutation(WINDOW)
        for first in range(0, WINDOW, BATCH):
            yield window, tuple(map(int, order[first : first + BATCH]))


def write_rows(folder: Path, records: int, values: Float32Array) -> float:
    """Seconds of the writer, to the last byte on the disk."""
    plan = OutputPlan(records, (OutputSpec("rows", (WIDTH,), "float32"),), "<i8")
    create_output(folder / "rows.h5", plan)
    begin = time.perf_counter()
    with OutputFile(folder / "rows.h5", plan, is_written=True) as file:
        writer = RowWriter(file, folder, CommitProgress(WINDOW, records))
        for window, numbers in list_batches(records, 1):
            writer.add(Rows(window, numbers, {"rows": values}, np.asarray(numbers) + window * WINDOW))
        writer.finish()
    return time.perf_counter() - begin


def write_plainly(folder: Path, records: int, values: Float32Array) -> float:
    """Seconds of as many bytes in order, and one sync."""
    begin = time.perf_counter()
    with (folder / "plain").open("wb", buffering=0) as file:
        for _ in range(records // BATCH):
            file.write(values.data)
        os.fdatasync(file.fileno())
    return time.perf_counter() - begin


@register_benchmark(
    "predict-writer",
    claim="the writer of predictions takes 100 000 rows of 768 floats a second, checked and safe from any kill",
    sweep="five turns of the writer and of plain writes of as many bytes",
    unit="409 600 rows",
)
def measure_writer(records: int = 409_600, turns: int = 5, folder: Path | None = None) -> Iterator[Row]:
    """A row for each turn: rows a second of both, and their ratio."""
    values = np.random.default_rng(1).normal(size=(BATCH, WIDTH)).astype(np.float32)
    for turn in range(turns):
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            writer = records / write_rows(Path(temporary), records, values)
            plain = records / write_plainly(Path(temporary), records, values)
        yield {"turn": turn, "rows/s": round(writer), "plain rows/s": round(plain), "ratio": round(writer / plain, 3)}
