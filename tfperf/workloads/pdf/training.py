"""Training of one part of a run: choices, checkpoints, signals. Imports TensorFlow."""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import tensorflow as tf

from tfperf.console.stages import Stages
from tfperf.errors import RunDirectoryError, ToleranceError
from tfperf.measure.clock import Stopwatch
from tfperf.results.contents import CARD, EVENTS, STATE
from tfperf.signals import Signals
from tfperf.train import choice_cache
from tfperf.train.bound import estimate_bound
from tfperf.train.choices import Choices
from tfperf.train.choosing import choose
from tfperf.train.cores import Cores, share_cores
from tfperf.train.ensemble import Ensemble
from tfperf.train.machine import make_host_record, make_machine_record, use_threads
from tfperf.train.parts import make_checkpoints, resume, warn_of_change
from tfperf.train.program_cache import keep_programs, offer_programs, point_tensorflow
from tfperf.train.retirement import make_retirement
from tfperf.train.trainer import EnsembleProgress, Trainer
from tfperf.train.window import Recorder, end_recording
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.card_engine import count_threads
from tfperf.workloads.pdf.cores import measure_cores
from tfperf.workloads.pdf.evaluate import TrainingOutcome, decode_statuses
from tfperf.workloads.pdf.forms import LAYOUTS, NAMES, Candidates, Chi2Form
from tfperf.workloads.pdf.operators.problem import Problem
from tfperf.workloads.pdf.results.record import ReplicaHistory
from tfperf.workloads.pdf.stack import PDFStackFactory
from tfperf.workloads.pdf.tolerance import Chi2Check
from tfperf.workloads.replica_chunks import ReplicaPart, ReplicaRun, list_sibling_chunks

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainedPart:
    """One part at its end."""

    outcome: TrainingOutcome
    seconds_per_step: dict[int, list[float]]  # of each call of this process, by the slots of the stacks that took steps


def choose_cores(card: Card, problem: Problem) -> Cores:
    """How a training of the problem uses the CPU; beside GPUs, for what little is left to it."""
    point_tensorflow(card.engine.cache)  # before it is asked for its devices
    if tf.config.list_physical_devices("GPU"):
        return Cores(count_threads(card.engine))
    # a program that XLA has to compile is started like that of a long training
    steps = sys.maxsize if card.engine.xla is True else card.train.steps
    entries = problem.observables.entries
    return share_cores(count_threads(card.engine), card.engine.stacks, len(problem.ids), entries, steps)


@dataclass(frozen=True)
class Startup:
    """TensorFlow as it was started; `choices`: where they had to be made before."""

    cores: Cores
    choices: Choices | None = None


def start_for_part(run: ReplicaRun, card: Card, part: ReplicaPart, problem: Problem, progress: Stages) -> Startup:
    """Start TensorFlow with the threads that the part began with, else with those of the card."""
    if part.choices:
        known = _find_past(run, card, part, problem, None)
        assert known is not None
        return Startup(start_tensorflow(card, known.cores, fixed=True), known)
    if card.engine.threads != "measure":
        fixed = card.engine.threads != "auto"
        return Startup(start_tensorflow(card, choose_cores(card, problem), fixed))
    found = _find_past(run, card, part, problem, None)
    if found is None:
        progress.show_stage("measuring threads and stacks")
        found = measure_cores(run.path / CARD, card.engine, len(part.own.ids))
        path = PDFStackFactory(card, problem).find_choices_path(None)
        for warning in () if found is None else choice_cache.write(path, found):
            progress.say(f"warning: {warning}")
    cores = start_tensorflow(card, choose_cores(card, problem) if found is None else found.cores)
    return Startup(cores, found if found is not None and found.cores == cores else None)


def start_tensorflow(card: Card, cores: Cores, fixed: bool = False) -> Cores:
    """Start TensorFlow as the card wants it; how the CPU is used then. Raises: RunDirectoryError, see `use_threads`."""
    point_tensorflow(card.engine.cache)
    threads = use_threads(cores.threads, fixed)
    # products in TF32 err by 1e-3, a tenth of a sigma
    tf.config.experimental.enable_tensor_float_32_execution(card.engine.tf32)
    if tf.config.list_physical_devices("GPU"):
        tf.config.experimental.enable_op_determinism()  # a resumed run must find the same bits
    tf.config.list_logical_devices()
    offer_programs(card.engine.cache, threads)
    LOGGER.info("TensorFlow %s is started with %d threads for %d stacks", tf.__version__, threads, cores.stacks)
    return replace(cores, threads=threads)


