"""Rows of a sweep over placements, from records made by hand."""

import json
import math

import pytest

from tfperf.report import placements as words
from tfperf.report.placements_page import write_placements
from tfperf.study.placements import placement_rows
from tfperf.study.rows import Row

MEMORY = {"kept_bytes": {"host": 3e6}, "peak_bytes": {}, "peak_rss_bytes": 5e8}


def record(
    devices, words_per_second, batch=8, traced=False, logical=True, forward=10.0, lstm="plain", gflops=50.0, length=None
):
    out = {
        "devices": devices, "logical": logical, "batch": batch, "merge": "summed on the host", "padding_share": 0.2,
        "straggler_waste": 0.0, "total_s": 1000.0 / words_per_second, "words_per_second": words_per_second,
        "ms_per_step": {"median": 40.0}, "memory": MEMORY, "fixed_length": length,
    }  # fmt: skip
    if traced:
        busy = {"computation": 25.0, "merge": 3.0, "update": 6.0, "transfer": 1.0, "input": 0.5}
        together = {
            name: {"busy_ms": ms, "span_ms": 2 * ms, "busy_share": ms / 40, "span_share": ms / 20}
            for name, ms in busy.items()
        }
        each = {f"device:{k}": {"forward": forward, "backward": 15.0} for k in range(devices)}
        out |= {
            "phases": {"step_ms": 40.0, "devices": each, "mean": {"forward": forward, "backward": 15.0},
                       "together": together, "imbalance": 1.0},
            "bound": {"bound_ms": 22.0, "computation_ms": 20.0, "update_ms": 2.0, "sent_ms": None, "sent_bytes": 4e6,
                      "gflops": gflops, "bandwidth_gb_s": 30.0},
            "proof": {"places": {"update": {"CPU:0": 3}}},
            "kernels": {"lstm": lstm, "embedding_gradients": "sparse", "xla": False},
        }  # fmt: skip
    return out


def row(name, devices, repeat, speed, **keys):
    values = {"placement.preset": name, "placement.devices": devices}
    if "batch" in keys:
        values["data.batch"] = keys["batch"]
    return Row(values, repeat, 1.0, record(devices, speed, traced=repeat == 1, **keys))


def sweep(**keys):
    return [
        row("Exp1", 1, 1, 100.0, **keys), row("Exp1", 2, 1, 180.0, forward=12.0, **keys),
        row("Exp4", 1, 1, 200.0, **keys),
        row("Exp1", 1, 2, 110.0, **keys), row("Exp1", 2, 2, 220.0, **keys), row("Exp4", 1, 2, 200.0, **keys),
    ]  # fmt: skip


def test_speedups_compare_repeats_side_by_side():
    alone, two, best = placement_rows(sweep())
    assert (alone.scaling, two.scaling, best.scaling) == ("alone", "weak", "alone")
    assert alone.speedup.value == 1.0 and alone.speedup.high == pytest.approx(1.0)
    assert two.speedup.value == pytest.approx(math.sqrt(1.8 * 2.0))
    assert two.against_best.value == pytest.approx(math.sqrt(0.9 * 1.1))
    # Student's t of two values: half the distance of their logarithms times 12.706
    half = 12.706 * (math.log(2.0) - math.log(1.8)) / 2
    assert two.speedup.high / two.speedup.value == pytest.approx(math.exp(half), rel=1e-4)
    assert two.words_per_second.value == 200.0
    assert two.growth == pytest.approx(1.2)


def test_what_is_lost_stands_above_the_bound():
    lost = placement_rows(sweep())[1].lost
    assert list(lost) == ["computation", "waiting", "update", "merge", "transfer", "input"]
    assert lost["computation"] == 5.0 and lost["update"] == 4.0
    assert lost["waiting"] == pytest.approx(40 - 35.5)


def test_the_bound_is_that_of_the_best_ceilings_measured():
    rows = [row("Exp1", 1, 1, 100.0), row("Exp4", 1, 1, 100.0, gflops=100.0)]
    assert [r.bound["bound_ms"] for r in placement_rows(rows)] == [10.0 + 2.0, 20.0 + 2.0]
    assert [r.lost["computation"] for r in placement_rows(rows)] == [15.0, 5.0]


def test_the_best_single_device_had_the_same_sentences():
    rows = [*sweep(), row("Exp5", 1, 1, 900.0, length=100), row("Exp5", 2, 1, 1800.0, length=100)]
    found = {(r.placement, r.devices): r.against_best.value for r in placement_rows(rows)}
    assert found["Exp1", 1] == pytest.approx(math.sqrt(0.5 * 0.55)) and found["Exp4", 1] == 1.0
    assert (found["Exp5", 1], found["Exp5", 2]) == (1.0, 2.0)


def test_strong_scaling_stands_apart():
    strong = [row("Exp1", 1, 1, 100.0, batch=8), row("Exp1", 2, 1, 150.0, batch=4)]
    found = placement_rows(strong)
    assert [r.scaling for r in found] == ["alone", "strong"]
    assert found[1].speedup.value == 1.5 and found[1].speedup.low is None
    assert [title for title, _, _ in words.scalings(found)] == ["Weak scaling", "Strong scaling"]
    assert len(words.scalings(found)[1][2]) == 2


def test_a_failed_point_is_a_row_with_its_error():
    failed = Row({"placement.preset": "Exp2", "placement.devices": 2}, 1, 3.0, error="its process was killed")
    found = placement_rows([*sweep(), failed])
    (bad,) = [r for r in found if r.placement == "Exp2"]
    assert bad.errors == ("its process was killed",) and bad.words_per_second is None
    assert words.speed_cells([bad])[0][1:5] == ("n/a",) * 4
    assert any("failed: Exp2" in line for line in words.remarks(found))


def test_other_sweeps_have_no_such_rows():
    assert placement_rows([Row({"replicas": 3}, 1, 1.0, {"ms_per_step": {"median": 1.0}})]) == []


def test_rows_that_were_not_computed_alike_are_warned_of():
    rows = [*sweep(), row("Exp5", 1, 1, 50.0, lstm="cudnn")]
    assert any(
        line.startswith("warning: the rows were not computed alike") for line in words.remarks(placement_rows(rows))
    )
    assert any(line.startswith("computed alike") for line in words.remarks(placement_rows(sweep())))


def test_nothing_is_recommended_where_devices_share_cores():
    assert "nothing is recommended" in words.recommendation(placement_rows(sweep()))
    text = words.recommendation(placement_rows(sweep(logical=False)))
    assert text.startswith("Fastest: Exp1 on 2 devices, 200 ") and "loses most in computation" in text


def test_the_report_is_written_whole(tmp_path):
    found = placement_rows(sweep())
    page = write_placements(tmp_path, "A <sweep>", found).read_text()
    assert "A &lt;sweep&gt;" in page and "Exp4" in page
    assert [r["placement"] for r in json.loads((tmp_path / "placements.json").read_text())] == ["Exp1", "Exp1", "Exp4"]
    assert len(list((tmp_path / "events").glob("point_*/events*"))) == 3


def test_tensorboard_reads_the_hyperparameters(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    write_placements(tmp_path, "", placement_rows(sweep()))
    events = EventAccumulator(str(tmp_path / "events" / "point_0001"))
    events.Reload()
    content = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    info = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    assert info.hparams["placement.preset"].string_value == "Exp1"
    assert info.hparams["placement.devices"].number_value == 2
    assert events.Tensors("words_per_second")[0].tensor_proto.float_val[0] == 200.0
