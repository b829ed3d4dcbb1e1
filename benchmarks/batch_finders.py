"""The search for the largest batch of `tfperf memory` beside those of two other programs, on the same trials."""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.registry import Row, register_benchmark

CARDS = Path(__file__).parents[1] / "runcards"
PARTS = {"digits": CARDS / "keras_digits.yaml", "text": CARDS / "keras_text.yaml"}
BUDGET, GIB = 0.5, 2**30
FIRST, MOST_TRIALS, MOST_BATCH, MARGIN = 2, 25, 8192, 0.05  # of Lightning 2.6.6
STARTS, SHRINK = (128, MOST_BATCH), 0.9  # of accelerate 1.15: where it starts by default, and by what it goes down
Passes = Callable[[int], bool]


@dataclass
class TrialCounter:
    """Fresh processes that take five steps of a batch each; the whole budget is theirs."""

    tree: dict[str, Any]
    limit: int
    folder: Path
    tried: list[int] = field(default_factory=list)
    peaks: dict[int, int] = field(default_factory=dict)
    failures: int = 0

    def run(self, batch: int) -> bool:
        """Whether a process takes the steps."""
        from tfperf.study.child import run_subprocess
        from tfperf.study.memory import COMMAND
        from tfperf.study.trial_ends import find_end

        request = {
            "card": self.tree, "mode": "train", "device": "cpu-arena", "limit": self.limit, "batch": batch,
            "length": None, "share": None, "more": 0, "folder": str(self.folder / f"trial-{len(self.tried)}"),
        }  # fmt: skip
        self.tried.append(batch)
        record = run_subprocess(COMMAND, request, lambda: False, 600.0)
        assert record is not None
        if (end := find_end(record)) is not None:
            assert end.kind != "fault", end.why
            self.failures += 1
            return False
        self.peaks[batch] = record["batches"][-1]["most"]
        return True


def search_by_doubling(passes: Passes) -> int:
    """Lightning's mode `power`: twice as much until a batch fails, then half of that."""
    batch, found = FIRST, 0
    for _ in range(MOST_TRIALS):
        if batch >= MOST_BATCH or not passes(batch):
            break
        found, batch = batch, 2 * batch
    return found


def search_by_halving(passes: Passes) -> int:
    """Lightning's mode `binsearch`: twice as much until a batch fails, then between the last two; less its margin."""
    low, high, batch = 1, 0, FIRST
    for _ in range(MOST_TRIALS):
        if batch >= MOST_BATCH:
            break
        if passes(batch):
            low = batch
        else:
            high = batch
        if high and high - low <= 1:
            break
        batch = (low + high) // 2 if high else 2 * batch
    return max(1, int(low * (1 - MARGIN)))


def search_by_shrinking(start: int, passes: Passes) -> int:
    """accelerate's `find_executable_batch_size`: 0.9 times as much after each failure."""
    batch = start
    while batch and not passes(batch):
        batch = int(SHRINK * batch)
    return batch


FINDERS: dict[str, Callable[[Passes], int]] = {
    "Lightning, power": search_by_doubling,
    "Lightning, binsearch": search_by_halving,
    **{f"accelerate from {start}": partial(search_by_shrinking, start) for start in STARTS},
}


@register_benchmark(
    "batch-finders",
    claim="what each search for the largest batch finds, takes and leaves free",
    sweep=f"{', '.join(PARTS)}; tfperf memory, {', '.join(FINDERS)}; {BUDGET} GiB of the stand-in for a GPU",
    unit="trials (fresh processes), seconds, trials that failed, batch that was found, share of the budget that its "
    "peak leaves",
)
def measure_finders(only: str = "") -> Iterator[Row]:
    """Each search on each card, one after the other."""
    from tfperf.runcard.dump import to_json_tree
    from tfperf.workloads.cards import load_checked_card

    for name in only.split(",") if only else PARTS:
        with tempfile.TemporaryDirectory() as temporary:
            given = [f"memory={{budget: {BUDGET}, device: cpu-arena}}"]
            card, folder = load_checked_card(PARTS[name], given), Path(temporary)
            yield {"part": name, **_measure_tfperf(card, folder / "study")}
            for title, find in FINDERS.items():
                counter = TrialCounter(to_json_tree(card), int(BUDGET * GIB), folder)
                start = time.perf_counter()
                found = find(counter.run)
                seconds = time.perf_counter() - start
                peak = counter.peaks.get(found)  # of a batch less a margin that was never run nothing is known
                yield {
                    "part": name, "search": title, "trials": len(counter.tried), "seconds": seconds,
                    "failures": counter.failures, "batch": found,
                    "left": None if peak is None else 1 - peak / counter.limit,
                }  # fmt: skip


def _measure_tfperf(card: Any, folder: Path) -> Row:
    from tfperf.study.memory import run_memory_study

    start = time.perf_counter()
    report = run_memory_study(card, folder, lambda *_: None)
    found, budget = report["modes"]["train"], report["room"]["budget"]
    batch = found["largest"]["batch"]
    peak = max(point["most"] for point in found["points"] if point["batch"] == batch)
    return {
        "search": "tfperf memory", "trials": found["processes"], "seconds": time.perf_counter() - start,
        "failures": len(found["ends"]), "batch": batch, "left": 1 - peak / budget,
    }  # fmt: skip
