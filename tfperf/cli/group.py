"""The command line's group, and what its verbs share."""

import signal
import sys
from typing import Any

import click

from tfperf.console.streams import use_forgiving_streams
from tfperf.console.words import complain, cut, say
from tfperf.errors import SIGNALLED, Interrupted, UserError, describe_exit_codes
from tfperf.measure.quiet import silence_tensorflow
from tfperf.version import VERSION
from tfperf.workloads.registry import WORKLOADS

silence_tensorflow()


class _Verbs(click.Group):
    """Errors that a user can mend are printed without a traceback; words that cannot be printed are dropped."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line, as the console script and `python -m tfperf` do."""
        with use_forgiving_streams():
            return super().main(*args, **kwargs)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, those of tfperf's own workloads among them."""
        return sorted([*super().list_commands(ctx), *WORKLOADS.list_own_commands()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A verb; what is none of the command line's own may be a workload's."""
        return super().get_command(ctx, cmd_name) or WORKLOADS.find_command(cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; exit with the error's code."""
        try:
            return super().invoke(ctx)
        except UserError as error:
            complain(error.faults)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            say("stopped")
            sys.exit(SIGNALLED + signal.SIGINT)
        except Interrupted as stop:
            say(str(stop))
            sys.exit(stop.exit_code)
        except click.UsageError as error:  # it repeats what was given
            raise click.UsageError(cut(error.format_message()), error.ctx) from None


@click.group(cls=_Verbs, epilog=describe_exit_codes(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="tfperf")
def main() -> None:
    """Train Keras models on TensorFlow as fast as the machine allows, and tell where the time went."""
