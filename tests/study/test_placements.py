"""Rows of a sweep over placements, from records made by hand."""

import json
import math

import pytest

from tests.study.sweep_records import disproved, point
from tfperf.report import placements as words
from tfperf.report import time_tables as times
from tfperf.report.placements_page import write_placements
from tfperf.study.finished_trials import FinishedTrial
from tfperf.study.placements import make_placement_rows


def sweep(**keys):
    """Exp1 on 1 and 2 devices, Exp4 on 1, by strong scaling: two repeats."""
    return [
        *point("Exp1", 1, [100.0, 110.0], **keys), *point("Exp1", 2, [60.0, 55.0], forward=12.0, **keys),
        *point("Exp4", 1, [50.0, 50.0], **keys),
    ]  # fmt: skip


def by_name(found):
    return {(row.placement, row.devices): row for row in found}


def test_speedups_compare_repeats_side_by_side():
    found = by_name(make_placement_rows(sweep()))
    alone, two, best = found["Exp1", 1], found["Exp1", 2], found["Exp4", 1]
    assert alone.speedup.value == 1.0 and alone.speedup.high == pytest.approx(1.0)
    assert two.speedup.value == pytest.approx(math.sqrt(100 / 60 * 2.0))
    assert two.against_best.value == pytest.approx(math.sqrt(50 / 60 * 50 / 55)) and best.against_best.value == 1.0
    # Student's t of two values: half the distance of their logarithms times 12.706
    half = 12.706 * (math.log(2.0) - math.log(100 / 60)) / 2
    assert two.speedup.high / two.speedup.value == pytest.approx(math.exp(half), rel=1e-4)
    assert two.words_per_second.value == pytest.approx(80 * 1e3 / math.sqrt(60 * 55)) and two.growth == 1.2
    assert (two.pairs, two.batch, two.columns, two.words, two.padding_share) == (8, 4, 22.5, 80.0, 0.2)


def test_efficiency_stands_beside_every_speedup():
    for row in make_placement_rows([*sweep(), *sweep(scaling="weak")]):
        assert row.devices is not None and row.efficiency is not None
        assert row.speedup is not None and row.speedup.low is not None
        assert row.efficiency.value == pytest.approx(row.speedup.value / row.devices)
        assert row.efficiency.low == pytest.approx(row.speedup.low / row.devices)
    at = words.SPEED.index("speed-up")
    assert words.SPEED[at : at + 2] == ("speed-up", "efficiency")


def test_no_limit_is_below_zero_and_each_interval_says_of_what():
    rows = [*point("Exp1", 1, [10.0, 1000.0]), *point("Exp1", 2, [1.0, 5000.0])]
    for row in make_placement_rows(rows):
        for name in ("ms_per_step", "words_per_second", "pairs_per_second", "speedup", "efficiency", "against_best"):
            estimate = getattr(row, name)
            assert 0 < estimate.low <= estimate.value <= estimate.high
            assert "geometric mean over 2 repeats" in estimate.of


def test_weak_scaling_counts_what_all_devices_did():
    rows = [*point("Exp1", 1, [100.0, 100.0], scaling="weak"), *point("Exp1", 4, [125.0, 125.0], scaling="weak")]
    one, four = make_placement_rows(rows)
    assert one.group == four.group and one.contest != four.contest
    assert four.speedup is not None and four.efficiency is not None
    assert four.speedup.value == pytest.approx(4 * 100 / 125) and four.efficiency.value == pytest.approx(0.8)


def test_scalings_stand_apart():
    found = make_placement_rows([*sweep(), *sweep(scaling="weak")])
    titles = [title for title, _ in words.group_rows(found)]
    assert titles == [
        "Strong scaling: the same 8 examples a step, divided among the devices, 22.5 columns a batch",
        "Weak scaling: 8 examples on each device, of the same lengths, 22.5 columns a batch",
    ]
    assert [len(rows) for _, rows in words.group_rows(found)] == [3, 3]


