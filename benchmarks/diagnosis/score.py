"""Whether a profile names the planted cause first, and says what it costs and what removing it gains."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.diagnosis.child import load_programs
from benchmarks.diagnosis.program import PROGRAMS
from benchmarks.registry import Row, register_benchmark
from tfperf.errors import UserError

COST, LEAST_MS, GAIN = 0.15, 0.3, 0.25  # how far a cost may be off, in shares or ms; how far an estimate
ROOT = Path(__file__).parents[2]
SECONDS = 600
COLUMNS = (
    "program", "rule", "planted_ms", "twin_ms", "costs_ms", "first", "said_ms", "gains_ms", "wrong",
)  # fmt: skip


@register_benchmark(
    "diagnosis",
    claim="of small programs with one planted cause each, tfperf profile names it first, with its cost and its gain",
    sweep="each program and its twin without the cause: unrecorded in turn, then a profile of each",
    unit="ms a step: program less twin, medians of rounds in turn; what the finding says that it takes, and would gain",
)
def measure_diagnosis(only: str = "", folder: str = "") -> Iterator[Row]:
    """only: names of programs, with commas; folder: where what each gives is kept, as JSON. Raises: UserError."""
    for name, found in run_programs(only, folder, "child"):
        if isinstance(found, UserError):
            yield dict.fromkeys(COLUMNS, "n/a") | {"program": name, "rule": PROGRAMS[name].rule, "wrong": str(found)}
        else:
            yield score(found)


def run_programs(only: str, folder: str, module: str) -> Iterator[tuple[str, dict[str, Any] | UserError]]:
    """Names of programs and what each gives in a process of its own, run by a module of this package.

    only: names with commas, else all; folder: where what each gives is kept. A program that fails ends no other.
    Raises: UserError for a name that is none.
    """
    load_programs()
    chosen = [name for name in only.split(",") if name]
    if unknown := set(chosen) - set(PROGRAMS):
        raise UserError(f"--only: {', '.join(sorted(unknown))}: no program; there are {', '.join(PROGRAMS)}")
    with tempfile.TemporaryDirectory() as temporary:
        where = Path(folder or temporary)
        where.mkdir(parents=True, exist_ok=True)
        for name in chosen or PROGRAMS:
            try:
                yield name, run_program(name, where / f"{name}.json", module)
            except UserError as error:
                yield name, error


def run_program(name: str, output: Path, module: str) -> dict[str, Any]:
    """What a program gives in a process of its own. Raises: UserError where it fails."""
    command = [sys.executable, "-m", f"benchmarks.diagnosis.{module}", name, str(output)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT)
    except subprocess.TimeoutExpired:
        raise UserError(f"{name}: takes more than {SECONDS} s") from None
    if done.returncode:
        raise UserError(f"{name}: failed: {done.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(output.read_text())
    return found


def score(found: Mapping[str, Any]) -> Row:
    """A row of the table, from what a program gave."""
    cost = median(a - b for a, b in zip(found["planted_ms"], found["twin_ms"], strict=True))
    first = next(iter(found["planted"]["findings"]), None)
    named = first is not None and is_planted(first, found)
    took, gain = (first["ms"], first["gain_ms"]) if first is not None else (0.0, 0.0)
    accused = any(is_planted(one, found) for one in found["twin"]["findings"])
    right = {
        "named": named, "cost": abs(took - cost) <= max(COST * cost, LEAST_MS), "gain": abs(gain - cost) <= GAIN * cost,
        "twin": not accused,
    }  # fmt: skip
    return {
        "program": found["name"], "rule": found["rule"], "planted_ms": median(found["planted_ms"]),
        "twin_ms": median(found["twin_ms"]), "costs_ms": cost, "first": first["rule"] if first else "none",
        "said_ms": took, "gains_ms": gain, "wrong": ", ".join(what for what, fine in right.items() if not fine) or "no",
    }  # fmt: skip


def is_planted(finding: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether a finding is the cause that was planted."""
    return finding["rule"] == found["rule"] and all(word in finding["what"] for word in found["words"])
