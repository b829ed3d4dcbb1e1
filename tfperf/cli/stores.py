"""The verb that prepares data ahead."""

import sys
from pathlib import Path

import click

from tfperf.cli.group import main
from tfperf.console.options import CARD, SET
from tfperf.console.words import show_text


@main.command()
@CARD
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="STORE", help="Folder of it.")
@click.option(
    "--after", metavar="STAGE", help="Last stage to run, by its name=; by default the last one that can be stored."
)
@click.option(
    "--watch", type=click.Path(path_type=Path), multiple=True, metavar="PATH",
    help="File or folder that its functions read, whose changes are to be seen, too.",
)  # fmt: skip
@SET
@click.option("-y", "--yes", is_flag=True, help="Take more than half of the free disk without asking.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, only the result.")
def store(
    card: Path, output: Path, after: str | None, watch: tuple[Path, ...], overrides: tuple[str, ...], yes: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Run the deterministic stages of CARD's data once, and store their elements for data: {store: STORE}.

    The card trains on the same elements then, bit by bit: shuffles and random stages stay as they are. The same
    command goes on where it was stopped; of a finished store it compares the checksums.
    """
    from tfperf.report.store import list_store_lines, show_storing
    from tfperf.study.store import store_card
    from tfperf.workloads.cards import load_checked_card

    def ask(told: str) -> bool:
        return yes or (sys.stdin.isatty() and click.confirm(f"{told}, more than half; go on?", err=True))

    loaded = load_checked_card(card, overrides)
    with show_storing(quiet) as (show, show_stage):
        summary = store_card(loaded, output, after, watch, ask, show, show_stage)
    for line in list_store_lines(summary):
        show_text(line)
