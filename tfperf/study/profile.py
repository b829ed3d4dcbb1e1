"""Profiles of cards of which each capture is a process of its own: what differs between processes is chance, too."""

import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from tfperf.console.words import show_text
from tfperf.errors import CardError, TraceError
from tfperf.report.profile_files import prepare_folder
from tfperf.report.study_progress import show_progress
from tfperf.runs.recording import record_card
from tfperf.study.child import run_subprocess
from tfperf.workloads.cards import load_checked_card
from tfperf.workloads.registry import WORKLOADS

COMMAND = (sys.executable, "-m", "tfperf.study.profile_capture")
ProfiledCard = tuple[Path, Path]  # the card, the folder of its captures


def record_profiles(cards: Sequence[ProfiledCard], overrides: Sequence[str], repeat: int, naive: bool) -> None:
    """Record cards: one capture of a single one in this process, else in turn. Raises: as `record_in_turn` does."""
    if repeat > 1 or len(cards) > 1:
        record_in_turn(cards, overrides, repeat, naive)
        return
    ((path, folder),) = cards
    found = record_card(load_checked_card(path, overrides), folder, 1, naive)
    capture, times, beside = found.capture, found.capture.times, "n/a where nothing is recorded"
    if found.overhead is not None:
        beside = f"{times.unrecorded_ms:.4g} where nothing is recorded ({found.overhead:+.1%})"
    show_text(
        f"{capture.calls} calls of {found.steps_per_call} steps; {times.recorded_ms or 0:.4g} ms from call to call, "
        f"{beside}"
    )


def record_in_turn(cards: Sequence[ProfiledCard], overrides: Sequence[str], repeat: int, naive: bool) -> None:
    """Record each of the cards `repeat` times, one after the other and then again, so that all see the same machine.

    Raises: CardError, UserError where a folder cannot be written to; TraceError where a capture fails.
    """
    for path, folder in cards:
        card = load_checked_card(path, overrides)
        workload = WORKLOADS.get_offering("profile", card.workload)
        workload.refuse_auto(card)
        workload.refuse_study(card, "profile")
        prepare_folder(folder)
    groups = [uuid4().hex for _ in cards]
    with show_progress() as show:
        done, total = 0, repeat * len(cards)
        for _ in range(repeat):
            for (path, folder), group in zip(cards, groups, strict=True):
                show(done, total, f"records {path.name}")
                request = {
                    "card": str(path), "overrides": list(overrides), "folder": str(folder), "naive": naive,
                    "group": group,
                }  # fmt: skip
                record = run_subprocess(COMMAND, request, lambda: False) or {}
                if "refused" in record:
                    raise CardError(*record["refused"])
                if "error" in record:
                    raise TraceError(f"{path}: capture {done // len(cards) + 1} of {repeat} failed: {record['error']}")
                done += 1
        show(total, total, "recorded")
