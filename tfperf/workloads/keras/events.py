"""The history of a training as TensorBoard events: a run of training and one of validation, so that they overlay."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tfperf.arrays import Float64Array
from tfperf.report.tensorboard import write_run
from tfperf.workloads.keras.page import VALIDATED


def write_events(folder: Path, history: Mapping[str, Sequence[float]], steps: Sequence[int]) -> None:
    """Write folder/training and folder/validation with each figure by its name at the last step of each epoch.

    A figure that is nan leaves a gap. Raises: StorageError.
    """
    now = time.time()
    runs: dict[str, dict[str, Float64Array]] = {"training": {}, "validation": {}}
    for name, values in history.items():
        run = "validation" if name.startswith(VALIDATED) else "training"
        runs[run][name.removeprefix(VALIDATED)] = np.array(values)
    for run, series in runs.items():
        if series and steps:
            write_run(folder / run, np.array(steps), series, now)
