"""Small files that claim much are refused by the verb that is given them, or taken, in a bounded time and memory."""

import os
import shutil

import pytest
from click.testing import CliRunner

from benchmarks import hostile
from benchmarks.bombs import BOMBS
from tfperf.cli import main
from tfperf.errors import UserError

# those that take no seconds to make
QUICK = ("pack: 4e8 nodes that", "pack: 10 000 names", "pack: a device", "pack: 64", "results.h5: 64",
         "card: a pipe", "card: lists", "override: 8000", "run.json: 1e6", "run.json: a", "report.json: 1e6",
         "results.h5: a summary of 2e6")  # fmt: skip


def run(folder, arguments):
    """Give the arguments to the command line. Raises: UserError where they are refused."""
    os.chdir(folder)
    done = CliRunner().invoke(main, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in (0, 2), done.output
    if done.exit_code == 2:
        raise UserError(done.output)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bombs") / "good"
    hostile.write_inputs(folder)
    return folder


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name.startswith(QUICK) else pytest.mark.slow) for name in BOMBS
])  # fmt: skip
def test_a_bomb_is_refused_or_taken_within_bounds(name, good, tmp_path, worker):
    folder = tmp_path / "bomb"
    shutil.copytree(good, folder)
    verdict, _ = worker.ask("tests.fuzz.test_bombs:run", folder, BOMBS[name](folder))
    assert verdict == "refused" or name.startswith(("report.json: 16", "results.h5: a summary of 1.6e7"))
