"""A card recorded, with progress."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tfperf.console.words import tell
from tfperf.report.counting import counted
from tfperf.report.profile_files import prepare
from tfperf.workloads.cards import open_card
from tfperf.workloads.registry import WORKLOADS


def recorded(path: Path, logdir: Path, overrides: Sequence[str], repeat: int, naive: bool) -> Path:
    """The folder with the profile of a card (.yaml), recorded now; any other path as it is.

    Raises: CardError; UserError where nothing can be written to `logdir`.
    """
    if path.suffix not in (".yaml", ".yml"):
        return path
    card, there = open_card(path, overrides), logdir.exists()
    workload = WORKLOADS.offering("profile", card.workload)
    prepare(logdir)
    try:
        with counted() as show:
            found = workload.record(card, logdir, repeat, naive, show)
    except BaseException:
        if not there:
            with suppress(OSError):
                logdir.rmdir()  # what is in it stays
        raise
    taken = found.taken
    tell(
        f"{logdir}: {taken.steps} calls of {found.steps_per_call} steps; a call takes {taken.recorded_ms:.4g} ms, "
        f"{taken.unrecorded_ms:.4g} where nothing is recorded ({found.overhead:+.1%})"
    )
    return logdir
