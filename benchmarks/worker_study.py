"""A published study of workers again: one or a few of them for data that take a second each, and for photographs."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.registry import Row, register_benchmark

CARD = Path(__file__).parents[1] / "runcards" / "photos.yaml"
SECONDS, RECORDS = 1.0, 32  # of the mock: of an element, and elements
MOCK_WORKERS, PHOTO_WORKERS = (1, 3), (1, 7)
WAITS = (0.0, 10.0)  # ms that a file takes more than this machine's, as on a disk far away
EPOCHS = 3
MIB = 2**20


def measure_mock(workers: int, folder: Path) -> Row:
    """Seconds of a pass through the mock, and when each element began, from the beginning of the pass."""
    from tfperf.zoo.photos_waiting import StartTimes, load_waiting

    times = StartTimes(folder / f"mock-{workers}")
    times.clear()
    dataset = load_waiting(SECONDS, RECORDS, parallel_calls=workers, prefetch=1, threads=workers, times=str(times.path))
    start = time.perf_counter()
    count = sum(1 for _ in dataset)
    spent, found = time.perf_counter() - start, times.read()
    return {
        "part": "mock", "wait_ms": 1e3 * SECONDS, "workers": workers, "epoch_seconds": spent, "batches": count,
        "busy": None, "ram_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB,
        "most_at_once": times.count_most_at_once(), "started": [round(float(one - start), 3) for one in found["start"]],
    }  # fmt: skip


def measure_photos(workers: int, wait: float, folder: Path, photos: Path | None, seconds: float) -> Row:
    """Seconds of an epoch of a fit, its RAM, and the share of the time in which the model computes, over time."""
    name = f"photos-{workers}-{wait:.0f}ms"
    settings = {"threads": workers, "parallel_calls": -1, "prefetch": -1, "wait_ms": wait}
    given = [f"data.arguments.{key}={value}" for key, value in settings.items()]
    if photos is not None:
        given += [f"data{part}.arguments.folder={photos.resolve()}" for part in ("", ".validation")]
    sets = [word for one in given for word in ("--set", one)]
    ram = _run("fit", CARD, *sets, "--set", f"train.epochs={EPOCHS}", "-o", folder / f"{name}-fit", "-q")
    _run("input", CARD, *sets, "--seconds", seconds, "-o", folder / name, "-q")
    fit = json.loads((folder / f"{name}-fit" / "report.json").read_text(encoding="utf-8"))
    study = json.loads((folder / name / "input.json").read_text(encoding="utf-8"))
    found = study["as_it_is"]
    blocks = zip(found["both"]["blocks"], found["model"]["blocks"], strict=True)
    return {
        "part": "photographs", "wait_ms": wait, "workers": workers,
        "epoch_seconds": fit["seconds_of_epoch_ends"]["steps"] / fit["epochs"], "batches": fit["steps"] / fit["epochs"],
        "busy": 1 - found["waits"]["value"], "ram_MiB": ram / MIB,
        "busy_over_time": [min(1.0, both / model) for both, model in blocks],
        "knee": study["workers"]["knee_with_step"], "cores_minus_one": max(1, study["cores"] - 1),
        "verdict": study["lines"],
    }  # fmt: skip


def _run(*words: Any) -> float:
    """A command of tfperf; bytes of memory that it had at most."""
    command = [sys.executable, "-m", "tfperf", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return 1024.0 * used.ru_maxrss


@register_benchmark(
    "worker-study",
    claim="more workers make an epoch shorter as long as the model waits for its data",
    sweep="32 elements of a second each by 1 and 3 workers; photographs by 1 and 7, as they are and 10 ms later each",
    unit="an epoch",
)
def measure_workers(folder: Path | None = None, photos: Path | None = None, seconds: float = 10.0) -> Iterator[Row]:
    """A row for each number of workers of each part; folder: of runs and studies."""
    folder = Path(tempfile.mkdtemp(prefix="tfperf-")) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    for workers in MOCK_WORKERS:
        yield measure_mock(workers, folder)
    for wait in WAITS:
        for workers in PHOTO_WORKERS:
            yield measure_photos(workers, wait, folder, photos, seconds)
