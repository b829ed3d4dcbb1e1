"""`tfperf`, and `python -m tfperf`."""

import gc
import sys

from tfperf.console.streams import open_descriptors
from tfperf.console.words import say
from tfperf.errors import Interrupted
from tfperf.signals import Signals


def main() -> None:
    """Carry out a command line; signals are listened to before anything that takes long is imported."""
    open_descriptors()
    try:
        with Signals().listen(strict=True):
            from tfperf.cli import main as run_command_line

            run_command_line()
    except Interrupted as stop:
        say(str(stop))
        sys.exit(stop.exit_code)
    finally:
        gc.freeze()  # Python's end would look through all that TensorFlow made: a second


if __name__ == "__main__":
    main()