def train_part(
    run: ReplicaRun, card: Card, part: ReplicaPart, problem: Problem, startup: Startup, watch: Stopwatch,
    signals: Signals, show: Callable[[EnsembleProgress], None], progress: Stages,
) -> TrainedPart:  # fmt: skip
    """Train the part's replicas to the end, from its newest checkpoint where there is one.

    Raises Interrupted after a checkpoint when a signal came, StorageError when the disk is full.
    """
    say = progress.say
    progress.show_stage("building the replicas")
    with watch.measure_stage("build"):
        known = startup.choices or _find_past(run, card, part, problem, startup.cores)
        forms = Candidates(card, problem)
        form = forms.first if known is None else forms.make(known.form, known.products)
        factory = PDFStackFactory(card, problem, part.own.attempts)
        ensemble = Ensemble(factory.settings, factory, form, startup.cores.stacks, startup.cores.threads)
        checkpoints = make_checkpoints(run, part)
        if not checkpoints.has_any():
            # a resumed one may begin with smaller stacks; one stack is enough to try candidates
            _ = ensemble.build_loops() if known else ensemble.largest_loop
    with watch.measure_stage("compile"):
        choices = _decide(run, card, part, ensemble, factory, forms, startup, known, progress)
        check = Chi2Check(card, problem)
        retirement = make_retirement(card.train.steps, card.engine.retire_at, ensemble.layout, choices)
        recorder = _make_recorder(run, card, part, choices.steps_per_call, len(ensemble.shards))
        trainer = Trainer(
            ensemble, choices.xla, choices.steps_per_call, retirement, checkpoints, check, recorder, choices.losses_xla
        )
        resume(run, part, trainer, say)
        ensemble.warm_up(choices.xla, choices.losses_xla, progress.show_stage)
        keep_programs()
    progress.show_stage("training")
    with watch.measure_stage("train"), end_recording(recorder, say):
        trainer.train(signals, show)
    outcome = _finish(card, part, ensemble, trainer, startup.cores.threads, watch, progress)
    part.own.tolerance = check.summarise(cast(Chi2Form, ensemble.form), outcome.weights)
    if part.own.tolerance.get("violated"):
        off, worst = part.own.tolerance["off"], part.own.tolerance["worst_best"]
        told = f"engine.tolerance: chi2 per point of {len(off)} replicas is off by up to {worst:.2g} at best weights"
        if card.engine.on_violation == "fail":
            raise ToleranceError(f"{told}; allowed: a larger tolerance, on_violation: refit, or form: shared")
        say(f"warning: {told}: they are fitted again, exactly")
    keep_programs()  # of smaller stacks, and while it is known which were used
    ensemble.close()
    return TrainedPart(outcome, trainer.seconds_per_step)


def _finish(
    card: Card, part: ReplicaPart, ensemble: Ensemble, trainer: Trainer, threads: int, watch: Stopwatch,
    progress: Stages,
) -> TrainingOutcome:  # fmt: skip
    """What a training that has ended leaves, and how close its steps came to the machine's bound."""
    part.own.stacks = list(ensemble.sizes)
    progress.show_stage("evaluating")
    with watch.measure_stage("write"):
        part.own.bound = estimate_bound(ensemble, trainer, threads)
    outcome = _make_outcome(part, ensemble, trainer)
    progress.show_stage("checking the tolerance" if card.engine.tolerance else "evaluating")
    return outcome


def _make_recorder(run: ReplicaRun, card: Card, part: ReplicaPart, steps_per_call: int, loops: int) -> Recorder | None:
    """What records the profile that the card wants, of the first chunk alone."""
    if card.profile is None or part.own.chunk > 1:
        return None
    return Recorder(card.profile, run.path / EVENTS, steps_per_call, loops, [card.train.optimizer.name.lower()])


def _find_past(run: ReplicaRun, card: Card, part: ReplicaPart, problem: Problem, cores: Cores | None) -> Choices | None:
    """Choices that need not be made: of the part itself, of a chunk before this one, or of an earlier run.

    cores: as TensorFlow was started; None: it may not be yet, and its threads are to be those of the choices.
    """
    if part.choices:
        return _read_choices(run, part)
    for earlier in (one for one in list_sibling_chunks(run, part) if one.choices):
        found = _read_choices(run, earlier)
        if cores is None and earlier.machine.items() >= make_host_record().items():
            return found
        if cores is not None and earlier.machine == make_machine_record(found.threads):
            # a chunk of another size may have other stacks
            return replace(found, threads=cores.threads, cpu_stacks=cores.stacks)
    return PDFStackFactory(card, problem).read_choices(cores)


def _read_choices(run: ReplicaRun, part: ReplicaPart) -> Choices:
    try:
        return Choices.from_dict(part.choices, NAMES, LAYOUTS)
    except (KeyError, TypeError, ValueError) as error:
        raise RunDirectoryError(f"{run.path / STATE}: damaged choices: {error}") from None


def _decide(
    run: ReplicaRun, card: Card, part: ReplicaPart, ensemble: Ensemble, factory: PDFStackFactory, forms: Candidates,
    startup: Startup, known: Choices | None, progress: Stages,
) -> Choices:  # fmt: skip
    """Choices of the part: those known, or made now; written before the first step."""
    say = progress.say
    here = make_machine_record(startup.cores.threads)
    if part.choices:
        assert known is not None
        warn_of_change(part, here, say)
        LOGGER.info("choices of run.json: %s", known.describe())
        return known
    choices = known or choose(ensemble, forms, startup.cores, progress.show_stage)
    if known is None:
        for warning in choice_cache.write(factory.find_choices_path(startup.cores), choices):
            say(f"warning: {warning}")
    fixed = card.train.steps_per_call
    if fixed != "auto" and choices.steps_per_call < fixed:
        say(f"train.steps_per_call: {fixed} steps would take over 2 s a call; {choices.steps_per_call} are taken")
    origin = "measured now" if known is None else "of an earlier run" if known.cached else "of an earlier part"
    LOGGER.info("choices %s: %s", origin, choices.describe())
    part.choices, part.machine = choices.to_dict(), here
    make_checkpoints(run, part).clear()  # of a part that is done
    run.save_state()
    return choices


def _make_outcome(part: ReplicaPart, ensemble: Ensemble, trainer: Trainer) -> TrainingOutcome:
    end, history = ensemble.gather_state(), trainer.make_history()
    state, best = end["stopping/state"], end["stopping/best_step"]
    stop = np.where(state == 0, ensemble.step, end["stopping/stop_step"])
    return TrainingOutcome(
        np.array(part.own.ids), np.array(part.own.attempts), decode_statuses(state, best), best, stop,
        ensemble.get_best_weights(), ReplicaHistory(history.step, **history.metrics),
    )  # fmt: skip
