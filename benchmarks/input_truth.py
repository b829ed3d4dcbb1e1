"""Rates that `tfperf input` predicts for 1 to 8 workers beside those that its sweep then measures."""

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.registry import Row, register_benchmark

MOST = 8
PHOTOS = {"parallel_calls": -1, "prefetch": -1, "batch": 8}
# who makes the data, with which arguments
PIPELINES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "wait": ("tfperf.zoo.photos_waiting:load_waiting", {
        "seconds": 0.01, "records": 20_000, "batch": 8, "parallel_calls": -1, "prefetch": -1}),
    "jpeg": ("tfperf.zoo.photos:load_photos", PHOTOS),
    "jpeg-wait": ("tfperf.zoo.photos:load_photos", {**PHOTOS, "wait_ms": 5.0}),
    "python": ("input_python.py:load", {}),
}  # fmt: skip
PYTHON = '''"""Examples that Python computes one number at a time."""

import numpy as np
import tensorflow as tf


def compute(index):
    total = 0
    for number in range(40_000):
        total += number * int(index) % 7
    return np.float32(total % 10)


def load():
    numbers = tf.data.Dataset.range(20_000)

    def make(index):
        value = tf.numpy_function(compute, [index], tf.float32)
        return tf.fill((96, 96, 3), tf.ensure_shape(value, ())), tf.cast(index % 13, tf.int32)

    return numbers.map(make, tf.data.AUTOTUNE, name="compute").batch(8).prefetch(tf.data.AUTOTUNE)
'''


def write_card(name: str, folder: Path, photos: Path | None) -> Path:
    """The card of a pipeline; photos: a folder that `python -m tfperf.zoo.photos` has made, or that of its cache."""
    (folder / "input_python.py").write_text(PYTHON, encoding="utf-8")
    build, arguments = PIPELINES[name]
    given = {**arguments, "folder": str(photos.resolve())} if photos and "photos:" in build else arguments
    tree = {
        "workload": "keras", "title": name, "model": {"build": "tfperf.zoo.photos:build_model"},
        "data": {"build": build, "arguments": given}, "train": {"epochs": 10}, "engine": {"xla": False},
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return path


def compare_rates(predicted: Sequence[float], measured: Sequence[float]) -> tuple[list[float], float]:
    """Relative errors (n) of the predicted rates, and the median of their sizes.

    >>> compare_rates([1.0, 2.2], [1.0, 2.0])
    ([0.0, 0.10000000000000009], 0.05)
    """
    errors = [p / m - 1 for p, m in zip(predicted, measured, strict=True)]
    return errors, round(statistics.median(map(abs, errors)), 6)


@register_benchmark(
    "input-truth",
    claim="the rates that tfperf input predicts for other numbers of workers come true",
    sweep="a map that waits, decodes JPEGs, both, or computes in Python, with 1 to 8 threads",
    unit="batches a second",
)
def measure_predictions(
    parts: Sequence[str] = tuple(PIPELINES), seconds: float = 6.0, photos: Path | None = None,
    folder: Path | None = None,
) -> Iterator[Row]:  # fmt: skip
    """The study of each pipeline with its sweep; folder: of studies, which go on where they were."""
    from tfperf.inputs.chain import find_knee
    from tfperf.study.input import run_input_study
    from tfperf.workloads.cards import load_checked_card

    folder = Path(tempfile.mkdtemp(prefix="tfperf-")) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in parts:
        card = load_checked_card(write_card(name, folder, photos), ())
        start = time.perf_counter()
        report = run_input_study(card, folder / name, lambda *_: None, sweep=True, seconds=seconds)
        workers = report["workers"]
        measured = [statistics.fmean(one["rates"]) for one in workers["sweep"]][:MOST]
        predicted = [one["rate"] for one in workers["predicted"]][:MOST]
        errors, median = compare_rates(predicted, measured)
        yield {
            "part": name, **{f"rate_{n}": rate for n, rate in enumerate(measured, 1)},
            **{f"error_{n}": error for n, error in enumerate(errors, 1)}, "median_error": median,
            "largest_error": max(map(abs, errors)), "knee": find_knee(measured), "predicted_knee": find_knee(predicted),
            "free_cores": workers["free_cores"], "minutes": (time.perf_counter() - start) / 60,
        }  # fmt: skip
