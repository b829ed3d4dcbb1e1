"""One variant of a card measured, in a process of its own."""

from dataclasses import replace
from typing import Any

import numpy as np

from tfperf.measure.environment import measure_peak_rss_bytes
from tfperf.train.cores import Cores
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.runners import EnsembleRunner, NaiveRunner, measure_speed
from tfperf.workloads.pdf.switches import DECIDED
from tfperf.workloads.switches import Request


def measure_variant(card: Card, request: Request) -> dict[str, Any]:
    """The record of a request, as study/variant.py tells; UserError where the card asks for what it cannot do."""
    # loaded here: they bring TensorFlow, which the program that starts trials does not need
    from tfperf.workloads.pdf.card_engine import count_threads
    from tfperf.workloads.pdf.training import choose_cores, start_tensorflow

    problem = read_problem(card, card.replicas)
    cores = start_tensorflow(card, Cores(count_threads(card.engine)) if request.naive else choose_cores(card, problem))
    if request.decide:
        return {"choices": decide(card, problem, cores)}

    def build_runner(card: Card, problem: Problem) -> EnsembleRunner | NaiveRunner:
        return NaiveRunner(card, problem) if request.naive else EnsembleRunner(card, problem, cores)

    record: dict[str, Any] = {"threads": cores.threads, "stacks": cores.stacks}
    if request.seconds is not None:
        record |= measure_speed(lambda: build_runner(card, problem), request.seconds)
        record["peak_rss_bytes"] = measure_peak_rss_bytes()
    if request.checked:
        exact = replace(card, engine=replace(card.engine, precision="float64"))
        problem = read_problem(exact, request.checked)
        losses = build_runner(exact, problem).evaluate_first_step()
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
    from tfperf.train.choosing import choose
    from tfperf.workloads.pdf.forms import Candidates
    from tfperf.workloads.pdf.stack import build_ensemble

    forms = Candidates(card, problem)
    choices = choose(build_ensemble(card, problem, forms.first, cores), forms, cores).to_dict()
    return {key: choices[name] for key, name in DECIDED.items()}
