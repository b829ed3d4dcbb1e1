"""tfperf's towers beside TensorFlow's strategies, and what equal lengths on all devices are worth."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.registry import Row, benchmark

RUNCARDS = Path(__file__).parents[1] / "runcards"
CARD, FIT = RUNCARDS / "translate_placement.yaml", RUNCARDS / "translate.yaml"
DEVICES, ROUNDS, WARMUP, STEPS = 2, 5, 20, 100
ENGINES = {
    "tower, one copy a variable": ["placement.variables=device"],
    "tower, mirrored": ["placement.variables=mirrored"],
    "MirroredStrategy": ["placement.engine=mirrored"],
}
BUCKETS, MORE_DEVICES, BATCH, FIT_STEPS = ("shared", "per_device", "none"), 4, 16, 600


@benchmark(
    "towers",
    claim="the tower engine is not slower than MirroredStrategy at the same work (ratio at most 1)",
    sweep=f"engines in turn, {ROUNDS} rounds, each in a fresh process, {DEVICES} devices",
    unit="ms a step, median of calls; ratio: over MirroredStrategy's in the same round, median [lowest, highest]",
)
def towers() -> Iterator[Row]:
    """The same batches, model, optimizer and number of steps a call."""
    times: dict[str, list[float]] = {name: [] for name in ENGINES}
    for _ in range(ROUNDS):
        for name, overrides in ENGINES.items():
            times[name].append(_trial([*overrides, f"placement.devices={DEVICES}"])["ms_per_step"]["median"])
    for name, mine in times.items():
        ratios = [a / b for a, b in zip(mine, times["MirroredStrategy"], strict=True)]
        text = f"{median(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]"
        yield {"engine": name, "ms": median(mine), "ratio": text}


def _trial(overrides: list[str]) -> dict[str, Any]:
    """The record of one trial without proof and trace."""
    from tfperf.runcard.dump import as_tree
    from tfperf.runcard.loader import load_any

    tree = as_tree(load_any(CARD, overrides))
    with tempfile.TemporaryDirectory() as folder:
        request = {"card": tree, "warmup": WARMUP, "steps": STEPS, "first": False, "folder": f"{folder}/trial"}
        command = [sys.executable, "-m", "tfperf.study.point"]
        done = subprocess.run(command, input=json.dumps(request) + "\n", text=True, capture_output=True)
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    if "ms_per_step" not in record:
        raise RuntimeError(f"the trial failed: {record or done.stderr[-500:]}")
    return record


@benchmark(
    "buckets",
    claim="batches of one bucket divided among the devices leave none waiting for longer sentences of another",
    sweep=f"ways to form batches, {MORE_DEVICES} devices of {BATCH} pairs, the shipped sentence pairs",
    unit=f"shares of positions in the first epoch; validation loss per label after {FIT_STEPS} steps on as many pairs",
)
def buckets() -> Iterator[Row]:
    """The same steps and pairs in each: an epoch has as many steps, whatever its buckets."""
    for name in BUCKETS:
        report = _fit([f"data.buckets={name}"])
        data = report["data"]
        yield {
            "buckets": name, "padding": data["padding_share"], "straggler waste": data["straggler_waste"],
            "unequal steps": f"{data['unequal_steps']} of {data['steps_per_epoch']}",
            "words/s": report["words_per_second"], "validation loss": report["loss"]["validation_last"],
        }  # fmt: skip


def _fit(overrides: list[str]) -> dict[str, Any]:
    """report.json of a fit of the shipped translation."""
    common = [f"placement.devices={MORE_DEVICES}", f"data.batch={BATCH}", f"train.steps={FIT_STEPS}", "decode.beam=1"]
    with tempfile.TemporaryDirectory() as folder:
        sets = [word for override in (*common, *overrides) for word in ("--set", override)]
        command = [sys.executable, "-m", "tfperf", "fit", str(FIT), "-o", f"{folder}/run", "-q", *sets]
        subprocess.run(command, check=True, capture_output=True, text=True)
        report: dict[str, Any] = json.loads((Path(folder) / "run" / "report.json").read_text())
    return report
