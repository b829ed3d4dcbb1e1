"""A card recorded, with progress."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tfperf.report.profile_files import prepare_folder
from tfperf.report.study_progress import show_progress
from tfperf.runcard.kinds import AnyCard
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
