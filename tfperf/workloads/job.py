"""A fit of one card, as a workload offers it: what is its own, while runs/flow.py does what every fit has in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from tfperf.arrays import ArraysByName
from tfperf.console.stages import Stages
from tfperf.errors import DONE, FAILED
from tfperf.measure.clock import Stopwatch
from tfperf.report.compare_reports import read_report
from tfperf.report.page import render_page, render_paragraph
from tfperf.report.sections import write_json, write_text
from tfperf.results.contents import PAGE, RESULTS
from tfperf.results.files import write_hdf5
from tfperf.results.rundir import RunDirectory
from tfperf.results.state import Own, Part, RunState, make_key
from tfperf.runcard.kinds import AnyCard
from tfperf.signals import Signals
from tfperf.workloads.options import Options

C = TypeVar("C", bound=AnyCard)


@dataclass(frozen=True)
class FinishedFit:
    """A finished run. result: its record, of the workload's type, by default the summary; summary: its report.json.

    complete: whether all that was trained by this command is whole.
    """

    result: Any
    summary: Mapping[str, Any]
    complete: bool = True

    @property
    def exit_code(self) -> int:
        """Of the command."""
        return DONE if self.complete else FAILED


@dataclass(frozen=True)
class Session(Generic[Own]):
    """What a fit has at hand: its directory, which this process holds, what was asked for, clock, signals, progress.

    fit_within: carries out another card in a folder of the run, for this one, with the same signals and progress.
    decided: what was decided before it, by keys of the card.
    """

    run: RunDirectory[Own]
    options: Options
    watch: Stopwatch
    signals: Signals
    progress: Stages
    fit_within: Callable[[AnyCard, Path, Options], FinishedFit]
    decided: Mapping[str, Any] = field(default_factory=dict)


class Job(ABC, Generic[C, Own]):
    """A fit of a card in a session. It is made with all that the card's files hold read, before the run is touched."""

    hashes: Mapping[str, str] = MappingProxyType({})  # sha256 of the card's files, by the keys that name them
    extension_hint = ""  # what of a finished run more can be asked for, for a message: "--replicas adds to it, "

    def __init__(self, card: C, session: Session[Own]) -> None:
        self.card, self.session = card, session

    def make_first_parts(self) -> list[Part[Own]]:
        """The parts of a new run, of which one at least. Raises: UserError, before anything of a run is removed."""
        return [Part(cast(Own, {}), make_key())]

    def make_run_card(self) -> C:
        """The card that a new run is begun with."""
        return self.card

    def refuse_damaged(self, state: RunState[Own]) -> None:
        """RunDirectoryError where the parts of a run do not fit together."""

    def refuse_others(self, state: RunState[Own]) -> None:
        """RunDirectoryError where a run that is to go on began with something else that no key of the card names."""

    def make_more_parts(self, state: RunState[Own]) -> list[Part[Own]]:
        """What the options add to a finished run."""
        return []

    def open_resources(self) -> AbstractContextManager[Any]:
        """Held while parts are carried out."""
        return nullcontext()

    @abstractmethod
    def fit_part(self, part: Part[Own], parts: Sequence[Part[Own]]) -> None:
        """Train a part to its end, and write its results; with the last of the parts, the report too.

        parts: all that are to be carried out by one command, of which earlier ones may be done.
        Raises: Interrupted after a checkpoint when a signal came, StorageError.
        """

    def make_finished(self) -> FinishedFit:
        """What was found, once all parts are carried out."""
        return self.read_finished()

    def read_finished(self) -> FinishedFit:
        """What a run that is done has found; a report that is missing or older than it is made again, where it can."""
        summary = read_report(self.session.run.path, dict[str, Any])
        return FinishedFit(summary, summary)

    def write(self, summary: Mapping[str, Any], arrays: ArraysByName) -> None:
        """Write a run that needs no other files: results.h5 of the arrays, a page and report.json of the summary."""
        folder, title = self.session.run.path, self.card.title or self.card.workload
        with write_hdf5(folder / RESULTS) as file:
            for name, values in arrays.items():
                file[name] = values
        lines = "".join(render_paragraph(f"{key}: {value}") for key, value in summary.items())
        write_text(folder / PAGE, render_page(title, lines, ()))
        write_json(folder, summary)
