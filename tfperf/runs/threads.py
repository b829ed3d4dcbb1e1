"""How many CPU threads: numbers tried in child processes, since TensorFlow fixes its threads when it starts.

python -m tfperf.runs.threads CARD KEY=VALUE ... is such a child: it prints the choices of a card as one line of JSON.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tfperf.measure.environment import available_cores
from tfperf.train.choices import BUDGET_SECONDS, Choices, Trial

GAIN = 0.03  # a smaller difference is noise: the smaller number of threads is taken then, it leaves cores to others


def candidates() -> list[int]:
    """All cores, half of them, one."""
    cores = available_cores()
    return sorted({cores, cores // 2 or 1, 1}, reverse=True)


def measured_threads(card: Path, replicas: int, overrides: Sequence[str] = ()) -> Choices | None:
    """The choices with the fastest number of threads for that many replicas of a card; None where no child answered.

    With all cores all that the card leaves open is tried, with other numbers what was the fastest there.
    """
    end = time.perf_counter() + BUDGET_SECONDS
    first, *others = candidates()
    common = [f"replicas={replicas}", "engine.chunk=auto", *overrides]
    best = _ask(card, [*common, f"engine.threads={first}"], end)
    if best is None:
        return None
    found = {first: (_fastest(best), best)}
    xla = str(best.xla).lower()
    fixed = [f"engine.form={best.form}", f"engine.products={best.products}", f"engine.xla={xla}"]
    for number in others:
        answer = _ask(card, [*common, *fixed, f"engine.threads={number}"], end)
        if answer is not None:
            found[number] = (_fastest(answer), answer)
    least = min(ms for ms, _ in found.values())
    _, number = min((n, n) for n, (ms, _) in found.items() if ms <= (1 + GAIN) * least)
    chosen = found[number][1]
    tried: tuple[Trial, ...] = best.tried if number == first else chosen.tried
    return replace(chosen, tried=tried, threads_tried=tuple((n, ms) for n, (ms, _) in sorted(found.items())))


def _fastest(choices: Choices) -> float:
    return min(t.ms_per_step for t in choices.taken)


def _ask(card: Path, overrides: Sequence[str], end: float) -> Choices | None:
    """What a child chose; None where it failed or took too long."""
    command = [sys.executable, "-m", __name__, str(card), *overrides]
    # the program may run from a folder that is not installed
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    left = end - time.perf_counter()
    if left <= 0:
        return None
    try:
        # its errors would be met again, and told, when the run itself starts
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=left, check=True, env={**os.environ, "PYTHONPATH": path}
        )
        return Choices.from_dict(json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return None


def answer(card_path: Path, overrides: Sequence[str]) -> Choices:
    """Measure in this process, with the card's number of threads."""
    from tfperf.operators.problem import build_problem
    from tfperf.runcard.loader import load_card
    from tfperf.runs.inputs import read_inputs
    from tfperf.runs.part import machine_started
    from tfperf.train.choices import choose
    from tfperf.train.ensemble import Ensemble
    from tfperf.train.forms import candidates

    card = load_card(card_path, overrides)
    inputs = read_inputs(card)
    problem = build_problem(card, inputs.selection, card.replicas, inputs.t0_pdf, inputs.law)
    threads = machine_started(card, int(card.engine.threads))
    forms = candidates(card, problem)
    return choose(card, Ensemble(card, problem, [0] * len(problem.ids), forms[0]), forms, threads)


if __name__ == "__main__":
    print(json.dumps(answer(Path(sys.argv[1]), sys.argv[2:]).as_dict()), flush=True)
