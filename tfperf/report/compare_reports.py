"""What two finished runs are compared by in their report.json, as far as it is of every workload."""

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tfperf.errors import RunDirectoryError
from tfperf.report.compare import TIMES, Change, ChangeWords
from tfperf.results.contents import REPORT
from tfperf.results.reading import read_json
from tfperf.results.rundir import load_state
from tfperf.results.state import AnyOwn

ONE_RUN_EACH: ChangeWords = (f"{TIMES[0]}, one run each", f"{TIMES[1]}, one run each")
NOTE_OF_TIMES = (  # what their limits are, below a table whose others are 95 % intervals
    "ms per step: from quartile to quartile of the calls of one run each; runs differ more: sweep with repeats"
)
Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
FiniteNumber = Annotated[float, Field(allow_inf_nan=False)]
T = TypeVar("T")
IGNORE_EXTRA = ConfigDict(extra="ignore")  # a report has more than is compared


@dataclass(config=IGNORE_EXTRA, frozen=True)
class StepQuartiles:
    """Milliseconds a step over the calls of a run; None where nothing was timed."""

    median: Milliseconds
    q1: Milliseconds
    q3: Milliseconds


def read_report(folder: Path, kind: type[T]) -> T:
    """What a record takes from report.json of a finished run.

    Raises: RunDirectoryError for a run that is not finished, and where the report is damaged or of another kind.
    """
    if load_state(folder, AnyOwn).pending is not None:
        raise RunDirectoryError(f"{folder}: the run is not finished; go on with it by --resume first")
    return parse_report(folder, kind)


def parse_report(folder: Path, kind: type[T]) -> T:
    """What a record takes from report.json of any run. Raises: RunDirectoryError where it is damaged or another one."""
    content: Any = read_json(folder / REPORT)
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunDirectoryError(f"{folder / REPORT}: damaged or of another kind: {place}: {first['msg']}") from None


def compare_times(old: StepQuartiles, new: StepQuartiles) -> list[Change]:
    """From the quartiles of the calls, of which each run has its own: what the next run would have they do not tell."""
    if old.median is None or old.q1 is None or old.q3 is None or new.median is None or new.q1 is None or new.q3 is None:
        return []
    limits = new.q1 - old.q3, new.q3 - old.q1
    return [Change("ms per step", old.median, new.median, new.median - old.median, *limits, ONE_RUN_EACH)]
