"""`tfperf sweep`: every point of a card's sweep measured in fresh processes, in interleaved repeats."""

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tfperf.cluster.site import Site, parse_site
from tfperf.cluster.team import Team
from tfperf.cluster.teams import open_team
from tfperf.console.stages import format_duration
from tfperf.errors import RunDirectoryError, Stopped
from tfperf.measure.environment import digest_program
from tfperf.results.lock import DirectoryLock
from tfperf.signals import Signals
from tfperf.study import child
from tfperf.study.finished_trials import PROOF_FAILED, FinishedTrial, make_point_key
from tfperf.study.sweep_folder import TRIALS, SweepFolder
from tfperf.study.sweep_plan import SweepPlan, Trial, plan_sweep

COMMAND = (sys.executable, "-m", "tfperf.study.point")
POLL_SECONDS = 0.2
REFUSED = "refused: "  # how the error of a point begins that cannot be measured
ShowProgress = Callable[[int, int, str], None]  # trials done, in all, what is going on
OpenProgress = Callable[[], AbstractContextManager[ShowProgress]]


@dataclass(kw_only=True)
class _SweepRun:
    plan: SweepPlan
    folder: SweepFolder
    waiting: deque[Trial]
    done: int  # also those of earlier commands
    measured: set[str]  # points of which a trial has succeeded
    refused: dict[str, FinishedTrial]  # points that cannot be measured: none of their repeats is tried
    team: Team
    signals: Signals
    show_progress: ShowProgress
    command: Sequence[str]
    code: str  # digest of the program that all trials are measured by
    running: dict["Future[Any]", Trial] = field(default_factory=dict)
    trial_seconds: list[float] = field(default_factory=list)  # seconds of each trial of this command

    def run(self) -> None:
        """Until every trial has ended. Raises: Stopped, StorageError; what has ended until then is kept."""
        self._show_progress("starting")
        while self.waiting or self.running:
            if self.signals.received is not None:
                raise Stopped(self.signals.received)
            self._submit_trials()
            finished, _ = wait(self.running, POLL_SECONDS, FIRST_COMPLETED)
            for future in finished:
                self._write_trial(self.running.pop(future), future)
            if not self.running and self.waiting:
                time.sleep(0 if finished else POLL_SECONDS)  # no worker yet

    def _submit_trials(self) -> None:
        size = self.team.size if self.waiting else 0
        while self.waiting and len(self.running) < size:
            if digest_program() != self.code:
                what = f"{self.folder.path}: the program was changed since this command began"
                raise RunDirectoryError(f"{what}; measure with the new one in another folder")
            trial = self.waiting.popleft()
            if (known := self.refused.get(make_point_key(trial.values))) is not None:
                self._keep(trial, replace(known, repeat=trial.repeat, seconds=0.0))
                continue
            first = make_point_key(trial.values) not in self.measured
            request = trial.make_request(self.plan.sweep, self.folder.path.resolve() / TRIALS, first)
            task = self.command, request, self.plan.sweep.timeout
            self.running[self.team.submit(child.run_task, task)] = trial
            number = self.done + len(self.running)
            self._show_progress(f"trial {number} of {self._count_all()}{self._describe_left(size)}, {trial.describe()}")

    def _write_trial(self, trial: Trial, future: "Future[Any]") -> None:
        """Write what came of a trial that has ended."""
        finished = _make_finished_trial(trial, future, self.code)
        self.trial_seconds.append(finished.seconds)
        self._keep(trial, finished)

    def _keep(self, trial: Trial, finished: FinishedTrial) -> None:
        self.folder.add(finished)
        self.done += 1
        if finished.ok:
            self.measured.add(make_point_key(trial.values))
        elif finished.error.startswith(REFUSED):
            self.refused[make_point_key(trial.values)] = finished
        what = f"{finished.ms:.4g} ms a step" if finished.ms is not None else f"failed: {finished.error}"
        self._show_progress(f"{trial.describe()}: {what}")

    def _count_all(self) -> int:
        return self.done + len(self.running) + len(self.waiting)

    def _describe_left(self, size: int) -> str:
        """How long it will take, from the trials of this command; empty before the first has ended."""
        if not self.trial_seconds:
            return ""
        each = sum(self.trial_seconds) / len(self.trial_seconds)
        return f", {format_duration(each * (len(self.waiting) + len(self.running)) / size)} left"

    def _show_progress(self, words: str) -> None:
        self.show_progress(self.done, self._count_all(), words)


def _make_finished_trial(trial: Trial, future: "Future[Any]", code: str) -> FinishedTrial:
    """What came of a trial; whatever ended it is its error."""
    error = future.exception()
    if error is not None:
        return FinishedTrial(trial.values, trial.repeat, 0.0, error=f"{type(error).__name__}: {_get_first_line(error)}")
    record, seconds = future.result()
    why = _check_record(record)
    if not why and record.get("code", code) != code:
        why = "another program measured it: the worker's files of tfperf are not those of this command"
    return FinishedTrial(trial.values, trial.repeat, seconds, {} if why else record, why)


def _get_first_line(error: BaseException) -> str:
    """Of what it says; some say nothing."""
    return (str(error).splitlines() or ["it says no more"])[0]


def _check_record(record: child.Record | None) -> str:
    """Why a record counts as none; empty for a good one."""
    if record is None:
        return "stopped from outside"
    if "unproved" in record:
        return PROOF_FAILED + "; ".join(record["unproved"])
    if "error" in record:
        return str(record["error"])
    if "refused" in record:
        return REFUSED + "; ".join(record["refused"])
    try:
        return "" if float(record["ms_per_step"]["median"]) > 0 else "its record has no time above 0 ms"
    except (KeyError, TypeError, ValueError):
        return "its record has no ms_per_step with a median"


def run_sweep(
    card: Path, overrides: Sequence[str], output: Path, open_progress: OpenProgress, on: str | None = None,
    retry: bool = False, command: Sequence[str] = COMMAND,
) -> dict[str, Any]:  # fmt: skip
    """Measure what is not in the folder yet, with `retry` also what failed; returns the report.

    on: a site as cluster/site.py reads it; None: this machine, without Dask. Raises: UserError for a faulty card,
    folder or site, Stopped when a signal came: what was measured until then is kept, and the same call goes on.
    """
    planned = plan_sweep(card, overrides)
    at_once = planned.sweep.at_once
    site = None if on is None else parse_site(on, at_once)
    with Signals().listen() as signals, DirectoryLock(output) as held, signals.defer():
        folder = SweepFolder(held.path)
        code = digest_program()
        found = folder.begin_or_resume(planned, _name_site(site), code)
        known = {finished.key for finished in found if finished.ok or not retry}
        measured = {make_point_key(finished.values) for finished in found if finished.ok}
        refused = {
            key: one
            for one in found
            if not retry and one.error.startswith(REFUSED) and (key := make_point_key(one.values)) not in measured
        }
        waiting = deque(trial for trial in planned.list_trials() if trial.key not in known)
        done = len(planned.list_trials()) - len(waiting)
        if waiting:
            folder.prepare_trials()
            with open_team(site, at_once) as team, open_progress() as show_progress:
                _SweepRun(
                    plan=planned, folder=folder, waiting=waiting, done=done, measured=measured, refused=refused,
                    team=team, signals=signals, show_progress=show_progress, command=command, code=code,
                ).run()  # fmt: skip
        return folder.finish(planned)


def _name_site(site: Site | None) -> str:
    return "here" if site is None else site.name
