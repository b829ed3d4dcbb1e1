"""How often `tfperf profile --against` finds a change that is there, and one that is not."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.registry import Row, register_benchmark
from tfperf.trace.diff import PERIOD, compare

ROOT = Path(__file__).parents[1]
# twins without a cause, of the benchmark `diagnosis`: fits of arrays and of pipelines, loops, compiled and eager
PROGRAMS = ("busy_callback", "no_cache", "numpy_metric", "large_validation", "one_step_a_call", "large_table")
REPEAT, PAIRS, LONGER = 5, 10, 0.08  # captures a side, as `tfperf profile` makes; pairs of a program; of a 10 ms step
ERRORS, DRAWS = 4.5, 400  # standard errors of the planted shifts; how many are planted
SECONDS = 300
Series = Sequence[Mapping[str, Any]]  # of captures


@register_benchmark(
    "profile-against",
    claim="one in ten identical pairs differs at most; nine in ten shifts by 4.5 standard errors do, and 8 % of 10 ms",
    sweep="pairs of five captures a side in turn, each in a process of its own; shifts planted in what they measured",
    unit="pairs, and the share of them that differ: in turn as cards are recorded, and by each side's scatter alone",
)
def measure_against(rounds: int = PAIRS, only: str = "") -> Iterator[Row]:
    """rounds: pairs of each program, and of the longer step; only: names of programs, with commas."""
    chosen = only.split(",") if only else [*PROGRAMS, "longer"]
    found: list[tuple[Series, Series]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            sides = [_record_pair(name, Path(folder, name, str(i))) for i in range(rounds)]
            yield _make_row("a step of 10 ms, 8 % longer" if name == "longer" else name, sides)
            found += [] if name == "longer" else sides
    if found:
        yield _make_row("all identical", found)
        shifted = list(draw_shifted(found, np.random.default_rng(1)))
        yield _make_row(f"shifts of {ERRORS} standard errors", shifted)


def _make_row(name: str, sides: Sequence[tuple[Series, Series]]) -> Row:
    """Of each pair the verdict on the time from step to step."""
    said = {paired: [find_verdict(*pair, paired) for pair in sides] for paired in (True, False)}
    return {
        "program": name, "ms": median(one["step"][PERIOD] for pair in sides for one in pair[0]),
        "pairs": len(sides), "differ_in_turn": sum(one != "same" for one in said[True]) / len(sides),
        "differ_alone": sum(one != "same" for one in said[False]) / len(sides),
    }  # fmt: skip


def find_verdict(before: Series, now: Series, paired: bool) -> str:
    """The verdict on the time from step to step."""
    return compare({"series": now}, {"series": before}, 0.05, paired).step.verdict


def draw_shifted(found: Sequence[tuple[Series, Series]], rng: np.random.Generator) -> Iterator[tuple[Series, Series]]:
    """Two sides drawn from the captures of a pair, one of them longer by ERRORS standard errors of their difference.

    The standard error is that of the pair's own captures; which of them a side has is drawn anew each time.
    """
    for number in range(DRAWS):
        captures = [one["step"][PERIOD] for side in found[number % len(found)] for one in side]
        error = float(np.std(captures, ddof=1)) * (2 / REPEAT) ** 0.5
        before, now = np.split(rng.permutation(captures), 2)
        yield _make_series(before), _make_series(now + ERRORS * error)


def _make_series(values: Any) -> Series:
    return [{"step": {PERIOD: float(one)}} for one in values]


def _record_pair(name: str, folder: Path) -> tuple[Series, Series]:
    """REPEAT captures a side in turn; of the longer step the second side has it."""
    sides = [folder / "before", folder / "now"]
    for turn in range(REPEAT):
        for side in sides if turn % 2 == 0 else sides[::-1]:
            share = LONGER if name == "longer" and side is sides[1] else 0.0
            command = [sys.executable, "-m", "benchmarks.profile_against_side", name, str(side / str(turn)), str(share)]
            subprocess.run(command, check=True, capture_output=True, timeout=SECONDS, cwd=ROOT)
    return _read_side(sides[0]), _read_side(sides[1])


def _read_side(folder: Path) -> Series:
    from tfperf.report.profile import read_profile

    return [read_profile(one, lambda *_: _refuse())[1]["series"][0] for one in sorted(folder.iterdir())]


def _refuse() -> Any:
    raise RuntimeError("ceilings are not asked for")
