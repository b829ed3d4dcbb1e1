"""Records of studies: what was found, as a table, and as files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfperf.report.compare import Comparison
from tfperf.report.input import average_rates, list_measured_rates
from tfperf.report.input_stages import list_stage_rows
from tfperf.report.memory_unit import SAMPLES, use_unit
from tfperf.results.files import make_folder, write_atomically
from tfperf.results.tables import make_frame


class StudyRecord:
    """What the records of all studies can do."""

    def list_rows(self) -> list[Mapping[str, Any]]:
        """A mapping for each row of the table."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """A pandas.DataFrame. Raises: UserError where pandas is not installed."""
        return make_frame(self.list_rows())

    def get_content(self) -> Any:
        """All of it as values of JSON."""
        raise NotImplementedError

    def save(self, file: Path | str) -> Path:
        """Write all of it to a JSON file; returns its path. Raises: StorageError."""
        path = Path(file)
        make_folder(path.parent)
        with write_atomically(path) as temporary:
            temporary.write_text(json.dumps(self.get_content(), indent=1) + "\n", encoding="utf-8")
        return path


@dataclass(frozen=True, repr=False)
class SweepResult(StudyRecord):
    """A finished sweep. report: sweep_report.json; path: its folder."""

    report: Mapping[str, Any]
    path: Path

    def __repr__(self) -> str:
        points = self.report["points"]
        return f"SweepResult(points={len(points)}, trials={self.report['trials']}, failed={self.report['failed']})"

    def list_rows(self) -> list[Mapping[str, Any]]:
        """A point each: the swept keys, then times in ms and counts."""
        return [
            {**point["values"], **{key: value for key, value in point.items() if not isinstance(value, dict | list)}}
            for point in self.report["points"]
        ]

    def get_content(self) -> Any:
        """The report."""
        return dict(self.report)


@dataclass(frozen=True, repr=False)
class ProfileResult(StudyRecord):
    """Where the time of a step goes. record: the report's JSON; path: the folder with the profile."""

    record: Mapping[str, Any]
    path: Path

    def __repr__(self) -> str:
        return f"ProfileResult(steps={self.record['steps']}, period_ms={self.record['period_ms']:.4g})"

    def list_rows(self) -> list[Mapping[str, Any]]:
        """A device's phase each, in ms a step."""
        return list(self.record["phases_by_device"])

    def get_content(self) -> Any:
        """The record."""
        return dict(self.record)


@dataclass(frozen=True, repr=False)
class ComparisonResult(StudyRecord):
    """What differs between folders: each against the first."""

    comparisons: Sequence[Comparison]

    def __repr__(self) -> str:
        lines = [f"{one.now}: {change.name} {change.verdict}" for one in self.comparisons for change in one.changes]
        return f"ComparisonResult({'; '.join(lines)})"

    def list_rows(self) -> list[Mapping[str, Any]]:
        """A figure of a comparison each."""
        return [
            {"folder": one.now, "against": one.before, **asdict(change), "verdict": change.verdict}
            for one in self.comparisons
            for change in one.changes
        ]

    def get_content(self) -> Any:
        """All comparisons."""
        return [asdict(one) for one in self.comparisons]


@dataclass(frozen=True, repr=False)
class MemoryResult(StudyRecord):
    """What a model costs in memory. report: memory.json's part for people; path: the folder of the study."""

    report: Mapping[str, Any]
    path: Path

    def __repr__(self) -> str:
        found = ", ".join(f"{mode}: batch {batch}" for mode, batch in self.largest.items())
        return f"MemoryResult({use_unit(found, self.report.get('unit', SAMPLES))})"

    @property
    def largest(self) -> dict[str, int]:
        """The largest batch that passed, by mode."""
        return {mode: int(found["largest"]["batch"]) for mode, found in self.report["modes"].items()}

    def list_rows(self) -> list[Mapping[str, Any]]:
        """A measured batch each: bytes at its peak, seconds a step."""
        return [{"mode": mode, **point} for mode, found in self.report["modes"].items() for point in found["points"]]

    def get_content(self) -> Any:
        """The report."""
        return dict(self.report)


@dataclass(frozen=True, repr=False)
class InputResult(StudyRecord):
    """Whether a model waits for its data. report: input.json's part for people; path: the folder; None: it has none."""

    report: Mapping[str, Any]
    path: Path | None

    def __repr__(self) -> str:
        return f"InputResult({self.bound}, waits={self.waits:.2f}, knee={self.knee})"

    @property
    def bound(self) -> str:
        """What bounds the training: input, turns (input and step take turns), cores, model, unknown."""
        return str(self.report["bound"])

    @property
    def waits(self) -> float:
        """Share of the time that the model waits for its data."""
        return float(self.report["as_it_is"]["waits"]["value"])

    @property
    def knee(self) -> int | None:
        """The least number of workers that give 95 % of the best rate beside the step; None: they have no number."""
        workers = self.report["workers"]
        return None if workers is None else int(workers["knee_with_step"])

    @property
    def lines(self) -> list[str]:
        """Three lines of a verdict, and what else is to be said."""
        return list(self.report["lines"])

    @property
    def stages(self) -> list[Mapping[str, Any]]:
        """Of a tf.data pipeline: name, kind, CPU and waiting seconds a batch, batches/s up to it, calls, buffers."""
        return [asdict(one) for one in list_stage_rows(self.report["as_it_is"]["source"])]

    def list_rows(self) -> list[Mapping[str, Any]]:
        """A number of workers each: batches/s predicted of the data alone and beside the step, and measured."""
        workers = self.report["workers"]
        if workers is None:
            return []
        measured = list_measured_rates(workers)
        pairs = zip(workers["predicted"], workers["with_step"], strict=True)
        return [
            {"workers": alone["workers"], "rate": alone["rate"], "cap": alone["cap"], "with_step": capped["rate"],
             "measured": average_rates(measured.get(alone["workers"]))} for alone, capped in pairs
        ]  # fmt: skip

    def get_content(self) -> Any:
        """The report."""
        return dict(self.report)
