"""Records of studies: what was found, as a table, and as files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfperf.report.compare import Comparison
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