UNLIKE = [
    {"scaling": None},  # batches drawn for each number of devices
    {"content": "other"},
    {"batch": 16},
    {"values": {"model.units": 8}},
    {"values": {"engine.precision": "float64"}},
]


@pytest.mark.parametrize("scaling", ["strong", "weak"])
@pytest.mark.parametrize("keys", UNLIKE, ids=str)
def test_rows_that_did_other_work_are_not_set_beside_each_other(keys, scaling):
    base = {"scaling": None} if keys == {"scaling": None} else {"scaling": scaling}
    keys = base | keys
    two = make_placement_rows([*point("Exp1", 1, [100.0] * 3, **base), *point("Exp1", 2, [1.0] * 3, **keys)])
    assert len({row.group for row in two}) == 2
    (other,) = [row for row in two if row.devices == 2]
    assert other.speedup is other.efficiency is other.against_best is None
    assert len(words.group_rows(two)) == 2
    told = any("Batches were drawn for each number of devices" in line for line in words.describe_rows(two))
    assert told == (keys["scaling"] is None)


@pytest.mark.parametrize("key", ["engine.xla", "placement.merge", "train.steps_per_call", "placement.engine"])
def test_how_the_same_work_is_done_may_differ(key):
    one = [row for value in ("a", "b") for row in point("Exp1", 1, [100.0] * 3, values={key: value})]
    first, second = make_placement_rows(one, ["engine.xla", "train.steps_per_call"])
    assert first.contest == second.contest and first.placement != second.placement


@pytest.mark.parametrize("scaling", ["strong", "weak"])
def test_a_placement_with_several_batches_is_called_by_them(scaling):
    def of(name, batch):
        return [
            row
            for devices in (1, 2)
            for row in point(name, devices, [9.0] * 2, values={"data.batch": batch}, batch=batch, scaling=scaling)
        ]

    rows = [*of("Exp4", 8), *of("Exp5", 8), *of("Exp5", 16)]
    found = make_placement_rows(rows)
    assert [row.placement for row in found] == [
        name for name in ("Exp4", "Exp5, data.batch 16", "Exp5, data.batch 8") for _ in range(2)
    ]
    assert all(row.speedup is not None for row in found) and len({row.group for row in found}) == 2
    lines = times.format_device_cells(found)[1]
    assert len({tuple(line[:3]) for line in lines}) == len(lines)


def test_without_proof_a_point_has_no_row_in_any_table_of_speeds():
    late = [*point("Exp2", 2, [1.0] * 3)[1:], disproved("Exp2", 2)]  # later repeats were fast
    found = make_placement_rows([*sweep(), *late])
    (bad,) = [row for row in found if row.placement == "Exp2"]
    assert bad.proved is False and bad.words_per_second is None and bad.phases == {} and not bad.group
    shown = [row for _, rows in words.group_rows(found) for row in rows]
    assert bad not in shown and len(shown) == 3
    tables = times.format_device_cells, times.format_course_cells, times.format_chain_cells, times.format_pass_cells
    for cells in tables:
        assert not any("Exp2" in line[0] for line in cells(found)[1])
    assert by_name(found)["Exp1", 2].against_best.value == pytest.approx(math.sqrt(50 / 60 * 50 / 55))
    told = "no proof, so in no table of speeds: placement.preset Exp2, placement.devices 2"
    assert told in words.describe_rows(found)


def test_a_proof_that_failed_once_outweighs_one_that_did_not():
    rows = [*point("Exp1", 1, [10.0] * 2), disproved("Exp1", 1, repeat=3)]
    assert make_placement_rows(rows)[0].proved is False


def test_what_was_never_proved_is_not_shown_either():
    (row,) = make_placement_rows(point("Exp1", 1, [10.0] * 3)[1:])
    assert row.proved is None and row.words_per_second is None and words.group_rows([row]) == []


