"""A card's steps recorded by TensorFlow's profiler, as a fit takes them, or as the naive form does."""

import time
from pathlib import Path
from uuid import uuid4

from tfperf.measure.quiet import native_logs_dropped
from tfperf.report.counting import Show
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import UnfitCard
from tfperf.runcard.profile import Profile
from tfperf.trace.callback import ProfileCallback
from tfperf.trace.capture import capture
from tfperf.train.choices import Choices, choose
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.window import SKIPPED, Recorded, calls_of, describe
from tfperf.workloads.pdf import decisions
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.cores import total_threads
from tfperf.workloads.pdf.forms import Candidates
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.training import cores_of, start_machine


def silent(done: int, total: int, words: str) -> None:
    """Shows no progress."""


def record_card(card: Card, logdir: Path, repeat: int = 1, naive: bool = False, show: Show = silent) -> Recorded:
    """Record steps of the card's training, in calls as long as a fit's, but six at least, `repeat` times.

    naive: Keras' `fit` of a model for each replica instead, one step a call.
    Raises: CardError where the training is too short for that, or the card's files are at fault.
    """
    show(0, repeat, "builds the problem")
    inputs, window = read_inputs(card), card.profile or Profile()
    problem = build_problem(card, inputs.selection, card.replicas, inputs.t0_pdf, inputs.law)
    records = _record_naive if naive else _record_engine
    return records(card, problem, logdir, window, repeat, show)


def _choices(card: Card, problem: Problem) -> tuple[Ensemble, Choices]:
    """The ensemble as a fit has it, with the choices of an earlier fit or made now."""
    known = decisions.read(card, decisions.place(card, problem, None)) if card.engine.threads == "measure" else None
    cores = start_machine(card, known.cores if known else cores_of(card, problem))
    place = decisions.place(card, problem, cores)
    known = known or decisions.read(card, place)
    forms = Candidates(card, problem)
    form = forms.first if known is None else forms.make(known.form, known.products)
    ensemble = Ensemble(card, problem, [0] * len(problem.ids), form, cores.stacks, cores.threads)
    choices = known or choose(card, ensemble, forms, cores)
    if known is None:
        decisions.keep(place, choices)
    return ensemble, choices


def _record_engine(card: Card, problem: Problem, logdir: Path, window: Profile, repeat: int, show: Show) -> Recorded:
    show(0, repeat, "measures what the card leaves open, compiles")
    with native_logs_dropped():
        ensemble, choices = _choices(card, problem)
    per_call, calls, skipped = calls_of(window, choices.steps_per_call)
    if repeat * (skipped + calls) * per_call > card.train.steps:
        times = "" if repeat == 1 else f", {repeat} times"
        said = f"{calls} calls of {per_call} steps are to be recorded after {skipped} others{times}"
        raise UnfitCard(card, [Fault("train.steps", card.train.steps, said)])
    ensemble.warm_up(choices.xla, choices.losses_xla)
    group = uuid4().hex
    for number in range(repeat):
        show(number, repeat, f"records {calls} calls of {per_call} steps")
        _next_second()
        with native_logs_dropped(), capture(logdir, calls, skipped, window.host_level) as taken:
            describe(taken, card, len(ensemble.shards))
            taken.turns = per_call
            taken.group = group
            for call in range(skipped + taken.steps):
                with taken.step(call):
                    ensemble.run(per_call, choices.xla)
                    ensemble.evaluate(choices.losses_xla)
    show(repeat, repeat, "recorded")
    ensemble.close()
    return Recorded(taken, per_call)


def _record_naive(card: Card, problem: Problem, logdir: Path, window: Profile, repeat: int, show: Show) -> Recorded:
    from tfperf.workloads.pdf.naive import Naive, start_weights

    show(0, repeat, "builds a Keras model for each replica")
    start_machine(card, Cores(total_threads(card.engine)))
    with native_logs_dropped():
        naive, group = Naive(card, problem, start_weights(card, problem)), uuid4().hex
    skip = max(window.skip, SKIPPED)
    if repeat * (skip + window.steps) > card.train.steps:
        said = f"{window.steps} steps are to be recorded after {skip} others, {repeat} times"
        raise UnfitCard(card, [Fault("train.steps", card.train.steps, said)])
    for number in range(repeat):
        show(number, repeat, f"traces, takes {skip} steps, records {window.steps}")
        _next_second()
        callback = ProfileCallback(logdir, window.steps, skip, window.host_level)
        callback.taken.group = group
        with native_logs_dropped():
            naive.run(skip + window.steps, callback)
    show(repeat, repeat, "recorded")
    return Recorded(callback.taken, 1)


def _next_second() -> None:
    """Wait for the clock's next second: TensorFlow calls a profile's folder by it."""
    time.sleep(1.05 - time.time() % 1)
