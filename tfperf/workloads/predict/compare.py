"""Two finished predictions of the same records: rates, useful share, failures, batches, and whether the rows agree."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from tfperf.errors import RunDirectoryError
from tfperf.infer.prediction import MANIFEST
from tfperf.measure.confidence import ConfidenceInterval, estimate_welch_difference
from tfperf.report.compare import TIMES, Change, ChangeWords
from tfperf.report.compare_reports import IGNORE_EXTRA, ONE_RUN_EACH, FiniteNumber, parse_report
from tfperf.report.prediction_page import describe_batch
from tfperf.results.contents import REPORT
from tfperf.results.reading import read_json
from tfperf.workloads.predict.agreement import OutputAgreement, RowAgreement, compare_rows
from tfperf.workloads.predict.printing import show_predicting
from tfperf.workloads.predict.progress import PredictionState

RATES: ChangeWords = (ONE_RUN_EACH[1], ONE_RUN_EACH[0])  # for less, for more
LEAST_BLOCKS, MOST_BLOCKS = 6, 24  # that a run is cut into, for the scatter of its rate
BATCHES = 4  # of a block at least: fewer tell more of single batches than of the run
LONG_BYTES = 2**28  # of files whose reading is shown
NOTE_OF_RATES = (
    "records/s: the interval is of the scatter within one run each, over {} and {} parts of their time; "
    "runs differ more: repeat them by turns"
)
INPUTS = {"model": "model", "preprocess": "preparation", "columns": "columns", "window": "queue.window"}


@dataclass(config=IGNORE_EXTRA, frozen=True)
class ComparedWorker:
    """Of a worker: records a second while it was busy."""

    device: str
    batches: int
    rate: FiniteNumber | None


@dataclass(config=IGNORE_EXTRA, frozen=True)
class ComparedCourse:
    """cost (workers, bins): of what was computed, which records of other lengths do not change."""

    bin_seconds: float = Field(gt=0, allow_inf_nan=False)
    cost: list[list[FiniteNumber]] = Field(default_factory=list)


@dataclass(config=IGNORE_EXTRA, frozen=True)
class ComparedPrediction:
    """What is compared of report.json."""

    is_finished: bool
    records: int
    failed: int
    reasons: dict[str, int]
    seconds: FiniteNumber
    rate: FiniteNumber | None
    useful_share: FiniteNumber | None
    startup_seconds: FiniteNumber | None
    records_of_this_life: int
    workers: list[ComparedWorker]
    course: ComparedCourse
    lives: list[dict[str, Any]]

    def list_block_rates(self) -> list[float]:
        """Cost a second of equal parts of the run; none where it was too short to tell its scatter."""
        sums = np.sum(self.course.cost, axis=0) if self.course.cost else np.zeros(0)
        whole = min(len(sums), int(self.seconds / self.course.bin_seconds))
        blocks = min(MOST_BLOCKS, whole, sum(one.batches for one in self.workers) // BATCHES)
        if blocks < LEAST_BLOCKS:
            return []
        parts = np.array_split(sums[:whole], blocks)
        return [float(one.mean()) / self.course.bin_seconds for one in parts]

    def list_device_rates(self) -> dict[str, float]:
        """Of a worker on each device, while it is busy: the mean of those that did anything."""
        found: dict[str, list[float]] = {}
        for one in self.workers:
            if one.rate is not None:
                found.setdefault(one.device, []).append(one.rate)
        return {device: float(np.mean(rates)) for device, rates in found.items()}


def compare_predictions(before: Path, now: Path) -> tuple[list[Change], list[str]]:
    """What differs between two runs, and what to know about it. Raises: RunDirectoryError."""
    old, new = read_prediction(before), read_prediction(now)
    a, b = (_read_identity(folder) for folder in (before, now))
    refuse_other_records(before, now, (a, b), (old, new))
    files = [folder / Path(str(one["file"])).name for folder, one in ((before, a), (now, b))]
    is_long = sum(path.stat().st_size for path in files if path.is_file()) > LONG_BYTES
    with show_predicting(quiet=not is_long) as (show, _):

        def show_count(done: int, total: int) -> None:
            show(PredictionState(done, total, words="comparing rows"))

        rows = compare_rows(files[0], files[1], show_count)
    notes = [*describe_rows(rows), *describe_inputs(a, b), *describe_lives(before, now, old, new)]
    return list(list_changes(old, new)), [*_describe_limits(old, new), *notes]


def read_prediction(folder: Path) -> ComparedPrediction:
    """The report of a finished prediction. Raises: RunDirectoryError for another one."""
    found = parse_report(folder, ComparedPrediction)
    if len({len(row) for row in found.course.cost}) > 1:
        raise RunDirectoryError(f"{folder / REPORT}: damaged: course.cost: rows of several lengths")
    if not found.is_finished:
        raise RunDirectoryError(f"{folder}: the run is not finished; go on with it by --resume first")
    return found


def _read_identity(folder: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = read_json(folder / MANIFEST)["identity"]
        return {key: found[key] for key in (*INPUTS, "source", "id", "output", "file", "batch")}
    except (KeyError, TypeError) as error:
        raise RunDirectoryError(f"{folder / MANIFEST}: damaged: {error}") from None


def refuse_other_records(
    before: Path, now: Path, identities: Sequence[Mapping[str, Any]], reports: Sequence[ComparedPrediction]
) -> None:
    """RunDirectoryError where the records are others, as far as files and counts tell; ids are compared with rows.

    Where records are known by ids of their own, the files that they were read from may be others.
    """
    counts = [one.records for one in reports]
    if counts[0] != counts[1]:
        what = f"has {counts[1]} records, {before} has {counts[0]}"
        raise RunDirectoryError(f"{now}: {what}; predictions of the same records can be compared")
    digests = [[digest for _, digest in one["source"]] for one in identities]
    if digests[0] != digests[1] and any(one["id"] is None for one in identities):
        what = f"its files are others than those of {before}, and records have no ids that would tell whether they are"
        raise RunDirectoryError(f"{now}: {what} the same; name source.id in both cards")


def list_changes(old: ComparedPrediction, new: ComparedPrediction) -> Iterator[Change]:
    """What both reports say."""
    if old.rate and new.rate:
        ratio = estimate_rate_ratio(old, new)
        limits = (ratio.low, ratio.high)
        yield Change("records/s", old.rate, new.rate, ratio.value, *limits, RATES, "ratio")
    if old.useful_share is not None and new.useful_share is not None:
        yield _make_difference("useful share", old.useful_share, new.useful_share)
    mine, other = old.list_device_rates(), new.list_device_rates()
    for device in (name for name in mine if name in other and mine[name] > 0):
        name, rates = f"records/s of a busy worker, {device}", (mine[device], other[device])
        yield Change(name, *rates, rates[1] / rates[0], None, None, RATES, "ratio")
    if len(old.workers) != len(new.workers):
        yield _make_difference("workers", len(old.workers), len(new.workers))
    if old.startup_seconds is not None and new.startup_seconds is not None:
        times = (old.startup_seconds, new.startup_seconds)
        yield Change("s before the first unit", *times, times[1] - times[0], None, None, TIMES)
    yield _make_difference("records that failed", old.failed, new.failed)
    for reason in {**old.reasons, **new.reasons}:
        yield _make_difference(f"records that {reason}", old.reasons.get(reason, 0), new.reasons.get(reason, 0))


def _make_difference(name: str, before: float, now: float) -> Change:
    return Change(name, before, now, now - before, None, None)


def estimate_rate_ratio(old: ComparedPrediction, new: ComparedPrediction) -> ConfidenceInterval:
    """Of the rates of whole runs; limits from the scatter of the logarithms of their parts', where these tell."""
    assert old.rate and new.rate
    middle = new.rate / old.rate
    parts = [one.list_block_rates() for one in (old, new)]
    if not all(one and min(one) > 0 for one in parts):
        return ConfidenceInterval(middle)
    half = estimate_welch_difference(*(np.log(one).tolist() for one in parts)).half
    assert half is not None
    return ConfidenceInterval(middle, middle * float(np.exp(-half)), middle * float(np.exp(half)))


