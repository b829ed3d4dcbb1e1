"""Verbs before a card is there: an example, the words of cards, what works on the machine."""

import json
import os
import sys
from pathlib import Path

import click

from tfperf.cli.group import main
from tfperf.console.words import deliver, show_text
from tfperf.workloads.registry import WORKLOADS


@main.command()
@click.argument("card", type=click.Path(path_type=Path), default="runcard.yaml")
@click.option("--workload", default=WORKLOADS.default, show_default=True, help="Workload of the card: what it trains.")
@click.option("--data", "--pack", type=click.Path(path_type=Path), help="Data that the card names.")
def init(card: Path, workload: str, data: Path | None) -> None:
    """Write a commented example card to CARD, by default runcard.yaml."""
    from tfperf.results.files import create

    if data is not None and data.exists() and not (card.parent / data).exists():
        data = Path(os.path.relpath(data, card.parent))  # cards name files from their own folder
    create(card, WORKLOADS.get_offering("init", workload).make_example(data))
    show_text(f"{card}: written; edit it, then `tfperf check {card}`")


@main.command()
@click.argument("workload", default=WORKLOADS.default)
def schema(workload: str) -> None:
    """Print the JSON schema of runcards of a WORKLOAD, by default that of cards that name none, for editors."""
    deliver(json.dumps(WORKLOADS.get_kind(workload).grammar.json_schema, indent=2))


@main.command()
def doctor() -> None:
    """Tell what works on this machine, for all and for each workload, and what to do about the rest.

    Exit code 1 says that something is missing without which no fit runs.
    """
    from tfperf.measure.doctor import main as run_doctor
    from tfperf.workloads.checks import list_workload_checks

    sys.exit(run_doctor(list_workload_checks))
