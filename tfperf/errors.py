"""The errors of all rooms.

The command line prints a `UserError`, on which a user can act, without a traceback and exits with its code.
"""

from collections.abc import Mapping, Sequence
from typing import Any

# what a command ends with; SIGNALLED and the number of the signal that stopped it
DONE, AMISS, REFUSED, FAILED, SIGNALLED = 0, 1, 2, 3, 128
EXIT_CODES: Mapping[int, str] = {
    DONE: "done",
    AMISS: "forms of an ablation disagree or could not be measured, steps are slower than those that `--against` "
    "names, settings still move after the last fit of `iterate`, `doctor` misses what every fit needs, or tfperf "
    "itself failed, with a traceback",
    REFUSED: "bad input, or another fault of which the message says what to do",
    FAILED: "complete, but a replica that was trained, a trial of a sweep, or a record of a prediction failed, or its "
    "`--verify` misses rows, or its `--sample` tells no rate",
    SIGNALLED: "and more: stopped by a signal, 129 SIGHUP, 130 SIGINT (Ctrl-C), 143 SIGTERM",
}
LINE, MESSAGE = 6_000, 64_000  # characters of a fault, bytes of all of an error


def describe_exit_codes() -> str:
    """What README.md and `tfperf --help` say of them."""
    return f"Exit codes: {'; '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}."


class UserError(Exception):
    """Something the user can mend: what was given, where, and what is allowed. Exit code 2.

    A fault of more than LINE characters is cut; faults after the first MESSAGE bytes are counted, not told.
    """

    exit_code = REFUSED

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


class FileLimitError(ValueError):
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


class UserCodeError(UserError):
    """What a user's own code raised, with his traceback from his file on."""


class TraceError(UserError):
    """A profile that cannot be read, or that holds nothing to report."""


class PlacementError(UserError):
    """A placement did not take place: what ran where it should not have."""


class UnknownSizeError(Exception):
    """How much memory an operation takes cannot be told without running it."""


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

    >>> stop = Interrupted(15, step=200, advice="go on with --resume")
    >>> str(stop), stop.exit_code
    ('stopped by signal 15 at step 200; go on with --resume', 143)
    """

    def __init__(self, signum: int, step: int | None = None, advice: str = "") -> None:
        """`step`: of a training; `advice`: what the same or another command can do now."""
        where = "" if step is None else f" at step {step}"
        super().__init__(f"stopped by signal {signum}{where}" + (f"; {advice}" if advice else ""))
        self.signum, self.step, self.exit_code = signum, step, SIGNALLED + signum


class Stopped(Interrupted):
    """A signal came between or in trials; `exit_code` is 128 + its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum, None, "the same command goes on with what is not measured yet")
