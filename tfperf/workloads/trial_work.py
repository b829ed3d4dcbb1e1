"""How much work a card asks for, which a memory trial may tell: of it a queue's time limit is made."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class TrialWork:
    """Samples of an epoch, those that validate after it, and epochs, or steps in their place; None: not known."""

    samples: int | None
    held_samples: int = 0
    epochs: int | None = None
    steps: int | None = None


@runtime_checkable
class SizedTrial(Protocol):
    """A memory trial that knows how much work its card asks for."""

    def count_work(self) -> TrialWork:
        """Once its data are read."""


def describe_work(trial: object) -> dict[str, Any] | None:
    """The work of a trial's card as JSON-able values; None where the trial does not tell."""
    return asdict(trial.count_work()) if isinstance(trial, SizedTrial) else None
