"""Run several `tfperf` commands in one process, since TensorFlow starts slowly and fixes its devices once.

python -m tests.workloads.translate.child: a list of commands on stdin, each a list of arguments; their exit codes on
stdout.
"--stop-at N" in front of a command's arguments sends it SIGTERM after step N, "--rate X" gives the card a learning rate
that no card may have.
"""

import json
import os
import signal
import sys

from click.testing import CliRunner

from tfperf.cli import main


def stop_at(step):
    """From now on a signal comes with the call that takes a step."""
    from tfperf.workloads.translate.trainer import TranslationTrainer

    call = TranslationTrainer._call

    def call_and_signal(self):
        before = self.step
        call(self)
        if before < step <= self.step:
            os.kill(os.getpid(), signal.SIGTERM)

    TranslationTrainer._call = call_and_signal  # type: ignore[method-assign]
    return lambda: setattr(TranslationTrainer, "_call", call)


def set_rate(rate):
    """From now on cards have this learning rate."""
    from tfperf.workloads import cards

    load = cards.load_checked_card

    def load_hurried(*arguments):
        card = load(*arguments)
        object.__setattr__(card.train.optimizer, "learning_rate", rate)  # type: ignore[attr-defined]
        return card

    cards.load_checked_card = load_hurried
    return lambda: setattr(cards, "load_checked_card", load)


def run_command(arguments):
    """The command's exit code and what it said."""
    undo = None
    if arguments[0] == "--stop-at":
        undo, arguments = stop_at(int(arguments[1])), arguments[2:]
    elif arguments[0] == "--rate":
        undo, arguments = set_rate(float(arguments[1])), arguments[2:]
    result = CliRunner().invoke(main, arguments)
    if undo is not None:
        undo()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


if __name__ == "__main__":
    print("\n" + json.dumps([run_command(arguments) for arguments in json.load(sys.stdin)]))
