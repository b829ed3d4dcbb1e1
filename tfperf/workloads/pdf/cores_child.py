"""Choices of a card measured with its threads and stacks, in a process of its own.

python -m tfperf.workloads.pdf.cores_child CARD KEY=VALUE ... prints one line of JSON: the choices, and the milliseconds
that a step of all replicas takes with them.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tfperf.train.choosing import REPEATS, TIMING_SECONDS, choose
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.cores import Answer
from tfperf.workloads.pdf.forms import Candidates
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import build_problem
from tfperf.workloads.pdf.stack import build_ensemble
from tfperf.workloads.pdf.training import choose_cores, start_tensorflow


def measure_here(card_path: Path, overrides: Sequence[str]) -> Answer:
    """Measure in this process, with the card's threads and stacks."""
    card = load_card(card_path, overrides)
    inputs = read_inputs(card)
    problem = build_problem(card, inputs.selection, card.replicas, inputs.t0_pdf, inputs.law)
    cores = start_tensorflow(card, choose_cores(card, problem))
    forms = Candidates(card, problem)
    ensemble = build_ensemble(card, problem, forms.first, cores)
    choices = choose(ensemble, forms, cores)
    ensemble.warm_up(choices.xla, choices.losses_xla)
    calls, ms_per_step = max(1, choices.steps_per_call // REPEATS), []
    for _ in range(REPEATS):
        before, start = ensemble.step, time.perf_counter()
        while time.perf_counter() - start < TIMING_SECONDS and not ensemble.is_done():
            ensemble.run(calls, choices.xla)
        ms_per_step.append(1e3 * (time.perf_counter() - start) / max(1, ensemble.step - before))
    return choices, median(ms_per_step)


if __name__ == "__main__":
    choices, ms = measure_here(Path(sys.argv[1]), sys.argv[2:])
    print(json.dumps({"choices": choices.to_dict(), "ms_per_step": ms}), flush=True)
