"""Whether `tfperf memory` tells the truth: its largest batch beside bisection, its law beside a measured peak."""

import json
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.batch_finders import CARDS, TrialCounter
from benchmarks.registry import Row, register_benchmark

PARTS = {name: CARDS / f"{name}.yaml" for name in ("tagger", "keras_digits", "keras_text")}
BUDGETS = (0.5, 2.0)  # GiB of the stand-in for a GPU, in one region
PASSES = 3  # of as many fresh processes, that make a batch one that fits
ABOVE, FINE = 1.15, 1.02  # times the recommended batch: how far bisection looks, and how fine
GIB = 2**30


@register_benchmark(
    "memory-truth",
    claim="the recommended batch is the largest that fits, to 5 %, and the law tells its peak",
    sweep=f"{', '.join(PARTS)} x {', '.join(map(str, BUDGETS))} GiB of the stand-in for a GPU",
    unit="batch recommended and found by bisection (three of three fresh processes), ratio of both; the law's middle "
    "over the measured peak, width of its interval as a share of that, whether it holds the peak; seconds of the study",
)
def measure_memory_truth(only: str = "", folder: Path | None = None) -> Iterator[Row]:
    """A study and a bisection each; only: parts as `tagger` or `tagger:2.0`; folder: where finished parts are kept."""
    wanted = only.split(",") if only else []
    with tempfile.TemporaryDirectory() as temporary:
        for name, budget in product(PARTS, BUDGETS):
            if not wanted or name in wanted or f"{name}:{budget}" in wanted:
                yield _measure_once(name, budget, folder or Path(temporary))


def _measure_once(name: str, budget: float, folder: Path) -> Row:
    kept = folder / f"{name}-{budget}.json"
    if not kept.exists():
        row = {"part": name, "budget": budget, **_measure(name, budget, folder)}
        kept.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return dict(json.loads(kept.read_text(encoding="utf-8")))


def _measure(name: str, budget: float, folder: Path) -> Row:
    from tfperf.runcard.dump import to_json_tree
    from tfperf.study.memory import run_memory_study
    from tfperf.workloads.cards import load_checked_card

    card = load_checked_card(PARTS[name], [f"memory={{budget: {budget}, device: cpu-arena}}"])
    start = time.perf_counter()
    report = run_memory_study(card, folder / f"{name}-{budget}", lambda *_: None)
    found, seconds = report["modes"]["train"], time.perf_counter() - start
    batch = found["largest"]["batch"]
    counter = TrialCounter(to_json_tree(card), report["room"]["limit"], folder / f"{name}-{budget}-truth")
    largest = _find_largest(counter, batch)
    return {
        "batch": batch, "bisected": largest, "share": batch / largest, "seconds": seconds,
        "processes": found["processes"], **_compare_law(found["law"]),
    }  # fmt: skip


def _compare_law(law: dict[str, Any] | None) -> Row:
    """What the law says of the largest batch beside the peak that was measured there with the whole budget."""
    if law is None or law["at_largest"]["bytes"] is None:
        return {"middle": None, "width": None, "holds": None}
    at, peak = law["at_largest"], law["at_largest"]["measured"]
    if at["low"] is None:
        return {"middle": at["bytes"] / peak, "width": None, "holds": None}
    holds = bool(at["low"] <= peak <= at["high"])
    return {"middle": at["bytes"] / peak, "width": (at["high"] - at["low"]) / at["bytes"], "holds": holds}


def _find_largest(counter: TrialCounter, low: int) -> int:
    """The largest batch that passes, from one that does on."""
    high = int(ABOVE * low) + 1
    while _can_pass(counter, high):
        low, high = high, int(ABOVE * high) + 1
    while high / low > FINE and high - low > 1:
        middle = (low + high) // 2
        if _can_pass(counter, middle):
            low = middle
        else:
            high = middle
    return low


def _can_pass(counter: TrialCounter, batch: int) -> bool:
    return all(counter.run(batch) for _ in range(PASSES))
