"""`tfperf sweep`: every point of a card's sweep measured in fresh processes, in interleaved repeats."""

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfperf.cluster.place import Place, parse
from tfperf.cluster.team import Team
from tfperf.cluster.teams import open_team
from tfperf.console.stages import left
from tfperf.errors import RunDirectoryError
from tfperf.measure.environment import program_digest
from tfperf.results.lock import DirectoryLock
from tfperf.signals import Signals
from tfperf.study import child
from tfperf.study.process import Stopped
from tfperf.study.rows import PROOF_FAILED, Row, point_key
from tfperf.study.sweep_folder import TRIALS, SweepFolder
from tfperf.study.sweep_plan import Plan, Trial, plan

COMMAND = (sys.executable, "-m", "tfperf.study.point")
POLL_SECONDS = 0.2
Show = Callable[[int, int, str], None]  # trials done, in all, what is going on
Shown = Callable[[], AbstractContextManager[Show]]


@dataclass
class _Sweep:
    plan: Plan
    folder: SweepFolder
    waiting: deque[Trial]
    done: int  # also those of earlier commands
    measured: set[str]  # points of which a trial has succeeded
    team: Team
    signals: Signals
    show: Show
    command: Sequence[str]
    code: str  # digest of the program that all rows are made by
    running: dict["Future[Any]", Trial] = field(default_factory=dict)
    spent: list[float] = field(default_factory=list)  # seconds of each trial of this command

    def carry_out(self) -> None:
        """Until every trial has a row. Raises: Stopped, StorageError; the rows until then are kept."""
        self._say("starting")
        while self.waiting or self.running:
            if self.signals.received is not None:
                raise Stopped(self.signals.received)
            self._give_out()
            finished, _ = wait(self.running, POLL_SECONDS, FIRST_COMPLETED)
            for future in finished:
                self._keep(self.running.pop(future), future)
            if not self.running and self.waiting:
                time.sleep(0 if finished else POLL_SECONDS)  # no worker yet

    def _give_out(self) -> None:
        size = self.team.size if self.waiting else 0
        while self.waiting and len(self.running) < size:
            if program_digest() != self.code:
                what = f"{self.folder.path}: the program was changed since this command began"
                raise RunDirectoryError(f"{what}; measure with the new one in another folder")
            trial = self.waiting.popleft()
            first = point_key(trial.values) not in self.measured
            request = trial.request(self.plan.sweep, self.folder.path.resolve() / TRIALS, first)
            task = self.command, request, self.plan.sweep.timeout
            self.running[self.team.submit(child.carry_out, task)] = trial
            number = self.done + len(self.running)
            self._say(f"trial {number} of {self._total()}{self._left(size)}, {trial.words()}")

    def _keep(self, trial: Trial, future: "Future[Any]") -> None:
        """Write the row of a trial that has ended."""
        row = _row(trial, future, self.code)
        self.folder.add(row)
        self.done += 1
        if row.ok:
            self.measured.add(point_key(trial.values))
        self.spent.append(row.seconds)
        what = f"{row.ms:.4g} ms a step" if row.ms is not None else f"failed: {row.error}"
        self._say(f"{trial.words()}: {what}")

    def _total(self) -> int:
        return self.done + len(self.running) + len(self.waiting)

    def _left(self, size: int) -> str:
        """How long it will take, from the trials of this command; empty before the first has ended."""
        if not self.spent:
            return ""
        each = sum(self.spent) / len(self.spent)
        return f", {left(each * (len(self.waiting) + len(self.running)) / size)} left"

    def _say(self, words: str) -> None:
        self.show(self.done, self._total(), words)


def _row(trial: Trial, future: "Future[Any]", code: str) -> Row:
    """What came of a trial; whatever ended it is the row's error."""
    error = future.exception()
    if error is not None:
        return Row(trial.values, trial.repeat, 0.0, error=f"{type(error).__name__}: {_first_line(error)}")
    record, seconds = future.result()
    why = _fault(record)
    if not why and record.get("code", code) != code:
        why = "another program measured it: the worker's files of tfperf are not those of this command"
    return Row(trial.values, trial.repeat, seconds, {} if why else record, why)


def _first_line(error: BaseException) -> str:
    """Of what it says; some say nothing."""
    return (str(error).splitlines() or ["it says no more"])[0]


def _fault(record: child.Record | None) -> str:
    """Why a record counts as none; empty for a good one."""
    if record is None:
        return "stopped from outside"
    if "unproved" in record:
        return PROOF_FAILED + "; ".join(record["unproved"])
    if "error" in record:
        return str(record["error"])
    if "refused" in record:
        return "refused: " + "; ".join(record["refused"])
    try:
        return "" if float(record["ms_per_step"]["median"]) > 0 else "its record has no time above 0 ms"
    except (KeyError, TypeError, ValueError):
        return "its record has no ms_per_step with a median"


def sweep(
    card: Path, overrides: Sequence[str], output: Path, shown: Shown, on: str | None = None, retry: bool = False,
    command: Sequence[str] = COMMAND,
) -> dict[str, Any]:  # fmt: skip
    """Measure what has no row in the folder yet, with `retry` also what failed; returns the report.

    on: a place as cluster/place.py reads it; None: this machine, without Dask. Raises: UserError for a faulty card,
    folder or place, Stopped when a signal came: what was measured until then is kept, and the same call goes on.
    """
    planned = plan(card, overrides)
    at_once = planned.sweep.at_once
    place = None if on is None else parse(on, at_once)
    with Signals().listening() as signals, DirectoryLock(output) as held, signals.patient():
        folder = SweepFolder(held.path)
        code = program_digest()
        found = folder.take(planned, _name(place), code)
        known = {row.key for row in found if row.ok or not retry}
        measured = {point_key(row.values) for row in found if row.ok}
        waiting = deque(trial for trial in planned.trials() if trial.key not in known)
        done = len(planned.trials()) - len(waiting)
        if waiting:
            folder.begin()
            with open_team(place, at_once) as hands, shown() as show:
                _Sweep(planned, folder, waiting, done, measured, hands, signals, show, command, code).carry_out()
        return folder.finish(planned)


def _name(place: Place | None) -> str:
    return "here" if place is None else place.name
