"""Signals at any moment of a fit: it ends soon with its code, and goes on to the same bits."""

import random
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from tests.kills.chains import describe
from tests.kills.lives import At, Writing
from tests.kills.sameness import same
from tests.study.sweeps import wait_for

pytestmark = pytest.mark.slow
SECONDS = 5.0  # from the signal to the end
SIGNALS = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
EACH = 5  # moments of a chain


class Listening:
    """Once the program catches SIGTERM; before, the interpreter itself is not up."""

    def __str__(self):
        return "as soon as it listens"

    def wait(self, life, folder):
        wait_for(lambda: life.ended or catches(life.process.pid, signal.SIGTERM), seconds=120)
        return not life.ended


class Loading:
    """While TensorFlow is imported: once its first library is mapped."""

    def __str__(self):
        return "while TensorFlow is imported"

    def wait(self, life, folder):
        maps = Path(f"/proc/{life.process.pid}/maps")
        wait_for(lambda: life.ended or "tensorflow" in maps.read_text(), seconds=120)
        return not life.ended


class Later:
    """Some seconds after another aim."""

    def __init__(self, aim, seconds):
        self.aim, self.seconds = aim, seconds

    def __str__(self):
        return f"{self.seconds:.1f} s after: {self.aim}"

    def wait(self, life, folder):
        return self.aim.wait(life, folder) and At(life.seconds + self.seconds).wait(life, folder)


def catches(pid, number):
    """Whether a process has a handler for a signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    mask = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt")), 0)
    return bool(mask >> (number - 1) & 1)


def moments(seed):
    """Over the start, the training, and the writing of the report; each begins in a life of its own."""
    draw = random.Random(seed)
    start = Later(Listening(), draw.uniform(0, 1)), Loading(), Later(Loading(), draw.uniform(0, 4))
    late = Writing("results.h5"), Later(Writing("results.h5"), draw.uniform(0, 0.5)), Writing("report.html")
    return [
        Listening() if seed == 0 else start[seed % 3], Later(Loading(), draw.uniform(2, 6)),
        Later(Loading(), draw.uniform(4, 8)), Later(Writing("step-", draw.randint(1, 5)), draw.uniform(0, 1)),
        late[seed % 3],
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_fit_ends_soon_after_a_signal_and_finds_the_same(fit, tmp_path, seed):
    undisturbed, begun, done = fit(), time.monotonic(), 0
    aims = moments(seed)
    for number in count(1):
        chain = undisturbed.chain(tmp_path, f"run{number}")
        for aim in aims[done:]:
            kind = SIGNALS[(seed + done) % len(SIGNALS)]
            ends = chain.ended([aim], kind, (128 + kind,), SECONDS)
            if not ends:
                break
            assert "Traceback" not in chain.words, chain.words
            done += 1
            print(describe(f"{kind.name}", ends, [], time.monotonic() - begun))
        steps = chain.finish()
        same(undisturbed.run, chain.run)
        print(f"went on from {steps}")
        if done == EACH:
            break
