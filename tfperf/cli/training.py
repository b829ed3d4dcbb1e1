"""Verbs that train, or tell of a card."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfperf.cli.group import main
from tfperf.console.options import CARD, SET, add_training_options
from tfperf.console.stages import open_stages
from tfperf.console.words import show_text
from tfperf.errors import AMISS, DONE
from tfperf.measure.loading import pause_collector

if TYPE_CHECKING:
    from tfperf.runcard.kinds import AnyCard

OpenCard = Callable[[Path, Sequence[str]], "AnyCard"]


@main.command()
@add_training_options
def fit(open_card: OpenCard | None = None, **options: Any) -> None:
    """Train what CARD asks for and write results, report and history to RUN."""
    sys.exit(_fit(open_card, **options))


def _fit(
    open_other: OpenCard | None, card: Path, output: Path, overrides: tuple[str, ...], resume: bool, force: bool,
    replicas: str | None, retry_failed: bool, quiet: bool,
) -> int:  # fmt: skip
    """The exit code. open_other: opens the card for a workload's verb that trains."""
    with open_stages(quiet) as progress:
        progress.show_stage(f"reading {card}")
        with pause_collector():
            from tfperf.runs.flow import fit_card
            from tfperf.study.input_choice import settle_card
            from tfperf.workloads.cards import load_checked_card
            from tfperf.workloads.options import Options, parse_replicas
            from tfperf.workloads.registry import WORKLOADS

        options = Options(resume, force, retry_failed, parse_replicas(replicas))
        loaded = (open_other or load_checked_card)(card, overrides)
        settled = settle_card(loaded, output, options, progress.show_stage)
        fitted = fit_card(settled.card, output, options, progress, settled.decided)
    from tfperf.console.screen import show

    show(WORKLOADS.get_for_card(loaded).make_table(fitted.summary))
    show_text(f"{output / 'report.html'}")
    return fitted.exit_code


@main.command()
@CARD
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Folder of the runs."
)
@SET
@click.option("--most", type=click.IntRange(1, 100), default=8, show_default=True, help="Fits at most.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def iterate(card: Path, output: Path, overrides: tuple[str, ...], most: int, quiet: bool) -> None:
    """Fit CARD again and again, each time with the settings that the fit before asks for, until they stand still.

    Writes to DIR the card of the last fit, or, where something still moves after --most fits (exit code 1), that of
    the next one. The same command goes on where it was stopped.
    """
    with open_stages(quiet) as progress:
        progress.show_stage(f"reading {card}")
        with pause_collector():
            from tfperf.study.iterate import iterate_card
            from tfperf.workloads.cards import load_checked_card

        found = iterate_card(load_checked_card(card, overrides), output, most, progress)
    from tfperf.console.screen import show
    from tfperf.report.iteration import make_moves_table

    show(make_moves_table(found.moves))
    show_text(f"{found.card}")
    sys.exit(DONE if found.is_still else AMISS)


@main.command()
@CARD
@SET
@click.option("--build", is_flag=True, help="Run the code that the card names: tell of the model and a batch.")
def check(card: Path, overrides: tuple[str, ...], build: bool) -> None:
    """Print every fault of CARD and its data, or ok with what it amounts to."""
    with open_stages() as progress:
        progress.show_stage(f"reading {card}")
        with pause_collector():
            from tfperf.workloads.cards import load_checked_card
            from tfperf.workloads.registry import WORKLOADS

        loaded = load_checked_card(card, overrides)
        workload = WORKLOADS.get_for_card(loaded)
        lines = [*workload.describe_card(loaded, progress.show_stage)]
        if build:
            lines += workload.describe_build(loaded, progress.show_stage)
    show_text("\n".join(["ok", *lines]))
