"""The command line's group, and what its verbs share."""

import os
import sys
from pathlib import Path
from typing import Any

import click

import tfperf
from tfperf.errors import Interrupted, UserError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
FAILED = 3  # exit code of a run that is complete, but of which something failed


class _Group(click.Group):
    """Errors that a user can mend are printed without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; exit with the error's code."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            for fault in error.faults:
                click.echo(f"error: {fault}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
            sys.exit(130)
        except Interrupted as stop:
            click.echo(str(stop), err=True)
            sys.exit(stop.exit_code)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tfperf.__version__, prog_name="tfperf")
def main() -> None:
    """Train Keras models on TensorFlow as fast as the machine allows, and tell where the time went."""


CARD = click.argument("card", type=click.Path(path_type=Path))
RUN = click.argument("run", type=click.Path(path_type=Path))
SET = click.option("--set", "overrides", multiple=True, metavar="KEY.SUB=VALUE", help="Override a key of the card.")
OUTPUT = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="RUN", help="Run directory."
)