def _describe_limits(old: ComparedPrediction, new: ComparedPrediction) -> list[str]:
    counts = [len(one.list_block_rates()) for one in (old, new)]
    if all(counts):
        return [NOTE_OF_RATES.format(*counts)]
    return ["records/s: one run each, too short to tell how far chance moves it"]


def describe_rows(found: RowAgreement) -> list[str]:
    """Whether the rows agree, a line for each output."""
    lines = [f"{name} of {found.both} records: {_describe_output(one)}" for name, one in found.outputs.items()]
    if not found.both:
        lines = ["no record is done in both: there are no rows to compare"]
    for which, count in (("first", found.before), ("second", found.now)):
        if count:
            lines.append(f"{count} records are done in the {which} run only")
    return [*lines, *found.notes]


def _describe_output(found: OutputAgreement) -> str:
    odd = f"; {found.unlike} values are no numbers in one of them only" if found.unlike else ""
    if not found.absolute:
        return f"all numbers are equal{odd}"
    return (
        f"differ by at most {found.absolute:.2e} (record {found.record}), where values are up to {found.largest:.3g}; "
        f"relative to the value by at most {found.relative:.1e}{odd}"
    )


def describe_inputs(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What else than the card's keys differs."""
    lines = [f"{name}: another one" for key, name in INPUTS.items() if old[key] != new[key]]
    if old["batch"] != new["batch"]:
        lines.append(f"batches: {describe_batch(new['batch'])}; was {describe_batch(old['batch'])}")
    if [digest for _, digest in old["source"]] != [digest for _, digest in new["source"]]:
        lines.append("source: other files; all ids are the same")
    return lines


def describe_lives(before: Path, now: Path, old: ComparedPrediction, new: ComparedPrediction) -> list[str]:
    """Which figures are of a part of the records."""
    return [
        f"{folder}: rates are of the last of {len(one.lives)} lives, {one.records_of_this_life} records"
        for folder, one in ((before, old), (now, new))
        if len(one.lives) > 1
    ]
