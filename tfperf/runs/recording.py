"""A card recorded, with progress."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tfperf.console.words import show_text
from tfperf.report.profile_files import prepare_folder
from tfperf.report.study_progress import show_progress
from tfperf.runcard.kinds import AnyCard
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.registry import WORKLOADS

if TYPE_CHECKING:
    from tfperf.train.window import Recording


def record_card(card: AnyCard, logdir: Path, repeat: int, naive: bool = False, quiet: bool = False) -> "Recording":
    """Record a card's steps in a folder, which is removed again where nothing could be. Raises: CardError."""
    there = logdir.exists()
    workload = WORKLOADS.get_offering("profile", card.workload)
    workload.refuse_auto(card)
    workload.refuse_study(card, "profile")
    prepare_folder(logdir)
    try:
        with show_progress(quiet) as show:
            return workload.record(card, logdir, repeat, naive, show)
    except BaseException:
        if not there:
            with suppress(OSError):
                logdir.rmdir()  # what is in it stays
        raise


def record_profile(path: Path, logdir: Path, overrides: Sequence[str], repeat: int, naive: bool) -> Path:
    """The folder with the profile of a card (.yaml), recorded now; any other path as it is.

    Raises: CardError; UserError where nothing can be written to `logdir`.
    """
    if path.suffix not in (".yaml", ".yml"):
        return path
    found = record_card(load_checked_card(path, overrides), logdir, repeat, naive)
    capture = found.capture
    show_text(
        f"{logdir}: {capture.calls} calls of {found.steps_per_call} steps; a call takes {capture.recorded_ms:.4g} ms, "
        f"{capture.unrecorded_ms:.4g} where nothing is recorded ({found.overhead:+.1%})"
    )
    return logdir
