"""Runs that are killed again and again until they are let end: a chain of lives."""

import json
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.kills.lives import At, Writing, nothing_runs, temporary_files, tfperf


@dataclass(frozen=True)
class End:
    """How a life was ended from outside."""

    aim: str
    stage: str
    seconds: float  # of life
    half: bool  # a file was half written then
    dying: float = 0.0  # seconds from the signal to the end


@dataclass(frozen=True)
class Chain:
    """A command `tfperf fit ...` on a run directory, begun and gone on with."""

    arguments: list[object]  # without -o
    run: Path  # the folder
    settings: dict[str, str]

    def begin(self):
        """The next life of the run; one that ended before there was a run may be refused, and is then begun anew."""
        more = ["--resume"] if self.run.exists() else []
        return tfperf("fit", *self.arguments, "-o", self.run, *more, log=self._log, **self.settings)

    def begin_anew(self):
        """A life without --resume."""
        return tfperf("fit", *self.arguments, "-o", self.run, log=self._log, **self.settings)

    @property
    def words(self):
        """What all its lives have said."""
        return "".join(log.read_text() for log in sorted(self.run.parent.glob(f"{self.run.name}.log.*")))

    @property
    def _log(self):
        return self.run.with_name(f"{self.run.name}.log.txt")

    def ended(self, aims, number=signal.SIGKILL, codes=(-signal.SIGKILL,), seconds=60.0):
        """End a life at each aim by a signal; what came of it. It stops early where a life has ended before its aim.

        Asserts that each ends with one of the exit codes, within so many seconds, and that nothing of it runs then.
        """
        found = []
        for aim in aims:
            life = self._until(aim)
            try:
                end = None if life.ended else self._end(life, aim, number, codes, seconds)
                if end is None:
                    assert life.end() == 0, life.words
                    break
                found.append(end)
            finally:
                life.clear()
        return found

    def _until(self, aim):
        life = self.begin()
        if not aim.wait(life, self.run) and "holds no run" in life.words:
            life = self.begin_anew()
            aim.wait(life, self.run)
        return life

    def _end(self, life, aim, number, codes, seconds):
        life.kill(number)
        lived, asked = life.seconds, time.monotonic()
        code = life.end(seconds)
        dying = time.monotonic() - asked
        if code == 0 and number == signal.SIGKILL:
            return None  # it had ended in that moment
        assert code in codes, f"{aim}: {code}: {life.words}"
        nothing_runs(life, self.run)
        return End(str(aim), self._stage(life), lived, bool(temporary_files(self.run)), dying)

    def _stage(self, life):
        """What the run was at when its life ended."""
        if not (self.run / "run.json").exists():
            return "before the run"
        for name, pattern in (("report", "results.h5"), ("training", "checkpoints/*.ckpt")):
            if any(path.stat().st_mtime > life.clock for path in self.run.glob(pattern)):
                return name
        return "start"

    def finish(self):
        """Let the run end; the steps from which its lives went on."""
        life = self.begin()
        try:
            if life.end() == 2 and "holds no run" in life.words:
                life = self.begin_anew()
            assert life.end() == 0, life.words
            nothing_runs(life, self.run)
        finally:
            life.clear()
        state = json.loads((self.run / "run.json").read_text())
        return [step for part in state["parts"] for step in part["resumed_from_steps"]]


def draw_kills(seed, seconds, late):
    """Four aims over a run that takes so many seconds; two of them at its writes, one of which is one of `late`."""
    draw = random.Random(seed)
    return [
        At(draw.uniform(0.0, seconds)), Writing("step-", draw.randint(2, 8)), At(draw.uniform(0.1, 0.8) * seconds),
        draw.choice(late),
    ]  # fmt: skip


def describe(title, ends, steps, seconds):
    """Lines that tell of a chain, for whoever runs the tests with -s."""
    stages = ", ".join(f"{stage} {count}" for stage, count in Counter(end.stage for end in ends).items())
    half = sum(end.half for end in ends)
    lines = [f"\n{title}: {len(ends)} ends ({stages}; {half} in a write), went on from {steps}; {seconds:.0f} s in all"]
    lines += [f"  {end.aim}: {end.stage}, {end.seconds:.1f} s, ended {end.dying:.2f} s later" for end in ends]
    return "\n".join(lines)
