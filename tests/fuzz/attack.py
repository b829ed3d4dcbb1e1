"""How the fuzzers work: the same damaged cases each time, each read in a process that may break."""

import json
import select
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 90  # of a case, on a machine that may be busy; most take milliseconds
BYTES = 10**9  # that a case may take above what it found
START_SECONDS = 120


class Worker:
    """The process of `worker.py`, begun when it is needed, and again where it ended."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.worst = {"seconds": 0.0, "bytes": 0}

    def ask(self, check, *arguments):
        """The verdict on a case: "accepted" or "refused", and the refusal; AssertionError where it is wrong."""
        found = self._answer([check, *arguments])
        self.worst = {key: max(value, found[key]) for key, value in self.worst.items()}
        assert found["is"] != "wrong", found["text"]
        assert found["bytes"] < BYTES, f"{found['bytes'] / 1e6:.0f} MB, {found['is']}: {found['text'][:300]}"
        return found["is"], found["text"]

    def _answer(self, case):
        begun = self.process is None or self.process.poll() is not None
        if begun:
            self.close()
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.fuzz.worker"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(case, default=str).encode() + b"\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], SECONDS + begun * START_SECONDS)[0]:
            self.close()
            raise AssertionError(f"no end after {SECONDS} s")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.close()
            raise AssertionError(f"the process ended with {code}")
        return json.loads(line)

    def close(self):
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None


def each_of(few, many):
    """A test of so many cases; a slow one of many more."""
    return pytest.mark.parametrize(
        "cases", [few, pytest.param(many, marks=pytest.mark.slow)], ids=["few", "many"]
    )  # fmt: skip


def attack(cases, material, check, *bombs, verdicts=("accepted", "refused")):
    """Put `bombs` and so many drawn cases to `check`, which returns a verdict; all these verdicts must occur."""
    seen = Counter()

    def one_case(case):
        seen[check(case)] += 1

    test = given(case=material)(one_case)
    for bomb in bombs:
        test = example(case=bomb)(test)
    settings(
        max_examples=cases, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate),
    )(test)()  # fmt: skip
    assert set(verdicts) <= set(seen), f"{dict(seen)}: the damage is too little, or too much, to tell anything"
