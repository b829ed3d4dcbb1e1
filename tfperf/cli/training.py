"""Verbs that train, or tell of a card."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfperf.cli.group import CARD, FAILED, OUTPUT, SET, main
from tfperf.console.stages import stages
from tfperf.console.words import deliver, tell
from tfperf.measure.loading import without_collector

if TYPE_CHECKING:
    from tfperf.workloads.pdf.card import Card

F = TypeVar("F", bound=Callable[..., Any])


def _training(command: F) -> F:
    """Options of the verbs that train."""
    options = (
        CARD, OUTPUT, SET,
        click.option("--resume", is_flag=True, help="Go on with an interrupted run; a finished one stays as it is."),
        click.option("--force", is_flag=True, help="Begin again where a run exists."),
        click.option("--replicas", metavar="N|A-B", help="Train these replicas; on a finished run, add them."),
        click.option("--retry-failed", is_flag=True, help="Train a finished run's failed replicas from new weights."),
        click.option("-q", "--quiet", is_flag=True, help="No progress, only the result."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@_training
def fit(**options: Any) -> None:
    """Train the replicas, or the translator, of CARD and write results, report and history to RUN."""
    sys.exit(_fit(**options))


@main.command()
@_training
@click.option("--level", type=click.Choice(["0", "2"]), help="0: no noise; 2: noise of the truth and of each replica.")
@click.option("--law", help="`toy`, or a run directory whose mean PDF is the truth.")
@click.option("--replica", type=int, help="The run's replica that is the truth; the mean by default.")
@click.option("--noise", type=int, help="Number of the truth's noise draw (level 2).")
def closure(
    level: str | None, law: str | None, replica: int | None, noise: int | None,
    overrides: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Fit pseudo-data made from a known law with the operators of CARD, so that the truth is known."""
    given = {"level": level, "law": law and str(_law(law)), "replica": replica, "noise": noise}
    sets = tuple(f"closure.{key}={value}" for key, value in given.items() if value is not None)
    sys.exit(_fit(overrides=(*sets, *overrides), closure=True, **options))


def _law(text: str) -> Path | str:
    return Path(text).resolve() if Path(text).exists() else text


def _fit(
    card: Path, output: Path, overrides: tuple[str, ...], resume: bool, force: bool, replicas: str | None,
    retry_failed: bool, quiet: bool, closure: bool = False,
) -> int:  # fmt: skip
    with stages(quiet) as progress:
        progress.tell(f"reading {card}")
        with without_collector():
            from tfperf.runs.flow import carry_out
            from tfperf.workloads.cards import open_card
            from tfperf.workloads.options import Options, parse_replicas
            from tfperf.workloads.registry import WORKLOADS

        options = Options(resume, force, retry_failed, parse_replicas(replicas))
        loaded = _open_closure(card, overrides) if closure else open_card(card, overrides)
        fitted = carry_out(loaded, output, options, progress)
    from tfperf.console.screen import show

    show(WORKLOADS.of(loaded).table(fitted.summary))
    tell(f"{output / 'report.html'}")
    return 0 if fitted.complete else FAILED


def _open_closure(card: Path, overrides: tuple[str, ...]) -> "Card":
    """The card of a closure test."""
    from tfperf.workloads.pdf.cards import as_closure, open_card

    return as_closure(open_card(card, overrides))


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


@main.command()
@click.argument("card", type=click.Path(path_type=Path), default="runcard.yaml")
@click.option("--pack", type=click.Path(path_type=Path), default="pack.h5", help="Data pack that the card names.")
def init(card: Path, pack: Path) -> None:
    """Write a commented example card."""
    from tfperf.results.files import create
    from tfperf.workloads.registry import WORKLOADS

    create(card, WORKLOADS.find(WORKLOADS.default).example(pack))
    tell(f"{card}: written; edit it, then `tfperf check {card}`")


@main.command()
@click.argument("workload", default="pdf")
def schema(workload: str) -> None:
    """Print the JSON schema of runcards of a WORKLOAD, by default pdf, for editors."""
    from tfperf.workloads.registry import WORKLOADS

    deliver(json.dumps(WORKLOADS.kind(workload).grammar.json_schema, indent=2))
