"""A live fit whose disk fills up, which shares its cache with another one, or whose clock jumps: it finds the same."""

import os
import resource
import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.kills.lives import Writing
from tests.kills.sameness import report, same

pytestmark = pytest.mark.slow
DAY = 86_400
DISK_BYTES = 16 * 2**20
CLOCK = Path(__file__).with_name("clock_back.c")


@contextmanager
def small_disk(folder):
    """The folder as a small disk of its own, where this user may mount one; yields what fills it up.

    Elsewhere a limit on file sizes stands in for it: both make write() fail in the middle.
    """
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder]
    mounted = shutil.which("mount") is not None and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield (lambda life: fill(folder)) if mounted else limit_files
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)


def fill(folder):
    """Leave no byte free."""
    with pytest.raises(OSError, match="No space left"), open(folder / "filler", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def limit_files(life):
    """From now on no file may grow beyond less than a checkpoint."""
    hard = resource.prlimit(life.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(life.process.pid, resource.RLIMIT_FSIZE, (50_000, hard))


def starved(chain, starve):
    """A life that finds no room for its fourth checkpoint or one after it; what it said."""
    life = chain.begin()
    try:
        assert Writing("step-", 3).wait(life, chain.run), life.words
        starve(life)
        assert life.end() == 2, life.words
    finally:
        life.clear()
    return life.words


def refused(words, reason):
    errors = [line for line in words.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "could not be written" in errors[0] and reason in errors[0], words
    assert "Traceback" not in words


def test_a_fit_whose_disk_is_full_goes_on_when_there_is_room(fit, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    undisturbed = fit()
    with small_disk(disk) as starve:
        chain = undisturbed.chain(tmp_path, "disk/run")
        words = starved(chain, starve)
        refused(words, "limit on file sizes" if starve is limit_files else "no space left on the device")
        assert not list(chain.run.rglob("*.tmp"))
        (disk / "filler").unlink(missing_ok=True)
        assert min(chain.finish()) > 0
        same(undisturbed.run, chain.run)


def test_a_fit_that_may_write_no_large_file_goes_on_when_it_may(fit, tmp_path):
    undisturbed = fit()
    chain = undisturbed.chain(tmp_path)
    refused(starved(chain, limit_files), "limit on file sizes")
    assert min(chain.finish()) > 0
    same(undisturbed.run, chain.run)


def test_two_fits_at_once_fill_one_cache(fit, tmp_path):
    undisturbed = fit()
    chains = [undisturbed.chain(tmp_path, name) for name in ("a", "b")]
    with ExitStack() as stack:
        lives = [chain.begin() for chain in chains]
        for life in lives:
            stack.callback(life.clear)
        assert [life.end() for life in lives] == [0, 0], [life.words for life in lives]
    for chain in chains:
        same(undisturbed.run, chain.run)
    assert list((tmp_path / "cache").rglob("*.npz")) and not list((tmp_path / "cache").rglob("*.tmp"))


def test_a_clock_that_jumps_back_a_day_changes_nothing(fit, tmp_path):
    undisturbed = fit()
    jump = tmp_path / "jump"
    chain = undisturbed.chain(tmp_path, LD_PRELOAD=str(compiled(tmp_path)), CLOCK_BACK=str(jump))
    life = chain.begin()
    try:
        assert Writing("step-", 3).wait(life, chain.run), life.words
        jump.touch()
        assert Writing("step-", 4).wait(life, chain.run), life.words
        life.kill()
        life.end(60)
    finally:
        life.clear()
    old, new = sorted((chain.run / "checkpoints").glob("*.ckpt"))[-2:]
    # as a disk tells it whose clock was set back between the two
    os.utime(old, (new.stat().st_mtime + DAY,) * 2)
    steps = chain.finish()
    assert steps == [int(new.stem.split("-")[1])]
    same(undisturbed.run, chain.run)
    assert all(value >= 0 for value in report(chain.run)["seconds"].values())


def compiled(folder):
    """A library under which the time of day is a day less once a file is there; asserts that programs see it."""
    library = folder / "clock_back.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, CLOCK, "-ldl"], check=True)
    program = (
        "import os, pathlib, time\nbefore = time.time(), time.monotonic()\n"
        "pathlib.Path(os.environ['CLOCK_BACK']).touch()\nprint(time.time() - before[0], time.monotonic() - before[1])"
    )
    settings = os.environ | {"LD_PRELOAD": str(library), "CLOCK_BACK": str(folder / "tried")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], env=settings, capture_output=True, text=True, check=True
    )
    day, passed = map(float, done.stdout.split())
    assert -DAY <= day < -DAY + 60 and 0 <= passed < 60
    return library
