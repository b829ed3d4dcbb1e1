"""After how many epochs a store has paid: as `tfperf input` predicts, and from a store and epochs that were timed."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.registry import Row, register_benchmark

CARD = Path(__file__).parents[1] / "runcards" / "photos.yaml"
STAGE = "prepare"  # up to which elements are stored: whole pictures of 128 x 128
PARTS: Mapping[str, Mapping[str, Any]] = {
    "photographs": {}, "photographs, each 2 ms later": {"wait_ms": 2.0},
    "photographs, each 10 ms later": {"wait_ms": 10.0},
}  # fmt: skip
ARGUMENTS = {"prepared": 128, "parallel_calls": -1, "prefetch": -1}
SHORT, LONG = 1, 4  # epochs of two fits, whose difference has no start


def _run(*words: Any) -> None:
    command = [sys.executable, "-m", "tfperf", *map(str, words), "-q"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def measure_epoch(folder: Path, *words: Any) -> float:
    """Seconds of an epoch of a fit, without what comes once."""
    seconds = []
    for epochs in (SHORT, LONG):
        run = folder / f"fit-{epochs}"
        _run("fit", CARD, *words, "--set", f"train.epochs={epochs}", "-o", run)
        seconds.append(_read(run / "report.json")["seconds_of_epoch_ends"]["steps"])
    return float(seconds[1] - seconds[0]) / (LONG - SHORT)


@register_benchmark(
    "break-even",
    claim="stored data have paid after as many epochs as tfperf input says",
    sweep="resized photographs, as they are and with files that take 2 and 10 ms more each",
    unit="epochs",
)
def measure_break_even(photos: Path | None = None, folder: Path | None = None, seconds: float = 6.0) -> Iterator[Row]:
    """A row for each part; folder: of studies, stores and runs."""
    folder = Path(tempfile.mkdtemp(prefix="tfperf-")) if folder is None else folder
    for number, (part, more) in enumerate(PARTS.items()):
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        given = [f"data.arguments.{key}={value}" for key, value in {**ARGUMENTS, **more}.items()]
        if photos is not None:
            given += [f"data{side}.arguments.folder={photos.resolve()}" for side in ("", ".validation")]
        sets = [word for one in given for word in ("--set", one)]
        _run("input", CARD, *sets, "--seconds", seconds, "-o", place / "study")
        study = _read(place / "study" / "input.json")
        _run("store", CARD, *sets, "-o", place / "store", "--after", STAGE)
        stored = ["--set", f"data.store={(place / 'store').resolve()}"]
        preparation = _read(place / "store" / "store.json")["seconds"]
        now, then = measure_epoch(place / "now", *sets), measure_epoch(place / "then", *sets, *stored)
        ahead = study["ahead"] or {}
        yield {
            "part": part, "predicted_epochs": ahead.get("epochs"),
            "measured_epochs": preparation / (now - then) if now > then else None,
            "preparation_s": preparation, "predicted_preparation_s": ahead.get("preparation_seconds"),
            "epoch_s": now, "predicted_epoch_s": ahead.get("epoch_seconds"), "stored_epoch_s": then,
            "predicted_stored_epoch_s": ahead.get("stored_epoch_seconds"), "verdict": study["lines"][2],
        }  # fmt: skip
