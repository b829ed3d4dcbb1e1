"""Estimates of a sample of records."""

import numpy as np
import pytest

from tfperf.measure.confidence import ConfidenceInterval
from tfperf.workloads.predict.sample_report import estimate_seconds


def test_an_interval_has_at_least_what_no_sample_sees():
    found = estimate_seconds(ConfidenceInterval(100.0, 100.0, 100.0), 1000)
    assert found.value == 10.0 and found.low == pytest.approx(10 * np.exp(-0.04))
    assert estimate_seconds(ConfidenceInterval(100.0), 1000).low is None
