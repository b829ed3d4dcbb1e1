"""Arguments and options that several verbs of the command line take, those of workloads among them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class FiniteRange(click.FloatRange):
    """A number in a range; click's own lets nan pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error where it is none, or out of the range."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


CARD = click.argument("card", type=click.Path(path_type=Path))
RUN = click.argument("run", type=click.Path(path_type=Path))
SET = click.option("--set", "overrides", multiple=True, metavar="KEY.SUB=VALUE", help="Override a key of the card.")
OUTPUT = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="RUN", help="Run directory."
)


def add_training_options(command: F) -> F:
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
