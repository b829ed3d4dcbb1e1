"""What a sweep has measured: a line for each trial, in results.jsonl of its folder; what the repeats say together."""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from tfperf.errors import RunDirectoryError
from tfperf.measure.confidence import estimate_geometric_mean
from tfperf.results.json_text import to_json
from tfperf.results.reading import describe_error, read_text
from tfperf.runcard.sweep import MOST_REPEATS, Value

RESULTS = "results.jsonl"
PROOF_FAILED = "its placement was not proved: "  # how the error of such a trial begins
MOST_BYTES = 2**30
PointValues = Mapping[str, Value]
TrialKey = tuple[str, int]


@dataclass(frozen=True)
class FinishedTrial:
    """One finished trial: the swept values, the repeat (from 1), and its record or its error."""

    values: PointValues
    repeat: int
    seconds: float  # from its start to its end
    record: Mapping[str, Any] = field(default_factory=dict)  # as study/point.py prints it; empty of a failed one
    error: str = ""  # why it failed; empty of a good one

    @property
    def ok(self) -> bool:
        """Whether it has a record."""
        return not self.error

    @property
    def disproved(self) -> bool:
        """Whether it failed since what ran was not where the card wants it."""
        return self.error.startswith(PROOF_FAILED)

    @property
    def ms(self) -> float | None:
        """Milliseconds per step, the median; None of a failed one."""
        return float(self.record["ms_per_step"]["median"]) if self.ok else None

    @property
    def key(self) -> TrialKey:
        """What no other trial of the sweep has."""
        return make_point_key(self.values), self.repeat

    def format_line(self) -> str:
        """As a line of results.jsonl, without its end: with a digest of the rest."""
        text = to_json(asdict(self))
        return f'{text[:-1]}, "{CHECK}": "{_digest(text)}"}}'


CHECK = "sha256"  # key of a line's digest
CHECKED = re.compile(rf'(.*), "{CHECK}": "([^"]*)"\}}', re.DOTALL)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


Milliseconds = Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]  # a second


@checked(config=ConfigDict(strict=True, extra="forbid"))
class _Line:
    """What a line must be."""

    values: dict[str, Value]
    repeat: Annotated[int, Field(ge=1, le=MOST_REPEATS)]
    seconds: Annotated[float, Field(ge=0, lt=1e9, allow_inf_nan=False)]
    record: dict[str, Any]
    error: str


@checked(config=ConfigDict(extra="ignore"))
class _Times:
    median: Milliseconds
    q1: Milliseconds | None = None
    q3: Milliseconds | None = None


@checked(config=ConfigDict(extra="ignore"))
class _Record:
    """What the record of a good trial must have, as far as tables are made of it."""

    ms_per_step: _Times
    samples_ms: Annotated[list[Milliseconds], Field(max_length=10**6)] | None = None
    left_out: Annotated[int, Field(ge=0)] = 0
    machine: dict[str, Any] = field(default_factory=dict)
    words_per_second: Rate | None = None
    pairs_per_second: Rate | None = None


def make_point_key(values: PointValues) -> str:
    """Values as text; 1, 1.0 and true are different ones."""
    return json.dumps(dict(values), sort_keys=True)


def read_finished_trials(folder: Path) -> list[FinishedTrial]:
    """The finished trials of a sweep in the order in which they ended; of one that was redone the last line counts.

    A line without an end, which a killed process left, is no trial. Raises: RunDirectoryError for a damaged file.
    """
    path = folder / RESULTS
    if not os.path.lexists(path):
        return []
    # what is no UTF-8 is told with its line
    whole = read_text(path, MOST_BYTES, "surrogateescape").rpartition("\n")[0]
    found: dict[TrialKey, FinishedTrial] = {}
    for number, line in enumerate(whole.split("\n") if whole else (), 1):
        trial = _parse_trial(path, number, line)
        found.pop(trial.key, None)
        found[trial.key] = trial
    return list(found.values())


def _parse_trial(path: Path, number: int, line: str) -> FinishedTrial:
    try:
        stored = TypeAdapter(_Line).validate_json(_strip_digest(line))
        if not stored.error:
            TypeAdapter(_Record).validate_python(stored.record)
    except (ValueError, TypeError) as error:
        why = _describe_error(error) if isinstance(error, ValidationError) else describe_error(error)
        raise RunDirectoryError(f"{path}:{number}: damaged ({why}); remove the line, its trial is done again") from None
    return FinishedTrial(stored.values, stored.repeat, stored.seconds, stored.record, stored.error)


def _strip_digest(line: str) -> str:
    """A line without its digest; one of an earlier time has none. Raises: ValueError where it does not fit."""
    line.encode()  # UnicodeEncodeError for what is no UTF-8
    match = CHECKED.fullmatch(line)
    if match is None:
        return line
    text = match[1] + "}"
    if _digest(text) != match[2]:
        raise ValueError("its checksum does not fit what it says")
    return text


def _describe_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))


@dataclass(frozen=True)
class PointSummary:
    """What the repeats of one point say. Times in milliseconds per step; None: not measured."""

    values: PointValues
    repeats: int  # good ones
    median: float | None  # of the repeats' medians
    mean: float | None  # the geometric one of the repeats' medians
    low: float | None  # limits of that mean's 95 % interval; None for one repeat
    high: float | None
    failures: int
    errors: tuple[str, ...]  # each once


def summarise_points(found: Sequence[FinishedTrial]) -> list[PointSummary]:
    """A summary of each point, in the order of the trials."""
    together: dict[str, list[FinishedTrial]] = {}
    for trial in found:
        together.setdefault(make_point_key(trial.values), []).append(trial)
    return [_summarise_point(some) for some in together.values()]


def _summarise_point(some: Sequence[FinishedTrial]) -> PointSummary:
    times = [trial.ms for trial in some if trial.ms is not None]
    errors = tuple(dict.fromkeys(trial.error for trial in some if trial.error))
    failures = len(some) - len(times)
    if not times:
        return PointSummary(some[0].values, 0, None, None, None, None, failures, errors)
    mean = estimate_geometric_mean(times)
    median = float(np.median(times))
    return PointSummary(some[0].values, len(times), median, mean.value, mean.low, mean.high, failures, errors)
