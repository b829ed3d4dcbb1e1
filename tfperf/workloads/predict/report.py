"""report.json and report.html of a prediction: of its last life, with what earlier ones came to."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from tfperf.errors import RunDirectoryError
from tfperf.infer.batch_choice import MeasuredRule
from tfperf.infer.dispatch_records import Slot
from tfperf.infer.prediction import PredictionFolder, PredictionResult
from tfperf.report.compare_reports import IGNORE_EXTRA
from tfperf.report.prediction_page import render_prediction
from tfperf.report.sections import write_json, write_text
from tfperf.results.contents import ENVIRONMENT, PAGE, REPORT
from tfperf.results.reading import read_json
from tfperf.workloads.predict.summary import summarise

MACHINE = ("platform", "cpu", "memory_bytes", "gpus")  # of environment.json


@dataclass(config=IGNORE_EXTRA, frozen=True)
class PredictionLife:
    """From a start of the command to its end. None: it was killed, and left no report but its records."""

    records: int
    seconds: float | None = None
    rate: float | None = None
    useful_share: float | None = None
    startup_seconds: float | None = None


@dataclass(config=IGNORE_EXTRA, frozen=True)
class EarlierReport:
    """What a report has of lives before."""

    is_finished: bool
    lives: list[PredictionLife] = Field(default_factory=list)
    batches_tried: list[dict[str, Any]] = Field(default_factory=list)

    def has_all_of(self, summary: Mapping[str, Any]) -> bool:
        """Whether a life that did nothing has nothing to add: all that is committed is told here."""
        told = sum(one.records for one in self.lives) == summary["committed"]
        same = self.is_finished == summary["is_finished"] and not summary["records_of_this_life"]
        return bool(self.lives) and told and same


def write_report(
    folder: PredictionFolder, result: PredictionResult, slots: Sequence[Slot], measured: Sequence[MeasuredRule],
    began: float, place: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Write both; the summary that report.json has. A life that did nothing leaves the report of those before it.

    began: when this life did, by time.monotonic; place: of the workers, None: this machine. Raises: StorageError.
    """
    path = folder.folder
    earlier = read_earlier(path)
    summary = summarise(folder, result, slots, measured, began)
    summary["place"] = place
    summary["seconds_in_all"] = time.monotonic() - began
    summary["lives"] = [asdict(one) for one in list_lives(earlier, summary)]
    summary["batches_tried"] = summary["batches_tried"] or earlier.batches_tried
    environment = read_json(path / ENVIRONMENT)
    summary["versions"] = environment["versions"]
    summary["machine"] = {key: environment[key] for key in MACHINE}
    if not earlier.has_all_of(summary):
        write_json(path, summary)
        write_text(path / PAGE, render_prediction(path, summary))
    return summary


def read_earlier(path: Path) -> EarlierReport:
    """The report of a folder; one without lives where there is none, or it is damaged: the journal has the records."""
    try:
        return TypeAdapter(EarlierReport).validate_python(read_json(path / REPORT))
    except (RunDirectoryError, ValidationError):
        return EarlierReport(is_finished=False)


def list_lives(earlier: EarlierReport, summary: Mapping[str, Any]) -> list[PredictionLife]:
    """All of them, the last one being the summary's; those that left nothing but records are one."""
    keys = PredictionLife.__dataclass_fields__
    last = PredictionLife(
        **{key: summary[key] for key in keys if key != "records"} | {"records": summary["records_of_this_life"]}
    )
    unknown = summary["committed"] - last.records - sum(one.records for one in earlier.lives)
    return [*earlier.lives, *([PredictionLife(unknown)] if unknown > 0 else []), last]
