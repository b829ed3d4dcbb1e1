"""`tfperf fit`: from a card of any workload to a finished run directory."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfperf.console.stages import Stages
from tfperf.errors import CardError, RunDirectoryError
from tfperf.measure.clock import Stopwatch
from tfperf.measure.environment import collect_environment
from tfperf.measure.loading import unfreeze_at_end
from tfperf.results.rundir import RunDirectory, load_state
from tfperf.results.state import Part
from tfperf.runcard.dump import dump_card
from tfperf.runcard.kinds import AnyCard
from tfperf.runs.fit_log import log_fit
from tfperf.runs.unchanged import make_state, refuse_changed, refuse_old
from tfperf.signals import Signals
from tfperf.workloads.cards import read_workload_name
from tfperf.workloads.job import FinishedFit, Job, Session
from tfperf.workloads.options import Options, refuse_replicas
from tfperf.workloads.registry import WORKLOADS
from tfperf.workloads.workload import Workload

LOGGER = logging.getLogger(__name__)


def fit_card(
    card: AnyCard, output: Path, options: Options, progress: Stages, decided: Mapping[str, Any] = MappingProxyType({})
) -> FinishedFit:
    """What a fit of the card in the run directory `output` finds.

    decided: what a study has put in place of `auto`, by keys of the card, for run.json.
    Raises: UserError for a faulty card, its data or the directory, Interrupted when a signal stopped the training after
    a checkpoint.
    """
    with Signals().listen() as signals, unfreeze_at_end():
        return _fit_card(signals, progress, card, output, options, decided)


def _fit_card(
    signals: Signals, progress: Stages, card: AnyCard, output: Path, options: Options,
    decided: Mapping[str, Any] = MappingProxyType({}),
) -> FinishedFit:  # fmt: skip
    workload = WORKLOADS.get_offering("fit", card.workload)
    options.refuse_contradictions()
    if options.adds:
        refuse_replicas(workload, "--retry-failed" if options.retry_failed else "--replicas")
    workload.refuse_fit(card)
    watch = Stopwatch(workload.stages)
    with RunDirectory(output, workload.own_type, _list_own_files(output, workload)) as run:
        lock_directory(run, options, signals)
        session = Session(run, options, watch, signals, progress, partial(_fit_card, signals, progress), decided)
        return log_fit(session, workload.name, partial(_fit_held, workload, card, output, session))


def _fit_held(workload: Workload[Any], card: AnyCard, output: Path, session: Session[Any]) -> FinishedFit:
    """A fit in a run directory that this process holds."""
    run, progress, options = session.run, session.progress, session.options
    if workload.kind.code and run.exists and not options.force:  # before code that the card names is run
        if not (options.resume or options.adds):
            run.make_room(force=False)  # says what may be done
        state = load_state(run.path, workload.own_type)
        refuse_changed(run.path, card, workload.kind, {**state.inputs, **workload.hash_files(card)}, state)
    progress.show_stage("reading data")
    with session.watch.measure_stage("data"):
        job = workload.build_job(card, session)
    parts = prepare_parts(job)
    if not parts:
        progress.say(f"{output}: nothing left to do")
        return job.read_finished()
    LOGGER.info("%d of %d parts are left", sum(not part.done for part in parts), len(parts))
    with job.open_resources():
        for part in (one for one in parts if not one.done):
            job.fit_part(part, parts)
            part.done = True
            run.save_state()
        return job.make_finished()


def _list_own_files(output: Path, workload: Workload[Any]) -> Sequence[str]:
    """What the workload's runs have of their own, and those of the workload whose run may be in its way."""
    before = read_workload_name(output)
    with suppress(CardError):  # what offers it may be gone
        return list(dict.fromkeys([*workload.own_files, *WORKLOADS.get(before).own_files]))
    return workload.own_files


def lock_directory(run: RunDirectory[Any], options: Options, signals: Signals) -> None:
    """Lock the directory of a run before a file is read or written: whatever ends the command then, --resume goes on.

    Raises: RunDirectoryError where another process has it, and where there is nothing to go on with.
    """
    if options.resume and not (run.exists or run.is_reserved):
        raise RunDirectoryError(f"{run.path}: holds no run; leave --resume out to begin one")
    run.acquire()
    if run.exists and (options.resume or options.adds):
        run.log.open()
    signals.advice = "go on with --resume"


def prepare_parts(job: Job[Any, Any]) -> Sequence[Part[Any]]:
    """The parts that were asked for together and are not all done; none when nothing is left to do.

    What a forced new run replaces is removed here. Raises: RunDirectoryError when the options do not fit the run.
    """
    run, options = job.session.run, job.session.options
    kind = WORKLOADS.get_for_card(job.card).kind
    if options.force or not run.exists:
        if options.retry_failed:
            raise RunDirectoryError(f"{run.path}: holds no run; leave --retry-failed out to begin one")
        parts, card = job.make_first_parts(), job.make_run_card()
        run.make_room(options.force)
        run.begin(
            dump_card(card), collect_environment(), make_state(card, kind, job.hashes, parts, job.session.decided)
        )
        return _list_pending(run)
    if not (options.resume or options.adds):
        run.make_room(force=False, more=job.extension_hint)  # says what may be done
    state = run.load()
    job.refuse_damaged(state)
    refuse_changed(run.path, job.card, kind, job.hashes, state)
    pending = run.find_pending()
    if options.resume:
        job.refuse_others(state)
        return _list_pending(run)
    if pending is not None:
        raise RunDirectoryError(f"{run.path}: the run is not finished; go on with it by --resume first")
    refuse_old(run.path, state)
    if parts := job.make_more_parts(state):
        run.save(replace(state, parts=[*state.parts, *parts]))
    return _list_pending(run)


def _list_pending(run: RunDirectory[Any]) -> Sequence[Part[Any]]:
    """The parts from the first on that is not done: one command's, since none is added before all are done."""
    pending = run.find_pending()
    return [] if pending is None else run.loaded_state.parts[run.find_index(pending) :]
