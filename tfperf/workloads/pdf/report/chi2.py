"""The rows of the chi2 table and the headline that both the terminal and report.html show."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfperf.report.numbers import format_count, format_number, format_seconds


@dataclass(frozen=True)
class Chi2Row:
    """One line of the chi2 table; chi2 per point, None where not measured."""

    name: str
    points: int | None
    chi2: float | None
    chi2_no_t0: float | None

    @property
    def deviation(self) -> float | None:
        """(chi2 - 1) in units of sqrt(2 / N), the spread of chi2 per point of N Gaussian points."""
        if self.chi2 is None or not self.points:
            return None
        return (self.chi2 - 1) / math.sqrt(2 / self.points)


def make_chi2_rows(summary: Mapping[str, Any]) -> list[Chi2Row]:
    """One row per dataset of report.json."""
    sets = summary.get("chi2_per_dataset") or {}
    return [Chi2Row(name, s.get("ndata"), s.get("chi2"), s.get("chi2_no_t0")) for name, s in sets.items()]


def make_chi2_totals(summary: Mapping[str, Any]) -> list[Chi2Row]:
    """All sets with their correlations, and the mean over points of the sets' own figures."""
    points, rows = summary.get("points"), make_chi2_rows(summary)
    return [
        Chi2Row("all, with correlations", points, summary.get("chi2_per_point"), summary.get("chi2_no_t0_per_point")),
        Chi2Row("mean of the sets' own", points, summary.get("chi2_blocks_per_point"), _average_no_t0(rows)),
    ]


def _average_no_t0(rows: list[Chi2Row]) -> float | None:
    products = [r.chi2_no_t0 * r.points for r in rows if r.chi2_no_t0 is not None and r.points is not None]
    points = sum(r.points or 0 for r in rows)
    return sum(products) / points if len(products) == len(rows) and points else None


def describe_run(summary: Mapping[str, Any]) -> str:
    """The run in one line."""
    replicas, postfit = summary.get("replicas") or {}, summary.get("postfit")
    chosen = "" if not postfit else f", {format_count(postfit.get('chosen'))} chosen by postfit"
    return (
        f"chi2 per point {format_number(summary.get('chi2_per_point'))}, "
        f"without t0 {format_number(summary.get('chi2_no_t0_per_point'))}, "
        f"{format_count(summary.get('points'))} points in {len(make_chi2_rows(summary))} datasets, "
        f"{format_count(replicas.get('converged'))} of {format_count(replicas.get('total'))} replicas converged"
        f"{chosen}, "
        f"{format_count(summary.get('steps'))} steps, {format_seconds((summary.get('seconds') or {}).get('total'))}"
    )
