"""The errors of all rooms.

The command line prints a `UserError`, on which a user can act, without a traceback and exits with its code.
"""

from collections.abc import Sequence
from typing import Any

LINE, MESSAGE = 6_000, 64_000  # characters of a fault, bytes of all of an error
FAILED = 3  # exit code of a command that came to its end, though something failed


class UserError(Exception):
    """Something the user can mend: what was given, where, and what is allowed. Exit code 2.

    A fault of more than LINE characters is cut; faults after the first MESSAGE bytes are counted, not told.
    """

    exit_code = 2

    def __init__(self, *faults: str) -> None:
        self.faults: Sequence[str] = _cut_faults(faults)
        super().__init__("\n".join(self.faults))


def _cut_faults(faults: Sequence[str]) -> tuple[str, ...]:
    """The faults, as many as can be read."""
    told: list[str] = []
    room = MESSAGE
    for fault in faults:
        line = fault if len(fault) <= LINE else f"{fault[: LINE - 3]}..."
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0:
            return (*told, f"... and {len(faults) - len(told)} more")
        told.append(line)
    return tuple(told)


class CardError(UserError):
    """A runcard with faults, one line each: `file:line: full.key: given; allowed`."""


class UnfitCardError(CardError):
    """A card that is valid by itself, but asks for what its files do not have."""


class FaultyCardError(CardError):
    """A card with faults of its own; `card`: what could be read of it (`FaultyCard` of runcard/places.py)."""

    def __init__(self, *faults: str, card: Any) -> None:
        super().__init__(*faults)
        self.card = card


class PackError(UserError):
    """A file of data with faults, one line each: `file: what/field: given; allowed`."""


class BoundsError(ValueError):
    """What was found in a file beyond what is allowed; its text is `found; allowed`."""

    def __init__(self, found: str, allowed: str) -> None:
        super().__init__(f"{found}; {allowed}")
        self.found, self.allowed = found, allowed


class RunDirectoryError(UserError):
    """A run directory that exists, is locked, is damaged, or belongs to another card."""


class LostError(RunDirectoryError):
    """A run directory that this process held was removed or replaced; nothing more is written there."""


class StorageError(UserError):
    """Results could not be written; what was there before is intact."""


class TrainingError(UserError):
    """A training that cannot go on as its card wants it."""


class ToleranceError(UserError):
    """The losses of the training left the card's tolerance, and it has to stop then."""


class TraceError(UserError):
    """A profile that cannot be read, or that holds nothing to report."""


class PlacementError(UserError):
    """A placement did not take place: what ran where it should not have."""


class WorkerError(RuntimeError):
    """What another worker of a trial could not do."""


class UnprovedError(RuntimeError):
    """What other workers found against the placement; `faults`: each as a text. Their measurements are whole."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = list(faults)


class Interrupted(BaseException):
    """A signal asked for the end; `exit_code` is 128 + the signal's number.

    Like KeyboardInterrupt it is no Exception: what mends errors must not take it for one and go on.
    """

    def __init__(self, signum: int, step: int | None = None, advice: str = "") -> None:
        """`step`: of a training; `advice`: what the same or another command can do now."""
        where = "" if step is None else f" at step {step}"
        super().__init__(f"stopped by signal {signum}{where}" + (f"; {advice}" if advice else ""))
        self.signum, self.step, self.exit_code = signum, step, 128 + signum


class Stopped(Interrupted):
    """A signal came between or in trials; `exit_code` is 128 + its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum, None, "the same command goes on with what is not measured yet")
