"""What a workload offers, so that the command line, runs and studies need to know none of them.

A workload is an object of a class derived from `Workload`. What every workload has to offer is abstract here; what it
may leave out is declared by leaving it out: `offers` tells, and a verb says which workloads offer it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tfperf.console.stages import Stages, Tell
from tfperf.errors import CardError
from tfperf.runcard.faults import Fault
from tfperf.runcard.kinds import AnyCard, CardKind

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tfperf.report.compare import Change

PROTOCOL = 1  # version of what is offered here: another one is another agreement
C = TypeVar("C", bound=AnyCard)
Measure = Callable[[Any, Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Options:
    """What the user asked of a fit beside the card."""

    resume: bool = False
    force: bool = False
    retry_failed: bool = False
    replicas: tuple[int, ...] = ()  # of a new run instead of the card's; of a finished run, to be added

    def refuse_contradictions(self) -> None:
        """CardError for options that exclude each other."""
        if self.resume + self.force + self.retry_failed > 1:
            raise CardError("--resume, --force and --retry-failed exclude each other")
        if self.retry_failed and self.replicas:
            raise CardError("--retry-failed takes the replicas that failed; leave --replicas out")


@dataclass(frozen=True)
class Fitted:
    """A finished run. complete: whether all that was trained by this command is whole."""

    table: "RenderableType"
    complete: bool = True


class Workload(ABC, Generic[C]):
    """What can be trained: cards of one kind, and what carries them out."""

    protocol: ClassVar[int]  # PROTOCOL as the class was written for
    name: ClassVar[str]  # the word under `workload` of a card
    title: ClassVar[str]  # what a run of it is, after "a"

    @property
    @abstractmethod
    def kind(self) -> CardKind:
        """What a card may say."""

    def faults(self, card: C) -> list[Fault]:
        """What only the files that a card names tell against it, by full keys."""
        return []

    @abstractmethod
    def plan(self, card: C, tell: Tell) -> Sequence[str]:
        """What a card amounts to, a line each. Raises: UserError where its data or this machine do not fit it."""

    def fit(self, card: C, output: Path, options: Options, progress: Stages) -> Fitted:
        """Train in a run directory. Raises: UserError, Interrupted when a signal stopped it after a checkpoint."""
        raise NotImplementedError

    def measure(self, card: C, request: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a trial of a sweep: study/point.py tells what is asked and what a record holds."""
        raise NotImplementedError

    def compare(self, before: Path, now: Path) -> "tuple[list[Change], list[str]]":
        """What differs between two finished runs, and what to know about it. Raises: RunDirectoryError."""
        raise NotImplementedError

    def example(self, data: Path) -> str:
        """A commented card for `tfperf init`; data: what it names as its data."""
        raise NotImplementedError

    def offers(self, what: str) -> bool:
        """Whether the workload has a method of its own of that name."""
        return getattr(type(self), what) is not getattr(Workload, what)
