import math

import pytest

from tests.make_result import make_result
from tfperf.workloads.pdf.report.chi2 import describe_run, make_chi2_rows, make_chi2_totals


def test_totals_weigh_each_set_by_its_points():
    summary: dict = {
        "chi2_per_dataset": {
            "a": {"ndata": 10, "chi2": 1.0, "chi2_no_t0": 2.0},
            "b": {"ndata": 30, "chi2": 1.5, "chi2_no_t0": 1.0},
        },
        "chi2_per_point": 1.4, "chi2_no_t0_per_point": 1.3, "chi2_blocks_per_point": 1.375, "points": 40,
    }  # fmt: skip
    together, blocks = make_chi2_totals(summary)
    assert (together.points, together.chi2, together.chi2_no_t0) == (40, 1.4, 1.3)
    assert (blocks.points, blocks.chi2, blocks.chi2_no_t0) == (40, 1.375, 1.25)
    assert make_chi2_rows(summary)[1].deviation == pytest.approx(0.5 / math.sqrt(2 / 30))
    summary["chi2_per_dataset"]["a"]["chi2_no_t0"] = None
    assert make_chi2_totals(summary)[1].chi2_no_t0 is None


def test_headline_has_the_figures_and_stands_without_them():
    line = describe_run(make_result(failed=1).summary)
    assert "5 of 6 replicas converged" in line and "24 points in 2 datasets" in line and "10000 steps" in line
    assert describe_run({}).startswith("chi2 per point n/a, without t0 n/a, n/a points in 0 datasets, n/a of n/a")