def test_repeats_that_wide_speedups_need_are_said():
    narrow = [*point("Exp4", 1, [100.0, 100.5, 99.5]), *point("Exp4", 2, [60.0, 60.1, 60.2])]
    found = by_name(make_placement_rows([*sweep(), *narrow[3:]]))
    assert found["Exp1", 2].repeats_needed > 2 and found["Exp1", 1].repeats_needed is None
    found = by_name(make_placement_rows(narrow))
    assert found["Exp4", 2].repeats_needed is None and not any(
        "wider" in line for line in words.describe_rows(found.values())
    )
    (line,) = [line for line in words.describe_rows(make_placement_rows(sweep())) if "wider than 10 %" in line]
    needed = by_name(make_placement_rows(sweep()))["Exp1", 2].repeats_needed
    assert line.endswith(f"Exp1, strong on 2: {needed}")
    single = make_placement_rows([*point("Exp1", 1, [100.0]), *point("Exp1", 2, [60.0])])
    told = "one repeat side by side tells no interval of these speed-ups"
    assert any(line.startswith(told) for line in words.describe_rows(single))


@pytest.mark.parametrize("logical", [True, False])
def test_devices_of_one_kind_do_not_stand_beside_those_of_another(logical):
    other = point("Exp1", 2, [60.0] * 2, logical=not logical)
    one, two = make_placement_rows([*point("Exp1", 1, [100.0] * 2, logical=logical), *other])
    assert one.group != two.group and two.speedup is two.against_best is None
    assert len({title for title, _ in words.group_rows([one, two])}) == 2


def test_samples_that_were_left_out_are_counted():
    rows = point("Exp1", 2, [10.0] * 3)
    assert not any("left out" in line for line in words.describe_rows(make_placement_rows(rows)))
    for row in rows:
        row.record["left_out"] = 2
    want = "samples that are left out, since something was traced in them: Exp1, strong on 2: 6"
    assert want in words.describe_rows(make_placement_rows(rows))


def test_the_bound_is_that_of_the_best_ceilings_measured():
    rows = [*point("Exp1", 1, [10.0]), *point("Exp4", 1, [10.0], gflops=100.0)]
    assert [r.bound["bound_ms"] for r in make_placement_rows(rows)] == [10.0 + 2.0, 20.0 + 2.0]


def test_the_bounds_chain_has_the_shortest_turns_of_like_products():
    rows = [
        *point("Exp1", 1, [10.0], turn_ms=0.5), *point("Exp4", 1, [10.0], turn_ms=0.4),
        *point("Exp5", 1, [10.0], turn_ms=0.3, batch=16), *point("Exp2", 1, [10.0], turn_ms=0.2, lstm="xla"),
    ]  # fmt: skip
    found = {row.placement: row.bound for row in make_placement_rows(rows)}
    assert {name: bound["chain_ms"] for name, bound in found.items()} == pytest.approx(
        {"Exp1": 32.0, "Exp4": 32.0, "Exp5": 24.0, "Exp2": 16.0}
    )
    # the longer of arithmetic and chain, and the update
    assert {name: bound["bound_ms"] for name, bound in found.items()} == pytest.approx(
        {"Exp1": 34.0, "Exp4": 34.0, "Exp5": 26.0, "Exp2": 22.0}
    )


def test_a_turn_too_short_for_the_clock_in_one_trial_leaves_the_others_chains():
    rows = [*point("Exp1", 1, [40.0], turn_ms=0.5), *point("Exp4", 1, [40.0], turn_ms=0.0)]
    found = {row.placement: row.bound for row in make_placement_rows(rows)}
    assert found["Exp1"]["chain_ms"] == 40.0 and found["Exp1"]["bound_ms"] == 42.0


@pytest.mark.parametrize("turn_ms", [0.0, None])
def test_a_chain_that_was_not_measured_binds_nothing(turn_ms):
    (row,) = point("Exp1", 1, [10.0])
    row.record["bound"] |= {"turn_ms": turn_ms, "chain_ms": turn_ms}
    assert make_placement_rows([row])[0].bound["bound_ms"] == 22.0


