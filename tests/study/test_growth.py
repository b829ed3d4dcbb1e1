"""What forward passes of several trials tell together."""

import json
import math

import pytest

from tests.study.sweep_records import point
from tfperf.results.placements import PlacementRow
from tfperf.study.growth import BUCKETS, estimate_forward_growth, read_bucketing
from tfperf.study.placements import make_placement_rows


def trial(alone=10.0, in_turn=22.0, at_once=15.0, spent=(9.0, 21.0, 24.0), devices=2):
    """Clock and processor of a forward pass alone, on all in turn, and at once."""
    names = ("alone", "in_turn", "at_once")
    return {
        "devices": devices, "batch": 16, "columns": 38,
        "ms": {name: [ms, ms, 5 * ms] for name, ms in zip(names, (alone, in_turn, at_once), strict=True)},
        "processor_ms": {name: [ms, ms, 5 * ms] for name, ms in zip(names, spent, strict=True)} if spent else {},
    }  # fmt: skip


def rows(*trials, proved=True):
    return [PlacementRow({}, f"Exp{k}", 1, proved=proved, forward=one) for k, one in enumerate(trials, 1)]


def test_the_growth_is_the_product_of_its_factors():
    (found,) = estimate_forward_growth(rows(trial(), trial(at_once=18.0)))
    assert found.growth.value == pytest.approx(math.sqrt(1.5 * 1.8))
    assert found.sharing is not None and found.slowing is not None and found.host is not None
    assert found.sharing.value * found.slowing.value * found.host.value == pytest.approx(found.growth.value)
    assert found.slowing.value == pytest.approx(24 / 21) and found.host.value == pytest.approx(21 / 18)
    assert found.growth.low is not None and found.growth.high is not None and found.cores is not None
    assert found.growth.low < found.growth.value < found.growth.high and found.trials == 2
    assert found.cores[0] == 0.9 and found.cores[1] == pytest.approx((24 / 15 + 24 / 18) / 2)
    assert found.alone_ms == 10.0


def test_other_sizes_and_other_numbers_of_devices_are_apart():
    found = estimate_forward_growth(rows(trial(), trial(devices=4), trial() | {"columns": 40}))
    assert [(one.devices, one.columns, one.growth.low) for one in found] == [
        (2, 38, None), (2, 40, None), (4, 38, None)
    ]  # fmt: skip


def test_devices_that_are_no_processors_have_a_growth_alone():
    (found,) = estimate_forward_growth(rows(trial(spent=None), trial(spent=None)))
    assert found.growth.value == pytest.approx(1.5) and found.sharing is found.slowing is found.host is None


def test_rows_without_proof_and_rows_of_one_device_tell_nothing():
    alone = {"devices": 1, "batch": 16, "columns": 38, "ms": {"alone": [1.0]}, "processor_ms": {"alone": [1.0]}}
    assert estimate_forward_growth([*rows(trial(), proved=False), *rows(alone)]) == []


def test_a_row_has_the_processor_time_of_its_trials():
    some = point("Exp1", 2, [50.0, 60.0])
    for row in some:
        row.record["processor_ms_per_step"] = 80.0
    (found,) = make_placement_rows(some)
    assert found.processor_ms is not None and found.processor_ms.value == pytest.approx(80.0)


def test_what_a_benchmark_of_bucketing_concludes_is_read(tmp_path):
    assert read_bucketing(tmp_path) is None
    rows = [{"buckets": "none", "seeds": 10, "conclusion": ""}, {"buckets": "narrow", "seeds": 10, "conclusion": "a b"}]
    (tmp_path / BUCKETS).write_text(json.dumps({"name": "buckets", "rows": rows}))
    assert read_bucketing(tmp_path) == ["narrow, 10 seeds: a b."]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": "peer", "rows": []}', '{"name": "buckets", "rows": [{}]}'])
def test_a_file_that_is_none_of_that_benchmark_says_so(tmp_path, text):
    (tmp_path / BUCKETS).write_text(text)
    (said,) = read_bucketing(tmp_path) or []
    assert said.startswith("buckets.json cannot be read: ")
