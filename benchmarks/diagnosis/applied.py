"""Whether what a profile says that a change gains is what it gains when it is made.

The trainings are the twins of the programs, which have no planted cause: what is found there is what such trainings
have anyhow.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.diagnosis.changes import make_change
from benchmarks.diagnosis.child import STEPS, prepare, read, record, time_steps
from benchmarks.diagnosis.program import Fit, OwnLoop
from benchmarks.diagnosis.score import GAIN, run_programs
from benchmarks.registry import Row, register_benchmark
from tfperf.errors import UserError

CAPTURES, ROUNDS = 3, 5
LEAST_MS = 0.03  # of what is said and what is gained, how far they may be apart in any case
TIMED_MS = 400.0  # of each measurement, about, without the change
COLUMNS = ("program", "rule", "period_ms", "says_ms", "gains_ms", "within")


@register_benchmark(
    "diagnosis-applied",
    claim="what tfperf profile says that changes gain is what they gain when they are made",
    sweep="the twins without a planted cause of the benchmark `diagnosis`: each finding whose change can be made alone",
    unit="ms a step: the training less the one with the change, unrecorded, medians of rounds in turn",
)
def measure_applied(only: str = "", folder: str = "") -> Iterator[Row]:
    """only: names of programs, with commas; folder: where what each gives is kept, as JSON. Raises: UserError."""
    for name, found in run_programs(only, folder, "applied"):
        if isinstance(found, UserError):
            yield dict.fromkeys(COLUMNS, "n/a") | {"program": name, "within": str(found)}
        else:
            yield from (score_change(name, one) for one in found["applied"])


def score_change(name: str, found: Mapping[str, Any]) -> Row:
    """A row of the table, of one finding."""
    row = dict.fromkeys(COLUMNS, "n/a") | {"program": name, "rule": found["rule"], "says_ms": found["gain_ms"]}
    if not found["after_ms"]:
        return row | {"within": found["failed"] or "not made"}
    gained = median(a - b for a, b in zip(found["before_ms"], found["after_ms"], strict=True))
    fine = abs(found["gain_ms"] - gained) <= max(GAIN * gained, LEAST_MS)
    return row | {"period_ms": median(found["before_ms"]), "gains_ms": gained, "within": "yes" if fine else "no"}


def main(name: str, output: Path) -> None:
    """Measure one program's twin."""
    training = prepare(name, kinds=(False,))[False]
    captures = []
    for _ in range(CAPTURES):
        with tempfile.TemporaryDirectory() as folder:
            record(training, Path(folder))
            captures.append(read(Path(folder)))
    steps = max(STEPS, round(TIMED_MS / median(one["period_ms"] for one in captures)))
    by_rule: dict[str, list[dict[str, Any]]] = {}
    for capture in captures:
        for rule in dict.fromkeys(one["rule"] for one in capture["findings"]):
            first = next(one for one in capture["findings"] if one["rule"] == rule)
            by_rule.setdefault(rule, []).append(first)
    applied = [
        time_change(training, middle, steps)
        for mine in by_rule.values() if 2 * len(mine) > CAPTURES
        for middle in [sorted(mine, key=lambda one: float(one["gain_ms"]))[len(mine) // 2]]
    ]  # fmt: skip
    output.write_text(json.dumps({"name": name, "applied": applied}, indent=1))


def time_change(training: Fit | OwnLoop, finding: dict[str, Any], steps: int) -> dict[str, Any]:
    """The finding with ms a step without the change and with it, in turn; none where it cannot be made, or why."""
    before, after, failed = [], [], ""
    try:
        for number in range(ROUNDS):
            before += [time_steps(training, steps)] if number % 2 else []
            with make_change(training, finding) as changed:
                if changed is None:
                    break
                per_call = changed.steps_per_call if isinstance(changed, OwnLoop) else 1
                after.append(time_steps(changed, max(STEPS, steps // per_call)))
            before += [] if number % 2 else [time_steps(training, steps)]
    except Exception as error:  # a change that fails is what this looks for
        before, after, failed = [], [], f"fails: {type(error).__name__}"
    return finding | {"before_ms": before, "after_ms": after, "failed": failed}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
