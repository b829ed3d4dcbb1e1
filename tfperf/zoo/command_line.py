"""How commands of the zoo run: faults that a user can mend without a traceback, and signals as of all commands."""

import sys

import click

from tfperf.console.streams import use_forgiving_streams
from tfperf.console.words import complain, say
from tfperf.errors import Interrupted, UserError
from tfperf.signals import Signals


def run_command(command: click.Command, module: str, advice: str = "") -> None:
    """Carry out the command line of `python -m MODULE`; what a user can mend has exit code 2.

    advice: what can be done after a signal, for its message.
    """
    try:
        with use_forgiving_streams(), Signals(advice=advice).listen(strict=True):
            try:
                command.main(prog_name=f"python -m {module}")
            except UserError as error:
                complain(error.faults)
                sys.exit(error.exit_code)
    except Interrupted as stop:
        say(str(stop))
        sys.exit(stop.exit_code)
