"""A card's steps recorded by TensorFlow's profiler, as a fit takes them, or as the naive form does."""

from pathlib import Path
from uuid import uuid4

from tfperf.measure.quiet import native_logs_dropped
from tfperf.report.counting import Show
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import UnfitCard
from tfperf.runcard.profile import Profile
from tfperf.trace.callback import ProfileCallback
from tfperf.train import kept_choices
from tfperf.train.choices import Choices
from tfperf.train.choosing import choose
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.window import SKIPPED, Recorded
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.cores import total_threads
from tfperf.workloads.pdf.forms import Candidates
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.stack import PDFStacks
from tfperf.workloads.pdf.training import cores_of, start_machine
from tfperf.workloads.stepping import record_steps, wait_for_second


def silent(done: int, total: int, words: str) -> None:
    """Shows no progress."""


def record_card(card: Card, logdir: Path, repeat: int = 1, naive: bool = False, show: Show = silent) -> Recorded:
    """Record steps of the card's training, in calls as long as a fit's, but six at least, `repeat` times.

    naive: Keras' `fit` of a model for each replica instead, one step a call.
    Raises: CardError where the training is too short for that, or the card's files are at fault.
    """
    show(0, repeat, "builds the problem")
    inputs = read_inputs(card)
    problem = build_problem(card, inputs.selection, card.replicas, inputs.t0_pdf, inputs.law)
    records = _record_naive if naive else _record_engine
    return records(card, problem, logdir, repeat, show)


def _choices(card: Card, problem: Problem) -> tuple[Ensemble, Choices]:
    """The ensemble as a fit has it, with the choices of an earlier fit or made now."""
    stacks = PDFStacks(card, problem)
    known = stacks.kept_choices(None) if card.engine.threads == "measure" else None
    cores = start_machine(card, known.cores if known else cores_of(card, problem))
    known = known or stacks.kept_choices(cores)
    forms = Candidates(card, problem)
    form = forms.first if known is None else forms.make(known.form, known.products)
    ensemble = Ensemble(stacks.settings, stacks, form, cores.stacks, cores.threads)
    choices = known or choose(ensemble, forms, cores)
    if known is None:
        kept_choices.keep(stacks.place(cores), choices)
    return ensemble, choices


class EngineStepper:
    """The steps of an ensemble as a fit takes them, with a look at the losses after each call."""

    def __init__(self, card: Card, ensemble: Ensemble, choices: Choices) -> None:
        self.ensemble, self.choices, self.steps = ensemble, choices, card.train.steps
        self.steps_per_call, self.loops = choices.steps_per_call, len(ensemble.shards)
        self.optimizers = (card.train.optimizer.name.lower(),)

    def warm_up(self) -> None:
        """Compile steps and losses."""
        self.ensemble.warm_up(self.choices.xla, self.choices.losses_xla)

    def call(self, steps: int) -> int:
        """Of all replicas."""
        before = self.ensemble.step
        self.ensemble.run(steps, self.choices.xla)
        self.ensemble.evaluate(self.choices.losses_xla)
        return self.ensemble.step - before

    def losses(self) -> list[float]:
        """None: trials of replicas have a record of their own."""
        return []

    def close(self) -> None:
        """Free the stacks."""
        self.ensemble.close()


def _record_engine(card: Card, problem: Problem, logdir: Path, repeat: int, show: Show) -> Recorded:
    show(0, repeat, "measures what the card leaves open, compiles")
    with native_logs_dropped():
        ensemble, choices = _choices(card, problem)
    return record_steps(card, EngineStepper(card, ensemble, choices), logdir, repeat, show)


def _record_naive(card: Card, problem: Problem, logdir: Path, repeat: int, show: Show) -> Recorded:
    from tfperf.workloads.pdf.naive import Naive, start_weights

    show(0, repeat, "builds a Keras model for each replica")
    start_machine(card, Cores(total_threads(card.engine)))
    with native_logs_dropped():
        naive, group = Naive(card, problem, start_weights(card, problem)), uuid4().hex
    window = card.profile or Profile()
    skip = max(window.skip, SKIPPED)
    if repeat * (skip + window.steps) > card.train.steps:
        said = f"{window.steps} steps are to be recorded after {skip} others, {repeat} times"
        raise UnfitCard(card, [Fault("train.steps", card.train.steps, said)])
    for number in range(repeat):
        show(number, repeat, f"traces, takes {skip} steps, records {window.steps}")
        wait_for_second()
        callback = ProfileCallback(logdir, window.steps, skip, window.host_level)
        callback.taken.group = group
        with native_logs_dropped():
            naive.run(skip + window.steps, callback)
    show(repeat, repeat, "recorded")
    return Recorded(callback.taken, 1)
