"""A fit of one card, as a workload offers it: what is its own, while runs/flow.py does what every fit has in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from tfperf.console.stages import Stages
from tfperf.measure.clock import Stopwatch
from tfperf.results.rundir import RunDirectory
from tfperf.results.state import Own, Part, State
from tfperf.runcard.kinds import AnyCard
from tfperf.signals import Signals
from tfperf.workloads.options import Options

C = TypeVar("C", bound=AnyCard)


@dataclass(frozen=True)
class Fitted:
    """A finished run. result: its record, of the workload's type; summary: its report.json.

    complete: whether all that was trained by this command is whole.
    """

    result: Any
    summary: Mapping[str, Any]
    complete: bool = True


@dataclass(frozen=True)
class Session(Generic[Own]):
    """What a fit has at hand: its directory, which this process holds, what was asked for, clock, signals, progress.

    fit_within: carries out another card in a folder of the run, for this one, with the same signals and progress.
    """

    run: RunDirectory[Own]
    options: Options
    watch: Stopwatch
    signals: Signals
    progress: Stages
    fit_within: Callable[[AnyCard, Path, Options], Fitted]


class Job(ABC, Generic[C, Own]):
    """A fit of a card in a session. It is made with all that the card's files hold read, before the run is touched."""

    card: C
    session: Session[Own]
    hashes: Mapping[str, str]  # sha256 of the card's files, by the keys that name them
    adds = ""  # what of a finished run more can be asked for, for a message: "--replicas adds to it, "

    @abstractmethod
    def begin_parts(self) -> list[Part[Own]]:
        """The parts of a new run, of which one at least. Raises: UserError, before anything of a run is removed."""

    def begun_card(self) -> C:
        """The card that a new run is begun with."""
        return self.card

    def refuse_damaged(self, state: State[Own]) -> None:
        """RunDirectoryError where the parts of a run do not fit together."""

    def refuse_others(self, state: State[Own]) -> None:
        """RunDirectoryError where a run that is to go on began with something else that no key of the card names."""

    def more_parts(self, state: State[Own]) -> list[Part[Own]]:
        """What the options add to a finished run."""
        return []

    def resources(self) -> AbstractContextManager[Any]:
        """Held while parts are carried out."""
        return nullcontext()

    @abstractmethod
    def carry_out(self, part: Part[Own], parts: Sequence[Part[Own]]) -> None:
        """Train a part to its end, and write its results; with the last of the parts, the report too.

        parts: all that are to be carried out by one command, of which earlier ones may be done.
        Raises: Interrupted after a checkpoint when a signal came, StorageError.
        """

    @abstractmethod
    def fitted(self) -> Fitted:
        """What was found, once all parts are carried out."""

    @abstractmethod
    def read_finished(self) -> Fitted:
        """What a run that is done has found; a report that is missing or older than it is made again."""
