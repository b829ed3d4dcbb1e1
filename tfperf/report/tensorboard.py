"""Series of numbers as TensorBoard events.

Written with TensorBoard's own record writer; TensorFlow is not imported.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
from tensorboard.plugins.scalar.summary_v2 import scalar_pb  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from tfperf.arrays import Float64Array, Int64Array
from tfperf.results.files import make_folder, write_atomically

# a fixed name: writing again replaces the events instead of adding a second file to the same run
FILE = "events.out.tfevents.0.tfperf"


def write_run(folder: Path, steps: Int64Array, series: Mapping[str, Float64Array], now: float) -> None:
    """Write folder/FILE with series (H) by tag at steps (H); nan leaves a gap. Raises: StorageError."""
    make_folder(folder)
    with write_atomically(folder / FILE) as temporary, temporary.open("wb") as stream:
        writer = RecordWriter(stream)
        writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
        for event in _make_events(steps, series, now):
            writer.write(event.SerializeToString())
        writer.flush()


def _make_events(steps: Int64Array, series: Mapping[str, Float64Array], now: float) -> Iterator[Event]:
    for row, step in enumerate(steps):
        for tag, values in series.items():
            if np.isfinite(values[row]):
                yield Event(wall_time=now, step=int(step), summary=scalar_pb(tag, values[row]))
