"""One form of a card measured, as a program of its own: a JSON request on stdin, a JSON record on stdout.

`python -m tfperf.workloads.pdf.form_trial`. A fresh process, so that memory is this form's alone and none profits from
another.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfperf.errors import UserError
from tfperf.measure import lifeline
from tfperf.measure.environment import peak_rss_bytes
from tfperf.runcard.keys import Tree
from tfperf.train.cores import Cores
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.runners import Engine, Keras, timing
from tfperf.workloads.pdf.switches import to_card

# what `auto` stands for, where the card leaves it to a measurement -> its name among the choices
DECIDED = {
    "engine.form": "form", "engine.products": "products", "engine.xla": "xla", "train.steps_per_call": "steps_per_call",
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What to measure of which form; all values come from JSON."""

    card: Tree
    naive: bool = False
    decide: bool = False  # find what `auto` stands for, nothing else
    seconds: float | None = None  # of steps to be timed, FEWEST samples at least; None: no timing
    checked: tuple[int, ...] = ()  # replicas whose losses after one step are wanted, in float64


def carry_out(request: Request) -> dict[str, Any]:
    """The record of a request; UserError where the card asks for what this form cannot do."""
    # loaded here: they bring TensorFlow, which the program that starts trials does not need
    from tfperf.workloads.pdf.cores import total_threads
    from tfperf.workloads.pdf.training import cores_of, start_machine

    card = to_card(request.card)
    problem = read_problem(card, card.replicas)
    cores = start_machine(card, Cores(total_threads(card.engine)) if request.naive else cores_of(card, problem))
    if request.decide:
        return {"choices": decide(card, problem, cores)}

    def form(card: Card, problem: Problem) -> Engine | Keras:
        return Keras(card, problem) if request.naive else Engine(card, problem, cores)

    record: dict[str, Any] = {"threads": cores.threads, "stacks": cores.stacks}
    if request.seconds is not None:
        record |= timing(lambda: form(card, problem), request.seconds)
        record["peak_rss_bytes"] = peak_rss_bytes()
    if request.checked:
        exact = replace(card, engine=replace(card.engine, precision="float64"))
        problem = read_problem(exact, request.checked)
        losses = form(exact, problem).losses()
        record["losses"] = {name: np.asarray(v, np.float64).tolist() for name, v in losses.items()}
        halves = {"training": problem.training, "validation": ~problem.training}
        record["points"] = {name: half.sum(axis=1).tolist() for name, half in halves.items()}
    return record


def read_problem(card: Card, ids: tuple[int, ...]) -> Problem:
    """The card's problem for some replicas."""
    inputs = read_inputs(card)
    return build_problem(card, inputs.selection, ids, inputs.t0_pdf, inputs.law)


def decide(card: Card, problem: Problem, cores: Cores) -> dict[str, Any]:
    """What the engine chooses where the card says `auto`, as a fit would."""
    from tfperf.train.choices import choose
    from tfperf.workloads.pdf.forms import Candidates
    from tfperf.workloads.pdf.stack import build_ensemble

    forms = Candidates(card, problem)
    choices = choose(build_ensemble(card, problem, forms.first, cores), forms, cores).as_dict()
    return {key: choices[name] for key, name in DECIDED.items()}


def main() -> None:
    """Read the request, print the record."""
    request = lifeline.request()
    lifeline.tie()
    try:
        record = carry_out(Request(**request | {"checked": tuple(request["checked"])}))
    except UserError as error:
        record = {"refused": list(error.faults)}
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
