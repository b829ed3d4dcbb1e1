"""The folder of a sweep: whose it is, what is measured, and the results.

sweep.json        what another command must share to go on: points, versions, program, machine, place; trials, layout
card.yaml         the card with every default; environment.json: the machine
results.jsonl     a line for each finished trial, on disk before the next one starts
trials/           files of single trials, where they leave any
results.h5        all trials as a table; sweep_report.json: the points. Both once all trials have ended.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfperf.errors import RunDirectoryError
from tfperf.measure.environment import collect_environment
from tfperf.results.contents import CARD, ENVIRONMENT, PAGE
from tfperf.results.contents import RESULTS as TABLE
from tfperf.results.files import append, make_folder, remove, write_atomically
from tfperf.results.json_text import to_json
from tfperf.results.lock import LOCK
from tfperf.results.placements import ROWS as PLACEMENTS
from tfperf.results.reading import describe_error, open_descriptor, read_json
from tfperf.runcard.dump import dump_card
from tfperf.study.drift import Drift, estimate_drift
from tfperf.study.finished_trials import (
    MOST_BYTES,
    RESULTS,
    FinishedTrial,
    make_point_key,
    read_finished_trials,
    summarise_points,
)
from tfperf.study.sweep_plan import SweepPlan
from tfperf.study.sweep_table import write_table
from tfperf.study.trial_log import make_identity

MOST_TRIALS = 100_000
LAYOUT = 3  # 1 timed each step once, compilations among them; 2 told of spans, not of chains and waiting
FILE, REPORT, TRIALS = "sweep.json", "sweep_report.json", "trials"


@dataclass(frozen=True)
class SweepFolder:
    """A folder that this process holds."""

    path: Path

    def begin_or_resume(self, plan: SweepPlan, place: str, code: str) -> list[FinishedTrial]:
        """Begin, or go on with what is there; returns the trials that have ended.

        code: digest of the program. Raises: RunDirectoryError for a folder with anything else in it, for a sweep of
        other points, versions, machine or place or by another program, and for damage.
        """
        identity = make_identity(plan.make_content()) | {"place": place, "program": code}
        file = self.path / FILE
        if os.path.lexists(file):
            self._refuse_another(identity)
        else:
            others = {p.name for p in self.path.iterdir() if p.suffix != ".tmp"} - {LOCK}
            if others:
                raise RunDirectoryError(f"{self.path}: is not empty and holds no sweep; choose another folder")
        count = len(plan.points) * plan.sweep.repeats
        content = {"layout": LAYOUT, "keys": list(plan.sweep.keys), "trials": count, "identity": identity}
        points = {"repeats": plan.sweep.repeats, "points": list(plan.points)}
        self._write(FILE, _format_json({**content, **points}))
        self._write(CARD, dump_card(plan.card))
        self._write(ENVIRONMENT, _format_json(collect_environment()))
        self._drop_half_line()
        return read_finished_trials(self.path)

    def _refuse_another(self, identity: Mapping[str, Any]) -> None:
        before = read_sweep(self.path)["identity"]
        other = [name for name, value in identity.items() if before.get(name) != value]
        if other:
            what = f"{self.path / FILE}: measured with another {', another '.join(other)}"
            raise RunDirectoryError(f"{what}; choose another folder, or remove this one to begin again")

    def _drop_half_line(self) -> None:
        """What a killed process left behind the last whole line."""
        path = self.path / RESULTS
        if os.path.lexists(path):
            with os.fdopen(_open(path), "r+b") as file:
                size = os.fstat(file.fileno()).st_size
                if size > MOST_BYTES:
                    raise RunDirectoryError(f"{path}: damaged: it has {size} bytes; at most {MOST_BYTES} are allowed")
                file.truncate(file.read(size).rfind(b"\n") + 1)

    def prepare_trials(self) -> None:
        """Trials follow: results of fewer of them are removed. Raises: StorageError where that cannot be."""
        make_folder(self.path / TRIALS)
        for name in (REPORT, TABLE, PAGE, PLACEMENTS):
            remove(self.path / name)

    def add(self, trial: FinishedTrial) -> None:
        """Keep a trial. Raises: StorageError where the disk does not take it; the trials before are safe."""
        append(self.path / RESULTS, trial.format_line() + "\n")

    def finish(self, plan: SweepPlan) -> dict[str, Any]:
        """Write the table and the report; returns the report."""
        order = {trial.key: (trial.repeat, trial.number) for trial in plan.list_trials()}
        ended = [trial for trial in read_finished_trials(self.path) if trial.key in order]
        found = sorted(ended, key=lambda trial: order[trial.key])
        text = to_json(summarise(plan.card.title, list(plan.sweep.keys), found, estimate_drift(ended)), indent=1) + "\n"
        write_table(self.path / TABLE, plan.card.title, found, [ended.index(trial) + 1 for trial in found])
        self._write(REPORT, text)
        report: dict[str, Any] = json.loads(text)
        return report

    def _write(self, name: str, text: str) -> None:
        with write_atomically(self.path / name) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _open(path: Path) -> int:
    try:
        return open_descriptor(path, os.O_RDWR)
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path}: cannot be read: {describe_error(error)}") from None


def read_sweep(folder: Path) -> dict[str, Any]:
    """sweep.json of a folder. Raises: RunDirectoryError where it is damaged or missing."""
    path = folder / FILE
    try:
        found: dict[str, Any] = read_json(path)
        identity, trials, keys = found["identity"], found["trials"], found["keys"]
        if not (isinstance(identity, dict) and isinstance(identity["card"], str)):
            raise ValueError("identity: must be a mapping with the card's digest")
        own = found.get("points", []), found.get("repeats", 1)
        if not (isinstance(own[0], list) and type(own[1]) is int):
            raise ValueError("points: must be a list, and repeats a whole number")
        if not (type(trials) is int and 1 <= trials <= MOST_TRIALS and isinstance(keys, list)):
            raise ValueError(f"trials: must be 1 to {MOST_TRIALS}, and keys a list")
    except KeyError as error:
        raise RunDirectoryError(f"{path}: damaged ({error.args[0]}: missing); choose another folder") from None
    except (OSError, ValueError, TypeError) as error:
        raise RunDirectoryError(f"{path}: damaged ({error}); choose another folder") from None
    if (layout := found.get("layout", 1)) != LAYOUT:
        raise RunDirectoryError(f"{path}: {_describe_layout(layout)}; measure it again in another folder")
    return found


def read_report(folder: Path) -> dict[str, Any]:
    """sweep_report.json of a folder. Raises: RunDirectoryError where it is damaged, or the sweep is not finished."""
    try:
        found: dict[str, Any] = read_json(folder / REPORT)
    except OSError as error:
        raise RunDirectoryError(f"{folder / REPORT}: {describe_error(error)}; has the sweep ended?") from None
    return found


def read_current_trials(folder: Path) -> list[FinishedTrial]:
    """The trials of a folder's sweep, without those of repeats and points that its last command does not have.

    Raises: RunDirectoryError as `read_sweep` and `read_finished_trials`.
    """
    content = read_sweep(folder)
    most, keys = content.get("repeats", MOST_TRIALS), content.get("points")
    found = [trial for trial in read_finished_trials(folder) if trial.repeat <= most]
    return found if keys is None else [trial for trial in found if make_point_key(trial.values) in keys]


def _describe_layout(layout: object) -> str:
    if layout == 1:
        return "an earlier version of tfperf measured other steps here, which do not stand beside those of today"
    return f"layout: got {layout!r}; this version of tfperf measures and reads {LAYOUT}"


def summarise(title: str, keys: Sequence[str], found: Sequence[FinishedTrial], drift: Drift | None) -> dict[str, Any]:
    """sweep_report.json: each point's times, ms per step with the mean's 95 % interval, what failed, and drift."""
    machines = {json.dumps(trial.record["machine"], sort_keys=True) for trial in found if "machine" in trial.record}
    return {
        "title": title, "keys": list(keys), "trials": len(found), "failed": sum(not trial.ok for trial in found),
        "points": [asdict(point) for point in summarise_points(found)],
        "machines": [json.loads(one) for one in sorted(machines)],
        "left_out": sum(trial.record.get("left_out", 0) for trial in found), "drift": asdict(drift) if drift else None,
    }  # fmt: skip


def _format_json(content: Any) -> str:
    return json.dumps(content, indent=1) + "\n"
