"""Verbs that train, or tell of a card."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfperf.cli.group import FAILED, main
from tfperf.console.options import CARD, SET, training_options
from tfperf.console.stages import stages
from tfperf.console.words import tell
from tfperf.measure.loading import without_collector

if TYPE_CHECKING:
    from tfperf.runcard.kinds import AnyCard

OpenCard = Callable[[Path, Sequence[str]], "AnyCard"]


@main.command()
@training_options
def fit(open_card: OpenCard | None = None, **options: Any) -> None:
    """Train what CARD asks for and write results, report and history to RUN."""
    sys.exit(_fit(open_card, **options))


def _fit(
    open_other: OpenCard | None, card: Path, output: Path, overrides: tuple[str, ...], resume: bool, force: bool,
    replicas: str | None, retry_failed: bool, quiet: bool,
) -> int:  # fmt: skip
    """The exit code. open_other: opens the card for a workload's verb that trains."""
    with stages(quiet) as progress:
        progress.tell(f"reading {card}")
        with without_collector():
            from tfperf.runs.flow import carry_out
            from tfperf.workloads.cards import open_card
            from tfperf.workloads.options import Options, parse_replicas
            from tfperf.workloads.registry import WORKLOADS

        options = Options(resume, force, retry_failed, parse_replicas(replicas))
        loaded = (open_other or open_card)(card, overrides)
        fitted = carry_out(loaded, output, options, progress)
    from tfperf.console.screen import show

    show(WORKLOADS.of(loaded).table(fitted.summary))
    tell(f"{output / 'report.html'}")
    return 0 if fitted.complete else FAILED


@main.command()
@CARD
@SET
def check(card: Path, overrides: tuple[str, ...]) -> None:
    """Print every fault of CARD and its data, or ok with what it amounts to."""
    with stages() as progress:
        progress.tell(f"reading {card}")
        with without_collector():
            from tfperf.workloads.cards import open_card
            from tfperf.workloads.registry import WORKLOADS

        loaded = open_card(card, overrides)
        lines = WORKLOADS.of(loaded).plan(loaded, progress.tell)
    tell("\n".join(["ok", *lines]))
