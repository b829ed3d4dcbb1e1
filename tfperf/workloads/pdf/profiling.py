"""A card's steps recorded by TensorFlow's profiler, as a fit takes them, or as the naive training does."""

from pathlib import Path
from uuid import uuid4

from tfperf.measure.quiet import drop_native_logs
from tfperf.report.study_progress import ShowCount
from tfperf.runcard.faults import Fault
from tfperf.runcard.places import make_unfit_error
from tfperf.runcard.profile import Profile
from tfperf.trace.callback import ProfileCallback
from tfperf.train import choice_cache
from tfperf.train.choices import Choices
from tfperf.train.choosing import choose
from tfperf.train.cores import Cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.window import SKIPPED, Recording, count_spare_calls
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.card_engine import count_threads
from tfperf.workloads.pdf.forms import Candidates
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.operators.problem import Problem, build_problem
from tfperf.workloads.pdf.stack import PDFStackFactory
from tfperf.workloads.pdf.training import choose_cores, start_tensorflow
from tfperf.workloads.stepper import record_steps, wait_for_second


def record_card(card: Card, logdir: Path, repeat: int, naive: bool, show: ShowCount) -> Recording:
    """Record steps of the card's training, in calls as long as a fit's, but six at least, `repeat` times.

    naive: Keras' `fit` of a model for each replica instead, one step a call.
    Raises: CardError where the training is too short for that, or the card's files are at fault.
    """
    show(0, repeat, "builds the problem")
    inputs = read_inputs(card)
    problem = build_problem(card, inputs.selection, card.replicas, inputs.t0_pdf, inputs.law)
    records = _record_naive if naive else _record_engine
    return records(card, problem, logdir, repeat, show)


def _prepare_ensemble(card: Card, problem: Problem) -> tuple[Ensemble, Choices]:
    """The ensemble as a fit has it, with the choices of an earlier fit or made now."""
    factory = PDFStackFactory(card, problem)
    known = factory.read_choices(None) if card.engine.threads == "measure" else None
    cores = start_tensorflow(card, known.cores if known else choose_cores(card, problem))
    known = known or factory.read_choices(cores)
    forms = Candidates(card, problem)
    form = forms.first if known is None else forms.make(known.form, known.products)
    ensemble = Ensemble(factory.settings, factory, form, cores.stacks, cores.threads)
    choices = known or choose(ensemble, forms, cores)
    if known is None:
        choice_cache.write(factory.find_choices_path(cores), choices)
    return ensemble, choices


class EnsembleStepper:
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

    def list_losses(self) -> list[float]:
        """None: trials of replicas have a record of their own."""
        return []

    def close(self) -> None:
        """Free the stacks."""
        self.ensemble.close()


def _record_engine(card: Card, problem: Problem, logdir: Path, repeat: int, show: ShowCount) -> Recording:
    show(0, repeat, "measures what the card leaves open, compiles")
    with drop_native_logs():
        ensemble, choices = _prepare_ensemble(card, problem)
    return record_steps(card, EnsembleStepper(card, ensemble, choices), logdir, repeat, show, "engine")


def _record_naive(card: Card, problem: Problem, logdir: Path, repeat: int, show: ShowCount) -> Recording:
    from tfperf.workloads.pdf.naive import NaiveTraining, make_initial_weights

    show(0, repeat, "builds a Keras model for each replica")
    start_tensorflow(card, Cores(count_threads(card.engine)))
    with drop_native_logs():
        naive, series = NaiveTraining(card, problem, make_initial_weights(card, problem)), uuid4().hex
    window = card.profile or Profile()
    skip = max(window.skip, SKIPPED)
    if repeat * (skip + window.steps) > card.train.steps:
        said = f"{window.steps} steps are to be recorded after {skip} others, {repeat} times"
        raise make_unfit_error(card, [Fault("train.steps", card.train.steps, said)])
    spare = count_spare_calls(card.train.steps, repeat * (skip + window.steps), repeat)
    for number in range(repeat):
        show(number, repeat, f"traces, takes {skip} steps, records {window.steps}")
        wait_for_second()
        callback = ProfileCallback(logdir, window.steps, skip, window.host_level)
        callback.capture.series = series
        with drop_native_logs():
            naive.run(skip + window.steps + spare, callback)
    show(repeat, repeat, "recorded")
    return Recording(callback.capture, 1)
