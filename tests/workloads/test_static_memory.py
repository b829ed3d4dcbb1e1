"""The largest batch by estimates, over a made-up step whose bytes are known."""

from dataclasses import dataclass
from typing import Any

import pytest

from tfperf.errors import UserError
from tfperf.measure.static_memory.owners import HeldBuffer
from tfperf.measure.static_memory.result import StaticEstimate
from tfperf.workloads.static_memory import StaticStudy, estimate_memory

FIXED, EACH, UPDATE = 40_000_000, 150_000, 90_000_000


@dataclass(frozen=True)
class MadeUpStep:
    peak: int | None

    def estimate(self):
        if self.peak is None:
            return StaticEstimate(peak=None, fixed=None, kind="recurrent", compiled=False, reason="no size")
        buffers = [HeldBuffer(self.peak - FIXED, "net/layer/MatMul", "net/layer", (1,), "activation")]
        return StaticEstimate(peak=self.peak, fixed=FIXED, kind="dense", compiled=False, buffers=buffers)


class MadeUpTracer:
    most: int = 2**24

    def __init__(self, known=True, fixed=FIXED):
        self._fixed = fixed
        self.asked: list[int] = []
        self._known = known

    def list_variants(self):
        return {"half": "half of it", "never": "cannot be"}

    def trace_step(self, batch, variant="") -> Any:
        if variant == "never":
            raise UserError("cannot be traced")
        self.asked += [batch] if not variant else []
        peak = max(UPDATE, self._fixed + EACH * batch) // (2 if variant else 1)
        return MadeUpStep(peak if self._known else None)


@pytest.mark.parametrize("limit", [200_000_000, 1_000_000_001, 80 * 2**30])
def test_the_largest_batch_is_found_within_half_a_per_cent_and_few_traces(limit):
    tracer = MadeUpTracer()
    record = estimate_memory(tracer, {"batches": None, "limit": limit, "savings": False})
    truth = (limit - FIXED) // EACH
    assert 0.995 * truth <= record["largest"] <= truth and len(tracer.asked) <= 7
    assert record["shown"] == record["largest"] and record["per_sample"] == pytest.approx(EACH, rel=0.4)


@pytest.mark.parametrize("truth", [1, 3, 5, 8, 17, 31])
def test_few_samples_beside_a_large_model_are_found(truth):
    # a line through no bytes for no sample creeps down from 32 by one
    tracer = MadeUpTracer(fixed=50 * FIXED)
    record = estimate_memory(tracer, {"batches": None, "limit": 50 * FIXED + EACH * truth + 1, "savings": False})
    assert record["largest"] == truth and len(tracer.asked) <= 8


def test_a_limit_below_every_batch_has_none():
    study = StaticStudy(MadeUpTracer())
    study.estimate(32)
    assert study.find_largest(UPDATE - 1) is None and min(point.batch for point in study.points) == 1


def test_where_the_largest_that_is_traced_fits_the_record_says_that_more_may():
    tracer = MadeUpTracer()
    tracer.most = 5000
    record = estimate_memory(tracer, {"batches": None, "limit": 10**12, "savings": False})
    assert record["largest"] == max(tracer.asked) == 5000 and record["is_bound"]
    record = estimate_memory(tracer, {"batches": None, "limit": FIXED + 4000 * EACH, "savings": False})
    assert 0.995 * 4000 < record["largest"] <= 4000 and not record["is_bound"]


def test_savings_are_differences_of_estimates_and_what_cannot_be_says_why():
    record = estimate_memory(MadeUpTracer(), {"batches": [1000], "limit": None, "savings": True})
    half, never = record["savings"]
    assert half["saved"] == record["points"][0]["peak"] - half["peak"] == (FIXED + 1000 * EACH) // 2
    assert never["saved"] is None and "cannot be traced" in never["reason"]
    assert record["layers"][0]["layer"] == "net/layer" and record["largest"] is None


def test_what_is_not_known_is_not_guessed():
    record = estimate_memory(MadeUpTracer(known=False), {"batches": None, "limit": 10**9, "savings": True})
    assert record["reason"] == "no size" and record["largest"] is None and record["savings"] == []
