"""How many threads and stacks: tried in child processes, since TensorFlow fixes its threads when it starts."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tfperf.train.choices import Choices
from tfperf.train.choosing import BUDGET_SECONDS
from tfperf.train.cores import FEWEST, share_cores
from tfperf.workloads.pdf.card_engine import Engine, count_threads
from tfperf.workloads.pdf.forms import LAYOUTS, NAMES

CHILD = "tfperf.workloads.pdf.cores_child"
GAIN = 0.03  # a smaller difference is noise: the smaller number of threads is taken then, it leaves cores to others
Answer = tuple[Choices, float]  # and the milliseconds of a step


def list_candidates(engine: Engine, replicas: int) -> list[tuple[int, int]]:
    """Threads and stacks: all cores, half of them, one; for one stack, for two, and for one or more on each core."""
    cores = count_threads(engine)
    # first what is taken unmeasured where the tables are small
    likely = share_cores(cores, engine.stacks, replicas, 0, sys.maxsize).stacks
    numbers = {1, 2, cores, likely} if engine.stacks == "auto" else {likely}
    pairs = {
        (threads, stacks)
        for threads in {cores, cores // 2 or 1, 1}
        for stacks in numbers
        if stacks in (1, likely) or (stacks <= cores and stacks * FEWEST <= replicas)
    }
    return sorted(pairs, key=lambda pair: (pair != (cores, likely), -pair[0], -pair[1]))


def measure_cores(card_path: Path, engine: Engine, replicas: int, overrides: Sequence[str] = ()) -> Choices | None:
    """The choices with the fastest threads and stacks for that many replicas of a card; None where no child answered.

    The first child tries all that the card leaves open, the others what was the fastest there.
    """
    end = time.perf_counter() + BUDGET_SECONDS
    common = [f"replicas={replicas}", "engine.chunk=auto", *overrides]
    found: dict[tuple[int, int], Answer] = {}
    for threads, stacks in list_candidates(engine, replicas):
        answer = _ask(card_path, [*common, f"engine.stacks={stacks}", f"engine.threads={threads}"], end)
        if answer is not None:
            if not found:
                choices = answer[0]
                fixed = {"form": choices.form, "products": choices.products, "xla": str(choices.xla).lower()}
                common += [f"engine.{key}={value}" for key, value in fixed.items()]
                tried = choices.tried
            found[threads, stacks] = answer
    if not found:
        return None
    least = min(ms for _, ms in found.values())
    near = [pair for pair, (_, ms) in found.items() if ms <= (1 + GAIN) * least]
    fewest = min(threads for threads, _ in near)
    best = min((pair for pair in near if pair[0] == fewest), key=lambda pair: found[pair][1])
    rows = tuple((choices.threads, choices.cpu_stacks, ms) for _, (choices, ms) in sorted(found.items()))
    return replace(found[best][0], tried=tried, cores_tried=rows)


def _ask(card_path: Path, overrides: Sequence[str], end: float) -> Answer | None:
    """What a child found; None where it failed or took too long."""
    command = [sys.executable, "-m", CHILD, str(card_path), *overrides]
    # the program may run from a folder that is not installed
    path = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])])
    left = end - time.perf_counter()
    if left <= 0:
        return None
    try:
        # its errors would be met again, and told, when the run itself starts
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=left, check=True, env={**os.environ, "PYTHONPATH": path}
        )
        found = json.loads(done.stdout.splitlines()[-1])
        return Choices.from_dict(found["choices"], NAMES, LAYOUTS), float(found["ms_per_step"])
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return None
