"""How long a run takes beside its steps: start, compilation, report; and what fits leave behind in a process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import IO

from benchmarks.registry import Row, register_benchmark
from tfperf.errors import UserError

FAILED = 3  # some replicas: in one step none becomes positive
HERE = Path(__file__).parents[1]
ROUNDS, FITS, WARM_FITS = 5, 30, 3
SHORT = ["replicas=10", "train.steps=300"]
STACKS = ["replicas=400", "engine.stacks=8", "engine.form=folded", "engine.xla=true", "train.steps=1"]
IMPORT = "import tensorflow, keras"
MANY = f"""
import resource, sys, tfperf
for number in range({FITS}):
    tfperf.fit(sys.argv[1], overrides=["replicas=40", "train.steps=200", f"seed={{number + 1}}"])
    pages = int(open("/proc/self/statm").read().split()[1])
    print(pages * resource.getpagesize() / 1e6, flush=True)
"""


@dataclass(frozen=True)
class Checkout:
    """A version of the program, and the folder of the caches and runs that it makes here."""

    root: Path
    folder: Path

    @property
    def card(self) -> Path:
        """Its shipped card."""
        return self.root / "runcards" / "pdf_dis.yaml"

    def empty_caches(self) -> None:
        """As on a machine that never saw the program."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def start(
        self, *command: object, stdin: int | None = None, stdout: int, stderr: IO[str] | int
    ) -> "subprocess.Popen[str]":
        """A command of Python's, with this version first in the path; streams: as of Popen."""
        own = {"PYTHONPATH": str(self.root), "TFPERF_CACHE": str(self.folder / "cache")}
        words = [sys.executable, *map(str, command)]
        # cwd: where Python looks first
        return subprocess.Popen(
            words, text=True, env={**os.environ, **own}, cwd=self.root, stdin=stdin, stdout=stdout, stderr=stderr
        )

    def run(self, *command: object) -> tuple[float, float, str]:
        """Seconds of a command of Python's, seconds to its first line, and all that it printed."""
        start, first = time.perf_counter(), float("nan")
        with self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            assert process.stdout is not None
            lines: list[str] = []
            for line in process.stdout:
                first = time.perf_counter() - start if not lines else first
                lines.append(line)
        if process.returncode not in (0, FAILED):
            raise UserError(
                f"python {' '.join(map(str, command))}: ended with {process.returncode}:\n{''.join(lines[-20:])}"
            )
        return time.perf_counter() - start, first, "".join(lines)

    def fit(self, *overrides: str) -> Mapping[str, float]:
        """Seconds of a fit of the shipped card: `total`, to the `first line`, `before the steps`, and of its stages."""
        run = self.folder / "run"
        sets = [word for one in overrides for word in ("--set", one)]
        total, first, _ = self.run("-m", "tfperf", "fit", self.card, "-o", run, "--force", *sets)
        stages = json.loads((run / "report.json").read_text())["seconds"]
        return {"total": total, "first line": first, "before the steps": stages["total"] - stages["write"], **stages}


def _measure_fits(checkout: Checkout, name: str, *overrides: str) -> Iterator[tuple[str, float]]:
    """With empty caches, and a second time."""
    checkout.empty_caches()
    cold, warm = checkout.fit(*overrides), checkout.fit(*overrides)
    yield f"{name}, caches empty", cold["total"]
    yield f"{name}, second time", warm["total"]
    yield f"{name}, first line", warm["first line"]
    yield f"{name}, report and results written", warm["write"]


def _measure_fit(checkout: Checkout) -> Iterator[tuple[str, float]]:
    yield from _measure_fits(checkout, "fit of the card")


def _measure_short_fit(checkout: Checkout) -> Iterator[tuple[str, float]]:
    yield from _measure_fits(checkout, f"fit with {' '.join(SHORT)}", *SHORT)
    yield "import of TensorFlow and Keras", checkout.run("-c", IMPORT)[0]


def _measure_check(checkout: Checkout) -> Iterator[tuple[str, float]]:
    checkout.run("-m", "tfperf", "check", checkout.card)
    total, first, _ = checkout.run("-m", "tfperf", "check", checkout.card)
    yield "check, second time", total
    yield "check, first line", first


def _measure_stacks(checkout: Checkout) -> Iterator[tuple[str, float]]:
    checkout.empty_caches()
    yield "eight stacks of 50 to their first step", checkout.fit(*STACKS)["before the steps"]


PARTS: dict[str, Callable[[Checkout], Iterator[tuple[str, float]]]] = {
    "fit": _measure_fit, "short": _measure_short_fit, "check": _measure_check, "stacks": _measure_stacks,
}  # fmt: skip


@register_benchmark(
    "start",
    claim="a fit starts and ends in seconds: programs are compiled once and kept, the report is written side by side",
    sweep=f"parts {', '.join(PARTS)} (--only); with --against FOLDER, another checkout, in turn; --rounds: {ROUNDS}",
    unit="seconds of whole commands, median and quartiles; ratio: this checkout's median over the other one's",
)
def measure_start(only: str = ",".join(PARTS), against: Path | None = None, rounds: int = ROUNDS) -> Iterator[Row]:
    """A row for each command. Caches are in a folder of their own, emptied where the row says so."""
    unknown = [part for part in only.split(",") if part not in PARTS]
    if unknown:
        raise UserError(f"--only: got {unknown[0]}; allowed: {', '.join(PARTS)}")
    if rounds < 2:
        raise UserError(f"--rounds: got {rounds}; must be at least 2")
    with tempfile.TemporaryDirectory() as folder:
        checkouts = {"now": Checkout(HERE, Path(folder) / "now")}
        if against is not None:
            checkouts["before"] = Checkout(against.resolve(), Path(folder) / "before")
        for part in only.split(","):
            found: dict[tuple[str, str], list[float]] = {}
            for _ in range(rounds):
                for version, checkout in checkouts.items():
                    checkout.folder.mkdir(exist_ok=True)
                    for what, seconds in PARTS[part](checkout):
                        found.setdefault((what, version), []).append(seconds)
            for what, version in found:
                if version == "now":
                    yield _make_row(what, found[what, "now"], found.get((what, "before")))


def _make_row(what: str, now: list[float], before: list[float] | None) -> Row:
    q1, middle, q3 = quantiles(now, n=4, method="inclusive")
    row: Row = {"what": what, "seconds": middle, "q1": q1, "q3": q3}
    return row if before is None else row | {"before": median(before), "ratio": middle / median(before)}


@register_benchmark(
    "many-fits",
    claim="what a fit made is freed when its record is all that is left",
    sweep=f"{FITS} fits of 40 replicas in one process, each with another seed; --against FOLDER: another checkout, too",
    unit="resident memory in MB after a fit, and its growth from the third fit on",
)
def measure_many_fits(against: Path | None = None) -> Iterator[Row]:
    """A row for each checkout."""
    roots = {"now": HERE} if against is None else {"before": against.resolve(), "now": HERE}
    for version, root in roots.items():
        with tempfile.TemporaryDirectory() as folder:
            checkout = Checkout(root, Path(folder))
            _, _, words = checkout.run("-c", MANY, checkout.card)
        sizes = [float(line) for line in words.splitlines() if line.replace(".", "").isdigit()]
        after = sizes[WARM_FITS:]
        yield {
            "version": version, "fits": len(sizes), "first": sizes[0], "third": sizes[WARM_FITS - 1],
            "last": sizes[-1], "most after the third": max(after), "growth": max(after) - sizes[WARM_FITS - 1],
        }  # fmt: skip
