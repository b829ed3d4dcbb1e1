"""`tfperf fit`: from a card of any workload to a finished run directory."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tfperf.console.stages import Stages
from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.clock import Stopwatch
from tfperf.measure.environment import environment
from tfperf.measure.loading import thawed
from tfperf.results.rundir import RunDirectory
from tfperf.results.state import Part
from tfperf.runcard.dump import dump_card
from tfperf.runcard.kinds import AnyCard
from tfperf.runs.unchanged import begin_state, refuse_changed, refuse_old
from tfperf.signals import Signals
from tfperf.workloads.cards import name_workload
from tfperf.workloads.job import Fitted, Job, Session
from tfperf.workloads.options import Options, refuse_replicas
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.workload import Workload


def carry_out(card: AnyCard, output: Path, options: Options, progress: Stages) -> Fitted:
    """What a fit of the card in the run directory `output` finds.

    Raises: UserError for a faulty card, its data or the directory, Interrupted when a signal stopped the training after
    a checkpoint.
    """
    with Signals().listening() as signals, thawed():
        return _carry_out(signals, progress, card, output, options)


def _carry_out(signals: Signals, progress: Stages, card: AnyCard, output: Path, options: Options) -> Fitted:
    workload = WORKLOADS.offering("fit", card.workload)
    options.refuse_contradictions()
    if options.adds:
        refuse_replicas(workload, "--retry-failed" if options.retry_failed else "--replicas")
    workload.refuse_fit(card)
    watch = Stopwatch(workload.stages)
    with RunDirectory(output, workload.own, _made(output, workload)) as run, ExitStack() as stack:
        take_directory(run, options, signals)
        within = partial(_carry_out, signals, progress)
        session = Session(run, options, watch, signals, progress, within)
        progress.tell("reading data")
        with watch.stage("data"):
            job = workload.job(card, session)
        parts = open_parts(job)
        if not parts:
            progress.say(f"{output}: nothing left to do")
            return job.read_finished()
        stack.enter_context(job.resources())
        for part in (one for one in parts if not one.done):
            job.carry_out(part, parts)
            part.done = True
            run.save_state()
        return job.fitted()


def _made(output: Path, workload: Workload[Any]) -> Sequence[str]:
    """What the workload's runs have of their own, and those of the workload whose run may be in its way."""
    before = name_workload(output)
    with suppress(CardError):  # what offers it may be gone
        return list(dict.fromkeys([*workload.made, *WORKLOADS.find(before).made]))
    return workload.made


def take_directory(run: RunDirectory[Any], options: Options, signals: Signals) -> None:
    """Lock the directory of a run before anything else is done, so that whatever ends the command, --resume goes on.

    Raises: RunDirectoryError where another process has it, and where there is nothing to go on with.
    """
    if options.resume and not (run.exists or run.is_reserved):
        raise RunDirectoryError(f"{run.path}: holds no run; leave --resume out to begin one")
    run.hold()
    signals.advice = "go on with --resume"


def open_parts(job: Job[Any, Any]) -> Sequence[Part[Any]]:
    """The parts that were asked for together and are not all done; none when nothing is left to do.

    What a forced new run replaces is removed here. Raises: RunDirectoryError when the options do not fit the run.
    """
    run, options = job.session.run, job.session.options
    kind = WORKLOADS.of(job.card).kind
    if options.force or not run.exists:
        if options.retry_failed:
            raise RunDirectoryError(f"{run.path}: holds no run; leave --retry-failed out to begin one")
        parts, card = job.begin_parts(), job.begun_card()
        run.make_room(options.force)
        run.start(dump_card(card), environment(), begin_state(card, kind, job.hashes, parts))
        return _pending(run)
    if not (options.resume or options.adds):
        run.make_room(force=False, more=job.adds)  # says what may be done
    state = run.load()
    job.refuse_damaged(state)
    refuse_changed(run.path, job.card, kind, job.hashes, state)
    pending = run.pending()
    if options.resume:
        job.refuse_others(state)
        return _pending(run)
    if pending is not None:
        raise RunDirectoryError(f"{run.path}: the run is not finished; go on with it by --resume first")
    refuse_old(run.path, state)
    if parts := job.more_parts(state):
        run.save(replace(state, parts=[*state.parts, *parts]))
    return _pending(run)


def _pending(run: RunDirectory[Any]) -> Sequence[Part[Any]]:
    """The parts from the first on that is not done: one command's, since none is added before all are done."""
    pending = run.pending()
    return [] if pending is None else run.begun.parts[run.number(pending) :]
