"""Errors that a user can act on; the command line prints them without a traceback and exits with their code."""

from collections.abc import Sequence

LINE, MESSAGE = 6_000, 64_000  # characters of a fault, bytes of all of an error


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


class PackError(UserError):
    """A file of data with faults, one line each: `file: what/field: given; allowed`."""


class RunDirectoryError(UserError):
    """A run directory that exists, is locked, is damaged, or belongs to another card."""


class LostError(RunDirectoryError):
    """A run directory that this process held was removed or replaced; nothing more is written there."""


class StorageError(UserError):
    """Results could not be written; what was there before is intact."""


class TrainingError(UserError):
    """A training that cannot go on as its card wants it."""


class Interrupted(BaseException):
    """A signal asked for the end; `exit_code` is 128 + the signal's number.

    Like KeyboardInterrupt it is no Exception: what mends errors must not take it for one and go on.
    """

    def __init__(self, signum: int, step: int | None = None, advice: str = "") -> None:
        """`step`: of a training; `advice`: what the same or another command can do now."""
        where = "" if step is None else f" at step {step}"
        super().__init__(f"stopped by signal {signum}{where}" + (f"; {advice}" if advice else ""))
        self.signum, self.step, self.exit_code = signum, step, 128 + signum