def test_tables_of_time_have_a_line_for_each_device_and_add_up():
    found = make_placement_rows(sweep())
    header, lines = times.format_device_cells(found)
    assert [line[2] for line in lines] == ["device:0", "host", "device:0", "device:1", "host", "device:0", "host"]
    at = header.index("- at once ms")
    for line in lines:
        if line[2] != "host":
            busy = [float(cell.split(" ")[0]) for cell in line[3:at]]
            overlap, waiting, step = (float(cell.split(" ")[0]) for cell in line[at : at + 3])
            assert sum(busy) - overlap + waiting == pytest.approx(step)
    assert lines[0][-2:] == (
        "forward + update\N{NO-BREAK SPACE}1.00", "passes that run elsewhere\N{NO-BREAK SPACE}9.00; "
        "the runtime's way from one operation to the next\N{NO-BREAK SPACE}3.00"
    )  # fmt: skip
    header, lines = times.format_course_cells(found)
    at = header.index("recurrent steps ms")
    assert sum(float(cell.split(" ")[0]) for cell in lines[0][at : at + 9]) == 40.0
    assert lines[0][header.index("traced / timed")] == "0.400"
    assert lines[0][-2:] == ("20.0, 8.00, n/a; 2.00", "4.00")
    header, lines = times.format_chain_cells(found)
    assert lines[0][2:6] == ("24.0", "60%", "1000", "16.0") and lines[0][-1].startswith("MatMul")
    assert len(times.format_pass_cells(found)[1]) == 3


def test_a_failed_point_is_a_row_with_its_error():
    failed = FinishedTrial({"placement.preset": "Exp2", "placement.devices": 2}, 1, 3.0, error="its process was killed")
    found = make_placement_rows([*sweep(), failed])
    (bad,) = [r for r in found if r.placement == "Exp2"]
    assert bad.errors == ("its process was killed",) and bad.words_per_second is None and bad.proved is None
    assert any(line.startswith("failed: placement.preset Exp2") for line in words.describe_rows(found))


def test_other_sweeps_have_no_such_rows():
    assert make_placement_rows([FinishedTrial({"replicas": 3}, 1, 1.0, {"ms_per_step": {"median": 1.0}})]) == []


def test_rows_that_were_not_computed_alike_are_warned_of():
    rows = [*sweep(), *point("Exp5", 1, [50.0], lstm="cudnn")]
    told = words.describe_rows(make_placement_rows(rows))
    assert any(line.startswith("warning: the rows were not computed alike") for line in told)
    assert any(line.startswith("computed alike") for line in words.describe_rows(make_placement_rows(sweep())))


def test_the_report_is_written_whole(tmp_path):
    found = make_placement_rows(sweep())
    page = write_placements(tmp_path, "A <sweep>", found, "drift: none seen").read_text()
    assert "A &lt;sweep&gt;" in page and "Exp4" in page and "drift: none seen" in page and "Strong scaling" in page
    stored = json.loads((tmp_path / "placements.json").read_text())
    assert [r["placement"] for r in stored] == ["Exp1", "Exp1", "Exp4"]
    assert stored[1]["speedup"]["of"].startswith("examples per second over those of one device with this plac")
    assert len(list((tmp_path / "events").glob("point_*/events*"))) == 3


def test_tensorboard_reads_the_hyperparameters(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]
    from tensorboard.plugins.hparams import plugin_data_pb2  # type: ignore[import-untyped]

    write_placements(tmp_path, "", make_placement_rows(sweep()), "")
    events = EventAccumulator(str(tmp_path / "events" / "point_0001"))
    events.Reload()
    content = events.summary_metadata["_hparams_/session_start_info"].plugin_data.content
    info = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    assert info.hparams["placement.preset"].string_value == "Exp1"
    assert info.hparams["placement.devices"].number_value == 2
    words_per_second = events.Tensors("words_per_second")[0].tensor_proto.float_val[0]
    assert words_per_second == pytest.approx(80 * 1e3 / math.sqrt(60 * 55))
